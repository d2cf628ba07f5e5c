//! Ends of connections: from either side, from both, idle and during a transfer.

use weft_netif::Duration;
use weft_rnic::{CmError, CmEvent, Completion, Data, DisconnectReason, Mr, QpState, SendWr, Status};
use weft_tests::{Pair, PairConfig, Side};

use crate::world::{
    GUARD, READ_REQUEST, READ_RESPONSE, SEND, WR, connected, contents, drain, end_of_a, end_of_b, guarded,
    memory_of, outcomes, pattern, post_recv, qp_on, read_from, write_to,
};

const LEN: usize = 1 << 20;

/// Long transfers of all kinds in both directions, and the moment at which all are under way.
struct Traffic {
    pair: Pair,
    regions: [Mr; 4],
}

impl Traffic {
    fn new() -> Self {
        let mut pair = connected();
        let octets = pattern(LEN, 1);
        let [from_a, from_b] = [&pair.a, &pair.b].map(|side| memory_of(side, &octets));
        let [into_a, into_b] = [&pair.a, &pair.b].map(|side| guarded(side, LEN));
        let post = |side: &Side, [own, sink]: [&Mr; 2], [source, target]: [&Mr; 2]| {
            post_recv(&side.qp, 100, &[sink.sge(0, 1 << 20)]);
            post_recv(&side.qp, 101, &[]);
            let (own, sink) = ([own.sge(0, 1 << 20)], [sink.sge(0, 1 << 20)]);
            let read = SendWr { wr_id: 1, opcode: read_from(source, 0), data: Data::Sges(&sink), ..WR };
            let send = SendWr { wr_id: 2, data: Data::Sges(&own), ..WR };
            let write = SendWr { wr_id: 3, opcode: write_to(target, 0), ..send };
            side.qp.post_sends(&[read, send, write]).unwrap();
        };
        post(&pair.a, [&from_a, &into_a], [&from_b, &into_b]);
        post(&pair.b, [&from_b, &into_b], [&from_a, &into_a]);
        let [a, b] = [&pair.a, &pair.b].map(|side| side.device.clone());
        pair.wait(|| {
            let busy = [&a, &b].map(|device| {
                let received = device.counters().received.by_opcode;
                received[SEND] > 10 && received[READ_RESPONSE] > 10
            });
            (busy == [true; 2]).then_some(())
        })
        .expect("traffic in both directions");
        Self { pair, regions: [from_a, from_b, into_a, into_b] }
    }

    /// Every request of a side has completed once, in order, some with success and then all flushed.
    fn expect_flushed(&self, side: &Side) {
        let done = drain(&side.cq);
        let (recvs, sends): (Vec<Completion>, Vec<Completion>) =
            done.into_iter().partition(|completion| completion.wr_id >= 100);
        assert_eq!(sends.iter().map(|c| c.wr_id).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(recvs.iter().map(|c| c.wr_id).collect::<Vec<_>>(), [100, 101]);
        for list in [sends, recvs] {
            assert!(list.is_sorted_by_key(|c| c.status != Status::Success), "{list:?}");
            let last = list.last().expect("completions");
            assert_eq!(last.status, Status::WorkRequestFlushed);
            assert!(list.iter().all(|c| matches!(c.status, Status::Success | Status::WorkRequestFlushed)));
        }
        assert_eq!(side.qp.state(), QpState::Error);
    }

    /// Each target has a beginning of the sent octets, and unchanged octets behind it.
    fn expect_beginnings(&self) {
        let [from, .., into_a, into_b] = &self.regions;
        let octets = contents(from);
        for memory in [into_a, into_b] {
            let seen = contents(memory);
            let mismatch = seen.iter().zip(&octets).position(|(seen, sent)| *seen != *sent && *seen != GUARD);
            assert_eq!(mismatch, None);
        }
    }
}

#[test]
fn disconnect_while_idle_from_either_side() {
    for from_a in [true, false] {
        let mut pair = connected();
        post_recv(&pair.a.qp, 1, &[]);
        post_recv(&pair.b.qp, 2, &[]);
        if from_a { &pair.a } else { &pair.b }.qp.disconnect().unwrap();
        let (own, peer) = (DisconnectReason::Local, DisconnectReason::Peer);
        let expected = if from_a { [own, peer] } else { [peer, own] };
        assert_eq!([end_of_a(&mut pair), end_of_b(&mut pair)], expected);
        pair.settle(Duration::from_secs(60));
        assert_eq!([pair.a.qp.state(), pair.b.qp.state()], [QpState::Error; 2]);
        assert_eq!(outcomes(&drain(&pair.a.cq)), [(1, Status::WorkRequestFlushed)]);
        assert_eq!(outcomes(&drain(&pair.b.cq)), [(2, Status::WorkRequestFlushed)]);
        assert_eq!([pair.a.events.next(), pair.b.events.next()], [None, None], "one event each");
        assert_eq!(pair.a.qp.disconnect(), Err(CmError::NotConnected));
        assert_eq!(pair.a.device.stack_counters().connections, 0);
        assert_eq!(pair.b.device.stack_counters().connections, 0);
    }
}

#[test]
fn both_sides_disconnect_at_once() {
    let mut pair = connected();
    pair.a.qp.disconnect().unwrap();
    pair.b.qp.disconnect().unwrap();
    // A second call while it closes changes nothing.
    assert_eq!(pair.a.qp.disconnect(), Ok(()));
    assert_eq!(
        [end_of_a(&mut pair), end_of_b(&mut pair)],
        [DisconnectReason::Local, DisconnectReason::Local]
    );
    pair.settle(Duration::from_secs(60));
    assert_eq!([pair.a.qp.state(), pair.b.qp.state()], [QpState::Error; 2]);
    assert_eq!([pair.a.events.next(), pair.b.events.next()], [None, None]);
}

#[test]
fn sends_before_a_disconnect_arrive() {
    let mut pair = connected();
    let target = pair.b.memory(100_000);
    let source = memory_of(&pair.a, &pattern(100_000, 6));
    let sges = [source.sge(0, 100_000)];
    let write = SendWr { opcode: write_to(&target, 0), data: Data::Sges(&sges), ..WR };
    pair.a.qp.post_send(&write).unwrap();
    pair.completion_of_a();
    pair.a.qp.disconnect().unwrap();
    assert_eq!(end_of_b(&mut pair), DisconnectReason::Peer);
    // A completed request is in TCP, and a graceful close delivers what is in TCP.
    assert!(contents(&target) == contents(&source));
}

#[test]
fn disconnect_during_a_transfer_from_either_side() {
    for from_a in [true, false] {
        let mut it = Traffic::new();
        if from_a { &it.pair.a } else { &it.pair.b }.qp.disconnect().unwrap();
        let ends = [end_of_a(&mut it.pair), end_of_b(&mut it.pair)];
        let (own, peer) = if from_a { (0, 1) } else { (1, 0) };
        assert_eq!(ends[own], DisconnectReason::Local);
        assert_eq!(ends[peer], DisconnectReason::Peer, "it closes between two FPDUs");
        it.pair.settle(Duration::from_secs(60));
        it.expect_flushed(&it.pair.a);
        it.expect_flushed(&it.pair.b);
        it.expect_beginnings();
    }
}

#[test]
fn disconnect_during_a_transfer_from_both_sides() {
    let mut it = Traffic::new();
    it.pair.a.qp.disconnect().unwrap();
    it.pair.b.qp.disconnect().unwrap();
    let ends = [end_of_a(&mut it.pair), end_of_b(&mut it.pair)];
    assert_eq!(ends, [DisconnectReason::Local, DisconnectReason::Local]);
    it.pair.settle(Duration::from_secs(60));
    it.expect_flushed(&it.pair.a);
    it.expect_flushed(&it.pair.b);
    it.expect_beginnings();
}

#[test]
fn a_queue_pair_is_destroyed_in_mid_transfer() {
    let mut it = Traffic::new();
    let fresh = qp_on(&it.pair.a, &it.pair.a.cq);
    let number = it.pair.a.qp.number();
    drop(core::mem::replace(&mut it.pair.a.qp, fresh));
    assert_eq!(end_of_b(&mut it.pair), DisconnectReason::Lost);
    it.expect_flushed(&it.pair.b);
    it.pair.settle(Duration::from_secs(60));
    it.expect_beginnings();
    // A destroyed queue pair causes no event, and its number is not used again soon.
    assert_eq!(it.pair.a.events.next(), None);
    assert!(drain(&it.pair.a.cq).iter().all(|c| c.qp_num == number && c.status == Status::Success));
    assert_eq!(it.pair.a.device.stack_counters().connections, 0);
    assert_ne!(qp_on(&it.pair.a, &it.pair.a.cq).number(), number);
}

#[test]
fn a_device_is_dropped_in_mid_transfer() {
    let it = Traffic::new();
    let Pair { a, b, lockstep, .. } = it.pair;
    let now = lockstep.now();
    let Side { events, cq, qp, pd, device } = a;
    drop((lockstep, events, cq, qp, pd, device));
    // Memory keeps its device open. No peer may access it any more, and none does.
    drop(it.regions);
    // The peer learns of the end, as of the end of a process.
    let mut at = now;
    for _ in 0..1000 {
        at = b.device.poll(at).map_or(at, |next| next.max(at));
    }
    let Some(CmEvent::Disconnected { reason, .. }) = b.events.next() else { panic!("no event") };
    assert_eq!(reason, DisconnectReason::Lost);
    assert!((at - now).secs() < 5, "by a reset, not by a time-out");
    assert_eq!(b.qp.state(), QpState::Error);
}

#[test]
fn everything_can_be_dropped_in_any_order() {
    for order in 0..6 {
        let Traffic { pair, regions } = Traffic::new();
        let Pair { a, b, mut lockstep, .. } = pair;
        let Side { events, cq, qp, pd, device } = a;
        let mut parts: Vec<Box<dyn core::any::Any>> =
            vec![Box::new(events), Box::new(cq), Box::new(qp), Box::new(pd), Box::new(device)];
        parts.rotate_left(order % 5);
        if order == 5 {
            parts.reverse();
        }
        for part in parts {
            drop(part);
            lockstep.step();
        }
        let deadline = lockstep.now() + Duration::from_secs(1);
        let end = lockstep.run_until(deadline, || b.events.next());
        assert!(matches!(end, Some(CmEvent::Disconnected { reason: DisconnectReason::Lost, .. })), "{end:?}");
        drop(regions);
    }
}

#[test]
fn a_silent_peer_is_given_up() {
    let pair = connected();
    let (source, target) = (pair.a.memory(8), pair.b.memory(8));
    let sges = [source.sge(0, 8)];
    pair.a
        .qp
        .post_sends(&[1, 2].map(|wr_id| SendWr {
            wr_id,
            opcode: read_from(&target, 0),
            data: Data::Sges(&sges),
            ..WR
        }))
        .unwrap();
    // From now on only one side is driven, as if the other one had crashed.
    let started = pair.lockstep.now();
    let mut now = started;
    let end = loop {
        if let Some(event) = pair.a.events.next() {
            break event;
        }
        let next = pair.a.device.poll(now);
        if let Some(event) = pair.a.events.next() {
            break event;
        }
        now = next.expect("TCP tries again").max(now);
    };
    assert!(matches!(end, CmEvent::Disconnected { reason: DisconnectReason::TimedOut, .. }), "{end:?}");
    // The clock of the own TCP is that of the test.
    let scale = if weft_netif::Tcp::default() == weft_netif::Tcp::Own { 1 } else { 4 };
    assert!((25 * scale..50 * scale).contains(&(now - started).secs()), "{}", now - started);
    assert_eq!(outcomes(&drain(&pair.a.cq)), [(1, Status::RetryExceeded), (2, Status::WorkRequestFlushed)]);
    assert_eq!(pair.b.device.counters().received.by_opcode[READ_REQUEST], 0);
}

/// The last message of a queue pair that behaves as one of InfiniBand is still in TCP when the queue pair is destroyed.
/// The message arrives, and the end behind it.
#[test]
fn the_last_message_of_a_queue_pair_like_infinibands_arrives_without_it() {
    let mut pair = Pair::new(&PairConfig::default());
    pair.a.qp.set_as_infiniband(true);
    pair.connect(false);
    let octets = pattern(100_000, 1);
    let (source, sink) = (memory_of(&pair.a, &octets), guarded(&pair.b, octets.len()));
    post_recv(&pair.b.qp, 100, &[sink.sge(0, 100_000)]);
    pair.a.qp.post_send(&SendWr { wr_id: 1, data: Data::Sges(&[source.sge(0, 100_000)]), ..WR }).unwrap();
    assert_eq!(outcomes(&[pair.completion_of_a()]), [(1, Status::Success)]);
    let fresh = qp_on(&pair.a, &pair.a.cq);
    drop(core::mem::replace(&mut pair.a.qp, fresh));
    assert_eq!(outcomes(&[pair.completion_of_b()]), [(100, Status::Success)]);
    assert_eq!(contents(&sink), octets);
    assert_eq!(end_of_b(&mut pair), DisconnectReason::Peer);
}
