//! The Terminate as a message: its queue, its resources, and the end that it causes (RFC 5040 section 5.4).

use weft_ddp::Error as Ddp;
use weft_rdmap::Error as Rdmap;
use weft_rnic::{Cause, Data, DisconnectReason, QpState, RecvWr, SendOpcode, Stag, Status};
use weft_tests::hex;

use crate::octets::{
    Place, bare_terminate, fpdu, join, pattern, read_request, send, terminate, terminate_read, vector, write,
};
use crate::world::{FILL, FLUSHED, ROLES, content, filled, open, whole, work};

/// Whatever the reason, the segment is untagged, and the first and only one on queue 2. Earlier messages on other
/// queues make no difference.
// Covers 5040-5.4-1, 5040-5.4-2.
#[test]
fn a_terminate_is_untagged_on_queue_two() {
    let reasons = [
        fpdu(&write(0xDEAD_BEEF, 0, b"x")),
        fpdu(&send(9, b"")),
        fpdu(&read_request(1, Place(1, 0), 1, Place(0xDEAD_BEEF, 0))),
        [fpdu(&send(1, b""))[..20].to_vec(), vec![0xFF; 4]].concat(),
    ];
    for role in ROLES {
        for reason in &reasons {
            let (world, peer) = open(role);
            let sink = filled(&world.side, 8);
            let read = SendOpcode::Read { stag: Stag(1), to: 0 };
            world.side.qp.post_send(&work(1, SendOpcode::Send, Data::Inline(b"before"))).unwrap();
            world.side.qp.post_send(&work(2, read, Data::Sges(&[whole(&sink)]))).unwrap();
            peer.expect(&fpdu(&send(1, b"before")));
            peer.expect(&fpdu(&read_request(1, Place(sink.lkey().0, sink.addr()), 8, Place(1, 0))));
            peer.send(reason);
            let octets = peer.read_to_fin();
            let ulpdu = &octets[2..];
            assert_eq!(ulpdu[0] & 0x80, 0, "T is set");
            assert_eq!(ulpdu[..2], hex("4147"));
            assert_eq!(ulpdu[6..10], 2_u32.to_be_bytes(), "the queue number");
            assert_eq!(ulpdu[10..18], hex("00000001 00000000"), "MSN and MO");
        }
    }
}

/// No receive is posted, the IRD is used up and the window is closed. The peer's Terminate still has room, and
/// reaches the application.
// Covers 5040-5.4-4, 5040-5.4-5, 5040-5.4-6.
#[test]
fn the_peers_terminate_always_has_a_place() {
    for role in ROLES {
        let (world, peer) = open(role);
        let memory = world.side.memory(4 << 20);
        peer.set_reading(false);
        world.side.qp.post_send(&work(1, SendOpcode::Send, Data::Sges(&[whole(&memory)]))).unwrap();
        let (stag, to) = (memory.rkey().0, memory.addr());
        let reads = (1..=16).map(|msn| fpdu(&read_request(msn, Place(1, 0), 1 << 20, Place(stag, to))));
        peer.send(&reads.collect::<Vec<_>>().concat());
        world.expect_no_news();
        let refused = terminate("1202", &send(1, b"hello"));
        peer.send(&fpdu(&refused));
        match world.disconnected() {
            DisconnectReason::PeerTerminate { code, text, .. } => {
                assert_eq!(code, (1, 2, 0x02));
                assert!(text.contains("buffer"), "{text}");
            }
            reason => panic!("{reason:?}"),
        }
        // The application also learns which request failed.
        let failed = world.completion();
        assert_eq!(
            (failed.wr_id, failed.status, failed.vendor_err),
            (1, Status::RnrRetryExceeded, 0x01_02_02)
        );
    }
}

/// Codes of all layers arrive as they were sent.
// Covers 5040-5.4-5, 5040-5.4-6.
#[test]
fn the_application_gets_layer_type_and_code() {
    let request = read_request(1, Place(1, 0), 8, Place(2, 0));
    let cases = [
        (vector("term-crc"), (2, 0, 0x02)),
        (vector("term-localcat"), (0, 0, 0x00)),
        (vector("term-ddp-stag"), (1, 1, 0x00)),
        (vector("term-ddp-nobuf"), (1, 2, 0x02)),
        (fpdu(&terminate_read("0101", &request)), (0, 1, 0x01)),
        (fpdu(&bare_terminate("2003")), (2, 0, 0x03)),
    ];
    for role in ROLES {
        for (octets, expected) in &cases {
            let (world, peer) = open(role);
            peer.send(octets);
            let DisconnectReason::PeerTerminate { code, text, .. } = world.disconnected() else {
                panic!("no Terminate");
            };
            assert_eq!(code, *expected);
            assert!(!text.is_empty());
            peer.expect_fin();
        }
    }
}

/// The Terminate has a buffer of its own: the receives are flushed, not filled, and nothing is placed.
// Covers 5040-5.4-3.
#[test]
fn a_terminate_takes_no_receive() {
    for role in ROLES {
        let (world, peer) = open(role);
        let inbox = filled(&world.side, 64);
        world.side.post_recv(1, whole(&inbox));
        world.side.post_recv(2, whole(&inbox));
        // A Send before it takes the first receive as ever.
        peer.send(&[fpdu(&send(1, b"one")), fpdu(&bare_terminate("0000"))].concat());
        assert_eq!(world.all_completions(), [(1, Status::Success), (2, FLUSHED)]);
        assert_eq!(content(&inbox), [&b"one"[..], &[FILL; 61]].concat());
    }
}

/// Invalid Terminates: the error is local, it is reported, and the connection ends.
// Covers 5040-5.4-7.
#[test]
fn an_invalid_terminate_is_an_error() {
    let good = bare_terminate("2002");
    let with = |at: usize, octet: u8| {
        let mut ulpdu = good.clone();
        ulpdu[at] = octet;
        ulpdu
    };
    let cases: [(Vec<u8>, &str, weft_rdmap::Error); 8] = [
        (with(13, 2), "1203", Ddp::MsnRange.into()),
        (with(13, 0), "1203", Ddp::MsnRange.into()),
        (with(17, 4), "1204", Ddp::InvalidMo.into()),
        (with(9, 0), "0206", Rdmap::UnexpectedOpcode),
        (with(9, 4), "1201", Ddp::InvalidQueue.into()),
        (with(1, 0x87), "0205", Rdmap::InvalidVersion),
        (with(0, 0x40), "1206", Ddp::UntaggedVersion.into()),
        (good[..20].to_vec(), "0207", Rdmap::StreamCatastrophic),
    ];
    for role in ROLES {
        for (bad, code, error) in &cases {
            let (world, peer) = open(role);
            world.side.qp.post_recv(&RecvWr { wr_id: 1, sges: &[] }).unwrap();
            peer.send(&fpdu(bad));
            peer.expect(&fpdu(&terminate(code, bad)));
            peer.expect_fin();
            assert_eq!(world.disconnected(), DisconnectReason::LocalTerminate(Cause::Peer(*error)));
            assert_eq!(world.all_completions(), [(1, FLUSHED)]);
            peer.close();
            world.settle();
            assert_eq!(world.side.qp.state(), QpState::Error);
        }
    }
}

/// An error ends the stream when TCP has taken some of a hundred Sends. Those that DDP has not taken are flushed,
/// each once and in order, and none comes behind the Terminate.
// Covers 5040-5.4-8, 5040-5.4-9.
#[test]
fn nothing_is_sent_behind_a_terminate() {
    for role in ROLES {
        for peer_ends in [false, true] {
            let (world, peer) = open(role);
            let memory = world.side.memory(64 << 10);
            memory.write(0, &pattern(64 << 10)).unwrap();
            peer.set_reading(false);
            for wr_id in 0..100 {
                world
                    .side
                    .qp
                    .post_send(&work(wr_id, SendOpcode::Send, Data::Sges(&[whole(&memory)])))
                    .unwrap();
            }
            world.settle();
            // This Read would be answered when there is room again, which never happens.
            let source = Place(memory.rkey().0, memory.addr());
            peer.send(&fpdu(&read_request(1, Place(1, 0), 8, source)));
            let sent = world.all_completions();
            assert!((1..99).contains(&sent.len()), "{} of 100", sent.len());
            assert!(sent.iter().all(|(_, status)| *status == Status::Success));
            let bad = write(0xDEAD_BEEF, 0, b"x");
            let end = if peer_ends { bare_terminate("0000") } else { bad.clone() };
            peer.send(&fpdu(&end));
            let flushed = world.all_completions();
            let expected: Vec<_> = (sent.len() as u64..100).map(|wr_id| (wr_id, FLUSHED)).collect();
            assert_eq!(flushed, expected);
            peer.set_reading(true);
            let octets = peer.read_to_fin();
            let whole_messages = sent.len() * (64 << 10);
            assert!(octets.len() < whole_messages + (300 << 10), "{} octets", octets.len());
            let last = fpdu(&terminate("1100", &bad));
            assert_eq!(octets.ends_with(&last), !peer_ends);
            let read_response = join("C142", &[&1_u32.to_be_bytes(), &[0; 8]]);
            assert!(!octets.windows(14).any(|head| head == read_response), "an answer behind the end");
        }
    }
}

/// A Terminate comes in the middle of the device's own message: the device stops there.
// Covers 5040-5.4-10.
#[test]
fn after_the_peers_terminate_the_device_stops() {
    for role in ROLES {
        let (world, peer) = open(role);
        let memory = world.side.memory(4 << 20);
        peer.set_reading(false);
        world.side.qp.post_send(&work(1, SendOpcode::Send, Data::Sges(&[whole(&memory)]))).unwrap();
        world.settle();
        peer.send(&fpdu(&bare_terminate("0000")));
        assert_eq!(world.all_completions(), [(1, FLUSHED)]);
        assert_eq!(world.side.qp.state(), QpState::Terminate);
        peer.set_reading(true);
        assert!(peer.read_to_fin().len() < 1 << 20);
        // Requests posted from now on are not sent either.
        world.side.qp.post_send(&work(2, SendOpcode::Send, Data::Inline(b"late"))).unwrap();
        assert_eq!(world.all_completions(), [(2, FLUSHED)]);
    }
}
