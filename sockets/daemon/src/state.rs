//! All that the daemon knows, and what each message of a process does to it.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::event::epoll;
use rustix::fs::fstat;
use weft_sockets::layout::MEMBERS;
use weft_sockets::sync::Ordering;
use weft_sockets::{Claims, MAX_LOG2, MIN_LOG2, Reason, Slab, Status, ToDaemon, ToProcess, VERSION};

use crate::containers::Containers;
use crate::foreign::Foreign;
use crate::hosts::Hosts;
use crate::kernel::pid_of;
use crate::limits::Limits;
use crate::link::{End, Link};
use crate::pending::{Drain, Succession};
use crate::port::{Mail, Member, Outbox, Port, Received};
use crate::rules::Rules;
use crate::sums::Sums;

/// All that the daemon knows.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) epoll: OwnedFd,
    pub(crate) ports: BTreeMap<u64, Port>,
    pub(crate) families: BTreeMap<u64, Family>,
    pub(crate) links: BTreeMap<u64, Link>,
    pub(crate) claims: Claims,
    pub(crate) limits: Limits,
    pub(crate) rules: Rules,
    /// What the families did that have ended.
    pub(crate) sums: Sums,
    /// Other hosts, if there are lanes.
    pub(crate) hosts: Option<Hosts>,
    /// The user of the daemon.
    pub(crate) uid: u32,
    pub(crate) epoch: u64,
    next: u64,
    /// The families by the memory of their slabs.
    by_slab: HashMap<(u64, u64), u64>,
    /// The ports with messages to be sent.
    unsent: BTreeSet<u64>,
    /// Places of families that a process has taken for a child that it was about to fork, and when they are looked at
    /// again.
    pub(crate) unborn: BTreeMap<(u64, u16), Duration>,
    /// The connections that are on their way back to TCP.
    pub(crate) drains: Vec<Drain>,
    pub(crate) succession: Succession,
    /// The network namespaces of the processes.
    pub(crate) containers: Containers,
}

/// Processes with one slab.
#[derive(Debug)]
pub(crate) struct Family {
    pub(crate) uid: u32,
    pub(crate) slab: Slab,
    pub(crate) members: BTreeMap<u16, u64>,
    pub(crate) links: BTreeSet<u64>,
    /// The last channel of an end in each place of the slab: link, number and party.
    pub(crate) channels: HashMap<u32, (u64, u32, usize)>,
    pub(crate) by_slab: (u64, u64),
}

/// A process has broken a rule of the messages. It loses its port.
#[derive(Debug)]
pub(crate) struct Broken;

impl State {
    pub(crate) fn new(uid: u32, rules: Rules, epoll: OwnedFd) -> std::io::Result<Self> {
        let mut it = Self {
            epoll,
            ports: BTreeMap::new(),
            families: BTreeMap::new(),
            links: BTreeMap::new(),
            claims: Claims::default(),
            limits: Limits::default(),
            rules,
            sums: Sums::default(),
            hosts: None,
            uid,
            epoch: 0,
            next: 1,
            by_slab: HashMap::new(),
            unsent: BTreeSet::new(),
            unborn: BTreeMap::new(),
            drains: Vec::new(),
            succession: Succession::None,
            containers: Containers::default(),
        };
        it.epoch = u64::from_ne_bytes(crate::kernel::random()?);
        Ok(it)
    }

    /// Takes a process that has connected. Returns false if its user has too many.
    pub(crate) fn accept(&mut self, socket: OwnedFd, uid: u32, pid: i32) -> bool {
        // Commands of root come to each daemon.
        let is_served = self.uid == 0 || self.uid == uid || uid == 0;
        let socket = self.limits.foreign(uid, socket);
        if !is_served || !self.limits.take_port(uid, Some(&socket)) {
            return false;
        }
        let id = self.name();
        let event = epoll::EventData::new_u64(id << 1);
        if epoll::add(&self.epoll, &socket, event, epoll::EventFlags::IN).is_err() {
            self.limits.give_port(uid);
            return false;
        }
        self.ports.insert(id, Port::new(uid, pid, Some(socket)));
        true
    }

    /// Reads what a process has sent, at most a share of it.
    pub(crate) fn read(&mut self, id: u64, now: Duration) {
        for _ in 0..SHARE {
            let Some(port) = self.ports.get(&id) else { return };
            let handled = match port.receive() {
                Received::Nothing => return,
                Received::Message(message, descriptors) => {
                    if self.has_room(port.uid, &message) {
                        self.handle(id, message, descriptors, now)
                    } else {
                        self.turn_away(id);
                        return;
                    }
                }
                Received::Order(order) => {
                    self.obey(id, order, now);
                    Ok(())
                }
                Received::End => Err(Broken),
            };
            if handled.is_err() {
                return self.disconnect(id);
            }
        }
    }

    /// Reads what a dead process has left.
    pub(crate) fn read_rest(&mut self, id: u64, now: Duration) {
        for _ in 0..SHARE {
            if self.ports.get(&id).is_none_or(|port| port.socket().is_none()) {
                return;
            }
            self.read(id, now);
        }
    }

    /// Drops the claims that have waited in vain, and looks for children that were about to be forked.
    pub(crate) fn expire(&mut self, now: Duration) {
        self.look_at_probes(now);
        while let Some(claimant) = self.claims.poll_expired(now) {
            self.drop_claim(claimant, Reason::NoPartner);
        }
        self.look_for_births(now);
        self.look_at_drains(now);
    }

    /// Returns when [`expire`](Self::expire) has something to do.
    pub(crate) fn deadline(&mut self) -> Option<Duration> {
        let births = self.unborn.values().copied();
        let deadlines = [self.lanes_deadline(), self.drains_deadline(), self.probes_deadline()];
        let others = deadlines.into_iter().chain([self.claims.deadline()]);
        births.chain(others.flatten()).min()
    }

    /// Sends what is to be sent. Returns true if some of it has to be tried again soon.
    pub(crate) fn flush(&mut self) -> bool {
        let mut is_stalled = false;
        while let Some(id) = self.unsent.pop_first() {
            let Some(port) = self.ports.get_mut(&id) else { continue };
            let (sent, outbox) = port.flush();
            let flags = if outbox == Outbox::Empty { epoll::EventFlags::IN } else { epoll::EventFlags::OUT };
            // A port that cannot be sent to is not read from: it asks for nothing more until it reads.
            if let Some(socket) = port.socket().filter(|_| outbox != Outbox::Lost) {
                let flags = if outbox == Outbox::Stalled { epoll::EventFlags::empty() } else { flags };
                let _same = epoll::modify(&self.epoll, socket, epoll::EventData::new_u64(id << 1), flags);
            }
            self.tell_mail(id, sent);
            match outbox {
                Outbox::Lost => self.disconnect(id),
                Outbox::Stalled => is_stalled = true,
                Outbox::Empty | Outbox::Full => {}
            }
        }
        let stalled = self.ports.iter().filter(|_| is_stalled).filter(|(_, port)| port.has_mail());
        self.unsent.extend(stalled.map(|(id, _)| *id));
        is_stalled
    }

    /// Tries later to send to a port whose socket has room again.
    pub(crate) fn resume(&mut self, id: u64) {
        self.unsent.insert(id);
    }

    /// Puts a message into a port's outbox.
    pub(crate) fn send(&mut self, id: u64, message: ToProcess, descriptor: Option<Arc<Foreign>>) {
        let Some(port) = self.ports.get_mut(&id) else { return };
        if port.push(Mail { message, descriptor }) {
            self.unsent.insert(id);
        } else {
            self.disconnect(id);
        }
    }

    /// True if the daemon can keep what comes with a message. A port has room for its own registration.
    fn has_room(&self, uid: u32, message: &ToDaemon) -> bool {
        let is_kept = message.descriptors() > 0 && !matches!(message, ToDaemon::Register { .. });
        !is_kept || self.limits.has_room(uid)
    }

    /// Turns away a process whose user has too many descriptors here, and tells it so. It may come back later.
    fn turn_away(&mut self, id: u64) {
        self.send(id, ToProcess::Refused { reason: Reason::Limit }, None);
        let sent = self.ports.get_mut(&id).map_or(0, |port| port.flush().0);
        self.tell_mail(id, sent);
        if let Some(port) = self.ports.get_mut(&id)
            && let Some(member) = &mut port.member
        {
            let bells = core::mem::take(&mut member.bells);
            self.limits.give_descriptors(port.uid, bells.len());
        }
        self.disconnect(id);
    }

    /// Closes a port. A registered process stays known until it ends.
    pub(crate) fn disconnect(&mut self, id: u64) {
        self.claims.forget(id);
        self.forget_networks(id);
        self.end_succession(id);
        let Some(port) = self.ports.get_mut(&id) else { return };
        port.disconnect();
        if port.member.is_none() {
            let uid = port.uid;
            self.ports.remove(&id);
            self.limits.give_port(uid);
        }
    }

    /// Returns a number that nothing has had before.
    pub(crate) fn name(&mut self) -> u64 {
        let name = self.next;
        self.next += 1;
        name
    }

    /// Returns a name for a link or a family: not even an earlier daemon has used it.
    pub(crate) fn lasting_name(&mut self) -> u64 {
        self.epoch << 32 | self.name()
    }

    /// True if this daemon has named a link or a family.
    pub(crate) const fn is_of_this_daemon(&self, name: u64) -> bool {
        name >> 32 == self.epoch & 0xffff_ffff
    }

    pub(crate) fn member(&self, id: u64) -> Option<&Member> {
        self.ports.get(&id)?.member.as_ref()
    }

    pub(crate) fn member_mut(&mut self, id: u64) -> Option<&mut Member> {
        self.ports.get_mut(&id)?.member.as_mut()
    }

    /// Takes a message with the descriptors that came with it.
    pub(crate) fn handle(
        &mut self,
        id: u64,
        message: ToDaemon,
        descriptors: Vec<Foreign>,
        now: Duration,
    ) -> Result<(), Broken> {
        let mut descriptors = descriptors.into_iter();
        let mut next = || descriptors.next().ok_or(Broken);
        match message {
            ToDaemon::Register { oldest, newest, member } => {
                let memory = [next()?, next()?, next()?];
                let pid = self.ports.get(&id).map(|port| port.pid);
                if pid_of(&memory[0]) != pid {
                    return Err(Broken);
                }
                self.register(id, (oldest, newest, member), memory, now)
            }
            ToDaemon::Bell { line } => {
                let file = next()?;
                self.add_bell(id, line, file)
            }
            ToDaemon::Claim { slot, generation, digests } => {
                let socket = next()?;
                self.handle_claim(id, (slot, generation), (socket, digests), now)
            }
            ToDaemon::Withdraw { slot, generation } => {
                let is_late = !self.claims.withdraw(weft_sockets::Claimant { process: id, slot, generation });
                // The end is closed, and its process takes the offer that is on its way only with its next call.
                if is_late && let Some(family) = self.member(id).map(|member| member.family) {
                    self.sweep(family);
                }
                Ok(())
            }
            ToDaemon::WantRing { link, channel, party, log2 } => self.grow(id, link, (channel, party), log2),
            ToDaemon::ReturnRing { link, channel, party, ring } => {
                let Some((uid, party)) = self.party(id, link, party)? else { return Ok(()) };
                let is_its = self.links.get_mut(&link).is_some_and(|link| link.shrink(channel, party, ring));
                if is_its {
                    self.limits.give_ring(uid, ring.len());
                    self.tell_returned(link, channel, ring);
                }
                Ok(())
            }
            ToDaemon::Closed { slot, generation, link, channel, party } => {
                let Some((_, party)) = self.party(id, link, party)? else { return Ok(()) };
                let end = End { slot, generation };
                if self.links.get(&link).is_some_and(|link| link.end(channel, party) == Some(end)) {
                    self.leave(id, end, (link, channel, party), now);
                }
                Ok(())
            }
            ToDaemon::Ring { link, party, sleeper } => self.ring(id, link, party, sleeper),
            ToDaemon::ShowLink { link, party } => {
                let file = next()?;
                self.adopt(id, (link, usize::from(party)), file, now)
            }
            ToDaemon::Network {} => {
                let file = next()?;
                self.add_network(id, file)
            }
            ToDaemon::Ask { slot, generation } => {
                let socket = next()?;
                self.ask_late(id, (slot, generation), &socket, now)
            }
        }
    }

    /// Takes a process among the members of its family. The pidfd is of this process.
    pub(crate) fn register(
        &mut self,
        id: u64,
        (oldest, newest, place): (u16, u16, u16),
        [pidfd, status, slab]: [Foreign; 3],
        now: Duration,
    ) -> Result<(), Broken> {
        let (uid, pid) = self.ports.get(&id).map(|port| (port.uid, port.pid)).ok_or(Broken)?;
        if self.member(id).is_some() || usize::from(place) >= MEMBERS {
            return Err(Broken);
        }
        if !(oldest..=newest).contains(&VERSION) {
            return self.refuse(id, Reason::Version, (&slab, place));
        }
        let page = Status::map(&status).map_err(|_| Broken)?;
        let Some(family) = self.family(uid, &slab)? else {
            return self.refuse(id, Reason::User, (&slab, place));
        };
        let header = self.families.get(&family).map(|family| family.slab.header());
        let words = header.and_then(|header| header.members.get(usize::from(place))).ok_or(Broken)?;
        let identity = (words.pid.load(Ordering::Acquire), words.started.load(Ordering::Relaxed));
        let mut member = Member {
            family,
            place,
            identity,
            pidfd,
            status: Some((Arc::new(status.found_harmless()), page)),
            bells: BTreeMap::new(),
            known_by: BTreeSet::new(),
            knows: BTreeSet::new(),
            links: BTreeSet::new(),
        };
        self.replace_earlier(id, pid, &mut member, now)?;
        let data = epoll::EventData::new_u64(id << 1 | 1);
        epoll::add(&self.epoll, &member.pidfd, data, epoll::EventFlags::IN).map_err(|_| Broken)?;
        if let Some(family) = self.families.get_mut(&family) {
            family.members.insert(place, id);
        }
        if let Some(port) = self.ports.get_mut(&id) {
            port.member = Some(member);
        }
        self.send(id, ToProcess::Welcome { version: VERSION, family, epoch: self.epoch }, None);
        self.sweep(family);
        Ok(())
    }

    fn grow(&mut self, id: u64, name: u64, channel: (u32, u8), log2: u8) -> Result<(), Broken> {
        let (channel, party) = channel;
        let Some((uid, side)) = self.party(id, name, party)? else { return Ok(()) };
        if !(MIN_LOG2..=MAX_LOG2).contains(&log2) {
            return Err(Broken);
        }
        if self.ask_for_ring(id, (name, channel), log2) || !self.limits.take_ring(uid, 1 << log2) {
            return Ok(());
        }
        match self.links.get_mut(&name).and_then(|link| link.grow(channel, side, log2)) {
            Some(ring) => self.send(id, ToProcess::RingMade { link: name, channel, party, ring }, None),
            None => self.limits.give_ring(uid, 1 << log2),
        }
        Ok(())
    }

    /// Tells a process that it cannot register. Its slab says that there is mail, as it would to a member.
    fn refuse(&mut self, id: u64, reason: Reason, (slab, place): (&Foreign, u16)) -> Result<(), Broken> {
        let slab = Slab::map(slab).map_err(|_| Broken)?;
        let words = slab.header().members.get(usize::from(place)).ok_or(Broken)?;
        self.send(id, ToProcess::Refused { reason }, None);
        let (sent, _) = self.ports.get_mut(&id).ok_or(Broken)?.flush();
        words.mail.fetch_add(sent, Ordering::Release);
        Ok(())
    }

    /// Ends what the same process registered before: it lost its port, or runs another program now.
    fn replace_earlier(
        &mut self,
        id: u64,
        pid: i32,
        member: &mut Member,
        now: Duration,
    ) -> Result<(), Broken> {
        let earlier = self.ports.iter().filter(|(other, port)| **other != id && port.pid == pid);
        let earlier: Vec<_> = earlier.filter(|(_, port)| port.member.is_some()).map(|(id, _)| *id).collect();
        let same = self.families.get(&member.family).and_then(|family| family.members.get(&member.place));
        if same.is_some_and(|same| !earlier.contains(same)) {
            return Err(Broken);
        }
        let same = same.copied();
        for earlier in earlier {
            if Some(earlier) != same {
                self.bury(earlier, now);
                continue;
            }
            // The page and the doorbells are the process's own still: those that know it need not hear of it.
            self.claims.forget(earlier);
            self.forget_networks(earlier);
            let Some(old) = self.ports.remove(&earlier) else { continue };
            let uid = old.uid;
            self.limits.give_port(uid);
            let Some(old) = old.member else { continue };
            self.limits.give_descriptors(uid, old.bells.len());
            for (other, is_knowing) in old
                .known_by
                .iter()
                .map(|other| (*other, true))
                .chain(old.knows.iter().map(|other| (*other, false)))
            {
                let Some(other) = self.member_mut(other) else { continue };
                let set = if is_knowing { &mut other.knows } else { &mut other.known_by };
                set.remove(&earlier);
                if is_knowing {
                    set.insert(id);
                }
            }
            member.known_by = old.known_by;
        }
        Ok(())
    }

    /// Returns the family with this slab. `None` if it belongs to another user.
    fn family(&mut self, uid: u32, slab: &Foreign) -> Result<Option<u64>, Broken> {
        // First: of a file that is not in memory, its server would have to tell.
        let memory = Slab::map(slab).map_err(|_| Broken)?;
        let stat = fstat(slab).map_err(|_| Broken)?;
        let by_slab = (stat.st_dev, stat.st_ino);
        if let Some(name) = self.by_slab.get(&by_slab) {
            let is_its = self.families.get(name).is_some_and(|family| family.uid == uid);
            return Ok(is_its.then_some(*name));
        }
        let (slab, name) = (memory, self.lasting_name());
        let (members, links, channels) = (BTreeMap::new(), BTreeSet::new(), HashMap::new());
        self.families.insert(name, Family { uid, slab, members, links, channels, by_slab });
        self.by_slab.insert(by_slab, name);
        Ok(Some(name))
    }

    /// Forgets a family and returns it.
    pub(crate) fn remove_family(&mut self, name: u64) -> Option<Family> {
        let family = self.families.remove(&name)?;
        self.by_slab.remove(&family.by_slab);
        Some(family)
    }
}

/// Messages of a process that are handled in a row.
const SHARE: usize = 64;
