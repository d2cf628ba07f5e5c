use proptest::collection::vec;
use proptest::prelude::*;
use weft_ddp::Stag;
use weft_rdmap::Kind;

use super::*;
use crate::{Data, PostError, QpCapacity, RecvWr, SendOpcode, SendWr, Sge};

const IDLE: Readiness =
    Readiness { idle: true, requests_outstanding: 0, requests_free: 4, requests_to_answer: 0 };
const READ: SendOpcode = SendOpcode::Read { stag: Stag(7), to: 5000 };
const WRITE: SendOpcode = SendOpcode::Write { stag: Stag(7), to: 5000 };

/// A queue pair in RTS whose requests need no memory.
struct World {
    memory: MemoryTable,
    qp: QueuePair,
}

impl World {
    fn new(state: Option<QpEvent>) -> Self {
        let capacity = QpCapacity { send_wr: 8, recv_wr: 8, send_sge: 4, recv_sge: 4, inline: 64 };
        let queue = || Arc::new(CompletionQueue::new(64));
        let mut qp = QueuePair::new(QpInit {
            queues: Arc::new(QpQueues::new(2, &capacity)),
            pd: PdId(1),
            send_cq: queue(),
            recv_cq: queue(),
            signal_all: false,
        });
        if let Some(event) = state {
            qp.handle_event(event);
        }
        Self { memory: MemoryTable::new(1), qp }
    }

    fn post(&self, wr_id: u64, opcode: SendOpcode, parts: usize) -> Result<(), PostError> {
        let sges: Vec<Sge> = (0..parts).map(|i| Sge { addr: i as u64, length: 0, lkey: Stag(3) }).collect();
        self.post_wr(SendWr { wr_id, opcode, data: Data::Sges(&sges), ..WR })
    }

    fn post_wr(&self, wr: SendWr<'_>) -> Result<(), PostError> {
        self.qp.queues().post_send(&wr)
    }

    fn next(&mut self, readiness: Readiness) -> Option<Message> {
        self.qp.next_message(readiness, &self.memory).unwrap()
    }

    fn start(&mut self) -> Token {
        self.next(IDLE).expect("a message").token
    }

    fn outcomes(&self) -> Vec<(u64, Status)> {
        let mut all = Vec::new();
        for cq in [&self.qp.send_cq, &self.qp.recv_cq] {
            let mut out = [self.qp.recv_completion(0, Status::General); 64];
            let count = cq.poll(&mut out);
            all.extend(out[..count].iter().map(|completion| (completion.wr_id, completion.status)));
        }
        all
    }
}

const WR: SendWr<'static> = SendWr {
    wr_id: 0,
    opcode: SendOpcode::Send,
    data: Data::Sges(&[]),
    signaled: true,
    fence: false,
    solicited: false,
};

fn established() -> World {
    World::new(Some(QpEvent::Established))
}

#[test]
fn nothing_starts_outside_of_rts_or_while_something_is_in_progress() {
    let mut idle = World::new(None);
    assert_eq!(idle.post(1, WRITE, 0), Err(PostError::InvalidState));
    assert_eq!(idle.next(IDLE), None);
    let mut world = established();
    assert_eq!(world.next(IDLE), None, "nothing is posted");
    world.post(1, WRITE, 0).unwrap();
    assert_eq!(world.next(Readiness { idle: false, ..IDLE }), None);
    let kind = Kind::Write { stag: Stag(7), to: 5000 };
    assert_eq!(world.next(IDLE), Some(Message { token: Token(0), len: 0, kind }));
    world.qp.finish(Token(0));
    assert_eq!(world.next(IDLE), None);
    assert_eq!(world.outcomes(), [(1, Status::Success)]);
}

#[test]
fn a_request_is_read_when_it_starts() {
    let mut world = established();
    world.post_wr(SendWr { solicited: true, data: Data::Inline(b"abc"), ..WR }).unwrap();
    let kind = Kind::Send { solicited: true, invalidate: None };
    assert_eq!(world.next(IDLE), Some(Message { token: Token(0), len: 3, kind }));
    world.qp.finish(Token(0));
    world.post_wr(SendWr { opcode: SendOpcode::SendInvalidate { stag: Stag(9) }, ..WR }).unwrap();
    let kind = Kind::Send { solicited: false, invalidate: Some(Stag(9)) };
    assert_eq!(world.next(IDLE), Some(Message { token: Token(1), len: 0, kind }));
}

#[test]
fn a_fence_waits_for_outstanding_reads_only() {
    let mut world = established();
    world.post_wr(SendWr { fence: true, ..WR }).unwrap();
    assert_eq!(world.next(Readiness { requests_outstanding: 1, ..IDLE }), None);
    assert!(world.next(Readiness { requests_to_answer: 3, ..IDLE }).is_some());
}

#[test]
fn the_parts_of_a_read_go_out_one_by_one_and_end_as_one() {
    let mut world = established();
    world.post(1, READ, 3).unwrap();
    world.post(2, WRITE, 0).unwrap();
    let sinks: Vec<_> = (0..3).map(|_| world.next(IDLE).expect("a part").kind).collect();
    for (part, kind) in sinks.into_iter().enumerate() {
        let sink_to = part as u64;
        assert_eq!(kind, Kind::Read { sink_stag: Stag(3), sink_to, source_stag: Stag(7), source_to: 5000 });
    }
    assert_eq!(world.start(), Token(1));
    world.qp.finish(Token(1));
    world.qp.finish(Token(0));
    world.qp.finish(Token(0));
    assert_eq!(world.outcomes(), []);
    world.qp.finish(Token(0));
    assert_eq!(world.outcomes(), [(1, Status::Success), (2, Status::Success)]);
}

#[test]
fn a_read_waits_for_room_and_fails_where_there_will_never_be_any() {
    let mut world = established();
    world.post(1, READ, 2).unwrap();
    let full = Readiness { requests_free: 0, requests_outstanding: 1, ..IDLE };
    assert_eq!(world.next(full), None);
    assert!(world.next(IDLE).is_some());
    assert_eq!(world.next(full), None, "its second part");
    assert!(world.next(IDLE).is_some());
    world.post(2, READ, 1).unwrap();
    let never = Readiness { requests_free: 0, requests_outstanding: 0, ..IDLE };
    let fault = world.qp.next_message(never, &world.memory);
    assert_eq!(fault, Err(LocalFault(Status::LocalQpOperation)));
    world.qp.handle_event(QpEvent::Terminated);
    assert_eq!(world.outcomes(), [(1, Status::WorkRequestFlushed), (2, Status::LocalQpOperation)]);
}

#[test]
fn tokens_that_name_no_request_change_nothing() {
    let mut world = established();
    for wr_id in 0..2 {
        world.post(wr_id, WRITE, 0).unwrap();
    }
    // The RTR message has a token of its own; the others are posted, but not started, or not even that.
    for token in [u64::MAX, 0, 1, 2] {
        world.qp.finish(Token(token));
        world.qp.fail(Token(token), Status::RemoteAccess, 0);
    }
    assert_eq!(world.outcomes(), []);
    let token = world.start();
    world.qp.finish(token);
    world.qp.finish(token);
    world.qp.fail(token, Status::RemoteAccess, 0);
    assert_eq!(world.outcomes(), [(0, Status::Success)]);
}

#[test]
fn a_refused_request_keeps_its_place_in_the_order() {
    let mut world = established();
    for wr_id in 0..3 {
        world.post(wr_id, READ, 1).unwrap();
        world.start();
    }
    world.qp.fail(Token(1), Status::RemoteAccess, 0x0102);
    assert_eq!(world.outcomes(), []);
    world.qp.finish(Token(0));
    world.qp.handle_event(QpEvent::Terminated);
    let expected = [(0, Status::Success), (1, Status::RemoteAccess), (2, Status::WorkRequestFlushed)];
    assert_eq!(world.outcomes(), expected);
}

/// Who waits for the rest of a queue after a failure gets all of it, also what was done already and not signaled.
#[test]
fn nothing_succeeds_behind_a_failure() {
    let mut world = established();
    world.post(0, READ, 1).unwrap();
    world.start();
    for (wr_id, signaled) in [(1, true), (2, false)] {
        world.post_wr(SendWr { wr_id, signaled, ..WR }).unwrap();
        let token = world.start();
        world.qp.finish(token);
    }
    assert_eq!(world.outcomes(), []);
    world.qp.handle_event(QpEvent::Terminated);
    assert_eq!(world.outcomes(), [0, 1, 2].map(|wr_id| (wr_id, Status::WorkRequestFlushed)));
}

#[test]
fn every_ending_flushes_in_order_and_goes_on_doing_so() {
    for event in [QpEvent::CloseStarted, QpEvent::Terminated, QpEvent::LlpClosed, QpEvent::Failed] {
        let mut world = established();
        world.post(0, READ, 1).unwrap();
        world.start();
        world.post(1, READ, 2).unwrap();
        world.start();
        world.post_wr(SendWr { wr_id: 2, signaled: false, ..WR }).unwrap();
        for wr_id in 10..12 {
            world.qp.queues().post_recv(&RecvWr { wr_id, sges: &[] }).unwrap();
        }
        world.qp.handle_event(event);
        let all = [0, 1, 2, 10, 11].map(|wr_id| (wr_id, Status::WorkRequestFlushed));
        assert_eq!(world.outcomes(), all, "{event:?}");
        // Segments that were under way may still finish what has been flushed.
        world.qp.finish(Token(0));
        world.qp.finish(Token(1));
        assert_eq!(world.next(IDLE), None);
        world.post_wr(SendWr { wr_id: 3, signaled: false, ..WR }).unwrap();
        world.qp.flush_if_ended();
        world.qp.flush_if_ended();
        assert_eq!(world.outcomes(), [(3, Status::WorkRequestFlushed)]);
    }
}

#[test]
fn in_rts_nothing_is_flushed() {
    let mut world = established();
    world.post(0, WRITE, 0).unwrap();
    world.qp.flush_if_ended();
    world.qp.handle_event(QpEvent::Established);
    assert_eq!(world.outcomes(), []);
    assert_eq!(world.start(), Token(0));
}

proptest! {
    /// Reads and others finish in any order: completions come in the order of posting, one for each signaled request.
    #[test]
    fn order(requests in vec((any::<bool>(), any::<bool>()), 1..40), picks in vec(any::<prop::sample::Index>(), 200)) {
        let mut world = established();
        let mut picks = picks.iter();
        let (mut posted, mut outstanding, mut seen) = (0, Vec::new(), Vec::new());
        while posted < requests.len() || !outstanding.is_empty() {
            let (is_read, signaled) = requests.get(posted).copied().unwrap_or_default();
            let wr_id = posted as u64;
            let opcode = if is_read { READ } else { WRITE };
            let room = posted < requests.len() && world.post_wr(SendWr { wr_id, opcode, signaled, ..WR }).is_ok();
            if room {
                posted += 1;
                let token = world.start();
                if is_read { outstanding.push(token) } else { world.qp.finish(token) }
            }
            let pick = picks.next().map_or(0, |pick| pick.index(3));
            if !outstanding.is_empty() && (pick == 0 || !room) {
                let index = picks.next().map_or(0, |pick| pick.index(outstanding.len()));
                world.qp.finish(outstanding.swap_remove(index));
            }
            seen.extend(world.outcomes());
        }
        let expected = (0..requests.len()).filter(|&index| requests[index].1);
        let expected: Vec<_> = expected.map(|index| (index as u64, Status::Success)).collect();
        prop_assert_eq!(seen, expected);
    }
}
