//! Shared receive queues.

use std::sync::Arc;

use weft_verbs::{MAX_SGE, PostError, RecvWr, SharedRecvQueue};

use crate::engine::srq::SrqShared;
use crate::error::{CreateError, DestroyError, MAX_WR, ModifyError, check_size};
use crate::ids::SrqId;
use crate::objects::device::Device;
use crate::objects::pd::Pd;

/// A shared receive queue. Messages of all queue pairs that were made with it take the oldest request, each when its
/// first segment comes; the completion goes to the receive queue's completion queue of that queue pair.
///
/// Dropping the handle ends posting; the requests stay as long as queue pairs use them. [`Srq::destroy`] refuses
/// instead.
#[derive(Debug)]
pub struct Srq {
    pub(crate) shared: Arc<SrqShared>,
    pub(crate) device: Device,
}

/// What a shared receive queue is created with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SrqInit {
    /// Requests that fit; as many or more are granted.
    pub max_wr: u32,
    /// Scatter-gather elements of a request, at most [`weft_verbs::MAX_SGE`].
    pub max_sge: usize,
    /// As for [`SrqModify::limit`]; 0 for none.
    pub limit: u32,
}

/// What is to change in a shared receive queue. A field that is `None` changes nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SrqModify {
    /// Requests that fit.
    pub max_wr: Option<u32>,
    /// Asks for one [`crate::AsyncEvent::SrqLimitReached`] when a message leaves fewer requests than this, or finds none.
    /// With the event the limit is 0 again; 0 takes the wish back.
    pub limit: Option<u32>,
}

/// What a shared receive queue is like at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SrqAttributes {
    /// Requests that fit.
    pub max_wr: u64,
    /// Scatter-gather elements of a request.
    pub max_sge: usize,
    /// The limit, 0 if no event is asked for.
    pub limit: u32,
    /// Requests that no message has taken yet.
    pub posted: u64,
    /// Queue pairs that use it.
    pub users: usize,
}

impl Pd {
    /// Makes a shared receive queue for queue pairs of this domain.
    ///
    /// # Errors
    /// [`CreateError`] when the device holds as many as its settings allow, or it would be too large.
    pub fn create_srq(&self, init: &SrqInit) -> Result<Srq, CreateError> {
        self.create_srq_on(0, init)
    }

    /// As [`Self::create_srq`], on the engine `comp_vector`: that of all queue pairs which use it.
    ///
    /// # Errors
    /// As [`Self::create_srq`], and when there is no such engine.
    pub fn create_srq_on(&self, comp_vector: usize, init: &SrqInit) -> Result<Srq, CreateError> {
        self.device.engines.check_open()?;
        let engines = self.device.num_comp_vectors();
        if comp_vector >= engines {
            return Err(CreateError::NoSuchEngine { comp_vector, engines });
        }
        check_size("receive requests", init.max_wr as usize, MAX_WR)?;
        check_size("scatter-gather elements", init.max_sge, MAX_SGE)?;
        check_size("requests for a limit", init.limit as usize, init.max_wr as usize)?;
        let engines = &self.device.engines;
        let make = || SharedRecvQueue::new(init.max_wr, init.max_sge, init.limit);
        let entry = engines.registry().add_srq(engines.config().max_srqs, self.id, make);
        let entry = entry.ok_or(CreateError::TooManySrqs)?;
        let events = Arc::clone(engines.async_events());
        let shared = Arc::new(SrqShared::new(entry, &self.entry, [comp_vector, engines.len()], events));
        Ok(Srq { shared, device: self.device.clone() })
    }
}

impl Srq {
    /// Posts a receive request.
    ///
    /// # Errors
    /// [`PostError`]; nothing was queued then.
    pub fn post_recv(&self, wr: &RecvWr<'_>) -> Result<(), PostError> {
        if let Some(number) = self.shared.queue.post(wr)? {
            let place = self.shared.slot_of(number);
            self.device.engines.ring(self.shared.engine, place);
        }
        Ok(())
    }

    /// Changes the limit, the size, or both. Requests that are posted stay.
    ///
    /// # Errors
    /// [`ModifyError`] when the size is too large, too small for what is posted, or below the limit. Nothing has
    /// changed then.
    pub fn modify(&self, modify: &SrqModify) -> Result<(), ModifyError> {
        let queue = &self.shared.queue;
        // The engine stands still: no message takes a request, and no other call changes the queue.
        let mut engine = self.device.engines.at(self.shared.engine);
        let capacity = u64::from(modify.max_wr.unwrap_or(0)).max(1).next_power_of_two();
        let capacity = if modify.max_wr.is_some() { capacity } else { queue.capacity() };
        if modify.max_wr.is_some_and(|wanted| wanted as usize > MAX_WR) {
            return Err(ModifyError::TooLarge { what: "receive requests", max: MAX_WR });
        }
        if modify.limit.is_some_and(|limit| u64::from(limit) > capacity) {
            let max = usize::try_from(capacity).unwrap_or(usize::MAX);
            return Err(ModifyError::TooLarge { what: "requests for a limit", max });
        }
        if let Some(max_wr) = modify.max_wr {
            queue.resize(max_wr).map_err(|_| ModifyError::TooSmall)?;
            engine.follow_srq(&self.shared);
        }
        if let Some(limit) = modify.limit {
            queue.arm(limit);
        }
        Ok(())
    }

    /// What it is like at the moment.
    pub fn query(&self) -> SrqAttributes {
        let _stands_still = self.device.engines.at(self.shared.engine);
        let queue = &self.shared.queue;
        SrqAttributes {
            max_wr: queue.capacity(),
            max_sge: queue.max_sge(),
            limit: queue.limit(),
            posted: queue.waiting(),
            users: self.users(),
        }
    }

    /// The name by which asynchronous events call it.
    pub fn id(&self) -> SrqId {
        self.shared.id
    }

    /// Destroys it. Requests that are posted are gone without a completion, as with `ibv_destroy_srq`.
    ///
    /// # Errors
    /// [`DestroyError::Busy`] while queue pairs use it, with the handle.
    pub fn destroy(self) -> Result<(), (Self, DestroyError)> {
        let busy = {
            let _no_qp_is_made_meanwhile = self.device.engines.at(self.shared.engine);
            self.users() > 0
        };
        if busy { Err((self, DestroyError::Busy)) } else { Ok(()) }
    }

    /// Queue pairs that use it. The number stays while the engine's lock is held.
    fn users(&self) -> usize {
        Arc::strong_count(&self.shared) - 1
    }
}
