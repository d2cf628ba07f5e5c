//! Copies and atomic changes of registered memory, which anybody may change, and C take away, at any moment.
//!
//! The instructions that touch such memory are assembly, so that the compiler knows nothing of what is there: it can neither take a
//! race for undefined behaviour nor read an octet twice. All of them lie in one section, in functions that leave the stack alone.
//! Where one of them faults, [`guard_memory`](crate::guard_memory) lets its caller go on with the answer that the memory is not there. This costs
//! nothing as long as nothing faults.
//!
//! Machines without such functions, and Miri, use relaxed atomic accesses. There a fault ends the process.
#![allow(unsafe_code)]

/// Copies `len` octets. False if some of the memory is not there; then some of the octets may have been copied.
///
/// # Safety
/// `from` is valid for reads and `to` for writes of `len` octets, or they fault and [`guard_memory`](crate::guard_memory) was called. The two do not
/// overlap. Other threads reach the same memory by this module or by atomic accesses only, except for one of the two that is this
/// thread's own.
#[must_use]
#[inline]
pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, len: usize) -> bool {
    // SAFETY: as the caller promises.
    unsafe { machine::copy(from, to, len) }
}

/// Replaces the word at `at` by what `change` makes of it, as one atomic step, and returns what it was. `None` if the memory is not
/// there.
///
/// # Safety
/// As for [`copy`], for reads and writes of a word, and `at` is aligned.
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
