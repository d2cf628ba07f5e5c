//! Streaming mode between two devices: lines, then RDMA; refusals and further attempts; small windows; loss.

use weft_netif::ImpairmentConfig;
use weft_rnic::{CmError, CmEvent, Config, ConnParam, Device, QpState, StreamError, StreamState};
use weft_tests::PairConfig;

use crate::talk::{PORT, Talk, take, with};
use crate::world::{end_of_a, end_of_b, pattern, qp_on};

#[test]
fn lines_then_rdma() {
    let mut talk = Talk::new(&PairConfig::default());
    talk.expect_line(true, b"hello\n");
    talk.expect_line(false, b"hello yourself\n");
    talk.convert();
    talk.pair.a.qp.disconnect().unwrap();
    end_of_a(&mut talk.pair);
    end_of_b(&mut talk.pair);
    talk.settle();
    assert_eq!([talk.a.state(), talk.b.state()], [StreamState::Closed; 2]);
    talk.expect_usable();
}

/// After a refusal both go on, over the same TCP connection, and try again with the same queue pairs.
#[test]
fn a_rejection_leads_back_to_streaming_mode() {
    let mut talk = Talk::new(&PairConfig::default());
    for round in 0..3_u8 {
        talk.agree();
        let CmEvent::ConnectRequest(request) = talk.event_of_b() else { panic!("no connect request") };
        talk.pair.b.device.reject(request.id, &[round]).unwrap();
        let CmEvent::Rejected { qp_num, private_data, .. } = talk.event_of_a() else {
            panic!("not rejected")
        };
        assert_eq!((qp_num, &private_data[..]), (talk.pair.a.qp.number(), &[round][..]));
        assert_eq!([talk.pair.a.qp.state(), talk.pair.b.qp.state()], [QpState::Idle; 2]);
        assert_eq!([talk.a.state(), talk.b.state()], [StreamState::Streaming; 2]);
        talk.expect_line(false, b"not now\n");
        talk.expect_line(true, b"and now?\n");
    }
    talk.convert();
    assert_eq!(talk.pair.a.device.stack_counters().connections, 1);
    assert_eq!(talk.pair.b.device.counters().startup_failures, 0);
}

/// The side that has opened the TCP connection may as well be the responder.
#[test]
fn the_opener_responds() {
    let mut talk = Talk::new(&PairConfig::default());
    talk.a.start_responder(b"your turn\n").unwrap();
    let (b, mut line) = (&talk.b, [0; 32]);
    let len = talk.pair.wait(|| Some(b.receive_until(&mut line, b'\n').unwrap()).filter(|&len| len > 0));
    assert_eq!(len, Some(10));
    b.start_initiator(&talk.pair.b.qp, ConnParam::default()).unwrap();
    let CmEvent::ConnectRequest(request) = talk.event_of_a() else { panic!("no connect request") };
    assert_eq!((request.port, request.stream), (0, Some(talk.a.id())));
    talk.pair.a.device.accept(request.id, &talk.pair.a.qp, ConnParam::default()).unwrap();
    assert!(matches!(talk.event_of_a(), CmEvent::Established { .. }));
    assert!(matches!(talk.event_of_b(), CmEvent::Established { .. }));
}

/// Octets that the application leaves unread belong to MPA: the peer has sent its last line and its Request at once.
#[test]
fn octets_left_unread_are_the_request() {
    for taken in [1, 3, 6] {
        let mut talk = Talk::new(&PairConfig::default());
        assert_eq!(talk.a.send(b"RDMA!\n"), Ok(6));
        talk.a.start_initiator(&talk.pair.a.qp, with(b"please")).unwrap();
        talk.settle();
        let mut heard = Vec::new();
        while heard.len() < 6 {
            take(&talk.b, &mut vec![0; taken], &mut heard);
        }
        assert_eq!(heard, b"RDMA!\n");
        talk.b.start_responder(b"").unwrap();
        let CmEvent::ConnectRequest(request) = talk.event_of_b() else { panic!("no connect request") };
        assert_eq!(&request.private_data[..], b"please");
        talk.pair.b.device.accept(request.id, &talk.pair.b.qp, ConnParam::default()).unwrap();
        assert!(matches!(talk.event_of_a(), CmEvent::Established { .. }));
    }
}

/// Much more than the buffers hold, in both directions, before and between the attempts.
#[test]
fn large_data_over_tiny_windows() {
    for (tcp_buffer, piece) in [(1024, 1), (1024, 700), (1 << 14, 5000)] {
        let mut talk = Talk::new(&PairConfig { tcp_buffer, ..PairConfig::default() });
        let (there, back) = (pattern(300_000, 1), pattern(200_000, 2));
        let (mut sent, mut heard) = ([0; 2], [Vec::new(), Vec::new()]);
        let (a, b, mut buffer) = (&talk.a, &talk.b, vec![0; piece]);
        talk.pair
            .wait(|| {
                sent[0] += a.send(&there[sent[0]..]).unwrap();
                sent[1] += b.send(&back[sent[1]..]).unwrap();
                take(b, &mut buffer, &mut heard[0]);
                take(a, &mut buffer, &mut heard[1]);
                (heard[0].len() == there.len() && heard[1].len() == back.len()).then_some(())
            })
            .expect("all octets arrive");
        assert_eq!(heard, [there, back]);
        talk.convert();
    }
}

/// Each call that found fewer octets than it asked for gets a wake-up, so that an application can sleep in between.
#[test]
fn events_are_enough_to_go_on() {
    let mut talk = Talk::new(&PairConfig { tcp_buffer: 4096, ..PairConfig::default() });
    let text = pattern(100_000, 3);
    let (mut sent, mut heard, mut buffer) = (0, Vec::new(), [0; 1000]);
    // Every call follows an event, except for the first ones.
    let (mut a_awake, mut b_awake) = (true, true);
    while heard.len() < text.len() {
        if a_awake {
            sent += talk.a.send(&text[sent..]).unwrap();
        }
        while b_awake {
            b_awake = take(&talk.b, &mut buffer, &mut heard) > 0;
        }
        a_awake = false;
        if heard.len() < text.len() {
            let (a, b) = (talk.pair.a.events.clone(), talk.pair.b.events.clone());
            let woken = talk.pair.wait(|| {
                let woken = (a.next().is_some(), b.next().is_some());
                (woken != (false, false)).then_some(woken)
            });
            (a_awake, b_awake) = woken.expect("a wake-up");
        }
    }
    assert_eq!(heard, text);
    talk.convert();
}

/// TCP loses, repeats, cuts and reorders while the stream changes between the two modes.
// Covers 5044-7.1.5-4.
#[test]
fn loss_on_the_wire_while_modes_change() {
    for seed in 1..20 {
        println!("seed {seed}");
        let faults =
            ImpairmentConfig { loss: 0.1, duplicate: 0.05, reorder: 0.05, ..ImpairmentConfig::default() };
        let mut talk = Talk::new(&PairConfig { faults, seed, tcp_buffer: 8192, ..PairConfig::default() });
        let text = pattern(20_000, seed);
        assert_eq!(talk.carry(true, &text, 1500), text);
        talk.agree();
        let CmEvent::ConnectRequest(request) = talk.event_of_b() else { panic!("no connect request") };
        talk.pair.b.device.reject(request.id, b"").unwrap();
        assert!(matches!(talk.event_of_a(), CmEvent::Rejected { .. }));
        assert_eq!(talk.carry(false, &text, 1500), text);
        talk.convert();
    }
}

#[test]
fn refused_calls_change_nothing() {
    let mut talk = Talk::new(&PairConfig::default());
    let (a, b) = (&talk.pair.a, &talk.pair.b);
    let remote = b.device.address(PORT);
    assert_eq!(a.device.open_stream(&b.events, remote).unwrap_err(), CmError::ForeignObject);
    assert_eq!(a.device.listen_streaming(&b.events, 9).unwrap_err(), CmError::ForeignObject);
    assert!(matches!(b.device.listen_streaming(&b.events, PORT), Err(CmError::Listen(_))));
    assert!(matches!(
        a.device.open_stream(&a.events, "0.0.0.0:1".parse().unwrap()),
        Err(CmError::Connect(_))
    ));
    assert_eq!(a.device.accept_stream(talk.b.id()).unwrap_err(), CmError::RequestGone);
    assert_eq!(talk.a.start_initiator(&b.qp, ConnParam::default()), Err(CmError::ForeignObject));
    let long = [0; 509];
    let too_long = CmError::PrivateDataTooLong { len: 509, max: 508 };
    assert_eq!(talk.a.start_initiator(&a.qp, with(&long)), Err(too_long));
    let too_many = ConnParam { ird: Some(1000), ..ConnParam::default() };
    assert!(matches!(talk.a.start_initiator(&a.qp, too_many), Err(CmError::TooManyReads { .. })));
    let needed = 1 << 20;
    let no_room = CmError::Stream(StreamError::NoRoom { needed });
    assert_eq!(talk.a.start_responder(&vec![0; needed]), Err(no_room));
    assert_eq!(talk.a.receive(&mut []), Ok(0));
    assert_eq!(talk.a.send(&[]), Ok(0));
    talk.convert();
    let busy = talk.pair.a.device.open_stream(&talk.pair.a.events, remote).unwrap();
    let start = busy.start_initiator(&talk.pair.a.qp, ConnParam::default());
    assert_eq!(start, Err(CmError::QpBusy));
    let fresh = qp_on(&talk.pair.a, &talk.pair.a.cq);
    let start = busy.start_initiator(&fresh, ConnParam::default());
    assert_eq!(start, Err(CmError::Stream(StreamError::NotOpen)));
}

/// On a device with manual progress, a call that finds no room or no octets drives the engine.
#[test]
fn an_application_that_only_sends_makes_progress() {
    let (left, right) = weft_netif::pair(1500);
    let open = |wire, address: &str| {
        let mut config = Config::new(address.parse().unwrap(), 3);
        config.stack.tcp_buffer = 4096;
        Device::open(wire, config).unwrap()
    };
    let (a, b) = (open(left, "10.0.0.1/24"), open(right, "10.0.0.2/24"));
    let (a_events, b_events) = (a.create_event_channel().unwrap(), b.create_event_channel().unwrap());
    let _listener = b.listen_streaming(&b_events, PORT).unwrap();
    let from = a.open_stream(&a_events, b.address(PORT)).unwrap();
    let text = pattern(50_000, 4);
    let (mut to, mut sent, mut heard, mut buffer) = (None, 0, Vec::new(), vec![0; 4096]);
    for _ in 0..1_000_000 {
        sent += from.send(&text[sent..]).unwrap();
        match &to {
            None => {
                if let Some(CmEvent::StreamRequest(request)) = b_events.next() {
                    to = Some(b.accept_stream(request.id).unwrap());
                }
            }
            Some(to) => drop(take(to, &mut buffer, &mut heard)),
        }
        if sent == text.len() {
            break;
        }
    }
    assert_eq!((sent, heard == text[..heard.len()]), (text.len(), true));
}
