//! The end of a DDP Stream: the application learns what the LLP reports, and DDP itself ends nothing.

use weft_mpa::Error as Mpa;
use weft_netif::{Duration, LlpState};
use weft_rnic::{CmEvent, Data, DisconnectReason, QpState, RecvWr, SendOpcode, Stag, Status};
use weft_tests::{PairConfig, RawPeer};

use crate::frames::{Bench, Opening};
use crate::octets::{Place, bare_terminate, crc32c, fpdu, read_request, send, terminate, vector, write};
use crate::rdmap_wire::send_fpdus;
use crate::scene::Scene;
use crate::world::{FILL, FLUSHED, ROLES, World, content, filled, open, open_with, whole, work};

const READ: SendOpcode = SendOpcode::Read { stag: Stag(0x100), to: 0x1000 };

/// Posts receives 1 to 5 and Reads 6 to 8, which the peer does not answer.
fn post_eight(world: &World, peer: &RawPeer) {
    let sink = filled(&world.side, 8);
    for wr_id in 1..=5 {
        world.side.qp.post_recv(&RecvWr { wr_id, sges: &[] }).unwrap();
    }
    for (msn, wr_id) in (1..).zip(6..=8) {
        world.side.qp.post_send(&work(wr_id, READ, Data::Sges(&[whole(&sink)]))).unwrap();
        let place = Place(sink.lkey().0, sink.addr());
        peer.expect(&fpdu(&read_request(msn, place, 8, Place(0x100, 0x1000))));
    }
}

fn expect_eight_flushed(world: &World) {
    assert_eq!(world.all_completions(), [1, 2, 3, 4, 5, 6, 7, 8].map(|wr_id| (wr_id, FLUSHED)));
}

/// RST is a fatal event, and all open requests end with an error.
// Covers 5041-6.2.2-1, 5041-6.2.2-4.
#[test]
fn the_llp_connection_is_lost() {
    for role in ROLES {
        let (world, peer) = open(role);
        post_eight(&world, &peer);
        peer.abort();
        assert_eq!(world.disconnected(), DisconnectReason::Lost);
        expect_eight_flushed(&world);
        assert_eq!(world.side.qp.state(), QpState::Error);
        world.expect_no_news();
    }
}

/// Segments are in TCP and the peer does not read. When it reads later, it gets them all. If the connection is lost
/// instead, the application learns that they may not have arrived.
// Covers 5041-3-3.
#[test]
fn accepted_segments_do_not_vanish_in_silence() {
    for role in ROLES {
        for is_reset in [false, true] {
            // More octets than TCP takes at once, from a send buffer that cuts no FPDU at its end.
            let (world, peer) = open_with(role, &PairConfig { tcp_buffer: 5000, ..PairConfig::default() });
            let memory = filled(&world.side, 1 << 20);
            let sges = [whole(&memory)];
            let small = [memory.sge(0, 100)];
            peer.set_reading(false);
            world.side.qp.post_send(&work(1, SendOpcode::Send, Data::Sges(&small))).unwrap();
            world.side.qp.post_send(&work(2, SendOpcode::Send, Data::Sges(&sges))).unwrap();
            world.settle();
            if is_reset {
                peer.abort();
                assert_eq!(world.disconnected(), DisconnectReason::Lost);
                assert_eq!(world.all_completions(), [(1, Status::Success), (2, FLUSHED)]);
            } else {
                assert_eq!(world.side.events.next(), None);
                peer.set_reading(true);
                let done = [world.completion(), world.completion()];
                assert_eq!(
                    done.map(|done| (done.wr_id, done.status)),
                    [1, 2].map(|id| (id, Status::Success))
                );
                // All accepted segments arrive.
                peer.expect(&fpdu(&send(1, &[FILL; 100])));
                peer.expect(&send_fpdus("43 00000000", 2, &content(&memory), 1436));
                peer.expect_silence();
            }
        }
    }
}

/// Each bit of a ULPDU is flipped in turn. MPA's CRC finds it, the application gets an event, and DDP gets no octet
/// of it.
// Covers 5041-3-7, 5041-6.2.2-2, 5041-7-1.
#[test]
fn the_llp_finds_every_bit_that_is_wrong() {
    for bit in 0..23 * 8 {
        let role = ROLES[bit % 2];
        let (world, peer) = open(role);
        let inbox = filled(&world.side, 8);
        world.side.post_recv(1, whole(&inbox));
        let mut octets = vector("send5");
        octets[2 + bit / 8] ^= 1 << (bit % 8);
        let expected = crc32c(&octets[..28]);
        let received = u32::from_le_bytes([octets[28], octets[29], octets[30], octets[31]]);
        peer.send(&octets);
        peer.expect(&fpdu(&bare_terminate("2002")));
        peer.expect_fin();
        let cause = weft_rnic::Cause::Mpa(Mpa::Crc { expected, received });
        assert_eq!(world.disconnected(), DisconnectReason::LocalTerminate(cause));
        assert_eq!(world.all_completions(), [(1, FLUSHED)]);
        assert_eq!(content(&inbox), [FILL; 8]);
    }
}

/// FIN between two FPDUs differs from every other end. The device closes its half in turn, by FIN too.
// Covers 5041-3-11, 5041-3-12, 5041-6.2.1-5, 5041-6.2.1-6.
#[test]
fn the_peer_tears_down_gracefully() {
    for role in ROLES {
        let (world, peer) = open(role);
        post_eight(&world, &peer);
        peer.send(&fpdu(&write(0, 0, b"")));
        peer.close();
        assert_eq!(world.disconnected(), DisconnectReason::Peer);
        peer.expect_fin();
        assert_eq!(world.side.qp.disconnect(), Err(weft_rnic::CmError::NotConnected));
        expect_eight_flushed(&world);
        world.expect_no_news();
        assert_eq!(peer.state(), LlpState::Closed);
    }
}

/// After the application's own teardown, requests end with an error, and the device sends only FIN.
// Covers 5041-6.2.1-2.
#[test]
fn nothing_is_transferred_after_a_graceful_teardown() {
    for role in ROLES {
        let (world, peer) = open(role);
        world.side.qp.disconnect().unwrap();
        let memory = filled(&world.side, 8);
        for (wr_id, opcode) in (1..).zip([SendOpcode::Send, READ, SendOpcode::Write { stag: Stag(1), to: 0 }])
        {
            world.side.qp.post_send(&work(wr_id, opcode, Data::Sges(&[whole(&memory)]))).unwrap();
        }
        assert_eq!(world.all_completions(), [1, 2, 3].map(|wr_id| (wr_id, FLUSHED)));
        peer.expect_fin();
        peer.close();
        assert_eq!(world.disconnected(), DisconnectReason::Local);
        world.side.qp.post_send(&work(4, SendOpcode::Send, Data::Inline(b"x"))).unwrap();
        assert_eq!(world.all_completions(), [(4, FLUSHED)]);
    }
}

/// A faulty peer sends on behind its FIN. The octets are neither placed nor delivered. The stream, which was to end
/// by FIN on this side too, ends by RST.
// Covers 5041-6.2.1-3.
#[test]
fn octets_behind_the_peers_fin() {
    let mut bench = Bench::new(&PairConfig::default());
    bench.establish(Opening::USUAL, 0x40);
    let (target, inbox) = (filled(&bench.side, 8), filled(&bench.side, 8));
    bench.side.post_recv(1, whole(&inbox));
    bench.side.post_recv(2, whole(&inbox));
    bench.peer.send_with_fin(&fpdu(&send(1, b"in time")));
    assert_eq!(bench.completion().status, Status::Success);
    bench.peer.settle(Duration::from_millis(100));
    assert_eq!((bench.peer.is_finished, bench.peer.is_reset), (true, false));
    let late = [write(target.rkey().0, target.addr(), b"too late"), send(2, b"too late")];
    bench.peer.send(&late.map(|ulpdu| fpdu(&ulpdu)).concat());
    bench.peer.settle(Duration::from_millis(100));
    assert!(bench.peer.is_reset);
    let ended = bench.event();
    assert!(matches!(ended, CmEvent::Disconnected { reason: DisconnectReason::Peer, .. }), "{ended:?}");
    let flushed = bench.completion();
    assert_eq!((flushed.wr_id, flushed.status), (2, FLUSHED));
    bench.peer.settle(Duration::from_secs(60));
    assert_eq!(bench.side.qp.state(), QpState::Error);
    assert_eq!((bench.side.cq.poll_one(), bench.side.events.next()), (None, None));
    assert_eq!((content(&target), content(&inbox)), (vec![FILL; 8], b"in time\x5A".to_vec()));
}

/// After a DDP error the stream is in error. Requests posted then fail, and behind the Terminate only FIN comes. The
/// connection ends with its one stream, whether or not the peer does its part.
// Covers 5041-3-9, 5041-3-10, 5041-3-13.
#[test]
fn an_erroneous_stream_carries_nothing_more() {
    for role in ROLES {
        for closes in [true, false] {
            let (world, peer) = open(role);
            post_eight(&world, &peer);
            let bad = send(2, b"skipped one");
            peer.send(&fpdu(&bad));
            peer.expect(&fpdu(&terminate("1203", &bad)));
            expect_eight_flushed(&world);
            assert_eq!(world.side.qp.state(), QpState::Terminate);
            world.side.qp.post_send(&work(9, SendOpcode::Send, Data::Inline(b"late"))).unwrap();
            assert_eq!(world.all_completions(), [(9, FLUSHED)]);
            peer.expect_fin();
            if closes {
                peer.close();
                world.settle();
                assert_eq!(peer.state(), LlpState::Closed);
            } else {
                world.host.settle(Duration::from_secs(30));
                assert_eq!(peer.state(), LlpState::Reset);
            }
            assert_eq!(world.side.qp.state(), QpState::Error);
            world.side.qp.post_send(&work(10, SendOpcode::Send, Data::Inline(b"later"))).unwrap();
            assert_eq!(world.all_completions(), [(10, FLUSHED)]);
        }
    }
}

/// DDP reports and leaves the rest to RDMAP. The connection stays up, however long the peer does not read, until
/// RDMAP's Terminate is sent. Only then FIN comes. The length of the first Send varies, so that in some cases TCP's
/// buffer has less room than a Terminate needs.
// Covers 5041-6.2-1, 5041-6.2.2-3, 5041-6.2.2-5, 5041-6.2.2-6.
#[test]
fn a_ddp_error_ends_nothing_by_itself() {
    for (index, first) in (0..1440).step_by(40).enumerate() {
        let scene = Scene::new(ROLES[index % 2]);
        let (world, peer) = (&scene.world, &scene.peer);
        scene.finish_sends();
        peer.set_reading(false);
        let memory = filled(&world.side, 1 << 20);
        for (wr_id, sge) in [(5, memory.sge(0, first)), (6, whole(&memory))] {
            world.side.qp.post_send(&work(wr_id, SendOpcode::Send, Data::Sges(&[sge]))).unwrap();
        }
        assert_eq!((world.completion().wr_id, world.side.cq.poll_one()), (5, None));
        world.settle();
        let bad = [&[0x42, 0x43][..], &send(1, b"another version")[2..]].concat();
        peer.send(&fpdu(&bad));
        let cause = weft_rnic::Cause::Peer(weft_ddp::Error::UntaggedVersion.into());
        assert_eq!(world.disconnected(), DisconnectReason::LocalTerminate(cause));
        assert_eq!(world.all_completions(), [(1, FLUSHED), (2, FLUSHED), (6, FLUSHED)]);
        world.host.settle(Duration::from_secs(10));
        assert_eq!(peer.state(), LlpState::Established);
        assert_eq!(world.side.qp.state(), QpState::Terminate);
        peer.set_reading(true);
        let sent = peer.read_to_fin();
        let answer = fpdu(&terminate("1206", &bad));
        assert!(sent.len() > 100_000 && sent.ends_with(&answer), "the Terminate is the last thing sent");
        let count = sent.windows(answer.len()).filter(|octets| *octets == answer).count();
        assert_eq!(count, 1);
    }
}
