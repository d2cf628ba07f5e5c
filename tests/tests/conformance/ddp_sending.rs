//! DDP as the Data Source: the header of every segment that the device makes, and how messages are cut into them.

use weft_rnic::{Data, PostError, Qp, SendOpcode, SendWr, Sge, Stag, Status};
use weft_tests::{RawPeer, hex};

use crate::octets::{Place, fpdu, pattern, read_fpdu, read_request, send, tagged, terminate, vector, write};
use crate::rdmap_wire::{MTU, SMALL_MTU};
use crate::world::{ROLES, World, content, filled, open, open_mtu, whole, work};

/// Returns the segments of the next message, up to the one with the L bit.
fn read_message(peer: &RawPeer) -> Vec<Vec<u8>> {
    let mut segments = Vec::new();
    loop {
        let ulpdu = read_fpdu(peer);
        let last = ulpdu[0] & 0x40 != 0;
        segments.push(ulpdu);
        if last {
            return segments;
        }
    }
}

/// Returns the segments of one request of `len` octets, in a world of its own. Nothing comes behind them.
fn segments_of(role: crate::world::Role, mtu: usize, opcode: SendOpcode, len: usize) -> Vec<Vec<u8>> {
    let (world, peer) = open_mtu(role, mtu);
    let memory = world.side.memory(len);
    memory.write(0, &pattern(len)).unwrap();
    world.side.qp.post_send(&work(1, opcode, Data::Sges(&[whole(&memory)]))).unwrap();
    let segments = read_message(&peer);
    peer.expect_silence();
    segments
}

/// Returns `N` octets of a header field as a number.
fn field<const N: usize>(ulpdu: &[u8], at: usize) -> u64 {
    ulpdu[at..at + N].iter().fold(0, |value, octet| value << 8 | u64::from(*octet))
}

fn mo(ulpdu: &[u8]) -> u64 {
    field::<4>(ulpdu, 14)
}

fn to(ulpdu: &[u8]) -> u64 {
    field::<8>(ulpdu, 6)
}

const TARGET: SendOpcode = SendOpcode::Write { stag: Stag(0x1234_5678), to: 0x9ABC_DEF0_1122_3344 };

/// The L bit is on the segment that ends the message, which is sent behind all others and has the highest MO.
// Covers 5041-4.1-3, 5041-4.1-4, 5041-4.1-5, 5041-4.1-6.
#[test]
fn the_last_segment_and_no_other_says_so() {
    for role in ROLES {
        for opcode in [SendOpcode::Send, SendOpcode::SendInvalidate { stag: Stag(9) }, TARGET] {
            let segments = segments_of(role, MTU, opcode, 10_000);
            let untagged = opcode != TARGET;
            let payload = if untagged { 1436 } else { 1440 };
            assert_eq!(segments.len(), 10_000_usize.div_ceil(payload));
            let (last, others) = segments.split_last().unwrap();
            assert_eq!(last[0], if untagged { 0x41 } else { 0xC1 });
            assert!(others.iter().all(|ulpdu| ulpdu[0] == if untagged { 0x01 } else { 0x81 }));
            if untagged {
                assert_eq!(mo(last) + last.len() as u64 - 18, 10_000);
                assert!(others.iter().all(|ulpdu| mo(ulpdu) < mo(last)));
            }
        }
    }
}

/// Every kind of segment: version 1, and zeros in the reserved bits.
// Covers 5041-4.1-8, 5041-4.1-10, 5041-4.1-11.
#[test]
fn control_octets_of_all_messages() {
    for role in ROLES {
        let (world, peer) = open_mtu(role, SMALL_MTU);
        let memory = filled(&world.side, 2000);
        let (stag, addr) = (memory.rkey().0, memory.addr());
        let (sges, sink) = ([whole(&memory)], [memory.sge(0, 1)]);
        let read = SendOpcode::Read { stag: Stag(7), to: 0 };
        let requests = [
            work(1, SendOpcode::Send, Data::Sges(&sges)),
            work(2, SendOpcode::Send, Data::Inline(b"")),
            SendWr {
                solicited: true,
                ..work(3, SendOpcode::SendInvalidate { stag: Stag(5) }, Data::Inline(b"x"))
            },
            work(4, TARGET, Data::Sges(&sges)),
            work(5, TARGET, Data::Inline(b"")),
            work(6, read, Data::Sges(&sink)),
        ];
        world.side.qp.post_sends(&requests).unwrap();
        let mut controls = Vec::new();
        for _ in &requests {
            controls.extend(read_message(&peer).iter().map(|ulpdu| ulpdu[0]));
        }
        peer.send(&fpdu(&read_request(1, Place(1, 0), 600, Place(stag, addr))));
        controls.extend(read_message(&peer).iter().map(|ulpdu| ulpdu[0]));
        // The next message is a Terminate, for any reason.
        peer.send(&fpdu(&send(1, b"nobody waits")));
        controls.push(read_fpdu(&peer)[0]);
        let (untagged, tagged) = ([0x01, 0x01, 0x01, 0x41], [0x81, 0x81, 0x81, 0xC1]);
        let rest: &[u8] = &[0xC1, 0x41, 0x81, 0xC1, 0x41];
        assert_eq!(controls, [&untagged[..], &[0x41, 0x41], &tagged, rest].concat());
    }
}

/// 14 octets: control, RsvdULP with RDMAP's control octet, STag, TO.
// Covers 5041-4.2-1, 5041-4.2-2, 5041-4.2-7, 5041-5.2-6.
#[test]
fn the_tagged_header() {
    for role in ROLES {
        let (world, peer) = open(role);
        let octets = hex("0001020304050607");
        let write_to = |stag, to| {
            let opcode = SendOpcode::Write { stag: Stag(stag), to };
            world.side.qp.post_send(&work(1, opcode, Data::Inline(&octets))).unwrap();
        };
        write_to(0x100, 0x1000);
        peer.expect(&vector("write8"));
        for stag in [0, 1, 0x1234_5678, u32::MAX - 1, u32::MAX] {
            for to in [0, 1, 0x0123_4567_89AB_CDEF, u64::MAX - 7, u64::MAX] {
                write_to(stag, to);
                let header = [&hex("C140"), &stag.to_be_bytes()[..], &to.to_be_bytes()].concat();
                assert_eq!(header.len(), 14);
                assert_eq!(read_fpdu(&peer), [header, octets.clone()].concat());
            }
        }
        let memory = filled(&world.side, 8);
        memory.write(0, &octets).unwrap();
        peer.send(&fpdu(&read_request(1, Place(0x200, 0x2000), 8, Place(memory.rkey().0, memory.addr()))));
        peer.expect(&vector("rrsp"));
    }
}

/// All fields of the message's first segment, except TO and L, are the same in the others.
// Covers 5041-4.2-4, 5041-4.2-5, 5041-4.2-9, 5041-4.2-10.
#[test]
fn all_segments_of_a_tagged_message_agree() {
    for role in ROLES {
        for stag in [0x1234_5678, 0, u32::MAX] {
            let opcode = SendOpcode::Write { stag: Stag(stag), to: 0 };
            for ulpdu in segments_of(role, SMALL_MTU, opcode, 10_000) {
                assert_eq!(ulpdu[1], 0x40, "RsvdULP");
                assert_eq!(ulpdu[2..6], stag.to_be_bytes(), "STag");
            }
        }
        let (world, peer) = open_mtu(role, SMALL_MTU);
        let memory = filled(&world.side, 10_000);
        let source = Place(memory.rkey().0, memory.addr());
        peer.send(&fpdu(&read_request(1, Place(0xFEDC_BA98, 0), 10_000, source)));
        let answer = read_message(&peer);
        assert_eq!(answer.len(), 20);
        assert!(answer.iter().all(|ulpdu| ulpdu[1..6] == hex("42 FEDCBA98")));
    }
}

/// 18 octets: control, five octets of RsvdULP, QN, MSN, MO.
// Covers 5041-4.3-1, 5041-4.3-2.
#[test]
fn the_untagged_header() {
    for role in ROLES {
        for stag in [0x1122_3344, 0, 1, u32::MAX] {
            let (world, peer) = open(role);
            let opcode = SendOpcode::SendInvalidate { stag: Stag(stag) };
            world.side.qp.post_send(&work(1, opcode, Data::Inline(b"hello"))).unwrap();
            let header = [&hex("4144"), &stag.to_be_bytes()[..], &hex("00000000 00000001 00000000")].concat();
            assert_eq!(header.len(), 18);
            assert_eq!(read_fpdu(&peer), [&header[..], b"hello"].concat());
            world.side.qp.post_send(&work(2, SendOpcode::Send, Data::Inline(b"hello"))).unwrap();
            assert_eq!(read_fpdu(&peer), send(2, b"hello"));
        }
        let (world, peer) = open(role);
        world.side.qp.post_send(&work(1, SendOpcode::Send, Data::Inline(b"hello"))).unwrap();
        peer.expect(&vector("send5"));
    }
}

/// The five octets for the upper layer and the queue number are those of the first segment.
// Covers 5041-4.3-4, 5041-4.3-6, 5041-4.3-7.
#[test]
fn all_segments_of_an_untagged_message_agree() {
    for role in ROLES {
        for stag in [0x1122_3344, u32::MAX] {
            let opcode = SendOpcode::SendInvalidate { stag: Stag(stag) };
            let segments = segments_of(role, SMALL_MTU, opcode, 10_000);
            assert_eq!(segments.len(), 20);
            for ulpdu in segments {
                assert_eq!(ulpdu[1..6], [&[0x44][..], &stag.to_be_bytes()].concat(), "RsvdULP");
                assert_eq!(ulpdu[6..10], [0; 4], "QN");
            }
        }
    }
}

/// One MSN for a whole message; the MO begins at zero and grows by the payload.
// Covers 5041-4.3-11, 5041-4.3-12, 5041-4.3-13, 5041-5.2-5.
#[test]
fn sequence_numbers_and_offsets_inside_messages() {
    for role in ROLES {
        let (world, peer) = open_mtu(role, SMALL_MTU);
        let memory = filled(&world.side, 5000);
        for (index, len) in [5000, 512, 513, 1].into_iter().enumerate() {
            let sges = [memory.sge(0, len)];
            world.side.qp.post_send(&work(1, SendOpcode::Send, Data::Sges(&sges))).unwrap();
            let mut offset = 0;
            for ulpdu in read_message(&peer) {
                assert_eq!(field::<4>(&ulpdu, 10), index as u64 + 1, "MSN");
                assert_eq!(mo(&ulpdu), offset);
                offset += ulpdu.len() as u64 - 18;
            }
            assert_eq!(offset, u64::from(len));
        }
    }
}

/// Each queue counts its own messages from one. Tagged messages have no number, and change none.
// Covers 5041-4.3-8, 5041-4.3-9.
#[test]
fn each_queue_counts_its_messages_from_one() {
    for role in ROLES {
        let (world, peer) = open(role);
        let memory = filled(&world.side, 4);
        let sges = [whole(&memory)];
        let read = SendOpcode::Read { stag: Stag(7), to: 0 };
        let (mut sends, mut reads) = (0_u32, 0_u32);
        for kind in [0, 1, 0, 2, 0, 1, 1, 2, 1, 0] {
            let opcode = [SendOpcode::Send, read, TARGET][kind];
            world.side.qp.post_send(&work(1, opcode, Data::Sges(&sges))).unwrap();
            let ulpdu = read_fpdu(&peer);
            match kind {
                0 => sends += 1,
                1 => reads += 1,
                _ => {
                    assert_eq!(ulpdu[0], 0xC1);
                    continue;
                }
            }
            let (queue, msn) = if kind == 0 { (0, sends) } else { (1, reads) };
            assert_eq!((field::<4>(&ulpdu, 6), field::<4>(&ulpdu, 10)), (queue, u64::from(msn)));
        }
        assert_eq!((sends, reads), (4, 4));
        // The Terminate is the first message of queue 2.
        let bad = tagged("C140", 0, 0, b"x");
        peer.send(&fpdu(&bad));
        assert_eq!(read_fpdu(&peer), terminate("1100", &bad));
    }
}

/// Sizes around one and two segments, with the MULPDU of three MTUs: as few segments as possible, all octets in them.
// Covers 5041-5.2-1, 5041-5.2-3, 5041-5.2-7.
#[test]
fn messages_are_cut_by_the_mulpdu() {
    for (mtu, mulpdu) in [(SMALL_MTU, 530), (MTU, 1454), (9000, 8954)] {
        for (opcode, header) in [(SendOpcode::Send, 18), (TARGET, 14)] {
            let max = mulpdu - header;
            for len in [1, max - 1, max, max + 1, 2 * max - 1, 2 * max, 2 * max + 1, 7 * max + 5] {
                let role = ROLES[len % 2];
                let segments = segments_of(role, mtu, opcode, len);
                assert_eq!(segments.len(), len.div_ceil(max), "{len} octets");
                let mut sent = Vec::new();
                for ulpdu in segments {
                    assert!(ulpdu.len() <= mulpdu);
                    let start =
                        if opcode == TARGET { to(&ulpdu) - 0x9ABC_DEF0_1122_3344 } else { mo(&ulpdu) };
                    assert_eq!(start, sent.len() as u64);
                    sent.extend_from_slice(&ulpdu[header..]);
                }
                assert!(sent == pattern(len), "{len} octets");
            }
        }
    }
}

/// There is one segment with the L bit. A tagged one may have any STag and TO.
// Covers 5041-5.2-8, 5041-5.2-9.
#[test]
fn messages_without_octets_take_one_segment() {
    for role in ROLES {
        assert_eq!(segments_of(role, MTU, SendOpcode::Send, 0), [send(1, b"")]);
        for (stag, to) in [(0, 0), (1, 1), (u32::MAX, u64::MAX), (0x8000_0000, 1 << 63)] {
            let opcode = SendOpcode::Write { stag: Stag(stag), to };
            assert_eq!(segments_of(role, MTU, opcode, 0), [write(stag, to, b"")]);
        }
        let (_world, peer) = open(role);
        peer.send(&fpdu(&read_request(1, Place(u32::MAX, 5), 0, Place(0, 0))));
        assert_eq!(read_message(&peer), [tagged("C142", u32::MAX, 5, b"")]);
        peer.expect_silence();
    }
}

/// Sends and Writes of all sizes leave in the order in which they were posted, whole message by whole message.
// Covers 5041-5.3-1, 5041-5.3-2, 5041-5.3-3.
#[test]
fn messages_leave_in_the_order_of_posting() {
    for role in ROLES {
        let (world, peer) = open_mtu(role, SMALL_MTU);
        let memory = filled(&world.side, 2000);
        let mut msn = 0;
        for batch in 0..10_u32 {
            let request = |index: u32| {
                let number = batch * 100 + index;
                (number, number.is_multiple_of(3), number * 37 % 1400)
            };
            for (number, is_send, len) in (0..100).map(request) {
                let opcode = SendOpcode::Write { stag: Stag(number), to: 0 };
                let opcode = if is_send { SendOpcode::Send } else { opcode };
                let sges = [memory.sge(0, len)];
                world.side.qp.post_send(&work(u64::from(number), opcode, Data::Sges(&sges))).unwrap();
            }
            for (number, is_send, len) in (0..100).map(request) {
                msn += u64::from(is_send);
                let mut offset = 0;
                for ulpdu in read_message(&peer) {
                    if is_send {
                        assert_eq!((ulpdu[1], field::<4>(&ulpdu, 10), mo(&ulpdu)), (0x43, msn, offset));
                        offset += ulpdu.len() as u64 - 18;
                    } else {
                        assert_eq!((ulpdu[1], field::<4>(&ulpdu, 2)), (0x40, u64::from(number)));
                        assert_eq!(to(&ulpdu), offset);
                        offset += ulpdu.len() as u64 - 14;
                    }
                }
                assert_eq!(offset, u64::from(len));
            }
            assert_eq!(world.all_completions().len(), 100);
        }
    }
}

/// The limit is on the sum of all elements. A queue pair in Error takes requests only to flush them, so that the test
/// needs less memory.
// Covers 5041-5.2-2.
#[test]
fn a_message_has_less_than_two_to_the_32_octets() {
    let (world, peer) = open(ROLES[0]);
    let memory = world.side.memory(8);
    let post = |qp: &Qp, lengths: [u32; 2]| {
        let sges = lengths.map(|length| Sge { length, ..memory.sge(0, 0) });
        [SendOpcode::Send, TARGET].map(|opcode| qp.post_send(&work(1, opcode, Data::Sges(&sges))))
    };
    let too_long = [[u32::MAX, 1], [1 << 31, 1 << 31], [u32::MAX, u32::MAX]];
    for lengths in too_long {
        assert_eq!(post(&world.side.qp, lengths), [Err(PostError::TooLong); 2]);
    }
    peer.expect_silence();
    expect_flushed(&world, || post(&world.side.qp, [u32::MAX - 1, 1]));
    for lengths in too_long {
        assert_eq!(post(&world.side.qp, lengths), [Err(PostError::TooLong); 2]);
    }
    assert_eq!(content(&memory), [0; 8]);
}

fn expect_flushed(world: &World, post: impl Fn() -> [Result<(), PostError>; 2]) {
    world.side.qp.disconnect().unwrap();
    assert_eq!(post(), [Ok(()); 2]);
    assert_eq!(world.all_completions(), [(1, Status::WorkRequestFlushed); 2]);
}
