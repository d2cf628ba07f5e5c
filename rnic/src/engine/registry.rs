//! Which protection domains, completion queues and shared receive queues a device has.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weft_verbs::{CompletionQueue, CqCounters, PdId, SharedRecvQueue};

use crate::ids::{CqId, SrqId};

/// The protection domains, completion queues and shared receive queues of a device, and the counters of completion
/// queues that are gone.
#[derive(Debug, Default)]
pub(crate) struct Registry(Mutex<Objects>);

#[derive(Debug, Default)]
struct Objects {
    next_pd: u64,
    pds: BTreeSet<u64>,
    next_cq: u64,
    cqs: BTreeMap<u64, RegisteredCq>,
    gone: CqCounters,
    next_srq: u64,
    srqs: BTreeMap<u64, RegisteredSrq>,
}

/// A completion queue that is there.
#[derive(Clone, Debug)]
pub(crate) struct RegisteredCq {
    pub(crate) id: CqId,
    pub(crate) queue: Arc<CompletionQueue>,
    pub(crate) has_channel: bool,
}

/// A shared receive queue that is there.
#[derive(Clone, Debug)]
pub(crate) struct RegisteredSrq {
    pub(crate) id: SrqId,
    pub(crate) pd: PdId,
    pub(crate) queue: Arc<SharedRecvQueue>,
}

/// A protection domain's place in the registry, which it leaves when this is dropped.
#[derive(Debug)]
pub(crate) struct PdEntry {
    pub(crate) id: PdId,
    registry: Arc<Registry>,
    /// Held by objects that keep the domain in use and are not in the engine.
    pub(crate) users: Arc<()>,
}

/// A completion queue's place in the registry, which it leaves when this is dropped.
#[derive(Debug)]
pub(crate) struct CqEntry {
    pub(super) id: CqId,
    pub(super) queue: Arc<CompletionQueue>,
    registry: Arc<Registry>,
}

/// A shared receive queue's place in the registry, which it leaves when this is dropped.
#[derive(Debug)]
pub(crate) struct SrqEntry {
    pub(super) id: SrqId,
    pub(super) queue: Arc<SharedRecvQueue>,
    registry: Arc<Registry>,
}

impl Registry {
    /// Adds a protection domain.
    pub(crate) fn add_pd(self: &Arc<Self>) -> PdEntry {
        let mut objects = self.objects();
        objects.next_pd += 1;
        let id = objects.next_pd;
        objects.pds.insert(id);
        PdEntry { id: PdId(id), registry: Arc::clone(self), users: Arc::default() }
    }

    /// The numbers of the protection domains.
    pub(crate) fn pds(&self) -> Vec<u64> {
        self.objects().pds.iter().copied().collect()
    }

    /// Adds the completion queue that `make` makes for a number, unless there are `max` already.
    pub(crate) fn add_cq(
        self: &Arc<Self>,
        max: usize,
        has_channel: bool,
        make: impl FnOnce(u32) -> CompletionQueue,
    ) -> Option<CqEntry> {
        let mut objects = self.objects();
        if objects.cqs.len() >= max || objects.next_cq >= u64::from(u32::MAX) {
            return None;
        }
        objects.next_cq += 1;
        let id = CqId(objects.next_cq);
        let queue = Arc::new(make(id.number()));
        objects.cqs.insert(id.0, RegisteredCq { id, queue: Arc::clone(&queue), has_channel });
        Some(CqEntry { id, queue, registry: Arc::clone(self) })
    }

    /// The completion queues that there are, in the order in which they were made.
    pub(crate) fn cqs(&self) -> Vec<RegisteredCq> {
        self.objects().cqs.values().cloned().collect()
    }

    /// Adds the shared receive queue that `make` makes in the domain `pd`, unless there are `max` already.
    pub(crate) fn add_srq(
        self: &Arc<Self>,
        max: usize,
        pd: PdId,
        make: impl FnOnce() -> SharedRecvQueue,
    ) -> Option<SrqEntry> {
        let mut objects = self.objects();
        if objects.srqs.len() >= max {
            return None;
        }
        objects.next_srq += 1;
        let id = SrqId(objects.next_srq);
        let queue = Arc::new(make());
        objects.srqs.insert(id.0, RegisteredSrq { id, pd, queue: Arc::clone(&queue) });
        Some(SrqEntry { id, queue, registry: Arc::clone(self) })
    }

    /// The shared receive queues that there are, in the order in which they were made.
    pub(crate) fn srqs(&self) -> Vec<RegisteredSrq> {
        self.objects().srqs.values().cloned().collect()
    }

    /// What all completion queues have counted so far.
    pub(crate) fn cq_counters(&self) -> CqCounters {
        let objects = self.objects();
        let mut sum = objects.gone;
        for cq in objects.cqs.values() {
            sum.add(&cq.queue.counters());
        }
        sum
    }

    fn objects(&self) -> MutexGuard<'_, Objects> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for PdEntry {
    fn drop(&mut self) {
        self.registry.objects().pds.remove(&self.id.0);
    }
}

impl Drop for CqEntry {
    fn drop(&mut self) {
        let mut objects = self.registry.objects();
        objects.cqs.remove(&self.id.0);
        objects.gone.add(&self.queue.counters());
    }
}

impl Drop for SrqEntry {
    fn drop(&mut self) {
        self.registry.objects().srqs.remove(&self.id.0);
    }
}
