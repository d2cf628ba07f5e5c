//! Revisions, the S bit and the enhanced data (RFC 6581 sections 6, 9 and 10).

use weft_mpa::StartupError;
use weft_rnic::{CmError, CmEvent, ConnParam, ConnectFailure, QpState};
use weft_tests::{RawPeer, hex};

use crate::handshake::{
    DEFAULT, OPEN, PEER_TO_PEER, REPLY, REQUEST, accept, ask, connect, depths, enhanced, with_rtr, world_of,
};
use crate::octets::{join, pattern, vector};
use crate::world::{Role, World, exchange};

const PLAIN: weft_mpa::Config = weft_mpa::Config {
    crc: true,
    markers: false,
    enhanced: false,
    ird: 16,
    ord: 16,
    peer_to_peer: false,
    rtr: weft_mpa::RtrSet::ALL,
};

/// Private data of `len` octets that could be taken for enhanced data.
fn data(len: usize) -> Vec<u8> {
    vec![0x40; len]
}

/// Returns octets 16 to 19 and the enhanced data of the frames that a device sends as initiator and as responder.
fn frames(mpa: weft_mpa::Config, param: ConnParam<'_>, peers: &str) -> [Vec<u8>; 2] {
    let world = world_of(mpa);
    let remote = world.address_of_peer();
    let qp = world.new_qp();
    world.side.device.connect(&world.side.events, &qp, remote, param).unwrap();
    let request = read_frame(&world.host.accept(), REQUEST);
    let peer = ask(&world, &join(REQUEST, &[&hex(peers)]));
    let event = world.request();
    world.side.device.accept(event.id, &world.side.qp, ConnParam { peer_to_peer: None, ..param }).unwrap();
    [request, read_frame(&peer, REPLY)]
}

/// Returns all octets of a frame behind the key.
fn read_frame(peer: &RawPeer, key: &str) -> Vec<u8> {
    assert_eq!(peer.read_exact(16), hex(key));
    let head = peer.read_exact(4);
    let len = usize::from(head[2]) << 8 | usize::from(head[3]);
    let frame = [head, peer.read_exact(len)].concat();
    peer.expect_silence();
    frame
}

// Covers 6581-6-1, 6581-6-2, 6581-6-4, 6581-6-7.
#[test]
fn the_s_bit_stands_for_four_octets_before_the_private_data() {
    let (enhanced, plain) = (weft_mpa::Config::default(), PLAIN);
    let cases = [
        // Settings, what is asked for, the peer's Request, whether the own Request is enhanced, whether the Reply is
        (enhanced, ConnParam::default(), "50 02 0004 0010 0010", true, true),
        (enhanced, PEER_TO_PEER, "50 02 0004 C010 C010", true, true),
        (enhanced, ConnParam::default(), "40 02 0000", true, false),
        (enhanced, ConnParam::default(), "5F 01 0004 0010 0010", true, false),
        (plain, ConnParam::default(), "40 01 0000", false, false),
        (plain, ConnParam::default(), "5F 01 0004 0010 0010", false, false),
    ];
    for (mpa, param, peers, by_request, by_reply) in cases {
        for len in [0, 2, 4, 508] {
            let private_data = data(len);
            let param = ConnParam { private_data: &private_data, ..param };
            let frames = frames(mpa, param, peers);
            for (frame, is_enhanced) in frames.iter().zip([by_request, by_reply]) {
                let case = format!("{peers}, {len} octets, {:02x?}", &frame[..4]);
                assert_eq!(frame[0] & 0x10 != 0, is_enhanced, "{case}");
                assert_eq!(frame[0] & 0x0F, 0, "{case}");
                assert!(!is_enhanced || frame[1] == 2, "{case}");
                // PD_Length counts both. The own data is behind the four octets with this device's depths.
                let words = if is_enhanced { 4 } else { 0 };
                assert_eq!(usize::from(frame[2]) << 8 | usize::from(frame[3]), words + len, "{case}");
                assert_eq!(frame[4 + words..], private_data, "{case}");
                if is_enhanced {
                    assert_eq!(
                        (frame[4] & 0x3F, frame[5], frame[6] & 0x3F, frame[7]),
                        (0, 16, 0, 16),
                        "{case}"
                    );
                }
            }
        }
    }
}

// Covers 6581-6-3.
#[test]
fn reserved_bits_change_nothing() {
    for bits in [0x01, 0x02, 0x04, 0x08, 0x0F] {
        let altered = |mut frame: Vec<u8>| {
            frame[16] |= bits;
            frame
        };
        let world = World::new();
        let peer = ask(&world, &altered(enhanced(REQUEST, 0xC, 4, 8)));
        let request = world.request();
        assert_eq!((request.ird, request.ord), (Some(4), Some(8)));
        world.side.device.accept(request.id, &world.side.qp, ConnParam::default()).unwrap();
        peer.expect(&enhanced(REPLY, 0xC, 16, 4));
        assert_eq!(depths(&world), ((16, 4), Some((4, 8))));

        let world = World::new();
        let peer = connect(&world, PEER_TO_PEER);
        peer.expect(&enhanced(REQUEST, 0xF, 16, 16));
        peer.send(&altered(enhanced(REPLY, 0xC, 4, 8)));
        assert_eq!(depths(&world), ((16, 4), Some((4, 8))));
        peer.expect(&vector("send0"));
    }
}

/// Revision 1 has no S bit (doubt D3): all private data is the application's.
// Covers 6581-6-6, 6581-10-2, 6581-10-4.
#[test]
fn revision_1_is_answered_in_revision_1() {
    for (mpa, head) in [
        (weft_mpa::Config::default(), "40 01"),
        (weft_mpa::Config::default(), "50 01"),
        (weft_mpa::Config::default(), "5F 01"),
        (weft_mpa::Config { peer_to_peer: true, ..weft_mpa::Config::default() }, "40 01"),
        (PLAIN, "40 01"),
        (PLAIN, "5F 01"),
    ] {
        for theirs in [&b""[..], b"abc", &hex("C004 C008"), &hex("C004 C008 6869")] {
            let world = World::with_mpa(mpa);
            let len = [0, theirs.len().to_le_bytes()[0]];
            let peer = ask(&world, &join(REQUEST, &[&hex(head), &len, theirs]));
            let request = world.request();
            assert_eq!((&request.private_data[..], request.ird, request.ord), (theirs, None, None));
            let param = ConnParam { private_data: b"hi", ..ConnParam::default() };
            world.side.device.accept(request.id, &world.side.qp, param).unwrap();
            peer.expect(&join(REPLY, &[&hex("40 01 0002"), b"hi"]));
            assert_eq!(depths(&world), ((16, 16), None));
            peer.expect_silence();
            exchange(&world, &world.side.qp, &peer, 1);
        }
        let world = World::with_mpa(mpa);
        let peer = ask(&world, &join(REQUEST, &[&hex(head), &[0, 0]]));
        world.side.device.reject(world.request().id, b"no").unwrap();
        peer.expect(&join(REPLY, &[&hex("60 01 0002"), b"no"]));
        peer.expect_fin();
    }
}

/// S with fewer than four octets of private data is malformed (doubt D2).
// Covers 6581-6-8.
#[test]
fn enhanced_data_stands_first_in_the_private_data() {
    for len in 0..4_u8 {
        let tail = [&[0, len][..], &vec![0; usize::from(len)]].concat();
        let world = World::new();
        let peer = ask(&world, &join(REQUEST, &[&hex("50 02"), &tail]));
        peer.expect_fin();
        world.expect_no_news();
        assert_eq!(world.side.device.counters().startup_failures, 1);
        world.expect_service();

        let world = World::new();
        let peer = connect(&world, ConnParam::default());
        peer.expect(&join(REQUEST, &[&hex(DEFAULT)]));
        peer.send(&join(REPLY, &[&hex("50 02"), &tail]));
        let error = StartupError::EnhancedTooShort;
        assert_eq!(world.connect_error(), ConnectFailure::Protocol(error.into()));
        peer.expect_fin();
        assert_eq!(world.side.qp.state(), QpState::Idle);
    }
    // Four octets are enough, and all octets behind them are the application's.
    for theirs in [&b""[..], b"x", &hex("C004 C008"), &pattern(508)] {
        let len = u16::try_from(4 + theirs.len()).unwrap().to_be_bytes();
        let frame = |key| join(key, &[&hex("50 02"), &len, &hex("0005 0007"), theirs]);
        let world = World::new();
        let _peer = ask(&world, &frame(REQUEST));
        let request = world.request();
        assert_eq!((&request.private_data[..], request.ird, request.ord), (theirs, Some(5), Some(7)));
        let world = World::new();
        let peer = connect(&world, ConnParam::default());
        peer.send(&frame(REPLY));
        let CmEvent::Established { private_data, peer_depths, .. } = world.event() else {
            panic!("no stream")
        };
        assert_eq!((&private_data[..], peer_depths), (theirs, Some((5, 7))));
    }
}

/// Four depths whose octets all differ, and each flag by itself.
// Covers 6581-9-1, 6581-9-3.
#[test]
fn the_places_of_depths_and_flags() {
    let rtr = [(4, "C123 0A5B"), (2, "8123 8A5B"), (1, "8123 4A5B"), (0, "8123 0A5B"), (7, "C123 CA5B")];
    for (bits, words) in rtr {
        let world = world_of(with_rtr(bits));
        let param = ConnParam { ird: Some(0x123), ord: Some(0xA5B), ..PEER_TO_PEER };
        connect(&world, param).expect(&join(REQUEST, &[&hex("50 02 0004"), &hex(words)]));
    }
    let world = world_of(weft_mpa::Config::default());
    let param = ConnParam { ird: Some(0x3FFE), ord: Some(0x2001), ..ConnParam::default() };
    connect(&world, param).expect(&join(REQUEST, &[&hex("50 02 0004 3FFE 2001")]));

    let requests = [
        // The Request's words, the depths told to the application, the Reply's words for an IRD of 0x321 and an ORD
        // of 0xFFF.
        ("8000 0000", (0, 0), "C321 C000"),
        ("4000 0000", (0, 0), "0321 0000"),
        ("0000 8000", (0, 0), "0321 0000"),
        ("0000 4000", (0, 0), "0321 0000"),
        ("C000 0000", (0, 0), "C321 0000"),
        ("8000 8000", (0, 0), "8321 8000"),
        ("8000 4000", (0, 0), "8321 4000"),
        ("0A5B 0123", (0xA5B, 0x123), "0321 0A5B"),
        ("CA5B C123", (0xA5B, 0x123), "C321 CA5B"),
        ("3FFE 3FFE", (0x3FFE, 0x3FFE), "0321 0FFF"),
        ("FFFE FFFE", (0x3FFE, 0x3FFE), "C321 CFFF"),
    ];
    for (words, told, reply) in requests {
        let world = world_of(weft_mpa::Config { ird: 0x321, ord: 0xFFF, ..weft_mpa::Config::default() });
        let peer = ask(&world, &join(REQUEST, &[&hex("50 02 0004"), &hex(words)]));
        let request = world.request();
        assert_eq!((request.ird, request.ord), (Some(told.0), Some(told.1)), "{words}");
        world.side.device.accept(request.id, &world.side.qp, ConnParam::default()).unwrap();
        peer.expect(&join(REPLY, &[&hex("50 02 0004"), &hex(reply)]));
    }
}

// Covers 6581-9-2, 6581-7-4, 6581-6-7, 6581-6-8.
#[test]
fn the_enhanced_data_takes_four_octets_of_the_private_data() {
    for role in [Role::Active, Role::Passive] {
        let world = World::new();
        let (device, qp) = (&world.side.device, &world.side.qp);
        let too_long = CmError::PrivateDataTooLong { len: 509, max: 508 };
        let (long, fits) = (data(509), pattern(508));
        let with = |private_data| ConnParam { private_data, ..ConnParam::default() };
        let (peer, key) = if role == Role::Active {
            let remote = world.address_of_peer();
            assert_eq!(device.connect(&world.side.events, qp, remote, with(&long)), Err(too_long));
            (connect(&world, with(&fits)), REQUEST)
        } else {
            let peer = ask(&world, &join(REQUEST, &[&hex(DEFAULT)]));
            let request = world.request();
            assert_eq!(device.accept(request.id, qp, with(&long)), Err(too_long));
            assert_eq!(device.reject(request.id, &long), Err(too_long));
            device.accept(request.id, qp, with(&fits)).unwrap();
            (peer, REPLY)
        };
        peer.expect(&join(key, &[&hex("50 02 0200 0010 0010"), &fits]));
        peer.expect_silence();
    }
    // One octet more than 512, enhanced data included, is not taken either.
    let world = World::new();
    ask(&world, &join(REQUEST, &[&hex("50 02 0201 0010 0010"), &data(509)])).expect_fin();
    world.expect_no_news();
}

/// Both ends are enhanced: whatever the application answers, the Reply is enhanced too. Without S it is not, and has
/// the Request's revision (doubt D14).
// Covers 6581-10-1, 6581-10-5, 6581-10-6.
#[test]
fn the_reply_is_enhanced_as_the_request_is() {
    let cases = [
        ("50 02 0004 0004 0008", "50 02 0004 0010 0004", "70 02 0004 0010 0010"),
        ("50 02 0006 0004 0008 6869", "50 02 0004 0010 0004", "70 02 0004 0010 0010"),
        ("50 02 0004 3FFF 3FFF", "50 02 0004 3FFF 3FFF", "70 02 0004 3FFF 3FFF"),
        ("40 02 0000", "40 02 0000", "60 02 0000"),
        ("4F 02 0004 0004 0008", "40 02 0000", "60 02 0000"),
        ("40 01 0000", "40 01 0000", "60 01 0000"),
    ];
    for (request, accepted, rejected) in cases {
        let world = World::new();
        let peer = ask(&world, &join(REQUEST, &[&hex(request)]));
        accept(&world, ConnParam::default());
        peer.expect(&join(REPLY, &[&hex(accepted)]));
        let _ = depths(&world);
        peer.expect_silence();
        exchange(&world, &world.side.qp, &peer, 1);

        let world = World::new();
        let peer = ask(&world, &join(REQUEST, &[&hex(request)]));
        world.side.device.reject(world.request().id, b"").unwrap();
        peer.expect(&join(REPLY, &[&hex(rejected)]));
        peer.expect_fin();
    }
}

/// Neither depths nor the peer-to-peer start are wanted. Then the frames are those of RFC 5044, also in their size.
// Covers 6581-10-3.
#[test]
fn without_an_enhanced_function_the_request_is_plain() {
    let open = weft_mpa::Config { ird: OPEN, ord: OPEN, ..weft_mpa::Config::default() };
    let left = ConnParam { ird: Some(OPEN), ord: Some(OPEN), ..ConnParam::default() };
    for (mpa, param) in [
        (PLAIN, ConnParam::default()),
        (open, ConnParam::default()),
        (weft_mpa::Config::default(), left),
        (weft_mpa::Config { ird: u16::MAX, ord: u16::MAX, ..open }, ConnParam::default()),
    ] {
        let world = world_of(mpa);
        let ours = pattern(512);
        let peer = connect(&world, ConnParam { private_data: &ours, ..param });
        peer.expect(&join(REQUEST, &[&hex("40 01 0200"), &ours]));
        peer.expect_silence();
        peer.send(&join(REPLY, &[&hex("40 01 0000")]));
        assert_eq!(depths(&world).1, None);
        exchange(&world, &world.side.qp, &peer, 1);
    }
    // If one of them is wanted, the Request is not plain any more.
    for (param, request) in [
        (ConnParam { ird: Some(1), ..left }, "50 02 0004 0001 3FFF"),
        (ConnParam { ord: Some(1), ..left }, "50 02 0004 3FFF 0001"),
        (ConnParam { peer_to_peer: Some(true), ..left }, "50 02 0004 FFFF FFFF"),
    ] {
        let world = world_of(weft_mpa::Config::default());
        connect(&world, param).expect(&join(REQUEST, &[&hex(request)]));
    }
}

// Covers 6581-10-7.
#[test]
fn a_responder_without_enhanced_startup_closes() {
    for request in ["50 02 0004 0010 0010", "50 02 0006 C004 C008 6869", "50 02 0004 3FFF 3FFF", "40 02 0000"]
    {
        let world = World::with_mpa(PLAIN);
        let peer = ask(&world, &join(REQUEST, &[&hex(request)]));
        // FIN, and not an octet of a Reply before it.
        peer.expect_fin();
        peer.close();
        world.expect_no_news();
        assert_eq!(world.side.device.counters().startup_failures, 1);
        // The peer may try again without (6581-10-8).
        let peer = ask(&world, &vector("mpa-req1"));
        accept(&world, ConnParam::default());
        peer.expect(&vector("mpa-rep1"));
        let _ = depths(&world);
        exchange(&world, &world.side.qp, &peer, 1);
    }
}

/// The device as initiator: a responder that does not know its Request closes, and the device may ask again with a
/// plain one.
#[test]
fn a_closing_responder_is_asked_again_plainly() {
    let world = World::new();
    let peer = connect(&world, ConnParam::default());
    peer.expect(&join(REQUEST, &[&hex(DEFAULT)]));
    peer.close();
    assert_eq!(world.connect_error(), ConnectFailure::Closed);
    assert_eq!(world.side.qp.state(), QpState::Idle);
    let peer = connect(&world, ConnParam { ird: Some(OPEN), ord: Some(OPEN), ..ConnParam::default() });
    peer.expect(&vector("mpa-req1"));
    peer.send(&vector("mpa-rep1"));
    let _ = depths(&world);
    exchange(&world, &world.side.qp, &peer, 1);
}
