//! CRC32c (RFC 5044 section 4.4) at the speed of a copy, alone and folded into one.
//!
//! The CPU's carry-less multiplication folds hundreds of octets at a time, its CRC instruction does short runs. Without
//! them the `crc32c` crate does all of it. A CRC continues from any point ([`append`]), so that two of them are never
//! combined. It stands here and not in MPA since it is `unsafe` and copies from registered memory.
#![allow(unsafe_code)]

use core::sync::atomic::{AtomicU8, Ordering};

/// Returns the CRC of everything that gave `crc` (0 at the start) followed by `octets`.
#[inline]
pub fn append(crc: u32, octets: &[u8]) -> u32 {
    Kernel::best().append(crc, octets)
}

/// Returns the fastest implementation of [`append`] on this machine, for callers that need it often.
pub fn fastest() -> fn(u32, &[u8]) -> u32 {
    match Kernel::best() {
        Kernel::Crate => crc32c::crc32c_append,
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        Kernel::Fold128 => |crc, octets| Kernel::Fold128.append(crc, octets),
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        Kernel::Fold512 => |crc, octets| Kernel::Fold512.append(crc, octets),
    }
}

/// Copies `from` to `to`, and returns the CRC of everything that gave `crc` followed by the copy. Copies nothing and
/// returns `None` if the two differ in length.
#[inline]
pub(crate) fn copy(crc: u32, from: &[u8], to: &mut [u8]) -> Option<u32> {
    if from.len() != to.len() {
        return None;
    }
    if Kernel::best() == Kernel::Crate {
        to.copy_from_slice(from);
        return Some(append(crc, to));
    }
    // SAFETY: `from` is valid for its length, which is that of `to`, and does not change.
    unsafe { copy_from(crc, from.as_ptr(), to) }
}

/// As [`copy`], from memory that other threads may write meanwhile: the CRC is that of the octets in `to`. Returns
/// `None` if some of the memory is not there.
///
/// # Safety
/// As for [`copy_out`](crate::copy::copy_out).
#[inline]
pub(crate) unsafe fn copy_from(crc: u32, from: *const u8, to: &mut [u8]) -> Option<u32> {
    // SAFETY: as the caller promises.
    unsafe { Kernel::best().copy_from(crc, from, to) }
}

/// An implementation that this machine has: values come from [`Kernel::all`] and [`Kernel::best`] only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Kernel {
    /// The crate, and a copy before it.
    Crate = 1,
    /// PCLMULQDQ and SSE4.2.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    Fold128 = 2,
    /// VPCLMULQDQ in registers of 512 bits (AVX-512F).
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    Fold512 = 3,
}

impl Kernel {
    /// Returns the fastest one; the CPU is asked once.
    #[inline]
    fn best() -> Self {
        match BEST.load(Ordering::Relaxed) {
            1 => Self::Crate,
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            2 => Self::Fold128,
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            3 => Self::Fold512,
            _ => Self::detect(),
        }
    }

    #[cold]
    fn detect() -> Self {
        let best = Self::all().last().unwrap_or(Self::Crate);
        BEST.store(best as u8, Ordering::Relaxed);
        best
    }

    /// Returns those that work here, the fastest last.
    fn all() -> impl Iterator<Item = Self> {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        let folding = {
            let has_128 = is_x86_feature_detected!("pclmulqdq") && is_x86_feature_detected!("sse4.2");
            let has_512 =
                has_128 && is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("vpclmulqdq");
            [has_128.then_some(Self::Fold128), has_512.then_some(Self::Fold512)]
        };
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        let folding = [None];
        [Some(Self::Crate)].into_iter().chain(folding).flatten()
    }

    #[inline]
    fn append(self, crc: u32, octets: &[u8]) -> u32 {
        match self {
            Self::Crate => crc32c::crc32c_append(crc, octets),
            // The crate has three CRC instructions under way at a time, which some CPUs take faster than PCLMULQDQ.
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            Self::Fold128 if octets.len() >= THREE_WAYS => crc32c::crc32c_append(crc, octets),
            // SAFETY: there is such a value only where the CPU has the instructions.
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            Self::Fold128 => unsafe { x86::append_128(crc, octets) },
            // SAFETY: as above.
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            Self::Fold512 => unsafe { x86::append_512(crc, octets) },
        }
    }

    /// # Safety
    /// As for [`copy_from`].
    #[inline]
    unsafe fn copy_from(self, crc: u32, from: *const u8, to: &mut [u8]) -> Option<u32> {
        match self {
            // SAFETY: the caller promises it. The CRC is made of the copy, which no other thread can change.
            Self::Crate => unsafe { crate::copy::copy_out(from, to) }.then(|| crc32c::crc32c_append(crc, to)),
            // SAFETY: the caller promises what the memory needs, and the value that the CPU has the instructions.
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            Self::Fold128 => unsafe { x86::copy_128(crc, from, to) },
            // SAFETY: as above.
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            Self::Fold512 => unsafe { x86::copy_512(crc, from, to) },
        }
    }
}

/// From so many octets on the crate is the faster one where there is no VPCLMULQDQ and nothing to be copied.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const THREE_WAYS: usize = 256;

/// The [`Kernel`] that was found to be the best, 0 before that.
static BEST: AtomicU8 = AtomicU8::new(0);

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod x86;

#[cfg(test)]
mod tests;
