//! poll(2), as threads sleep by it.

use std::time::Duration;

use rustix::event::{PollFd, Timespec};
use rustix::io::Errno;

/// What a thread sleeps by: poll(2), or a function with the same results.
pub type Poll<'a> = dyn Fn(&mut [PollFd<'_>], Option<&Timespec>) -> Result<usize, Errno> + 'a;

/// Sleeps by `poll` until a descriptor is ready or `timeout` is over.
pub(crate) fn poll_for(
    poll: &Poll<'_>,
    fds: &mut [PollFd<'_>],
    timeout: Option<Duration>,
) -> Result<(), Errno> {
    let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
    poll(fds, timeout.as_ref()).map(|_| ())
}
