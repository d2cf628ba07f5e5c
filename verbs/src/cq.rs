//! The completion queue.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering, fence};
use std::sync::{Mutex, PoisonError};

use crate::completion::PackedCompletion;
use crate::{Completion, Ring};

/// A ring of completions: one engine produces, the application polls.
#[derive(Debug)]
pub struct CompletionQueue {
    ring: Ring,
    polling: Mutex<()>,
    overrun: AtomicBool,
    /// What was pushed since the last [`CompletionQueue::take_event`]; only the engine uses it.
    pushed: AtomicU8,
}

impl CompletionQueue {
    /// A queue for at least `entries` completions.
    pub fn new(entries: u32) -> Self {
        Self {
            ring: Ring::new(entries, PackedCompletion::OCTETS),
            polling: Mutex::new(()),
            overrun: AtomicBool::new(false),
            pushed: AtomicU8::new(0),
        }
    }

    /// Takes up to `out.len()` completions, oldest first, and answers how many there were.
    pub fn poll(&self, out: &mut [Completion]) -> usize {
        // The common case of an empty queue costs two loads and no lock.
        if self.is_empty() {
            return 0;
        }
        let _one_at_a_time = self.polling.lock().unwrap_or_else(PoisonError::into_inner);
        let head = self.ring.head();
        let mut taken = 0;
        for (slot, index) in out.iter_mut().zip(head..self.ring.tail()) {
            let words = self.ring.entry(index);
            *slot = PackedCompletion(core::array::from_fn(|i| words[i].load(Ordering::Relaxed))).unpack();
            taken += 1;
        }
        self.ring.release(head + taken as u64);
        taken
    }

    /// Asks for one event at the next completion, or with `solicited_only` at the next solicited or failed one.
    ///
    /// Completions that are in the queue already make no event: arm, then poll once more, as with `ibv_req_notify_cq`.
    pub fn request_notification(&self, solicited_only: bool) {
        let wanted = if solicited_only { ARMED_SOLICITED } else { ARMED_ANY };
        self.ring.arm().fetch_or(u64::from(wanted), Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Adds a completion. A queue that is full is overrun: it takes no more, and whoever asks [`Self::is_overrun`] has to
    /// bring its queue pairs down.
    pub fn push(&self, completion: &Completion) {
        let tail = self.ring.tail();
        if self.is_overrun() || tail - self.ring.head().min(tail) >= self.ring.entries() {
            self.overrun.store(true, Ordering::Release);
            return;
        }
        for (word, value) in self.ring.entry(tail).iter().zip(PackedCompletion::from(completion).0) {
            word.store(value, Ordering::Relaxed);
        }
        self.ring.publish(tail + 1);
        let urgent = completion.solicited || completion.status != crate::Status::Success;
        let pushed = if urgent { ARMED_ANY | ARMED_SOLICITED } else { ARMED_ANY };
        self.pushed.store(self.pushed.load(Ordering::Relaxed) | pushed, Ordering::Relaxed);
    }

    /// Whether a notification has become due since the last call; the engine asks once after each burst of completions.
    pub fn take_event(&self) -> bool {
        let pushed = self.pushed.load(Ordering::Relaxed);
        if pushed == 0 {
            return false;
        }
        self.pushed.store(0, Ordering::Relaxed);
        // Without this fence the load of the arm word could come before the stores of `push`, and a consumer that arms and
        // then polls once more could miss both the completion and the event.
        fence(Ordering::SeqCst);
        let due = self.ring.arm().load(Ordering::Acquire) & u64::from(pushed) != 0;
        if due {
            self.ring.arm().store(0, Ordering::Release);
        }
        due
    }

    /// Whether a completion was lost because nobody polled in time.
    pub fn is_overrun(&self) -> bool {
        self.overrun.load(Ordering::Acquire)
    }

    /// Whether there is nothing to poll.
    pub fn is_empty(&self) -> bool {
        self.ring.head() == self.ring.tail()
    }

    /// The number of completions it holds at most.
    pub const fn capacity(&self) -> u64 {
        self.ring.entries()
    }
}

const ARMED_SOLICITED: u8 = 0x01;
const ARMED_ANY: u8 = 0x02;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CompletionOpcode, Status};

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
                cq.push(&completion(round * 3 + i));
            }
            assert_eq!(cq.poll(&mut out), 3);
            assert_eq!(out.map(|c| c.wr_id), [round * 3, round * 3 + 1, round * 3 + 2]);
        }
        assert_eq!(cq.poll(&mut out), 0);
    }

    #[test]
    fn a_full_queue_is_overrun_and_keeps_what_it_had() {
        let cq = CompletionQueue::new(2);
        cq.push(&completion(1));
        cq.push(&completion(2));
        assert!(!cq.is_overrun());
        cq.push(&completion(3));
        assert!(cq.is_overrun());
        let mut out = [completion(0); 4];
        assert_eq!(cq.poll(&mut out), 2);
        assert_eq!(out[1].wr_id, 2);
    }

    #[test]
    fn notification_fires_once_and_only_when_asked() {
        let cq = CompletionQueue::new(8);
        cq.push(&completion(1));
        assert!(!cq.take_event());
        cq.request_notification(false);
        assert!(!cq.take_event());
        cq.push(&completion(2));
        cq.push(&completion(3));
        assert!(cq.take_event());
        assert!(!cq.take_event());
    }

    #[test]
    fn solicited_notification_waits_for_the_solicited_or_failed_one() {
        let cq = CompletionQueue::new(8);
        cq.request_notification(true);
        cq.push(&completion(1));
        assert!(!cq.take_event());
        cq.push(&Completion { solicited: true, ..completion(2) });
        assert!(cq.take_event());
        cq.request_notification(true);
        cq.push(&Completion { status: Status::WorkRequestFlushed, ..completion(3) });
        assert!(cq.take_event());
        // Asking for any after asking for solicited ones widens the request, never the other way round.
        cq.request_notification(false);
        cq.request_notification(true);
        cq.push(&completion(4));
        assert!(cq.take_event());
    }
}
