//! Filters of system calls (seccomp): a program must not be killed by a call that only this library makes.

use core::ffi::CStr;

use rustix::fs::{Mode, OFlags};

/// True if a filter was there when the program began, which it has from those that started it.
pub(crate) fn is_inherited() -> bool {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let mut text = [0; 4096];
    let Ok(file) = rustix::fs::open(STATUS, flags, Mode::empty()) else { return true };
    let len = rustix::io::read(file, &mut text[..]).unwrap_or(0);
    has_filter(text.get(..len).unwrap_or_default())
}

/// Looks for a filter in the kernel's text about a process. A text without the line may hide one.
fn has_filter(status: &[u8]) -> bool {
    let mut lines = status.split(|octet| *octet == b'\n');
    let mode = lines.find_map(|line| line.strip_prefix(b"Seccomp:"));
    mode.is_none_or(|mode| mode.trim_ascii() != b"0")
}

const STATUS: &CStr = c"/proc/self/status";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_found() {
        assert!(!has_filter(b"Name:\tcat\nSeccomp:\t0\nSeccomp_filters:\t0\n"));
        assert!(has_filter(b"Name:\tcat\nSeccomp:\t2\nSeccomp_filters:\t1\n"));
        assert!(has_filter(b"Name:\tcat\n") && has_filter(b"Name:\tSeccomp:\t0\n"));
    }
}
