//! Single cases, each by its RFC.

use std::vec::Vec;

use super::direct::{Direct, Gone, SMSS};
use crate::Reason::{self, Loss, TailProbe, Window, WindowProbe};
use crate::{Acknowledgement, Control, Interval, Micros, SendConfig, Seq};

fn numbers(gone: &[Gone], of: Reason) -> Vec<f32> {
    gone.iter().filter(|(_, reason)| *reason == of).map(|(at, _)| *at).collect()
}

fn ack(ack: u32, sack: &[Interval]) -> Acknowledgement<'_> {
    let (seq, ack, window) = (Seq(1), Seq(ack), 1 << 20);
    Acknowledgement { seq, ack, window, sack, echo: None, ece: false, occupies: false }
}

/// RFC 6928 section 2, RFC 5681 section 3.1.
// Covers 5681-3.1-1, 9293-MUST-19, 9438-4.10-1.
#[test]
fn ten_segments_go_at_first_and_each_ack_lets_one_more_go() {
    let mut direct = Direct::new(true);
    assert_eq!(direct.offer(100).len(), 10);
    direct.wait(10);
    let gone: usize = (1..=10).map(|una| direct.ack(una, &[]).len()).sum();
    assert_eq!((gone, direct.sender.cwnd()), (20, 20 * SMSS));
}

/// RFC 8985 section 6.2, RFC 9937, RFC 9438 section 4.6.
// Covers 2018-5.1-1, 5681-4.3-1, 9438-4.6-1, 9937-6.4-1.
#[test]
fn the_third_sack_sends_the_first_segment_again_and_the_window_shrinks() {
    let mut direct = Direct::new(true);
    direct.offer(100);
    direct.wait(10);
    assert_eq!(direct.ack(0, &[(1, 2)]), [(10.0, Window)], "limited transmit (RFC 3042)");
    assert_eq!(direct.ack(0, &[(1, 3)]), [(11.0, Window)]);
    assert_eq!(direct.ack(0, &[(1, 4)]), [(0.0, Loss)]);
    assert_eq!(
        direct.sender.congestion.ssthresh(),
        7000,
        "of ten segments in the window, two were beyond it"
    );
    let gone: usize = (5..=12).map(|end| direct.ack(0, &[(1, end)]).len()).sum();
    assert!((4..=6).contains(&gone), "seven of ten go: {gone}");
    direct.wait(10);
    direct.ack(12, &[]);
    assert_eq!(direct.sender.cwnd(), 7000);
    assert_eq!(direct.sender.counters().timeouts, 0);
}

/// RFC 8985 section 6.2: the retransmission is judged by its own time, with what went after it.
#[test]
fn a_lost_retransmission_is_found_without_a_timeout() {
    let mut direct = Direct::new(true);
    direct.offer(100);
    direct.wait(10);
    direct.ack(0, &[(1, 4)]);
    let later = direct.ack(0, &[(1, 10)]);
    assert!(!numbers(&later, Window).is_empty());
    direct.wait(10);
    let last = direct.sender.nxt().0 / SMSS;
    let gone = direct.ack(0, &[(1, last)]);
    assert_eq!(numbers(&gone, Loss), [0.0]);
    assert_eq!(direct.sender.counters().timeouts, 0);
}

/// RFC 8985 section 7.2: two round trips, 1 ms, and the peer's delay if little is in flight.
#[test]
fn a_tail_is_probed_with_its_last_segment() {
    let mut direct = Direct::new(true);
    direct.offer(3);
    assert_eq!(direct.wait(20), []);
    assert_eq!(direct.wait(2), [(2.0, TailProbe)]);
    direct.wait(10);
    direct.ack(0, &[(2, 3)]);
    direct.wait(3);
    assert_eq!(direct.sender.counters().timeouts, 0);
    assert_eq!(direct.sender.counters().recoveries, 1, "the probe's SACK has shown the loss");
}

/// RFC 8985 section 7.3: rather new octets than old ones.
#[test]
fn a_probe_sends_new_octets_if_the_window_lets_it() {
    let mut direct =
        Direct::with(true, false, SendConfig { control: Control::None(2000), ..SendConfig::default() });
    assert_eq!(direct.offer(3).len(), 2);
    assert_eq!(direct.wait(22), [(2.0, TailProbe)]);
    assert_eq!(direct.ack(3, &[]), []);
    assert_eq!(direct.sender.counters().repeated, 0);
}

/// RFC 8985 section 7.4.
#[test]
fn a_probe_that_repairs_a_loss_costs_a_reduction_and_a_needless_one_does_not() {
    for (dsack, cwnd) in [(true, 10), (false, 7)] {
        let mut direct = Direct::new(true);
        direct.offer(10);
        assert_eq!(direct.wait(22), [(9.0, TailProbe)]);
        direct.ack(10, if dsack { &[(9, 10)] } else { &[] });
        direct.offer(1);
        direct.wait(10);
        direct.ack(11, &[]);
        let ssthresh = direct.sender.congestion.ssthresh();
        assert_eq!(ssthresh == u32::MAX, dsack, "{ssthresh}");
        assert!(direct.sender.cwnd() >= cwnd * 100);
    }
}

/// RFC 6298 rules 5.4 to 5.6, RFC 5681 section 3.1.
// Covers 5681-3.1-4, 5681-3.1-5.
#[test]
fn a_silent_path_is_asked_with_one_segment_after_ever_longer_times() {
    let mut direct = Direct::new(false);
    direct.offer(10);
    let rto = direct.sender.rtt.rto();
    assert_eq!(direct.wait(rto.0 / 1000 - 1), []);
    let mut times = std::vec![];
    for _ in 0..5 {
        let before = direct.now;
        while direct.wait(1).is_empty() {}
        times.push((direct.now - before).0 / 1000);
        assert_eq!(direct.sender.cwnd(), SMSS);
    }
    let doubled = times.windows(2).skip(1).all(|pair| pair[1].abs_diff(2 * pair[0]) <= 2);
    assert!(doubled, "{times:?}");
    assert_eq!(direct.sender.congestion.ssthresh(), 7000, "once only");
}

/// RFC 5682 section 3.1: originals that arrive after the first segment has gone again prove the timeout needless.
// Covers 5682-3.1-3.
#[test]
fn a_late_path_restores_the_window() {
    let mut direct = Direct::new(true);
    direct.offer(30);
    direct.ack(0, &[]);
    let gone = direct.wait(200);
    assert!(numbers(&gone, Loss).starts_with(&[0.0]), "{gone:?}");
    assert_eq!(direct.sender.cwnd(), SMSS);
    let gone = direct.ack(1, &[]);
    assert_eq!(numbers(&gone, Loss), [], "two new segments go rather than old ones");
    assert_eq!(numbers(&gone, Window).len(), 2);
    direct.ack(2, &[]);
    assert_eq!(direct.sender.counters().undone, 1);
    assert!(direct.sender.cwnd() >= 10 * SMSS);
}

/// RFC 5682 section 3.1 step 3: a duplicate ACK then proves that segments are lost.
// Covers 5682-3.1-3.
#[test]
fn a_real_timeout_goes_on_with_what_is_lost() {
    let mut direct = Direct::new(true);
    direct.offer(30);
    direct.wait(200);
    direct.ack(1, &[]);
    direct.wait(10);
    let gone = direct.ack(1, &[(11, 12)]);
    assert!(numbers(&gone, Loss).starts_with(&[1.0]), "{gone:?}");
    assert_eq!(direct.sender.counters().undone, 0);
}

/// RFC 3522 section 3.2: the ACK echoes the original.
#[test]
fn an_echo_from_before_the_retransmission_undoes_the_recovery() {
    for (is_late, undone) in [(true, 1), (false, 0)] {
        let mut direct = Direct::new(true);
        let original = direct.now_ticks();
        direct.offer(30);
        direct.wait(10);
        direct.echo = Some(original);
        direct.ack(0, &[(1, 5)]);
        assert_eq!(direct.sender.counters().recoveries, 1);
        direct.wait(5);
        direct.echo = Some(if is_late { original } else { original + 10 });
        direct.ack(5, &[]);
        assert_eq!(direct.sender.counters().undone, undone);
        assert_eq!(direct.sender.cwnd() >= 10 * SMSS, is_late);
    }
}

/// RFC 3708 section 3, RFC 8985 section 6.2 step 4.
#[test]
fn a_dsack_for_all_that_went_again_undoes_the_recovery() {
    let mut direct = Direct::new(true);
    direct.offer(30);
    direct.wait(10);
    direct.ack(0, &[(1, 5)]);
    direct.ack(5, &[]);
    let reduced = direct.sender.cwnd();
    direct.wait(5);
    direct.ack(5, &[(0, 1)]);
    assert_eq!(direct.sender.counters().undone, 1);
    assert!(direct.sender.cwnd() > reduced);
    let path = direct.sender.path();
    assert!(direct.sender.rack.reo_wnd(path) > Micros(0), "reordering was seen");
}

/// RFC 8985 section 6.2 step 5: with reordering seen, a segment has a quarter of a round trip more.
// Covers 8985-6.2-2.
#[test]
fn after_reordering_the_timer_decides() {
    let mut direct = Direct::new(true);
    direct.offer(40);
    direct.wait(10);
    direct.ack(0, &[(1, 2)]);
    direct.ack(2, &[]);
    direct.wait(10);
    let gone = direct.ack(2, &[(4, 9)]);
    assert_eq!(numbers(&gone, Loss), [], "segments 2 and 3 may be late");
    let gone = direct.wait(3);
    assert_eq!(numbers(&gone, Loss), [2.0], "the second waits for PRR");
    let gone: Vec<Gone> = (10..14).flat_map(|end| direct.ack(2, &[(4, end)])).collect();
    assert_eq!(numbers(&gone, Loss), [3.0]);
}

/// RFC 2018 section 8.
// Covers 2018-8-1.
#[test]
fn a_peer_that_reneges_gets_everything_again() {
    let mut direct = Direct::new(true);
    direct.offer(10);
    direct.wait(10);
    direct.ack(0, &[(1, 10)]);
    direct.wait(10);
    direct.ack(1, &[(2, 10)]);
    direct.ack(2, &[]);
    direct.wait(600);
    assert_eq!(direct.sender.counters().reneged, 1);
    for una in 3..=10 {
        direct.wait(10);
        direct.ack(una, &[]);
    }
    assert!(!direct.sender.in_flight());
}

/// RFC 6582 section 3.2, RFC 3042 section 2.
// Covers 3042-2-1, 5681-3.2-2, 5681-3.2-5, 6582-3.2-1.
#[test]
fn without_sack_three_duplicates_tell_a_loss_and_each_partial_ack_the_next() {
    let mut direct = Direct::new(false);
    direct.offer(100);
    direct.wait(10);
    assert_eq!(direct.ack(0, &[]), [(10.0, Window)]);
    assert_eq!(direct.ack(0, &[]), [(11.0, Window)]);
    assert_eq!(direct.ack(0, &[]), [(0.0, Loss)]);
    (0..6).for_each(|_| _ = direct.ack(0, &[]));
    direct.wait(10);
    let gone = direct.ack(4, &[]);
    assert_eq!(numbers(&gone, Loss), [4.0], "a partial ACK");
    direct.wait(10);
    direct.ack(direct.sender.recovery.high.0 / SMSS, &[]);
    assert_eq!(direct.sender.cwnd(), direct.sender.congestion.ssthresh());
    assert_eq!((direct.sender.counters().recoveries, direct.sender.counters().timeouts), (1, 0));
}

/// RFC 9293 section 3.8.6.1 (MUST-36, MUST-37, SHLD-30): one octet, after ever longer times.
// Covers 9293-MUST-36.
#[test]
fn a_closed_window_is_probed_with_one_octet() {
    let mut direct = Direct::new(true);
    direct.window = 0;
    direct.offer(2);
    direct.wait(10);
    direct.ack(2, &[]);
    assert_eq!(direct.offer(2), []);
    let first = direct.now;
    let mut times = std::vec![];
    for _ in 0..4 {
        let gone = loop {
            let gone = direct.wait(1);
            if !gone.is_empty() {
                break gone;
            }
        };
        assert_eq!(gone, [(2.0, WindowProbe)]);
        times.push((direct.now - first).0 / 1000);
        direct.ack(2, &[]);
    }
    assert!(times[3] - times[2] >= 2 * (times[1] - times[0]) - 2, "{times:?}");
    direct.window = 10_000;
    assert_eq!(
        direct.ack(2, &[]),
        [(2.0, Loss), (2.0, Window), (3.0, Window)],
        "the octet, the rest, the next"
    );
    assert_eq!(direct.sender.counters().recoveries, 0);
}

/// RFC 9293 section 3.8.6.2.1: a window smaller than the segment is used when the timer expires.
#[test]
fn a_small_window_takes_what_it_takes_after_a_while() {
    let mut direct = Direct::new(true);
    direct.window = 300;
    direct.offer(1);
    direct.wait(10);
    direct.ack(1, &[]);
    assert_eq!(direct.offer(2), []);
    assert_eq!(direct.wait(200).first(), Some(&(1.0, WindowProbe)));
    assert_eq!(direct.sender.nxt(), Seq(1300));
}

/// The window is halved for each timeout of idling, not below the initial one.
#[test]
fn an_idle_window_shrinks() {
    let mut direct = Direct::new(true);
    direct.settle(100);
    let before = direct.sender.cwnd();
    assert!(before > 40 * SMSS);
    direct.wait(250);
    direct.offer(1);
    assert_eq!(direct.sender.cwnd(), before / 2);
    assert!(direct.sender.congestion.ssthresh() >= before / 4 * 3);
    direct.wait(10);
    direct.ack(direct.sender.nxt().0 / SMSS, &[]);
    direct.wait(10_000);
    direct.offer(1);
    assert_eq!(direct.sender.cwnd(), 10 * SMSS);
}

/// RFC 3168 section 6.1.2, RFC 8511: once a round trip, by 0.85, told by CWR.
// Covers 3168-6.1.2-1.
#[test]
fn a_mark_reduces_the_window_once_a_round_trip() {
    let mut direct = Direct::with(true, true, SendConfig { pacing: false, ..SendConfig::default() });
    direct.offer(10);
    direct.wait(10);
    direct.ece = true;
    (1..=10).for_each(|una| _ = direct.ack(una, &[]));
    assert_eq!((direct.sender.counters().marked, direct.sender.congestion.ssthresh()), (1, 8500));
    assert!(direct.sender.cwr);
    direct.ece = false;
    direct.offer(1);
    assert!(!direct.sender.cwr, "the next new segment has told it");
}

/// RFC 8899 section 3: what is too long goes again in pieces, which is no sign of congestion.
#[test]
fn a_smaller_path_cuts_what_is_in_flight() {
    let mut direct = Direct::new(true);
    direct.offer(3);
    let cwnd = direct.sender.cwnd();
    direct.sender.set_emss(400, direct.now);
    let gone = direct.go();
    assert_eq!(numbers(&gone, Loss), [0.0, 0.4, 0.8, 1.0, 1.4, 1.8, 2.0, 2.4, 2.8]);
    assert_eq!((direct.sender.cwnd(), direct.sender.counters().recoveries), (cwnd, 0));
    direct.wait(10);
    direct.ack(3, &[]);
    assert!(!direct.sender.in_flight());
}

/// RFC 9293 section 3.4: SYN and FIN occupy numbers, and a FIN goes again like data.
#[test]
fn a_lost_fin_goes_again() {
    let mut direct = Direct::new(true);
    direct.sender.close(direct.now);
    assert_eq!(direct.go(), [(0.0, Window)]);
    let gone = direct.wait(200);
    assert_eq!(gone.first(), Some(&(0.0, TailProbe)));
    assert_eq!(direct.offer(1), [], "nothing goes behind a FIN");
    assert!(direct.sender.acknowledge(&ack(1, &[]), direct.now).fin && direct.sender.is_closed());
    assert_eq!((direct.sender.released(), direct.sender.next_timeout()), (None, None));
}

/// RFC 5961 section 5, RFC 2018 section 4: what lies outside of what is in flight is not believed.
#[test]
fn acks_and_blocks_that_lie_change_nothing() {
    let mut direct = Direct::new(true);
    direct.offer(10);
    direct.wait(10);
    let beyond = [Interval::new(Seq(9000), Seq(10_001))];
    assert!(direct.sender.acknowledge(&ack(10_001, &[]), direct.now).beyond);
    direct.sender.acknowledge(&ack(0, &beyond), direct.now);
    assert_eq!((direct.sender.board.totals().sacked, direct.sender.counters().bad_sacks), (0, 1));
    let cwnd = direct.sender.cwnd();
    for octet in 1..=1000 {
        direct.sender.acknowledge(&ack(octet, &[]), direct.now);
    }
    assert_eq!(direct.sender.cwnd(), cwnd + 1000, "a thousand ACKs of an octet count as one of a segment");
    direct.go();
}

/// What was sent in one super-frame is lost and SACKed by segments.
#[test]
fn a_super_frame_is_cut_where_a_block_ends() {
    let mut direct = Direct::new(true);
    let now = direct.now;
    direct.sender.offer(crate::Unsent { octets: 8000, first: 1000 }, now);
    let transmit = direct.sender.poll_transmit(now).unwrap();
    let frame = crate::Frame { token: crate::Token(5), offset: 0, len: 8000, segment: 1000, ends: true };
    direct.sender.sent_new(&transmit, &frame, now);
    direct.wait(10);
    let gone = direct.ack(0, &[(2, 5), (6, 8)]);
    assert_eq!(numbers(&gone, Loss), [0.0, 1.0, 5.0]);
    assert_eq!(direct.sender.board.totals().sacked_segments, 5);
    direct.wait(10);
    direct.ack(8, &[]);
    assert!(!direct.sender.in_flight());
}

/// Half a round trip for a window in slow start, and what two segments take at once.
#[test]
fn segments_are_spread_over_the_round_trip() {
    let mut direct = Direct::with(true, false, SendConfig::default());
    assert_eq!(direct.offer(10).len(), 3);
    assert_eq!(direct.wait(2).len(), 4);
    assert_eq!(direct.wait(2).len(), 3);
}
