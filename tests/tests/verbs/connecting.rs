//! Connection management: private data, refusals, ports, and absent peers.

use std::net::SocketAddr;

use bytes::Bytes;
use weft_netif::{ConnectError, Duration, Listen, ListenError};
use weft_rnic::{
    Clock, CmError, CmEvent, Config, ConnParam, ConnectFailure, ConnectRequest, Data, Device,
    DisconnectReason, Lockstep, Progress, QpState, SendWr, Status,
};
use weft_tests::{PORT, Pair, PairConfig, Side};

use crate::world::{WR, drain, end_of_a, end_of_b, link_simply, outcomes, pattern, post_recv, qp_on, reason};

fn pair() -> Pair {
    Pair::new(&PairConfig::default())
}

fn with(private_data: &[u8]) -> ConnParam<'_> {
    ConnParam { private_data, ..ConnParam::default() }
}

fn connect(pair: &Pair, param: ConnParam<'_>) {
    pair.a.device.connect(&pair.a.events, &pair.a.qp, pair.address_of_b(), param).unwrap();
}

fn request(pair: &mut Pair) -> ConnectRequest {
    match pair.event_of_b() {
        CmEvent::ConnectRequest(request) => request,
        other => panic!("no request: {other:?}"),
    }
}

fn failure(pair: &mut Pair) -> ConnectFailure {
    match pair.event_of_a() {
        CmEvent::ConnectError { qp_num, reason } => {
            assert_eq!((qp_num, pair.a.qp.state()), (pair.a.qp.number(), QpState::Idle));
            reason
        }
        other => panic!("no failure: {other:?}"),
    }
}

/// The first queue pairs can still be connected, and work.
fn expect_usable(pair: &mut Pair) {
    pair.connect(true);
    post_recv(&pair.b.qp, 1, &[]);
    pair.a.qp.post_send(&WR).unwrap();
    assert_eq!(pair.completion_of_b().status, Status::Success);
}

#[test]
fn private_data_goes_both_ways() {
    for (there, back) in [(0, 0), (1, 508), (508, 1), (508, 508), (77, 0)] {
        let mut pair = pair();
        let (request_data, reply_data) = (pattern(there, 1), pattern(back, 2));
        let param = ConnParam { ird: Some(5), ord: Some(6), ..with(&request_data) };
        connect(&pair, param);
        let request = request(&mut pair);
        assert_eq!(request.private_data, request_data);
        assert_eq!((request.port, request.ird, request.ord), (PORT, Some(5), Some(6)));
        assert_eq!(request.peer.ip(), pair.a.device.address(0).ip());
        pair.b.device.accept(request.id, &pair.b.qp, with(&reply_data)).unwrap();
        let CmEvent::Established { qp_num, private_data, .. } = pair.event_of_a() else { panic!() };
        assert_eq!((qp_num, private_data), (pair.a.qp.number(), Bytes::from(reply_data)));
        let CmEvent::Established { qp_num, private_data, .. } = pair.event_of_b() else { panic!() };
        assert_eq!((qp_num, private_data), (pair.b.qp.number(), Bytes::new()));
    }
}

#[test]
fn a_rejection_carries_private_data_and_frees_the_queue_pair() {
    let mut pair = pair();
    connect(&pair, with(b"please"));
    let request = request(&mut pair);
    pair.b.device.reject(request.id, b"no room").unwrap();
    let CmEvent::Rejected { qp_num, private_data, .. } = pair.event_of_a() else { panic!("not rejected") };
    assert_eq!((qp_num, &private_data[..]), (pair.a.qp.number(), &b"no room"[..]));
    assert_eq!([pair.a.qp.state(), pair.b.qp.state()], [QpState::Idle; 2]);
    assert_eq!(pair.b.device.reject(request.id, b""), Err(CmError::RequestGone));
    expect_usable(&mut pair);
}

#[test]
fn a_request_is_answered_once() {
    let mut pair = pair();
    connect(&pair, ConnParam::default());
    let request = request(&mut pair);
    let spare = qp_on(&pair.b, &pair.b.cq);
    let accept = |pair: &Pair, qp| pair.b.device.accept(request.id, qp, ConnParam::default());
    assert_eq!(accept(&pair, &pair.b.qp), Ok(()));
    assert_eq!(accept(&pair, &spare), Err(CmError::RequestGone));
    assert_eq!(pair.b.device.reject(request.id, b""), Err(CmError::RequestGone));
    assert!(matches!(pair.event_of_a(), CmEvent::Established { .. }));
    // The queue pair of the refused answer is free again.
    assert!(matches!(pair.event_of_b(), CmEvent::Established { .. }));
    let again = qp_on(&pair.a, &pair.a.cq);
    link_simply(&mut pair, &again, &spare);
}

#[test]
fn too_much_private_data_changes_nothing() {
    let mut pair = pair();
    let long = [7; 509];
    let too_long = CmError::PrivateDataTooLong { len: 509, max: 508 };
    let to = pair.address_of_b();
    let connect_long = pair.a.device.connect(&pair.a.events, &pair.a.qp, to, with(&long));
    assert_eq!(connect_long, Err(too_long));
    connect(&pair, with(&long[..508]));
    let request = request(&mut pair);
    assert_eq!(pair.b.device.accept(request.id, &pair.b.qp, with(&long)), Err(too_long));
    assert_eq!(pair.b.device.reject(request.id, &long), Err(too_long));
    assert_eq!(pair.b.qp.state(), QpState::Idle);
    assert_eq!(pair.b.device.accept(request.id, &pair.b.qp, with(&long[..508])), Ok(()));
    assert!(matches!(pair.event_of_a(), CmEvent::Established { .. }));
}

#[test]
fn revision_1_takes_512_octets() {
    let mpa = weft_mpa::Config { enhanced: false, ..weft_mpa::Config::default() };
    let mut pair = Pair::new(&PairConfig { mpa, ..PairConfig::default() });
    let (fits, long) = (pattern(512, 1), [7; 513]);
    let too_long = CmError::PrivateDataTooLong { len: 513, max: 512 };
    let to = pair.address_of_b();
    assert_eq!(pair.a.device.connect(&pair.a.events, &pair.a.qp, to, with(&long)), Err(too_long));
    connect(&pair, with(&fits));
    let request = request(&mut pair);
    assert_eq!((request.private_data, request.ird, request.ord), (Bytes::copy_from_slice(&fits), None, None));
    assert_eq!(pair.b.device.accept(request.id, &pair.b.qp, with(&long)), Err(too_long));
    pair.b.device.accept(request.id, &pair.b.qp, with(&fits)).unwrap();
    let CmEvent::Established { private_data, .. } = pair.event_of_a() else { panic!() };
    assert_eq!(private_data, fits);
}

#[test]
fn ports() {
    let pair = pair();
    let listen = |port| pair.b.device.listen(&pair.b.events, port).map(|_| ());
    assert_eq!(listen(PORT), Err(CmError::Listen(ListenError::AddrInUse)));
    assert_eq!(listen(PORT + 1), Ok(()));
    assert_eq!(listen(PORT + 1), Ok(()), "its listener was dropped");
    let foreign = pair.b.device.listen(&pair.b.events, SocketAddr::from(([10, 0, 0, 9], PORT)));
    assert_eq!(foreign.err(), Some(CmError::Listen(ListenError::AddrNotAvailable)));
}

#[test]
fn a_port_of_the_devices_choice_and_a_local_end_of_the_applications() {
    let mut pair = pair();
    let listeners = [(); 2].map(|()| pair.b.device.listen(&pair.b.events, 0).unwrap());
    let chosen = listeners.each_ref().map(|listener| listener.local_addr());
    assert!(chosen[0] != chosen[1] && chosen.iter().all(|local| local.port() >= 49_152), "{chosen:?}");
    let own = pair.a.device.address(1234);
    let param = ConnParam { local: Some(own), ..ConnParam::default() };
    pair.a.device.connect(&pair.a.events, &pair.a.qp, chosen[1], param).unwrap();
    let request = request(&mut pair);
    assert_eq!((request.port, request.peer), (chosen[1].port(), own));
    let foreign = ConnParam { local: Some(pair.b.device.address(1235)), ..ConnParam::default() };
    let another = qp_on(&pair.a, &pair.a.cq);
    let refused = pair.a.device.connect(&pair.a.events, &another, chosen[0], foreign);
    assert_eq!(refused, Err(CmError::Connect(ConnectError::AddrNotAvailable)));
}

#[test]
fn a_listener_has_a_backlog_of_its_own() {
    let mut pair = pair();
    let listen = Listen { port: OTHER_PORT, backlog: Some(1), ..Listen::default() };
    let _listener = pair.b.device.listen(&pair.b.events, listen).unwrap();
    let qps = [(); 2].map(|()| qp_on(&pair.a, &pair.a.cq));
    for qp in &qps {
        pair.a
            .device
            .connect(&pair.a.events, qp, pair.b.device.address(OTHER_PORT), ConnParam::default())
            .unwrap();
    }
    let request = request(&mut pair);
    let expected = CmEvent::ConnectError { qp_num: qps[1].number(), reason: ConnectFailure::Closed };
    assert_eq!(pair.event_of_a(), expected);
    pair.b.device.accept(request.id, &pair.b.qp, ConnParam::default()).unwrap();
    assert!(matches!(pair.event_of_a(), CmEvent::Established { .. }));
}

#[test]
fn addresses_that_cannot_be_connected_to() {
    let mut pair = pair();
    let cases = [
        ("10.0.0.2:0", ConnectError::Unaddressable),
        ("0.0.0.0:7174", ConnectError::Unaddressable),
        ("224.0.0.1:7174", ConnectError::Unaddressable),
        ("[fd00::2]:7174", ConnectError::FamilyMismatch),
        ("192.168.0.1:7174", ConnectError::Unroutable),
    ];
    for (address, error) in cases {
        let to: SocketAddr = address.parse().unwrap();
        let refused = pair.a.device.connect(&pair.a.events, &pair.a.qp, to, ConnParam::default());
        assert_eq!(refused, Err(CmError::Connect(error)), "{address}");
    }
    expect_usable(&mut pair);
}

#[test]
fn no_listener_or_no_host_answers() {
    let mut pair = pair();
    for address in ["10.0.0.2:9", "10.0.0.77:7174"] {
        let (to, started) = (address.parse().unwrap(), pair.lockstep.now());
        pair.a.device.connect(&pair.a.events, &pair.a.qp, to, ConnParam::default()).unwrap();
        let reason = failure(&mut pair);
        if address.ends_with(":9") {
            assert_eq!(reason, ConnectFailure::Refused);
        } else {
            // No host answers, so that the startup timeout ends the attempt: 10 s, and 40 s of smoltcp's clock.
            let is_own = weft_netif::Tcp::default() == weft_netif::Tcp::Own;
            assert_eq!(reason, ConnectFailure::TimedOut);
            assert_eq!((pair.lockstep.now() - started).secs(), if is_own { 10 } else { 40 });
        }
    }
    expect_usable(&mut pair);
}

#[test]
fn a_dropped_listener_takes_no_more() {
    let mut pair = pair();
    let port = PORT + 1;
    let listener = pair.b.device.listen(&pair.b.events, port).unwrap();
    let to = pair.b.device.address(port);
    pair.a.device.connect(&pair.a.events, &pair.a.qp, to, ConnParam::default()).unwrap();
    let early = request(&mut pair);
    assert_eq!(early.port, port);
    drop(listener);
    let late = qp_on(&pair.a, &pair.a.cq);
    pair.a.device.connect(&pair.a.events, &late, to, ConnParam::default()).unwrap();
    let expected = CmEvent::ConnectError { qp_num: late.number(), reason: ConnectFailure::Refused };
    assert_eq!(pair.event_of_a(), expected);
    // A request that was announced before can still be answered.
    pair.b.device.accept(early.id, &pair.b.qp, ConnParam::default()).unwrap();
    assert!(matches!(pair.event_of_a(), CmEvent::Established { .. }));
}

#[test]
fn a_peer_that_leaves_before_the_answer() {
    let mut pair = pair();
    let impatient = qp_on(&pair.a, &pair.a.cq);
    let to = pair.address_of_b();
    pair.a.device.connect(&pair.a.events, &impatient, to, ConnParam::default()).unwrap();
    let request = request(&mut pair);
    let another = qp_on(&pair.a, &pair.a.cq);
    pair.a.device.connect(&pair.a.events, &another, to, ConnParam::default()).unwrap();
    pair.settle(Duration::from_millis(100));
    assert!(crate::events::is_readable(&pair.b.events));
    drop((impatient, another));
    pair.settle(Duration::from_secs(1));
    // A request that the application has not seen is not announced any more.
    assert!(!crate::events::is_readable(&pair.b.events));
    assert_eq!(pair.b.events.next(), None);
    let gone = pair.b.device.accept(request.id, &pair.b.qp, ConnParam::default());
    assert_eq!(gone, Err(CmError::RequestGone));
    assert_eq!(pair.b.device.reject(request.id, b""), Err(CmError::RequestGone));
    expect_usable(&mut pair);
}

#[test]
fn a_peer_that_gives_up_while_the_answer_is_on_its_way() {
    let mut pair = pair();
    connect(&pair, ConnParam::default());
    let request = request(&mut pair);
    pair.a.qp.disconnect().unwrap();
    assert_eq!(pair.a.qp.state(), QpState::Idle);
    // No frame has been delivered yet, so that the accepting side cannot know.
    pair.b.device.accept(request.id, &pair.b.qp, ConnParam::default()).unwrap();
    assert!(matches!(pair.event_of_b(), CmEvent::Established { .. }));
    assert_eq!(end_of_b(&mut pair), DisconnectReason::Lost);
    pair.settle(Duration::from_secs(1));
    assert_eq!(pair.a.events.next(), None);
}

#[test]
fn an_unanswered_request_times_out_at_the_connecting_side() {
    let startup_timeout = Some(Duration::from_secs(10));
    let mut pair = Pair::new(&PairConfig { startup_timeout, ..PairConfig::default() });
    connect(&pair, ConnParam::default());
    let request = request(&mut pair);
    assert_eq!(failure(&mut pair), ConnectFailure::TimedOut);
    pair.settle(Duration::from_secs(1));
    let late = pair.b.device.accept(request.id, &pair.b.qp, ConnParam::default());
    assert_eq!(late, Err(CmError::RequestGone));
    expect_usable(&mut pair);
}

#[test]
fn an_application_that_does_not_answer_loses_the_request() {
    let clock = Clock::virtual_time();
    let (left, right) = weft_netif::pair(1500);
    let client = Side::new(left, &clock, "10.0.0.1/24", &PairConfig::default());
    let config = Config::new("10.0.0.2/24".parse().unwrap(), 1);
    let (answer_timeout, progress) = (Duration::from_secs(3), Progress::External);
    let config = Config { answer_timeout, progress, clock: clock.clone(), ..config };
    let server = Device::open(right, config).unwrap();
    let events = server.create_event_channel().unwrap();
    let _listener = server.listen(&events, PORT).unwrap();
    client.device.connect(&client.events, &client.qp, server.address(PORT), ConnParam::default()).unwrap();
    let mut lockstep = Lockstep::new(clock, &[&server, &client.device]);
    let soon = lockstep.now() + Duration::from_secs(1);
    let Some(CmEvent::ConnectRequest(request)) = lockstep.run_until(soon, || events.next()) else {
        panic!("no request")
    };
    let asked = lockstep.now();
    lockstep.run_until(asked + Duration::from_millis(2990), || None::<()>);
    assert_eq!(client.events.next(), None);
    let Some(CmEvent::ConnectError { reason, .. }) =
        lockstep.run_until(asked + Duration::from_millis(3010), || client.events.next())
    else {
        panic!("no failure")
    };
    assert_eq!(reason, ConnectFailure::Closed);
    assert_eq!(server.reject(request.id, b""), Err(CmError::RequestGone));
}

#[test]
fn a_backlog_of_unanswered_requests_is_bounded() {
    let mut pair = pair();
    let backlog = Config::new("10.0.0.9/24".parse().unwrap(), 0).stack.backlog;
    let qps: Vec<_> = (0..backlog + 5).map(|_| qp_on(&pair.a, &pair.a.cq)).collect();
    let to = pair.address_of_b();
    for qp in &qps {
        pair.a.device.connect(&pair.a.events, qp, to, ConnParam::default()).unwrap();
        pair.settle(Duration::from_millis(50));
    }
    let requests: Vec<_> = core::iter::from_fn(|| pair.b.events.next()).collect();
    assert_eq!(requests.len(), backlog);
    let refused: Vec<_> = core::iter::from_fn(|| pair.a.events.next()).collect();
    assert_eq!(refused.len(), 5);
    // An answer, or a peer that leaves, makes room for another request.
    let CmEvent::ConnectRequest(first) = &requests[0] else { panic!("no request") };
    pair.b.device.reject(first.id, b"").unwrap();
    assert!(matches!(pair.event_of_a(), CmEvent::Rejected { .. }));
    connect(&pair, ConnParam::default());
    assert_eq!(request(&mut pair).port, PORT);
}

#[test]
fn an_accepted_connection_may_be_over_already() {
    let mut pair = pair();
    connect(&pair, ConnParam::default());
    let request = request(&mut pair);
    post_recv(&pair.b.qp, 1, &[]);
    pair.b.device.accept(request.id, &pair.b.qp, ConnParam::default()).unwrap();
    assert!(matches!(pair.event_of_a(), CmEvent::Established { .. }));
    pair.a.qp.post_send(&SendWr { wr_id: 2, data: Data::Inline(b""), ..WR }).unwrap();
    pair.a.device.poll(pair.lockstep.now());
    pair.a.qp.disconnect().unwrap();
    assert_eq!(end_of_a(&mut pair), DisconnectReason::Local);
    assert!(matches!(pair.event_of_b(), CmEvent::Established { .. }));
    assert_eq!(reason(pair.event_of_b()), DisconnectReason::Peer);
    // Octets sent before the end have arrived.
    assert_eq!(outcomes(&drain(&pair.b.cq)), [(1, Status::Success)]);
    assert_eq!(outcomes(&drain(&pair.a.cq)), [(2, Status::Success)]);
}

/// A port without another listener, which an ordinary user may use.
const OTHER_PORT: u16 = 19_009;
