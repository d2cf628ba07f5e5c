//! Cyclic queues between devices, and queue pairs that are connected to themselves.

use weft_netif::Duration;
use weft_rnic::{
    Access, AsyncEvent, CmError, Cq, CqInit, CycleError, Data, Mr, Qp, QpCapacity, QpInit, QpModify, QpState,
    SendOpcode, SendWr, Status,
};
use weft_tests::{Pair, Side};

use crate::world::{
    WR, connected, contents, drain, guarded, link_simply, memory_of, outcomes, pattern, post_recv, write_to,
};

const ENTRIES: u32 = 8;

fn unpolled(side: &Side) -> Cq {
    side.device.create_cq_with(&CqInit { ignore_overrun: true, ..CqInit::new(16) }).unwrap()
}

fn small(side: &Side, send: &Cq, recv: &Cq) -> Qp {
    let capacity = QpCapacity { send_wr: ENTRIES, recv_wr: ENTRIES, ..QpCapacity::default() };
    side.device.create_qp(&side.pd, &QpInit { capacity, ..QpInit::new(send, recv) }).unwrap()
}

/// A queue pair of each side; the one of `b` sends a Write behind each message that comes.
struct Echo {
    pair: Pair,
    first: Qp,
    inward: Qp,
    outbox: Cq,
    sink: Mr,
    source: Mr,
    /// The way of the Writes.
    _behind: [Qp; 2],
}

fn echo(strict: bool) -> Echo {
    let mut pair = connected();
    let (inbox, outbox) = (unpolled(&pair.b), unpolled(&pair.b));
    let (first, inward) = (small(&pair.a, &pair.a.cq, &pair.a.cq), small(&pair.b, &outbox, &inbox));
    link_simply(&mut pair, &first, &inward);
    let (second, outward) = (small(&pair.a, &pair.a.cq, &pair.a.cq), small(&pair.b, &outbox, &outbox));
    link_simply(&mut pair, &second, &outward);
    let (sink, source) = (guarded(&pair.a, 8), memory_of(&pair.b, &[0; 8]));
    for _ in 0..ENTRIES / 2 {
        let wait = SendOpcode::Wait { cq: inbox.number(), count: 1, strict };
        outward.post_send(&SendWr { opcode: wait, signaled: false, ..WR }).unwrap();
        let sges = [source.sge(0, 8)];
        let write = SendWr { opcode: write_to(&sink, 0), data: Data::Sges(&sges), ..WR };
        outward.post_send(&write).unwrap();
    }
    for wr_id in 0..ENTRIES.into() {
        post_recv(&inward, wr_id, &[]);
    }
    outward.cycle_sends().unwrap();
    inward.cycle_recvs().unwrap();
    Echo { pair, first, inward, outbox, sink, source, _behind: [second, outward] }
}

fn last_event(side: &Side) -> Option<AsyncEvent> {
    core::iter::from_fn(|| side.device.async_channel().next()).last()
}

#[test]
fn a_program_runs_for_each_message_for_ever() {
    let Echo { mut pair, first, inward, outbox, sink, source, _behind } = echo(true);
    let before = inward.query().unwrap().counters.messages_received;
    for round in 1..=100_u64 {
        source.write(0, &round.to_be_bytes()).unwrap();
        first.post_send(&WR).unwrap();
        pair.settle(Duration::from_secs(1));
        assert_eq!(contents(&sink), round.to_be_bytes());
        assert_eq!(drain(&pair.a.cq).len(), 1);
        assert_eq!(drain(&outbox).len(), 1);
    }
    assert_eq!(inward.query().unwrap().counters.messages_received - before, 100);
}

/// The connection of the messages ends. With WAITs that take any completion the Writes of the last lap are done once more,
/// for messages that nobody has sent.
#[test]
fn only_strict_waits_keep_a_lap_from_being_replayed() {
    for strict in [false, true] {
        let Echo { mut pair, first, inward: _inward, sink, source, outbox, _behind } = echo(strict);
        source.write(0, b"first...").unwrap();
        first.post_send(&WR).unwrap();
        pair.settle(Duration::from_secs(1));
        drain(&outbox);
        source.write(0, b"replayed").unwrap();
        drop(first);
        pair.settle(Duration::from_secs(1));
        assert_eq!(contents(&sink), if strict { b"first..." } else { b"replayed" });
        let good = drain(&outbox).iter().filter(|done| done.status == Status::Success).count();
        assert_eq!(good > 0, !strict);
    }
}

/// A queue pair that polls free would lose its places; a queue that is not full has none to give again.
#[test]
fn a_queue_has_to_be_full_and_unpolled() {
    let pair = connected();
    assert_eq!(pair.a.qp.cycle_sends(), Err(CycleError::Polled));
    let cq = unpolled(&pair.a);
    let qp = small(&pair.a, &cq, &cq);
    assert_eq!(qp.cycle_recvs(), Err(CycleError::NotFull));
    assert_eq!(qp.cycle_sends(), Err(CycleError::NoWait));
}

/// Copies and swaps on the memory of one device, whose completions start the requests of another queue pair.
#[test]
fn a_queue_pair_connected_to_itself_works_on_its_own_memory() {
    let mut pair = connected();
    let done = unpolled(&pair.b);
    let own = small(&pair.b, &done, &done);
    own.connect_self().unwrap();
    assert_eq!((own.connect_self(), own.state()), (Err(CmError::QpBusy), QpState::Rts));
    let octets = pattern(300_000, 1);
    let (here, there, sink) = (memory_of(&pair.b, &octets), guarded(&pair.b, 300_000), guarded(&pair.a, 8));
    // The other queue pair sends the last octets of the copy as soon as that is done.
    let wait = SendOpcode::Wait { cq: done.number(), count: 1, strict: true };
    pair.b.qp.post_send(&SendWr { opcode: wait, ..WR }).unwrap();
    let sges = [there.sge(299_992, 8)];
    pair.b.qp.post_send(&SendWr { opcode: write_to(&sink, 0), data: Data::Sges(&sges), ..WR }).unwrap();
    let sges = [there.sge(0, 300_000)];
    let read = SendOpcode::Read { stag: here.rkey(), to: here.addr() };
    own.post_send(&SendWr { wr_id: 7, opcode: read, data: Data::Sges(&sges), ..WR }).unwrap();
    pair.settle(Duration::from_secs(1));
    assert!(contents(&there) == octets && contents(&sink) == octets[299_992..]);
    assert_eq!(outcomes(&drain(&done)), [(7, Status::Success)]);
}

#[test]
fn a_bad_request_ends_a_queue_pair_connected_to_itself() {
    let mut pair = connected();
    let own = small(&pair.b, &pair.b.cq, &pair.b.cq);
    own.connect_self().unwrap();
    let memory = pair.b.pd.register(8, Access::LOCAL_WRITE).unwrap();
    let sges = [memory.sge(0, 8)];
    let write = SendOpcode::Write { stag: memory.rkey(), to: memory.addr() };
    own.post_send(&SendWr { wr_id: 1, opcode: write, data: Data::Sges(&sges), ..WR }).unwrap();
    own.post_send(&SendWr { wr_id: 2, opcode: SendOpcode::Nop, ..WR }).unwrap();
    pair.settle(Duration::from_secs(1));
    assert_eq!(outcomes(&drain(&pair.b.cq)), [(1, Status::RemoteAccess), (2, Status::WorkRequestFlushed)]);
    assert_eq!(own.state(), QpState::Error);
    assert_eq!(last_event(&pair.b), Some(AsyncEvent::QpFatal { qp_num: own.number() }));
}

/// A cyclic program that waits is flushed by a disconnect, and ends before its next WAIT when it is drained.
#[test]
fn a_queue_pair_connected_to_itself_is_ended_as_others_are() {
    for is_drained in [false, true] {
        let mut pair = connected();
        let (done, inbox) = (unpolled(&pair.b), unpolled(&pair.b));
        let own = small(&pair.b, &done, &inbox);
        own.connect_self().unwrap();
        for wr_id in 0..u64::from(ENTRIES) {
            let wait = SendOpcode::Wait { cq: inbox.number(), count: 1, strict: true };
            let opcode = if wr_id % 2 == 0 { wait } else { SendOpcode::Nop };
            own.post_send(&SendWr { wr_id, opcode, ..WR }).unwrap();
        }
        own.cycle_sends().unwrap();
        pair.settle(Duration::from_secs(1));
        if is_drained {
            own.modify(&QpModify { state: Some(QpState::Closing), ..QpModify::default() }).unwrap();
            pair.settle(Duration::from_secs(1));
            assert_eq!(last_event(&pair.b), Some(AsyncEvent::SqDrained { qp_num: own.number() }));
        } else {
            own.disconnect().unwrap();
        }
        let flushed: Vec<_> = (0..ENTRIES.into()).map(|wr_id| (wr_id, Status::WorkRequestFlushed)).collect();
        assert_eq!(outcomes(&drain(&done)), flushed);
        assert_eq!((own.state(), own.disconnect()), (QpState::Error, Err(CmError::NotConnected)));
    }
}
