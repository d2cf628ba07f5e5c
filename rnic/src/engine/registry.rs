//! The objects of a device that live outside of the engine.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use weft_verbs::{CqCounters, PdId};

use crate::ids::{CqId, SrqId};
use crate::objects::cq::CqShared;
use crate::objects::srq::SrqShared;

/// The protection domains, completion queues and shared receive queues of a device, and what those completion queues that are
/// gone have counted.
#[derive(Debug, Default)]
pub(crate) struct Registry(Mutex<Objects>);

#[derive(Debug, Default)]
struct Objects {
    next_pd: u64,
    pds: BTreeSet<u64>,
    next_cq: u64,
    cqs: BTreeMap<u64, Weak<CqShared>>,
    gone: CqCounters,
    next_srq: u64,
    srqs: BTreeMap<u64, Weak<SrqShared>>,
}

/// A protection domain stands in the registry as long as there are handles to it.
#[derive(Debug)]
pub(crate) struct PdEntry {
    pub(crate) id: PdId,
    registry: Arc<Registry>,
    /// Held by what keeps the domain in use and is not in the engine.
    pub(crate) users: Arc<()>,
}

impl Drop for PdEntry {
    fn drop(&mut self) {
        self.registry.objects().pds.remove(&self.id.0);
    }
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

    /// Adds the completion queue that `make` makes, unless there are `max` already.
    pub(crate) fn add_cq(&self, max: usize, make: impl FnOnce(CqId) -> CqShared) -> Option<Arc<CqShared>> {
        let mut objects = self.objects();
        if objects.cqs.len() >= max || objects.next_cq >= u64::from(u32::MAX) {
            return None;
        }
        objects.next_cq += 1;
        let id = objects.next_cq;
        let cq = Arc::new(make(CqId(id)));
        objects.cqs.insert(id, Arc::downgrade(&cq));
        Some(cq)
    }

    /// A completion queue goes.
    pub(crate) fn remove_cq(&self, id: CqId, counters: &CqCounters) {
        let mut objects = self.objects();
        objects.cqs.remove(&id.0);
        objects.gone.add(counters);
    }

    /// The completion queues that there are, in the order in which they were made.
    pub(crate) fn cqs(&self) -> Vec<Arc<CqShared>> {
        // The last handle of one may go meanwhile, and then the one made here is the last: it takes the lock when it goes.
        self.objects().cqs.values().filter_map(Weak::upgrade).collect()
    }

    /// Adds the shared receive queue that `make` makes, unless there are `max` already.
    pub(crate) fn add_srq(
        &self,
        max: usize,
        make: impl FnOnce(SrqId) -> SrqShared,
    ) -> Option<Arc<SrqShared>> {
        let mut objects = self.objects();
        if objects.srqs.len() >= max {
            return None;
        }
        objects.next_srq += 1;
        let id = objects.next_srq;
        let srq = Arc::new(make(SrqId(id)));
        objects.srqs.insert(id, Arc::downgrade(&srq));
        Some(srq)
    }

    /// A shared receive queue goes.
    pub(crate) fn remove_srq(&self, id: SrqId) {
        self.objects().srqs.remove(&id.0);
    }

    /// The shared receive queues that there are, in the order in which they were made. For who holds the engine's lock, as users
    /// are counted by the handles.
    pub(crate) fn srqs(&self) -> Vec<Arc<SrqShared>> {
        self.objects().srqs.values().filter_map(Weak::upgrade).collect()
    }

    /// What all completion queues have counted so far.
    pub(crate) fn cq_counters(&self) -> CqCounters {
        let (cqs, mut sum) = (self.cqs(), self.objects().gone);
        for cq in cqs {
            sum.add(&cq.queue.counters());
        }
        sum
    }

    fn objects(&self) -> MutexGuard<'_, Objects> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
