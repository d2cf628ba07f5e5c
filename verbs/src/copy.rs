//! Copies and atomic changes of registered memory, which the application or a peer may change, and C may take away, at
//! any moment.
//!
//! The instructions that touch such memory are assembly, so that the compiler knows nothing of what is there: it can
//! neither take a race for undefined behaviour nor read an octet twice. All of them lie in one section, in functions
//! that leave the stack alone. If such a function faults, [`guard_memory`](crate::guard_memory) lets it return that the
//! memory is not there. This costs nothing as long as nothing faults.
//!
//! Machines without such functions, and Miri, use relaxed atomic accesses. There a fault ends the process.
#![allow(unsafe_code)]

/// Copies `octets` to registered memory. Returns `false` if some of it is not there. Then some of the octets may have
/// been copied.
///
/// # Safety
/// `to` is valid for writes of so many octets, or they fault and [`guard_memory`](crate::guard_memory) was called. They
/// do not overlap `octets`. Other threads reach them by this module or by atomic accesses only.
#[must_use]
#[inline(always)]
pub(crate) unsafe fn copy_in(octets: &[u8], to: *mut u8) -> bool {
    // SAFETY: as the caller promises.
    unsafe { machine::copy_in(octets, to) }
}

/// Copies registered memory to `octets`. Returns `false` if some of it is not there.
///
/// # Safety
/// As for [`copy_in`], for reads from `from`.
#[must_use]
#[inline(always)]
pub(crate) unsafe fn copy_out(from: *const u8, octets: &mut [u8]) -> bool {
    // SAFETY: as the caller promises.
    unsafe { machine::copy_out(from, octets) }
}

/// Replaces the word at `at` by what `change` makes of it, as one atomic step, and returns what it was. `None` if the
/// memory is not there.
///
/// # Safety
/// As for [`copy_in`], for reads and writes of a word at `at`, which is aligned.
pub(crate) unsafe fn update(at: *mut u64, change: impl Fn(u64) -> u64) -> Option<u64> {
    let mut expected = 0;
    loop {
        // SAFETY: as the caller promises.
        let seen = unsafe { machine::compare_exchange(at, expected, change(expected)) }?;
        if seen == expected {
            return Some(seen);
        }
        expected = seen;
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[path = "copy/x86.rs"]
pub(crate) mod machine;
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[path = "copy/portable.rs"]
pub(crate) mod machine;

#[cfg(test)]
pub(crate) mod tests;
