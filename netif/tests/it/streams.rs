//! Octets of streams arrive whole and in order.

use weft_netif::{Capture, CloseCause, Duration, Impairment, ImpairmentConfig, Llp, LlpState, Stack, Wire};

use crate::bench::{Bench, Talker, V4, V6};

const MEBI: usize = 1 << 20;
/// At most: smoltcp waits for 10 s.
const TIME_WAIT: Duration = Duration::from_secs(60);

/// Streams both ways, then closes `first` and the other side after it.
fn stream_and_close(bench: &mut Bench, ids: [weft_netif::ConnectionId; 2], first: usize) {
    let mut talkers = Talker::pair(MEBI);
    bench.drive(|stacks| {
        let [left, right] = stacks;
        let done = [talkers[0].talk(left, ids[0]), talkers[1].talk(right, ids[1])];
        done == [true, true]
    });
    let second = 1 - first;
    bench.stacks[first].llp(ids[first]).unwrap().shutdown();
    bench.drive(|stacks| stacks[second].llp(ids[second]).unwrap().is_drained());
    assert_eq!(state(&mut bench.stacks[second], ids[second]), LlpState::PeerClosed);
    assert_eq!(state(&mut bench.stacks[first], ids[first]), LlpState::Established);
    assert_eq!(bench.stacks[first].llp(ids[first]).unwrap().transmit(1, |_| (0, ())), None);

    // The half-closed connection still carries octets the other way.
    assert_eq!(bench.stacks[second].llp(ids[second]).unwrap().send_slice(b"late"), 4);
    bench.drive(|stacks| stacks[first].llp(ids[first]).unwrap().readable() == b"late");
    bench.stacks[second].llp(ids[second]).unwrap().shutdown();
    bench.drive(|stacks| (0..2).all(|side| state(&mut stacks[side], ids[side]) == LlpState::Closed));
    for (stack, id) in bench.stacks.iter_mut().zip(ids) {
        assert_eq!(stack.llp(id).unwrap().cause(), Some(CloseCause::Graceful));
    }
    let mut llp = bench.stacks[first].llp(ids[first]).unwrap();
    assert!(llp.readable() == b"late" && !llp.is_drained());
    llp.consume(4);
    assert!(llp.is_drained());
}

fn state(stack: &mut Stack, id: weft_netif::ConnectionId) -> LlpState {
    stack.llp(id).as_ref().map(Llp::state).unwrap()
}

#[test]
fn a_mebibyte_both_ways_and_a_graceful_close_by_either_side() {
    for addresses in [V4, V6] {
        for first in [0, 1] {
            let mut bench = Bench::new(addresses);
            let ids = bench.connect();
            stream_and_close(&mut bench, ids, first);
            for (stack, id) in bench.stacks.iter_mut().zip(ids) {
                stack.remove(id);
                assert!(stack.llp(id).is_none());
            }
            bench.pass(TIME_WAIT + Duration::from_secs(1));
            for stack in &bench.stacks {
                assert_eq!((stack.counters().connections, stack.counters().lingering), (0, 0));
                assert_eq!(stack.poll_at(bench.now), None, "no timer is left");
            }
        }
    }
}

#[test]
fn every_mtu_carries_streams() {
    for (addresses, mtus) in
        [(V4, [576, 1500]), (V4, [9000, 65_535]), (V4, [65_535; 2]), (V6, [1280, 65_535])]
    {
        let mut bench = Bench::with(addresses, 3, |side, config| config.mtu = mtus[side], |_, wire| wire);
        let ids = bench.connect();
        stream_and_close(&mut bench, ids, 0);
        assert!(bench.stacks.iter().all(|stack| stack.wire().counters().too_long == 0));
    }
}

#[test]
fn unread_octets_outlive_time_wait() {
    let mut bench = Bench::new(V4);
    let ids = bench.connect();
    bench.stacks[0].llp(ids[0]).unwrap().shutdown();
    let mut llp = bench.stacks[1].llp(ids[1]).unwrap();
    llp.send_slice(b"last words");
    llp.shutdown();
    bench.pass(Duration::from_secs(100));
    let mut llp = bench.stacks[0].llp(ids[0]).unwrap();
    assert_eq!((llp.state(), llp.readable()), (LlpState::Closed, &b"last words"[..]));
    llp.consume(10);
    assert!(llp.is_drained());
    bench.pass(Duration::from_secs(1));
    assert_eq!(state(&mut bench.stacks[0], ids[0]), LlpState::Closed);
}

#[test]
fn room_unsent_and_ready_follow_the_stream() {
    let mut bench = Bench::with(V4, 1, |_, config| config.tcp_buffer = 5_000, |_, wire| wire);
    let ids = bench.connect();
    bench.pass(Duration::from_secs(1));
    for stack in &mut bench.stacks {
        while stack.next_ready().is_some() {}
    }
    let mut llp = bench.stacks[0].llp(ids[0]).unwrap();
    assert_eq!((llp.room(), llp.unsent()), (5_000, 0));
    assert_eq!(llp.send_slice(&[7; 6_000]), 5_000);
    assert_eq!((llp.room(), llp.unsent(), llp.transmit(1, |room| (0, room.len()))), (0, 5_000, Some(0)));
    bench.pass(Duration::from_secs(1));
    assert_eq!(bench.stacks[0].next_ready(), Some(ids[0]), "room came back");
    assert_eq!(bench.stacks[0].next_ready(), None, "named once");
    assert_eq!(bench.stacks[0].llp(ids[0]).unwrap().room(), 5_000);
    assert_eq!(bench.stacks[1].next_ready(), Some(ids[1]), "octets came");
    let mut llp = bench.stacks[1].llp(ids[1]).unwrap();
    assert_eq!(llp.unread(5_000), 5_000);
    llp.consume(usize::MAX);
    assert!(llp.readable().is_empty());
    bench.pass(Duration::from_secs(1));
    assert_eq!(bench.stacks[1].next_ready(), None, "reading is no event");
}

/// Returns sequence number and octets of payload of each TCP segment that the left stack sent, from its SYN on.
fn segments(pcap: &[u8]) -> Vec<(u32, usize)> {
    let word = |octets: &[u8]| u32::from_le_bytes(octets[..4].try_into().unwrap()) as usize;
    let (mut segments, mut rest) = (Vec::new(), &pcap[24..]);
    while let Some((header, frames)) = rest.split_first_chunk::<16>() {
        let (frame, behind) = frames.split_at(word(&header[8..]));
        rest = behind;
        if frame[12..14] == [0x08, 0x00] && frame[29] == 1 {
            let len = usize::from(u16::from_be_bytes([frame[16], frame[17]]));
            let payload = len - 20 - usize::from(frame[46] >> 4) * 4;
            segments.push((u32::from_be_bytes(frame[38..42].try_into().unwrap()), payload));
        }
    }
    segments
}

/// Returns all segments of the left stack, and the octets of a whole one, while each side sends one message over a fresh connection. `delay` is the
/// wire's.
fn segments_of_both(messages: [usize; 2], delay: Duration) -> (Vec<(u32, usize)>, usize) {
    let written = crate::faults::Written::default();
    let wrap = |side: usize, wire: Wire| {
        let config = ImpairmentConfig { delay, ..ImpairmentConfig::default() };
        let wire = wire.with_impairment(Impairment::new(config));
        if side == 0 { wire.with_capture(Capture::new(written.clone())) } else { wire }
    };
    let mut bench = Bench::with(V4, 1, |_, _| {}, wrap);
    let ids = bench.connect();
    for side in [0, 1] {
        let octets = vec![7; messages[side]];
        assert_eq!(bench.stacks[side].llp(ids[side]).unwrap().send_slice(&octets), octets.len());
    }
    bench.drive(|stacks| {
        let unsent = [0, 1].map(|side| {
            let mut llp = stacks[side].llp(ids[side]).unwrap();
            llp.consume(usize::MAX);
            llp.unsent()
        });
        unsent == [0, 0]
    });
    bench.stacks[0].wire_mut().take_capture().unwrap().finish().unwrap();
    let emss = bench.stacks[0].llp(ids[0]).unwrap().emss();
    let pcap = written.0.lock().unwrap();
    (segments(&pcap), emss)
}

/// Returns the octets of payload of the segments in which one message goes out over a fresh connection, and those of a
/// whole one.
fn segments_of(message: usize) -> (Vec<usize>, usize) {
    let (mut segments, emss) = segments_of_both([message, 0], Duration::ZERO);
    let first = segments[0].0.wrapping_add(1);
    segments.retain(|segment| segment.1 > 0);
    let ends = segments.iter().scan(first, |end, (_, len)| {
        let begin = *end;
        *end = begin.wrapping_add(u32::try_from(*len).unwrap());
        Some(begin)
    });
    assert!(segments.iter().map(|segment| segment.0).eq(ends), "each octet once and in order");
    (segments.into_iter().map(|segment| segment.1).collect(), emss)
}

#[test]
fn segments_are_whole_wherever_the_congestion_window_ends() {
    for message in (2000..40_000).step_by(331) {
        let (segments, emss) = segments_of(message);
        let (last, whole) = segments.split_last().unwrap();
        assert!(whole.iter().all(|&len| len == emss) && *last <= emss, "{message}: {segments:?}");
    }
}

/// While the beginning of a segment is kept, acknowledgements carry the number before it (RFC 9293 section 3.10.7.4).
#[test]
fn acknowledgements_keep_to_what_was_sent() {
    for message in (20_000..200_000).step_by(3331) {
        let (segments, _) = segments_of_both([message, message], Duration::from_millis(5));
        let mut end = segments[0].0.wrapping_add(1);
        for &(sequence, len) in &segments[1..] {
            let ahead = sequence.wrapping_sub(end);
            assert!(ahead == 0 || ahead >= 1 << 31, "{message}: {ahead} octets are left out");
            let next = sequence.wrapping_add(u32::try_from(len).unwrap());
            if next.wrapping_sub(end) < 1 << 31 {
                end = next;
            }
        }
    }
}

/// Each side keeps the beginning of a segment until the other side acknowledges the octets before it. Neither waits
/// for the retransmission timeout.
#[test]
fn kept_beginnings_delay_no_acknowledgement() {
    let wrap = |_: usize, wire: Wire| {
        let config = ImpairmentConfig { delay: Duration::from_millis(5), ..ImpairmentConfig::default() };
        wire.with_impairment(Impairment::new(config))
    };
    let mut bench = Bench::with(V4, 1, |_, _| {}, wrap);
    let ids = bench.connect();
    let begin = bench.now;
    for side in [0, 1] {
        assert_eq!(bench.stacks[side].llp(ids[side]).unwrap().send_slice(&[7; 20_000]), 20_000);
    }
    let mut arrived = begin;
    for _ in 0..1000 {
        if (0..2).all(|side| bench.stacks[side].llp(ids[side]).unwrap().unsent() == 0) {
            break;
        }
        arrived = bench.now;
        bench.step();
    }
    let spent = arrived - begin;
    assert!(spent < Duration::from_millis(500), "{spent}");
}

/// The same with a next segment that is whole and takes only a part of the kept octets.
#[test]
fn segments_are_whole_while_octets_go_both_ways() {
    for message in (20_000..200_000).step_by(3331) {
        let (mut segments, emss) = segments_of_both([message, message], Duration::from_millis(5));
        segments.retain(|segment| segment.1 > 0);
        let (last, whole) = segments.split_last().unwrap();
        let short: Vec<_> = whole.iter().filter(|segment| segment.1 != emss).collect();
        assert!(short.is_empty() && last.1 <= emss, "{message}: {short:?}");
    }
}

/// The acknowledgement of a long message goes at once, since the peer may wait for it.
#[test]
fn the_acknowledgement_of_a_short_segment_waits_a_turn_for_an_answer_to_go_with() {
    let mut bench = Bench::with(V4, 1, |_, config| config.ack_delay = None, |_, wire| wire);
    let ids = bench.connect();
    let emss = bench.stacks[0].llp(ids[0]).unwrap().emss();
    let mut exchange = |len: usize, answer: &[u8]| {
        bench.pass(Duration::from_secs(1));
        let now = bench.now;
        let [left, right] = &mut bench.stacks;
        assert_eq!(left.llp(ids[0]).unwrap().send_slice(&vec![7; len]), len);
        assert_eq!((left.egress(now), right.ingress(now)), (1, 1));
        assert_eq!(right.llp(ids[1]).unwrap().send_slice(answer), answer.len());
        let frames = [right.egress(now), right.egress(now)];
        assert_eq!(left.ingress(now), 1);
        assert_eq!(left.llp(ids[0]).unwrap().unsent(), 0, "acknowledged");
        frames
    };
    assert_eq!(exchange(8, b""), [0, 1]);
    assert_eq!(exchange(emss, b""), [1, 0]);
    assert_eq!(exchange(8, b"an answer"), [1, 0]);
}
