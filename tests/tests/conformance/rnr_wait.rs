//! Messages that wait for a receive (`rnr_wait`), as a peer sees them: octet by octet, and with every kind of fault.

use weft_netif::{Duration, LlpState};
use weft_rnic::{Cause, ConnParam, DisconnectReason, QpState, RecvWr, Status};
use weft_tests::{PairConfig, RawPeer, hex};

use crate::octets::{Framing, bare_terminate, fpdu, pattern, send, send_part, terminate, write};
use crate::world::{FILL, FLUSHED, ROLES, Role, World, content, exchange, filled, open_with, whole};

fn open(role: Role) -> (World, RawPeer) {
    open_with(role, &PairConfig { rnr_wait: true, tcp_buffer: 32 * 1024, ..PairConfig::default() })
}

/// The segments of one message come whole, in pieces, and far apart. The message waits at the first and is taken
/// once.
#[test]
fn a_message_waits_however_it_is_cut() {
    for role in ROLES {
        for is_cut in [false, true] {
            let (world, peer) = open(role);
            let target = filled(&world.side, 8);
            let parts = [send_part("01", 1, 0, b"abcd"), send_part("41", 1, 4, b"efgh")];
            let late = fpdu(&write(target.rkey().0, target.addr(), b"too soon"));
            let octets = [&parts.map(|part| fpdu(&part)).concat()[..], &late].concat();
            if is_cut {
                peer.send_one_by_one(&octets)
            } else {
                peer.send(&octets)
            }
            world.host.settle(Duration::from_secs(3600));
            world.expect_no_news();
            assert_eq!((world.side.qp.state(), content(&target)), (QpState::Rts, vec![FILL; 8]));
            let inbox = filled(&world.side, 16);
            world.side.post_recv(1, whole(&inbox));
            let done = world.completion();
            assert_eq!((done.wr_id, done.status, done.byte_len), (1, Status::Success, 8));
            assert_eq!((&content(&inbox)[..8], &content(&target)[..]), (&b"abcdefgh"[..], &b"too soon"[..]));
            exchange(&world, &world.side.qp, &peer, 2);
        }
    }
}

/// The peer can send as much as TCP's buffers hold and one FPDU more, and goes on as soon as receives are posted.
#[test]
fn the_window_closes_and_opens_again() {
    for role in ROLES {
        const COUNT: u32 = 600;
        let (world, peer) = open(role);
        let text = pattern(1000);
        let stream: Vec<u8> = (1..=COUNT).flat_map(|msn| fpdu(&send(msn, &text))).collect();
        let mut sent = 0;
        for _ in 0..1000 {
            sent += peer.offer(&stream[sent..]);
            world.host.settle(Duration::from_secs(1));
        }
        // Octets that are not in the device are in the peer's own send buffer.
        assert!(sent < stream.len() && world.side.cq.poll_one().is_none());
        let inbox = filled(&world.side, 1000);
        for wr_id in 1..=u64::from(COUNT) {
            world.side.post_recv(wr_id, whole(&inbox));
            sent += peer.offer(&stream[sent..]);
            let done = world.completion();
            assert_eq!((done.wr_id, done.status), (wr_id, Status::Success));
            assert!(content(&inbox) == text, "message {wr_id}");
            inbox.write(0, &[FILL; 1000]).unwrap();
        }
        assert_eq!((sent, peer.state()), (stream.len(), LlpState::Established));
    }
}

/// Without CRC and with Markers, where a segment does not lie in one piece.
#[test]
fn markers_keep_their_count() {
    let mpa = weft_mpa::Config { markers: true, ..weft_mpa::Config::default() };
    let config = PairConfig { rnr_wait: true, mpa, ..PairConfig::default() };
    let world = World::with(&config);
    let peer = world.establish(Role::Passive);
    let mut framing = Framing::new(true, true);
    for msn in 1..=20 {
        let text = &pattern(2000)[..msn as usize * 100];
        peer.send(&framing.fpdu(&send(msn, text)));
        world.settle();
        let inbox = filled(&world.side, 2000);
        world.side.post_recv(u64::from(msn), whole(&inbox));
        let done = world.completion();
        assert_eq!((done.status, done.byte_len), (Status::Success, msn * 100));
        assert_eq!(&content(&inbox)[..text.len()], text);
    }
}

/// Only a valid message waits. A message that can never be taken ends the stream at once.
#[test]
fn a_bad_message_does_not_wait() {
    let bad: [(&str, Vec<u8>, weft_rdmap::Error); 3] = [
        ("1203", send(2, b"skipped"), weft_ddp::Error::MsnRange.into()),
        ("1204", send_part("41", 1, 4, b"efgh"), weft_ddp::Error::InvalidMo.into()),
        ("0206", hex("414F 00000000 00000000 00000001 00000000"), weft_rdmap::Error::UnexpectedOpcode),
    ];
    for role in ROLES {
        for (code, ulpdu, error) in &bad {
            let (world, peer) = open(role);
            peer.send(&fpdu(ulpdu));
            peer.expect(&fpdu(&terminate(code, ulpdu)));
            peer.expect_fin();
            assert_eq!(world.disconnected(), DisconnectReason::LocalTerminate(Cause::Peer(*error)));
        }
    }
}

/// A fault behind a waiting message is found later, and does not cost that message.
#[test]
fn an_error_behind_the_message_waits_too() {
    for role in ROLES {
        let (world, peer) = open(role);
        let bad = write(0xDEAD_BEEF, 0, b"x");
        peer.send(&[fpdu(&send(1, b"good")), fpdu(&bad)].concat());
        world.host.settle(Duration::from_secs(60));
        world.expect_no_news();
        let inbox = filled(&world.side, 4);
        world.side.post_recv(1, whole(&inbox));
        peer.expect(&fpdu(&terminate("1100", &bad)));
        peer.expect_fin();
        assert_eq!((world.completion().status, content(&inbox)), (Status::Success, b"good".to_vec()));
    }
}

/// The peer's Terminate, its FIN, both, and a FIN inside an FPDU.
#[test]
fn the_end_comes_behind_the_message() {
    let goodbye = fpdu(&bare_terminate("0000"));
    for role in ROLES {
        for (end, closes) in [(&goodbye[..], false), (&goodbye, true), (&[], true), (&goodbye[..7], true)] {
            let (world, peer) = open(role);
            peer.send(&[&fpdu(&send(1, b"good")), end].concat());
            if closes {
                peer.close();
            }
            world.host.settle(Duration::from_secs(60));
            world.expect_no_news();
            assert_eq!(world.side.qp.state(), QpState::Rts);
            let inbox = filled(&world.side, 4);
            world.side.post_recv(1, whole(&inbox));
            world.side.post_recv(2, whole(&inbox));
            let reason = world.disconnected();
            let is_right = match end.len() {
                0 => reason == DisconnectReason::Peer,
                7 => reason == DisconnectReason::Lost,
                _ => matches!(reason, DisconnectReason::PeerTerminate { code: (0, 0, 0), .. }),
            };
            assert!(is_right, "{reason:?}");
            assert_eq!(world.all_completions(), [(1, Status::Success), (2, FLUSHED)]);
            assert_eq!(content(&inbox), b"good");
        }
    }
}

#[test]
fn a_reset_ends_the_wait() {
    for role in ROLES {
        let (world, peer) = open(role);
        peer.send(&fpdu(&send(1, b"lost")));
        world.settle();
        peer.abort();
        assert_eq!(world.disconnected(), DisconnectReason::Lost);
        world.side.qp.post_recv(&RecvWr { wr_id: 1, sges: &[] }).unwrap();
        assert_eq!(world.all_completions(), [(1, FLUSHED)]);
    }
}

/// The empty Send of the peer-to-peer start takes no receive, so that it does not wait for one.
#[test]
fn the_rtr_send_does_not_wait() {
    let mpa = weft_mpa::Config { peer_to_peer: true, ..weft_mpa::Config::default() };
    let config = PairConfig { rnr_wait: true, mpa, ..PairConfig::default() };
    let world = World::with(&config);
    let peer = world.dial();
    // Control flags A and B with the IRD: peer-to-peer, by an empty Send (RFC 6581 section 9.1).
    peer.send(&hex("4D504120494420526571204672616D65 50 02 0004 C002 0002"));
    let request = world.request();
    world.side.device.accept(request.id, &world.side.qp, ConnParam::default()).unwrap();
    let reply = peer.read_exact(24);
    assert_eq!(reply[20] & 0xC0, 0xC0, "the device takes a Send as RTR message");
    peer.send(&fpdu(&send(1, b"")));
    world.settle();
    let _established = world.event();
    exchange(&world, &world.side.qp, &peer, 2);
}
