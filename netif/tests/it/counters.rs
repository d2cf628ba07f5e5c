//! The counters of TCP.

use weft_netif::{Duration, Impairment, ImpairmentConfig, Instant, LlpState, TcpCounters, Wire};

use crate::bench::{Bench, Talker, V4, V6};

/// Streams `len` octets both ways and closes. Returns TCP's counters of both sides.
fn stream(mut bench: Bench, len: usize) -> [TcpCounters; 2] {
    let ids = bench.connect();
    let mut talkers = Talker::pair(len);
    bench.drive(|[left, right]| {
        let done = [talkers[0].talk(left, ids[0]), talkers[1].talk(right, ids[1])];
        done == [true, true]
    });
    for (stack, id) in bench.stacks.iter_mut().zip(ids) {
        stack.llp(id).unwrap().shutdown();
    }
    bench.drive(|stacks| (0..2).all(|side| stacks[side].llp(ids[side]).unwrap().state() == LlpState::Closed));
    for (stack, id) in bench.stacks.iter_mut().zip(ids) {
        stack.remove(id);
    }
    bench.pass(Duration::from_secs(100));
    bench.stacks.each_ref().map(|stack| {
        assert_eq!(stack.counters().connections, 0);
        let wire = stack.wire().counters();
        assert!(wire.octets_sent > 54 * wire.sent && wire.octets_received > 54 * wire.received, "{wire:?}");
        stack.tcp_counters()
    })
}

const LEN: usize = 1 << 20;

#[test]
fn without_loss_everything_is_sent_once() {
    for addresses in [V4, V6] {
        let counters = stream(Bench::new(addresses), LEN);
        for (side, own) in counters.iter().enumerate() {
            let peer = &counters[1 - side];
            assert_eq!((own.octets_sent, own.octets_received), (LEN as u64, LEN as u64), "{own:?}");
            assert_eq!(own.segments_sent, peer.segments_received, "{counters:?}");
            assert_eq!((own.segments_retransmitted, own.octets_retransmitted), (0, 0), "{own:?}");
            assert_eq!((own.resets_sent, own.resets_received, own.timeouts, own.failed), (0, 0, 0, 0));
            assert_eq!([own.opened, own.accepted], [u64::from(side == 0), u64::from(side == 1)]);
        }
    }
}

/// The sent octets without the retransmitted ones are the stream, even if parts of it were lost.
#[test]
fn with_loss_the_retransmissions_are_told_apart() {
    for seed in [1, 2, 77] {
        let config = ImpairmentConfig { seed, loss: 0.02, reorder: 0.02, ..ImpairmentConfig::default() };
        for own in stream(Bench::impaired(V4, &config), LEN) {
            assert!(own.segments_retransmitted > 10 && own.octets_retransmitted > 1000, "{own:?}");
            assert_eq!(own.octets_sent - own.octets_retransmitted, LEN as u64, "seed {seed}: {own:?}");
            assert_eq!(own.octets_received, LEN as u64, "seed {seed}: {own:?}");
        }
    }
}

#[test]
fn refused_connections_have_failed() {
    let mut bench = Bench::new(V4);
    let remote = (bench.stacks[1].ip().address, 9).into();
    let id = bench.stacks[0].connect(remote, None, bench.now).unwrap();
    bench.drive(|stacks| stacks[0].llp(id).unwrap().state() == LlpState::Reset);
    bench.stacks[0].remove(id);
    bench.pass(Duration::from_secs(1));
    let [left, right] = bench.stacks.each_ref().map(|stack| stack.tcp_counters());
    assert_eq!((left.failed, left.resets_received, left.opened, left.timeouts), (1, 1, 0, 0), "{left:?}");
    assert_eq!((right.resets_sent, right.segments_sent, right.segments_received), (1, 1, 0), "{right:?}");
}

#[test]
fn silent_peers_count_as_timeouts() {
    let down = Some(Instant::from_secs(1)..Instant::from_secs(100_000));
    let wrap = move |_, wire: Wire| {
        let config = ImpairmentConfig { down: down.clone(), ..ImpairmentConfig::default() };
        wire.with_impairment(Impairment::new(config))
    };
    let mut bench = Bench::with(V4, 5, |_, _| {}, wrap);
    let ids = bench.connect();
    bench.pass(Duration::from_secs(2));
    for (stack, id) in bench.stacks.iter_mut().zip(ids) {
        stack.llp(id).unwrap().send_slice(b"lost");
    }
    bench.pass(Duration::from_secs(200));
    for stack in &bench.stacks {
        let own = stack.tcp_counters();
        assert_eq!((own.timeouts, own.resets_received, own.failed), (1, 0, 0), "{own:?}");
        assert!(own.octets_sent >= 8 && own.octets_sent - own.octets_retransmitted == 4, "{own:?}");
    }
}
