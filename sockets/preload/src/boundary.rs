//! What each hook does around the kernel's answer.

use core::ffi::c_int;

use crate::real;

/// Returns what the C library returns for the kernel's answer, and sets `errno` for an error.
#[inline]
pub(crate) fn answer(result: isize) -> isize {
    if (-LAST_ERROR..0).contains(&result) {
        real::fail(c_int::try_from(-result).unwrap_or(libc::EIO))
    } else {
        result
    }
}

/// As [`answer`], for functions that return an `int`.
#[inline]
pub(crate) fn answer_int(result: isize) -> c_int {
    c_int::try_from(answer(result)).unwrap_or(-1)
}

/// The kernel's highest number of an error.
const LAST_ERROR: isize = 4095;
