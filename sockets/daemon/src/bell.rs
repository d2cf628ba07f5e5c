//! Doorbells: what wakes the sleepers of processes.

use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;

use rustix::net::{AddressFamily, SendFlags, send, sockopt};

use crate::foreign::Foreign;

/// What wakes one waiter: an eventfd, or a socket whose other end the waiter has.
///
/// A process can fill its eventfd and have it block at any moment. The daemon's own user could as well stop the daemon,
/// but another user must not be able to. So another user gives a socket, which is never waited for.
#[derive(Clone, Debug)]
pub(crate) struct Bell {
    pub(crate) file: Arc<Foreign>,
    is_socket: bool,
}

impl Bell {
    /// Takes a doorbell. Returns `None` for anything else. Asks nothing that a file's server would have to answer.
    pub(crate) fn new(file: Foreign, is_same_user: bool) -> Option<Self> {
        let is_socket = sockopt::socket_domain(&file) == Ok(AddressFamily::UNIX);
        let is_bell = is_socket || is_same_user && is_eventfd(&file);
        is_bell.then(|| Self { file: Arc::new(file), is_socket })
    }

    /// Rings without waiting.
    pub(crate) fn ring(&self) {
        let octets = 1_u64.to_ne_bytes();
        // An error says that the bell has been rung often enough, or that nobody hears it.
        let _rung = if self.is_socket {
            send(&*self.file, &octets, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)
        } else {
            rustix::io::write(&*self.file, &octets)
        };
    }
}

/// True for an eventfd. A pipe or a file could block.
fn is_eventfd(file: &Foreign) -> bool {
    let link = std::fs::read_link(format!("/proc/self/fd/{}", file.as_fd().as_raw_fd()));
    link.is_ok_and(|name| name.as_os_str() == "anon_inode:[eventfd]")
}
