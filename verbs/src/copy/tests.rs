//! Copies and exchanges, where all memory is there and where some of it is not.

use core::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::*;

/// Copies `len` octets from and to these offsets, and checks that these octets were copied and no others.
fn assert_copies(len: usize, from: usize, to: usize) {
    let source: Vec<u8> = (0..251).cycle().take(from + len).collect();
    let mut place = vec![0xEE; to + len + 64];
    // SAFETY: both are slices of this function's own.
    assert!(unsafe { copy_in(&source[from..], place[to..].as_mut_ptr()) });
    let (before, rest) = place.split_at(to);
    let (copied, behind) = rest.split_at(len);
    assert!(copied == &source[from..], "{len} octets from {from} to {to}");
    assert!(before.iter().chain(behind).all(|octet| *octet == 0xEE), "{len} octets from {from} to {to}");
}

#[test]
fn every_length_at_many_alignments() {
    let (lengths, far): (_, &[usize]) = if cfg!(miri) { (0..20, &[]) } else { (0..700, &[4096, 70_001]) };
    for len in lengths.chain(far.iter().copied()) {
        for shift in [0, 1, 7, 31] {
            assert_copies(len, shift, (shift * 5 + len) % 33);
        }
    }
}

#[test]
fn updates_of_many_threads_are_all_done() {
    let rounds = if cfg!(miri) { 20 } else { 20_000 };
    let mut word = 5_u64;
    let at = Shared(&raw mut word);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..rounds {
                    // SAFETY: the word outlives the threads, and is reached by this function only.
                    unsafe { update(at.pointer(), |value| value + 3) }.unwrap();
                }
            });
        }
    });
    assert_eq!(word, 5 + 9 * rounds);
}

/// Under Miri this shows whether two threads that copy over each other are a race.
#[test]
fn copies_may_race() {
    let last = if cfg!(miri) { 5_u8 } else { 250 };
    let mut shared = [0_u8; 300];
    let (at, is_over) = (Shared(shared.as_mut_ptr()), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..=last {
                // SAFETY: the octets outlive the threads, and are reached by this function only.
                assert!(unsafe { copy_in(&[round; 300], at.pointer()) });
            }
            is_over.store(true, Ordering::Release);
        });
        while !is_over.load(Ordering::Acquire) {
            let mut out = [0; 300];
            // SAFETY: as above.
            assert!(unsafe { copy_out(at.pointer(), &mut out) });
        }
    });
    assert_eq!(shared, [last; 300]);
}

/// Returns three pages, of which the middle one was unmapped, and the length of a page.
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(crate) fn torn_pages() -> (*mut u8, usize) {
    use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect};
    let (page, both) = (rustix::param::page_size(), ProtFlags::READ | ProtFlags::WRITE);
    // SAFETY: a mapping of the test's own.
    let start = unsafe {
        let start = mmap_anonymous(core::ptr::null_mut(), 3 * page, both, MapFlags::PRIVATE).unwrap();
        mprotect(start.wrapping_byte_add(page), page, MprotectFlags::empty()).unwrap();
        start.cast()
    };
    crate::guard_memory();
    (start, page)
}

/// Copies of all lengths that go another way, before, into, in, out of and behind the hole.
#[test]
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn memory_that_is_gone_is_told() {
    let (start, page) = torn_pages();
    let at = |offset: usize| start.wrapping_add(offset);
    let mut own = vec![7; page];
    for len in [1, 2, 3, 4, 7, 8, 15, 16, 32, 33, 64, 128, 129, 300, page] {
        for (offset, expected) in [
            (page - len, true),
            (page - len + 1, false),
            (page, false),
            (2 * page - 1, false),
            (2 * page, true),
            (usize::MAX / 2, false),
        ] {
            // SAFETY: the guard is installed, and `own` is this test's.
            let done = unsafe { [copy_in(&own[..len], at(offset)), copy_out(at(offset), &mut own[..len])] };
            assert_eq!(done, [expected; 2], "{len} octets at {offset}");
        }
    }
}

#[test]
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn a_word_that_is_gone_is_told() {
    let (start, page) = torn_pages();
    for (offset, expected) in [(page - 8, Some(0)), (page, None), (2 * page - 8, None), (2 * page, Some(0))] {
        // SAFETY: the guard is installed; the words are aligned.
        let before = unsafe { update(start.wrapping_add(offset).cast(), |value| value + 1) };
        assert_eq!(before, expected, "at {offset}");
    }
}

/// A pointer that threads share.
#[derive(Clone, Copy)]
struct Shared<T>(*mut T);

impl<T> Shared<T> {
    const fn pointer(&self) -> *mut T {
        self.0
    }
}

// SAFETY: the tests reach what is behind it by functions for which threads may race.
unsafe impl<T> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Shared<T> {}
