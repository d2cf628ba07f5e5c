//! The octets of a DDP stream on the wire.

use weft_conform::octets::{Framing, hex, join, pattern};
use weft_rnic::ulp::{DdpEvent, DdpStream};
use weft_rnic::{Access, Stag};

use crate::line::{QUEUES, plain};
use crate::peer::{REQUEST, Scripted};

/// An untagged segment: control octet of DDP and the ULP's octets in hexadecimal, then queue, MSN and MO.
fn untagged(head: &str, [queue, msn, mo]: [u32; 3], payload: &[u8]) -> Vec<u8> {
    join(head, &[&queue.to_be_bytes(), &msn.to_be_bytes(), &mo.to_be_bytes(), payload])
}

fn tagged(head: &str, stag: u32, to: u64, payload: &[u8]) -> Vec<u8> {
    join(head, &[&stag.to_be_bytes(), &to.to_be_bytes(), payload])
}

/// With Markers to the peer and without, with CRC and without.
// Covers 5041-4.1-3, 5041-4.2-2, 5041-4.2-7, 5041-4.3-2.
#[test]
fn messages_of_one_segment() {
    for (crc, markers) in [(true, false), (true, true), (false, false), (false, true)] {
        let mut world = Scripted::<DdpStream>::initiator(crc, markers);
        let stream = &mut world.end.stream;
        stream.send_untagged(1, 4, [0x5A, 1, 2, 3, 4], b"hello").unwrap();
        stream.send_tagged(2, (Stag(0x1122_3344), 0x1000), 0xA5, b"tagged").unwrap();
        stream.send_untagged(3, 4, [0; 5], b"").unwrap();
        stream.send_untagged(4, 0, [0xFF; 5], b"zero").unwrap();
        stream.send_tagged(5, (Stag(0), u64::MAX), 0, b"").unwrap();
        let mut framing = Framing::new(crc, markers);
        let expected = [
            untagged("41 5A 01020304", [4, 1, 0], b"hello"),
            tagged("C1 A5", 0x1122_3344, 0x1000, b"tagged"),
            untagged("41 00 00000000", [4, 2, 0], b""),
            untagged("41 FF FFFFFFFF", [0, 1, 0], b"zero"),
            tagged("C1 00", 0, u64::MAX, b""),
        ];
        let expected: Vec<u8> = expected.iter().flat_map(|ulpdu| framing.fpdu(ulpdu)).collect();
        world.expect(&expected);
        assert_eq!(world.end.take(), [1, 2, 3, 4, 5].map(|id| DdpEvent::Sent { id }));
    }
}

// Covers 5041-4.2-4, 5041-4.3-4, 5041-5.2-5, 5041-5.2-7.
#[test]
fn messages_of_several_segments() {
    let mut world = Scripted::<DdpStream>::initiator(true, false);
    let octets = pattern(3000);
    let stream = &mut world.end.stream;
    stream.send_untagged(1, 2, [9, 8, 7, 6, 5], octets.clone()).unwrap();
    stream.send_tagged(2, (Stag(7), 100), 3, octets.clone()).unwrap();
    // RFC 5044 section 4.5: MULPDU for an EMSS that 4 divides. DDP's headers take 18 octets of it, or 14.
    let mulpdu = world.line.llp(0).emss() - 6;
    let (first, placed) = (mulpdu - 18, mulpdu - 14);
    let at = |pieces: usize| u32::try_from(pieces).unwrap();
    let mut framing = Framing::new(true, false);
    let expected = [
        untagged("01 09 08070605", [2, 1, 0], &octets[..first]),
        untagged("01 09 08070605", [2, 1, at(first)], &octets[first..2 * first]),
        untagged("41 09 08070605", [2, 1, at(2 * first)], &octets[2 * first..]),
        tagged("81 03", 7, 100, &octets[..placed]),
        tagged("81 03", 7, 100 + placed as u64, &octets[placed..2 * placed]),
        tagged("C1 03", 7, 100 + 2 * placed as u64, &octets[2 * placed..]),
    ];
    let expected: Vec<u8> = expected.iter().flat_map(|ulpdu| framing.fpdu(ulpdu)).collect();
    world.expect(&expected);
}

/// Segments of any size, untagged and tagged messages in turns, Markers from the peer.
// Covers 5041-5.4-1, 5041-4.3-5.
#[test]
fn segments_of_messages_may_come_in_turns() {
    let mut world = Scripted::<DdpStream>::responder(plain(true, true), &hex(REQUEST));
    let sink = world.end.register(64, 0x500, Access::ALL);
    world.end.stream.post_buffer(1, 11, vec![0; 64]).unwrap();
    world.end.stream.post_buffer(3, 33, vec![0; 64]).unwrap();
    world.send(&untagged("01 01 00000000", [1, 1, 0], b"ab"));
    world.send(&untagged("01 03 00000000", [3, 1, 0], b"1"));
    world.send(&tagged("81 77", sink.stag.0, 0x510, b"tag"));
    world.send(&untagged("01 01 00000000", [1, 1, 2], b"cd"));
    assert_eq!(world.end.take(), [], "nothing is delivered before its last segment");
    world.send(&tagged("C1 77", sink.stag.0, 0x513, b"ged"));
    world.send(&untagged("41 04 AABBCCDD", [3, 1, 1], b"23"));
    world.send(&untagged("41 02 00000001", [1, 1, 4], b""));
    let expected = [
        DdpEvent::Tagged { stag: sink.stag, to: 0x510..0x516, rsvd: 0x77 },
        DdpEvent::Untagged {
            id: 33,
            queue: 3,
            msn: 1,
            rsvd: [4, 0xAA, 0xBB, 0xCC, 0xDD],
            buffer: b"123".to_vec(),
        },
        DdpEvent::Untagged { id: 11, queue: 1, msn: 1, rsvd: [2, 0, 0, 0, 1], buffer: b"abcd".to_vec() },
    ];
    assert_eq!(world.end.take(), expected);
    assert_eq!(&crate::line::contents(&sink)[0x10..0x16], b"tagged");
}

/// A responder with a message to send waits for the initiator's first FPDU.
// Covers 5044-7.1.2-15.
#[test]
fn a_responder_sends_nothing_before_the_first_fpdu() {
    let mut world = Scripted::<DdpStream>::responder(plain(true, false), &hex(REQUEST));
    world.end.stream.post_buffer(0, 0, vec![0; 4]).unwrap();
    world.end.stream.send_untagged(1, 0, [0; 5], b"mine").unwrap();
    world.expect(b"");
    world.send(&untagged("41 00 00000000", [0, 1, 0], b""));
    world.expect(&Framing::new(true, false).fpdu(&untagged("41 00 00000000", [0, 1, 0], b"mine")));
}

/// A peer that sends without end leaves room for messages of this end. Octets that the ULP does not poll stay in TCP.
#[test]
fn octets_that_the_ulp_does_not_poll_stay_in_tcp() {
    let mut world = Scripted::<DdpStream>::initiator(true, false);
    let mut octets = Vec::new();
    for msn in 1..=50 {
        world.end.stream.post_buffer(0, msn.into(), vec![0; 4]).unwrap();
        octets.extend(world.framing.fpdu(&untagged("41 00 00000000", [0, msn, 0], b"more")));
    }
    world.end.stream.send_untagged(99, 0, [0; 5], b"mine").unwrap();
    assert_eq!(world.line.llp(1).send_slice(&octets), octets.len());
    world.line.settle(|_| {});
    let mut seen = Vec::new();
    let mut left = Vec::new();
    for _ in 0..4 {
        let mut llp = world.line.llp(0);
        seen.extend(world.end.stream.poll(&mut llp, &world.end.memory));
        left.push(llp.readable().len());
    }
    assert!(seen.contains(&DdpEvent::Sent { id: 99 }), "{seen:?}");
    assert_eq!(seen.len(), 4, "each call tells one event");
    let fpdu = octets.len() / 50;
    assert_eq!(left.last(), Some(&(47 * fpdu)), "three messages were taken");
    assert!(usize::from(QUEUES) < 50);
}
