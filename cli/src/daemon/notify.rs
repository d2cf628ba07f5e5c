//! The word to a service manager that the daemon listens.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Tells the service manager that programs can be started which need the daemon, if it waits for that (sd_notify(3)).
pub(super) fn ready() {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else { return };
    // A manager that has gone waits for nothing.
    let _told = tell(&name, b"READY=1");
}

fn tell(name: &OsStr, word: &[u8]) -> io::Result<usize> {
    let address = match name.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(name)?,
    };
    UnixDatagram::unbound()?.send_to_addr(word, &address)
}
