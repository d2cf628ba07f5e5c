//! The device's file in `/dev`. The kernel has not made it, and UCX takes a device without it for one that may not be
//! used. UCX asks by stat(2) and access(2), so these functions are here as well. All other files are the system's.
#![allow(unsafe_code)]

use core::ffi::{CStr, c_char, c_int};

#[unsafe(no_mangle)]
unsafe extern "C" fn stat(path: *const c_char, out: *mut libc::stat) -> c_int {
    // SAFETY: the program's arguments; the system checks them.
    unsafe { libc::fstatat(libc::AT_FDCWD, instead_of(path), out, 0) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn access(path: *const c_char, mode: c_int) -> c_int {
    // SAFETY: as above.
    unsafe { libc::faccessat(libc::AT_FDCWD, instead_of(path), mode, 0) }
}

/// # Safety
/// The path is null or a string.
unsafe fn instead_of(path: *const c_char) -> *const c_char {
    // SAFETY: as the caller says.
    let is_device = !path.is_null() && unsafe { CStr::from_ptr(path) } == DEVICE;
    if is_device { INSTEAD.as_ptr() } else { path }
}

const DEVICE: &CStr = c"/dev/infiniband/weft0";
/// A device that every user may read and write.
const INSTEAD: &CStr = c"/dev/null";
