//! Announcements after a turn: completion events, overrun queues, asynchronous events of queue pairs.

use std::sync::Arc;

use weft_netif::Instant;

use crate::engine::cq::CqShared;
use crate::engine::tables::Engine;
use crate::events::asynchronous::AsyncEvent;

impl Engine {
    /// Announces what a queue pair has done: its asynchronous events, its completions, and the events of its shared
    /// receive queue.
    pub(crate) fn announce(&mut self, slot: Option<usize>, now: Instant) {
        let Self { qps, async_events, doorbells, notices, config, .. } = self;
        let Some((index, Some(slot))) = slot.and_then(|index| Some((index, qps.get_mut(index)?.as_mut())))
        else {
            return;
        };
        if slot.qp.take_goes_on() {
            doorbells.ring(index);
        }
        for notice in
            Some(slot.qp.take_notices()).filter(|told| !told.is_empty()).iter().flat_map(|it| it.iter())
        {
            async_events.push_notice(slot.qp.queues().number, notice);
        }
        if let Some(srq) = &slot.srq {
            srq.announce(doorbells);
        }
        let [send, recv] = &slot.cqs;
        let mut is_overrun = notices.tell(send, doorbells, config.engines, now);
        if !Arc::ptr_eq(send, recv) {
            is_overrun |= notices.tell(recv, doorbells, config.engines, now);
        }
        if is_overrun {
            for cq in slot.cqs.clone() {
                self.announce_overrun(&cq);
            }
        }
    }

    /// Announces the completions in one queue.
    pub(crate) fn announce_cq(&mut self, cq: &Arc<CqShared>, now: Instant) {
        if self.notices.tell(cq, &self.doorbells, self.config.engines, now) {
            self.announce_overrun(cq);
        }
    }

    fn announce_overrun(&self, cq: &Arc<CqShared>) {
        if cq.is_newly_overrun() {
            self.async_events.push(AsyncEvent::CqError { cq: cq.id });
            self.ring_users(cq);
        }
    }

    /// Announces the events that were held back for long enough.
    pub(crate) fn announce_held(&mut self, now: Instant) {
        while self.notices.next().is_some_and(|next| next <= now) {
            let Some(cq) = self.notices.pop() else { return };
            self.announce_cq(&cq, now);
        }
    }

    /// Rings the doorbells of all queue pairs of an overrun completion queue, so that they are brought down.
    fn ring_users(&self, cq: &Arc<CqShared>) {
        for (index, slot) in self.qps.iter().enumerate() {
            if slot.as_ref().is_some_and(|slot| slot.cqs.iter().any(|used| Arc::ptr_eq(used, cq))) {
                self.doorbells.ring(index);
            }
        }
    }
}
