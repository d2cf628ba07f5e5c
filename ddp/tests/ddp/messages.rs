//! Messages of any length, cut anywhere, arrive whole.

use proptest::prelude::*;
use weft_ddp::{Cut, Cutter, Error, Expected, Header, Queue, Receiver, Sender, Stag};

use crate::vectors::build;

// Covers 5041-5.2-1, 5041-5.2-5, 5041-5.2-7.
#[test]
fn segments_are_as_large_as_allowed() {
    // The example of RFC 5041 section 5.2: 2048 octets through segments of 1500.
    let mut send = Sender::new().untagged(0x43, 0, Queue::Send, 2048);
    let mut write = Sender::new().tagged(0x40, Stag(1), 16384, 2048);
    let shape = |cut: Cut| (address(&cut.header), cut.len, cut.header.is_last());
    assert_eq!(send.next(1500).map(shape), Some((0, 1482, false)));
    assert_eq!(send.next(1500).map(shape), Some((1482, 566, true)));
    assert_eq!(send.next(1500), None);
    assert_eq!(write.next(1500).map(shape), Some((16384, 1486, false)));
    assert_eq!(write.next(1500).map(shape), Some((17870, 562, true)));
    assert_eq!(write.next(1500), None);
}

// Covers 5041-5.2-8.
#[test]
fn a_message_without_octets_is_one_segment() {
    let mut cutter = Sender::new().untagged(0x43, 0, Queue::Send, 0);
    assert_eq!(cutter.next(17), None);
    assert!(cutter.is_untouched());
    let cut = cutter.next(18).unwrap();
    assert!(cut.header.is_last() && cut.len == 0 && cutter.is_done());
    assert_eq!(cutter.next(18), None);
    let mut cutter = Sender::new().tagged(0x40, Stag(0), 0, 0);
    assert_eq!(cutter.next(13), None);
    assert!(cutter.next(14).is_some_and(|cut| cut.header.is_last()));
    assert_eq!(cutter.next(14), None);
}

#[test]
fn a_segment_has_payload_if_any_is_left() {
    let mut cutter = Sender::new().tagged(0x40, Stag(1), 0, 2);
    for too_small in 0..=14 {
        assert_eq!(cutter.next(too_small), None);
    }
    assert_eq!(cutter.next(15).map(|cut| (cut.len, cut.header.is_last())), Some((1, false)));
    assert_eq!((cutter.remaining(), cutter.offset()), (1, 1));
    assert_eq!(cutter.next(15).map(|cut| (cut.len, cut.header.is_last())), Some((1, true)));
}

#[test]
fn the_longest_message_is_cut_to_its_end() {
    let mut cutter = Sender::new().untagged(0x43, 0, Queue::Send, u32::MAX);
    let half = usize::try_from(u32::MAX / 2).unwrap();
    assert_eq!(cutter.next(18 + half).map(|cut| cut.len), Some(half));
    let rest = cutter.next(usize::MAX).unwrap();
    assert_eq!((rest.len, rest.header.is_last()), (half + 1, true));
}

#[test]
fn a_tagged_offset_may_wrap_on_the_wire() {
    let mut cutter = Sender::new().tagged(0x40, Stag(1), u64::MAX, 2);
    assert_eq!(cutter.next(15).map(|cut| address(&cut.header)), Some(u64::MAX));
    assert_eq!(cutter.next(15).map(|cut| address(&cut.header)), Some(0));
}

// Covers 5041-4.3-8, 5041-4.3-9.
#[test]
fn each_queue_has_its_own_sequence_numbers() {
    let mut sender = Sender::new();
    let mut msn = |queue| match sender.untagged(0, 0, queue, 0).next(18).unwrap().header {
        Header::Untagged { msn, queue, .. } => (queue, msn),
        Header::Tagged { .. } => panic!("untagged message in a tagged segment"),
    };
    assert_eq!(msn(Queue::Send), (0, 1));
    assert_eq!(msn(Queue::Send), (0, 2));
    assert_eq!(msn(Queue::ReadRequest), (1, 1));
    assert_eq!(msn(Queue::AtomicResponse), (3, 1));
    assert_eq!(msn(Queue::Terminate), (2, 1));
    assert_eq!(msn(Queue::Send), (0, 3));
}

/// A ULP of its own may use more queues than RDMAP. It then supplies the storage for them.
// Covers 5041-4.3-8, 5041-4.3-9.
#[test]
fn a_ulp_has_as_many_queues_as_it_has_storage_for() {
    let mut sender = Sender::with_queues([1_u32, 1, 1, 1, 1, u32::MAX]);
    let mut receiver = Receiver::with_queues(vec![Expected::new(1); 6]);
    let mut msn = |queue| {
        let cut = sender.untagged_on(0x5A, 0x0102_0304, queue, 0)?.next(18)?;
        Some((receiver.accept(&build(cut.header, &[])).map(|_| ()), msn_of(&cut.header)))
    };
    assert_eq!(msn(4), Some((Ok(()), 1)));
    assert_eq!(msn(4), Some((Ok(()), 2)));
    assert_eq!(msn(0), Some((Ok(()), 1)));
    assert_eq!(msn(5), Some((Err(Error::MsnRange), u32::MAX)));
    assert_eq!(msn(6), None);
    let unknown = Header::Untagged { last: true, control: 0, word: 0, queue: 6, msn: 1, mo: 0 };
    assert_eq!(receiver.accept(&build(unknown, &[])).map(|_| ()), Err(Error::InvalidQueue));
}

const fn msn_of(header: &Header) -> u32 {
    match header {
        Header::Untagged { msn, .. } => *msn,
        Header::Tagged { .. } => panic!("untagged message in a tagged segment"),
    }
}

// Covers 5041-4.3-10.
#[test]
fn a_hundred_messages_wrap_the_sequence_number() {
    let (mut sender, mut receiver) = (Sender::with_msn(u32::MAX - 50), Receiver::with_msn(3, u32::MAX - 50));
    for _ in 0..100 {
        let mut cutter = sender.untagged(0x43, 0, Queue::Send, 2);
        while let Some(cut) = cutter.next(19) {
            receiver.accept(&build(cut.header, &[0])).unwrap();
        }
    }
    // 50 before the wrap, 0xFFFFFFFF itself, then 0 to 48.
    let next = Header::Untagged { last: true, control: 0x43, word: 0, queue: 0, msn: 49, mo: 0 };
    receiver.accept(&build(next, &[])).unwrap();
}

proptest! {
    #![proptest_config(crate::config())]

    /// Four messages at a time: one on each of two queues, and two tagged ones. Their segments have any size and come
    /// in any order among the messages.
    // Covers 5041-5.2-3, 5041-5.2-4.
    #[test]
    fn messages_arrive_whole(
        lens in proptest::array::uniform4(0_u32..3000),
        to in any::<u64>(),
        cuts in prop::collection::vec((0_usize..4, 0_usize..400), 1..300),
    ) {
        let mut sender = Sender::new();
        let mut cutters = [
            sender.untagged(0x43, 0xABCD, Queue::Send, lens[0]),
            sender.untagged(0x41, 0, Queue::ReadRequest, lens[1]),
            sender.tagged(0x40, Stag(2), to, lens[2]),
            sender.tagged(0x42, Stag(3), to, lens[3]),
        ];
        let mut receiver = Receiver::new(3);
        let mut placed = lens.map(|len| vec![0_u8; usize::try_from(len).unwrap()]);
        let mut ended = [false; 4];
        let finish = (0..4).cycle().map(|which| (which, 128));
        for (which, max_ulpdu) in cuts.into_iter().chain(finish) {
            if cutters.iter().all(Cutter::is_done) {
                break;
            }
            let Some(cut) = cutters[which].next(max_ulpdu) else { continue };
            prop_assert!(cut.header.len() + cut.len <= max_ulpdu);
            let ulpdu = build(cut.header, &content(which, cut.offset, cut.len));
            let segment = receiver.accept(&ulpdu).unwrap();
            prop_assert!(!ended[which]);
            ended[which] = segment.header.is_last();
            let base = if which < 2 { 0 } else { to };
            let at = usize::try_from(address(&segment.header).wrapping_sub(base)).unwrap();
            placed[which][at..at + segment.payload.len()].copy_from_slice(segment.payload);
        }
        prop_assert_eq!(ended, [true; 4]);
        for (which, octets) in placed.iter().enumerate() {
            prop_assert_eq!(octets, &content(which, 0, octets.len()));
        }
    }

    #[test]
    fn headers_survive_the_wire(
        (last, control, stag, to) in any::<(bool, u8, u32, u64)>(),
        (queue, msn, mo) in any::<(u32, u32, u32)>(),
        payload in prop::collection::vec(any::<u8>(), 0..40),
        reserved in any::<u8>(),
    ) {
        let tagged = Header::Tagged { last, control, stag: Stag(stag), to };
        let untagged = Header::Untagged { last, control, word: stag, queue, msn, mo };
        for header in [tagged, untagged] {
            let mut ulpdu = build(header, &payload);
            // A receiver has to ignore these bits.
            ulpdu[0] |= reserved & 0x3C;
            let segment = weft_ddp::Segment::parse(&ulpdu).unwrap();
            prop_assert_eq!((segment.header, segment.payload), (header, &payload[..]));
        }
    }
}

/// Returns octets that are never zero, so that missing octets show.
fn content(which: usize, offset: u32, len: usize) -> Vec<u8> {
    let start = usize::try_from(offset).unwrap() + which * 31;
    (start..start + len).map(|i| u8::try_from(i % 255).unwrap() + 1).collect()
}

fn address(header: &Header) -> u64 {
    match *header {
        Header::Tagged { to, .. } => to,
        Header::Untagged { mo, .. } => mo.into(),
    }
}

/// The accessors of a header and of a message in progress.
#[test]
fn accessors_follow_the_octets() {
    let tagged = Header::Tagged { last: true, control: 0x40, stag: Stag(1), to: 2 };
    let untagged = Header::Untagged { last: false, control: 0x47, word: 0, queue: 2, msn: 1, mo: 0 };
    assert_eq!(
        (tagged.is_tagged(), tagged.is_last(), tagged.control(), tagged.len()),
        (true, true, 0x40, 14)
    );
    let of_untagged = (untagged.is_tagged(), untagged.is_last(), untagged.control(), untagged.len());
    assert_eq!(of_untagged, (false, false, 0x47, 18));

    let state =
        |cutter: &Cutter| (cutter.offset(), cutter.remaining(), cutter.is_untouched(), cutter.is_done());
    let mut sender = Sender::new();
    let mut cutter = sender.untagged(0x43, 0, Queue::Send, 5);
    assert!(!cutter.is_tagged() && sender.tagged(0x40, Stag(1), 0, 1).is_tagged());
    assert_eq!(state(&cutter), (0, 5, true, false));
    assert!(cutter.next(21).is_some());
    assert_eq!(state(&cutter), (3, 2, false, false));
    assert!(cutter.next(21).is_some());
    assert_eq!(state(&cutter), (5, 0, false, true));
    // The only segment of an empty message marks it as touched, although it carries no octet.
    let mut empty = sender.untagged(0x43, 0, Queue::Send, 0);
    assert_eq!(state(&empty), (0, 0, true, false));
    assert!(empty.next(18).is_some());
    assert_eq!(state(&empty), (0, 0, false, true));
}
