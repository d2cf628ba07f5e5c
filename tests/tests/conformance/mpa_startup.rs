//! Startup frames with every value of every field, in both roles (RFC 5044 section 7.1).

use weft_mpa::StartupError;
use weft_netif::Duration;
use weft_rnic::{CmError, CmEvent, ConnParam, ConnectFailure, Data, QpState, SendOpcode};
use weft_tests::{RawPeer, hex};

use crate::octets::{Framing, join, pattern, send, vector};
use crate::world::{World, exchange, work};

const REQUEST: &str = "4D504120494420526571204672616D65";
const REPLY: &str = "4D504120494420526570204672616D65";
/// The Request of a device without RFC 6581, behind the key.
const PLAIN: &str = "40 01 0000";

/// A device that sends Requests of RFC 5044, and answers revision 1 only.
fn plain() -> World {
    World::with_mpa(weft_mpa::Config { enhanced: false, ..weft_mpa::Config::default() })
}

/// The device sends its Request, and gets this Reply.
fn answer(world: &World, reply: &[u8]) -> RawPeer {
    let remote = world.address_of_peer();
    world.side.device.connect(&world.side.events, &world.side.qp, remote, ConnParam::default()).unwrap();
    let peer = world.host.accept();
    let request = peer.read_exact(20);
    assert_eq!(request[..16], hex(REQUEST));
    if request[17] == 2 {
        peer.read_exact(4);
    }
    peer.send(reply);
    peer
}

/// The device's request fails because of this answer, and TCP is closed at once.
fn expect_refused(world: &World, reply: &[u8], error: StartupError) {
    let peer = answer(world, reply);
    let start = world.host.now();
    let failure = world.connect_error();
    assert_eq!(failure, ConnectFailure::Protocol(error.into()));
    let ConnectFailure::Protocol(error) = failure else { panic!("not the protocol") };
    assert_eq!(error.code(), 0x04);
    peer.expect_fin();
    assert!(world.host.now() - start < Duration::from_secs(1), "closed late");
    assert_eq!(world.side.qp.state(), QpState::Idle);
}

/// The peer's request is not answered, TCP is closed at once, and the device counts a failure.
fn expect_ignored(world: &World, request: &[u8]) {
    let failures = world.side.device.counters().startup_failures;
    let peer = world.dial();
    let start = world.host.now();
    peer.send(request);
    peer.expect_fin();
    assert!(world.host.now() - start < Duration::from_secs(1), "closed late");
    assert_eq!(world.side.device.counters().startup_failures, failures + 1);
    peer.close();
    world.expect_no_news();
}

/// Each bit of the key, and the key of the other frame.
// Covers 5044-7.1.1-2, 5044-7.1.1-4, 5044-7.1.2-16, 5044-8-9.
#[test]
fn a_wrong_key_closes_the_connection() {
    let world = plain();
    for bit in 0..128 {
        let [mut request, mut reply] = [REQUEST, REPLY].map(|key| join(key, &[&hex(PLAIN)]));
        request[bit / 8] ^= 1 << (bit % 8);
        reply[bit / 8] ^= 1 << (bit % 8);
        expect_ignored(&world, &request);
        expect_refused(&world, &reply, StartupError::Key);
    }
    expect_ignored(&world, &vector("mpa-rep1"));
    world.expect_service();
}

/// Two initiators find each other out by the key, and two responders by a timeout.
// Covers 5044-7.1.2-20, 5044-7.1.2-21, 5044-7.1.2-26, 5044-8-4.
#[test]
fn two_initiators_and_two_responders() {
    let world = plain();
    for frame in ["mpa-req1", "mpa-req1-m", "mpa-req1-pd", "mpa-req2"] {
        expect_refused(&world, &vector(frame), StartupError::Key);
    }
    let start = world.host.now();
    let (silent, slow) = (world.dial(), world.dial());
    // A single octet now and then does not extend the time.
    for octet in &vector("mpa-req1")[..19] {
        slow.send(std::slice::from_ref(octet));
        world.settle();
    }
    silent.expect_reset();
    slow.expect_reset();
    let taken = world.host.now() - start;
    assert!((Duration::from_secs(40)..Duration::from_secs(41)).contains(&taken), "{taken}");
    let remote = world.address_of_peer();
    let start = world.host.now();
    world.side.device.connect(&world.side.events, &world.side.qp, remote, ConnParam::default()).unwrap();
    assert_eq!(world.connect_error(), ConnectFailure::TimedOut);
    let taken = world.host.now() - start;
    assert!((Duration::from_secs(40)..Duration::from_secs(41)).contains(&taken), "{taken}");
}

/// All 256 values of the octet with the flags. In a Request M and C alone mean something.
// Covers 5044-7.1.1-12, 5044-7.1.1-15, 5044-7.1.1-14, 5044-7.1.1-16.
#[test]
fn every_value_of_a_requests_flags() {
    for flags in 0..=255_u8 {
        let world = plain();
        let peer = world.dial();
        peer.send(&join(REQUEST, &[&[flags, 1, 0, 0]]));
        let id = world.request().id;
        world.side.device.accept(id, &world.side.qp, ConnParam::default()).unwrap();
        peer.expect(&join(REPLY, &[&hex("40 01 0000")]));
        expect_marked(&world, &peer, flags & 0x80 != 0);
    }
}

/// All 256 values of the octet with the flags. In a Reply M, C and R mean something.
// Covers 5044-7.1.1-13, 5044-7.1.1-15, 5044-7.1.2-14, 5044-7.1.1-11.
#[test]
fn every_value_of_a_replys_flags() {
    for flags in 0..=255_u8 {
        let world = plain();
        let remote = world.address_of_peer();
        world.side.device.connect(&world.side.events, &world.side.qp, remote, ConnParam::default()).unwrap();
        let peer = world.host.accept();
        // M and R, and all reserved bits, are zero.
        peer.expect(&join(REQUEST, &[&hex("40 01 0000")]));
        peer.send(&join(REPLY, &[&[flags, 1, 0, 2], b"no"]));
        if flags & 0x20 == 0 {
            expect_marked(&world, &peer, flags & 0x80 != 0);
        } else {
            let CmEvent::Rejected { private_data, .. } = world.event() else { panic!("not rejected") };
            assert_eq!(&private_data[..], b"no");
            assert_eq!(world.side.qp.state(), QpState::Idle);
        }
    }
}

/// Begins Full Operation, in which the device sends Markers or not.
fn expect_marked(world: &World, peer: &RawPeer, markers: bool) {
    assert!(matches!(world.event(), CmEvent::Established { .. }));
    peer.send(&vector("write0"));
    world.side.qp.post_send(&work(1, SendOpcode::Send, Data::Inline(b"hello"))).unwrap();
    peer.expect(&Framing::new(true, markers).fpdu(&send(1, b"hello")));
}

/// All 256 revisions in both frames. Revision 1 is taken, and 2 where RFC 6581 is in use. No other one passes for
/// these.
// Covers 5044-7.1.1-17, 5044-7.1.1-18, 5044-C.1-2, 5044-7.1.1-16.
#[test]
fn every_revision() {
    for revision in 0..=255_u8 {
        let request = join(REQUEST, &[&[0x40, revision, 0, 0]]);
        for world in [plain(), World::new()] {
            if revision == 1 || (revision == 2 && world.mpa.enhanced) {
                let peer = world.dial();
                peer.send(&request);
                let request = world.request();
                assert_eq!(request.revision, revision);
                world.side.device.accept(request.id, &world.side.qp, ConnParam::default()).unwrap();
                peer.expect(&join(REPLY, &[&[0x40, revision, 0, 0]]));
            } else {
                expect_ignored(&world, &request);
            }
        }
        let reply = join(REPLY, &[&[0x40, revision, 0, 0]]);
        if revision == 1 {
            let world = plain();
            answer(&world, &reply);
            assert!(matches!(world.event(), CmEvent::Established { .. }));
        } else {
            expect_refused(&plain(), &reply, StartupError::Revision(revision));
        }
        if revision != 2 {
            expect_refused(&World::new(), &reply, StartupError::Revision(revision));
        }
    }
}

/// Private Data of no octets, one octet, and the most: exactly these octets arrive, and the next octets are an FPDU.
// Covers 5044-7.1.1-20, 5044-7.1.2-23, 5044-7.1.2-24, 5044-7.1.1-22.
#[test]
fn private_data_of_every_length() {
    for size in [0, 1, 2, 3, 4, 511, 512] {
        let (theirs, ours) = (pattern(size), pattern(size + 3)[3..].to_vec());
        let len = u16::try_from(size).unwrap().to_be_bytes();
        let param = ConnParam { private_data: &ours, ..ConnParam::default() };
        let frame = |key, data: &[u8]| join(key, &[&[0x40, 0x01], &len, data]);

        let world = plain();
        let memory = world.side.memory(16);
        world.side.post_recv(1, memory.sge(0, 16));
        let peer = world.dial();
        peer.send(&[frame(REQUEST, &theirs), vector("send5")].concat());
        let request = world.request();
        assert_eq!(request.private_data[..], theirs);
        world.side.device.accept(request.id, &world.side.qp, param).unwrap();
        peer.expect(&frame(REPLY, &ours));
        assert!(matches!(world.event(), CmEvent::Established { .. }));
        assert_eq!(world.completion().byte_len, 5);
        exchange(&world, &world.side.qp, &peer, 2);

        let world = plain();
        let memory = world.side.memory(16);
        world.side.post_recv(1, memory.sge(0, 16));
        let remote = world.address_of_peer();
        world.side.device.connect(&world.side.events, &world.side.qp, remote, param).unwrap();
        let peer = world.host.accept();
        peer.expect(&frame(REQUEST, &ours));
        peer.send(&[frame(REPLY, &theirs), vector("send5")].concat());
        let CmEvent::Established { private_data, .. } = world.event() else { panic!("not established") };
        assert_eq!(private_data[..], theirs);
        assert_eq!(world.completion().byte_len, 5);
        exchange(&world, &world.side.qp, &peer, 2);
    }
}

/// More than 512 octets are refused as soon as the length has come, also if 4 of them are IRD and ORD.
// Covers 5044-7.1.1-21, 5044-7.1.2-22, 5044-7.1.2-25, 5044-7.1.2-12.
#[test]
fn too_much_private_data_is_refused_at_its_length() {
    let (world, enhanced) = (plain(), World::new());
    for len in [513_u16, 514, 0x0300, 0x4000, 0xFFFE, 0xFFFF] {
        for present in [0, 1, 4, 600] {
            let tail = [&len.to_be_bytes()[..], &vec![0; present]].concat();
            let error = StartupError::PrivateDataTooLong { len: usize::from(len), max: 512 };
            expect_ignored(&world, &join(REQUEST, &[&[0x40, 1], &tail]));
            expect_refused(&world, &join(REPLY, &[&[0x40, 1], &tail]), error);
            expect_ignored(&enhanced, &join(REQUEST, &[&[0x50, 2], &tail]));
            expect_refused(&enhanced, &join(REPLY, &[&[0x50, 2], &tail]), error);
        }
    }
}

/// Frames that end before they are whole, by FIN, with every length that a good frame has before its last octet.
// Covers 5044-7.1.1-21, 5044-7.1.2-4, 5044-8-1, 5044-7.1.2-12.
#[test]
fn truncated_frames_are_refused() {
    for data in [&b"abcd"[..], b""] {
        let tail = [&[0x40, 0x01, 0, u8::try_from(data.len()).unwrap()], data].concat();
        let [request, reply] = [REQUEST, REPLY].map(|key| join(key, &[&tail]));
        let world = plain();
        for len in 0..request.len() {
            let failures = world.side.device.counters().startup_failures;
            let peer = world.dial();
            peer.send(&request[..len]);
            peer.close();
            peer.expect_fin();
            assert_eq!(world.side.device.counters().startup_failures, failures + 1);
            let peer = answer(&world, &reply[..len]);
            world.expect_no_news();
            peer.close();
            assert_eq!(world.connect_error(), ConnectFailure::Closed, "after {len} octets");
            peer.expect_fin();
        }
        world.expect_service();
    }
}

/// The application cannot give more than fits, and nothing is sent when it tries.
// Covers 5044-7.1.1-23.
#[test]
fn no_more_private_data_than_fits_is_taken_from_the_application() {
    for (enhanced, max) in [(false, 512), (true, 508)] {
        let world = World::with_mpa(weft_mpa::Config { enhanced, ..weft_mpa::Config::default() });
        let (side, remote) = (&world.side, world.address_of_peer());
        let data = pattern(4000);
        for len in [max + 1, max + 4, 4000] {
            let param = ConnParam { private_data: &data[..len], ..ConnParam::default() };
            let refused = side.device.connect(&side.events, &side.qp, remote, param);
            assert_eq!(refused, Err(CmError::PrivateDataTooLong { len, max }));
        }
        world.expect_no_news();
        let param = ConnParam { private_data: &data[..max], ..ConnParam::default() };
        side.device.connect(&side.events, &side.qp, remote, param).unwrap();
        let octets = world.host.accept().read_exact(20 + 512);
        assert_eq!((&octets[18..20], &octets[532 - max..]), (&[2, 0][..], &data[..max]));

        // The responder's application too, whichever way it answers.
        for accepts in [true, false] {
            let (qp, peer) = (world.new_qp(), world.dial());
            peer.send(&vector(if enhanced { "mpa-req2-noauto" } else { "mpa-req1" }));
            let id = world.request().id;
            let answer = |len: usize| {
                let param = ConnParam { private_data: &data[..len], ..ConnParam::default() };
                if accepts {
                    side.device.accept(id, &qp, param)
                } else {
                    side.device.reject(id, &data[..len])
                }
            };
            for len in [max + 1, max + 4, 4000] {
                assert_eq!(answer(len), Err(CmError::PrivateDataTooLong { len, max }));
            }
            peer.expect_silence();
            answer(max).unwrap();
            let octets = peer.read_exact(20 + 512);
            assert_eq!((&octets[18..20], &octets[532 - max..]), (&[2, 0][..], &data[..max]));
            assert_eq!(matches!(world.side.events.next(), Some(CmEvent::Established { .. })), accepts);
        }
    }
}
