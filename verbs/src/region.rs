//! Registered memory, reached by copies through raw pointers only.
//!
//! The application and a peer may change registered memory at any moment, so this file makes no reference to its
//! octets. They are reached by the functions of [`copy`](crate::copy), those of [`crc`], which copy in the same way,
//! and the kernel. [`Region::as_slice`] is for an owner that keeps all of these away for a time.
#![allow(unsafe_code)]

use core::ops::Range;
use core::ptr::NonNull;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use rustix::fs::{SealFlags, fcntl_get_seals, fstat};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
use rustix::param::page_size;

pub use self::backing::Storage;
use self::backing::{Backing, prepare};
pub(crate) use self::entries::Entries;
use crate::doorbell::Doorbells;
use crate::memory::{RegisterError, Violation};
use crate::queues::QpQueues;
use crate::{copy, crc};

/// A run of octets that stays at its address for as long as the value lives.
///
/// Either the region owns its memory ([`Region::owned`]), shares it with other processes ([`Region::shared`]), or the
/// creator promised to keep it ([`Region::raw`], [`Region::probed`]), or it is a part of another region
/// ([`Region::part`], [`Region::on_file`]), or the entries of a send queue ([`Region::send_queue`]).
pub struct Region {
    start: NonNull<u8>,
    len: usize,
    home: Home,
    /// Whether it is memory that may be written, without any effect besides.
    writable: bool,
    /// The entries of a send queue, if the region is that.
    entries: Option<Entries>,
    /// Where its octets are kept. Only parts of such a region are handed out.
    backing: Option<Backing>,
}

/// How the memory is freed.
#[derive(Clone, Debug)]
enum Home {
    Allocator,
    Mapping,
    /// It is a part of this region, which others may share.
    Part(Arc<Region>),
    Elsewhere,
}

impl Region {
    /// Makes a region of memory that the caller owns.
    ///
    /// # Safety
    /// `start..start + len` must be valid for reads and writes until the region is dropped, and no code may rely on its
    /// content being stable: the engine reads and writes it whenever a peer or a work request asks for it.
    pub const unsafe fn raw(start: NonNull<u8>, len: usize) -> Self {
        Self { start, len, home: Home::Elsewhere, writable: true, entries: None, backing: None }
    }

    /// Makes a region of memory that the caller owns and that may not be there, as with the addresses that `ibv_reg_mr`
    /// gets. With `writable` it has to be writable; without, the region refuses all changes.
    ///
    /// The kernel is asked to fault the pages in as a read or write would (`MADV_POPULATE_READ` and `_WRITE`, Linux
    /// 5.14): it looks at every page as it does when it pins memory for an adapter, says EFAULT instead of sending a
    /// signal, also where a mapped file has ended, and changes no octet. An older kernel is asked for the mappings and
    /// their rights (`/proc/self/maps`).
    ///
    /// # Errors
    /// [`RegisterError::Wrap`] when the range goes around the end of all addresses, [`RegisterError::Fault`] when some
    /// of it is not there, or not writable.
    ///
    /// # Safety
    /// If it is there, `start..start + len` must stay mapped, with the same rights, until the region is dropped, or
    /// fault from then on, with the [guard](crate::guard_memory) installed. No code may rely on its content being
    /// stable.
    pub unsafe fn probed(start: *mut u8, len: usize, writable: bool) -> Result<Self, RegisterError> {
        let first = start.addr();
        let end = first.checked_add(len).ok_or(RegisterError::Wrap)?;
        if len > 0 && !is_there(start, first..end, writable) {
            return Err(RegisterError::Fault);
        }
        // Only an empty region can begin at 0.
        let start = NonNull::new(start).unwrap_or(NonNull::dangling());
        Ok(Self { start, len, home: Home::Elsewhere, writable, entries: None, backing: None })
    }

    /// Maps `len` octets of a memfd from `offset` on, which other processes may map as well. Atomics of the engine and
    /// of those processes agree.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] when the descriptor is not a memfd sealed against shrinking (F_SEAL_SHRINK: a
    /// process that cut it would take this process's memory away), it is shorter, `len` is 0 or `offset` not a multiple
    /// of the page size; else what the system says to mapping it for reading and writing.
    pub fn shared(fd: impl AsFd, offset: u64, len: usize) -> io::Result<Self> {
        let refused = |why| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        let fd = fd.as_fd();
        if !fcntl_get_seals(fd).is_ok_and(|seals| seals.contains(SealFlags::SHRINK)) {
            return refused("shared memory must be a memfd that is sealed against shrinking");
        }
        let size = u64::try_from(fstat(fd)?.st_size).unwrap_or(0);
        if offset.checked_add(len as u64).is_none_or(|end| end > size) {
            return refused("the shared memory is shorter");
        }
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the place of a new mapping, so that it takes no memory away.
        let start = unsafe { mmap(core::ptr::null_mut(), len, rights, MapFlags::SHARED, fd, offset) }?;
        let Some(start) = NonNull::new(start.cast::<u8>()) else { return refused("mapped at address 0") };
        Ok(Self { start, len, home: Home::Mapping, writable: true, entries: None, backing: None })
    }

    /// Makes a region of a part of another one, or returns `None` when that reaches beyond it, or when it is the entries of a
    /// send queue. Any number of parts may share octets, each registered with rights of its own. The whole stays for as long
    /// as the last of them.
    pub fn part(whole: &Arc<Self>, range: Range<usize>) -> Option<Self> {
        let len = range.end.checked_sub(range.start).filter(|_| range.end <= whole.len)?;
        let start = NonNull::new(whole.start.as_ptr().wrapping_add(range.start))?;
        let (home, writable) = (Home::Part(Arc::clone(whole)), whole.writable);
        whole.entries.is_none().then_some(Self { start, len, home, writable, entries: None, backing: None })
    }

    /// Makes memory of `len` octets that are kept in `file`: those that it has are loaded, and the rest is zero. The file
    /// is locked (flock) for as long as the memory lives, and gets room on the disk for all of it. A SYNC
    /// ([`SendOpcode::Sync`](crate::SendOpcode::Sync)) writes octets there; nothing else does.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] when somebody else has locked it, [`io::ErrorKind::OutOfMemory`], or what the system
    /// says: `StorageFull` when the disk has no room.
    pub fn on_file(file: File, len: usize) -> io::Result<Self> {
        prepare(&file, len)?;
        let memory = Self::owned(len).ok_or(io::ErrorKind::OutOfMemory)?;
        let mut octets = vec![0; LOAD.min(len)];
        for offset in (0..len).step_by(LOAD) {
            let octets = &mut octets[..LOAD.min(len - offset)];
            file.read_exact_at(octets, offset as u64)?;
            if !memory.copy_in(offset, octets) {
                return Err(io::ErrorKind::InvalidInput.into());
            }
        }
        memory.stored(Box::new(file))
    }

    /// Has the octets of memory be kept in `storage` from now on, by SYNCs.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for memory that does not belong to the region alone ([`Region::owned`]).
    pub fn stored(mut self, storage: Box<dyn Storage>) -> io::Result<Self> {
        if !matches!(self.home, Home::Allocator) || self.backing.is_some() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.backing = Some(Backing::new(storage));
        let len = self.len;
        Self::part(&Arc::new(self), 0..len).ok_or_else(|| io::ErrorKind::InvalidInput.into())
    }

    /// Returns the memory with a storage that this region is a part of, and where the region begins there.
    pub(crate) fn kept(&self) -> Option<(&Arc<Self>, usize)> {
        let mut region = self;
        while let Home::Part(whole) = &region.home {
            if whole.backing.is_some() {
                return Some((whole, self.start.as_ptr().addr() - whole.start.as_ptr().addr()));
            }
            region = whole;
        }
        None
    }

    /// Returns whether a SYNC of its octets writes them to a file.
    pub fn is_stored(&self) -> bool {
        self.kept().is_some()
    }

    /// Returns whether its octets could not be kept. They are there as before, but the file is not to be trusted, and each
    /// SYNC fails.
    pub fn is_spoiled(&self) -> bool {
        let backing =
            self.backing.as_ref().or_else(|| self.kept().and_then(|(whole, _)| whole.backing.as_ref()));
        backing.is_some_and(Backing::is_spoiled)
    }

    /// Writes octets to the storage of this memory by way of `octets`. They are durable after [`Self::synchronize`].
    pub(crate) fn write_out(&self, range: Range<usize>, octets: &mut [u8]) {
        let Some(backing) = &self.backing else { return };
        backing.act(|storage| {
            for offset in range.clone().step_by(octets.len().max(1)) {
                let octets = &mut octets[..];
                let len = octets.len().min(range.end - offset);
                if !self.copy_out(offset, &mut octets[..len]) {
                    return Err(io::ErrorKind::InvalidInput.into());
                }
                storage.write_at(&octets[..len], offset as u64)?;
            }
            Ok(())
        });
    }

    /// Makes durable what was written to the storage of this memory.
    pub(crate) fn synchronize(&self) {
        if let Some(backing) = &self.backing {
            backing.act(|storage| storage.sync());
        }
    }

    /// Makes a region of the entries of a send queue, without its head and tail. Each change of them rings its
    /// doorbell, which is `slot` of `doorbells`. The ring stays for as long as the region does.
    pub fn send_queue(queues: Arc<QpQueues>, doorbells: Arc<Doorbells>, slot: usize) -> Self {
        let (address, len) = (queues.send.ring().address(), queues.send.ring().octets());
        // Only its address is used; the octets are reached through the ring.
        let start = NonNull::new(core::ptr::without_provenance_mut(address)).unwrap_or(NonNull::dangling());
        let entries = Some(Entries::new(queues, doorbells, slot));
        Self { start, len, home: Home::Elsewhere, writable: false, entries, backing: None }
    }

    /// Copies `octets` into the region at `offset`. `false` when that is out of bounds, and nothing is copied; or when
    /// some of the memory is not there any more.
    #[must_use]
    #[inline(always)]
    pub fn copy_in(&self, offset: usize, octets: &[u8]) -> bool {
        if !self.writable {
            return self.entries.as_ref().is_some_and(|entries| entries.change(offset, octets));
        }
        if !self.holds(offset, octets.len()) {
            return false;
        }
        // SAFETY: the bounds were checked above, and the creator of the region keeps start..start + len valid or has
        // installed the guard. `octets` is a Rust slice; a caller that has a slice of the region's memory has promised
        // that nobody copies meanwhile, so the two do not overlap. All other threads reach this memory by the same
        // function or are not Rust's; a race decides about octets only.
        unsafe { copy::copy_in(octets, self.start.as_ptr().add(offset)) }
    }

    /// Copies `octets.len()` octets at `offset` out of the region. `false` when that is out of bounds, and nothing is
    /// copied; or when some of the memory is not there any more.
    #[must_use]
    #[inline(always)]
    pub fn copy_out(&self, offset: usize, octets: &mut [u8]) -> bool {
        if let Some(entries) = &self.entries {
            return entries.copy_out(offset, octets);
        }
        if !self.holds(offset, octets.len()) {
            return false;
        }
        // SAFETY: as in `copy_in`, with source and destination exchanged.
        unsafe { copy::copy_out(self.start.as_ptr().add(offset), octets) }
    }

    /// As [`Self::copy_out`], and returns the CRC32c of everything that gave `crc` followed by `octets`, or `None`
    /// instead of `false`.
    #[must_use]
    #[inline]
    pub fn copy_out_with_crc(&self, offset: usize, octets: &mut [u8], crc: u32) -> Option<u32> {
        if self.entries.is_some() {
            return self.copy_out(offset, octets).then(|| crc::append(crc, octets));
        }
        if !self.holds(offset, octets.len()) {
            return None;
        }
        // SAFETY: as in `copy_out`.
        unsafe { crc::copy_from(crc, self.start.as_ptr().add(offset), octets) }
    }

    /// Returns why a copy of `len` octets at `offset` was refused.
    #[cold]
    pub(crate) const fn violation(&self, offset: usize, len: usize) -> Violation {
        if self.holds(offset, len) { Violation::Gone } else { Violation::Bounds }
    }

    /// Returns where `len` octets at `offset` lie, for the system calls below, or `None` when that is out of bounds.
    const fn piece(&self, offset: usize, len: usize) -> Option<libc::iovec> {
        if !self.holds(offset, len) {
            return None;
        }
        let start = self.start.as_ptr().wrapping_add(offset);
        Some(libc::iovec { iov_base: start.cast(), iov_len: len })
    }

    /// Replaces the 64 bits at `offset`, in the machine's byte order, by what `change` makes of them, and returns what
    /// they were. Atomic with regard to all other updates and to the atomic instructions of the machine. `None` when
    /// they are out of bounds, not aligned in memory or not there any more, and nothing is changed.
    #[must_use]
    pub fn update(&self, offset: usize, change: impl Fn(u64) -> u64) -> Option<u64> {
        if !self.writable {
            return self.entries.as_ref().and_then(|entries| entries.update(offset, change));
        }
        if !self.holds(offset, size_of::<u64>()) || !self.is_aligned(offset) {
            return None;
        }
        // SAFETY: as in `copy_in`; the word is aligned.
        unsafe { copy::update(self.start.as_ptr().add(offset).cast::<u64>(), change) }
    }

    /// Returns whether the octet at `offset` lies at an address that is a multiple of 8.
    pub fn is_aligned(&self, offset: usize) -> bool {
        self.start.as_ptr().addr().wrapping_add(offset).is_multiple_of(size_of::<u64>())
    }

    /// Returns the address of the first octet, the default tagged offset (iova) of a memory region.
    pub fn address(&self) -> u64 {
        self.start.as_ptr().addr() as u64
    }

    /// Returns whether the octets can be changed; without, [`Self::copy_in`] and [`Self::update`] refuse.
    pub const fn is_writable(&self) -> bool {
        self.writable || self.entries.is_some()
    }

    /// Returns whether it is memory that may be written, without any effect besides.
    pub(crate) const fn is_plain(&self) -> bool {
        self.writable
    }

    /// Returns the entries of a send queue, if it is that.
    pub(crate) const fn entries(&self) -> Option<&Entries> {
        self.entries.as_ref()
    }

    /// Returns whether it is the entries of a send queue.
    pub const fn is_send_queue(&self) -> bool {
        self.entries.is_some()
    }

    /// Returns the number of octets.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the region has no octets.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    const fn holds(&self, offset: usize, len: usize) -> bool {
        offset <= self.len && len <= self.len - offset
    }
}

/// Octets to send: a slice, or a piece of a region by its offset and length.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part<'a> {
    Octets(&'a [u8]),
    Memory(&'a Region, usize, usize),
}

/// Sends parts to a socket, straight from where they are and without waiting. Returns how many octets the kernel has
/// taken.
///
/// # Errors
/// `InvalidInput` when a piece is out of bounds or there are more than [`MAX_PIECES`] and one, else what sendmsg(2)
/// says: EFAULT when the first piece is not there any more.
pub(crate) fn send_gathered(socket: BorrowedFd<'_>, parts: &[Part<'_>]) -> io::Result<usize> {
    let mut places = [libc::iovec { iov_base: core::ptr::null_mut(), iov_len: 0 }; MAX_PIECES + 1];
    let places = places.get_mut(..parts.len()).ok_or(io::ErrorKind::InvalidInput)?;
    for (place, part) in places.iter_mut().zip(parts) {
        *place = match *part {
            Part::Octets(octets) => {
                libc::iovec { iov_base: octets.as_ptr().cast_mut().cast(), iov_len: octets.len() }
            }
            Part::Memory(region, offset, len) => {
                region.piece(offset, len).ok_or(io::ErrorKind::InvalidInput)?
            }
        };
    }
    // SAFETY: all-zero octets are a valid msghdr, that of an empty message.
    let mut message: libc::msghdr = unsafe { core::mem::zeroed() };
    message.msg_iov = places.as_mut_ptr();
    message.msg_iovlen = places.len();
    // SAFETY: the message points to as many places as it says, which outlive the call, as do the slices and regions
    // that they lead to; their bounds were checked, and the creators of the regions keep them valid. The kernel only
    // reads them; a thread that writes a region meanwhile races as in `copy_out`. The descriptor is open, being
    // borrowed.
    let sent = unsafe {
        libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT)
    };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Receives from a socket, without waiting: first into `len` octets at `offset` of a region, then into `spare`. Returns
/// how many octets have come in all.
///
/// # Errors
/// `InvalidInput` when the place is out of bounds or not plain memory that may be written, else what recvmsg(2) says.
pub(crate) fn receive_scattered(
    socket: BorrowedFd<'_>,
    (region, offset, len): (&Region, usize, usize),
    spare: &mut [u8],
) -> io::Result<usize> {
    let place = region.piece(offset, len).filter(|_| region.is_plain()).ok_or(io::ErrorKind::InvalidInput)?;
    let spare = libc::iovec { iov_base: spare.as_mut_ptr().cast(), iov_len: spare.len() };
    let mut parts = [place, spare];
    // SAFETY: all-zero octets are a valid msghdr, that of an empty message.
    let mut message: libc::msghdr = unsafe { core::mem::zeroed() };
    message.msg_iov = parts.as_mut_ptr();
    message.msg_iovlen = parts.len();
    // SAFETY: the message points to two parts, which outlive the call, as do the slice, borrowed for writing, and the
    // region that they lead to; the region's bounds and that it may be written were checked, and its creator keeps it
    // valid. A thread that reads or writes the region meanwhile races as in `copy_in`. The descriptor is open, being
    // borrowed.
    let received = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT) };
    usize::try_from(received).map_err(|_| io::Error::last_os_error())
}

/// Octets that are loaded from a file at a time.
const LOAD: usize = 1 << 20;

/// One less than the parts that a call of [`send_gathered`] takes.
pub(crate) const MAX_PIECES: usize = 48;

// SAFETY: the region is an address range without thread affinity; all access is by copies that need no exclusive
// borrow.
unsafe impl Send for Region {}
// SAFETY: as above; concurrent copies may interleave octets, which the documentation of the type allows.
unsafe impl Sync for Region {}

impl Drop for Region {
    fn drop(&mut self) {
        match &self.home {
            Home::Allocator => {
                let words = self.start.as_ptr().cast::<u64>();
                let words = core::ptr::slice_from_raw_parts_mut(words, self.len.div_ceil(size_of::<u64>()));
                // SAFETY: `owned` has allocated the memory as an array of so many words, and it is freed only here.
                drop(unsafe { Box::from_raw(words) });
            }
            Home::Mapping => {
                // SAFETY: start and length are those of the mapping that `shared` has made; no other code knows of it.
                let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
                debug_assert!(unmapped.is_ok(), "{unmapped:?}");
            }
            // The whole frees it.
            Home::Part(_) | Home::Elsewhere => {}
        }
    }
}

/// Returns whether memory can be read, or written, everywhere in `range`, which begins at `start`.
fn is_there(start: *mut u8, range: Range<usize>, writable: bool) -> bool {
    let advice = if writable { Advice::LinuxPopulateWrite } else { Advice::LinuxPopulateRead };
    let lead = range.start % page_size();
    let first = start.wrapping_sub(lead);
    match populate(first, lead + range.len(), advice) {
        Ok(()) => true,
        // Either the rights of the mapping, or the advice is not known: then that of this very stack is not either.
        Err(Errno::INVAL) if !knows_populate() => maps::are_mapped(&range, writable),
        Err(_) => false,
    }
}

/// Returns whether the kernel can be asked at all.
fn knows_populate() -> bool {
    let mut here = 0_u8;
    let here = core::ptr::from_mut(&mut here);
    populate(here.wrapping_sub(here.addr() % page_size()), 1, Advice::LinuxPopulateRead).is_ok()
}

/// Faults in all pages from `start` on, which is the beginning of a page.
fn populate(start: *mut u8, len: usize, advice: Advice) -> Result<(), Errno> {
    loop {
        // SAFETY: these two advices make pages present as an access would, and change no octet and no mapping.
        match unsafe { madvise(start.cast(), len, advice) } {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}

impl core::fmt::Debug for Region {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Region")
            .field("address", &self.address())
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

mod backing;
mod entries;
mod maps;
mod owned;

#[cfg(test)]
mod tests {
    use rustix::fs::{MemfdFlags, fcntl_add_seals, ftruncate, memfd_create};

    use super::*;
    use crate::access::Access;
    use crate::ids::PdId;
    use crate::memory::{MemoryTable, Registration};

    #[test]
    fn copies_stay_inside() {
        let region = Region::owned(8).unwrap();
        assert!(region.copy_in(0, b"12345678"));
        assert!(!region.copy_in(1, b"12345678"));
        assert!(!region.copy_in(9, b""));
        assert!(!region.copy_in(usize::MAX, b"1"));
        let mut out = [0; 4];
        assert!(region.copy_out(4, &mut out));
        assert_eq!(&out, b"5678");
        assert!(!region.copy_out(5, &mut out));
        assert!(region.copy_out(8, &mut []));
    }

    #[test]
    fn updates_are_aligned_and_stay_inside() {
        let region = Region::owned(32).unwrap();
        let first = 8;
        assert!(region.is_aligned(0) && !region.is_aligned(4) && region.is_aligned(first));
        assert!(region.copy_in(first, &7_u64.to_ne_bytes()));
        assert_eq!(region.update(first, |value| value + 1), Some(7));
        let mut out = [0; 32];
        assert!(region.copy_out(0, &mut out));
        let mut expected = [0; 32];
        expected[first..first + 8].copy_from_slice(&8_u64.to_ne_bytes());
        assert_eq!(out, expected);
        for offset in [first + 1, first + 4, first + 7, 25, 32, usize::MAX - 7] {
            assert_eq!(region.update(offset, |_| 99), None);
        }
        assert!(region.copy_out(0, &mut out));
        assert_eq!(out, expected);
    }

    #[test]
    fn parts_share_octets_and_keep_the_whole() {
        let whole = Arc::new(Region::owned(100).unwrap());
        let (first, second) = (Region::part(&whole, 0..60).unwrap(), Region::part(&whole, 40..100).unwrap());
        assert!(first.copy_in(50, b"shared") && whole.copy_in(0, b"first"));
        let mut octets = [0; 6];
        assert!(second.copy_out(10, &mut octets));
        assert_eq!((&octets, first.len(), second.len()), (b"shared", 60, 60));
        assert!(!first.copy_in(58, b"shared"), "its own end counts, and not that of the whole");
        let weak = Arc::downgrade(&whole);
        drop((whole, first));
        assert!(second.copy_out(10, &mut octets) && weak.upgrade().is_some());
        drop(second);
        assert!(weak.upgrade().is_none());
    }

    #[test]
    fn a_part_lies_inside_of_the_whole() {
        let whole = Arc::new(Region::owned(8).unwrap());
        let cases =
            [(0, 8, true), (8, 8, true), (0, 9, false), (9, 9, false), (5, 4, false), (0, usize::MAX, false)];
        for (start, end, good) in cases {
            assert_eq!(Region::part(&whole, start..end).is_some(), good, "{start}..{end}");
        }
    }

    #[test]
    fn raw_memory_is_left_to_its_owner() {
        let mut memory = [0_u8; 4];
        // SAFETY: `memory` outlives the region, which is dropped before it is read.
        let region = unsafe { Region::raw(NonNull::new(memory.as_mut_ptr()).unwrap(), 4) };
        assert!(region.copy_in(1, b"ab"));
        drop(region);
        assert_eq!(&memory, b"\0ab\0");
    }

    /// Returns a private mapping of three pages: one to read and write, one to read, and one that is not to be touched.
    fn three_pages() -> *mut u8 {
        let (page, both) = (page_size(), ProtFlags::READ | ProtFlags::WRITE);
        let null = core::ptr::null_mut();
        // SAFETY: a new mapping, which the test keeps; the rights are taken from its own pages.
        unsafe {
            let start = rustix::mm::mmap_anonymous(null, 3 * page, both, MapFlags::PRIVATE).unwrap();
            for (index, rights) in
                [(1, rustix::mm::MprotectFlags::READ), (2, rustix::mm::MprotectFlags::empty())]
            {
                rustix::mm::mprotect(start.wrapping_byte_add(index * page), page, rights).unwrap();
            }
            start.cast()
        }
    }

    fn probe(start: *mut u8, len: usize, writable: bool) -> Result<Region, RegisterError> {
        // SAFETY: what is there of the tests' memory stays there.
        unsafe { Region::probed(start, len, writable) }
    }

    #[test]
    fn memory_that_is_not_there_is_a_fault_and_no_crash() {
        let page = page_size();
        let start = three_pages();
        let at = |offset: usize| start.wrapping_add(offset);
        let cases = [
            (at(0), page, [true, true]),
            (at(page - 1), 1, [true, true]),
            (at(page - 1), 2, [true, false]),
            (at(0), 2 * page, [true, false]),
            (at(page), page, [true, false]),
            (at(2 * page - 1), 2, [false, false]),
            (at(2 * page), 1, [false, false]),
            (core::ptr::without_provenance_mut(page), 1, [false, false]),
            (core::ptr::null_mut(), 1, [false, false]),
            (core::ptr::null_mut(), 0, [true, true]),
            (at(2 * page), 0, [true, true]),
            (at(0), usize::MAX / 2, [false, false]),
        ];
        for (start, len, expected) in cases {
            for (writable, good) in [(false, expected[0]), (true, expected[1])] {
                let probed = probe(start, len, writable).map(|region| (region.len(), region.is_writable()));
                let expected = if good { Ok((len, writable)) } else { Err(RegisterError::Fault) };
                assert_eq!(probed, expected, "{len} octets at {start:?}, writable: {writable}");
                let end = start.addr() + len;
                assert_eq!(len == 0 || maps::are_mapped(&(start.addr()..end), writable), good);
            }
        }
        assert_eq!(probe(at(0), usize::MAX, false).map(|_| ()), Err(RegisterError::Wrap));
    }

    #[test]
    fn memory_that_is_not_writable_is_never_written() {
        let region = probe(three_pages().wrapping_add(page_size()), 16, false).unwrap();
        assert!(!region.copy_in(0, b"x"));
        assert_eq!(region.update(0, |value| value), None);
        let mut out = [1; 16];
        assert!(region.copy_out(0, &mut out));
        assert_eq!(out, [0; 16]);
    }

    #[test]
    fn rights_that_the_memory_does_not_have_are_refused() {
        let read_only = || probe(three_pages().wrapping_add(page_size()), 16, false).unwrap();
        let mut table = MemoryTable::new(1);
        let mut register = |access| {
            let registration =
                Registration { pd: PdId(1), stream: None, access, iova: 0, region: read_only() };
            table.register(registration).map(|_| ())
        };
        assert_eq!(register(Access::LOCAL_WRITE), Err(RegisterError::Fault));
        assert_eq!(register(Access::ALL), Err(RegisterError::Fault));
        assert_eq!(register(Access::REMOTE_READ), Ok(()));
        assert_eq!(register(Access::LOCAL_READ), Ok(()));
    }

    /// The kernel counts a page behind the end of a file among the mapped ones, and sends a signal to a thread that
    /// touches it.
    #[test]
    fn the_end_of_a_mapped_file_is_the_end_of_the_memory() {
        let page = page_size();
        let file = memfd_create("weft-test", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, page as u64).unwrap();
        let (both, null) = (ProtFlags::READ | ProtFlags::WRITE, core::ptr::null_mut());
        // SAFETY: a new mapping, which the test keeps.
        let start = unsafe { mmap(null, 2 * page, both, MapFlags::SHARED, &file, 0) }.unwrap();
        for writable in [false, true] {
            assert!(probe(start.cast(), page, writable).is_ok());
            if knows_populate() {
                assert_eq!(probe(start.cast(), page + 1, writable).map(|_| ()), Err(RegisterError::Fault));
            }
        }
    }

    #[test]
    fn memory_that_is_shared_by_descriptor() {
        let page = page_size();
        let file = memfd_create("weft-test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&file, 2 * page as u64).unwrap();
        let kind = |made: io::Result<Region>| made.unwrap_err().kind();
        assert_eq!(kind(Region::shared(&file, 0, page)), io::ErrorKind::InvalidInput, "it can shrink");
        fcntl_add_seals(&file, SealFlags::SHRINK).unwrap();
        for (offset, len) in [(0, 2 * page + 1), (page as u64, page + 1), (u64::MAX, 1), (1, 1), (0, 0)] {
            assert_eq!(
                kind(Region::shared(&file, offset, len)),
                io::ErrorKind::InvalidInput,
                "{offset} {len}"
            );
        }
        let [one, other] = [(0, 2 * page), (page as u64, page)]
            .map(|(offset, len)| Region::shared(&file, offset, len).unwrap());
        assert!(one.copy_in(page + 7, b"shared"));
        let mut out = [0; 6];
        assert!(other.copy_out(7, &mut out));
        assert_eq!(&out, b"shared");
        assert!(other.is_aligned(0) && other.update(8, |value| value + 1).is_some());
        drop(one);
        assert!(other.copy_out(7, &mut out));
    }

    #[test]
    fn octets_from_a_socket_fill_the_region_first() {
        use std::io::Write;
        let (mut peer, socket) = std::os::unix::net::UnixStream::pair().unwrap();
        let region = Region::owned(8).unwrap();
        peer.write_all(b"12345678").unwrap();
        let mut spare = [0; 3];
        // A refused call takes nothing off the socket.
        let page = page_size();
        let all = probe(three_pages(), page, true).unwrap();
        let read_only = probe(three_pages().wrapping_add(page), page, false).unwrap();
        for (region, offset, len) in
            [(&region, 5, 4), (&region, usize::MAX, 1), (&read_only, 0, 4), (&all, page, 1)]
        {
            let refused = receive_scattered(socket.as_fd(), (region, offset, len), &mut spare);
            assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
        assert_eq!(receive_scattered(socket.as_fd(), (&region, 2, 4), &mut spare).unwrap(), 7);
        let mut out = [0xEE; 8];
        assert!(region.copy_out(0, &mut out));
        assert_eq!((&out, &spare), (b"\0\x001234\0\0", b"567"));
        assert_eq!(receive_scattered(socket.as_fd(), (&region, 0, 4), &mut spare).unwrap(), 1);
        let empty = receive_scattered(socket.as_fd(), (&region, 0, 4), &mut spare).unwrap_err();
        assert_eq!(empty.kind(), io::ErrorKind::WouldBlock);
    }
}
