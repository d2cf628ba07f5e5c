//! The beginning and the end of every C function: pointers are checked, failures become numbers, panics stop here.
#![allow(unsafe_code)]

use core::ffi::{CStr, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use nix::errno::Errno;

use crate::failure::{Failure, Outcome};

/// Runs a function. If it fails, sets `errno` and the line of the reason, and returns `instead`.
pub(super) fn answer<T>(instead: T, act: impl FnOnce() -> Outcome<T>) -> T {
    let outcome = catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|_| Err(Failure::broken()));
    outcome.unwrap_or_else(|failure| {
        failure.tell();
        instead
    })
}

/// Returns the size that a struct says it has.
///
/// # Errors
/// `EFAULT` for null; `EINVAL` if the size is less than `least` or no multiple of 8; `E2BIG` if it is absurd.
///
/// # Safety
/// `pointer` is null, or points to the struct's first field, a u64 that may be read.
pub(super) unsafe fn size<T>(pointer: *const T, least: usize, what: &str) -> Outcome<usize> {
    if pointer.is_null() {
        return Err(Failure::null(what));
    }
    // SAFETY: as the caller says; a program may pack its structs, so that the value may lie unaligned.
    let size = unsafe { pointer.cast::<u64>().read_unaligned() };
    match usize::try_from(size) {
        Ok(size) if size < least || !size.is_multiple_of(8) => {
            Err(Failure::invalid(format_args!("{what}: struct_size {size} is that of no version")))
        }
        Ok(size) if size <= MAX_SIZE => Ok(size),
        _ => {
            Err(Failure::new(Errno::E2BIG, format_args!("{what}: struct_size {size} is that of no version")))
        }
    }
}

/// Copies a struct of `size` octets. Fields that it does not have are 0.
///
/// # Errors
/// `E2BIG` if it has octets that the library does not know and that are not 0.
///
/// # Safety
/// `pointer` points to `size` octets that may be read. `T` is a struct of numbers and pointers.
pub(super) unsafe fn read<T: Copy + Default>(pointer: *const T, size: usize, what: &str) -> Outcome<T> {
    let mut value = T::default();
    let known = size.min(size_of::<T>());
    let from = pointer.cast::<u8>();
    // SAFETY: as the caller says, and `known` octets are in both; any octets are a value of numbers and pointers.
    unsafe { from.copy_to_nonoverlapping((&raw mut value).cast(), known) };
    // SAFETY: as the caller says.
    if (known..size).any(|at| unsafe { from.add(at).read() } != 0) {
        return Err(Failure::new(
            Errno::E2BIG,
            format_args!("{what}: the struct has fields that this library does not know"),
        ));
    }
    Ok(value)
}

/// Stores a struct where the program has `size` octets for it. Octets beyond become 0.
///
/// # Safety
/// `pointer` points to `size` octets that may be written. `T` has no octets that are not initialized.
pub(super) unsafe fn write<T>(pointer: *mut T, size: usize, value: &T) {
    let known = size.min(size_of::<T>());
    let to = pointer.cast::<u8>();
    // SAFETY: as the caller says, and `known` octets are in both.
    unsafe {
        to.copy_from_nonoverlapping(core::ptr::from_ref(value).cast(), known);
        to.add(known).write_bytes(0, size - known);
    }
}

/// Stores a value where the program wants it, if it does.
///
/// # Safety
/// `pointer` is null, or points to a `T` that may be written.
pub(super) unsafe fn store<T>(pointer: *mut T, value: T) {
    if !pointer.is_null() {
        // SAFETY: as the caller says.
        unsafe { pointer.write_unaligned(value) };
    }
}

/// Borrows octets of the program during a call.
///
/// # Errors
/// `EFAULT` for null, unless `len` is 0; `ERANGE` if nothing can be so long.
///
/// # Safety
/// `len` is 0, or `pointer` is null or points to `len` octets that may be read and do not change during `'a`.
pub(super) unsafe fn lent<'a>(pointer: *const c_void, len: u64) -> Outcome<&'a [u8]> {
    match fitting(pointer, len)? {
        0 => Ok(&[]),
        // SAFETY: as the caller says; nothing is longer than this.
        len => Ok(unsafe { core::slice::from_raw_parts(pointer.cast(), len) }),
    }
}

/// As [`lent`], for octets that are written.
///
/// # Errors
/// As [`lent`].
///
/// # Safety
/// As [`lent`], and no other thread accesses them during `'a`.
pub(super) unsafe fn lent_mut<'a>(pointer: *mut c_void, len: u64) -> Outcome<&'a mut [u8]> {
    match fitting(pointer, len)? {
        0 => Ok(&mut []),
        // SAFETY: as the caller says; nothing is longer than this.
        len => Ok(unsafe { core::slice::from_raw_parts_mut(pointer.cast(), len) }),
    }
}

/// Returns the length of octets of the program, if there can be as many.
fn fitting(pointer: *const c_void, len: u64) -> Outcome<usize> {
    if len > 0 && pointer.is_null() {
        return Err(Failure::null("the place of the octets"));
    }
    let fits = usize::try_from(len).ok().filter(|len| *len <= isize::MAX.unsigned_abs());
    fits.ok_or_else(|| Failure::new(Errno::ERANGE, format_args!("no program has {len} octets")))
}

/// Borrows a string of the program; `None` for null.
///
/// # Safety
/// `pointer` is null, or points to octets that end with a 0 and do not change during `'a`.
pub(super) unsafe fn string<'a>(pointer: *const c_char) -> Option<&'a CStr> {
    // SAFETY: as the caller says.
    (!pointer.is_null()).then(|| unsafe { CStr::from_ptr(pointer) })
}

/// No version of a struct is larger. A size beyond is one that the program has not set.
const MAX_SIZE: usize = 4096;
