//! The daemon's thread: waits for processes and hands over what they say.

use core::time::Duration;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, accept_with, bind, connect, listen, socket_with};
use rustix::process::{Resource, geteuid, getrlimit, setrlimit};
use weft_sockets::Answer;
use weft_stat::{Section, Server};

use crate::address::Address;
use crate::hosts::Hosts;
use crate::kernel::credentials;
use crate::lanes::Lanes;
use crate::limits::Limits;
use crate::operator::Operator;
use crate::pending::Succession;
use crate::rules::Rules;
use crate::stat;
use crate::state::State;

/// How a daemon is run.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where processes find it.
    pub address: Address,
    /// Which connections it upgrades.
    pub rules: Rules,
    /// How it reaches other hosts. `None`: it does not.
    pub lanes: Option<Lanes>,
    /// The time without a process after which it ends.
    pub linger: Option<Duration>,
    /// Connections between network namespaces get no memory, though both ends are on this host.
    pub rdma_always: bool,
}

/// A daemon that listens.
#[derive(Debug)]
pub struct Daemon {
    address: Address,
    listener: OwnedFd,
    state: Arc<Mutex<State>>,
    start: Instant,
    linger: Option<Duration>,
    /// Given up for a moment when the process has no descriptor left, to turn a process away.
    spare: Option<OwnedFd>,
    server: Option<Server>,
    /// The path of the listener, removed at the end.
    path: Option<PathBuf>,
    /// The port to the daemon whose place this one takes, until that has left.
    predecessor: Option<OwnedFd>,
    /// The lanes that are to be opened, and since when: the port may be the predecessor's for a moment still.
    lanes: Option<(Lanes, Duration)>,
    /// Since when a successor has the listener.
    giving: Option<Duration>,
}

impl Daemon {
    /// Begins to listen.
    ///
    /// # Errors
    /// If another daemon has the address, or the kernel refuses what is needed.
    pub fn start(config: &Config) -> io::Result<Self> {
        let listener = bound(&config.address, path_of(config).as_ref())?;
        let it = Self::with(config, listener)?;
        if let Some(lanes) = &config.lanes {
            it.open_lanes(lanes)?;
        }
        // Nobody finds a daemon that does not come to serve.
        listen(&it.listener, BACKLOG)?;
        Ok(it)
    }

    /// As [`start`](Self::start), in the place of a daemon that has the address, if there is one. That daemon gives its
    /// socket away, so that no program finds the address without a daemon, and leaves. Links between programs go on.
    /// Connections to other hosts go on by TCP.
    ///
    /// # Errors
    /// As of [`start`](Self::start), and if the other daemon does not obey. Then it goes on.
    pub fn replace(config: &Config) -> io::Result<Self> {
        let Some(other) = Operator::connect(&config.address)? else { return Self::start(config) };
        let listener = other.replace()?;
        // The kernel tells programs the user of the last caller.
        listen(&listener, BACKLOG)?;
        let mut it = Self::with(config, listener)?;
        let predecessor = other.take_over()?;
        let event = epoll::EventData::new_u64(PREDECESSOR);
        epoll::add(&lock(&it.state).epoll, &predecessor, event, epoll::EventFlags::IN)?;
        it.predecessor = Some(predecessor);
        it.lanes = config.lanes.clone().map(|lanes| (lanes, Duration::ZERO));
        Ok(it)
    }

    fn with(config: &Config, listener: OwnedFd) -> io::Result<Self> {
        let most = raise_limit();
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &listener, epoll::EventData::new_u64(LISTENER), epoll::EventFlags::IN)?;
        let mut state = State::new(geteuid().as_raw(), config.rules.clone(), epoll)?;
        // Other users find the rest.
        state.limits = Limits::new(if geteuid().is_root() { most / 4 } else { most / 4 * 3 });
        state.containers.is_off = config.rdma_always;
        let state = Arc::new(Mutex::new(state));
        let (start, linger) = (now(), config.linger);
        Ok(Self {
            address: config.address.clone(),
            listener,
            state,
            start,
            linger,
            spare: spare(),
            server: None,
            path: path_of(config),
            predecessor: None,
            lanes: None,
            giving: None,
        })
    }

    fn open_lanes(&self, lanes: &Lanes) -> io::Result<()> {
        let mut state = lock(&self.state);
        let told =
            |error: io::Error| io::Error::new(error.kind(), format!("lanes at port {}: {error}", lanes.port));
        let hosts = Hosts::start(lanes, state.epoch).map_err(told)?;
        for descriptor in hosts.descriptors() {
            let event = epoll::EventData::new_u64(LANES);
            epoll::add(&state.epoll, descriptor, event, epoll::EventFlags::IN)?;
        }
        state.hosts = Some(hosts);
        Ok(())
    }

    /// Answers `weft stat` in this folder from now on.
    ///
    /// # Errors
    /// As of [`Server::start`].
    pub fn serve_stat(&mut self, folder: &Path) -> io::Result<()> {
        let (state, same) = (Arc::clone(&self.state), Arc::clone(&self.state));
        let (address, same_address) = (self.address.clone(), self.address.clone());
        // The line of the daemon in the list of all processes.
        let device = Section::new("device", move |_| stat::summary(&lock(&state), &address));
        let sockets = Section::new("sockets", move |_| stat::tell(&lock(&same), &same_address));
        self.server = Some(Server::start(folder, vec![device, sockets])?);
        Ok(())
    }

    /// Serves processes until `stop` can be read, or until the time of `linger` has passed without a process.
    ///
    /// # Errors
    /// If the kernel refuses to wait.
    pub fn run(mut self, stop: impl AsFd) -> io::Result<()> {
        let served = self.serve(stop);
        lock(&self.state).take_leave();
        served
    }

    fn serve(&mut self, stop: impl AsFd) -> io::Result<()> {
        let epoll = lock(&self.state).epoll.try_clone()?;
        epoll::add(&epoll, &stop, epoll::EventData::new_u64(STOP), epoll::EventFlags::IN)?;
        let mut events = Vec::with_capacity(EVENTS);
        let mut busy = Duration::ZERO;
        loop {
            let (timeout, device) = {
                let mut state = lock(&self.state);
                state.serve_hosts(&|| self.start.elapsed());
                let is_stalled = state.flush();
                if !state.ports.is_empty() {
                    busy = self.start.elapsed();
                }
                let alone = self.linger.filter(|_| state.ports.is_empty()).map(|linger| busy + linger);
                let is_opening = self.lanes.is_some() && self.predecessor.is_none();
                let retry =
                    (is_stalled || is_opening || self.giving.is_some()).then(|| self.start.elapsed() + RETRY);
                let next = [state.deadline(), alone, retry].into_iter().flatten().min();
                let left = next.map(|next| next.saturating_sub(self.start.elapsed()) + ROUNDING);
                (left, state.hosts.as_ref().map(Hosts::lanes_device))
            };
            let timeout = match device {
                None => timeout,
                Some(rnic) => {
                    rnic.sleep(&epoll, timeout);
                    Some(Duration::ZERO)
                }
            };
            let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
            events.clear();
            match epoll::wait(&epoll, spare_capacity(&mut events), timeout.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            for event in &events {
                match event.data.u64() {
                    STOP => return Ok(()),
                    LISTENER => self.accept(),
                    // Each round begins with them.
                    LANES => {}
                    PREDECESSOR => self.come_after()?,
                    token => self.handle(token, event.flags),
                }
            }
            self.try_lanes()?;
            let now = self.start.elapsed();
            let mut state = lock(&self.state);
            state.expire(now);
            let is_spent = self.linger.is_some_and(|linger| state.ports.is_empty() && now >= busy + linger);
            drop(state);
            if is_spent || self.make_way()? {
                return Ok(());
            }
        }
    }

    /// The predecessor has left.
    fn come_after(&mut self) -> io::Result<()> {
        if let Some(predecessor) = self.predecessor.take() {
            epoll::delete(&lock(&self.state).epoll, &predecessor)?;
        }
        let now = self.start.elapsed();
        self.lanes.iter_mut().for_each(|(_, since)| *since = now);
        Ok(())
    }

    /// Opens the lanes once the predecessor has left.
    fn try_lanes(&mut self) -> io::Result<()> {
        let Some((lanes, since)) = self.lanes.take_if(|_| self.predecessor.is_none()) else { return Ok(()) };
        match self.open_lanes(&lanes) {
            // The kernel, or another thread of the predecessor, may have to close the port.
            Err(_) if self.start.elapsed() < since + LATE => {
                self.lanes = Some((lanes, since));
                Ok(())
            }
            opened => opened,
        }
    }

    /// Goes on with giving the place to a successor. Returns true if this daemon has to leave now.
    fn make_way(&mut self) -> io::Result<bool> {
        let (mut state, now) = (lock(&self.state), self.start.elapsed());
        match (state.succession, self.giving) {
            (Succession::Asked(id), _) => {
                epoll::delete(&state.epoll, &self.listener)?;
                self.giving = Some(now);
                state.succession = Succession::Given(id);
                state.answer(id, Answer::Listener {}, Some(self.listener.as_fd()));
            }
            (Succession::Given(id), Some(since)) if now >= since + LATE => state.disconnect(id),
            // It has gone before it served.
            (Succession::None, Some(_)) => {
                let event = epoll::EventData::new_u64(LISTENER);
                epoll::add(&state.epoll, &self.listener, event, epoll::EventFlags::IN)?;
                // The kernel tells programs the user of the last caller.
                listen(&self.listener, BACKLOG)?;
                self.giving = None;
            }
            (Succession::Taken, _) if !state.is_draining_hosts() => {
                // What goes with the next turn: their last words.
                state.serve_hosts(&|| now);
                state.hosts = None;
                self.path = None;
                return Ok(true);
            }
            _ => {}
        }
        Ok(false)
    }

    fn handle(&self, token: u64, flags: epoll::EventFlags) {
        let (id, is_pidfd) = (token >> 1, token & 1 == 1);
        let now = self.start.elapsed();
        let mut state = lock(&self.state);
        if is_pidfd {
            state.read_rest(id, now);
            state.bury(id, now);
            return;
        }
        if flags.contains(epoll::EventFlags::OUT) {
            state.resume(id);
        }
        if flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::HUP | epoll::EventFlags::ERR) {
            state.read(id, now);
        }
    }

    /// Takes the processes that have connected.
    fn accept(&mut self) {
        for _ in 0..EVENTS {
            match accept_with(&self.listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(socket) => {
                    // A process that is turned away finds its port closed.
                    match credentials(&socket) {
                        Some((uid, pid)) => {
                            lock(&self.state).accept(socket, uid, pid);
                        }
                        None => drop(lock(&self.state).limits.foreign(NOBODY, socket)),
                    }
                }
                Err(Errno::MFILE | Errno::NFILE) => {
                    self.spare = None;
                    if let Ok(socket) = accept_with(&self.listener, SocketFlags::CLOEXEC) {
                        let uid = credentials(&socket).map_or(NOBODY, |(uid, _)| uid);
                        drop(lock(&self.state).limits.foreign(uid, socket));
                    }
                    self.spare = spare();
                    return;
                }
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(_) => return,
            }
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // The thread of the server ends before the state goes.
        self.server = None;
        if let Some(path) = &self.path {
            // If it is gone already, that is as good.
            let _gone = std::fs::remove_file(path);
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "claims wait in real time")]
fn now() -> Instant {
    Instant::now()
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns a socket that has the address.
fn bound(address: &Address, path: Option<&PathBuf>) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let new = || socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
    let listener = new()?;
    let mut bound = bind(&listener, &address.socket);
    if let (Err(Errno::ADDRINUSE), Some(path)) = (bound, path) {
        if !std::fs::symlink_metadata(path)?.file_type().is_socket() {
            let reason = format!("{address} is no socket: --name gives the daemon another address");
            return Err(io::Error::new(io::ErrorKind::AddrInUse, reason));
        }
        // An earlier daemon was killed and has left its socket.
        if connect(new()?, &address.socket) == Err(Errno::CONNREFUSED) {
            std::fs::remove_file(path)?;
            bound = bind(&listener, &address.socket);
        }
    }
    bound.map_err(|error| match error {
        Errno::ADDRINUSE => io::Error::new(
            io::ErrorKind::AddrInUse,
            format!("another daemon has the address {address}: --replace takes its place, and --name gives this one another address"),
        ),
        error => io::Error::new(io::Error::from(error).kind(), format!("{address}: {error}")),
    })?;
    Ok(listener)
}

/// Lets the process have as many descriptors as it may, and returns how many. A few processes need few.
fn raise_limit() -> u32 {
    let limit = getrlimit(Resource::Nofile);
    let raised = rustix::process::Rlimit { current: limit.maximum, ..limit };
    let _as_before = setrlimit(Resource::Nofile, raised);
    getrlimit(Resource::Nofile).current.and_then(|most| u32::try_from(most).ok()).unwrap_or(u32::MAX)
}

fn spare() -> Option<OwnedFd> {
    open("/dev/null", OFlags::CLOEXEC | OFlags::RDONLY, Mode::empty()).ok()
}

/// The path at which a daemon listens, if it has one.
fn path_of(config: &Config) -> Option<PathBuf> {
    config.address.socket.path().map(|path| PathBuf::from(to_os(path.to_bytes())))
}

fn to_os(octets: &[u8]) -> &std::ffi::OsStr {
    std::os::unix::ffi::OsStrExt::from_bytes(octets)
}

/// The user of a process that this one cannot see.
const NOBODY: u32 = u32::MAX;
const LISTENER: u64 = 0;
const STOP: u64 = 1;
const LANES: u64 = u64::MAX;
const PREDECESSOR: u64 = u64::MAX - 1;
/// Events that are taken at a time.
const EVENTS: usize = 64;
const BACKLOG: i32 = 1024;
/// After this time the daemon tries again what the kernel had no memory for.
const RETRY: Duration = Duration::from_millis(100);
/// The time that a successor has to serve, and the port of a predecessor to become free.
const LATE: Duration = Duration::from_secs(5);
/// The kernel may wake a little early.
const ROUNDING: Duration = Duration::from_millis(1);
