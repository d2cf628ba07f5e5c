//! The calls on completion channels and completion queues.

use std::sync::Arc;

use rustix::io::Errno;

use crate::channel::CompChannel;
use crate::context::Context;
use crate::cq::{Cq, Request};
use crate::process::Process;

impl Process {
    /// # Errors
    /// If the system has no file descriptor left.
    pub(crate) fn create_comp_channel(&self, context: &Context) -> Result<Arc<CompChannel>, Errno> {
        let channel = CompChannel::new(context)?;
        self.channels.insert(channel.handle().addr(), &channel);
        Ok(channel)
    }

    /// # Errors
    /// `EINVAL` for an unknown channel, `EBUSY` while completion queues use it.
    pub(crate) fn destroy_comp_channel(&self, handle: usize) -> Result<(), Errno> {
        if self.channels.get(handle)?.is_used() {
            return Err(Errno::BUSY);
        }
        self.channels.remove(handle).map(drop).ok_or(Errno::INVAL)
    }

    /// Waits for the queue of a channel's next event, which the program has to acknowledge.
    ///
    /// # Errors
    /// `EINVAL` for an unknown channel; those of [`CompChannel::next`].
    pub(crate) fn next_cq_event(&self, channel: usize) -> Result<Arc<Cq>, Errno> {
        let channel = self.channels.get(channel)?;
        loop {
            if let Ok(cq) = self.cq_ids.get(channel.next()?)
                && cq.deliver()
            {
                return Ok(cq);
            }
        }
    }

    /// # Errors
    /// Those of [`Cq::new`].
    pub(crate) fn create_cq(&self, context: &Arc<Context>, request: Request) -> Result<Arc<Cq>, Errno> {
        let numbers = self.roce()?.map(|roce| Arc::clone(&roce.numbers));
        let cq = Cq::new(context, request, numbers)?;
        self.cqs.insert(cq.handle().addr(), &cq);
        self.cq_ids.insert(cq.cq.id(), &cq);
        Ok(cq)
    }

    /// Waits until all events are acknowledged.
    ///
    /// # Errors
    /// `EINVAL` for an unknown queue, `EBUSY` while queue pairs use it.
    pub(crate) fn destroy_cq(&self, handle: usize) -> Result<(), Errno> {
        let cq = self.cqs.get(handle)?;
        cq.close()?;
        self.cq_ids.remove(cq.cq.id());
        self.cqs.remove(handle).map(drop).ok_or(Errno::INVAL)
    }
}
