//! Both ends of all connections. They are in this process on a wire in memory, or the second is in its own process.

use std::io;

use weft_rnic::{Listener, Progress};

use crate::args::{Args, Transport};
use crate::far::Far;
use crate::side::Side;

/// Two ends and the connections between them.
pub(crate) enum Ends {
    /// Both ends are in this process.
    Pair {
        /// The two devices.
        sides: Box<[Side; 2]>,
        /// The listener of the second device.
        _listener: Listener,
    },
    /// The other end is in its own process, on the host's TCP.
    Host {
        /// The device in this process.
        near: Box<Side>,
        /// The other process.
        far: Far,
    },
}

impl Ends {
    /// Opens devices that are driven as `progress` says, with `qps` connections, and later with at most `in_all`.
    pub(crate) fn new(args: &Args, progress: Progress, qps: u32, in_all: u32) -> io::Result<Self> {
        let mut ends = match args.transport {
            Transport::Pair => {
                let (left, right) = weft_netif::pair(1500);
                let left = Side::on_wire(left, "10.0.0.1/8", args, progress)?;
                let right = Side::on_wire(right, "10.0.0.2/8", args, progress)?;
                let listener = right.device.listen(&right.events, PORT).map_err(io::Error::other)?;
                Self::Pair { sides: Box::new([left, right]), _listener: listener }
            }
            Transport::Host => {
                let far = Far::start(args, progress, in_all)?;
                Self::Host { near: Box::new(Side::on_host(args, progress)?), far }
            }
        };
        ends.grow(qps)?;
        Ok(ends)
    }

    /// Connects until there are `qps` connections.
    pub(crate) fn grow(&mut self, qps: u32) -> io::Result<()> {
        let qps = qps as usize;
        let remote = match self {
            Self::Pair { sides, .. } => sides[1].device.address(PORT),
            Self::Host { far, .. } => far.address(),
        };
        while self.near().established < qps {
            let wanted = (self.near().established + BATCH).min(qps);
            let batch = wanted - self.near().established;
            self.near_mut().dial(remote, batch)?;
            while self.near().established < wanted {
                self.near_mut().handle_events()?;
                if let Self::Pair { sides, .. } = self {
                    sides[1].handle_events()?;
                }
            }
        }
        Ok(())
    }

    /// Sends 8 octets back and forth on connection number `index`, and polls for them all the time.
    pub(crate) fn round_trip(&self, index: usize) -> io::Result<()> {
        self.near().send(index)?;
        loop {
            match self.near().message()? {
                Some(place) if place == index => return Ok(()),
                Some(_) => return Err(io::Error::other("an answer on another connection")),
                None => {}
            }
            if let Self::Pair { sides, .. } = self
                && let Some(place) = sides[1].message()?
            {
                sides[1].send(place)?;
                sides[1].device.progress();
            }
        }
    }

    /// Returns the end in this process that connects.
    pub(crate) fn near(&self) -> &Side {
        match self {
            Self::Pair { sides, .. } => &sides[0],
            Self::Host { near, .. } => near,
        }
    }

    /// Returns how many of the ends of each connection are in this process.
    pub(crate) const fn ends_here(&self) -> u32 {
        match self {
            Self::Pair { .. } => 2,
            Self::Host { .. } => 1,
        }
    }

    /// Returns the process of the other end, if it is not this one.
    pub(crate) fn other_process(&self) -> Option<u32> {
        match self {
            Self::Pair { .. } => None,
            Self::Host { far, .. } => Some(far.id()),
        }
    }

    fn near_mut(&mut self) -> &mut Side {
        match self {
            Self::Pair { sides, .. } => &mut sides[0],
            Self::Host { near, .. } => near,
        }
    }
}

const PORT: u16 = 7174;
/// This is less than the backlog of a listener.
const BATCH: usize = 64;
