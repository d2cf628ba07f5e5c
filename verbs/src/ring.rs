//! The flat ring of entries that every queue is.
//!
//! ```text
//! word   0   entries (a power of two)         \  written once
//!        1   words per entry                  /
//!       16   tail: entries produced so far       written by the producer
//!       32   head: entries consumed so far       written by the consumer
//!       48   arm word of a completion queue
//!       64   the entries, one after the other
//! ```
//! A word is 64 bits, little-endian in memory on every machine this runs on; head, tail and arm lie 128 octets apart, so
//! that no two of them share a cache line. There is no pointer in it: keys, offsets and lengths only, so that the same
//! region could be mapped by two processes, or parts of it be registered as memory.
//!
//! Whoever can reach the region can write anything into it. Readers therefore copy an entry out once, by atomic loads,
//! and validate what they got.

use std::sync::atomic::{AtomicU64, Ordering};

/// A ring for one producer and one consumer.
#[derive(Debug)]
pub struct Ring {
    words: Box<[AtomicU64]>,
    entries: u64,
    stride: usize,
}

impl Ring {
    /// A ring in private memory for at least `entries` entries of at least `octets` octets each.
    ///
    /// Both are rounded up to powers of two, an entry to at least 64 octets.
    pub fn new(entries: u32, octets: usize) -> Self {
        let entries = u64::from(entries.max(1)).next_power_of_two();
        let stride = octets.max(MIN_STRIDE).next_power_of_two() / WORD;
        let len = FIRST_ENTRY + usize::try_from(entries).unwrap_or(usize::MAX / stride) * stride;
        let words: Box<[AtomicU64]> = (0..len).map(|_| AtomicU64::new(0)).collect();
        words[ENTRIES].store(entries, Ordering::Relaxed);
        words[STRIDE].store(stride as u64, Ordering::Relaxed);
        Self { words, entries, stride }
    }

    /// The words of entry number `index` (which counts on for ever; the ring wraps).
    pub fn entry(&self, index: u64) -> &[AtomicU64] {
        // The masked value is below `entries`, and the whole ring fits in memory.
        #[expect(clippy::cast_possible_truncation, reason = "masked to the number of entries in memory")]
        let start = FIRST_ENTRY + (index & (self.entries - 1)) as usize * self.stride;
        &self.words[start..start + self.stride]
    }

    /// Makes all entries before `tail` visible to the consumer.
    pub fn publish(&self, tail: u64) {
        self.words[TAIL].store(tail, Ordering::Release);
    }

    /// Gives all entries before `head` back to the producer.
    pub fn release(&self, head: u64) {
        self.words[HEAD].store(head, Ordering::Release);
    }

    /// The number of entries produced so far.
    pub fn tail(&self) -> u64 {
        self.words[TAIL].load(Ordering::Acquire)
    }

    /// The number of entries consumed so far.
    pub fn head(&self) -> u64 {
        self.words[HEAD].load(Ordering::Acquire)
    }

    /// The word by which a consumer asks for a notification.
    pub fn arm(&self) -> &AtomicU64 {
        &self.words[ARM]
    }

    /// The number of entries.
    pub const fn entries(&self) -> u64 {
        self.entries
    }
}

/// Octets of a word.
pub(crate) const WORD: usize = 8;

const MIN_STRIDE: usize = 64;
const ENTRIES: usize = 0;
const STRIDE: usize = 1;
const TAIL: usize = 16;
const HEAD: usize = 32;
const ARM: usize = 48;
const FIRST_ENTRY: usize = 64;

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
}
