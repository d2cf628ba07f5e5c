//! Tests of the completion queue: order, overruns, events, moderation, sizes.

use super::*;
use crate::completion::{CompletionOpcode, Status};

fn completion(wr_id: u64) -> Completion {
    Completion {
        wr_id,
        status: Status::Success,
        opcode: CompletionOpcode::Send,
        byte_len: 0,
        invalidated: None,
        immediate: None,
        qp_num: 1,
        vendor_err: 0,
        solicited: false,
        timestamp: 0,
    }
}

#[test]
fn in_order_across_the_wrap() {
    let cq = CompletionQueue::new(4);
    let mut out = [completion(0); 3];
    for round in 0..10 {
        for i in 0..3 {
            cq.push(&completion(round * 3 + i), Frees::default());
        }
        assert_eq!(cq.poll(&mut out), 3);
        assert_eq!(out.map(|c| c.wr_id), [round * 3, round * 3 + 1, round * 3 + 2]);
    }
    assert_eq!(cq.poll(&mut out), 0);
}

#[test]
fn a_full_queue_is_overrun_and_keeps_what_it_had() {
    let cq = CompletionQueue::new(2);
    cq.push(&completion(1), Frees::default());
    cq.push(&completion(2), Frees::default());
    assert!(!cq.is_overrun());
    cq.push(&completion(3), Frees::default());
    assert!(cq.is_overrun());
    let mut out = [completion(0); 4];
    assert_eq!(cq.poll(&mut out), 2);
    assert_eq!(out[1].wr_id, 2);
}

#[test]
fn notification_fires_once_and_only_when_asked() {
    let cq = CompletionQueue::new(8);
    cq.push(&completion(1), Frees::default());
    assert_eq!(cq.take_event(0), CqNotice::None);
    cq.request_notification(false);
    assert_eq!(cq.take_event(0), CqNotice::None);
    cq.push(&completion(2), Frees::default());
    cq.push(&completion(3), Frees::default());
    assert_eq!(cq.take_event(0), CqNotice::Due);
    assert_eq!(cq.take_event(0), CqNotice::None);
}

#[test]
fn solicited_notification_waits_for_the_solicited_or_failed_one() {
    let cq = CompletionQueue::new(8);
    cq.request_notification(true);
    cq.push(&completion(1), Frees::default());
    assert_eq!(cq.take_event(0), CqNotice::None);
    cq.push(&Completion { solicited: true, ..completion(2) }, Frees::default());
    assert_eq!(cq.take_event(0), CqNotice::Due);
    cq.request_notification(true);
    cq.push(&Completion { status: Status::WorkRequestFlushed, ..completion(3) }, Frees::default());
    assert_eq!(cq.take_event(0), CqNotice::Due);
    // A request for any completion widens one for solicited completions, never the other way round.
    cq.request_notification(false);
    cq.request_notification(true);
    cq.push(&completion(4), Frees::default());
    assert_eq!(cq.take_event(0), CqNotice::Due);
}

#[test]
fn solicited_after_any_stays_any() {
    let cq = CompletionQueue::new(8);
    cq.request_notification(true);
    cq.request_notification(false);
    cq.push(&completion(1), Frees::default());
    assert_eq!(cq.take_event(0), CqNotice::Due);
    // The event has disarmed both.
    cq.push(&Completion { solicited: true, ..completion(2) }, Frees::default());
    assert_eq!(cq.take_event(0), CqNotice::None);
}

#[test]
fn overwriting_keeps_the_newest() {
    let cq = CompletionQueue::numbered(1, 4, true);
    let mut out = [completion(0); 8];
    for wr_id in 0..11 {
        cq.push(&completion(wr_id), Frees::default());
    }
    assert!(!cq.is_overrun());
    assert_eq!((cq.produced(), cq.capacity()), (11, 4));
    assert_eq!(cq.poll(&mut out[..3]), 3);
    assert_eq!(out.map(|c| c.wr_id)[..3], [7, 8, 9]);
    cq.push(&completion(11), Frees::default());
    assert_eq!(cq.poll(&mut out), 2);
    assert_eq!(out.map(|c| c.wr_id)[..2], [10, 11]);
    assert_eq!(cq.poll(&mut out), 0);
}

/// Completions that are polled while another thread writes over them are whole, and in order.
#[test]
fn overwritten_completions_are_never_torn() {
    let cq = CompletionQueue::numbered(1, 2, true);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for wr_id in 1..=200_000 {
                let vendor_err = u32::try_from(wr_id).unwrap();
                cq.push(
                    &Completion { byte_len: vendor_err, vendor_err, timestamp: wr_id, ..completion(wr_id) },
                    Frees::default(),
                );
            }
        });
        let (mut out, mut last) = ([completion(0); 2], 0);
        while last < 200_000 {
            let taken = cq.poll(&mut out);
            for polled in &out[..taken] {
                assert!(polled.wr_id > last);
                last = polled.wr_id;
                let words = [polled.timestamp, polled.byte_len.into(), polled.vendor_err.into()];
                assert_eq!(words, [last; 3]);
            }
        }
    });
}

#[test]
fn resizing_keeps_all_and_their_order() {
    let cq = CompletionQueue::new(4);
    let mut out = [completion(0); 64];
    let mut next = 0;
    let mut expected = 0;
    for (entries, push, poll) in
        [(16, 3, 1), (64, 12, 5), (16, 4, 9), (8, 3, 0), (8, 1, 2), (4, 0, 4), (2, 2, 0), (128, 0, 0)]
    {
        for _ in 0..push {
            cq.push(&completion(next), Frees::default());
            next += 1;
        }
        let taken = cq.poll(&mut out[..poll]);
        for polled in &out[..taken] {
            assert_eq!(polled.wr_id, expected);
            expected += 1;
        }
        cq.request_notification(false);
        let fits = next - expected <= u64::from(entries);
        assert_eq!(cq.resize(entries).is_ok(), fits, "{} in {entries}", next - expected);
        assert_eq!((cq.produced(), cq.len()), (next, next - expected));
        assert!(!cq.is_overrun());
    }
    assert_eq!((cq.capacity(), cq.armed()), (128, Some(false)));
    assert_eq!(cq.resize(MAX_CQ_ENTRIES + 1), Err(ResizeError::TooLarge));
    let taken = cq.poll(&mut out);
    assert!(out[..taken].iter().map(|polled| polled.wr_id).eq(expected..next));
}

#[test]
fn an_armed_queue_stays_armed_through_a_resize() {
    let cq = CompletionQueue::new(2);
    cq.request_notification(true);
    cq.resize(64).unwrap();
    assert_eq!(cq.armed(), Some(true));
    cq.push(&Completion { solicited: true, ..completion(1) }, Frees::default());
    assert_eq!(cq.take_event(0), CqNotice::Due);
    cq.resize(2).unwrap();
    assert_eq!(cq.armed(), None, "the ring of before remembers nothing");
}

/// A thread polls and arms while the queue changes its size: no completion is lost, and none comes twice.
#[test]
fn a_thread_may_poll_while_it_is_resized() {
    const COUNT: u64 = 20_000;
    let cq = CompletionQueue::new(1);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut out, mut expected) = ([completion(0); 5], 0);
            while expected < COUNT {
                cq.request_notification(expected % 2 == 0);
                let taken = cq.poll(&mut out);
                for polled in &out[..taken] {
                    assert_eq!(polled.wr_id, expected);
                    expected += 1;
                }
            }
        });
        for wr_id in 0..COUNT {
            // A size smaller than the number of completions is refused. The largest size is always taken.
            let smaller = cq.resize(1 << (wr_id % 8));
            if smaller.is_err() || cq.len() == cq.capacity() {
                cq.resize(1 << 15).unwrap();
            }
            cq.push(&completion(wr_id), Frees::default());
        }
    });
    assert!(!cq.is_overrun());
}

#[test]
fn an_event_waits_for_its_count_or_its_time() {
    let cq = CompletionQueue::new(64);
    let push = |count| (0..count).for_each(|wr_id| assert!(cq.push(&completion(wr_id), Frees::default())));
    cq.set_moderation(3, 100);
    cq.request_notification(false);
    push(1);
    assert_eq!(cq.take_event(1000), CqNotice::Held(Some(1100)));
    push(1);
    assert_eq!(cq.take_event(1050), CqNotice::Held(Some(1100)), "from the first one on");
    push(1);
    assert_eq!(cq.take_event(1060), CqNotice::Due);
    push(5);
    assert_eq!(cq.take_event(1070), CqNotice::None, "no event was asked for");
    cq.request_notification(false);
    push(2);
    assert_eq!(cq.take_event(2000), CqNotice::Held(Some(2100)), "those before it do not count");
    assert_eq!(cq.take_event(2100), CqNotice::Due);
    assert_eq!(cq.take_event(2200), CqNotice::None);
    // Only the count; only the time; neither.
    cq.set_moderation(2, 0);
    cq.request_notification(true);
    push(1);
    assert_eq!(cq.take_event(0), CqNotice::None, "not solicited");
    cq.push(&Completion { solicited: true, ..completion(9) }, Frees::default());
    assert_eq!(cq.take_event(0), CqNotice::Held(None));
    cq.set_moderation(0, 7);
    assert_eq!(cq.take_event(1), CqNotice::Held(Some(8)));
    push(30);
    assert_eq!(cq.take_event(7), CqNotice::Held(Some(8)));
    assert_eq!(cq.take_event(8), CqNotice::Due);
    cq.set_moderation(1, 0);
    cq.request_notification(false);
    push(1);
    assert_eq!(cq.take_event(0), CqNotice::Due);
}

#[test]
fn waiting_queue_pairs_are_told_once() {
    let cq = CompletionQueue::numbered(1, 2, true);
    let ready = || {
        let mut all = Vec::new();
        cq.take_ready(|number| all.push(number));
        all
    };
    cq.await_completions(7, 1, false);
    cq.await_completions(8, 2, false);
    cq.await_completions(9, 2, false);
    cq.await_completions(9, 3, false);
    assert_eq!(ready(), []);
    cq.push(&completion(1), Frees::default());
    assert_eq!(ready(), [7]);
    cq.forget(8);
    cq.push(&completion(2), Frees::default());
    assert_eq!(ready(), []);
    cq.push(&completion(3), Frees::default());
    assert_eq!(ready(), [9]);
    assert_eq!(ready(), []);
}
