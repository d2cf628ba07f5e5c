//! The daemon's own state, and the messages between it and the processes, which are late, and are lost with it.

use std::collections::BTreeMap;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType, recvmsg,
    socketpair,
};
use weft_daemon::simulated::{Daemon, Process};
use weft_sockets::{Claim, MESSAGE_LEN, ToDaemon, ToProcess};

/// The daemon and its mail.
#[derive(Debug, Default)]
pub(crate) struct Service {
    daemon: Option<Daemon>,
    /// Counts the daemons.
    pub(crate) epoch: u64,
    /// The daemon does nothing until then.
    pub(crate) stopped_until: u64,
    /// The daemon's names for processes, and the ends of their ports.
    ports: BTreeMap<usize, Port>,
    inward: BTreeMap<(u64, u64), (usize, Post)>,
    outward: BTreeMap<(u64, u64), (usize, ToProcess, Option<OwnedFd>)>,
    /// When the latest message of each process arrives, and of the daemon to it.
    latest: BTreeMap<(usize, bool), u64>,
    number: u64,
}

#[derive(Debug)]
struct Port {
    /// `None` until the daemon has heard of the process.
    id: Option<u64>,
    socket: OwnedFd,
}

/// What a process says.
#[derive(Debug)]
pub(crate) enum Post {
    Register(Box<Process>),
    Claim { slot: u32, generation: u32, socket: usize },
    Other(ToDaemon, Option<OwnedFd>),
}

impl Post {
    /// True if it concerns a connection, and not the process alone.
    pub(crate) const fn is_of_connection(&self) -> bool {
        !matches!(self, Self::Register(_) | Self::Other(ToDaemon::Bell { .. }, _))
    }
}

impl Service {
    /// A daemon begins.
    pub(crate) fn begin(&mut self) {
        self.epoch += 1;
        self.daemon = Daemon::new(self.epoch).ok();
    }

    /// The daemon dies, and its mail with it. Returns the sockets of the claims that were on their way.
    pub(crate) fn die(&mut self) -> Vec<usize> {
        self.daemon = None;
        self.ports.clear();
        self.outward.clear();
        let lost = std::mem::take(&mut self.inward).into_values();
        lost.filter_map(|(_, post)| if let Post::Claim { socket, .. } = post { Some(socket) } else { None })
            .collect()
    }

    pub(crate) const fn is_alive(&self) -> bool {
        self.daemon.is_some()
    }

    /// True if the daemon knows the process.
    pub(crate) fn knows(&self, process: usize) -> bool {
        self.ports.get(&process).is_some_and(|port| port.id.is_some())
    }

    /// Opens a port. Returns the daemon's end.
    pub(crate) fn open(&mut self, process: usize) -> Option<OwnedFd> {
        self.daemon.as_ref()?;
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let (own, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).ok()?;
        self.ports.insert(process, Port { id: None, socket: own });
        Some(theirs)
    }

    pub(crate) fn post(&mut self, process: usize, post: Post, arrival: u64) {
        let key = self.key(process, true, arrival);
        self.inward.insert(key, (process, post));
    }

    /// Hears that a process has ended, if the daemon knows it. Its messages come first.
    pub(crate) fn bury(&mut self, process: usize, now: u64) {
        let id = self.ports.remove(&process).and_then(|port| port.id);
        if let Some((id, daemon)) = id.zip(self.daemon.as_mut()) {
            daemon.bury(id, Duration::from_micros(now));
        }
    }

    /// True if messages of a process are on their way.
    pub(crate) fn has_post(&self, process: usize) -> bool {
        self.inward.values().any(|(from, _)| *from == process)
    }

    /// Returns when the next message arrives.
    pub(crate) fn deadline(&mut self) -> Option<u64> {
        let inward = self.inward.keys().next().map(|(at, _)| (*at).max(self.stopped_until));
        let outward = self.outward.keys().next().map(|(at, _)| *at);
        let due = self.daemon.as_mut().and_then(Daemon::deadline);
        let due = due.map(|due| {
            u64::try_from(due.as_micros()).unwrap_or(u64::MAX).saturating_add(1).max(self.stopped_until)
        });
        [inward, outward, due].into_iter().flatten().min()
    }

    /// Takes the next message to the daemon, if it has arrived.
    pub(crate) fn next_post(&mut self, now: u64) -> Option<(usize, Post)> {
        let entry = self.inward.first_entry()?;
        (entry.key().0 <= now && self.stopped_until <= now).then(|| entry.remove())
    }

    /// Takes the next message to a process, if it has arrived.
    pub(crate) fn next_mail(&mut self, now: u64) -> Option<(usize, ToProcess, Option<OwnedFd>)> {
        let entry = self.outward.first_entry()?;
        (entry.key().0 <= now).then(|| entry.remove())
    }

    /// The daemon takes a message. `claim` is what the kernel says of a claim's socket. Returns false if the process has
    /// broken a rule.
    pub(crate) fn handle(&mut self, process: usize, post: Post, claim: Option<Claim>, now: u64) -> bool {
        let now = Duration::from_micros(now);
        let (Some(daemon), Some(port)) = (&mut self.daemon, self.ports.get_mut(&process)) else {
            return true;
        };
        match (post, port.id, claim) {
            (Post::Register(known), None, _) => {
                port.id = daemon.register(*known, now);
                port.id.is_some()
            }
            (Post::Claim { slot, generation, .. }, Some(id), Some(claim)) => {
                daemon.claim(id, (slot, generation), claim, now)
            }
            (Post::Other(message, file), Some(id), _) => daemon.handle(id, message, file, now),
            _ => false,
        }
    }

    /// Another daemon of the host tells a process something, if that has a port.
    pub(crate) fn mail(&mut self, process: usize, message: ToProcess, file: Option<OwnedFd>, arrival: u64) {
        if self.ports.contains_key(&process) {
            let key = self.key(process, false, arrival);
            self.outward.insert(key, (process, message, file));
        }
    }

    pub(crate) fn expire(&mut self, now: u64) {
        if let Some(daemon) = self.daemon.as_mut().filter(|_| self.stopped_until <= now) {
            daemon.expire(Duration::from_micros(now));
        }
    }

    /// Sends what the daemon has to say. `delay` draws how late a message is.
    pub(crate) fn flush(&mut self, now: u64, mut delay: impl FnMut() -> u64) {
        if let Some(daemon) = &mut self.daemon {
            daemon.flush();
        }
        let mut mail = Vec::new();
        for (process, port) in &self.ports {
            while let Some((message, file)) = receive(&port.socket) {
                mail.push((*process, message, file));
            }
        }
        for (process, message, file) in mail {
            let key = self.key(process, false, now + delay());
            self.outward.insert(key, (process, message, file));
        }
    }

    fn key(&mut self, process: usize, is_inward: bool, arrival: u64) -> (u64, u64) {
        self.number += 1;
        let latest = self.latest.entry((process, is_inward)).or_default();
        *latest = arrival.max(*latest);
        (*latest, self.number)
    }
}

fn receive(socket: &OwnedFd) -> Option<(ToProcess, Option<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut octets = [0; MESSAGE_LEN];
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let len = recvmsg(socket, &mut [IoSliceMut::new(&mut octets)], &mut control, flags).ok()?.bytes;
    let mut files = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => Some(files),
        _ => None,
    });
    let file = files.next().and_then(|mut files| files.next());
    Some((ToProcess::decode(octets.get(..len)?)?, file))
}
