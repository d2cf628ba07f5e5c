//! Peers that mean harm, devices that are full, and windows of 1 GiB.

use proptest::prelude::*;

use crate::send::tests::direct::{Direct, Gone, SMSS};
use crate::{Acknowledgement, Interval, Micros, Reason, Seq};

fn reasons(gone: &[Gone]) -> std::vec::Vec<Reason> {
    gone.iter().map(|(_, reason)| *reason).collect()
}

/// RFC 8985 section 7.2: an ACK sets the probe's timer anew.
// Covers 8985-7.2-2.
#[test]
fn a_probe_that_a_full_device_held_back_is_void_when_its_tail_has_arrived() {
    let mut direct = Direct::new(true);
    direct.offer(4);
    direct.now = direct.sender.next_timeout().unwrap();
    direct.sender.expire(direct.now);
    assert_eq!(direct.ack(4, &[]), []);
    assert_eq!(reasons(&direct.offer(2)), [Reason::Window; 2]);
}

/// Each ACK costs little, although a peer SACKs what was lost and closes its window for the rest: the search for what is
/// lost begins at a lost record, as `check` sees to.
#[test]
fn a_peer_that_sacks_what_was_lost_makes_no_work() {
    let mut direct = Direct::new(true);
    let una = direct.settle(100);
    direct.offer(200);
    direct.wait(10);
    let (half, all) = (una + 60, direct.sender.nxt().0 / SMSS);
    direct.window = SMSS;
    direct.ack(una, &[(half, all)]);
    for end in una + 2..half - 1 {
        direct.ack(una, &[(una + 1, end), (half, all)]);
    }
    assert!(direct.sender.board.totals().lost > 0);
}

/// A peer SACKs all, closes its window over that, lets a probe come, and SACKs again.
#[test]
fn a_window_that_closes_over_what_is_sacked_is_probed() {
    let mut direct = Direct::new(true);
    direct.offer(4);
    direct.ack(0, &[(1, 4)]);
    direct.window = 0;
    direct.ack(1, &[]);
    assert_eq!(reasons(&direct.wait(300)).first(), Some(&Reason::WindowProbe));
    direct.window = 20 * SMSS;
    direct.ack(1, &[(2, 4)]);
    direct.offer(3);
    for _ in 0..5 {
        direct.wait(10);
        direct.ack(1, &[(2, direct.sender.nxt().0 / SMSS)]);
    }
    let all = direct.sender.nxt().0 / SMSS;
    assert!(all > 4, "something went after the probe");
    direct.ack(all, &[]);
    assert_eq!(direct.sender.una().0, all * SMSS);
}

/// The same, but SND.UNA moves on to what is SACKed while a full device holds the probe back.
#[test]
fn a_probe_that_a_full_device_held_back_does_not_send_what_is_sacked() {
    let mut direct = Direct::new(true);
    direct.offer(4);
    direct.window = 0;
    direct.ack(1, &[(2, 4)]);
    while direct.sender.timers.probe.is_none() {
        direct.now = direct.now.max(direct.sender.next_timeout().unwrap());
        direct.sender.expire(direct.now);
    }
    assert_eq!(direct.ack(2, &[]), []);
    assert_eq!(reasons(&direct.wait(1000)).first(), Some(&Reason::WindowProbe));
    direct.ack(2, &[(3, 4)]);
    direct.ack(4, &[]);
    assert!(!direct.sender.in_flight());
}

/// Returns a count of segments near SND.UNA or SND.NXT.
fn near(direct: &Direct, (at_end, by): (bool, i32)) -> u32 {
    let at = if at_end { direct.sender.nxt() } else { direct.sender.una() };
    (at.0 / SMSS).saturating_add_signed(by)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Any ACKs, blocks, windows, echoes and times: the records stay whole, as `check` sees to, and nothing overflows.
    #[test]
    fn no_peer_breaks_the_records(
        sack: bool,
        steps in proptest::collection::vec(
            (0_u8..8, (any::<bool>(), -3_i32..12), prop::array::uniform6((any::<bool>(), -4_i32..40)), any::<u32>()),
            1..60,
        ),
    ) {
        let mut direct = Direct::new(sack);
        let mut left = 600_u32;
        for (step, una, edges, any) in steps {
            match step {
                0 | 1 => {
                    let more = (any % 30).min(left);
                    left -= more;
                    direct.offer(more);
                }
                2 => _ = direct.wait(u64::from(any % 100)),
                3 => _ = direct.wait(u64::from(any % 600) * 1000),
                4 => direct.window = [0, SMSS - 1, SMSS, 20 * SMSS, 1 << 30][any as usize % 5],
                5 => {
                    direct.echo = [None, Some(any), Some(direct.now_ticks()), Some(0)][any as usize % 4];
                    direct.ece = any & 64 != 0;
                }
                _ => {
                    // Most numbers are those of segments, and some lie within them.
                    let within = if any & 192 == 0 { any >> 8 & 0x3FF } else { 0 };
                    let number = |edge| Seq(near(&direct, edge) * SMSS + within);
                    let [a, b, c, d, e, f] = edges.map(number);
                    let blocks = [Interval::new(a, b), Interval::new(c, d), Interval::new(e, f)];
                    let ack = Acknowledgement {
                        seq: Seq(1),
                        ack: number(una),
                        window: direct.window,
                        sack: &blocks[..any as usize % 4],
                        echo: direct.echo,
                        ece: direct.ece,
                        occupies: any & 32 != 0,
                    };
                    direct.sender.acknowledge(&ack, direct.now);
                    while direct.sender.released().is_some() {}
                    direct.go();
                }
            }
        }
        prop_assert!(direct.sender.srtt().is_none_or(|srtt| srtt < Micros::from_secs(40_000)));
    }
}
