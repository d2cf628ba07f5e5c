//! Shared receive queues.

use core::ffi::c_void;
use std::sync::Arc;

use rustix::io::Errno;
use weft_rnic::{SrqInit, SrqModify};

use crate::abi;
use crate::acks::Acks;
use crate::c::srq_struct;
use crate::context::Context;
use crate::errno::errno;
use crate::pd::Pd;
use crate::process::Process;
use crate::raw::Visible;

/// What `ibv_create_srq` answers.
#[derive(Debug)]
pub(crate) struct Srq {
    visible: Visible<abi::Srq>,
    pub(crate) srq: weft_rnic::Srq,
    pub(crate) pd: Arc<Pd>,
    pub(crate) events: Acks,
    /// Held by each queue pair of it as well.
    pub(crate) users: Arc<()>,
}

impl Srq {
    /// # Errors
    /// `EINVAL` when it would be too large, `ENOMEM` when there are too many.
    pub(crate) fn create(
        process: &Process,
        pd: &Arc<Pd>,
        srq_context: *mut c_void,
        attr: &abi::SrqAttr,
    ) -> Result<Arc<Self>, Errno> {
        let init = SrqInit { max_wr: attr.max_wr, max_sge: attr.max_sge as usize, limit: attr.srq_limit };
        let srq = pd.pd.create_srq(&init).map_err(|error| errno(error.errno()))?;
        let mut shown = srq_struct();
        (shown.context, shown.srq_context, shown.pd) = (pd.context.handle(), srq_context, pd.handle());
        let srq = Arc::new(Self {
            visible: Visible::new(shown),
            srq,
            pd: Arc::clone(pd),
            events: Acks::default(),
            users: Arc::default(),
        });
        process.srqs.insert(srq.handle().addr(), &srq);
        process.srq_ids.insert(srq.srq.id(), &srq);
        Ok(srq)
    }

    /// Waits until all events are acknowledged.
    ///
    /// # Errors
    /// `EINVAL` for what is none, `EBUSY` while queue pairs use it.
    pub(crate) fn destroy(process: &Process, handle: usize) -> Result<(), Errno> {
        let srq = process.srqs.get(handle)?;
        if Arc::strong_count(&srq.users) > 1 {
            return Err(Errno::BUSY);
        }
        // From now on events of it are nobody's.
        process.srq_ids.remove(srq.srq.id()).ok_or(Errno::INVAL)?;
        srq.events.wait();
        process.srqs.remove(handle).map(drop).ok_or(Errno::INVAL)
    }

    /// # Errors
    /// `EINVAL` for flags that are none, and sizes that do not fit.
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
