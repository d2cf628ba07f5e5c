//! Event channels.

use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::io::Errno;
use weft_cm::{Cm, Event};
use weft_rnic::Until;

use crate::abi;
use crate::descriptor::Descriptor;
use crate::errno::cm_errno;
use crate::raw::{Visible, interruptible};

/// The object behind `rdma_create_event_channel`.
#[derive(Debug)]
pub(crate) struct EventChannel {
    visible: Visible<abi::EventChannel>,
    pub(crate) channel: weft_cm::EventChannel,
    descriptor: Descriptor,
}

impl EventChannel {
    /// # Errors
    /// If the system has no file descriptor left.
    pub(crate) fn new(cm: &Cm) -> Result<Arc<Self>, Errno> {
        let channel = cm.create_event_channel().map_err(cm_errno)?;
        let descriptor = Descriptor::over(&[channel.as_fd()])?;
        let visible = Visible::new(abi::EventChannel { fd: descriptor.number() });
        Ok(Arc::new(Self { visible, channel, descriptor }))
    }

    /// Blocks until the next event.
    ///
    /// # Errors
    /// `EAGAIN` if there is no event and the program does not want to wait, `EINTR` after a signal.
    pub(crate) fn next(&self) -> Result<Event, Errno> {
        loop {
            match self.channel.next() {
                Some(event) => return Ok(event),
                None if self.descriptor.is_nonblocking()? => return Err(Errno::AGAIN),
                None => {
                    if let Some(event) =
                        interruptible(|poll| self.channel.wait_until(Until::Interrupted(poll)))?
                    {
                        return Ok(event);
                    }
                }
            }
        }
    }

    pub(crate) const fn handle(&self) -> *mut abi::EventChannel {
        self.visible.as_ptr()
    }
}
