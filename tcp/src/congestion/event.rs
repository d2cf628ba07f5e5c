//! What congestion control is told.

use crate::{Micros, Seq};

/// What an ACK that lets the window grow says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Growth {
    /// Octets that have arrived.
    pub(crate) acked: u32,
    /// The round-trip time of the newest of them, if it is known.
    pub(crate) rtt: Option<Micros>,
    /// The smoothed round-trip time.
    pub(crate) srtt: Micros,
    /// SND.UNA and SND.NXT after the ACK.
    pub(crate) una: Seq,
    /// SND.NXT.
    pub(crate) nxt: Seq,
    /// Whether the window was the limit: an application that sends little proves nothing about the path.
    pub(crate) is_limited: bool,
    /// Whether pacing spreads what goes, so that a large growth makes no burst.
    pub(crate) is_paced: bool,
    pub(crate) now: Micros,
}

/// Why the window is reduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Segments were lost.
    Loss,
    /// The network has marked segments (RFC 3168).
    Ecn,
}
