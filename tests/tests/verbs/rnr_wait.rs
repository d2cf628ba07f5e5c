//! `rnr_wait`: a message without a receive waits instead of ending the stream, with all later messages.

use weft_netif::Duration;
use weft_rnic::{
    Cause, CmEvent, Data, DisconnectReason, PostError, Progress, Qp, QpInit, QpState, RecvWr, SendOpcode,
    SendWr, Srq, SrqInit, Status,
};
use weft_tests::{Pair, PairConfig};

use crate::threads::Ends;
use crate::world::{
    CAPACITY, GUARD, WR, contents, drain, end_of_a, end_of_b, guarded, len32, link_simply, memory_of,
    outcomes, pattern, post_recv, qp_on, read_from, write_to,
};

fn waiting_pair() -> Pair {
    let config = PairConfig {
        capacity: CAPACITY,
        peer_to_peer: true,
        tcp_buffer: 64 * 1024,
        rnr_wait: true,
        ..PairConfig::default()
    };
    let mut pair = Pair::connected(&config);
    pair.settle(Duration::from_millis(1));
    pair
}

fn send(qp: &Qp, wr_id: u64, octets: &[u8]) {
    qp.post_send(&SendWr { wr_id, data: Data::Inline(octets), ..WR }).unwrap();
}

/// Far longer than any timeout of TCP or startup.
const LONG: Duration = Duration::from_secs(1800);

#[test]
fn a_sender_is_slowed_to_the_pace_of_the_receives() {
    const LEN: usize = 100_000;
    let mut pair = waiting_pair();
    let texts: Vec<_> = (0..8).map(|seed| pattern(LEN, seed)).collect();
    let sources: Vec<_> = texts.iter().map(|text| memory_of(&pair.a, text)).collect();
    for (wr_id, source) in (0..).zip(&sources) {
        let sges = [source.sge(0, len32(LEN))];
        pair.a.qp.post_send(&SendWr { wr_id, data: Data::Sges(&sges), ..WR }).unwrap();
    }
    pair.settle(LONG);
    let done = outcomes(&drain(&pair.a.cq));
    assert_eq!(done, [(0, Status::Success)], "both TCP buffers together do not hold two of the messages");
    let before = pair.b.device.stack_counters().frames_in;
    pair.settle(LONG);
    assert!(pair.b.device.stack_counters().frames_in > before, "the closed window is probed");
    assert_eq!([pair.a.qp.state(), pair.b.qp.state()], [QpState::Rts; 2]);
    let inbox = guarded(&pair.b, LEN + 1);
    for (wr_id, text) in (0..).zip(&texts) {
        inbox.write(0, &[GUARD; LEN + 1]).unwrap();
        post_recv(&pair.b.qp, wr_id, &[inbox.sge(0, len32(LEN + 1))]);
        assert_eq!(outcomes(&[pair.completion_of_b()]), [(wr_id, Status::Success)]);
        assert!(contents(&inbox) == [&text[..], &[GUARD]].concat());
        pair.settle(LONG);
    }
    assert_eq!(outcomes(&drain(&pair.a.cq)), [1, 2, 3, 4, 5, 6, 7].map(|wr_id| (wr_id, Status::Success)));
}

#[test]
fn later_messages_wait_too_and_the_other_direction_does_not() {
    let mut pair = waiting_pair();
    let (target, source) = (guarded(&pair.b, 8), memory_of(&pair.b, b"readable"));
    let (sink, inbox) = (guarded(&pair.a, 8), guarded(&pair.a, 8));
    send(&pair.a.qp, 1, b"first");
    let write = SendWr { wr_id: 2, opcode: write_to(&target, 0), data: Data::Inline(b"written!"), ..WR };
    pair.a.qp.post_send(&write).unwrap();
    let data = [sink.sge(0, 8)];
    let read = SendWr { wr_id: 3, opcode: read_from(&source, 0), data: Data::Sges(&data), ..WR };
    pair.a.qp.post_send(&read).unwrap();
    let immediate = SendWr { wr_id: 4, opcode: SendOpcode::Immediate { data: *b"immediat" }, ..WR };
    pair.a.qp.post_send(&immediate).unwrap();
    post_recv(&pair.a.qp, 9, &[inbox.sge(0, 8)]);
    send(&pair.b.qp, 8, b"answer");
    pair.settle(LONG);
    assert_eq!(contents(&target), [GUARD; 8]);
    assert_eq!(&contents(&inbox)[..6], b"answer");
    let so_far = outcomes(&drain(&pair.a.cq));
    assert_eq!(so_far, [(1, Status::Success), (2, Status::Success), (9, Status::Success)]);
    assert_eq!(outcomes(&drain(&pair.b.cq)), [(8, Status::Success)]);

    post_recv(&pair.b.qp, 5, &[]);
    pair.settle(Duration::from_secs(1));
    let too_long = Cause::Peer(weft_ddp::Error::TooLong.into());
    assert_eq!(end_of_b(&mut pair), DisconnectReason::LocalTerminate(too_long));
    assert_eq!(outcomes(&drain(&pair.b.cq)), [(5, Status::LocalLength)]);
}

#[test]
fn messages_of_all_kinds_go_on_in_their_order() {
    let mut pair = waiting_pair();
    let (target, source) = (guarded(&pair.b, 8), memory_of(&pair.b, b"readable"));
    let (sink, inbox) = (guarded(&pair.a, 8), guarded(&pair.b, 16));
    let data = [sink.sge(0, 8)];
    send(&pair.a.qp, 1, b"");
    let rest = [
        SendWr { wr_id: 2, opcode: write_to(&target, 0), data: Data::Inline(b"written!"), ..WR },
        SendWr { wr_id: 3, opcode: SendOpcode::Immediate { data: *b"immediat" }, ..WR },
        SendWr { wr_id: 4, opcode: read_from(&source, 0), data: Data::Sges(&data), ..WR },
        SendWr { wr_id: 5, data: Data::Inline(b"last"), solicited: true, ..WR },
    ];
    pair.a.qp.post_sends(&rest).unwrap();
    pair.settle(LONG);
    assert_eq!((contents(&target), drain(&pair.b.cq)), (vec![GUARD; 8], vec![]));
    post_recv(&pair.b.qp, 11, &[]);
    pair.settle(LONG);
    assert_eq!(contents(&target), b"written!");
    assert_eq!(
        (contents(&sink), outcomes(&drain(&pair.b.cq))),
        (vec![GUARD; 8], vec![(11, Status::Success)])
    );
    post_recv(&pair.b.qp, 12, &[]);
    pair.settle(LONG);
    let received = drain(&pair.b.cq);
    assert_eq!((received.len(), received[0].wr_id, received[0].immediate), (1, 12, Some(*b"immediat")));
    assert_eq!(contents(&sink), b"readable");
    post_recv(&pair.b.qp, 13, &[inbox.sge(0, 16)]);
    let last = pair.completion_of_b();
    assert_eq!((last.wr_id, last.byte_len, last.solicited), (13, 4, true));
    assert_eq!(outcomes(&drain(&pair.a.cq)), [1, 2, 3, 4, 5].map(|wr_id| (wr_id, Status::Success)));
}

#[test]
fn the_peers_close_comes_behind_the_message() {
    let mut pair = waiting_pair();
    let inbox = guarded(&pair.b, 8);
    send(&pair.a.qp, 1, b"farewell");
    pair.settle(Duration::from_millis(10));
    pair.a.qp.disconnect().unwrap();
    pair.settle(Duration::from_secs(5));
    assert_eq!((pair.b.qp.state(), pair.b.events.next()), (QpState::Rts, None));
    post_recv(&pair.b.qp, 2, &[inbox.sge(0, 8)]);
    assert_eq!(outcomes(&[pair.completion_of_b()]), [(2, Status::Success)]);
    assert_eq!([end_of_b(&mut pair), end_of_a(&mut pair)], [DisconnectReason::Peer, DisconnectReason::Local]);
    assert_eq!(contents(&inbox), b"farewell");
}

#[test]
fn a_lost_peer_and_an_own_close_end_the_wait() {
    // The peer resets.
    let mut pair = waiting_pair();
    send(&pair.a.qp, 1, b"lost");
    pair.settle(Duration::from_secs(1));
    let other = qp_on(&pair.a, &pair.a.cq);
    drop(core::mem::replace(&mut pair.a.qp, other));
    assert_eq!(end_of_b(&mut pair), DisconnectReason::Lost);
    post_recv(&pair.b.qp, 2, &[]);
    pair.settle(Duration::from_secs(1));
    assert_eq!(outcomes(&drain(&pair.b.cq)), [(2, Status::WorkRequestFlushed)]);

    // This side disconnects: waiting messages are dropped.
    let mut pair = waiting_pair();
    send(&pair.a.qp, 1, b"unread");
    pair.settle(Duration::from_secs(1));
    pair.b.qp.disconnect().unwrap();
    assert_eq!(end_of_a(&mut pair), DisconnectReason::Peer);
    assert_eq!(end_of_b(&mut pair), DisconnectReason::Local);
    pair.settle(Duration::from_secs(60));
    assert_eq!(([pair.a.qp.state(), pair.b.qp.state()], drain(&pair.b.cq)), ([QpState::Error; 2], vec![]));

    // This side is destroyed.
    let mut pair = waiting_pair();
    send(&pair.a.qp, 1, b"unread");
    pair.settle(Duration::from_secs(1));
    let other = qp_on(&pair.b, &pair.b.cq);
    drop(core::mem::replace(&mut pair.b.qp, other));
    assert_eq!(end_of_a(&mut pair), DisconnectReason::Lost);
}

/// Queue pairs of `b` that wait for receives of one shared queue, with their peers.
fn shared(pair: &mut Pair, srq: &Srq, count: usize) -> Vec<(Qp, Qp)> {
    (0..count)
        .map(|_| {
            let init = QpInit { srq: Some(srq), rnr_wait: true, ..QpInit::new(&pair.b.cq, &pair.b.cq) };
            let (a, b) = (qp_on(&pair.a, &pair.a.cq), pair.b.device.create_qp(&pair.b.pd, &init).unwrap());
            link_simply(pair, &a, &b);
            (a, b)
        })
        .collect()
}

const SRQ: SrqInit = SrqInit { max_wr: 64, max_sge: 1, limit: 0 };

#[test]
fn all_that_wait_for_a_shared_queue_are_served_in_turn() {
    let mut pair = Pair::new(&PairConfig::default());
    let srq = pair.b.pd.create_srq(&SRQ).unwrap();
    let qps = shared(&mut pair, &srq, 10);
    let memory = pair.b.memory(16);
    let recv = |wr_id| srq.post_recv(&RecvWr { wr_id, sges: &[memory.sge(0, 16)] }).unwrap();
    for (a, _) in &qps {
        (0..3).for_each(|wr_id| send(a, wr_id, b"message"));
        pair.settle(Duration::from_millis(1));
    }
    pair.settle(LONG);
    assert_eq!(drain(&pair.b.cq), []);
    // One at a time: the message that has waited longest goes first.
    let numbers: Vec<_> = qps.iter().map(|(_, b)| b.number()).collect();
    for round in 0..3 {
        let mut served: Vec<_> = (0..10)
            .map(|wr_id| {
                recv(wr_id);
                pair.settle(Duration::from_millis(1));
                let done = drain(&pair.b.cq);
                assert_eq!((done.len(), done[0].wr_id), (1, wr_id));
                done[0].qp_num
            })
            .collect();
        served.sort_unstable();
        assert_eq!(served, numbers, "round {round}: none comes twice before all have come");
    }
    // All at once.
    for (a, _) in &qps {
        send(a, 5, b"message");
    }
    pair.settle(LONG);
    (0..10).for_each(recv);
    pair.settle(Duration::from_millis(1));
    let mut served: Vec<_> = drain(&pair.b.cq).iter().map(|completion| completion.qp_num).collect();
    served.sort_unstable();
    assert_eq!(served, numbers);
}

#[test]
fn a_request_is_not_lost_with_a_queue_pair_that_waited_for_it() {
    let mut pair = Pair::new(&PairConfig::default());
    let srq = pair.b.pd.create_srq(&SRQ).unwrap();
    let mut qps = shared(&mut pair, &srq, 4);
    let memory = pair.b.memory(16);
    let recv = |wr_id| srq.post_recv(&RecvWr { wr_id, sges: &[memory.sge(0, 16)] }).unwrap();
    for (a, _) in &qps {
        send(a, 0, b"message");
        pair.settle(Duration::from_millis(1));
    }
    // The first one's doorbell has rung, but the engine never handles it.
    recv(1);
    drop(qps.remove(0));
    pair.settle(Duration::from_millis(1));
    let done = drain(&pair.b.cq);
    assert_eq!((done[0].wr_id, done[0].qp_num), (1, qps[0].1.number()));
    // The next one has begun to close.
    qps[1].1.disconnect().unwrap();
    recv(2);
    pair.settle(Duration::from_millis(1));
    let done = drain(&pair.b.cq);
    assert_eq!((done[0].wr_id, done[0].qp_num), (2, qps[2].1.number()));
    recv(3);
    pair.settle(LONG);
    assert_eq!(drain(&pair.b.cq), [], "nobody waits any more");
    while let Some(event) = pair.b.events.next() {
        assert!(matches!(event, CmEvent::Disconnected { .. }));
    }
}

#[test]
fn off_by_default() {
    let mut pair = crate::world::connected();
    send(&pair.a.qp, 1, b"too early");
    assert!(matches!(end_of_b(&mut pair), DisconnectReason::LocalTerminate(_)));
    assert_eq!(crate::world::terminate_code(&end_of_a(&mut pair)), (1, 2, 2));
}

/// Threads race: messages come as fast as possible, receives are posted one by one. Each post may be the one that a
/// message has just begun to wait for.
#[test]
fn no_wake_up_is_lost_between_threads() {
    const COUNT: u64 = 3000;
    let ends = Ends::new(Progress::Thread, Progress::Thread);
    for is_shared in [false, true] {
        let srq = ends.b.pd.create_srq(&SRQ).unwrap();
        let plain = QpInit { rnr_wait: true, ..QpInit::new(&ends.b.cq, &ends.b.cq) };
        let init = QpInit { srq: is_shared.then_some(&srq), ..plain };
        let b = ends.b.device.create_qp(&ends.b.pd, &init).unwrap();
        let a = ends.link_to(&b);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for wr_id in 0..COUNT {
                    while a.post_send(&SendWr { wr_id, ..WR }) == Err(PostError::QueueFull) {
                        drain(&ends.a.cq);
                        std::thread::yield_now();
                    }
                }
            });
            for wr_id in 0..COUNT {
                let wr = RecvWr { wr_id, sges: &[] };
                if is_shared {
                    srq.post_recv(&wr).unwrap()
                } else {
                    b.post_recv(&wr).unwrap()
                }
                assert_eq!(outcomes(&[ends.b.completion()]), [(wr_id, Status::Success)]);
            }
        });
    }
}
