//! Completion channels.

use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::io::Errno;
use weft_rnic::{CqId, Until};

use crate::abi;
use crate::context::Context;
use crate::descriptor::Descriptor;
use crate::raw::{Visible, interruptible};

/// The object behind `ibv_create_comp_channel`.
#[derive(Debug)]
pub(crate) struct CompChannel {
    visible: Visible<abi::CompChannel>,
    pub(crate) channel: weft_rnic::CompChannel,
    descriptor: Descriptor,
    /// Each completion queue of the channel holds a copy.
    pub(crate) users: Arc<()>,
}

impl CompChannel {
    /// # Errors
    /// When the system has no file descriptor left.
    pub(crate) fn new(context: &Context) -> Result<Arc<Self>, Errno> {
        let channel = context.device.create_comp_channel().map_err(|_| Errno::MFILE)?;
        let descriptor = Descriptor::over(&[channel.as_fd()])?;
        let visible =
            Visible::new(abi::CompChannel { context: context.handle(), fd: descriptor.number(), refcnt: 0 });
        Ok(Arc::new(Self { visible, channel, descriptor, users: Arc::default() }))
    }

    /// Returns true if a completion queue reports to the channel.
    pub(crate) fn is_used(&self) -> bool {
        Arc::strong_count(&self.users) > 1
    }

    /// Blocks until the next event, and returns the number of its queue.
    ///
    /// # Errors
    /// `EAGAIN` if there is no event and the program does not want to wait, `EINTR` after a signal.
    pub(crate) fn next(&self) -> Result<CqId, Errno> {
        loop {
            match self.channel.next() {
                Some(id) => return Ok(id),
                None if self.descriptor.is_nonblocking()? => return Err(Errno::AGAIN),
                None => {
                    if let Some(id) = interruptible(|poll| self.channel.wait_until(Until::Interrupted(poll)))?
                    {
                        return Ok(id);
                    }
                }
            }
        }
    }

    pub(crate) const fn handle(&self) -> *mut abi::CompChannel {
        self.visible.as_ptr()
    }
}
