//! A device with all that lanes need of it.

use core::net::SocketAddr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use weft_rnic::{
    CmEvent, CompChannel, Completion, Config, ConnParam, Cq, Device, EventChannel, Ground, Listener, Progress,
};

use crate::hosts::lane::Lane;

/// One of the daemon's devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Way {
    /// The TCP of the host's kernel.
    Kernel,
    /// The wire that the daemon has for itself.
    Wire,
}

/// A device that listens, with its queue of completions.
#[derive(Debug)]
pub(crate) struct Rnic {
    pub(crate) device: Device,
    events: EventChannel,
    completions: CompChannel,
    pub(crate) cq: Cq,
    /// Kept, so that it listens.
    _listener: Listener,
}

impl Rnic {
    /// Opens a device and listens on a port.
    pub(crate) fn open(ground: Ground, config: Config, port: u16) -> io::Result<Self> {
        let device = Device::open(ground, Config { progress: Progress::Thread, ..config })?;
        let events = device.create_event_channel()?;
        let listener = device.listen(&events, port).map_err(io::Error::other)?;
        let completions = device.create_comp_channel()?;
        let cq = device.create_cq(COMPLETIONS, Some(&completions)).map_err(io::Error::other)?;
        cq.request_notification(false);
        Ok(Self { device, events, completions, cq, _listener: listener })
    }

    /// What wakes the daemon.
    pub(crate) fn descriptors(&self) -> [BorrowedFd<'_>; 2] {
        [self.events.as_fd(), self.completions.as_fd()]
    }

    /// Returns the next event of a connection.
    pub(crate) fn event(&self) -> Option<CmEvent> {
        self.events.next()
    }

    /// Takes completions, and asks to be woken for the next. Returns how many there are.
    pub(crate) fn poll(&self, done: &mut [Completion]) -> usize {
        while self.completions.next().is_some() {
            self.cq.request_notification(false);
        }
        self.cq.poll(done)
    }

    /// Asks a daemon for a lane. Returns false if no way leads there.
    pub(crate) fn connect(&self, lane: &Lane, remote: SocketAddr, param: ConnParam<'_>) -> bool {
        self.device.connect(&self.events, &lane.qp, remote, param).is_ok()
    }
}

/// Completions that the device keeps.
const COMPLETIONS: u32 = 1 << 16;
