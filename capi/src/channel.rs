//! Completion channels.

use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::io::Errno;
use weft_rnic::Until;

use crate::abi;
use crate::context::Context;
use crate::cq::Cq;
use crate::descriptor::Descriptor;
use crate::process::Process;
use crate::raw::{Visible, interruptible};

/// What `ibv_create_comp_channel` answers.
#[derive(Debug)]
pub(crate) struct CompChannel {
    visible: Visible<abi::CompChannel>,
    pub(crate) channel: weft_rnic::CompChannel,
    descriptor: Descriptor,
    /// Held by each completion queue of it as well.
    pub(crate) users: Arc<()>,
}

impl CompChannel {
    /// # Errors
    /// When the system has no file descriptor left.
    pub(crate) fn create(process: &Process, context: &Context) -> Result<Arc<Self>, Errno> {
        let channel = context.device.create_comp_channel().map_err(|_| Errno::MFILE)?;
        let descriptor = Descriptor::over(&[channel.as_fd()])?;
        let visible =
            Visible::new(abi::CompChannel { context: context.handle(), fd: descriptor.number(), refcnt: 0 });
        let channel = Arc::new(Self { visible, channel, descriptor, users: Arc::default() });
        process.channels.insert(channel.handle().addr(), &channel);
        Ok(channel)
    }

    /// # Errors
    /// `EINVAL` for what is none, `EBUSY` while completion queues use it.
    pub(crate) fn destroy(process: &Process, handle: usize) -> Result<(), Errno> {
        if Arc::strong_count(&process.channels.get(handle)?.users) > 1 {
            return Err(Errno::BUSY);
        }
        process.channels.remove(handle).map(drop).ok_or(Errno::INVAL)
    }

    /// The queue of the next event, which the program has to acknowledge.
    ///
    /// # Errors
    /// `EAGAIN` when there is none and the program does not want to wait, `EINTR` when a signal came.
    pub(crate) fn next_event(&self, process: &Process) -> Result<Arc<Cq>, Errno> {
        loop {
            let next = match self.channel.next() {
                Some(id) => id,
                None if self.descriptor.is_nonblocking()? => return Err(Errno::AGAIN),
                None => match interruptible(|poll| self.channel.wait_until(Until::Interrupted(poll)))? {
                    Some(id) => id,
                    None => continue,
                },
            };
            if let Ok(cq) = process.cq_ids.get(next)
                && cq.deliver()
            {
                return Ok(cq);
            }
        }
    }

    pub(crate) const fn handle(&self) -> *mut abi::CompChannel {
        self.visible.as_ptr()
    }
}
