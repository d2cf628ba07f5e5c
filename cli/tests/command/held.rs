//! Threads of another process that a test holds.

use nix::errno::Errno;
use nix::sys::ptrace::{Options, detach, interrupt, seize};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// Threads that stand still. They go on when this is dropped, or when the thread ends that holds them.
pub(crate) struct Held(Vec<Pid>);

impl Held {
    /// Stops threads of a child process by ptrace(2), and waits until they stand. SIGSTOP would stop all threads of it.
    pub(crate) fn new(threads: impl IntoIterator<Item = i32>) -> Result<Self, Errno> {
        let mut held = Self(Vec::new());
        for thread in threads.into_iter().map(Pid::from_raw) {
            seize(thread, Options::empty())?;
            held.0.push(thread);
            interrupt(thread)?;
            let stopped = waitpid(thread, Some(WaitPidFlag::__WALL))?;
            assert!(matches!(stopped, WaitStatus::PtraceEvent(..)), "{stopped:?}");
        }
        Ok(held)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        for thread in &self.0 {
            // The process may have ended.
            let _goes_on = detach(*thread, None);
        }
    }
}
