//! RDMA Reads of the device (RFC 5040 sections 4.4 and 5.2).

use weft_ddp::Error as Ddp;
use weft_rdmap::Error as Rdmap;
use weft_rnic::{Access, CompletionOpcode, Data, DisconnectReason, Region, SendOpcode, Stag, Status};

use crate::octets::{Place, fpdu, pattern, read_fpdu, read_request, tagged, terminate_read, vector};
use crate::rdmap_wire::{SMALL_MTU, outcome, tagged_fpdus};
use crate::scene::{Answer, Row, run_all};
use crate::world::{FILL, FLUSHED, ROLES, content, filled, open, open_mtu, whole, work};

const fn read(stag: u32, to: u64) -> SendOpcode {
    SendOpcode::Read { stag: Stag(stag), to }
}

/// The five fields of the header, each with a value of its own, behind an untagged DDP header for queue 1.
// Covers 5040-3.2-7, 5040-4.4-1, 5040-5.2.1-1, 5040-5.2.1-6.
#[test]
fn a_read_request_has_what_the_application_gave() {
    for role in ROLES {
        let (world, peer) = open(role);
        let sink =
            world.side.pd.register_at(Region::owned(100).unwrap(), Access::ALL, 0x1234_5678_9ABC).unwrap();
        for (msn, size) in [(1, 8_u32), (2, 1), (3, 100)] {
            let far = (0xFEDC_BA98, 0x0011_2233_4455_6677);
            world.side.qp.post_send(&work(1, read(far.0, far.1), Data::Sges(&[sink.sge(0, size)]))).unwrap();
            let ulpdu = read_fpdu(&peer);
            assert_eq!(ulpdu.len(), 18 + 28);
            assert_eq!(ulpdu[0], 0x41, "T is 0, L is 1");
            assert_eq!(ulpdu[1], 0x41);
            assert_eq!(ulpdu[6..10], [0, 0, 0, 1]);
            assert_eq!(ulpdu[10..14], [0, 0, 0, msn]);
            assert_eq!(ulpdu[14..18], [0, 0, 0, 0]);
            assert_eq!(ulpdu[18..22], sink.lkey().0.to_be_bytes());
            assert_eq!(ulpdu[22..30], 0x1234_5678_9ABC_u64.to_be_bytes());
            assert_eq!(ulpdu[30..34], size.to_be_bytes());
            assert_eq!(ulpdu[34..38], far.0.to_be_bytes());
            assert_eq!(ulpdu[38..46], far.1.to_be_bytes());
        }
    }
}

/// A request names one buffer of the peer; Reads of three buffers are three Read Requests, in the order of posting.
// Covers 5040-5.2.1-7, 5040-5.2.1-9, 5040-5.2.1-10.
#[test]
fn read_requests_leave_in_the_order_of_posting() {
    for role in ROLES {
        let (world, peer) = open(role);
        let sink = filled(&world.side, 64);
        for number in 0..16_u32 {
            let (stag, to) = (100 + number % 3, u64::from(number) * 0x1_0000_0001);
            let sge = [sink.sge(number as usize, number % 5)];
            world.side.qp.post_send(&work(number.into(), read(stag, to), Data::Sges(&sge))).unwrap();
        }
        for number in 0..16_u32 {
            let place = Place(sink.lkey().0, sink.addr() + u64::from(number));
            let source = Place(100 + number % 3, u64::from(number) * 0x1_0000_0001);
            peer.expect(&fpdu(&read_request(number + 1, place, number % 5, source)));
        }
        peer.expect_silence();
        world.expect_no_news();
    }
}

/// A mebibyte: one request, and it is done with the one segment that has L.
// Covers 5040-5.2-1, 5040-5.2.2-3, 5040-4.4-5.
#[test]
fn a_long_read_is_one_request_and_one_response() {
    for role in ROLES {
        let (world, peer) = open(role);
        let sink = filled(&world.side, 1 << 20);
        world.side.qp.post_send(&work(1, read(7, 9), Data::Sges(&[whole(&sink)]))).unwrap();
        let place = Place(sink.lkey().0, sink.addr());
        peer.expect(&fpdu(&read_request(1, place, 1 << 20, Place(7, 9))));
        let octets = tagged_fpdus(2, place, &pattern(1 << 20), 1440);
        let last = octets.len() - 1;
        peer.send(&octets[..last]);
        peer.expect_silence();
        world.expect_no_news();
        peer.send(&octets[last..]);
        assert_eq!(outcome(&world.completion()), (1, Status::Success, CompletionOpcode::Read, 1 << 20));
        assert_eq!(content(&sink), pattern(1 << 20));
        peer.expect_silence();
    }
}

/// Any offset at either end, in memory whose offsets begin anywhere.
// Covers 5040-4.4-4, 5040-5.2.1-11, 5040-5.2.2-5.
#[test]
fn reads_land_at_any_offset() {
    for role in ROLES {
        let (world, peer) = open_mtu(role, SMALL_MTU);
        for (number, base) in (0..).zip([0x2000, 1, u64::MAX - 5000]) {
            let sink = world.side.pd.register_at(Region::owned(3000).unwrap(), Access::ALL, base).unwrap();
            sink.write(0, &[FILL; 3000]).unwrap();
            let mut expected = vec![FILL; 3000];
            for (count, (offset, size)) in (1..).zip([(0_usize, 1_usize), (2999, 1), (1, 2997), (777, 13)]) {
                let source = Place(7, 0x1000 + offset as u64);
                let sges = [sink.sge(offset, u32::try_from(size).unwrap())];
                world.side.qp.post_send(&work(1, read(source.0, source.1), Data::Sges(&sges))).unwrap();
                let place = Place(sink.lkey().0, base + offset as u64);
                let size = u32::try_from(size).unwrap();
                peer.expect(&fpdu(&read_request(4 * number + count, place, size, source)));
                let octets = &pattern(4000)[offset..][..size as usize];
                peer.send(&tagged_fpdus(2, place, octets, 333));
                assert_eq!(outcome(&world.completion()), (1, Status::Success, CompletionOpcode::Read, size));
                expected[offset..][..octets.len()].copy_from_slice(octets);
                assert_eq!(content(&sink), expected);
            }
        }
    }
}

/// A Read of no octets needs no memory at either end, so that the fields may have any value.
// Covers 5040-5.2.1-13, 5040-4.4-5, 5040-5.2.2-3.
#[test]
fn empty_reads() {
    for role in ROLES {
        let (world, peer) = open(role);
        let sink = filled(&world.side, 8);
        let cases = [
            (Data::Sges(&[]), Place(0, 0), Place(0, 0)),
            (Data::Sges(&[]), Place(0, 0), Place(0xDEAD_BEEF, u64::MAX)),
            (Data::Sges(&[sink.sge(3, 0)]), Place(sink.lkey().0, sink.addr() + 3), Place(7, 9)),
        ];
        for (msn, (data, place, source)) in (1..).zip(cases) {
            world.side.qp.post_send(&work(1, read(source.0, source.1), data)).unwrap();
            let ulpdu = read_fpdu(&peer);
            assert_eq!(ulpdu[30..34], [0; 4], "size");
            assert_eq!(ulpdu, read_request(msn, place, 0, source));
            world.expect_no_news();
            peer.send(&vector("rrsp0"));
            assert_eq!(outcome(&world.completion()), (1, Status::Success, CompletionOpcode::Read, 0));
        }
        assert_eq!(content(&sink), [FILL; 8]);
    }
}

/// The Read (3) of the scene asked for 8 octets. A different answer is refused, and no octet is placed, even if the
/// segment names other good memory of the application.
// Covers 5040-5.2.2-4, 5040-5.2.2-7.
#[test]
fn read_responses_that_fail() {
    run_all(&[
        |s| {
            let bad = tagged("C142", s.target.rkey().0, s.target.addr(), b"12345678");
            Row::new("another STag", bad, Answer::Ddp("1100"), Ddp::InvalidStag)
        },
        |s| {
            let bad = tagged("C142", s.sink_place.0, s.sink_place.1 + 4, b"1234");
            Row::new("another offset", bad, Answer::Ddp("1101"), Ddp::BaseOrBounds)
        },
        |s| {
            let bad = tagged("8142", s.sink_place.0, s.sink_place.1, b"12345678X");
            Row::new("too long", bad, Answer::Ddp("1101"), Ddp::BaseOrBounds)
        },
        |s| {
            let bad = tagged("C142", s.sink_place.0, s.sink_place.1, b"");
            Row::new("too short", bad, Answer::Ddp("0207"), Rdmap::StreamCatastrophic)
        },
        |s| {
            let bad = tagged("C182", s.sink_place.0, s.sink_place.1, b"12345678");
            Row::new("version", bad, Answer::Ddp("0205"), Rdmap::InvalidVersion)
        },
    ]);
}

/// The same for a response to a Read that has been answered, and for one before any Read.
// Covers 5040-5.2.2-4.
#[test]
fn a_read_response_without_a_read() {
    for role in ROLES {
        for answered in [false, true] {
            let (world, peer) = open(role);
            let sink = filled(&world.side, 8);
            let place = Place(sink.lkey().0, sink.addr());
            if answered {
                world.side.qp.post_send(&work(1, read(7, 9), Data::Sges(&[whole(&sink)]))).unwrap();
                peer.expect(&fpdu(&read_request(1, place, 8, Place(7, 9))));
                peer.send(&fpdu(&tagged("C142", place.0, place.1, &[FILL; 8])));
                assert_eq!(world.completion().status, Status::Success);
            }
            let bad = tagged("C142", place.0, place.1, b"12345678");
            peer.send(&fpdu(&bad));
            peer.expect(&fpdu(&crate::octets::terminate("0206", &bad)));
            peer.expect_fin();
            let reason = world.disconnected();
            assert!(matches!(reason, DisconnectReason::LocalTerminate(_)), "{reason:?}");
            assert_eq!(content(&sink), [FILL; 8]);
            assert_eq!(world.all_completions(), []);
        }
    }
}

/// The source refuses: its Terminate reaches the application that asked, and names the Read.
// Covers 5040-3.2-9.
#[test]
fn a_read_fails_at_its_sink() {
    for role in ROLES {
        let (world, peer) = open(role);
        let sink = filled(&world.side, 8);
        let place = Place(sink.lkey().0, sink.addr());
        for wr_id in [1, 2, 3] {
            world.side.qp.post_send(&work(wr_id, read(7, wr_id), Data::Sges(&[whole(&sink)]))).unwrap();
        }
        let requests = [1, 2, 3].map(|msn| read_request(msn, place, 8, Place(7, msn.into())));
        peer.expect(&requests.each_ref().map(|ulpdu| fpdu(ulpdu)).concat());
        peer.send(&fpdu(&terminate_read("0101", &requests[1])));
        peer.expect_fin();
        let DisconnectReason::PeerTerminate { code, text, .. } = world.disconnected() else {
            panic!("no Terminate")
        };
        assert_eq!(code, (0, 1, 0x01));
        assert_eq!(text, "RDMAP remote protection: base or bounds violation");
        assert_eq!(world.all_completions(), [(1, FLUSHED), (2, Status::RemoteAccess), (3, FLUSHED)]);
    }
}
