//! The peer-to-peer start (RFC 6581 sections 5 and 9.2): flags A to D, and the RTR message.
//!
//! Sets of flags are numbers: A, B, C and D are the bits 8, 4, 2 and 1.

use weft_mpa::Error as Mpa;
use weft_rnic::{
    Cause, CmEvent, ConnParam, ConnectFailure, Data, DisconnectReason, QpState, RecvWr, SendOpcode, Status,
};
use weft_tests::hex;

use crate::handshake::{
    OPEN, PEER_TO_PEER, REPLY, REQUEST, accept, ask, connect, depths, enhanced, with_rtr, world_of,
};
use crate::octets::{Framing, Place, bare_terminate, fpdu, read_request, send, tagged, terminate, vector};
use crate::world::{World, exchange, filled, whole, work};

const A: u16 = 8;
const B: u16 = 4;
const C: u16 = 2;
const D: u16 = 1;

/// The device's RTR messages. They have STag 1, since some adapters treat STag 0 specially.
fn own_rtr(kind: u16) -> Vec<u8> {
    match kind {
        B => send(1, b""),
        C => tagged("C140", 1, 0, b""),
        _ => read_request(1, Place(1, 0), 0, Place(1, 0)),
    }
}

/// Returns the message that an initiator prefers: Write, which needs nothing of the peer, then Read, then Send.
fn preferred(common: u16) -> u16 {
    [C, D, B].into_iter().find(|kind| common & kind != 0).unwrap()
}

// Covers 6581-9.2-1, 6581-9.2-2, 6581-9.2-12, 6581-9.2-14.
#[test]
fn the_flags_of_a_request() {
    for options in 0..8 {
        for ird in [0, 1, 16] {
            let param = |wanted| ConnParam { ird: Some(ird), peer_to_peer: wanted, ..ConnParam::default() };
            let world = world_of(with_rtr(options));
            connect(&world, param(Some(true))).expect(&enhanced(REQUEST, A | options, ird, 16));
            // Client-server: the device does not tell its RTR messages.
            for wanted in [None, Some(false)] {
                let world = world_of(with_rtr(options));
                connect(&world, param(wanted)).expect(&enhanced(REQUEST, 0, ird, 16));
            }
        }
    }
}

/// All sets in the Request against all sets that the device supports. The empty set counts as all.
// Covers 6581-9.2-3, 6581-9.2-4, 6581-9.2-6, 6581-9.2-8.
#[test]
fn the_flags_of_a_reply_to_a_peer_to_peer_request() {
    for asked in 0..8 {
        for own in 0..8 {
            let able = if own == 0 { B | C | D } else { own };
            let told = if asked & able == 0 { able } else { asked & able };
            for rejects in [false, true] {
                let world = world_of(with_rtr(own));
                let peer = ask(&world, &enhanced(REQUEST, A | asked, 4, 8));
                let request = world.request();
                if rejects {
                    world.side.device.reject(request.id, b"").unwrap();
                } else {
                    world.side.device.accept(request.id, &world.side.qp, ConnParam::default()).unwrap();
                }
                let mut expected = enhanced(REPLY, A | told, 16, if rejects { 16 } else { 4 });
                expected[16] |= u8::from(rejects) << 5;
                peer.expect(&expected);
            }
        }
    }
}

// Covers 6581-9.2-5.
#[test]
fn each_supported_option_is_told() {
    for asked in [B, C, D] {
        let world = world_of(with_rtr(B | C | D));
        let peer = ask(&world, &enhanced(REQUEST, A | asked, 4, 8));
        accept(&world, ConnParam::default());
        peer.expect(&enhanced(REPLY, A | asked, 16, 4));
    }
}

// Covers 6581-9.2-13, 6581-9.2-14, 6581-9.2-15.
#[test]
fn the_flags_of_a_reply_to_a_client_server_request() {
    for asked in 0..8 {
        // The device would want the peer-to-peer start itself, but the initiator decides.
        for mpa in [with_rtr(B | C | D), weft_mpa::Config { peer_to_peer: true, ..with_rtr(D) }] {
            let world = world_of(mpa);
            let peer = ask(&world, &enhanced(REQUEST, asked, 4, 8));
            accept(&world, ConnParam { ird: Some(0), ..ConnParam::default() });
            // No Read RTR is expected, so that an IRD of 0 stays what it is.
            peer.expect(&enhanced(REPLY, 0, 0, 4));
            assert_eq!(depths(&world).0, (0, 4));
            // An empty Send is then a message like any other.
            world.side.qp.post_recv(&RecvWr { wr_id: 5, sges: &[] }).unwrap();
            peer.send(&vector("send0"));
            assert_eq!((world.completion().wr_id, world.side.cq.poll_one()), (5, None));
            exchange(&world, &world.side.qp, &peer, 2);
        }
    }
}

/// All sets in the Reply against all sets that the device supports.
// Covers 6581-9.2-9, 6581-9.2-10, 6581-9.2-11, 6581-8-1.
#[test]
fn the_first_message_is_one_of_those_in_common() {
    for own in 0..8 {
        for told in 0..8 {
            let world = world_of(with_rtr(own));
            let peer = connect(&world, PEER_TO_PEER);
            peer.expect(&enhanced(REQUEST, A | own, 16, 16));
            peer.send(&enhanced(REPLY, A | told, 16, 16));
            if own & told == 0 {
                peer.expect(&vector("term-mpa07"));
                peer.expect_fin();
                assert_eq!(world.connect_error(), ConnectFailure::Protocol(Mpa::NoRtr));
                assert_eq!(world.side.qp.state(), QpState::Idle);
                continue;
            }
            peer.expect(&fpdu(&own_rtr(preferred(own & told))));
            peer.expect_silence();
            assert_eq!(depths(&world), ((16, 16), Some((16, 16))));
            world.expect_no_news();
        }
    }
}

/// A Reply of the other connection model has nothing in common with the Request. Without A the other flags mean
/// nothing.
// Covers 6581-9.2-11, 6581-9.2-15, 6581-8-2.
#[test]
fn the_reply_has_the_connection_model_of_the_request() {
    for told in 0..8 {
        for (asked, model) in [(true, 0), (false, A)] {
            let world = World::new();
            let peer = connect(&world, ConnParam { peer_to_peer: Some(asked), ..ConnParam::default() });
            let _request = peer.read_exact(24);
            peer.send(&enhanced(REPLY, model | told, 16, 16));
            peer.expect(&vector("term-mpa07"));
            peer.expect_fin();
            assert_eq!(world.connect_error(), ConnectFailure::Protocol(Mpa::NoRtr));
        }
        let world = World::new();
        let peer = connect(&world, ConnParam::default());
        let _request = peer.read_exact(24);
        peer.send(&enhanced(REPLY, told, 16, 16));
        assert_eq!(depths(&world).0, (16, 16));
        peer.expect_silence();
        exchange(&world, &world.side.qp, &peer, 1);
    }
}

/// Work of every kind is posted as early as possible; no message of it goes out before the RTR message.
// Covers 6581-5-1.
#[test]
fn nothing_goes_before_the_first_message() {
    for kind in [B, C, D] {
        let world = world_of(with_rtr(kind));
        let memory = filled(&world.side, 8);
        let peer = connect(&world, PEER_TO_PEER);
        let _request = peer.read_exact(24);
        // The peer's first message has come with the Reply, and a Read Request, which has to be answered.
        let place = Place(memory.rkey().0, memory.addr());
        let theirs = fpdu(&read_request(1, Place(9, 0), 8, place));
        peer.send(&[enhanced(REPLY, A | kind, 16, 16), theirs].concat());
        let sges = [whole(&memory)];
        assert!(matches!(world.event(), CmEvent::Established { .. }));
        for opcode in [SendOpcode::Send, SendOpcode::Write { stag: weft_rnic::Stag(7), to: 0 }] {
            world.side.qp.post_send(&work(1, opcode, Data::Sges(&sges))).unwrap();
        }
        let rtr = fpdu(&own_rtr(kind));
        peer.expect(&rtr);
        let content = crate::world::content(&memory);
        let msn = if kind == B { 2 } else { 1 };
        let mut messages = vec![
            fpdu(&tagged("C142", 9, 0, &content)),
            fpdu(&send(msn, &content)),
            fpdu(&tagged("C140", 7, 0, &content)),
        ];
        // The order of the device's answers and messages is not fixed.
        let mut rest = peer.read_exact(messages.concat().len());
        while !rest.is_empty() {
            let index = messages.iter().position(|message| rest.starts_with(message)).unwrap();
            rest.drain(..messages.remove(index).len());
        }
        peer.expect_silence();
    }
}

/// The application chooses it for each connection, or for all in the device's settings.
// Covers 6581-5-2.
#[test]
fn the_application_chooses_the_connection_model() {
    for standard in [false, true] {
        let world = World::with_mpa(weft_mpa::Config { peer_to_peer: standard, ..with_rtr(C) });
        for wanted in [None, Some(true), Some(false)] {
            let qp = world.new_qp();
            let remote = world.address_of_peer();
            let param = ConnParam { peer_to_peer: wanted, ..ConnParam::default() };
            world.side.device.connect(&world.side.events, &qp, remote, param).unwrap();
            let peer = world.host.accept();
            let flags = if wanted.unwrap_or(standard) { A | C } else { 0 };
            peer.expect(&enhanced(REQUEST, flags, 16, 16));
            peer.send(&enhanced(REPLY, flags, 16, 16));
            assert!(matches!(world.event(), CmEvent::Established { .. }));
            if flags != 0 {
                peer.expect(&fpdu(&own_rtr(C)));
            }
            peer.expect_silence();
        }
    }
}

/// The messages that a peer may begin with, the answers, and the MSN of its next Send. The application sees none of
/// them, and a Send takes none of its receives (doubt D4). The device, which had to be silent, may send then.
// Covers 6581-9.2-16.
#[test]
fn the_peers_first_message_opens_the_stream_and_is_not_shown() {
    let solicited = fpdu(&hex("4145 00000000 00000000 00000001 00000000"));
    let cases = [
        (B, vector("send0"), vec![], 2),
        (B, solicited, vec![], 2),
        (C, vector("write0"), vec![], 1),
        (D, vector("rreq0"), vector("rrsp0"), 1),
    ];
    for (kind, first, answer, msn) in cases {
        for has_receive in [false, true] {
            let world = World::new();
            let memory = world.side.memory(16);
            let post_recv = || world.side.post_recv(1, whole(&memory));
            if has_receive {
                post_recv();
            }
            let peer = ask(&world, &enhanced(REQUEST, A | kind, 4, 0));
            accept(&world, ConnParam { ird: Some(0), ..ConnParam::default() });
            // A Read takes a place like any other, so that there has to be one.
            let ird = u16::from(kind == D);
            peer.expect(&enhanced(REPLY, A | kind, ird, 4));
            assert_eq!(depths(&world).0, (ird, 4));
            world.side.qp.post_send(&work(2, SendOpcode::Send, Data::Inline(b"hello"))).unwrap();
            peer.expect_silence();
            peer.send(&first[..first.len() - 1]);
            peer.expect_silence();
            peer.send(&first[first.len() - 1..]);
            peer.expect(&[answer.clone(), vector("send5")].concat());
            assert_eq!((world.completion().wr_id, world.side.cq.poll_one()), (2, None));
            world.expect_no_news();
            if !has_receive {
                post_recv();
            }
            peer.send(&fpdu(&send(msn, b"first")));
            let received = world.completion();
            assert_eq!((received.wr_id, received.byte_len, world.side.cq.poll_one()), (1, 5, None));
        }
    }
}

/// Only an agreed Send is hidden. Every other one is the application's, and needs a receive.
// Covers 6581-9.2-16.
#[test]
fn an_empty_send_that_was_not_agreed_on_is_a_message() {
    for kind in [C, D, C | D] {
        let world = world_of(with_rtr(kind));
        let peer = ask(&world, &enhanced(REQUEST, A | kind, 4, 4));
        accept(&world, ConnParam::default());
        peer.expect(&enhanced(REPLY, A | kind, 16, 4));
        let _ = depths(&world);
        world.side.qp.post_recv(&RecvWr { wr_id: 1, sges: &[] }).unwrap();
        peer.send(&[fpdu(&send(1, b"")), fpdu(&send(2, b""))].concat());
        assert_eq!(world.all_completions(), [(1, Status::Success)]);
        peer.expect(&fpdu(&terminate("1202", &send(2, b""))));
        peer.expect_fin();
    }
    // A Send with octets is always a message.
    let world = world_of(with_rtr(B));
    let memory = world.side.memory(8);
    world.side.post_recv(1, whole(&memory));
    let peer = ask(&world, &enhanced(REQUEST, A | B, 4, 4));
    accept(&world, ConnParam::default());
    peer.expect(&enhanced(REPLY, A | B, 16, 4));
    let _ = depths(&world);
    peer.send(&fpdu(&send(1, b"x")));
    assert_eq!(world.completion().byte_len, 1);
}

/// The device's own first message has no completion, although all others do. The answer to its Read has none either.
// Covers 6581-9.2-9.
#[test]
fn the_first_message_is_no_request_of_the_application() {
    for kind in [B, C, D] {
        let world = world_of(with_rtr(kind));
        let side = &world.side;
        let init = weft_rnic::QpInit {
            capacity: weft_rnic::QpCapacity::default(),
            signal_all: true,
            ..weft_rnic::QpInit::new(&side.cq, &side.cq)
        };
        let qp = side.device.create_qp(&side.pd, &init).unwrap();
        side.device.connect(&side.events, &qp, world.address_of_peer(), PEER_TO_PEER).unwrap();
        let peer = world.host.accept();
        let _request = peer.read_exact(24);
        peer.send(&enhanced(REPLY, A | kind, 16, 16));
        peer.expect(&fpdu(&own_rtr(kind)));
        assert!(matches!(world.event(), CmEvent::Established { ord: 16, .. }));
        if kind == D {
            // The peer answers it as any Read, to where it was asked to.
            peer.send(&fpdu(&tagged("C142", 1, 0, b"")));
        }
        world.expect_no_news();
        qp.post_send(&work(1, SendOpcode::Send, Data::Inline(b"mine"))).unwrap();
        peer.expect(&fpdu(&send(if kind == B { 2 } else { 1 }, b"mine")));
        assert_eq!((world.completion().wr_id, side.cq.poll_one()), (1, None));
    }
}

/// A device without Reads of its own may still begin with one. Its ORD is then 1, as the Reply must allow.
#[test]
fn a_read_needs_a_place_at_the_peer() {
    let none = ConnParam { ird: Some(0), ord: Some(0), ..PEER_TO_PEER };
    for (own, told, ird, first) in
        [(D, D, 1, Some(D)), (D, D, 0, None), (B | D, B | D, 0, Some(B)), (C | D, D, OPEN, Some(D))]
    {
        let world = world_of(with_rtr(own));
        let peer = connect(&world, none);
        peer.expect(&enhanced(REQUEST, A | own, 0, 0));
        peer.send(&enhanced(REPLY, A | told, ird, 0));
        match first {
            Some(kind) => {
                peer.expect(&fpdu(&own_rtr(kind)));
                assert_eq!(depths(&world).0, (0, u16::from(kind == D)));
            }
            None => {
                peer.expect(&vector("term-mpa07"));
                assert_eq!(world.connect_error(), ConnectFailure::Protocol(Mpa::NoRtr));
            }
        }
    }
}

/// The framing, with Markers or without CRC, applies from the stream's first octet on.
#[test]
fn the_first_message_is_framed_as_negotiated() {
    for (crc, markers) in [(true, true), (false, true), (false, false)] {
        for kind in [B, C, D] {
            let world = world_of(weft_mpa::Config { crc, ..with_rtr(kind) });
            let peer = connect(&world, PEER_TO_PEER);
            let _request = peer.read_exact(24);
            let mut reply = enhanced(REPLY, A | kind, 16, 16);
            reply[16] = u8::from(markers) << 7 | u8::from(crc) << 6 | 0x10;
            peer.send(&reply);
            peer.expect(&Framing::new(crc, markers).fpdu(&own_rtr(kind)));
        }
        let world = world_of(weft_mpa::Config { crc, ..with_rtr(B) });
        let peer = connect(&world, PEER_TO_PEER);
        let _request = peer.read_exact(24);
        let mut reply = enhanced(REPLY, A | C, 16, 16);
        reply[16] = u8::from(markers) << 7 | u8::from(crc) << 6 | 0x10;
        peer.send(&reply);
        peer.expect(&Framing::new(crc, markers).fpdu(&bare_terminate("2007")));
        peer.expect_fin();
    }
}

/// The initiator may send a Terminate instead of the first message. The application of the responder learns its
/// reason.
// Covers 6581-8-1, 6581-9.1-7.
#[test]
fn the_initiator_terminates_instead() {
    for (code, vector_name) in
        [((2, 0, 5), None), ((2, 0, 6), Some("term-mpa06")), ((2, 0, 7), Some("term-mpa07"))]
    {
        let world = World::new();
        world.side.qp.post_recv(&RecvWr { wr_id: 1, sges: &[] }).unwrap();
        let peer = ask(&world, &enhanced(REQUEST, A | B, 4, 8));
        accept(&world, ConnParam::default());
        peer.expect(&enhanced(REPLY, A | B, 16, 4));
        let _ = depths(&world);
        peer.send(&vector_name.map_or_else(|| fpdu(&bare_terminate("2005")), vector));
        let DisconnectReason::PeerTerminate { code: heard, text, .. } = world.disconnected() else {
            panic!("no Terminate")
        };
        assert_eq!(heard, code);
        assert!(text.contains(["catastrophic", "IRD", "RTR"][usize::from(code.2) - 5]), "{text}");
        assert_eq!(world.all_completions(), [(1, Status::WorkRequestFlushed)]);
        peer.expect_fin();
    }
}

/// A completion queue is lost while the peer considers the Request. This is a local error without a code of its own.
/// A peer that has accepted learns of it in the first FPDU. A peer that has not accepted needs no message.
// Covers 6581-9.3-1, 6581-8-1, 6581-8-2.
#[test]
fn a_local_error_during_the_start_is_reported_as_2_0_05() {
    for flags in [0, A | B | C | D] {
        let world = World::new();
        let side = &world.side;
        let small = side.device.create_cq(1, None).unwrap();
        let init = weft_rnic::QpInit {
            capacity: weft_rnic::QpCapacity::default(),
            signal_all: true,
            ..weft_rnic::QpInit::new(&small, &small)
        };
        let [culprit, victim] = [(); 2].map(|()| side.device.create_qp(&side.pd, &init).unwrap());
        let first = world.establish_with(crate::world::Role::Active, &culprit, ConnParam::default());
        let param = ConnParam { peer_to_peer: Some(flags != 0), ..ConnParam::default() };
        side.device.connect(&side.events, &victim, world.address_of_peer(), param).unwrap();
        let peer = world.host.accept();
        peer.expect(&enhanced(REQUEST, flags, 16, 16));
        for _ in 0..=small.capacity() {
            culprit.post_send(&work(1, SendOpcode::Send, Data::Inline(b""))).unwrap();
        }
        world.settle();
        assert!(small.is_overrun());
        let CmEvent::Disconnected { reason, .. } = world.event() else { panic!("no end of the first one") };
        assert_eq!(reason, DisconnectReason::LocalTerminate(Cause::CompletionQueueOverrun));
        drop(first);
        peer.send(&enhanced(REPLY, flags, 16, 16));
        peer.expect(&fpdu(&bare_terminate("2005")));
        peer.expect_fin();
        let reason = ConnectFailure::Protocol(Mpa::LocalCatastrophic);
        assert_eq!(world.event(), CmEvent::ConnectError { qp_num: victim.number(), reason });
        peer.close();
        world.expect_service();
    }
}
