//! Events that wait for several completions or for some time.

use weft_netif::Duration;
use weft_rnic::{CompChannel, Cq, Qp};
use weft_tests::Pair;

use crate::world::{WR, connected, drain, link_simply, post_recv, qp_on};

struct World {
    pair: Pair,
    channel: CompChannel,
    cq: Cq,
    sender: Qp,
    receiver: Qp,
}

impl World {
    fn new() -> Self {
        let mut pair = connected();
        let channel = pair.b.device.create_comp_channel().unwrap();
        let cq = pair.b.device.create_cq(64, Some(&channel)).unwrap();
        let (sender, receiver) = (qp_on(&pair.a, &pair.a.cq), qp_on(&pair.b, &cq));
        link_simply(&mut pair, &sender, &receiver);
        for wr_id in 0..64 {
            post_recv(&receiver, wr_id, &[]);
        }
        Self { pair, channel, cq, sender, receiver }
    }

    /// Sends `count` messages, which arrive.
    fn send(&mut self, count: usize) {
        let before = drain(&self.cq).len();
        let mut seen = before;
        for _ in 0..count {
            self.sender.post_send(&WR).unwrap();
        }
        let cq = self.cq.clone();
        self.pair
            .wait(|| {
                seen += drain(&cq).len();
                (seen == before + count).then_some(())
            })
            .unwrap();
    }

    /// Returns true if the queue is announced within `time` of the engine.
    fn is_announced_within(&mut self, time: Duration) -> bool {
        let deadline = self.pair.lockstep.now() + time;
        let channel = self.channel.clone();
        self.pair.lockstep.run_until(deadline, || channel.next()).is_some()
    }
}

const MOMENT: Duration = Duration::from_micros(1);
const PERIOD: Duration = Duration::from_secs(5);

#[test]
fn an_event_comes_after_the_count() {
    let mut world = World::new();
    world.cq.modify_moderation(3, Duration::ZERO);
    world.cq.request_notification(false);
    world.send(2);
    assert!(!world.is_announced_within(Duration::from_secs(100)), "it waits for the third");
    world.send(1);
    assert!(world.is_announced_within(MOMENT));
    world.send(5);
    assert!(!world.is_announced_within(MOMENT), "nobody has asked again");
}

/// The engine wakes up for the period by itself.
#[test]
fn an_event_comes_after_the_period() {
    let mut world = World::new();
    world.cq.modify_moderation(100, PERIOD);
    world.cq.request_notification(false);
    world.send(1);
    assert!(!world.is_announced_within(PERIOD / 2));
    world.send(1);
    assert!(world.is_announced_within(PERIOD), "counted from the first one");
    assert!(!world.is_announced_within(PERIOD * 3));
    // The end of the connection causes many failures, which count as well.
    world.cq.request_notification(true);
    world.receiver.disconnect().unwrap();
    assert!(!world.is_announced_within(PERIOD / 2) && world.is_announced_within(PERIOD));
}

/// An event that the count caused does not come again at the end of the period.
#[test]
fn count_and_period_cause_one_event() {
    let mut world = World::new();
    world.cq.modify_moderation(4, PERIOD);
    for _ in 0..3 {
        world.cq.request_notification(false);
        world.send(3);
        assert!(!world.is_announced_within(MOMENT));
        world.send(1);
        assert!(world.is_announced_within(MOMENT));
        assert!(!world.is_announced_within(PERIOD * 2));
    }
}

#[test]
fn without_moderation_a_delayed_event_comes_at_once() {
    let mut world = World::new();
    world.cq.modify_moderation(10, Duration::ZERO);
    world.cq.request_notification(false);
    world.send(1);
    assert!(!world.is_announced_within(PERIOD));
    world.cq.modify_moderation(0, Duration::ZERO);
    assert!(world.is_announced_within(MOMENT));
}
