//! The calls on shared receive queues.

use core::ffi::c_void;
use std::sync::Arc;

use rustix::io::Errno;

use crate::abi;
use crate::pd::Pd;
use crate::process::Process;
use crate::srq::Srq;

impl Process {
    /// # Errors
    /// Those of [`Srq::new`].
    pub(crate) fn create_srq(
        &self,
        pd: &Arc<Pd>,
        srq_context: *mut c_void,
        attr: &abi::SrqAttr,
    ) -> Result<Arc<Srq>, Errno> {
        let srq = Srq::new(pd, srq_context, attr)?;
        self.srqs.insert(srq.handle().addr(), &srq);
        self.srq_ids.insert(srq.srq.id(), &srq);
        Ok(srq)
    }

    /// Waits until all events are acknowledged.
    ///
    /// # Errors
    /// `EINVAL` for an unknown queue, `EBUSY` while queue pairs use it.
    pub(crate) fn destroy_srq(&self, handle: usize) -> Result<(), Errno> {
        let srq = self.srqs.get(handle)?;
        if srq.is_used() {
            return Err(Errno::BUSY);
        }
        // From now on its events are dropped.
        self.srq_ids.remove(srq.srq.id()).ok_or(Errno::INVAL)?;
        srq.events.wait();
        self.srqs.remove(handle).map(drop).ok_or(Errno::INVAL)
    }
}
