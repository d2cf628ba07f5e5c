//! Windows and times at the edges of what numbers hold.

use proptest::prelude::*;

use super::{Cause, Congestion, Growth};
use crate::{Control, Micros, Seq};

fn edge() -> impl Strategy<Value = u32> {
    prop_oneof![Just(0), Just(1), Just(1 << 30), Just(u32::MAX), any::<u32>(), 1_u32..100_000]
}

fn time() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), 0_u64..1_000_000, Just(40 * 24 * 3600 * 1_000_000), 0_u64..1 << 55, Just(u64::MAX)]
}

proptest! {
    /// Whatever arrives and however long it takes: nothing overflows, and a window has a segment at least.
    #[test]
    fn no_window_and_no_time_is_too_large(
        smss in 1_u16..=u16::MAX,
        first: u32,
        steps in proptest::collection::vec((0_u8..6, edge(), edge(), time(), time()), 1..80),
    ) {
        let smss = u32::from(smss);
        let mut congestion = Congestion::new(Control::Cubic, smss, Seq(first));
        let mut now = Micros(0);
        for (step, acked, at, passes, srtt) in steps {
            now = now + Micros(passes);
            match step {
                0 => congestion.reduce(Cause::Loss, acked),
                1 => congestion.timeout(acked, at % 2 == 0),
                2 => congestion.idle(at),
                3 => congestion.set_cwnd(acked.max(smss)),
                _ => congestion.grow(&Growth {
                    acked,
                    rtt: Some(Micros(srtt)),
                    srtt: Micros(srtt),
                    una: Seq(at),
                    nxt: Seq(at.wrapping_add(acked)),
                    is_limited: at % 3 > 0,
                    is_paced: at % 5 == 0,
                    now,
                }),
            }
            prop_assert!(congestion.cwnd() >= smss, "{}", congestion.cwnd());
            prop_assert!(congestion.ssthresh() >= 2 * smss);
        }
    }
}
