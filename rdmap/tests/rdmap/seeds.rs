//! The fuzz bodies over inputs that are the same in every run.

use proptest::prelude::*;
use weft_rdmap::fuzzing;

use crate::vector_file::{fpdu_names, load, ulpdus};

#[test]
fn vectors_with_one_octet_changed() {
    let file = load();
    for name in fpdu_names(&file) {
        let mut data: Vec<u8> = Vec::new();
        for ulpdu in ulpdus(&file, &name) {
            // The length of each ULPDU takes one octet. Longer vectors show nothing new.
            let Ok(len) = u8::try_from(ulpdu.len()) else { continue };
            data.push(len);
            data.extend(ulpdu);
        }
        for index in 0..data.len().min(80) {
            let right = data[index];
            for wrong in 0..=u8::MAX {
                data[index] = wrong;
                fuzzing::accept(&data);
            }
            data[index] = right;
        }
    }
}

#[test]
fn every_control_word_is_read_again_as_written() {
    let tail =
        [0x00, 0x2E, 0xC1, 0x40, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9];
    for first in 0..=u8::MAX {
        for third in 0..=u8::MAX {
            for code in [0x00, 0x02, 0x06, 0x09, 0xFF] {
                for fourth in [0x00, 0x01, 0xFF] {
                    let octets = [&[first, code, third, fourth], &tail[..]].concat();
                    for len in [4, 5, 6, 7, 20, 23, octets.len()] {
                        fuzzing::terminate(&octets[..len]);
                    }
                }
            }
        }
    }
}

/// A ULPDU that is often accepted: right version, low queue, MSN and MO.
fn ulpdu() -> impl Strategy<Value = Vec<u8>> {
    let payload = || prop::collection::vec(any::<u8>(), 0..60);
    let control = (0_u8..0x10).prop_map(|opcode| 0x40 | opcode);
    let untagged = (any::<bool>(), control, 0_u8..4, 1_u8..4, 0_u8..2, payload()).prop_map(
        |(last, control, queue, msn, mo, payload)| {
            let first = if last { 0x41 } else { 0x01 };
            let header = [first, control, 0, 0, 0, 0, 0, 0, 0, queue, 0, 0, 0, msn, 0, 0, 0, mo];
            [&header[..], &payload].concat()
        },
    );
    let answer = (any::<bool>(), 0_u8..41, 0_usize..42).prop_map(|(last, offset, len)| {
        // The outstanding Read of the fuzz body goes to STag 0x10 and an offset 16 below the wrap.
        let to = (u64::MAX - 15).wrapping_add(offset.into()).to_be_bytes();
        let first = if last { 0xC1 } else { 0x81 };
        [&[first, 0x42, 0, 0, 0, 0x10][..], &to, &vec![0; len]].concat()
    });
    let request = (1_u8..6, prop::collection::vec(any::<u8>(), 28)).prop_map(|(msn, request)| {
        let header = [0x41, 0x41, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, msn, 0, 0, 0, 0];
        [&header[..], &request].concat()
    });
    prop_oneof![untagged, answer, request, prop::collection::vec(any::<u8>(), 0..40)]
}

proptest! {
    #![proptest_config(crate::config())]

    #[test]
    fn likely_segments(ulpdus in prop::collection::vec(ulpdu(), 0..12)) {
        let framed = |ulpdu: Vec<u8>| [&[u8::try_from(ulpdu.len()).unwrap()][..], &ulpdu].concat();
        fuzzing::accept(&ulpdus.into_iter().flat_map(framed).collect::<Vec<u8>>());
    }

    #[test]
    fn noise(data in prop::collection::vec(any::<u8>(), 0..200)) {
        fuzzing::accept(&data);
        fuzzing::terminate(&data);
    }
}
