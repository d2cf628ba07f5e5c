//! Memory that the C program sees: the structs to which it holds pointers.
#![allow(unsafe_code)]

use core::marker::PhantomData;
use core::ptr::NonNull;

/// A struct at a fixed address as long as this lives. The program may read and write it at any moment. So no reference
/// to it is ever made, and the library relies on nothing that it reads back.
pub(crate) struct Visible<T> {
    place: NonNull<T>,
    owned: PhantomData<T>,
}

/// A value that can be stored into a struct, and read back whatever the program has made of it.
///
/// # Safety
/// Every pattern of bits is a value, and there are no octets between its parts.
pub(crate) unsafe trait Plain: Copy {}

impl<T: Copy> Visible<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { place: NonNull::from(Box::leak(Box::new(value))), owned: PhantomData }
    }

    /// Returns the pointer for the program.
    pub(crate) const fn as_ptr(&self) -> *mut T {
        self.place.as_ptr()
    }

    /// Stores a field, `offset` octets from the start.
    ///
    /// # Panics
    /// If the field is not within the struct.
    pub(crate) fn set<F: Plain>(&self, offset: usize, value: F) {
        // SAFETY: the field lies within the struct, which lives as long as this does, and any bits are a value of it.
        unsafe { self.field::<F>(offset).write_unaligned(value) };
    }

    /// Reads a field that the program may have written.
    ///
    /// # Panics
    /// As [`Self::set`].
    pub(crate) fn get<F: Plain>(&self, offset: usize) -> F {
        // SAFETY: as in `set`.
        unsafe { self.field::<F>(offset).read_unaligned() }
    }

    fn field<F>(&self, offset: usize) -> *mut F {
        assert!(offset + size_of::<F>() <= size_of::<T>(), "a field is within its struct");
        self.place.as_ptr().wrapping_byte_add(offset).cast()
    }
}

impl<T> Drop for Visible<T> {
    fn drop(&mut self) {
        // SAFETY: the memory comes from a box, and this is its only owner.
        drop(unsafe { Box::from_raw(self.place.as_ptr()) });
    }
}

impl<T> core::fmt::Debug for Visible<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.place.fmt(f)
    }
}

// SAFETY: it owns memory that is only reached by stores and loads of single fields. They race with the program only, as in
// the libraries that this one replaces.
unsafe impl<T> Send for Visible<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Visible<T> {}

// SAFETY: any bits are a valid integer.
unsafe impl Plain for u8 {}
// SAFETY: as above.
unsafe impl Plain for u32 {}
// SAFETY: as above.
unsafe impl Plain for i32 {}
// SAFETY: as above.
unsafe impl Plain for u64 {}
// SAFETY: any bits are valid octets.
unsafe impl Plain for [u8; 128] {}
// SAFETY: any bits are a valid raw pointer. Code that dereferences it has its own SAFETY reason.
unsafe impl<T> Plain for *mut T {}
