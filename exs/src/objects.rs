//! What a socket has of the device: a queue pair, its completion queue, slots and a ring.

use weft_exs_core::{HEADER_LEN, Hello, Kind, Ring};
use weft_rnic::{Access, CompChannel, Cq, CqInit, Device, Mr, Pd, Qp, QpCapacity, QpInit, RecvWr};

use crate::buf::Block;
use crate::error::Error;
use crate::memory::MAX_PIECES;
use crate::options::Options;

/// The objects of a socket.
#[derive(Debug)]
pub(crate) struct Objects {
    pub(crate) qp: Qp,
    pub(crate) cq: Cq,
    pub(crate) slots: Block,
    /// Headers of messages, one for each entry of the send queue.
    pub(crate) headers: Block,
    pub(crate) ring: Option<Mr>,
    /// For windows.
    pub(crate) pd: Pd,
    pub(crate) options: Options,
    pub(crate) kind: Kind,
}

impl Objects {
    /// Makes the objects of a socket on this engine of the device. Completions are announced on `channel`.
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::Memory`].
    pub(crate) fn new(
        (device, pd, comp_vector): (&Device, &Pd, usize),
        channel: &CompChannel,
        kind: Kind,
        options: &Options,
    ) -> Result<Self, Error> {
        let (sends, receives) = (send_entries(options), u32::from(options.window));
        let init = CqInit { channel: Some(channel), comp_vector, ..CqInit::new(sends + receives) };
        let cq = device.create_cq_with(&init)?;
        let send_sge = MAX_PIECES + 1;
        let capacity = QpCapacity { send_wr: sends, recv_wr: receives, send_sge, recv_sge: 1, inline: 0 };
        let qp = device.create_qp(pd, &QpInit { capacity, signal_all: false, ..QpInit::new(&cq, &cq) })?;
        let slots = options.slots(kind) * options.slot_len() as usize;
        let slots = Block::new(pd, slots, Access::LOCAL_WRITE)?;
        let headers = Block::new(pd, sends as usize * HEADER_LEN, Access::LOCAL_READ)?;
        let ring = if kind == Kind::Stream && options.ring > 0 {
            Some(pd.register_for(&qp, options.ring as usize, Access::LOCAL_WRITE | Access::REMOTE_WRITE)?)
        } else {
            None
        };
        Ok(Self { qp, cq, slots, headers, ring, pd: pd.clone(), options: *options, kind })
    }

    /// Returns what this side tells at the start.
    pub(crate) fn hello(&self, reads: u16) -> Hello {
        Hello {
            kind: self.kind,
            // The window of a send is one stream's, so that the peer may invalidate it.
            invalidates: self.kind == Kind::Message,
            window: self.options.window,
            credits: self.options.taken(self.kind),
            slot: self.options.slot_len(),
            ring: self.ring.as_ref().map(|ring| Ring {
                len: self.options.ring,
                to: ring.addr(),
                stag: ring.rkey(),
            }),
            reads,
        }
    }

    /// Posts a slot. A connection that has ended takes none, which its end tells.
    pub(crate) fn post_slot(&self, slot: u16) {
        let sges = [self.slots.sge(self.slot_at(slot), self.options.slot_len())];
        let _ended = self.qp.post_recv(&RecvWr { wr_id: RECEIVE | u64::from(slot), sges: &sges });
    }

    /// Returns where a slot begins.
    pub(crate) fn slot_at(&self, slot: u16) -> usize {
        usize::from(slot) * self.options.slot_len() as usize
    }

    /// Returns the entries of the send queue.
    pub(crate) const fn send_entries(&self) -> usize {
        send_entries(&self.options) as usize
    }
}

const fn send_entries(options: &Options) -> u32 {
    4 * options.window as u32
}

/// Returns the slot of a receive, from the identifier of its request.
pub(crate) fn slot_of(wr_id: u64) -> Option<u16> {
    if wr_id & RECEIVE == 0 { None } else { u16::try_from(wr_id & !RECEIVE).ok() }
}

/// A request of the receive queue has this bit in its identifier.
const RECEIVE: u64 = 1 << 63;
