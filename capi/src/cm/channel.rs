//! Event channels.

use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::io::Errno;
use weft_rnic::Until;

use super::event::CmEvent;
use crate::abi;
use crate::descriptor::Descriptor;
use crate::errno::cm_errno;
use crate::process::Process;
use crate::raw::{Visible, interruptible};

/// What `rdma_create_event_channel` answers.
#[derive(Debug)]
pub(crate) struct EventChannel {
    visible: Visible<abi::EventChannel>,
    pub(crate) channel: weft_cm::EventChannel,
    descriptor: Descriptor,
}

impl EventChannel {
    /// # Errors
    /// When the system has no file descriptor left.
    pub(crate) fn create(process: &Process) -> Result<Arc<Self>, Errno> {
        let channel = process.cm.create_event_channel().map_err(cm_errno)?;
        let descriptor = Descriptor::over(&[channel.as_fd()])?;
        let visible = Visible::new(abi::EventChannel { fd: descriptor.number() });
        let channel = Arc::new(Self { visible, channel, descriptor });
        process.event_channels.insert(channel.handle().addr(), &channel);
        Ok(channel)
    }

    /// The next event, which the program has to acknowledge.
    ///
    /// # Errors
    /// `EAGAIN` when there is none and the program does not want to wait, `EINTR` when a signal came.
    pub(crate) fn next_event(self: &Arc<Self>, process: &Process) -> Result<Arc<CmEvent>, Errno> {
        loop {
            let event = match self.channel.next() {
                Some(event) => event,
                None if self.descriptor.is_nonblocking()? => return Err(Errno::AGAIN),
                None => match interruptible(|poll| self.channel.wait_until(Until::Interrupted(poll)))? {
                    Some(event) => event,
                    None => continue,
                },
            };
            if let Some(event) = CmEvent::of(process, event, Some(self)) {
                return Ok(event);
            }
        }
    }

    pub(crate) const fn handle(&self) -> *mut abi::EventChannel {
        self.visible.as_ptr()
    }
}
