//! Event channels: a queue with a file descriptor that is readable exactly while something is in it.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{Errno, read, write};

/// A queue of events behind an eventfd in semaphore mode: one token for each event, so that poll, epoll (also edge
/// triggered, if drained) and asynchronous runtimes see it right.
#[derive(Debug)]
pub(crate) struct Channel<T> {
    queue: Mutex<VecDeque<T>>,
    fd: OwnedFd,
}

impl<T> Channel<T> {
    pub(crate) fn new() -> io::Result<Self> {
        let flags = EventfdFlags::SEMAPHORE | EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC;
        Ok(Self { queue: Mutex::new(VecDeque::new()), fd: eventfd(0, flags)? })
    }

    pub(crate) fn push(&self, event: T) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.push_back(event);
        signal(self.fd.as_fd());
    }

    /// Takes the first event that `matches`, with its token, out of the queue.
    pub(crate) fn remove(&self, matches: impl FnMut(&T) -> bool) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = queue.iter().position(matches) {
            queue.remove(index);
            clear(self.fd.as_fd());
        }
    }

    pub(crate) fn pop(&self) -> Option<T> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let event = queue.pop_front()?;
        // One token belongs to the event just taken. If the application has read it itself, there is none, and all is well.
        clear(self.fd.as_fd());
        Some(event)
    }
}

impl<T> AsFd for Channel<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A file descriptor by which any thread wakes the one that sleeps on it.
#[derive(Debug)]
pub(crate) struct Wakeup(OwnedFd);

impl Wakeup {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?))
    }

    pub(crate) fn wake(&self) {
        signal(self.0.as_fd());
    }

    pub(crate) fn clear(&self) {
        clear(self.0.as_fd());
    }
}

impl AsFd for Wakeup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn signal(fd: BorrowedFd<'_>) {
    // An eventfd refuses only when its counter is at the top: then it is readable already, which is all that is wanted.
    while write(fd, &1_u64.to_ne_bytes()) == Err(Errno::INTR) {}
}

fn clear(fd: BorrowedFd<'_>) {
    let mut token = [0; 8];
    while read(fd, &mut token) == Err(Errno::INTR) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

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
    fn wakeups_add_up_to_one() {
        let wakeup = Wakeup::new().unwrap();
        wakeup.wake();
        wakeup.wake();
        assert!(readable(&wakeup));
        wakeup.clear();
        assert!(!readable(&wakeup));
    }
}
