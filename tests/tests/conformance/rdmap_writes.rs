//! RDMA Writes in both directions (RFC 5040 section 5.1), and the memory that they go to.

use weft_ddp::Error as Ddp;
use weft_rdmap::Error as Rdmap;
use weft_rnic::{Access, Cause, CompletionOpcode, Data, DisconnectReason, Region, SendOpcode, Stag, Status};

use crate::octets::{Place, fpdu, pattern, read_request, send, tagged, terminate, terminate_read, write};
use crate::rdmap_wire::{SMALL_MTU, TAGGED, outcome, tagged_fpdus};
use crate::scene::{Answer, Row, run_all};
use crate::world::{FILL, ROLES, content, filled, open, open_mtu, whole, work};

/// Length, message, STag and TO are the application's; the segments are tagged ones.
// Covers 5040-3.2-4, 5040-5.1-1, 5040-5.1-9.
#[test]
fn writes_of_all_sizes_are_made() {
    for role in ROLES {
        let (world, peer) = open_mtu(role, SMALL_MTU);
        let memory = world.side.memory(5000);
        memory.write(0, &pattern(5000)).unwrap();
        for (stag, to) in [(1, 0), (0xFEDC_BA98, 0x0123_4567_89AB_CDEF), (0, u64::MAX - 5000)] {
            for size in [0, 1, TAGGED, TAGGED + 1, 2 * TAGGED, 5000] {
                let opcode = SendOpcode::Write { stag: Stag(stag), to };
                let sges = [memory.sge(0, u32::try_from(size).unwrap())];
                world.side.qp.post_send(&work(3, opcode, Data::Sges(&sges))).unwrap();
                peer.expect(&tagged_fpdus(0, Place(stag, to), &pattern(5000)[..size], TAGGED));
                let done = world.completion();
                let success = (3, Status::Success, CompletionOpcode::Write);
                assert_eq!((done.wr_id, done.status, done.opcode), success);
            }
        }
        peer.expect_silence();
        world.expect_no_news();
    }
}

/// Long and short Writes, with Sends between them. A request names one buffer of the peer, so that two buffers take
/// two requests, whatever their source is.
// Covers 5040-5.1-6, 5040-5.1-8.
#[test]
fn writes_leave_in_the_order_of_posting() {
    for role in ROLES {
        let (world, peer) = open_mtu(role, SMALL_MTU);
        let memory = world.side.memory(4000);
        memory.write(0, &pattern(4000)).unwrap();
        let mut expected = Vec::new();
        for number in 0..30_u32 {
            let size = (number * 131 % 7 * 300) as usize;
            let place = Place(number, 1000 * u64::from(number));
            let sges = [memory.sge(0, u32::try_from(size).unwrap()), memory.sge(3990, 10)];
            let opcode = SendOpcode::Write { stag: Stag(place.0), to: place.1 };
            world.side.qp.post_send(&work(number.into(), opcode, Data::Sges(&sges))).unwrap();
            let message = [&pattern(4000)[..size], &pattern(4000)[3990..]].concat();
            expected.extend(tagged_fpdus(0, place, &message, TAGGED));
            if number % 3 == 0 {
                let number_in_it = number.to_be_bytes();
                let wr = work(number.into(), SendOpcode::Send, Data::Inline(&number_in_it));
                world.side.qp.post_send(&wr).unwrap();
                expected.extend(fpdu(&send(number / 3 + 1, &number_in_it)));
            }
        }
        peer.expect(&expected);
        peer.expect_silence();
    }
}

/// Writes into all of a region, of one octet at each edge, and of none at its end. Offsets are addresses, or chosen
/// values. The application gets no event of them.
// Covers 5040-3.2-5, 5040-5.1-2, 5040-5.1-4, 5040-5.1-5.
#[test]
fn writes_are_placed_and_not_delivered() {
    for role in ROLES {
        let (world, peer) = open_mtu(role, SMALL_MTU);
        let inbox = filled(&world.side, 8);
        world.side.post_recv(1, whole(&inbox));
        for base in [None, Some(0x1000), Some(1), Some(u64::MAX - 3000)] {
            let region = Region::owned(2000).unwrap();
            let base = base.unwrap_or_else(|| region.address());
            let target = world.side.pd.register_at(region, Access::ALL, base).unwrap();
            assert_eq!(target.addr(), base);
            let stag = target.rkey().0;
            let mut expected = pattern(2000);
            peer.send(&tagged_fpdus(0, Place(stag, base), &expected, 300));
            world.expect_no_news();
            assert_eq!(content(&target), expected);
            let edges =
                [write(stag, base, b"A"), write(stag, base + 1999, b"Z"), write(stag, base + 2000, b"")];
            peer.send(&edges.map(|ulpdu| fpdu(&ulpdu)).concat());
            world.expect_no_news();
            (expected[0], expected[1999]) = (b'A', b'Z');
            assert_eq!(content(&target), expected);
        }
        // The receive is still there for a Send.
        peer.send(&fpdu(&send(1, b"hello")));
        assert_eq!(outcome(&world.completion()), (1, Status::Success, CompletionOpcode::Recv, 5));
    }
}

/// When the Send is complete at the sink, earlier Writes are placed.
// Covers 5040-5.1-7, 5040-5.1-2.
#[test]
fn a_completed_send_shows_that_earlier_writes_are_placed() {
    for role in ROLES {
        let (world, peer) = open(role);
        let (target, inbox) = (filled(&world.side, 40_000), world.side.memory(8));
        world.side.post_recv(1, whole(&inbox));
        let place = Place(target.rkey().0, target.addr());
        let octets = [tagged_fpdus(0, place, &pattern(40_000), 1440), fpdu(&send(1, b""))].concat();
        peer.send(&octets);
        assert_eq!(outcome(&world.completion()), (1, Status::Success, CompletionOpcode::Recv, 0));
        assert_eq!(content(&target), pattern(40_000));
        world.expect_no_news();
    }
}

/// The sink's application learns of the failure, no octet is placed, and the Terminate has the segment's DDP header.
// Covers 5040-3.2-6, 5040-5.1-3, 5040-3.1-5.
#[test]
fn writes_that_fail() {
    run_all(&[
        |s| {
            let bad = write(s.target.rkey().0 ^ 1, s.target.addr(), b"12345678");
            Row::new("unknown STag", bad, Answer::Ddp("1100"), Ddp::InvalidStag)
        },
        |s| {
            let bad = tagged("8140", s.target.rkey().0, s.target.addr() + 60, b"12345678");
            Row::new("bounds", bad, Answer::Ddp("1101"), Ddp::BaseOrBounds)
        },
        |s| {
            let bad = write(s.foreign.rkey().0, s.foreign.addr(), b"12345678");
            Row::new("another domain", bad, Answer::Ddp("1102"), Ddp::WrongStream)
        },
        |s| {
            let bad = write(s.target.rkey().0, u64::MAX, b"12345678");
            Row::new("wrap", bad, Answer::Ddp("1103"), Ddp::ToWrap)
        },
        |s| {
            let bad = tagged("C240", s.target.rkey().0, s.target.addr(), b"12345678");
            Row::new("DDP version", bad, Answer::Ddp("1104"), Ddp::TaggedVersion)
        },
        |s| {
            let bad = tagged("C180", s.target.rkey().0, s.target.addr(), b"12345678");
            Row::new("RDMAP version", bad, Answer::Ddp("0205"), Rdmap::InvalidVersion)
        },
        |s| {
            let bad = tagged("C14E", s.target.rkey().0, s.target.addr(), b"12345678");
            Row::new("opcode", bad, Answer::Ddp("0206"), Rdmap::UnexpectedOpcode)
        },
    ]);
}

/// A registration grants rights for a range of offsets, and ends with its handle. Every line of this table is one
/// connection. `None` is a request that is served.
// Covers 5040-3.2-10.
#[test]
fn registrations_give_rights() {
    let all = Access::ALL;
    let only_write = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
    let cases = [
        ("all", all, 0, None, None),
        ("write", only_write, 0, None, Some("0102")),
        ("read", Access::REMOTE_READ, 0, Some("0102"), None),
        ("neither", Access::LOCAL_WRITE, 0, Some("0102"), Some("0102")),
        ("one octet further", all, 1, Some("1101"), Some("0101")),
        ("one octet before", all, -1, Some("1101"), Some("0101")),
        ("deregistered", all, 0, Some("1100"), Some("0100")),
        ("another domain", all, 0, Some("1102"), Some("0103")),
    ];
    for role in ROLES {
        for (name, access, shift, written, read) in cases {
            for (is_read, refusal) in [(false, written), (true, read)] {
                let (world, peer) = open(role);
                let pd = if name == "another domain" {
                    world.side.device.alloc_pd()
                } else {
                    world.side.pd.clone()
                };
                let memory = pd.register_at(Region::owned(8).unwrap(), access, 0x1000).unwrap();
                memory.write(0, &[FILL; 8]).unwrap();
                let (stag, to) = (memory.rkey().0, 0x1000_u64.wrapping_add_signed(shift));
                let memory = (name != "deregistered").then_some(memory);
                let request = read_request(1, Place(1, 2), 8, Place(stag, to));
                let ulpdu = if is_read { request } else { write(stag, to, b"12345678") };
                peer.send(&fpdu(&ulpdu));
                match refusal {
                    None if is_read => peer.expect(&fpdu(&tagged("C142", 1, 2, &[FILL; 8]))),
                    None => peer.expect_silence(),
                    Some(code) if is_read => peer.expect(&fpdu(&terminate_read(code, &ulpdu))),
                    Some(code) => peer.expect(&fpdu(&terminate(code, &ulpdu))),
                }
                let is_written = refusal.is_none() && !is_read;
                if let Some(memory) = &memory {
                    let expected = if is_written { *b"12345678" } else { [FILL; 8] };
                    assert_eq!(content(memory), expected, "{name}");
                }
                if refusal.is_some() {
                    let reason = world.disconnected();
                    assert!(matches!(reason, DisconnectReason::LocalTerminate(Cause::Peer(_))), "{reason:?}");
                }
            }
        }
    }
}
