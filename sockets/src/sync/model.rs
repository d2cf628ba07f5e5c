//! Loom's atomics, whose orderings a model can weaken to see that loom finds it.
#![allow(missing_docs, unnameable_types, unreachable_pub, reason = "they are the standard library's")]
#![allow(dead_code, reason = "not every type needs every method, and only models weaken")]

use core::cell::Cell;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

pub use loom::sync::atomic::Ordering;

/// What is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weakened {
    Nothing,
    /// Loads and exchanges acquire nothing.
    Acquire,
    /// Stores and exchanges release nothing.
    Release,
    /// Fences of this order do nothing.
    Fence(Ordering),
    /// Fences beside membarrier(2) do nothing: a compiler moves loads before the stores.
    LightFence,
}

/// Weakens the atomics of all models that this thread runs from now on.
pub(crate) fn weaken(weakened: Weakened) {
    WEAKENED.set(weakened);
}

pub fn fence(order: Ordering) {
    if WEAKENED.get() != Weakened::Fence(order) {
        loom::sync::atomic::fence(order);
    }
}

/// A model interrupts no thread by a signal handler.
pub fn compiler_fence(_order: Ordering) {}

/// The fence of a thread that [`membarrier`] interrupts before or behind it. The two are ordered as exchanges of one
/// word are, and the fence orders nothing else.
pub fn light_fence(_order: Ordering) {
    if WEAKENED.get() != Weakened::LightFence {
        BARRIER.fetch_add(1, AcqRel);
    }
}

/// membarrier(2).
pub(crate) fn membarrier() {
    BARRIER.fetch_add(1, AcqRel);
}

fn weaker(order: Ordering) -> Ordering {
    match (WEAKENED.get(), order) {
        (Weakened::Acquire, Acquire) | (Weakened::Release, Release) => Relaxed,
        (Weakened::Acquire, AcqRel | SeqCst) => Release,
        (Weakened::Release, AcqRel | SeqCst) => Acquire,
        _ => order,
    }
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
                self.touch().load(weaker(order))
            }

            pub fn store(&self, value: $value, order: Ordering) {
                self.touch().store(value, weaker(order));
            }

            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                self.touch().swap(value, weaker(order))
            }

            pub fn compare_exchange(&self, old: $value, new: $value, set: Ordering, fetch: Ordering) -> Result<$value, $value> {
                self.touch().compare_exchange(old, new, weaker(set), weaker(fetch))
            }

            pub fn compare_exchange_weak(&self, old: $value, new: $value, set: Ordering, fetch: Ordering) -> Result<$value, $value> {
                self.compare_exchange(old, new, set, fetch)
            }

            pub fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                self.touch().fetch_add(value, weaker(order))
            }

            pub fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                self.touch().fetch_sub(value, weaker(order))
            }

            pub fn fetch_or(&self, value: $value, order: Ordering) -> $value {
                self.touch().fetch_or(value, weaker(order))
            }

            pub fn fetch_and(&self, value: $value, order: Ordering) -> $value {
                self.touch().fetch_and(value, weaker(order))
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

atomics!(AtomicU8 u8, AtomicU16 u16, AtomicU32 u32, AtomicU64 u64);

loom::lazy_static! {
    static ref BARRIER: AtomicU32 = AtomicU32::new(0);
}

thread_local! {
    static WEAKENED: Cell<Weakened> = const { Cell::new(Weakened::Nothing) };
}
