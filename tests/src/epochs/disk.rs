//! A disk that loses what was not synced.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weft_group::{MemberState, StateStore};
use weft_verbs::Storage;

/// The disk of a host. Clones are the same disk.
#[derive(Clone, Debug)]
pub(super) struct Disk(Arc<Mutex<Contents>>);

#[derive(Debug)]
struct Contents {
    octets: Vec<u8>,
    /// What was written and not synced.
    written: Vec<(usize, Vec<u8>)>,
    state: Option<MemberState>,
    /// The next sync fails, and loses what was written.
    is_failing: bool,
}

impl Disk {
    pub(super) fn new(len: usize) -> Self {
        let (octets, written) = (vec![0; len], Vec::new());
        Self(Arc::new(Mutex::new(Contents { octets, written, state: None, is_failing: false })))
    }

    /// Returns the octets, after a restart.
    pub(super) fn load(&self) -> Vec<u8> {
        self.contents().octets.clone()
    }

    /// Returns the state of the member, after a restart.
    pub(super) fn state(&self) -> Option<MemberState> {
        self.contents().state
    }

    pub(super) fn fail(&self) {
        self.contents().is_failing = true;
    }

    fn contents(&self) -> MutexGuard<'_, Contents> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Storage for Disk {
    fn write_at(&self, octets: &[u8], at: u64) -> io::Result<()> {
        let at = usize::try_from(at).map_err(|_| io::ErrorKind::InvalidInput)?;
        self.contents().written.push((at, octets.to_vec()));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut contents = self.contents();
        let written = std::mem::take(&mut contents.written);
        if std::mem::take(&mut contents.is_failing) {
            return Err(io::ErrorKind::Other.into());
        }
        for (at, octets) in written {
            contents.octets[at..at + octets.len()].copy_from_slice(&octets);
        }
        Ok(())
    }
}

impl StateStore for Disk {
    fn store(&self, state: &MemberState) -> io::Result<()> {
        self.contents().state = Some(*state);
        Ok(())
    }
}
