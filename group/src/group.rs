//! What stands on a session needs of it: operations, and what they did.

use std::collections::VecDeque;

use crate::message::Originals;
use crate::op::{Op, OpError};
use crate::session::{Fresh, OpId, Session, SessionError, Terms};

/// A group as one client sees it: a range that all replicas hold. [`Mirror`](crate::Mirror), [`TxLog`](crate::TxLog) and
/// [`Lock`](crate::Lock) stand on this.
pub trait Group {
    /// Returns what the client and the replicas have agreed on.
    fn terms(&self) -> Terms;

    /// Returns how many replicas there are, in all chains together.
    fn replicas(&self) -> usize;

    /// Begins an operation.
    ///
    /// # Errors
    /// [`SessionError`]. After [`SessionError::Op`] nothing has changed, and after any other error the session is over.
    fn submit(&mut self, op: &Op, octets: &[u8]) -> Result<OpId, SessionError>;

    /// Blocks until an operation is done, and returns what each replica found in the word of a swap.
    ///
    /// # Errors
    /// [`SessionError`].
    fn wait(&mut self, id: OpId) -> Result<Originals, SessionError>;

    /// Reads octets that all replicas hold, and makes sure that this client was not cut off from the group meanwhile.
    ///
    /// # Errors
    /// [`SessionError`].
    fn read(&mut self, at: u64, out: &mut [u8]) -> Result<(), SessionError>;

    /// Goes on after an error by which the session is over, so that operations that were under way may be repeated. Their
    /// names are not valid any more.
    ///
    /// # Errors
    /// Why it does not go on. A [`Session`] never does.
    fn recover(&mut self, error: SessionError) -> Result<(), SessionError>;
}

impl Group for Session {
    fn terms(&self) -> Terms {
        self.terms()
    }

    fn replicas(&self) -> usize {
        self.replicas()
    }

    fn submit(&mut self, op: &Op, octets: &[u8]) -> Result<OpId, SessionError> {
        self.submit(op, octets)
    }

    fn wait(&mut self, id: OpId) -> Result<Originals, SessionError> {
        self.wait(id)
    }

    fn read(&mut self, at: u64, out: &mut [u8]) -> Result<(), SessionError> {
        self.read(at, out, Fresh::Confirmed)
    }

    fn recover(&mut self, error: SessionError) -> Result<(), SessionError> {
        Err(self.why_over().unwrap_or(error))
    }
}

/// The operations that one user of a group has under way, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Flights(VecDeque<OpId>);

impl Flights {
    /// Does something with a group, and does it once more whenever the session is over and the group recovers. To do it in
    /// part and then as a whole has to be as good as to do it once.
    ///
    /// # Errors
    /// [`SessionError`].
    pub(crate) fn carry_out<G: Group>(
        &mut self,
        group: &mut G,
        mut work: impl FnMut(&mut Self, &mut G) -> Result<(), SessionError>,
    ) -> Result<(), SessionError> {
        loop {
            match work(self, group) {
                Err(error) if !matches!(error, SessionError::Op(_)) => {
                    self.0.clear();
                    group.recover(error)?;
                }
                done => return done,
            }
        }
    }

    /// Begins an operation. Waits for own ones while the window is full or one of them uses the same octets.
    ///
    /// # Errors
    /// [`SessionError`]; [`OpError::Full`] and [`OpError::Conflict`] only if operations of somebody else are in the way.
    pub(crate) fn begin<G: Group>(
        &mut self,
        group: &mut G,
        op: &Op,
        octets: &[u8],
    ) -> Result<(), SessionError> {
        loop {
            match group.submit(op, octets) {
                Ok(id) => {
                    self.0.push_back(id);
                    return Ok(());
                }
                Err(error @ SessionError::Op(OpError::Full | OpError::Conflict)) => {
                    let oldest = self.0.pop_front().ok_or(error)?;
                    group.wait(oldest)?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Begins the writes of octets, in as many operations as they need, each of which flushes what it writes. Only the
    /// last one has the file synchronized, and only if `flushes_later` does not leave that to other octets.
    ///
    /// # Errors
    /// As [`Self::begin`].
    pub(crate) fn write<G: Group>(
        &mut self,
        group: &mut G,
        (at, octets): (u64, &[u8]),
        flushes_later: bool,
    ) -> Result<(), SessionError> {
        let piece = (group.terms().piece as usize).max(1);
        let (mut from, mut rest) = (at, octets);
        loop {
            let (chunk, behind) = rest.split_at(piece.min(rest.len()));
            let (end, is_last) = (from + chunk.len() as u64, behind.is_empty());
            let range = Some(from..end);
            let flushes_later = flushes_later || !is_last;
            let op = Op { write: range.clone(), flush: range, flushes_later, ..Op::default() };
            self.begin(group, &op, chunk)?;
            if is_last {
                return Ok(());
            }
            (from, rest) = (end, behind);
        }
    }

    /// Waits until all are done.
    ///
    /// # Errors
    /// [`SessionError`].
    pub(crate) fn finish<G: Group>(&mut self, group: &mut G) -> Result<(), SessionError> {
        while let Some(oldest) = self.0.pop_front() {
            group.wait(oldest)?;
        }
        Ok(())
    }
}
