//! The errors that each side reports to its application, their headers and their order (RFC 5040 section 7.1).

use weft_ddp::Error as Ddp;
use weft_mpa::Error as Mpa;
use weft_rdmap::Error as Rdmap;
use weft_rnic::{Access, Cause, ConnParam, Data, DisconnectReason, SendOpcode, SendWr, Stag, Status};
use weft_tests::{PairConfig, hex};

use crate::octets::{
    Place, bare_terminate, fpdu, pattern, read_request, send, send_invalidate, tagged, terminate,
    terminate_read, vector, write,
};
use crate::scene::Scene;
use crate::world::{FILL, FLUSHED, ROLES, World, content, filled, open, whole, work};

/// Errors found by MPA, DDP, RDMAP and in the own memory. Each is one event with its cause, and every receive, Read
/// and Send completes.
// Covers 5040-7.1-1.
#[test]
fn the_application_hears_of_every_error() {
    let mut crc = fpdu(&send(1, b"hello"));
    crc[20] ^= 1;
    let expected = crate::octets::crc32c(&crc[..crc.len() - 4]);
    let received = u32::from_le_bytes(crc[crc.len() - 4..].try_into().unwrap());
    let cases = [
        (crc, Cause::Mpa(Mpa::Crc { expected, received })),
        (fpdu(&write(0xDEAD_BEEF, 0, b"x")), Cause::Peer(Ddp::InvalidStag.into())),
        (fpdu(&send(7, b"")), Cause::Peer(Ddp::MsnRange.into())),
        (fpdu(&tagged("C100", 1, 0, b"x")), Cause::Peer(Rdmap::InvalidVersion)),
        (fpdu(&read_request(1, Place(1, 0), 1, Place(0, 0))), Cause::Peer(Rdmap::InvalidStag)),
        (fpdu(&send_invalidate(1, 0x77, b"")), Cause::Peer(Rdmap::CannotInvalidate)),
    ];
    for role in ROLES {
        for (octets, cause) in &cases {
            let scene = Scene::new(role);
            scene.peer.send(octets);
            assert_eq!(scene.world.disconnected(), DisconnectReason::LocalTerminate(*cause));
            assert_eq!(scene.world.all_completions(), [1, 2, 3, 4].map(|wr_id| (wr_id, FLUSHED)));
            scene.world.expect_no_news();
        }
    }
}

/// A request whose memory is gone: a Terminate without any header comes instead of its message, and the request fails.
// Covers 5040-7.1-1, 5040-7.1-2.
#[test]
fn a_request_that_cannot_be_made_is_replaced_by_a_terminate() {
    let kinds = [
        SendOpcode::Send,
        SendOpcode::SendInvalidate { stag: Stag(9) },
        SendOpcode::Write { stag: Stag(9), to: 0 },
        SendOpcode::Read { stag: Stag(9), to: 0 },
    ];
    for role in ROLES {
        for solicited in [false, true] {
            for opcode in kinds {
                if solicited && !matches!(opcode, SendOpcode::Send | SendOpcode::SendInvalidate { .. }) {
                    continue;
                }
                let (world, peer) = open(role);
                let gone = [world.side.memory(8).sge(0, 8)];
                world.side.qp.post_send(&work(1, SendOpcode::Send, Data::Inline(b"before"))).unwrap();
                let bad = SendWr { solicited, ..work(2, opcode, Data::Sges(&gone)) };
                world.side.qp.post_send(&bad).unwrap();
                world.side.qp.post_send(&work(3, SendOpcode::Send, Data::Inline(b"behind"))).unwrap();
                peer.expect(&fpdu(&send(1, b"before")));
                // Layer, type and code, M, D and R zero, and nothing behind them.
                peer.expect(&fpdu(&hex("4147 00000000 00000002 00000001 00000000 0000 0000")));
                peer.expect_fin();
                let cause = Cause::Local(Status::LocalProtection);
                assert_eq!(world.disconnected(), DisconnectReason::LocalTerminate(cause));
                let expected = [(1, Status::Success), (2, Status::LocalProtection), (3, FLUSHED)];
                assert_eq!(world.all_completions(), expected);
            }
        }
    }
}

/// A completion queue that overruns is not caused by a message: the same Terminate.
// Covers 5040-7.1-2.
#[test]
fn an_error_of_no_message_has_no_headers() {
    for role in ROLES {
        let world = World::new();
        let small = world.side.device.create_cq(2, None).unwrap();
        let init = weft_rnic::QpInit {
            capacity: weft_rnic::QpCapacity::default(),
            ..weft_rnic::QpInit::new(&small, &world.side.cq)
        };
        let qp = world.side.device.create_qp(&world.side.pd, &init).unwrap();
        let peer = world.establish_with(role, &qp, ConnParam::default());
        peer.send(&vector("write0"));
        let entries = small.capacity();
        for wr_id in 0..=entries {
            qp.post_send(&work(wr_id, SendOpcode::Send, Data::Inline(b""))).unwrap();
        }
        for msn in 0..=entries {
            peer.expect(&fpdu(&send(u32::try_from(msn).unwrap() + 1, b"")));
        }
        peer.expect(&vector("term-localcat"));
        peer.expect_fin();
        assert!(matches!(
            world.event(),
            weft_rnic::CmEvent::Disconnected {
                reason: DisconnectReason::LocalTerminate(Cause::CompletionQueueOverrun),
                ..
            }
        ));
    }
}

/// An error of a Write, a Send, a Send with Invalidate and a Read Response: length and DDP header come back, and no
/// RDMA header.
// Covers 5040-7.1-3.
#[test]
fn the_ddp_header_comes_back() {
    for role in ROLES {
        for case in 0..4 {
            let scene = Scene::new(role);
            let foreign = scene.foreign.rkey().0;
            let (bad, code) = match case {
                0 => (write(foreign, scene.foreign.addr(), b"123"), "1102"),
                1 => (send(1, &[7; 17]), "1205"),
                2 => (send_invalidate(1, foreign, b"hello"), "0109"),
                _ => (tagged("C142", foreign, scene.foreign.addr(), b"12345678"), "1100"),
            };
            scene.peer.send(&fpdu(&bad));
            let octets = scene.peer.read_to_fin();
            let header = if bad[0] & 0x80 == 0 { 18 } else { 14 };
            // M and D, the length of the segment, its DDP header, and the end.
            assert_eq!(octets[2 + 18..2 + 20], hex(code));
            assert_eq!(octets[2 + 20..2 + 22], [0xC0, 0x00]);
            assert_eq!(octets[2 + 22..2 + 24], u16::try_from(bad.len()).unwrap().to_be_bytes());
            assert_eq!(octets[2 + 24..2 + 24 + header], bad[..header]);
            assert_eq!(octets[..2], u16::try_from(24 + header).unwrap().to_be_bytes());
            assert_eq!(octets, fpdu(&terminate(code, &bad)));
        }
    }
}

/// An error of a Read Request: its RDMA header comes back as well.
// Covers 5040-7.1-4.
#[test]
fn the_header_of_a_read_request_comes_back() {
    for role in ROLES {
        for case in 0..5 {
            let scene = Scene::new(role);
            let (stag, to) = (scene.target.rkey().0, scene.target.addr());
            let (source, size, code) = match case {
                0 => (Place(stag ^ 1, to), 8, "0100"),
                1 => (Place(stag, to + 60), 8, "0101"),
                2 => (Place(scene.write_only.rkey().0, scene.write_only.addr()), 8, "0102"),
                3 => (Place(scene.foreign.rkey().0, scene.foreign.addr()), 8, "0103"),
                _ => (Place(stag, u64::MAX), 2, "0104"),
            };
            let bad = read_request(1, Place(0x0A0B_0C0D, 0x0102_0304_0506_0708), size, source);
            scene.peer.send(&fpdu(&bad));
            let octets = scene.peer.read_to_fin();
            assert_eq!(octets[2 + 18..2 + 24], hex(&[code, "E000 002E"].concat()));
            assert_eq!(octets[2 + 24..2 + 42], bad[..18], "the DDP header");
            assert_eq!(octets[2 + 42..2 + 70], bad[18..], "the Read Request");
            assert_eq!(octets, fpdu(&terminate_read(code, &bad)));
        }
    }
}

/// In the middle of long messages of its own the device sends the Terminate next: nothing more of them goes into TCP.
// Covers 5040-7.1-3, 5040-7.1-4.
#[test]
fn the_terminate_is_the_next_message() {
    for role in ROLES {
        for is_read in [false, true] {
            let world = World::with(&PairConfig { tcp_buffer: 64 * 1024, ..PairConfig::default() });
            let peer = world.establish(role);
            peer.send(&vector("write0"));
            let memory = world.side.memory(4 << 20);
            memory.write(0, &pattern(4 << 20)).unwrap();
            world.side.qp.post_send(&work(1, SendOpcode::Send, Data::Sges(&[whole(&memory)]))).unwrap();
            peer.set_reading(false);
            world.settle();
            let sent = world.side.device.counters().sent;
            let bad = if is_read {
                read_request(1, Place(1, 0), 8, Place(0xDEAD, 0))
            } else {
                write(0xDEAD, 0, b"12345678")
            };
            peer.send(&fpdu(&bad));
            world.settle();
            peer.set_reading(true);
            let octets = peer.read_to_fin();
            let last = if is_read { terminate_read("0100", &bad) } else { terminate("1100", &bad) };
            assert!(octets.ends_with(&fpdu(&last)));
            // Send is opcode 3, Terminate 7.
            let (before, after) = (sent.by_opcode, world.side.device.counters().sent.by_opcode);
            assert_eq!((after[3], after[7]), (before[3], before[7] + 1));
        }
    }
}

/// Two bad messages at once, of all kinds, and two with the window closed so that the Terminate waits. The first one
/// comes back.
// Covers 5040-7.1-5.
#[test]
fn the_first_error_is_reported() {
    let bad = [
        write(0x11, 1, b"first"),
        send(5, b"second"),
        read_request(1, Place(1, 0), 8, Place(0x22, 2)),
        write(0x33, 3, b"fourth"),
    ];
    let answers = [
        terminate("1100", &bad[0]),
        terminate("1203", &bad[1]),
        terminate_read("0100", &bad[2]),
        terminate("1100", &bad[3]),
    ];
    for role in ROLES {
        for first in 0..4 {
            for second in 0..4 {
                let (world, peer) = open(role);
                peer.send(&[fpdu(&bad[first]), fpdu(&bad[second])].concat());
                assert_eq!(peer.read_to_fin(), fpdu(&answers[first]));
                assert!(matches!(world.disconnected(), DisconnectReason::LocalTerminate(_)));
                world.expect_no_news();
            }
        }
        let (world, peer) = open(role);
        let memory = world.side.memory(4 << 20);
        peer.set_reading(false);
        world.side.qp.post_send(&work(1, SendOpcode::Send, Data::Sges(&[whole(&memory)]))).unwrap();
        world.settle();
        for ulpdu in &bad {
            peer.send(&fpdu(ulpdu));
            world.settle();
        }
        peer.set_reading(true);
        assert!(peer.read_to_fin().ends_with(&fpdu(&answers[0])));
    }
}

/// The error of our own request comes first and the peer's second: the Terminate blames no message.
// Covers 5040-7.1-5.
#[test]
fn a_local_error_that_is_first_is_reported() {
    for role in ROLES {
        let (world, peer) = open(role);
        let gone = world.side.memory(8).sge(0, 8);
        world.side.qp.post_send(&work(1, SendOpcode::Send, Data::Sges(&[gone]))).unwrap();
        world.settle();
        peer.send(&fpdu(&write(0x11, 1, b"later")));
        peer.expect(&fpdu(&bare_terminate("0000")));
        peer.expect_fin();
        assert_eq!(
            world.disconnected(),
            DisconnectReason::LocalTerminate(Cause::Local(Status::LocalProtection))
        );
    }
}

/// A Write with one segment too many: good segments are placed, and the segment that failed comes back.
// Covers 5040-7.1-5.
#[test]
fn the_segment_that_failed_is_reported() {
    for role in ROLES {
        let (world, peer) = open(role);
        let target = world.side.pd.register(8, Access::ALL).unwrap();
        target.write(0, &[FILL; 8]).unwrap();
        let (stag, to) = (target.rkey().0, target.addr());
        let segments = [
            tagged("8140", stag, to, b"1234"),
            tagged("8140", stag, to + 4, b"56789"),
            tagged("C140", stag, to + 9, b"a"),
        ];
        peer.send(&segments.iter().flat_map(|ulpdu| fpdu(ulpdu)).collect::<Vec<_>>());
        assert_eq!(peer.read_to_fin(), fpdu(&terminate("1101", &segments[1])));
        assert_eq!(content(&target), [&b"1234"[..], &[FILL; 4]].concat());
        let _event = world.disconnected();
    }
}

/// Memory that is lost while a receive is posted is a local error as well.
// Covers 5040-7.1-2.
#[test]
fn a_receive_that_cannot_take_its_message_does_not_blame_the_peer() {
    for role in ROLES {
        let (world, peer) = open(role);
        let memory = filled(&world.side, 8);
        world.side.post_recv(1, whole(&memory));
        memory.invalidate();
        peer.send(&fpdu(&send(1, b"hello")));
        assert_eq!(peer.read_to_fin(), vector("term-localcat"));
        assert_eq!(world.all_completions(), [(1, Status::LocalProtection)]);
        assert_eq!(content(&memory), [FILL; 8]);
    }
}
