//! Whether the congestion window is used.

use crate::Seq;

/// How much of the congestion window was used in the last round trip.
#[derive(Clone, Copy, Debug)]
pub(super) struct Usage {
    /// The round ends when this number is acknowledged.
    pub(super) end: Seq,
    /// The most octets in flight in this round.
    pub(super) most: u32,
}
