//! Shared memory: the only file of this crate with unsafe code and system calls.
//!
//! Other processes change this memory at any moment. Words are reached as atomics. Octets are copied by a function that
//! the compiler knows nothing of, so that it never reads them twice.
#![allow(unsafe_code)]

use core::ptr::NonNull;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::layout::{
    CHANNELS, Channel, ENDS, End, LINK_LEN, LinkHeader, RINGS_AT, SLAB_LEN, SlabHeader, StatusPage,
    channel_offset, end_offset,
};
use crate::leg::RingPlace;
use crate::sync::{AtomicU64, Ordering};

/// A mapped file of memory. Unmaps when dropped.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

/// Types that may lie in shared memory: made of atomics only, and valid if zeroed.
///
/// # Safety
/// Every field is an atomic integer, and no bit pattern is invalid.
unsafe trait Shared {}
// SAFETY: all of these consist of atomics only.
unsafe impl Shared for Channel {}
// SAFETY: as above.
unsafe impl Shared for LinkHeader {}
// SAFETY: as above.
unsafe impl Shared for SlabHeader {}
// SAFETY: as above.
unsafe impl Shared for StatusPage {}
// SAFETY: as above.
unsafe impl Shared for End {}
// SAFETY: as above.
unsafe impl Shared for Words {}

impl Mapping {
    /// Maps `len` octets of a file, to be written if `is_writable`.
    ///
    /// # Errors
    /// The kernel's.
    pub fn new(file: impl AsFd, len: u64, is_writable: bool) -> Result<Self, Errno> {
        let len = usize::try_from(len).map_err(|_| Errno::NOMEM)?;
        let protection = if is_writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        // SAFETY: the kernel chooses an address where nothing is mapped.
        let start = unsafe { mmap(core::ptr::null_mut(), len, protection, MapFlags::SHARED, file, 0) }?;
        let start = NonNull::new(start.cast()).ok_or(Errno::NOMEM)?;
        Ok(Self { start, len })
    }

    /// Puts other memory in the place of this: a file's, or zeros of the own. Borrows stay valid.
    fn replace(&self, file: Option<&dyn AsRawFd>, is_writable: bool) -> Result<(), Errno> {
        let (flags, file) = match file {
            Some(file) => (libc::MAP_SHARED, file.as_raw_fd()),
            None => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE, -1),
        };
        let protection = if is_writable { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
        // SAFETY: exactly the mapping of this value is replaced, by memory that can be used as before. Its users expect
        // that it changes at any moment.
        let start = unsafe {
            libc::mmap(self.start.as_ptr().cast(), self.len, protection, flags | libc::MAP_FIXED, file, 0)
        };
        if start == libc::MAP_FAILED { Err(Errno::NOMEM) } else { Ok(()) }
    }

    #[inline]
    fn at<T: Shared>(&self, offset: u64) -> Option<&T> {
        let offset = usize::try_from(offset).ok()?;
        let end = offset.checked_add(size_of::<T>())?;
        if end > self.len || !offset.is_multiple_of(align_of::<T>()) {
            return None;
        }
        // SAFETY: the octets are in the mapping, which starts at a page and lives as long as `self`; `T` is made of
        // atomics, so that changes by others are allowed, and has no invalid values.
        Some(unsafe { self.start.add(offset).cast().as_ref() })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `new` mapped these octets, and nothing borrowed from this value is left. An error would mean that
        // nothing is mapped there.
        let _unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}

// SAFETY: memory has no thread affinity, and this type gives atomics and copies only.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

/// A mapped link.
#[derive(Debug)]
pub struct Link(Mapping);

impl Link {
    /// Makes the memory of a link: sparse, and sealed against growing, shrinking and further seals.
    ///
    /// # Errors
    /// The kernel's.
    pub fn create() -> Result<OwnedFd, Errno> {
        create(c"weft-link", LINK_LEN, FIXED)
    }

    /// Maps a link, which a stranger may have made.
    ///
    /// # Errors
    /// `INVAL` if the file is not as [`create`](Self::create) makes it; else the kernel's.
    pub fn map(file: impl AsFd) -> Result<Self, Errno> {
        check(&file, LINK_LEN)?;
        Mapping::new(file, LINK_LEN, true).map(Self)
    }

    /// Maps another link in the place of this one. Borrows stay valid, and see the other link.
    ///
    /// # Errors
    /// As [`map`](Self::map).
    pub fn replace(&self, file: impl AsFd) -> Result<(), Errno> {
        check(&file, LINK_LEN)?;
        self.0.replace(Some(&file.as_fd()), true)
    }

    /// Gives the link's memory back. Borrows stay valid, and see zeros.
    ///
    /// # Errors
    /// The kernel's.
    pub fn forget(&self) -> Result<(), Errno> {
        self.0.replace(None, true)
    }

    /// Maps all of a link but its rings, for the daemon.
    ///
    /// # Errors
    /// As [`map`](Self::map).
    pub fn map_channels(file: impl AsFd) -> Result<Self, Errno> {
        check(&file, LINK_LEN)?;
        Mapping::new(file, RINGS_AT, true).map(Self)
    }

    /// Stores zeros to the words of a channel that nobody uses.
    pub fn clear(&self, channel: u32) {
        let words: Option<&Words> =
            if channel >= CHANNELS { None } else { self.0.at(channel_offset(channel)) };
        words.iter().flat_map(|words| words.iter()).for_each(|word| word.store(0, Ordering::Relaxed));
    }

    /// The first page.
    #[must_use]
    pub fn header(&self) -> &LinkHeader {
        self.0.at(0).unwrap_or_else(|| unreachable!("a link has a header"))
    }

    /// A channel's words, if there is such a channel.
    #[inline]
    #[must_use]
    pub fn channel(&self, channel: u32) -> Option<&Channel> {
        if channel >= CHANNELS { None } else { self.0.at(channel_offset(channel)) }
    }

    /// The octets of a ring.
    #[inline]
    #[must_use]
    pub fn ring(&self, place: RingPlace) -> Octets<'_> {
        // A place lies in the link by construction.
        let offset = usize::try_from(place.offset()).unwrap_or(usize::MAX).min(self.0.len);
        let len = usize::try_from(place.len()).unwrap_or(usize::MAX).min(self.0.len - offset);
        // SAFETY: `offset` is at most the mapping's length.
        let start = unsafe { self.0.start.add(offset) };
        Octets { start, len, owner: core::marker::PhantomData }
    }
}

/// An end, or a channel, as plain words.
type Words = [AtomicU64; 64];

/// A mapped slab.
#[derive(Debug)]
pub struct Slab(Mapping);

impl Slab {
    /// Makes the memory of a slab.
    ///
    /// # Errors
    /// The kernel's.
    pub fn create() -> Result<OwnedFd, Errno> {
        create(c"weft-ends", SLAB_LEN, FIXED)
    }

    /// Maps a slab.
    ///
    /// # Errors
    /// `INVAL` if the file is not as [`create`](Self::create) makes it; else the kernel's.
    pub fn map(file: impl AsFd) -> Result<Self, Errno> {
        check(&file, SLAB_LEN)?;
        Mapping::new(file, SLAB_LEN, true).map(Self)
    }

    /// Puts another slab's memory in the place of this one's. Borrows stay valid.
    ///
    /// # Errors
    /// As [`map`](Self::map).
    pub fn replace(&self, file: impl AsFd) -> Result<(), Errno> {
        check(&file, SLAB_LEN)?;
        self.0.replace(Some(&file.as_fd()), true)
    }

    /// The first page, with the members.
    #[must_use]
    pub fn header(&self) -> &SlabHeader {
        self.0.at(0).unwrap_or_else(|| unreachable!("a slab has a header"))
    }

    /// An end, if there is such a slot.
    #[inline]
    #[must_use]
    pub fn end(&self, slot: u32) -> Option<&End> {
        if slot >= ENDS { None } else { self.0.at(end_offset(slot)) }
    }

    /// The ends that were ever in use, each behind its slot. A family may claim any number.
    pub fn ends(&self) -> impl Iterator<Item = (u32, &End)> {
        let slots = 0..self.header().ends.load(Ordering::Acquire).min(ENDS);
        slots.filter_map(|slot| Some((slot, self.end(slot)?)))
    }

    /// Stores 0 to all words of an end but the first, which has its state.
    pub(crate) fn clear(&self, slot: u32) {
        let words: Option<&Words> = if slot >= ENDS { None } else { self.0.at(end_offset(slot)) };
        for word in words.iter().flat_map(|words| &words[1..]) {
            word.store(0, Ordering::Relaxed);
        }
    }
}

/// A mapped status page.
#[derive(Debug)]
pub struct Status(Mapping);

impl Status {
    /// Makes a status page, maps it for its owner, and seals it: nobody else can ever write to it.
    ///
    /// # Errors
    /// The kernel's.
    pub fn create() -> Result<(OwnedFd, Self), Errno> {
        let file = create(c"weft-status", size_of::<StatusPage>() as u64, SealFlags::empty())?;
        let mapping = Mapping::new(&file, size_of::<StatusPage>() as u64, true)?;
        fcntl_add_seals(&file, FIXED | SealFlags::FUTURE_WRITE)?;
        Ok((file, Self(mapping)))
    }

    /// Maps a peer's status page, to be read.
    ///
    /// # Errors
    /// `INVAL` if the file is not as [`create`](Self::create) makes it; else the kernel's.
    pub fn map(file: impl AsFd) -> Result<Self, Errno> {
        check(&file, size_of::<StatusPage>() as u64)?;
        Mapping::new(file, size_of::<StatusPage>() as u64, false).map(Self)
    }

    /// Maps another peer's status page in the place of this one. Borrows stay valid, and see the other page.
    ///
    /// # Errors
    /// As [`map`](Self::map).
    pub fn replace(&self, file: impl AsFd) -> Result<(), Errno> {
        check(&file, size_of::<StatusPage>() as u64)?;
        self.0.replace(Some(&file.as_fd()), false)
    }

    /// The lines. Only the owner may store to them.
    #[inline]
    #[must_use]
    pub fn page(&self) -> &StatusPage {
        self.0.at(0).unwrap_or_else(|| unreachable!("the mapping has a page"))
    }
}

/// Octets in shared memory.
#[derive(Clone, Copy, Debug)]
pub struct Octets<'a> {
    start: NonNull<u8>,
    len: usize,
    owner: core::marker::PhantomData<&'a Mapping>,
}

impl Octets<'_> {
    /// How many there are.
    #[inline]
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// True if there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Copies `octets` to place `at` on. Returns false, and copies nothing, if they do not fit there.
    #[inline]
    #[must_use]
    pub fn write(&self, at: usize, octets: &[u8]) -> bool {
        let fits = at.checked_add(octets.len()).is_some_and(|end| end <= self.len);
        if fits {
            // SAFETY: so many octets are there, in the mapping; `octets` is a slice of the program's own memory.
            unsafe { copy(octets.as_ptr(), self.start.as_ptr().add(at), octets.len()) };
        }
        fits
    }

    /// Copies the octets from place `at` on. Returns false, and copies nothing, if there are not so many.
    #[inline]
    #[must_use]
    pub fn read(&self, at: usize, octets: &mut [u8]) -> bool {
        let fits = at.checked_add(octets.len()).is_some_and(|end| end <= self.len);
        if fits {
            // SAFETY: as in `write`.
            unsafe { copy(self.start.as_ptr().add(at), octets.as_mut_ptr(), octets.len()) };
        }
        fits
    }

    /// Returns the address of `len` octets at `at`, for system calls that read or write them, if there are so many.
    #[inline]
    #[must_use]
    pub fn address(&self, at: usize, len: usize) -> Option<*mut u8> {
        let end = at.checked_add(len)?;
        // SAFETY: at most `len` octets from the start.
        (end <= self.len).then(|| unsafe { self.start.as_ptr().add(at) })
    }
}

/// Copies octets that others may change meanwhile.
///
/// # Safety
/// Both are valid for so many octets, and do not overlap.
#[inline]
unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    // The compiler cannot see which function this is, so it assumes nothing of the octets.
    let function: unsafe extern "C" fn(*mut libc::c_void, *const libc::c_void, usize) -> *mut libc::c_void =
        core::hint::black_box(libc::memcpy);
    // SAFETY: as the caller promises.
    unsafe { function(to.cast(), from.cast(), len) };
}

fn create(name: &core::ffi::CStr, len: u64, seals: SealFlags) -> Result<OwnedFd, Errno> {
    let file = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&file, len)?;
    fcntl_add_seals(&file, seals)?;
    Ok(file)
}

/// No process can take memory away below a mapping, or keep others from mapping it.
const FIXED: SealFlags = SealFlags::GROW.union(SealFlags::SHRINK).union(SealFlags::SEAL);

/// Checks that nobody can take the memory away below a mapping.
fn check(file: impl AsFd, len: u64) -> Result<(), Errno> {
    let is_sealed = fcntl_get_seals(&file)?.contains(SealFlags::GROW | SealFlags::SHRINK);
    let is_long = u64::try_from(fstat(&file)?.st_size).is_ok_and(|size| size == len);
    if is_sealed && is_long { Ok(()) } else { Err(Errno::INVAL) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_can_be_replaced_below_its_borrows() {
        let [first, second] = [(); 2].map(|()| Link::create().expect("memory"));
        let link = Link::map(&first).expect("a link");
        let word = &link.header().heartbeat;
        word.store(1, Ordering::Relaxed);
        link.replace(&second).expect("another link");
        assert_eq!(word.swap(2, Ordering::Relaxed), 0);
        link.forget().expect("zeros");
        assert_eq!(word.load(Ordering::Relaxed), 0);
        let again = [first, second]
            .map(|file| Link::map(file).expect("a link").header().heartbeat.load(Ordering::Relaxed));
        assert_eq!(again, [1, 2]);
        let other = Slab::create().expect("memory");
        assert_eq!(link.replace(other), Err(Errno::INVAL));
    }
}
