//! What decides whether a process may be helped at all: filters of system calls (seccomp), which may kill at a call that only
//! this library makes, and io_uring, whose octets no hook sees.

use core::ffi::CStr;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::fs::{Mode, OFlags};

use crate::clock;

/// True if a filter was there when the program began, which it has from those that started it.
pub(crate) fn is_inherited() -> bool {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let mut text = [0; 4096];
    let Ok(file) = rustix::fs::open(STATUS, flags, Mode::empty()) else { return true };
    let len = rustix::io::read(file, &mut text[..]).unwrap_or(0);
    has_filter(text.get(..len).unwrap_or_default())
}

/// True if the process has memory of an io_uring, whose octets no hook sees. Looks at most once in 10 seconds.
pub(crate) fn has_rings() -> bool {
    let now = clock::now() / 1_000_000_000;
    let (last, has_some) = (LOOKED.load(Ordering::Relaxed), HAS_RINGS.load(Ordering::Relaxed));
    let is_due = last == 0 || now.wrapping_sub(last) >= PAUSE;
    if has_some
        || !is_due
        || LOOKED.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_err()
    {
        return has_some;
    }
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let is_found = rustix::fs::open(MAPS, flags, Mode::empty())
        .is_ok_and(|file| find(RING, |octets| rustix::io::read(&file, octets).unwrap_or(0)));
    HAS_RINGS.store(is_found, Ordering::Relaxed);
    is_found
}

/// Looks for a word in what `read` brings, piece by piece.
fn find(word: &[u8], mut read: impl FnMut(&mut [u8]) -> usize) -> bool {
    let mut text = [0; 4096];
    let mut len = 0;
    loop {
        let got = read(text.get_mut(len..).unwrap_or_default());
        let end = len + got;
        if got == 0 || text.get(..end).is_some_and(|text| text.windows(word.len()).any(|part| part == word)) {
            return got != 0;
        }
        // The word may begin in this piece and end in the next one.
        len = end.min(word.len() - 1);
        text.copy_within(end - len..end, 0);
    }
}

/// Looks for a filter in the kernel's text about a process. A text without the line may hide one.
fn has_filter(status: &[u8]) -> bool {
    let mut lines = status.split(|octet| *octet == b'\n');
    let mode = lines.find_map(|line| line.strip_prefix(b"Seccomp:"));
    mode.is_none_or(|mode| mode.trim_ascii() != b"0")
}

/// When the memory was last looked at, in seconds.
static LOOKED: AtomicU64 = AtomicU64::new(0);
static HAS_RINGS: AtomicBool = AtomicBool::new(false);
/// Seconds between two looks.
const PAUSE: u64 = 10;
const MAPS: &CStr = c"/proc/self/maps";
const RING: &[u8] = b"[io_uring]";
const STATUS: &CStr = c"/proc/self/status";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_found_across_pieces() {
        let text = [&[b'x'; 5000][..], b"anon_inode:[io_uring]\n", &[b'y'; 3000]].concat();
        for size in [1, 7, 4096] {
            for (word, is_there) in [(RING, true), (b"[io_urinG]", false)] {
                let mut rest = &text[..];
                let found = find(word, |octets| {
                    let (piece, behind) = rest.split_at(rest.len().min(octets.len()).min(size));
                    octets[..piece.len()].copy_from_slice(piece);
                    rest = behind;
                    piece.len()
                });
                assert_eq!(found, is_there, "{size}");
            }
        }
    }

    #[test]
    fn a_filter_is_found() {
        assert!(!has_filter(b"Name:\tcat\nSeccomp:\t0\nSeccomp_filters:\t0\n"));
        assert!(has_filter(b"Name:\tcat\nSeccomp:\t2\nSeccomp_filters:\t1\n"));
        assert!(has_filter(b"Name:\tcat\n") && has_filter(b"Name:\tSeccomp:\t0\n"));
    }
}
