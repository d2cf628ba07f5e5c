//! The meaning of a completion, in the 64 bits of its id.

use weft_rnic::{Data, SendOpcode, SendWr};

use super::message::Message;

/// The resources that a completion gives back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Done {
    pub(super) requests: u32,
    /// Octets of the ring.
    pub(super) octets: u32,
    /// True if the requests are those kept for messages without credit.
    pub(super) is_spare: bool,
}

impl Done {
    pub(super) const fn wr_id(self) -> u64 {
        let spare = if self.is_spare { SPARE } else { 0 };
        spare | (self.requests as u64) << 32 | self.octets as u64
    }

    /// Returns None for a receive.
    pub(super) fn read(wr_id: u64) -> Option<Self> {
        let requests = u32::try_from(wr_id >> 32 & 0xFF).unwrap_or(0);
        let octets = u32::try_from(wr_id & u64::from(u32::MAX)).unwrap_or(0);
        (wr_id & RECEIVE == 0).then_some(Self { requests, octets, is_spare: wr_id & SPARE != 0 })
    }
}

/// Returns the Send of a message. Its completion stands for all of `done`.
pub(super) const fn tell(octets: &[u8; Message::LEN], done: Done) -> SendWr<'_> {
    let send = SendWr::new(SendOpcode::Send);
    SendWr { wr_id: done.wr_id(), data: Data::Inline(octets), signaled: true, ..send }
}

/// Marks the completion of a receive.
pub(super) const RECEIVE: u64 = 1 << 63;
const SPARE: u64 = 1 << 62;
