//! The timers of a sender.

use crate::Micros;

/// The timers of a sender.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Timers {
    /// The retransmission timer (RFC 6298 section 5). Runs if and only if something is in flight.
    pub(super) rto: Option<Micros>,
    /// The tail loss probe's (RFC 8985 section 7.2).
    pub(super) pto: Option<Micros>,
    /// The reordering timer (RFC 8985 section 6.2 step 5).
    pub(super) reorder: Option<Micros>,
    /// The persist timer (RFC 9293 section 3.8.6.1), while nothing is in flight and the window takes no whole segment.
    pub(super) persist: Option<Micros>,
    /// Whether the persist timer has expired, and the probe has not gone yet.
    pub(super) probe: Option<Probe>,
    /// Probes of the window since it has last moved, which double the interval.
    pub(super) probes: u8,
}

/// What probes a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Probe {
    /// New octets, as many as the window takes, or one.
    New,
    /// The first record in flight, which lies beyond the window.
    First,
}
