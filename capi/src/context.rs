//! An opened device.

use core::mem::offset_of;
use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd};
use rustix::io::{Errno, read, write};
use weft_netif::Held;
use weft_rnic::{AsyncChannel, AsyncEvent, Device};

use crate::abi;
use crate::descriptor::Descriptor;
use crate::raw::{Visible, interruptible};

/// What `ibv_open_device` answers. All contexts of a process are of one device, whose asynchronous events are handed to the
/// contexts of their objects by whoever asks first.
#[derive(Debug)]
pub(crate) struct Context {
    visible: Visible<abi::VerbsContext>,
    pub(crate) functions: &'static Functions,
    pub(crate) device: Device,
    events: AsyncChannel,
    /// Events of this context that somebody else has met, with a token each.
    handed: Mutex<VecDeque<AsyncEvent>>,
    tokens: Held,
    descriptor: Descriptor,
}

/// Tables of functions, without the fields of an object. The boundary makes them; objects only hand them to the program.
#[derive(Debug)]
pub(crate) struct Functions {
    pub(crate) context: fn() -> abi::VerbsContext,
    pub(crate) cq: fn() -> abi::CqEx,
    pub(crate) qp: fn() -> abi::QpEx,
}

impl Context {
    /// # Errors
    /// When the system has no file descriptor left.
    pub(crate) fn new(device: Device, functions: &'static Functions) -> Result<Arc<Self>, Errno> {
        let events = device.async_channel();
        let flags = EventfdFlags::SEMAPHORE | EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC;
        let tokens = Held::new(eventfd(0, flags)?);
        let descriptor = Descriptor::over(&[events.as_fd(), tokens.as_fd()])?;
        let mut shown = (functions.context)();
        shown.context.async_fd = descriptor.number();
        shown.context.num_comp_vectors = i32::try_from(device.num_comp_vectors()).unwrap_or(1);
        Ok(Arc::new(Self {
            visible: Visible::new(shown),
            functions,
            device,
            events,
            handed: Mutex::default(),
            tokens,
            descriptor,
        }))
    }

    pub(crate) const fn handle(&self) -> *mut abi::Context {
        self.visible.as_ptr().wrapping_byte_add(offset_of!(abi::VerbsContext, context)).cast()
    }

    /// Takes an event that a thread which asked for another context has handed to this one.
    pub(crate) fn take_handed(&self) -> Option<AsyncEvent> {
        let event = self.lock().pop_front()?;
        let _empty = read(&self.tokens, &mut [0; 8]);
        Some(event)
    }

    /// Takes an event of the device, which may be for any context.
    pub(crate) fn take_of_device(&self) -> Option<AsyncEvent> {
        self.events.next()
    }

    /// Waits until there is something to take.
    ///
    /// # Errors
    /// `EAGAIN` when the program does not want to wait, `EINTR` when a signal came.
    pub(crate) fn wait(&self) -> Result<(), Errno> {
        if self.descriptor.is_nonblocking()? {
            return Err(Errno::AGAIN);
        }
        interruptible(|poll| poll(&mut [PollFd::new(&self.descriptor, PollFlags::IN)], None).ok())?;
        Ok(())
    }

    pub(crate) fn hand(&self, event: AsyncEvent) {
        self.lock().push_back(event);
        // It refuses only when it is full of tokens, and readable therefore.
        let _full = write(&self.tokens, &1_u64.to_ne_bytes());
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<AsyncEvent>> {
        self.handed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
