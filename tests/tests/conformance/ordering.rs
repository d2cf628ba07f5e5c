//! The order of deliveries and completions (RFC 5040 section 5.5).

use weft_rnic::{CompletionOpcode, Data, SendOpcode, Stag, Status};
use weft_tests::{PairConfig, RawPeer};

use crate::octets::{
    Place, fpdu, pattern, read_fpdu, read_request, send, send_invalidate, send_part, tagged, write,
};
use crate::world::{FILL, ROLES, World, content, filled, open, open_with, whole, work};

/// Sends with a Write before each: they are delivered in order, and each with its Write in place.
// Covers 5040-5.5-5.
#[test]
fn sends_among_writes_are_delivered_in_order() {
    for role in ROLES {
        let (world, peer) = open(role);
        let (inbox, target) = (filled(&world.side, 4), filled(&world.side, 4));
        for wr_id in 1..=50 {
            world.side.post_recv(wr_id, whole(&inbox));
        }
        for number in 1..=50_u32 {
            let octets = number.to_be_bytes();
            peer.send(&fpdu(&write(target.rkey().0, target.addr(), &octets)));
            peer.send(&fpdu(&send_part("01", number, 0, &octets[..1])));
            world.expect_no_news();
            peer.send(&fpdu(&send_part("41", number, 1, &octets[1..])));
            let done = world.completion();
            assert_eq!((done.wr_id, done.status, done.byte_len), (u64::from(number), Status::Success, 4));
            assert_eq!([content(&inbox), content(&target)], [octets, octets]);
        }
        // The same holds if they come all at once.
        for wr_id in 51..=100 {
            world.side.post_recv(wr_id, whole(&inbox));
        }
        let stream = (51..=100_u32).flat_map(|number| {
            let octets = number.to_be_bytes();
            [fpdu(&write(target.rkey().0, target.addr(), &octets)), fpdu(&send(number, &octets))]
        });
        peer.send(&stream.collect::<Vec<_>>().concat());
        for number in 51..=100 {
            let done = world.completion();
            assert_eq!((done.wr_id, done.status), (number, Status::Success));
        }
    }
}

/// A message in segments completes its receive with the last one, and not earlier, however long that takes.
// Covers 5040-5.5-12.
#[test]
fn a_send_is_delivered_with_its_last_segment() {
    for role in ROLES {
        let (world, peer) = open(role);
        let inbox = filled(&world.side, 8);
        world.side.post_recv(1, whole(&inbox));
        for (offset, octet) in (0..).zip(b"1234567") {
            peer.send(&fpdu(&send_part("01", 1, offset, &[*octet])));
            world.expect_no_news();
        }
        let last = fpdu(&send_part("41", 1, 7, b"8"));
        peer.send(&last[..last.len() - 1]);
        world.expect_no_news();
        peer.send(&last[last.len() - 1..]);
        let done = world.completion();
        assert_eq!((done.wr_id, done.status, done.byte_len), (1, Status::Success, 8));
        assert_eq!(content(&inbox), b"12345678");
    }
}

/// Posts `count` Reads of 4 octets each from consecutive places, and takes their requests off the stream.
fn ask(world: &World, peer: &RawPeer, sink: &weft_rnic::Mr, count: u32) {
    for index in 0..count {
        let opcode = SendOpcode::Read { stag: Stag(7), to: u64::from(4 * index) };
        let sge = [sink.sge(4 * index as usize, 4)];
        world.side.qp.post_send(&work(u64::from(index), opcode, Data::Sges(&sge))).unwrap();
        let place = Place(sink.lkey().0, sink.addr() + u64::from(4 * index));
        peer.expect(&fpdu(&read_request(index + 1, place, 4, Place(7, u64::from(4 * index)))));
    }
}

/// Ten Reads: each completes with the last segment of its response, in order, with its octets in place. No other
/// message is needed.
// Covers 5040-5.5-6, 5040-5.5-15, 5040-5.5-18.
#[test]
fn reads_complete_with_their_responses() {
    for role in ROLES {
        let (world, peer) = open(role);
        let sink = filled(&world.side, 40);
        ask(&world, &peer, &sink, 10);
        for index in 0..10_u32 {
            let (stag, to) = (sink.lkey().0, sink.addr() + u64::from(4 * index));
            peer.send(&fpdu(&tagged("8142", stag, to, &index.to_be_bytes()[..3])));
            world.expect_no_news();
            // All octets may come before the last segment, which is then empty.
            let (last_octet, rest) = if index % 2 == 0 { (true, &b""[..]) } else { (false, &[FILL][..]) };
            if last_octet {
                peer.send(&fpdu(&tagged("8142", stag, to + 3, &index.to_be_bytes()[3..])));
                world.expect_no_news();
            }
            peer.send(&fpdu(&tagged("C142", stag, to + if last_octet { 4 } else { 3 }, rest)));
            let done = world.completion();
            assert_eq!((done.wr_id, done.status), (u64::from(index), Status::Success));
            assert_eq!((done.opcode, done.byte_len), (CompletionOpcode::Read, 4));
            let mut expected = index.to_be_bytes();
            if !last_octet {
                expected[3] = FILL;
            }
            assert_eq!(content(&sink)[4 * index as usize..][..4], expected);
            world.expect_no_news();
        }
        // Responses that come all at once complete in order too.
        let sink = filled(&world.side, 4 * 16);
        for index in 0..16_u32 {
            let sge = [sink.sge(4 * index as usize, 4)];
            let opcode = SendOpcode::Read { stag: Stag(7), to: 0 };
            world.side.qp.post_send(&work(100 + u64::from(index), opcode, Data::Sges(&sge))).unwrap();
        }
        let responses = (0..16_u32).map(|index| {
            fpdu(&tagged("C142", sink.lkey().0, sink.addr() + u64::from(4 * index), &index.to_be_bytes()))
        });
        world.settle();
        peer.send(&responses.collect::<Vec<_>>().concat());
        for index in 0..16 {
            assert_eq!(world.completion().wr_id, 100 + index);
        }
    }
}

/// A stream writes a region and reads it again, in one TCP segment or in two: the answer always has the written
/// octets.
// Covers 5040-5.5-7, 5040-5.5-13.
#[test]
fn a_read_returns_what_was_written() {
    for role in ROLES {
        let (world, peer) = open(role);
        let memory = filled(&world.side, 8);
        let (stag, to) = (memory.rkey().0, memory.addr());
        for round in 1..=500_u32 {
            let octets = (u64::from(round) << 32 | u64::from(!round)).to_be_bytes();
            let together = [
                fpdu(&write(stag, to, &octets)),
                fpdu(&read_request(round, Place(round, 0), 8, Place(stag, to))),
            ];
            if round % 5 == 0 {
                together.iter().for_each(|octets| peer.send(octets));
            } else {
                peer.send(&together.concat());
            }
            peer.expect(&fpdu(&tagged("C142", round, 0, &octets)));
        }
    }
}

/// A Read Request, of octets or of none, does not begin before all of it has come. The answer has the memory of that
/// time.
// Covers 5040-5.5-7, 5040-5.5-13.
#[test]
fn an_incomplete_request_is_not_answered() {
    for role in ROLES {
        for size in [8, 0] {
            let (world, peer) = open(role);
            let memory = filled(&world.side, 8);
            let request = fpdu(&read_request(1, Place(5, 6), size, Place(memory.rkey().0, memory.addr())));
            for cut in [2, 20, 48, request.len() - 1] {
                let before = [0, 2, 20, 48].into_iter().rfind(|before| *before < cut).unwrap_or(0);
                peer.send(&request[before..cut]);
                peer.expect_silence();
            }
            memory.write(0, b"changed!").unwrap();
            peer.send(&request[request.len() - 1..]);
            peer.expect(&fpdu(&tagged("C142", 5, 6, &b"changed!"[..size as usize])));
        }
    }
}

/// Operations of all kinds, many at once: their messages come in the order of posting.
// Covers 5040-5.5-9.
#[test]
fn messages_go_out_in_the_order_of_posting() {
    for role in ROLES {
        let (world, peer) = open_with(role, &PairConfig { mtu: 576, ..PairConfig::default() });
        let memory = world.side.memory(1000);
        memory.write(0, &pattern(1000)).unwrap();
        let sink = Place(memory.lkey().0, memory.addr());
        let mut expected = Vec::new();
        let (mut sends, mut reads) = (0, 0);
        for number in 0..48_u32 {
            let octets = number.to_be_bytes();
            let (to, stag) = (u64::from(number), Stag(number));
            let opcode = match number % 4 {
                0 => SendOpcode::Write { stag, to },
                1 => SendOpcode::Send,
                2 => SendOpcode::Read { stag, to },
                _ => SendOpcode::SendInvalidate { stag },
            };
            let data = if number % 4 == 2 { Data::Sges(&[memory.sge(0, 4)]) } else { Data::Inline(&octets) };
            world.side.qp.post_send(&work(u64::from(number), opcode, data)).unwrap();
            sends += u32::from(number % 2 == 1);
            reads += u32::from(number % 4 == 2);
            expected.extend(fpdu(&match number % 4 {
                0 => write(number, to, &octets),
                1 => send(sends, &octets),
                2 => read_request(reads, sink, 4, Place(number, to)),
                _ => send_invalidate(sends, number, &octets),
            }));
        }
        peer.expect(&expected);
        // A short message does not overtake a long one in many segments.
        let sges = [whole(&memory)];
        world.side.qp.post_send(&work(50, SendOpcode::Send, Data::Sges(&sges))).unwrap();
        world.side.qp.post_send(&work(51, SendOpcode::Send, Data::Inline(b"short"))).unwrap();
        peer.expect(&fpdu(&send_part("01", sends + 1, 0, &pattern(1000)[..512])));
        peer.expect(&fpdu(&send_part("41", sends + 1, 512, &pattern(1000)[512..])));
        peer.expect(&fpdu(&send(sends + 2, b"short")));
    }
}

/// TCP has no room: a request is not complete before TCP has taken its last octet, and completes then.
// Covers 5040-5.5-10.
#[test]
fn sends_and_writes_complete_when_tcp_has_them() {
    for role in ROLES {
        for opcode in [SendOpcode::Send, SendOpcode::Write { stag: Stag(1), to: 0 }] {
            let (world, peer) = open(role);
            let memory = world.side.memory(2 << 20);
            peer.set_reading(false);
            world.side.qp.post_send(&work(1, opcode, Data::Sges(&[whole(&memory)]))).unwrap();
            world.side.qp.post_send(&work(2, opcode, Data::Inline(b"behind it"))).unwrap();
            world.host.settle(weft_netif::Duration::from_secs(30));
            world.expect_no_news();
            peer.set_reading(true);
            // The buffers between the two take less than a fourth of it. When half of it has come here, half is not
            // yet sent.
            let _half = peer.read_exact(1 << 20);
            assert_eq!(
                [world.completion(), world.completion()].map(|done| (done.wr_id, done.status)),
                [(1, Status::Success), (2, Status::Success)]
            );
        }
    }
}

/// A Send and a Write behind a Read are sent at once and reported after it.
// Covers 5040-5.5-11.
#[test]
fn completions_keep_the_order_of_posting() {
    for role in ROLES {
        let (world, peer) = open(role);
        let sink = filled(&world.side, 8);
        let (stag, to) = (sink.lkey().0, sink.addr());
        let read = SendOpcode::Read { stag: Stag(1), to: 0 };
        let data = [whole(&sink)];
        world.side.qp.post_send(&work(1, read, Data::Sges(&data))).unwrap();
        world.side.qp.post_send(&work(2, SendOpcode::Send, Data::Inline(b"two"))).unwrap();
        world
            .side
            .qp
            .post_send(&work(3, SendOpcode::Write { stag: Stag(2), to: 0 }, Data::Inline(b"three")))
            .unwrap();
        world.side.qp.post_send(&work(4, read, Data::Sges(&data))).unwrap();
        world.side.qp.post_send(&work(5, SendOpcode::Send, Data::Inline(b"five"))).unwrap();
        peer.expect(&fpdu(&read_request(1, Place(stag, to), 8, Place(1, 0))));
        peer.expect(&fpdu(&send(1, b"two")));
        peer.expect(&fpdu(&write(2, 0, b"three")));
        peer.expect(&fpdu(&read_request(2, Place(stag, to), 8, Place(1, 0))));
        peer.expect(&fpdu(&send(2, b"five")));
        world.expect_no_news();
        peer.send(&fpdu(&tagged("C142", stag, to, b"12345678")));
        assert_eq!([1, 2, 3].map(|_| world.completion().wr_id), [1, 2, 3]);
        world.expect_no_news();
        peer.send(&fpdu(&tagged("C142", stag, to, b"12345678")));
        assert_eq!([1, 2].map(|_| world.completion().wr_id), [4, 5]);
    }
}

/// Eight Reads of the peer at once, long ones before short ones and empty ones: the answers keep the order of the
/// requests.
// Covers 5040-5.5-16.
#[test]
fn responses_keep_the_order_of_the_requests() {
    for role in ROLES {
        let (world, peer) = open(role);
        let memory = filled(&world.side, 20_000);
        memory.write(0, &pattern(20_000)).unwrap();
        let sizes = [20_000_u32, 1, 0, 5000, 2, 1440, 1441, 0];
        let requests = sizes.iter().zip(1..).map(|(size, msn)| {
            fpdu(&read_request(msn, Place(100 + msn, 0), *size, Place(memory.rkey().0, memory.addr())))
        });
        // Own messages go between the answers and do not change their order.
        for wr_id in 0..20 {
            world.side.qp.post_send(&work(wr_id, SendOpcode::Send, Data::Inline(b"own"))).unwrap();
        }
        peer.send(&requests.collect::<Vec<_>>().concat());
        world.settle();
        let mut own = 0;
        for (size, stag) in sizes.into_iter().zip(101_u32..) {
            let mut got = 0;
            loop {
                let ulpdu = read_fpdu(&peer);
                if ulpdu[0] & 0x80 == 0 {
                    own += 1;
                    assert_eq!(ulpdu, send(own, b"own"));
                    continue;
                }
                let payload = &ulpdu[14..];
                let is_last = got + payload.len() == size as usize;
                let head = if is_last { "C142" } else { "8142" };
                assert_eq!(ulpdu, tagged(head, stag, got as u64, &pattern(20_000)[got..][..payload.len()]));
                got += payload.len();
                if is_last {
                    break;
                }
            }
        }
        assert_eq!(world.all_completions().len(), 20);
    }
}
