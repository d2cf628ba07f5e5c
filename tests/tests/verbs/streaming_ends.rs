//! Streaming mode: handles, queue pairs and devices that are dropped in every phase, and threads that sleep.

use std::time::Duration as RealDuration;

use weft_netif::Duration;
use weft_rnic::{
    CmEvent, Config, ConnParam, Device, EventChannel, Progress, QpInit, StreamError, StreamState,
};
use weft_tests::{Pair, PairConfig};

use crate::talk::{PORT, Talk, news, take};
use crate::world::{CAPACITY, pattern, qp_on};

/// A dropped handle closes the connection behind the sent octets. The peer receives all of them first.
#[test]
fn a_dropped_handle_closes() {
    let mut talk = Talk::new(&PairConfig::default());
    let text = pattern(100_000, 7);
    assert_eq!(talk.a.send(&text), Ok(text.len()));
    // Unread octets do not keep the connection open either.
    assert_eq!(talk.b.send(b"unread"), Ok(6));
    talk.settle();
    let Talk { mut pair, a, b, listener } = talk;
    drop(a);
    let (mut heard, mut buffer) = (Vec::new(), [0; 4096]);
    let end = pair.wait(|| match b.receive(&mut buffer) {
        Ok(len) => {
            heard.extend_from_slice(&buffer[..len]);
            None
        }
        Err(error) => Some(error),
    });
    assert_eq!((end, heard), (Some(StreamError::Finished), text));
    drop(b);
    pair.settle(Duration::from_secs(30));
    assert_eq!(pair.a.device.stack_counters().connections, 0);
    assert_eq!(pair.b.device.stack_counters().connections, 0);
    // A handle may also be dropped during the opening. A connection that was not taken outlives its listener only as
    // long as an answer may take.
    let remote = pair.b.device.address(PORT);
    drop(pair.a.device.open_stream(&pair.a.events, remote).unwrap());
    pair.settle(Duration::from_secs(1));
    assert_eq!(pair.a.device.stack_counters().connections, 0);
    let untaken = pair.a.device.open_stream(&pair.a.events, remote).unwrap();
    pair.settle(Duration::from_secs(1));
    drop(listener);
    pair.settle(Duration::from_secs(300));
    assert_eq!(untaken.state(), StreamState::Closed);
    assert_eq!(pair.b.events.next(), None);
    assert_eq!(pair.b.device.stack_counters().connections, 0);
}

/// After MPA has been started the connection needs no handle. A rejection then has no handle to return to.
#[test]
fn handles_dropped_during_startup() {
    for accept in [true, false] {
        let mut talk = Talk::new(&PairConfig::default());
        talk.agree();
        let Talk { mut pair, a, b, .. } = talk;
        drop((a, b));
        let events = [pair.a.events.clone(), pair.b.events.clone()];
        let [a_events, b_events] = events.each_ref().map(|events| || news(events));
        let Some(CmEvent::ConnectRequest(request)) = pair.wait(b_events) else {
            panic!("no connect request")
        };
        if accept {
            pair.b.device.accept(request.id, &pair.b.qp, ConnParam::default()).unwrap();
        } else {
            pair.b.device.reject(request.id, b"").unwrap();
        }
        let event = pair.wait(a_events).expect("an event");
        if accept {
            assert!(matches!(event, CmEvent::Established { .. }), "{event:?}");
        } else {
            assert!(matches!(event, CmEvent::Rejected { .. }), "{event:?}");
            pair.settle(Duration::from_secs(60));
            assert_eq!(pair.a.device.stack_counters().connections, 0);
            assert_eq!(pair.b.device.stack_counters().connections, 0);
        }
    }
}

/// A destroyed queue pair ends its connection, in each phase. The handle of its side shows that.
#[test]
fn queue_pairs_destroyed_in_every_phase() {
    for (initiators, established) in [(true, false), (true, true), (false, true)] {
        let mut talk = Talk::new(&PairConfig::default());
        if established {
            talk.convert();
        } else {
            talk.agree();
        }
        let side = if initiators { &mut talk.pair.a } else { &mut talk.pair.b };
        side.qp = qp_on(side, &side.cq);
        let own = if initiators { &talk.a } else { &talk.b };
        assert_eq!(own.state(), StreamState::Closed);
        talk.settle();
        assert_eq!([talk.a.state(), talk.b.state()], [StreamState::Closed; 2]);
        talk.expect_usable();
    }
}

/// A device that is closed resets its connections.
#[test]
fn a_device_closed_in_every_phase() {
    for phase in 0..4 {
        let mut talk = Talk::new(&PairConfig::default());
        match phase {
            0 => {}
            1 => talk.a.start_responder(b"").unwrap(),
            2 => talk.agree(),
            _ => talk.convert(),
        }
        talk.settle();
        while talk.pair.b.events.next().is_some() {}
        let Talk { pair, a, b, listener } = talk;
        let Pair { a: left, b: right, lockstep, .. } = pair;
        drop(a);
        drop(left);
        // The lockstep holds the device too.
        let now = lockstep.now();
        drop(lockstep);
        let mut at = now;
        for _ in 0..1000 {
            at += Duration::from_millis(100);
            right.device.poll(at);
        }
        match phase {
            0 | 1 => {
                let end = b.receive(&mut [0; 8]).unwrap_err();
                assert!(matches!(end, StreamError::Finished | StreamError::Closed), "{end}");
            }
            _ => assert_eq!(b.state(), StreamState::Closed),
        }
        drop(listener);
    }
}

/// Real threads that sleep for their events: one asks in large octets, the other answers and changes to MPA.
#[test]
fn threads_sleep_for_their_streams() {
    for progress in [[Progress::Thread; 2], [Progress::Manual; 2], [Progress::Thread, Progress::Manual]] {
        let (left, right) = weft_netif::pair(1500);
        let open = |wire, address: &str, progress| {
            let config = Config { progress, ..Config::new(address.parse().expect("an address"), 7) };
            let device = Device::open(wire, config).expect("a device on memory");
            let events = device.create_event_channel().expect("an eventfd");
            (device, events)
        };
        let (a, a_events) = open(left, "10.0.0.1/24", progress[0]);
        let (b, b_events) = open(right, "10.0.0.2/24", progress[1]);
        let _listener = b.listen_streaming(&b_events, PORT).unwrap();
        let text = pattern(1_000_000, 9);
        std::thread::scope(|scope| {
            let server = scope.spawn(|| {
                let CmEvent::StreamRequest(request) = wait(&b_events) else { panic!("no stream request") };
                let stream = b.accept_stream(request.id).unwrap();
                let (mut heard, mut buffer) = (Vec::new(), vec![0; 5000]);
                while heard.len() < text.len() {
                    if take(&stream, &mut buffer, &mut heard) == 0 {
                        assert_eq!(wait(&b_events), CmEvent::StreamReady { id: stream.id() });
                    }
                }
                assert!(heard == text);
                stream.start_responder(b"enough\n").unwrap();
                let CmEvent::ConnectRequest(request) = wait_for_news(&b_events) else { panic!("no request") };
                b.reject(request.id, b"thanks").unwrap();
                while stream.receive(&mut buffer) != Err(StreamError::Finished) {
                    assert_eq!(wait(&b_events), CmEvent::StreamReady { id: stream.id() });
                }
            });
            let stream = a.open_stream(&a_events, b.address(PORT)).unwrap();
            let mut sent = 0;
            while sent < text.len() {
                assert_eq!(wait(&a_events), CmEvent::StreamReady { id: stream.id() });
                sent += stream.send(&text[sent..]).unwrap();
            }
            let mut line = [0; 16];
            while stream.receive_until(&mut line, b'\n').unwrap() == 0 {
                wait(&a_events);
            }
            assert_eq!(line[..7], *b"enough\n");
            let (pd, cq) = (a.alloc_pd(), a.create_cq(16, None).unwrap());
            let init = QpInit { capacity: CAPACITY, ..QpInit::new(&cq, &cq) };
            let qp = a.create_qp(&pd, &init).unwrap();
            stream.start_initiator(&qp, ConnParam::default()).unwrap();
            assert!(matches!(wait_for_news(&a_events), CmEvent::Rejected { .. }));
            drop(stream);
            // A program that drives a device by hand has to drive it until the last octets are sent.
            while !server.is_finished() {
                a.progress();
                std::thread::yield_now();
            }
            server.join().expect("a server without failure");
        });
    }
}

/// The next event that is more than a wake-up.
fn wait_for_news(events: &EventChannel) -> CmEvent {
    loop {
        match wait(events) {
            CmEvent::StreamReady { .. } => {}
            event => return event,
        }
    }
}

fn wait(events: &EventChannel) -> CmEvent {
    events.wait(Some(PATIENCE)).expect("an event")
}

/// The limit only makes a failure out of a hang.
const PATIENCE: RealDuration = RealDuration::from_secs(60);
