//! When places of work queues are free again.

use weft_rdmap::{Inbound, Opcode, SendEnd};

use super::tests::{CAPACITY, IDLE, WR};
use super::*;
use crate::srq::TooSmall;
use crate::work::{PostError, RecvWr, SendWr};

/// Queue pairs in RTS that complete to the same queues.
struct World {
    memory: MemoryTable,
    send_cq: Arc<CompletionQueue>,
    recv_cq: Arc<CompletionQueue>,
    srq: Option<Arc<SharedRecvQueue>>,
}

impl World {
    fn new(entries: u32, ignores_overrun: bool) -> Self {
        let cq = || Arc::new(CompletionQueue::numbered(1, entries, ignores_overrun));
        Self { memory: MemoryTable::new(1), send_cq: cq(), recv_cq: cq(), srq: None }
    }

    fn with_srq(places: u32, entries: u32, ignores_overrun: bool) -> Self {
        let srq = Arc::new(SharedRecvQueue::new(places, 1, 0));
        Self { srq: Some(srq), ..Self::new(entries, ignores_overrun) }
    }

    fn queue_pair(&self) -> QueuePair {
        let mut queues = QpQueues::new(2, &CAPACITY);
        queues.has_srq = self.srq.is_some();
        let mut qp = QueuePair::new(QpInit {
            queues: Arc::new(queues),
            pd: PdId(1),
            send_cq: Arc::clone(&self.send_cq),
            recv_cq: Arc::clone(&self.recv_cq),
            signal_all: false,
            srq: self.srq.clone(),
            rnr_wait: false,
            cq_table: Arc::default(),
        });
        qp.handle_event(QpEvent::Established);
        qp
    }

    /// Sends until nothing is left to be sent.
    fn send_all(&self, qp: &mut QueuePair) {
        while let Some(message) = qp.next_message(IDLE, &self.memory).unwrap() {
            qp.finish(message.token);
        }
    }

    fn send_one(&self, qp: &mut QueuePair) {
        let message = qp.next_message(IDLE, &self.memory).unwrap().unwrap();
        qp.finish(message.token);
    }

    /// Receives a message without octets, or the first segment of one.
    fn receive(&self, qp: &mut QueuePair, is_whole: bool) {
        let last = is_whole.then_some(SendEnd { len: 0, opcode: Opcode::Send, invalidate: None });
        qp.apply(Inbound::Send { offset: 0, payload: &[], last }, &self.memory).unwrap();
    }

    /// Posts to the shared receive queue until it is full.
    fn fill(&self) -> usize {
        let srq = self.srq.as_ref().expect("a shared receive queue");
        (0..100).take_while(|&wr_id| srq.post(&RecvWr { wr_id, sges: &[] }).is_ok()).count()
    }
}

/// Posts Sends until the queue is full; each `signaled`-th one makes a completion.
fn fill_sends(qp: &QueuePair, signaled: u64) -> u64 {
    let wr = |wr_id: u64| SendWr { wr_id, signaled: wr_id % signaled == signaled - 1, ..WR };
    (0..100).take_while(|&wr_id| qp.queues().post_send(&wr(wr_id)).is_ok()).count() as u64
}

fn fill_recvs(qp: &QueuePair) -> usize {
    let posted = |wr_id| qp.queues().post_recv(&RecvWr { wr_id, sges: &[] });
    let count = (0..100).take_while(|&wr_id| posted(wr_id).is_ok()).count();
    assert_eq!(posted(100), Err(PostError::QueueFull));
    count
}

fn poll(cq: &CompletionQueue, count: usize) {
    assert_eq!(cq.poll(&mut vec![Completion::EMPTY; count]), count);
}

fn poll_all(cq: &CompletionQueue) -> usize {
    cq.poll(&mut [Completion::EMPTY; 64])
}

#[test]
fn a_poll_frees_the_places_of_what_it_takes() {
    let world = World::new(64, false);
    let mut qp = world.queue_pair();
    assert_eq!((fill_sends(&qp, 1), fill_recvs(&qp)), (8, 8));
    world.send_all(&mut qp);
    (0..8).for_each(|_| world.receive(&mut qp, true));
    assert!(!qp.has_sends());
    assert_eq!((fill_sends(&qp, 1), fill_recvs(&qp)), (0, 0), "done, and not polled");
    poll(&world.send_cq, 3);
    poll(&world.recv_cq, 5);
    assert_eq!((fill_sends(&qp, 1), fill_recvs(&qp)), (3, 5));
    assert!(qp.has_sends());
}

#[test]
fn an_unsignaled_request_is_freed_by_the_next_completion() {
    let world = World::new(64, false);
    let mut qp = world.queue_pair();
    assert_eq!(fill_sends(&qp, 3), 8);
    world.send_all(&mut qp);
    poll(&world.send_cq, 1);
    assert_eq!(fill_sends(&qp, 100), 3);
    poll(&world.send_cq, 1);
    assert_eq!(fill_sends(&qp, 100), 3);
    world.send_all(&mut qp);
    assert_eq!((world.send_cq.len(), fill_sends(&qp, 1)), (0, 0), "without a signaled one nothing is freed");
    qp.handle_event(QpEvent::Failed);
    assert!(world.send_cq.is_empty(), "all was done");
}

#[test]
fn a_flush_makes_a_completion_of_each() {
    let world = World::new(64, false);
    let mut qp = world.queue_pair();
    assert_eq!((fill_sends(&qp, 100), fill_recvs(&qp)), (8, 8));
    qp.handle_event(QpEvent::Failed);
    assert_eq!(fill_recvs(&qp), 0);
    poll(&world.send_cq, 8);
    poll(&world.recv_cq, 8);
    assert_eq!((qp.queues().send.len(), fill_recvs(&qp)), (0, 8));
}

#[test]
fn a_queue_that_ignores_overrun_frees_places_when_requests_are_done() {
    let world = World::new(2, true);
    let mut qp = world.queue_pair();
    for _ in 0..3 {
        assert_eq!((fill_sends(&qp, 2), fill_recvs(&qp)), (8, 8));
        world.send_all(&mut qp);
        (0..8).for_each(|_| world.receive(&mut qp, true));
    }
    let world = World::with_srq(4, 2, true);
    let mut qp = world.queue_pair();
    for _ in 0..3 {
        assert_eq!(world.fill(), 4);
        (0..4).for_each(|_| world.receive(&mut qp, true));
    }
}

#[test]
fn places_of_a_shared_queue_are_freed_by_polls_of_all_its_queue_pairs() {
    let world = World::with_srq(8, 64, false);
    let mut qps = [world.queue_pair(), world.queue_pair()];
    assert_eq!(world.fill(), 8);
    for i in 0..6 {
        world.receive(&mut qps[i % 2], true);
    }
    assert_eq!(world.fill(), 0);
    poll(&world.recv_cq, 1);
    assert_eq!(world.fill(), 1);
    // The places of a destroyed queue pair are free at once, each of them once. Those of the other one wait for polls.
    let [one, other] = qps;
    drop(one);
    let another = world.queue_pair();
    assert_eq!(world.fill(), 2);
    poll(&world.recv_cq, 3);
    assert_eq!((world.fill(), poll_all(&world.recv_cq)), (3, 0));
    drop((other, another));
    let srq = world.srq.as_ref().unwrap();
    assert_eq!((srq.waiting(), srq.resize(4), srq.resize(16)), (8, Err(TooSmall), Ok(())));
    assert_eq!(world.fill(), 8);
}

#[test]
fn a_place_of_a_shared_queue_is_free_when_no_completion_can_come() {
    let world = World::with_srq(4, 2, false);
    let mut qp = world.queue_pair();
    assert_eq!(world.fill(), 4);
    world.receive(&mut qp, false);
    drop(qp);
    assert_eq!(world.fill(), 1, "the queue pair was destroyed amid a message");
    let mut qp = world.queue_pair();
    (0..3).for_each(|_| world.receive(&mut qp, true));
    assert!(qp.is_overrun());
    assert_eq!(world.fill(), 1, "the completion was lost");
    let World { recv_cq, srq, .. } = world;
    drop((qp, recv_cq));
    let post = || srq.as_ref().unwrap().post(&RecvWr { wr_id: 1, sges: &[] });
    assert_eq!([post(), post(), post()], [Ok(None), Ok(None), Err(PostError::QueueFull)]);
}

/// Numbers of destroyed queue pairs are used again, but not while a completion of theirs is in the queue.
#[test]
fn completions_of_a_destroyed_queue_pair_free_nothing_of_the_next_one() {
    let world = World::new(64, false);
    let mut old = world.queue_pair();
    fill_sends(&old, 1);
    world.send_all(&mut old);
    drop(old);
    let mut qps: Vec<_> = (0..3).map(|_| world.queue_pair()).collect();
    for qp in &mut qps {
        fill_sends(qp, 1);
        world.send_all(qp);
    }
    assert!(qps.iter().all(|qp| fill_sends(qp, 1) == 0));
    poll(&world.send_cq, 1);
    assert_eq!(qps.iter().map(|qp| fill_sends(qp, 1)).collect::<Vec<_>>(), [1, 0, 0]);
    drop(qps);
    assert_eq!(poll_all(&world.send_cq), 0);
    for _ in 0..100 {
        let qp = world.queue_pair();
        assert!(qp.send_number.is_some_and(|number| number < 4), "numbers are used again");
    }
}

/// Completions of the others keep their order, around the wrap of the ring, and WAITs count those that are passed over.
#[test]
fn completions_of_a_destroyed_queue_pair_are_passed_over() {
    let world = World::new(16, false);
    for round in 1..=5 {
        let (mut stays, mut goes) = (world.queue_pair(), world.queue_pair());
        for wr_id in 0..6 {
            for qp in [&mut goes, &mut stays] {
                qp.queues().post_send(&SendWr { wr_id, signaled: true, ..WR }).unwrap();
                world.send_all(qp);
            }
        }
        poll(&world.send_cq, 3);
        drop(goes);
        let mut out = [Completion::EMPTY; 16];
        assert_eq!((world.send_cq.poll(&mut out), world.send_cq.produced()), (5, 12 * round));
        let left: Vec<_> = out[..5].iter().map(|completion| completion.wr_id).collect();
        assert_eq!((left, stays.queues().send.len()), ((1..6).collect(), 0));
    }
}

/// A queue of the size of the work queues that use it at a time does not overrun, however many have used it before. A
/// change of its size counts nothing of those either.
#[test]
fn generations_of_queue_pairs_that_nobody_polls_overrun_nothing() {
    let world = World::new(16, false);
    let mut stays = world.queue_pair();
    assert_eq!(fill_sends(&stays, 1), 8);
    for wr_id in 0..5 {
        let mut qp = world.queue_pair();
        assert_eq!((fill_sends(&qp, 100), fill_recvs(&qp)), (8, 8));
        qp.handle_event(QpEvent::Failed);
        world.send_one(&mut stays);
        assert!(!qp.is_overrun());
        assert_eq!(world.send_cq.len(), 9 + wr_id, "the others are gone");
    }
    assert_eq!(world.send_cq.resize(8), Ok(()));
    let mut out = [Completion::EMPTY; 16];
    assert_eq!(world.send_cq.poll(&mut out), 5);
    assert!(out[..5].iter().map(|completion| completion.wr_id).eq(0..5));
}

/// The engine frees the places of lost completions. The poll of an older completion takes none of them back.
#[test]
fn polls_behind_an_overrun_take_no_places_back() {
    let world = World::new(4, false);
    let mut qp = world.queue_pair();
    assert_eq!((fill_sends(&qp, 1), fill_recvs(&qp)), (8, 8));
    world.send_all(&mut qp);
    (0..8).for_each(|_| world.receive(&mut qp, true));
    assert!(qp.is_overrun());
    let queues = Arc::clone(qp.queues());
    let taken = || (queues.send.len(), queues.recv.len());
    assert_eq!(taken(), (0, 0));
    for _ in 0..4 {
        poll(&world.send_cq, 1);
        poll(&world.recv_cq, 1);
        assert_eq!(taken(), (0, 0));
    }
    assert_eq!((fill_sends(&qp, 1), fill_recvs(&qp)), (8, 8));
}
