//! Streaming mode: plain octets before MPA, the beginning of MPA, and the state after a rejection (RFC 5044 sections
//! 7.1, 7.1.2 and 7.1.5).

use weft_mpa::StartupError;
use weft_netif::Duration;
use weft_rnic::{
    CmError, CmEvent, ConnParam, ConnectFailure, DisconnectReason, QpState, StreamError, StreamState,
};
use weft_tests::{PairConfig, hex};

use crate::octets::{Framing, fpdu, join, send, vector};
use crate::talk::{
    OPENERS, OUR_REQUEST, Opener, REJECTION, REPLY, REQUEST, THEIR_REJECTION, THEIR_REPLY, Talk,
};
use crate::world::World;

/// The sequence of RFC 5044 figure 9, in both roles, with either opener of the TCP connection.
// Covers 5044-7.1-4, 5044-7.1.5-2.
#[test]
fn mpa_begins_after_an_exchange_of_lines() {
    for opener in OPENERS {
        let talk = Talk::new(opener);
        for _ in 0..3 {
            talk.chat();
        }
        talk.peer.send(b"RDMA?\n");
        talk.hear(b"RDMA?\n");
        talk.respond();

        let talk = Talk::new(opener);
        talk.say(b"RDMA?\n");
        talk.peer.send(b"go ahead\n");
        talk.hear(b"go ahead\n");
        talk.initiate();
    }
}

/// Wherever TCP cuts, the Request begins with the octet behind the last line, and no octet is lost.
// Covers 5044-7.1-1.
#[test]
fn the_request_begins_in_the_segment_of_the_last_line() {
    for split in 0..=hex(REQUEST).len() {
        let talk = Talk::new(Opener::Peer);
        let request = hex(REQUEST);
        talk.peer.send(&join("", &[b"one\nRDMA?\n", &request[..split]]));
        talk.hear(b"one\n");
        let mut line = [0; 64];
        assert_eq!(talk.stream.receive_until(&mut line, b'\n'), Ok(6));
        assert_eq!(line[..6], *b"RDMA?\n");
        talk.stream.start_responder(b"yes\n").unwrap();
        talk.peer.send(&request[split..]);
        talk.accept();
        talk.peer.expect(b"yes\n");
        talk.peer.expect(&hex(REPLY));
        talk.expect_established();
    }
}

/// Markers count from the first octet of Full Operation, whatever came before on the same connection.
// Covers 5044-7.1-1.
#[test]
fn markers_count_from_where_mpa_begins() {
    let mpa = weft_mpa::Config { markers: true, ..weft_mpa::Config::default() };
    for initiator in [false, true] {
        let talk = Talk::with(Opener::Peer, &PairConfig { mpa, ..PairConfig::default() });
        talk.chat();
        if initiator {
            talk.start_initiator().unwrap();
            talk.peer.expect(&hex("4D504120494420526571204672616D65 D0 02 0004 0010 0010"));
            talk.peer.send(&hex("4D504120494420526570204672616D65 D0 02 0004 0010 0010"));
        } else {
            talk.stream.start_responder(b"").unwrap();
            talk.peer.send(&hex("4D504120494420526571204672616D65 C0 01 0003 616263"));
            talk.accept();
            talk.peer.expect(&hex("4D504120494420526570204672616D65 C0 01 0000"));
        }
        assert!(matches!(talk.event(), CmEvent::Established { .. }));
        let side = &talk.world.side;
        let memory = side.memory(1000);
        side.post_recv(1, crate::world::whole(&memory));
        let text = crate::octets::pattern(1000);
        talk.peer.send(&Framing::new(true, true).fpdu(&send(1, &text)));
        assert_eq!(talk.world.completion().byte_len, 1000);
        assert_eq!(crate::world::content(&memory), text);
        let hello = weft_rnic::Data::Inline(b"hello");
        side.qp.post_send(&crate::world::work(2, weft_rnic::SendOpcode::Send, hello)).unwrap();
        talk.peer.expect(&Framing::new(true, true).fpdu(&send(1, b"hello")));
    }
}

/// After the call that starts MPA, the application has no direction.
// Covers 5044-7.1-2.
#[test]
fn mpa_takes_both_directions_at_once() {
    let expect_taken = |talk: &Talk| {
        assert_eq!(talk.stream.state(), StreamState::Mpa);
        assert_eq!(talk.stream.send(b"late"), Err(StreamError::MpaStarted));
        assert_eq!(talk.stream.receive(&mut [0; 8]), Err(StreamError::MpaStarted));
        let started = Err(CmError::Stream(StreamError::MpaStarted));
        let other = talk.world.new_qp();
        assert_eq!(talk.stream.start_initiator(&other, ConnParam::default()), started);
        assert_eq!(talk.stream.start_responder(b"late"), started);
    };
    let talk = Talk::new(Opener::Device);
    talk.start_initiator().unwrap();
    expect_taken(&talk);
    talk.peer.expect(&hex(OUR_REQUEST));
    talk.peer.expect_silence();
    talk.peer.send(&hex(THEIR_REPLY));
    assert!(matches!(talk.event(), CmEvent::Established { .. }));
    expect_taken(&talk);
    talk.peer.expect_silence();

    let talk = Talk::new(Opener::Device);
    talk.stream.start_responder(b"").unwrap();
    expect_taken(&talk);
    talk.peer.send(&hex(REQUEST));
    talk.peer.expect_silence();
    expect_taken(&talk);
    talk.accept();
    assert!(matches!(talk.event(), CmEvent::Established { .. }));
    expect_taken(&talk);
    talk.peer.expect(&hex(REPLY));
    talk.peer.expect_silence();
}

/// The application owns the connection again, for lines and for further attempts.
// Covers 5044-7.1.2-7.
#[test]
fn a_responder_that_rejects_leaves_tcp_open() {
    for opener in OPENERS {
        let talk = Talk::new(opener);
        for _ in 0..2 {
            talk.stream.start_responder(b"try\n").unwrap();
            talk.peer.expect(b"try\n");
            // The peer goes on in streaming mode before it has seen the answer, and none of these octets is lost.
            talk.peer.send(&join(REQUEST, &[b"early\n"]));
            let CmEvent::ConnectRequest(request) = talk.event() else { panic!("no connect request") };
            let device = &talk.world.side.device;
            device.reject(request.id, b"no").unwrap();
            assert_eq!(device.reject(request.id, b"no"), Err(CmError::RequestGone));
            talk.peer.expect(&hex(REJECTION));
            assert_eq!(talk.stream.state(), StreamState::Streaming);
            talk.hear(b"early\n");
            talk.peer.expect_silence();
            talk.chat();
            // A later request of the same connection is a new one.
            talk.stream.start_responder(b"").unwrap();
            talk.peer.send(&hex(REQUEST));
            let CmEvent::ConnectRequest(later) = talk.event() else { panic!("no connect request") };
            assert_eq!(device.reject(request.id, b"no"), Err(CmError::RequestGone));
            device.reject(later.id, b"no").unwrap();
            talk.peer.expect(&hex(REJECTION));
        }
        // No deadline of the startup remains.
        talk.world.host.settle(Duration::from_secs(3600));
        talk.chat();
        talk.respond();
    }
}

/// The application owns the connection again, for lines and for further attempts with the same queue pair.
// Covers 5044-7.1.2-13.
#[test]
fn an_initiator_that_is_rejected_leaves_tcp_open() {
    for opener in OPENERS {
        let talk = Talk::new(opener);
        for _ in 0..2 {
            talk.start_initiator().unwrap();
            talk.peer.expect(&hex(OUR_REQUEST));
            talk.peer.send(&join(THEIR_REJECTION, &[b"let us talk\n"]));
            let CmEvent::Rejected { qp_num, private_data, peer_depths } = talk.event() else {
                panic!("not rejected")
            };
            assert_eq!((qp_num, &private_data[..]), (talk.world.side.qp.number(), &b"no"[..]));
            assert_eq!(peer_depths, Some((16, 16)));
            assert_eq!(talk.world.side.qp.state(), QpState::Idle);
            assert_eq!(talk.stream.state(), StreamState::Streaming);
            talk.hear(b"let us talk\n");
            talk.peer.expect_silence();
            talk.chat();
        }
        talk.world.host.settle(Duration::from_secs(3600));
        talk.chat();
        talk.initiate();
    }
}

/// Unread octets of streaming mode cannot be a Reply, and are no Request.
// Covers 5044-7.1.5-1.
#[test]
fn unread_octets_of_streaming_mode_are_an_error() {
    let talk = Talk::new(Opener::Device);
    talk.peer.send(b"wait\n");
    talk.world.settle();
    assert_eq!(talk.start_initiator(), Err(CmError::Stream(StreamError::Unread)));
    talk.peer.expect_silence();
    talk.hear(b"wait\n");
    talk.initiate();

    // Later ones are a malformed Reply.
    let talk = Talk::new(Opener::Device);
    talk.start_initiator().unwrap();
    talk.peer.expect(&hex(OUR_REQUEST));
    talk.peer.send(b"wait, it is not yet time\n");
    assert_eq!(talk.world.connect_error(), ConnectFailure::Protocol(StartupError::Key.into()));
    talk.peer.expect_fin();
    assert_eq!((talk.world.side.qp.state(), talk.stream.state()), (QpState::Idle, StreamState::Closed));
}

/// The application knows the connection. So it gets an event for an error that a plain listener would not report.
// Covers 5044-7.1.2-4, 5044-7.1.2-16, 5044-7.1.5-1.
#[test]
fn a_bad_request_closes_the_connection_and_is_reported() {
    let too_long = "4D504120494420526571204672616D65 40 01 0201";
    let cases = [
        (b"wait, it is not yet time\n".to_vec(), Some(StartupError::Key)),
        (hex(REPLY), Some(StartupError::Key)),
        (hex(too_long), Some(StartupError::PrivateDataTooLong { len: 513, max: 512 })),
        (hex(REQUEST)[..10].to_vec(), None),
    ];
    for (octets, error) in cases {
        for early in [true, false] {
            let talk = Talk::new(Opener::Peer);
            if early {
                talk.peer.send(&octets);
                talk.world.settle();
            }
            talk.stream.start_responder(b"").unwrap();
            if !early {
                talk.peer.send(&octets);
            }
            if error.is_none() {
                talk.peer.close();
            }
            let CmEvent::StreamFailed { id, reason } = talk.event() else { panic!("no failure") };
            let expected =
                error.map_or(ConnectFailure::Closed, |error| ConnectFailure::Protocol(error.into()));
            assert_eq!((id, reason), (talk.stream.id(), expected));
            talk.peer.expect_fin();
            assert_eq!(talk.stream.state(), StreamState::Closed);
            assert_eq!(talk.stream.send(b"?"), Err(StreamError::Closed));
        }
    }
}

/// The message goes out at the start of MPA, and so before the Reply, even if the Request has come already.
// Covers 5044-7.1.5-2.
#[test]
fn the_last_streaming_message_goes_before_the_reply() {
    for early in [true, false] {
        let talk = Talk::new(Opener::Peer);
        if early {
            talk.peer.send(&hex(REQUEST));
            talk.world.settle();
        }
        talk.say(b"one\n");
        talk.stream.start_responder(b"last\n").unwrap();
        talk.peer.expect(b"last\n");
        talk.peer.expect_silence();
        if !early {
            talk.peer.send(&hex(REQUEST));
        }
        talk.accept();
        talk.peer.expect(&hex(REPLY));
        talk.expect_established();
    }
}

/// The private data of the Reply comes with the event. An application that does not accept it closes.
// Covers 5044-7.1.2-17.
#[test]
fn an_initiator_may_close_after_reading_the_private_data() {
    let talk = Talk::new(Opener::Device);
    talk.start_initiator().unwrap();
    talk.peer.expect(&hex(OUR_REQUEST));
    talk.peer.send(&hex("4D504120494420526570204672616D65 50 02 0007 0010 0010 626164"));
    let CmEvent::Established { private_data, .. } = talk.event() else { panic!("not established") };
    assert_eq!(&private_data[..], b"bad");
    talk.world.side.qp.disconnect().unwrap();
    talk.peer.expect_fin();
    talk.peer.close();
    assert_eq!(talk.world.disconnected(), DisconnectReason::Local);
    talk.world.settle();
    assert_eq!(talk.stream.state(), StreamState::Closed);
}

/// The time of the startup begins with MPA and not with the connection.
// Covers 5044-7.1.2-21, 5044-7.1.2-26.
#[test]
fn the_startup_timeout_begins_where_mpa_does() {
    let timeout = Duration::from_secs(40);
    for initiator in [false, true] {
        let talk = Talk::new(Opener::Peer);
        talk.world.host.settle(Duration::from_secs(3600));
        talk.chat();
        let began = talk.world.host.now();
        if initiator {
            talk.start_initiator().unwrap();
            talk.peer.expect(&hex(OUR_REQUEST));
            assert_eq!(talk.world.connect_error(), ConnectFailure::TimedOut);
        } else {
            talk.stream.start_responder(b"").unwrap();
            // Single octets do not extend the time.
            for octet in &hex(REQUEST)[..20] {
                talk.peer.send(&[*octet]);
                talk.world.settle();
            }
            let reason = ConnectFailure::TimedOut;
            assert_eq!(talk.event(), CmEvent::StreamFailed { id: talk.stream.id(), reason });
        }
        assert_eq!(talk.world.host.now() - began, timeout);
        talk.peer.expect_reset();
        assert_eq!(talk.stream.state(), StreamState::Closed);
    }
}

/// A connection that begins with MPA has no application for streaming mode, and is closed after a rejection.
#[test]
fn a_rejection_closes_a_connection_that_began_with_mpa() {
    let world = World::new();
    let peer = world.dial();
    peer.send(&vector("mpa-req1"));
    let request = world.request();
    assert_eq!(request.stream, None);
    world.side.device.reject(request.id, b"no").unwrap();
    peer.expect(&hex(REJECTION));
    peer.expect_fin();

    // The same holds if the application has dropped its handle meanwhile.
    let talk = Talk::new(Opener::Peer);
    talk.stream.start_responder(b"").unwrap();
    let Talk { world, stream, peer, .. } = talk;
    drop(stream);
    peer.send(&join(REQUEST, &[&fpdu(b"")]));
    world.side.device.reject(world.request().id, b"no").unwrap();
    peer.expect(&hex(REJECTION));
    peer.expect_fin();
}
