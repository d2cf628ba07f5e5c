//! Doorbells: what wakes the sleepers of processes.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{FileType, fstat};
use rustix::net::{SendFlags, send};

/// What wakes one waiter: an eventfd, or a socket whose other end the waiter has.
///
/// A process can fill its eventfd and have it block at any moment. The daemon's own user could as well stop the daemon,
/// but another user must not be able to. So another user gives a socket, which is never waited for.
#[derive(Clone, Debug)]
pub(crate) struct Bell {
    pub(crate) file: Arc<OwnedFd>,
    is_socket: bool,
}

impl Bell {
    /// Takes a doorbell. Returns `None` for anything else.
    pub(crate) fn new(file: OwnedFd, is_same_user: bool) -> Option<Self> {
        let is_socket =
            fstat(&file).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Socket);
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
fn is_eventfd(file: &OwnedFd) -> bool {
    let link = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()));
    link.is_ok_and(|name| name.as_os_str() == "anon_inode:[eventfd]")
}
