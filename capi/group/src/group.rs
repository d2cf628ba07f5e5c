//! A session, and what is done in it and was not handed to the program.

use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use weft_group::{Done, Fresh, Op, OpError, OpId, Originals, Replicas, Session, SessionError};

use crate::abi;
use crate::failure::{Failure, Outcome};

/// A session of a program.
#[derive(Debug)]
pub(crate) struct Group {
    session: Session,
    /// Oldest first.
    done: VecDeque<Done>,
    /// The number behind the newest operation that was begun.
    begun: u64,
    /// The number behind the newest operation that is done.
    ended: u64,
    /// The program has the descriptor, and may sleep on it.
    sleeps: bool,
}

impl Group {
    pub(crate) const fn new(session: Session) -> Self {
        Self { session, done: VecDeque::new(), begun: 0, ended: 0, sleeps: false }
    }

    /// Begins an operation, and returns its number.
    ///
    /// # Errors
    /// Those of the session.
    pub(crate) fn begin(
        &mut self,
        act: impl FnOnce(&mut Session) -> Result<OpId, SessionError>,
    ) -> Outcome<u64> {
        let OpId(number) = act(&mut self.session)?;
        self.begun = number + 1;
        Ok(number)
    }

    /// Begins a copy.
    ///
    /// # Errors
    /// Those of the session; `EMSGSIZE` for a length that no operation can have.
    pub(crate) fn copy(&mut self, from: u64, to: u64, len: u64) -> Outcome<u64> {
        let len = self.len_of_copy(from, to, len)?;
        self.begin(|session| session.copy(from, to, len))
    }

    /// Returns the length of a copy as an operation has it.
    ///
    /// # Errors
    /// `ERANGE` if the copy is not inside of the range, else `EMSGSIZE` if it is too long.
    pub(crate) fn len_of_copy(&self, from: u64, to: u64, len: u64) -> Outcome<u32> {
        let range = self.session.terms().len;
        if [from, to].iter().any(|at| at.checked_add(len).is_none_or(|end| end > range)) {
            return Err(OpError::Bounds.into());
        }
        let too_long = |_| Failure::new(Errno::EMSGSIZE, "a copy has at most 2^32 - 1 octets");
        u32::try_from(len).map_err(too_long)
    }

    /// Returns the replicas of an execute map.
    ///
    /// # Errors
    /// `EINVAL` if there are none, or one that does not exist.
    pub(crate) fn replicas(&self, on: u64) -> Outcome<Replicas> {
        let replicas = self.session.replicas();
        match u16::try_from(on) {
            _ if on == abi::ALL => Ok(Replicas::ALL),
            Ok(0) => Err(Failure::invalid("the execute map has no replica")),
            Ok(bits) if u64::from(bits) >> replicas == 0 => Ok(Replicas(bits)),
            _ => Err(Failure::invalid(format_args!(
                "the execute map has more than the {replicas} replicas of the group"
            ))),
        }
    }

    /// Begins several parts in one pass.
    ///
    /// # Errors
    /// Those of the session.
    pub(crate) fn submit(&mut self, op: &Op, octets: &[u8]) -> Outcome<u64> {
        self.begin(|session| session.submit(op, octets))
    }

    /// Takes what is done, at most `most`.
    ///
    /// # Errors
    /// Why the session is over, when nothing is left.
    pub(crate) fn poll(&mut self, most: usize) -> Outcome<impl Iterator<Item = Done> + '_> {
        let mut state = self.collect();
        if self.done.is_empty() && self.sleeps {
            // What comes behind the second look makes the descriptor readable.
            self.session.arm();
            state = self.collect();
        }
        if self.done.is_empty() && most > 0 {
            state?;
        }
        Ok(self.done.drain(..most.min(self.done.len())))
    }

    /// Blocks until an operation is done, at most for `ms` milliseconds if that is not negative.
    ///
    /// # Errors
    /// Those of the session; `EAGAIN` if it is not done in time; `ENOENT` for an unknown number.
    pub(crate) fn wait(&mut self, number: u64, ms: i64) -> Outcome<Originals> {
        if let Some(originals) = self.take(number) {
            return Ok(originals);
        }
        let Ok(ms) = u64::try_from(ms) else {
            let originals = self.session.wait(OpId(number))?;
            self.ended = self.ended.max(number + 1);
            return Ok(originals);
        };
        // Without a limit if it is beyond what a clock can have.
        let end = now().checked_add(Duration::from_millis(ms));
        let mut is_armed = false;
        loop {
            let state = self.collect();
            if let Some(originals) = self.take(number) {
                return Ok(originals);
            }
            if !(self.ended..self.begun).contains(&number) {
                return Err(OpError::Unknown.into());
            }
            state?;
            let left = end.map(|end| end.saturating_duration_since(now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Err(Failure::new(Errno::EAGAIN, format_args!("not done after {ms} milliseconds")));
            }
            if is_armed {
                self.sleep(left);
            } else {
                // What is done behind the next look ends the sleep.
                self.session.arm();
            }
            is_armed = !is_armed;
        }
    }

    /// Reads octets.
    ///
    /// # Errors
    /// Those of the session.
    pub(crate) fn read(&mut self, at: u64, out: &mut [u8], fresh: Fresh) -> Outcome<()> {
        Ok(self.session.read(at, out, fresh)?)
    }

    /// Returns the descriptor that becomes readable after a [`Self::poll`] that has found nothing.
    pub(crate) fn descriptor(&mut self) -> i32 {
        self.sleeps = true;
        self.session.as_fd().as_raw_fd()
    }

    /// Returns what the client and the replicas have agreed on.
    pub(crate) fn terms(&self) -> abi::Terms {
        let terms = self.session.terms();
        abi::Terms {
            struct_size: size_of::<abi::Terms>() as u64,
            replicas: self.session.replicas() as u64,
            len: terms.len,
            window: terms.window.into(),
            piece: terms.piece.into(),
            epoch: terms.epoch,
        }
    }

    /// Takes what is done from the session.
    fn collect(&mut self) -> Result<(), SessionError> {
        let mut out = [Done { id: OpId(0), originals: [0; weft_group::MAX_REPLICAS] }; 16];
        loop {
            let taken = self.session.poll(&mut out)?;
            for done in &out[..taken] {
                self.ended = self.ended.max(done.id.0 + 1);
                self.done.push_back(*done);
            }
            if taken < out.len() {
                return Ok(());
            }
        }
    }

    fn take(&mut self, number: u64) -> Option<Originals> {
        let at = self.done.iter().position(|done| done.id.0 == number)?;
        self.done.remove(at).map(|done| done.originals)
    }

    /// Sleeps until the descriptor is readable, a signal comes or the time is over.
    fn sleep(&self, left: Option<Duration>) {
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        // The caller looks again, whatever has ended the sleep.
        let _ended = poll(&mut [PollFd::new(&self.session, PollFlags::IN)], left.as_ref());
    }
}

#[expect(clippy::disallowed_methods, reason = "a program waits for so many milliseconds of real time")]
fn now() -> Instant {
    Instant::now()
}
