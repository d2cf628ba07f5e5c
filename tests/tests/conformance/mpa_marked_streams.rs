//! Whole streams with Markers: their beginning, and a Marker at every 512th octet and nowhere else.

use weft_rnic::{ConnParam, Data, SendOpcode, Status};
use weft_tests::{PairConfig, RawPeer};

use crate::negotiation::{Wish, start, start_with};
use crate::octets::{Framing, crc32c, fpdu, join, number, pattern, send, vector};
use crate::world::{ROLES, Role, World, whole, work};

const PLAIN: Wish = Wish { markers: false, crc: true };
const MARKED: Wish = Wish { markers: true, crc: true };

/// An FPDU as it was found in a stream.
struct Found {
    /// The place of its length field.
    header: usize,
    ulpdu: Vec<u8>,
}

/// Takes a stream with Markers apart by positions and length fields alone, and checks every Marker and CRC.
fn take_apart(stream: &[u8]) -> Vec<Found> {
    let (mut at, mut found) = (0, Vec::new());
    while at < stream.len() {
        let start = at;
        let (mut content, mut header) = (Vec::new(), None);
        let mut missing = 2;
        while missing > 0 {
            if at % 512 == 0 {
                assert_eq!(stream[at..at + 2], [0, 0], "the reserved half at {at}");
                let pointer = number(&stream[at + 2..at + 4]);
                assert_eq!(pointer & 3, 0, "the low bits at {at}");
                assert_eq!(pointer, header.map_or(0, |header| at - header), "FPDUPTR at {at}");
                at += 4;
            }
            header.get_or_insert(at);
            content.push(stream[at]);
            at += 1;
            missing -= 1;
            if content.len() == 2 {
                missing = (number(&content) + 2).next_multiple_of(4) - 2;
            }
        }
        // A Marker between the padding and the CRC belongs to the FPDU.
        if at % 512 == 0 {
            assert_eq!(Some(number(&stream[at + 2..at + 4])), header.map(|header| at - header));
            at += 4;
        }
        assert_eq!(stream[at..at + 4], crc32c(&stream[start..at]).to_le_bytes(), "the CRC at {at}");
        at += 4;
        let len = number(&content);
        assert!(content[2 + len..].iter().all(|octet| *octet == 0), "padding of zeros");
        found.push(Found { header: header.unwrap(), ulpdu: content[2..2 + len].to_vec() });
    }
    found
}

/// Returns the device's stream of Sends of these sizes, octet by octet.
fn stream_of(world: &World, peer: &RawPeer, sizes: &[usize]) -> Vec<u8> {
    let mut stream = Vec::new();
    let mut framing = Framing::new(true, true);
    for (msn, size) in (1..).zip(sizes) {
        let memory = world.side.memory((*size).max(1));
        memory.write(0, &pattern(*size)).unwrap();
        let sges = [memory.sge(0, u32::try_from(*size).unwrap())];
        world.side.qp.post_send(&work(1, SendOpcode::Send, Data::Sges(&sges))).unwrap();
        stream.extend(peer.read_exact(framing.fpdu(&send(msn, &pattern(*size))).len()));
        assert_eq!(world.completion().status, Status::Success);
    }
    stream
}

/// Sizes up to a little less than what fits into one segment.
// Covers 5044-4.2-2, 5044-4.2-5, 5044-4.3-4, 5044-4.1-2.
#[test]
fn a_marker_at_every_512th_octet_and_nowhere_else() {
    for role in ROLES {
        let (world, peer) = start(role, PLAIN, MARKED);
        peer.send(&vector("write0"));
        let sizes: Vec<_> = (0..60).map(|index| index * 379 % 1421).collect();
        let stream = stream_of(&world, &peer, &sizes);
        assert!(stream.len() > 40_000);
        let found = take_apart(&stream);
        let expected: Vec<_> = (1..).zip(&sizes).map(|(msn, size)| send(msn, &pattern(*size))).collect();
        assert!(found.into_iter().map(|found| found.ulpdu).eq(expected));
    }
}

/// With many FPDUs in an interval, a Marker points to the one that it interrupts, or is between two.
// Covers 5044-4.3-12, 5044-4.2-1, 5044-4.3-7, 5044-4.3-5.
#[test]
fn markers_among_many_small_fpdus() {
    for role in ROLES {
        let (world, peer) = start(role, PLAIN, MARKED);
        peer.send(&vector("write0"));
        let stream = stream_of(&world, &peer, &[24; 300]);
        let headers: Vec<_> = take_apart(&stream).iter().map(|found| found.header).collect();
        let (mut between, mut inside) = (0, 0);
        for marker in (0..stream.len()).step_by(512) {
            let pointer = number(&stream[marker + 2..marker + 4]);
            if pointer == 0 {
                assert!(headers.contains(&(marker + 4)), "the Marker at {marker}");
                between += 1;
            } else {
                // The Marker points to the last FPDU that begins before it, and not to an earlier one.
                assert_eq!(headers.iter().rfind(|header| **header < marker), Some(&(marker - pointer)));
                inside += 1;
            }
        }
        assert!(between > 1 && inside > 20, "{between} {inside}");
    }
}

/// FPDUs with up to seventeen Markers inside. Each points back to the one length field, and the CRC covers them all.
// Covers 5044-4.3-11, 5044-4.3-1, 5044-4.3-5.
#[test]
fn all_markers_of_a_large_fpdu_point_at_its_length_field() {
    for (role, first) in [(Role::Passive, 0), (Role::Active, 300)] {
        let config = PairConfig { mtu: 9000, ..PairConfig::default() };
        let (world, peer) = start_with(&config, role, PLAIN, MARKED);
        peer.send(&vector("write0"));
        let stream = stream_of(&world, &peer, &[first, 8850]);
        let found = take_apart(&stream);
        let [_, Found { header, ulpdu }] = &found[..] else { panic!("{} FPDUs", found.len()) };
        assert_eq!(*ulpdu, send(2, &pattern(8850)));
        let inside: Vec<_> = (0..stream.len()).step_by(512).filter(|marker| marker > header).collect();
        assert!(inside.len() >= 17, "{}", inside.len());
        for marker in inside {
            assert_eq!(stream[marker..marker + 2], [0, 0]);
            assert_eq!(number(&stream[marker + 2..marker + 4]), marker - header);
        }
    }
}

/// The first Marker of the figures of RFC 5044, and the vectors of every other special place.
// Covers 5044-4.4-1, 5044-4.4-13, 5044-4.4-17, 5044-4.3-15.
#[test]
fn the_streams_of_the_vectors_are_sent_and_taken() {
    let counting = |len: usize| (0..len).map(|i| i.to_le_bytes()[0]).collect::<Vec<u8>>();
    let cases = [
        ("m-send0", vec![vec![]]),
        ("m-fig5", vec![vec![0; 24]]),
        ("m-fig6", vec![vec![0; 464], vec![0; 24]]),
        ("m-between", vec![counting(484), vec![]]),
        ("m-before-crc", vec![counting(488)]),
        ("m-before-crc-pad", vec![counting(487)]),
        ("m-1400", vec![counting(1400)]),
    ];
    for (name, messages) in &cases {
        for role in ROLES {
            let (world, peer) = start(role, MARKED, MARKED);
            let memory = world.side.memory(1400);
            for message in messages {
                world.side.post_recv(1, whole(&memory));
                assert!(message.len() <= memory.len());
            }
            peer.send(&vector(name));
            for message in messages {
                let received = world.completion();
                assert_eq!((received.status, received.byte_len as usize), (Status::Success, message.len()));
            }
            let last = messages.last().unwrap();
            assert_eq!(crate::world::content(&memory)[..last.len()], last[..], "{name}");
            for message in messages {
                memory.write(0, message).unwrap();
                let sges = [memory.sge(0, u32::try_from(message.len()).unwrap())];
                world.side.qp.post_send(&work(1, SendOpcode::Send, Data::Sges(&sges))).unwrap();
                assert_eq!(world.completion().status, Status::Success);
            }
            peer.expect(&vector(name));
        }
    }
}

/// Markers count from the first FPDU of their own direction: private data of odd lengths does not move them.
// Covers 5044-4.3-10, 5044-7.1-5, 5044-4.3-9, 5044-7.1.1-14.
#[test]
fn startup_frames_do_not_count_for_markers() {
    for size in [1, 2, 3, 511, 512] {
        let mpa = weft_mpa::Config { markers: true, enhanced: false, ..weft_mpa::Config::default() };
        let world = World::with_mpa(mpa);
        let data = pattern(size);
        let param = ConnParam { private_data: &data, ..ConnParam::default() };
        let len = u16::try_from(size).unwrap().to_be_bytes();
        let [request, reply] = ["4D504120494420526571204672616D65", "4D504120494420526570204672616D65"]
            .map(|key| join(key, &[&[0xC0, 0x01], &len, &data]));
        let peer = world.dial();
        peer.send(&request);
        world.side.device.accept(world.request().id, &world.side.qp, param).unwrap();
        // The frame has neither CRC nor Marker, though it may be longer than the space between two Markers.
        peer.expect(&reply);
        expect_marked_exchange(&world, &peer);

        let world = World::with_mpa(mpa);
        let remote = world.address_of_peer();
        world.side.device.connect(&world.side.events, &world.side.qp, remote, param).unwrap();
        let peer = world.host.accept();
        peer.expect(&request);
        peer.send(&reply);
        expect_marked_exchange(&world, &peer);
    }
}

/// The stream of each direction begins with a Marker of zeros, and the next one is at 512.
fn expect_marked_exchange(world: &World, peer: &RawPeer) {
    assert!(matches!(world.event(), weft_rnic::CmEvent::Established { .. }));
    let (memory, stream) = (world.side.memory(1400), vector("m-1400"));
    assert_eq!((&stream[..4], &stream[512..516]), (&[0; 4][..], &[0, 0, 1, 0xFC][..]));
    world.side.post_recv(1, whole(&memory));
    peer.send(&stream);
    assert_eq!(world.completion().status, Status::Success);
    world.side.qp.post_send(&work(2, SendOpcode::Send, Data::Sges(&[whole(&memory)]))).unwrap();
    peer.expect(&stream);
}

/// A responder sends no octet, not even the first Marker, before it has validated an FPDU. An initiator sends the
/// first Marker with its first FPDU.
// Covers 5044-7.1.2-15, 5044-7.1.2-19, 5044-4.3-9.
#[test]
fn the_first_octets_of_full_operation() {
    for (markers, first) in [(true, vector("m-send0")), (false, vector("send0"))] {
        let theirs = Wish { markers, crc: true };
        let (world, peer) = start(Role::Active, PLAIN, theirs);
        peer.expect_silence();
        world.side.qp.post_send(&work(1, SendOpcode::Send, Data::Inline(b""))).unwrap();
        peer.expect(&first);

        let (world, peer) = start(Role::Passive, PLAIN, theirs);
        world.side.qp.post_send(&work(1, SendOpcode::Send, Data::Inline(b""))).unwrap();
        peer.expect_silence();
        let opener = vector("write0");
        peer.send(&opener[..opener.len() - 1]);
        peer.expect_silence();
        peer.send(&opener[opener.len() - 1..]);
        peer.expect(&first);

        // An FPDU with a bad CRC is not valid: the connection ends, and nothing is sent.
        let (world, peer) = start(Role::Passive, PLAIN, theirs);
        world.side.qp.post_send(&work(1, SendOpcode::Send, Data::Inline(b""))).unwrap();
        let mut bad = vector("write0");
        bad[3] ^= 1;
        peer.send(&bad);
        peer.expect_fin();
    }
}

/// A side that does not ask for Markers gets none, and takes a stream without them.
// Covers 5044-7.1.1-5, 5044-4.3-2, 5044-7.1.1-7.
#[test]
fn no_markers_unless_a_side_asks() {
    for role in ROLES {
        for ours in [PLAIN, MARKED] {
            let (world, peer) = start(role, ours, PLAIN);
            let memory = world.side.memory(1400);
            memory.write(0, &pattern(1400)).unwrap();
            world.side.post_recv(1, whole(&memory));
            peer.send(&Framing::new(true, ours.markers).fpdu(&send(1, &pattern(1400))));
            assert_eq!(world.completion().byte_len, 1400);
            world.side.qp.post_send(&work(2, SendOpcode::Send, Data::Sges(&[whole(&memory)]))).unwrap();
            peer.expect(&fpdu(&send(1, &pattern(1400))));
            peer.expect_silence();
        }
    }
}
