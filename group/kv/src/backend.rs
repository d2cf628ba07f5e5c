//! A mirror of a group as the storage of a database.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redb::StorageBackend;
use weft_group::{Group, Mirror, MirrorError};

/// The storage of a [`redb::Database`] that a group replicates. Clones are the same storage, which one database at a time may
/// use.
///
/// Write transactions should have quick repair on: then a host that takes over opens the database without walking it.
#[derive(Debug)]
pub struct RedbBackend<G> {
    shared: Arc<Mutex<Shared<G>>>,
}

#[derive(Debug)]
struct Shared<G> {
    mirror: Mirror<G>,
    /// The first error since it was asked for. The database tells its own words only.
    error: Option<MirrorError>,
    /// Syncs do nothing.
    is_held: bool,
}

impl<G: Group> RedbBackend<G> {
    /// Makes a storage of a mirror.
    pub fn new(mirror: Mirror<G>) -> Self {
        Self { shared: Arc::new(Mutex::new(Shared { mirror, error: None, is_held: false })) }
    }

    /// Makes sure that this client was not cut off from the group before this call: what was read until then was the newest.
    ///
    /// # Errors
    /// As [`Mirror::confirm`].
    pub fn confirm(&self) -> Result<(), MirrorError> {
        self.lock().mirror.confirm()
    }

    /// Has syncs do nothing, until [`Self::release`].
    pub(crate) fn hold(&self) {
        self.lock().is_held = true;
    }

    /// Carries out the syncs that did nothing.
    pub(crate) fn release(&self) -> Result<(), io::Error> {
        let is_held = core::mem::take(&mut self.lock().is_held);
        if is_held { self.attempt(Mirror::sync) } else { Ok(()) }
    }

    /// Returns how many octets the storage has, and how many it may have.
    pub fn size(&self) -> (u64, u64) {
        let shared = self.lock();
        (shared.mirror.len(), shared.mirror.capacity())
    }

    /// Takes the error because of which the database has failed.
    pub fn take_error(&self) -> Option<MirrorError> {
        self.lock().error.take()
    }

    fn lock(&self) -> MutexGuard<'_, Shared<G>> {
        // No call of a mirror leaves it in between when it panics.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn attempt<T>(
        &self,
        call: impl FnOnce(&mut Mirror<G>) -> Result<T, MirrorError>,
    ) -> Result<T, io::Error> {
        let mut shared = self.lock();
        call(&mut shared.mirror).map_err(|error| {
            let kind = match error {
                MirrorError::StorageFull => io::ErrorKind::StorageFull,
                MirrorError::Bounds => io::ErrorKind::UnexpectedEof,
                MirrorError::Foreign => io::ErrorKind::InvalidData,
                MirrorError::Session(_) => io::ErrorKind::ConnectionAborted,
            };
            shared.error.get_or_insert_with(|| error.clone());
            io::Error::new(kind, error)
        })
    }
}

impl<G> Clone for RedbBackend<G> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<G: Group + core::fmt::Debug + Send + 'static> StorageBackend for RedbBackend<G> {
    fn len(&self) -> Result<u64, io::Error> {
        Ok(self.lock().mirror.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), io::Error> {
        self.attempt(|mirror| mirror.read(offset, out))
    }

    fn set_len(&self, len: u64) -> Result<(), io::Error> {
        self.attempt(|mirror| mirror.set_len(len))
    }

    fn sync_data(&self) -> Result<(), io::Error> {
        if self.lock().is_held { Ok(()) } else { self.attempt(Mirror::sync) }
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
        self.attempt(|mirror| mirror.write(offset, data))
    }
}
