//! A simulated daemon of one of two hosts: it follows `remote.rs` and `remote/turns.rs` of the real one.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use weft_sockets::{Reason, ToDaemon, ToProcess};
use weft_sockets_stepped::end::{FAR, Phase};
use weft_sockets_stepped::far::{Duty, Letter, Notice, NoticeKind, Outgoing, Session};
use weft_sockets_stepped::sync::Ordering::Relaxed;
use weft_sockets_stepped::{Broken, Link, Sleepers, WaiterName};

use super::super::connection::Connection;
use super::super::lanes::{Message, News, Packet};
use super::super::places::{FAR_NAME, SMALLER, small};
use super::super::process::{Family, Process};
use super::super::service::Post;
use super::super::world::{Waits, World};
use super::channel::{Channel, FarLink, Half};
use crate::relay::{Moment, Turn};

/// The waiter of a daemon.
pub(super) const OURS: WaiterName = WaiterName { member: 0, line: 0 };

/// Whether there is a lane.
#[derive(Debug)]
pub(super) enum Contact {
    /// There is none. The daemon does not ask before this time.
    None(u64),
    /// This daemon has asked for a lane, or the other one has.
    Asking(u64),
    Answering(u64),
    Up(u64),
}

/// A daemon.
pub(crate) struct Host {
    pub(super) world: Rc<World>,
    /// 0 or 1.
    pub(super) number: usize,
    /// The daemon as others wake it.
    pub(super) process: Rc<Process>,
    pub(super) epoch: u64,
    pub(super) contact: Contact,
    /// When the session lost its lane.
    pub(super) lost: Option<u64>,
    pub(super) session: Option<(u64, Session<Message>)>,
    pub(super) channels: BTreeMap<u32, Channel>,
    pub(super) halves: BTreeMap<u32, Half>,
    /// The channels of sessions that have ended, whose processes have not closed their ends yet.
    pub(super) orphans: Vec<Half>,
    next_channel: u32,
    /// The claims of this host's processes, and those that the other daemon has told.
    pub(super) claims: Vec<Claim>,
    pub(super) remote: Vec<(u64, usize)>,
    pub(super) next_claim: u64,
    pub(super) links: BTreeMap<u64, FarLink>,
    /// The links of earlier daemons that were shown to this one, with the family and the memory of each.
    pub(super) shown: BTreeMap<u64, (Rc<Family>, Rc<Link>)>,
    /// Free places of the lane.
    pub(super) free: u32,
}

/// A claim of a process.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    pub(super) process: Rc<Process>,
    pub(super) connection: Rc<Connection>,
    pub(super) end: (u32, u32),
    pub(super) until: u64,
    /// Its name, if the other daemon was told.
    pub(super) told: Option<u64>,
}

impl Contact {
    pub(super) const fn lane(&self) -> Option<u64> {
        match self {
            Self::None(_) => None,
            Self::Asking(lane) | Self::Answering(lane) | Self::Up(lane) => Some(*lane),
        }
    }
}

impl Host {
    pub(crate) fn new(world: &Rc<World>, number: usize, epoch: u64) -> Self {
        let process = world.new_daemon(number);
        Self {
            world: Rc::clone(world),
            number,
            process,
            epoch,
            contact: Contact::None(0),
            lost: None,
            session: None,
            channels: BTreeMap::new(),
            halves: BTreeMap::new(),
            orphans: Vec::new(),
            next_channel: 0,
            claims: Vec::new(),
            remote: Vec::new(),
            next_claim: 0,
            links: BTreeMap::new(),
            shown: BTreeMap::new(),
            free: 0,
        }
    }

    pub(crate) fn process(&self) -> Rc<Process> {
        Rc::clone(&self.process)
    }

    /// Serves for ever.
    pub(crate) fn run(mut self) {
        loop {
            self.process.set_asleep(false);
            self.beat();
            self.look_for_lanes();
            self.expire();
            let _busy = (0..TURNS).all(|_| self.serve(false));
            self.process.set_asleep(true);
            // What was published before that word has not rung.
            if !self.serve(true) {
                let bell = Some((self.process.number, 0));
                let until = self.deadline();
                self.world.wait(Waits { until, bell, news: Some(self.number), ..Waits::default() });
            }
        }
    }

    /// Tells the processes that this daemon is alive.
    fn beat(&self) {
        self.links.values().for_each(|link| _ = link.memory.header().heartbeat.fetch_add(1, Relaxed));
    }

    pub(super) fn now(&self) -> u64 {
        self.world.now.get()
    }

    /// Handles what is there. Returns false if there was nothing.
    fn serve(&mut self, is_idle: bool) -> bool {
        let mut is_busy = false;
        loop {
            let news = self.world.lanes.borrow_mut().inboxes[self.number].pop_front();
            let Some(news) = news else { break };
            self.hear(news);
            is_busy = true;
        }
        let numbers: Vec<u32> = self.channels.keys().copied().collect();
        for own in numbers {
            is_busy |= (0..STEPS).take_while(|_| self.step(own, is_idle)).count() > 0;
        }
        self.flush();
        is_busy
    }

    /// Sends what a channel has to send next. Returns false if there is nothing.
    fn step(&mut self, own: u32, is_idle: bool) -> bool {
        self.flush();
        if !self.has_room() {
            return false;
        }
        let Some(mut channel) = self.channels.remove(&own) else { return false };
        let moment = Moment { most: MOST, is_closed: channel.is_closed, is_idle };
        let peer = channel.peer;
        let mut turn = channel.relay.next(channel.half.words(), moment);
        // The process has not heard of the channel yet, and has shut down what it sends.
        if matches!(turn, Ok(Turn::Nothing))
            && !channel.is_closed
            && !channel.relay.is_broken()
            && channel.relay.outgoing.may_end_before_ring()
        {
            let end = channel.half.end_of_shut();
            let duty = end.and_then(|end| channel.relay.outgoing.end_before_ring(end));
            turn = duty.map_or(turn, |duty| Ok(Turn::Send(duty)));
        }
        let message = match turn {
            Ok(Turn::Nothing) => None,
            Ok(Turn::Over) => {
                self.free_rings(&channel.half);
                return false;
            }
            Ok(Turn::Send(Duty::Write { from, to, len, value })) => {
                let notice = Notice { kind: NoticeKind::Data, channel: peer, value };
                let memory = [self.links[&channel.half.link].stag, channel.stag];
                Some(Message::Write { own, memory, at: [from, to], len, notice })
            }
            Ok(Turn::Send(Duty::Leg { number, ring, start })) => {
                Some(Message::Letter(Letter::Leg { channel: peer, number, ring, start }))
            }
            Ok(Turn::Send(Duty::Final { end })) => {
                Some(Message::Letter(Letter::Final { channel: peer, end }))
            }
            Ok(Turn::Send(Duty::Notice { kind, value })) => {
                Some(Message::Notice(Notice { kind, channel: peer, value }))
            }
            Err(Broken) => {
                self.break_channel(&mut channel);
                None
            }
        };
        self.channels.insert(own, channel);
        let is_busy = message.is_some();
        if let Some(message) = message {
            self.world.note(format_args!("daemon {} sends {message:?}", self.number));
            self.push(message);
        }
        is_busy
    }

    /// A rule of a channel was broken.
    pub(super) fn break_channel(&mut self, channel: &mut Channel) {
        if !channel.half.connection.is_excused() {
            self.world.fail(format!("daemon {}: a rule was broken, {:?}", self.number, channel.relay));
        }
        channel.relay.break_off(channel.half.words());
        self.wake(&channel.half.process.family, Some(Sleepers::Everybody));
        let kind = NoticeKind::Reset;
        self.push(Message::Notice(Notice { kind, channel: channel.peer, value: 0 }));
    }

    pub(super) fn push(&mut self, message: Message) {
        if let Some((_, session)) = &mut self.session {
            session.push(message);
        }
    }

    fn has_room(&self) -> bool {
        matches!(self.contact, Contact::Up(_))
            && self.free > 0
            && self.session.as_ref().is_some_and(|(_, session)| session.is_posted())
    }

    /// Gives the lane what it has room for.
    pub(super) fn flush(&mut self) {
        let (Contact::Up(lane), Some((_, session))) = (&self.contact, &mut self.session) else { return };
        let (lane, to) = (*lane, 1 - self.number);
        while self.free > 0 {
            let (packet, number) =
                if let Some(value) = session.acknowledgment(self.world.random.borrow_mut().percent(20)) {
                    (Packet::Acknowledgment(value), None)
                } else if let Some((number, message)) = session.post() {
                    (Packet::Message(message.clone()), Some(number))
                } else {
                    break;
                };
            self.free -= 1;
            let (arrival, done) = (self.world.later(), self.world.later());
            let mut lanes = self.world.lanes.borrow_mut();
            lanes.send(to, News::Packet { lane, packet }, arrival);
            // TCP may have the octets long before the other daemon sees them, or tell so only later.
            lanes.later(self.number, News::Done { lane, number }, done);
        }
    }

    pub(super) fn wake(&self, family: &Rc<Family>, sleepers: Option<Sleepers>) {
        let processes = self.world.processes.borrow().clone();
        for process in processes.iter().filter(|process| Rc::ptr_eq(&process.family, family)) {
            process.wake_own(sleepers);
        }
    }

    /// Tells a process something.
    pub(super) fn tell(&self, process: &Process, message: ToProcess, file: Option<OwnedFd>) {
        let arrival = self.world.later();
        self.world.services[self.number].borrow_mut().mail(process.number, message, file, arrival);
    }

    fn hear(&mut self, news: News) {
        match news {
            News::Post(process, post) => {
                let process = Rc::clone(&self.world.processes.borrow()[process]);
                self.hear_process(&process, post);
            }
            News::Dead(process) => self.bury(process),
            other => self.hear_lane(other),
        }
    }

    fn hear_process(&mut self, process: &Rc<Process>, post: Post) {
        match post {
            Post::Claim { slot, generation, socket } => self.claim(process, (slot, generation), socket),
            Post::Other(ToDaemon::Withdraw { slot, generation }, _) => {
                let is_its = |claim: &Claim| {
                    Rc::ptr_eq(&claim.process.family, &process.family) && claim.end == (slot, generation)
                };
                let taken = self.claims.iter().position(is_its).map(|at| self.claims.swap_remove(at));
                if let Some(id) = taken.and_then(|claim| claim.told) {
                    self.push(Message::Letter(Letter::Withdraw { id }));
                }
                self.sweep(&process.family);
            }
            Post::Other(ToDaemon::Closed { link, channel, .. }, _) => {
                if let Some(own) = self.find(link, channel)
                    && let Some(channel) = self.channels.get_mut(&own)
                {
                    let (end, member) = (channel.half.end, process.member);
                    let words = process.family.slab.end(end.0).expect("an end");
                    let is_same = words.state().generation == end.1;
                    let is_held = is_same && words.holders.members().any(|other| other != member);
                    channel.is_closed |= !is_held;
                }
                self.free_orphans();
            }
            Post::Other(ToDaemon::Ask { slot, generation }, _) => self.ask_late(process, (slot, generation)),
            Post::Other(ToDaemon::ShowLink { link, party }, Some(file)) => {
                self.adopt(process, link, party.into(), &file);
            }
            Post::Other(ToDaemon::WantRing { link, channel, log2, .. }, _) => {
                if let Some(own) = self.find(link, channel) {
                    let channel = self.channels[&own].peer;
                    let log2 = log2 - SMALLER;
                    self.push(Message::Letter(Letter::WantRing { channel, log2 }));
                }
            }
            Post::Other(ToDaemon::ReturnRing { link, channel, ring, .. }, _) => {
                let (Some(own), Some(ring)) = (self.find(link, channel), small(ring)) else { return };
                let Some(channel) = self.channels.get_mut(&own) else { return };
                let peer = channel.peer;
                if let Some(there) = channel.relay.outgoing.remove_ring(ring) {
                    self.links.get_mut(&link).into_iter().for_each(|link| channel.half.give_back(link, ring));
                    self.push(Message::Letter(Letter::ReturnRing { channel: peer, ring: there }));
                }
            }
            _ => {}
        }
    }

    /// Lets the connections of an earlier daemon's link go on by TCP, as `adopt.rs` does.
    fn adopt(&mut self, process: &Process, name: u64, party: u32, file: &OwnedFd) {
        let memory = Rc::new(Link::map(file).expect("a link"));
        self.shown.insert(name, (Rc::clone(&process.family), Rc::clone(&memory)));
        let slab = &process.family.slab;
        let ends = (0..slab.header().ends.load(Relaxed)).filter_map(|slot| slab.end(slot));
        let its = ends.filter(|end| {
            let identity = &end.identity;
            let place = (identity.link.load(Relaxed), identity.party.load(Relaxed));
            end.state().phase == Phase::Offered && end.has(FAR) && place == (name, party)
        });
        for end in its {
            let channel = memory.channel(end.identity.channel.load(Relaxed)).expect("a channel");
            let sleepers = Outgoing::lower(&channel.directions[party as usize]);
            self.wake(&process.family, sleepers);
            self.world.tally.borrow_mut().operation("connection of an earlier daemon", 0);
        }
    }

    pub(super) fn find(&self, link: u64, number: u32) -> Option<u32> {
        let mut channels = self.channels.iter();
        let is_it = |channel: &Channel| channel.half.link == link && channel.half.number == number;
        channels.find(|(_, channel)| is_it(channel)).map(|(own, _)| *own)
    }

    /// The claims of a dead process, and its ends that no relative has.
    fn bury(&mut self, process: usize) {
        self.claims.retain(|claim| claim.process.number != process);
        let family = Rc::clone(&self.world.processes.borrow()[process].family);
        self.sweep(&family);
    }

    /// The ends of a family that were closed without a word, or by a process that was killed.
    pub(super) fn sweep(&mut self, family: &Rc<Family>) {
        for channel in self.channels.values_mut() {
            let is_left = Rc::ptr_eq(&channel.half.process.family, family) && channel.half.is_left();
            if is_left && !channel.is_closed {
                channel.half.bury();
                channel.is_closed = true;
            }
        }
        self.free_orphans();
    }

    /// Gives the rings back that nobody uses any more.
    fn free_orphans(&mut self) {
        let (left, held): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.orphans).into_iter().partition(Half::is_left);
        self.orphans = held;
        left.iter().for_each(|half| self.free_rings(half));
    }

    fn expire(&mut self) {
        let now = self.now();
        let (due, waiting): (Vec<_>, Vec<_>) =
            self.claims.drain(..).partition(|claim: &Claim| claim.until <= now);
        self.claims = waiting;
        for claim in due {
            self.drop_claim(&claim);
            if let Some(id) = claim.told {
                self.push(Message::Letter(Letter::Withdraw { id }));
            }
        }
    }

    pub(super) fn drop_claim(&self, claim: &Claim) {
        let ((slot, generation), reason) = (claim.end, Reason::NoPartner);
        self.tell(&claim.process, ToProcess::Dropped { slot, generation, reason }, None);
    }

    fn deadline(&self) -> Option<u64> {
        let claims = self.claims.iter().map(|claim| claim.until);
        claims.chain(self.lanes_deadline()).min()
    }

    /// Returns a number for a channel.
    pub(super) const fn new_number(&mut self) -> u32 {
        self.next_channel += 1;
        self.next_channel
    }

    /// The family that stands for the other host.
    pub(super) const fn name(&self) -> u64 {
        FAR_NAME | self.epoch << 8 | self.number as u64
    }

    pub(super) fn free_rings(&mut self, half: &Half) {
        if let Some(link) = self.links.get_mut(&half.link) {
            half.rings.iter().for_each(|ring| link.give(*ring));
        }
    }
}

/// Rounds of work until others have their turn.
const TURNS: u32 = 16;
/// What a channel sends until the others have their turn.
const STEPS: usize = 8;
/// Octets of a Write at most.
const MOST: u32 = 100;
/// Places of a lane.
pub(super) const PLACES: u32 = 6;
