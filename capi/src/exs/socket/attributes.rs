//! Addresses and options of a socket.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;
use weft_exs::Options;

use super::{Phase, Socket};

impl Socket {
    /// Returns the own address, the unspecified one if there is none yet.
    pub(crate) fn local_addr(&self) -> SocketAddr {
        let state = self.state();
        if let Phase::Listening(acceptor) = &state.phase {
            return acceptor.local_addr();
        }
        drop(state);
        let connection = self.addresses().map(|[own, _]| own);
        connection.or(self.state().bound).unwrap_or_else(|| self.unspecified())
    }

    /// # Errors
    /// `ENOTCONN`.
    pub(crate) fn peer_addr(&self) -> Result<SocketAddr, Errno> {
        self.addresses().map(|[_, peer]| peer).ok_or(Errno::NOTCONN)
    }

    /// Returns the addresses of the connection, which may have ended.
    fn addresses(&self) -> Option<[SocketAddr; 2]> {
        let now = self.peer().ok().and_then(|peer| peer.addresses());
        let mut state = self.state();
        state.addresses = now.or(state.addresses);
        state.addresses
    }

    /// Returns the options; of a connected socket, as they hold with its peer.
    pub(crate) fn options(&self) -> Options {
        self.peer().map_or_else(|_| self.state().options, |peer| peer.options())
    }

    /// Sets the time of later sends, or of later receives.
    pub(crate) fn set_timeout(&self, is_of_sends: bool, timeout: Option<Duration>) {
        let mut state = self.state();
        let options = &mut state.options;
        *(if is_of_sends { &mut options.send_timeout } else { &mut options.recv_timeout }) = timeout;
        drop(state);
        if let Ok(peer) = self.peer() {
            peer.set_timeout(is_of_sends, timeout);
        }
    }

    /// Sets how long a close waits for the peer; None is the default.
    pub(crate) fn set_linger(&self, linger: Option<Duration>) {
        let linger = linger.unwrap_or_else(|| Options::default().linger);
        self.state().options.linger = linger;
        if let Ok(peer) = self.peer() {
            peer.set_linger(linger);
        }
    }

    /// Decides whether the calls of POSIX wait.
    ///
    /// # Errors
    /// `EBADF` if the program has closed the descriptor.
    pub(crate) fn set_nonblocking(&self, is_nonblocking: bool) -> Result<(), Errno> {
        let flags = if is_nonblocking { OFlags::NONBLOCK } else { OFlags::empty() };
        fcntl_setfl(self.descriptor.as_fd(), flags)
    }

    /// Changes the options.
    ///
    /// # Errors
    /// `EINVAL` if they are fixed already, and those of `act`.
    pub(crate) fn change(&self, act: impl FnOnce(&mut Options) -> Result<(), Errno>) -> Result<(), Errno> {
        let mut state = self.state();
        if !matches!(state.phase, Phase::New) {
            return Err(Errno::INVAL);
        }
        act(&mut state.options)
    }

    /// Takes the error of the last connect: `SO_ERROR`.
    pub(crate) fn take_error(&self) -> i32 {
        self.state().error.take().map_or(0, Errno::raw_os_error)
    }

    pub(super) const fn unspecified(&self) -> SocketAddr {
        if self.kind.is_v6 {
            SocketAddr::new(std::net::IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0)
        } else {
            SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0)
        }
    }
}
