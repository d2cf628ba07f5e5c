//! The engine: one object that moves everything when it is polled.
//!
//! `poll(now) -> Option<Instant>` takes frames off the wire, gives each connection with news its turn, sends, and
//! returns when it wants to be called again. An engine reads no clock and draws no random number. `drive/` decides
//! which thread calls it.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use weft_netif::{ConnectionId, Instant};
use weft_verbs::{QpEvent, QpNotice, QpState, Taking};

use crate::connection::state::Connection;
use crate::engine::tables::Engine;

pub(crate) mod alone;
pub(crate) mod announcing;
pub(crate) mod connecting;
pub(crate) mod cq;
pub(crate) mod info;
pub(crate) mod listeners;
pub(crate) mod memory;
pub(crate) mod moving;
pub(crate) mod notices;
pub(crate) mod queries;
pub(crate) mod queue_pairs;
pub(crate) mod registry;
pub(crate) mod shutdown;
pub(crate) mod srq;
pub(crate) mod streaming;
pub(crate) mod sync_queue;
pub(crate) mod syncing;
pub(crate) mod table;
pub(crate) mod tables;

impl Engine {
    /// Moves everything as far as it goes at `now`. Returns when to be called again at the latest. `None` means that
    /// only a frame or a doorbell can bring news.
    pub(crate) fn poll(&mut self, now: Instant) -> Option<Instant> {
        self.move_on(now);
        self.poll_at(now)
    }

    /// As [`Engine::poll`], for a caller that need not know when to call again.
    pub(crate) fn move_on(&mut self, now: Instant) {
        self.last_now = now;
        let before = self.counters.engine.work();
        let taken = self.stack.ingress(now);
        while let Some((id, listener)) = self.stack.next_accepted() {
            self.handle_accepted(id, listener, now);
        }
        while let Some(id) = self.stack.next_ready() {
            self.turn(id, now);
        }
        self.answer_doorbells(now);
        self.expire(now);
        self.carry_out_syncs(now);
        self.announce_held(now);
        let sent = self.stack.egress(now);
        self.watch_carrier();
        self.counters.engine.count_poll(taken + sent > 0 || self.counters.engine.work() > before);
    }

    /// As [`Self::move_on`], for a caller that calls again and again. Requests that were posted go out first; the
    /// next call takes in what has arrived.
    pub(crate) fn move_on_posted_first(&mut self, now: Instant) {
        self.has_sent_first = !self.has_sent_first && self.doorbells.any();
        if self.has_sent_first { self.send_posted(now) } else { self.move_on(now) }
    }

    /// Sends what was posted, without a look at what has arrived: for a thread that posts and then waits. The wait
    /// takes that in.
    pub(crate) fn send_posted(&mut self, now: Instant) {
        self.last_now = now;
        self.answer_doorbells(now);
        self.stack.egress(now);
    }

    /// Whether the program has closed a descriptor that the stack works by.
    pub(crate) fn is_lost(&self) -> bool {
        self.stack.is_lost()
    }

    /// The descriptors to sleep on until a frame comes, and whether each is also to become writable.
    pub(crate) fn wait_fds(&self) -> Option<Vec<(Arc<OwnedFd>, bool)>> {
        self.stack.wait_fds()
    }

    /// Gives a connection its turn.
    pub(crate) fn turn(&mut self, id: ConnectionId, now: Instant) {
        self.with_connection(id, now, Connection::turn);
    }

    fn watch_carrier(&mut self) {
        let carrier = self.stack.has_carrier();
        if let Some(is_up) = carrier
            && carrier != self.carrier
        {
            self.carrier = carrier;
            self.async_events.push_carrier(is_up);
        }
    }

    fn answer_doorbells(&mut self, now: Instant) {
        let mut taking = Taking::default();
        while let Some(index) = self.doorbells.take_next(&mut taking) {
            self.answer_doorbell(index, now);
        }
    }

    fn answer_doorbell(&mut self, index: usize, now: Instant) {
        let Some(Some(slot)) = self.qps.get_mut(index) else { return };
        self.counters.engine.doorbells += 1;
        if let Some(id) = slot.connection {
            self.turn(id, now);
        } else {
            slot.qp.set_now(now.total_micros().unsigned_abs());
            if slot.qp.is_overrun() && slot.qp.queues().state() == QpState::Idle {
                slot.qp.note(QpNotice::Fatal);
                slot.qp.handle_event(QpEvent::Failed);
            }
            self.run_alone(index, now);
        }
        // A turn in Full Operation starts what was posted and announces it. In all other states requests are flushed
        // here.
        if let Some(Some(slot)) = self.qps.get_mut(index)
            && slot.qp.queues().state() != QpState::Rts
        {
            slot.qp.flush_if_ended();
            self.announce(Some(index), now);
        }
    }

    fn expire(&mut self, now: Instant) {
        while let Some(&(deadline, serial)) = self.deadlines.first() {
            if deadline > now {
                return;
            }
            self.deadlines.pop_first();
            let Some(&id) = self.serials.get(&serial) else { continue };
            if let Some(connection) = self.connections.get_mut(id) {
                connection.deadline = None;
            }
            self.with_connection(id, now, Connection::expire);
        }
    }

    /// When the engine wants to be polled again, seen from `now`.
    pub(crate) fn poll_at(&self, now: Instant) -> Option<Instant> {
        if self.doorbells.any() || self.stack.has_news() {
            return Some(now);
        }
        let deadline = self.deadlines.first().map(|&(deadline, _)| deadline);
        [self.stack.poll_at(now), deadline, self.notices.next(), self.syncing.next()]
            .into_iter()
            .flatten()
            .min()
    }
}

#[cfg(test)]
mod tests {
    use weft_netif::{Listen, Transport};
    use weft_verbs::{CompletionQueue, Data, PdId, QpCapacity, QpQueues, RecvWr, SendOpcode, SendWr, Status};

    use super::*;
    use crate::config::Config;
    use crate::connection::terms::Terms;
    use crate::engine::connecting::Opening;
    use crate::engine::cq::CqShared;
    use crate::engine::listeners::Listening;
    use crate::engine::memory::Memory;
    use crate::engine::queue_pairs::QpParts;
    use crate::engine::registry::Registry;
    use crate::events::asynchronous::AsyncQueue;
    use crate::events::channel::Channel;
    use crate::events::connection::{CmEvent, News, Notice};

    /// An engine with one queue pair, and nothing of a device around it.
    struct Side {
        engine: Engine,
        slot: usize,
        queues: Arc<QpQueues>,
        cq: Arc<CqShared>,
        events: Arc<Channel<Notice>>,
    }

    impl Side {
        fn new(wire: weft_netif::Wire, ip: &str, seed: u64) -> Self {
            let config = Config::new(ip.parse().unwrap(), seed);
            let stacks = Transport::open_several(wire.into(), &config.stack, 1, Instant::ZERO).unwrap();
            let stack = stacks.into_iter().next().unwrap();
            let async_events = AsyncQueue::new().unwrap();
            let registry: Arc<Registry> = Arc::default();
            let make = |number| CompletionQueue::numbered(number, 16, false);
            let entry = registry.add_cq(1, false, make).unwrap();
            let cq = Arc::new(CqShared::new(entry, 0, None, Arc::clone(&async_events)));
            let mut engine = Engine::new(0, stack, config, Memory::new(seed, None), async_events);
            let parts = QpParts {
                pd: PdId(1),
                cqs: [&cq, &cq],
                srq: None,
                capacity: QpCapacity::default(),
                signal_all: true,
                rnr_wait: false,
                as_infiniband: false,
            };
            let (slot, queues) = engine.create_qp(&parts).unwrap();
            Self { engine, slot, queues, cq, events: Arc::new(Channel::new().unwrap()) }
        }

        fn event(&self) -> Option<CmEvent> {
            match self.events.pop()?.news {
                News::Event(event) => Some(event),
                News::Posted(_) => None,
            }
        }
    }

    /// Polls both engines at a time that this function alone counts, until `done` answers something.
    fn run<T>(sides: &mut [Side; 2], now: &mut Instant, mut done: impl FnMut(&[Side; 2]) -> Option<T>) -> T {
        for _ in 0..10_000 {
            if let Some(result) = done(sides) {
                return result;
            }
            *now += weft_netif::Duration::from_millis(1);
            for side in &mut *sides {
                side.engine.poll(*now);
            }
        }
        panic!("nothing has come of it")
    }

    #[test]
    fn two_engines_alone_carry_a_message() {
        let (left, right) = weft_netif::pair(1500);
        let mut now = Instant::from_secs(1);
        let mut sides = [Side::new(left, "10.0.0.1/24", 1), Side::new(right, "10.0.0.2/24", 2)];
        let terms = Terms {
            private_data: b"hello",
            ird: None,
            ord: None,
            peer_to_peer: None,
            cookie: 0,
            events: None,
        };
        let [active, passive] = &mut sides;
        let listening = Listening { events: &passive.events, cookie: 0, streaming: false };
        let remote = passive.engine.listen(Listen::from(7), listening).unwrap();
        let terms_of_active = Terms { events: Some(&active.events), ..terms };
        let initiator = active.engine.initiator(active.slot, &terms_of_active).unwrap();
        let llp = active.engine.open(remote, None, now).unwrap();
        let opening = Opening { llp, remote, initiator, terms: terms_of_active };
        active.engine.connect(active.slot, opening, now);
        let request = run(&mut sides, &mut now, |[_, passive]| passive.event());
        let CmEvent::ConnectRequest(request) = request else { panic!("{request:?}") };
        assert_eq!(request.private_data, b"hello"[..]);
        let passive = &mut sides[1];
        passive.engine.accept(request.id, passive.slot, &terms, now).unwrap();
        for index in [0, 1] {
            let event = run(&mut sides, &mut now, |sides| sides[index].event());
            assert!(matches!(event, CmEvent::Established { .. }), "{event:?}");
        }
        let [active, passive] = &sides;
        passive.queues.post_recv(&RecvWr { wr_id: 2, sges: &[] }).unwrap();
        let opcode = SendOpcode::Send;
        active
            .queues
            .post_send(&SendWr { wr_id: 1, data: Data::Inline(&[]), ..SendWr::new(opcode) })
            .unwrap();
        active.engine.doorbells().ring(active.slot);
        for (index, wr_id) in [(0, 1), (1, 2)] {
            let mut out = [weft_verbs::Completion::EMPTY];
            run(&mut sides, &mut now, |sides| (sides[index].cq.queue.poll(&mut out) == 1).then_some(()));
            assert_eq!((out[0].wr_id, out[0].status), (wr_id, Status::Success));
        }
    }
}
