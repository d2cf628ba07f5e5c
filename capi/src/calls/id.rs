//! The calls on ids of connection management and their connections.

use core::ffi::c_void;
use core::ptr::null_mut;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use weft_cm::{ConnParam, Event};

use crate::cm::{CmEvent, EventChannel, Id};
use crate::context::Functions;
use crate::errno::cm_errno;
use crate::process::Process;

impl Process {
    /// # Errors
    /// If the system has no file descriptor left.
    pub(crate) fn create_event_channel(&self) -> Result<Arc<EventChannel>, Errno> {
        let channel = EventChannel::new(&self.cm)?;
        self.event_channels.insert(channel.handle().addr(), &channel);
        Ok(channel)
    }

    /// Blocks until the next event of a channel. The program has to acknowledge it.
    ///
    /// # Errors
    /// `EINVAL` for an unknown channel; those of [`EventChannel::next`].
    pub(crate) fn next_cm_event(&self, channel: usize) -> Result<Arc<CmEvent>, Errno> {
        let channel = self.event_channels.get(channel)?;
        loop {
            if let Some(event) = self.cm_event(channel.next()?, &channel) {
                return Ok(event);
            }
        }
    }

    /// Makes an id whose events come out of `channel`. Without a channel each call blocks until its event.
    ///
    /// # Errors
    /// If the device cannot be opened, or the system has no file descriptor left.
    pub(crate) fn create_id(
        &self,
        functions: &'static Functions,
        channel: Option<&Arc<EventChannel>>,
        context: *mut c_void,
        ps: u32,
    ) -> Result<Arc<Id>, Errno> {
        self.device()?;
        let id = self.cm.create_id(channel.map(|channel| &channel.channel)).map_err(cm_errno)?;
        let id = Id::new(id, functions, channel, (context, ps));
        self.enter_id(&id);
        Ok(id)
    }

    /// Closes the connection, and blocks until all events are acknowledged. The queue pair stays the program's.
    ///
    /// # Errors
    /// `EINVAL` for an unknown id.
    pub(crate) fn destroy_id(&self, handle: usize) -> Result<(), Errno> {
        let id = self.ids.get(handle)?;
        id.id.end();
        self.id_numbers.remove(id.id.number()).ok_or(Errno::INVAL)?;
        let event = id.objects().event.take();
        if let Some(event) = event {
            self.cm_events.remove(event.handle().addr());
        }
        self.ids.remove(handle).map(drop).ok_or(Errno::INVAL)
    }

    /// # Errors
    /// Those of [`weft_cm::Id::bind`].
    pub(crate) fn bind(&self, id: &Id, local: SocketAddr) -> Result<(), Errno> {
        self.call(id, |id| id.bind(local))
    }

    /// # Errors
    /// Those of [`weft_cm::Id::resolve_addr`].
    pub(crate) fn resolve_addr(
        &self,
        id: &Id,
        source: Option<SocketAddr>,
        peer: SocketAddr,
    ) -> Result<(), Errno> {
        self.call(id, |id| id.resolve_addr(source, peer, PATIENCE))
    }

    /// # Errors
    /// Those of [`weft_cm::Id::resolve_route`].
    pub(crate) fn resolve_route(&self, id: &Id) -> Result<(), Errno> {
        self.call(id, |id| id.resolve_route(PATIENCE))
    }

    /// # Errors
    /// Those of [`weft_cm::Id::listen`].
    pub(crate) fn listen(&self, id: &Id, backlog: usize) -> Result<(), Errno> {
        self.call(id, |id| id.listen(backlog))
    }

    /// Connects. An id without a queue pair takes the one that `param` names.
    ///
    /// # Errors
    /// Those of [`weft_cm::Id::connect`].
    pub(crate) fn connect(&self, id: &Id, param: &ConnParam<'_>) -> Result<(), Errno> {
        self.find_qp(id, param)?;
        self.call(id, |id| id.connect(param))
    }

    /// Accepts. An id without a queue pair takes the one that `param` names.
    ///
    /// # Errors
    /// Those of [`weft_cm::Id::accept`].
    pub(crate) fn accept(&self, id: &Id, param: &ConnParam<'_>) -> Result<(), Errno> {
        self.find_qp(id, param)?;
        self.call(id, |id| id.accept(param))
    }

    /// # Errors
    /// Those of [`weft_cm::Id::reject`].
    pub(crate) fn reject(&self, id: &Id, private_data: &[u8]) -> Result<(), Errno> {
        self.call(id, |id| id.reject(private_data))?;
        // As with a kernel, the rejection goes out even if the program ends now.
        self.device()?.advance();
        Ok(())
    }

    /// # Errors
    /// Those of [`weft_cm::Id::establish`].
    pub(crate) fn establish(&self, id: &Id) -> Result<(), Errno> {
        self.call(id, weft_cm::Id::establish)
    }

    /// # Errors
    /// Those of [`weft_cm::Id::disconnect`].
    pub(crate) fn disconnect(&self, id: &Id) -> Result<(), Errno> {
        self.call(id, weft_cm::Id::disconnect)
    }

    /// Blocks until a connect request, and returns its id. It has a queue pair if the endpoint was made with settings
    /// for one.
    ///
    /// # Errors
    /// Those of [`weft_cm::Id::get_request`] and [`Self::create_qp`].
    pub(crate) fn get_request(&self, listener: &Id) -> Result<Arc<Id>, Errno> {
        let new = listener.id.get_request().map_err(cm_errno)?;
        let id = self.adopt(new, None, listener);
        self.keep_event(&id, Some(listener));
        let template = listener.objects().template.clone();
        if let Some(template) = template
            && let Err(errno) = self.create_qp_of(&id, template)
        {
            self.destroy_id(id.handle().addr())?;
            return Err(errno);
        }
        Ok(id)
    }

    /// Returns the event for the program; None if its id was destroyed meanwhile. A connect request makes an id on
    /// `channel`.
    fn cm_event(&self, mut event: Event, channel: &Arc<EventChannel>) -> Option<Arc<CmEvent>> {
        let listener = event.listen_id().map(|number| self.id_numbers.get(number)).transpose().ok()?;
        let id = match (event.take_id(), &listener) {
            (Some(new), Some(listener)) => self.adopt(new, Some(channel), listener),
            _ => self.id_numbers.get(event.id()).ok()?,
        };
        Some(self.event_about(event, &id, listener.as_deref()))
    }

    /// Returns an event of an id; `listener` is the listening id of a connect request.
    fn event_about(&self, event: Event, id: &Id, listener: Option<&Id>) -> Arc<CmEvent> {
        self.refresh(id);
        let event = CmEvent::new(event, id.handle(), listener.map_or(null_mut(), Id::handle));
        self.cm_events.insert(event.handle().addr(), &event);
        event
    }

    /// Makes the id of a connect request, with the context of the listening id.
    fn adopt(&self, id: weft_cm::Id, channel: Option<&Arc<EventChannel>>, listener: &Id) -> Arc<Id> {
        let id = listener.sibling(id, channel);
        self.enter_id(&id);
        id
    }

    fn enter_id(&self, id: &Arc<Id>) {
        self.ids.insert(id.handle().addr(), id);
        self.id_numbers.insert(id.id.number(), id);
    }

    fn call(
        &self,
        id: &Id,
        act: impl FnOnce(&weft_cm::Id) -> Result<(), weft_cm::Error>,
    ) -> Result<(), Errno> {
        let outcome = act(&id.id).map_err(cm_errno);
        self.keep_event(id, None);
        self.refresh(id);
        outcome
    }

    /// Stores the facts about the connection in the structs that the program reads.
    fn refresh(&self, id: &Id) {
        if id.lacks_context()
            && let Ok((context, pd)) = self.cm_context(id.functions)
        {
            id.show_context(context, pd);
        }
        id.refresh();
    }

    /// Shows the event that ended a call of an id without a channel.
    fn keep_event(&self, id: &Id, listener: Option<&Id>) {
        let Some(event) = id.id.take_event() else { return };
        let event = self.event_about(event, id, listener);
        if let Some(former) = id.keep_event(event) {
            self.cm_events.remove(former.handle().addr());
        }
    }

    fn find_qp(&self, id: &Id, param: &ConnParam<'_>) -> Result<(), Errno> {
        if id.id.qp().is_some() || param.qp_num == 0 {
            return Ok(());
        }
        let qp = self.qp_numbers.get(param.qp_num)?;
        id.id.attach_qp(Arc::clone(&qp.qp)).map_err(cm_errno)?;
        qp.set_owner(id.id.number());
        Ok(())
    }
}

/// Addresses and routes are resolved at once.
const PATIENCE: Duration = Duration::ZERO;
