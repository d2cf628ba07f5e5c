//! Models of the queues of work requests and of the doorbells. Loom runs each with all interleavings of its threads, up
//! to the preemptions that `.ci/run loom` allows, and with all values that a load may see.
//!
//! Each model is run a second time with an ordering weakened or a step left out, to see that loom finds that.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use loom::model::Builder;
use loom::thread;

use crate::cq::CompletionQueue;
use crate::doorbell::Doorbells;
use crate::entry::SendWork;
use crate::ids::PdId;
use crate::qp::{QpInit, QueuePair};
use crate::queues::{QpCapacity, QpQueues};
use crate::recv_queue::{RecvQueue, RecvRing, RecvWork};
use crate::send_queue::SendQueue;
use crate::srq::SharedRecvQueue;
use crate::state::QpEvent;
use crate::sync::atomic::{AtomicU64, Ordering, Weakened, weaken};
use crate::work::{Data, PostError, RecvWr, SendOpcode, SendWr};

/// Runs a model as it is, which has to pass, and with each of the orderings weakened, which loom has to find.
pub(crate) fn check(weakened: &[Weakened], model: impl Fn() + Copy + Sync + Send + 'static) {
    check_within(None, weakened, model);
}

/// As [`check`], with so many preemptions at most; `None` leaves it to the environment.
pub(crate) fn check_within(
    preemptions: Option<usize>,
    weakened: &[Weakened],
    model: impl Fn() + Copy + Sync + Send + 'static,
) {
    weaken(Weakened::Nothing);
    run(preemptions, model);
    for &each in weakened {
        weaken(each);
        assert!(is_found(preemptions, model), "loom does not find {each:?}");
    }
    weaken(Weakened::Nothing);
}

/// Runs a model that leaves out a step: loom has to find that.
pub(crate) fn find(model: impl Fn() + Sync + Send + 'static) {
    weaken(Weakened::Nothing);
    assert!(is_found(None, model), "loom does not find it");
}

fn run(preemptions: Option<usize>, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = preemptions.or(builder.preemption_bound);
    builder.check(model);
}

/// Returns whether an assertion of the model fails, and not something else.
fn is_found(preemptions: Option<usize>, model: impl Fn() + Sync + Send + 'static) -> bool {
    let text = |panic: Box<dyn Any + Send>| {
        panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(|&text| text.into()))
    };
    match catch_unwind(AssertUnwindSafe(|| run(preemptions, model))).map_err(text) {
        Ok(()) => false,
        Err(Some(text)) if text.contains("model:") => true,
        Err(text) => panic!("the model itself failed: {text:?}"),
    }
}

pub(crate) fn request(wr_id: u64) -> SendWr<'static> {
    SendWr {
        wr_id,
        opcode: SendOpcode::Nop,
        data: Data::Sges(&[]),
        signaled: true,
        fence: false,
        solicited: false,
    }
}

/// The engine's side of a send queue whose requests are numbered from 1.
struct Reader {
    next: u64,
    work: SendWork,
    releases_first: bool,
}

impl Reader {
    fn new() -> Self {
        Self { next: 0, work: SendWork::new(), releases_first: false }
    }

    fn read(&mut self, queue: &SendQueue) {
        for index in self.next..queue.posted() {
            if self.releases_first {
                queue.release(index + 1);
            }
            assert_eq!(queue.load(index, &mut self.work), Ok(()), "model: a whole entry");
            assert_eq!(self.work.wr_id, index + 1, "model: the entries in order");
            queue.release(index + 1);
            self.next = index + 1;
        }
    }
}

/// A place is read after it was written, and written again after it was read.
fn one_place(releases_first: bool) {
    let queue = Arc::new(SendQueue::new(1, 0, 0));
    let poster = {
        let queue = Arc::clone(&queue);
        thread::spawn(move || (1..=2).take_while(|&wr_id| queue.post(&request(wr_id)).is_ok()).count() as u64)
    };
    let mut reader = Reader { releases_first, ..Reader::new() };
    reader.read(&queue);
    reader.read(&queue);
    let posted = poster.join().unwrap();
    reader.read(&queue);
    assert_eq!(reader.next, posted, "model: all are read");
}

#[test]
fn an_entry_is_read_after_it_was_written() {
    check(&[Weakened::Acquire, Weakened::Release], || one_place(false));
}

#[test]
fn an_entry_that_is_released_before_it_is_read_is_found() {
    find(|| one_place(true));
}

/// What a sabotage of [`doorbell`] does too early.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Early {
    Nothing,
    /// The poster rings before it posts.
    Ring,
    /// The engine reads the queue before it takes the mark.
    Read,
}

/// The engine reads the queue only when the doorbell was rung.
fn doorbell(early: Early) {
    let (queue, doorbells) = (Arc::new(SendQueue::new(2, 0, 0)), Arc::new(Doorbells::new(1)));
    let poster = {
        let (queue, doorbells) = (Arc::clone(&queue), Arc::clone(&doorbells));
        thread::spawn(move || {
            for wr_id in 1..=2 {
                if early == Early::Ring {
                    doorbells.ring(0);
                }
                queue.post(&request(wr_id)).expect("room for two");
                if early != Early::Ring {
                    doorbells.ring(0);
                }
            }
        })
    };
    let mut reader = Reader::new();
    let mut turn = || {
        if early != Early::Read {
            doorbells.take(|_slot| reader.read(&queue));
        } else if doorbells.any() {
            reader.read(&queue);
            doorbells.take(|_slot| ());
        }
        reader.next
    };
    turn();
    poster.join().unwrap();
    assert_eq!(turn(), 2, "model: no doorbell is lost");
}

#[test]
fn no_doorbell_is_lost() {
    check(&[Weakened::Acquire, Weakened::Release], || doorbell(Early::Nothing));
}

#[test]
fn a_doorbell_before_the_request_is_found() {
    find(|| doorbell(Early::Ring));
}

#[test]
fn a_look_before_the_mark_is_taken_is_found() {
    find(|| doorbell(Early::Read));
}

/// Two threads mark slots of one word. Each mark is taken after what was stored before it.
fn two_marks() {
    let doorbells = Arc::new(Doorbells::new(2));
    let rung = Arc::new([0; 2].map(AtomicU64::new));
    let threads = [0, 1].map(|slot| {
        let (doorbells, rung) = (Arc::clone(&doorbells), Arc::clone(&rung));
        thread::spawn(move || {
            rung[slot].store(1, Ordering::Relaxed);
            doorbells.ring(slot);
        })
    });
    let mut seen = [0; 2];
    let mut look = || doorbells.take(|slot| seen[slot] = rung[slot].load(Ordering::Relaxed));
    look();
    look();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    look();
    assert_eq!(seen, [1; 2], "model: both marks are seen");
}

#[test]
fn marks_of_two_threads_are_both_seen() {
    check(&[Weakened::Acquire, Weakened::Release], two_marks);
}

/// Two threads post; each request has a place of its own.
fn two_posters<Q: Send + Sync + 'static>(queue: Q, post: fn(&Q, u64), identifier: fn(&Q, u64) -> u64) {
    let queue = Arc::new(queue);
    let threads = [1, 2].map(|wr_id| {
        let queue = Arc::clone(&queue);
        thread::spawn(move || post(&queue, wr_id))
    });
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let mut posted = [0, 1].map(|index| identifier(&queue, index));
    posted.sort_unstable();
    assert_eq!(posted, [1, 2], "model: both requests are there");
}

#[test]
fn two_threads_post_sends() {
    let post = |queue: &SendQueue, wr_id| queue.post(&request(wr_id)).expect("room for two");
    let identifier = |queue: &SendQueue, index| {
        let mut work = SendWork::new();
        queue.load(index, &mut work).map_or(0, |()| work.wr_id)
    };
    check(&[], move || two_posters(SendQueue::new(2, 0, 0), post, identifier));
}

#[test]
fn two_threads_post_receives() {
    let post = |queue: &RecvQueue, wr_id| queue.post(&RecvWr { wr_id, sges: &[] }).expect("room for two");
    let identifier = |queue: &RecvQueue, index| {
        let mut work = RecvWork::new();
        queue.load(index, &mut work).map_or(0, |()| work.wr_id)
    };
    check(&[], move || two_posters(RecvQueue::new(2, 0), post, identifier));
}

#[test]
fn posting_without_the_lock_is_found() {
    let post =
        |ring: &RecvRing, wr_id| ring.push_all(&[RecvWr { wr_id, sges: &[] }], 0).expect("room for two");
    let identifier = |ring: &RecvRing, index| {
        let mut work = RecvWork::new();
        ring.load(index, &mut work).map_or(0, |()| work.wr_id)
    };
    find(move || two_posters(RecvRing::new(2, 0), post, identifier));
}

/// Returns the queues of a queue pair, each with one place.
pub(crate) fn queues() -> Arc<QpQueues> {
    let capacity = QpCapacity { send_wr: 1, recv_wr: 1, send_sge: 0, recv_sge: 0, inline: 0 };
    Arc::new(QpQueues::new(2, &capacity))
}

/// Posts a receive, and returns whether the poster rings the doorbell.
fn post_receive(queues: &Arc<QpQueues>) -> thread::JoinHandle<bool> {
    let queues = Arc::clone(queues);
    thread::spawn(move || queues.post_recv(&RecvWr { wr_id: 1, sges: &[] }).expect("room for one"))
}

/// A receive is posted while the queue pair goes to an error state: the poster rings the doorbell, or the flush sees
/// the request.
fn post_and_flush() {
    let queues = queues();
    queues.handle_event(QpEvent::Established);
    let poster = post_receive(&queues);
    queues.handle_event(QpEvent::Failed);
    let is_flushed = queues.recv.posted() == 1;
    let rings = poster.join().unwrap();
    assert!(is_flushed || rings, "model: the request is flushed");
}

#[test]
fn a_receive_that_is_posted_at_the_end_is_flushed() {
    check(&[Weakened::Fence], post_and_flush);
}

/// A message waits for a receive while one is posted.
fn post_and_await() {
    let queues = queues();
    let cq = Arc::new(CompletionQueue::new(2));
    let mut qp = QueuePair::new(QpInit {
        queues: Arc::clone(&queues),
        pd: PdId(1),
        send_cq: Arc::clone(&cq),
        recv_cq: cq,
        signal_all: false,
        srq: None,
        rnr_wait: true,
        cq_table: Arc::default(),
    });
    qp.handle_event(QpEvent::Established);
    let poster = post_receive(&queues);
    let waits = qp.lacks_receive();
    let rings = poster.join().unwrap();
    assert!(!waits || rings, "model: the message goes on");
}

#[test]
fn a_message_that_waits_for_a_receive_goes_on() {
    check(&[Weakened::Fence], post_and_await);
}

/// A message of a queue pair waits for a request of a shared receive queue while one is posted.
fn post_and_wait() {
    let queue = Arc::new(SharedRecvQueue::new(1, 0, 0));
    let poster = {
        let queue = Arc::clone(&queue);
        thread::spawn(move || queue.post(&RecvWr { wr_id: 1, sges: &[] }))
    };
    let waits = queue.wait(&queue.ring(), 7, &mut 0);
    let woken: Result<_, PostError> = poster.join().unwrap();
    assert!(!waits || woken == Ok(Some(7)), "model: the message goes on");
}

#[test]
fn a_message_that_waits_for_a_shared_receive_goes_on() {
    check(&[Weakened::Fence], post_and_wait);
}
