//! Connection events by name, in queues of several devices, and on their way from one queue to another.

use std::net::SocketAddr;

use weft_netif::ListenError;
use weft_rnic::{CmError, CmEvent, ConnParam, EventQueue, EventSource, Listen, News, Notice};
use weft_tests::{PORT, Pair, PairConfig};

use crate::world::qp_on;

fn pair() -> Pair {
    Pair::new(&PairConfig::default())
}

fn event(notice: Option<Notice>) -> (u64, CmEvent) {
    match notice {
        Some(Notice { id, news: News::Event(event) }) => (id, event),
        other => panic!("{other:?} instead of an event"),
    }
}

/// One queue serves both devices. The name of an event tells its device.
#[test]
fn one_queue_serves_several_devices() {
    let mut pair = pair();
    let queue = EventQueue::new().unwrap();
    let (a_events, b_events) = (pair.a.device.events_on(&queue), pair.b.device.events_on(&queue));
    let listener = pair.b.device.listen_as(7, &b_events, Listen::from(9)).unwrap();
    let param = ConnParam { id: 8, ..ConnParam::default() };
    pair.a.device.connect(&a_events, &pair.a.qp, listener.local_addr(), param).unwrap();
    let (id, CmEvent::ConnectRequest(request)) = event(pair.wait(|| queue.pop())) else { panic!() };
    assert_eq!((id, request.local), (7, listener.local_addr()));
    let [local, peer] = pair.a.qp.addresses().unwrap();
    assert_eq!((local, peer), (request.peer, request.local));
    let param = ConnParam { id: 9, ..ConnParam::default() };
    pair.b.device.accept(request.id, &pair.b.qp, param).unwrap();
    for id in [9, 8] {
        let (name, CmEvent::Established { .. }) = event(pair.wait(|| queue.pop())) else { panic!() };
        assert_eq!(name, id);
    }
    pair.a.qp.disconnect().unwrap();
    let mut names = [(); 2].map(|()| event(pair.wait(|| queue.pop())).0);
    names.sort_unstable();
    assert_eq!(names, [8, 9]);
}

#[test]
fn events_move_in_their_order() {
    let mut pair = pair();
    let [from, to] = [(); 2].map(|()| EventQueue::new().unwrap());
    let listener = pair.b.device.listen_as(7, &pair.b.device.events_on(&from), Listen::from(9)).unwrap();
    let connect = |pair: &Pair, qp: &_| {
        let to = listener.local_addr();
        pair.a.device.connect(&pair.a.events, qp, to, ConnParam::default()).unwrap();
    };
    let qps = [(); 3].map(|()| qp_on(&pair.a, &pair.a.cq));
    connect(&pair, &qps[0]);
    pair.settle(weft_netif::Duration::from_secs(1));
    from.post(6, 60);
    from.post(7, 70);
    // The listener moves when one request has come and another one is under way.
    connect(&pair, &qps[1]);
    from.migrate(7, EventSource::Listener(&listener), &to).unwrap();
    connect(&pair, &qps[2]);
    let (_, CmEvent::ConnectRequest(first)) = event(to.pop()) else { panic!() };
    assert_eq!(to.pop(), Some(Notice { id: 7, news: News::Posted(70) }));
    let (7, second) = event(pair.wait(|| to.pop())) else { panic!("not the listener's") };
    assert!(matches!(event(pair.wait(|| to.pop())), (7, CmEvent::ConnectRequest(_))));
    assert_eq!(from.pop(), Some(Notice { id: 6, news: News::Posted(60) }));
    // A connection that was accepted onto its own queue moves, too.
    let events = pair.b.device.events_on(&from);
    let param = ConnParam { id: 8, events: Some(&events), ..ConnParam::default() };
    pair.b.device.accept(first.id, &pair.b.qp, param).unwrap();
    from.migrate(8, EventSource::Qp(&pair.b.qp), &to).unwrap();
    assert!(matches!(event(to.pop()), (8, CmEvent::Established { .. })));
    qps[0].disconnect().unwrap();
    assert!(matches!(event(pair.wait(|| to.pop())), (8, CmEvent::Disconnected { .. })));
    pair.settle(weft_netif::Duration::from_secs(30));
    let gone = from.migrate(8, EventSource::Qp(&pair.b.qp), &to);
    assert_eq!(gone, Err(CmError::NotConnected));
    from.post(6, 61);
    from.discard(6);
    assert_eq!(from.pop(), None);
    // A silenced connection has no events, neither waiting nor later ones.
    let CmEvent::ConnectRequest(second) = second else { panic!("no request") };
    let qp = qp_on(&pair.b, &pair.b.cq);
    let param = ConnParam { id: 9, events: Some(&events), ..ConnParam::default() };
    pair.b.device.accept(second.id, &qp, param).unwrap();
    EventSource::Qp(&qp).silence();
    EventSource::Listener(&listener).silence();
    from.discard(9);
    to.discard(7);
    connect(&pair, &qp_on(&pair.a, &pair.a.cq));
    qps[1].disconnect().unwrap();
    pair.settle(weft_netif::Duration::from_secs(30));
    assert_eq!((from.pop(), to.pop()), (None, None));
}

/// A request that the application has not seen ends with its listener. The port is free then.
#[test]
fn pending_requests_end_with_their_listener() {
    let mut pair = pair();
    let listen = Listen { backlog: Some(1), ..Listen::from(9) };
    let listener = pair.b.device.listen(&pair.b.events, listen).unwrap();
    let to = listener.local_addr();
    pair.a.device.connect(&pair.a.events, &pair.a.qp, to, ConnParam::default()).unwrap();
    pair.settle(weft_netif::Duration::from_secs(1));
    drop(listener);
    assert_eq!(pair.b.events.next(), None);
    assert!(matches!(pair.event_of_a(), CmEvent::ConnectError { .. }));
    let _listener = pair.b.device.listen(&pair.b.events, listen).unwrap();
    pair.a.device.connect(&pair.a.events, &pair.a.qp, to, ConnParam::default()).unwrap();
    assert!(matches!(pair.event_of_b(), CmEvent::ConnectRequest(_)));
}

#[test]
fn ports_are_bound_before_they_are_used() {
    let mut pair = pair();
    let bind = |port| pair.b.device.bind(pair.b.device.address(port));
    assert_eq!(bind(PORT).unwrap_err(), CmError::Listen(ListenError::AddrInUse));
    let foreign: SocketAddr = "10.0.0.9:0".parse().unwrap();
    assert_eq!(pair.b.device.bind(foreign).unwrap_err(), CmError::Listen(ListenError::AddrNotAvailable));
    let bound = bind(0).unwrap();
    let to = bound.local_addr();
    assert_eq!(bind(to.port()).unwrap_err(), CmError::Listen(ListenError::AddrInUse));
    let _listener = pair.b.device.listen(&pair.b.events, to).unwrap();
    drop(bound);
    assert_eq!(bind(to.port()).unwrap_err(), CmError::Listen(ListenError::AddrInUse));
    let from = pair.a.device.bind("0.0.0.0:0".parse().unwrap()).unwrap();
    let param = ConnParam { local: Some(from.local_addr()), ..ConnParam::default() };
    pair.a.device.connect(&pair.a.events, &pair.a.qp, to, param).unwrap();
    let CmEvent::ConnectRequest(request) = pair.event_of_b() else { panic!("no request") };
    assert_eq!(request.peer, from.local_addr());
    assert_eq!(pair.a.device.route_to(to.ip()), Some(24));
    assert_eq!(pair.a.device.route_to([192, 168, 0, 1].into()), None);
}
