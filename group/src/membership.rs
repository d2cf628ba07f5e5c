//! Who decides which hosts are members: a register that is linearizable and outlives the hosts.

use std::sync::Arc;

use crate::epoch::change::{Ask, Change, ChangeError, Reply};
use record::Record;

pub(crate) mod etcd;
pub(crate) mod file;
pub(crate) mod record;
pub(crate) mod register;

/// A register with the record of a group. It is linearizable: all see the same sequence of records.
pub trait Membership {
    /// Returns the record, or none if the group has not been created.
    ///
    /// # Errors
    /// [`MembershipError`].
    fn get(&self) -> Result<Option<Record>, MembershipError>;

    /// Returns the record of a group that has been created.
    ///
    /// # Errors
    /// [`MembershipError`]; also if it has not been created.
    fn record(&self) -> Result<Record, MembershipError> {
        self.get()?.ok_or_else(|| MembershipError("the group has not been created".into()))
    }

    /// Replaces the record if it is `old`, where none stands for a group that has not been created. Returns false if it
    /// is not.
    ///
    /// # Errors
    /// [`MembershipError`]. The record may have been replaced all the same.
    fn swap(&self, old: Option<&Record>, new: &Record) -> Result<bool, MembershipError>;
}

/// Why a register does not answer, in words for the person who set it up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MembershipError(pub String);

/// Why the epoch was not changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RepairError {
    /// The register does not answer, or has no record.
    Membership(MembershipError),
    /// The change has ended otherwise.
    Change(ChangeError),
}

/// How a change of epoch may be made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// The only epoch from which it may start ([`Change::starting_from`]).
    pub from: Option<u64>,
    /// The change may take a member for whole that has only what was flushed. Only a person who knows that all members have
    /// restarted may ask for that.
    pub is_from_storage: bool,
}

/// Changes the epoch of a group. `hosts` asks the hosts: it gets no request for the register.
///
/// # Errors
/// [`RepairError`]. After [`ChangeError::Overtaken`] and [`ChangeError::SourceLost`] the caller may begin again.
pub fn change_epoch(
    membership: &dyn Membership,
    wish: Wish,
    mut hosts: impl FnMut(&Ask<'_>) -> Reply,
) -> Result<Arc<Record>, RepairError> {
    let read = || membership.record();
    let record = Arc::new(read()?);
    let mut change = Change::new(Arc::clone(&record), wish.is_from_storage);
    if let Some(epoch) = wish.from {
        change = change.starting_from(epoch);
    }
    change.handle(Reply::Record(record));
    let mut failed = 0;
    loop {
        if let Some(outcome) = change.outcome() {
            return outcome.map_err(RepairError::Change);
        }
        let answer = match change.ask() {
            Some(Ask::Read) => read().map(|record| Reply::Record(Arc::new(record))),
            Some(Ask::Swap { old, new }) => membership.swap(Some(old), &new).map(Reply::Swapped),
            Some(ask) => Ok(hosts(&ask)),
            None => Ok(Reply::Silent),
        };
        let reply = match answer {
            Ok(reply) => reply,
            // The next thing that is asked is the record.
            Err(error) if failed == RETRIES => return Err(error.into()),
            Err(_) => Reply::Unknown,
        };
        failed += usize::from(reply == Reply::Unknown);
        change.handle(reply);
    }
}

/// How many answers of the register may be lost in a change.
const RETRIES: usize = 3;

impl std::fmt::Display for MembershipError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::fmt::Display for RepairError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Membership(error) => error.fmt(f),
            Self::Change(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for MembershipError {}
impl std::error::Error for RepairError {}

impl From<MembershipError> for RepairError {
    fn from(error: MembershipError) -> Self {
        Self::Membership(error)
    }
}
