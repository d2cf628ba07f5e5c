//! The TCP below the tester: the operating system's, or a stack in this process on its own wire.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use weft_netif::{ConfigError, StackConfig, Wire};

use crate::arrival::{Arrival, DialError};
use crate::kernel::KernelTcp;
use crate::own::{OwnStack, OwnTcp};
use crate::time::Deadline;

/// Where connections come from. Clones share it.
#[derive(Clone, Debug)]
pub struct Host {
    inner: Inner,
}

#[derive(Clone, Debug)]
enum Inner {
    Kernel,
    Stack(Rc<RefCell<OwnStack>>),
}

impl Host {
    /// The TCP of the operating system.
    #[must_use]
    pub const fn kernel() -> Self {
        Self { inner: Inner::Kernel }
    }

    /// A TCP/IP stack in this process on `wire`.
    ///
    /// # Errors
    /// If the configuration is invalid.
    pub fn stack(wire: Wire, config: StackConfig) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self { inner: Inner::Stack(Rc::new(RefCell::new(OwnStack::new(wire, config)))) })
    }

    /// Sleeps for `time`. A stack in this process goes on working meanwhile.
    pub fn sleep(&self, time: Duration) {
        match &self.inner {
            Inner::Kernel => std::thread::sleep(time),
            Inner::Stack(stack) => stack.borrow_mut().run(&Deadline::after(time), |_| false),
        }
    }

    /// Gives closing connections the time to end. Returns the wire's capture, if there is one.
    pub fn close(&self) -> Option<weft_netif::Capture> {
        match &self.inner {
            Inner::Kernel => None,
            Inner::Stack(stack) => {
                let mut stack = stack.borrow_mut();
                stack.run(&Deadline::after(GOODBYE), |_| false);
                stack.take_capture()
            }
        }
    }

    pub(crate) fn connect(&self, target: SocketAddr, patience: Duration) -> Result<Connection, DialError> {
        match &self.inner {
            Inner::Kernel => KernelTcp::connect(target, patience).map(Connection::Kernel),
            Inner::Stack(stack) => OwnTcp::connect(stack, target, patience).map(Connection::Own),
        }
    }
}

/// One TCP connection.
#[derive(Debug)]
pub(crate) enum Connection {
    Kernel(KernelTcp),
    Own(OwnTcp),
}

impl Connection {
    /// Sends all `octets`. Returns false if the connection or the deadline ends earlier.
    pub(crate) fn send(&mut self, octets: &[u8], deadline: &Deadline) -> bool {
        match self {
            Self::Kernel(tcp) => tcp.send(octets, deadline),
            Self::Own(tcp) => tcp.send(octets, deadline),
        }
    }

    /// Waits for octets or the end.
    pub(crate) fn receive(&mut self, deadline: &Deadline) -> Arrival {
        match self {
            Self::Kernel(tcp) => tcp.receive(deadline),
            Self::Own(tcp) => tcp.receive(deadline),
        }
    }

    /// Returns the octets of payload in the largest TCP segment, if the TCP tells them.
    pub(crate) fn emss(&self) -> Option<usize> {
        match self {
            Self::Kernel(_) => None,
            Self::Own(tcp) => tcp.emss(),
        }
    }

    /// Sends FIN behind what was sent.
    pub(crate) fn finish(&self) {
        match self {
            Self::Kernel(tcp) => tcp.finish(),
            Self::Own(tcp) => tcp.finish(),
        }
    }

    /// Sends RST.
    pub(crate) fn abort(&self) {
        match self {
            Self::Kernel(tcp) => tcp.abort(),
            Self::Own(tcp) => tcp.abort(),
        }
    }
}

const GOODBYE: Duration = Duration::from_millis(200);
