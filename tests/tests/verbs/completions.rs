//! The requests that have completions, with their times and their order, and the effect of a full queue.

use weft_netif::Duration;
use weft_rnic::{
    Cause, CmError, CompletionOpcode, ConnParam, CqInit, Data, DisconnectReason, PostError, Qp, QpCapacity,
    QpInit, QpModify, QpState, RecvWr, SendWr, Status,
};

use weft_tests::{Pair, Side};

use crate::world::{
    CAPACITY, WR, WRITE, connected, connected_with, drain, end_of_a, end_of_b, link_simply, outcomes,
    post_recv, qp_on, read_from, terminate_code, write_to,
};

#[test]
fn one_for_each_signaled_request_in_the_order_of_posting() {
    let mut pair = connected();
    let (ma, mb) = (pair.a.memory(40_000), pair.b.memory(40_000));
    let mut expected = Vec::new();
    for wr_id in 0..60 {
        let signaled = wr_id % 3 != 1;
        let sges = [ma.sge(0, 1 + 613 * u32::try_from(wr_id).unwrap())];
        let (opcode, kind) = match wr_id % 4 {
            0 => (read_from(&mb, 0), CompletionOpcode::Read),
            1 => (write_to(&mb, 0), CompletionOpcode::Write),
            2 => (WR.opcode, CompletionOpcode::Send),
            _ => (read_from(&mb, 5), CompletionOpcode::Read),
        };
        if kind == CompletionOpcode::Send {
            post_recv(&pair.b.qp, wr_id, &[mb.sge(0, 40_000)]);
        }
        let wr = SendWr { wr_id, opcode, signaled, data: Data::Sges(&sges), ..WR };
        pair.a.qp.post_send(&wr).unwrap();
        let byte_len = if kind == CompletionOpcode::Read { sges[0].length } else { 0 };
        expected.extend(signaled.then_some((wr_id, kind, Status::Success, byte_len, pair.a.qp.number())));
    }
    pair.settle(Duration::from_secs(10));
    let seen: Vec<_> =
        drain(&pair.a.cq).iter().map(|c| (c.wr_id, c.opcode, c.status, c.byte_len, c.qp_num)).collect();
    assert_eq!(seen, expected);
    let received: Vec<_> = drain(&pair.b.cq).iter().map(|c| (c.wr_id, c.opcode, c.byte_len)).collect();
    let sends = (0..60).filter(|wr_id| wr_id % 4 == 2);
    let sends = sends.map(|wr_id| (wr_id, CompletionOpcode::Recv, 1 + 613 * u32::try_from(wr_id).unwrap()));
    assert_eq!(received, sends.collect::<Vec<_>>());
}

#[test]
fn a_write_behind_a_read_is_done_first_and_reported_second() {
    let mut pair = connected();
    let (ma, mb) = (pair.a.memory(1 << 20), pair.b.memory(1 << 20));
    let long = [ma.sge(0, 1 << 20)];
    let short = [ma.sge(0, 1)];
    let read = SendWr { wr_id: 1, opcode: read_from(&mb, 0), data: Data::Sges(&long), ..WR };
    let write = SendWr { wr_id: 2, opcode: write_to(&mb, 0), data: Data::Sges(&short), ..WR };
    pair.a.qp.post_sends(&[read, write, SendWr { wr_id: 3, ..write }]).unwrap();
    let (b, cq) = (pair.b.device.clone(), pair.a.cq.clone());
    let before = b.counters().received.by_opcode[WRITE];
    pair.wait(|| (b.counters().received.by_opcode[WRITE] == before + 2).then_some(())).unwrap();
    assert!(cq.poll_one().is_none(), "both Writes have arrived while the Read is still outstanding");
    pair.settle(Duration::from_secs(1));
    assert_eq!(outcomes(&drain(&cq)), [1, 2, 3].map(|wr_id| (wr_id, Status::Success)));
}

#[test]
fn an_unsignaled_request_that_fails_is_reported() {
    let mut pair = connected();
    let other = pair.a.device.alloc_pd().register(8, weft_rnic::Access::ALL).unwrap();
    let bad = [other.sge(0, 8)];
    for wr_id in 0..3 {
        let data = if wr_id == 1 { Data::Sges(&bad) } else { Data::Inline(b"") };
        post_recv(&pair.b.qp, wr_id, &[]);
        pair.a.qp.post_send(&SendWr { wr_id, signaled: false, data, ..WR }).unwrap();
    }
    pair.settle(Duration::from_secs(1));
    assert_eq!(outcomes(&drain(&pair.a.cq)), [(1, Status::LocalProtection), (2, Status::WorkRequestFlushed)]);
}

#[test]
fn signal_all_reports_everything() {
    let mut pair = connected();
    let init = QpInit { capacity: CAPACITY, signal_all: true, ..QpInit::new(&pair.a.cq, &pair.a.cq) };
    let (a, b) = (pair.a.device.create_qp(&pair.a.pd, &init).unwrap(), qp_on(&pair.b, &pair.b.cq));
    link_simply(&mut pair, &a, &b);
    for wr_id in 0..10 {
        post_recv(&b, wr_id, &[]);
        a.post_send(&SendWr { wr_id, signaled: wr_id == 4, ..WR }).unwrap();
    }
    pair.settle(Duration::from_secs(1));
    let all: Vec<_> = (0..10).map(|wr_id| (wr_id, Status::Success)).collect();
    assert_eq!(outcomes(&drain(&pair.a.cq)), all);
}

#[test]
fn unsignaled_requests_are_freed_with_the_next_signaled_one() {
    let capacity = QpCapacity { send_wr: 4, recv_wr: 4, ..CAPACITY };
    let mut pair = connected_with(capacity);
    let mb = pair.b.memory(8);
    let write = SendWr { opcode: write_to(&mb, 0), data: Data::Inline(b"12345678"), signaled: false, ..WR };
    let last = SendWr { signaled: true, ..write };
    let before = pair.b.device.counters().received.by_opcode[WRITE];
    for _ in 0..25 {
        assert_eq!(pair.a.qp.post_sends(&[write, write, write, last, write]), Err((4, PostError::QueueFull)));
        pair.settle(Duration::from_millis(200));
        assert_eq!(pair.a.qp.post_send(&write), Err(PostError::QueueFull), "done, and nobody has polled");
        assert_eq!(drain(&pair.a.cq).len(), 1);
    }
    assert_eq!(pair.b.device.counters().received.by_opcode[WRITE] - before, 100);
    for wr_id in 0..4 {
        post_recv(&pair.b.qp, wr_id, &[]);
    }
    assert_eq!(pair.b.qp.post_recv(&RecvWr { wr_id: 9, sges: &[] }), Err(PostError::QueueFull));
}

/// Requests whose completions are not polled. Their queue ignores overruns, and frees their places when they are
/// done.
#[test]
fn with_a_queue_that_ignores_overruns_no_poll_is_needed() {
    let capacity = QpCapacity { send_wr: 4, recv_wr: 4, ..CAPACITY };
    let mut pair = connected();
    let init = CqInit { ignore_overrun: true, ..CqInit::new(1) };
    let quiet = [&pair.a, &pair.b].map(|side| side.device.create_cq_with(&init).unwrap());
    let qp = |side: &Side, cq| {
        side.device.create_qp(&side.pd, &QpInit { capacity, ..QpInit::new(cq, cq) }).unwrap()
    };
    let (a, b) = (qp(&pair.a, &quiet[0]), qp(&pair.b, &quiet[1]));
    link_simply(&mut pair, &a, &b);
    for round in 0..25 {
        (0..4).for_each(|wr_id| post_recv(&b, wr_id, &[]));
        assert_eq!(b.post_recv(&RecvWr { wr_id: 9, sges: &[] }), Err(PostError::QueueFull));
        assert_eq!(
            a.post_sends(&[SendWr { signaled: round % 2 == 0, ..WR }; 5]),
            Err((4, PostError::QueueFull))
        );
        pair.settle(Duration::from_millis(200));
    }
    assert_eq!((a.state(), b.state()), (QpState::Rts, QpState::Rts));
}

/// A completion queue that holds as many completions as its work queues hold requests.
#[test]
fn posting_until_the_queues_are_full_overruns_nothing() {
    let mut pair = connected();
    let capacity = QpCapacity { send_wr: 64, ..CAPACITY };
    let cq = pair.a.device.create_cq(256, None).unwrap();
    let mb = pair.b.memory(8);
    let links: [Qp; 4] = core::array::from_fn(|_| {
        let a = pair.a.device.create_qp(&pair.a.pd, &QpInit { capacity, ..QpInit::new(&cq, &cq) }).unwrap();
        let b = qp_on(&pair.b, &pair.b.cq);
        link_simply(&mut pair, &a, &b);
        // It is not needed any more, but its drop would end the connection.
        core::mem::forget(b);
        a
    });
    let write = SendWr { opcode: write_to(&mb, 0), data: Data::Inline(b"12345678"), ..WR };
    let mut posted = 0;
    for _ in 0..8 {
        for qp in &links {
            posted += (0..1000).take_while(|_| qp.post_send(&write).is_ok()).count();
        }
        pair.settle(Duration::from_millis(200));
    }
    assert_eq!((posted, cq.is_overrun()), (256, false));
    assert_eq!(drain(&cq).len(), 256);
    assert!(links.iter().all(|qp| qp.state() == QpState::Rts));
}

#[test]
fn a_place_behind_an_outstanding_read_is_not_free() {
    let capacity = QpCapacity { send_wr: 2, ..CAPACITY };
    let mut pair = connected_with(capacity);
    let (ma, mb) = (pair.a.memory(1 << 20), pair.b.memory(1 << 20));
    let sges = [ma.sge(0, 1 << 20)];
    let read = SendWr { wr_id: 1, opcode: read_from(&mb, 0), data: Data::Sges(&sges), ..WR };
    let write = SendWr { wr_id: 2, opcode: write_to(&mb, 0), data: Data::Inline(b"x"), ..WR };
    pair.a.qp.post_sends(&[read, write]).unwrap();
    let b = pair.b.device.clone();
    let before = b.counters().received.by_opcode[WRITE];
    pair.wait(|| (b.counters().received.by_opcode[WRITE] == before + 1).then_some(())).unwrap();
    assert_eq!(pair.a.qp.post_send(&write), Err(PostError::QueueFull));
    assert_eq!(pair.completion_of_a().wr_id, 1);
    assert_eq!(pair.a.qp.post_send(&write), Ok(()));
}

#[test]
fn requests_that_are_refused_leave_nothing_behind() {
    let pair = connected();
    let memory = pair.a.memory(8);
    let many = [memory.sge(0, 0); 17];
    let refused = [
        (SendWr { data: Data::Sges(&many), ..WR }, PostError::TooManySges),
        (SendWr { data: Data::Inline(&[0; 257]), ..WR }, PostError::InlineTooLong),
        (SendWr { opcode: read_from(&memory, 0), data: Data::Inline(b"x"), ..WR }, PostError::BadFlags),
        (SendWr { opcode: write_to(&memory, 0), solicited: true, ..WR }, PostError::BadFlags),
        (SendWr { opcode: read_from(&memory, 0), solicited: true, ..WR }, PostError::BadFlags),
    ];
    for (wr, error) in refused {
        assert_eq!(pair.a.qp.post_send(&wr), Err(error), "{wr:?}");
    }
    let too_long = [memory.sge(0, u32::MAX), memory.sge(0, 1)];
    assert_eq!(pair.a.qp.post_send(&SendWr { data: Data::Sges(&too_long), ..WR }), Err(PostError::TooLong));
    assert_eq!(pair.a.qp.post_recv(&RecvWr { wr_id: 1, sges: &too_long }), Err(PostError::TooLong));
    assert_eq!(pair.a.qp.post_recv(&RecvWr { wr_id: 1, sges: &many }), Err(PostError::TooManySges));
    pair.a.device.poll(pair.lockstep.now());
    assert_eq!(drain(&pair.a.cq), []);
    assert_eq!(pair.a.qp.state(), QpState::Rts);
}

#[test]
fn a_destroyed_queue_pair_leaves_no_completions_to_the_next_one() {
    let mut pair = connected();
    let capacity = QpCapacity { send_wr: 64, ..CAPACITY };
    let cq = pair.a.device.create_cq(64, None).unwrap();
    let create = |pair: &Pair| {
        let init = QpInit { capacity, ..QpInit::new(&cq, &pair.a.cq) };
        pair.a.device.create_qp(&pair.a.pd, &init).unwrap()
    };
    let mb = pair.b.memory(8);
    let write = SendWr { opcode: write_to(&mb, 0), data: Data::Inline(b"12345678"), ..WR };
    let old = create(&pair);
    old.modify(&QpModify { state: Some(QpState::Error), ..QpModify::default() }).unwrap();
    assert_eq!((0..1000).take_while(|_| old.post_send(&write).is_ok()).count(), 64);
    pair.settle(Duration::from_millis(200));
    drop(old);
    let (new, b) = (create(&pair), qp_on(&pair.b, &pair.b.cq));
    link_simply(&mut pair, &new, &b);
    assert_eq!((0..1000).take_while(|_| new.post_send(&write).is_ok()).count(), 64);
    pair.settle(Duration::from_secs(1));
    assert_eq!((cq.is_overrun(), new.state()), (false, QpState::Rts));
    let seen: Vec<_> = drain(&cq).iter().map(|c| (c.qp_num, c.status)).collect();
    assert_eq!(seen, [(new.number(), Status::Success); 64]);
}

#[test]
fn an_overrun_takes_all_queue_pairs_of_the_queue_down() {
    let mut pair = connected();
    let small = pair.a.device.create_cq(4, None).unwrap();
    let (a, idle) = (qp_on(&pair.a, &small), qp_on(&pair.a, &small));
    let (b, other) = (qp_on(&pair.b, &pair.b.cq), qp_on(&pair.b, &pair.b.cq));
    link_simply(&mut pair, &a, &b);
    link_simply(&mut pair, &idle, &other);
    // Afterwards only the overrun makes the engine look at the idle one.
    pair.settle(Duration::from_secs(1));
    let mb = pair.b.memory(1);
    for wr_id in 0..5 {
        let write = SendWr { wr_id, opcode: write_to(&mb, 0), data: Data::Inline(b"x"), ..WR };
        a.post_send(&write).unwrap();
    }
    let overrun = DisconnectReason::LocalTerminate(Cause::CompletionQueueOverrun);
    assert_eq!([end_of_a(&mut pair), end_of_a(&mut pair)], [overrun.clone(), overrun]);
    for _ in 0..2 {
        // The peer made no error, so the Terminate to it names no message.
        assert_eq!(terminate_code(&end_of_b(&mut pair)), (0x0, 0x0, 0x00));
    }
    assert!(small.is_overrun());
    assert_eq!(outcomes(&drain(&small)), [0, 1, 2, 3].map(|wr_id| (wr_id, Status::Success)));
    pair.settle(Duration::from_secs(60));
    let states = [&a, &idle, &b, &other].map(|qp| qp.state());
    assert_eq!(states, [QpState::Error; 4]);
    assert_eq!([pair.a.qp.state(), pair.b.qp.state()], [QpState::Rts; 2], "its queue is another one");
    assert_eq!(pair.b.device.counters().terminates, 0);
    // A fresh queue pair gets no connection with it either.
    let (fresh, remote) = (qp_on(&pair.a, &small), pair.address_of_b());
    let connected = pair.a.device.connect(&pair.a.events, &fresh, remote, ConnParam::default());
    assert_eq!(connected, Err(CmError::CompletionQueueOverrun));
}
