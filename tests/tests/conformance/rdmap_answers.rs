//! RDMA Reads that the peer asks for (RFC 5040 sections 4.4 and 5.2).

use weft_ddp::Error as Ddp;
use weft_rdmap::Error as Rdmap;
use weft_rnic::{Access, Cause, ConnParam, DisconnectReason, Region, Status};
use weft_tests::PairConfig;

use crate::octets::{Place, fpdu, pattern, read_fpdu, read_request, send, tagged, terminate, vector, write};
use crate::rdmap_wire::{SMALL_MTU, TAGGED, tagged_fpdus};
use crate::scene::{Answer, Outcome, Row, Scene, run_all};
use crate::world::{ROLES, Role, filled, open, open_mtu, whole};

/// The device answers a hundred Reads, and the application does nothing for any.
// Covers 5040-3.2-8, 5040-5.2.1-3, 5040-5.2.1-4, 5040-5.2.1-12.
#[test]
fn reads_are_served_without_the_application() {
    for role in ROLES {
        let (world, peer) = open(role);
        let (source, inbox) = (world.side.memory(3000), world.side.memory(8));
        source.write(0, &pattern(3000)).unwrap();
        world.side.post_recv(1, whole(&inbox));
        for msn in 1..=100_u32 {
            let (offset, size) = (msn as usize * 3, msn as usize * 20);
            let sink = Place(msn, u64::from(msn) << 32);
            let from = Place(source.rkey().0, source.addr() + offset as u64);
            peer.send(&fpdu(&read_request(msn, sink, msn * 20, from)));
            peer.expect(&tagged_fpdus(2, sink, &pattern(3000)[offset..][..size], 1440));
        }
        peer.expect_silence();
        world.expect_no_news();
        peer.send(&fpdu(&send(1, b"")));
        assert_eq!(world.completion().wr_id, 1);
    }
}

/// The sink's STag means nothing here, even if it is one of this side. The offset counts on from the given one, and
/// may wrap.
// Covers 5040-4.4-2, 5040-4.4-3, 5040-5.2.2-1, 5040-5.2.2-8.
#[test]
fn the_sink_is_copied_unchecked() {
    for role in ROLES {
        let (world, peer) = open_mtu(role, SMALL_MTU);
        let (source, other) = (world.side.memory(2000), filled(&world.side, 8));
        source.write(0, &pattern(2000)).unwrap();
        let sinks = [
            Place(0xCAFE_BABE, 0x0123_4567_89AB_CDEF),
            Place(0, 0),
            Place(other.rkey().0, other.addr()),
            Place(u32::MAX, u64::MAX - 1000),
        ];
        for (msn, sink) in (1..).zip(sinks) {
            peer.send(&fpdu(&read_request(msn, sink, 2000, Place(source.rkey().0, source.addr()))));
            let mut offset = 0;
            while offset < 2000 {
                let ulpdu = read_fpdu(&peer);
                let len = TAGGED.min(2000 - offset);
                assert_eq!(ulpdu[0], if offset + len == 2000 { 0xC1 } else { 0x81 }, "T and L");
                assert_eq!(ulpdu[1], 0x42);
                assert_eq!(ulpdu[2..6], sink.0.to_be_bytes());
                assert_eq!(ulpdu[6..14], sink.1.wrapping_add(offset as u64).to_be_bytes());
                assert_eq!(ulpdu[14..], pattern(2000)[offset..][..len]);
                offset += len;
            }
        }
        peer.expect_silence();
    }
}

/// All of a region, each edge of it, and odd offsets in it; its offsets may begin anywhere.
// Covers 5040-4.4-5, 5040-4.4-6, 5040-5.2.1-11, 5040-5.2-1.
#[test]
fn sources_are_read_at_any_offset() {
    for role in ROLES {
        let (world, peer) = open_mtu(role, SMALL_MTU);
        for (number, base) in (0..).zip([0x1000, 1, u64::MAX - 2500]) {
            let source =
                world.side.pd.register_at(Region::owned(2500).unwrap(), Access::REMOTE_READ, base).unwrap();
            source.write(0, &pattern(2500)).unwrap();
            let parts = [(0_usize, 2500_usize), (0, 1), (2499, 1), (2500, 0), (1, 8), (333, 1999)];
            for (count, (offset, size)) in (1..).zip(parts) {
                let from = Place(source.rkey().0, base + offset as u64);
                let size = u32::try_from(size).unwrap();
                peer.send(&fpdu(&read_request(6 * number + count, Place(1, 2), size, from)));
                let octets = &pattern(2500)[offset..][..size as usize];
                peer.expect(&tagged_fpdus(2, Place(1, 2), octets, TAGGED));
            }
        }
        peer.expect_silence();
        world.expect_no_news();
    }
}

/// Whatever a request for no octets names, the answer is an empty response.
// Covers 5040-5.2.1-15, 5040-5.2.1-16.
#[test]
fn empty_reads_are_answered() {
    for role in ROLES {
        let (world, peer) = open(role);
        let write_only = world.side.pd.register(8, Access::LOCAL_WRITE | Access::REMOTE_WRITE).unwrap();
        let foreign = world.side.device.alloc_pd().register(8, Access::ALL).unwrap();
        peer.send(&vector("rreq0"));
        peer.expect(&vector("rrsp0"));
        let sources = [
            Place(0xDEAD_BEEF, u64::MAX),
            Place(write_only.rkey().0, write_only.addr()),
            Place(foreign.rkey().0, 0),
        ];
        for (msn, source) in (2..).zip(sources) {
            peer.send(&fpdu(&read_request(msn, Place(8, 9), 0, source)));
            peer.expect(&fpdu(&tagged("C142", 8, 9, b"")));
        }
        peer.expect_silence();
        world.expect_no_news();
    }
}

/// As many requests as agreed come at once. One more in the same segment has no buffer.
// Covers 5040-5.2.2-2, 5040-5.2.1-2.
#[test]
fn as_many_requests_as_agreed_find_a_buffer() {
    for role in ROLES {
        // The peer that replies wants to have two outstanding.
        let least = if role == Role::Active { 2 } else { 1 };
        for ird in [least, 3_u16, 16] {
            let param = || ConnParam { ird: Some(ird), ..ConnParam::default() };
            let request = |msn: u32, source| read_request(msn, Place(msn, 0), 8, source);
            let scene = Scene::with(role, &PairConfig::default(), param());
            let source = Place(scene.target.rkey().0, scene.target.addr());
            let good: Vec<u8> = (1..=ird.into()).flat_map(|msn| fpdu(&request(msn, source))).collect();
            scene.peer.send(&good);
            for msn in 1..=ird.into() {
                scene.peer.expect(&fpdu(&tagged("C142", msn, 0, &[crate::world::FILL; 8])));
            }
            scene.peer.expect_silence();
            scene.world.expect_no_news();

            let scene = Scene::with(role, &PairConfig::default(), param());
            let source = Place(scene.target.rkey().0, scene.target.addr());
            let requests: Vec<_> = (1..=u32::from(ird) + 1).map(|msn| request(msn, source)).collect();
            let octets: Vec<u8> = requests.iter().flat_map(|ulpdu| fpdu(ulpdu)).collect();
            let answer = fpdu(&terminate("1202", &requests[usize::from(ird)]));
            scene.end(&octets, &answer, Cause::Peer(Ddp::NoBuffer.into()), &Outcome::ALL_FLUSHED);
        }
    }
}

/// A long request, an empty one, a short one: the answers do not overlap. Only later requests see the changes of a
/// Write between them.
// Covers 5040-5.2.1-8, 5040-5.2.2-6.
#[test]
fn answers_come_in_the_order_of_the_requests() {
    for role in ROLES {
        let (world, peer) = open_mtu(role, SMALL_MTU);
        let source = world.side.memory(9000);
        source.write(0, &pattern(9000)).unwrap();
        let (stag, to) = (source.rkey().0, source.addr());
        let requests = [
            fpdu(&read_request(1, Place(1, 100), 9000, Place(stag, to))),
            fpdu(&read_request(2, Place(2, 200), 0, Place(stag, to))),
            fpdu(&read_request(3, Place(3, 300), 3, Place(stag, to + 8000))),
            fpdu(&read_request(4, Place(4, 400), 600, Place(stag, to + 1))),
        ];
        peer.send(&requests.concat());
        peer.expect(&tagged_fpdus(2, Place(1, 100), &pattern(9000), TAGGED));
        peer.expect(&tagged_fpdus(2, Place(2, 200), b"", TAGGED));
        peer.expect(&tagged_fpdus(2, Place(3, 300), &pattern(9000)[8000..8003], TAGGED));
        peer.expect(&tagged_fpdus(2, Place(4, 400), &pattern(9000)[1..601], TAGGED));
        // Behind the Write, and in the same TCP segment.
        let change = fpdu(&write(stag, to + 10, b"changed"));
        peer.send(&[change, fpdu(&read_request(5, Place(5, 500), 7, Place(stag, to + 10)))].concat());
        peer.expect(&fpdu(&tagged("C142", 5, 500, b"changed")));
        peer.expect_silence();
    }
}

/// The source's application learns of the failure. The device sends only the Terminate, which returns the request.
// Covers 5040-3.2-9, 5040-5.2.1-5, 5040-5.2.1-14.
#[test]
fn requests_that_fail() {
    fn request(size: u32, source: Place) -> Vec<u8> {
        read_request(1, Place(0xCAFE_BABE, 0x1234), size, source)
    }
    run_all(&[
        |s| {
            let bad = request(8, Place(s.target.rkey().0 ^ 1, s.target.addr()));
            Row::new("unknown STag", bad, Answer::Read("0100"), Rdmap::InvalidStag)
        },
        |s| {
            let bad = request(65, Place(s.target.rkey().0, s.target.addr()));
            Row::new("bounds", bad, Answer::Read("0101"), Rdmap::BaseOrBounds)
        },
        |s| {
            let bad = request(1, Place(s.target.rkey().0, s.target.addr() + 64));
            Row::new("behind the end", bad, Answer::Read("0101"), Rdmap::BaseOrBounds)
        },
        |s| {
            let bad = request(1, Place(s.write_only.rkey().0, s.write_only.addr()));
            Row::new("rights", bad, Answer::Read("0102"), Rdmap::AccessRights)
        },
        |s| {
            let bad = request(8, Place(s.foreign.rkey().0, s.foreign.addr()));
            Row::new("another domain", bad, Answer::Read("0103"), Rdmap::WrongStream)
        },
        |s| {
            let bad = request(2, Place(s.target.rkey().0, u64::MAX));
            Row::new("wrap", bad, Answer::Read("0104"), Rdmap::ToWrap)
        },
        |s| {
            let mut bad = request(8, Place(s.target.rkey().0, s.target.addr()));
            bad[1] = 0x81;
            Row::new("version", bad, Answer::Ddp("0205"), Rdmap::InvalidVersion)
        },
        |s| {
            let mut bad = request(8, Place(s.target.rkey().0, s.target.addr()));
            bad[13] = 2;
            Row::new("MSN", bad, Answer::Ddp("1203"), Ddp::MsnRange)
        },
    ]);
}

/// Requests before the failing one may be answered in full or not at all. Nothing comes behind the Terminate.
// Covers 5040-3.2-9, 5040-5.2.1-5.
#[test]
fn a_request_fails_behind_good_ones() {
    for role in ROLES {
        let (world, peer) = open(role);
        let source = world.side.memory(8);
        source.write(0, b"12345678").unwrap();
        world.side.post_recv(1, whole(&source));
        let good = read_request(1, Place(1, 0), 8, Place(source.rkey().0, source.addr()));
        let bad = read_request(2, Place(2, 0), 8, Place(source.rkey().0 ^ 1, source.addr()));
        peer.send(&fpdu(&good));
        peer.expect(&fpdu(&tagged("C142", 1, 0, b"12345678")));
        peer.send(&fpdu(&bad));
        peer.expect(&fpdu(&crate::octets::terminate_read("0100", &bad)));
        peer.expect_fin();
        assert_eq!(world.disconnected(), DisconnectReason::LocalTerminate(Cause::Peer(Rdmap::InvalidStag)));
        assert_eq!(world.all_completions(), [(1, Status::WorkRequestFlushed)]);
    }
}
