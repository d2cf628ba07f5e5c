//! A stream: the sender pushes octets, directly into the receives that the peer has advertised, else through the ring.
//!
//! ```text
//!   send ──► Sender ──► Writes, DATA ───────────────────► Receiver ──► copies, completions ──► receive
//!                ▲                                            │
//!                └──────────── ADVERT, FREE, REVOKE ◄─────────┘
//! ```
//!
//! [`Sender`] and [`Receiver`] are the two ends of one direction. Both are state machines without memory: they name
//! ranges of sends, receives, slots and the ring, and the caller copies, writes and posts. SHUTDOWN is the caller's,
//! with the position of [`Sender::end`].
//!
//! # What waits and what does not
//!
//! [`Sender::poll_transfer`] and [`Receiver::poll_control`] name one message each. A caller that has no room for a Send
//! calls them later. Any message may be postponed in this way, for any time, since they decide by the state of that
//! moment. A message that was returned goes out at once, in front of all that are returned later.
//!
//! [`Receiver::poll_local`] needs no room. The caller polls it until it is empty after each call that changes the
//! receiver, before the next message of the peer is handled, and before the slot of the last message is posted again.
//!
//! # Why no octet is lost
//!
//! Only the sender knows whether an octet goes into an advert or into the ring, and both ends number the octets. An
//! advert is valid for the position at which it was sent. The first one of an epoch says this position, and the sender
//! drops the epoch if it has sent octets since. With the first octets that go through the ring the sender gives up the
//! epoch, and the receiver does the same when they come.

mod control;
mod local;
mod receiver;
mod ring;
mod sender;
mod sends;

pub use control::{Control, Window};
pub use local::{Local, Place, Received};
pub use receiver::{Receiver, ReceiverTerms};
pub use sender::{Sender, SenderTerms, Transfer, Wait, Write};
pub use sends::{Part, Sent};

/// How octets came from one user's memory to the other's: the longest way of an operation's octets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Way {
    /// By RDMA Writes into the memory of receives. Operations of 0 octets have this way too.
    #[default]
    Direct,
    /// As immediate data, which the receiver copies out of a slot.
    Inline,
    /// Through the ring, out of which the receiver copies them.
    Ring,
}

/// Returns the epoch behind this one. 0 is none.
pub(crate) const fn next_epoch(epoch: u32) -> u32 {
    match epoch.wrapping_add(1) {
        0 => 1,
        next => next,
    }
}
