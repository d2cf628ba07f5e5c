//! Octets of a message where they came.

use core::fmt;
use core::ops::Deref;
use std::sync::Weak;

use weft_exs_core::Outcome;

use crate::buf::Part;

/// How a receive in place has ended.
#[derive(Debug)]
pub struct Received {
    /// How it has ended.
    pub outcome: Outcome,
    /// The octets, in the mode [`Mode::InPlace`](crate::Mode::InPlace). In other modes they are in the receive's memory.
    pub in_place: Option<InPlace>,
}

/// Octets of a message in the slot in which it came. Dropping it gives the slot back.
///
/// The sender hears of its message, and of all behind it, when the slot has been given back. A socket that is closed
/// before has unread data.
pub struct InPlace {
    octets: Part,
    slot: u16,
    /// The socket does not stay for its slots.
    socket: Weak<dyn Recycle>,
}

/// A socket that takes slots back.
pub(crate) trait Recycle: Send + Sync {
    fn recycle(&self, slot: u16);
}

impl InPlace {
    pub(crate) const fn new(octets: Part, slot: u16, socket: Weak<dyn Recycle>) -> Self {
        Self { octets, slot, socket }
    }
}

impl Deref for InPlace {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.octets
    }
}

impl Drop for InPlace {
    fn drop(&mut self) {
        if let Some(socket) = self.socket.upgrade() {
            socket.recycle(self.slot);
        }
    }
}

impl fmt::Debug for InPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "InPlace({} octets)", self.len())
    }
}
