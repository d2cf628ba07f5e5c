//! The objects of Extended Sockets by their names, and buffers for short octets.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use rustix::io::Errno;
use weft_exs::{Buf, Context, InPlace, Watcher};
use weft_rnic::Device;

use super::memory::Memory;
use super::queue::Queue;
use super::socket::Socket;

use crate::handles::Handles;
use crate::raw::Blocked;

/// The objects of Extended Sockets by their names.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    context: OnceLock<Result<Context, Errno>>,
    /// Of the context, for `weft stat`.
    pub(crate) watcher: Arc<OnceLock<Watcher>>,
    last: AtomicI32,
    queues: Handles<i32, Queue>,
    memories: Handles<i32, Memory>,
    pub(crate) sockets: Handles<i32, Socket>,
    /// Messages that the program reads where they came, by their addresses, with their sockets.
    in_place: Mutex<HashMap<usize, (i32, Box<InPlace>)>>,
    /// Buffers of [`SHORT`] octets that nobody uses.
    spare: Mutex<Vec<Buf>>,
}

impl Tables {
    /// Returns the context of the device. The first call makes it.
    ///
    /// # Errors
    /// The error of the first call.
    pub(crate) fn context(&self, device: &Device) -> Result<&Context, Errno> {
        let context = self.context.get_or_init(|| {
            // The thread that starts inherits the signal mask of this one.
            let _blocked = Blocked::begin();
            let context = Context::on(device).map_err(|error| error.errno())?;
            // It is set once, as this is.
            let _is_first = self.watcher.set(context.watcher());
            Ok(context)
        });
        context.as_ref().map_err(|&errno| errno)
    }

    /// Returns the context, if a call has made it.
    pub(crate) fn context_so_far(&self) -> Option<&Context> {
        self.context.get()?.as_ref().ok()
    }

    pub(crate) fn add_queue(&self, queue: &Arc<Queue>) -> i32 {
        let name = self.name();
        self.queues.insert(name, queue);
        name
    }

    /// # Errors
    /// `EINVAL`.
    pub(crate) fn queue(&self, name: i32) -> Result<Arc<Queue>, Errno> {
        self.queues.get(name)
    }

    /// # Errors
    /// `EINVAL`; `EBUSY` if operations are under way that end there.
    pub(crate) fn delete_queue(&self, name: i32) -> Result<(), Errno> {
        if self.queues.get(name)?.is_busy() {
            return Err(Errno::BUSY);
        }
        self.queues.remove(name).map(drop).ok_or(Errno::INVAL)
    }

    pub(crate) fn add_memory(&self, memory: Memory) -> i32 {
        let name = self.name();
        self.memories.insert(name, &Arc::new(memory));
        name
    }

    /// # Errors
    /// `EINVAL`.
    pub(crate) fn memory(&self, name: i32) -> Result<Arc<Memory>, Errno> {
        self.memories.get(name)
    }

    /// # Errors
    /// `EINVAL`; `EBUSY` if operations are under way in it, or their events wait.
    pub(crate) fn remove_memory(&self, name: i32) -> Result<(), Errno> {
        let memory = self.memories.remove(name).ok_or(Errno::INVAL)?;
        if Arc::strong_count(&memory) > 1 {
            self.memories.insert(name, &memory);
            return Err(Errno::BUSY);
        }
        Ok(())
    }

    /// # Errors
    /// `EBADF`.
    pub(crate) fn socket(&self, number: i32) -> Result<Arc<Socket>, Errno> {
        self.sockets.get(number).map_err(|_| Errno::BADF)
    }

    pub(crate) fn add_socket(&self, socket: &Arc<Socket>) -> i32 {
        self.sockets.insert(socket.number(), socket);
        socket.number()
    }

    /// Keeps a message until the program gives it back. Returns its address.
    pub(crate) fn keep(&self, socket: i32, message: Box<InPlace>) -> *const u8 {
        let start = message.as_ptr();
        self.in_place().insert(start.addr(), (socket, message));
        start
    }

    /// Takes a message back.
    ///
    /// # Errors
    /// `EINVAL` if it is none of this socket.
    pub(crate) fn give_back(&self, socket: i32, address: usize) -> Result<(), Errno> {
        let mut kept = self.in_place();
        let message = kept.remove(&address).ok_or(Errno::INVAL)?;
        if message.0 != socket {
            kept.insert(address, message);
            return Err(Errno::INVAL);
        }
        drop(kept);
        // The slot goes back without the lock.
        drop(message);
        Ok(())
    }

    /// Takes all messages of a socket back.
    pub(crate) fn give_all_back(&self, socket: i32) {
        let messages: Vec<_> = self.in_place().extract_if(|_, (other, _)| *other == socket).collect();
        drop(messages);
    }

    fn in_place(&self) -> MutexGuard<'_, HashMap<usize, (i32, Box<InPlace>)>> {
        self.in_place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a buffer of [`SHORT`] octets.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn short(&self, context: &Context) -> Result<Buf, Errno> {
        let spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner).pop();
        spare.map_or_else(|| context.buffer(SHORT).map_err(|error| error.errno()), Ok)
    }

    /// Takes a buffer that nobody uses any more.
    pub(crate) fn recycle(&self, buf: Buf) {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        if buf.len() == SHORT && spare.len() < MAX_SPARE {
            spare.push(buf);
        }
    }

    /// Returns a name that nothing has had.
    fn name(&self) -> i32 {
        // Two thousand million names are more than a process makes.
        self.last.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
    }
}

/// Octets of memory that is not registered which are copied; more are registered for the operation.
pub(crate) const SHORT: usize = 4096;
/// Buffers that are kept.
const MAX_SPARE: usize = 256;
