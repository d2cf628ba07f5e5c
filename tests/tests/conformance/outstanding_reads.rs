//! The number of outstanding Reads in each direction (RFC 5040 section 6.1).

use weft_ddp::Error as Ddp;
use weft_rnic::{Cause, CmEvent, ConnParam, Data, DisconnectReason, SendOpcode, Stag, Status};
use weft_tests::RawPeer;

use crate::octets::{Place, fpdu, join, pattern, read_request, tagged, terminate, vector};
use crate::world::{FILL, ROLES, Role, World, content, exchange, filled, whole, work};

fn open(role: Role, ird: u16, ord: u16) -> (World, RawPeer) {
    let world = World::new();
    let param = ConnParam { ird: Some(ird), ord: Some(ord), ..ConnParam::default() };
    let peer = match role {
        Role::Passive => world.establish_with(role, &world.side.qp, param),
        // The peer's ORD is what this device takes, and its IRD is large.
        Role::Active => {
            let (side, remote) = (&world.side, world.address_of_peer());
            side.device.connect(&side.events, &side.qp, remote, param).unwrap();
            let peer = world.host.accept();
            let _request = peer.read_exact(24);
            peer.send(&join("4D504120494420526570204672616D65 50 02 0004 0010", &[&ird.to_be_bytes()]));
            assert!(matches!(world.event(), CmEvent::Established { .. }));
            peer
        }
    };
    peer.send(&vector("write0"));
    (world, peer)
}

/// With an IRD of n the device keeps n long requests of the peer, which it cannot answer yet, and later answers them
/// all.
// Covers 5040-6.1-2.
#[test]
fn as_many_requests_are_kept_as_agreed() {
    for role in ROLES {
        for ird in [1_u16, 2, 7, 16] {
            let (world, peer) = open(role, ird, 1);
            let source = world.side.memory(1 << 20);
            let octets = pattern(1 << 20);
            source.write(0, &octets).unwrap();
            let place = Place(source.rkey().0, source.addr());
            // TCP takes a part of the first answer, so that all are outstanding.
            peer.set_reading(false);
            let size = |msn| if msn == 1 { 1 << 20 } else { 2000 };
            let requests =
                (1..=u32::from(ird)).map(|msn| fpdu(&read_request(msn, Place(msn, 0), size(msn), place)));
            peer.send(&requests.collect::<Vec<_>>().concat());
            world.expect_no_news();
            peer.set_reading(true);
            for msn in 1..=u32::from(ird) {
                let (mut done, size) = (0, size(msn) as usize);
                while done < size {
                    let ulpdu = crate::octets::read_fpdu(&peer);
                    let head = if ulpdu.len() - 14 + done == size { "C142" } else { "8142" };
                    assert!(ulpdu == tagged(head, msn, done as u64, &octets[done..][..ulpdu.len() - 14]));
                    done += ulpdu.len() - 14;
                }
            }
            // Each answer has freed a place.
            peer.send(&fpdu(&read_request(u32::from(ird) + 1, Place(9, 0), 1, place)));
            peer.expect(&fpdu(&tagged("C142", 9, 0, &pattern(1))));
        }
    }
}

/// One request more has no buffer. Neither it nor the earlier ones are answered any more.
// Covers 5040-6.1-5.
#[test]
fn one_request_more_is_refused() {
    for role in ROLES {
        for ird in [0_u16, 1, 2, 7, 16] {
            let (world, peer) = open(role, ird, 1);
            let source = filled(&world.side, 64);
            let place = Place(source.rkey().0, source.addr());
            let requests: Vec<_> =
                (1..=u32::from(ird) + 1).map(|msn| read_request(msn, Place(msn, 0), 64, place)).collect();
            peer.send(&requests.iter().flat_map(|ulpdu| fpdu(ulpdu)).collect::<Vec<_>>());
            peer.expect(&fpdu(&terminate("1202", requests.last().unwrap())));
            peer.expect_fin();
            let cause = Cause::Peer(Ddp::NoBuffer.into());
            assert_eq!(world.disconnected(), DisconnectReason::LocalTerminate(cause));
        }
    }
}

/// Twenty Reads: with an ORD of n, n requests come before any response, and after each response one more.
// Covers 5040-6.1-3, 5040-6.1-4.
#[test]
fn as_many_reads_are_outstanding_as_agreed() {
    for role in ROLES {
        for ord in [1_u16, 4, 16] {
            let (world, peer) = open(role, 1, ord);
            let sink = filled(&world.side, 20);
            let place = |index: u32| Place(sink.lkey().0, sink.addr() + u64::from(index));
            for index in 0..20_u32 {
                let opcode = SendOpcode::Read { stag: Stag(1), to: u64::from(index) };
                let sge = [sink.sge(index as usize, 1)];
                world.side.qp.post_send(&work(u64::from(index), opcode, Data::Sges(&sge))).unwrap();
            }
            let request =
                |index: u32| fpdu(&read_request(index + 1, place(index), 1, Place(1, u64::from(index))));
            for index in 0..u32::from(ord) {
                peer.expect(&request(index));
            }
            for index in 0..20_u32 {
                peer.expect_silence();
                let Place(stag, to) = place(index);
                peer.send(&fpdu(&tagged("C142", stag, to, &[0x11])));
                if index + u32::from(ord) < 20 {
                    peer.expect(&request(index + u32::from(ord)));
                }
                assert_eq!(world.completion().wr_id, u64::from(index));
            }
            assert_eq!(content(&sink), [0x11; 20]);
        }
    }
}

/// Only the end of a response frees a place, not its beginning.
// Covers 5040-6.1-4.
#[test]
fn half_a_response_frees_no_place() {
    for role in ROLES {
        let (world, peer) = open(role, 1, 1);
        let sink = filled(&world.side, 8);
        let (stag, to) = (sink.lkey().0, sink.addr());
        for wr_id in [1, 2] {
            let read = SendOpcode::Read { stag: Stag(1), to: 0 };
            world.side.qp.post_send(&work(wr_id, read, Data::Sges(&[whole(&sink)]))).unwrap();
        }
        peer.expect(&fpdu(&read_request(1, Place(stag, to), 8, Place(1, 0))));
        peer.send(&fpdu(&tagged("8142", stag, to, b"12345678")));
        peer.expect_silence();
        peer.send(&fpdu(&tagged("C142", stag, to + 8, b"")));
        peer.expect(&fpdu(&read_request(2, Place(stag, to), 8, Place(1, 0))));
    }
}

/// The requests of one stream take no places of another. When those of one are used up, the other is served in full.
// Covers 5040-8.1.2-7.
#[test]
fn each_stream_has_places_of_its_own() {
    let (world, greedy) = open(Role::Passive, 3, 1);
    let (source, large) = (filled(&world.side, 8), world.side.memory(1 << 20));
    let modest_qp = world.new_qp();
    let param = ConnParam { ird: Some(3), ..ConnParam::default() };
    let modest = world.establish_with(Role::Passive, &modest_qp, param);
    greedy.set_reading(false);
    let requests = (1..=3)
        .map(|msn| fpdu(&read_request(msn, Place(msn, 0), 1 << 20, Place(large.rkey().0, large.addr()))));
    greedy.send(&requests.collect::<Vec<_>>().concat());
    world.expect_no_news();
    let place = Place(source.rkey().0, source.addr());
    let three = (1..=3).map(|msn| fpdu(&read_request(msn, Place(msn, 0), 8, place)));
    modest.send(&three.collect::<Vec<_>>().concat());
    for msn in 1..=3 {
        modest.expect(&fpdu(&tagged("C142", msn, 0, &[FILL; 8])));
    }
    // If the first stream asks for more than it may, only that stream ends.
    let fourth = read_request(4, Place(4, 0), 8, place);
    greedy.send(&fpdu(&fourth));
    let cause = Cause::Peer(Ddp::NoBuffer.into());
    assert_eq!(world.disconnected(), DisconnectReason::LocalTerminate(cause));
    exchange(&world, &modest_qp, &modest, 1);
}

/// Without a wish of the application both depths are the same.
// Covers 5040-6.1-6.
#[test]
fn the_depths_are_equal_unless_told_otherwise() {
    let world = World::new();
    let peer = world.dial();
    peer.send(&join("4D504120494420526571204672616D65 40 01 0000", &[]));
    let request = world.request();
    world.side.device.accept(request.id, &world.side.qp, ConnParam::default()).unwrap();
    match world.event() {
        CmEvent::Established { ird, ord, .. } => assert_eq!((ird, ird > 0), (ord, true)),
        event => panic!("{event:?}"),
    }
}

/// A connection without any Reads: the device refuses the peer's, and its own fail without being sent.
// Covers 5040-6.1-4.
#[test]
fn without_a_depth_nothing_is_read() {
    for role in ROLES {
        let (world, peer) = open(role, 1, 0);
        let sink = filled(&world.side, 8);
        let read = SendOpcode::Read { stag: Stag(1), to: 0 };
        world.side.qp.post_send(&work(1, read, Data::Sges(&[whole(&sink)]))).unwrap();
        peer.expect(&vector("term-localcat"));
        peer.expect_fin();
        assert_eq!(world.all_completions(), [(1, Status::LocalQpOperation)]);
    }
}
