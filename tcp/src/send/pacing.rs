//! Pacing: segments spread over the round trip.

use crate::Micros;

/// Below this round-trip time nothing is paced: timers are too coarse.
const LEAST_RTT: Micros = Micros(200);
/// So much may go at once after a pause, as time at the rate.
const CREDIT: Micros = Micros::from_millis(1);
/// Segments that may always go at once after a pause.
const CREDIT_SEGMENTS: u32 = 2;
/// Shorter waits are not worth a timer.
const SHORTEST_WAIT: Micros = Micros(50);

/// When the next segment is due.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pacing {
    due: Micros,
}

/// The rate: `cwnd` octets times `percent` / 100 in a round trip.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rate {
    pub(super) cwnd: u32,
    pub(super) srtt: Micros,
    pub(super) in_slow_start: bool,
}

impl Rate {
    /// Returns the time that so many octets take: twice the window goes in a round trip of slow start, 1.2 times later.
    fn time(self, octets: u32) -> Micros {
        let percent = if self.in_slow_start { 200 } else { 120 };
        Micros(u64::from(octets) * self.srtt.0 / u64::from(self.cwnd.max(1)) * 100 / percent)
    }
}

impl Pacing {
    /// Returns when the next segment may go, if not now.
    pub(super) fn wait(&self, now: Micros) -> Option<Micros> {
        (self.due > now + SHORTEST_WAIT).then_some(self.due)
    }

    /// Returns when the next segment is due.
    pub(super) const fn due(&self) -> Micros {
        self.due
    }

    /// Notes octets that went.
    pub(super) fn sent(&mut self, octets: u32, rate: Rate, smss: u32, now: Micros) {
        if rate.srtt < LEAST_RTT {
            return;
        }
        let credit = rate.time(CREDIT_SEGMENTS * smss).max(CREDIT);
        self.due = self.due.max(now - credit) + rate.time(octets);
    }
}

#[cfg(test)]
mod tests {
    use super::{Pacing, Rate};
    use crate::Micros;

    fn rate(srtt: Micros, in_slow_start: bool) -> Rate {
        Rate { cwnd: 100_000, srtt, in_slow_start }
    }

    /// A window of 100 segments at 10 ms takes 5 ms in slow start and 8.3 ms later, but for what goes at once.
    #[test]
    fn a_window_is_spread_over_its_part_of_the_round_trip() {
        for (in_slow_start, takes) in [(true, 5000_u64), (false, 8333)] {
            let (mut pacing, mut now) = (Pacing::default(), Micros::from_secs(1));
            let start = now;
            for _ in 0..100 {
                if let Some(due) = pacing.wait(now) {
                    now = due;
                }
                pacing.sent(1000, rate(Micros::from_millis(10), in_slow_start), 1000, now);
            }
            let took = now.since(start).0 + 1000;
            assert!(took.abs_diff(takes) < 200, "{took} for {takes}");
        }
    }

    #[test]
    fn a_local_network_is_not_paced() {
        let mut pacing = Pacing::default();
        (0..100).for_each(|_| pacing.sent(1000, rate(Micros(150), false), 1000, Micros(7)));
        assert_eq!(pacing.wait(Micros(7)), None);
    }
}
