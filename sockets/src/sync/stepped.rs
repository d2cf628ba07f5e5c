//! Atomics that let the simulation in before each of their operations. They are sequentially consistent, as only one
//! thread of the simulation runs at a time.
#![allow(missing_docs, reason = "they are the standard library's")]

use core::cell::Cell;
use core::sync::atomic;

pub use core::sync::atomic::Ordering;

/// Calls `pause` on this thread before the operation behind the next `steps` ones.
pub fn run_for(steps: u32, pause: fn()) {
    STEPS.set((steps, pause));
}

/// Returns how many operations are left until the pause.
pub fn left() -> u32 {
    STEPS.get().0
}

pub const fn fence(_order: Ordering) {}

pub const fn compiler_fence(_order: Ordering) {}

pub const fn light_fence(_order: Ordering) {}

fn step() {
    let (steps, pause) = STEPS.get();
    match steps.checked_sub(1) {
        Some(left) => STEPS.set((left, pause)),
        None => pause(),
    }
}

macro_rules! atomics {
    ($($name:ident $value:ty),*) => {$(
        #[derive(Debug, Default)]
        #[repr(transparent)]
        pub struct $name(atomic::$name);

        impl $name {
            pub const fn new(value: $value) -> Self {
                Self(atomic::$name::new(value))
            }

            pub const fn as_ptr(&self) -> *mut $value {
                self.0.as_ptr()
            }

            pub fn load(&self, order: Ordering) -> $value {
                step();
                self.0.load(order)
            }

            pub fn store(&self, value: $value, order: Ordering) {
                step();
                self.0.store(value, order);
            }

            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                step();
                self.0.swap(value, order)
            }

            pub fn compare_exchange(&self, old: $value, new: $value, set: Ordering, fetch: Ordering) -> Result<$value, $value> {
                step();
                self.0.compare_exchange(old, new, set, fetch)
            }

            pub fn compare_exchange_weak(&self, old: $value, new: $value, set: Ordering, fetch: Ordering) -> Result<$value, $value> {
                self.compare_exchange(old, new, set, fetch)
            }

            pub fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                step();
                self.0.fetch_add(value, order)
            }

            pub fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                step();
                self.0.fetch_sub(value, order)
            }

            pub fn fetch_or(&self, value: $value, order: Ordering) -> $value {
                step();
                self.0.fetch_or(value, order)
            }

            pub fn fetch_and(&self, value: $value, order: Ordering) -> $value {
                step();
                self.0.fetch_and(value, order)
            }

            pub fn fetch_max(&self, value: $value, order: Ordering) -> $value {
                step();
                self.0.fetch_max(value, order)
            }
        }
    )*};
}

atomics!(AtomicU8 u8, AtomicU16 u16, AtomicU32 u32, AtomicU64 u64);

thread_local! {
    static STEPS: Cell<(u32, fn())> = const { Cell::new((u32::MAX, || {})) };
}
