//! IRD and ORD (RFC 6581 section 9.1): the told depths, the agreed ones, and their effect.

use weft_mpa::Error as Mpa;
use weft_rnic::{
    Cause, CmError, CmEvent, ConnParam, ConnectFailure, Data, DisconnectReason, Mr, QpState, SendOpcode,
    Stag, Status,
};
use weft_tests::{RawPeer, hex};

use crate::handshake::{
    DEFAULT, OPEN, REPLY, REQUEST, accept, ask, connect, depths, enhanced, moment, world_of,
};
use crate::octets::{Place, fpdu, join, read_request, tagged, terminate, vector};
use crate::world::{Role, World, content, filled, work};

/// Zero, one, a few, the largest number, and the value that leaves it to the ULPs.
const DEPTHS: [u16; 5] = [0, 1, 5, OPEN - 1, OPEN];

fn config(ird: u16, ord: u16) -> weft_mpa::Config {
    weft_mpa::Config { ird, ord, ..weft_mpa::Config::default() }
}

fn param(ird: u16, ord: u16) -> ConnParam<'static> {
    ConnParam { ird: Some(ird), ord: Some(ord), ..ConnParam::default() }
}

/// All pairs, of the peer's depths and of the device's.
fn all_pairs(mut case: impl FnMut((u16, u16), (u16, u16))) {
    for ird in DEPTHS {
        for ord in DEPTHS {
            for own_ird in DEPTHS {
                DEPTHS.iter().for_each(|own_ord| case((ird, ord), (own_ird, *own_ord)));
            }
        }
    }
}

// Covers 6581-9.1-1, 6581-9.1-5, 6581-9.1-13, 6581-9.1-15.
#[test]
fn the_reply_to_all_depths() {
    let world = world_of(weft_mpa::Config::default());
    all_pairs(|(ird, ord), own| {
        let case = format!("the peer has {ird:#x} and wants {ord:#x}, the device {own:#x?}");
        let qp = world.new_qp();
        let peer = ask(&world, &enhanced(REQUEST, 0, ird, ord));
        let request = world.request();
        assert_eq!((request.ird, request.ord), (Some(ird), Some(ord)), "{case}");
        world.side.device.accept(request.id, &qp, param(own.0, own.1)).unwrap();
        let told_ird = if ord == OPEN { OPEN } else { own.0 };
        let told_ord = if ird == OPEN { OPEN } else { own.1.min(ird) };
        assert!(ird == OPEN || told_ord <= ird);
        peer.expect(&enhanced(REPLY, 0, told_ird, told_ord));
        // The device's own depths stay the same, except for the ORD, which the peer's IRD bounds. No depth is 0x3FFF,
        // which stands for as many as the device allows.
        let agreed = (own.0.min(OPEN - 1), own.1.min(ird).min(OPEN - 1));
        assert_eq!(depths(&world), (agreed, Some((ird, ord))), "{case}");
        peer.close();
        moment(&world);
        assert!(matches!(world.event(), CmEvent::Disconnected { .. }));
    });
}

// Covers 6581-9.1-1, 6581-9.1-10, 6581-9.1-14, 6581-9.1-16.
#[test]
fn the_outcome_of_all_replies() {
    let world = world_of(weft_mpa::Config::default());
    all_pairs(|(ird, ord), own| {
        let case = format!("the peer tells {ird:#x} and {ord:#x}, the device asked for {own:#x?}");
        if own == (OPEN, OPEN) {
            // In this case the Request is not enhanced.
            return;
        }
        let qp = world.new_qp();
        let remote = world.address_of_peer();
        world.side.device.connect(&world.side.events, &qp, remote, param(own.0, own.1)).unwrap();
        let peer = world.host.accept();
        peer.expect(&enhanced(REQUEST, 0, own.0, own.1));
        peer.send(&enhanced(REPLY, 0, ird, ord));
        if ord != OPEN && ord > own.0 {
            peer.expect(&vector("term-mpa06"));
            peer.expect_fin();
            let reason = ConnectFailure::Protocol(Mpa::InsufficientIrd);
            assert_eq!(world.event(), CmEvent::ConnectError { qp_num: qp.number(), reason }, "{case}");
            assert_eq!(qp.state(), QpState::Idle);
            return;
        }
        let agreed = (own.0.min(OPEN - 1), own.1.min(ird).min(OPEN - 1));
        assert!(ord == OPEN || agreed.0 >= ord);
        assert_eq!(depths(&world), (agreed, Some((ird, ord))), "{case}");
        peer.close();
        moment(&world);
        assert!(matches!(world.event(), CmEvent::Disconnected { .. }));
    });
}

/// The Terminate is the first and the last FPDU, with Markers if they were agreed.
// Covers 6581-9.1-10, 6581-9.1-11, 6581-8-1, 6581-8-2.
#[test]
fn a_reply_that_wants_too_many_reads() {
    for (own, wanted) in [(16, 17), (16, 1000), (0, 1), (1, 2), (16, OPEN - 1), (OPEN - 2, OPEN - 1)] {
        for markers in [false, true] {
            let world = world_of(config(own, 8));
            let peer = connect(&world, ConnParam::default());
            peer.expect(&enhanced(REQUEST, 0, own, 8));
            let mut reply = enhanced(REPLY, 0, 16, wanted);
            reply[16] |= u8::from(markers) << 7;
            peer.send(&[reply, vector("send5")].concat());
            let mut framing = crate::octets::Framing::new(true, markers);
            peer.expect(&framing.fpdu(&crate::octets::bare_terminate("2006")));
            peer.expect_fin();
            assert_eq!(world.connect_error(), ConnectFailure::Protocol(Mpa::InsufficientIrd));
            peer.close();
            world.expect_no_news();
            world.expect_service();
        }
    }
}

// Covers 6581-9.1-2, 6581-9.1-12.
#[test]
fn the_application_hears_the_peers_depths() {
    for (ird, ord) in [(4, 8), (0, 0), (1, 0x2345), (OPEN, 3), (3, OPEN), (OPEN, OPEN)] {
        let world = World::new();
        let _peer = ask(&world, &enhanced(REQUEST, 0, ird, ord));
        let request = world.request();
        assert_eq!((request.ird, request.ord), (Some(ird), Some(ord)));
        world.side.device.accept(request.id, &world.side.qp, ConnParam::default()).unwrap();
        assert_eq!(depths(&world).1, Some((ird, ord)));

        let told_ord = if ord == OPEN { OPEN } else { ord.min(16) };
        for rejects in [false, true] {
            let world = World::new();
            let peer = connect(&world, ConnParam::default());
            peer.expect(&join(REQUEST, &[&hex(DEFAULT)]));
            let mut reply = enhanced(REPLY, 0, ird, told_ord);
            reply[16] |= u8::from(rejects) << 5;
            peer.send(&reply);
            match world.event() {
                CmEvent::Established { peer_depths, .. } if !rejects => {
                    assert_eq!(peer_depths, Some((ird, told_ord)));
                }
                CmEvent::Rejected { peer_depths, .. } if rejects => {
                    assert_eq!(peer_depths, Some((ird, told_ord)));
                    assert_eq!(world.side.qp.state(), QpState::Idle);
                }
                event => panic!("{event:?}"),
            }
        }
    }
    // A rejecting peer may need more than was offered; that is no error (6581-9.1-6).
    let world = World::new();
    let peer = connect(&world, param(2, 2));
    peer.expect(&enhanced(REQUEST, 0, 2, 2));
    peer.send(&join(REPLY, &[&hex("70 02 0004 0000 0040")]));
    assert!(matches!(world.event(), CmEvent::Rejected { peer_depths: Some((0, 0x40)), .. }));
    peer.expect_fin();
}

/// A responder that needs more Reads than the initiator holds tells its number in the Reply by which it rejects. It
/// has received no FPDU and may send none, so that no Terminate goes with it (doubt D13).
// Covers 6581-9.1-6, 6581-9.1-7.
#[test]
fn a_responder_that_needs_more_reads_tells_it_in_the_reply() {
    for (theirs, own, words) in [
        ((2, 4), (16, 8), "70 02 0004 0010 0008"),
        ((0, 0), (1, 1), "70 02 0004 0001 0001"),
        ((7, OPEN), (16, 8), "70 02 0004 3FFF 0008"),
    ] {
        let world = world_of(config(own.0, own.1));
        let peer = ask(&world, &enhanced(REQUEST, 0, theirs.0, theirs.1));
        let request = world.request();
        assert_eq!((request.ird, request.ord), (Some(theirs.0), Some(theirs.1)));
        world.side.device.reject(request.id, b"").unwrap();
        peer.expect(&join(REPLY, &[&hex(words)]));
        peer.expect_fin();
        peer.send(&vector("write0"));
        peer.close();
        world.expect_no_news();
        assert!(peer.take().is_empty(), "octets behind the Reply");
    }
}

/// The device's depths, and those of its peer, by a startup in either role.
fn start(role: Role, own: (u16, u16), peers: (u16, u16)) -> (World, RawPeer) {
    let world = world_of(weft_mpa::Config::default());
    let peer = match role {
        Role::Passive => {
            let peer = ask(&world, &enhanced(REQUEST, 0, peers.0, peers.1));
            accept(&world, param(own.0, own.1));
            let _reply = peer.read_exact(24);
            peer
        }
        Role::Active => {
            let peer = connect(&world, param(own.0, own.1));
            let _request = peer.read_exact(24);
            peer.send(&enhanced(REPLY, 0, peers.0, peers.1));
            peer
        }
    };
    let _ = depths(&world);
    // After this FPDU the responder may send.
    peer.send(&vector("write0"));
    (world, peer)
}

/// As many Reads of the peer as agreed are served. One more ends the stream.
// Covers 6581-9.1-8.
#[test]
fn as_many_reads_are_served_as_were_agreed() {
    for (role, own, peers) in [
        (Role::Active, (4, 0), (0, 4)),
        (Role::Active, (4, 0), (0, 2)),
        (Role::Active, (4, 3), (0, OPEN)),
        (Role::Active, (1, 0), (0, 1)),
        (Role::Passive, (4, 0), (0, 4)),
        (Role::Passive, (4, 0), (0, OPEN)),
        (Role::Passive, (3, 0), (0, 20)),
    ] {
        let (world, peer) = start(role, own, peers);
        let memory = filled(&world.side, 8);
        let source = Place(memory.rkey().0, memory.addr());
        let request = |msn| read_request(u32::from(msn), Place(9, 0), 8, source);
        let response = fpdu(&tagged("C142", 9, 0, &content(&memory)));
        // All come in one TCP segment, so that none is answered before the last one has come.
        peer.send(&(1..=own.0).flat_map(|msn| fpdu(&request(msn))).collect::<Vec<_>>());
        peer.expect(&response.repeat(usize::from(own.0)));
        peer.expect_silence();
        let (first, last) = (own.0 + 1, 2 * own.0 + 1);
        peer.send(&(first..=last).flat_map(|msn| fpdu(&request(msn))).collect::<Vec<_>>());
        peer.expect(&fpdu(&terminate("1202", &request(last))));
        peer.expect_fin();
        let cause = Cause::Peer(weft_ddp::Error::NoBuffer.into());
        assert_eq!(world.disconnected(), DisconnectReason::LocalTerminate(cause));
    }
}

fn post_reads(world: &World, sink: &Mr, count: u64) {
    for wr_id in 0..count {
        let opcode = SendOpcode::Read { stag: Stag(0x100), to: 0x1000 };
        world.side.qp.post_send(&work(wr_id, opcode, Data::Sges(&[sink.sge(0, 8)]))).unwrap();
    }
}

/// Of twenty Reads at most as many are outstanding as the peer can hold and the application wants. A depth that is
/// left to the ULPs does not change the own ones.
// Covers 6581-9.1-9, 6581-9.1-14, 6581-9.1-15.
#[test]
fn no_more_reads_are_outstanding_than_were_agreed() {
    for (own, peers, expected) in [
        ((0, 8), (2, 0), 2),
        ((0, 8), (1, 0), 1),
        ((0, 8), (8, 0), 8),
        ((0, 3), (20, 0), 3),
        ((0, 3), (OPEN - 1, 0), 3),
        ((0, 3), (OPEN, 0), 3),
        ((0, OPEN), (5, 0), 5),
    ] {
        for role in [Role::Active, Role::Passive] {
            let (world, peer) = start(role, own, peers);
            let sink = filled(&world.side, 8);
            let place = Place(sink.lkey().0, sink.addr());
            let request = |msn| fpdu(&read_request(msn, place, 8, Place(0x100, 0x1000)));
            post_reads(&world, &sink, 20);
            peer.expect(&(1..=expected).flat_map(request).collect::<Vec<_>>());
            peer.expect_silence();
            // Each answer makes room for one.
            for msn in expected + 1..=20 {
                peer.send(&fpdu(&tagged("C142", place.0, place.1, b"12345678")));
                peer.expect(&request(msn));
                peer.expect_silence();
            }
            let answers = fpdu(&tagged("C142", place.0, place.1, b"12345678"));
            peer.send(&answers.repeat(usize::try_from(expected).unwrap()));
            assert_eq!(world.all_completions(), (0..20).map(|id| (id, Status::Success)).collect::<Vec<_>>());
        }
    }
}

/// A depth above the device's limit is refused before a frame is sent. Values that no frame can hold count as open.
// Covers 6581-12-1, 5042-7.2-1, 5042-6.4.3.3-2.
#[test]
fn depths_beyond_the_devices_limit() {
    let world = World::new();
    let (device, qp) = (&world.side.device, &world.side.qp);
    for (ird, ord) in [(129, 0), (0, 129), (OPEN - 1, 1), (1, OPEN - 1)] {
        let error = CmError::TooManyReads { wanted: ird.max(ord), max: 128 };
        let remote = world.address_of_peer();
        assert_eq!(device.connect(&world.side.events, qp, remote, param(ird, ord)), Err(error));
        let peer = ask(&world, &enhanced(REQUEST, 0, OPEN - 1, OPEN - 1));
        let request = world.request();
        assert_eq!(device.accept(request.id, qp, param(ird, ord)), Err(error));
        peer.expect_silence();
        // The request can still be answered.
        device.reject(request.id, b"").unwrap();
        let _reply = peer.read_exact(24);
        peer.expect_fin();
    }
    // A peer cannot make the device hold more than it allows, whatever it tells.
    for own in [(128, 128), (OPEN, OPEN), (u16::MAX, u16::MAX)] {
        let qp = world.new_qp();
        let peer = ask(&world, &enhanced(REQUEST, 0, OPEN - 1, OPEN - 1));
        let request = world.request();
        device.accept(request.id, &qp, param(own.0, own.1)).unwrap();
        let _reply = peer.read_exact(24);
        assert_eq!(depths(&world), ((128, 128), Some((OPEN - 1, OPEN - 1))));
    }
}
