//! HyStart++ (RFC 9406): the end of slow start by delay, before anything is lost.

use super::event::Growth;
use crate::{Micros, Seq};

/// Constants of RFC 9406 section 4.3.
const MIN_RTT_THRESH: Micros = Micros::from_millis(4);
const MAX_RTT_THRESH: Micros = Micros::from_millis(16);
const MIN_RTT_DIVISOR: u64 = 8;
const N_RTT_SAMPLE: u32 = 8;
const CSS_GROWTH_DIVISOR: u32 = 4;
const CSS_ROUNDS: u8 = 5;
/// L: an ACK grows the window by so many segments at most.
const L: u32 = 8;

/// The state of slow start (RFC 9406 section 4.2).
#[derive(Clone, Copy, Debug)]
pub(super) struct HyStart {
    phase: Phase,
    /// windowEnd: the round ends when it is acknowledged.
    window_end: Seq,
    last_round_min_rtt: Option<Micros>,
    current_round_min_rtt: Option<Micros>,
    rtt_sample_count: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    SlowStart,
    /// Conservative Slow Start, with cssBaselineMinRtt and the rounds that it has lasted.
    Css(Micros, u8),
    /// Slow start has ended, by delay or by loss. Later ones go without: the threshold is known by then.
    Ended,
}

impl HyStart {
    pub(super) const fn new(window_end: Seq) -> Self {
        let (last_round_min_rtt, current_round_min_rtt) = (None, None);
        Self {
            phase: Phase::SlowStart,
            window_end,
            last_round_min_rtt,
            current_round_min_rtt,
            rtt_sample_count: 0,
        }
    }

    /// Leaves slow start to its threshold, after loss or a mark.
    pub(super) const fn stop(&mut self) {
        self.phase = Phase::Ended;
    }

    /// Whether delay has ended slow start just now. The answer is given once.
    pub(super) fn has_ended(&mut self) -> bool {
        let has_ended = matches!(self.phase, Phase::Css(_, rounds) if rounds >= CSS_ROUNDS);
        if has_ended {
            self.phase = Phase::Ended;
        }
        has_ended
    }

    /// Returns by how many octets an ACK grows the window (RFC 9406 section 4.2).
    pub(super) fn acknowledge(&mut self, ack: &Growth, smss: u32) -> u32 {
        let acked = if ack.is_paced { ack.acked } else { ack.acked.min(L * smss) };
        if self.phase == Phase::Ended {
            return acked;
        }
        if let Some(rtt) = ack.rtt {
            self.current_round_min_rtt = Some(self.current_round_min_rtt.map_or(rtt, |min| min.min(rtt)));
            self.rtt_sample_count += 1;
        }
        let step = if matches!(self.phase, Phase::Css(..)) { acked / CSS_GROWTH_DIVISOR } else { acked };
        if self.rtt_sample_count >= N_RTT_SAMPLE
            && let Some(current) = self.current_round_min_rtt
        {
            self.judge(current);
        }
        if !ack.una.is_before(self.window_end) {
            self.next_round(ack.nxt);
        }
        step
    }

    fn judge(&mut self, current: Micros) {
        match (self.phase, self.last_round_min_rtt) {
            (Phase::SlowStart, Some(last)) => {
                let thresh = Micros(last.0 / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH);
                if current >= last + thresh {
                    self.phase = Phase::Css(current, 0);
                }
            }
            (Phase::Css(baseline, _), _) if current < baseline => self.phase = Phase::SlowStart,
            _ => {}
        }
    }

    fn next_round(&mut self, nxt: Seq) {
        if let Phase::Css(_, rounds) = &mut self.phase {
            *rounds += 1;
        }
        self.window_end = nxt;
        self.last_round_min_rtt = self.current_round_min_rtt.take();
        self.rtt_sample_count = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::{HyStart, Phase};
    use crate::congestion::event::Growth;
    use crate::{Micros, Seq};

    const SMSS: u32 = 1000;

    fn ack(rtt_ms: u64, una: u32, nxt: u32) -> Growth {
        let rtt = Micros::from_millis(rtt_ms);
        let (una, nxt, now) = (Seq(una), Seq(nxt), Micros(0));
        Growth { acked: SMSS, rtt: Some(rtt), srtt: rtt, una, nxt, is_limited: true, is_paced: false, now }
    }

    /// Plays rounds of ten ACKs with a round-trip time each. Returns the octets by which the window grows.
    fn rounds(hystart: &mut HyStart, rtts_ms: &[u64]) -> u32 {
        let mut grown = 0;
        for (round, &rtt) in (1_u32..).zip(rtts_ms) {
            let end = hystart.window_end.0;
            (0..9).for_each(|_| grown += hystart.acknowledge(&ack(rtt, end.wrapping_sub(1), end + 1), SMSS));
            grown += hystart.acknowledge(&ack(rtt, end, end + round), SMSS);
        }
        grown
    }

    // Covers 9406-4.2-1.
    #[test]
    fn slow_start_goes_on_while_the_delay_does_not_rise() {
        let mut hystart = HyStart::new(Seq(1));
        assert_eq!(rounds(&mut hystart, &[40, 41, 44, 44, 45]), 50 * SMSS);
        assert_eq!(hystart.phase, Phase::SlowStart);
    }

    /// RFC 9406 section 4.2: a rise by an eighth begins CSS, five rounds of it end slow start.
    // Covers 9406-4.2-2, 9406-4.2-4.
    #[test]
    fn a_rise_of_delay_ends_slow_start_after_five_rounds() {
        let mut hystart = HyStart::new(Seq(1));
        rounds(&mut hystart, &[40, 45]);
        assert_eq!(
            hystart.phase,
            Phase::Css(Micros::from_millis(45), 1),
            "the round in which it began counts"
        );
        assert_eq!(rounds(&mut hystart, &[46, 46, 46]), 30 * SMSS / 4);
        assert!(!hystart.has_ended());
        rounds(&mut hystart, &[46]);
        assert!(hystart.has_ended() && !hystart.has_ended());
    }

    // Covers 9406-4.2-3.
    #[test]
    fn a_delay_that_falls_again_was_a_false_alarm() {
        let mut hystart = HyStart::new(Seq(1));
        rounds(&mut hystart, &[40, 45, 46, 44]);
        assert_eq!(hystart.phase, Phase::SlowStart);
    }

    // Covers 9406-4.2-5.
    #[test]
    fn a_large_ack_counts_as_eight_segments_unless_pacing_spreads_it() {
        let mut hystart = HyStart::new(Seq(1));
        let large = Growth { acked: 20 * SMSS, ..ack(40, 0, 9) };
        assert_eq!(hystart.acknowledge(&large, SMSS), 8 * SMSS);
        assert_eq!(hystart.acknowledge(&Growth { is_paced: true, ..large }, SMSS), 20 * SMSS);
    }
}
