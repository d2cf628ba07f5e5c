//! MULPDU follows EMSS: the peer's MSS option, the device's own MTU, and whether the direction carries Markers
//! (RFC 5044 sections 3, 4.5, 5.1 and A.4).

use weft_ddp::{Queue, Sender};
use weft_mpa::mulpdu;
use weft_rnic::{CmEvent, ConnParam, Data, SendOpcode, Status};
use weft_tests::{PairConfig, RawPeer};

use crate::frames::{Bench, Opening};
use crate::octets::{Framing, fpdu, join, number, pattern, send, send_part, vector, write};
use crate::world::{Role, World, whole, work};

/// The peer's MSS option, the device's MTU, the resulting EMSS, and the MULPDU with Markers and without.
const CASES: [(Option<u16>, usize, usize, usize, usize); 28] = [
    // Without an option, or with a meaningless one, RFC 9293 wants 536.
    (None, 1500, 536, 522, 530),
    (None, 65_535, 536, 522, 530),
    (Some(0), 1500, 536, 522, 530),
    // Never below 128, though such an FPDU takes several segments.
    (Some(1), 1500, 48, 128, 128),
    (Some(48), 576, 48, 128, 128),
    (Some(64), 1500, 64, 128, 128),
    (Some(127), 1500, 127, 128, 128),
    (Some(128), 1500, 128, 128, 128),
    (Some(140), 1500, 140, 130, 134),
    (Some(148), 1500, 148, 138, 142),
    // The boundary of a Marker's spacing.
    (Some(512), 1500, 512, 502, 506),
    (Some(513), 1500, 513, 498, 506),
    (Some(536), 1500, 536, 522, 530),
    (Some(1220), 1500, 1220, 1202, 1214),
    (Some(1440), 1500, 1440, 1422, 1434),
    (Some(1448), 1500, 1448, 1430, 1442),
    (Some(1460), 1500, 1460, 1442, 1454),
    (Some(1461), 9000, 1461, 1442, 1454),
    (Some(1462), 9000, 1462, 1442, 1454),
    (Some(1463), 9000, 1463, 1442, 1454),
    // The device's own MTU is the smaller.
    (Some(1460), 576, 536, 522, 530),
    (Some(65_535), 1500, 1460, 1442, 1454),
    (Some(9999), 9000, 8960, 8882, 8954),
    (Some(8948), 9000, 8948, 8870, 8942),
    // Never above 64768.
    (Some(65_000), 65_535, 65_000, 64_486, 64_768),
    (Some(65_483), 65_535, 65_483, 64_768, 64_768),
    (Some(65_495), 65_535, 65_495, 64_768, 64_768),
    (Some(65_535), 65_535, 65_495, 64_768, 64_768),
];

/// Returns four full segments and a part, as the peer frames them.
fn expected(framing: &mut Framing, message: &[u8], max: usize) -> Vec<Vec<u8>> {
    let parts = message.chunks(max - 18).enumerate();
    parts
        .map(|(index, part)| {
            let offset = u32::try_from(index * (max - 18)).unwrap();
            let control = if offset as usize + part.len() == message.len() { "41" } else { "01" };
            framing.fpdu(&send_part(control, 1, offset, part))
        })
        .collect()
}

/// DDP fills every ULPDU up to MULPDU but for the last, puts one into each FPDU, and no TCP segment is above EMSS.
// Covers 5044-4.5-1, 5044-4.5-2, 5044-3-1, 5044-4.5-7.
#[test]
fn mulpdu_follows_the_peers_mss_and_the_mtu() {
    for (mss, mtu, emss, marked, plain) in CASES {
        for (markers, max) in [(true, marked), (false, plain)] {
            for is_active in [false, true] {
                let case = format!("MSS {mss:?}, MTU {mtu}, Markers {markers}, active {is_active}");
                let mpa = weft_mpa::Config { enhanced: false, ..weft_mpa::Config::default() };
                let config = PairConfig { mtu, mpa, tcp_buffer: 1 << 20, ..PairConfig::default() };
                let mut bench = Bench::new(&config);
                let opening = Opening { mss, ..Opening::USUAL };
                let flags = 0x40 | u8::from(markers) << 7;
                if is_active {
                    bench.establish_active(opening, flags);
                } else {
                    bench.establish(opening, flags);
                }
                bench.peer.send(&vector("write0"));
                bench.peer.segments.clear();
                let message = pattern(4 * (max - 18) + 5);
                let memory = bench.side.memory(message.len());
                memory.write(0, &message).unwrap();
                bench.side.qp.post_send(&work(1, SendOpcode::Send, Data::Sges(&[whole(&memory)]))).unwrap();
                let fpdus = expected(&mut Framing::new(true, markers), &message, max);
                assert_eq!(fpdus.len(), 5);
                let stream = fpdus.concat();
                assert!(bench.peer.read(stream.len()) == stream, "{case}");
                assert_eq!(bench.completion().status, Status::Success, "{case}");
                assert!(bench.peer.segments.iter().all(|segment| segment.len() <= emss), "{case}");
                assert!(
                    bench.peer.segments.iter().any(|segment| segment.len() + 16 > emss.min(max)),
                    "{case}"
                );
            }
        }
    }
}

/// An EMSS that is a multiple of four makes FPDUs that fill their TCP segments: each segment is one.
// Covers 5044-5.1-3, 5044-5.1-1, 5044-4.5-5.
#[test]
fn fpdus_keep_to_tcp_segments() {
    for (mss, max) in [(536, 530), (1448, 1442), (1460, 1454)] {
        let mut bench = Bench::new(&PairConfig::default());
        bench.establish(Opening { mss: Some(mss), ..Opening::USUAL }, 0x40);
        bench.peer.send(&vector("write0"));
        bench.peer.segments.clear();
        let message = pattern(50_000);
        let memory = bench.side.memory(message.len());
        memory.write(0, &message).unwrap();
        bench.side.qp.post_send(&work(1, SendOpcode::Send, Data::Sges(&[whole(&memory)]))).unwrap();
        let fpdus = expected(&mut Framing::new(true, false), &message, max);
        assert!(bench.peer.read(fpdus.concat().len()) == fpdus.concat());
        assert!(bench.peer.segments == fpdus, "MSS {mss}");
    }
}

/// MULPDU is computed again for every segment, and never leaves its range.
// Covers 5044-4.5-6, 5044-3-2, 5044-3-4.
#[test]
fn mulpdu_is_computed_for_each_segment() {
    // Segments that have been cut do not change. The next one is as large as MULPDU is then.
    let mut sender = Sender::new();
    let mut message = sender.untagged(0x43, 0, Queue::Send, 100_000);
    let mut offset = 0;
    for (emss, markers, max) in [
        (1460, false, 1454),
        (1220, false, 1214),
        (1460, true, 1442),
        (64, false, 128),
        (65_535, true, 64_768),
    ] {
        assert_eq!(mulpdu(emss, markers), max);
        let cut = message.next(mulpdu(emss, markers)).unwrap();
        assert_eq!((cut.offset as usize, cut.header.len() + cut.len), (offset, max));
        offset += cut.len;
    }
    for emss in 0..=70_000 {
        for markers in [false, true] {
            assert!((128..=64_768).contains(&mulpdu(emss, markers)), "{emss}");
        }
    }
}

/// The two directions of one connection have their own MULPDU, and so have the connections of one device. Markers for
/// one peer, or those that the device asks for, do not affect another.
// Covers 5044-4.5-6, 5044-3-2, 5041-3-1.
#[test]
fn each_connection_and_direction_has_its_own_mulpdu() {
    for own in [false, true] {
        let world = World::with_mpa(weft_mpa::Config { markers: own, ..weft_mpa::Config::default() });
        let connections = [true, false, true].map(|markers| {
            let (qp, peer) = (world.new_qp(), world.dial());
            let flags = 0x40 | u8::from(markers) << 7;
            peer.send(&join("4D504120494420526571204672616D65", &[&[flags, 1, 0, 0]]));
            world.side.device.accept(world.request().id, &qp, ConnParam::default()).unwrap();
            let flags = 0x40 | u8::from(own) << 7;
            peer.expect(&join("4D504120494420526570204672616D65", &[&[flags, 1, 0, 0]]));
            peer.send(&Framing::new(true, own).fpdu(&write(0, 0, b"")));
            assert!(matches!(world.event(), CmEvent::Established { .. }));
            (qp, peer, markers)
        });
        let message = pattern(5000);
        let memory = world.side.memory(message.len());
        memory.write(0, &message).unwrap();
        for (qp, ..) in &connections {
            qp.post_send(&work(1, SendOpcode::Send, Data::Sges(&[whole(&memory)]))).unwrap();
        }
        for (_qp, peer, markers) in &connections {
            let max = if *markers { 1442 } else { 1454 };
            peer.expect(&expected(&mut Framing::new(true, *markers), &message, max).concat());
            peer.expect_silence();
        }
    }
}

/// A long Send is cut into ULPDUs of `max` octets.
fn expect_cuts(world: &World, peer: &RawPeer, max: usize) {
    peer.send(&vector("write0"));
    let message = pattern(3 * max);
    let memory = world.side.memory(message.len());
    memory.write(0, &message).unwrap();
    world.side.qp.post_send(&work(1, SendOpcode::Send, Data::Sges(&[whole(&memory)]))).unwrap();
    peer.expect(&expected(&mut Framing::new(true, false), &message, max).concat());
}

/// IPv6 takes 20 octets more of the MTU.
// Covers 5044-5.1-1, 5044-4.5-2.
#[test]
fn mulpdu_on_ipv6() {
    for (mtu, max) in [(1280, 1214), (1500, 1434), (9000, 8934)] {
        let addresses = ["fd00::1/64", "fd00::2/64"];
        let world = World::with(&PairConfig { mtu, addresses, ..PairConfig::default() });
        let peer = world.establish(Role::Passive);
        expect_cuts(&world, &peer, max);
    }
}

/// No length field ever has more than the largest ULPDU, 64768 octets.
// Covers 5044-3-5, 5044-3-3, 5044-3-4.
#[test]
fn no_ulpdu_is_above_64768_octets() {
    for markers in [false, true] {
        let mut bench = Bench::new(&PairConfig { mtu: 65_535, tcp_buffer: 1 << 20, ..PairConfig::default() });
        bench.establish(Opening { mss: Some(65_495), ..Opening::USUAL }, 0x40 | u8::from(markers) << 7);
        bench.peer.send(&vector("write0"));
        let message = pattern(64_768 - 18 + 1);
        let memory = bench.side.memory(message.len());
        memory.write(0, &message).unwrap();
        bench.side.qp.post_send(&work(1, SendOpcode::Send, Data::Sges(&[whole(&memory)]))).unwrap();
        let fpdus = expected(&mut Framing::new(true, markers), &message, 64_768);
        let lead = if markers { 4 } else { 0 };
        assert_eq!(number(&fpdus[0][lead..]), 64_768);
        assert!(bench.peer.read(fpdus.concat().len()) == fpdus.concat());
    }
}

/// Small messages that wait together have an FPDU each. Neither a send buffer that is nearly full nor the end of a
/// small one makes ULPDUs small.
// Covers 5044-3-1, 5044-4.5-8, 5044-4.5-5.
#[test]
fn little_room_does_not_shrink_ulpdus() {
    for tcp_buffer in [2048, 3000, 4096, 5000] {
        let mut bench = Bench::new(&PairConfig { tcp_buffer, ..PairConfig::default() });
        bench.establish(Opening::USUAL, 0x40);
        bench.peer.send(&vector("write0"));
        let message = pattern(30_000);
        let memory = bench.side.memory(message.len());
        memory.write(0, &message).unwrap();
        // Small messages come first, so that the buffer never empties at the end of a full segment.
        let mut stream = Vec::new();
        for msn in 1..=7 {
            bench.side.qp.post_send(&work(1, SendOpcode::Send, Data::Inline(b"small"))).unwrap();
            stream.extend(fpdu(&send(msn, b"small")));
        }
        bench.side.qp.post_send(&work(2, SendOpcode::Send, Data::Sges(&[whole(&memory)]))).unwrap();
        assert_eq!(bench.peer.read(stream.len()), stream);
        let mut sizes = Vec::new();
        let mut rest = message.len();
        while rest > 0 {
            let len = number(&bench.peer.read(2));
            let ulpdu = bench.peer.read((len + 2).next_multiple_of(4) + 2);
            assert_eq!(ulpdu[18..len], message[message.len() - rest..][..len - 18]);
            rest -= len - 18;
            sizes.push(len);
        }
        let last = sizes.pop().unwrap();
        assert!(sizes.iter().all(|size| *size == 1454) && last <= 1454, "{tcp_buffer}: {sizes:?} {last}");
    }
}

/// The FPDU that ends a message is short, and would shift all later ones against TCP's segments. So would the end of
/// the send buffer, where TCP cuts a segment. In a long message an FPDU ends with the segment, so that all segments
/// begin with one.
// Covers 5044-5.1-3, 5044-5.1-4, 5044-4.5-5.
#[test]
fn segments_begin_with_fpdus_behind_short_ones_too() {
    const LENGTHS: [usize; 6] = [5, 200_000, 1442 * 6 + 1300, 66_666, 1442 * 5 + 60, 150_000];
    let tcp_buffer = 16 * 1460;
    let mut bench = Bench::new(&PairConfig { tcp_buffer, ..PairConfig::default() });
    bench.establish(Opening::USUAL, 0x40);
    bench.peer.send(&vector("write0"));
    bench.peer.segments.clear();
    let message = pattern(200_000);
    let memory = bench.side.memory(message.len());
    memory.write(0, &message).unwrap();
    for len in LENGTHS {
        let sge = memory.sge(0, u32::try_from(len).unwrap());
        bench.side.qp.post_send(&work(1, SendOpcode::Send, Data::Sges(&[sge]))).unwrap();
    }
    let (mut begins, mut short, mut place) = (Vec::new(), 0, 0);
    for len in LENGTHS {
        let mut rest = len;
        while rest > 0 {
            let len_field = number(&bench.peer.read(2));
            let ulpdu = bench.peer.read((len_field + 2).next_multiple_of(4) + 2);
            assert_eq!(ulpdu[18..len_field], message[len - rest..][..len_field - 18]);
            begins.push(place);
            place += 2 + ulpdu.len();
            rest -= len_field - 18;
            short += usize::from(len_field < 1454);
        }
    }
    assert!(short <= place / tcp_buffer + 3 * LENGTHS.len(), "{short} FPDUs of {} are short", begins.len());
    let mut at = 0;
    for segment in &bench.peer.segments {
        assert!(begins.contains(&at), "a segment begins at {at}, within an FPDU");
        at += segment.len();
    }
    assert_eq!(at, place);
}
