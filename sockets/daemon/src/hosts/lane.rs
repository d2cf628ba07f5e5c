//! A lane: a queue pair to another daemon.

use std::collections::BTreeMap;

use weft_rnic::{Access, Cq, Data, Device, Mr, Pd, Qp, QpCapacity, QpInit, RecvWr, SendOpcode, SendWr, Stag};
use weft_sockets::MESSAGE_LEN;
use weft_sockets::far::{Letter, Notice, NoticeKind};

use crate::hosts::failure::{Failure, Lost};

/// A queue pair, and the room that it has.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) qp: Qp,
    buffers: Mr,
    /// Free places of the send queue.
    free: u32,
}

/// What one daemon sends to another, in order.
#[derive(Clone, Debug)]
pub(crate) enum Message {
    Letter(Letter),
    Notice(Notice),
    /// Octets of a link, and the notice behind them.
    Write {
        /// The channel, by the number of this daemon.
        own: u32,
        link: u64,
        /// Their place in the rings of the link.
        at: usize,
        len: u32,
        /// The memory of the other daemon, and the tagged offset in it.
        to: (u32, u64),
        notice: Notice,
    },
}

impl Lane {
    /// Makes a queue pair with posted receives.
    pub(crate) fn new(device: &Device, pd: &Pd, cq: &Cq) -> Option<Self> {
        let capacity =
            QpCapacity { send_wr: SENDS, recv_wr: RECEIVES, send_sge: 1, recv_sge: 1, inline: MESSAGE_LEN };
        let qp = device.create_qp(pd, &QpInit { capacity, rnr_wait: true, ..QpInit::new(cq, cq) }).ok()?;
        let buffers = pd.register(RECEIVES as usize * MESSAGE_LEN, Access::LOCAL_WRITE).ok()?;
        let it = Self { qp, buffers, free: SENDS };
        (0..RECEIVES).try_for_each(|at| it.post_receive(u64::from(at))).ok()?;
        Some(it)
    }

    /// Returns the letter that a receive has brought, and posts the receive again.
    pub(crate) fn take_letter(&self, receive: u64, len: u32) -> Result<Letter, Failure> {
        let mut octets = [0; MESSAGE_LEN];
        let octets = octets.get_mut(..len as usize).ok_or(Failure::Host)?;
        self.buffers.read(place(receive), octets).map_err(|_| Lost)?;
        self.post_receive(receive)?;
        Letter::decode(octets).ok_or(Failure::Host)
    }

    /// Posts a receive.
    pub(crate) fn post_receive(&self, receive: u64) -> Result<(), Lost> {
        let sges = [self.buffers.sge(place(receive), BUFFER)];
        self.qp.post_recv(&RecvWr { wr_id: RECEIVE | receive, sges: &sges }).map_err(|_| Lost)
    }

    /// True if the longest message finds room.
    pub(crate) const fn has_room(&self) -> bool {
        self.free >= 2
    }

    /// Sends the message with this number. There [is room](Self::has_room). `memory` has the rings of the links.
    pub(crate) fn post(
        &mut self,
        number: u64,
        message: &Message,
        memory: &BTreeMap<u64, Mr>,
    ) -> Result<(), Lost> {
        match message {
            Message::Letter(letter) => {
                let octets = letter.encode();
                self.submit(&[SendWr { data: Data::Inline(&octets), ..request(SendOpcode::Send, number) }])
            }
            Message::Notice(notice) => self.submit(&[immediate(*notice, number)]),
            Message::Write { link, at, len, to: (stag, to), notice, .. } => {
                // The octets of a link that is gone concern nobody any more.
                let Some(memory) = memory.get(link) else {
                    return self.submit(&[immediate(*notice, number)]);
                };
                let data = [memory.sge(*at, *len)];
                let write = SendOpcode::Write { stag: Stag(*stag), to: *to };
                let write = SendWr { data: Data::Sges(&data), signaled: false, ..request(write, number) };
                self.submit(&[write, immediate(*notice, TWO | number)])
            }
        }
    }

    /// Tells how many messages were received. There [is room](Self::has_room).
    pub(crate) fn acknowledge(&mut self, value: u32) -> Result<(), Lost> {
        self.submit(&[immediate(Notice { kind: NoticeKind::Received, channel: 0, value }, UNNUMBERED)])
    }

    /// Hears that a request is done, and one without a completion before it. Returns the number of the message.
    pub(crate) const fn complete(&mut self, id: u64) -> Option<u64> {
        self.free += if id & TWO == 0 { 1 } else { 2 };
        if id & UNNUMBERED == 0 { Some(id & !TWO) } else { None }
    }

    fn submit(&mut self, requests: &[SendWr<'_>]) -> Result<(), Lost> {
        self.qp.post_sends(requests).map_err(|_| Lost)?;
        self.free = self.free.saturating_sub(u32::try_from(requests.len()).unwrap_or(u32::MAX));
        Ok(())
    }
}

fn immediate(notice: Notice, id: u64) -> SendWr<'static> {
    request(SendOpcode::Immediate { data: notice.encode() }, id)
}

fn request(opcode: SendOpcode, id: u64) -> SendWr<'static> {
    SendWr { wr_id: id, signaled: true, ..SendWr::new(opcode) }
}

fn place(receive: u64) -> usize {
    usize::try_from(receive % u64::from(RECEIVES)).unwrap_or(0) * MESSAGE_LEN
}

/// In names of requests: a receive.
pub(crate) const RECEIVE: u64 = 1 << 63;
/// In names of requests: no message of the session.
const UNNUMBERED: u64 = 1 << 62;
/// In names of requests: a request without a completion comes before it.
const TWO: u64 = 1 << 61;
const SENDS: u32 = 1024;
const RECEIVES: u32 = 1024;
#[expect(clippy::cast_possible_truncation, reason = "a message is short")]
const BUFFER: u32 = MESSAGE_LEN as u32;
