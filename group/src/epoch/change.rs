//! A change of epoch, as a coordinator does it: what it asks, one thing after the other, and what follows from answers.
//!
//! 1. Take the next epoch from the record.
//! 2. Seal the members of the last epoch, and spares if members are missing.
//! 3. Copy what differs from the first member that is whole to all others, and flush everything.
//! 4. Begin the epoch in the record, and tell the members.
//!
//! There is no I/O and no clock here. The caller asks the register or the host, and hands in what came back.

use std::sync::Arc;

use super::Refusal;
use crate::membership::record::{Host, Record, Seat};

/// A change of epoch under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Change {
    /// The record, as it was last read or written.
    record: Arc<Record>,
    /// The epoch of the record when this change took its own.
    base: u64,
    /// The epoch that this change is to begin.
    epoch: u64,
    is_from_storage: bool,
    /// The only epoch from which it may start.
    from: Option<u64>,
    places: Vec<Place>,
    phase: Phase,
}

/// What a coordinator has to ask now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask<'a> {
    /// Read the record.
    Read,
    /// Replace the record, if it is still the old one.
    Swap {
        /// The old record.
        old: &'a Record,
        /// The new one.
        new: Record,
    },
    /// Seal a host.
    Seal {
        /// The host.
        host: &'a Host,
        /// The epoch of the seal.
        epoch: u64,
        /// The epoch from which the change starts.
        base: u64,
    },
    /// Let a host fetch from another one all blocks that differ, and then flush the whole region.
    Copy {
        /// The host that fetches.
        to: &'a Host,
        /// Its incarnation.
        to_incarnation: u64,
        /// The host that has the octets.
        from: &'a Host,
        /// Its incarnation.
        from_incarnation: u64,
        /// The epoch with which both are sealed.
        epoch: u64,
    },
    /// Let the host from which all others have fetched flush its whole region.
    Flush {
        /// The host.
        host: &'a Host,
        /// Its incarnation.
        incarnation: u64,
        /// The epoch with which it is sealed.
        epoch: u64,
    },
    /// Tell a member that the epoch has begun.
    Finish {
        /// The member.
        host: &'a Host,
        /// Its incarnation.
        incarnation: u64,
        /// The epoch.
        epoch: u64,
    },
}

impl<'a> Ask<'a> {
    /// Returns the host that is asked; none if it is the register.
    pub const fn host(&self) -> Option<&'a Host> {
        match *self {
            Self::Read | Self::Swap { .. } => None,
            Self::Copy { to, .. } => Some(to),
            Self::Seal { host, .. } | Self::Flush { host, .. } | Self::Finish { host, .. } => Some(host),
        }
    }
}

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The record.
    Record(Arc<Record>),
    /// Whether the record was replaced.
    Swapped(bool),
    /// The register did not answer.
    Unknown,
    /// The host is sealed.
    Sealed(Sealed),
    /// The host has copied, flushed, or noted what it was told.
    Done,
    /// The host that fetches could not read from the other one.
    SourceLost,
    /// The host has refused.
    Refused(Refusal),
    /// The host did not answer in time, or with an error.
    Silent,
}

/// What a host answers to a Seal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sealed {
    /// Its incarnation.
    pub incarnation: u64,
    /// Octets of its region.
    pub size: u64,
    /// Whether all octets that were flushed are there after a restart: the memory is stored, and no flush has failed.
    pub is_stored: bool,
}

/// Why a change has ended without an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChangeError {
    /// Another coordinator has changed the epoch, or is about to. A new change may begin.
    Overtaken,
    /// No member answers that has all acknowledged octets.
    NoSource {
        /// Whether a member answers that has all flushed octets.
        is_stored: bool,
    },
    /// The member from which the others were to fetch was lost meanwhile. A new change may begin.
    SourceLost,
    /// An answer that does not belong to what was asked.
    Confused,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Reading,
    Claiming,
    Sealing(usize),
    Copying {
        source: usize,
        next: usize,
    },
    Flushing(usize),
    /// Replacing the record, or, with `is_known` unset, reading it first.
    Committing {
        is_known: bool,
    },
    Finishing(usize),
    Over(Result<(), ChangeError>),
}

/// A host, as this change knows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Place {
    /// Its place among the hosts of the record.
    index: usize,
    /// The incarnation in the record, if it is a member of the last epoch.
    recorded: Option<u64>,
    /// It was to be sealed.
    is_asked: bool,
    /// What it has answered to the seal. Members of the new epoch have something here.
    sealed: Option<Sealed>,
}

impl Change {
    /// Begins a change. `record` is any record of the group, also an old one: the change reads the true one first.
    ///
    /// With `is_from_storage` it may take a member for whole that has only the octets that were flushed.
    pub fn new(record: Arc<Record>, is_from_storage: bool) -> Self {
        let (places, phase) = (Vec::new(), Phase::Reading);
        Self { record, base: 0, epoch: 0, is_from_storage, from: None, places, phase }
    }

    /// Has the change start from this epoch, or not at all. A client that goes on in the new epoch knows by that that
    /// nobody has used the group since its own epoch.
    #[must_use]
    pub fn starting_from(self, epoch: u64) -> Self {
        Self { from: Some(epoch), ..self }
    }

    /// Takes the answer to what [`Self::ask`] asks.
    pub fn handle(&mut self, answer: Reply) {
        self.phase = match (self.phase, answer) {
            (Phase::Reading, Reply::Record(record)) if self.from.is_some_and(|from| from != record.epoch) => {
                over(ChangeError::Overtaken)
            }
            (Phase::Reading, Reply::Record(record)) => {
                self.record = record;
                Phase::Claiming
            }
            // What the register has not confirmed is not so, until the record says that it is.
            (Phase::Reading | Phase::Claiming, Reply::Unknown) => Phase::Reading,
            (Phase::Claiming, Reply::Swapped(false)) => Phase::Reading,
            (Phase::Claiming, Reply::Swapped(true)) => self.claimed(),
            (Phase::Sealing(at), answer) => self.sealed(at, answer),
            (Phase::Copying { source, next }, answer) => self.copied(source, next, answer),
            (Phase::Flushing(_), Reply::Done) => Phase::Committing { is_known: true },
            (Phase::Flushing(_), Reply::Refused(Refusal::Sealed { .. })) => over(ChangeError::Overtaken),
            (Phase::Flushing(_), Reply::Silent | Reply::Refused(_)) => over(ChangeError::SourceLost),
            (Phase::Committing { is_known: true }, Reply::Swapped(true)) => {
                self.record = Arc::new(self.begun());
                Phase::Finishing(0)
            }
            (Phase::Committing { .. }, Reply::Swapped(false) | Reply::Unknown) => {
                Phase::Committing { is_known: false }
            }
            (Phase::Committing { is_known: false }, Reply::Record(record)) => self.reread(record),
            // The epoch has begun; who was not told learns it by the first Open.
            (Phase::Finishing(at), Reply::Done | Reply::Refused(_) | Reply::Silent) => {
                Phase::Finishing(at + 1)
            }
            (Phase::Over(result), _) => Phase::Over(result),
            _ => over(ChangeError::Confused),
        };
        if let Phase::Finishing(at) = self.phase {
            self.phase = if at < self.record.members.len() { self.phase } else { Phase::Over(Ok(())) };
        }
    }

    /// Returns what has to be asked next, or none if the change is over.
    pub fn ask(&self) -> Option<Ask<'_>> {
        Some(match self.phase {
            Phase::Reading | Phase::Committing { is_known: false } => Ask::Read,
            Phase::Claiming => Ask::Swap { old: &self.record, new: self.record.claimed() },
            Phase::Sealing(at) => Ask::Seal { host: self.host(at)?, epoch: self.epoch, base: self.base },
            Phase::Copying { source, next } => Ask::Copy {
                to: self.host(next)?,
                to_incarnation: self.places.get(next)?.sealed?.incarnation,
                from: self.host(source)?,
                from_incarnation: self.places.get(source)?.sealed?.incarnation,
                epoch: self.epoch,
            },
            Phase::Flushing(at) => Ask::Flush {
                host: self.host(at)?,
                incarnation: self.places.get(at)?.sealed?.incarnation,
                epoch: self.epoch,
            },
            Phase::Committing { is_known: true } => Ask::Swap { old: &self.record, new: self.begun() },
            Phase::Finishing(at) => {
                let Seat { host, incarnation } = self.record.members.get(at)?;
                Ask::Finish { host, incarnation: *incarnation, epoch: self.epoch }
            }
            Phase::Over(_) => return None,
        })
    }

    /// Returns how the change has ended, if it has: with the record of the new epoch, or not.
    pub fn outcome(&self) -> Option<Result<Arc<Record>, ChangeError>> {
        match self.phase {
            Phase::Over(result) => Some(result.map(|()| Arc::clone(&self.record))),
            _ => None,
        }
    }

    /// Returns the epoch that this change is to begin, once it has taken one.
    pub fn epoch(&self) -> Option<u64> {
        Some(self.epoch).filter(|epoch| *epoch > 0)
    }

    fn host(&self, at: usize) -> Option<&Host> {
        self.record.hosts().nth(self.places.get(at)?.index)
    }

    fn claimed(&mut self) -> Phase {
        self.base = self.record.epoch;
        self.epoch = self.record.next_epoch;
        self.record = Arc::new(self.record.claimed());
        let members = self.record.members.iter().map(|seat| Some(seat.incarnation));
        let recorded = members.chain(self.record.spares.iter().map(|_| None));
        let place = |(index, recorded)| Place { index, recorded, is_asked: false, sealed: None };
        self.places = recorded.enumerate().map(place).collect();
        Phase::Sealing(0)
    }

    /// Takes the answer to a Seal.
    fn sealed(&mut self, at: usize, answer: Reply) -> Phase {
        let size = self.record.size;
        let Some(place) = self.places.get_mut(at) else { return over(ChangeError::Confused) };
        place.is_asked = true;
        match answer {
            Reply::Sealed(sealed) if sealed.size == size => place.sealed = Some(sealed),
            Reply::Sealed(_) | Reply::Silent => (),
            // A spare may have a past. A member can only have met another coordinator.
            Reply::Refused(_) if place.recorded.is_none() => (),
            Reply::Refused(_) => return over(ChangeError::Overtaken),
            _ => return over(ChangeError::Confused),
        }
        if let Some(next) = self.unsealed() {
            return Phase::Sealing(next);
        }
        match self.source() {
            Some(source) => self.copying(source, 0),
            None => over(ChangeError::NoSource { is_stored: self.stored().is_some() }),
        }
    }

    /// Takes the answer to a Copy.
    fn copied(&mut self, source: usize, at: usize, answer: Reply) -> Phase {
        match answer {
            Reply::Done => (),
            Reply::Silent | Reply::Refused(Refusal::Incarnation { .. }) => self.places[at].sealed = None,
            Reply::Refused(_) => return over(ChangeError::Overtaken),
            Reply::SourceLost => return over(ChangeError::SourceLost),
            _ => return over(ChangeError::Confused),
        }
        match self.unsealed() {
            // Its seat is free again. What was copied already does not differ when it is compared anew.
            Some(next) => Phase::Sealing(next),
            None => self.copying(source, at + 1),
        }
    }

    /// Returns the next host that is to be sealed. Spares are sealed only for seats that are free.
    fn unsealed(&self) -> Option<usize> {
        let next = self.places.iter().position(|place| !place.is_asked)?;
        let is_full =
            self.places.iter().filter(|place| place.sealed.is_some()).count() >= self.record.replicas;
        (self.places[next].recorded.is_some() || !is_full).then_some(next)
    }

    /// Returns the next copy, or what comes behind the last one.
    fn copying(&self, source: usize, from: usize) -> Phase {
        let mut others = from..self.places.len();
        match others.find(|at| *at != source && self.places[*at].sealed.is_some()) {
            Some(next) => Phase::Copying { source, next },
            // Last, for it also shows that the source is still there. Its octets may come from an operation that has
            // ended before the flush. Once sessions of the new epoch have read them, they may not be lost.
            None => Phase::Flushing(source),
        }
    }

    /// Takes the record that was read after a swap that was not confirmed.
    fn reread(&mut self, record: Arc<Record>) -> Phase {
        // No other change has this epoch.
        if record.epoch == self.epoch {
            self.record = record;
            return Phase::Finishing(0);
        }
        if record.epoch != self.base {
            return over(ChangeError::Overtaken);
        }
        let same = self.record.hosts().eq(record.hosts());
        self.record = record;
        // The spares were changed by hand: the places are no longer those of this record.
        if same { Phase::Committing { is_known: true } } else { over(ChangeError::Overtaken) }
    }

    fn begun(&self) -> Record {
        let seat = |(at, place): (usize, &Place)| {
            Some(Seat { host: self.host(at)?.clone(), incarnation: place.sealed?.incarnation })
        };
        let members = self.places.iter().enumerate().filter_map(seat).collect();
        self.record.begun(self.epoch, members)
    }

    /// Returns the first sealed host that has all octets of the last epoch.
    fn source(&self) -> Option<usize> {
        // Before the first epoch nothing was acknowledged.
        let is_whole = |place: &Place| {
            place.sealed.is_some_and(|sealed| self.base == 0 || Some(sealed.incarnation) == place.recorded)
        };
        let whole = self.places.iter().position(is_whole);
        whole.or_else(|| self.stored().filter(|_| self.is_from_storage))
    }

    /// Returns the first sealed member of the last epoch that has all octets that were flushed.
    fn stored(&self) -> Option<usize> {
        let is_stored =
            |place: &Place| place.recorded.is_some() && place.sealed.is_some_and(|sealed| sealed.is_stored);
        self.places.iter().position(is_stored)
    }
}

const fn over(error: ChangeError) -> Phase {
    Phase::Over(Err(error))
}

impl std::fmt::Display for ChangeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Overtaken => "another change of epoch came first",
            Self::NoSource { is_stored: true } => {
                "no member answers that has all acknowledged octets; one has what was flushed (--from-storage)"
            }
            Self::NoSource { is_stored: false } => "no member answers that has all acknowledged octets",
            Self::SourceLost => "the member that has all octets was lost meanwhile",
            Self::Confused => "an answer does not belong to its question",
        })
    }
}

impl std::error::Error for ChangeError {}
