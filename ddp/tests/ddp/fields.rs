//! Every field of both headers at the ends of its range, against octets written by hand.

use weft_ddp::{Error, Header, Queue, Receiver, Segment, Sender, Stag};

use crate::vectors::segments;

/// Control octets of the upper layer. Miri is slow and gets two of them.
const CONTROLS: core::ops::RangeInclusive<u8> = if cfg!(miri) { 0x42..=0x43 } else { 0..=u8::MAX };
const WORDS: [u32; 7] = [0, 1, 0x0102_0304, 0x7FFF_FFFF, 0x8000_0000, u32::MAX - 1, u32::MAX];

/// The upper layer gets the values in the 14 octets of a tagged header.
// Covers 5041-4.2-1, 5041-4.2-3, 5041-4.2-8.
#[test]
fn tagged_fields_are_handed_up() {
    for control in CONTROLS {
        for stag in WORDS {
            for to in [0, 1, 0x0102_0304_0506_0708, u64::MAX - 1, u64::MAX] {
                let header = [&[0xC1, control][..], &stag.to_be_bytes(), &to.to_be_bytes()].concat();
                assert_eq!(header.len(), 14);
                let ulpdu = [&header[..], b"payload"].concat();
                let expected = Header::Tagged { last: true, control, stag: Stag(stag), to };
                let segment = Receiver::new(3).accept(&ulpdu).unwrap();
                assert_eq!((segment.header, segment.payload), (expected, &b"payload"[..]));
            }
        }
    }
}

/// The upper layer gets its five octets of an untagged header, and all its numbers.
// Covers 5041-4.3-1, 5041-4.3-3, 5041-5.4-3.
#[test]
fn untagged_fields_are_handed_up() {
    for control in CONTROLS {
        for word in WORDS {
            for (queue, msn) in (0..4).flat_map(|queue| WORDS.map(|msn| (queue, msn))) {
                let numbers = [word, queue, msn, 0].map(u32::to_be_bytes).concat();
                let ulpdu = [&[0x41, control][..], &numbers, b"payload"].concat();
                assert_eq!(ulpdu.len(), 18 + 7);
                let expected = Header::Untagged { last: true, control, word, queue, msn, mo: 0 };
                let segment = Receiver::with_msn(4, msn).accept(&ulpdu).unwrap();
                assert_eq!((segment.header, segment.payload), (expected, &b"payload"[..]));
            }
        }
    }
    for mo in WORDS {
        let ulpdu = [&[0x01, 0x43][..], &[0, 0, 1, mo].map(u32::to_be_bytes).concat(), b"x"].concat();
        let expected = Header::Untagged { last: false, control: 0x43, word: 0, queue: 0, msn: 1, mo };
        assert_eq!(Segment::parse(&ulpdu).map(|segment| segment.header), Ok(expected));
    }
}

/// All 256 control octets: T, L and the version matter, the four bits between them do not.
// Covers 5041-4.1-9, 5041-4.1-11.
#[test]
fn control_octets() {
    for first in 0..=u8::MAX {
        let tagged = first & 0x80 != 0;
        let mut ulpdu = vec![0; if tagged { 14 } else { 18 }];
        (ulpdu[0], ulpdu[1]) = (first, 0x43);
        let accepted = Receiver::with_msn(3, 0).accept(&ulpdu);
        if first & 0x03 == 1 {
            let header = accepted.unwrap().header;
            assert_eq!((header.is_tagged(), header.is_last()), (tagged, first & 0x40 != 0));
        } else {
            let error = if tagged { Error::TaggedVersion } else { Error::UntaggedVersion };
            assert_eq!(accepted, Err(error));
        }
    }
}

/// From zero octets up to one too few; then a whole header, with and without payload.
// Covers 5041-4.4-1.
#[test]
fn a_header_is_needed_and_a_payload_is_not() {
    for (first, len) in [(0xC1, 14), (0x81, 14), (0x41, 18), (0x01, 18)] {
        for short in 0..len {
            let ulpdu = [&[first][..], &[0; 17]].concat();
            assert_eq!(Receiver::with_msn(3, 0).accept(&ulpdu[..short]), Err(Error::Runt));
        }
        for payload in 0..3 {
            let ulpdu = [&[first][..], &vec![0; len - 1 + payload]].concat();
            let segment = Receiver::with_msn(3, 0).accept(&ulpdu).unwrap();
            assert_eq!((segment.header.len(), segment.payload.len()), (len, payload));
        }
    }
}

/// The numbers of one queue wrap, and those of the others stay the same.
// Covers 5041-4.3-8, 5041-4.3-10.
#[test]
fn the_sequence_number_wraps() {
    let (mut sender, mut receiver) = (Sender::with_msn(u32::MAX - 1), Receiver::with_msn(4, u32::MAX - 1));
    for (queue, msn) in [
        (Queue::Send, 0xFFFF_FFFE_u32),
        (Queue::Send, 0xFFFF_FFFF),
        (Queue::ReadRequest, 0xFFFF_FFFE),
        (Queue::Send, 0),
        (Queue::Send, 1),
        (Queue::AtomicResponse, 0xFFFF_FFFE),
        (Queue::ReadRequest, 0xFFFF_FFFF),
        (Queue::ReadRequest, 0),
        (Queue::Terminate, 0xFFFF_FFFE),
    ] {
        // Three segments each, so that the wrap is seen inside a message and between two.
        let ulpdus = segments(sender.untagged(0x43, 0, queue, 3), 19, b"abc");
        assert_eq!(ulpdus.len(), 3);
        for (mo, ulpdu) in (0_u32..).zip(&ulpdus) {
            assert_eq!(ulpdu[6..18], [queue as u32, msn, mo].map(u32::to_be_bytes).concat());
            assert!(receiver.accept(ulpdu).is_ok());
        }
    }
}

/// The LLP says for each segment how large it may be. Segments that were cut before do not change.
// Covers 5041-3-2, 5041-5.2-1.
#[test]
fn each_segment_is_cut_by_the_mulpdu_at_that_moment() {
    for (mut cutter, header) in [
        (Sender::new().untagged(0x43, 0, Queue::Send, 5000), 18),
        (Sender::new().tagged(0x40, Stag(1), 0, 5000), 14),
    ] {
        let mut offset = 0;
        for mulpdu in [1500, 530, 128, 1454, 19, 300] {
            let cut = cutter.next(mulpdu).unwrap();
            assert_eq!((cut.offset, cut.len, cut.header.is_last()), (offset, mulpdu - header, false));
            offset += u32::try_from(cut.len).unwrap();
        }
        let cut = cutter.next(usize::MAX).unwrap();
        assert_eq!((cut.offset, cut.len), (offset, 5000 - usize::try_from(offset).unwrap()));
        assert!(cut.header.is_last() && cutter.is_done());
    }
}
