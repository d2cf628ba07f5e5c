//! Ids: what they hold, and what can be asked of them.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use bytes::Bytes;
use weft_rnic::{Device, EventSource, Pd, Qp, QpInit};

use crate::channel::EventChannel;
use crate::core::Event;
use crate::core::{Attempt, ChannelInner, Core, Id, Manager, Shared};
use crate::error::Error;
use crate::kind::EventKind;
use crate::manager::lock;
use crate::param::ConnParam;
use crate::state::{Op, State};

impl Attempt {
    pub(crate) fn new(param: &ConnParam<'_>, local: Option<SocketAddr>, repeats: u32) -> Self {
        let &ConnParam { responder_resources, initiator_depth, peer_to_peer, .. } = param;
        let private_data = Bytes::copy_from_slice(param.private_data);
        Self { private_data, responder_resources, initiator_depth, peer_to_peer, local, repeats }
    }

    /// Returns what [`Id::connect`] was called with, as far as it matters.
    pub(crate) fn param(&self) -> ConnParam<'_> {
        let &Self { responder_resources, initiator_depth, peer_to_peer, .. } = self;
        let private_data = &self.private_data;
        ConnParam { private_data, responder_resources, initiator_depth, peer_to_peer, ..ConnParam::default() }
    }
}

impl Id {
    /// Returns the number by which events name it; never used again in the same manager.
    pub fn number(&self) -> u64 {
        self.shared.number
    }

    /// Returns what the application has stored in it: at first 0, or for an id of a connect request the value of its
    /// listener.
    pub fn context(&self) -> u64 {
        self.shared.context.load(Ordering::Relaxed)
    }

    /// Stores a number of the application's, which all further events show.
    pub fn set_context(&self, context: u64) {
        self.shared.context.store(context, Ordering::Relaxed);
    }

    /// Returns the state, as far as the events that were taken tell.
    pub fn state(&self) -> State {
        self.shared.lock().state
    }

    /// Returns the device, once the id has one.
    pub fn device(&self) -> Option<Device> {
        self.shared.lock().device.clone()
    }

    /// Returns the own address: as bound, or resolved. Its port is 0 until there is one; connecting without having
    /// bound one gives it an ephemeral one.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        let core = self.shared.lock();
        let local = core.local?;
        let source = core.source.filter(|_| local.ip().is_unspecified());
        Some(source.map_or(local, |source| SocketAddr::new(source, local.port())))
    }

    /// Returns the peer's address.
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.shared.lock().peer
    }

    /// Returns the queue pair.
    pub fn qp(&self) -> Option<Arc<Qp>> {
        self.shared.lock().qp.clone()
    }

    /// Returns whether each call waits for its event.
    pub fn is_synchronous(&self) -> bool {
        self.shared.lock().is_synchronous
    }

    /// Makes the queue pair of the id.
    ///
    /// # Errors
    /// [`Error::NoDevice`] and [`Error::DeviceRemoved`] without a device, [`Error::HasQp`], [`Error::Create`] as
    /// [`Device::create_qp`] has it.
    pub fn create_qp(&self, pd: &Pd, init: &QpInit<'_>) -> Result<Arc<Qp>, Error> {
        let mut core = self.shared.lock();
        let device = core.device()?;
        if core.qp.is_some() {
            return Err(Error::HasQp);
        }
        let qp = Arc::new(device.create_qp(pd, init)?);
        core.qp = Some(Arc::clone(&qp));
        Ok(qp)
    }

    /// Attaches a queue pair that was made by hand. Whether it belongs to the id's device is checked when the id
    /// connects or accepts.
    ///
    /// # Errors
    /// [`Error::HasQp`].
    pub fn attach_qp(&self, qp: Arc<Qp>) -> Result<(), Error> {
        let mut core = self.shared.lock();
        if core.qp.is_some() {
            return Err(Error::HasQp);
        }
        core.qp = Some(qp);
        Ok(())
    }

    /// Takes the queue pair away and returns it. Dropping its last handle destroys it, and its connection with it. An
    /// id that waits for the end of its connection gets that event at once, since a destroyed queue pair makes no
    /// event.
    ///
    /// # Errors
    /// [`Error::NoQp`].
    pub fn detach_qp(&self) -> Result<Arc<Qp>, Error> {
        let mut core = self.shared.lock();
        let qp = core.qp.take().ok_or(Error::NoQp)?;
        if core.state == State::Disconnecting {
            core.post(self, EventKind::Disconnected, None);
        }
        Ok(qp)
    }

    /// Returns the event that the last synchronous call has ended with, once; it is acknowledged already.
    pub fn take_event(&self) -> Option<Event> {
        self.shared.lock().last.take()
    }

    /// Waits for the event of a call if the id is synchronous. Returns `Ok` if it is the wanted event, or the id has a
    /// channel.
    pub(crate) fn complete(&self, wanted: EventKind) -> Result<(), Error> {
        let channel = {
            let core = self.shared.lock();
            if !core.is_synchronous {
                return Ok(());
            }
            EventChannel { inner: Arc::clone(&core.channel) }
        };
        let Some(mut event) = channel.wait(None) else { return Err(Error::DeviceRemoved) };
        event.acknowledge();
        let (kind, status) = (event.kind(), event.error());
        let former = self.shared.lock().last.replace(event);
        drop(former);
        match (kind, status) {
            (EventKind::DeviceRemoval, _) => Err(Error::DeviceRemoved),
            (kind, _) if kind == wanted => Ok(()),
            (kind, status) => {
                Err(Error::Ended { kind, status: status.unwrap_or(rustix::io::Errno::CONNRESET) })
            }
        }
    }
}

impl Shared {
    pub(crate) fn new(number: u64, context: u64, manager: Arc<Manager>, core: Core) -> Self {
        Self {
            number,
            context: AtomicU64::new(context),
            manager,
            core: Mutex::new(core),
            unacknowledged: Mutex::new(0),
            acknowledged: Condvar::new(),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Core> {
        lock(&self.core)
    }
}

impl core::fmt::Debug for Shared {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        // Only the number: an id leads to whole devices, and an event may be printed while its id is locked.
        f.debug_struct("Shared").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Core {
    pub(crate) const fn new(channel: Arc<ChannelInner>, is_synchronous: bool) -> Self {
        Self {
            state: State::Idle,
            channel,
            is_synchronous,
            is_destroyed: false,
            ends: Vec::new(),
            device: None,
            local: None,
            source: None,
            peer: None,
            qp: None,
            request: None,
            attempt: None,
            last: None,
        }
    }

    /// Returns the state after a call, if it is allowed.
    pub(crate) fn after(&self, op: Op) -> Result<State, Error> {
        self.state.after(op).ok_or_else(|| self.refuse(op))
    }

    pub(crate) fn refuse(&self, op: Op) -> Error {
        let state = self.state;
        if state == State::Removed { Error::DeviceRemoved } else { Error::State { op, state } }
    }

    pub(crate) fn device(&self) -> Result<Device, Error> {
        let none = if self.state == State::Removed { Error::DeviceRemoved } else { Error::NoDevice };
        self.device.clone().ok_or(none)
    }

    /// Returns the objects that make events of the id at present, each with its name in notices.
    pub(crate) fn sources(&self, number: u64) -> Vec<(u64, EventSource<'_>)> {
        let listeners = self.ends.iter().filter_map(|end| Some((end.cookie, end.listener.as_ref()?)));
        let mut sources: Vec<_> =
            listeners.map(|(cookie, listener)| (cookie, EventSource::Listener(listener))).collect();
        sources.push((number, self.qp.as_deref().map_or(EventSource::None, EventSource::Qp)));
        sources
    }
}
