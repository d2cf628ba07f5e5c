//! Every kernel that this machine has, against the `crc32c` crate and MPA's table.

use core::sync::atomic::{AtomicBool, AtomicU64};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use weft_mpa::Crc32c;

use super::*;

fn noise(len: usize, seed: u32) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state.to_le_bytes()[1]
    };
    (0..len).map(|_| next()).collect()
}

/// Copies into the middle of a buffer, and checks that all of the copy is there and that nothing else has changed.
fn copy_with(kernel: Kernel, crc: u32, from: &[u8], place: &mut [u8], at: usize) -> u32 {
    place.fill(0xEE);
    // SAFETY: `from` is a slice of another buffer.
    let copied = unsafe { kernel.copy_from(crc, from.as_ptr(), &mut place[at..at + from.len()]) }.unwrap();
    let (before, rest) = place.split_at(at);
    let (copy, behind) = rest.split_at(from.len());
    assert!(copy == from, "{kernel:?}: {} octets", from.len());
    assert!(before.iter().chain(behind).all(|octet| *octet == 0xEE), "{kernel:?}: {} octets", from.len());
    copied
}

#[test]
fn the_check_value_of_the_polynomial() {
    assert_eq!(append(0, b"123456789"), 0xE306_9283);
    assert_eq!(append(append(0, b"1234"), b"56789"), 0xE306_9283);
    assert_eq!(append(7, b""), 7);
    let mut to = [0; 9];
    assert_eq!(copy(0, b"123456789", &mut to), Some(0xE306_9283));
    assert_eq!(&to, b"123456789");
    assert_eq!(copy(0, b"1234", &mut to), None);
    assert_eq!(&to, b"123456789");
}

#[test]
fn the_best_is_the_last_of_those_that_there_are() {
    assert_eq!(Some(Kernel::best()), Kernel::all().last());
    assert_eq!(Some(Kernel::best()), Kernel::all().last(), "now that the CPU was asked");
    assert_eq!(Kernel::all().next(), Some(Kernel::Crate));
}

#[test]
fn every_length_at_every_alignment() {
    let data = noise(64 + MAX_LEN, 1);
    let mut place = vec![0; 64 + MAX_LEN + 64];
    for kernel in Kernel::all() {
        for len in 0..=MAX_LEN {
            for shift in 0..64 {
                let octets = &data[shift..shift + len];
                let expected = crc32c::crc32c_append(0x1234_5678, octets);
                assert_eq!(kernel.append(0x1234_5678, octets), expected, "{kernel:?}: {len} at {shift}");
                // Source and destination go through all pairs of alignments modulo 64, not all of them at each length.
                let copied = copy_with(kernel, 0x1234_5678, octets, &mut place, (shift * 7 + len) % 64);
                assert_eq!(copied, expected, "{kernel:?}: {len} at {shift}");
            }
        }
    }
}

#[test]
fn every_split_of_every_short_length() {
    let data = noise(300, 2);
    for kernel in Kernel::all() {
        for len in 0..=data.len() {
            let whole = crc32c::crc32c(&data[..len]);
            for at in 0..=len {
                let (head, tail) = data[..len].split_at(at);
                assert_eq!(kernel.append(kernel.append(0, head), tail), whole, "{kernel:?}: {at} of {len}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn kernels_agree_wherever_the_octets_are_cut(
        len in 0..70_000_usize, seed: u32, start: u32, from in 0..64_usize, to in 0..64_usize, cuts in vec(any::<Index>(), 0..6),
    ) {
        let data = noise(from + len, seed);
        let octets = &data[from..];
        let expected = Crc32c::PORTABLE.update(start, octets);
        prop_assert_eq!(crc32c::crc32c_append(start, octets), expected);
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(len + 1)).chain([0, len]).collect();
        cuts.sort_unstable();
        let mut place = vec![0; 64 + len + 64];
        for kernel in Kernel::all() {
            prop_assert_eq!(kernel.append(start, octets), expected);
            prop_assert_eq!(copy_with(kernel, start, octets, &mut place, to), expected);
            let (mut appended, mut copied) = (start, start);
            for piece in cuts.windows(2).map(|ends| &octets[ends[0]..ends[1]]) {
                appended = kernel.append(appended, piece);
                copied = copy_with(kernel, copied, piece, &mut place, to);
            }
            prop_assert_eq!([appended, copied], [expected; 2]);
        }
    }
}

#[test]
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn memory_that_is_gone_has_no_crc() {
    let (start, page) = crate::copy::tests::torn_pages();
    for kernel in Kernel::all() {
        for len in [1, 8, 63, 64, 128, 255, 256, 300, 512, 1000, page] {
            let mut to = vec![0; len];
            for (offset, is_there) in [(page - len, true), (page - len + 1, false), (page, false)] {
                // SAFETY: the guard is installed.
                let crc = unsafe { kernel.copy_from(0, start.wrapping_add(offset), &mut to) };
                assert_eq!(crc.is_some(), is_there, "{kernel:?}: {len} octets at {offset}");
            }
        }
    }
}

#[test]
fn the_crc_is_that_of_the_copy_beside_other_writers() {
    let words: Vec<AtomicU64> = (0..512).map(AtomicU64::new).collect();
    let source = words.as_ptr().cast::<u8>();
    let [has_begun, is_over] = [const { AtomicBool::new(false) }; 2];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut value = 0_u64;
            has_begun.store(true, Ordering::Relaxed);
            while !is_over.load(Ordering::Relaxed) {
                for word in &words {
                    value = value.wrapping_add(0x0123_4567_89AB_CDEF);
                    word.store(value, Ordering::Relaxed);
                }
            }
        });
        while !has_begun.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        for kernel in Kernel::all() {
            for len in (0..ROUNDS).map(|round| 8 * words.len() - round % 700) {
                let mut to = vec![0; len];
                // SAFETY: the words are valid for reads of so many octets. Other threads write them: the test is about
                // that.
                let crc = unsafe { kernel.copy_from(0, source, &mut to) };
                assert_eq!(crc, Some(crc32c::crc32c(&to)), "{kernel:?}: {len}");
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

const MAX_LEN: usize = 640;
const ROUNDS: usize = 20_000;
