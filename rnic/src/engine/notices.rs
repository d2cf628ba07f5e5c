//! Events of completion queues on their channels, and those of them that are held back.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use weft_netif::Instant;
use weft_verbs::{CqNotice, Doorbells};

use crate::engine::cq::{CqShared, NEVER};
use crate::ids::qp_slot;

/// Completion queues whose events are held back, in the order of the time at which an event comes at the latest.
#[derive(Debug, Default)]
pub(crate) struct Notices(BTreeMap<(Instant, u64), Arc<CqShared>>);

impl Notices {
    /// When the first event is due.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.0.first_key_value().map(|((at, _), _)| *at)
    }

    /// Takes the first queue out. Its event is held back no longer.
    pub(super) fn pop(&mut self) -> Option<Arc<CqShared>> {
        let (_, cq) = self.0.pop_first()?;
        cq.held_until.store(NEVER, Ordering::Relaxed);
        Some(cq)
    }

    /// Announces the completions in one queue. Returns whether the queue is overrun.
    #[inline]
    pub(super) fn tell(
        &mut self,
        cq: &Arc<CqShared>,
        doorbells: &Doorbells,
        engines: usize,
        now: Instant,
    ) -> bool {
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

    /// Notes when the event of `cq` comes, instead of the time that was noted before.
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
