//! The beginning and the end of every C function: pointers are checked, errors become numbers, panics stop here.
#![allow(unsafe_code)]

use core::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use rustix::io::Errno;
use weft_verbs::MAX_INLINE;

/// The outcome of a function behind C's.
pub(crate) type Outcome<T> = Result<T, Errno>;

/// Runs a function that cannot fail. After a panic it returns `instead`.
pub(crate) fn always<T>(instead: T, act: impl FnOnce() -> T) -> T {
    guard(|| Ok(act())).unwrap_or(instead)
}

/// Runs a function. A panic is a fault of the library: the program gets EIO, and standard error the reason.
pub(super) fn guard<T>(act: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
    catch_unwind(AssertUnwindSafe(act)).unwrap_or(Err(Errno::IO))
}

pub(crate) fn set_errno(errno: Errno) {
    // SAFETY: the address of this thread's own `errno` is valid as long as the thread lives.
    unsafe { *libc::__errno_location() = errno.raw_os_error() };
}

/// Copies the value that a pointer of the program points to.
///
/// # Safety
/// It is null, or points to a `T` whose octets may be read.
pub(crate) unsafe fn read<T: Copy>(pointer: *const T) -> Outcome<T> {
    if pointer.is_null() {
        return Err(Errno::INVAL);
    }
    // SAFETY: as the caller says; a program may pack its structs, so that the value may lie unaligned.
    Ok(unsafe { pointer.read_unaligned() })
}

/// As [`read`]; returns None for null.
///
/// # Safety
/// As [`read`].
pub(crate) unsafe fn read_optional<T: Copy>(pointer: *const T) -> Option<T> {
    // SAFETY: as the caller says.
    unsafe { read(pointer) }.ok()
}

/// Stores a value where the program wants it.
///
/// # Safety
/// `pointer` is null, or points to a `T` that may be written.
pub(crate) unsafe fn write<T>(pointer: *mut T, value: T) -> Outcome<()> {
    if pointer.is_null() {
        return Err(Errno::INVAL);
    }
    // SAFETY: as the caller says.
    unsafe { pointer.write_unaligned(value) };
    Ok(())
}

/// Stores as much of a value as the program has room for, and zeroes the octets beyond.
///
/// # Safety
/// `pointer` is null, or points to `len` octets that may be written; `T` has no octets that are not initialized.
pub(crate) unsafe fn write_prefix<T>(pointer: *mut T, len: usize, value: &T) -> Outcome<()> {
    if pointer.is_null() {
        return Err(Errno::INVAL);
    }
    let known = len.min(size_of::<T>());
    let to = pointer.cast::<u8>();
    // SAFETY: as the caller says, and `known` octets are in both.
    unsafe {
        to.copy_from_nonoverlapping(core::ptr::from_ref(value).cast(), known);
        to.add(known).write_bytes(0, len - known);
    }
    Ok(())
}

/// Copies octets of the program.
///
/// # Safety
/// `len` is 0, or `pointer` is null or points to `len` octets that may be read.
pub(crate) unsafe fn octets(pointer: *const u8, len: usize) -> Outcome<Vec<u8>> {
    let mut copy = vec![0; len];
    if len > 0 {
        if pointer.is_null() {
            return Err(Errno::INVAL);
        }
        // SAFETY: as the caller says, and the copy has as many.
        unsafe { pointer.copy_to_nonoverlapping(copy.as_mut_ptr(), len) };
    }
    Ok(copy)
}

/// Borrows octets of the program during a call.
///
/// # Safety
/// `len` is 0, or `pointer` is null or points to `len` octets that may be read and do not change during `'a`.
pub(crate) unsafe fn lent<'a>(pointer: *const u8, len: usize) -> Outcome<&'a [u8]> {
    match (len, pointer.is_null()) {
        (0, _) => Ok(&[]),
        (_, true) => Err(Errno::FAULT),
        (len, false) if len <= isize::MAX.unsigned_abs() => {
            // SAFETY: as the caller says; nothing is longer than this.
            Ok(unsafe { core::slice::from_raw_parts(pointer, len) })
        }
        _ => Err(Errno::INVAL),
    }
}

/// As [`lent`], for octets that are written.
///
/// # Safety
/// As [`lent`], and no other thread accesses them during `'a`.
pub(crate) unsafe fn lent_mut<'a>(pointer: *mut u8, len: usize) -> Outcome<&'a mut [u8]> {
    match (len, pointer.is_null()) {
        (0, _) => Ok(&mut []),
        (_, true) => Err(Errno::FAULT),
        (len, false) if len <= isize::MAX.unsigned_abs() => {
            // SAFETY: as the caller says; nothing is longer than this.
            Ok(unsafe { core::slice::from_raw_parts_mut(pointer, len) })
        }
        _ => Err(Errno::INVAL),
    }
}

/// Appends octets of the program to `to`, at most as many as a request can hold.
///
/// # Safety
/// As [`octets`].
pub(crate) unsafe fn gather(to: &mut Vec<u8>, pointer: *const u8, len: usize) -> Outcome<()> {
    if len == 0 {
        return Ok(());
    }
    if pointer.is_null() || len > MAX_INLINE {
        return Err(Errno::INVAL);
    }
    to.reserve(len);
    let end = to.len();
    // SAFETY: as the caller says, and there is room for `len` more octets, which are initialized then.
    unsafe {
        pointer.copy_to_nonoverlapping(to.as_mut_ptr().add(end), len);
        to.set_len(end + len);
    }
    Ok(())
}

/// Borrows a string of the program; None for null.
///
/// # Safety
/// `pointer` is null, or points to octets that end with a 0 and do not change during `'a`.
pub(crate) unsafe fn string<'a>(pointer: *const c_char) -> Option<&'a CStr> {
    // SAFETY: as the caller says.
    (!pointer.is_null()).then(|| unsafe { CStr::from_ptr(pointer) })
}
