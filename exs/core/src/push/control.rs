//! What a receiver says to the sender.

use weft_ddp::Stag;

use crate::message::Advert;
use crate::op::Op;

/// What [`super::Receiver::poll_control`] puts on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Control {
    /// ADVERT. The caller binds a memory window for RDMA Write over this range in front of it.
    Advert(Window),
    /// FREE.
    Free {
        /// Octets of the ring that were read since the start.
        read: u64,
    },
    /// REVOKE.
    Revoke {
        /// The last epoch.
        epoch: u32,
    },
}

/// The range of a receive into which the peer may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Window {
    /// The receive.
    pub op: Op,
    /// The first octet.
    pub at: u32,
    /// Octets, at least 1: all behind the first.
    pub len: u32,
    pub(super) epoch: u32,
    pub(super) first: Option<u64>,
    pub(super) waits_for_all: bool,
}

impl Window {
    /// Returns the message that advertises the window.
    #[must_use]
    pub const fn advert(&self, stag: Stag, to: u64) -> Advert {
        let Self { len, epoch, first, waits_for_all, .. } = *self;
        Advert { epoch, len, stag, to, first, waits_for_all }
    }
}
