//! The objects that are made and destroyed.

use weft_netif::Duration;
use weft_rnic::{Access, CmEvent, ConnParam, Data, Pd, Progress, Qp, QpInit, SendOpcode, SendWr};
use weft_tests::{PORT, Pair, PairConfig, Side};

/// A name, the number of rounds, and a function that makes the world for them.
type Loop = (&'static str, u32, fn() -> Box<dyn FnMut()>);

pub(crate) const ALL: [Loop; 6] = [
    ("queue pairs", 10_000, queue_pairs),
    ("connections", 1_000, connections),
    ("connections lost in a transfer", 200, lost_connections),
    ("startups that stay half-open", 400, half_open_startups),
    ("regions and completion queues", 2_000, regions_and_queues),
    ("devices with threads", 50, devices),
];

/// Queue pairs that are made and destroyed, with requests in them.
fn queue_pairs() -> Box<dyn FnMut()> {
    let pair = small_pair();
    Box::new(move || {
        let qp = new_qp(&pair.a);
        pair.a.pd.register(64, Access::ALL).expect("64 octets");
        qp.post_recv(&weft_rnic::RecvWr { wr_id: 1, sges: &[] }).expect("room");
        drop(qp);
        while pair.a.cq.poll_one().is_some() {}
    })
}

/// Connections with a message each that come and go in good order.
fn connections() -> Box<dyn FnMut()> {
    let mut pair = small_pair();
    Box::new(move || {
        let (qa, qb) = connect(&mut pair);
        qb.post_recv(&weft_rnic::RecvWr { wr_id: 1, sges: &[] }).expect("room");
        qa.post_send(&SendWr { signaled: true, ..SendWr::new(SendOpcode::Send) }).expect("room");
        assert_eq!(pair.completion_of_b().wr_id, 1);
        qa.disconnect().expect("connected");
        assert!(matches!(pair.event_of_b(), CmEvent::Disconnected { .. }));
        assert!(matches!(pair.event_of_a(), CmEvent::Disconnected { .. }));
        drop((qa, qb));
        forget_the_rest(&mut pair);
    })
}

/// Connections whose queue pair is destroyed in the middle of a transfer.
fn lost_connections() -> Box<dyn FnMut()> {
    let mut pair = small_pair();
    let (from, into) = (pair.a.memory(100_000), pair.b.memory(100_000));
    Box::new(move || {
        let (qa, qb) = connect(&mut pair);
        let (stag, to) = (into.rkey(), into.addr());
        let sges = [from.sge(0, 100_000)];
        let write = SendWr { data: Data::Sges(&sges), ..SendWr::new(SendOpcode::Write { stag, to }) };
        qa.post_send(&write).expect("room");
        for _ in 0..4 {
            pair.lockstep.step();
        }
        drop(qb);
        assert!(matches!(pair.event_of_a(), CmEvent::Disconnected { .. }));
        drop(qa);
        forget_the_rest(&mut pair);
    })
}

/// Peers open TCP connections, more than the backlog holds, and never send a Request. A peer that is connected
/// already is served meanwhile, and a new one after their time limit.
fn half_open_startups() -> Box<dyn FnMut()> {
    let mut pair = small_pair();
    let (served, server) = connect(&mut pair);
    Box::new(move || {
        let remote = pair.b.device.address(PORT);
        let silent: Vec<_> = (0..200)
            .map(|_| pair.a.device.open_stream(&pair.a.events, remote).expect("an ephemeral port"))
            .collect();
        pair.settle(Duration::from_secs(1));
        server.post_recv(&weft_rnic::RecvWr { wr_id: 9, sges: &[] }).expect("room");
        served.post_send(&SendWr { signaled: true, ..SendWr::new(SendOpcode::Send) }).expect("room");
        assert_eq!(pair.completion_of_b().wr_id, 9);
        // This is longer than a startup may take.
        pair.settle(Duration::from_secs(200));
        drop(silent);
        forget_the_rest(&mut pair);
        let (qa, qb) = connect(&mut pair);
        drop((qa, qb));
        forget_the_rest(&mut pair);
    })
}

/// Domains, regions, completion queues and channels.
fn regions_and_queues() -> Box<dyn FnMut()> {
    let pair = small_pair();
    Box::new(move || {
        let device = &pair.a.device;
        let pd: Pd = device.alloc_pd();
        let (channel, events) =
            (device.create_comp_channel().expect("a descriptor"), device.create_event_channel());
        let cq = device.create_cq(64, Some(&channel)).expect("a queue");
        cq.request_notification(false);
        let memory = pd.register(4096, Access::ALL).expect("a page");
        let qp = device.create_qp(&pd, &QpInit::new(&cq, &cq)).expect("a queue pair");
        let own = pd.register_for(&qp, 4096, Access::ALL).expect("a page");
        own.invalidate();
        drop((memory, own, qp, events.expect("a descriptor")));
    })
}

/// Devices with a thread of their own.
fn devices() -> Box<dyn FnMut()> {
    Box::new(|| {
        let (wire, _peer) = weft_netif::pair(1500);
        let address = "10.0.0.1/24".parse().expect("an address");
        let config = weft_rnic::Config { progress: Progress::Thread, ..weft_rnic::Config::new(address, 1) };
        let device = weft_rnic::Device::open(wire, config).expect("a device");
        let pd = device.alloc_pd();
        let cq = device.create_cq(16, None).expect("a queue");
        let _qp = device.create_qp(&pd, &QpInit::new(&cq, &cq)).expect("a queue pair");
        // No program listens there: the connection has to be given up with the device.
        let events = device.create_event_channel().expect("a descriptor");
        let _stream = device.open_stream(&events, "10.0.0.2:7".parse().expect("an address"));
    })
}

fn small_pair() -> Pair {
    Pair::new(&PairConfig { tcp_buffer: 16 * 1024, ..PairConfig::default() })
}

fn new_qp(side: &Side) -> Qp {
    side.device.create_qp(&side.pd, &QpInit::new(&side.cq, &side.cq)).expect("a queue pair")
}

/// A connection of two fresh queue pairs, with the peer-to-peer start.
fn connect(pair: &mut Pair) -> (Qp, Qp) {
    let (qa, qb) = (new_qp(&pair.a), new_qp(&pair.b));
    let param = ConnParam { peer_to_peer: Some(true), ..ConnParam::default() };
    let remote = pair.address_of_b();
    pair.a.device.connect(&pair.a.events, &qa, remote, param).expect("a fresh one");
    let CmEvent::ConnectRequest(request) = pair.event_of_b() else { panic!("no request") };
    pair.b.device.accept(request.id, &qb, ConnParam::default()).expect("a fresh one");
    assert!(matches!(pair.event_of_a(), CmEvent::Established { .. }));
    assert!(matches!(pair.event_of_b(), CmEvent::Established { .. }));
    (qa, qb)
}

/// Lets TCP finish its closes, and empties the queues.
fn forget_the_rest(pair: &mut Pair) {
    pair.settle(Duration::from_secs(600));
    for side in [&pair.a, &pair.b] {
        while side.events.next().is_some() {}
        while side.cq.poll_one().is_some() {}
    }
    let connections = [&pair.a, &pair.b].map(|side| side.device.stack_counters().connections);
    assert!(connections[0] == connections[1] && connections[0] <= 1, "{connections:?}");
}
