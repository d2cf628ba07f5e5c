//! The end of an id, its way to another channel, and the loss of its device.

use std::sync::{Arc, PoisonError};

use weft_rnic::{Device, EventSource};

use crate::channel::EventChannel;
use crate::core::{Core, End, Id, Shared};
use crate::error::Error;
use crate::kind::EventKind;
use crate::manager::lock;
use crate::state::{Op, State};

impl Id {
    /// Destroys the id, as soon as all events of it that were taken are acknowledged. Its connection, if there is one,
    /// is closed; a request without an answer is rejected; events that wait are dropped, and no more come.
    /// A thread that holds an event of the id itself waits here for ever, as in librdmacm.
    pub fn destroy(self) {
        self.end();
    }

    /// As [`Id::destroy`], for a handle that is shared: the id stays, without a device and without events.
    pub fn end(&self) {
        while self.shared.finish(self.shared.is_acknowledged()).is_err() {
            self.shared.await_acknowledgement();
        }
    }

    /// As [`Id::destroy`], without waiting.
    ///
    /// # Errors
    /// The id and [`Error::Unacknowledged`].
    pub fn try_destroy(self) -> Result<(), (Self, Error)> {
        self.shared.finish(self.shared.is_acknowledged()).map_err(|error| (self, error))
    }

    /// Moves the id to another channel, or makes it synchronous, as soon as all events of it that were taken are
    /// acknowledged. Events that wait move along in their order; none is lost or comes twice.
    ///
    /// # Errors
    /// [`Error::Foreign`] for the channel of another manager, [`Error::System`] when the system has no file descriptor
    /// left.
    pub fn migrate(&self, to: Option<&EventChannel>) -> Result<(), Error> {
        loop {
            match self.try_migrate(to) {
                Err(Error::Unacknowledged) => self.shared.await_acknowledgement(),
                outcome => return outcome,
            }
        }
    }

    /// As [`Id::migrate`], without waiting.
    ///
    /// # Errors
    /// As [`Id::migrate`], and [`Error::Unacknowledged`].
    pub fn try_migrate(&self, to: Option<&EventChannel>) -> Result<(), Error> {
        let manager = &self.shared.manager;
        let target = match to {
            Some(channel) if !Arc::ptr_eq(&channel.inner.manager, manager) => return Err(Error::Foreign),
            Some(channel) => channel.clone(),
            None => EventChannel::new(manager)?,
        };
        self.shared.while_nobody_takes(|core| {
            if *lock(&self.shared.unacknowledged) > 0 {
                return Err(Error::Unacknowledged);
            }
            for (cookie, source) in core.sources(self.number()) {
                // Without a connection there are only the waiting events, and those are moved in any case.
                let _may_have_ended = core.channel.queue.migrate(cookie, source, &target.inner.queue);
            }
            core.channel = Arc::clone(&target.inner);
            core.is_synchronous = to.is_none();
            Ok(())
        })
    }
}

impl Shared {
    /// Counts an event as acknowledged.
    pub(crate) fn acknowledge(&self) {
        *lock(&self.unacknowledged) -= 1;
        self.acknowledged.notify_all();
    }

    /// Notes that a device is gone. If it is the device of this id, the id gets its last event.
    pub(crate) fn lose(&self, device: &Device) {
        let left = self.while_nobody_takes(|core| {
            let is_lost = core.device.as_ref().is_some_and(|own| own.is_same(device));
            let has_others = core.ends.iter().any(|end| !end.device.is_same(device));
            if !is_lost && (has_others || core.ends.is_empty()) {
                let mut ends: Vec<_> = core.ends.extract_if(.., |end| end.device.is_same(device)).collect();
                ends.iter_mut().for_each(End::stop);
                return Left(Core { ends, ..Core::new(Arc::clone(&core.channel), false) });
            }
            let left = core.let_go();
            core.state = core.state.after(Op::Removal).unwrap_or(State::Removed);
            core.channel.queue.post(self.number, EventKind::DeviceRemoval as u32);
            left
        });
        left.close();
    }

    /// Calls `act` while no thread takes events of the id's channel, so that no event can slip through.
    fn while_nobody_takes<R>(&self, act: impl FnOnce(&mut Core) -> R) -> R {
        loop {
            let channel = Arc::clone(&self.lock().channel);
            let _order = channel.lock_order();
            let mut core = self.lock();
            if Arc::ptr_eq(&channel, &core.channel) {
                return act(&mut core);
            }
        }
    }

    fn is_acknowledged(&self) -> impl Fn() -> bool + '_ {
        || *lock(&self.unacknowledged) == 0
    }

    fn await_acknowledgement(&self) {
        let mut count = lock(&self.unacknowledged);
        while *count > 0 {
            count = self.acknowledged.wait(count).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Ends everything, if `may` allows it while no thread takes events.
    fn finish(&self, may: impl Fn() -> bool) -> Result<(), Error> {
        let left = self.while_nobody_takes(|core| {
            if core.is_destroyed {
                return Ok(None);
            }
            if !may() {
                return Err(Error::Unacknowledged);
            }
            core.is_destroyed = true;
            let left = core.let_go();
            core.channel.queue.discard(self.number);
            Ok(Some(left))
        })?;
        self.manager.forget(self.number);
        if let Some(left) = left {
            left.close();
        }
        Ok(())
    }
}

/// Objects that an id has let go of, to be ended without its lock.
struct Left(Core);

impl Core {
    /// Takes out everything that belongs to the id. Listeners stop, and their requests that were not taken end. An id
    /// that lives on keeps its queue pair, which makes no more events.
    fn let_go(&mut self) -> Left {
        self.ends.iter_mut().for_each(End::stop);
        if let Some(qp) = &self.qp {
            EventSource::Qp(qp).silence();
        }
        Left(Self {
            ends: core::mem::take(&mut self.ends),
            device: self.device.take(),
            qp: if self.is_destroyed { self.qp.take() } else { self.qp.clone() },
            request: self.request.take(),
            last: self.last.take(),
            ..Self::new(Arc::clone(&self.channel), false)
        })
    }
}

impl Left {
    /// Rejects the request and closes the connection.
    fn close(self) {
        let Self(core) = self;
        if let (Some(device), Some(request)) = (&core.device, core.request) {
            let _peer_may_have_gone = device.reject(request, &[]);
        }
        if let Some(qp) = &core.qp {
            let _may_have_ended = qp.disconnect();
        }
    }
}

impl End {
    fn stop(&mut self) {
        self.listener = None;
    }
}

impl Drop for Id {
    fn drop(&mut self) {
        // A caller that does not wait keeps the events that it has taken, and they keep the objects that they show.
        let finished = self.shared.finish(|| true);
        debug_assert!(finished.is_ok(), "nothing was asked for");
    }
}
