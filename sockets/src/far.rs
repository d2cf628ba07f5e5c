//! Connections between hosts: what a daemon does at the far end of a link.
//!
//! An application shares a link with its own daemon as it would with a program of its host. The daemon of the sender
//! reads what the sender publishes, and tells it to the daemon of the reader, which publishes it in the link of the
//! reader. What the reader says goes the other way. So the words of a direction are the same in both links, only later.
//! The octets go from ring to ring, to the same place modulo the size.

mod incoming;
mod letter;
mod notice;
mod outgoing;
mod session;
#[cfg(test)]
mod tests;

pub use incoming::Incoming;
pub use letter::Letter;
pub use notice::{Notice, NoticeKind};
pub use outgoing::{Duty, Outgoing};
pub use session::Session;

use crate::broken::Broken;

/// Returns the position not before `known` whose low half is `low`. The position is at most `most` behind `known`.
fn widen(known: u64, low: u32, most: u64) -> Result<u64, Broken> {
    let step = u64::from(low.wrapping_sub(low_half(known)));
    if step <= most { known.checked_add(step).ok_or(Broken) } else { Err(Broken) }
}

#[expect(clippy::cast_possible_truncation, reason = "the low half is wanted")]
const fn low_half(position: u64) -> u32 {
    position as u32
}
