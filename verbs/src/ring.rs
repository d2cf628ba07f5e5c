//! The flat ring of entries that every queue is.
//!
//! Each position has a line of its own: 128 octets, the two cache lines that processors fetch together. A ring is
//! private memory of the process that opened the device.
//!
//! Only the entries of a send queue can be registered as memory. Then a peer writes anything into them at any moment.
//! The engine therefore copies an entry out once, by atomic loads, and checks every field. Head and tail are ours
//! alone.
//!
//! The memory comes zeroed from the system, which gives pages only where the process writes: deep queues that are not
//! used cost nothing.

#[cfg_attr(loom, path = "ring/loom_words.rs")]
mod words;

use self::words::{MIN_STRIDE, Words};
use crate::sync::atomic::{AtomicU64, Ordering};

/// A ring for one producer and one consumer.
#[derive(Debug)]
pub struct Ring {
    /// Entries produced so far. Counts doorbells rung, where this is a send queue.
    tail: Line,
    /// Entries consumed so far. Counts polls that found something, where this is a completion queue.
    head: Line,
    /// The word by which the consumer of a completion queue asks for a notification.
    arm: Line,
    /// Counts polls that found nothing. The engine reads none of it, however often the application polls an empty
    /// queue.
    vain: Line,
    /// The entries, one after the other. They lie in words of 64 bits.
    words: Words,
    entries: u64,
    stride: usize,
}

/// A position, or the arm word, and a counter beside it that the same side writes.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Line {
    word: AtomicU64,
    counter: AtomicU64,
}

/// What a ring counts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Counter {
    Doorbells,
    PollsFound,
    PollsEmpty,
}

impl Ring {
    /// Makes a ring in private memory for at least `entries` entries of at least `octets` octets each.
    ///
    /// Both are rounded up to powers of two, an entry to at least 64 octets.
    pub fn new(entries: u32, octets: usize) -> Self {
        let entries = u64::from(entries.max(1)).next_power_of_two();
        let stride = octets.max(MIN_STRIDE).next_power_of_two() / WORD;
        let len = usize::try_from(entries).unwrap_or(usize::MAX / stride) * stride;
        let [tail, head, arm, vain] = core::array::from_fn(|_| Line::default());
        Self { tail, head, arm, vain, words: Words::zeroed(len), entries, stride }
    }

    /// Returns the words of entry number `index` (which counts on for ever; the ring wraps).
    #[inline(always)]
    pub fn entry(&self, index: u64) -> &[AtomicU64] {
        // The masked value is below `entries`, and the whole ring fits in memory.
        #[expect(clippy::cast_possible_truncation, reason = "masked to the number of entries in memory")]
        let start = (index & (self.entries - 1)) as usize * self.stride;
        &self.words[start..start + self.stride]
    }

    /// Makes all entries before `tail` visible to the consumer.
    #[inline]
    pub fn publish(&self, tail: u64) {
        self.tail.word.store(tail, Ordering::Release);
    }

    /// Gives all entries before `head` back to the producer.
    #[inline]
    pub fn release(&self, head: u64) {
        self.head.word.store(head, Ordering::Release);
    }

    /// Returns the number of entries produced so far.
    #[inline]
    pub fn tail(&self) -> u64 {
        self.tail.word.load(Ordering::Acquire)
    }

    /// Returns the number of entries consumed so far.
    #[inline]
    pub fn head(&self) -> u64 {
        self.head.word.load(Ordering::Acquire)
    }

    /// Returns the word by which a consumer asks for a notification.
    pub fn arm(&self) -> &AtomicU64 {
        &self.arm.word
    }

    /// Counts one. One thread counts at a time; another one at the same moment can hide it.
    pub(crate) fn count(&self, counter: Counter) {
        let word = self.counter(counter);
        word.store(word.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// Returns what was counted.
    pub(crate) fn counted(&self, counter: Counter) -> u64 {
        self.counter(counter).load(Ordering::Relaxed)
    }

    const fn counter(&self, counter: Counter) -> &AtomicU64 {
        match counter {
            Counter::Doorbells => &self.tail.counter,
            Counter::PollsFound => &self.head.counter,
            Counter::PollsEmpty => &self.vain.counter,
        }
    }

    /// Returns the octets of all entries.
    pub fn octets(&self) -> usize {
        self.words.len() * WORD
    }

    /// Returns the address of the first entry.
    pub fn address(&self) -> usize {
        self.entry(0).as_ptr().addr()
    }

    /// Writes octets into the entries at `offset`, word by word, lowest first; `false`, and nothing is written, when
    /// they reach beyond the last entry. No thread sees a part of a word.
    #[must_use]
    pub fn copy_in(&self, offset: usize, octets: &[u8]) -> bool {
        let Some(words) = self.words_at(offset, octets.len()) else { return false };
        let (mut skip, mut rest) = (offset % WORD, octets);
        for word in words {
            let (part, behind) = rest.split_at(rest.len().min(WORD - skip));
            if let Ok(whole) = part.try_into() {
                word.store(u64::from_ne_bytes(whole), Ordering::Release);
            } else {
                let change = |old: u64| {
                    let mut octets = old.to_ne_bytes();
                    octets[skip..skip + part.len()].copy_from_slice(part);
                    Some(u64::from_ne_bytes(octets))
                };
                // It always answers something, so that this never fails.
                let _changed = word.fetch_update(Ordering::AcqRel, Ordering::Acquire, change);
            }
            (skip, rest) = (0, behind);
        }
        true
    }

    /// Reads octets of the entries at `offset`; `false`, and nothing is read, when they reach beyond the last entry.
    #[must_use]
    pub fn copy_out(&self, offset: usize, octets: &mut [u8]) -> bool {
        let Some(words) = self.words_at(offset, octets.len()) else { return false };
        let (mut skip, mut rest) = (offset % WORD, octets);
        for word in words {
            let (part, behind) = rest.split_at_mut(rest.len().min(WORD - skip));
            let octets = word.load(Ordering::Acquire).to_ne_bytes();
            part.copy_from_slice(&octets[skip..skip + part.len()]);
            (skip, rest) = (0, behind);
        }
        true
    }

    /// Replaces the word at octet `offset` of the entries by what `change` makes of it, and returns what it was.
    /// `None`, and nothing is changed, when it is out of bounds or not aligned.
    #[must_use]
    pub fn update(&self, offset: usize, change: impl Fn(u64) -> u64) -> Option<u64> {
        if !offset.is_multiple_of(WORD) {
            return None;
        }
        let word = self.words_at(offset, WORD)?.first()?;
        word.fetch_update(Ordering::AcqRel, Ordering::Acquire, |value| Some(change(value))).ok()
    }

    /// Returns the words of the entries that hold so many octets at `offset`, if there are so many.
    fn words_at(&self, offset: usize, len: usize) -> Option<&[AtomicU64]> {
        let end = offset.checked_add(len).filter(|end| *end <= self.octets())?;
        let first = if len == 0 { end.div_ceil(WORD) } else { offset / WORD };
        self.words.get(first..end.div_ceil(WORD))
    }

    /// Returns the number of entries.
    pub const fn entries(&self) -> u64 {
        self.entries
    }
}

/// Octets of a word.
pub(crate) const WORD: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_up() {
        let ring = Ring::new(3, 65);
        assert_eq!(ring.entries(), 4);
        assert_eq!(ring.entry(0).len(), 16);
        assert!(core::ptr::eq(&raw const ring.entry(1)[0], &raw const ring.entry(5)[0]));
        assert_eq!(Ring::new(0, 0).entry(7).len(), 8);
    }

    #[test]
    fn octets_go_in_and_out_anywhere() {
        let ring = Ring::new(2, 64);
        let mut model = [0_u8; 128];
        for (round, (offset, len)) in
            [(0, 128), (3, 2), (3, 5), (7, 1), (7, 2), (5, 20), (8, 8), (8, 16), (127, 1), (0, 0), (128, 0)]
                .into_iter()
                .enumerate()
        {
            let octets: Vec<u8> =
                (1..=len).map(|at: u8| at.wrapping_mul(7) ^ round.to_le_bytes()[0]).collect();
            assert!(ring.copy_in(offset, &octets));
            model[offset..offset + octets.len()].copy_from_slice(&octets);
            let mut out = [0; 128];
            assert!(ring.copy_out(0, &mut out));
            assert_eq!(out, model);
            let mut out = vec![0; octets.len()];
            assert!(ring.copy_out(offset, &mut out));
            assert_eq!(out, octets);
        }
        for (offset, len) in [(0, 129), (128, 1), (129, 0), (usize::MAX, 1), (usize::MAX - 7, 8)] {
            assert!(!ring.copy_in(offset, &vec![1; len]) && !ring.copy_out(offset, &mut vec![0; len]));
        }
        assert_eq!((ring.head(), ring.tail()), (0, 0));
        let word = u64::from_ne_bytes(model[8..16].try_into().unwrap());
        assert_eq!(ring.update(8, |value| value ^ 1), Some(word));
        assert_eq!(ring.entry(0)[1].load(Ordering::Relaxed), word ^ 1);
        assert_eq!(
            [ring.update(4, |_| 0), ring.update(128, |_| 0), ring.update(usize::MAX - 7, |_| 0)],
            [None; 3]
        );
    }

    #[test]
    fn entries_begin_zeroed_on_lines_of_their_own() {
        for entries in [1, 3, 1000] {
            let ring = Ring::new(entries, 1);
            for index in 0..ring.entries() {
                let entry = ring.entry(index);
                assert!(entry.as_ptr().addr().is_multiple_of(64));
                assert!(entry.iter().all(|word| word.load(Ordering::Relaxed) == 0));
                entry[7].store(index, Ordering::Relaxed);
            }
        }
    }
}
