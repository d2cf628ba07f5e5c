//! What decides whether a process may be helped at all: filters of system calls (seccomp), which may kill at a call that only
//! this library makes, and io_uring, whose octets no hook sees.

use core::ffi::CStr;
use core::fmt::Write;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::fs::{Mode, OFlags};
use rustix::path::Arg;

use crate::clock;
use crate::line::Line;

/// What is known of the filters of a process when its program begins: it has them from those that started it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inherited {
    /// There is none but perhaps this library's.
    Nothing,
    /// They allow `clone`. What else they allow, a child can try.
    Familiar,
    /// They may kill at any call.
    Unknown,
}

/// Looks at the filters. It makes only calls that the loader has made before: a filter has allowed them.
///
/// A parent with as many filters has made this process under them. A process without a parent was put into its container
/// by a runtime, whose filters are made for whole containers. `is_ours` tells whether this library's filter is there.
pub(crate) fn inherited(is_ours: impl FnOnce() -> bool) -> Inherited {
    let own = Status::read(c"/proc/self/status");
    if own.is_some_and(|own| own.mode == 0 || own.filters == 1 && is_ours()) {
        return Inherited::Nothing;
    }
    let mut path = Line::<32>::new();
    let is_familiar = own.is_some_and(|own| {
        let _fits = write!(path, "/proc/{}/status", own.parent);
        own.parent == 0 || Status::read(path.octets()).is_some_and(|other| other.filters == own.filters)
    });
    if is_familiar { Inherited::Familiar } else { Inherited::Unknown }
}

/// What the kernel's text about a process tells of its filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Status {
    parent: u32,
    mode: u32,
    filters: u32,
}

impl Status {
    fn read(path: impl Arg) -> Option<Self> {
        let mut text = [0; 4096];
        let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
        let len = rustix::io::read(file, &mut text[..]).ok()?;
        Self::parse(text.get(..len)?)
    }

    /// Reads the text. One without a line may hide a filter.
    fn parse(text: &[u8]) -> Option<Self> {
        let number = |name: &[u8]| {
            let mut lines = text.split(|octet| *octet == b'\n');
            let value = lines.find_map(|line| line.strip_prefix(name))?;
            core::str::from_utf8(value.trim_ascii()).ok()?.parse().ok()
        };
        Some(Self {
            parent: number(b"PPid:")?,
            mode: number(b"Seccomp:")?,
            filters: number(b"Seccomp_filters:")?,
        })
    }
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

/// When the memory was last looked at, in seconds.
static LOOKED: AtomicU64 = AtomicU64::new(0);
static HAS_RINGS: AtomicBool = AtomicBool::new(false);
/// Seconds between two looks.
const PAUSE: u64 = 10;
const MAPS: &CStr = c"/proc/self/maps";
const RING: &[u8] = b"[io_uring]";

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
    fn filters_are_counted() {
        let text = b"Name:\tcat\nPPid:\t12\nSeccomp:\t2\nSeccomp_filters:\t3\n";
        assert_eq!(Status::parse(text), Some(Status { parent: 12, mode: 2, filters: 3 }));
        assert_eq!(Status::parse(b"Name:\tSeccomp:\t0\nPPid:\t12\nSeccomp_filters:\t0\n"), None);
    }
}
