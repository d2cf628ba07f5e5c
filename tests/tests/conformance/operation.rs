//! Full Operation without a fault: the effect of the peer's octets, and the octets that the device makes.

use weft_rnic::{Completion, CompletionOpcode, Data, RecvWr, SendOpcode, SendWr, Stag, Status};
use weft_tests::{RawPeer, hex};

use crate::octets::{
    Place, fpdu, join, pattern, read_request, send, send_invalidate, send_part, tagged, vector, write,
};
use crate::world::{FILL, ROLES, content, filled, open, open_mtu, whole, work};

fn received(completion: &Completion) -> (u64, Status, CompletionOpcode, u32) {
    (completion.wr_id, completion.status, completion.opcode, completion.byte_len)
}

#[test]
fn sends_of_all_kinds_arrive() {
    for role in ROLES {
        let (world, peer) = open(role);
        let (inbox, target) = (filled(&world.side, 16), world.side.own_memory(64));
        let stag = target.rkey();
        let cases = [
            (send(1, b"hello"), false, None),
            (join("4145 00000000 00000000 00000002 00000000", &[b"hello"]), true, None),
            (send_invalidate(3, stag.0, b"hello"), false, Some(stag.0)),
        ];
        for (ulpdu, solicited, invalidated) in &cases {
            world.side.post_recv(1, whole(&inbox));
            assert!(!target.is_invalidated());
            peer.send(&fpdu(ulpdu));
            let completion = world.completion();
            assert_eq!(received(&completion), (1, Status::Success, CompletionOpcode::Recv, 5));
            assert_eq!((completion.solicited, completion.invalidated), (*solicited, *invalidated));
            assert_eq!(completion.qp_num, world.side.qp.number());
            assert_eq!(content(&inbox), [&b"hello"[..], &[FILL; 11]].concat());
            inbox.write(0, &[FILL; 16]).unwrap();
        }
        assert!(target.is_invalidated());
        // With both, and nothing in it.
        let other = world.side.own_memory(8);
        world.side.post_recv(2, whole(&inbox));
        let both = join("4146", &[&other.rkey().0.to_be_bytes(), &hex("00000000 00000004 00000000")]);
        peer.send(&fpdu(&both));
        let completion = world.completion();
        assert_eq!(received(&completion), (2, Status::Success, CompletionOpcode::Recv, 0));
        assert_eq!((completion.solicited, completion.invalidated), (true, Some(other.rkey().0)));
        assert!(other.is_invalidated());
        assert_eq!(content(&inbox), [FILL; 16]);
    }
}

/// Two segments into three pieces of memory; reserved bits of both headers mean nothing.
#[test]
fn a_send_in_parts_is_scattered() {
    for role in ROLES {
        let (world, peer) = open(role);
        let memory = filled(&world.side, 64);
        let sges = [memory.sge(0, 3), memory.sge(20, 0), memory.sge(40, 2), memory.sge(10, 9)];
        world.side.qp.post_recv(&RecvWr { wr_id: 1, sges: &sges }).unwrap();
        let (mut first, mut last) = (send_part("01", 1, 0, b"abcd"), send_part("41", 1, 4, b"efgh"));
        first[0] |= 0x3C;
        last[1] |= 0x30;
        peer.send(&fpdu(&first));
        world.expect_no_news();
        peer.send(&fpdu(&last));
        assert_eq!(received(&world.completion()), (1, Status::Success, CompletionOpcode::Recv, 8));
        let mut expected = [FILL; 64];
        expected[..3].copy_from_slice(b"abc");
        expected[40..42].copy_from_slice(b"de");
        expected[10..13].copy_from_slice(b"fgh");
        assert_eq!(content(&memory), expected);
    }
}

/// Empty messages take one receive each, in order.
#[test]
fn empty_sends_arrive() {
    for role in ROLES {
        let (world, peer) = open(role);
        for wr_id in 1..=3 {
            world.side.qp.post_recv(&RecvWr { wr_id, sges: &[] }).unwrap();
        }
        peer.send(&[vector("send0"), fpdu(&send(2, b"")), fpdu(&send(3, b""))].concat());
        for wr_id in 1..=3 {
            assert_eq!(received(&world.completion()), (wr_id, Status::Success, CompletionOpcode::Recv, 0));
        }
    }
}

#[test]
fn writes_arrive_without_a_completion() {
    for role in ROLES {
        let (world, peer) = open(role);
        let memory = filled(&world.side, 64);
        let (stag, to) = (memory.rkey().0, memory.addr());
        let segments = [
            write(stag, to + 60, b"last"),
            tagged("8140", stag, to, b"in two "),
            tagged("C140", stag, to + 7, b"parts"),
            write(stag, to + 64, b""),
        ];
        peer.send(&segments.map(|ulpdu| fpdu(&ulpdu)).concat());
        world.expect_no_news();
        let mut expected = [FILL; 64];
        expected[..12].copy_from_slice(b"in two parts");
        expected[60..].copy_from_slice(b"last");
        assert_eq!(content(&memory), expected);
    }
}

/// With an MTU of 576 octets a ULPDU has 530 at most, and a tagged segment 516 of payload.
#[test]
fn reads_are_answered_in_segments() {
    for role in ROLES {
        for size in [1_u32, 8, 515, 516, 517, 1032, 1033, 5000] {
            let (world, peer) = open_mtu(role, 576);
            let source = world.side.memory(8000);
            source.write(0, &pattern(8000)).unwrap();
            let sink = Place(0x0102_0304, 0xFFFF_FFFF_0000_0000);
            peer.send(&fpdu(&read_request(1, sink, size, Place(source.rkey().0, source.addr() + 100))));
            let answer = pattern(8000)[100..][..size as usize].to_vec();
            expect_segments(&peer, &answer, 516, |last, offset, payload| {
                tagged(if last { "C142" } else { "8142" }, sink.0, sink.1 + offset as u64, payload)
            });
            peer.expect_silence();
            world.expect_no_news();
        }
    }
}

/// Returns the octets of a message in segments of `max`.
fn expect_segments(
    peer: &RawPeer,
    message: &[u8],
    max: usize,
    segment: impl Fn(bool, usize, &[u8]) -> Vec<u8>,
) {
    let count = message.len().div_ceil(max).max(1);
    for index in 0..count {
        let (start, end) = (index * max, (index * max + max).min(message.len()));
        peer.expect(&fpdu(&segment(index + 1 == count, start, &message[start..end])));
    }
}

/// Answers come in the order of the requests, whatever they ask for.
#[test]
fn several_reads_are_answered_in_order() {
    for role in ROLES {
        let (world, peer) = open(role);
        let source = world.side.memory(64);
        source.write(0, &pattern(64)).unwrap();
        let (stag, to) = (source.rkey().0, source.addr());
        let requests = [
            read_request(1, Place(1, 100), 8, Place(stag, to)),
            read_request(2, Place(2, 200), 0, Place(0, 0)),
            read_request(3, Place(3, u64::MAX), 64, Place(stag, to)),
            read_request(4, Place(4, 0), 1, Place(stag, to + 63)),
        ];
        peer.send(&requests.map(|ulpdu| fpdu(&ulpdu)).concat());
        peer.expect(&fpdu(&tagged("C142", 1, 100, &pattern(64)[..8])));
        peer.expect(&fpdu(&tagged("C142", 2, 200, b"")));
        peer.expect(&fpdu(&tagged("C142", 3, u64::MAX, &pattern(64))));
        peer.expect(&fpdu(&tagged("C142", 4, 0, &pattern(64)[63..])));
        peer.expect_silence();
    }
}

#[test]
fn sends_of_all_kinds_are_made() {
    for role in ROLES {
        let (world, peer) = open(role);
        let memory = world.side.memory(64);
        memory.write(0, &pattern(64)).unwrap();
        let qp = &world.side.qp;
        let invalidate = SendOpcode::SendInvalidate { stag: Stag(0x1122_3344) };
        qp.post_send(&work(1, SendOpcode::Send, Data::Inline(b"hello"))).unwrap();
        peer.expect(&vector("send5"));
        qp.post_send(&SendWr { solicited: true, ..work(2, SendOpcode::Send, Data::Inline(b"")) }).unwrap();
        peer.expect(&fpdu(&hex("4145 00000000 00000000 00000002 00000000")));
        qp.post_send(&work(3, invalidate, Data::Sges(&[memory.sge(0, 3), memory.sge(60, 4)]))).unwrap();
        let gathered = [&pattern(64)[..3], &pattern(64)[60..]].concat();
        peer.expect(&fpdu(&send_invalidate(3, 0x1122_3344, &gathered)));
        qp.post_send(&SendWr { solicited: true, ..work(4, invalidate, Data::Sges(&[])) }).unwrap();
        peer.expect(&fpdu(&join("4146 11223344 00000000 00000004 00000000", &[])));
        for wr_id in 1..=4 {
            let done = world.completion();
            assert_eq!(
                (done.wr_id, done.status, done.opcode),
                (wr_id, Status::Success, CompletionOpcode::Send)
            );
        }
    }
}

#[test]
fn long_sends_and_writes_are_cut() {
    for role in ROLES {
        for size in [511_usize, 512, 513, 516, 517, 1024, 1033, 5000] {
            let (world, peer) = open_mtu(role, 576);
            let (memory, message) = (world.side.memory(size), pattern(size));
            memory.write(0, &message).unwrap();
            let sges = [whole(&memory)];
            let opcode = SendOpcode::Write { stag: Stag(0xAABB_CCDD), to: u64::MAX - 600 };
            world.side.qp.post_send(&work(1, SendOpcode::Send, Data::Sges(&sges))).unwrap();
            expect_segments(&peer, &message, 512, |last, offset, payload| {
                send_part(if last { "41" } else { "01" }, 1, u32::try_from(offset).unwrap(), payload)
            });
            world.side.qp.post_send(&work(2, opcode, Data::Sges(&sges))).unwrap();
            // The peer decides whether offsets wrap.
            expect_segments(&peer, &message, 516, |last, offset, payload| {
                let to = (u64::MAX - 600).wrapping_add(offset as u64);
                tagged(if last { "C140" } else { "8140" }, 0xAABB_CCDD, to, payload)
            });
            assert_eq!(world.all_completions(), [(1, Status::Success), (2, Status::Success)]);
        }
    }
}

#[test]
fn empty_writes_and_reads_are_made() {
    for role in ROLES {
        let (world, peer) = open(role);
        let qp = &world.side.qp;
        let opcode = SendOpcode::Write { stag: Stag(7), to: 9 };
        qp.post_send(&work(1, opcode, Data::Sges(&[]))).unwrap();
        peer.expect(&fpdu(&write(7, 9, b"")));
        assert_eq!(world.completion().opcode, CompletionOpcode::Write);
        let opcode = SendOpcode::Read { stag: Stag(7), to: 9 };
        qp.post_send(&work(2, opcode, Data::Sges(&[]))).unwrap();
        peer.expect(&fpdu(&read_request(1, Place(0, 0), 0, Place(7, 9))));
        world.expect_no_news();
        // STag and offset of an empty answer mean nothing.
        peer.send(&fpdu(&tagged("C142", 0xFFFF_FFFF, 1, b"")));
        let done = world.completion();
        assert_eq!(received(&done), (2, Status::Success, CompletionOpcode::Read, 0));
    }
}

/// A Read into two pieces of memory is two requests and one completion; the answer comes in parts.
#[test]
fn reads_are_made_and_their_answers_placed() {
    for role in ROLES {
        let (world, peer) = open(role);
        let memory = filled(&world.side, 64);
        let (lkey, addr) = (memory.lkey().0, memory.addr());
        let opcode = SendOpcode::Read { stag: Stag(0x100), to: 0x1000 };
        let sges = [memory.sge(32, 8), memory.sge(0, 4)];
        world.side.qp.post_send(&work(1, opcode, Data::Sges(&sges))).unwrap();
        peer.expect(&fpdu(&read_request(1, Place(lkey, addr + 32), 8, Place(0x100, 0x1000))));
        peer.expect(&fpdu(&read_request(2, Place(lkey, addr), 4, Place(0x100, 0x1008))));
        peer.send(&fpdu(&tagged("8142", lkey, addr + 32, b"abc")));
        peer.send(&fpdu(&tagged("C142", lkey, addr + 35, b"defgh")));
        world.expect_no_news();
        peer.send(&fpdu(&tagged("C142", lkey, addr, b"ijkl")));
        assert_eq!(received(&world.completion()), (1, Status::Success, CompletionOpcode::Read, 12));
        let mut expected = [FILL; 64];
        expected[32..40].copy_from_slice(b"abcdefgh");
        expected[..4].copy_from_slice(b"ijkl");
        assert_eq!(content(&memory), expected);
    }
}

/// The peer's IRD is 16 and the device's ORD too: the seventeenth Read waits for the first answer.
#[test]
fn no_more_reads_are_outstanding_than_agreed() {
    for role in ROLES {
        let (world, peer) = open(role);
        let memory = world.side.memory(32);
        let place = |index: u32| Place(memory.lkey().0, memory.addr() + u64::from(index));
        for index in 0..17_u32 {
            let opcode = SendOpcode::Read { stag: Stag(1), to: 0 };
            let sge = [memory.sge(index as usize, 1)];
            world.side.qp.post_send(&work(u64::from(index), opcode, Data::Sges(&sge))).unwrap();
        }
        for index in 0..16 {
            peer.expect(&fpdu(&read_request(index + 1, place(index), 1, Place(1, 0))));
        }
        peer.expect_silence();
        let Place(stag, to) = place(0);
        peer.send(&fpdu(&tagged("C142", stag, to, b"x")));
        peer.expect(&fpdu(&read_request(17, place(16), 1, Place(1, 0))));
        assert_eq!(world.completion().wr_id, 0);
    }
}

/// One octet in each TCP segment has the same effect as all at once.
#[test]
fn a_stream_comes_octet_by_octet() {
    for role in ROLES {
        let (world, peer) = open(role);
        let memory = filled(&world.side, 16);
        world.side.post_recv(1, memory.sge(0, 5));
        peer.send_one_by_one(&vector("send5"));
        assert_eq!(received(&world.completion()), (1, Status::Success, CompletionOpcode::Recv, 5));
        peer.send_one_by_one(&fpdu(&write(memory.rkey().0, memory.addr() + 8, b"octet")));
        peer.send_one_by_one(&fpdu(&read_request(1, Place(9, 9), 16, Place(memory.rkey().0, memory.addr()))));
        let mut expected = [FILL; 16];
        expected[..5].copy_from_slice(b"hello");
        expected[8..13].copy_from_slice(b"octet");
        peer.expect(&fpdu(&tagged("C142", 9, 9, &expected)));
        assert_eq!(content(&memory), expected);
    }
}
