//! The two ends of a wire through memory.

use core::fmt;
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use rustix::event::{EventfdFlags, eventfd};

use crate::frame::Frame;

/// One end. Frames sent here go into a lane that the other end receives from.
#[derive(Debug)]
pub(crate) struct PairEnd {
    outgoing: Arc<Lane>,
    incoming: Arc<Lane>,
    /// No frame was left when the last one was received.
    is_drained: bool,
}

impl PairEnd {
    /// Makes both ends.
    pub(crate) fn both() -> [Self; 2] {
        let (left, right) = (Arc::new(Lane::default()), Arc::new(Lane::default()));
        let end = |outgoing: &Arc<Lane>, incoming: &Arc<Lane>| Self {
            outgoing: Arc::clone(outgoing),
            incoming: Arc::clone(incoming),
            is_drained: false,
        };
        [end(&left, &right), end(&right, &left)]
    }

    /// Sends a frame, and leaves an old one in its place. Returns false if the lane is full and the frame is lost.
    pub(crate) fn send(&self, frame: &mut Frame) -> bool {
        let mut queue = self.outgoing.lock();
        if queue.frames.len() >= CAPACITY {
            return false;
        }
        let sent = frame.hand_on(|| queue.spare.pop().unwrap_or_default());
        queue.frames.push_back(sent);
        if queue.frames.len() == 1 {
            self.outgoing.ring();
        }
        true
    }

    /// Takes the next frame. The old buffer of `frame` goes back to the sender for a later frame.
    pub(crate) fn receive(&mut self, frame: &mut Frame) -> bool {
        let mut queue = self.incoming.lock();
        let Some(next) = queue.frames.pop_front() else { return false };
        let old = std::mem::replace(frame, next);
        if queue.spare.len() < MAX_SPARE && !old.is_shared() && old.size() > 0 {
            queue.spare.push(old);
        }
        self.is_drained = queue.frames.is_empty();
        if self.is_drained {
            self.incoming.silence();
        }
        true
    }

    /// Returns true if no frame was left when the last one was received. This saves another look under the lock.
    pub(crate) const fn is_drained(&self) -> bool {
        self.is_drained
    }

    pub(crate) fn is_readable(&self) -> bool {
        !self.incoming.lock().frames.is_empty()
    }

    pub(crate) fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        let queue = self.incoming.lock();
        if self.incoming.bell.get().is_none() {
            let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok()?;
            self.incoming.bell.get_or_init(|| bell);
            if !queue.frames.is_empty() {
                self.incoming.ring();
            }
        }
        self.incoming.bell.get().map(AsFd::as_fd)
    }
}

/// One direction. The bell is an eventfd that is readable while frames wait. It is made when it is first asked for,
/// so that a pair in one thread costs no system call.
#[derive(Debug, Default)]
struct Lane {
    queue: Mutex<Queue>,
    bell: OnceLock<OwnedFd>,
}

#[derive(Default)]
struct Queue {
    frames: VecDeque<Frame>,
    /// Buffers of received frames. The last one is used first, while it is in the cache.
    spare: Vec<Frame>,
}

impl Lane {
    /// A panic cannot leave the queue half-changed, so that a poisoned lock is good.
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self) {
        if let Some(bell) = self.bell.get() {
            // The only error is a full counter, which is readable as well.
            let _full = rustix::io::write(bell, &1_u64.to_ne_bytes());
        }
    }

    fn silence(&self) {
        if let Some(bell) = self.bell.get() {
            // The only error is a counter that is zero already.
            let _empty = rustix::io::read(bell, &mut [0; 8]);
        }
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("frames", &self.frames.len()).finish_non_exhaustive()
    }
}

/// Frames in each direction.
const CAPACITY: usize = 512;
const MAX_SPARE: usize = 64;

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::fs::{OFlags, fcntl_getfl};
    use rustix::io::{FdFlags, fcntl_getfd};
    use smoltcp::time::Instant;

    use super::*;
    use crate::{Wire, pair};

    const NOW: Instant = Instant::ZERO;

    fn is_ringing(wire: &Wire) -> bool {
        let fd = wire.poll_fd().unwrap();
        let mut fds = [PollFd::new(&fd, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 1
    }

    #[test]
    fn the_bell_never_blocks_and_ends_with_exec() {
        let (wire, _other) = pair(1500);
        let bell = wire.poll_fd().unwrap();
        assert!(fcntl_getfl(bell).unwrap().contains(OFlags::NONBLOCK));
        assert!(fcntl_getfd(bell).unwrap().contains(FdFlags::CLOEXEC));
    }

    #[test]
    fn frames_go_both_ways_in_order() {
        let (mut left, mut right) = pair(1500);
        let mut frame = Vec::new();
        assert!(!right.receive(NOW, &mut frame));
        left.send(NOW, &[1; 60]);
        left.send(NOW, &[2; 61]);
        right.send(NOW, &[3; 62]);
        assert!(right.is_readable());
        assert!(right.receive(NOW, &mut frame) && frame == [1; 60]);
        assert!(right.receive(NOW, &mut frame) && frame == [2; 61]);
        assert!(!right.receive(NOW, &mut frame) && !right.is_readable());
        assert!(left.receive(NOW, &mut frame) && frame == [3; 62]);
    }

    /// A frame without a buffer in place of one with a buffer would cost the sender an allocation.
    #[test]
    fn only_buffers_go_back_to_the_sender() {
        let [left, mut right] = PairEnd::both();
        let mut frame = Frame::default();
        for _ in 0..3 {
            left.send(&mut Frame::copy_of(&[1; 60]));
        }
        assert!(right.receive(&mut frame));
        let mut shared = Frame::in_buffer(vec![0; 60].into(), 60);
        assert!(right.receive(&mut frame) && right.receive(&mut shared));
        assert_eq!(left.outgoing.lock().spare.iter().map(Frame::size).collect::<Vec<_>>(), [60]);
    }

    #[test]
    fn a_full_lane_and_a_frame_too_long_are_lost_and_counted() {
        let (mut left, mut right) = pair(600);
        left.send(NOW, &[0; 614]);
        left.send(NOW, &[0; 615]);
        for _ in 0..CAPACITY {
            left.send(NOW, &[0; 60]);
        }
        let counters = left.counters();
        assert_eq!((counters.sent, counters.too_long, counters.send_lost), (CAPACITY as u64, 1, 1));
        let mut frame = Vec::new();
        assert_eq!((0..).take_while(|_| right.receive(NOW, &mut frame)).count(), CAPACITY);
        assert_eq!(right.counters().received, CAPACITY as u64);
    }

    #[test]
    fn the_bell_rings_exactly_while_frames_wait() {
        let (mut left, mut right) = pair(1500);
        let mut frame = Vec::new();
        left.send(NOW, &[0; 60]);
        assert!(is_ringing(&right), "a frame from before the first question counts");
        left.send(NOW, &[0; 60]);
        assert!(right.receive(NOW, &mut frame) && is_ringing(&right));
        assert!(right.receive(NOW, &mut frame) && !is_ringing(&right));
        left.send(NOW, &[0; 60]);
        assert!(is_ringing(&right) && !is_ringing(&left));
    }

    #[test]
    #[should_panic(expected = "outside 576 to 65535")]
    fn an_impossible_mtu_panics() {
        let _wires = pair(575);
    }
}
