//! Proportional Rate Reduction (RFC 9937).

/// How much goes while the congestion window is being reduced (RFC 9937 section 6).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Prr {
    /// `RecoverFS`: the octets in flight when it began.
    recover_fs: u64,
    /// `prr_delivered`: octets that have arrived since.
    delivered: u64,
    /// `prr_out`: octets that have gone since.
    out: u64,
}

/// What an ACK says to [`Prr::acknowledge`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Delivery {
    /// `DeliveredData`: octets known to have arrived by this ACK.
    pub(super) delivered: u32,
    /// `inflight`: octets in flight after this ACK.
    pub(super) pipe: u32,
    /// `SafeACK`: SND.UNA has advanced, and no further loss was found.
    pub(super) is_safe: bool,
}

impl Prr {
    /// Begins a reduction (RFC 9937 section 6.1) with `recover_fs` octets in flight.
    pub(super) fn begin(recover_fs: u32) -> Self {
        Self { recover_fs: u64::from(recover_fs.max(1)), delivered: 0, out: 0 }
    }

    /// Notes octets that went (RFC 9937 section 6.3).
    pub(super) fn sent(&mut self, octets: u32) {
        self.out += u64::from(octets);
    }

    /// Returns the congestion window after an ACK (RFC 9937 section 6.2).
    pub(super) fn acknowledge(&mut self, ack: Delivery, ssthresh: u32, smss: u32) -> u32 {
        let (pipe, ssthresh) = (u64::from(ack.pipe), u64::from(ssthresh));
        self.delivered += u64::from(ack.delivered);
        let mut sndcnt = if pipe > ssthresh {
            (self.delivered * ssthresh).div_ceil(self.recover_fs).saturating_sub(self.out)
        } else {
            let crb = self.delivered.saturating_sub(self.out).max(u64::from(ack.delivered));
            let ssrb = if ack.is_safe { u64::from(smss) } else { 0 };
            (crb + ssrb).min(ssthresh - pipe)
        };
        // The first retransmission goes at once. The RFC counts segments, so that a part of one is one.
        if self.out == 0 {
            sndcnt = sndcnt.max(smss.into());
        }
        u32::try_from(pipe + sndcnt).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::{Delivery, Prr};

    const SMSS: u32 = 1000;

    /// RFC 9937 section 7's figure: 20 segments in flight, one lost, ssthresh 14.
    // Covers 9937-6.1-1, 9937-6.2-1.
    #[test]
    fn one_loss_lets_seven_segments_go_for_ten_that_arrive() {
        let (mut prr, mut pipe) = (Prr::begin(20 * SMSS), 19 * SMSS);
        let mut sent = 0;
        for _ in 0..19 {
            pipe -= SMSS;
            let ack = Delivery { delivered: SMSS, pipe, is_safe: false };
            let cwnd = prr.acknowledge(ack, 14 * SMSS, SMSS);
            while pipe + SMSS <= cwnd {
                pipe += SMSS;
                prr.sent(SMSS);
                sent += 1;
            }
        }
        assert!((13..=14).contains(&sent), "{sent}");
        assert!((13 * SMSS..=14 * SMSS).contains(&pipe), "{pipe}");
    }

    /// Half of the window is lost at once: the first retransmission goes, and the window never grows beyond ssthresh.
    // Covers 9937-6.2-2.
    #[test]
    fn below_ssthresh_a_safe_ack_lets_one_segment_more_go() {
        let mut prr = Prr::begin(20 * SMSS);
        let unsafe_ack = Delivery { delivered: SMSS, pipe: 5 * SMSS, is_safe: false };
        assert_eq!(prr.acknowledge(unsafe_ack, 10 * SMSS, SMSS), 6 * SMSS);
        prr.sent(SMSS);
        let safe = Delivery { is_safe: true, ..unsafe_ack };
        assert_eq!(prr.acknowledge(safe, 10 * SMSS, SMSS), 7 * SMSS);
        prr.sent(2 * SMSS);
        assert_eq!(prr.acknowledge(Delivery { pipe: 10 * SMSS, ..safe }, 10 * SMSS, SMSS), 10 * SMSS);
    }

    // Covers 9937-6.2-3.
    #[test]
    fn the_first_retransmission_goes_at_once() {
        let mut prr = Prr::begin(20 * SMSS);
        let none = Delivery { delivered: 0, pipe: 19 * SMSS, is_safe: false };
        assert_eq!(prr.acknowledge(none, 14 * SMSS, SMSS), 20 * SMSS);
        prr.sent(SMSS);
        assert_eq!(prr.acknowledge(none, 14 * SMSS, SMSS), 19 * SMSS);
    }
}
