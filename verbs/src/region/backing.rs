//! The file behind a memory.
//!
//! The memory is not a mapping of the file. Each write-back protects a shared page anew, and the next store into it waits
//! in the file system. That store would be the engine's, so that all connections of the device would wait for the disk.

use core::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{FallocateFlags, FlockOperation, fallocate, flock};

/// Where the octets of a memory are kept.
pub trait Storage: fmt::Debug + Send + Sync {
    /// Writes all of `octets` at offset `at`.
    ///
    /// # Errors
    /// What the system says.
    fn write_at(&self, octets: &[u8], at: u64) -> io::Result<()>;

    /// Returns when everything that was written before is durable.
    ///
    /// # Errors
    /// What the system says. What was written before may be lost then.
    fn sync(&self) -> io::Result<()>;
}

impl Storage for File {
    fn write_at(&self, octets: &[u8], at: u64) -> io::Result<()> {
        self.write_all_at(octets, at)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}

/// The storage of a memory, and whether it has failed.
#[derive(Debug)]
pub(super) struct Backing {
    storage: Box<dyn Storage>,
    is_spoiled: AtomicBool,
}

impl Backing {
    pub(super) fn new(storage: Box<dyn Storage>) -> Self {
        Self { storage, is_spoiled: AtomicBool::new(false) }
    }

    /// Does `act` with the storage, unless that has failed before. A failure is final.
    pub(super) fn act(&self, act: impl FnOnce(&dyn Storage) -> io::Result<()>) {
        if !self.is_spoiled() && act(&*self.storage).is_err() {
            self.is_spoiled.store(true, Ordering::Release);
        }
    }

    pub(super) fn is_spoiled(&self) -> bool {
        self.is_spoiled.load(Ordering::Acquire)
    }
}

/// Locks a file for this process, and makes sure that the disk has room for its first `len` octets.
pub(super) fn prepare(file: &File, len: usize) -> io::Result<()> {
    flock(file, FlockOperation::NonBlockingLockExclusive)?;
    if len > 0 {
        let before = file.metadata()?.len();
        // A disk without so much room may have given some of it.
        fallocate(file, FallocateFlags::empty(), 0, len as u64).inspect_err(|_| _ = file.set_len(before))?;
    }
    // The new length is to last as well.
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

    use crate::region::Region;

    use super::*;

    fn file(contents: &[u8]) -> File {
        let file = File::from(memfd_create("weft-test", MemfdFlags::CLOEXEC).unwrap());
        file.write_all_at(contents, 0).unwrap();
        file
    }

    /// Opens the file anew, with a lock and an offset of its own.
    fn again(file: &File) -> File {
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        File::options().read(true).write(true).open(path).unwrap()
    }

    #[test]
    fn a_file_is_loaded_and_gets_its_length() {
        let file = file(b"what it has");
        let other = again(&file);
        let len = (1 << 20) + 5;
        let memory = Region::on_file(file, len).unwrap();
        assert_eq!((memory.len(), other.metadata().unwrap().len()), (len, len as u64));
        let mut octets = vec![1; len];
        assert!(memory.copy_out(0, &mut octets) && memory.is_stored());
        assert!(octets.starts_with(b"what it has\0") && octets[11..].iter().all(|octet| *octet == 0));
        assert!(memory.copy_in(0, b"of the memory only"));
        other.read_exact_at(&mut octets, 0).unwrap();
        assert!(octets.starts_with(b"what it has\0"));
    }

    #[test]
    fn a_file_has_one_memory_at_a_time() {
        let file = file(b"");
        let [second, third] = [again(&file), again(&file)];
        let memory = Region::on_file(file, 100).unwrap();
        let refused = Region::on_file(second, 100).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
        drop(memory);
        assert!(Region::on_file(third, 100).is_ok());
    }

    #[test]
    fn a_disk_without_room_is_an_error_at_the_start() {
        let full = memfd_create("weft-test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        fcntl_add_seals(&full, SealFlags::GROW).unwrap();
        assert!(Region::on_file(File::from(full), 100).is_err());
        let device = File::options().read(true).write(true).open("/dev/full").unwrap();
        assert!(Region::on_file(device, 100).is_err());
    }

    #[test]
    fn only_memory_of_its_own_is_kept() {
        let whole = std::sync::Arc::new(Region::owned(64).unwrap());
        let part = Region::part(&whole, 0..64).unwrap();
        assert!(!part.is_stored() && !part.is_spoiled());
        assert_eq!(part.stored(Box::new(file(b""))).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
