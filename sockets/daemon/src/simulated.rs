//! The daemon's state on a clock of the caller's, for processes that are simulated: what they say comes as values and not
//! by sockets, and so does what the kernel says of theirs.

use core::time::Duration;
use std::io;
use std::os::fd::OwnedFd;

use rustix::event::epoll;
use weft_sockets::{Claim, ToDaemon, VERSION};

use crate::foreign::Foreign;
use crate::rules::Rules;
use crate::state::State;

/// A daemon without sockets of its own.
#[derive(Debug)]
pub struct Daemon(State);

/// A process that comes to the daemon.
#[derive(Debug)]
pub struct Process {
    /// Differs from those of all other processes.
    pub pid: i32,
    /// Its place among the members of its family.
    pub member: u16,
    /// The daemon's end of the port: it sends its messages there.
    pub port: OwnedFd,
    /// Stands for a pidfd.
    pub life: OwnedFd,
    /// The memory of its status page.
    pub status: OwnedFd,
    /// The memory of its family's slab.
    pub slab: OwnedFd,
}

impl Daemon {
    /// Begins. `epoch` differs from those of earlier daemons.
    ///
    /// # Errors
    /// The kernel's.
    pub fn new(epoch: u64) -> io::Result<Self> {
        let mut state = State::new(USER, Rules::default(), epoll::create(epoll::CreateFlags::CLOEXEC)?)?;
        state.epoch = epoch;
        Ok(Self(state))
    }

    /// Takes a process. Returns the daemon's name for it, or `None` if the daemon turns it away.
    pub fn register(&mut self, process: Process, now: Duration) -> Option<u64> {
        let Process { pid, member, port, life, status, slab } = process;
        let id = self.connect(port, pid)?;
        let memory = [life, status, slab].map(Foreign::harmless);
        self.0.register(id, (VERSION, VERSION, member), memory, now).ok().map(|()| id)
    }

    /// Takes somebody that has connected and is no process yet: a command. Returns the daemon's name for it, or `None`
    /// if the daemon turns it away.
    pub fn connect(&mut self, port: OwnedFd, pid: i32) -> Option<u64> {
        let is_taken = self.0.accept(port, USER, pid);
        is_taken.then(|| self.0.ports.last_key_value().map(|(id, _)| *id))?
    }

    /// Reads what has come by the socket of a port. A process that breaks a rule loses its port.
    pub fn read(&mut self, id: u64, now: Duration) {
        self.0.read(id, now);
    }

    /// True if the daemon has a port open.
    #[must_use]
    pub fn has_port(&self, id: u64) -> bool {
        self.0.ports.get(&id).is_some_and(|port| port.socket().is_some())
    }

    /// Takes a message that is no claim. Returns false if the process has broken a rule.
    #[must_use]
    pub fn handle(&mut self, id: u64, message: ToDaemon, file: Option<OwnedFd>, now: Duration) -> bool {
        self.0.handle(id, message, file.into_iter().map(Foreign::harmless).collect(), now).is_ok()
    }

    /// Takes a claim for an end: its slot and its generation. Returns false if the process has broken a rule.
    #[must_use]
    pub fn claim(&mut self, id: u64, end: (u32, u32), claim: Claim, now: Duration) -> bool {
        self.0.take_claim(id, end, now, || Ok(claim)).is_ok()
    }

    /// Hears that a process has ended.
    pub fn bury(&mut self, id: u64, now: Duration) {
        self.0.bury(id, now);
    }

    /// Does what is due at this time.
    pub fn expire(&mut self, now: Duration) {
        self.0.expire(now);
    }

    /// Returns when [`expire`](Self::expire) has something to do.
    pub fn deadline(&mut self) -> Option<Duration> {
        self.0.deadline()
    }

    /// Sends what is to be sent.
    pub fn flush(&mut self) {
        self.0.flush();
    }
}

/// The user of all processes.
const USER: u32 = 1000;
