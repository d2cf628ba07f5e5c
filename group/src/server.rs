//! A replica: it makes sessions for clients that know the group's key, and then has nothing to do with their operations.
//!
//! ```text
//! client ──► R0 ──► R1 ──► R2     control plane: Hello, Open, and the answers back
//!   ▲                       │
//!   └── OUT of the tail ────┘     comes up first, then IN of R2, of R1, of R0
//! ```
//! Each session has a control connection of its own to each neighbor. A session lives as long as this connection, IN and
//! OUT. When one of them ends the replica drops the objects of the session, and tells its predecessor which replica is lost.
//!
//! A server never drives the engine. Its device needs a driver thread, or a simulation that drives it.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use weft_rnic::{
    CmError, CompChannel, CqId, Device, EventChannel, EventQueue, Listener, News, Notice, Pd, Region,
};

use crate::control::{Member, SessionStatus, Status};
use crate::keeper::Keeper;
use crate::key::Key;
use crate::random::Source;

mod answering;
mod changing;
mod connecting;
mod fetching;
mod hosted;
mod peer;
mod roster;
mod serving;
mod task;
mod working;

use hosted::Hosted;
use peer::Peer;
pub use roster::{Roster, RosterEntry};
pub use serving::Serving;

/// What a replica gives to its clients at most.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Sessions at a time.
    pub sessions: usize,
    /// Slots of a session.
    pub window: u32,
    /// The key that clients and the other replicas have; `None` takes everybody.
    pub key: Option<Key>,
}

/// A replica.
#[derive(Debug)]
pub struct Server {
    device: Device,
    pd: Pd,
    memory: Arc<Region>,
    size: u64,
    limits: Limits,
    keeper: Keeper,
    /// Why it takes no requests any more: its state cannot be stored.
    broken: Option<String>,
    /// It has taken another incarnation because a flush has failed.
    is_noted: bool,
    queue: EventQueue,
    events: EventChannel,
    completions: CompChannel,
    listener: Listener,
    /// Control connections that others have opened, by number, the oldest first.
    peers: BTreeMap<u64, Peer>,
    /// What each number in notices stands for.
    roles: HashMap<u64, Role>,
    /// The numbers of control connections, by the names in announcements.
    announced: HashMap<CqId, u64>,
    last_number: u64,
    is_stopped: bool,
    roster: Roster,
    random: Source,
}

/// What a connection is for. All but the first kind name the control connection of their session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// A control connection that another side has opened.
    Peer,
    /// The control connection to the next replica.
    Next(u64),
    /// The control connection to the replica from which this one copies.
    Source(u64),
    Inward(u64),
    Outward(u64),
}

/// Why there is no server.
#[derive(Debug)]
pub enum ServerError {
    /// The system has no descriptor left, or no random octets.
    Io(io::Error),
    /// It cannot listen there.
    Listen(CmError),
}

impl Default for Limits {
    /// 8 sessions with the largest window, for everybody.
    fn default() -> Self {
        Self { sessions: 8, window: crate::MAX_WINDOW, key: None }
    }
}

impl Server {
    /// Makes a replica of `memory`, of which `size` octets are given to sessions, and listens at `address`. The memory is lost
    /// with the process.
    ///
    /// # Errors
    /// [`ServerError`].
    pub fn new(
        device: &Device,
        memory: (Arc<Region>, u64),
        address: SocketAddr,
        limits: Limits,
    ) -> Result<Self, ServerError> {
        Self::with_state(device, memory, address, limits, Keeper::start(None)?)
    }

    /// Makes a replica whose state `keeper` keeps. Beside memory with a file that is a file, too.
    ///
    /// # Errors
    /// [`ServerError`].
    pub fn with_state(
        device: &Device,
        (memory, size): (Arc<Region>, u64),
        address: SocketAddr,
        limits: Limits,
        keeper: Keeper,
    ) -> Result<Self, ServerError> {
        let queue = EventQueue::new()?;
        let events = device.events_on(&queue);
        let completions = device.create_comp_channel()?;
        let listener = device.listen(&events, address).map_err(ServerError::Listen)?;
        Ok(Self {
            device: device.clone(),
            pd: device.alloc_pd(),
            memory,
            size,
            limits,
            keeper,
            broken: None,
            is_noted: false,
            queue,
            events,
            completions,
            listener,
            peers: BTreeMap::new(),
            roles: HashMap::new(),
            announced: HashMap::new(),
            last_number: 0,
            is_stopped: false,
            roster: Roster::default(),
            random: Source::Kernel,
        })
    }

    /// Has the server draw its tokens and incarnations from a generator. Only a simulation may do that: somebody who knows its
    /// numbers knows the tokens.
    #[must_use]
    pub fn drawing_from(self, draw: impl FnMut() -> u64 + Send + 'static) -> Self {
        Self { random: Source::Generator(Box::new(draw)), ..self }
    }

    /// Returns where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.listener.local_addr()
    }

    /// Returns the name of its memory's contents.
    pub const fn incarnation(&self) -> u64 {
        self.keeper.state().incarnation
    }

    /// Returns what a list of members says of this replica.
    pub const fn member(&self) -> Member {
        Member { address: self.address(), incarnation: Some(self.incarnation()) }
    }

    /// Returns the descriptors that are readable while [`Self::handle`] has something to do.
    pub fn descriptors(&self) -> [BorrowedFd<'_>; 2] {
        [self.queue.as_fd(), self.completions.as_fd()]
    }

    /// Does what there is to do for the control plane, without waiting and without driving the engine.
    pub fn handle(&mut self) {
        self.note_failed_flush();
        while let Some(notice) = self.queue.pop() {
            self.handle_notice(notice);
        }
        self.handle_messages();
        self.work();
        self.publish();
    }

    /// Returns the list of its sessions, which stays up to date.
    pub fn roster(&self) -> Roster {
        self.roster.clone()
    }

    /// Returns the state of the replica.
    pub fn status(&self) -> Status {
        let sessions: Vec<SessionStatus> = self.peers.values().filter_map(Peer::status).collect();
        Status {
            size: self.size,
            incarnation: self.incarnation(),
            sealed: self.keeper.state().sealed,
            served: self.keeper.state().served,
            is_stored: self.keeper.is_stored(),
            progress: self.progress(),
            limit: self.limits.sessions as u64,
            open: sessions.len() as u64,
            sessions,
        }
    }

    fn publish(&self) {
        self.roster.set(self.peers.values().filter_map(Peer::entry));
    }

    fn handle_messages(&mut self) {
        // The device has a driver thread: this takes an announcement and does nothing else.
        while let Some(cq) = self.completions.next() {
            let Some(number) = self.announced.get(&cq).copied() else { continue };
            match self.roles.get(&number) {
                Some(Role::Peer) => self.read_requests(number),
                Some(Role::Next(peer)) => self.read_answers(*peer),
                Some(Role::Source(peer)) => self.read_source(*peer),
                _ => {}
            }
        }
    }

    fn handle_notice(&mut self, notice: Notice) {
        match notice.news {
            News::Event(event) => self.handle_event(notice.id, event),
            News::Posted(code) => self.is_stopped |= code == STOP,
        }
    }

    /// Returns a number that no connection has had.
    const fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// Returns the session of a control connection.
    fn session(&mut self, peer: u64) -> Option<&mut Hosted> {
        self.peers.get_mut(&peer)?.session.as_mut()
    }

    /// Forgets a connection of the control plane that this side drops.
    fn forget(&mut self, number: u64, cq: CqId) {
        self.roles.remove(&number);
        self.announced.remove(&cq);
        self.completions.discard(cq);
    }
}

/// What is posted to the own queue: the server ends, or it has more to do.
const STOP: u32 = 0;
const MORE: u32 = 1;

impl core::fmt::Display for ServerError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Listen(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for ServerError {}

impl From<io::Error> for ServerError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
