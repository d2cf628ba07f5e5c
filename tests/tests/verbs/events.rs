//! Notifications: the completions that wake a thread that sleeps on a channel.

use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use weft_netif::Duration;
use weft_rnic::{CompChannel, Cq, Data, Qp, SendWr, Status};
use weft_tests::Pair;

use crate::world::{WR, connected, drain, link_simply, outcomes, post_recv, qp_on, write_to};

/// Returns true if poll(2) reports the descriptor as readable now.
pub(crate) fn is_readable(fd: &impl AsFd) -> bool {
    let mut fds = [PollFd::new(fd, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 1
}

/// A pair with a second connection, whose completions on side `b` are announced on a channel.
struct Announced {
    pair: Pair,
    a: Qp,
    b: Qp,
    cq: Cq,
    channel: CompChannel,
}

impl Announced {
    fn new() -> Self {
        let mut pair = connected();
        let channel = pair.b.device.create_comp_channel().unwrap();
        let cq = pair.b.device.create_cq(64, Some(&channel)).expect("a completion queue");
        let (a, b) = (qp_on(&pair.a, &pair.a.cq), qp_on(&pair.b, &cq));
        link_simply(&mut pair, &a, &b);
        Self { pair, a, b, cq, channel }
    }

    /// Sends a message, and lets it arrive.
    fn send(&mut self, solicited: bool) {
        post_recv(&self.b, 1, &[]);
        self.a.post_send(&SendWr { solicited, ..WR }).unwrap();
        self.pair.settle(Duration::from_millis(500));
    }

    /// Takes an event, if there is one, and returns whether there was.
    fn event(&self) -> bool {
        let readable = is_readable(&self.channel);
        assert_eq!(self.channel.next(), readable.then(|| self.cq.id()));
        assert!(!is_readable(&self.channel));
        readable
    }
}

#[test]
fn an_unarmed_queue_causes_no_event() {
    let mut it = Announced::new();
    it.send(false);
    it.send(true);
    assert!(!it.event());
    assert_eq!(drain(&it.cq).iter().map(|c| c.solicited).collect::<Vec<_>>(), [false, true]);
}

#[test]
fn any_completion_fires_once() {
    let mut it = Announced::new();
    it.cq.request_notification(false);
    assert!(!it.event());
    it.send(false);
    assert!(it.event());
    it.send(true);
    assert!(!it.event(), "one request is one event");
    it.cq.request_notification(false);
    it.send(false);
    it.send(false);
    assert!(it.event());
    assert_eq!(drain(&it.cq).len(), 4);
}

#[test]
fn solicited_only_waits_for_a_solicited_send() {
    let mut it = Announced::new();
    it.cq.request_notification(true);
    it.send(false);
    it.send(false);
    assert!(!it.event());
    it.send(true);
    assert!(it.event());
    it.send(true);
    assert!(!it.event());
    it.cq.request_notification(true);
    it.send(true);
    assert!(it.event());
}

#[test]
fn own_sends_and_the_peers_writes_are_not_solicited() {
    let mut it = Announced::new();
    let (ma, mb) = (it.pair.a.memory(8), it.pair.b.memory(8));
    it.cq.request_notification(true);
    it.a.post_send(&SendWr { opcode: write_to(&mb, 0), data: Data::Inline(b"x"), ..WR }).unwrap();
    post_recv(&it.a, 1, &[ma.sge(0, 8)]);
    // The flag asks for an event at the peer, not here.
    it.b.post_send(&SendWr { wr_id: 2, solicited: true, ..WR }).unwrap();
    it.pair.settle(Duration::from_secs(1));
    assert_eq!(outcomes(&drain(&it.cq)), [(2, Status::Success)]);
    assert!(!it.event());
}

#[test]
fn a_failure_counts_as_solicited() {
    let mut it = Announced::new();
    post_recv(&it.b, 1, &[]);
    it.cq.request_notification(true);
    it.a.disconnect().unwrap();
    it.pair.settle(Duration::from_secs(1));
    assert!(it.event());
    assert_eq!(outcomes(&drain(&it.cq)), [(1, Status::WorkRequestFlushed)]);
}

#[test]
fn a_flush_without_a_connection_is_announced_too() {
    let mut it = Announced::new();
    it.b.disconnect().unwrap();
    it.pair.settle(Duration::from_secs(60));
    it.cq.request_notification(false);
    post_recv(&it.b, 5, &[]);
    it.pair.b.device.poll(it.pair.lockstep.now());
    assert!(it.event());
}

#[test]
fn arm_then_poll() {
    let mut it = Announced::new();
    it.send(false);
    // A completion that is in the queue at the time of arming causes no event, and poll finds it.
    it.cq.request_notification(false);
    it.pair.settle(Duration::from_secs(1));
    assert!(!it.event());
    assert_eq!(drain(&it.cq).len(), 1);
    it.send(false);
    assert!(it.event(), "still armed");
}

#[test]
fn several_queues_on_one_channel() {
    let mut it = Announced::new();
    let others: Vec<Cq> = (0..3).map(|_| it.pair.b.device.create_cq(8, Some(&it.channel)).unwrap()).collect();
    let mut qps = Vec::new();
    for cq in &others {
        let (a, b) = (qp_on(&it.pair.a, &it.pair.a.cq), qp_on(&it.pair.b, cq));
        link_simply(&mut it.pair, &a, &b);
        cq.request_notification(false);
        qps.push((a, b));
    }
    for index in [2, 0, 1] {
        post_recv(&qps[index].1, 1, &[]);
        qps[index].0.post_send(&WR).unwrap();
        it.pair.settle(Duration::from_millis(500));
    }
    for index in [2, 0, 1] {
        assert!(is_readable(&it.channel), "as long as one event waits");
        assert_eq!(it.channel.next(), Some(others[index].id()));
    }
    assert!(!it.event());
}

#[test]
fn a_separate_send_queue_fires_separately() {
    let mut it = Announced::new();
    let send_channel = it.pair.b.device.create_comp_channel().unwrap();
    let send_cq = it.pair.b.device.create_cq(8, Some(&send_channel)).unwrap();
    let init =
        weft_rnic::QpInit { capacity: crate::world::CAPACITY, ..weft_rnic::QpInit::new(&send_cq, &it.cq) };
    let b = it.pair.b.device.create_qp(&it.pair.b.pd, &init).unwrap();
    let a = qp_on(&it.pair.a, &it.pair.a.cq);
    link_simply(&mut it.pair, &a, &b);
    send_cq.request_notification(false);
    it.cq.request_notification(false);
    post_recv(&a, 1, &[]);
    b.post_send(&WR).unwrap();
    it.pair.settle(Duration::from_millis(500));
    assert!(!it.event());
    assert!(is_readable(&send_channel));
    assert_eq!(send_channel.next(), Some(send_cq.id()));
    post_recv(&b, 2, &[]);
    a.post_send(&WR).unwrap();
    it.pair.settle(Duration::from_millis(500));
    assert!(it.event());
    assert!(!is_readable(&send_channel));
}

#[test]
fn connection_events_have_a_descriptor_too() {
    let mut it = Announced::new();
    assert!(!is_readable(&it.pair.b.events));
    it.a.disconnect().unwrap();
    it.pair.settle(Duration::from_secs(1));
    assert!(is_readable(&it.pair.b.events));
    assert!(it.pair.b.events.next().is_some());
    assert!(!is_readable(&it.pair.b.events));
}
