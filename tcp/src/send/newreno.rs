//! Duplicate ACKs, where the peer has no SACK (RFC 5681 section 3.2, RFC 6582, RFC 3042).

/// So many duplicates tell a loss (RFC 5681 section 3.2).
pub(super) const DUP_ACKS: u32 = 3;

/// The duplicate ACKs since SND.UNA has advanced.
///
/// Each says that a segment has left the network. Those octets do not count for the pipe, so that the first two duplicates
/// let new segments go (limited transmit) and the window is "inflated" during recovery.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Duplicates {
    pub(super) count: u32,
    /// Octets that have arrived by their account, though it is not known which.
    pub(super) octets: u32,
}

impl Duplicates {
    /// Takes a duplicate ACK. Returns the octets that have arrived by it.
    ///
    /// `in_flight` bounds what can have arrived, so that made-up duplicates gain nothing.
    pub(super) fn add(&mut self, smss: u32, in_flight: u32) -> u32 {
        self.count = self.count.saturating_add(1);
        let more = smss.min(in_flight.saturating_sub(self.octets));
        self.octets += more;
        more
    }

    /// Takes an ACK that advances SND.UNA by so many octets. Returns those of them that had not arrived before
    /// (RFC 9937's DeliveredData without SACK).
    pub(super) fn advance(&mut self, octets: u32, smss: u32) -> u32 {
        let before = self.octets.min(octets.saturating_sub(smss));
        self.count = 0;
        self.octets -= before;
        octets - before
    }

    /// Forgets all of them: nothing is missing any more, or everything goes again.
    pub(super) const fn clear(&mut self) {
        (self.count, self.octets) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::Duplicates;

    #[test]
    fn duplicates_account_for_a_segment_each_but_no_more_than_is_in_flight() {
        let mut duplicates = Duplicates::default();
        assert_eq!([1, 2, 3].map(|_| duplicates.add(1000, 2500)), [1000, 1000, 500]);
        assert_eq!((duplicates.add(1000, 2500), duplicates.count), (0, 4));
        assert_eq!((duplicates.advance(2000, 1000), duplicates.octets, duplicates.count), (1000, 1500, 0));
    }
}
