//! Queue pairs.

use core::ffi::c_void;
use core::mem::offset_of;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use rustix::io::Errno;
use weft_rnic::{QpCapacity, QpInit, QpModify, QpState, RecvWr, SendWr, Sge};

use crate::abi;
use crate::acks::Acks;
use crate::builder::Builder;
use crate::context::Context;
use crate::cq::Cq;
use crate::errno::{errno, refused};
use crate::pd::Pd;
use crate::raw::Visible;
use crate::roce::Manner;
use crate::srq::Srq;

/// The object behind `ibv_create_qp`.
#[derive(Debug)]
pub(crate) struct Qp {
    visible: Arc<Visible<abi::QpEx>>,
    pub(crate) qp: Arc<weft_rnic::Qp>,
    /// Sends in place of `qp` if the peer is the queue pair itself.
    twin: OnceLock<Arc<weft_rnic::Qp>>,
    /// Present in the second personality only.
    pub(crate) manner: Option<Arc<Manner>>,
    below: Below,
    parts: Parts,
    /// Copies that keep the completion queues and the shared receive queue from being destroyed.
    _uses: [Option<Arc<()>>; 3],
    cap: abi::QpCap,
    access: AtomicU32,
    pub(crate) events: Arc<Acks>,
    builder: Mutex<Builder>,
    /// The number of the id of connection management that owns the queue pair, 0 for none.
    owner: AtomicU64,
}

/// The objects that a queue pair is made with.
#[derive(Clone, Debug)]
pub(crate) struct Parts {
    pub(crate) pd: Arc<Pd>,
    pub(crate) send_cq: Arc<Cq>,
    pub(crate) recv_cq: Arc<Cq>,
    pub(crate) srq: Option<Arc<Srq>>,
}

/// The attributes of the engine's queue pair, kept for one that replaces it.
#[derive(Clone, Copy, Debug)]
struct Below {
    capacity: QpCapacity,
    signal_all: bool,
    rnr_wait: bool,
}

/// The other arguments of `ibv_create_qp`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) qp_context: *mut c_void,
    pub(crate) cap: abi::QpCap,
    pub(crate) signal_all: bool,
}

impl Qp {
    /// # Errors
    /// `EINVAL` for sizes that are too large and parts that do not go together, `ENOMEM` if there are too many.
    pub(crate) fn new(
        parts: Parts,
        request: &Request,
        manner: Option<Arc<Manner>>,
        rnr_wait: bool,
    ) -> Result<Arc<Self>, Errno> {
        let cap = request.cap;
        let capacity = QpCapacity {
            send_wr: cap.max_send_wr,
            recv_wr: cap.max_recv_wr,
            send_sge: cap.max_send_sge as usize,
            recv_sge: cap.max_recv_sge as usize,
            inline: (cap.max_inline_data as usize).max(LEAST_INLINE),
        };
        let below = Below { signal_all: request.signal_all, rnr_wait, capacity };
        let qp = below.make(&parts, manner.as_deref())?;
        let granted = qp.query().map_or(capacity, |attributes| attributes.capacity);
        let mut shown = (parts.pd.context.functions.qp)();
        shown.base.context = parts.pd.context.handle();
        shown.base.qp_context = request.qp_context;
        shown.base.pd = parts.pd.handle();
        shown.base.send_cq = parts.send_cq.handle();
        shown.base.recv_cq = parts.recv_cq.handle();
        shown.base.srq = parts.srq.as_ref().map_or(core::ptr::null_mut(), |srq| srq.handle());
        let number = manner.as_ref().map_or_else(|| qp.number(), |manner| manner.number);
        (shown.base.handle, shown.base.qp_num) = (number, number);
        Ok(Arc::new(Self {
            visible: Arc::new(Visible::new(shown)),
            qp: Arc::new(qp),
            twin: OnceLock::new(),
            manner,
            below,
            _uses: parts.uses(),
            parts,
            cap: cap_of(&granted),
            access: AtomicU32::new(0),
            events: Arc::default(),
            builder: Mutex::default(),
            owner: AtomicU64::new(0),
        }))
    }

    /// Changes the attributes that iWARP has. Attributes of InfiniBand's connections are accepted without effect, as
    /// with other iWARP devices. Remote rights are those of the memory.
    ///
    /// # Errors
    /// `EINVAL` if the state does not allow the change.
    pub(crate) fn modify(&self, attr: &abi::QpAttr, mask: u32) -> Result<(), Errno> {
        let state = self.state();
        if mask & abi::QP_CUR_STATE != 0 && attr.cur_qp_state != state {
            return Err(Errno::INVAL);
        }
        let wanted = if mask & abi::QP_STATE == 0 { state } else { attr.qp_state };
        let wanted = match (state, wanted) {
            (from, to) if from == to => None,
            // A RESET has nothing to undo in an idle queue pair.
            (abi::QPS_INIT, abi::QPS_RESET) => None,
            // A program may move its queue pair by hand, as on InfiniBand, after connection management has connected
            // it. Linux siw accepts this, too.
            (abi::QPS_RTS, abi::QPS_INIT | abi::QPS_RTR) => None,
            (abi::QPS_RTS, abi::QPS_SQD) => Some(QpState::Closing),
            (_, abi::QPS_ERR) => Some(QpState::Error),
            _ => return Err(Errno::INVAL),
        };
        let depth = |bit, value: u8| (mask & bit != 0).then_some(value.into());
        let modify = QpModify {
            state: wanted,
            ord: depth(abi::QP_MAX_QP_RD_ATOMIC, attr.max_rd_atomic),
            ird: depth(abi::QP_MAX_DEST_RD_ATOMIC, attr.max_dest_rd_atomic),
            ..QpModify::default()
        };
        self.qp.modify(&modify).map_err(|error| errno(error.errno()))?;
        self.note_access(attr, mask);
        self.show_state();
        Ok(())
    }

    pub(crate) fn note_access(&self, attr: &abi::QpAttr, mask: u32) {
        if mask & abi::QP_ACCESS_FLAGS != 0 {
            self.access.store(attr.qp_access_flags, Ordering::Relaxed);
        }
    }

    /// Returns the queue pairs of the engine behind this one.
    pub(crate) fn all_below(&self) -> impl Iterator<Item = &Arc<weft_rnic::Qp>> {
        [Some(&self.qp), self.twin.get()].into_iter().flatten()
    }

    /// Makes a second queue pair below, which sends the messages that the first one receives.
    ///
    /// # Errors
    /// Those of [`Self::new`].
    pub(crate) fn make_twin(&self) -> Result<Arc<weft_rnic::Qp>, Errno> {
        // The first queue pair has the receives, and its events are about them.
        let below = Below { capacity: QpCapacity { recv_wr: 0, ..self.below.capacity }, ..self.below };
        let parts = Parts { srq: None, ..self.parts.clone() };
        let made = Arc::new(below.make(&parts, self.manner.as_deref())?);
        Ok(Arc::clone(self.twin.get_or_init(|| made)))
    }

    /// Returns a new object for the queue pair: with its handle and number, without a connection and with empty
    /// queues.
    ///
    /// # Errors
    /// Those of [`Self::new`].
    pub(crate) fn renewed(&self) -> Result<Arc<Self>, Errno> {
        let below = self.below.make(&self.parts, self.manner.as_deref())?;
        Ok(Arc::new(Self {
            visible: Arc::clone(&self.visible),
            qp: Arc::new(below),
            twin: OnceLock::new(),
            manner: self.manner.clone(),
            below: self.below,
            _uses: self.parts.uses(),
            parts: self.parts.clone(),
            cap: self.cap,
            access: AtomicU32::new(0),
            events: Arc::clone(&self.events),
            builder: Mutex::default(),
            owner: AtomicU64::new(0),
        }))
    }

    /// Returns the state by C's number.
    pub(crate) fn state(&self) -> u32 {
        let wanted = self.manner.as_ref().map(|manner| manner.state());
        match (self.qp.state(), wanted) {
            (QpState::Idle, wanted) => wanted.unwrap_or(abi::QPS_INIT),
            (QpState::Rts, Some(abi::QPS_RTR)) => abi::QPS_RTR,
            (QpState::Rts, _) => abi::QPS_RTS,
            (QpState::Closing | QpState::Terminate, None) => abi::QPS_SQD,
            (QpState::Closing | QpState::Terminate | QpState::Error, _) => abi::QPS_ERR,
        }
    }

    /// Returns the queue pair of the engine that takes requests for the send queue.
    ///
    /// # Errors
    /// `EINVAL` if the second personality takes no requests in this state.
    pub(crate) fn sender(&self) -> Result<&weft_rnic::Qp, Errno> {
        let Some(manner) = &self.manner else { return Ok(&self.qp) };
        match manner.state() {
            abi::QPS_RTR => Err(Errno::INVAL),
            abi::QPS_RESET | abi::QPS_INIT if self.qp.state() == QpState::Idle => Err(Errno::INVAL),
            _ => Ok(self.twin.get().unwrap_or(&self.qp)),
        }
    }

    /// Stores the state in the struct that the program sees.
    pub(crate) fn show_state(&self) {
        self.visible.set(offset_of!(abi::Qp, state), self.state());
    }

    pub(crate) fn attributes(&self) -> abi::QpAttr {
        let attributes = self.qp.query();
        let connection = attributes.and_then(|attributes| attributes.connection);
        let depth = |depth: u16| u8::try_from(depth).unwrap_or(u8::MAX);
        let state = self.state();
        let known = match &self.manner {
            Some(manner) => *manner.attr(),
            None => abi::QpAttr {
                max_rd_atomic: connection.map_or(0, |connection| depth(connection.ord)),
                max_dest_rd_atomic: connection.map_or(0, |connection| depth(connection.ird)),
                ..abi::QpAttr::default()
            },
        };
        abi::QpAttr {
            qp_state: state,
            cur_qp_state: state,
            qp_access_flags: self.access.load(Ordering::Relaxed),
            cap: self.cap,
            sq_draining: attributes.is_some_and(|attributes| attributes.is_draining).into(),
            port_num: 1,
            ..known
        }
    }

    /// Returns the arguments that it was made with, and the sizes as granted.
    pub(crate) fn init_attributes(&self) -> abi::QpInitAttr {
        abi::QpInitAttr {
            qp_context: self.visible.get(offset_of!(abi::Qp, qp_context)),
            send_cq: self.parts.send_cq.handle(),
            recv_cq: self.parts.recv_cq.handle(),
            srq: self.parts.srq.as_ref().map_or(core::ptr::null_mut(), |srq| srq.handle()),
            cap: self.cap,
            qp_type: abi::QPT_RC,
            sq_sig_all: self.below.signal_all.into(),
        }
    }

    /// Returns the sizes as granted.
    pub(crate) const fn cap(&self) -> abi::QpCap {
        self.cap
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.parts.pd.context
    }

    /// Notes the id that is informed when the queue pair is destroyed.
    pub(crate) fn set_owner(&self, id: u64) {
        if let Some(manner) = &self.manner {
            manner.set_state(abi::QPS_INIT);
            // Both sides learn of the end of a managed connection, and close it.
            self.qp.set_as_infiniband(false);
            self.show_state();
        }
        self.owner.store(id, Ordering::Release);
    }

    pub(crate) fn builder(&self) -> MutexGuard<'_, Builder> {
        self.builder.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns `wr_id` and `wr_flags` of `struct ibv_qp_ex`, which the program has set.
    pub(crate) fn wr_id_and_flags(&self) -> (u64, u32) {
        let visible = &self.visible;
        (visible.get(offset_of!(abi::QpEx, wr_id)), visible.get(offset_of!(abi::QpEx, wr_flags)))
    }

    pub(crate) fn handle(&self) -> *mut abi::Qp {
        self.visible.as_ptr().cast()
    }

    /// Returns the numbers that lead to it: the program's and the engine's.
    pub(crate) fn names(&self) -> impl Iterator<Item = u32> {
        let shown = self.manner.as_ref().map(|manner| manner.number);
        self.all_below().map(|qp| qp.number()).chain(shown)
    }

    /// Returns the number of the id that owns it, 0 for none. That id may be gone.
    pub(crate) fn owner(&self) -> u64 {
        self.owner.load(Ordering::Acquire)
    }

    /// # Errors
    /// As libibverbs numbers them: `ENOMEM` for a full queue, `EINVAL` for a wrong request.
    pub(crate) fn post_send(&self, wr: &SendWr<'_>) -> Result<(), Errno> {
        self.sender()?.post_send(wr).map_err(refused)
    }

    /// # Errors
    /// Those of [`Self::post_send`].
    pub(crate) fn post_recv(&self, wr_id: u64, sges: &[Sge]) -> Result<(), Errno> {
        self.qp.post_recv(&RecvWr { wr_id, sges }).map_err(refused)
    }
}

impl Parts {
    fn uses(&self) -> [Option<Arc<()>>; 3] {
        [
            Some(Arc::clone(&self.send_cq.users)),
            Some(Arc::clone(&self.recv_cq.users)),
            self.srq.as_ref().map(|srq| Arc::clone(&srq.users)),
        ]
    }
}

impl Below {
    /// # Errors
    /// Those of [`Qp::new`].
    fn make(&self, parts: &Parts, manner: Option<&Manner>) -> Result<weft_rnic::Qp, Errno> {
        let init = QpInit {
            capacity: self.capacity,
            signal_all: self.signal_all,
            srq: parts.srq.as_ref().map(|srq| &srq.srq),
            rnr_wait: self.rnr_wait,
            as_infiniband: manner.is_some(),
            ..QpInit::new(&parts.send_cq.cq, &parts.recv_cq.cq)
        };
        let device = &parts.pd.context.device;
        let qp = device.create_qp(&parts.pd.pd, &init).map_err(|error| errno(error.errno()))?;
        if let Some(manner) = manner {
            manner.name(&qp);
        }
        Ok(qp)
    }
}

fn cap_of(capacity: &QpCapacity) -> abi::QpCap {
    let number = |size: usize| u32::try_from(size).unwrap_or(u32::MAX);
    abi::QpCap {
        max_send_wr: capacity.send_wr,
        max_recv_wr: capacity.recv_wr,
        max_send_sge: number(capacity.send_sge),
        max_recv_sge: number(capacity.recv_sge),
        max_inline_data: number(capacity.inline),
    }
}

/// An entry of the send queue has this room anyway. rdma_xclient sends so many octets inline without having asked for
/// them.
const LEAST_INLINE: usize = 16;
