//! What the daemons of two hosts say to each other.

use core::time::Duration;
use std::sync::Arc;

use weft_sockets::far::{Incoming, Letter, Notice, NoticeKind, Outgoing};
use weft_sockets::{
    Broken, Claim, Claimant, MIN_LOG2, Outcome, Reason, RingPlace, Secret, Sleepers, ToProcess, Tuple,
};

use crate::hosts::channel::Channel;
use crate::hosts::failure::Failure;
use crate::hosts::half::Half;
use crate::hosts::host::Host;
use crate::hosts::{OURS, key};
use crate::state::State;

impl State {
    /// Tells the daemon of a host that the end of a process waits for the other one, unless that daemon tells its own: of
    /// both, that of the lower address compares them.
    pub(crate) fn tell_claim(&mut self, name: u64, claimant: Claimant, claim: &Claim) {
        if claim.tuple.local < claim.tuple.peer {
            return;
        }
        let Some(hosts) = &mut self.hosts else { return };
        let Some(host) = hosts.hosts.get_mut(&name) else { return };
        host.next_claim += 1;
        let id = host.next_claim;
        host.note_claim(id, claimant);
        let letter = Letter::Claim {
            id,
            local: claim.tuple.local,
            peer: claim.tuple.peer,
            own_scale: claim.window_scales.0,
            peer_scale: claim.window_scales.1,
            options: claim.options,
            written: claim.written,
            consumed: claim.consumed,
            digests: claim.digests,
        };
        host.send(letter);
    }

    pub(crate) fn handle_letter(&mut self, name: u64, letter: Letter, now: Duration) -> Result<(), Failure> {
        match letter {
            Letter::Claim { id, local, peer, own_scale, peer_scale, options, written, consumed, digests } => {
                let Some(hosts) = &mut self.hosts else { return Ok(()) };
                let namespace = hosts.namespace;
                let host = hosts.host(name).ok_or(Failure::Lane)?;
                if key(peer, local) != (host.local, host.remote) || local < peer {
                    return Err(Failure::Host);
                }
                if !host.take_claim(now) {
                    return Ok(());
                }
                let tuple = Tuple::new(namespace, local, peer);
                let window_scales = (own_scale, peer_scale);
                let claim = Claim { tuple, window_scales, options, written, consumed, digests, is_far: true };
                let claimant = remote_claimant(name, id);
                match self.claims.handle_claim(now, claimant, claim) {
                    Outcome::Matched(other) => self.join_host(other, (name, id), tuple.mirrored(), now),
                    Outcome::Waits { replaced: Some(old) } => self.drop_claim(old, Reason::NoPartner),
                    Outcome::Waits { replaced: None } => {}
                }
                Ok(())
            }
            Letter::Withdraw { id } => {
                self.claims.withdraw(remote_claimant(name, id));
                Ok(())
            }
            Letter::Open { id, channel, stag, ring, secret } => {
                self.handle_open((name, id), (channel, stag, ring), secret, now)
            }
            Letter::Opened { channel, own, stag, ring } => {
                let mut host = self.take_host(name).ok_or(Failure::Lane)?;
                let known = host.check_number(channel);
                match host.halves.remove(&channel) {
                    Some(half) => self.begin(&mut host, channel, half, (own, stag, ring)),
                    None if !host.channels.contains_key(&channel) => host.close_late(own),
                    None => {}
                }
                self.put_host(host);
                known
            }
            Letter::Refused { channel } => {
                let host = self.hosts.as_mut().and_then(|hosts| hosts.host(name)).ok_or(Failure::Lane)?;
                if let Some(half) = host.halves.remove(&channel) {
                    self.abandon(&half);
                    self.drop_claim(half.claimant, Reason::NoPartner);
                }
                Ok(())
            }
            Letter::Ask { secret } => {
                self.handle_ask(name, secret, now);
                Ok(())
            }
            Letter::Stays { secret } => {
                self.handle_stays(name, secret);
                Ok(())
            }
            Letter::Leg { channel, .. }
            | Letter::Final { channel, .. }
            | Letter::WantRing { channel, .. }
            | Letter::RingMade { channel, .. }
            | Letter::ReturnRing { channel, .. } => self.handle_channel_letter(name, channel, letter),
        }
    }

    /// Gives a channel to a process whose connection's other end a host has claimed, and tells its daemon.
    pub(crate) fn join_host(
        &mut self,
        claimant: Claimant,
        (name, id): (u64, u64),
        tuple: Tuple,
        now: Duration,
    ) {
        let half = new_secret().ok().and_then(|secret| self.half((claimant, now), name, tuple, secret));
        let Some(mut host) = self.take_host(name) else { return };
        if let Some(half) = half {
            let channel = host.number();
            host.halves.insert(channel, half);
            let Half { stag, ring, secret, .. } = half;
            let letter = Letter::Open { id, channel, stag, ring, secret };
            host.send(letter);
        } else {
            self.drop_claim(claimant, Reason::Limit);
        }
        self.put_host(host);
    }

    /// The other daemon has a channel for a claim that it was told.
    fn handle_open(
        &mut self,
        (name, id): (u64, u64),
        (channel, stag, ring): (u32, u32, RingPlace),
        secret: Secret,
        now: Duration,
    ) -> Result<(), Failure> {
        let mut host = self.take_host(name).ok_or(Failure::Lane)?;
        let claimant = host.told.remove(&id);
        self.put_host(host);
        let waiting = claimant.and_then(|claimant| self.claims.take(claimant).map(|claim| (claimant, claim)));
        let half =
            waiting.and_then(|(claimant, claim)| self.half((claimant, now), name, claim.tuple, secret));
        if half.is_none()
            && let Some((claimant, _)) = waiting
        {
            self.drop_claim(claimant, Reason::Limit);
        }
        host = self.take_host(name).ok_or(Failure::Lane)?;
        let letter = match half {
            Some(half) => {
                let own = host.number();
                self.begin(&mut host, own, half, (channel, stag, ring));
                Letter::Opened { channel, own, stag: half.stag, ring: half.ring }
            }
            None => Letter::Refused { channel },
        };
        host.send(letter);
        self.put_host(host);
        Ok(())
    }

    /// Gives a process a channel with this daemon in the place of a host. `tuple` is that of the process.
    fn half(
        &mut self,
        (claimant, since): (Claimant, Duration),
        name: u64,
        tuple: Tuple,
        secret: Secret,
    ) -> Option<Half> {
        let member = self.member(claimant.process)?.family;
        let uid = self.families.get(&member)?.uid;
        let len = 2 << MIN_LOG2;
        if !self.limits.take_ring(uid, len) {
            return None;
        }
        let remote = remote_claimant(name, 0);
        let opened = self.channel([claimant, remote], ([member, name], [uid, uid]), tuple.mirrored());
        let Some((link, number, rings, [party, other])) = opened else {
            self.limits.give_ring(uid, len);
            return None;
        };
        let known = self.links.get(&link)?;
        let memory = self.hosts.as_mut()?.hosts.get_mut(&name)?.register(link, known)?;
        let half = Half {
            claimant,
            since,
            link,
            number,
            party,
            own_ring: *rings.get(party)?,
            ring: *rings.get(other)?,
            stag: memory.rkey().0,
            secret,
        };
        let words = known.memory.channel(number)?;
        Outgoing::announce(words.directions.get(party)?, OURS);
        Incoming::announce(words.directions.get(other)?, OURS);
        Some(half)
    }

    /// Both daemons have a channel: the process hears of it.
    fn begin(&mut self, host: &mut Host, own: u32, half: Half, (peer, stag, ring): (u32, u32, RingPlace)) {
        let Half { claimant: me, link, number, party, own_ring, secret, .. } = half;
        let channel = Channel {
            link,
            number,
            party,
            peer,
            stag,
            secret,
            outgoing: Outgoing::new((own_ring, ring)),
            incoming: Incoming::new(half.ring),
            asked: 0,
            asker: None,
            under_way: 0,
            is_told_closed: false,
            is_closed_there: false,
            is_broken: false,
            is_taken: false,
            seen: None,
        };
        host.channels.insert(own, channel);
        host.by_place.insert((link, number), own);
        if let Some(family) = self.member(me.process).map(|member| member.family)
            && let Some(family) = self.families.get_mut(&family)
        {
            family.channels.insert(me.slot, (link, number, party));
        }
        self.tell_link(me.process, link, host.name);
        self.introduce_ourselves(me.process, host.name);
        self.offer(me, (link, number, party), (own_ring, secret));
    }

    /// Tells a process how to wake this daemon.
    fn introduce_ourselves(&mut self, to: u64, family: u64) {
        let Some(hosts) = &self.hosts else { return };
        let (page, bell) = (Arc::clone(&hosts.status.0), Arc::clone(&hosts.bell));
        self.send(to, ToProcess::PeerStatus { family, member: OURS.member }, Some(page));
        if self.ports.get(&to).is_some_and(|port| port.uid == self.uid) {
            self.send(to, ToProcess::PeerBell { family, waiter: OURS }, Some(bell));
        }
    }

    /// Frees a channel of which the process has not heard.
    pub(crate) fn abandon(&mut self, half: &Half) {
        self.close(half.link, half.number, half.party);
        self.close(half.link, half.number, 1 - half.party);
    }

    /// Ends what waits for the answer of a host that is lost.
    pub(crate) fn abandon_all(&mut self, halves: impl Iterator<Item = Half>) {
        for half in halves {
            self.abandon(&half);
            self.drop_claim(half.claimant, Reason::NoPartner);
        }
    }

    /// Takes a notice about a channel. The other daemon may not know yet that the channel is over.
    pub(crate) fn handle_notice(&mut self, name: u64, notice: Notice) -> Result<(), Failure> {
        self.on_channel(name, notice.channel, |state, channel| {
            let Some(link) = state.links.get(&channel.link) else { return Ok(None) };
            let Some((ours, theirs)) = channel.words(&link.memory) else { return Ok(None) };
            match notice.kind {
                NoticeKind::Closed => {
                    channel.is_closed_there = true;
                    Ok(channel.incoming.handle_closed(theirs, ours))
                }
                NoticeKind::Data | NoticeKind::Reset | NoticeKind::Declined | NoticeKind::Present => {
                    channel.incoming.handle(theirs, notice.kind, notice.value)
                }
                _ => channel.outgoing.handle(ours, notice.kind, notice.value),
            }
        })
    }

    fn handle_channel_letter(&mut self, name: u64, number: u32, letter: Letter) -> Result<(), Failure> {
        match letter {
            Letter::WantRing { log2, .. } => return self.make_ring(name, number, log2),
            Letter::RingMade { ring, .. } => return self.take_ring(name, number, ring),
            _ => {}
        }
        self.on_channel(name, number, |state, channel| {
            let Some(link) = state.links.get(&channel.link) else { return Ok(None) };
            let Some((_, theirs)) = channel.words(&link.memory) else { return Ok(None) };
            match letter {
                Letter::Leg { number, ring, start, .. } => {
                    channel.incoming.handle_leg(theirs, number, ring, start)
                }
                Letter::Final { end, .. } => channel.incoming.handle_final(theirs, end),
                Letter::ReturnRing { ring, .. } => {
                    let (link, number, other) = (channel.link, channel.number, 1 - channel.party);
                    let is_its = channel.incoming.remove_ring(ring)
                        && state.links.get_mut(&link).is_some_and(|link| link.shrink(number, other, ring));
                    if is_its && let Some(uid) = state.links.get(&link).map(|link| link.uids[other]) {
                        state.limits.give_ring(uid, ring.len());
                    }
                    Ok(None)
                }
                _ => Ok(None),
            }
        })
    }

    /// Does something with a channel, and wakes those that it concerns.
    fn on_channel(
        &mut self,
        name: u64,
        own: u32,
        act: impl FnOnce(&mut Self, &mut Channel) -> Result<Option<Sleepers>, Broken>,
    ) -> Result<(), Failure> {
        let mut host = self.take_host(name).ok_or(Failure::Lane)?;
        let known = host.check_number(own);
        if let Some(mut channel) = host.channels.remove(&own) {
            channel.seen = None;
            match act(self, &mut channel) {
                Ok(sleepers) => self.wake_end(&channel, sleepers),
                // What was on its way when the channel broke.
                Err(Broken) if channel.is_broken => {}
                Err(Broken) => {
                    host.faults += 1;
                    self.break_channel(&mut host, &mut channel);
                }
            }
            host.channels.insert(own, channel);
        }
        self.put_host(host);
        known
    }

    /// What the ends of a channel know each other by in the kernel's stream. Those inside a host need nothing for that.
    pub(crate) fn secret_of(&self, link: u64, channel: u32) -> Secret {
        let found = self.find_channel(link, channel);
        let hosts = self.hosts.as_ref();
        found
            .and_then(|(name, own)| hosts?.hosts.get(&name)?.channels.get(&own))
            .map_or([0; 2], |channel| channel.secret)
    }

    /// The host and the number of a channel of a link to another host.
    pub(crate) fn find_channel(&self, link: u64, number: u32) -> Option<(u64, u32)> {
        let families = self.links.get(&link)?.families;
        let hosts = self.hosts.as_ref()?;
        let host = families.iter().find_map(|family| hosts.hosts.get(family))?;
        Some((host.name, *host.by_place.get(&(link, number))?))
    }
}

fn new_secret() -> std::io::Result<Secret> {
    let words: [[u8; 8]; 2] = [crate::kernel::random()?, crate::kernel::random()?];
    Ok(words.map(u64::from_ne_bytes))
}

/// The claim of another host's process, among those of this one.
#[expect(clippy::cast_possible_truncation, reason = "both halves are kept")]
pub(crate) const fn remote_claimant(host: u64, id: u64) -> Claimant {
    Claimant { process: host, slot: id as u32, generation: (id >> 32) as u32 }
}

/// The number of a remote claim.
pub(crate) const fn remote_id(claimant: Claimant) -> u64 {
    claimant.slot as u64 | (claimant.generation as u64) << 32
}
