//! The end of a device in good order.

use std::time::Duration;

use crate::config::Progress;
use crate::drive::locked::Motor;
use crate::drive::sleep::{Deadline, sleep};
use crate::objects::device::Device;

impl Device {
    /// Ends everything in good order. Blocks until it has ended, at most for `timeout` in real time; connections that
    /// are left then are reset. Returns whether nothing had to be reset.
    ///
    /// The device listens no more, and gives up connections that are not established. Queue pairs finish the requests
    /// in their send queues, close, and flush the rest, so that every request gets its completion. Queue pairs
    /// without a connection are flushed at once. The device takes no new connection, queue pair, completion queue or
    /// shared receive queue ([`crate::CreateError::ShutDown`], [`crate::CmError::ShutDown`]); its objects can be used
    /// and dropped as before.
    ///
    /// With [`Progress::External`] it cannot wait: it begins the end, and returns whether there was nothing to do.
    /// [`Self::is_idle`] says when it is over.
    pub fn shutdown(&self, timeout: Duration) -> bool {
        self.engines.close();
        self.engines.each(|engine| engine.begin_shutdown(self.engines.now())).for_each(drop);
        self.engines.kick();
        match self.engines.config().progress {
            Progress::External => self.is_idle(),
            Progress::Manual | Progress::Thread => self.wait_until_idle(timeout) || self.reset_all(),
        }
    }

    /// Whether there is no connection, not even one that only TCP still has. A connection in TIME-WAIT does not
    /// count: both sides have sent and acknowledged everything.
    pub fn is_idle(&self) -> bool {
        self.engines.each(|engine| engine.is_idle()).all(|is_idle| is_idle)
    }

    fn wait_until_idle(&self, timeout: Duration) -> bool {
        let deadline = Deadline::after(timeout);
        let motors: Vec<&Motor> = self.engines.motors().iter().collect();
        loop {
            self.advance();
            if self.is_idle() {
                // TCP's last acknowledgement may wait for one more round.
                self.advance();
                return true;
            }
            let left = deadline.as_ref().map(Deadline::left);
            if left == Some(Duration::ZERO) {
                return false;
            }
            if self.engines.config().progress.calls_drive() {
                sleep(&motors, None, left);
            } else {
                // The driver threads are at work. Only they sleep on the descriptors.
                std::thread::sleep(left.map_or(NAP, |left| left.min(NAP)));
            }
        }
    }

    fn reset_all(&self) -> bool {
        self.engines.each(|engine| engine.reset_all(self.engines.now())).for_each(drop);
        false
    }
}

/// How often a device with threads of its own is asked whether all is over.
const NAP: Duration = Duration::from_millis(1);
