//! Shared receive queues of ids.

use core::ffi::c_void;
use core::mem::offset_of;
use core::ptr::null_mut;
use std::sync::Arc;

use rustix::io::Errno;

use crate::abi;
use crate::cm::Id;
use crate::pd::Pd;
use crate::process::Process;
use crate::srq::Srq;

impl Id {
    /// Makes the queue of which the id's queue pair takes its receives, unless it is given another one.
    ///
    /// # Errors
    /// `EINVAL` for an id that has one or has no device yet; as [`Srq::create`].
    pub(crate) fn create_srq(
        &self,
        process: &Process,
        pd: Option<Arc<Pd>>,
        srq_context: *mut c_void,
        attr: &abi::SrqAttr,
    ) -> Result<Arc<Srq>, Errno> {
        if self.srq(process).is_some() || self.id.device().is_none() {
            return Err(Errno::INVAL);
        }
        let pd = match pd {
            Some(pd) => pd,
            None => Arc::clone(&process.cm_context()?.1),
        };
        let srq = Srq::create(process, &pd, srq_context, attr)?;
        self.held().srq = srq.handle().addr();
        self.visible.set(offset_of!(abi::CmId, srq), srq.handle());
        self.visible.set(offset_of!(abi::CmId, pd), pd.handle());
        Ok(srq)
    }

    /// Destroys it.
    ///
    /// # Errors
    /// `EINVAL` for an id without one, `EBUSY` while a queue pair uses it.
    pub(crate) fn destroy_srq(&self, process: &Process) -> Result<(), Errno> {
        let handle = self.srq(process).ok_or(Errno::INVAL)?.handle().addr();
        Srq::destroy(process, handle)?;
        self.held().srq = 0;
        self.visible.set(offset_of!(abi::CmId, srq), null_mut::<abi::Srq>());
        Ok(())
    }

    /// It, unless the program has destroyed it by hand.
    pub(crate) fn srq(&self, process: &Process) -> Option<Arc<Srq>> {
        let handle = self.held().srq;
        process.srqs.get(handle).ok()
    }
}
