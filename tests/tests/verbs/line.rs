//! A line of a limited rate between two devices: what arrives is what arithmetic allows.

use core::num::NonZeroU64;

use weft_netif::{Duration, ImpairmentConfig};
use weft_rnic::{Data, SendWr, Status};
use weft_tests::{Pair, PairConfig};

use crate::world::{
    CAPACITY, WR, contents, guarded, len32, memory_of, pattern, post_recv, read_from, write_to,
};

const LEN: usize = 16 << 20;
/// In bit/s.
const RATE: u64 = 10_000_000_000;

fn pair(queue: Option<u64>) -> Pair {
    let faults = ImpairmentConfig {
        rate: NonZeroU64::new(RATE),
        queue,
        delay: Duration::from_micros(5),
        ..ImpairmentConfig::default()
    };
    Pair::connected(&PairConfig { faults, capacity: CAPACITY, peer_to_peer: true, ..PairConfig::default() })
}

/// Moves octets by a Write or a Read, and returns the microseconds from the request to the last octet.
fn transfer(pair: &mut Pair, reads: bool, len: usize) -> u64 {
    let octets = pattern(len, 1);
    let begun = pair.lockstep.now();
    let sink = if reads {
        let (source, sink) = (memory_of(&pair.b, &octets), guarded(&pair.a, len));
        let sges = [sink.sge(0, len32(len))];
        pair.a
            .qp
            .post_send(&SendWr { opcode: read_from(&source, 0), data: Data::Sges(&sges), ..WR })
            .unwrap();
        assert_eq!(pair.completion_of_a().status, Status::Success);
        sink
    } else {
        let (source, sink) = (memory_of(&pair.a, &octets), guarded(&pair.b, len));
        let sges = [source.sge(0, len32(len))];
        post_recv(&pair.b.qp, 1, &[]);
        let write = SendWr { opcode: write_to(&sink, 0), data: Data::Sges(&sges), ..WR };
        pair.a.qp.post_sends(&[write, WR]).unwrap();
        assert_eq!(pair.completion_of_b().status, Status::Success);
        sink
    };
    let took = (pair.lockstep.now() - begun).total_micros();
    assert!(contents(&sink) == octets);
    took
}

/// A frame of 1500 octets of IP takes 1538 octets of an Ethernet, and has 1440 octets of payload: 9.363 Gbit/s.
#[test]
fn a_stream_gets_what_the_headers_leave_of_a_line() {
    for reads in [false, true] {
        let mut pair = pair(None);
        // TCP's congestion window grows with the first octets.
        transfer(&mut pair, reads, 1 << 20);
        let took = transfer(&mut pair, reads, LEN);
        let shortest = (LEN as u64 * 8 * 1538).div_ceil(1440) * 1_000_000 / RATE;
        println!("{took} us, at least {shortest} us");
        assert!(took >= shortest && took * 998 <= shortest * 1000, "{took} us, and not {shortest} us");
    }
}

/// TCP's buffer is larger than the queue in front of the line, so that some frames are lost.
#[test]
fn a_stream_survives_a_full_queue() {
    let mut pair = pair(Some(50_000));
    transfer(&mut pair, false, LEN);
    let retransmitted = pair.a.device.counters().tcp.segments_retransmitted;
    assert!(retransmitted > 0, "no frame was lost");
}

/// Closes a connection whose TCP has a Write that the line takes longer for than a close waits. `down` is when the line is
/// cut, if it is. Returns the octets that came, and the seconds from the close to its end.
fn close_behind_a_write(down: Option<Duration>) -> (usize, u64) {
    const LEN: usize = 200_000;
    let mut faults = ImpairmentConfig {
        // 7,500 octets in a second.
        rate: NonZeroU64::new(60_000),
        queue: Some(20_000),
        ..ImpairmentConfig::default()
    };
    faults.down = down.map(|after| {
        let cut = weft_netif::Instant::ZERO + after;
        cut..cut + Duration::from_secs(3600)
    });
    let config = PairConfig { faults, capacity: CAPACITY, peer_to_peer: true, ..PairConfig::default() };
    let mut pair = Pair::connected(&config);
    let octets = pattern(LEN, 1);
    let (source, sink) = (memory_of(&pair.a, &octets), guarded(&pair.b, LEN));
    let sges = [source.sge(0, len32(LEN))];
    let write = SendWr { opcode: write_to(&sink, 0), data: Data::Sges(&sges), ..WR };
    pair.a.qp.post_send(&write).unwrap();
    // TCP has all of it.
    assert_eq!(pair.completion_of_a().status, Status::Success);
    let begun = pair.lockstep.now();
    pair.a.qp.disconnect().unwrap();
    let device = pair.a.device.clone();
    pair.wait(|| device.connections().is_empty().then_some(())).expect("the close ends");
    let took = (pair.lockstep.now() - begun).total_micros() / 1_000_000;
    let came = contents(&sink).iter().zip(&octets).take_while(|(came, sent)| came == sent).count();
    (came, took)
}

/// A close waits for as long as the peer acknowledges octets, however slow the line is, and not much longer.
#[test]
fn a_close_waits_while_octets_are_acknowledged() {
    let limit = weft_rnic::Config::new("10.0.0.1/24".parse().unwrap(), 1).close_timeout.total_micros();
    let limit = limit / 1_000_000;
    let (came, took) = close_behind_a_write(None);
    assert!(came == 200_000 && took > 2 * limit, "{came} octets came in {took} s");
    let (came, took) = close_behind_a_write(Some(Duration::from_secs(30)));
    assert!((50_000..200_000).contains(&came) && took <= 30 + 2 * limit, "{came} octets came in {took} s");
}
