//! Octets of streaming mode that an application looks at before it receives them, or leaves them to MPA.

use weft_rnic::{CmEvent, Config, ConnParam, Device, StreamError};
use weft_tests::PairConfig;

use crate::talk::{PORT, Talk, take, with};
use crate::world::{Random, pattern};

/// Looks until there are `len` octets.
fn look(talk: &mut Talk, len: usize) -> Vec<u8> {
    let (b, mut octets) = (&talk.b, vec![0; len]);
    talk.pair.wait(|| (b.peek(&mut octets).unwrap() == len).then_some(())).expect("the octets come");
    octets
}

#[test]
fn octets_that_were_looked_at_are_received_afterwards() {
    let mut talk = Talk::new(&PairConfig::default());
    let (mut octets, mut heard) = ([0; 64], Vec::new());
    assert_eq!((talk.b.peek(&mut octets), talk.b.peek(&mut [])), (Ok(0), Ok(0)));
    assert_eq!(talk.a.send(b"look before you leap"), Ok(20));
    assert_eq!(look(&mut talk, 4), b"look");
    assert_eq!(look(&mut talk, 20), b"look before you leap");
    assert_eq!((talk.b.peek(&mut octets), &octets[..20]), (Ok(20), &b"look before you leap"[..]));
    assert_eq!(take(&talk.b, &mut [0; 5], &mut heard), 5);
    assert_eq!((talk.b.peek(&mut octets), &octets[..15]), (Ok(15), &b"before you leap"[..]));
    assert_eq!(take(&talk.b, &mut octets, &mut heard), 15);
    assert_eq!((talk.b.peek(&mut octets), &heard[..]), (Ok(0), &b"look before you leap"[..]));
    talk.convert();
    assert_eq!(talk.b.peek(&mut octets), Err(StreamError::MpaStarted));
}

/// The beginning of a Request tells that the client speaks MPA. It is still there for the Responder.
#[test]
fn the_key_of_a_request_is_looked_at() {
    let mut talk = Talk::new(&PairConfig::default());
    talk.a.start_initiator(&talk.pair.a.qp, with(b"please")).unwrap();
    assert_eq!(look(&mut talk, 16), b"MPA ID Req Frame");
    talk.b.start_responder(b"").unwrap();
    let CmEvent::ConnectRequest(request) = talk.event_of_b() else { panic!("no connect request") };
    assert_eq!(&request.private_data[..], b"please");
    talk.pair.b.device.accept(request.id, &talk.pair.b.qp, ConnParam::default()).unwrap();
    assert!(matches!(talk.event_of_a(), CmEvent::Established { .. }));
}

/// Looks and receives by turns, through a small buffer whose end the octets often cross.
#[test]
fn a_look_is_what_is_received_next() {
    let mut talk = Talk::new(&PairConfig { tcp_buffer: 1024, ..PairConfig::default() });
    let (text, mut random) = (pattern(50_000, 1), Random(2));
    let (mut sent, mut heard, mut longest) = (0, Vec::new(), 0);
    let (a, b) = (&talk.a, &talk.b);
    talk.pair
        .wait(|| {
            sent += a.send(&text[sent..]).unwrap();
            let mut octets = vec![0; 1 + random.below(1000)];
            let there = b.peek(&mut octets).unwrap();
            longest = longest.max(there);
            assert!(octets[..there] == text[heard.len()..][..there], "behind {}", heard.len());
            if there > 0 {
                let taken = take(b, &mut vec![0; 1 + random.below(there)], &mut heard);
                assert!(taken > 0);
            }
            (heard.len() == text.len()).then_some(())
        })
        .expect("all octets arrive");
    assert!(heard == text && longest > 500, "{longest}");
}

/// An application that has seen too few octets is told when there are more, and not before.
#[test]
fn more_octets_than_were_seen_are_announced_once() {
    let mut talk = Talk::new(&PairConfig::default());
    let (mut octets, events) = ([0; 16], talk.pair.b.events.clone());
    let is_ready = |event| matches!(event, Some(CmEvent::StreamReady { .. }));
    for (piece, there) in [(&b"MPA"[..], 3), (b" ID ", 7), (b"Req Frame and more", 16)] {
        assert!(talk.b.peek(&mut octets).unwrap() < 16);
        talk.settle();
        assert_eq!(events.next(), None, "nothing has come");
        assert_eq!(talk.a.send(piece), Ok(piece.len()));
        talk.settle();
        assert!(is_ready(events.next()) && events.next().is_none(), "more than {there}");
        assert_eq!(talk.b.peek(&mut octets), Ok(there));
    }
    assert_eq!(&octets, b"MPA ID Req Frame");
    talk.settle();
    assert_eq!((events.next(), talk.a.send(b"?")), (None, Ok(1)));
    talk.settle();
    assert_eq!(events.next(), None, "all that was asked for was there");
}

/// The peer closes behind fewer octets than the application wants to see. The application is told once.
#[test]
fn an_end_behind_few_octets() {
    let mut talk = Talk::new(&PairConfig::default());
    let (mut octets, events, mut heard) = ([0; 16], talk.pair.b.events.clone(), Vec::new());
    assert_eq!(talk.a.send(b"few"), Ok(3));
    assert_eq!(look(&mut talk, 3), b"few");
    assert_eq!(talk.b.peek(&mut octets), Ok(3));
    let Talk { mut pair, a, b, .. } = talk;
    while events.next().is_some() {}
    drop(a);
    let told = pair.wait(|| events.next());
    assert_eq!(told, Some(CmEvent::StreamReady { id: b.id() }));
    for _ in 0..3 {
        assert_eq!((b.peek(&mut octets), &octets[..3]), (Ok(3), &b"few"[..]));
        pair.settle(weft_netif::Duration::from_millis(10));
        assert_eq!(events.next(), None, "it is told once");
    }
    assert_eq!(take(&b, &mut octets, &mut heard), 3);
    assert_eq!(
        (b.peek(&mut octets), b.receive(&mut octets)),
        (Err(StreamError::Finished), Err(StreamError::Finished))
    );
}

/// On a device with manual progress, a look that finds too few octets drives the engine.
#[test]
fn an_application_that_only_looks_makes_progress() {
    let (left, right) = weft_netif::pair(1500);
    let open = |wire, address: &str| Device::open(wire, Config::new(address.parse().unwrap(), 3)).unwrap();
    let (a, b) = (open(left, "10.0.0.1/24"), open(right, "10.0.0.2/24"));
    let (a_events, b_events) = (a.create_event_channel().unwrap(), b.create_event_channel().unwrap());
    let _listener = b.listen_streaming(&b_events, PORT).unwrap();
    let from = a.open_stream(&a_events, b.address(PORT)).unwrap();
    let mut sent = 0;
    let to = loop {
        sent += from.send(&b"look!"[sent..]).unwrap();
        if let Some(CmEvent::StreamRequest(request)) = b_events.next() {
            break b.accept_stream(request.id).unwrap();
        }
    };
    let mut octets = [0; 11];
    for wanted in [5, 10] {
        for _ in 0..1000 {
            sent += from.send(&b"look!look!"[sent..wanted]).unwrap();
            // It asks for one more than comes.
            if to.peek(&mut octets[..=wanted]) == Ok(wanted) {
                break;
            }
        }
        assert_eq!((sent, &octets[..wanted]), (wanted, &b"look!look!"[..wanted]));
    }
}
