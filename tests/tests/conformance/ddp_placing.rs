//! DDP as the Data Sink of a correct peer: the places of payload, and when and how messages are delivered.

use weft_netif::{Duration, ImpairmentConfig};
use weft_rnic::{Access, Completion, CompletionOpcode, Data, RecvWr, Region, SendOpcode, SendWr, Status};
use weft_tests::{Pair, PairConfig};

use crate::octets::{
    Place, fpdu, pattern, read_request, send, send_invalidate, send_part, tagged, vector, write,
};
use crate::world::{FILL, ROLES, content, filled, open, whole, work};

fn received(completion: &Completion) -> (u64, Status, CompletionOpcode, u32) {
    (completion.wr_id, completion.status, completion.opcode, completion.byte_len)
}

const fn recv(wr_id: u64, len: u32) -> (u64, Status, CompletionOpcode, u32) {
    (wr_id, Status::Success, CompletionOpcode::Recv, len)
}

/// T selects the kind of buffer: a tagged segment takes no receive, an untagged one takes the first posted.
// Covers 5041-4.1-1, 5041-4.1-2.
#[test]
fn tagged_and_untagged_buffers() {
    for role in ROLES {
        let (world, peer) = open(role);
        let (target, inbox) = (filled(&world.side, 16), filled(&world.side, 32));
        world.side.post_recv(1, inbox.sge(16, 16));
        world.side.post_recv(2, inbox.sge(0, 16));
        peer.send(&fpdu(&write(target.rkey().0, target.addr() + 4, b"tagged")));
        world.expect_no_news();
        assert_eq!(content(&target), [&[FILL; 4][..], b"tagged", &[FILL; 6]].concat());
        assert_eq!(content(&inbox), [FILL; 32]);
        peer.send(&vector("send5"));
        assert_eq!(received(&world.completion()), recv(1, 5));
        world.expect_no_news();
        let mut expected = [FILL; 32];
        expected[16..21].copy_from_slice(b"hello");
        assert_eq!(content(&inbox), expected);
        assert_eq!(content(&target), [&[FILL; 4][..], b"tagged", &[FILL; 6]].concat());
    }
}

/// All values of the four reserved bits, in segments of both kinds.
// Covers 5041-4.1-9.
#[test]
fn reserved_bits_are_ignored() {
    for role in ROLES {
        let (world, peer) = open(role);
        let (target, inbox) = (filled(&world.side, 64), filled(&world.side, 8));
        for bits in 0..16_u8 {
            let mut tagged = write(target.rkey().0, target.addr() + 4 * u64::from(bits), &[bits; 4]);
            let mut untagged = send(u32::from(bits) + 1, &[bits; 8]);
            tagged[0] |= bits << 2;
            untagged[0] |= bits << 2;
            world.side.post_recv(u64::from(bits), whole(&inbox));
            peer.send(&[fpdu(&tagged), fpdu(&untagged)].concat());
            assert_eq!(received(&world.completion()), recv(bits.into(), 8));
            assert_eq!(content(&inbox), [bits; 8]);
            assert_eq!(content(&target)[4 * usize::from(bits)..][..4], [bits; 4]);
        }
    }
}

/// A Send in three segments, and between them a Read Request on queue 1 and a Write. Each is delivered with its own
/// last segment, and the Send not earlier.
// Covers 5041-4.1-7, 5041-5.4-1.
#[test]
fn a_message_is_delivered_with_its_last_segment() {
    for role in ROLES {
        let (world, peer) = open(role);
        let (target, inbox) = (filled(&world.side, 8), filled(&world.side, 16));
        let place = Place(target.rkey().0, target.addr());
        world.side.post_recv(1, whole(&inbox));
        peer.send(&fpdu(&send_part("01", 1, 0, b"abcd")));
        world.expect_no_news();
        peer.send(&fpdu(&read_request(1, Place(7, 0), 8, place)));
        peer.expect(&fpdu(&tagged("C142", 7, 0, &[FILL; 8])));
        peer.send(&fpdu(&send_part("01", 1, 4, b"efgh")));
        peer.send(&fpdu(&tagged("8140", place.0, place.1, b"1234")));
        world.expect_no_news();
        peer.send(&fpdu(&read_request(2, Place(7, 0), 8, place)));
        peer.expect(&fpdu(&tagged("C142", 7, 0, &[b"1234", &[FILL; 4][..]].concat())));
        peer.send(&fpdu(&write(place.0, place.1 + 4, b"5678")));
        world.expect_no_news();
        peer.send(&fpdu(&send_part("41", 1, 8, b"ijkl")));
        assert_eq!(received(&world.completion()), recv(1, 12));
        assert_eq!(content(&inbox), [&b"abcdefghijkl"[..], &[FILL; 4]].concat());
        assert_eq!(content(&target), b"12345678");
    }
}

/// Sends of one to three segments, each behind a Write that names it. Completions come in the order sent, each once.
/// Earlier messages are placed by then.
// Covers 5041-5.3-1, 5041-5.3-6, 5041-5.3-7, 5041-5.4-1.
#[test]
fn messages_are_delivered_in_the_order_sent() {
    for role in ROLES {
        let (world, peer) = open(role);
        let (flag, inbox) = (filled(&world.side, 1), filled(&world.side, 100));
        for wr_id in 0..100_u8 {
            world.side.post_recv(wr_id.into(), inbox.sge(wr_id.into(), 1));
        }
        for number in 0..100_u8 {
            let msn = u32::from(number) + 1;
            let mut octets = fpdu(&write(flag.rkey().0, flag.addr(), &[number]));
            // The payload may be in any of the segments; the others are empty.
            let parts = number % 3;
            for part in 0..parts {
                let payload: &[u8] = if part == 0 { &[number] } else { &[] };
                octets.extend(fpdu(&send_part("01", msn, u32::from(part > 0), payload)));
            }
            let payload: &[u8] = if parts == 0 { &[number] } else { &[] };
            octets.extend(fpdu(&send_part("41", msn, u32::from(parts > 0), payload)));
            peer.send(&octets);
            if number % 10 == 9 {
                for expected in number - 9..=number {
                    assert_eq!(received(&world.completion()), recv(expected.into(), 1));
                }
                assert_eq!(content(&flag), [number]);
            }
        }
        world.expect_no_news();
        assert_eq!(content(&inbox), (0..100).collect::<Vec<u8>>());
    }
}

/// The length of an untagged message is MO and payload of its last segment, also when that one is empty.
// Covers 5041-5.4-2, 5041-4.4-1.
#[test]
fn the_length_of_an_untagged_message_is_reported() {
    for role in ROLES {
        let (world, peer) = open(role);
        let inbox = filled(&world.side, 16);
        let messages = [
            (vector("send0"), 0),
            (fpdu(&send(2, b"1")), 1),
            ([fpdu(&send_part("01", 3, 0, b"abcd")), fpdu(&send_part("41", 3, 4, b"efgh"))].concat(), 8),
            ([fpdu(&send_part("01", 4, 0, b"abcd")), fpdu(&send_part("41", 4, 4, b""))].concat(), 4),
            ([fpdu(&send_part("01", 5, 0, b"")), fpdu(&send_part("41", 5, 0, b"abc"))].concat(), 3),
            ([fpdu(&send_part("01", 6, 0, b"")), fpdu(&send_part("41", 6, 0, b""))].concat(), 0),
            (fpdu(&send(7, &[7; 16])), 16),
        ];
        for (octets, len) in messages {
            world.side.post_recv(1, whole(&inbox));
            peer.send(&octets);
            assert_eq!(received(&world.completion()), recv(1, len));
        }
    }
}

/// The octets for the upper layer in an untagged header reach it with the message, from any one of the segments.
// Covers 5041-5.4-3, 5041-4.3-3, 5041-4.3-5.
#[test]
fn the_octets_for_the_upper_layer_are_reported() {
    for role in ROLES {
        let (world, peer) = open(role);
        let windows = [0, 1, 2].map(|_| world.bound(&world.side.qp, 8));
        let stags = [0, 1, 2].map(|index: usize| windows[index].rkey().0);
        for wr_id in 1..=4 {
            world.side.qp.post_recv(&RecvWr { wr_id, sges: &[] }).unwrap();
        }
        let mut solicited = send(2, b"");
        solicited[1] = 0x45;
        let [mut first, mut last] = [1, 2].map(|index: usize| send_invalidate(4, stags[index], b""));
        (first[0], last[1]) = (0x01, 0x46);
        let all = [send(1, b""), solicited, send_invalidate(3, stags[0], b""), first, last];
        peer.send(&all.map(|ulpdu| fpdu(&ulpdu)).concat());
        let seen = [1, 2, 3, 4].map(|wr_id| {
            let done = world.completion();
            assert_eq!(received(&done), recv(wr_id, 0));
            (done.solicited, done.invalidated)
        });
        assert_eq!(seen[..3], [(false, None), (true, None), (false, Some(stags[0]))]);
        // The two segments of the fourth message differ. Either value would be right; this device takes the last.
        assert_eq!(seen[3], (true, Some(stags[2])));
        assert_eq!(windows.each_ref().map(weft_rnic::Mr::is_invalidated), [true, false, true]);
    }
}

/// Messages of all sizes in segments of all sizes, into an untagged and into a tagged buffer.
// Covers 5041-5.2-4.
#[test]
fn all_payload_is_placed() {
    for role in ROLES {
        let (world, peer) = open(role);
        for (msn, len) in (1..).zip([1_usize, 2, 17, 1000, 1453, 1454, 1455, 60_000, 200_003]) {
            let (target, inbox) = (filled(&world.side, len), filled(&world.side, len));
            world.side.post_recv(1, whole(&inbox));
            let (message, mut start) = (pattern(len), 0);
            while start < len {
                // Segments have from one octet to far more than a TCP segment.
                let end = len.min(start + 1 + start * 7919 % 9000);
                let last = end == len;
                let mo = u32::try_from(start).unwrap();
                let untagged = send_part(if last { "41" } else { "01" }, msn, mo, &message[start..end]);
                let to = target.addr() + start as u64;
                let head = if last { "C140" } else { "8140" };
                peer.send(&fpdu(&tagged(head, target.rkey().0, to, &message[start..end])));
                peer.send(&fpdu(&untagged));
                start = end;
            }
            assert_eq!(received(&world.completion()), recv(1, u32::try_from(len).unwrap()));
            assert!(content(&inbox) == message && content(&target) == message, "{len} octets");
        }
    }
}

/// Memory whose tagged offsets begin anywhere, up to the last possible offset.
// Covers 5041-4.2-11, 5041-8.3-1.
#[test]
fn tagged_messages_begin_anywhere() {
    for role in ROLES {
        let (world, peer) = open(role);
        for iova in [0, 1, 3, 0xFFFF, 0xFFFF_FFF8, u64::MAX - 16] {
            let region = Region::owned(16).unwrap();
            let target = world.side.pd.register_at(region, Access::ALL, iova).unwrap();
            for offset in [0, 1, 7, 15] {
                let place = Place(target.rkey().0, iova + offset);
                peer.send(&fpdu(&write(place.0, place.1, &[0xAB])));
                peer.send(&fpdu(&write(place.0, place.1, b"")));
                let at = usize::try_from(offset).unwrap();
                world.settle();
                assert_eq!(content(&target)[at], 0xAB, "{iova:x} + {offset}");
            }
            assert_eq!(content(&target).iter().filter(|octet| **octet == 0xAB).count(), 4);
        }
        peer.expect_silence();
    }
}

/// Tagged segments may overlap and come twice, inside a message and between messages. Each is placed at its offset,
/// and the last one that names an octet determines it.
// Covers 5041-4.1-1.
#[test]
fn tagged_segments_overlap() {
    for role in ROLES {
        let (world, peer) = open(role);
        let target = filled(&world.side, 16);
        let part = |head, at: u64, octets| fpdu(&tagged(head, target.rkey().0, target.addr() + at, octets));
        let octets = [
            part("8140", 4, b"abcdefgh"),
            part("8140", 6, b"1234"),
            part("8140", 2, b"XYZ"),
            part("8140", 2, b"XYZ"),
            part("C140", 11, b"end"),
            part("C140", 13, b"!"),
        ];
        peer.send(&octets.concat());
        peer.expect_silence();
        let f = FILL;
        let expected = [&[f, f][..], b"XYZb1234g", b"en!", &[f, f]].concat();
        assert_eq!(content(&target), expected);
    }
}

/// STag and TO at the ends of their ranges, in a lone empty segment and behind a segment with octets.
// Covers 5041-5.2-10.
#[test]
fn nothing_is_checked_for_no_octets() {
    for role in ROLES {
        let (world, peer) = open(role);
        let target = filled(&world.side, 8);
        let (stag, to) = (target.rkey().0, target.addr());
        let read_only = world.side.pd.register(8, Access::LOCAL_WRITE | Access::REMOTE_READ).unwrap();
        let foreign = world.side.device.alloc_pd().register(8, Access::ALL).unwrap();
        for stag in [0, 1, stag ^ 1, 0x8000_0000, u32::MAX, stag, read_only.rkey().0, foreign.rkey().0] {
            for to in [0, 1, to - 1, to + 9, 1 << 63, u64::MAX] {
                peer.send(&fpdu(&write(stag, to, b"")));
            }
        }
        peer.send(&fpdu(&tagged("8140", stag, to, b"octets")));
        peer.send(&fpdu(&tagged("C140", 0, u64::MAX, b"")));
        peer.send(&fpdu(&read_request(1, Place(3, 4), 8, Place(stag, to))));
        let expected = [&b"octets"[..], &[FILL; 2]].concat();
        peer.expect(&fpdu(&tagged("C142", 3, 4, &expected)));
        peer.expect_silence();
        world.expect_no_news();
    }
}

/// Every length from zero to more than four words, with any padding. The delivered length is that of the ULPDU
/// without its header. The same octets come joined, and one in each TCP segment.
// Covers 5041-3-4, 5041-3-8.
#[test]
fn the_llp_keeps_boundaries_and_lengths() {
    for role in ROLES {
        for is_slow in [false, true] {
            let (world, peer) = open(role);
            let inbox = filled(&world.side, 24 * 24);
            for len in 0..24_u8 {
                world.side.post_recv(len.into(), inbox.sge(24 * usize::from(len), 24));
            }
            let all: Vec<u8> =
                (0..24).flat_map(|len: u8| fpdu(&send(u32::from(len) + 1, &vec![len; len.into()]))).collect();
            if is_slow {
                peer.send_one_by_one(&all)
            } else {
                peer.send(&all)
            }
            for len in 0..24_u8 {
                assert_eq!(received(&world.completion()), recv(len.into(), len.into()));
            }
            for (len, octets) in content(&inbox).chunks(24).enumerate() {
                assert!(octets[..len].iter().all(|octet| usize::from(*octet) == len));
                assert!(octets[len..].iter().all(|octet| *octet == FILL));
            }
        }
    }
}

/// The wire loses, doubles, reorders and damages frames. Each message comes once, in order and whole. A segment that
/// came twice or out of order would have an MSN or MO that DDP does not expect.
// Covers 5041-3-3, 5041-3-6, 5041-3-14, 5041-5.3-6.
#[test]
fn a_bad_wire_changes_nothing() {
    let faults = ImpairmentConfig {
        loss: 0.03,
        duplicate: 0.2,
        reorder: 0.2,
        corrupt: 0.02,
        delay: Duration::from_micros(100),
        ..ImpairmentConfig::default()
    };
    for seed in 1..=4 {
        let config = PairConfig { seed, faults: faults.clone(), ..PairConfig::default() };
        let mut pair = Pair::new(&config);
        pair.connect(true);
        let memory = pair.b.memory(300 * 2000);
        let source = pair.a.memory(100 * 2000);
        for batch in 0..3_u64 {
            for number in batch * 100..(batch + 1) * 100 {
                pair.b.post_recv(number, memory.sge(usize::try_from(number).unwrap() * 2000, 2000));
            }
            let len = |number: u64| u32::try_from(number * 1237 % 2000).unwrap();
            // All of them are under way together, so that each fault can mix them up.
            for (place, number) in (0..).step_by(2000).zip(batch * 100..(batch + 1) * 100) {
                source.write(place, &[number.to_le_bytes()[0]; 2000]).unwrap();
                let sges = [source.sge(place, len(number))];
                let signaled = number % 100 == 99;
                let wr = SendWr { signaled, ..work(number, SendOpcode::Send, Data::Sges(&sges)) };
                pair.a.qp.post_send(&wr).unwrap();
            }
            for number in batch * 100..(batch + 1) * 100 {
                assert_eq!(received(&pair.completion_of_b()), recv(number, len(number)));
            }
            assert_eq!(pair.completion_of_a().wr_id, batch * 100 + 99);
        }
        pair.settle(Duration::from_secs(5));
        assert_eq!((pair.b.cq.poll_one(), pair.a.cq.poll_one()), (None, None));
        let placed = content(&memory);
        for (number, octets) in placed.chunks(2000).enumerate() {
            let len = number * 1237 % 2000;
            assert!(octets[..len].iter().all(|octet| *octet == number.to_le_bytes()[0]), "{number}");
            assert!(octets[len..].iter().all(|octet| *octet == 0), "{number}");
        }
    }
}

/// Empty messages of every kind are good messages.
// Covers 5041-4.4-1.
#[test]
fn a_header_alone_is_a_segment() {
    for role in ROLES {
        let (world, peer) = open(role);
        world.side.qp.post_recv(&RecvWr { wr_id: 1, sges: &[] }).unwrap();
        peer.send(&[vector("write0"), vector("send0"), vector("rreq0")].concat());
        peer.expect(&vector("rrsp0"));
        assert_eq!(received(&world.completion()), recv(1, 0));
        peer.expect_silence();
    }
}
