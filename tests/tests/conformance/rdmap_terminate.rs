//! The Terminate header that the device sends (RFC 5040 section 4.8), for every row of the error tables that one
//! segment can bring about: figure 9 of RFC 5040, RFC 5041 section 7.2 and RFC 5044 section 8.

use weft_rnic::{Data, DisconnectReason, SendOpcode, Stag};
use weft_tests::hex;

use crate::octets::{
    Place, fpdu, join, pattern, read_fpdu, read_request, send, send_invalidate, send_part, tagged,
    terminate_read, vector, write,
};
use crate::scene::Scene;
use crate::world::{ROLES, Role, World, open, work};

/// A good Write if `shift` is 0 and `head` is `C140`.
fn to_target(scene: &Scene, head: &str, shift: u64) -> Vec<u8> {
    tagged(head, scene.target.rkey().0, scene.target.addr().wrapping_add(shift), b"12345678")
}

fn request(stag: u32, to: u64) -> Vec<u8> {
    read_request(1, Place(0xCAFE_BABE, 0x1234), 8, Place(stag, to))
}

fn untagged(head: &str, queue: u32, msn: u32) -> Vec<u8> {
    join(head, &[&[0; 4], &queue.to_be_bytes(), &msn.to_be_bytes(), &[0; 4], b"hello"])
}

/// The control word with M, D and R, and the segment that it answers.
type Case = (&'static str, fn(&Scene) -> Vec<u8>);

/// No segment comes before these, and two receives of 16 octets wait for them.
const CASES: [Case; 32] = [
    // RDMAP, Remote Protection Error.
    ("0100 E000", |s| request(s.target.rkey().0 ^ 1, s.target.addr())),
    ("0101 E000", |s| request(s.target.rkey().0, s.target.addr() + 57)),
    ("0102 E000", |s| request(s.write_only.rkey().0, s.write_only.addr())),
    ("0103 E000", |s| request(s.foreign.rkey().0, s.foreign.addr())),
    ("0104 E000", |s| request(s.target.rkey().0, u64::MAX)),
    ("0102 C000", |s| write(s.read_only.rkey().0, s.read_only.addr(), b"12345678")),
    ("0109 C000", |s| send_invalidate(1, s.target.rkey().0 ^ 1, b"hello")),
    ("0109 C000", |s| send_invalidate(1, s.foreign.rkey().0, b"")),
    // RDMAP, Remote Operation Error.
    ("0205 C000", |s| to_target(s, "C100", 0)),
    ("0205 C000", |_| untagged("4103", 0, 1)),
    ("0205 C000", |s| [hex("4181"), request(s.target.rkey().0, s.target.addr())[2..].to_vec()].concat()),
    ("0206 C000", |s| to_target(s, "C14F", 0)),
    ("0206 C000", |_| untagged("414C", 0, 1)),
    ("0206 C000", |_| untagged("4141", 0, 1)),
    ("0207 C000", |s| request(s.target.rkey().0, s.target.addr())[..45].to_vec()),
    // A whole Read Request, but for its L.
    ("0207 C000", |s| [&hex("01"), &request(s.target.rkey().0, s.target.addr())[1..]].concat()),
    ("0207 C000", |s| tagged("C142", s.sink_place.0, s.sink_place.1, b"1234")),
    // DDP, Tagged Buffer Error.
    ("1100 C000", |s| write(s.target.rkey().0 ^ 1, s.target.addr(), b"12345678")),
    ("1101 C000", |s| to_target(s, "8140", 57)),
    ("1102 C000", |s| write(s.foreign.rkey().0, s.foreign.addr(), b"12345678")),
    ("1103 C000", |s| write(s.target.rkey().0, u64::MAX, b"12345678")),
    ("1104 C000", |s| to_target(s, "C240", 0)),
    ("1101 C000", |s| tagged("C142", s.sink_place.0, s.sink_place.1 + 1, b"1")),
    // DDP, Untagged Buffer Error.
    ("1201 C000", |_| untagged("4143", 9, 1)),
    ("1203 C000", |_| untagged("4143", 0, 7)),
    ("1203 C000", |s| [&request(s.target.rkey().0, 0)[..10], &[0; 36]].concat()),
    ("1204 C000", |_| send_part("41", 1, 4, b"hello")),
    ("1205 C000", |_| send(1, b"0123456789abcdefX")),
    ("1205 C000", |_| send_part("01", 1, 0, &[7; 1000])),
    ("1206 C000", |_| untagged("4243", 0, 1)),
    // The segment is too short for a DDP header, so that no header is returned.
    ("1000 0000", |_| hex("4143")),
    ("1000 0000", |_| Vec::new()),
];

/// Returns the device's answer to each case: the octets behind the DDP header, which is always the same.
fn answers(role: Role) -> impl Iterator<Item = (Vec<u8>, Vec<u8>, Vec<u8>)> {
    CASES.into_iter().map(move |(word, bad)| {
        let scene = Scene::new(role);
        let bad = bad(&scene);
        scene.peer.send(&fpdu(&bad));
        let answer = read_fpdu(&scene.peer);
        scene.peer.expect_fin();
        let reason = scene.world.disconnected();
        assert!(matches!(reason, DisconnectReason::LocalTerminate(_)), "{reason:?}");
        assert_eq!(answer[..18], hex("4147 00000000 00000002 00000001 00000000"));
        println!("{word} for {bad:02x?}");
        (hex(word), bad, answer[18..].to_vec())
    })
}

/// Layer and type have four bits each, the code has eight. M, D and R follow, and thirteen zeros. Behind them are the
/// length, the DDP header and the Read Request header, as far as they are returned.
// Covers 5040-4.8-1, 5040-4.8-2, 5040-4.8-3, 5040-4.8-7.
#[test]
fn the_control_word_says_what_is_wrong() {
    for role in ROLES {
        for (word, bad, answer) in answers(role) {
            assert_eq!(answer[..4], word);
            assert_eq!(answer[2] & 0x1F, 0, "reserved");
            assert_eq!(answer[3], 0, "reserved");
            let header = if bad.first().is_some_and(|first| first & 0x80 != 0) { 14 } else { 18 };
            let returned = match word[2] {
                0x00 => Vec::new(),
                0xC0 => [&[0, bad.len().to_be_bytes()[7]], &bad[..header]].concat(),
                _ => [&[0, 46], &bad[..]].concat(),
            };
            if bad.len() < 256 {
                assert_eq!(answer[4..], returned);
            }
        }
        // An error of the lower layer: one bit of a good FPDU is wrong.
        let scene = Scene::new(role);
        let mut octets = fpdu(&to_target(&scene, "C140", 0));
        octets[16] ^= 1;
        scene.peer.send(&octets);
        scene.peer.expect(&vector("term-crc"));
    }
}

/// With M and D the length of the whole segment, and the 14 or 18 octets of its DDP header; with R the 28 of the Read
/// Request. Nothing else.
// Covers 5040-4.8-9, 5040-4.8-10, 5040-4.8-11, 5040-4.8-13.
#[test]
fn the_headers_come_back_as_the_bits_say() {
    for role in ROLES {
        for (word, bad, answer) in answers(role) {
            let (m, d, r) = (answer[2] & 0x80 != 0, answer[2] & 0x40 != 0, answer[2] & 0x20 != 0);
            assert_eq!(m, d);
            if !d {
                assert_eq!(answer, word);
                continue;
            }
            assert_eq!(usize::from(answer[4]) << 8 | usize::from(answer[5]), bad.len(), "segment length");
            let header = if bad[0] & 0x80 != 0 { 14 } else { 18 };
            assert_eq!(answer[6..6 + header], bad[..header], "DDP header");
            let rest = &answer[6 + header..];
            if r {
                assert_eq!(rest, &bad[18..], "RDMA header");
                assert_eq!(rest.len(), 28);
            } else {
                assert_eq!(rest, b"");
            }
        }
    }
}

/// Figure 10: DDP errors, protection errors and operation errors return the DDP header. A protection error of a Read
/// Request returns that request too. No other error returns an RDMA header.
// Covers 5040-4.8-4, 5040-4.8-5, 5040-4.8-6, 5040-4.8-14.
#[test]
fn the_class_of_the_error_decides_what_comes_back() {
    for role in ROLES {
        let mut requests = 0;
        for (_, bad, answer) in answers(role) {
            let (m, d, r) = (answer[2] & 0x80 != 0, answer[2] & 0x40 != 0, answer[2] & 0x20 != 0);
            let has_segment = answer[0] & 0xF != 0;
            assert_eq!((m, d), (has_segment, has_segment));
            let is_request = bad.len() == 46 && bad[..2] == [0x41, 0x41];
            assert_eq!(r, is_request && answer[0] == 0x01);
            requests += usize::from(r);
        }
        assert_eq!(requests, 5);
    }
}

/// If the application has deregistered its memory, no segment caused the error: no header bits, no headers.
// Covers 5040-4.8-12, 5040-4.8-4, 5040-4.8-5, 5040-4.8-6.
#[test]
fn a_local_catastrophic_error_returns_nothing() {
    for role in ROLES {
        for is_receive in [true, false] {
            let (world, peer) = open(role);
            let memory = world.side.memory(64);
            if is_receive {
                world.side.post_recv(1, memory.sge(0, 64));
                drop(memory);
                peer.send(&fpdu(&send(1, b"hello")));
            } else {
                let gone = memory.sge(0, 64);
                drop(memory);
                world.side.qp.post_send(&work(1, SendOpcode::Send, Data::Sges(&[gone]))).unwrap();
            }
            let answer = read_fpdu(&peer);
            assert_eq!(answer, hex("4147 00000000 00000002 00000001 00000000 0000 0000"));
            peer.expect_fin();
        }
    }
}

const SINK: Place = Place(0x0102_0304, 0xFFFF_FFFF_FFFF_0000);

/// Two Reads of `sizes` octets. The source of one is deregistered while the peer reads no octet of the answers.
/// Returns the part of the second answer that the peer has in the end, and the Terminate.
fn interrupted(role: Role, sizes: [u32; 2], is_first_kept: bool) -> (World, Vec<u8>, Place, u32) {
    let (world, peer) = open(role);
    let regions = sizes.map(|size| world.side.memory(size as usize));
    let octets = sizes.map(|size| pattern(size as usize));
    for (region, octets) in regions.iter().zip(&octets) {
        region.write(0, octets).unwrap();
    }
    let places = regions.each_ref().map(|region| Place(region.rkey().0, region.addr()));
    peer.set_reading(false);
    for (msn, (size, place)) in (1..).zip(sizes.into_iter().zip(places)) {
        peer.send(&fpdu(&read_request(msn, SINK, size, place)));
    }
    world.settle();
    let [first, second] = regions;
    let kept = is_first_kept.then_some(first);
    drop(second);
    peer.set_reading(true);
    let (mut sent, mut message) = (0, 0);
    let answer = loop {
        let ulpdu = read_fpdu(&peer);
        if ulpdu[0] & 0x80 == 0 {
            break ulpdu;
        }
        assert_eq!(ulpdu[6..14], SINK.1.wrapping_add(sent as u64).to_be_bytes());
        assert_eq!(ulpdu[14..], octets[message][sent..][..ulpdu.len() - 14]);
        sent += ulpdu.len() - 14;
        if ulpdu[0] & 0x40 != 0 {
            (sent, message) = (0, message + 1);
        }
    };
    peer.expect_fin();
    assert_eq!(message, usize::from(is_first_kept));
    drop(kept);
    (world, answer, places[message], u32::try_from(sent).unwrap())
}

/// The request after so many sent octets: both offsets are moved on, and may wrap, and the size is reduced.
// Covers 5040-4.8-15.
#[test]
fn a_read_that_fails_during_its_answer_comes_back_moved_on() {
    for role in ROLES {
        for sizes in [[2 << 20, 8], [100, 2 << 20]] {
            let is_second = sizes[0] == 100;
            let (world, answer, source, sent) = interrupted(role, sizes, is_second);
            let size = sizes[usize::from(is_second)];
            assert!(sent > 100_000 && sent < size, "{sent} octets were sent before");
            let moved = |place: Place| Place(place.0, place.1.wrapping_add(sent.into()));
            let msn = 1 + u32::from(is_second);
            let rest = read_request(msn, moved(SINK), size - sent, moved(source));
            assert_eq!(answer, terminate_read("0100", &rest));
            world.disconnected();
        }
    }
}

/// A request that waits behind another and has not begun comes back unchanged.
// Covers 5040-4.8-15.
#[test]
fn a_read_that_has_not_begun_comes_back_as_it_was() {
    for role in ROLES {
        let (world, answer, source, sent) = interrupted(role, [2 << 20, 700], true);
        assert_eq!(sent, 0);
        assert_eq!(answer, terminate_read("0100", &read_request(2, SINK, 700, source)));
        world.disconnected();
    }
}

/// A Send cannot be finished, because its memory was deregistered after a part of it was sent.
// Covers 5040-4.8-12, 5040-4.8-14.
#[test]
fn a_send_that_fails_during_its_transfer_returns_nothing() {
    for role in ROLES {
        let (world, peer) = open(role);
        let memory = world.side.memory(2 << 20);
        let write = SendOpcode::Write { stag: Stag(1), to: 0 };
        for opcode in [SendOpcode::Send, write] {
            let sges = [memory.sge(0, 2 << 20)];
            world.side.qp.post_send(&work(1, opcode, Data::Sges(&sges))).unwrap();
        }
        peer.set_reading(false);
        world.settle();
        drop(memory);
        peer.set_reading(true);
        let sent = peer.read_to_fin();
        assert!(sent.len() > 100_000);
        assert_eq!(sent[sent.len() - 28..], vector("term-localcat"));
    }
}
