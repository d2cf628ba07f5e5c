//! Scarce resources, and the side that grants them (RFC 5042 sections 3, 6.4.1, 6.4.3.2 and 7).

use weft_ddp::Error as Ddp;
use weft_rnic::{
    Access, Cause, Clock, CmError, CmEvent, Config, ConnParam, CreateError, Data, Device, DisconnectReason,
    Progress, Qp, QpInit, RegisterError, SendOpcode, Stag, Status,
};
use weft_tests::{PORT, Pair, PairConfig, RawHost, RawPeer};

use crate::handshake::{PEER_TO_PEER, REPLY, REQUEST, accept, ask, connect, depths, enhanced, with_rtr};
use crate::octets::{Place, fpdu, read_request, tagged, terminate, vector, write};
use crate::world::{FILL, World, content, exchange, filled, whole, work};

/// A device with settings of the test's own, and the host of its peers.
fn open(change: impl FnOnce(&mut Config)) -> (Device, RawHost) {
    let clock = Clock::virtual_time();
    let (left, right) = weft_netif::pair(1500);
    let mut config = Config::new("10.0.0.1/24".parse().unwrap(), 1);
    config.clock = clock.clone();
    config.progress = Progress::External;
    change(&mut config);
    let device = Device::open(left, config).unwrap();
    let host = RawHost::new(right, &clock, &device, "10.0.0.2/24", 2);
    (device, host)
}

fn establish(device: &Device, host: &RawHost, events: &weft_rnic::EventChannel, qp: &Qp) -> RawPeer {
    let peer = host.connect(device.address(PORT));
    peer.send(&vector("mpa-req1"));
    let CmEvent::ConnectRequest(request) = host.wait("a request", || events.next()) else {
        panic!("no request")
    };
    device.accept(request.id, qp, ConnParam::default()).unwrap();
    peer.expect(&vector("mpa-rep1"));
    assert!(matches!(host.wait("a stream", || events.next()), CmEvent::Established { .. }));
    peer
}

/// Each kind of object up to its limit and one more. A connection that uses one of each is not disturbed. Dropped
/// objects make room.
// Covers 5042-3-2, 5042-6.4.1-1, 5042-6.4.3.2-1.
#[test]
fn every_kind_of_object_has_a_limit() {
    let (device, host) = open(|config| {
        config.max_qps = 3;
        config.max_cqs = 2;
        config.max_mrs = 4;
        config.stack.backlog = 2;
    });
    let events = device.create_event_channel().unwrap();
    let _listener = device.listen(&events, PORT).unwrap();
    let pd = device.alloc_pd();
    let cq = device.create_cq(16, None).unwrap();
    let init = QpInit::new(&cq, &cq);
    let qp = device.create_qp(&pd, &init).unwrap();
    let memory = pd.register(8, Access::ALL).unwrap();
    let peer = establish(&device, &host, &events, &qp);
    let works = |msn: u32| {
        peer.send(&fpdu(&write(memory.rkey().0, memory.addr(), &[msn.to_le_bytes()[0]; 8])));
        peer.send(&fpdu(&read_request(msn, Place(9, 0), 8, Place(memory.rkey().0, memory.addr()))));
        peer.expect(&fpdu(&tagged("C142", 9, 0, &[msn.to_le_bytes()[0]; 8])));
        assert_eq!(host.wait("nothing", || Some(events.next())), None);
    };
    works(1);
    for round in 0..3 {
        let _qps = [(); 2].map(|()| device.create_qp(&pd, &init).unwrap());
        assert_eq!(device.create_qp(&pd, &init).err(), Some(CreateError::TooManyQps));
        works(6 * round + 2);
        let _cq = device.create_cq(1, None).unwrap();
        assert_eq!(device.create_cq(1, None).err(), Some(CreateError::TooManyCqs));
        works(6 * round + 3);
        // The limit holds for other domains, too.
        let _mrs = [&pd, &pd, &device.alloc_pd()].map(|pd| pd.register(8, Access::ALL).unwrap());
        assert_eq!(pd.register(8, Access::ALL).err(), Some(RegisterError::TableFull));
        assert_eq!(device.alloc_pd().register_for(&qp, 8, Access::ALL).err(), Some(RegisterError::ForeignQp));
        assert_eq!(pd.register_for(&qp, 8, Access::ALL).err(), Some(RegisterError::TableFull));
        works(6 * round + 4);
        let waiting = [(); 2].map(|()| host.connect(device.address(PORT)));
        host.connect(device.address(PORT)).expect_reset();
        works(6 * round + 5);
        waiting.iter().for_each(RawPeer::abort);
        host.settle(weft_netif::Duration::from_secs(1));
        works(6 * round + 6);
        works(6 * round + 7);
    }
}

/// The size of a queue is settled when it is made: at least what was asked for, at most what the device allows.
// Covers 5042-6.4.3.2-1.
#[test]
fn a_completion_queue_has_the_size_that_it_was_made_with() {
    let world = World::new();
    let device = &world.side.device;
    for entries in [1, 2, 5, 64, 1000, 1 << 16] {
        let cq = device.create_cq(entries, None).unwrap();
        assert!((u64::from(entries)..=2 * u64::from(entries)).contains(&cq.capacity()));
    }
    for entries in [(1 << 22) + 1, u32::MAX] {
        let error = CreateError::TooLarge { what: "completions", wanted: entries as usize, max: 1 << 22 };
        assert_eq!(device.create_cq(entries, None).err(), Some(error));
    }
}

/// Devices separate applications that do not trust each other. No object of one works with an object of another, so
/// that they share no completion queue.
// Covers 5042-7.1-1.
#[test]
fn completion_queues_are_not_shared_between_devices() {
    let pair = Pair::new(&PairConfig::default());
    let (a, b) = (&pair.a, &pair.b);
    let create = |pd, send_cq, recv_cq| {
        let init = QpInit::new(send_cq, recv_cq);
        a.device.create_qp(pd, &init).err()
    };
    assert_eq!(create(&a.pd, &a.cq, &a.cq), None);
    for (send_cq, recv_cq) in [(&b.cq, &a.cq), (&a.cq, &b.cq), (&b.cq, &b.cq)] {
        assert_eq!(create(&a.pd, send_cq, recv_cq), Some(CreateError::ForeignObject));
        assert_eq!(create(&b.pd, send_cq, recv_cq), Some(CreateError::ForeignObject));
    }
    let channel = b.device.create_comp_channel().unwrap();
    assert_eq!(a.device.create_cq(1, Some(&channel)).err(), Some(CreateError::ForeignObject));
}

/// The same holds for domains, queue pairs, event channels and memory.
// Covers 5040-8.1.2-3.
#[test]
fn objects_of_one_device_are_unknown_to_another() {
    let pair = Pair::new(&PairConfig::default());
    let (a, b) = (&pair.a, &pair.b);
    let init = QpInit::new(&a.cq, &a.cq);
    assert_eq!(a.device.create_qp(&b.pd, &init).err(), Some(CreateError::ForeignObject));
    assert_eq!(a.pd.register_for(&b.qp, 8, Access::ALL).err(), Some(RegisterError::ForeignQp));
    let remote = pair.address_of_b();
    for (events, qp) in [(&a.events, &b.qp), (&b.events, &a.qp), (&b.events, &b.qp)] {
        let refused = a.device.connect(events, qp, remote, ConnParam::default());
        assert_eq!(refused, Err(CmError::ForeignObject));
    }
    // An STag of the other device is unknown here, as local memory and as a peer's target.
    for is_target in [false, true] {
        let mut pair = Pair::connected(&PairConfig::default());
        // Both devices have the same seed here, and so the same first STag, which must not be in use on this one.
        let first = pair.a.memory(8);
        let (ours, theirs) = (filled(&pair.a, 8), filled(&pair.b, 8));
        drop(first);
        assert_ne!(ours.rkey().0, theirs.rkey().0);
        let to_ours = SendOpcode::Write { stag: Stag(ours.rkey().0), to: ours.addr() };
        let (opcode, sge, status) = match is_target {
            false => (SendOpcode::Send, whole(&theirs), Status::LocalProtection),
            true => (to_ours, whole(&ours), Status::Success),
        };
        pair.a.qp.post_send(&work(1, opcode, Data::Sges(&[sge]))).unwrap();
        assert_eq!(pair.completion_of_a().status, status);
        let CmEvent::Disconnected { reason, .. } = pair.event_of_b() else { panic!("no end") };
        let unknown = DisconnectReason::LocalTerminate(Cause::Peer(Ddp::InvalidStag.into()));
        assert_eq!(reason == unknown, is_target, "{reason:?}");
        assert_eq!([content(&ours), content(&theirs)], [[FILL; 8]; 2]);
    }
}

/// Only connecting and accepting take places for Reads, and at most as many as the device's settings allow.
// Covers 5042-7.2-1, 5042-7.2-2.
#[test]
fn places_for_reads_have_a_limit() {
    let (device, host) = open(|config| config.max_reads = 2);
    let events = device.create_event_channel().unwrap();
    let _listener = device.listen(&events, PORT).unwrap();
    let (pd, cq) = (device.alloc_pd(), device.create_cq(16, None).unwrap());
    let init = QpInit::new(&cq, &cq);
    let qp = device.create_qp(&pd, &init).unwrap();
    let peer = host.connect(device.address(PORT));
    peer.send(&vector("mpa-req2-cs"));
    let CmEvent::ConnectRequest(request) = host.wait("a request", || events.next()) else {
        panic!("no request")
    };
    // The settings ask for 16, and so does the application.
    for ird in [None, Some(16), Some(3)] {
        let param = ConnParam { ird, ord: Some(0), ..ConnParam::default() };
        let error = CmError::TooManyReads { wanted: ird.unwrap_or(16), max: 2 };
        assert_eq!(device.accept(request.id, &qp, param), Err(error));
    }
    let param = ConnParam { ird: Some(2), ord: Some(0), ..ConnParam::default() };
    device.accept(request.id, &qp, param).unwrap();
    let reply = peer.read_exact(24);
    assert_eq!(reply[20..], [0, 2, 0, 0]);
    // The device holds two Reads at a time, not three.
    let memory = pd.register(8, Access::ALL).unwrap();
    let request = |msn| read_request(msn, Place(9, 0), 8, Place(memory.rkey().0, memory.addr()));
    peer.send(&[1, 2].map(|msn| fpdu(&request(msn))).concat());
    peer.expect(&fpdu(&tagged("C142", 9, 0, &content(&memory))).repeat(2));
    peer.send(&[3, 4, 5].map(|msn| fpdu(&request(msn))).concat());
    peer.expect(&fpdu(&terminate("1202", &request(5))));
    peer.expect_fin();
}

/// A device that is set to hold no Reads still holds the one that is an RTR message (RFC 6581 section 9.1).
#[test]
fn a_read_as_rtr_message_needs_no_configured_ird() {
    let mpa = weft_mpa::Config { ird: 0, ord: 0, ..with_rtr(1) };
    let config = PairConfig { mpa, max_reads: 0, ..PairConfig::default() };
    let rtr = read_request(1, Place(1, 0), 0, Place(1, 0));
    let answer = tagged("C142", 1, 0, b"");

    let world = World::with(&config);
    let peer = ask(&world, &enhanced(REQUEST, 8 | 1, 4, 8));
    accept(&world, ConnParam::default());
    peer.expect(&enhanced(REPLY, 8 | 1, 1, 0));
    peer.send(&fpdu(&rtr));
    peer.expect(&fpdu(&answer));
    assert_eq!(depths(&world).0, (1, 0));
    exchange(&world, &world.side.qp, &peer, 1);

    let world = World::with(&config);
    let peer = connect(&world, PEER_TO_PEER);
    peer.expect(&enhanced(REQUEST, 8 | 1, 0, 0));
    peer.send(&enhanced(REPLY, 8 | 1, 4, 0));
    peer.expect(&fpdu(&rtr));
    peer.send(&fpdu(&answer));
    assert_eq!(depths(&world).0, (0, 1));
    exchange(&world, &world.side.qp, &peer, 1);
}
