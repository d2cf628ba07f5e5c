//! A change of epoch over the network: asks the hosts what a [`Change`](crate::Change) has them asked.

use std::sync::Arc;
use std::time::Duration;

use weft_rnic::Device;

use crate::control::{Member, Status};
use crate::deadline::Deadline;
use crate::epoch::change::{Ask, ChangeError, Reply};
use crate::inquiry::{Inquiry, Replied};
use crate::membership::record::{Host, Record, Seat};
use crate::membership::{Membership, MembershipError, RepairError, Wish, change_epoch};
use crate::opening::{Options, status};
use crate::random::random;
use crate::session::{Session, SessionError};

/// What changes the epoch of a group and opens sessions in it: a client, or the command of a person.
#[derive(Clone, Copy)]
pub struct Coordinator<'a> {
    device: &'a Device,
    membership: &'a dyn Membership,
    options: &'a Options,
}

/// What happens in a change of epoch.
#[derive(Clone, Debug)]
pub enum Report<'a> {
    /// Something is asked.
    Asked(&'a Ask<'a>),
    /// So much of a copy or of a flush is done, in parts of how much.
    Progress([u64; 2]),
    /// A host does not answer, for this reason.
    Silent(&'a Host, String),
    /// Another coordinator came first, or the source was lost. It begins again.
    Again(ChangeError),
}

impl<'a> Coordinator<'a> {
    /// Makes one. Of the options, epoch and topology come from the record.
    pub const fn new(device: &'a Device, membership: &'a dyn Membership, options: &'a Options) -> Self {
        Self { device, membership, options }
    }

    /// Returns the record.
    ///
    /// # Errors
    /// [`MembershipError`]; also if there is none.
    pub fn record(&self) -> Result<Record, MembershipError> {
        self.membership.record()
    }

    /// Opens a session in the epoch of a record.
    ///
    /// # Errors
    /// [`SessionError`].
    pub fn open(&self, record: &Record) -> Result<Session, SessionError> {
        let members = members(record).map_err(SessionError::Refused)?;
        if members.is_empty() {
            return Err(SessionError::Refused("the group has no members: no epoch has begun".into()));
        }
        let options = Options {
            topology: record.topology,
            epoch: record.epoch,
            range: Some(self.options.range.clone().unwrap_or(0..record.size)),
            ..self.options.clone()
        };
        Session::open(self.device, &members, &options)
    }

    /// Asks a host for its state.
    ///
    /// # Errors
    /// [`SessionError`].
    pub fn status(&self, host: &Host) -> Result<Status, SessionError> {
        status(self.device, host.address().map_err(SessionError::Refused)?, self.options)
    }

    /// Changes the epoch. If another coordinator comes first, or the source of octets is lost, it begins again, unless the
    /// epoch is not the one any more from which the change may start.
    ///
    /// # Errors
    /// [`RepairError`].
    pub fn change(
        &self,
        wish: Wish,
        mut report: impl FnMut(&Report<'_>),
    ) -> Result<Arc<Record>, RepairError> {
        let deadline = Deadline::after(self.options.timeout.saturating_mul(PATIENCE));
        let mut attempt = 0;
        loop {
            let error = match change_epoch(self.membership, wish, |ask| self.ask(ask, &mut report)) {
                Err(RepairError::Change(error @ (ChangeError::Overtaken | ChangeError::SourceLost))) => error,
                outcome => return outcome,
            };
            let is_other = match wish.from {
                Some(epoch) => self.record()?.epoch != epoch,
                None => false,
            };
            if is_other || deadline.left().is_none() {
                return Err(RepairError::Change(error));
            }
            report(&Report::Again(error));
            std::thread::sleep(pause(random().map_or(0, u64::from_ne_bytes), attempt));
            attempt += 1;
        }
    }

    /// Asks a host what a [`Change`](crate::Change) has it asked.
    pub fn ask(&self, ask: &Ask<'_>, report: &mut impl FnMut(&Report<'_>)) -> Reply {
        report(&Report::Asked(ask));
        let mut inquiry = Inquiry::new(self.device, self.options.key.as_ref(), ask);
        let outcome = self.wait_for(&mut inquiry, |done| report(&Report::Progress(done)));
        let (reply, reason) = outcome.unwrap_or_else(|error| (Reply::Silent, Some(error.to_string())));
        let silent = match ask {
            Ask::Copy { from, .. } if reply == Reply::SourceLost => Some(*from),
            _ => ask.host(),
        };
        if let (Some(host), Some(reason)) = (silent, reason) {
            report(&Report::Silent(host, reason));
        }
        reply
    }

    /// Waits for an answer for as long as there is progress.
    fn wait_for(
        &self,
        inquiry: &mut Inquiry,
        mut progress: impl FnMut([u64; 2]),
    ) -> Result<Replied, SessionError> {
        let (mut deadline, mut last) = (Deadline::after(self.options.timeout), None);
        loop {
            if let Some(answer) = inquiry.poll() {
                return Ok(answer);
            }
            if let Some(done) = inquiry.progress().filter(|done| Some(*done) != last) {
                last = Some(done);
                deadline = Deadline::after(self.options.timeout);
                progress(done);
            }
            let left = deadline.left().ok_or(SessionError::TimedOut)?;
            if !inquiry.wait(left.min(LOOK)) {
                inquiry.look();
            }
        }
    }
}

/// Returns the members of a record, the head first, with the addresses that their names stand for now.
///
/// # Errors
/// A line that names the member without an address.
pub fn members(record: &Record) -> Result<Vec<Member>, String> {
    let member =
        |seat: &Seat| Ok(Member { address: seat.host.address()?, incarnation: Some(seat.incarnation) });
    record.members.iter().map(member).collect()
}

/// Returns how long a coordinator waits before another attempt, at random: 20 to 70 ms after the first one, and up to twice
/// as long after each further one, up to 6.4 s. Two coordinators that end each other's changes come to an end by that,
/// however slow the hosts are.
pub fn pause(random: u64, attempt: u32) -> Duration {
    Duration::from_millis(20 + random % (50 << attempt.min(7)))
}

/// How many timeouts of a host a change may take, with all that is tried again.
const PATIENCE: u32 = 8;
/// How long nothing may come before a host is asked how far it is.
const LOOK: Duration = Duration::from_millis(200);

impl core::fmt::Debug for Coordinator<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Coordinator").field("options", self.options).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_until_they_are_as_long_as_a_change() {
        for (attempt, longest) in [(0, 50), (1, 100), (7, 6400), (8, 6400), (u32::MAX, 6400)] {
            assert_eq!(pause(longest - 1, attempt), Duration::from_millis(20 + longest - 1));
            assert_eq!(pause(longest, attempt), Duration::from_millis(20));
        }
    }
}
