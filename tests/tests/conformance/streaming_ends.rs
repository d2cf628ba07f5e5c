//! Streaming mode: the peer leaves in every phase, sends without end, or comes many times at once.

use weft_netif::{Duration, LlpState};
use weft_rnic::{
    CmError, CmEvent, ConnParam, ConnectFailure, DisconnectReason, QpState, StreamError, StreamState,
};
use weft_tests::{PairConfig, RawPeer, hex};

use crate::octets::pattern;
use crate::talk::{OPENERS, Opener, REPLY, REQUEST, STREAMING_PORT, THEIR_REPLY, Talk};
use crate::world::{World, exchange};

/// Two ways to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leave {
    Fin,
    Rst,
}

impl Leave {
    fn go(self, peer: &RawPeer) {
        match self {
            Self::Fin => peer.close(),
            Self::Rst => peer.abort(),
        }
    }
}

/// The connection is forgotten, its queue pair is free again, and the device serves others.
fn expect_over(talk: &Talk) {
    talk.world.settle();
    assert_eq!(talk.stream.state(), StreamState::Closed);
    assert_eq!(talk.stream.receive(&mut [0; 8]), Err(StreamError::Closed));
    assert_eq!(talk.stream.send(b"?"), Err(StreamError::Closed));
    assert_eq!(talk.stream.start_responder(b""), Err(CmError::Stream(StreamError::Closed)));
    let spare = talk.world.new_qp();
    let start = talk.stream.start_initiator(&spare, ConnParam::default());
    assert_eq!(start, Err(CmError::Stream(StreamError::Closed)));
    talk.world.expect_no_news();
    talk.world.expect_service();
}

#[test]
fn hosts_without_a_listener() {
    let world = World::new();
    let mut nowhere = world.address_of_peer();
    nowhere.set_port(9);
    let stream = world.side.device.open_stream(&world.side.events, nowhere).unwrap();
    assert_eq!(stream.send(b"early"), Ok(0));
    assert_eq!(stream.receive(&mut [0; 8]), Ok(0));
    assert_eq!(stream.start_responder(b""), Err(CmError::Stream(StreamError::NotOpen)));
    let failed = CmEvent::StreamFailed { id: stream.id(), reason: ConnectFailure::Refused };
    assert_eq!(world.event(), failed);
    assert_eq!(stream.state(), StreamState::Closed);
    world.expect_no_news();
    // No host has this address, so that only the timeout ends the attempt.
    let stream = world.side.device.open_stream(&world.side.events, "10.0.0.99:7".parse().unwrap()).unwrap();
    let failed = CmEvent::StreamFailed { id: stream.id(), reason: ConnectFailure::TimedOut };
    assert_eq!(world.event(), failed);
    assert_eq!(stream.state(), StreamState::Closed);
    world.expect_service();
}

/// Octets before a FIN are received first. The other direction stays open until the application drops its handle.
#[test]
fn a_fin_in_streaming_mode() {
    for opener in OPENERS {
        let talk = Talk::new(opener);
        talk.expect_empty();
        talk.peer.send(b"bye\n");
        talk.peer.close();
        assert_eq!(talk.world.event(), CmEvent::StreamReady { id: talk.stream.id() });
        talk.hear(b"bye\n");
        talk.world.settle();
        assert_eq!(talk.stream.receive(&mut [0; 8]), Err(StreamError::Finished));
        assert_eq!(talk.stream.state(), StreamState::Streaming);
        talk.say(b"so long\n");
        let Talk { world, stream, peer, .. } = talk;
        assert_eq!(stream.send(b"last words\n"), Ok(11));
        drop(stream);
        peer.expect(b"last words\n");
        peer.expect_fin();
        world.expect_service();
    }
}

#[test]
fn a_reset_in_streaming_mode() {
    for opener in OPENERS {
        let talk = Talk::new(opener);
        talk.expect_empty();
        talk.peer.abort();
        assert_eq!(talk.world.event(), CmEvent::StreamReady { id: talk.stream.id() });
        expect_over(&talk);
    }
}

/// A peer that has sent FIN cannot answer a Request, which the application still sends.
#[test]
fn mpa_starts_after_the_peers_fin() {
    let talk = Talk::new(Opener::Peer);
    talk.peer.close();
    talk.world.settle();
    talk.start_initiator().unwrap();
    assert_eq!(talk.world.connect_error(), ConnectFailure::Closed);
    assert_eq!(talk.peer.read_to_fin().len(), 24);
    expect_over(&talk);

    let talk = Talk::new(Opener::Peer);
    talk.peer.close();
    talk.world.settle();
    talk.stream.start_responder(b"anybody?\n").unwrap();
    let reason = ConnectFailure::Closed;
    assert_eq!(talk.event(), CmEvent::StreamFailed { id: talk.stream.id(), reason });
    assert_eq!(talk.peer.read_to_fin(), b"anybody?\n");
    expect_over(&talk);
}

#[test]
fn the_peer_leaves_while_it_owes_a_startup_frame() {
    for leave in [Leave::Fin, Leave::Rst] {
        let talk = Talk::new(Opener::Device);
        talk.start_initiator().unwrap();
        let _request = talk.peer.read_exact(24);
        talk.peer.send(&hex(THEIR_REPLY)[..7]);
        leave.go(&talk.peer);
        assert_eq!(talk.world.connect_error(), ConnectFailure::Closed);
        assert_eq!(talk.world.side.qp.state(), QpState::Idle);
        expect_over(&talk);

        let talk = Talk::new(Opener::Device);
        talk.stream.start_responder(b"").unwrap();
        talk.peer.send(&hex(REQUEST)[..7]);
        leave.go(&talk.peer);
        let reason = ConnectFailure::Closed;
        assert_eq!(talk.event(), CmEvent::StreamFailed { id: talk.stream.id(), reason });
        expect_over(&talk);
    }
}

/// The application has not answered yet. Its answer comes too late, and a request that it has not seen is withdrawn.
#[test]
fn the_peer_leaves_while_it_waits_for_the_answer() {
    for leave in [Leave::Fin, Leave::Rst] {
        for seen in [false, true] {
            let talk = Talk::new(Opener::Peer);
            talk.stream.start_responder(b"").unwrap();
            talk.peer.send(&hex(REQUEST));
            let request = seen.then(|| talk.world.request());
            talk.world.settle();
            leave.go(&talk.peer);
            talk.world.settle();
            let reason = ConnectFailure::Closed;
            assert_eq!(talk.event(), CmEvent::StreamFailed { id: talk.stream.id(), reason });
            if let Some(request) = request {
                let side = &talk.world.side;
                let answer = side.device.accept(request.id, &side.qp, ConnParam::default());
                assert_eq!(answer, Err(CmError::RequestGone));
                assert_eq!(side.device.reject(request.id, b""), Err(CmError::RequestGone));
            }
            expect_over(&talk);
        }
    }
}

#[test]
fn the_peer_leaves_in_full_operation() {
    for (leave, reason) in [(Leave::Fin, DisconnectReason::Peer), (Leave::Rst, DisconnectReason::Lost)] {
        let talk = Talk::new(Opener::Peer);
        talk.stream.start_responder(b"").unwrap();
        talk.peer.send(&hex(REQUEST));
        talk.accept();
        assert!(matches!(talk.event(), CmEvent::Established { .. }));
        talk.peer.expect(&hex(REPLY));
        exchange(&talk.world, &talk.world.side.qp, &talk.peer, 1);
        leave.go(&talk.peer);
        assert_eq!(talk.world.disconnected(), reason);
        expect_over(&talk);
    }
}

/// The Request waits for room behind octets that the peer does not read, but not for ever.
#[test]
fn a_peer_that_does_not_read() {
    let config = PairConfig { tcp_buffer: 1024, ..PairConfig::default() };
    for reads_again in [true, false] {
        let talk = Talk::with(Opener::Peer, &config);
        talk.peer.set_reading(false);
        let text = pattern(400_000);
        let mut sent = 0;
        while let Ok(len @ 1..) = talk.stream.send(&text[sent..]) {
            sent += len;
            talk.world.settle();
        }
        let needed = 6;
        let no_room = Err(CmError::Stream(StreamError::NoRoom { needed }));
        assert_eq!(talk.stream.start_responder(b"hello\n"), no_room);
        assert_eq!(talk.stream.state(), StreamState::Streaming);
        talk.start_initiator().unwrap();
        talk.world.settle();
        if reads_again {
            talk.peer.set_reading(true);
            talk.peer.expect(&text[..sent]);
            let _request = talk.peer.read_exact(24);
            talk.peer.send(&hex(THEIR_REPLY));
            assert!(matches!(talk.event(), CmEvent::Established { .. }));
            exchange(&talk.world, &talk.world.side.qp, &talk.peer, 1);
        } else {
            assert_eq!(
                talk.event(),
                CmEvent::ConnectError {
                    qp_num: talk.world.side.qp.number(),
                    reason: ConnectFailure::TimedOut
                }
            );
            expect_over(&talk);
        }
    }
}

/// A peer that sends a Request without reading earlier octets gets no answer until there is room for it.
#[test]
fn a_request_of_a_peer_that_does_not_read() {
    let talk = Talk::with(Opener::Peer, &PairConfig { tcp_buffer: 1024, ..PairConfig::default() });
    talk.peer.set_reading(false);
    let text = pattern(400_000);
    let mut sent = 0;
    while let Ok(len @ 1..) = talk.stream.send(&text[sent..]) {
        sent += len;
        talk.world.settle();
    }
    talk.stream.start_responder(b"").unwrap();
    talk.peer.send(&hex(REQUEST));
    let CmEvent::ConnectRequest(request) = talk.event() else { panic!("no request") };
    let side = &talk.world.side;
    let answer = side.device.accept(request.id, &side.qp, ConnParam::default());
    assert_eq!(answer, Err(CmError::Stream(StreamError::NoRoom { needed: 20 })));
    let answer = side.device.reject(request.id, b"no");
    assert_eq!(answer, Err(CmError::Stream(StreamError::NoRoom { needed: 22 })));
    talk.peer.set_reading(true);
    talk.peer.expect(&text[..sent]);
    talk.world.settle();
    side.device.accept(request.id, &side.qp, ConnParam::default()).unwrap();
    talk.peer.expect(&hex(REPLY));
}

/// Octets that the application does not receive stay with the peer.
#[test]
fn a_peer_that_sends_without_end_is_held_by_the_window() {
    let talk = Talk::with(Opener::Peer, &PairConfig { tcp_buffer: 2048, ..PairConfig::default() });
    let text = pattern(100_000);
    talk.expect_empty();
    talk.peer.send(&text);
    talk.world.host.settle(Duration::from_secs(20));
    assert_eq!(talk.peer.state(), LlpState::Established);
    assert_eq!(talk.world.side.events.next(), Some(CmEvent::StreamReady { id: talk.stream.id() }));
    // A call that found no octets gets one event when octets come, however many there are.
    assert_eq!(talk.world.side.events.next(), None);
    let mut held = vec![0; text.len()];
    let len = talk.stream.receive(&mut held).unwrap();
    assert!((1..=2048).contains(&len), "{len} octets were held");
    assert_eq!(held[..len], text[..len]);
    talk.hear(&text[len..]);
    talk.chat();
}

/// At most as many connections as the backlog wait to be taken, and none longer than the time limit for an answer.
#[test]
fn connections_that_the_application_does_not_take() {
    let world = World::new();
    let device = &world.side.device;
    let _listener = device.listen_streaming(&world.side.events, STREAMING_PORT).unwrap();
    let peers: Vec<_> = (0..128).map(|_| world.host.connect(device.address(STREAMING_PORT))).collect();
    world.settle();
    let refused = world.host.connect(device.address(STREAMING_PORT));
    refused.expect_reset();
    // A taken connection makes room for another one. Its later events do not count.
    let CmEvent::StreamRequest(request) = world.event() else { panic!("no stream request") };
    let stream = device.accept_stream(request.id).unwrap();
    assert!(matches!(device.accept_stream(request.id), Err(CmError::RequestGone)));
    stream.start_responder(b"").unwrap();
    let late = world.host.connect(device.address(STREAMING_PORT));
    world.settle();
    assert_eq!(late.state(), LlpState::Established);
    let refused = world.host.connect(device.address(STREAMING_PORT));
    refused.expect_reset();
    // A peer that leaves makes room too, and the request is withdrawn. A FIN alone does not count as leaving.
    peers[1].abort();
    peers[2].close();
    world.host.settle(Duration::from_secs(240));
    for peer in &peers[2..] {
        assert_eq!(peer.state(), LlpState::Reset);
    }
    assert_eq!(world.event(), CmEvent::StreamFailed { id: stream.id(), reason: ConnectFailure::TimedOut });
    world.expect_no_news();
    let peer = world.host.connect(device.address(STREAMING_PORT));
    let CmEvent::StreamRequest(request) = world.event() else { panic!("no stream request") };
    let stream = device.accept_stream(request.id).unwrap();
    assert_eq!(stream.send(b"welcome\n"), Ok(8));
    peer.expect(b"welcome\n");
    world.expect_service();
}
