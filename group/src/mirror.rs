//! A local copy of a group's range, like a file: reads come from here, and writes go to all replicas when it is synced.
//!
//! The first page of the range holds a magic and the length of the contents, which begin in the second page.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::group::{Flights, Group};
use crate::op::Op;
use crate::session::SessionError;
use crate::slots::{SLOTS, Slot};

/// A local copy of the range of a group, in front of a session.
///
/// What was synced is at all replicas. Of what was written since then, any part may be.
#[derive(Debug)]
pub struct Mirror<G> {
    group: G,
    contents: Vec<u8>,
    /// Pages of the contents that differ from those of the replicas.
    changed: BTreeSet<u64>,
    /// The length that the replicas know.
    synced: Slot,
    flights: Flights,
}

/// Why a call of a mirror fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MirrorError {
    /// The contents would be longer than the range of the session has room for. Nothing has changed.
    StorageFull,
    /// The octets do not lie inside of the contents. Nothing has changed.
    Bounds,
    /// The range holds something that no mirror has written.
    Foreign,
    /// The session is over, or operations of somebody else are in its way.
    Session(SessionError),
}

impl<G: Group> Mirror<G> {
    /// Reads the contents from the replicas. A range whose first octets are zero is an empty mirror.
    ///
    /// # Errors
    /// [`MirrorError`].
    pub fn open(mut group: G) -> Result<Self, MirrorError> {
        let capacity = capacity(&group);
        let mut head = [0; SLOTS];
        if capacity == 0 {
            return Err(MirrorError::StorageFull);
        }
        let mut flights = Flights::default();
        flights.carry_out(&mut group, |_, group| group.read(0, &mut head))?;
        let is_fresh = head[..SLOTS / 2].iter().all(|octet| *octet == 0);
        let synced = match Slot::newest(&head, MAGIC) {
            Some(slot) if slot.values[0] <= capacity => slot,
            None if is_fresh => Slot::default(),
            _ => return Err(MirrorError::Foreign),
        };
        let len = usize::try_from(synced.values[0]).map_err(|_| MirrorError::StorageFull)?;
        let mut contents = vec![0; len];
        flights.carry_out(&mut group, |_, group| group.read(PAGE, &mut contents))?;
        Ok(Self { group, contents, changed: BTreeSet::new(), synced, flights })
    }

    /// Changes octets.
    ///
    /// # Errors
    /// [`MirrorError::Bounds`].
    pub fn write(&mut self, at: u64, octets: &[u8]) -> Result<(), MirrorError> {
        let place = self.place(at, octets.len())?;
        self.note(at..at + octets.len() as u64);
        self.contents[place].copy_from_slice(octets);
        Ok(())
    }

    /// Makes the contents shorter, or longer by zeros.
    ///
    /// # Errors
    /// [`MirrorError::StorageFull`].
    pub fn set_len(&mut self, len: u64) -> Result<(), MirrorError> {
        let before = self.len();
        if len > self.capacity() {
            return Err(MirrorError::StorageFull);
        }
        self.contents.resize(usize::try_from(len).map_err(|_| MirrorError::StorageFull)?, 0);
        if len > before {
            self.note(before..len);
        } else {
            self.changed.split_off(&len.div_ceil(PAGE));
        }
        Ok(())
    }

    /// Has all replicas hold the contents, and make them durable. Returns when they do.
    ///
    /// # Errors
    /// [`MirrorError::Session`]. The contents are unsynced still, and any part of them may be at the replicas.
    pub fn sync(&mut self) -> Result<(), MirrorError> {
        let (runs, len) = (runs(&self.changed), self.len());
        let (contents, is_longer) = (&self.contents, self.synced.values[0] != len);
        self.flights.carry_out(&mut self.group, |flights, group| {
            for (index, run) in runs.iter().enumerate() {
                let octets = &contents[offset(run.start * PAGE)..offset((run.end * PAGE).min(len))];
                let is_last = index + 1 == runs.len();
                flights.write(group, (PAGE + run.start * PAGE, octets), !is_last)?;
            }
            if runs.is_empty() && !is_longer {
                flights.begin(group, &Op::default(), &[])?;
            }
            flights.finish(group)
        })?;
        // The new length must not be there before the octets are that it covers.
        if is_longer {
            let slot = self.synced.next([len, 0]);
            self.flights.carry_out(&mut self.group, |flights, group| {
                flights.write(group, (slot.place(), &slot.encode(MAGIC)), false)?;
                flights.finish(group)
            })?;
            self.synced = slot;
        }
        self.changed.clear();
        Ok(())
    }

    /// Makes sure that this client was not cut off from the group before this call: what was read until then was the newest.
    ///
    /// # Errors
    /// [`MirrorError::Session`].
    pub fn confirm(&mut self) -> Result<(), MirrorError> {
        Ok(self.flights.carry_out(&mut self.group, |flights, group| {
            flights.begin(group, &Op::default(), &[])?;
            flights.finish(group)
        })?)
    }

    /// Reads octets.
    ///
    /// # Errors
    /// [`MirrorError::Bounds`].
    pub fn read(&self, at: u64, out: &mut [u8]) -> Result<(), MirrorError> {
        out.copy_from_slice(&self.contents[self.place(at, out.len())?]);
        Ok(())
    }

    /// Returns the length of the contents, in octets.
    pub const fn len(&self) -> u64 {
        self.contents.len() as u64
    }

    /// Returns whether there are no contents.
    pub const fn is_empty(&self) -> bool {
        self.contents.is_empty()
    }

    /// Returns the greatest length of the contents, in octets.
    pub fn capacity(&self) -> u64 {
        capacity(&self.group)
    }

    /// Returns how many octets differ from those of the replicas, in whole pages.
    pub fn unsynced(&self) -> u64 {
        self.changed.len() as u64 * PAGE
    }

    fn place(&self, at: u64, len: usize) -> Result<Range<usize>, MirrorError> {
        let start = usize::try_from(at).map_err(|_| MirrorError::Bounds)?;
        let end = start.checked_add(len).filter(|end| *end <= self.contents.len());
        Ok(start..end.ok_or(MirrorError::Bounds)?)
    }

    fn note(&mut self, range: Range<u64>) {
        if !range.is_empty() {
            self.changed.extend(range.start / PAGE..range.end.div_ceil(PAGE));
        }
    }
}

fn capacity<G: Group>(group: &G) -> u64 {
    group.terms().len.saturating_sub(PAGE)
}

/// Returns the runs of neighboring pages.
fn runs(pages: &BTreeSet<u64>) -> Vec<Range<u64>> {
    let mut runs: Vec<Range<u64>> = Vec::new();
    for &page in pages {
        match runs.last_mut() {
            Some(run) if run.end == page => run.end += 1,
            _ => runs.push(page..page + 1),
        }
    }
    runs
}

/// Returns an offset into the contents, which lie in memory.
fn offset(at: u64) -> usize {
    usize::try_from(at).unwrap_or(usize::MAX)
}

impl core::fmt::Display for MirrorError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::StorageFull => f.write_str("the group's range has no room for this"),
            Self::Bounds => f.write_str("the octets do not lie inside of the contents"),
            Self::Foreign => f.write_str("the group's range holds something that no mirror has written: a store needs memory of its own"),
            Self::Session(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for MirrorError {}

impl From<SessionError> for MirrorError {
    fn from(error: SessionError) -> Self {
        Self::Session(error)
    }
}

/// Octets of a page.
const PAGE: u64 = 4096;
const MAGIC: [u8; 8] = *b"weftmir1";
