//! The calls on contexts of the device.

use std::sync::Arc;

use rustix::io::Errno;

use crate::context::{Context, Functions};
use crate::pd::Pd;
use crate::process::Process;

impl Process {
    /// # Errors
    /// If the device cannot be opened, or the system has no file descriptor left.
    pub(crate) fn open_context(&self, functions: &'static Functions) -> Result<Arc<Context>, Errno> {
        let context = Context::new(self.device()?.clone(), functions)?;
        self.contexts.insert(context.handle().addr(), &context);
        Ok(context)
    }

    /// Forgets a context. Objects that were made with it go on.
    ///
    /// # Errors
    /// `EINVAL` for an unknown context.
    pub(crate) fn close_context(&self, handle: usize) -> Result<(), Errno> {
        self.contexts.remove(handle).map(drop).ok_or(Errno::INVAL)
    }

    /// Returns the context of connection management, and the domain for queue pairs to which the program gives none.
    ///
    /// # Errors
    /// Those of [`Self::open_context`].
    pub(crate) fn cm_context(
        &self,
        functions: &'static Functions,
    ) -> Result<&(Arc<Context>, Arc<Pd>), Errno> {
        if let Some(known) = self.cm_context.get() {
            return Ok(known);
        }
        let context = self.open_context(functions)?;
        let pd = self.alloc_pd(context.handle().addr())?;
        Ok(self.cm_context.get_or_init(|| (context, pd)))
    }
}
