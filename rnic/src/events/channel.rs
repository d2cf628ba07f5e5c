//! Event channels: a queue with a file descriptor that is readable exactly while something is in it.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{Errno, read, write};
use weft_netif::Held;

/// A queue of events behind an eventfd in semaphore mode, with one token for each event. It works with poll, epoll
/// (also edge triggered, if drained) and asynchronous runtimes.
#[derive(Debug)]
pub(crate) struct Channel<T> {
    queue: Mutex<Queue<T>>,
    /// Tokens of events in the queue that are being written. This happens without the lock: the thread that a token
    /// wakes takes the lock at once.
    unwritten: AtomicU64,
    fd: Held,
}

/// Events, and how many of them have no token yet.
#[derive(Debug)]
struct Queue<T> {
    events: VecDeque<T>,
    without_token: u64,
    holds: usize,
}

/// As long as this lives, new events of the channel get no token. Events that are left when it is dropped get theirs
/// then.
#[derive(Debug)]
pub(crate) struct ChannelHold<'a, T>(&'a Channel<T>);

impl<T> Channel<T> {
    pub(crate) fn new() -> io::Result<Self> {
        let queue = Queue { events: VecDeque::new(), without_token: 0, holds: 0 };
        Ok(Self { queue: Mutex::new(queue), unwritten: AtomicU64::new(0), fd: semaphore()? })
    }

    /// For a thread that makes events and takes them itself at once: it saves the two system calls for the token of
    /// each. Another thread that waits sees the events that are left a moment later.
    pub(crate) fn hold(&self) -> ChannelHold<'_, T> {
        self.queue().holds += 1;
        ChannelHold(self)
    }

    pub(crate) fn push(&self, event: T) {
        let mut queue = self.queue();
        queue.events.push_back(event);
        if queue.holds > 0 {
            queue.without_token += 1;
        } else {
            self.give_tokens(1, queue);
        }
    }

    /// Writes the tokens of events that are in the queue.
    fn give_tokens(&self, tokens: u64, queue: MutexGuard<'_, Queue<T>>) {
        self.unwritten.fetch_add(tokens, Ordering::Relaxed);
        drop(queue);
        add_tokens(self.fd.as_fd(), tokens);
        self.unwritten.fetch_sub(tokens, Ordering::Release);
    }

    /// Takes the first event that `matches`, with its token, out of the queue. Returns whether there was one.
    pub(crate) fn remove(&self, matches: impl FnMut(&T) -> bool) -> bool {
        let mut queue = self.queue();
        let Some(index) = queue.events.iter().position(matches) else { return false };
        queue.events.remove(index);
        self.take_token(&mut queue);
        true
    }

    /// Takes all events that `matches`, with their tokens, out of the queue, oldest first.
    pub(crate) fn take_all(&self, mut matches: impl FnMut(&T) -> bool) -> Vec<T> {
        let mut queue = self.queue();
        let (taken, left): (Vec<T>, Vec<T>) = queue.events.drain(..).partition(|event| matches(event));
        queue.events.extend(left);
        taken.iter().for_each(|_| self.take_token(&mut queue));
        taken
    }

    pub(crate) fn pop(&self) -> Option<T> {
        let mut queue = self.queue();
        let event = queue.events.pop_front()?;
        self.take_token(&mut queue);
        Some(event)
    }

    /// Takes the token of an event. There is none if the application has read it itself, which does no harm.
    fn take_token(&self, queue: &mut Queue<T>) {
        if queue.without_token > 0 {
            queue.without_token -= 1;
            return;
        }
        loop {
            let is_all_written = self.unwritten.load(Ordering::Acquire) == 0;
            if clear(self.fd.as_fd()) || is_all_written {
                return;
            }
            // The thread that made the event is about to write its token.
            std::thread::yield_now();
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue<T>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Drop for ChannelHold<'_, T> {
    fn drop(&mut self) {
        let mut queue = self.0.queue();
        queue.holds -= 1;
        if queue.holds == 0 && queue.without_token > 0 {
            let tokens = core::mem::take(&mut queue.without_token);
            self.0.give_tokens(tokens, queue);
        }
    }
}

impl<T> AsFd for Channel<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A file descriptor by which any thread wakes the thread that sleeps on it.
#[derive(Debug)]
pub(crate) struct Wakeup(Held);

impl Wakeup {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self(Held::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?)))
    }

    pub(crate) fn wake(&self) {
        signal(self.0.as_fd());
    }

    pub(crate) fn clear(&self) {
        let _was_woken = clear(self.0.as_fd());
    }
}

impl AsFd for Wakeup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// An eventfd that counts tokens, one for each event.
pub(crate) fn semaphore() -> io::Result<Held> {
    let flags = EventfdFlags::SEMAPHORE | EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC;
    Ok(Held::new(eventfd(0, flags)?))
}

/// Adds a token.
pub(crate) fn signal(fd: BorrowedFd<'_>) {
    add_tokens(fd, 1);
}

fn add_tokens(fd: BorrowedFd<'_>, tokens: u64) {
    // An eventfd refuses only when its counter is at the top. Then it is readable already.
    while write(fd, &tokens.to_ne_bytes()) == Err(Errno::INTR) {}
}

/// Takes a token, if there is one. Returns whether there was.
pub(crate) fn clear(fd: BorrowedFd<'_>) -> bool {
    let mut token = [0; 8];
    loop {
        match read(fd, &mut token) {
            Err(Errno::INTR) => {}
            outcome => return outcome.is_ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::fs::{OFlags, fcntl_getfl};
    use rustix::io::{FdFlags, fcntl_getfd};

    fn readable(fd: &impl AsFd) -> bool {
        let mut fds = [PollFd::new(fd, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 1
    }

    #[test]
    fn readable_exactly_while_events_wait() {
        let channel = Channel::new().unwrap();
        assert!(!readable(&channel));
        channel.push(1);
        channel.push(2);
        assert!(readable(&channel));
        assert_eq!(channel.pop(), Some(1));
        assert!(readable(&channel));
        assert_eq!(channel.pop(), Some(2));
        assert!(!readable(&channel));
        assert_eq!(channel.pop(), None);
        channel.push(3);
        channel.push(4);
        channel.remove(|&event| event == 4);
        channel.remove(|&event| event == 5);
        assert_eq!(channel.pop(), Some(3));
        assert!(!readable(&channel));
    }

    #[test]
    fn what_is_taken_while_it_is_held_needs_no_token_and_what_is_left_gets_its_own() {
        let channel = Channel::new().unwrap();
        channel.push(1);
        let (outer, inner) = (channel.hold(), channel.hold());
        (2..=5).for_each(|event| channel.push(event));
        assert_eq!((channel.pop(), channel.pop()), (Some(1), Some(2)));
        assert!(channel.remove(|&event| event == 4));
        drop(inner);
        assert_eq!(channel.queue().events, [3, 5]);
        drop(outer);
        assert!(readable(&channel));
        assert_eq!(channel.pop(), Some(3));
        assert!(readable(&channel));
        assert_eq!(channel.pop(), Some(5));
        assert!(!readable(&channel));
        drop(channel.hold());
        assert!(!readable(&channel));
        channel.push(6);
        assert!(readable(&channel));
    }

    #[test]
    fn each_event_that_is_left_after_a_hold_has_a_token_of_its_own() {
        let channel = Channel::new().unwrap();
        let hold = channel.hold();
        (1..=3).for_each(|event| channel.push(event));
        drop(channel.hold());
        assert!(!readable(&channel));
        drop(hold);
        for event in 1..=3 {
            assert!(readable(&channel), "event {event} has no token");
            assert_eq!(channel.pop(), Some(event));
        }
        assert!(!readable(&channel));
    }

    #[test]
    fn an_event_that_is_taken_at_once_leaves_no_token_behind() {
        const EVENTS: u64 = 5_000;
        let (channel, taken) = (Channel::new().unwrap(), AtomicU64::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for event in 1..=EVENTS {
                    channel.push(event);
                    while taken.load(Ordering::Acquire) < event {
                        std::thread::yield_now();
                    }
                }
            });
            // It does not wait for the descriptor, and so meets events whose tokens are not written yet.
            while taken.load(Ordering::Relaxed) < EVENTS {
                if let Some(event) = channel.pop() {
                    taken.store(event, Ordering::Release);
                }
            }
        });
        assert!(!readable(&channel), "a token is left without an event");
    }

    #[test]
    fn descriptors_never_block_and_end_with_exec() {
        let (channel, wakeup) = (Channel::<u8>::new().unwrap(), Wakeup::new().unwrap());
        for fd in [channel.as_fd(), wakeup.as_fd()] {
            assert!(fcntl_getfl(fd).unwrap().contains(OFlags::NONBLOCK));
            assert!(fcntl_getfd(fd).unwrap().contains(FdFlags::CLOEXEC));
        }
    }

    #[test]
    fn wakeups_add_up_to_one() {
        let wakeup = Wakeup::new().unwrap();
        wakeup.wake();
        wakeup.wake();
        assert!(readable(&wakeup));
        wakeup.clear();
        assert!(!readable(&wakeup));
    }
}
