//! Shared receive queues.

use core::ffi::c_void;
use std::sync::Arc;

use rustix::io::Errno;
use weft_rnic::{RecvWr, Sge, SrqInit, SrqModify};

use crate::abi;
use crate::acks::Acks;
use crate::context::Context;
use crate::errno::{errno, refused};
use crate::pd::Pd;
use crate::raw::Visible;

/// The object behind `ibv_create_srq`.
#[derive(Debug)]
pub(crate) struct Srq {
    visible: Visible<abi::Srq>,
    pub(crate) srq: weft_rnic::Srq,
    pub(crate) pd: Arc<Pd>,
    pub(crate) events: Acks,
    /// Each queue pair of the queue holds a copy.
    pub(crate) users: Arc<()>,
}

impl Srq {
    /// # Errors
    /// `EINVAL` for a queue that is too large, `ENOMEM` if there are too many.
    pub(crate) fn new(
        pd: &Arc<Pd>,
        srq_context: *mut c_void,
        attr: &abi::SrqAttr,
    ) -> Result<Arc<Self>, Errno> {
        let init = SrqInit { max_wr: attr.max_wr, max_sge: attr.max_sge as usize, limit: attr.srq_limit };
        let srq = pd.pd.create_srq(&init).map_err(|error| errno(error.errno()))?;
        let shown = abi::Srq {
            context: pd.context.handle(),
            srq_context,
            pd: pd.handle(),
            handle: 0,
            mutex: libc::PTHREAD_MUTEX_INITIALIZER,
            cond: libc::PTHREAD_COND_INITIALIZER,
            events_completed: 0,
        };
        Ok(Arc::new(Self {
            visible: Visible::new(shown),
            srq,
            pd: Arc::clone(pd),
            events: Acks::default(),
            users: Arc::default(),
        }))
    }

    /// Returns true if a queue pair takes its receives from it.
    pub(crate) fn is_used(&self) -> bool {
        Arc::strong_count(&self.users) > 1
    }

    /// # Errors
    /// `ENOMEM` for a full queue, `EINVAL` for a wrong request.
    pub(crate) fn post_recv(&self, wr_id: u64, sges: &[Sge]) -> Result<(), Errno> {
        self.srq.post_recv(&RecvWr { wr_id, sges }).map_err(refused)
    }

    /// # Errors
    /// `EINVAL` for unknown flags, and sizes that do not fit.
    pub(crate) fn modify(&self, attr: &abi::SrqAttr, mask: i32) -> Result<(), Errno> {
        if mask & !(abi::SRQ_MAX_WR | abi::SRQ_LIMIT) != 0 {
            return Err(Errno::INVAL);
        }
        let modify = SrqModify {
            max_wr: (mask & abi::SRQ_MAX_WR != 0).then_some(attr.max_wr),
            limit: (mask & abi::SRQ_LIMIT != 0).then_some(attr.srq_limit),
        };
        self.srq.modify(&modify).map_err(|error| errno(error.errno()))
    }

    pub(crate) fn attributes(&self) -> abi::SrqAttr {
        let attributes = self.srq.query();
        let number = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        abi::SrqAttr {
            max_wr: number(attributes.max_wr),
            max_sge: number(attributes.max_sge as u64),
            srq_limit: attributes.limit,
        }
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.pd.context
    }

    pub(crate) const fn handle(&self) -> *mut abi::Srq {
        self.visible.as_ptr()
    }
}
