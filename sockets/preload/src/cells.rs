//! Values of this process's own that threads read and write under a lock.
#![allow(unsafe_code)]

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, Ordering};

use crate::real;

/// A place for a value. Zeroed memory is an empty place.
#[derive(Debug)]
pub(crate) struct Place<T> {
    is_full: AtomicBool,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: values are copied in and out. Their users hold a lock; without it they would see a mixture of two values, which
// they never do.
unsafe impl<T: Copy + Send> Sync for Place<T> {}

impl<T: Copy> Place<T> {
    /// Returns the value, if there is one.
    #[inline]
    pub(crate) fn get(&self) -> Option<T> {
        // SAFETY: the value was written before.
        self.is_full.load(Ordering::Acquire).then(|| unsafe { (*self.value.get()).assume_init_read() })
    }

    /// Returns the value, if there is one and it is not left out.
    #[inline]
    pub(crate) fn get_unless(&self, is_left_out: impl FnOnce(&T) -> bool) -> Option<T> {
        if !self.is_full.load(Ordering::Acquire) {
            return None;
        }
        // SAFETY: the value was written before, and the users' lock keeps writers away.
        let value = unsafe { (*self.value.get()).assume_init_ref() };
        (!is_left_out(value)).then_some(*value)
    }

    /// Puts a value, or empties the place.
    #[inline]
    pub(crate) fn set(&self, value: Option<T>) {
        if let Some(value) = value {
            // SAFETY: the users' lock keeps others away.
            unsafe { (*self.value.get()).write(value) };
        }
        self.is_full.store(value.is_some(), Ordering::Release);
    }
}

/// Reserves empty places, which cost memory only where they are touched.
pub(crate) fn reserve<T: Copy>(count: usize) -> Option<&'static [Place<T>]> {
    let words = real::reserve(count.checked_mul(size_of::<Place<T>>())?.div_ceil(8))?;
    const { assert!(align_of::<Place<T>>() <= 4096) };
    // SAFETY: the memory is zeroed, begins with a page, has room for so many places, and nobody else has it.
    Some(unsafe { core::slice::from_raw_parts(words.as_ptr().cast(), count) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_empty_until_a_value_is_put() {
        let places = reserve::<(u8, u64)>(3).expect("memory");
        assert_eq!(places.iter().map(Place::get).collect::<Vec<_>>(), [None; 3]);
        places[1].set(Some((1, 2)));
        assert_eq!(places.iter().map(Place::get).collect::<Vec<_>>(), [None, Some((1, 2)), None]);
        places[1].set(None);
        assert_eq!(places[1].get(), None);
    }
}
