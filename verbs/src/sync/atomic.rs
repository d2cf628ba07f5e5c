//! Loom's atomics, whose orderings a model can weaken to see that loom finds it.
#![allow(missing_docs, unnameable_types, unreachable_pub, reason = "they are the standard library's")]
#![allow(dead_code, reason = "not every type needs every method, and only models weaken")]

use core::cell::Cell;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

pub use loom::sync::atomic::Ordering;

/// The orderings that are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weakened {
    Nothing,
    /// Loads and exchanges acquire nothing.
    Acquire,
    /// Stores and exchanges release nothing.
    Release,
    /// Fences do nothing.
    Fence,
}

/// Weakens the atomics of all models that this thread runs from now on.
pub(crate) fn weaken(weakened: Weakened) {
    WEAKENED.set(weakened);
}

pub(crate) fn fence(order: Ordering) {
    if WEAKENED.get() != Weakened::Fence {
        loom::sync::atomic::fence(order);
    }
}

fn weaker(order: Ordering) -> Ordering {
    match (WEAKENED.get(), order) {
        (Weakened::Acquire, Acquire) | (Weakened::Release, Release) => Relaxed,
        (Weakened::Acquire, AcqRel | SeqCst) => Release,
        (Weakened::Release, AcqRel | SeqCst) => Acquire,
        _ => order,
    }
}

/// Returns the ordering of a load. Only one half of a sequentially consistent load or store means something, also in
/// loom.
fn weaker_load(order: Ordering) -> Ordering {
    weaker(if order == SeqCst { Acquire } else { order })
}

fn weaker_store(order: Ordering) -> Ordering {
    weaker(if order == SeqCst { Release } else { order })
}

macro_rules! atomics {
    ($($name:ident $value:ty),*) => {$(
        #[derive(Debug, Default)]
        pub struct $name {
            value: loom::sync::atomic::$name,
            touched: loom::sync::atomic::AtomicBool,
        }

        impl $name {
            pub fn new(value: $value) -> Self {
                Self { value: loom::sync::atomic::$name::new(value), ..Self::default() }
            }

            pub fn load(&self, order: Ordering) -> $value {
                self.touch().load(weaker_load(order))
            }

            pub fn store(&self, value: $value, order: Ordering) {
                self.touch().store(value, weaker_store(order));
            }

            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                self.touch().swap(value, weaker(order))
            }

            pub fn fetch_or(&self, value: $value, order: Ordering) -> $value {
                self.touch().fetch_or(value, weaker(order))
            }

            pub fn fetch_update(
                &self,
                set: Ordering,
                fetch: Ordering,
                change: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                self.touch().fetch_update(weaker(set), weaker_load(fetch), change)
            }

            /// Of the threads that load a word loom remembers only the last one. If that thread stores to the word,
            /// loom does not try the store before the load of another thread. Every thread therefore stores to a second
            /// word, which no thread loads.
            fn touch(&self) -> &loom::sync::atomic::$name {
                self.touched.store(true, Relaxed);
                &self.value
            }
        }
    )*};
}

atomics!(AtomicBool bool, AtomicU8 u8, AtomicU32 u32, AtomicU64 u64, AtomicUsize usize);

impl AtomicU64 {
    pub fn fetch_add(&self, value: u64, order: Ordering) -> u64 {
        self.touch().fetch_add(value, weaker(order))
    }
}

thread_local! {
    static WEAKENED: Cell<Weakened> = const { Cell::new(Weakened::Nothing) };
}
