//! Protection domains.

use std::sync::Arc;

use rustix::io::Errno;

use crate::abi;
use crate::context::Context;
use crate::errno::errno;
use crate::process::Process;
use crate::raw::Visible;

/// What `ibv_alloc_pd` answers.
#[derive(Debug)]
pub(crate) struct Pd {
    visible: Visible<abi::Pd>,
    pub(crate) pd: weft_rnic::Pd,
    pub(crate) context: Arc<Context>,
}

impl Pd {
    pub(crate) fn alloc(process: &Process, context: &Arc<Context>) -> Arc<Self> {
        let visible = Visible::new(abi::Pd { context: context.handle(), handle: 0 });
        let pd = Arc::new(Self { visible, pd: context.device.alloc_pd(), context: Arc::clone(context) });
        process.pds.insert(pd.handle().addr(), &pd);
        pd
    }

    /// # Errors
    /// `EINVAL` for what is none, `EBUSY` while something was made with it.
    pub(crate) fn dealloc(process: &Process, handle: usize) -> Result<(), Errno> {
        let pd = process.pds.get(handle)?;
        pd.pd.clone().dealloc().map_err(|(_, error)| errno(error.errno()))?;
        process.pds.remove(handle).map(drop).ok_or(Errno::INVAL)
    }

    pub(crate) const fn handle(&self) -> *mut abi::Pd {
        self.visible.as_ptr()
    }
}
