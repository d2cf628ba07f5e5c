//! Ends of connections that the device did not want: Terminates, FIN, RST, silence.

use weft_netif::Duration;
use weft_rnic::{CompletionOpcode, ConnParam, Data, DisconnectReason, QpState, SendOpcode, Stag, Status};
use weft_tests::{RawPeer, hex};

use crate::octets::{
    Place, bare_terminate, fpdu, join, pattern, read_request, send, tagged, terminate, terminate_read, write,
};
use crate::scene::Scene;
use crate::world::{FLUSHED, ROLES, Role, World, content, exchange, filled, open, whole, work};

/// After the peer's Terminate the device sends only FIN, and the queue pair is in Error.
fn expect_end(world: &World, peer: &RawPeer, code: (u8, u8, u8)) {
    peer.expect_fin();
    assert_eq!(world.side.qp.state(), QpState::Terminate);
    match world.disconnected() {
        DisconnectReason::PeerTerminate { code: received, text, .. } => {
            assert_eq!(received, code);
            assert!(!text.is_empty());
        }
        reason => panic!("{reason:?}"),
    }
    peer.close();
    world.expect_no_news();
    assert_eq!(world.side.qp.state(), QpState::Error);
    world.expect_service();
}

/// A Read that the peer refuses fails with the peer's code. Requests posted before and after it do not.
#[test]
fn a_read_is_refused() {
    let cases = [
        ("0100", (0, 1, 0x00), Status::RemoteAccess),
        ("0101", (0, 1, 0x01), Status::RemoteAccess),
        ("0102", (0, 1, 0x02), Status::RemoteAccess),
        ("0207", (0, 2, 0x07), Status::RemoteOperation),
        ("1202", (1, 2, 0x02), Status::RemoteInvalidRequest),
    ];
    for role in ROLES {
        for (digits, code, status) in cases {
            let (world, peer) = open(role);
            let sink = filled(&world.side, 8);
            world.side.post_recv(1, whole(&sink));
            let read = SendOpcode::Read { stag: Stag(0xDEAD), to: 0x1000 };
            world.side.qp.post_send(&work(2, read, Data::Sges(&[whole(&sink)]))).unwrap();
            world.side.qp.post_send(&work(3, read, Data::Sges(&[whole(&sink)]))).unwrap();
            let place = Place(sink.lkey().0, sink.addr());
            let request = read_request(1, place, 8, Place(0xDEAD, 0x1000));
            peer.expect(&fpdu(&request));
            peer.expect(&fpdu(&read_request(2, place, 8, Place(0xDEAD, 0x1000))));
            let answer = if digits.starts_with("01") { terminate_read } else { terminate };
            peer.send(&fpdu(&answer(digits, &request)));
            let failed = world.completion();
            assert_eq!((failed.wr_id, failed.status), (2, status));
            assert_eq!(failed.vendor_err, u32::from_be_bytes([0, code.0, code.1, code.2]));
            assert_eq!(world.all_completions(), [(1, FLUSHED), (3, FLUSHED)]);
            expect_end(&world, &peer, code);
            assert_eq!(content(&sink), [crate::world::FILL; 8]);
        }
    }
}

/// A Write or Send whose last octet TCP has taken is complete before the peer can refuse it. Any other one fails.
#[test]
fn writes_and_sends_are_refused() {
    for role in ROLES {
        for len in [8, 2 << 20] {
            let cases = [
                (SendOpcode::Write { stag: Stag(0xDEAD), to: 0 }, "1100", (1, 1, 0x00), Status::RemoteAccess),
                (SendOpcode::Write { stag: Stag(0xDEAD), to: 0 }, "0102", (0, 1, 0x02), Status::RemoteAccess),
                (SendOpcode::Send, "1202", (1, 2, 0x02), Status::RnrRetryExceeded),
                (SendOpcode::Send, "1205", (1, 2, 0x05), Status::RemoteInvalidRequest),
            ];
            for (opcode, digits, code, status) in cases {
                let (world, peer) = open(role);
                let memory = world.side.memory(len);
                memory.write(0, &pattern(len)).unwrap();
                world.side.qp.post_send(&work(1, opcode, Data::Sges(&[whole(&memory)]))).unwrap();
                let ulpdu = peer.read_exact(24)[2..].to_vec();
                peer.set_reading(false);
                world.settle();
                peer.send(&fpdu(&terminate(digits, &ulpdu)));
                let done = world.completion();
                let is_write = matches!(opcode, SendOpcode::Write { .. });
                if len == 8 {
                    assert_eq!((done.status, done.vendor_err), (Status::Success, 0));
                    let kind = if is_write { CompletionOpcode::Write } else { CompletionOpcode::Send };
                    assert_eq!(done.opcode, kind);
                } else {
                    assert_eq!((done.wr_id, done.status), (1, status));
                    assert_eq!(done.vendor_err, u32::from_be_bytes([0, code.0, code.1, code.2]));
                }
                world.settle();
                let reason = world.disconnected();
                assert!(
                    matches!(reason, DisconnectReason::PeerTerminate { code: it, .. } if it == code),
                    "{reason:?}"
                );
                world.expect_no_news();
                world.expect_service();
            }
        }
    }
}

/// Valid Terminates that this device would not send.
#[test]
fn terminates_of_all_shapes() {
    let cases = [
        (bare_terminate("2002"), (2, 0, 2)),
        (bare_terminate("0000"), (0, 0, 0)),
        // Length and headers announced as zeros, reserved bits set, trailing zeros.
        ([bare_terminate("2003"), vec![0; 20]].concat(), (2, 0, 3)),
        (join("4147 00000000 00000002 00000001 00000000 2001 1FFF", &[]), (2, 0, 1)),
        // R without a header behind it, and headers that are cut off.
        (
            join(
                "4147 00000000 00000002 00000001 00000000 0109 E000 0012 4144 11223344 00000000 00000001 00000000",
                &[],
            ),
            (0, 1, 9),
        ),
        (join("4147 00000000 00000002 00000001 00000000 1100 C000 0016 C140", &[]), (1, 1, 0)),
        // An unknown code, without headers.
        (bare_terminate("F5EE"), (0xF, 5, 0xEE)),
    ];
    for role in ROLES {
        for (ulpdu, code) in &cases {
            let (world, peer) = open(role);
            world.side.qp.post_recv(&weft_rnic::RecvWr { wr_id: 1, sges: &[] }).unwrap();
            // Octets behind a Terminate mean nothing.
            peer.send(&[fpdu(ulpdu), fpdu(&send(1, b"")), vec![0xFF; 100]].concat());
            assert_eq!(world.all_completions(), [(1, FLUSHED)]);
            expect_end(&world, &peer, *code);
        }
    }
}

#[test]
fn the_peer_closes_between_two_fpdus() {
    for role in ROLES {
        let scene = Scene::new(role);
        let (world, peer) = (&scene.world, &scene.peer);
        peer.close();
        peer.expect_fin();
        assert_eq!(world.disconnected(), DisconnectReason::Peer);
        assert_eq!(world.all_completions(), [1, 2, 3, 4].map(|wr_id| (wr_id, FLUSHED)));
        assert_eq!(world.side.qp.state(), QpState::Error);
        world.expect_no_news();
        world.expect_service();
    }
}

/// A closing peer still gets the answers to its Reads.
#[test]
fn the_peer_closes_behind_a_read_request() {
    for role in ROLES {
        let (world, peer) = open(role);
        let source = world.side.memory(10_000);
        source.write(0, &pattern(10_000)).unwrap();
        peer.send(&fpdu(&read_request(1, Place(1, 0), 10_000, Place(source.rkey().0, source.addr()))));
        peer.close();
        for (index, part) in pattern(10_000).chunks(1440).enumerate() {
            let head = if index == 6 { "C142" } else { "8142" };
            peer.expect(&fpdu(&tagged(head, 1, 1440 * index as u64, part)));
        }
        peer.expect_fin();
        assert_eq!(world.disconnected(), DisconnectReason::Peer);
    }
}

/// The peer ends the connection at every octet inside an FPDU, with FIN and with RST.
#[test]
fn the_peer_ends_inside_an_fpdu() {
    for role in ROLES {
        for len in [1, 2, 3, 16, 24, 27] {
            for is_reset in [false, true] {
                let scene = Scene::new(role);
                let (world, peer) = (&scene.world, &scene.peer);
                let octets = fpdu(&write(scene.target.rkey().0, scene.target.addr(), b"12345678"));
                peer.send(&octets[..len]);
                world.settle();
                if is_reset {
                    peer.abort();
                } else {
                    peer.close();
                    peer.expect_fin();
                }
                assert_eq!(world.disconnected(), DisconnectReason::Lost, "after {len} octets");
                assert_eq!(world.all_completions(), [1, 2, 3, 4].map(|wr_id| (wr_id, FLUSHED)));
                assert_eq!(world.side.qp.state(), QpState::Error);
                assert_eq!(content(&scene.target), [crate::world::FILL; 64]);
                world.expect_no_news();
                world.expect_service();
            }
        }
    }
}

#[test]
fn the_peer_resets_between_two_fpdus() {
    for role in ROLES {
        let scene = Scene::new(role);
        scene.peer.abort();
        assert_eq!(scene.world.disconnected(), DisconnectReason::Lost);
        assert_eq!(scene.world.all_completions(), [1, 2, 3, 4].map(|wr_id| (wr_id, FLUSHED)));
        assert_eq!(scene.world.side.qp.state(), QpState::Error);
        scene.world.expect_service();
    }
}

/// The device disconnects: FIN at an FPDU boundary, then the peer's FIN ends it.
#[test]
fn the_device_disconnects() {
    for role in ROLES {
        let scene = Scene::new(role);
        let (world, peer) = (&scene.world, &scene.peer);
        world.side.qp.disconnect().unwrap();
        assert_eq!(world.side.qp.state(), QpState::Closing);
        peer.expect_fin();
        // A Write that comes too late is not placed.
        peer.send(&fpdu(&write(scene.target.rkey().0, scene.target.addr(), b"too late")));
        peer.close();
        assert_eq!(world.disconnected(), DisconnectReason::Local);
        assert_eq!(world.all_completions(), [1, 2, 3, 4].map(|wr_id| (wr_id, FLUSHED)));
        assert_eq!(content(&scene.target), [crate::world::FILL; 64]);
        assert_eq!(world.side.qp.state(), QpState::Error);
        world.expect_service();
    }
}

/// The peer's window is closed, and stays so. The peer answers probes, so that only the application can end this:
/// within the close timeout of twenty seconds.
#[test]
fn a_peer_that_never_reads() {
    for role in ROLES {
        let (world, peer) = open(role);
        peer.set_reading(false);
        let memory = world.side.memory(4 << 20);
        for wr_id in 1..=3 {
            world.side.qp.post_send(&work(wr_id, SendOpcode::Send, Data::Sges(&[whole(&memory)]))).unwrap();
        }
        let other = world.new_qp();
        let other_peer = world.establish_with(role, &other, ConnParam::default());
        exchange(&world, &other, &other_peer, 1);
        world.host.settle(Duration::from_secs(300));
        world.expect_no_news();
        assert_eq!(world.side.qp.state(), QpState::Rts);
        let start = world.host.now();
        world.side.qp.disconnect().unwrap();
        assert_eq!(world.disconnected(), DisconnectReason::Local);
        assert!(world.host.now() - start <= Duration::from_secs(21));
        assert_eq!(world.all_completions(), [(1, FLUSHED), (2, FLUSHED), (3, FLUSHED)]);
        peer.set_reading(true);
        world.settle();
        assert_eq!(peer.state(), weft_netif::LlpState::Reset);
        assert_eq!(world.side.qp.state(), QpState::Error);
        world.expect_service();
    }
}

/// An error while the window is closed: the Terminate cannot be sent, and the connection ends regardless.
#[test]
fn a_terminate_that_cannot_be_sent() {
    for role in ROLES {
        let (world, peer) = open(role);
        peer.set_reading(false);
        let memory = world.side.memory(4 << 20);
        world.side.qp.post_send(&work(1, SendOpcode::Send, Data::Sges(&[whole(&memory)]))).unwrap();
        world.settle();
        peer.send(&fpdu(&hex("4143 00000000 00000009 00000001 00000000")));
        let reason = world.disconnected();
        assert!(matches!(reason, DisconnectReason::LocalTerminate(_)), "{reason:?}");
        assert_eq!(world.all_completions(), [(1, FLUSHED)]);
        assert_eq!(world.side.qp.state(), QpState::Terminate);
        world.host.settle(Duration::from_secs(21));
        assert_eq!(world.side.qp.state(), QpState::Error);
        world.expect_no_news();
        world.expect_service();
    }
}

/// Flushed memory belongs to the application again. The device sends no more of it to a peer that has closed, not
/// even between the answers to that peer's Reads.
#[test]
fn the_peer_closes_while_a_send_is_on_its_way() {
    for (role, reads) in
        [(Role::Passive, false), (Role::Active, false), (Role::Passive, true), (Role::Active, true)]
    {
        let (world, peer) = open(role);
        peer.set_reading(false);
        let (memory, source) = (world.side.memory(4 << 20), filled(&world.side, 100_000));
        memory.write(0, &vec![0x11; 4 << 20]).unwrap();
        world.side.qp.post_send(&work(1, SendOpcode::Send, Data::Sges(&[whole(&memory)]))).unwrap();
        world.settle();
        if reads {
            peer.send(&fpdu(&read_request(1, Place(1, 0), 100_000, Place(source.rkey().0, source.addr()))));
        }
        peer.close();
        assert_eq!(world.all_completions(), [(1, FLUSHED)]);
        assert_eq!(world.disconnected(), DisconnectReason::Peer);
        memory.write(0, &vec![0x22; 4 << 20]).unwrap();
        peer.set_reading(true);
        let sent = peer.read_to_fin();
        assert!(sent.len() > 100_000 && sent.len() < 4 << 20, "{} octets", sent.len());
        assert!(!sent.windows(64).any(|octets| octets == [0x22; 64]), "memory that was given back was sent");
        let answers = sent.iter().filter(|octet| **octet == crate::world::FILL).count();
        assert_eq!(answers >= 100_000, reads, "{answers} octets of the answer");
        assert_eq!(world.side.qp.state(), QpState::Error);
    }
}
