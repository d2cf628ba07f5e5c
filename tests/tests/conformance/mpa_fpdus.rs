//! The layout of FPDUs. They are found wherever TCP cuts the stream (RFC 5044 sections 4.1, 5 and 6).

use weft_mpa::Error as Mpa;
use weft_netif::Duration;
use weft_rnic::{Cause, CmEvent, ConnParam, Data, DisconnectReason, SendOpcode, Status};
use weft_tests::{PairConfig, RawPeer};

use crate::frames::{Bench, Opening};
use crate::negotiation::{Wish, start};
use crate::octets::{Framing, crc32c, fpdu, number, pattern, send, send_part, vector, write};
use crate::world::{FILL, ROLES, Role, World, content, filled, whole, work};

const PLAIN: Wish = Wish { markers: false, crc: true };
const MARKED: Wish = Wish { markers: true, crc: true };

fn open(role: Role) -> (World, RawPeer) {
    let (world, peer) = start(role, PLAIN, PLAIN);
    peer.send(&vector("write0"));
    (world, peer)
}

/// The vectors were made independently: without payload, with three octets of padding, with none.
// Covers 5044-4.1-1, 5044-4.1-2, 5044-4.4-14, 5044-4.4-13.
#[test]
fn fpdus_octet_for_octet() {
    for role in ROLES {
        for (name, payload) in
            [("send0", &b""[..]), ("send5", b"hello"), ("send-1", b"a"), ("send24z", &[0; 24])]
        {
            let (world, peer) = open(role);
            world.side.qp.post_send(&work(1, SendOpcode::Send, Data::Inline(payload))).unwrap();
            peer.expect(&vector(name));
            assert_eq!(number(&vector(name)), 18 + payload.len());
            let memory = filled(&world.side, 32);
            world.side.post_recv(2, whole(&memory));
            peer.send(&vector(name));
            assert_eq!(world.completion().status, Status::Success);
            assert_eq!(world.completion().byte_len as usize, payload.len());
            assert_eq!(content(&memory)[..payload.len()], *payload);
        }
    }
}

/// The least padding that makes a multiple of four, and nothing but zeros in it; with Markers as well.
// Covers 5044-4.1-3, 5044-4.1-4.
#[test]
fn padding_is_short_and_zero() {
    for (role, theirs) in [(Role::Passive, PLAIN), (Role::Active, PLAIN), (Role::Active, MARKED)] {
        let (world, peer) = start(role, PLAIN, theirs);
        peer.send(&vector("write0"));
        let mut framing = Framing::new(true, theirs.markers);
        for (msn, size) in (1..).zip((0..8).chain(500..508)) {
            let memory = world.side.memory(508);
            memory.write(0, &[0xFF; 508]).unwrap();
            let sges = [memory.sge(0, size)];
            world.side.qp.post_send(&work(1, SendOpcode::Send, Data::Sges(&sges))).unwrap();
            let expected = framing.fpdu(&send(msn, &vec![0xFF; size as usize]));
            assert_eq!(expected.len() % 4, 0);
            let octets = peer.read_exact(expected.len());
            assert_eq!(octets, expected);
            let padding = (4 - (2 + 18 + size as usize) % 4) % 4;
            if !theirs.markers {
                assert_eq!(octets.len(), 2 + 18 + size as usize + padding + 4);
                assert_eq!(octets[octets.len() - 4 - padding..octets.len() - 4], [0; 3][..padding]);
            }
            assert_eq!(world.completion().status, Status::Success);
        }
    }
}

/// The peer may pad with any octets, if the CRC covers them.
// Covers 5044-4.1-5, 5044-3-7.
#[test]
fn padding_of_the_peer_is_ignored() {
    for role in ROLES {
        for padding in [[0xFF; 3], [1, 0, 0], [0, 0, 0x80]] {
            for is_covered in [true, false] {
                let (world, peer) = open(role);
                let memory = filled(&world.side, 16);
                world.side.post_recv(1, whole(&memory));
                let mut octets = vector("send5");
                octets[25..28].copy_from_slice(&padding);
                if is_covered {
                    let crc = crc32c(&octets[..28]).to_le_bytes();
                    octets[28..].copy_from_slice(&crc);
                }
                peer.send(&octets);
                let done = world.completion();
                if is_covered {
                    assert_eq!((done.status, done.byte_len), (Status::Success, 5));
                    assert_eq!(content(&memory)[..6], *b"helloZ");
                } else {
                    assert_eq!(done.status, Status::WorkRequestFlushed);
                    peer.expect(&vector("term-crc"));
                    assert!(matches!(
                        world.disconnected(),
                        DisconnectReason::LocalTerminate(Cause::Mpa(Mpa::Crc { .. }))
                    ));
                }
            }
        }
    }
}

/// Three FPDUs with different payloads, cut in two at every octet, joined, and one octet at a time.
// Covers 5044-5.1-5, 5044-4.3-14, 5044-6-2, 5044-A.4-1.
#[test]
fn any_cut_of_the_stream_gives_the_same_ulpdus() {
    for ours in [PLAIN, MARKED] {
        let len = stream(ours, 0, 0, &mut 0).len();
        for cut in 0..=len {
            let role = ROLES[cut % 2];
            let (world, peer) = start(role, ours, PLAIN);
            let target = filled(&world.side, 8);
            let inbox = [0, 1, 2].map(|_| filled(&world.side, 512));
            for (wr_id, memory) in (1..).zip(&inbox) {
                world.side.post_recv(wr_id, whole(memory));
            }
            let octets = stream(ours, target.rkey().0, target.addr(), &mut 0);
            if cut == len {
                peer.send_one_by_one(&octets);
            } else {
                peer.send(&octets[..cut]);
                world.settle();
                peer.send(&octets[cut..]);
            }
            for (wr_id, size) in [(1, 0), (2, 5), (3, 487)] {
                let done = world.completion();
                assert_eq!((done.wr_id, done.status, done.byte_len), (wr_id, Status::Success, size), "{cut}");
            }
            assert_eq!((&content(&inbox[1])[..6], content(&inbox[0])[0]), (&b"helloZ"[..], FILL));
            assert_eq!(content(&inbox[2])[..487], pattern(487));
            assert_eq!(content(&target), b"octets!!");
        }
    }
}

/// A Send without payload, one of 5 octets, a Write and a Send that is long enough for a Marker inside.
fn stream(ours: Wish, stag: u32, to: u64, count: &mut u32) -> Vec<u8> {
    let mut framing = Framing::new(true, ours.markers);
    let mut next = |payload: &[u8]| {
        *count += 1;
        send(*count, payload)
    };
    let ulpdus = [next(b""), next(b"hello"), write(stag, to, b"octets!!"), next(&pattern(487))];
    ulpdus.iter().flat_map(|ulpdu| framing.fpdu(ulpdu)).collect()
}

/// A thousand FPDUs of all sizes, in TCP segments that do not follow them; half of the time with Markers.
// Covers 5044-5.2-1, 5044-5.1-5, 5044-4.3-15, 5044-A.4-1.
#[test]
fn a_thousand_fpdus_of_all_sizes() {
    for (ours, role) in [(PLAIN, Role::Passive), (MARKED, Role::Active)] {
        for piece in [usize::MAX, 1448, 997, 100] {
            let (world, peer) = start(role, ours, PLAIN);
            let memory = filled(&world.side, 1 << 16);
            let mut framing = Framing::new(true, ours.markers);
            let (mut octets, mut expected) = (Vec::new(), vec![FILL; 1 << 16]);
            for index in 0..1000_usize {
                let (at, size) = (index * 6_151 % 60_000, index * 37 % 1400);
                expected[at..at + size].copy_from_slice(&pattern(size));
                octets.extend(framing.fpdu(&write(
                    memory.rkey().0,
                    memory.addr() + at as u64,
                    &pattern(size),
                )));
            }
            for part in octets.chunks(piece) {
                peer.send(part);
            }
            world.expect_no_news();
            assert!(content(&memory) == expected, "{piece}");
        }
    }
}

/// An FPDU counts only when its last octet has come, whatever the ULPDU is.
// Covers 5044-6-5, 5044-6-1.
#[test]
fn an_fpdu_counts_when_it_is_whole() {
    for role in ROLES {
        let (world, peer) = open(role);
        let memory = filled(&world.side, 8);
        let octets = fpdu(&write(memory.rkey().0, memory.addr(), b"12345678"));
        for at in 0..octets.len() - 1 {
            peer.send(&octets[at..=at]);
            world.host.settle(Duration::from_millis(50));
            assert_eq!(content(&memory), [FILL; 8], "{at}");
        }
        world.settle();
        assert_eq!(content(&memory), [FILL; 8]);
        peer.send(&octets[octets.len() - 1..]);
        world.settle();
        assert_eq!(content(&memory), *b"12345678");
    }
}

/// A Send in two segments is two FPDUs, each with one DDP header, in both directions.
// Covers 5044-3-1, 5044-4.3-14.
#[test]
fn one_ulpdu_in_each_fpdu() {
    for role in ROLES {
        let (world, peer) = open(role);
        let memory = filled(&world.side, 2000);
        world.side.post_recv(1, whole(&memory));
        peer.send(&vector("send-2seg"));
        assert_eq!(world.completion().byte_len, 8);
        assert_eq!(content(&memory)[..8], *b"abcdefgh");
        memory.write(0, &pattern(2000)).unwrap();
        world.side.qp.post_send(&work(2, SendOpcode::Send, Data::Sges(&[whole(&memory)]))).unwrap();
        peer.expect(&fpdu(&send_part("01", 1, 0, &pattern(2000)[..1436])));
        peer.expect(&fpdu(&send_part("41", 1, 1436, &pattern(2000)[1436..])));
        peer.expect_silence();
    }
}

/// Segments come in any order, twice and overlapping. No octet is handed up before the gap is closed.
// Covers 5044-1.2-1, 5044-5.1-5, 5044-7.1.5-4, 5041-3-6.
#[test]
fn segments_out_of_order() {
    let mut bench = Bench::new(&PairConfig::default());
    let request = vector("mpa-req1");
    bench.peer.dial(Opening::USUAL);
    // The Request comes out of order as well.
    bench.peer.send_at(9, &request[9..]);
    bench.peer.settle(Duration::from_secs(1));
    assert_eq!(bench.side.events.next(), None);
    bench.peer.send_at(0, &request[..12]);
    let CmEvent::ConnectRequest(event) = bench.event() else { panic!("no request") };
    bench.side.device.accept(event.id, &bench.side.qp, ConnParam::default()).unwrap();
    assert_eq!(bench.peer.read(20), vector("mpa-rep1"));
    let memory = filled(&bench.side, 16);
    let inbox = [filled(&bench.side, 16), filled(&bench.side, 16)];
    bench.side.post_recv(1, whole(&inbox[0]));
    bench.side.post_recv(2, whole(&inbox[1]));
    let octets: Vec<_> =
        [send(1, b"first"), write(memory.rkey().0, memory.addr(), b"WRITE"), send(2, b"second")]
            .iter()
            .flat_map(|ulpdu| fpdu(ulpdu))
            .collect();
    assert_eq!(octets.len(), 32 + 28 + 32);
    let start = bench.peer.sent();
    // The second and the third are whole FPDUs in segments of their own, but the first lacks an octet.
    for (from, to) in [(60, 92), (32, 60), (32, 60), (1, 32), (20, 70)] {
        bench.peer.send_at(start + from, &octets[from..to]);
        bench.peer.settle(Duration::from_millis(100));
        assert_eq!(bench.side.cq.poll_one(), None, "{from} to {to}");
        assert_eq!(content(&memory), [FILL; 16]);
    }
    bench.peer.send_at(start, &octets[..1]);
    for (wr_id, size) in [(1, 5), (2, 6)] {
        let done = bench.completion();
        assert_eq!((done.wr_id, done.status, done.byte_len), (wr_id, Status::Success, size));
    }
    assert_eq!((&content(&inbox[0])[..5], &content(&inbox[1])[..6]), (&b"first"[..], &b"second"[..]));
    assert_eq!(content(&memory)[..6], *b"WRITEZ");
}

/// The octets around the change of modes are lost and repeated like any others. TCP sends unacknowledged octets
/// again, in the same place, and hands up no octet twice.
// Covers 5044-7.1.5-3, 5044-7.1.5-4.
#[test]
fn tcps_rules_hold_while_the_mode_changes() {
    let mut bench = Bench::new(&PairConfig::default());
    let (request, hello) = (vector("mpa-req1"), vector("send5"));
    bench.peer.dial(Opening::USUAL);
    bench.peer.send(&request);
    let CmEvent::ConnectRequest(event) = bench.event() else { panic!("no request") };
    // The Reply is lost, and the peer repeats its Request.
    bench.peer.is_mute = true;
    bench.side.device.accept(event.id, &bench.side.qp, ConnParam::default()).unwrap();
    bench.peer.settle(Duration::from_millis(100));
    bench.peer.send_at(0, &request);
    bench.peer.settle(Duration::from_millis(100));
    bench.peer.is_mute = false;
    assert_eq!(bench.peer.read(20), vector("mpa-rep1"));
    assert!(matches!(bench.event(), CmEvent::Established { .. }));
    // The peer repeats it once more together with its first FPDU, which then comes again by itself.
    let inbox = filled(&bench.side, 32);
    bench.side.post_recv(1, inbox.sge(0, 16));
    bench.side.post_recv(2, inbox.sge(16, 16));
    bench.peer.send_at(0, &[&request[..], &hello].concat());
    bench.peer.send_at(request.len(), &hello);
    let done = bench.completion();
    assert_eq!((done.wr_id, done.status, done.byte_len), (1, Status::Success, 5));
    // The device's first FPDU is lost in turn.
    bench.peer.is_mute = true;
    bench.side.qp.post_send(&work(3, SendOpcode::Send, Data::Inline(b"hello"))).unwrap();
    bench.peer.settle(Duration::from_millis(100));
    assert_eq!(bench.completion().wr_id, 3);
    bench.peer.is_mute = false;
    assert_eq!(bench.peer.read(32), hello);
    bench.peer.settle(Duration::from_secs(5));
    assert_eq!(bench.peer.segments.concat(), [vector("mpa-rep1"), hello].concat());
    assert_eq!((bench.side.cq.poll_one(), bench.side.events.next()), (None, None));
    assert_eq!(content(&inbox), [&b"hello"[..], &[FILL; 27]].concat());
}
