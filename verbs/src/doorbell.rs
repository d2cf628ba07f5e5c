//! Doorbells: which queue pairs have something new posted.

use crate::sync::atomic::{AtomicU64, Ordering};

/// A bitmap in two levels, so that the engine finds the marked queue pairs among thousands by a few loads.
#[derive(Debug)]
pub struct Doorbells {
    marks: Box<[AtomicU64]>,
    summary: Box<[AtomicU64]>,
}

/// How far the marks have been taken. Marks that were taken and not returned are lost with it.
#[derive(Debug, Default)]
pub struct Taking {
    summaries: usize,
    words: u64,
    word: usize,
    bits: u64,
}

impl Doorbells {
    /// Makes the doorbells of `slots` slots, none of them marked.
    pub fn new(slots: usize) -> Self {
        let words = slots.div_ceil(BITS).max(1);
        let zeros = |count: usize| (0..count).map(|_| AtomicU64::new(0)).collect();
        Self { marks: zeros(words), summary: zeros(words.div_ceil(BITS)) }
    }

    /// Marks a slot. The thread that takes the mark sees what the caller has posted before. A slot that does not exist
    /// is ignored.
    pub fn ring(&self, slot: usize) {
        let word = slot / BITS;
        let Some(marks) = self.marks.get(word) else { return };
        marks.fetch_or(1 << (slot % BITS), Ordering::SeqCst);
        let (summary, bit) = (&self.summary[word / BITS], 1 << (word % BITS));
        // A thread that takes the summary takes the marks behind that. If it is still there now, the mark above is
        // among them.
        if summary.load(Ordering::SeqCst) & bit == 0 {
            summary.fetch_or(bit, Ordering::SeqCst);
        }
    }

    /// Takes all marks, lowest slot first.
    pub fn take(&self, mut marked: impl FnMut(usize)) {
        let mut taking = Taking::default();
        while let Some(slot) = self.take_next(&mut taking) {
            marked(slot);
        }
    }

    /// Takes the next mark, for a caller that has to let go of the doorbells between two. Each `taking` goes once over
    /// all slots.
    #[inline]
    pub fn take_next(&self, taking: &mut Taking) -> Option<usize> {
        while taking.bits == 0 {
            while taking.words == 0 {
                let summary = self.summary.get(taking.summaries)?;
                taking.summaries += 1;
                if summary.load(Ordering::SeqCst) != 0 {
                    taking.words = summary.swap(0, Ordering::SeqCst);
                }
            }
            taking.word = (taking.summaries - 1) * BITS + taking.words.trailing_zeros() as usize;
            taking.words &= taking.words - 1;
            taking.bits = self.marks[taking.word].swap(0, Ordering::SeqCst);
        }
        let slot = taking.word * BITS + taking.bits.trailing_zeros() as usize;
        taking.bits &= taking.bits - 1;
        Some(slot)
    }

    /// Returns whether any slot is marked.
    pub fn any(&self) -> bool {
        self.summary.iter().any(|word| word.load(Ordering::SeqCst) != 0)
    }
}

const BITS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    /// Threads mark slots of one word as often as they can. The last mark of each is seen without another ring.
    #[test]
    fn no_mark_is_lost_among_threads() {
        const ROUNDS: u64 = 5_000;
        let doorbells = Doorbells::new(64);
        let rung = [0; 3].map(AtomicU64::new);
        let mut seen = [0; 3];
        let mut look = || doorbells.take(|slot| seen[slot] = rung[slot].load(Ordering::Relaxed));
        std::thread::scope(|scope| {
            let ring = |slot: usize| {
                for round in 1..=ROUNDS {
                    rung[slot].store(round, Ordering::Relaxed);
                    doorbells.ring(slot);
                }
            };
            let threads = [0, 1, 2].map(|slot| scope.spawn(move || ring(slot)));
            while threads.iter().any(|thread| !thread.is_finished()) {
                look();
            }
        });
        look();
        assert_eq!(seen, [ROUNDS; 3]);
    }

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
