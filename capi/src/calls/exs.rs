//! The calls on Extended Sockets.

use std::sync::Arc;

use rustix::io::Errno;
use weft_exs::Context;

use crate::exs::{Attribute, Kind, Queue, Socket, Start, Type};
use crate::process::Process;

impl Process {
    /// Returns the context of Extended Sockets.
    ///
    /// # Errors
    /// If the device cannot be opened.
    pub(crate) fn exs_context(&self) -> Result<&Context, Errno> {
        self.exs.context(self.device()?)
    }

    /// # Errors
    /// Those of [`Queue::new`].
    pub(crate) fn create_exs_queue(&self, depth: i32) -> Result<i32, Errno> {
        Ok(self.exs.add_queue(&Queue::new(self.exs_context()?, depth)?))
    }

    /// # Errors
    /// If the device cannot be opened, or the system has no file descriptor left.
    pub(crate) fn create_exs_socket(&self, kind: Type) -> Result<i32, Errno> {
        // A program hears early that it has no network.
        self.exs_context()?;
        Ok(self.exs.add_socket(&Socket::new(kind)?))
    }

    /// Reserves an event for an operation.
    ///
    /// # Errors
    /// `EINVAL` if there is no such queue; `EAGAIN` if it has no place.
    pub(crate) fn start(&self, kind: Kind, queue: i32, handle: isize) -> Result<Start, Errno> {
        Ok(Start { kind, handle, place: self.exs.queue(queue)?.reserve()? })
    }

    /// Removes the name of a socket, takes back what was received in place, and closes it. With a start its event tells
    /// when that is done.
    ///
    /// # Errors
    /// `EBADF`.
    pub(crate) fn close_exs_socket(&self, number: i32, start: Option<Start>) -> Result<(), Errno> {
        let socket = self.exs.sockets.remove(number).ok_or(Errno::BADF)?;
        // Else they would be unread data.
        self.exs.give_all_back(number);
        Socket::close_in_background(&socket, start);
        Ok(())
    }

    /// Cancels transfers: those of a socket, those with a number of the program's, or those with both. Returns how many
    /// have begun to end so.
    ///
    /// # Errors
    /// `EBADF`.
    pub(crate) fn cancel_exs(&self, socket: Option<i32>, handle: Option<isize>) -> Result<usize, Errno> {
        match socket {
            Some(number) => Ok(self.exs.socket(number)?.cancel(handle)),
            None => Ok(self.exs.sockets.all().iter().map(|socket: &Arc<Socket>| socket.cancel(handle)).sum()),
        }
    }

    /// Returns the attribute of a number.
    ///
    /// # Errors
    /// `EOPNOTSUPP` for signals; `EINVAL`.
    pub(crate) const fn exs_attribute(number: i32) -> Result<Attribute, Errno> {
        match number {
            1 => Ok(Attribute::Depth),
            2 => Ok(Attribute::Events),
            3 => Ok(Attribute::Wait),
            // A signal handler cannot wait for an engine. The descriptor of a queue with F_SETSIG does it.
            4 => Err(Errno::OPNOTSUPP),
            _ => Err(Errno::INVAL),
        }
    }
}
