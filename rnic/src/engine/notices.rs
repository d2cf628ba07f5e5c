//! Telling of completions: events on channels, send queues that wait, completion queues that are overrun.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use weft_netif::Instant;
use weft_verbs::{CqNotice, Doorbells};

use crate::engine::Engine;
use crate::events::asynchronous::AsyncEvent;
use crate::ids::qp_slot;
use crate::objects::cq::CqShared;

/// Completion queues whose events are held back, by the time at which they come at the latest.
#[derive(Debug, Default)]
pub(crate) struct Notices(BTreeMap<(Instant, u64), Arc<CqShared>>);

impl Notices {
    /// When the first of them is due.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.0.first_key_value().map(|((at, _), _)| *at)
    }

    /// Tells of the completions in one queue, and says whether it is overrun.
    #[inline]
    fn tell(&mut self, cq: &Arc<CqShared>, doorbells: &Doorbells, engines: usize, now: Instant) -> bool {
        if cq.queue.has_news() {
            match cq.queue.take_event(now.total_micros().unsigned_abs()) {
                CqNotice::None => {}
                CqNotice::Due => {
                    self.set(cq, None);
                    if let Some(channel) = &cq.channel {
                        channel.push(cq.id);
                    }
                }
                CqNotice::Held(until) => self.set(cq, until),
            }
        }
        cq.queue.take_ready(|number| doorbells.ring(qp_slot(number, engines)));
        cq.queue.is_overrun()
    }

    /// What is held back of `cq` comes at this time, and not at the one that was noted before.
    fn set(&mut self, cq: &Arc<CqShared>, at: Option<u64>) {
        let micros = at.map_or(NEVER, |at| i64::try_from(at).unwrap_or(NEVER));
        let before = cq.held_until.swap(micros, Ordering::Relaxed);
        if before == micros {
            return;
        }
        if before != NEVER {
            self.0.remove(&(Instant::from_micros(before), cq.id.0));
        }
        if micros != NEVER {
            self.0.insert((Instant::from_micros(micros), cq.id.0), Arc::clone(cq));
        }
    }
}

impl Engine {
    /// Tells whoever has to know of a queue pair, of the completions that it has made, and of its shared receive queue.
    pub(crate) fn announce(&mut self, slot: Option<usize>, now: Instant) {
        let Self { qps, async_events, doorbells, notices, config, .. } = self;
        let Some(Some(slot)) = slot.and_then(|slot| qps.get_mut(slot)) else { return };
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

    /// Tells whoever has to know of the completions in one queue.
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

    /// Tells of what was held back for long enough.
    pub(crate) fn announce_held(&mut self, now: Instant) {
        while self.notices.next().is_some_and(|next| next <= now) {
            let Some((_, cq)) = self.notices.0.pop_first() else { return };
            cq.held_until.store(NEVER, Ordering::Relaxed);
            self.announce_cq(&cq, now);
        }
    }

    /// Has all queue pairs of an overrun completion queue looked at, so that they come down with it.
    fn ring_users(&self, cq: &Arc<CqShared>) {
        for (index, slot) in self.qps.iter().enumerate() {
            if slot.as_ref().is_some_and(|slot| slot.cqs.iter().any(|used| Arc::ptr_eq(used, cq))) {
                self.doorbells.ring(index);
            }
        }
    }
}

/// The time of an event that is not held back, or for as long as it takes.
pub(crate) const NEVER: i64 = i64::MAX;
