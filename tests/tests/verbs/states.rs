//! The state table of a queue pair, seen by an application.

use weft_rnic::{
    CmError, CmEvent, ConnParam, Data, DisconnectReason, PostError, QpState, RecvWr, SendWr, Status,
};
use weft_tests::{PORT, Pair, PairConfig};

use crate::world::{WR, connected, drain, end_of_a, end_of_b, outcomes, post_recv, qp_on};

/// Posts requests that can only be flushed to both queues, some unsignaled, and lets the engine run once.
fn expect_flush_at_once(pair: &Pair) {
    let now = pair.lockstep.now();
    for wr_id in 0..4 {
        let signaled = wr_id % 2 == 0;
        pair.a.qp.post_send(&SendWr { wr_id, signaled, data: Data::Inline(b"late"), ..WR }).unwrap();
        post_recv(&pair.a.qp, 10 + wr_id, &[]);
    }
    pair.a.device.poll(now);
    let flushed = Status::WorkRequestFlushed;
    let all = [0, 1, 2, 3, 10, 11, 12, 13].map(|wr_id| (wr_id, flushed));
    assert_eq!(outcomes(&drain(&pair.a.cq)), all, "in {}", pair.a.qp.state());
}

#[test]
fn idle_takes_receives_and_refuses_sends() {
    let mut pair = Pair::new(&PairConfig::default());
    assert_eq!(pair.a.qp.state(), QpState::Idle);
    assert_eq!(pair.a.qp.post_send(&WR), Err(PostError::InvalidState));
    let memory = pair.b.memory(8);
    post_recv(&pair.b.qp, 7, &[memory.sge(0, 8)]);
    pair.connect(false);
    assert_eq!([pair.a.qp.state(), pair.b.qp.state()], [QpState::Rts; 2]);
    // The request that was refused in Idle is not sent later.
    pair.a.qp.post_send(&SendWr { wr_id: 1, data: Data::Inline(b"received"), ..WR }).unwrap();
    assert_eq!(
        outcomes(&[pair.completion_of_a(), pair.completion_of_b()]),
        [(1, Status::Success), (7, Status::Success)]
    );
    let mut octets = [0; 8];
    memory.read(0, &mut octets).unwrap();
    assert_eq!(&octets, b"received");
}

#[test]
fn connecting_is_still_idle() {
    let pair = Pair::new(&PairConfig::default());
    pair.a.device.connect(&pair.a.events, &pair.a.qp, pair.address_of_b(), ConnParam::default()).unwrap();
    assert_eq!(pair.a.qp.state(), QpState::Idle);
    assert_eq!(pair.a.qp.post_send(&WR), Err(PostError::InvalidState));
    assert_eq!(pair.a.qp.post_recv(&RecvWr { wr_id: 1, sges: &[] }), Ok(()));
}

#[test]
fn closing_flushes_at_once() {
    let mut pair = connected();
    pair.a.qp.disconnect().unwrap();
    assert_eq!(pair.a.qp.state(), QpState::Closing);
    expect_flush_at_once(&pair);
    assert_eq!(pair.a.qp.state(), QpState::Closing, "the peer cannot have answered yet");
    assert_eq!(end_of_a(&mut pair), DisconnectReason::Local);
    assert_eq!(end_of_b(&mut pair), DisconnectReason::Peer);
    assert_eq!(pair.a.qp.state(), QpState::Error);
    expect_flush_at_once(&pair);
}

#[test]
fn terminate_flushes_at_once() {
    let mut pair = connected();
    let elsewhere = pair.a.memory(1);
    let gone = elsewhere.sge(0, 1);
    drop(elsewhere);
    pair.a.qp.post_send(&SendWr { wr_id: 9, data: Data::Sges(&[gone]), ..WR }).unwrap();
    pair.a.device.poll(pair.lockstep.now());
    assert_eq!(pair.a.qp.state(), QpState::Terminate);
    assert_eq!(outcomes(&drain(&pair.a.cq)), [(9, Status::LocalProtection)]);
    expect_flush_at_once(&pair);
    // The peer has received the Terminate: its queue pair flushes too, and ends in Error.
    end_of_b(&mut pair);
    assert!(matches!(pair.b.qp.state(), QpState::Terminate | QpState::Error));
    post_recv(&pair.b.qp, 5, &[]);
    pair.b.device.poll(pair.lockstep.now());
    assert_eq!(outcomes(&drain(&pair.b.cq)), [(5, Status::WorkRequestFlushed)]);
    pair.settle(weft_netif::Duration::from_secs(60));
    assert_eq!([pair.a.qp.state(), pair.b.qp.state()], [QpState::Error; 2]);
    expect_flush_at_once(&pair);
}

#[test]
fn requests_posted_before_the_end_are_flushed_in_order() {
    let mut pair = connected();
    let (ma, mb) = (pair.a.memory(1 << 20), pair.b.memory(1 << 20));
    for wr_id in 0..6 {
        let signaled = wr_id != 3;
        let (opcode, data) = (crate::world::read_from(&mb, 0), [ma.sge(0, 1 << 20)]);
        pair.a.qp.post_send(&SendWr { wr_id, opcode, signaled, data: Data::Sges(&data), ..WR }).unwrap();
        post_recv(&pair.a.qp, 20 + wr_id, &[]);
    }
    // Some Reads are outstanding now, and none is answered in full.
    pair.settle(weft_netif::Duration::from_micros(1));
    assert!(pair.a.device.counters().sent.by_opcode[crate::world::READ_REQUEST] > 0);
    pair.a.qp.disconnect().unwrap();
    pair.a.device.poll(pair.lockstep.now());
    let all = [0, 1, 2, 3, 4, 5, 20, 21, 22, 23, 24, 25].map(|wr_id| (wr_id, Status::WorkRequestFlushed));
    assert_eq!(outcomes(&drain(&pair.a.cq)), all);
    end_of_a(&mut pair);
    assert_eq!(outcomes(&drain(&pair.a.cq)), []);
}

#[test]
fn a_queue_pair_is_connected_only_once() {
    let mut pair = Pair::new(&PairConfig::default());
    let remote = pair.address_of_b();
    let connect =
        |pair: &Pair| pair.a.device.connect(&pair.a.events, &pair.a.qp, remote, ConnParam::default());
    assert_eq!(pair.a.qp.disconnect(), Err(CmError::NotConnected));
    assert_eq!(connect(&pair), Ok(()));
    assert_eq!(connect(&pair), Err(CmError::QpBusy), "while connecting");
    let CmEvent::ConnectRequest(first) = pair.event_of_b() else { panic!("no request") };
    pair.b.device.accept(first.id, &pair.b.qp, ConnParam::default()).unwrap();
    assert!(matches!(pair.event_of_a(), CmEvent::Established { .. }));
    assert!(matches!(pair.event_of_b(), CmEvent::Established { .. }));
    assert_eq!(connect(&pair), Err(CmError::QpBusy), "while connected");

    // The accepting side: a busy queue pair does not use up the request.
    let second = qp_on(&pair.a, &pair.a.cq);
    pair.a.device.connect(&pair.a.events, &second, remote, ConnParam::default()).unwrap();
    let CmEvent::ConnectRequest(request) = pair.event_of_b() else { panic!("no request") };
    assert_eq!(pair.b.device.accept(request.id, &pair.b.qp, ConnParam::default()), Err(CmError::QpBusy));
    let fresh = qp_on(&pair.b, &pair.b.cq);
    assert_eq!(pair.b.device.accept(request.id, &fresh, ConnParam::default()), Ok(()));
    let CmEvent::Established { qp_num, .. } = pair.event_of_a() else { panic!("not established") };
    assert_eq!(qp_num, second.number());
    assert!(matches!(pair.event_of_b(), CmEvent::Established { .. }));

    pair.a.qp.disconnect().unwrap();
    assert_eq!(end_of_a(&mut pair), DisconnectReason::Local);
    assert_eq!(connect(&pair), Err(CmError::QpBusy), "when it has been connected before");
    assert_eq!(pair.a.qp.disconnect(), Err(CmError::NotConnected));
    assert_eq!([second.state(), fresh.state()], [QpState::Rts; 2]);
    assert_eq!(remote.port(), PORT);
}
