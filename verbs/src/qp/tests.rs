//! Tests of a queue pair: what starts when, in which order requests complete, how it ends.

use proptest::collection::vec;
use proptest::prelude::*;
use weft_ddp::Stag;
use weft_rdmap::Kind;

use super::*;
use crate::access::Access;
use crate::ids::StreamId;
use crate::memory::{MemoryRegion, Registration};
use crate::queues::QpCapacity;
use crate::region::Region;
use crate::work::{Data, PostError, RecvWr, SendOpcode, SendWr, Sge};

pub(super) const IDLE: Readiness =
    Readiness { idle: true, requests_outstanding: 0, requests_free: 4, requests_to_answer: 0 };
pub(super) const READ: SendOpcode = SendOpcode::Read { stag: Stag(7), to: 5000 };
pub(super) const WRITE: SendOpcode = SendOpcode::Write { stag: Stag(7), to: 5000 };

/// A queue pair in RTS whose requests need no memory.
pub(super) struct World {
    pub(super) memory: MemoryTable,
    pub(super) qp: QueuePair,
}

impl World {
    fn new(state: Option<QpEvent>) -> Self {
        Self::with(state, QpQueues::new(2, &CAPACITY), CompletionQueue::new(64))
    }

    /// Makes one in RTS, with this queue for the completions of receives.
    pub(super) fn with_recv_cq(recv_cq: CompletionQueue) -> Self {
        Self::with(Some(QpEvent::Established), QpQueues::new(2, &CAPACITY), recv_cq)
    }

    /// Makes one in RTS, without RFC 7306.
    pub(super) fn without_extensions() -> Self {
        let mut queues = QpQueues::new(2, &CAPACITY);
        queues.extensions = false;
        Self::with(Some(QpEvent::Established), queues, CompletionQueue::new(64))
    }

    /// Makes one in this state whose queues need no polls; WAITs name that of the receives 5.
    pub(super) fn unpolled(state: Option<QpEvent>) -> Self {
        let [send_cq, recv_cq] = [4, 5].map(|number| CompletionQueue::numbered(number, 64, true));
        Self::with_cqs(state, QpQueues::new(2, &CAPACITY), send_cq, recv_cq)
    }

    fn with(state: Option<QpEvent>, queues: QpQueues, recv_cq: CompletionQueue) -> Self {
        Self::with_cqs(state, queues, CompletionQueue::new(64), recv_cq)
    }

    fn with_cqs(
        state: Option<QpEvent>,
        queues: QpQueues,
        send_cq: CompletionQueue,
        recv_cq: CompletionQueue,
    ) -> Self {
        let mut qp = QueuePair::new(QpInit {
            queues: Arc::new(queues),
            pd: PdId(1),
            send_cq: Arc::new(send_cq),
            recv_cq: Arc::new(recv_cq),
            signal_all: false,
            srq: None,
            rnr_wait: false,
            cq_table: Arc::default(),
        });
        if let Some(event) = state {
            qp.handle_event(event);
        }
        Self { memory: MemoryTable::new(1), qp }
    }

    pub(super) fn post(&self, wr_id: u64, opcode: SendOpcode, parts: usize) -> Result<(), PostError> {
        let sges: Vec<Sge> = (0..parts).map(|i| Sge { addr: i as u64, length: 0, lkey: Stag(3) }).collect();
        self.post_wr(SendWr { wr_id, opcode, data: Data::Sges(&sges), ..WR })
    }

    pub(super) fn post_wr(&self, wr: SendWr<'_>) -> Result<(), PostError> {
        self.qp.queues().post_send(&wr)
    }

    pub(super) fn next(&mut self, readiness: Readiness) -> Option<Message> {
        self.qp.next_message(readiness, &self.memory).unwrap()
    }

    pub(super) fn start(&mut self) -> Token {
        self.next(IDLE).expect("a message").token
    }

    /// Returns the completions of the send queue, in worlds with another queue for those of receives.
    pub(super) fn sent(&self) -> Vec<(u64, Status)> {
        let mut out = [self.qp.recv_completion(0, Status::General); 64];
        let count = self.qp.send_cq.poll(&mut out);
        out[..count].iter().map(|completion| (completion.wr_id, completion.status)).collect()
    }

    pub(super) fn outcomes(&self) -> Vec<(u64, Status)> {
        let mut all = Vec::new();
        for cq in [&self.qp.send_cq, &self.qp.recv_cq] {
            let mut out = [self.qp.recv_completion(0, Status::General); 64];
            let count = cq.poll(&mut out);
            all.extend(out[..count].iter().map(|completion| (completion.wr_id, completion.status)));
        }
        all
    }
}

pub(super) const CAPACITY: QpCapacity =
    QpCapacity { send_wr: 8, recv_wr: 8, send_sge: 4, recv_sge: 4, inline: 64 };

pub(super) const WR: SendWr<'static> = SendWr {
    wr_id: 0,
    opcode: SendOpcode::Send,
    data: Data::Sges(&[]),
    signaled: true,
    fence: false,
    solicited: false,
};

pub(super) fn established() -> World {
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
fn early_sends_wait_for_the_stream_or_tell_that_none_came() {
    let early = || {
        let queues = QpQueues::new(2, &CAPACITY);
        queues.set_as_infiniband(true);
        let world = World::with(None, queues, CompletionQueue::new(64));
        world.post(1, WRITE, 0).unwrap();
        world.post(2, WRITE, 0).unwrap();
        world
    };
    let mut world = early();
    assert_eq!(world.next(IDLE), None);
    world.qp.handle_event(QpEvent::Established);
    let token = world.start();
    world.qp.finish(token);
    assert_eq!(world.outcomes(), [], "it is unknown yet whether the peer has it");
    assert_eq!(world.next(Readiness { requests_free: 0, requests_outstanding: 1, ..IDLE }), None);
    let confirmation = world.next(IDLE).unwrap();
    assert!(matches!(confirmation.kind, Kind::Read { .. }));
    assert_eq!((confirmation.token, confirmation.len), (token, 0));
    world.qp.finish(token);
    assert_eq!(world.outcomes(), [(1, Status::Success)]);
    let mut world = early();
    world.qp.fail_oldest(Status::RetryExceeded);
    world.qp.handle_event(QpEvent::Failed);
    assert_eq!(world.outcomes(), [(1, Status::RetryExceeded), (2, Status::WorkRequestFlushed)]);
    let mut without_reads = early();
    without_reads.qp.handle_event(QpEvent::Established);
    let token = without_reads.next(Readiness { requests_free: 0, ..IDLE }).unwrap().token;
    without_reads.qp.finish(token);
    assert_eq!(without_reads.outcomes(), [(1, Status::Success)]);
    let mut quiet = early();
    quiet.qp.handle_event(QpEvent::Established);
    for _ in 0..4 {
        let token = quiet.start();
        quiet.qp.finish(token);
    }
    quiet.qp.handle_peer_left();
    assert_eq!((quiet.qp.queues().state(), quiet.outcomes().len()), (QpState::Idle, 2));
    let mut asking = early();
    asking.qp.handle_event(QpEvent::Established);
    asking.start();
    asking.qp.handle_peer_left();
    assert_eq!(asking.outcomes(), [(1, Status::RetryExceeded), (2, Status::WorkRequestFlushed)]);
    let mut nothing_posted = World::new(None);
    nothing_posted.qp.fail_oldest(Status::RetryExceeded);
    assert_eq!(nothing_posted.outcomes(), []);
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
fn a_nop_completes_in_order_and_looks_at_no_memory() {
    let mut world = established();
    world.post(1, READ, 1).unwrap();
    world.post(2, SendOpcode::Nop, 2).unwrap();
    world.post_wr(SendWr { wr_id: 3, opcode: SendOpcode::Nop, fence: true, ..WR }).unwrap();
    world.post_wr(SendWr { wr_id: 4, opcode: SendOpcode::Nop, signaled: false, ..WR }).unwrap();
    let token = world.start();
    assert_eq!(world.next(Readiness { requests_outstanding: 1, ..IDLE }), None, "the fence");
    assert_eq!(world.outcomes(), []);
    world.qp.finish(token);
    assert_eq!(world.next(IDLE), None);
    assert_eq!(world.outcomes(), [1, 2, 3].map(|wr_id| (wr_id, Status::Success)));
    world.post(5, WRITE, 0).unwrap();
    assert_eq!(world.start(), Token(4));
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

/// After a failure every request of the queue completes, also one that was done already and not signaled.
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
        // Segments that were under way may still finish a request that was flushed.
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

fn memory_for(world: &mut World, stream: Option<StreamId>) -> Arc<MemoryRegion> {
    let region = Region::owned(8).unwrap();
    let registration = Registration { pd: PdId(1), stream, access: Access::ALL, iova: 0, region };
    world.memory.register(registration).unwrap()
}

/// Returns an STag for the stream of the world's queue pair.
fn own_memory(world: &mut World) -> Arc<MemoryRegion> {
    let stream = Some(world.qp.queues().stream);
    memory_for(world, stream)
}

/// Invalidations need no message: each is done as soon as it is its turn, in order with the requests around it.
#[test]
fn a_local_invalidation_takes_its_turn() {
    let mut world = established();
    let [first, second] = [(); 2].map(|()| own_memory(&mut world));
    world.post(0, WRITE, 0).unwrap();
    for (wr_id, stag) in [(1, first.stag), (2, second.stag)] {
        world.post(wr_id, SendOpcode::LocalInvalidate { stag }, 0).unwrap();
    }
    world.post(3, WRITE, 0).unwrap();
    let token = world.start();
    assert!(!first.is_invalidated());
    world.qp.finish(token);
    assert_eq!(world.outcomes(), [(0, Status::Success)]);
    assert_eq!(world.start(), Token(3));
    assert!(first.is_invalidated() && second.is_invalidated());
    assert_eq!(world.outcomes(), [(1, Status::Success), (2, Status::Success)]);
}

#[test]
fn a_local_invalidation_waits_for_reads_with_a_fence_only() {
    let reading = Readiness { requests_outstanding: 1, ..IDLE };
    for fence in [false, true] {
        let mut world = established();
        let memory = own_memory(&mut world);
        world.post(0, READ, 1).unwrap();
        world.start();
        let opcode = SendOpcode::LocalInvalidate { stag: memory.stag };
        world.post_wr(SendWr { wr_id: 1, opcode, fence, ..WR }).unwrap();
        assert_eq!(world.next(reading), None);
        assert_eq!(memory.is_invalidated(), !fence);
        assert_eq!(world.outcomes(), [], "the Read comes first");
        world.qp.finish(Token(0));
        assert_eq!(world.next(IDLE), None);
        assert!(memory.is_invalidated());
        assert_eq!(world.outcomes(), [(0, Status::Success), (1, Status::Success)]);
    }
}

#[test]
fn only_memory_of_the_stream_is_invalidated() {
    for index in 0..3 {
        let mut world = established();
        let [shared, other] = [None, Some(StreamId::unique())].map(|stream| memory_for(&mut world, stream));
        let stag = [shared.stag, other.stag, Stag(0)][index];
        world.post(1, SendOpcode::LocalInvalidate { stag }, 0).unwrap();
        let fault = world.qp.next_message(IDLE, &world.memory);
        assert_eq!(fault, Err(LocalFault(Status::MemoryWindowBind)));
        assert_eq!(world.outcomes(), [(1, Status::MemoryWindowBind)]);
        assert!(!shared.is_invalidated() && !other.is_invalidated());
    }
    // It moves no data, and asks the peer for no event.
    let invalidate = SendWr { opcode: SendOpcode::LocalInvalidate { stag: Stag(1) }, ..WR };
    let sges = [Sge::default()];
    let world = established();
    assert_eq!(world.post_wr(SendWr { data: Data::Sges(&sges), ..invalidate }), Err(PostError::BadData));
    assert_eq!(world.post_wr(SendWr { data: Data::Inline(b"1"), ..invalidate }), Err(PostError::BadData));
    assert_eq!(world.post_wr(SendWr { solicited: true, ..invalidate }), Err(PostError::BadFlags));
}

proptest! {
    /// Reads and others finish in any order: completions come in the order of posting, one for each signaled request.
    #[test]
    fn completions_come_in_the_order_of_posting(requests in vec((any::<bool>(), any::<bool>()), 1..40), picks in vec(any::<prop::sample::Index>(), 200)) {
        let queues = QpQueues::new(2, &QpCapacity { send_wr: 40, ..CAPACITY });
        let mut world = World::with(Some(QpEvent::Established), queues, CompletionQueue::new(64));
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

/// After each completion that it has seen, the application finds room for one more request, while the engine goes on.
#[test]
fn there_is_room_as_soon_as_a_completion_is_seen() {
    const ROUNDS: u64 = 300_000;
    let mut world = World::with(
        Some(QpEvent::Established),
        QpQueues::new(2, &QpCapacity { send_wr: 1, ..CAPACITY }),
        CompletionQueue::new(64),
    );
    let (queues, cq) = (Arc::clone(world.qp.queues()), Arc::clone(&world.qp.send_cq));
    let mut out = [world.qp.recv_completion(0, Status::General)];
    let room = queues.send.capacity();
    std::thread::scope(|scope| {
        let poster = scope.spawn(move || {
            let post = |_| queues.post_send(&SendWr { opcode: WRITE, ..WR });
            (0..room).try_for_each(post)?;
            (0..ROUNDS).try_for_each(|round| {
                while cq.poll(&mut out) == 0 {
                    std::hint::spin_loop();
                }
                post(round)
            })
        });
        while !poster.is_finished() {
            if let Some(message) = world.next(IDLE) {
                world.qp.finish(message.token);
            }
        }
        assert_eq!(poster.join().unwrap(), Ok(()));
    });
}
