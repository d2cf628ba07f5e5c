//! What the kernel tells of processes in files.

use core::ffi::{CStr, c_int};
use core::fmt::Write;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::line::Line;

/// Returns when this process was started, as `/proc/PID/stat` has it.
pub(crate) fn started() -> Option<u64> {
    stat(b"/proc/self/stat\0").ok().map(|(_, started)| started)
}

/// Returns whether a process or thread is a zombie, and when it was started.
pub(crate) fn stat(path: &[u8]) -> Result<(bool, u64), Errno> {
    let file = open(path)?;
    let mut text = [0; 1024];
    let len = rustix::io::read(&file, &mut text[..])?;
    // The name before the last bracket may have anything in it.
    let fields =
        text.get(..len).unwrap_or_default().rsplit(|octet| *octet == b')').next().unwrap_or_default();
    let mut fields = fields.split(|octet| *octet == b' ').skip(1);
    let is_zombie = matches!(fields.next(), Some(b"Z" | b"X"));
    let started = fields.nth(FIELD).and_then(|field| core::str::from_utf8(field).ok()?.parse().ok());
    started.map(|started| (is_zombie, started)).ok_or(Errno::INVAL)
}

/// Returns the number by which the kernel tells an eventfd from others, since Linux 5.2.
pub(crate) fn eventfd(descriptor: c_int) -> Option<u64> {
    let mut path = Line::<40>::new();
    write!(path, "/proc/self/fdinfo/{descriptor}\0").ok()?;
    let file = open(path.octets()).ok()?;
    let mut text = [0; 512];
    let len = rustix::io::read(&file, &mut text[..]).ok()?;
    let mut lines = text.get(..len)?.split(|octet| *octet == b'\n');
    let number = lines.find_map(|line| line.strip_prefix(b"eventfd-id:"))?;
    core::str::from_utf8(number).ok()?.trim().parse().ok()
}

/// True if there is no such file, though the kernel tells of processes.
pub(crate) fn is_gone(path: &[u8]) -> bool {
    matches!(open(path), Err(Errno::NOENT | Errno::SRCH)) && open(b"/proc/self/stat\0").is_ok()
}

fn open(path: &[u8]) -> Result<OwnedFd, Errno> {
    let path = CStr::from_bytes_until_nul(path).map_err(|_| Errno::INVAL)?;
    rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
}

/// The 22nd field, counted from the one behind the state.
const FIELD: usize = 18;
