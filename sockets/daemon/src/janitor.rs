//! What the daemon does after a process has ended.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;

use rustix::event::epoll;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use weft_sockets::end::Phase;
use weft_sockets::layout::{Direction, FINAL, KILLED, RESET};
use weft_sockets::sync::Ordering;
use weft_sockets::{Carrier, Leg, ToProcess};

use crate::foreign::Foreign;
use crate::limits::ADOPTED;
use crate::link::End;
use crate::port::{Member, Port};
use crate::state::State;

impl State {
    /// Forgets a process that has ended, and frees what only it had.
    pub(crate) fn bury(&mut self, id: u64, now: Duration) {
        self.claims.forget(id);
        self.forget_networks(id);
        let Some(port) = self.ports.remove(&id) else { return };
        self.limits.give_port(port.uid);
        let Some(member) = port.member else { return };
        self.limits.give_descriptors(port.uid, member.bells.len());
        let gone = ToProcess::PeerGone { family: member.family, member: member.place };
        for other in &member.known_by {
            self.send(*other, gone, None);
        }
        for (others, is_knowing) in [(&member.known_by, true), (&member.knows, false)] {
            for other in others {
                let other = self.ports.get_mut(other).and_then(|port| port.member.as_mut());
                other.map(
                    |other| if is_knowing { other.knows.remove(&id) } else { other.known_by.remove(&id) },
                );
            }
        }
        if let Some(family) = self.families.get_mut(&member.family)
            && family.members.get(&member.place) == Some(&id)
        {
            family.members.remove(&member.place);
            self.release(member.family, member.place, member.identity);
            let is_same_namespace = u32::try_from(port.pid) == Ok(member.identity.0);
            if is_same_namespace {
                self.watch_relatives(member.family, now);
            }
        }
        self.end_family_if_dead(member.family);
    }

    /// Looks again at places that were taken for children.
    pub(crate) fn look_for_births(&mut self, now: Duration) {
        let due: BTreeSet<u64> =
            self.unborn.iter().filter(|(_, at)| **at <= now).map(|((family, _), _)| *family).collect();
        for family in due {
            self.watch_relatives(family, now);
            self.end_family_if_dead(family);
        }
    }

    /// Frees the ends that only this member held, and its place.
    fn release(&mut self, name: u64, place: u16, identity: (u32, u64)) {
        let Some(family) = self.families.get(&name) else { return };
        let header = family.slab.header();
        let mut channels = Vec::new();
        for (slot, end) in family.slab.ends() {
            let state = end.state();
            let is_closed = state.phase == Phase::Closed;
            let is_last = state.phase != Phase::Free && end.holders.remove(place);
            // A member may have closed an end and not have told it.
            let is_left = is_closed && end.holders.members().next().is_none();
            if !is_last && !is_left {
                continue;
            }
            if !is_closed {
                header.totals.add(end);
            }
            let identity = &end.identity;
            let channel = identity.channel.load(Ordering::Relaxed);
            let party = identity.party.load(Ordering::Relaxed);
            channels.push((identity.link.load(Ordering::Relaxed), channel, party, (slot, state.generation)));
            end.advance(state, Phase::Free);
        }
        if let Some(words) = header.members.get(usize::from(place))
            && (words.pid.load(Ordering::Acquire), words.started.load(Ordering::Relaxed)) == identity
        {
            // A process that takes the place for a child looks for one without a start time.
            words.started.store(0, Ordering::Relaxed);
            words.pid.store(0, Ordering::Release);
        }
        for (link, channel, party, end) in channels {
            let Ok(party) = usize::try_from(party) else { continue };
            let Some(known) = self.links.get(&link).and_then(|link| {
                let family = *link.families.get(party)?;
                Some((family, (*link.channels.get(&channel)?.ends.get(party)?)?))
            }) else {
                continue;
            };
            if known.0 == name && (known.1.slot, known.1.generation) == end {
                self.reset(link, channel, party);
                self.close(link, channel, party);
            }
        }
    }

    /// Tells the other end that this party is dead, if the kernel's socket cannot: its FIN was sent before, or comes behind
    /// octets that the other end does not take while it waits for room in a ring.
    fn reset(&self, name: u64, number: u32, party: usize) {
        let Some(link) = self.links.get(&name) else { return };
        let Some(channel) = link.memory.channel(number) else { return };
        let Some((own, other)) = channel.directions.get(party).zip(channel.directions.get(1 - party)) else {
            return;
        };
        let flags = &own.producer.flags;
        let news = match flags.load(Ordering::Acquire) & FINAL {
            0 if has_unread(other) => KILLED,
            0 => return,
            _ => RESET,
        };
        flags.fetch_or(news, Ordering::SeqCst);
        self.wake(link.families[1 - party], None);
    }

    /// Notes that a process has closed an end. If relatives hold it still, they are watched from now on.
    pub(crate) fn leave(
        &mut self,
        id: u64,
        end: End,
        (link, channel, party): (u64, u32, usize),
        now: Duration,
    ) {
        let Some((name, place)) = self.member(id).map(|member| (member.family, member.place)) else { return };
        let words = self.families.get(&name).and_then(|family| family.slab.end(end.slot));
        let is_held = words.is_some_and(|words| {
            let state = words.state();
            (state.phase, state.generation) == (Phase::Offered, end.generation)
                && words.holders.members().any(|other| other != place)
        });
        if is_held {
            self.watch_relatives(name, now);
        } else {
            self.close(link, channel, party);
        }
    }

    /// Notes that a party uses a channel no more.
    pub(crate) fn close(&mut self, name: u64, number: u32, party: usize) {
        let Some(link) = self.links.get_mut(&name) else { return };
        let Some((_, freed)) = link.close(number, party) else { return };
        let (uids, families, is_adopted) = (link.uids, link.families, link.is_adopted());
        for (uid, freed) in uids.into_iter().zip(freed) {
            self.limits.give_ring(uid, freed);
        }
        if is_adopted {
            self.end_if_spent(name);
        } else if families.iter().any(|family| !self.families.contains_key(family)) {
            self.end_link(name);
        }
    }

    /// Closes the ends that a family has left without a word. A process without a port tells nothing, but a relative may
    /// have shown the link, or the daemon may have known it before the port was lost.
    pub(crate) fn sweep(&mut self, name: u64) {
        let Some(family) = self.families.get(&name) else { return };
        let is_left = |end: End| {
            let state = family.slab.end(end.slot).map(weft_sockets::layout::End::state).unwrap_or_default();
            // A member that is about to take an offer leaves the end `Fresh` for a moment.
            let is_closed = matches!(state.phase, Phase::Free | Phase::Closed);
            is_closed || state.generation != end.generation
        };
        let mut left = Vec::new();
        for (name_of_link, link) in
            family.links.iter().filter_map(|link| Some((*link, self.links.get(link)?)))
        {
            for party in (0..2).filter(|party| link.families[*party] == name) {
                let ends = link.channels.iter().map(|(number, channel)| (*number, channel.ends[party]));
                let closed = ends.filter(|(_, end)| end.is_some_and(is_left));
                left.extend(closed.map(|(number, _)| (name_of_link, number, party)));
            }
        }
        for (link, number, party) in left {
            self.close(link, number, party);
        }
    }

    /// Watches the relatives of a dead process that have no port: they may hold its ends. In another namespace of processes
    /// the numbers of the slab are those of other processes here.
    pub(crate) fn watch_relatives(&mut self, name: u64, now: Duration) {
        let Some(family) = self.families.get(&name) else { return };
        if family.members.values().filter_map(|id| self.ports.get(id)).any(Port::is_elsewhere) {
            return;
        }
        let uid = family.uid;
        let members = family.slab.header().members.iter().zip(0_u16..);
        let found = members.map(|(words, place)| {
            (place, (words.pid.load(Ordering::Acquire), words.started.load(Ordering::Relaxed)))
        });
        let strangers: Vec<_> =
            found.filter(|(place, (pid, _))| *pid != 0 && !family.members.contains_key(place)).collect();
        for (place, identity) in strangers {
            // A place without a start time was taken for a child. The child enters its own when it runs first.
            let is_unborn = identity.1 == 0;
            let due = *self.unborn.entry((name, place)).or_insert(now + BIRTH);
            if is_unborn && now < due {
                continue;
            }
            // On a busy machine a child may wait for long until it runs.
            if is_unborn && self.unborn.len() <= UNBORN && is_alive(identity.0) {
                self.unborn.insert((name, place), now + BIRTH);
                continue;
            }
            self.unborn.remove(&(name, place));
            match living(identity) {
                // A user with too many processes keeps what this one holds.
                Some((pid, pidfd)) if self.limits.take_port(uid, None) => {
                    self.watch(name, (place, identity), Port::new(uid, pid, None), pidfd);
                }
                Some(_) => {}
                None => self.release(name, place, identity),
            }
        }
        // The others have registered meanwhile, or are gone.
        let left: BTreeSet<(u64, u16)> = self
            .unborn
            .iter()
            .filter(|((family, _), due)| *family == name && **due <= now)
            .map(|(key, _)| *key)
            .collect();
        self.unborn.retain(|key, _| !left.contains(key));
    }

    fn watch(&mut self, family: u64, (place, identity): (u16, (u32, u64)), mut port: Port, pidfd: OwnedFd) {
        let id = self.name();
        let data = epoll::EventData::new_u64(id << 1 | 1);
        if epoll::add(&self.epoll, &pidfd, data, epoll::EventFlags::IN).is_err() {
            self.limits.give_port(port.uid);
            return self.release(family, place, identity);
        }
        port.member = Some(Member {
            family,
            place,
            identity,
            pidfd: Foreign::harmless(pidfd),
            status: None,
            bells: BTreeMap::new(),
            known_by: BTreeSet::new(),
            knows: BTreeSet::new(),
            links: BTreeSet::new(),
        });
        self.ports.insert(id, port);
        if let Some(family) = self.families.get_mut(&family) {
            family.members.insert(place, id);
        }
    }

    /// Forgets a family without processes.
    fn end_family_if_dead(&mut self, name: u64) {
        let is_dead = self.families.get(&name).is_some_and(|family| family.members.is_empty());
        if !is_dead || self.unborn.keys().any(|(family, _)| *family == name) {
            return;
        }
        let Some(family) = self.remove_family(name) else { return };
        self.sums.add(&family.slab.header().totals);
        for link in family.links {
            let Some(families) = self.links.get(&link).map(|link| link.families) else { continue };
            for party in (0..2).filter(|party| families[*party] == name) {
                // What the slab did not name. A program may have written anything there.
                // A link of the family with itself is gone with the last channel of its first party.
                let known = self.links.get(&link);
                let numbers: Vec<_> = known.iter().flat_map(|link| link.channels.keys().copied()).collect();
                for number in numbers {
                    if self.links.get(&link).is_none_or(|link| link.end(number, party).is_none()) {
                        continue;
                    }
                    self.reset(link, number, party);
                    self.close(link, number, party);
                }
            }
            self.end_link(link);
        }
    }

    /// Forgets a link that one family, at least, has left and that has no channel in use.
    pub(crate) fn end_link(&mut self, name: u64) {
        if self.links.get(&name).is_none_or(|link| !link.channels.is_empty()) {
            return;
        }
        let Some(link) = self.links.remove(&name) else { return };
        let octets = if link.is_adopted() { ADOPTED } else { 0 };
        for owner in &link.owners {
            self.limits.give_descriptors(*owner, 1);
            self.limits.give_ring(*owner, octets);
        }
        for family in link.families {
            let Some(family) = self.families.get_mut(&family) else { continue };
            family.links.remove(&name);
            let members: Vec<_> = family.members.values().copied().collect();
            for id in members {
                let member = self.ports.get_mut(&id).and_then(|port| port.member.as_mut());
                if member.is_some_and(|member| member.links.remove(&name)) {
                    self.send(id, ToProcess::LinkGone { link: name }, None);
                }
            }
        }
    }
}

/// True if octets in the ring were not taken. The kernel resets a connection whose dead end has not read all.
fn has_unread(words: &Direction) -> bool {
    let leg = Leg::from_word(words.legs.leg.load(Ordering::Acquire)).unwrap_or_default();
    let (tail, head) = (&words.producer.tail, &words.consumer.head);
    leg.carrier != Carrier::Tcp && tail.load(Ordering::Acquire) != head.load(Ordering::Acquire)
}

/// True if a process, or the one that was about to fork it, lives.
fn is_alive(pid: u32) -> bool {
    stat_field(pid, 0).is_some_and(|state| !matches!(state.as_str(), "Z" | "X"))
}

/// So often a place is looked at that was taken for a child which was about to be forked.
const BIRTH: Duration = Duration::from_secs(1);
/// No user is asked for these places: with more of them at a time, each is looked at once.
const UNBORN: usize = 256;

/// Returns the process that the slab names, if it lives.
fn living((pid, started): (u32, u64)) -> Option<(i32, OwnedFd)> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    let pidfd = pidfd_open(pid, PidfdFlags::empty()).ok()?;
    let number = pid.as_raw_nonzero().get();
    let found: u64 = stat_field(number.unsigned_abs(), 19)?.parse().ok()?;
    (found == started).then_some((number, pidfd))
}

/// Returns a field of a process's `stat`, counted behind the name in parentheses, which may hold anything: 0 is the state,
/// 19 the start time.
fn stat_field(pid: u32, number: usize) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = text.rsplit_once(')')?;
    fields.split_whitespace().nth(number).map(str::to_owned)
}
