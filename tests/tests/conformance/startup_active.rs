//! MPA startup with the device as initiator.

use weft_mpa::{RtrSet, StartupError};
use weft_netif::Duration;
use weft_rnic::{CmError, CmEvent, ConnParam, ConnectFailure, Data, QpState, RecvWr, SendOpcode, Status};
use weft_tests::{RawPeer, hex};

use crate::octets::{fpdu, join, pattern, send, tagged, vector};
use crate::world::{Role, World, exchange, whole, work};

/// The key of a Request.
const REQUEST: &str = "4D504120494420526571204672616D65";
/// The key of a Reply.
const REPLY: &str = "4D504120494420526570204672616D65";
/// The default Request of the device, behind the key: CRC, enhanced data, 16 Reads in each direction.
const DEFAULT: &str = "50 02 0004 0010 0010";

/// The device connects. Returns the peer, which has received the Request.
fn connect(world: &World, param: ConnParam<'_>) -> RawPeer {
    let remote = world.address_of_peer();
    world.side.device.connect(&world.side.events, &world.side.qp, remote, param).unwrap();
    world.host.accept()
}

/// The device connects with the default Request.
fn connect_by_default(world: &World) -> RawPeer {
    let peer = connect(world, ConnParam::default());
    peer.expect(&join(REQUEST, &[&hex(DEFAULT)]));
    peer
}

/// After a failure the queue pair is Idle, keeps its receives, and connects at once.
fn expect_usable(world: &World) {
    assert_eq!(world.side.qp.state(), QpState::Idle);
    let peer = world.establish(Role::Active);
    exchange(world, &world.side.qp, &peer, 1);
}

#[test]
fn the_requests_octet_by_octet() {
    let config = weft_mpa::Config::default();
    let plain = weft_mpa::Config { enhanced: false, ..config };
    let param = ConnParam::default();
    let p2p = ConnParam { peer_to_peer: Some(true), ..param };
    let cases = [
        (config, param, DEFAULT),
        (plain, param, "40 01 0000"),
        (weft_mpa::Config { crc: false, ..plain }, param, "00 01 0000"),
        (weft_mpa::Config { markers: true, ..plain }, param, "C0 01 0000"),
        (weft_mpa::Config { markers: true, crc: false, ..config }, param, "90 02 0004 0010 0010"),
        (
            config,
            ConnParam { private_data: b"hi", ird: Some(3), ord: Some(1), ..param },
            "50 02 0006 0003 0001 6869",
        ),
        (plain, ConnParam { private_data: b"abc", ..param }, "40 01 0003 616263"),
        (config, p2p, "50 02 0004 C010 C010"),
        (
            weft_mpa::Config { rtr: RtrSet { send: true, ..RtrSet::default() }, ..config },
            p2p,
            "50 02 0004 C010 0010",
        ),
        (
            weft_mpa::Config { rtr: RtrSet { read: true, ..RtrSet::default() }, ..config },
            p2p,
            "50 02 0004 8010 4010",
        ),
    ];
    for (mpa, param, request) in cases {
        let world = World::with_mpa(mpa);
        connect(&world, param).expect(&join(REQUEST, &[&hex(request)]));
    }
}

#[test]
fn private_data_of_every_size_in_both_directions() {
    for (enhanced, header, sizes) in [(false, "40 01", [0, 1, 511, 512]), (true, "50 02", [0, 1, 507, 508])] {
        for size in sizes {
            let world = World::with_mpa(weft_mpa::Config { enhanced, ..weft_mpa::Config::default() });
            let words = if enhanced { hex("0010 0010") } else { Vec::new() };
            let len = u16::try_from(size + words.len()).unwrap().to_be_bytes();
            let (theirs, ours) = (pattern(size), pattern(size + 1)[1..].to_vec());
            let peer = connect(&world, ConnParam { private_data: &ours, ..ConnParam::default() });
            peer.expect(&join(REQUEST, &[&hex(header), &len, &words, &ours]));
            peer.expect_silence();
            peer.send(&join(REPLY, &[&hex(header), &len, &words, &theirs]));
            let CmEvent::Established { private_data, .. } = world.event() else { panic!("not established") };
            assert_eq!(private_data[..], theirs);
            exchange(&world, &world.side.qp, &peer, 1);
        }
    }
}

#[test]
fn too_much_private_data_is_refused_at_once() {
    for (enhanced, max) in [(false, 512), (true, 508)] {
        let world = World::with_mpa(weft_mpa::Config { enhanced, ..weft_mpa::Config::default() });
        let (data, remote) = (vec![1; max + 1], world.address_of_peer());
        let param = ConnParam { private_data: &data, ..ConnParam::default() };
        let refused = world.side.device.connect(&world.side.events, &world.side.qp, remote, param);
        assert_eq!(refused, Err(CmError::PrivateDataTooLong { len: max + 1, max }));
        world.expect_no_news();
    }
}

/// The device's depths after a Reply: its IRD stays, its ORD is the peer's IRD at most.
#[test]
fn the_reply_bounds_the_depths() {
    let cases = [
        ("50 02 0004 0010 0010", (16, 16)),
        ("50 02 0004 0002 0001", (16, 2)),
        ("50 02 0004 0000 0000", (16, 0)),
        ("50 02 0004 0100 0010", (16, 16)),
        ("50 02 0004 3FFF 3FFF", (16, 16)),
        // Reserved bits are ignored.
        ("5F 02 0004 0004 0004", (16, 4)),
    ];
    for (reply, depths) in cases {
        let world = World::new();
        let peer = connect_by_default(&world);
        peer.send(&join(REPLY, &[&hex(reply)]));
        let CmEvent::Established { ird, ord, .. } = world.event() else { panic!("not established") };
        assert_eq!((ird, ord), depths, "{reply}");
        // An initiator may send at once, and here it has nothing to send.
        peer.expect_silence();
        world.side.qp.post_send(&work(1, SendOpcode::Send, Data::Inline(b"hello"))).unwrap();
        peer.expect(&vector("send5"));
    }
}

/// The Reply leaves the device no Reads: a Read fails alone, at its own side.
#[test]
fn a_read_without_any_depth_fails() {
    let world = World::new();
    let peer = connect_by_default(&world);
    peer.send(&join(REPLY, &[&hex("50 02 0004 0000 0010")]));
    assert!(matches!(world.event(), CmEvent::Established { ord: 0, .. }));
    let sink = world.side.memory(8);
    let read = SendOpcode::Read { stag: weft_rnic::Stag(1), to: 0 };
    world.side.qp.post_send(&work(1, read, Data::Sges(&[whole(&sink)]))).unwrap();
    peer.expect(&vector("term-localcat"));
    peer.expect_fin();
    assert_eq!(world.all_completions(), [(1, Status::LocalQpOperation)]);
}

#[test]
fn a_rejection_leaves_the_queue_pair_free() {
    let cases = [("70 02 0006 0010 0010 6E6F", "no"), ("70 02 0004 0001 0001", "")];
    for (reply, data) in cases {
        let world = World::new();
        let peer = connect_by_default(&world);
        peer.send(&join(REPLY, &[&hex(reply)]));
        let CmEvent::Rejected { private_data, qp_num, .. } = world.event() else { panic!("not rejected") };
        assert_eq!((&private_data[..], qp_num), (data.as_bytes(), world.side.qp.number()));
        peer.expect_fin();
        expect_usable(&world);
    }
}

/// All faults that make a Reply unacceptable without a stream on which an error could be sent.
#[test]
fn malformed_replies_close_the_connection() {
    let cases = [
        ("40 00", StartupError::Revision(0)),
        ("40 03", StartupError::Revision(3)),
        ("50 FF", StartupError::Revision(0xFF)),
        ("40 01 0000", StartupError::Revision(1)),
        ("60 01 0000", StartupError::Revision(1)),
        ("50 02 0201", StartupError::PrivateDataTooLong { len: 513, max: 512 }),
        ("50 02 FFFF 616263", StartupError::PrivateDataTooLong { len: 65_535, max: 512 }),
        ("50 02 0003 000000", StartupError::EnhancedTooShort),
        ("50 02 0000", StartupError::EnhancedTooShort),
        ("40 02 0000", StartupError::EnhancedMismatch),
        ("40 02 0004 0010 0010", StartupError::EnhancedMismatch),
    ];
    let world = World::new();
    for (reply, error) in cases {
        let peer = connect_by_default(&world);
        peer.send(&join(REPLY, &[&hex(reply)]));
        assert_eq!(world.connect_error(), ConnectFailure::Protocol(error.into()), "{reply}");
        peer.expect_fin();
        assert_eq!(world.side.qp.state(), QpState::Idle);
    }
    expect_usable(&world);
}

#[test]
fn garbage_fails_at_the_first_wrong_octet() {
    let world = World::new();
    let good = hex(REPLY);
    for at in 0..good.len() {
        let peer = connect_by_default(&world);
        let mut octets = good[..at].to_vec();
        octets.push(good[at] ^ 0x01);
        peer.send(&octets);
        assert_eq!(world.connect_error(), ConnectFailure::Protocol(StartupError::Key.into()));
        peer.expect_fin();
    }
    // Two initiators: a Request is no Reply (requirement 5044-7.1.2-20).
    let peer = connect_by_default(&world);
    peer.send(&vector("mpa-req2"));
    assert_eq!(world.connect_error(), ConnectFailure::Protocol(StartupError::Key.into()));
    peer.expect_fin();
    expect_usable(&world);
}

#[test]
fn the_peer_leaves_at_every_octet_of_its_reply() {
    let world = World::new();
    let frame = join(REPLY, &[&hex("50 02 0006 0010 0010 6869")]);
    for len in 0..frame.len() {
        let peer = connect_by_default(&world);
        peer.send(&frame[..len]);
        peer.close();
        assert_eq!(world.connect_error(), ConnectFailure::Closed, "after {len} octets");
        peer.expect_fin();
        let peer = connect_by_default(&world);
        peer.send(&frame[..len]);
        world.settle();
        peer.abort();
        assert_eq!(world.connect_error(), ConnectFailure::Closed, "after {len} octets");
    }
    expect_usable(&world);
}

#[test]
fn a_stalling_peer_is_reset() {
    let frame = join(REPLY, &[&hex(DEFAULT)]);
    for len in [0, 1, 19, 23] {
        let world = World::new();
        let start = world.host.now();
        let peer = connect_by_default(&world);
        for octet in &frame[..len] {
            world.settle();
            peer.send(&[*octet]);
        }
        assert_eq!(world.connect_error(), ConnectFailure::TimedOut);
        let taken = world.host.now() - start;
        assert!((Duration::from_secs(40)..Duration::from_secs(41)).contains(&taken), "{taken}");
        peer.expect_reset();
        expect_usable(&world);
    }
}

#[test]
fn a_port_without_a_listener() {
    let world = World::new();
    let mut remote = world.address_of_peer();
    remote.set_port(9);
    world.side.device.connect(&world.side.events, &world.side.qp, remote, ConnParam::default()).unwrap();
    assert_eq!(world.connect_error(), ConnectFailure::Refused);
    expect_usable(&world);
}

#[test]
fn a_reply_comes_together_with_fpdus() {
    let world = World::new();
    let memory = world.side.memory(16);
    world.side.qp.post_recv(&RecvWr { wr_id: 1, sges: &[whole(&memory)] }).unwrap();
    let peer = connect_by_default(&world);
    // The private data has exactly its length. Later octets belong to the stream.
    let reply = join(REPLY, &[&hex("50 02 0006 0010 0010 6869")]);
    peer.send(&[reply, vector("send5")].concat());
    let CmEvent::Established { private_data, .. } = world.event() else { panic!("not established") };
    assert_eq!(&private_data[..], b"hi");
    assert_eq!(world.completion().byte_len, 5);
    exchange(&world, &world.side.qp, &peer, 2);
}

#[test]
fn a_reply_comes_octet_by_octet() {
    let world = World::new();
    let peer = connect_by_default(&world);
    peer.send_one_by_one(&join(REPLY, &[&hex(DEFAULT)]));
    assert!(matches!(world.event(), CmEvent::Established { .. }));
}

/// The peer-to-peer start: the device first sends a message that both ends support.
#[test]
fn every_first_message_of_a_peer_to_peer_start() {
    let write = fpdu(&tagged("C140", 1, 0, b""));
    let read = fpdu(&hex("4141 00000000 00000001 00000001 00000000
         00000001 0000000000000000 00000000 00000001 0000000000000000"));
    let cases = [
        // Words of the Reply, first FPDU, MSN of the device's first Send
        ("C010 0010", vector("send0"), 2),
        ("8010 8010", write.clone(), 1),
        ("8010 4010", read.clone(), 1),
        // The initiator chooses: Write before Read before Send.
        ("C010 C010", write, 1),
        ("C010 4010", read.clone(), 1),
        // A Read needs room at the peer.
        ("C000 4010", vector("send0"), 2),
    ];
    for (reply, first, msn) in cases {
        let world = World::new();
        let peer = connect(&world, ConnParam { peer_to_peer: Some(true), ..ConnParam::default() });
        peer.expect(&join(REQUEST, &[&hex("50 02 0004 C010 C010")]));
        peer.send(&join(REPLY, &[&hex("50 02 0004"), &hex(reply)]));
        peer.expect(&first);
        assert!(matches!(world.event(), CmEvent::Established { .. }));
        peer.expect_silence();
        if first == read {
            peer.send(&vector("rrsp0"));
        }
        world.expect_no_news();
        world.side.qp.post_send(&work(1, SendOpcode::Send, Data::Inline(b"mine"))).unwrap();
        peer.expect(&fpdu(&send(msn, b"mine")));
        assert_eq!((world.completion().wr_id, world.side.cq.poll_one()), (1, None));
    }
}

/// The peer has accepted, and learns by a Terminate in the first FPDU that there is no connection.
#[test]
fn a_reply_that_cannot_be_served_is_terminated() {
    let cases = [
        (false, "50 02 0004 0010 0011", vector("term-mpa06"), weft_mpa::Error::InsufficientIrd),
        (true, "50 02 0004 C010 C0FF", vector("term-mpa06"), weft_mpa::Error::InsufficientIrd),
        (true, "50 02 0004 8010 0010", vector("term-mpa07"), weft_mpa::Error::NoRtr),
        (true, "50 02 0004 0010 0010", vector("term-mpa07"), weft_mpa::Error::NoRtr),
        (false, "50 02 0004 C010 C010", vector("term-mpa07"), weft_mpa::Error::NoRtr),
    ];
    let world = World::new();
    for (peer_to_peer, reply, terminate, error) in cases {
        let peer = connect(&world, ConnParam { peer_to_peer: Some(peer_to_peer), ..ConnParam::default() });
        let _request = peer.read_exact(24);
        peer.send(&join(REPLY, &[&hex(reply)]));
        assert_eq!(world.connect_error(), ConnectFailure::Protocol(error), "{reply}");
        peer.expect(&terminate);
        peer.expect_fin();
        // The peer keeps its side open, and the queue pair is free regardless.
        assert_eq!(world.side.qp.state(), QpState::Idle);
    }
    expect_usable(&world);
}

/// With Markers and without CRC, as negotiated by the very Reply that fails.
#[test]
fn the_terminate_of_a_failed_start_is_framed_as_negotiated() {
    let world = World::with_mpa(weft_mpa::Config { crc: false, ..weft_mpa::Config::default() });
    let peer = connect(&world, ConnParam::default());
    peer.expect(&join(REQUEST, &[&hex("10 02 0004 0010 0010")]));
    peer.send(&join(REPLY, &[&hex("90 02 0004 0010 0011")]));
    let mut expected = crate::octets::Framing::new(false, true);
    peer.expect(&expected.fpdu(&crate::octets::bare_terminate("2006")));
    peer.expect_fin();
}
