//! A connection of the control plane: a queue pair with a few buffers for messages.

use core::ops::Range;
use std::collections::VecDeque;

use weft_rnic::{
    Access, CompChannel, Completion, CompletionOpcode, Cq, CqId, CqInit, Data, Device, Mr, Pd, Qp,
    QpCapacity, QpInit, RecvWr, SendOpcode, SendWr, Stag, Status,
};

use crate::control::MAX_CONTROL;
use crate::replica::SetupError;

/// A connection of the control plane.
#[derive(Debug)]
pub(crate) struct Link {
    qp: Qp,
    cq: Cq,
    arrived: Mr,
    leaving: Mr,
    completions: VecDeque<Completion>,
    /// Messages that were sent, and those of them whose place is free again.
    sent: u32,
    freed: u32,
    /// Reads and SYNCs that are done, and that [`Self::take_done`] has not told.
    done: usize,
}

/// The connection is over, or the peer has broken its rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gone;

impl Link {
    /// Makes a queue pair that is announced on `channel`, with receives. It has to be connected.
    ///
    /// # Errors
    /// [`SetupError`].
    pub(crate) fn new(device: &Device, pd: &Pd, channel: &CompChannel) -> Result<Self, SetupError> {
        let cq =
            device.create_cq_with(&CqInit { channel: Some(channel), ..CqInit::new(2 * SLOTS + DEPTH) })?;
        let capacity =
            QpCapacity { send_wr: SLOTS + DEPTH, recv_wr: SLOTS, send_sge: 1, recv_sge: 1, inline: 0 };
        let qp = device.create_qp(pd, &QpInit { capacity, signal_all: true, ..QpInit::new(&cq, &cq) })?;
        let memory = || pd.register(SLOTS as usize * MAX_CONTROL, Access::LOCAL_WRITE);
        let (arrived, leaving) = (memory()?, memory()?);
        let link =
            Self { qp, cq, arrived, leaving, completions: VecDeque::new(), sent: 0, freed: 0, done: 0 };
        link.cq.request_notification(false);
        for slot in 0..SLOTS {
            link.await_message(slot.into())?;
        }
        Ok(link)
    }

    pub(crate) const fn qp(&self) -> &Qp {
        &self.qp
    }

    /// Returns the name by which its channel announces it.
    pub(crate) fn announced_as(&self) -> CqId {
        self.cq.id()
    }

    /// Sends a message.
    ///
    /// # Errors
    /// [`Gone`] too if the peer has not taken earlier messages.
    pub(crate) fn send(&mut self, octets: &[u8]) -> Result<(), Gone> {
        if self.sent.wrapping_sub(self.freed) >= SLOTS || octets.len() > MAX_CONTROL {
            return Err(Gone);
        }
        let at = place(self.sent.into());
        self.leaving.write(at, octets).map_err(|_| Gone)?;
        let sges = [self.leaving.sge(at, u32::try_from(octets.len()).unwrap_or(u32::MAX))];
        let sent = self.qp.post_send(&SendWr { data: Data::Sges(&sges), ..SendWr::new(SendOpcode::Send) });
        self.sent = self.sent.wrapping_add(1);
        sent.map_err(|_| Gone)
    }

    /// Reads octets of the peer's memory, of at most [`DEPTH`] Reads at a time.
    ///
    /// # Errors
    /// [`Gone`].
    pub(crate) fn read(&self, from: (Stag, u64), sink: &Mr, place: Range<usize>) -> Result<(), Gone> {
        let opcode = SendOpcode::Read { stag: from.0, to: from.1 };
        self.post_aside(opcode, sink, place)
    }

    /// Makes octets of this side's memory durable.
    ///
    /// # Errors
    /// [`Gone`].
    pub(crate) fn sync(&self, memory: &Mr, place: Range<usize>) -> Result<(), Gone> {
        self.post_aside(SendOpcode::Sync, memory, place)
    }

    /// Returns how many Reads and SYNCs are done since the last call. One that fails ends the connection.
    pub(crate) const fn take_done(&mut self) -> usize {
        core::mem::replace(&mut self.done, 0)
    }

    fn post_aside(&self, opcode: SendOpcode, memory: &Mr, place: Range<usize>) -> Result<(), Gone> {
        let len = u32::try_from(place.len()).map_err(|_| Gone)?;
        let sges = [memory.sge(place.start, len)];
        self.qp.post_send(&SendWr { data: Data::Sges(&sges), ..SendWr::new(opcode) }).map_err(|_| Gone)
    }

    /// Takes the completions that are there, and asks for an announcement of later ones. A thread that calls this only
    /// after announcements polls too rarely in vain to become the driver of the engine.
    pub(crate) fn collect(&mut self) {
        self.take();
        self.cq.request_notification(false);
        self.take();
    }

    /// Returns the next message of those that were collected.
    ///
    /// # Errors
    /// [`Gone`].
    pub(crate) fn receive(&mut self) -> Result<Option<Vec<u8>>, Gone> {
        let Some(completion) = self.completions.pop_front() else { return Ok(None) };
        if completion.status != Status::Success || completion.opcode != CompletionOpcode::Recv {
            return Err(Gone);
        }
        let mut octets = vec![0; completion.byte_len as usize];
        self.arrived.read(place(completion.wr_id), &mut octets).map_err(|_| Gone)?;
        self.await_message(completion.wr_id).map_err(|_| Gone)?;
        Ok(Some(octets))
    }

    fn take(&mut self) {
        // It has room for all that can be there.
        let mut out = [Completion::EMPTY; (2 * SLOTS + DEPTH) as usize];
        let taken = self.cq.poll(&mut out);
        for completion in &out[..taken] {
            match (completion.status, completion.opcode) {
                (Status::Success, CompletionOpcode::Send) => self.freed = self.freed.wrapping_add(1),
                (Status::Success, CompletionOpcode::Read | CompletionOpcode::Sync) => self.done += 1,
                _ => self.completions.push_back(*completion),
            }
        }
    }

    fn await_message(&self, slot: u64) -> Result<(), weft_rnic::PostError> {
        let sges = [self.arrived.sge(place(slot), u32::try_from(MAX_CONTROL).unwrap_or(u32::MAX))];
        self.qp.post_recv(&RecvWr { wr_id: slot, sges: &sges })
    }
}

/// Messages in each direction at a time.
const SLOTS: u32 = 4;
/// Reads and SYNCs at a time.
pub(crate) const DEPTH: u32 = 16;

/// Returns where the message of a slot lies.
fn place(number: u64) -> usize {
    usize::try_from(number % u64::from(SLOTS)).unwrap_or(0) * MAX_CONTROL
}
