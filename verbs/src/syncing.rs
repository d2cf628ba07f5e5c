//! Making memory durable that has a copy in a file.

use core::ops::Range;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::region::Region;

/// The memory of one SYNC and of those that were left to it, and what has come of it. It keeps the memory until it is carried out, so that a region can be
/// deregistered meanwhile.
#[derive(Debug, Default)]
pub struct SyncJob {
    ranges: Mutex<Vec<Kept>>,
    outcome: AtomicU8,
}

/// Memory with a copy in a file, and octets of it.
type Kept = (Arc<Region>, Range<usize>);

impl SyncJob {
    /// Notes pieces of regions, each by its first octet and length, behind those that were noted before. Returns how many
    /// there are that a file has to be written for.
    ///
    /// # Errors
    /// The first error among the pieces; nothing is noted then.
    pub(crate) fn begin<'a, E>(
        &self,
        pieces: impl Iterator<Item = Result<(&'a Region, usize, usize), E>>,
    ) -> Result<usize, E> {
        let mut ranges = self.ranges();
        let before = ranges.len();
        for piece in pieces {
            match piece {
                Ok((region, offset, len)) => {
                    if let Some((whole, first)) = region.kept() {
                        ranges.push((Arc::clone(whole), first + offset..first + offset + len));
                    }
                }
                Err(error) => {
                    ranges.truncate(before);
                    return Err(error);
                }
            }
        }
        self.outcome.store(UNDER_WAY, Ordering::Relaxed);
        Ok(ranges.len())
    }

    /// Returns whether all of it is durable; `None` as long as it is under way.
    pub(crate) fn outcome(&self) -> Option<bool> {
        match self.outcome.load(Ordering::Acquire) {
            UNDER_WAY => None,
            outcome => Some(outcome == GOOD),
        }
    }

    fn ranges(&self) -> MutexGuard<'_, Vec<Kept>> {
        self.ranges.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Carries SYNCs out: it writes to files, and may take as long as a disk takes.
#[derive(Debug, Default)]
pub struct Syncer {
    octets: Vec<u8>,
    /// The memories of the present jobs, each once.
    files: Vec<Arc<Region>>,
}

impl Syncer {
    /// Writes the memory of all `jobs` to the files, and then synchronizes each file once. A job with a file that cannot
    /// be written has failed, and so have all later ones of that file: the kernel may have dropped what it did not write.
    pub fn carry_out<'a>(&mut self, jobs: impl Iterator<Item = &'a Arc<SyncJob>> + Clone) {
        self.octets.resize(CHUNK, 0);
        for job in jobs.clone() {
            for (whole, range) in job.ranges().iter() {
                whole.write_out(range.clone(), &mut self.octets);
                if !self.files.iter().any(|file| Arc::ptr_eq(file, whole)) {
                    self.files.push(Arc::clone(whole));
                }
            }
        }
        for file in self.files.drain(..) {
            file.synchronize();
        }
        for job in jobs {
            let mut ranges = job.ranges();
            let is_good = !ranges.iter().any(|(whole, _)| whole.is_spoiled());
            ranges.clear();
            drop(ranges);
            job.outcome.store(if is_good { GOOD } else { FAILED }, Ordering::Release);
        }
    }
}

const UNDER_WAY: u8 = 0;
const GOOD: u8 = 1;
const FAILED: u8 = 2;
/// Octets that are written at a time.
const CHUNK: usize = 256 * 1024;
