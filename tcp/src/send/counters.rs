//! What a sender has done.

/// Counts of a sender since the connection began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendCounters {
    /// Octets sent for the first time.
    pub octets: u64,
    /// Octets sent again.
    pub repeated_octets: u64,
    /// Frames sent again.
    pub repeated: u64,
    /// Octets that D-SACK calls needless (RFC 2883).
    pub needless_octets: u64,
    /// Fast recoveries (RFC 6675, RFC 8985).
    pub recoveries: u64,
    /// Expiries of the retransmission timer (RFC 6298).
    pub timeouts: u64,
    /// Reductions that proved needless and were undone.
    pub undone: u64,
    /// Tail loss probes (RFC 8985 section 7).
    pub tail_probes: u64,
    /// Probes of a window that is closed or too small.
    pub window_probes: u64,
    /// Reductions that ECN asked for (RFC 3168).
    pub marked: u64,
    /// Expiries at which the peer had reneged on SACKed octets (RFC 2018 section 8).
    pub reneged: u64,
    /// SACK options that were ignored, because a block lay outside what is in flight.
    pub bad_sacks: u64,
}
