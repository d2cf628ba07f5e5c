//! Processes: their waiters, their ports to the daemon, and what they know of links and of other processes.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

use rustix::event::{EventfdFlags, eventfd};
use weft_daemon::simulated;
use weft_sockets::{ToDaemon, ToProcess};
use weft_sockets_stepped::layout::{ALWAYS, EVERYBODY};
use weft_sockets_stepped::sync::Ordering::{Relaxed, SeqCst};
use weft_sockets_stepped::{Link, Lock, Owner, Slab, Sleep, Sleepers, Status, WaiterName};

use super::service::Post;
use super::world::World;

/// Processes with one slab.
#[derive(Debug)]
pub(crate) struct Family {
    pub(crate) slab: Slab,
    pub(crate) file: OwnedFd,
    pub(crate) members: Cell<u16>,
}

/// A process.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) number: usize,
    pub(crate) family: Rc<Family>,
    pub(crate) member: u16,
    /// 0 or 1.
    pub(crate) host: usize,
    /// It stands for the daemon of its host.
    pub(crate) is_daemon: bool,
    pub(crate) is_alive: Cell<bool>,
    /// It has a thread, or had one.
    pub(crate) has_begun: Cell<bool>,
    /// It never has a second thread.
    pub(crate) is_single: bool,
    /// It does nothing until then.
    pub(crate) stopped_until: Cell<u64>,
    /// The sockets that it has.
    pub(crate) sockets: RefCell<Vec<usize>>,
    status: Status,
    status_file: OwnedFd,
    lines: RefCell<Vec<Line>>,
    /// The daemon to which its port leads.
    epoch: Cell<u64>,
    is_welcome: Cell<bool>,
    next_try: Cell<u64>,
    name: Cell<u64>,
    inbox: RefCell<VecDeque<(ToProcess, Option<OwnedFd>)>>,
    links: RefCell<BTreeMap<u64, Rc<LinkView>>>,
    peers: RefCell<BTreeMap<(u64, u16), Peer>>,
}

/// A link as a process has it.
#[derive(Debug)]
pub(crate) struct LinkView {
    pub(crate) memory: Link,
    file: OwnedFd,
    peer: Cell<u64>,
    /// The daemon that knows it.
    epoch: Cell<u64>,
    parties: Cell<u32>,
}

/// A line of the status page.
#[derive(Debug, Default)]
struct Line {
    is_used: bool,
    bell: Option<OwnedFd>,
    rang: bool,
    sleeps: u32,
}

#[derive(Debug)]
struct Peer {
    status: Rc<Status>,
    bells: BTreeMap<u8, Rc<OwnedFd>>,
}

impl Family {
    pub(crate) fn new() -> Rc<Self> {
        let file = Slab::create().expect("memory");
        Rc::new(Self { slab: Slab::map(&file).expect("a slab"), file, members: Cell::new(0) })
    }
}

impl Process {
    pub(crate) fn new(number: usize, family: Rc<Family>, is_single: bool, host: usize) -> Self {
        let (status_file, status) = Status::create().expect("memory");
        let member = family.members.get();
        family.members.set(member + 1);
        Self {
            number,
            family,
            member,
            host,
            is_daemon: false,
            is_alive: Cell::new(true),
            has_begun: Cell::new(false),
            is_single,
            stopped_until: Cell::new(0),
            sockets: RefCell::default(),
            status,
            status_file,
            lines: RefCell::default(),
            epoch: Cell::new(0),
            is_welcome: Cell::new(false),
            next_try: Cell::new(0),
            name: Cell::new(0),
            inbox: RefCell::default(),
            links: RefCell::default(),
            peers: RefCell::default(),
        }
    }

    /// One that stands for a daemon. Its first line is the daemon's waiter.
    pub(crate) fn of_daemon(number: usize, host: usize, world: &World) -> Self {
        let it = Self { is_daemon: true, ..Self::new(number, Family::new(), true, host) };
        let line = it.take_line();
        it.need_bell(world, line);
        it
    }

    /// Says that the daemon sleeps, or that it is awake and has heard its bell.
    pub(crate) fn set_asleep(&self, is_asleep: bool) {
        self.status.page().0[0].asleep.store(if is_asleep { ALWAYS } else { 0 }, SeqCst);
        if !is_asleep {
            self.hear_bells();
            self.lines.borrow_mut()[0].rang = false;
        }
    }

    /// What the processes get of a daemon: its status page and its bell.
    pub(crate) fn card(&self) -> [OwnedFd; 2] {
        let lines = self.lines.borrow();
        let bell = lines[0].bell.as_ref().expect("a bell");
        [&self.status_file, bell].map(|file| file.try_clone().expect("a descriptor"))
    }

    /// Takes over what a parent knows, behind a fork.
    pub(crate) fn inherit(&self, parent: &Self) {
        *self.links.borrow_mut() = parent.links.borrow().clone();
        self.name.set(parent.name.get());
        for (name, peer) in &*parent.peers.borrow() {
            let peer = Peer { status: Rc::clone(&peer.status), bells: peer.bells.clone() };
            self.peers.borrow_mut().insert(*name, peer);
        }
    }

    pub(crate) fn link(&self, name: u64) -> Option<Rc<LinkView>> {
        self.links.borrow().get(&name).map(Rc::clone)
    }

    /// Notes which party of a link this family is.
    pub(crate) fn add_party(&self, name: u64, party: u32) {
        if let Some(link) = self.links.borrow().get(&name) {
            link.parties.set(link.parties.get() | 1 << party);
        }
    }

    /// Sends a message, or loses it if there is no daemon.
    pub(crate) fn tell(&self, world: &World, post: Post) -> bool {
        let is_open = self.has_daemon(world);
        if is_open {
            let arrival = world.later();
            world.services[self.host].borrow_mut().post(self.number, post, arrival);
        }
        is_open
    }

    /// True if the daemon to which the port leads is alive.
    pub(crate) fn has_daemon(&self, world: &World) -> bool {
        let service = world.services[self.host].borrow();
        self.epoch.get() == service.epoch && service.is_alive()
    }

    /// Opens the port if there is none. Returns false if there is no daemon.
    pub(crate) fn open_port(&self, world: &World) -> bool {
        let service = &world.services[self.host];
        let epoch = service.borrow().epoch;
        if self.epoch.get() == epoch && service.borrow().is_alive() {
            return true;
        }
        self.is_welcome.set(false);
        if world.now.get() < self.next_try.get() {
            return false;
        }
        self.next_try.set(world.now.get() + 5_000_000);
        let Some(port) = service.borrow_mut().open(self.number) else { return false };
        self.epoch.set(epoch);
        self.inbox.borrow_mut().clear();
        let copy = |file: &OwnedFd| file.try_clone().expect("a descriptor");
        let known = simulated::Process {
            pid: i32::try_from(self.number).unwrap_or(0) + 1,
            member: self.member,
            port,
            life: eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd"),
            status: copy(&self.status_file),
            slab: copy(&self.family.file),
        };
        self.tell(world, Post::Register(Box::new(known)));
        for (bell, line) in self.lines.borrow().iter().zip(0..) {
            if let Some(bell) = &bell.bell {
                self.tell(world, Post::Other(ToDaemon::Bell { line }, Some(copy(bell))));
            }
        }
        true
    }

    /// True if peers can wake its sleepers.
    pub(crate) fn is_rung(&self, world: &World) -> bool {
        self.open_port(world) && self.is_welcome.get() && self.show_links(world)
    }

    fn show_links(&self, world: &World) -> bool {
        let links: Vec<_> = self.links.borrow().iter().map(|(name, link)| (*name, Rc::clone(link))).collect();
        for (name, link) in links {
            if link.epoch.get() == self.epoch.get() {
                continue;
            }
            for party in (0..2).filter(|party| link.parties.get() & 1 << party != 0) {
                let file = link.file.try_clone().ok();
                self.tell(world, Post::Other(ToDaemon::ShowLink { link: name, party }, file));
            }
            link.epoch.set(self.epoch.get());
        }
        true
    }

    /// A message of the daemon has come.
    pub(crate) fn deliver(&self, message: ToProcess, file: Option<OwnedFd>) {
        self.inbox.borrow_mut().push_back((message, file));
        let asleep: Vec<_> = (0..self.lines.borrow().len()).collect();
        asleep.into_iter().for_each(|line| self.ring(line));
    }

    /// Reads the daemon's mail. Returns what concerns connections.
    pub(crate) fn read_mail(&self, world: &World) -> Option<ToProcess> {
        loop {
            let (message, file) = self.inbox.borrow_mut().pop_front()?;
            match (message, file) {
                (ToProcess::Welcome { family, .. }, _) => {
                    self.name.set(family);
                    self.is_welcome.set(true);
                    self.show_links(world);
                }
                (ToProcess::LinkMade { link, peer, .. }, Some(file)) => self.add_link(link, peer, file),
                (ToProcess::LinkGone { link }, _) => _ = self.links.borrow_mut().remove(&link),
                (ToProcess::PeerStatus { family, member }, Some(file)) => {
                    let status = Rc::new(Status::map(file).expect("a page"));
                    let mut peers = self.peers.borrow_mut();
                    let bells = peers.remove(&(family, member)).map(|peer| peer.bells).unwrap_or_default();
                    peers.insert((family, member), Peer { status, bells });
                }
                (ToProcess::PeerBell { family, waiter }, Some(bell)) => {
                    if let Some(peer) = self.peers.borrow_mut().get_mut(&(family, waiter.member)) {
                        peer.bells.insert(waiter.line, Rc::new(bell));
                    }
                }
                (ToProcess::PeerGone { family, member }, _) => {
                    self.peers.borrow_mut().remove(&(family, member));
                }
                (message, _) => return Some(message),
            }
        }
    }

    fn add_link(&self, name: u64, peer: u64, file: OwnedFd) {
        let mut links = self.links.borrow_mut();
        if let Some(link) = links.get(&name) {
            link.peer.set(peer);
            link.epoch.set(self.epoch.get());
            return;
        }
        let memory = Link::map(&file).expect("a link");
        let (peer, epoch) = (Cell::new(peer), Cell::new(self.epoch.get()));
        links.insert(name, Rc::new(LinkView { memory, file, peer, epoch, parties: Cell::new(0) }));
    }

    /// Wakes those that sleep at the other end of a link.
    pub(crate) fn wake(&self, world: &World, (link, party): (u64, u32), sleepers: Option<Sleepers>) {
        let sleeper = match sleepers {
            None => return,
            Some(Sleepers::One(name)) => Some(name),
            Some(Sleepers::Everybody) => None,
        };
        if let Some(name) = sleeper
            && let Some(family) = self.link(link).map(|link| link.peer.get())
            && self.wake_peer(world, family, name)
        {
            return;
        }
        // A process that never sleeps may have no port yet.
        self.open_port(world);
        let sleeper = sleeper.and_then(|name| weft_sockets::WaiterName::from_word(name.to_word()));
        self.tell(world, Post::Other(ToDaemon::Ring { link, party: u8::from(party == 1), sleeper }, None));
    }

    /// Wakes those of these sleepers that are of this process.
    pub(crate) fn wake_own(&self, sleepers: Option<Sleepers>) {
        for (line, words) in self.status.page().0.iter().enumerate() {
            let is_named = match sleepers {
                None => false,
                Some(Sleepers::One(name)) => name.member == self.member && usize::from(name.line) == line,
                Some(Sleepers::Everybody) => true,
            };
            if is_named && words.asleep.load(Relaxed) != 0 {
                self.ring(line);
            }
        }
    }

    /// Returns false if the daemon has to do it.
    fn wake_peer(&self, world: &World, family: u64, name: WaiterName) -> bool {
        let line = usize::from(name.line);
        if family == self.name.get() && name.member == self.member {
            if self.status.page().0.get(line).is_some_and(|line| line.asleep.load(Relaxed) != 0) {
                self.ring(line);
            }
            return true;
        }
        let (status, bell) = match self.peers.borrow().get(&(family, name.member)) {
            Some(peer) => (Rc::clone(&peer.status), peer.bells.get(&name.line).map(Rc::clone)),
            None => return false,
        };
        if status.page().0.get(line).is_some_and(|line| line.asleep.load(Relaxed) == 0) {
            return true;
        }
        if let Some(bell) = &bell {
            // The daemon may have died since it passed the bell on, and the next one names families anew.
            let _rung = rustix::io::write(bell, &1_u64.to_ne_bytes());
            world.processes.borrow().iter().for_each(|process| process.hear_bells());
        }
        bell.is_some()
    }

    /// Rings the bell of a line.
    pub(crate) fn ring(&self, line: usize) {
        if let Some(line) = self.lines.borrow_mut().get_mut(line).filter(|line| line.bell.is_some()) {
            line.rang = true;
        }
    }

    /// True if a thread is in a section of an end that relatives hold as well, and has changed the leg in the words of the
    /// end and not in those of the link yet.
    pub(crate) fn is_between(&self) -> bool {
        let slab = &self.family.slab;
        let is_mine =
            |lock| Lock::new(lock).owner().is_some_and(|owner: Owner| owner.member() == self.member);
        let mut ends = (0..slab.header().ends.load(Relaxed)).filter_map(|slot| slab.end(slot));
        self.is_alive.get()
            && ends.any(|end| {
                let Some(link) = self.link(end.identity.link.load(Relaxed)) else { return false };
                let Some(channel) = link.memory.channel(end.identity.channel.load(Relaxed)) else {
                    return false;
                };
                let party = usize::from(end.identity.party.load(Relaxed) == 1);
                let (sent, received) = (&channel.directions[party], &channel.directions[1 - party]);
                let is_sending = is_mine(&end.outbound.lock)
                    && sent.legs.leg.load(Relaxed) != end.outbound.leg().to_word();
                let is_receiving = is_mine(&end.inbound.lock)
                    && received.consumer.adopted.load(Relaxed) != u64::from(end.inbound.leg().number);
                end.holders.members().nth(1).is_some() && (is_sending || is_receiving)
            })
    }

    /// True if a thread has the lock of a receiving direction.
    pub(crate) fn is_reading(&self) -> bool {
        let slab = &self.family.slab;
        let mut ends = (0..slab.header().ends.load(Relaxed)).filter_map(|slot| slab.end(slot));
        ends.any(|end| {
            Lock::new(&end.inbound.lock).owner().is_some_and(|owner| owner.member() == self.member)
        })
    }

    /// Hears the bells that others have rung.
    pub(crate) fn hear_bells(&self) {
        for line in &mut *self.lines.borrow_mut() {
            if let Some(bell) = &line.bell
                && rustix::io::read(bell, &mut [0; 8]) == Ok(8)
            {
                line.rang = true;
            }
        }
    }

    /// True if the bell of a line rang.
    pub(crate) fn rang(&self, line: usize) -> bool {
        self.lines.borrow().get(line).is_some_and(|line| line.rang)
    }

    /// Takes a line for a sleep.
    pub(crate) fn take_line(&self) -> usize {
        let mut lines = self.lines.borrow_mut();
        let free = lines.iter().position(|line| !line.is_used);
        let line = free.unwrap_or(lines.len());
        if free.is_none() {
            lines.push(Line::default());
        }
        lines[line].is_used = true;
        line
    }

    /// Makes the bell of a line, if it has none yet.
    pub(crate) fn need_bell(&self, world: &World, line: usize) {
        if self.lines.borrow()[line].bell.is_some() {
            return;
        }
        let bell = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).expect("an eventfd");
        let copy = bell.as_fd().try_clone_to_owned().ok();
        self.lines.borrow_mut()[line].bell = Some(bell);
        let line = u8::try_from(line).unwrap_or(u8::MAX);
        self.tell(world, Post::Other(ToDaemon::Bell { line }, copy));
    }

    /// Says that a line's waiter sleeps. Returns the sleep.
    pub(crate) fn doze(&self, line: usize) -> Sleep {
        self.lines.borrow_mut()[line].sleeps += 1;
        self.status.page().0[line].asleep.store(1, Relaxed);
        let waiter = WaiterName { member: self.member, line: u8::try_from(line).unwrap_or(0) };
        Sleep { waiter, number: self.lines.borrow()[line].sleeps }
    }

    /// True if this sleep goes on, or if that cannot be known.
    pub(crate) fn goes_on(&self, sleep: Sleep) -> bool {
        let line = usize::from(sleep.waiter.line);
        let number = self.lines.borrow().get(line).map(|line| line.sleeps);
        sleep.waiter.member != self.member
            || number == Some(sleep.number) && self.status.page().0[line].asleep.load(Relaxed) != 0
    }

    /// Ends the sleep of a line.
    pub(crate) fn awake(&self, line: usize) {
        self.status.page().0[line].asleep.store(0, Relaxed);
        let line = &mut self.lines.borrow_mut()[line];
        (line.is_used, line.rang) = (false, false);
    }
}

/// The sleepers of a word that names all.
pub(crate) const ALL: Option<Sleepers> = Sleepers::from_word(EVERYBODY);
