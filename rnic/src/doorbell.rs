//! Doorbells: which queue pairs have something new posted.

use std::sync::atomic::{AtomicU64, Ordering};

/// A bitmap in two levels, so that the engine finds the marked queue pairs among thousands by a few loads.
#[derive(Debug)]
pub(crate) struct Doorbells {
    marks: Box<[AtomicU64]>,
    summary: Box<[AtomicU64]>,
}

impl Doorbells {
    pub(crate) fn new(slots: usize) -> Self {
        let words = slots.div_ceil(BITS).max(1);
        let zeros = |count: usize| (0..count).map(|_| AtomicU64::new(0)).collect();
        Self { marks: zeros(words), summary: zeros(words.div_ceil(BITS)) }
    }

    /// Marks a slot. Whoever posted before marking is seen by whoever takes the mark.
    pub(crate) fn ring(&self, slot: usize) {
        let word = slot / BITS;
        self.marks[word].fetch_or(1 << (slot % BITS), Ordering::SeqCst);
        self.summary[word / BITS].fetch_or(1 << (word % BITS), Ordering::SeqCst);
    }

    /// Takes all marks, lowest slot first.
    pub(crate) fn take(&self, mut marked: impl FnMut(usize)) {
        for (i, summary) in self.summary.iter().enumerate() {
            if summary.load(Ordering::SeqCst) == 0 {
                continue;
            }
            let mut words = summary.swap(0, Ordering::SeqCst);
            while words != 0 {
                let word = i * BITS + words.trailing_zeros() as usize;
                words &= words - 1;
                let mut bits = self.marks[word].swap(0, Ordering::SeqCst);
                while bits != 0 {
                    marked(word * BITS + bits.trailing_zeros() as usize);
                    bits &= bits - 1;
                }
            }
        }
    }

    /// Whether any slot is marked.
    pub(crate) fn any(&self) -> bool {
        self.summary.iter().any(|word| word.load(Ordering::SeqCst) != 0)
    }
}

const BITS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mark_is_taken_once() {
        let doorbells = Doorbells::new(10_000);
        let slots = [0, 1, 63, 64, 4095, 4096, 9999];
        assert!(!doorbells.any());
        for slot in slots {
            doorbells.ring(slot);
            doorbells.ring(slot);
        }
        assert!(doorbells.any());
        let mut taken = Vec::new();
        doorbells.take(|slot| taken.push(slot));
        assert_eq!(taken, slots);
        assert!(!doorbells.any());
        doorbells.take(|slot| panic!("slot {slot} was taken twice"));
    }
}
