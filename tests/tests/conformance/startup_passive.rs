//! MPA startup with the device as responder.

use weft_netif::{Duration, LlpState};
use weft_rnic::{
    Cause, CmError, CmEvent, ConnParam, Data, DisconnectReason, QpState, RecvWr, SendOpcode, Status,
};
use weft_tests::{PORT, hex};

use crate::octets::{Place, fpdu, join, pattern, read_request, send, vector};
use crate::world::{Role, World, exchange, whole, work};

/// The key of a Request.
const REQUEST: &str = "4D504120494420526571204672616D65";
/// The key of a Reply.
const REPLY: &str = "4D504120494420526570204672616D65";

fn accept(world: &World) {
    let request = world.request();
    world.side.device.accept(request.id, &world.side.qp, ConnParam::default()).unwrap();
}

#[test]
fn a_plain_request_is_answered_in_revision_1() {
    let world = World::new();
    let peer = world.dial();
    peer.expect_silence();
    peer.send(&vector("mpa-req1-pd"));
    let request = world.request();
    assert_eq!((&request.private_data[..], request.port), (&b"abc"[..], PORT));
    assert_eq!((request.ird, request.ord), (None, None));
    peer.expect_silence();
    world.side.device.accept(request.id, &world.side.qp, ConnParam::default()).unwrap();
    peer.expect(&vector("mpa-rep1"));
    let CmEvent::Established { ird, ord, qp_num, .. } = world.event() else { panic!("not established") };
    assert_eq!((ird, ord, qp_num), (16, 16, world.side.qp.number()));
    assert_eq!(world.side.qp.state(), QpState::Rts);
    peer.expect_silence();
    exchange(&world, &world.side.qp, &peer, 1);
}

/// The application learns which revision the peer speaks.
// Covers 5044-7.1.1-19.
#[test]
fn the_revision_is_handed_up() {
    for (frame, revision) in [("40 01 0000", 1), ("40 02 0000", 2), ("50 02 0004 0001 0001", 2)] {
        let world = World::new();
        let peer = world.dial();
        peer.send(&join(REQUEST, &[&hex(frame)]));
        assert_eq!(world.request().revision, revision);
    }
}

/// The device's own depths are 16 and 16; what it may have outstanding is bounded by the peer's IRD.
#[test]
fn an_enhanced_request_is_answered_in_revision_2() {
    let cases = [
        // Request, its private data, reply, depths of the device
        ("50 02 0006 0010 0001 6869", "hi", "50 02 0004 0010 0010", (16, 16)),
        ("50 02 0004 0004 0008", "", "50 02 0004 0010 0004", (16, 4)),
        ("50 02 0004 0000 0000", "", "50 02 0004 0010 0000", (16, 0)),
        ("50 02 0004 3FFF 3FFF", "", "50 02 0004 3FFF 3FFF", (16, 16)),
        // RTR bits mean nothing without the bit for the peer-to-peer start.
        ("50 02 0004 4004 C008", "", "50 02 0004 0010 0004", (16, 4)),
        // Revision 2 without enhanced data, and reserved bits.
        ("40 02 0003 616263", "abc", "40 02 0000", (16, 16)),
        ("4F 02 0000", "", "40 02 0000", (16, 16)),
        // Revision 1 knows no enhanced data: its bit is reserved.
        ("5F 01 0004 00010002", "\0\u{1}\0\u{2}", "40 01 0000", (16, 16)),
        // The reject bit means nothing in a Request.
        ("60 01 0000", "", "40 01 0000", (16, 16)),
    ];
    for (request, private_data, reply, depths) in cases {
        let world = World::new();
        let peer = world.dial();
        peer.send(&join(REQUEST, &[&hex(request)]));
        let event = world.request();
        assert_eq!(&event.private_data[..], private_data.as_bytes(), "{request}");
        world.side.device.accept(event.id, &world.side.qp, ConnParam::default()).unwrap();
        peer.expect(&join(REPLY, &[&hex(reply)]));
        let CmEvent::Established { ird, ord, .. } = world.event() else { panic!("not established") };
        assert_eq!((ird, ord), depths, "{request}");
        exchange(&world, &world.side.qp, &peer, 1);
    }
}

#[test]
fn the_application_sees_the_peers_depths_and_answers_with_its_own() {
    let world = World::new();
    let peer = world.dial();
    peer.send(&join(REQUEST, &[&hex("50 02 0004 0005 0009")]));
    let request = world.request();
    assert_eq!((request.ird, request.ord), (Some(5), Some(9)));
    let param = ConnParam { ird: Some(3), ord: Some(4), ..ConnParam::default() };
    world.side.device.accept(request.id, &world.side.qp, param).unwrap();
    peer.expect(&join(REPLY, &[&hex("50 02 0004 0003 0004")]));
}

#[test]
fn private_data_of_every_size_in_both_directions() {
    for (sizes, header) in [([0, 1, 511, 512], "40 01"), ([0, 1, 507, 508], "50 02")] {
        for size in sizes {
            let world = World::new();
            let enhanced = if header == "50 02" { hex("0010 0010") } else { Vec::new() };
            let len = u16::try_from(size + enhanced.len()).unwrap().to_be_bytes();
            let (theirs, ours) = (pattern(size), pattern(size + 1)[1..].to_vec());
            let peer = world.dial();
            peer.send(&join(REQUEST, &[&hex(header), &len, &enhanced, &theirs]));
            let request = world.request();
            assert_eq!(request.private_data[..], theirs);
            let param = ConnParam { private_data: &ours, ..ConnParam::default() };
            world.side.device.accept(request.id, &world.side.qp, param).unwrap();
            peer.expect(&join(REPLY, &[&hex(header), &len, &enhanced, &ours]));
            exchange(&world, &world.side.qp, &peer, 1);
        }
    }
}

#[test]
fn too_much_private_data_leaves_the_request_unanswered() {
    for (request, max) in [("40 01 0000", 512), ("50 02 0004 0010 0010", 508)] {
        let world = World::new();
        let peer = world.dial();
        peer.send(&join(REQUEST, &[&hex(request)]));
        let id = world.request().id;
        let data = vec![1; max + 1];
        let param = ConnParam { private_data: &data, ..ConnParam::default() };
        let error = CmError::PrivateDataTooLong { len: max + 1, max };
        let device = &world.side.device;
        assert_eq!(device.accept(id, &world.side.qp, param), Err(error));
        assert_eq!(device.reject(id, &data), Err(error));
        peer.expect_silence();
        device.accept(id, &world.side.qp, ConnParam::default()).unwrap();
        assert_eq!(peer.read_exact(20)[..16], hex(REPLY));
        assert_eq!(device.reject(id, b""), Err(CmError::RequestGone));
    }
}

#[test]
fn a_rejection_carries_private_data() {
    let cases = [
        ("40 01 0000", "60 01 0002 6E6F", "no"),
        ("40 01 0000", "60 01 0000", ""),
        ("40 02 0000", "60 02 0002 6E6F", "no"),
        ("50 02 0004 0004 0008", "70 02 0006 0010 0010 6E6F", "no"),
    ];
    for (request, reply, data) in cases {
        let world = World::new();
        let peer = world.dial();
        peer.send(&join(REQUEST, &[&hex(request)]));
        let request = world.request();
        world.side.device.reject(request.id, data.as_bytes()).unwrap();
        peer.expect(&join(REPLY, &[&hex(reply)]));
        peer.expect_fin();
        peer.close();
        world.expect_no_news();
        assert_eq!(world.side.qp.state(), QpState::Idle);
        // The queue pair is unchanged, and takes another peer.
        let peer = world.establish(Role::Passive);
        exchange(&world, &world.side.qp, &peer, 1);
    }
}

/// Linux siw acts on a FIN before it reads the Reply in the same segment, and loses the private data.
#[test]
fn the_end_follows_a_rejection_in_a_segment_of_its_own() {
    let world = World::new();
    let peer = world.dial();
    peer.send(&join(REQUEST, &[&hex("50 02 0004 0004 0008")]));
    world.side.device.reject(world.request().id, b"no").unwrap();
    peer.expect(&join(REPLY, &[&hex("70 02 0006 0010 0010 6E6F")]));
    assert_eq!(peer.state(), LlpState::Established);
    peer.expect_fin();
}

#[test]
fn garbage_fails_at_the_first_wrong_octet() {
    let world = World::new();
    let good = hex(REQUEST);
    for at in 0..good.len() {
        let peer = world.dial();
        let mut octets = good[..at].to_vec();
        octets.push(good[at] ^ 0x20);
        peer.send(&octets);
        peer.expect_fin();
        peer.close();
        world.expect_no_news();
    }
    // A Reply is no Request, and octets behind the wrong one change nothing.
    for garbage in [vector("mpa-rep1"), vec![0; 3000], b"GET / HTTP/1.1\r\n\r\n".to_vec(), vector("send5")] {
        let peer = world.dial();
        peer.send(&garbage);
        peer.expect_fin();
        peer.close();
    }
    world.expect_no_news();
    assert_eq!(world.side.device.counters().startup_failures, 20);
    world.expect_service();
}

#[test]
fn malformed_requests_are_closed_without_a_reply() {
    let world = World::new();
    let cases = [
        // Unknown revisions. The frame ends with the revision.
        "40 00",
        "40 03",
        "40 FF",
        // Private data of 513 and of 65,535 octets: the length alone, and with some of the octets.
        "40 01 0201",
        "40 01 FFFF",
        "40 01 FFFF 616263",
        "50 02 0201",
        "50 02 FFFF 616263",
        // Enhanced data without room.
        "50 02 0000",
        "50 02 0001 00",
        "50 02 0003 000000",
    ];
    for case in cases {
        let peer = world.dial();
        peer.send(&join(REQUEST, &[&hex(case)]));
        peer.expect_fin();
        peer.close();
        world.expect_no_news();
    }
    world.expect_service();
}

#[test]
fn a_device_without_enhanced_startup_closes_on_revision_2() {
    let world = World::with_mpa(weft_mpa::Config { enhanced: false, ..weft_mpa::Config::default() });
    let peer = world.dial();
    peer.send(&vector("mpa-req2"));
    peer.expect_fin();
    world.expect_no_news();
    world.expect_service();
}

#[test]
fn the_peer_leaves_at_every_octet_of_its_request() {
    for frame in [vector("mpa-req1-pd"), vector("mpa-req2-cs")] {
        let world = World::new();
        for len in 0..frame.len() {
            let peer = world.dial();
            peer.send(&frame[..len]);
            peer.close();
            peer.expect_fin();
            let peer = world.dial();
            peer.send(&frame[..len]);
            world.settle();
            peer.abort();
            world.expect_no_news();
        }
        assert_eq!(world.side.device.counters().startup_failures, 2 * frame.len() as u64);
        world.expect_service();
    }
}

#[test]
fn a_request_comes_octet_by_octet() {
    let world = World::new();
    let peer = world.dial();
    peer.send_one_by_one(&vector("mpa-req2-cs"));
    assert_eq!(&world.request().private_data[..], b"hi");
}

/// The limit is forty seconds of the engine's time. Single octets that come do not extend it.
#[test]
fn a_stalling_peer_is_reset() {
    let frame = vector("mpa-req1-pd");
    for len in [0, 1, 16, 19, 20, 22] {
        let world = World::new();
        let start = world.host.now();
        let (peer, other) = (world.dial(), world.dial());
        for octet in &frame[..len] {
            world.settle();
            peer.send(&[*octet]);
        }
        peer.expect_reset();
        other.expect_reset();
        let taken = world.host.now() - start;
        assert!((Duration::from_secs(40)..Duration::from_secs(41)).contains(&taken), "{taken}");
        world.expect_no_news();
        world.expect_service();
    }
}

#[test]
fn the_peer_leaves_before_the_answer() {
    let world = World::new();
    let peer = world.dial();
    peer.send(&vector("mpa-req1"));
    let request = world.request();
    peer.abort();
    world.settle();
    let gone = world.side.device.accept(request.id, &world.side.qp, ConnParam::default());
    assert_eq!(gone, Err(CmError::RequestGone));
    assert_eq!(world.side.qp.state(), QpState::Idle);
    world.expect_no_news();
    let peer = world.establish(Role::Passive);
    exchange(&world, &world.side.qp, &peer, 1);
}

/// RFC 5044 section 7.1.2: the responder waits for a valid FPDU.
#[test]
fn nothing_is_sent_before_the_first_fpdu() {
    let world = World::new();
    let peer = world.establish(Role::Passive);
    world.side.qp.post_send(&work(1, SendOpcode::Send, Data::Inline(b"hello"))).unwrap();
    peer.expect_silence();
    let opener = vector("write0");
    peer.send(&opener[..opener.len() - 1]);
    peer.expect_silence();
    peer.send(&opener[opener.len() - 1..]);
    peer.expect(&vector("send5"));
    assert_eq!(world.completion().status, Status::Success);
}

/// Requirement 5044-7.1.2-15: an invalid FPDU does not let the responder send, not even a Terminate.
#[test]
fn a_bad_first_fpdu_is_answered_by_a_close() {
    let world = World::new();
    let peer = world.establish(Role::Passive);
    world.side.qp.post_send(&work(1, SendOpcode::Send, Data::Inline(b"hello"))).unwrap();
    let mut bad = vector("write0");
    bad[19] ^= 1;
    peer.send(&bad);
    peer.expect_fin();
    assert_eq!(world.side.qp.state(), QpState::Terminate);
    assert_eq!(world.all_completions(), [(1, Status::WorkRequestFlushed)]);
    assert!(matches!(
        world.disconnected(),
        DisconnectReason::LocalTerminate(Cause::Mpa(weft_mpa::Error::Crc { .. }))
    ));
    peer.close();
    world.expect_service();
    assert_eq!(world.side.qp.state(), QpState::Error);
}

#[test]
fn a_request_comes_together_with_fpdus() {
    let world = World::new();
    let memory = world.side.memory(16);
    world.side.qp.post_recv(&RecvWr { wr_id: 1, sges: &[whole(&memory)] }).unwrap();
    let peer = world.dial();
    let tail = fpdu(&send(2, b"torn"));
    peer.send(&[vector("mpa-req1-pd"), vector("send5"), tail[..7].to_vec()].concat());
    world.settle();
    assert_eq!(world.side.cq.poll_one(), None);
    accept(&world);
    assert!(matches!(world.event(), CmEvent::Established { .. }));
    peer.expect(&vector("mpa-rep1"));
    let received = world.completion();
    assert_eq!((received.wr_id, received.byte_len), (1, 5));
    world.side.qp.post_recv(&RecvWr { wr_id: 2, sges: &[whole(&memory)] }).unwrap();
    peer.send(&tail[7..]);
    assert_eq!(
        (world.completion().byte_len, crate::world::content(&memory)[..5].to_vec()),
        (4, b"torno".to_vec())
    );
}

/// The peer-to-peer start of RFC 6581, with each kind of message that the peer may begin with.
#[test]
fn every_first_message_of_a_peer_to_peer_start() {
    let read = fpdu(&read_request(1, Place(1, 0), 0, Place(1, 0)));
    let cases = [
        // Words of the Request, words of the Reply, first message, its answer, MSN of the next Send.
        ("C004 0008", "C010 0004", vector("send0"), vec![], 2),
        ("8004 8008", "8010 8004", vector("write0"), vec![], 1),
        ("8004 4008", "8010 4004", vector("rreq0"), vector("rrsp0"), 1),
        ("C004 C008", "C010 C004", read, fpdu(&hex("C142 00000001 0000000000000000")), 1),
        // The device supports none of the wanted messages, so it names all that it supports.
        ("8004 0008", "C010 C004", vector("write0"), vec![], 1),
    ];
    for (request, reply, first, answer, msn) in cases {
        let world = World::new();
        let memory = world.side.memory(16);
        world.side.qp.post_recv(&RecvWr { wr_id: 1, sges: &[whole(&memory)] }).unwrap();
        let peer = world.dial();
        peer.send(&join(REQUEST, &[&hex("50 02 0004"), &hex(request)]));
        accept(&world);
        peer.expect(&join(REPLY, &[&hex("50 02 0004"), &hex(reply)]));
        assert!(matches!(world.event(), CmEvent::Established { .. }));
        world.side.qp.post_send(&work(2, SendOpcode::Send, Data::Inline(b"hello"))).unwrap();
        peer.expect_silence();
        peer.send(&first);
        // The device may send now. The RTR message is not the application's, and took no receive.
        peer.expect(&[answer, vector("send5")].concat());
        let sent = world.completion();
        assert_eq!((sent.wr_id, sent.status), (2, Status::Success));
        world.expect_no_news();
        peer.send(&fpdu(&send(msn, b"first")));
        let received = world.completion();
        assert_eq!((received.wr_id, received.status, received.byte_len), (1, Status::Success, 5));
    }
}

/// Only the first Send may be the RTR message. A later empty one is a message like any other.
#[test]
fn only_the_first_message_is_an_rtr_message() {
    for (first, msn) in [(vector("send0"), 2), (vector("write0"), 1)] {
        let world = World::new();
        let memory = world.side.memory(16);
        world.side.qp.post_recv(&RecvWr { wr_id: 1, sges: &[whole(&memory)] }).unwrap();
        let peer = world.dial();
        peer.send(&vector("mpa-req2"));
        accept(&world);
        peer.expect(&join(REPLY, &[&hex("50 02 0004 C010 C004")]));
        assert!(matches!(world.event(), CmEvent::Established { .. }));
        peer.send(&[first, fpdu(&send(msn, b""))].concat());
        let received = world.completion();
        assert_eq!((received.wr_id, received.status, received.byte_len), (1, Status::Success, 0));
    }
}
