//! Ids of connection management.

use core::ffi::c_void;
use core::mem::offset_of;
use core::ptr::null_mut;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

use super::channel::EventChannel;
use super::event::CmEvent;
use super::request::storage;
use crate::abi;
use crate::channel::CompChannel;
use crate::context::{Context, Functions};
use crate::cq::Cq;
use crate::errno::cm_errno;
use crate::pd::Pd;
use crate::qp::Qp;
use crate::raw::Visible;
use crate::srq::Srq;

/// The object behind `rdma_create_id`.
#[derive(Debug)]
pub(crate) struct Id {
    pub(crate) visible: Visible<abi::CmId>,
    pub(crate) id: weft_cm::Id,
    /// The function tables of the context. The id opens that context when it gets a device.
    pub(crate) functions: &'static Functions,
    objects: Mutex<IdObjects>,
}

/// The other objects of an id.
#[derive(Debug, Default)]
pub(crate) struct IdObjects {
    pub(crate) qp: Option<Arc<Qp>>,
    /// Completion queues with their channels. `rdma_create_qp` made them because the program gave none.
    pub(crate) made: Vec<(Arc<Cq>, Arc<CompChannel>)>,
    /// The event that ended the last call, for an id without a channel.
    pub(crate) event: Option<Arc<CmEvent>>,
    /// The handle of the shared receive queue that was made for the id, 0 for none.
    pub(crate) srq: usize,
    /// The arguments for the queue pairs of connections, for an endpoint that listens.
    pub(crate) template: Option<Template>,
}

/// The arguments of `rdma_create_ep` that are used later.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    pub(crate) pd: Option<Arc<Pd>>,
    pub(crate) qp_context: usize,
    pub(crate) cqs: [Option<Arc<Cq>>; 2],
    pub(crate) srq: Option<Arc<Srq>>,
    pub(crate) cap: abi::QpCap,
    pub(crate) signal_all: bool,
}

impl Id {
    /// Events of the id come out of `channel`. Without a channel each call blocks until its event. `context` and `ps`
    /// are the program's.
    pub(crate) fn new(
        id: weft_cm::Id,
        functions: &'static Functions,
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
        Arc::new(Self { visible, id, functions, objects: Mutex::default() })
    }

    /// Returns an object for the id of a connect request. It inherits the program's context and the port space.
    pub(crate) fn sibling(&self, id: weft_cm::Id, channel: Option<&Arc<EventChannel>>) -> Arc<Self> {
        let context = self.visible.get(offset_of!(abi::CmId, context));
        let ps = self.visible.get(offset_of!(abi::CmId, ps));
        Self::new(id, self.functions, channel, (context, ps))
    }

    /// # Errors
    /// Those of [`weft_cm::Id::migrate`].
    pub(crate) fn migrate(&self, channel: Option<&Arc<EventChannel>>) -> Result<(), Errno> {
        self.id.migrate(channel.map(|channel| &channel.channel)).map_err(cm_errno)?;
        let channel = channel.map_or(null_mut(), |channel| channel.handle());
        self.visible.set(offset_of!(abi::CmId, channel), channel);
        Ok(())
    }

    pub(crate) fn set_template(&self, template: Template) {
        self.objects().template = Some(template);
    }

    /// Takes the queue pair, and shows it to the program.
    pub(crate) fn take_qp(&self, qp: &Arc<Qp>, pd: &Pd) {
        self.visible.set(offset_of!(abi::CmId, qp), qp.handle());
        self.visible.set(offset_of!(abi::CmId, pd), pd.handle());
        self.objects().qp = Some(Arc::clone(qp));
    }

    /// Shows the event that ended a call of an id without a channel. Returns the event that was shown before.
    pub(crate) fn keep_event(&self, event: Arc<CmEvent>) -> Option<Arc<CmEvent>> {
        self.visible.set(offset_of!(abi::CmId, event), event.handle());
        self.objects().event.replace(event)
    }

    /// Forgets a queue pair that the program has destroyed.
    pub(crate) fn lose_qp(&self, qp: &Qp) {
        let mut objects = self.objects();
        if objects.qp.as_ref().is_some_and(|own| core::ptr::eq(&**own, qp)) {
            objects.qp = None;
            self.visible.set(offset_of!(abi::CmId, qp), null_mut::<abi::Qp>());
        }
        drop(objects);
        // This fails if the connection has ended and taken the queue pair along.
        let _none = self.id.detach_qp();
    }

    /// Returns true if the id has a device whose context the program does not see yet.
    pub(crate) fn lacks_context(&self) -> bool {
        let shown = self.visible.get::<*mut abi::Context>(offset_of!(abi::CmId, verbs));
        self.id.device().is_some() && shown.is_null()
    }

    /// Shows the context of the device, and a domain unless the id has one.
    pub(crate) fn show_context(&self, context: &Context, pd: &Pd) {
        self.visible.set(offset_of!(abi::CmId, verbs), context.handle());
        self.visible.set(offset_of!(abi::CmId, port_num), 1_u8);
        if self.visible.get::<*mut abi::Pd>(offset_of!(abi::CmId, pd)).is_null() {
            self.visible.set(offset_of!(abi::CmId, pd), pd.handle());
        }
    }

    /// Stores the addresses, and the state of the queue pair, where the program looks.
    pub(crate) fn refresh(&self) {
        for (address, offset) in [
            (self.id.local_addr(), offset_of!(abi::CmId, src_addr)),
            (self.id.peer_addr(), offset_of!(abi::CmId, dst_addr)),
        ] {
            if let Some(address) = address {
                self.visible.set(offset, storage(address).0.0);
            }
        }
        if let Some(qp) = &self.objects().qp {
            qp.show_state();
        }
    }

    /// Returns the own address and the peer's.
    pub(crate) fn addresses(&self) -> [Option<SocketAddr>; 2] {
        [self.id.local_addr(), self.id.peer_addr()]
    }

    pub(crate) const fn handle(&self) -> *mut abi::CmId {
        self.visible.as_ptr()
    }

    pub(crate) fn objects(&self) -> MutexGuard<'_, IdObjects> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
