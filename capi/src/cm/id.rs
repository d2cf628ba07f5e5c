//! Ids of connection management.

use core::ffi::c_void;
use core::mem::offset_of;
use core::ptr::null_mut;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::io::Errno;
use weft_cm::ConnParam;

use super::channel::EventChannel;
use super::event::CmEvent;
use super::request::storage;
use crate::abi;
use crate::channel::CompChannel;
use crate::cq::{self, Cq};
use crate::errno::cm_errno;
use crate::pd::Pd;
use crate::process::Process;
use crate::qp::Qp;
use crate::raw::Visible;

/// What `rdma_create_id` answers.
#[derive(Debug)]
pub(crate) struct Id {
    pub(crate) visible: Visible<abi::CmId>,
    pub(crate) id: weft_cm::Id,
    held: Mutex<Held>,
}

/// What an id has besides its connection.
#[derive(Debug, Default)]
pub(crate) struct Held {
    qp: Option<Arc<Qp>>,
    /// Completion queues with their channels, which `rdma_create_qp` has made.
    made: Vec<(Arc<Cq>, Arc<CompChannel>)>,
    /// Of an id without a channel: what the last call has ended with.
    event: Option<Arc<CmEvent>>,
    /// The handle of the shared receive queue that was made for it, 0 for none.
    pub(crate) srq: usize,
    /// Of an endpoint that listens: what the queue pairs of its connections are made with.
    template: Option<Template>,
}

/// What `rdma_create_ep` has been given for later.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    pub(crate) pd: Option<Arc<Pd>>,
    pub(crate) qp_context: usize,
    pub(crate) cqs: [Option<Arc<Cq>>; 2],
    pub(crate) srq: Option<Arc<crate::srq::Srq>>,
    pub(crate) cap: abi::QpCap,
    pub(crate) signal_all: bool,
}

impl Id {
    /// An id whose events come out of `channel`; without one each call waits.
    ///
    /// # Errors
    /// When the device cannot be opened, or the system has no file descriptor left.
    pub(crate) fn create(
        process: &Process,
        channel: Option<&Arc<EventChannel>>,
        context: *mut c_void,
        ps: u32,
    ) -> Result<Arc<Self>, Errno> {
        process.device()?;
        let id = process.cm.create_id(channel.map(|channel| &channel.channel)).map_err(cm_errno)?;
        Ok(Self::enter(process, id, channel, (context, ps)))
    }

    /// The id of a connect request, which begins with the context of who listens.
    pub(crate) fn adopt(
        process: &Process,
        id: weft_cm::Id,
        channel: Option<&Arc<EventChannel>>,
        listener: &Self,
    ) -> Arc<Self> {
        let context = listener.visible.get(offset_of!(abi::CmId, context));
        let ps = listener.visible.get(offset_of!(abi::CmId, ps));
        Self::enter(process, id, channel, (context, ps))
    }

    fn enter(
        process: &Process,
        id: weft_cm::Id,
        channel: Option<&Arc<EventChannel>>,
        (context, ps): (*mut c_void, u32),
    ) -> Arc<Self> {
        let visible = Visible::new(abi::CmId {
            verbs: null_mut(),
            channel: channel.map_or(null_mut(), |channel| channel.handle()),
            context,
            qp: null_mut(),
            src_addr: abi::Storage([0; 128]),
            dst_addr: abi::Storage([0; 128]),
            ibaddr: [0; 5],
            path_rec: null_mut(),
            num_paths: 0,
            route_end: 0,
            ps,
            port_num: 0,
            event: null_mut(),
            send_cq_channel: null_mut(),
            send_cq: null_mut(),
            recv_cq_channel: null_mut(),
            recv_cq: null_mut(),
            srq: null_mut(),
            pd: null_mut(),
            qp_type: abi::QPT_RC,
        });
        let id = Arc::new(Self { visible, id, held: Mutex::default() });
        process.ids.insert(id.handle().addr(), &id);
        process.id_numbers.insert(id.id.number(), &id);
        id
    }

    /// Closes its connection, and waits until all events are acknowledged. Its queue pair stays the program's.
    ///
    /// # Errors
    /// `EINVAL` for what is none.
    pub(crate) fn destroy(process: &Process, handle: usize) -> Result<(), Errno> {
        let id = process.ids.get(handle)?;
        id.id.end();
        process.id_numbers.remove(id.id.number()).ok_or(Errno::INVAL)?;
        let event = id.held().event.take();
        if let Some(event) = event {
            process.cm_events.remove(event.handle().addr());
        }
        process.ids.remove(handle).map(drop).ok_or(Errno::INVAL)
    }

    /// # Errors
    /// As [`weft_cm::Id::bind`].
    pub(crate) fn bind(&self, process: &Process, local: SocketAddr) -> Result<(), Errno> {
        self.call(process, |id| id.bind(local))
    }

    /// # Errors
    /// As [`weft_cm::Id::resolve_addr`].
    pub(crate) fn resolve_addr(
        &self,
        process: &Process,
        source: Option<SocketAddr>,
        peer: SocketAddr,
    ) -> Result<(), Errno> {
        self.call(process, |id| id.resolve_addr(source, peer, PATIENCE))
    }

    /// # Errors
    /// As [`weft_cm::Id::resolve_route`].
    pub(crate) fn resolve_route(&self, process: &Process) -> Result<(), Errno> {
        self.call(process, |id| id.resolve_route(PATIENCE))
    }

    /// # Errors
    /// As [`weft_cm::Id::listen`].
    pub(crate) fn listen(&self, process: &Process, backlog: usize) -> Result<(), Errno> {
        self.call(process, |id| id.listen(backlog))
    }

    /// Without a queue pair of its own it takes the one that `param` names.
    ///
    /// # Errors
    /// As [`weft_cm::Id::connect`].
    pub(crate) fn connect(self: &Arc<Self>, process: &Process, param: &ConnParam<'_>) -> Result<(), Errno> {
        self.find_qp(process, param)?;
        self.call(process, |id| id.connect(param))
    }

    /// As [`Self::connect`].
    ///
    /// # Errors
    /// As [`weft_cm::Id::accept`].
    pub(crate) fn accept(self: &Arc<Self>, process: &Process, param: &ConnParam<'_>) -> Result<(), Errno> {
        self.find_qp(process, param)?;
        self.call(process, |id| id.accept(param))
    }

    /// # Errors
    /// As [`weft_cm::Id::reject`].
    pub(crate) fn reject(&self, process: &Process, private_data: &[u8]) -> Result<(), Errno> {
        self.call(process, |id| id.reject(private_data))?;
        // As from a kernel: it is on its way, even if the program ends now.
        process.device()?.advance();
        Ok(())
    }

    /// # Errors
    /// As [`weft_cm::Id::establish`].
    pub(crate) fn establish(&self, process: &Process) -> Result<(), Errno> {
        self.call(process, weft_cm::Id::establish)
    }

    /// # Errors
    /// As [`weft_cm::Id::disconnect`].
    pub(crate) fn disconnect(&self, process: &Process) -> Result<(), Errno> {
        self.call(process, weft_cm::Id::disconnect)
    }

    /// # Errors
    /// As [`weft_cm::Id::migrate`].
    pub(crate) fn migrate(&self, channel: Option<&Arc<EventChannel>>) -> Result<(), Errno> {
        self.id.migrate(channel.map(|channel| &channel.channel)).map_err(cm_errno)?;
        let channel = channel.map_or(null_mut(), |channel| channel.handle());
        self.visible.set(offset_of!(abi::CmId, channel), channel);
        Ok(())
    }

    /// Waits for a connect request, and answers its id, with a queue pair if the endpoint was made with settings for one.
    ///
    /// # Errors
    /// As [`weft_cm::Id::get_request`] and [`Qp::create`].
    pub(crate) fn get_request(&self, process: &Process) -> Result<Arc<Self>, Errno> {
        let new = self.id.get_request().map_err(cm_errno)?;
        let id = Self::adopt(process, new, None, self);
        id.keep_event(process, Some(self));
        let template = self.held().template.clone();
        if let Some(template) = template
            && let Err(errno) = id.create_qp(process, template)
        {
            Self::destroy(process, id.handle().addr())?;
            return Err(errno);
        }
        Ok(id)
    }

    pub(crate) fn set_template(&self, template: Template) {
        self.held().template = Some(template);
    }

    /// Makes the queue pair, with completion queues and channels of its own where none are given: their context is the id, which
    /// the inline functions of `rdma_verbs.h` check.
    ///
    /// # Errors
    /// `EINVAL` for an id that has one or has no device yet; as [`Qp::create`].
    pub(crate) fn create_qp(
        self: &Arc<Self>,
        process: &Process,
        template: Template,
    ) -> Result<Arc<Qp>, Errno> {
        let Template { pd, qp_context, cqs: [send_cq, recv_cq], srq, cap, signal_all } = template;
        if self.held().qp.is_some() || self.id.device().is_none() {
            return Err(Errno::INVAL);
        }
        let (context, default_pd) = process.cm_context()?;
        let pd = pd.unwrap_or_else(|| Arc::clone(default_pd));
        let srq = srq.or_else(|| self.srq(process));
        let mut made = Vec::new();
        let mut make = |given: Option<Arc<Cq>>, entries: u32, fields: [usize; 2]| match given {
            Some(cq) => Ok(cq),
            None => {
                let channel = CompChannel::create(process, context)?;
                let request = cq::Request {
                    entries: entries.max(1),
                    cq_context: self.handle().cast(),
                    channel: Some(Arc::clone(&channel)),
                    comp_vector: 0,
                    ignore_overrun: false,
                };
                let cq = Cq::create(process, context, request)?;
                self.visible.set(fields[0], channel.handle());
                self.visible.set(fields[1], cq.handle());
                made.push((Arc::clone(&cq), channel));
                Ok(cq)
            }
        };
        let fields = [offset_of!(abi::CmId, recv_cq_channel), offset_of!(abi::CmId, recv_cq)];
        let recv_cq = make(recv_cq, cap.max_recv_wr, fields);
        let fields = [offset_of!(abi::CmId, send_cq_channel), offset_of!(abi::CmId, send_cq)];
        let send_cq = make(send_cq, cap.max_send_wr, fields);
        self.held().made = made;
        let created = recv_cq.and_then(|recv_cq| {
            let parts = crate::qp::Parts { pd: Arc::clone(&pd), send_cq: send_cq?, recv_cq, srq };
            let qp_context = core::ptr::without_provenance_mut(qp_context);
            let qp = Qp::create(process, parts, &crate::qp::Request { qp_context, cap, signal_all })?;
            self.id.attach_qp(Arc::clone(&qp.qp)).map_err(cm_errno)?;
            Ok(qp)
        });
        let qp = created.inspect_err(|_| self.destroy_cqs(process))?;
        qp.set_owner(self);
        qp.show_state();
        self.visible.set(offset_of!(abi::CmId, qp), qp.handle());
        self.visible.set(offset_of!(abi::CmId, pd), pd.handle());
        self.held().qp = Some(Arc::clone(&qp));
        Ok(qp)
    }

    /// Destroys the queue pair, and the completion queues that were made with it.
    ///
    /// # Errors
    /// `EINVAL` for an id without one.
    pub(crate) fn destroy_qp(&self, process: &Process) -> Result<(), Errno> {
        let qp = self.held().qp.clone().ok_or(Errno::INVAL)?;
        Qp::destroy(process, qp.handle().addr())?;
        drop(qp);
        self.destroy_cqs(process);
        Ok(())
    }

    /// The program has destroyed the queue pair.
    pub(crate) fn lose_qp(&self, qp: &Qp) {
        let mut held = self.held();
        if held.qp.as_ref().is_some_and(|own| core::ptr::eq(&**own, qp)) {
            held.qp = None;
            self.visible.set(offset_of!(abi::CmId, qp), null_mut::<abi::Qp>());
        }
        drop(held);
        // Without one it was lost before.
        let _none = self.id.detach_qp();
    }

    /// Stores what is known of the connection where the program looks.
    pub(crate) fn refresh(&self, process: &Process) {
        for (address, offset) in [
            (self.id.local_addr(), offset_of!(abi::CmId, src_addr)),
            (self.id.peer_addr(), offset_of!(abi::CmId, dst_addr)),
        ] {
            if let Some(address) = address {
                self.visible.set(offset, storage(address).0.0);
            }
        }
        if self.id.device().is_some()
            && self.visible.get::<*mut abi::Context>(offset_of!(abi::CmId, verbs)).is_null()
            && let Ok((context, pd)) = process.cm_context()
        {
            self.visible.set(offset_of!(abi::CmId, verbs), context.handle());
            self.visible.set(offset_of!(abi::CmId, port_num), 1_u8);
            if self.visible.get::<*mut abi::Pd>(offset_of!(abi::CmId, pd)).is_null() {
                self.visible.set(offset_of!(abi::CmId, pd), pd.handle());
            }
        }
        if let Some(qp) = &self.held().qp {
            qp.show_state();
        }
    }

    /// The own address and the peer's.
    pub(crate) fn addresses(&self) -> [Option<SocketAddr>; 2] {
        [self.id.local_addr(), self.id.peer_addr()]
    }

    pub(crate) const fn handle(&self) -> *mut abi::CmId {
        self.visible.as_ptr()
    }

    fn call(
        &self,
        process: &Process,
        act: impl FnOnce(&weft_cm::Id) -> Result<(), weft_cm::Error>,
    ) -> Result<(), Errno> {
        let outcome = act(&self.id).map_err(cm_errno);
        self.keep_event(process, None);
        self.refresh(process);
        outcome
    }

    /// Shows the event that a call of an id without a channel has ended with.
    fn keep_event(&self, process: &Process, listener: Option<&Self>) {
        let Some(event) = self.id.take_event() else { return };
        let event = CmEvent::about(process, event, self, listener);
        self.visible.set(offset_of!(abi::CmId, event), event.handle());
        let former = self.held().event.replace(event);
        if let Some(former) = former {
            process.cm_events.remove(former.handle().addr());
        }
    }

    fn find_qp(self: &Arc<Self>, process: &Process, param: &ConnParam<'_>) -> Result<(), Errno> {
        if self.id.qp().is_some() || param.qp_num == 0 {
            return Ok(());
        }
        let qp = process.qp_numbers.get(param.qp_num)?;
        self.id.attach_qp(Arc::clone(&qp.qp)).map_err(cm_errno)?;
        qp.set_owner(self);
        Ok(())
    }

    fn destroy_cqs(&self, process: &Process) {
        let made = core::mem::take(&mut self.held().made);
        for (cq, channel) in made {
            // Whoever has destroyed them by hand has been quicker.
            let destroyed = Cq::destroy(process, cq.handle().addr());
            // It is the last user of its channel.
            drop(cq);
            let _gone = destroyed.and_then(|()| CompChannel::destroy(process, channel.handle().addr()));
        }
        for offset in [offset_of!(abi::CmId, send_cq), offset_of!(abi::CmId, recv_cq)] {
            self.visible.set(offset, null_mut::<abi::Cq>());
        }
        for offset in [offset_of!(abi::CmId, send_cq_channel), offset_of!(abi::CmId, recv_cq_channel)] {
            self.visible.set(offset, null_mut::<abi::CompChannel>());
        }
    }

    pub(crate) fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Addresses and routes are found at once.
const PATIENCE: Duration = Duration::ZERO;
