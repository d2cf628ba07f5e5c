//! Models of the completion queue, as in `loom_tests.rs`.

use core::ops::RangeInclusive;
use std::sync::Arc;

use loom::thread;

use super::*;
use crate::completion::Status;
use crate::entry::SendWork;
use crate::loom_tests::{check, check_within, find, queues, request};
use crate::state::QpEvent;
use crate::sync::atomic::Weakened;

fn completion(number: u64) -> Completion {
    Completion { wr_id: number, timestamp: number, status: Status::Success, ..Completion::EMPTY }
}

/// Polls up to two completions, and returns their numbers.
fn poll(cq: &CompletionQueue) -> Vec<u64> {
    let mut out = [Completion::EMPTY; 2];
    let taken = cq.poll(&mut out);
    let whole = |polled: &Completion| {
        let is_whole = (polled.timestamp, polled.status) == (polled.wr_id, Status::Success);
        assert!(is_whole, "model: a whole completion");
        polled.wr_id
    };
    out[..taken].iter().map(whole).collect()
}

/// Makes a queue. Its first ring is made at the first look, which has to come before a model has threads.
fn queue(entries: u32, ignores_overrun: bool) -> Arc<CompletionQueue> {
    let cq = CompletionQueue::numbered(0, entries, ignores_overrun);
    assert!(cq.is_empty());
    Arc::new(cq)
}

/// Starts the thread of the engine, which makes the completions with these numbers.
fn push(cq: &Arc<CompletionQueue>, mut numbers: RangeInclusive<u64>) -> thread::JoinHandle<()> {
    let cq = Arc::clone(cq);
    thread::spawn(move || assert!(numbers.all(|number| cq.push(&completion(number), Frees::default()))))
}

/// The engine makes two completions, and the application polls.
fn push_and_poll() {
    let cq = queue(2, false);
    let engine = push(&cq, 1..=2);
    let mut polled = poll(&cq);
    engine.join().unwrap();
    polled.extend(poll(&cq));
    assert_eq!(polled, [1, 2], "model: each completion once");
}

#[test]
fn each_completion_is_polled_once() {
    check(&[Weakened::Acquire, Weakened::Release], push_and_poll);
}

/// The engine writes a completion over another one, which the application polls.
fn overwrite() {
    let cq = queue(1, true);
    assert!(cq.push(&completion(1), Frees::default()));
    let engine = push(&cq, 2..=2);
    let mut polled = poll(&cq);
    engine.join().unwrap();
    polled.extend(poll(&cq));
    assert!(polled == [1, 2] || polled == [2], "model: the last completion: {polled:?}");
}

#[test]
fn a_completion_that_is_overwritten_is_never_torn() {
    // Each word that is overwritten has two values to be seen: with two preemptions this takes minutes.
    check_within(Some(1), &[Weakened::Acquire, Weakened::Release, Weakened::Fence], overwrite);
}

/// Two threads poll two completions.
fn two_pollers(poll: fn(&CompletionQueue) -> Vec<u64>) {
    let cq = queue(2, false);
    (1..=2).for_each(|number| assert!(cq.push(&completion(number), Frees::default())));
    let other = {
        let cq = Arc::clone(&cq);
        thread::spawn(move || poll(&cq))
    };
    let mut polled = poll(&cq);
    polled.extend(other.join().unwrap());
    polled.sort_unstable();
    assert_eq!(polled, [1, 2], "model: each completion once");
}

#[test]
fn two_threads_poll() {
    check(&[], || two_pollers(poll));
}

#[test]
fn polling_without_the_lock_is_found() {
    find(|| {
        two_pollers(|cq| {
            let mut out = [Completion::EMPTY; 2];
            let taken = take(cq.rings.current(), &mut WorkQueues::default(), &mut out);
            out[..taken].iter().map(|polled| polled.wr_id).collect()
        });
    });
}

/// What the application does before it sleeps.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Arming {
    /// It arms and polls once more.
    ThenPoll,
    /// It polls and arms.
    AfterPoll,
    /// It arms the ring that it saw first, and does not check whether another one took its place.
    OldRing,
}

/// The engine makes a completion while the application is about to sleep, and changes the queue's size before if so
/// wanted.
fn arm(arming: Arming, resizes: bool) {
    let cq = queue(1, false);
    if resizes {
        // Both rings are made before there are threads.
        cq.resize(2).and_then(|()| cq.resize(1)).expect("an empty queue");
    }
    let engine = {
        let cq = Arc::clone(&cq);
        thread::spawn(move || {
            if resizes {
                cq.resize(2).expect("an empty queue");
            }
            assert!(cq.push(&completion(1), Frees::default()));
            cq.take_event(0) == CqNotice::Due
        })
    };
    let polled = match arming {
        Arming::ThenPoll => {
            cq.request_notification(false);
            poll(&cq)
        }
        Arming::AfterPoll => {
            let polled = poll(&cq);
            cq.request_notification(false);
            polled
        }
        Arming::OldRing => {
            cq.rings.current().arm().fetch_or(u64::from(ARMED_ANY), Ordering::SeqCst);
            fence(Ordering::SeqCst);
            poll(&cq)
        }
    };
    let is_woken = engine.join().unwrap();
    assert!(is_woken || polled == [1], "model: the application hears of the completion");
}

#[test]
fn no_event_is_lost() {
    check(&[Weakened::Fence], || arm(Arming::ThenPoll, false));
}

#[test]
fn arming_without_polling_once_more_is_found() {
    find(|| arm(Arming::AfterPoll, false));
}

#[test]
fn no_event_is_lost_when_the_size_changes() {
    check(&[], || arm(Arming::ThenPoll, true));
}

#[test]
fn arming_a_ring_that_is_not_in_use_is_found() {
    find(|| arm(Arming::OldRing, true));
}

/// The completion queue has as many places as the send queue. A request that is posted to a place that a poll freed
/// finds room for its completion.
fn places(poll: fn(&CompletionQueue)) {
    let cq = queue(1, false);
    let queues = queues();
    let number = cq.attach(WorkQueue::Send(Arc::clone(&queues))).expect("places that polls free");
    queues.handle_event(QpEvent::Established);
    queues.post_send(&request(1)).expect("room for one");
    assert!(cq.push(&completion(1), Frees { number, end: 1 }));
    let poller = {
        let cq = Arc::clone(&cq);
        thread::spawn(move || poll(&cq))
    };
    // This thread posts, and is the engine.
    if queues.post_send(&request(2)).is_ok() {
        assert_eq!(queues.send.load(1, &mut SendWork::new()), Ok(()), "model: a whole entry");
        assert!(cq.push(&completion(2), Frees { number, end: 2 }), "model: room for the completion");
    }
    poller.join().unwrap();
}

#[test]
fn a_place_that_a_poll_frees_has_room_for_its_completion() {
    check(&[Weakened::Acquire, Weakened::Release], || {
        places(|cq| {
            cq.poll(&mut [Completion::EMPTY]);
        });
    });
}

#[test]
fn freeing_a_place_before_its_completion_is_found() {
    find(|| {
        places(|cq| {
            let ring = cq.rings.current();
            cq.polling().free(&Run::of(Frees::load(ring.entry(0))));
            ring.release(1);
        });
    });
}
