//! The faults that DDP finds, and their errors.

use weft_ddp::{Error, Header, Receiver, Segment, Stag};

use crate::vectors::build;

// Covers 5041-4.4-1.
#[test]
fn runts_are_refused() {
    let tagged = build(write(0), &[]);
    let untagged = build(send(1, 0, true), &[]);
    for whole in [tagged, untagged] {
        for len in 0..whole.len() {
            assert_eq!(Segment::parse(&whole[..len]), Err(Error::Runt));
        }
        assert!(Segment::parse(&whole).is_ok_and(|segment| segment.payload.is_empty()));
    }
}

// Covers 5041-4.1-11, 5041-6.2.2-3.
#[test]
fn other_versions_are_refused() {
    for version in [0x00, 0x02, 0x03] {
        let mut tagged = build(write(0), b"x");
        let mut untagged = build(send(1, 0, true), b"x");
        tagged[0] = tagged[0] & !0x03 | version;
        untagged[0] = untagged[0] & !0x03 | version;
        assert_eq!(Receiver::new(3).accept(&tagged), Err(Error::TaggedVersion));
        assert_eq!(Receiver::new(3).accept(&untagged), Err(Error::UntaggedVersion));
    }
}

// Covers 5041-7.1-2.
#[test]
fn only_the_queues_in_use_are_taken() {
    let on_queue = |queue| {
        build(Header::Untagged { last: true, control: 0x43, word: 0, queue, msn: 1, mo: 0 }, b"hello")
    };
    for (queues, queue, fine) in [
        (3, 0, true),
        (3, 1, true),
        (3, 2, true),
        (3, 3, false),
        (4, 3, true),
        (4, 4, false),
        (99, 4, false),
        (4, u32::MAX, false),
        (0, 0, false),
    ] {
        let ulpdu = on_queue(queue);
        let accepted = Receiver::new(queues).accept(&ulpdu).map(|segment| segment.payload);
        assert_eq!(accepted, if fine { Ok(&b"hello"[..]) } else { Err(Error::InvalidQueue) });
    }
}

// Covers 5041-4.3-10, 5041-7.1-10.
#[test]
fn sequence_numbers_neither_repeat_nor_jump() {
    for (first, second) in [(0, None), (2, None), (1, Some(1)), (1, Some(3)), (1, Some(0))] {
        let mut receiver = Receiver::new(3);
        let first = build(send(first, 0, true), b"hello");
        let outcome = receiver.accept(&first).map(|_| ());
        let Some(second) = second else {
            assert_eq!(outcome, Err(Error::MsnRange));
            continue;
        };
        assert_eq!(outcome, Ok(()));
        // The same rules hold without payload: a zero-length Send takes a buffer.
        assert_eq!(receiver.accept(&build(send(second, 0, true), b"")), Err(Error::MsnRange));
    }
    let mut receiver = Receiver::with_msn(3, u32::MAX);
    assert!(receiver.accept(&build(send(u32::MAX, 0, true), b"")).is_ok());
    assert_eq!(receiver.accept(&build(send(1, 0, true), b"")), Err(Error::MsnRange));
    assert!(receiver.accept(&build(send(0, 0, true), b"")).is_ok());
}

#[test]
fn a_message_ends_before_the_next_begins() {
    let mut receiver = Receiver::new(3);
    assert!(receiver.accept(&build(send(1, 0, false), b"abcd")).is_ok());
    assert_eq!(receiver.accept(&build(send(2, 0, true), b"abcd")), Err(Error::MsnRange));
}

// Covers 5041-7.1-8.
#[test]
fn offsets_continue_the_message() {
    for (mo, payload) in [(0, &b"efgh"[..]), (3, b"efgh"), (5, b"efgh"), (u32::MAX, b""), (0, b"")] {
        let mut receiver = Receiver::new(3);
        assert!(receiver.accept(&build(send(1, 0, false), b"abcd")).is_ok());
        assert_eq!(receiver.accept(&build(send(1, mo, true), payload)), Err(Error::InvalidMo));
    }
    assert_eq!(Receiver::new(3).accept(&build(send(1, 4, true), b"efgh")), Err(Error::InvalidMo));
}

// Covers 5041-5.2-2, 5041-7.1-9.
#[test]
fn a_message_is_shorter_than_two_to_the_32() {
    let mut receiver = Receiver::new(3);
    let mut piece = vec![0; Header::UNTAGGED_LEN + 0x0100_0000];
    for index in 0..0xFF {
        send(1, index * 0x0100_0000, false).emit(&mut piece);
        assert!(receiver.accept(&piece).is_ok());
    }
    send(1, 0xFF00_0000, false).emit(&mut piece);
    piece.pop();
    assert!(receiver.accept(&piece).is_ok());
    assert_eq!(receiver.accept(&build(send(1, u32::MAX, true), b"x")), Err(Error::TooLong));
    assert!(receiver.accept(&build(send(1, u32::MAX, true), b"")).is_ok());
}

#[test]
fn tagged_segments_are_not_numbered() {
    let mut receiver = Receiver::new(3);
    for to in [u64::MAX, 0, 7, 7] {
        assert!(receiver.accept(&build(write(to), b"anything")).is_ok());
    }
}

// Covers 5041-7.2-1.
#[test]
fn codes_are_those_of_the_rfc() {
    let table = [
        (Error::LocalCatastrophic, (0x0, 0x00)),
        (Error::Runt, (0x0, 0x00)),
        (Error::InvalidStag, (0x1, 0x00)),
        (Error::BaseOrBounds, (0x1, 0x01)),
        (Error::WrongStream, (0x1, 0x02)),
        (Error::ToWrap, (0x1, 0x03)),
        (Error::TaggedVersion, (0x1, 0x04)),
        (Error::InvalidQueue, (0x2, 0x01)),
        (Error::NoBuffer, (0x2, 0x02)),
        (Error::MsnRange, (0x2, 0x03)),
        (Error::InvalidMo, (0x2, 0x04)),
        (Error::TooLong, (0x2, 0x05)),
        (Error::UntaggedVersion, (0x2, 0x06)),
    ];
    for (error, code) in table {
        assert_eq!(error.code(), code);
        let text = error.to_string();
        assert!(!text.is_empty() && !text.contains('\n'));
    }
}

/// A logged STag looks as it does in a capture.
#[test]
fn stags_are_written_as_eight_digits() {
    assert_eq!(Stag(0x00AB_CDEF).to_string(), "0x00abcdef");
}

fn send(msn: u32, mo: u32, last: bool) -> Header {
    Header::Untagged { last, control: 0x43, word: 0, queue: 0, msn, mo }
}

fn write(to: u64) -> Header {
    Header::Tagged { last: true, control: 0x40, stag: Stag(0x100), to }
}
