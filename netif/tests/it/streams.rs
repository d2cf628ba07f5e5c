use weft_netif::{CloseCause, Duration, Llp, LlpState, Stack};

use crate::bench::{Bench, Talker, V4, V6};

const MEBI: usize = 1 << 20;

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
    assert_eq!(bench.stacks[first].llp(ids[first]).unwrap().transmit(|_| (0, ())), None);

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
            bench.pass(Duration::from_secs(11));
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
    let mut bench = Bench::with(V4, 1, |_, config| config.tcp_buffer = 10_000, |_, wire| wire);
    let ids = bench.connect();
    bench.pass(Duration::from_secs(1));
    for stack in &mut bench.stacks {
        while stack.next_ready().is_some() {}
    }
    let mut llp = bench.stacks[0].llp(ids[0]).unwrap();
    assert_eq!((llp.room(), llp.unsent()), (10_000, 0));
    assert_eq!(llp.send_slice(&[7; 12_000]), 10_000);
    assert_eq!((llp.room(), llp.unsent(), llp.transmit(|room| (0, room.len()))), (0, 10_000, Some(0)));
    bench.pass(Duration::from_secs(1));
    assert_eq!(bench.stacks[0].next_ready(), Some(ids[0]), "room came back");
    assert_eq!(bench.stacks[0].next_ready(), None, "named once");
    assert_eq!(bench.stacks[0].llp(ids[0]).unwrap().room(), 10_000);
    assert_eq!(bench.stacks[1].next_ready(), Some(ids[1]), "octets came");
    let mut llp = bench.stacks[1].llp(ids[1]).unwrap();
    assert_eq!(llp.readable().len(), 10_000);
    llp.consume(usize::MAX);
    assert!(llp.readable().is_empty());
    bench.pass(Duration::from_secs(1));
    assert_eq!(bench.stacks[1].next_ready(), None, "reading is no event");
}
