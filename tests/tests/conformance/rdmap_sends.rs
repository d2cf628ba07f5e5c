//! The four kinds of Send: their requests and completions (RFC 5040 section 3.2), with any number of segments.

use weft_rnic::{
    CmEvent, Completion, CompletionOpcode, ConnParam, Data, DisconnectReason, QpInit, RecvWr, SendOpcode,
    SendWr, Stag, Status,
};
use weft_tests::{Pair, PairConfig};

use crate::octets::{Place, fpdu, join, pattern, read_request, send, send_part, terminate};
use crate::rdmap_wire::{SMALL_MTU, UNTAGGED, outcome, send_fpdus, tagged_fpdus};
use crate::world::{FILL, FLUSHED, ROLES, content, filled, open_mtu, whole, work};

/// RDMAP's octet, Solicited Event, Invalidate.
const KINDS: [(&str, bool, bool); 4] =
    [("43", false, false), ("44", false, true), ("45", true, false), ("46", true, true)];

/// No octets, one octet, exactly one segment, one octet more, many segments.
const SIZES: [usize; 6] = [0, 1, UNTAGGED, UNTAGGED + 1, 2 * UNTAGGED, 5000];

// Covers 5040-3.2-1, 5040-4.1-3.
#[test]
fn sends_of_all_kinds_and_sizes_are_made() {
    for role in ROLES {
        let (world, peer) = open_mtu(role, SMALL_MTU);
        let memory = world.side.memory(5000);
        memory.write(0, &pattern(5000)).unwrap();
        let all = KINDS.iter().flat_map(|kind| SIZES.map(|size| (kind, size)));
        for (msn, ((octet, solicited, invalidates), size)) in (1..).zip(all) {
            let opcode = match invalidates {
                true => SendOpcode::SendInvalidate { stag: Stag(0x1122_3344) },
                false => SendOpcode::Send,
            };
            let sges = [memory.sge(0, u32::try_from(size).unwrap())];
            let wr = SendWr { solicited: *solicited, ..work(7, opcode, Data::Sges(&sges)) };
            world.side.qp.post_send(&wr).unwrap();
            let field = if *invalidates { "11223344" } else { "00000000" };
            peer.expect(&send_fpdus(&[octet, field].concat(), msn, &pattern(5000)[..size], UNTAGGED));
            let done = world.completion();
            assert_eq!((done.wr_id, done.status), (7, Status::Success));
            assert_eq!(done.opcode, CompletionOpcode::Send);
        }
        peer.expect_silence();
        world.expect_no_news();
    }
}

/// The segments may have any size, also zero. The completion comes with the last one.
// Covers 5040-3.2-2, 5040-4.1-3.
#[test]
fn sends_of_all_kinds_and_sizes_arrive() {
    for role in ROLES {
        for max in [100, UNTAGGED] {
            let (world, peer) = open_mtu(role, SMALL_MTU);
            let inbox = filled(&world.side, 5001);
            let all = KINDS.iter().flat_map(|kind| SIZES.map(|size| (kind, size)));
            for (msn, ((octet, solicited, invalidates), size)) in (1..).zip(all) {
                world.side.post_recv(8, whole(&inbox));
                let victim = world.side.own_memory(8);
                let field = if *invalidates { victim.rkey().0 } else { 0 };
                let octets = send_fpdus(&format!("{octet}{field:08X}"), msn, &pattern(5000)[..size], max);
                let last = octets.len() - 5;
                peer.send(&octets[..last]);
                world.expect_no_news();
                assert!(!victim.is_invalidated());
                peer.send(&octets[last..]);
                let done = world.completion();
                let len = u32::try_from(size).unwrap();
                assert_eq!(outcome(&done), (8, Status::Success, CompletionOpcode::Recv, len));
                assert_eq!((done.solicited, done.invalidated), (*solicited, invalidates.then_some(field)));
                assert_eq!(victim.is_invalidated(), *invalidates);
                assert_eq!(content(&inbox), [&pattern(5000)[..size], &vec![FILL; 5001 - size]].concat());
                inbox.write(0, &[FILL; 5001]).unwrap();
            }
        }
    }
}

/// A receive queue that is armed for solicited completions causes an event for the two kinds that ask for it only.
// Covers 5040-3.2-2.
#[test]
fn solicited_sends_make_an_event() {
    for role in ROLES {
        let world = crate::world::World::new();
        let channel = world.side.device.create_comp_channel().unwrap();
        let cq = world.side.device.create_cq(16, Some(&channel)).unwrap();
        let capacity = weft_rnic::QpCapacity::default();
        let init = QpInit { capacity, ..QpInit::new(&world.side.cq, &cq) };
        let qp = world.side.device.create_qp(&world.side.pd, &init).unwrap();
        let peer = world.establish_with(role, &qp, ConnParam::default());
        for (msn, (octet, solicited, invalidates)) in (1..).zip(KINDS) {
            let victim = world.bound(&qp, 8);
            let field = if invalidates { victim.rkey().0 } else { 0 };
            qp.post_recv(&RecvWr { wr_id: 1, sges: &[] }).unwrap();
            cq.request_notification(true);
            peer.send(&send_fpdus(&format!("{octet}{field:08X}"), msn, b"", 1));
            world.settle();
            assert_eq!(channel.next().is_some(), solicited, "kind {octet}");
            assert_eq!(cq.poll_one().unwrap().solicited, solicited);
        }
    }
}

/// No receive waits: the sink's application learns of it and a Terminate goes out.
// Covers 5040-3.2-3.
#[test]
fn a_send_fails_at_the_sink() {
    for role in ROLES {
        for (octet, _, invalidates) in KINDS {
            let (world, peer) = open_mtu(role, SMALL_MTU);
            let victim = world.side.own_memory(8);
            let field = if invalidates { victim.rkey().0 } else { 0 };
            let bad = join(octet, &[&field.to_be_bytes(), &[0; 4], &[0, 0, 0, 1], &[0; 4], b"hello"]);
            let bad = [&[0x41][..], &bad].concat();
            peer.send(&fpdu(&bad));
            peer.expect(&fpdu(&terminate("1202", &bad)));
            peer.expect_fin();
            let reason = world.disconnected();
            assert!(matches!(reason, DisconnectReason::LocalTerminate(_)), "{reason:?}");
            assert!(!victim.is_invalidated());
        }
    }
}

/// The Terminate of the sink reaches the source's application, with its code. The same holds between two devices.
// Covers 5040-3.2-3.
#[test]
fn a_send_fails_at_the_source() {
    for role in ROLES {
        let (world, peer) = open_mtu(role, SMALL_MTU);
        let inbox = world.side.memory(8);
        world.side.post_recv(1, whole(&inbox));
        world.side.qp.post_send(&work(2, SendOpcode::Send, Data::Inline(b"hello"))).unwrap();
        peer.expect(&fpdu(&send(1, b"hello")));
        assert_eq!(world.completion().wr_id, 2);
        peer.send(&fpdu(&terminate("1202", &send(1, b"hello"))));
        expect_refusal(&world.disconnected());
        assert_eq!(world.all_completions(), [(1, FLUSHED)]);
    }
    let mut pair = Pair::connected(&PairConfig::default());
    pair.a.qp.post_send(&work(1, SendOpcode::Send, Data::Inline(b"hello"))).unwrap();
    let CmEvent::Disconnected { reason, .. } = pair.event_of_a() else { panic!("no disconnect of a") };
    expect_refusal(&reason);
    let CmEvent::Disconnected { reason, .. } = pair.event_of_b() else { panic!("no disconnect of b") };
    assert!(matches!(reason, DisconnectReason::LocalTerminate(_)), "{reason:?}");
}

fn expect_refusal(reason: &DisconnectReason) {
    let DisconnectReason::PeerTerminate { code, text, .. } = reason else { panic!("{reason:?}") };
    assert_eq!(*code, (1, 2, 0x02));
    assert_eq!(*text, "DDP untagged buffer: no buffer available");
}

/// A receive and a Read have come in part when the stream breaks below RDMAP. Neither completion tells a length.
// Covers 5040-3.1-6.
#[test]
fn unfinished_messages_have_no_length() {
    for role in ROLES {
        for is_reset in [false, true] {
            let (world, peer) = open_mtu(role, SMALL_MTU);
            let (inbox, sink) = (filled(&world.side, 64), filled(&world.side, 64));
            world.side.post_recv(1, whole(&inbox));
            let read = SendOpcode::Read { stag: Stag(7), to: 9 };
            world.side.qp.post_send(&work(2, read, Data::Sges(&[whole(&sink)]))).unwrap();
            let place = Place(sink.lkey().0, sink.addr());
            peer.expect(&fpdu(&read_request(1, place, 64, Place(7, 9))));
            peer.send(&fpdu(&send_part("01", 1, 0, b"a part")));
            peer.send(&tagged_fpdus(2, place, &[7; 64], 32)[..52]);
            world.expect_no_news();
            if is_reset {
                peer.abort();
            } else {
                peer.send(&[0; 64]);
            }
            world.disconnected();
            let done: [Completion; 2] = [world.completion(), world.completion()];
            for completion in done {
                assert_eq!((completion.status, completion.byte_len), (FLUSHED, 0));
                assert_eq!(completion.invalidated, None);
            }
            world.expect_no_news();
        }
    }
}
