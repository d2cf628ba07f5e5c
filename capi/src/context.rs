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
use crate::c::context_functions;
use crate::calls::event::{Delivered, Owner};
use crate::descriptor::Descriptor;
use crate::process::Process;
use crate::raw::{Visible, interruptible};

/// What `ibv_open_device` answers. All contexts of a process are of one device, whose asynchronous events are handed to the
/// contexts of their objects by whoever asks first.
#[derive(Debug)]
pub(crate) struct Context {
    visible: Visible<abi::VerbsContext>,
    pub(crate) device: Device,
    events: AsyncChannel,
    /// Events of this context that somebody else has met, with a token each.
    handed: Mutex<VecDeque<AsyncEvent>>,
    tokens: Held,
    descriptor: Descriptor,
}

impl Context {
    /// # Errors
    /// When the device cannot be opened, or the system has no file descriptor left.
    pub(crate) fn open(process: &Process) -> Result<Arc<Self>, Errno> {
        let device = process.device()?.clone();
        let events = device.async_channel();
        let flags = EventfdFlags::SEMAPHORE | EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC;
        let tokens = Held::new(eventfd(0, flags)?);
        let descriptor = Descriptor::over(&[events.as_fd(), tokens.as_fd()])?;
        let mut functions = context_functions();
        functions.context.async_fd = descriptor.number();
        functions.context.num_comp_vectors = i32::try_from(device.num_comp_vectors()).unwrap_or(1);
        let context = Arc::new(Self {
            visible: Visible::new(functions),
            device,
            events,
            handed: Mutex::default(),
            tokens,
            descriptor,
        });
        process.contexts.insert(context.handle().addr(), &context);
        Ok(context)
    }

    /// Nothing of it is looked up any more; objects that were made with it go on.
    ///
    /// # Errors
    /// `EINVAL` when it is closed already.
    pub(crate) fn close(process: &Process, handle: usize) -> Result<(), Errno> {
        process.contexts.remove(handle).map(drop).ok_or(Errno::INVAL)
    }

    pub(crate) const fn handle(&self) -> *mut abi::Context {
        self.visible.as_ptr().wrapping_byte_add(offset_of!(abi::VerbsContext, context)).cast()
    }

    /// The next asynchronous event of this context.
    ///
    /// # Errors
    /// `EAGAIN` when the program does not want to wait, `EINTR` when a signal came.
    pub(crate) fn next_event(&self, process: &Process) -> Result<Delivered, Errno> {
        loop {
            if let Some(event) = self.take(process) {
                return Ok(event);
            }
            if self.descriptor.is_nonblocking()? {
                return Err(Errno::AGAIN);
            }
            interruptible(|poll| poll(&mut [PollFd::new(&self.descriptor, PollFlags::IN)], None).ok())?;
        }
    }

    fn take(&self, process: &Process) -> Option<Delivered> {
        loop {
            let own = self.lock().pop_front();
            if let Some(event) = own {
                let _empty = read(&self.tokens, &mut [0; 8]);
                // One of an object that was destroyed meanwhile is nobody's.
                if let Some(delivered) = Delivered::of(process, event) {
                    return Some(delivered);
                }
                continue;
            }
            let event = self.events.next()?;
            match Owner::of(process, event) {
                Some(Owner::Context(owner)) => owner.hand(event),
                Some(Owner::All) => process.contexts.all().iter().for_each(|context| context.hand(event)),
                None => {}
            }
        }
    }

    fn hand(&self, event: AsyncEvent) {
        self.lock().push_back(event);
        // It refuses only when it is full of tokens, and readable therefore.
        let _full = write(&self.tokens, &1_u64.to_ne_bytes());
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<AsyncEvent>> {
        self.handed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
