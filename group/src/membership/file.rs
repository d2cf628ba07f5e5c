//! A register in a file, for members on one host and for tests.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::record::{MAX_RECORD, Record};
use super::{Membership, MembershipError};
use crate::atomic::replace;

/// A register in a file. Its folder has to be on one host, since other hosts may not see the lock.
///
/// Beside the file there is one with `.lock` behind its name. It stays, since the file itself is replaced at each
/// change.
#[derive(Clone, Debug)]
pub struct FileRegister {
    path: PathBuf,
}

impl FileRegister {
    /// Returns the register at a path. The file need not be there yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    fn beside(&self, ending: &str) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(ending);
        name.into()
    }

    /// Waits until nobody else reads or changes the record. The lock lasts as long as what is returned.
    fn lock(&self) -> Result<File, MembershipError> {
        let path = self.beside(".lock");
        let lock = File::options().create(true).truncate(false).write(true).open(&path);
        let lock = lock.map_err(|error| failed("open", &path, &error))?;
        flock(&lock, FlockOperation::LockExclusive).map_err(|error| failed("lock", &path, &error.into()))?;
        Ok(lock)
    }

    fn read(&self) -> Result<Option<Record>, MembershipError> {
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed("open", &self.path, &error)),
        };
        let mut octets = Vec::new();
        let limit = MAX_RECORD as u64 + 1;
        file.take(limit).read_to_end(&mut octets).map_err(|error| failed("read", &self.path, &error))?;
        let wrong = |text: &str| MembershipError(format!("{}: {text}", self.path.display()));
        let text = String::from_utf8(octets).map_err(|_| wrong("no text"))?;
        Record::from_json(&text).map(Some).map_err(|error| wrong(&error.0))
    }
}

impl Membership for FileRegister {
    fn get(&self) -> Result<Option<Record>, MembershipError> {
        // A reader sees the old file or the new one.
        self.read()
    }

    fn swap(&self, old: Option<&Record>, new: &Record) -> Result<bool, MembershipError> {
        new.check().map_err(|error| MembershipError(error.0))?;
        let _lock = self.lock()?;
        if self.read()?.as_ref() != old {
            return Ok(false);
        }
        let octets = format!("{}\n", new.to_json());
        replace(&self.path, octets.as_bytes()).map_err(|error| failed("write", &self.path, &error))?;
        Ok(true)
    }
}

fn failed(what: &str, path: &Path, error: &io::Error) -> MembershipError {
    MembershipError(format!("cannot {what} {}: {error}", path.display()))
}
