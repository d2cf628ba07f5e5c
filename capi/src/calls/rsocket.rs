//! The calls on the descriptors of rsocket.

use std::net::SocketAddr;
use std::sync::Arc;

use rustix::io::Errno;

use crate::process::Process;
use crate::rsocket::Socket;

impl Process {
    /// # Errors
    /// If the device cannot be opened, or the system has no file descriptor left.
    pub(crate) fn create_socket(&self, is_v6: bool) -> Result<Arc<Socket>, Errno> {
        let socket = Socket::new(self.device()?, &self.cm, is_v6)?;
        self.rsockets.insert(socket.number(), &socket);
        Ok(socket)
    }

    /// # Errors
    /// `EBADF` for a descriptor that is no socket.
    pub(crate) fn close_socket(&self, number: i32) -> Result<(), Errno> {
        self.rsockets.remove(number).ok_or(Errno::BADF)?.close();
        Ok(())
    }

    /// # Errors
    /// Those of [`Socket::connect`].
    pub(crate) fn connect_socket(&self, socket: &Socket, peer: SocketAddr) -> Result<(), Errno> {
        socket.connect(self.device()?, peer)
    }

    /// # Errors
    /// Those of [`Socket::accept`].
    pub(crate) fn accept_socket(&self, listener: &Socket) -> Result<Arc<Socket>, Errno> {
        let socket = listener.accept(self.device()?, &self.cm)?;
        self.rsockets.insert(socket.number(), &socket);
        Ok(socket)
    }
}
