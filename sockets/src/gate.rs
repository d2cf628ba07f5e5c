//! The gate of a direction: it lets threads into the kernel's calls, until the direction leaves TCP.

use crate::sync::{AtomicU32, Ordering};

/// A direction's word `inside`: how many threads are inside a call of the kernel's, and whether the gate is closed.
///
/// A closed gate has no thread inside. So the thread that closed it knows exactly what the kernel has moved.
#[derive(Clone, Copy, Debug)]
pub struct Gate<'a> {
    word: &'a AtomicU32,
    /// Only this thread can reach the word: no read-modify-write is needed.
    is_alone: bool,
}

impl<'a> Gate<'a> {
    /// Looks at a direction's word. `is_alone` promises that no other thread or process uses the direction meanwhile.
    #[must_use]
    pub const fn new(word: &'a AtomicU32, is_alone: bool) -> Self {
        Self { word, is_alone }
    }

    /// Goes in. Returns false if the gate is closed.
    #[inline]
    #[must_use]
    pub fn enter(&self) -> bool {
        if self.is_alone {
            let word = self.word.load(Ordering::Relaxed);
            if word & CLOSED == 0 {
                self.word.store(word + 1, Ordering::Relaxed);
            }
            return word & CLOSED == 0;
        }
        // A closed gate costs no read-modify-write.
        if self.is_closed() {
            return false;
        }
        let word = self.word.fetch_add(1, Ordering::Acquire);
        if word & CLOSED != 0 {
            self.word.fetch_sub(1, Ordering::Relaxed);
        }
        word & CLOSED == 0
    }

    /// Goes out, behind [`enter`](Self::enter).
    #[inline]
    pub fn leave(&self) {
        if self.is_alone {
            self.word.store(self.word.load(Ordering::Relaxed).wrapping_sub(1), Ordering::Relaxed);
        } else {
            self.word.fetch_sub(1, Ordering::Release);
        }
    }

    /// Closes the gate. Returns false if a thread is inside, or if the gate is closed already.
    #[must_use]
    pub fn try_close(&self) -> bool {
        self.word.compare_exchange(0, CLOSED, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Opens the gate that the caller has closed.
    pub fn open(&self) {
        self.word.fetch_and(!CLOSED, Ordering::Release);
    }

    /// True if the gate is closed.
    #[inline]
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.word.load(Ordering::Acquire) & CLOSED != 0
    }
}

const CLOSED: u32 = 1 << 31;

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn a_closed_gate_has_nobody_inside_and_lets_nobody_in() {
        for is_alone in [false, true] {
            let word = AtomicU32::new(0);
            let gate = Gate::new(&word, is_alone);
            assert!(gate.enter() && gate.enter());
            gate.leave();
            assert!(!gate.try_close(), "one is inside");
            gate.leave();
            assert!(gate.try_close() && !gate.try_close() && gate.is_closed());
            assert!(!gate.enter());
            gate.open();
            assert!(!gate.is_closed() && gate.enter());
        }
    }
}

#[cfg(test)]
#[cfg(loom)]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;

    /// A thread counts an octet inside the gate; the thread that closes it finds the octet counted, or keeps the other out.
    #[test]
    fn who_closes_the_gate_sees_what_was_counted_inside() {
        loom::model(|| {
            let shared = Arc::new((AtomicU32::new(0), AtomicU32::new(0)));
            let other = Arc::clone(&shared);
            let counting = loom::thread::spawn(move || {
                let gate = Gate::new(&other.0, false);
                let is_inside = gate.enter();
                if is_inside {
                    other.1.fetch_add(1, Ordering::Relaxed);
                    gate.leave();
                }
                is_inside
            });
            let gate = Gate::new(&shared.0, false);
            let seen = gate.try_close().then(|| shared.1.load(Ordering::Relaxed));
            let was_inside = counting.join().unwrap();
            if let Some(seen) = seen {
                assert_eq!(seen, u32::from(was_inside));
            }
        });
    }
}
