//! Transactions: several ranges change together, or none of them does.
//!
//! A transaction is first written to a log, which lies in a part of the group's range, and then copied from there to its
//! places by the replicas themselves. A client that opens the log after a failure has them copy again what is in it.
//! Replicas never read a log.

use std::collections::VecDeque;
use std::ops::Range;

use crate::group::{Flights, Group};
use crate::op::{Copy, Op, overlap};
use crate::session::SessionError;
use crate::slots::{SLOTS, Slot};

mod record;

pub use record::Part;
use record::Record;

/// A log of transactions, in a part of the range of a group. One session at a time may use it.
///
/// The octets that transactions change must be changed in no other way while the log holds those transactions, since
/// [`TxLog::open`] carries them out again. [`TxLog::commit`] leaves the log empty.
#[derive(Debug)]
pub struct TxLog {
    range: Range<u64>,
    /// The position and the sequence of the first record, as the replicas know them. Positions only grow; the place of a
    /// record is its position modulo the room for records.
    head: Slot,
    /// The position and the sequence of the next record.
    next: [u64; 2],
    /// Records that are not copied to their places, each with its position and sequence.
    waiting: VecDeque<([u64; 2], Record)>,
    flights: Flights,
}

/// Why a call of a log fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogError {
    /// The range for the log is too small, or lies outside of the group's.
    Range,
    /// The transaction is longer than the log. Nothing has changed.
    TooLong,
    /// A part of the transaction lies in the log, or outside of the group's range. Nothing has changed.
    Bounds,
    /// The session is over, or operations of somebody else are in its way.
    Session(SessionError),
}

impl TxLog {
    /// Opens the log in this part of the group's range, and carries out again all transactions that it holds. Returns how
    /// many there were. A range of zeros is an empty log.
    ///
    /// # Errors
    /// [`LogError`].
    pub fn open<G: Group>(group: &mut G, range: Range<u64>) -> Result<(Self, usize), LogError> {
        let is_inside = range.start <= range.end && range.end <= group.terms().len;
        let len = range.end.saturating_sub(range.start);
        let len = usize::try_from(len).ok().filter(|len| is_inside && *len >= SLOTS + 64 && len % 8 == 0);
        let mut octets = vec![0; len.ok_or(LogError::Range)?];
        let mut flights = Flights::default();
        flights.carry_out(group, |_, group| group.read(range.start, &mut octets))?;
        let (slots, room) = octets.split_at(SLOTS);
        let head = Slot::newest(slots, MAGIC).unwrap_or(Slot { turn: 0, values: [0, 1] });
        let (waiting, next) = whole_records(room, head.values);
        // Records behind the last whole one may be there, too: a client has many under way. They must never count.
        let next = [next[0], next[1].wrapping_add(SKIP)];
        let count = waiting.len();
        let mut log = Self { range, head, next, waiting, flights };
        log.apply(group)?;
        log.truncate(group)?;
        Ok((log, count))
    }

    /// Carries out a transaction: [`Self::append`], [`Self::apply`], [`Self::truncate`].
    ///
    /// # Errors
    /// [`LogError`].
    pub fn commit<G: Group>(&mut self, group: &mut G, parts: &[Part<'_>]) -> Result<(), LogError> {
        self.append(group, parts)?;
        self.apply(group)?;
        self.truncate(group)
    }

    /// Writes a transaction to the log, and waits until all replicas have it. From then on it will be carried out, by this
    /// client or by the one that opens the log next.
    ///
    /// # Errors
    /// [`LogError`]. After [`LogError::Session`] it may be in the log or not.
    pub fn append<G: Group>(&mut self, group: &mut G, parts: &[Part<'_>]) -> Result<(), LogError> {
        let len = group.terms().len;
        let is_good = |part: &Part<'_>| {
            let end = part.at.checked_add(part.octets.len() as u64).filter(|end| *end <= len);
            end.is_some_and(|end| !overlap(&(part.at..end), &self.range))
        };
        if !parts.iter().all(is_good) {
            return Err(LogError::Bounds);
        }
        let (octets, record) = Record::encode(self.next[1], parts).ok_or(LogError::TooLong)?;
        if record.len > self.room() {
            return Err(LogError::TooLong);
        }
        let mut position = fit(self.next[0], record.len, self.room());
        if position + record.len - self.head.values[0] > self.room() {
            self.apply(group)?;
            self.truncate(group)?;
            position = fit(self.next[0], record.len, self.room());
            if position + record.len - self.head.values[0] > self.room() {
                // What is left before the end is skipped: the log is empty.
                self.next[0] = position;
                self.truncate(group)?;
            }
        }
        let at = self.place(position);
        self.flights.carry_out(group, |flights, group| {
            flights.write(group, (at, &octets), false)?;
            flights.finish(group)
        })?;
        self.next = [position + record.len, self.next[1].wrapping_add(1)];
        self.waiting.push_back(([position, self.next[1].wrapping_sub(1)], record));
        Ok(())
    }

    /// Has all replicas copy the transactions of the log to their places and make them durable there.
    ///
    /// # Errors
    /// [`LogError::Session`].
    pub fn apply<G: Group>(&mut self, group: &mut G) -> Result<(), LogError> {
        let copies: Vec<Copy> = self.waiting.iter().flat_map(|one| self.copies(one)).collect();
        self.flights.carry_out(group, |flights, group| {
            for (index, copy) in copies.iter().enumerate() {
                let flushes_later = index + 1 < copies.len();
                let flush = Some(copy.sink());
                flights.begin(
                    group,
                    &Op { copy: Some(*copy), flush, flushes_later, ..Op::default() },
                    &[],
                )?;
            }
            flights.finish(group)
        })?;
        self.waiting.clear();
        Ok(())
    }

    /// Removes the transactions that were carried out from the log.
    ///
    /// # Errors
    /// [`LogError::Session`].
    pub fn truncate<G: Group>(&mut self, group: &mut G) -> Result<(), LogError> {
        let first = self.waiting.front().map_or(self.next, |(first, _)| *first);
        if first != self.head.values {
            let slot = self.head.next(first);
            let at = self.range.start + slot.place();
            let octets = slot.encode(MAGIC);
            self.flights.carry_out(group, |flights, group| {
                flights.write(group, (at, &octets), false)?;
                flights.finish(group)
            })?;
            self.head = slot;
        }
        Ok(())
    }

    /// Returns what brings the parts of a record to their places.
    fn copies(&self, ([position, _], record): &([u64; 2], Record)) -> Vec<Copy> {
        let at = self.place(*position);
        let parts = record.parts.iter().filter(|part| part.len > 0);
        parts.map(|part| Copy { from: at + part.from, ..*part }).collect()
    }

    /// Octets that records have.
    const fn room(&self) -> u64 {
        self.range.end - self.range.start - SLOTS as u64
    }

    const fn place(&self, position: u64) -> u64 {
        self.range.start + SLOTS as u64 + position % self.room()
    }
}

/// Returns the position of a record that comes next: a record does not go around the end.
const fn fit(position: u64, len: u64, room: u64) -> u64 {
    if position % room + len > room { position.next_multiple_of(room) } else { position }
}

/// Finds the records from the head on, up to the first one that is not whole or has another sequence. Returns them with
/// their positions and sequences, and those of the next record.
fn whole_records(room: &[u8], head: [u64; 2]) -> (VecDeque<([u64; 2], Record)>, [u64; 2]) {
    let len = room.len() as u64;
    let mut found = VecDeque::new();
    let [mut position, mut sequence] = head;
    let at = |position: u64| {
        let place = usize::try_from(position % len).unwrap_or(usize::MAX);
        room.get(place..).unwrap_or_default()
    };
    loop {
        let places = [position, position.saturating_add(len - 1) / len * len];
        let record = places.into_iter().find_map(|place| {
            let record = Record::decode(at(place), sequence)?;
            let end = place.checked_add(record.len)?;
            (end - head[0] <= len).then_some((place, end, record))
        });
        let Some((place, end, record)) = record else { return (found, [position, sequence]) };
        found.push_back(([place, sequence], record));
        (position, sequence) = (end, sequence.wrapping_add(1));
    }
}

impl core::fmt::Display for LogError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Range => {
                f.write_str("a log has at least 1088 octets, a multiple of 8, of the group's range")
            }
            Self::TooLong => f.write_str("the transaction is longer than the log"),
            Self::Bounds => f.write_str("the transaction reaches into the log or out of the group's range"),
            Self::Session(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for LogError {}

impl From<SessionError> for LogError {
    fn from(error: SessionError) -> Self {
        Self::Session(error)
    }
}

const MAGIC: [u8; 8] = *b"weftlog1";
/// More than the operations that a client has under way, so that none of its records counts after it is gone.
const SKIP: u64 = 1 << 16;
