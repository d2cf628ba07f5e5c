//! A device with all that lanes need of it.

use core::net::SocketAddr;
use core::time::Duration;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use weft_rnic::{
    CmEvent, CompChannel, Completion, Config, ConnParam, Cq, Device, EventChannel, Ground, Listener,
    Progress, Until,
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

    /// Takes completions. Returns how many there are.
    pub(crate) fn poll(&self, done: &mut [Completion]) -> usize {
        self.cq.poll(done)
    }

    /// Asks to be woken for the next completion. The caller looks for completions once more before it sleeps.
    pub(crate) fn arm(&self) {
        while self.completions.next().is_some() {}
        self.cq.request_notification(false);
    }

    /// Sleeps until there is a completion, until `others` can be read, or for so long. Drives the engine meanwhile: a
    /// message that comes wakes this thread alone, and not the driver thread first.
    pub(crate) fn sleep(&self, others: impl AsFd, timeout: Option<Duration>) {
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let poll_both = |fds: &mut [PollFd<'_>], until: Option<&Timespec>| {
            let mut all = fds.to_vec();
            all.push(PollFd::new(&others, PollFlags::IN));
            let ready = poll(&mut all, until.into_iter().chain(&timeout).min())?;
            let is_over = ready == 0 || all.last().is_some_and(|others| !others.revents().is_empty());
            if is_over { Err(Errno::INTR) } else { poll(fds, Some(&AT_ONCE)) }
        };
        let _announced = self.completions.wait_until(Until::Interrupted(&poll_both));
    }

    /// Asks a daemon for a lane. Returns false if no way leads there.
    pub(crate) fn connect(&self, lane: &Lane, remote: SocketAddr, param: ConnParam<'_>) -> bool {
        self.device.connect(&self.events, &lane.qp, remote, param).is_ok()
    }
}

const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
/// Completions that the device keeps.
const COMPLETIONS: u32 = 1 << 16;
