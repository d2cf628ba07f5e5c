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

/// The object behind `ibv_open_device`. All contexts of a process share one device. Whichever asks first takes an
/// asynchronous event of the device, and hands it to the context of the event's object.
#[derive(Debug)]
pub(crate) struct Context {
    visible: Visible<abi::VerbsContext>,
    pub(crate) functions: &'static Functions,
    pub(crate) device: Device,
    events: AsyncChannel,
    /// Events that another context took for this one, with a token for each.
    handed: Mutex<VecDeque<AsyncEvent>>,
    tokens: Held,
    descriptor: Descriptor,
}

/// Tables of functions, without the fields of an object. The boundary makes them, and objects only show them to the
/// program.
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

    /// Takes an event that another context has handed to this one.
    pub(crate) fn take_handed(&self) -> Option<AsyncEvent> {
        let event = self.lock().pop_front()?;
        let _empty = read(&self.tokens, &mut [0; 8]);
        Some(event)
    }

    /// Takes an event of the device. It may be for any context.
    pub(crate) fn take_of_device(&self) -> Option<AsyncEvent> {
        self.events.next()
    }

    /// Blocks until there is an event to take.
    ///
    /// # Errors
    /// `EAGAIN` if the program does not want to wait, `EINTR` after a signal.
    pub(crate) fn wait(&self) -> Result<(), Errno> {
        if self.descriptor.is_nonblocking()? {
            return Err(Errno::AGAIN);
        }
        interruptible(|poll| poll(&mut [PollFd::new(&self.descriptor, PollFlags::IN)], None).ok())?;
        Ok(())
    }

    pub(crate) fn hand(&self, event: AsyncEvent) {
        self.lock().push_back(event);
        // The write fails only while the counter is full. The descriptor is readable then anyway.
        let _full = write(&self.tokens, &1_u64.to_ne_bytes());
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<AsyncEvent>> {
        self.handed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
