//! Asynchronous events: their times, their objects, and their descriptor.

use std::os::fd::AsFd;
use std::time::Duration as RealDuration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use weft_netif::{Duration, Spec, Wire};
use weft_rnic::{
    AsyncChannel, AsyncEvent, Clock, Config, Data, Device, Progress, QpInit, SendOpcode, SendWr, Stag,
};
use weft_tests::{Pair, PairConfig, Side};

use crate::world::{WR, connected, end_of_a, end_of_b, link_simply, post_recv, qp_on, write_to};

fn take_all(channel: &AsyncChannel) -> Vec<AsyncEvent> {
    core::iter::from_fn(|| channel.next()).collect()
}

fn events(side: &Side) -> Vec<AsyncEvent> {
    events_of(&side.device)
}

fn is_readable(channel: &AsyncChannel) -> bool {
    let fd = channel.as_fd();
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).expect("poll") == 1
}

#[test]
fn the_responder_gets_an_event_for_the_first_message() {
    let mut pair = Pair::new(&PairConfig::default());
    pair.connect(false);
    let channel = pair.b.device.async_channel();
    pair.settle(Duration::from_secs(1));
    assert_eq!((channel.next(), is_readable(&channel)), (None, false), "nothing was sent yet");
    post_recv(&pair.b.qp, 1, &[]);
    (0..3).for_each(|_| pair.a.qp.post_send(&WR).unwrap());
    post_recv(&pair.b.qp, 2, &[]);
    post_recv(&pair.b.qp, 3, &[]);
    pair.settle(Duration::from_secs(1));
    assert!(is_readable(&channel));
    assert_eq!(take_all(&channel), [AsyncEvent::CommEstablished { qp_num: pair.b.qp.number() }], "once");
    assert_eq!((is_readable(&channel), events(&pair.a)), (false, vec![]));
    assert_eq!(channel.wait(Some(RealDuration::ZERO)), None);
}

/// The side that has broken a rule, for each end by error.
#[test]
fn ends_by_error_name_the_side_at_fault() {
    let fatal = |side: &Side| AsyncEvent::QpFatal { qp_num: side.qp.number() };
    let both = |pair: &mut Pair| {
        end_of_a(pair);
        end_of_b(pair);
        let own = |event: &AsyncEvent| !matches!(event, AsyncEvent::CommEstablished { .. });
        [&pair.a, &pair.b].map(|side| events(side).into_iter().filter(own).collect::<Vec<_>>())
    };

    // A Send without a receive: the peer's request is wrong. The sender's Send is done, so that no completion reports
    // it.
    let mut pair = connected();
    pair.a.qp.post_send(&WR).unwrap();
    let request_error = AsyncEvent::QpRequestError { qp_num: pair.b.qp.number() };
    assert_eq!(both(&mut pair), [vec![fatal(&pair.a)], vec![request_error]]);

    // A Write to memory that does not exist.
    let mut pair = connected();
    let opcode = SendOpcode::Write { stag: Stag(0xDEAD_0000), to: 0 };
    pair.a.qp.post_send(&SendWr { opcode, data: Data::Inline(b"x"), ..WR }).unwrap();
    let access_error = AsyncEvent::QpAccessError { qp_num: pair.b.qp.number() };
    assert_eq!(both(&mut pair), [vec![fatal(&pair.a)], vec![access_error]]);

    // A Read of such memory. Its completion tells the requester.
    let mut pair = connected();
    let sink = pair.a.memory(1);
    let opcode = SendOpcode::Read { stag: Stag(0xDEAD_0000), to: 0 };
    pair.a.qp.post_send(&SendWr { opcode, data: Data::Sges(&[sink.sge(0, 1)]), ..WR }).unwrap();
    let access_error = AsyncEvent::QpAccessError { qp_num: pair.b.qp.number() };
    assert_eq!(both(&mut pair), [vec![], vec![access_error]]);

    // A wrong request of our own.
    let mut pair = connected();
    let (target, gone) = (pair.b.memory(1), pair.a.memory(1).sge(0, 1));
    pair.a.qp.post_send(&SendWr { opcode: write_to(&target, 0), data: Data::Sges(&[gone]), ..WR }).unwrap();
    assert_eq!(both(&mut pair), [vec![fatal(&pair.a)], vec![fatal(&pair.b)]]);

    // An orderly end causes no event.
    let mut pair = connected();
    pair.a.qp.disconnect().unwrap();
    assert_eq!(both(&mut pair), [vec![], vec![]]);
}

#[test]
fn an_overrun_queue_and_all_its_queue_pairs() {
    let mut pair = Pair::new(&PairConfig::default());
    let small = pair.b.device.create_cq(1, None).unwrap();
    let ends: Vec<_> = (0..2)
        .map(|_| {
            let (a, b) = (qp_on(&pair.a, &pair.a.cq), qp_on(&pair.b, &small));
            link_simply(&mut pair, &a, &b);
            (a, b)
        })
        .collect();
    pair.settle(Duration::from_millis(1));
    assert_eq!(events(&pair.b).len(), 2, "the first messages");
    let unconnected = qp_on(&pair.b, &small);
    for wr_id in 0..2 {
        post_recv(&ends[0].1, wr_id, &[]);
        ends[0].0.post_send(&WR).unwrap();
    }
    pair.settle(Duration::from_secs(1));
    let mut seen = events(&pair.b);
    let fatal = |qp: &weft_rnic::Qp| AsyncEvent::QpFatal { qp_num: qp.number() };
    let mut wanted = vec![
        AsyncEvent::CqError { cq: small.id() },
        fatal(&ends[0].1),
        fatal(&ends[1].1),
        fatal(&unconnected),
    ];
    seen.sort_by_key(|event| format!("{event:?}"));
    wanted.sort_by_key(|event| format!("{event:?}"));
    assert_eq!(seen, wanted);
}

#[test]
fn events_go_with_their_objects_and_do_not_pile_up() {
    let mut pair = Pair::new(&PairConfig::default());
    let channel = pair.b.device.async_channel();
    for round in 0..300 {
        let (a, b) = (qp_on(&pair.a, &pair.a.cq), qp_on(&pair.b, &pair.b.cq));
        link_simply(&mut pair, &a, &b);
        a.post_send(&WR).unwrap();
        pair.settle(Duration::from_secs(30));
        assert!(is_readable(&channel), "round {round}");
        drop(b);
        assert!(!is_readable(&channel), "round {round}");
        while pair.a.events.next().is_some() || pair.b.events.next().is_some() {}
    }
    assert_eq!(channel.next(), None);
}

/// A wire that is a Unix socket knows whether a peer is at its other end.
#[test]
fn the_wire_gains_and_loses_its_carrier() {
    let folder = std::env::temp_dir().join(format!("weft-carrier-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("wire");
    let open = |spec: &Spec, address: &str, clock: &Clock| {
        let config = Config {
            clock: clock.clone(),
            progress: Progress::External,
            ..Config::new(address.parse().unwrap(), 1)
        };
        Device::open(Wire::open(spec, 1500).unwrap(), config).unwrap()
    };
    let clock = Clock::virtual_time();
    let device = open(&Spec::UnixListen(path.clone()), "10.0.0.1/24", &clock);
    let channel = device.async_channel();
    device.poll(clock.now());
    assert_eq!(take_all(&channel), [], "nobody was there, and nobody is");
    for _ in 0..2 {
        let peer = open(&Spec::Unix(path.clone()), "10.0.0.2/24", &clock);
        device.poll(clock.now());
        assert_eq!(take_all(&channel), [AsyncEvent::PortActive]);
        peer.poll(clock.now());
        assert_eq!(events_of(&peer), [], "it began with somebody");
        drop(peer);
        device.poll(clock.now());
        assert_eq!(take_all(&channel), [AsyncEvent::PortError]);
    }
    drop(device);
    std::fs::remove_dir_all(&folder).unwrap();
}

fn events_of(device: &Device) -> Vec<AsyncEvent> {
    take_all(&device.async_channel())
}

#[test]
fn a_thread_can_wait_for_them() {
    let (wire, _other) = weft_netif::pair(1500);
    let config = Config::new("10.0.0.1/24".parse().unwrap(), 1);
    let device = Device::open(wire, config).unwrap();
    let (channel, cq) = (device.async_channel(), device.create_cq(1, None).unwrap());
    let qp = device.create_qp(&device.alloc_pd(), &QpInit::new(&cq, &cq)).unwrap();
    // Two receives that are flushed overrun a queue of one.
    post_recv(&qp, 1, &[]);
    post_recv(&qp, 2, &[]);
    let waiter = std::thread::spawn(move || channel.wait(None));
    qp.modify(&weft_rnic::QpModify { state: Some(weft_rnic::QpState::Error), ..Default::default() }).unwrap();
    assert_eq!(waiter.join().unwrap(), Some(AsyncEvent::CqError { cq: cq.id() }));
}
