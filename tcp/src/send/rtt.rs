//! The round-trip time and the retransmission timeout.

use crate::Micros;

/// The granularity of the clock (RFC 6298's G), the least that variance adds.
const G: Micros = Micros::from_millis(1);
/// The timeout before there is a sample (RFC 6298 rule 2.1).
const RTO_INITIAL: Micros = Micros::from_secs(1);
/// The timeout of data after a repeated SYN (RFC 6298 rule 5.7).
const RTO_AFTER_SYN: Micros = Micros::from_secs(3);
/// The longest timeout (RFC 6298 rule 2.5).
pub(super) const RTO_MAX: Micros = Micros::from_secs(60);
/// After so many doublings the old round-trip time says nothing any more (RFC 6298 section 5, its last paragraph).
const FORGET_AFTER: u8 = 3;
/// The longest delay of ACKs that is believed.
const ACK_DELAY_MAX: Micros = Micros::from_millis(200);
/// Half the time for which the least round-trip time holds.
const MIN_RTT_HALF: Micros = Micros::from_secs(150);

/// SRTT, RTTVAR and RTO (RFC 6298).
#[derive(Clone, Copy, Debug)]
pub(super) struct Rtt {
    srtt: Option<Micros>,
    rttvar: Micros,
    /// The timeout of the last sample, not doubled.
    base: Micros,
    rto_min: Micros,
    /// How long the peer delays an ACK (RFC 8985's `TLP.max_ack_delay`).
    ack_delay: Micros,
    backoff: u8,
    min: MinRtt,
}

impl Rtt {
    pub(super) const fn new(rto_min: Micros, ack_delay: Micros) -> Self {
        let min = MinRtt { now: None, before: None, since: Micros(0) };
        Self { srtt: None, rttvar: Micros(0), base: RTO_INITIAL, rto_min, ack_delay, backoff: 0, min }
    }

    /// RFC 6298 rule 5.7: the SYN went twice, so that its time says nothing.
    pub(super) const fn syn_repeated(&mut self) {
        self.base = RTO_AFTER_SYN;
    }

    /// Takes a sample (RFC 6298 rules 2.2 and 2.3).
    pub(super) fn sample(&mut self, rtt: Micros, now: Micros) {
        self.min.sample(rtt, now);
        match self.srtt {
            None => (self.srtt, self.rttvar) = (Some(rtt), Micros(rtt.0 / 2)),
            Some(srtt) => {
                self.rttvar = Micros((3 * self.rttvar.0 + srtt.0.abs_diff(rtt.0)) / 4);
                self.srtt = Some(Micros((7 * srtt.0 + rtt.0) / 8));
            }
        }
        self.backoff = 0;
        self.compute();
    }

    /// Takes a round-trip time for the least only: one sample a flight suffices for SRTT.
    pub(super) fn sample_min(&mut self, rtt: Micros, now: Micros) {
        self.min.sample(rtt, now);
    }

    /// RFC 6298 rule 2.3, with the peer's delay of ACKs beside the variance, as a lone segment meets it.
    fn compute(&mut self) {
        if let Some(srtt) = self.srtt {
            let rto = srtt + Micros(4 * self.rttvar.0).max(G) + self.ack_delay;
            self.base = rto.clamp(self.rto_min, RTO_MAX);
        }
    }

    /// Returns the timeout, doubled for each expiry since the last sample.
    pub(super) fn rto(&self) -> Micros {
        Micros(self.base.0 << self.backoff.min(16)).min(RTO_MAX)
    }

    /// Doubles the timeout (RFC 6298 rule 5.5).
    pub(super) const fn back_off(&mut self) {
        self.backoff = self.backoff.saturating_add(1);
        if self.backoff > FORGET_AFTER {
            self.srtt = None;
        }
    }

    /// Returns how often the timeout was doubled.
    pub(super) const fn backoff(&self) -> u8 {
        self.backoff
    }

    /// Takes the doublings back: a probe was answered, or the expiry was needless.
    pub(super) const fn restore(&mut self) {
        self.backoff = 0;
    }

    /// A timer was too short for the peer's delayed ACK: believes in a longer delay.
    pub(super) fn delay_more(&mut self) {
        self.ack_delay = Micros(2 * self.ack_delay.0).min(ACK_DELAY_MAX).max(self.ack_delay);
        self.compute();
    }

    pub(super) const fn ack_delay(&self) -> Micros {
        self.ack_delay
    }

    pub(super) const fn srtt(&self) -> Option<Micros> {
        self.srtt
    }

    /// Returns the least round-trip time of the last 150 to 300 seconds.
    pub(super) fn min(&self) -> Option<Micros> {
        self.min.get()
    }
}

/// A minimum over a window of time (RFC 8985 section 6.2 step 1), kept in two halves.
#[derive(Clone, Copy, Debug)]
struct MinRtt {
    now: Option<Micros>,
    before: Option<Micros>,
    since: Micros,
}

impl MinRtt {
    fn sample(&mut self, rtt: Micros, now: Micros) {
        if now.since(self.since) >= MIN_RTT_HALF {
            (self.before, self.now, self.since) = (self.now.take(), None, now);
        }
        self.now = Some(self.now.map_or(rtt, |min| min.min(rtt)));
    }

    fn get(&self) -> Option<Micros> {
        match (self.now, self.before) {
            (Some(now), Some(before)) => Some(now.min(before)),
            (now, before) => now.or(before),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{RTO_MAX, Rtt};
    use crate::Micros;

    fn rtt() -> Rtt {
        Rtt::new(Micros::from_millis(50), Micros::from_millis(40))
    }

    /// RFC 6298 section 2 in f64.
    // Covers 6298-2-1, 6298-2-2, 6298-4-1, 9293-MUST-18.
    #[test]
    fn srtt_and_rto_follow_the_formulae() {
        let samples = [10_000, 12_000, 9_500, 30_000, 11_000, 10_500, 10_400, 200_000, 10_000];
        let (mut ours, mut srtt, mut rttvar) = (rtt(), 0.0_f64, 0.0_f64);
        assert_eq!(ours.rto(), Micros::from_secs(1));
        for (i, sample) in samples.into_iter().enumerate() {
            ours.sample(Micros(sample), Micros(0));
            let r = f64::from(u32::try_from(sample).unwrap());
            if i == 0 {
                (srtt, rttvar) = (r, r / 2.0);
            } else {
                rttvar = 0.75 * rttvar + 0.25 * (srtt - r).abs();
                srtt = 0.875 * srtt + 0.125 * r;
            }
            let rto = (srtt + f64::max(4.0 * rttvar, 1000.0) + 40_000.0).max(50_000.0);
            let got = f64::from(u32::try_from(ours.rto().0).unwrap());
            assert!((got - rto).abs() < 60.0, "sample {i}: {got} for {rto}");
        }
    }

    // Covers 6298-5-2.
    #[test]
    fn the_timeout_doubles_up_to_a_minute_and_holds_until_a_sample() {
        let mut ours = rtt();
        ours.sample(Micros(1000), Micros(0));
        let base = ours.rto();
        assert_eq!(base, Micros(1000 + 2000 + 40_000).max(Micros::from_millis(50)));
        for expiry in 1..40 {
            ours.back_off();
            assert_eq!(ours.rto(), Micros(base.0 << expiry.min(20)).min(RTO_MAX));
        }
        assert_eq!(ours.srtt(), None);
        ours.sample(Micros(2000), Micros(0));
        assert_eq!((ours.srtt(), ours.backoff()), (Some(Micros(2000)), 0));
    }

    #[test]
    fn a_needless_probe_teaches_a_longer_delay_up_to_200_ms() {
        let mut ours = rtt();
        ours.sample(Micros(1000), Micros(0));
        let delays = [80, 160, 200, 200].map(|millis| {
            ours.delay_more();
            assert_eq!(ours.ack_delay(), Micros::from_millis(millis));
            ours.rto()
        });
        assert_eq!(delays[3], Micros(203_000));
    }

    #[test]
    fn the_least_time_is_forgotten() {
        let mut ours = rtt();
        ours.sample(Micros(100), Micros(0));
        for second in 1..600 {
            ours.sample_min(Micros(500), Micros::from_secs(second));
            assert_eq!(ours.min(), Some(Micros(if second < 300 { 100 } else { 500 })), "{second}");
        }
    }
}
