//! The threads of a device.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use crate::drive::Engines;
use crate::drive::flusher::Flusher;
use crate::drive::thread::Driver;

/// The threads of a device, which end when this is dropped. They hold only the engines.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    drivers: Vec<Driver>,
    flusher: Mutex<Option<Flusher>>,
}

impl Threads {
    /// Starts a driver thread for each engine, if the configuration wants that.
    ///
    /// # Errors
    /// When the system has no thread left.
    pub(crate) fn start(engines: &Arc<Engines>) -> io::Result<Self> {
        let mut threads = Self::default();
        if engines.config().progress.has_threads() {
            for index in 0..engines.len() {
                threads.drivers.push(Driver::start(Arc::clone(engines), index)?);
            }
        }
        Ok(threads)
    }

    /// Makes sure that there is a thread for SYNCs, unless the engines carry them out.
    ///
    /// # Errors
    /// When the system has no thread left.
    pub(crate) fn need_flusher(&self, engines: &Arc<Engines>) -> io::Result<()> {
        let mut flusher = self.flusher.lock().unwrap_or_else(PoisonError::into_inner);
        if flusher.is_none() && engines.config().progress.has_flusher() {
            *flusher = Some(Flusher::start(Arc::clone(engines))?);
        }
        Ok(())
    }
}
