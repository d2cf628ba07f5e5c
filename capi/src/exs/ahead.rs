//! What the calls of POSIX have sent and received ahead.

use core::ops::Range;
use core::pin::Pin;
use core::task::{Context as Task, Poll, Waker};
use std::collections::VecDeque;
use std::future::Future;
use std::io::IoSliceMut;
use std::time::Duration;

use rustix::io::Errno;
use weft_exs::{Buf, Context, Error, Op, Outcome};

use super::wait::finish;

/// Sends of the calls of POSIX that are under way.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    /// Oldest first.
    sends: VecDeque<Op<Ended>>,
    spare: Vec<Buf>,
    /// Why an earlier send has failed, of which no call has told.
    error: Option<Errno>,
}

/// What the calls of POSIX have received ahead.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    /// Octets that a call has looked at and left (`MSG_PEEK`).
    pub(super) peeked: Option<(Buf, Range<usize>)>,
    spare: Option<Buf>,
}

type Ended = (Result<Outcome, Error>, Buf);

impl Outbox {
    /// Takes the sends that have ended. If there are too many, waits for the oldest one, or has it wake the waker.
    ///
    /// # Errors
    /// `EAGAIN`, `EINTR`, or why a send has failed.
    pub(super) fn make_room(&mut self, waker: Option<&Waker>) -> Result<(), Errno> {
        while let Some(op) = self.sends.pop_front() {
            let is_full = self.sends.len() + 1 >= MAX_SENDS;
            let mut op = Some(op);
            match attend(&mut op, waker.or_else(|| (!is_full).then_some(Waker::noop()))) {
                Ok((result, buf)) => {
                    self.keep(buf);
                    self.error = self.error.or_else(|| result.err().map(|error| error.errno()));
                }
                Err(errno) => {
                    op.into_iter().for_each(|op| self.sends.push_front(op));
                    if is_full {
                        return Err(errno);
                    }
                    break;
                }
            }
        }
        self.error.take().map_or(Ok(()), Err)
    }

    /// Returns whether a send would not wait. If it would, the waker is woken when there is room.
    pub(super) fn has_room(&mut self, waker: &Waker) -> bool {
        match self.make_room(Some(waker)) {
            Ok(()) => true,
            Err(Errno::AGAIN) => false,
            Err(errno) => {
                // The next call tells.
                self.error = Some(errno);
                true
            }
        }
    }

    /// Waits until the sends are done, at most for this time each.
    pub(super) fn drain(&mut self, patience: Duration) {
        while let Some(op) = self.sends.pop_front() {
            // A send that has failed has no other effect: the socket is closed.
            if finish(&mut Some(op), Some(patience)).is_err() {
                break;
            }
        }
    }

    pub(super) fn buffer(&mut self, context: &Context, len: usize) -> Result<Buf, Errno> {
        if u32::try_from(len).is_err() {
            return Err(Errno::MSGSIZE);
        }
        match self.spare.pop() {
            Some(buf) if len <= buf.len() => Ok(buf),
            _ => context.buffer(len.max(CHUNK)).map_err(|error| error.errno()),
        }
    }

    fn keep(&mut self, buf: Buf) {
        if buf.len() == CHUNK {
            self.spare.push(buf);
        }
    }

    /// Notes a send that was started.
    ///
    /// # Errors
    /// It was refused.
    pub(super) fn send(&mut self, mut op: Op<Ended>) -> Result<(), Errno> {
        match Pin::new(&mut op).poll(&mut Task::from_waker(Waker::noop())) {
            Poll::Ready((Err(error), _)) => return Err(error.errno()),
            Poll::Ready((Ok(_), buf)) => self.keep(buf),
            Poll::Pending => self.sends.push_back(op),
        }
        Ok(())
    }
}

impl Inbox {
    pub(super) fn buffer(&mut self, context: &Context, len: usize) -> Result<Buf, Errno> {
        match self.spare.take() {
            Some(buf) if len <= buf.len() => Ok(buf),
            _ => context.buffer(len.max(CHUNK)).map_err(|error| error.errno()),
        }
    }

    /// Copies octets that are there to the parts, behind `done`. Returns how many.
    pub(super) fn copy(&mut self, parts: &mut [IoSliceMut<'_>], done: usize, peeks: bool) -> usize {
        let Some((buf, left)) = self.peeked.take() else { return 0 };
        let (mut skipped, mut at) = (done, left.start);
        for part in parts {
            let start = skipped.min(part.len());
            skipped -= start;
            let room = part.get_mut(start..).unwrap_or_default();
            let now = room.len().min(left.end - at);
            if let (Some(to), Some(from)) = (room.get_mut(..now), buf.get(at..at + now)) {
                to.copy_from_slice(from);
                at += now;
            }
        }
        if peeks || at < left.end {
            self.peeked = Some((buf, if peeks { left.clone() } else { at..left.end }));
        } else {
            self.spare = Some(buf).filter(|buf| buf.len() == CHUNK);
        }
        at - left.start
    }
}

/// Waits for an operation, or looks whether it has ended and has it wake the waker. One that goes on is in `op`.
fn attend<T>(op: &mut Option<Op<T>>, waker: Option<&Waker>) -> Result<T, Errno> {
    let Some(waker) = waker else { return finish(op, None) };
    let ended = op.as_mut().map(|op| Pin::new(op).poll(&mut Task::from_waker(waker)));
    match ended {
        Some(Poll::Ready(outcome)) => {
            *op = None;
            Ok(outcome)
        }
        _ => Err(Errno::AGAIN),
    }
}

/// Octets that are copied at a time.
pub(super) const CHUNK: usize = 64 << 10;
/// Sends in the background.
const MAX_SENDS: usize = 8;
