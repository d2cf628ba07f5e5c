//! The end of a stream, and of its connection (RFC 5040 sections 6.1, 6.2 and 7).

use weft_netif::{Duration, LlpState};
use weft_rnic::{ConnParam, Data, DisconnectReason, QpState, RecvWr, SendOpcode, Stag};

use crate::octets::{
    Place, bare_terminate, crc32c, fpdu, pattern, read_request, send, tagged, terminate, write,
};
use crate::scene::Scene;
use crate::world::{FLUSHED, ROLES, Role, content, exchange, filled, open, whole, work};

/// The RDMAP opcodes of a stream without Markers; every octet of it belongs to an FPDU with a good CRC.
fn opcodes(mut stream: &[u8]) -> Vec<u8> {
    let mut all = Vec::new();
    while !stream.is_empty() {
        let len = usize::from(stream[0]) << 8 | usize::from(stream[1]);
        let covered = (2 + len).next_multiple_of(4);
        assert!(stream.len() >= covered + 4, "half an FPDU");
        assert_eq!(stream[covered..covered + 4], crc32c(&stream[..covered]).to_le_bytes());
        assert_eq!((stream[2] & 0x03, stream[3] >> 6), (1, 1), "versions of DDP and RDMAP");
        let (is_tagged, opcode) = (stream[2] & 0x80 != 0, stream[3] & 0x0F);
        assert_eq!(is_tagged, matches!(opcode, 0x0 | 0x2), "opcode {opcode:x}");
        all.push(opcode);
        stream = &stream[covered + 4..];
    }
    all
}

/// Traffic of all kinds and an end of each kind: behind the startup frames there are FPDUs with known opcodes, up to
/// the FIN.
// Covers 5040-6.1-1.
#[test]
fn nothing_but_rdma_messages_is_sent() {
    for role in ROLES {
        for end in 0..4 {
            let (world, peer) = open(role);
            let memory = filled(&world.side, 9000);
            let data = [whole(&memory)];
            let (write_op, read_op) =
                (SendOpcode::Write { stag: Stag(1), to: 0 }, SendOpcode::Read { stag: Stag(1), to: 0 });
            let all = [SendOpcode::Send, write_op, read_op, SendOpcode::SendInvalidate { stag: Stag(2) }];
            for (wr_id, opcode) in all.into_iter().enumerate() {
                world.side.qp.post_send(&work(wr_id as u64, opcode, Data::Sges(&data))).unwrap();
            }
            let place = Place(memory.rkey().0, memory.addr());
            peer.send(&fpdu(&read_request(1, Place(3, 0), 9000, place)));
            world.settle();
            match end {
                0 => world.side.qp.disconnect().unwrap(),
                1 => peer.close(),
                2 => peer.send(&fpdu(&bare_terminate("0000"))),
                _ => peer.send(&fpdu(&write(0xDEAD_BEEF, 0, b"x"))),
            }
            let mut seen = opcodes(&peer.read_to_fin());
            assert_eq!(seen.last() == Some(&0x7), end == 3, "a Terminate is the last message");
            seen.sort_unstable();
            seen.dedup();
            let expected = [&[0x0, 0x1, 0x2, 0x3, 0x4][..], if end == 3 { &[0x7] } else { &[] }].concat();
            assert_eq!(seen, expected);
        }
    }
}

/// Returns a fault of each layer, and its code for the peer on a connection that is otherwise valid.
fn errors() -> [(&'static str, Vec<u8>); 6] {
    let mut crc = fpdu(&send(1, b"hello"));
    crc[24] ^= 1;
    [
        ("2002", crc),
        ("1100", fpdu(&write(0xDEAD_BEEF, 0, b"x"))),
        ("1202", fpdu(&send(1, b"hello"))),
        ("0100", fpdu(&read_request(1, Place(1, 0), 1, Place(0xDEAD_BEEF, 0)))),
        ("0205", fpdu(&tagged("C180", 1, 0, b"x"))),
        ("0206", fpdu(&tagged("C143", 1, 0, b"x"))),
    ]
}

/// A Terminate answers each error. It arrives whole and before the FIN, although the device ignores many of the
/// peer's octets.
// Covers 5040-6.2.1-1, 5040-6.2.1-3, 5040-6.2.1-4.
#[test]
fn a_terminate_arrives_before_the_fin() {
    for role in ROLES {
        for (code, bad) in errors() {
            let (world, peer) = open(role);
            let target = filled(&world.side, 1000);
            let unread = fpdu(&write(target.rkey().0, target.addr(), &pattern(1000))).repeat(200);
            peer.send(&[bad, unread].concat());
            let octets = peer.read_to_fin();
            assert_eq!(opcodes(&octets), [0x7]);
            assert_eq!(octets[20..22], weft_tests::hex(code));
            assert_eq!(peer.state(), LlpState::PeerClosed, "no reset");
            peer.close();
            world.settle();
            assert_eq!(peer.state(), LlpState::Closed, "no reset");
            assert_eq!(content(&target), [crate::world::FILL; 1000]);
        }
    }
}

/// Outstanding operations of every kind end in error, whichever side ends the stream.
// Covers 5040-6.2.1-2.
#[test]
fn everything_outstanding_ends_in_error() {
    for role in ROLES {
        for octets in [fpdu(&bare_terminate("0000")), fpdu(&write(0xDEAD_BEEF, 0, b"x"))] {
            let scene = Scene::new(role);
            scene.peer.send(&octets);
            assert_eq!(scene.world.all_completions(), [1, 2, 3, 4].map(|wr_id| (wr_id, FLUSHED)));
        }
    }
}

/// A Terminate, sent or received, ends all transfer: posted requests are not sent, and arriving messages are ignored.
// Covers 5040-7-1, 5040-7-2.
#[test]
fn a_terminated_stream_transfers_nothing() {
    for role in ROLES {
        for peer_ends in [true, false] {
            let (world, peer) = open(role);
            let target = filled(&world.side, 8);
            world.side.qp.post_recv(&RecvWr { wr_id: 1, sges: &[] }).unwrap();
            let bad = write(0xDEAD_BEEF, 0, b"x");
            peer.send(&fpdu(&if peer_ends { bare_terminate("0000") } else { bad.clone() }));
            assert_eq!(world.completion().status, FLUSHED);
            assert_eq!(world.side.qp.state(), QpState::Terminate);
            world.side.qp.post_send(&work(2, SendOpcode::Send, Data::Inline(b"late"))).unwrap();
            world.side.qp.post_recv(&RecvWr { wr_id: 3, sges: &[] }).unwrap();
            let late = fpdu(&write(target.rkey().0, target.addr(), b"too late"));
            let read = read_request(1, Place(1, 0), 8, Place(target.rkey().0, target.addr()));
            peer.send(&[late, fpdu(&send(1, b"")), fpdu(&read)].concat());
            assert_eq!(world.all_completions(), [(2, FLUSHED), (3, FLUSHED)]);
            let octets = peer.read_to_fin();
            assert_eq!(octets, if peer_ends { vec![] } else { fpdu(&terminate("1100", &bad)) });
            assert_eq!(content(&target), [crate::world::FILL; 8]);
            peer.close();
            world.settle();
            assert_eq!(world.side.qp.state(), QpState::Error);
        }
    }
}

/// A peer never closes its side. The connection is given up in bounded time after a Terminate, sent or received, or a
/// graceful end. Other streams are not affected.
// Covers 5040-7-3.
#[test]
fn the_connection_ends_even_if_the_peer_does_nothing() {
    for role in ROLES {
        for end in 0..3 {
            let (world, peer) = open(role);
            let other = world.new_qp();
            let bystander = world.establish_with(Role::Passive, &other, ConnParam::default());
            match end {
                0 => peer.send(&fpdu(&bare_terminate("0000"))),
                1 => peer.send(&fpdu(&write(0xDEAD_BEEF, 0, b"x"))),
                _ => world.side.qp.disconnect().unwrap(),
            }
            let _terminate = peer.read_to_fin();
            assert_eq!(peer.state(), LlpState::PeerClosed);
            world.host.settle(Duration::from_secs(25));
            assert_eq!(peer.state(), LlpState::Reset, "still open");
            assert_eq!(world.side.qp.state(), QpState::Error);
            assert_eq!(world.side.device.stack_counters().connections, 1);
            assert!(matches!(
                (end, world.disconnected()),
                (0, DisconnectReason::PeerTerminate { .. })
                    | (1, DisconnectReason::LocalTerminate(_))
                    | (2, DisconnectReason::Local)
            ));
            exchange(&world, &other, &bystander, 1);
        }
    }
}

/// A peer that closes properly: no state of the connection remains.
// Covers 5040-7-3.
#[test]
fn the_connection_ends_with_the_peers_fin() {
    for role in ROLES {
        for end in 0..3 {
            let (world, peer) = open(role);
            match end {
                0 => peer.send(&fpdu(&bare_terminate("0000"))),
                1 => peer.send(&fpdu(&send(1, b"nowhere"))),
                _ => world.side.qp.disconnect().unwrap(),
            }
            let _terminate = peer.read_to_fin();
            peer.close();
            world.settle();
            assert_eq!((peer.state(), world.side.qp.state()), (LlpState::Closed, QpState::Error));
            world.host.settle(Duration::from_secs(600));
            assert_eq!(world.side.device.stack_counters().connections, 0);
        }
    }
}

/// The stream owes more than the peer's closed window takes: answers to a Read after the peer's FIN, a Terminate, or
/// messages before a disconnect. TCP would probe such a window for ever.
#[test]
fn a_closed_window_does_not_hold_a_connection_that_ends() {
    for role in ROLES {
        for end in 0..3 {
            let (world, peer) = open(role);
            let memory = filled(&world.side, 1 << 20);
            peer.set_reading(false);
            peer.send(&fpdu(&read_request(1, Place(3, 0), 1 << 20, Place(memory.rkey().0, memory.addr()))));
            world.settle();
            match end {
                0 => peer.close(),
                1 => peer.send(&fpdu(&send(1, b"nowhere"))),
                _ => world.side.qp.disconnect().unwrap(),
            }
            world.settle();
            assert_eq!(world.side.device.stack_counters().connections, 1, "the window has room");
            world.host.settle(Duration::from_secs(600));
            assert_eq!(world.side.device.stack_counters().connections, 0, "end {end}");
            assert_eq!((peer.state(), world.side.qp.state()), (LlpState::Reset, QpState::Error));
            let _ended = world.disconnected();
            world.expect_service();
        }
    }
}
