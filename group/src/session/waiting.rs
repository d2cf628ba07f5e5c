//! Calls of a session that wait for replicas.

use std::time::Duration;

use weft_rnic::Status;

use crate::deadline::Deadline;
use crate::message::Originals;
use crate::op::{Op, OpError};

use super::{OpId, Session, SessionError};

/// How fresh octets are that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fresh {
    /// The tail has them, and was in the group after it has answered: an operation that changes nothing goes through all
    /// replicas behind the answer.
    Confirmed,
    /// The tail has them, though the group may go on without it.
    Maybe,
}

impl Session {
    /// Waits until an operation is done, and returns what each replica found in the word of a swap.
    ///
    /// # Errors
    /// [`SessionError`]; [`OpError::Unknown`] if it is not under way and [`Self::poll`] has handed it out.
    pub fn wait(&mut self, id: OpId) -> Result<Originals, SessionError> {
        self.sleep_until(|session| session.take(id))
    }

    /// Reads octets from a tail. Waits for operations under way that change them.
    ///
    /// # Errors
    /// [`SessionError`].
    pub fn read(&mut self, at: u64, out: &mut [u8], fresh: Fresh) -> Result<(), SessionError> {
        if at.checked_add(out.len() as u64).is_none_or(|end| end > self.terms.len) {
            return Err(OpError::Bounds.into());
        }
        let range = at..at + out.len() as u64;
        self.sleep_until(|session| (!session.window.is_changing(&range)).then_some(Ok(())))?;
        let mut from = at;
        for chunk in out.chunks_mut(self.terms.piece as usize) {
            self.read_piece(from, chunk)?;
            from += chunk.len() as u64;
        }
        match fresh {
            Fresh::Maybe => Ok(()),
            Fresh::Confirmed => self.confirm(),
        }
    }

    /// Has the descriptor become readable when the next thing is done. Things that are done before make it readable or not.
    pub fn arm(&mut self) {
        while self.channel.next().is_some() {}
        for lane in &self.lanes {
            lane.acknowledged.request_notification(false);
        }
    }

    fn read_piece(&mut self, at: u64, out: &mut [u8]) -> Result<(), SessionError> {
        if self.over.is_some() {
            return Err(self.last_word());
        }
        let lane = &self.lanes[0];
        lane.read(at, &self.sink, u32::try_from(out.len()).unwrap_or(u32::MAX))?;
        let is_read = self.sleep_until(|session| {
            let completion = session.lanes[0].reading.poll_one()?;
            Some(Ok(completion.status == Status::Success))
        })?;
        if !is_read {
            self.over.get_or_insert(SessionError::Lost(None));
            return Err(self.last_word());
        }
        self.sink.read(0, out).map_err(|_| SessionError::Lost(None))
    }

    /// Sends an operation that changes nothing through all replicas, and waits for it.
    fn confirm(&mut self) -> Result<(), SessionError> {
        let id = self.sleep_until(|session| match session.submit(&Op::default(), &[]) {
            Err(SessionError::Op(OpError::Full)) => None,
            begun => Some(begun),
        })?;
        self.wait(id).map(|_| ())
    }

    /// Takes the outcome of an operation; `None` while it is under way.
    fn take(&mut self, id: OpId) -> Option<Result<Originals, SessionError>> {
        if let Some(at) = self.done.iter().position(|done| done.id == id) {
            return self.done.remove(at).map(|done| Ok(done.originals));
        }
        let under_way = self.window.oldest()..self.window.oldest() + self.window.len();
        (!under_way.contains(&id.0)).then_some(Err(OpError::Unknown.into()))
    }

    /// Sleeps until `take` returns something, or nothing has come from the replicas for as long as the session waits.
    fn sleep_until<T>(
        &mut self,
        mut take: impl FnMut(&mut Self) -> Option<Result<T, SessionError>>,
    ) -> Result<T, SessionError> {
        let (mut deadline, mut oldest) = (Deadline::after(self.timeout), self.window.oldest());
        let mut is_armed = false;
        loop {
            self.collect();
            if let Some(outcome) = take(self) {
                return outcome;
            }
            if self.over.is_some() {
                return Err(self.last_word());
            }
            if oldest != self.window.oldest() {
                (deadline, oldest) = (Deadline::after(self.timeout), self.window.oldest());
            }
            if !is_armed {
                self.arm();
                self.lanes[0].reading.request_notification(false);
                is_armed = true;
                continue;
            }
            let Some(left) = deadline.left() else {
                return Err(self.over.insert(SessionError::TimedOut).clone());
            };
            self.channel.wait(Some(left));
            is_armed = false;
        }
    }

    /// Returns why the session is over; `None` while it is not. [`Self::poll`] and the calls that begin something do not wait
    /// for the reason, and may tell that something is lost where this tells the replica, or a newer epoch.
    pub fn why_over(&mut self) -> Option<SessionError> {
        self.collect();
        self.over.is_some().then(|| self.last_word())
    }

    /// Returns why the session is over. Waits a moment for the control plane if the connections have ended before that told
    /// the reason. If it tells none, the replica is lost whose connection has ended, and that is the tail in a chain.
    fn last_word(&mut self) -> SessionError {
        let deadline = Deadline::after(self.timeout.min(PATIENCE));
        loop {
            let reason = self.reason();
            let is_open = !self.is_told && self.lanes.iter().any(|lane| lane.link.is_some());
            match reason {
                SessionError::Lost(_) if is_open && deadline.left().is_some() => std::thread::sleep(LOOK),
                SessionError::Lost(None) if is_open => {
                    return self.over.insert(SessionError::Lost(Some(self.terms.replicas - 1))).clone();
                }
                reason => return reason,
            }
        }
    }
}

/// How long the control plane may take to tell which replica is lost.
const PATIENCE: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(1);
