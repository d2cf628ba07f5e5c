//! Claims, and the channels that the two ends of a connection get.

use core::time::Duration;
use std::sync::Arc;

use weft_sockets::layout::ENDS;
use weft_sockets::{
    Claim, Claimant, Digests, MIN_LOG2, Outcome, Reason, RingPlace, Secret, ToProcess, Tuple,
};

use crate::foreign::Foreign;
use crate::kernel::read_claim;
use crate::link::{End, Link};
use crate::remote::remote_id;
use crate::state::{Broken, State};

impl State {
    /// Takes a claim of an end, with what its process says of the first octets. Its socket is given to be closed when this
    /// returns, so that its end is not held back.
    pub(crate) fn handle_claim(
        &mut self,
        id: u64,
        end: (u32, u32),
        (socket, digests): (Foreign, Digests),
        now: Duration,
    ) -> Result<(), Broken> {
        self.take_claim(id, end, now, || Ok(Claim { digests, ..read_claim(&socket)? }))
    }

    /// Takes a claim for an end, a slot and its generation. `read` tells what the kernel says of the socket.
    pub(crate) fn take_claim(
        &mut self,
        id: u64,
        (slot, generation): (u32, u32),
        now: Duration,
        read: impl FnOnce() -> Result<Claim, Reason>,
    ) -> Result<(), Broken> {
        let uid =
            self.ports.get(&id).filter(|port| port.member.is_some()).map(|port| port.uid).ok_or(Broken)?;
        if slot >= ENDS {
            return Err(Broken);
        }
        let claimant = Claimant { process: id, slot, generation };
        if self.offer_again(claimant).is_some() {
            return Ok(());
        }
        let claim = if self.limits.take_claim(uid, now) { read() } else { Err(Reason::Limit) };
        let allowed =
            claim.and_then(
                |claim| {
                    if self.rules.allow(uid, &claim.tuple) { Ok(claim) } else { Err(Reason::Rules) }
                },
            );
        let claim = match allowed {
            Ok(claim) => claim,
            Err(reason) => {
                self.drop_claim(claimant, reason);
                return Ok(());
            }
        };
        match self.claims.handle_claim(now, claimant, claim) {
            Outcome::Matched(other) if self.is_host(other.process) => {
                self.join_host(claimant, (other.process, remote_id(other)), claim.tuple, now);
            }
            Outcome::Matched(other) => {
                if self.join(other, claimant, claim.tuple).is_none() {
                    self.drop_claim(other, Reason::Limit);
                    self.drop_claim(claimant, Reason::Limit);
                }
            }
            Outcome::Waits { replaced } => {
                if let Some(old) = replaced {
                    self.drop_claim(old, Reason::NoPartner);
                }
                if !self.look_across(claimant, &claim, now) {
                    self.ask_host(claimant, &claim, now);
                }
            }
        }
        Ok(())
    }

    /// Tells a process that its claim came to nothing.
    pub(crate) fn drop_claim(&mut self, claimant: Claimant, reason: Reason) {
        let Claimant { process, slot, generation } = claimant;
        self.send(process, ToProcess::Dropped { slot, generation, reason }, None);
    }

    /// Gives a channel to two ends. `tuple` is that of the second.
    pub(crate) fn join(&mut self, first: Claimant, second: Claimant, tuple: Tuple) -> Option<()> {
        let families = [self.member(first.process)?.family, self.member(second.process)?.family];
        let uids = families.map(|family| self.families.get(&family).map_or(0, |family| family.uid));
        let len = 1 << MIN_LOG2;
        if !self.limits.take_ring(uids[0], len) {
            return None;
        }
        if !self.limits.take_ring(uids[1], len) {
            self.limits.give_ring(uids[0], len);
            return None;
        }
        let opened = self.channel([first, second], (families, uids), tuple);
        let Some((name, channel, rings, parties)) = opened else {
            uids.iter().for_each(|uid| self.limits.give_ring(*uid, len));
            return None;
        };
        for (at, (me, other)) in [(first, second), (second, first)].into_iter().enumerate() {
            let party = parties[at];
            if let Some(family) = self.families.get_mut(&families[at]) {
                family.channels.insert(me.slot, (name, channel, party));
            }
            self.tell_link(me.process, name, families[1 - at]);
            self.introduce(me.process, other.process);
            self.offer(me, (name, channel, party), (rings[party], NEAR));
        }
        Some(())
    }

    /// Answers the claim of an end that has a channel: a relative of this process has claimed it before. Returns `None`
    /// if there is no channel.
    fn offer_again(&mut self, me: Claimant) -> Option<()> {
        let family = self.families.get(&self.member(me.process)?.family)?;
        let place @ (name, channel, party) = *family.channels.get(&me.slot)?;
        let link = self.links.get(&name)?;
        let end = End { slot: me.slot, generation: me.generation };
        if link.end(channel, party) != Some(end) {
            return None;
        }
        let (peer, ring) = (link.families[1 - party], link.ring(channel, party));
        self.tell_link(me.process, name, peer);
        if let Some(ring) = ring {
            self.offer(me, place, (ring, self.secret_of(name, channel)));
        }
        Some(())
    }

    pub(crate) fn offer(
        &mut self,
        me: Claimant,
        (link, channel, party): (u64, u32, usize),
        (ring, secret): (RingPlace, Secret),
    ) {
        let Claimant { process, slot, generation } = me;
        let party = u8::from(party == 1);
        self.send(process, ToProcess::Offer { slot, generation, link, channel, party, ring, secret }, None);
    }

    /// Opens a channel in a link of both families. Returns the link, the channel, its rings, and each claimant's party.
    pub(crate) fn channel(
        &mut self,
        claimants: [Claimant; 2],
        (families, uids): ([u64; 2], [u32; 2]),
        tuple: Tuple,
    ) -> Option<(u64, u32, [RingPlace; 2], [usize; 2])> {
        let reversed = [families[1], families[0]];
        let ends = claimants.map(|claimant| End { slot: claimant.slot, generation: claimant.generation });
        // Seen from party 0.
        let (forth, back) = ((ends, tuple.mirrored(), [0, 1]), ([ends[1], ends[0]], tuple, [1, 0]));
        let names: Vec<_> = self.families.get(&families[0])?.links.iter().copied().collect();
        for name in names {
            let Some(link) = self.links.get_mut(&name) else { continue };
            let (ends, tuple, parties) = match link.families {
                same if same == families => forth,
                other if other == reversed => back,
                _ => continue,
            };
            if let Some((channel, rings)) = link.open(ends, tuple, MIN_LOG2) {
                return Some((name, channel, rings, parties));
            }
        }
        let name = self.lasting_name();
        let mut link = Link::create(name, families, uids).ok()?;
        let (channel, rings) = link.open(forth.0, forth.1, MIN_LOG2)?;
        if !uids.iter().all(|uid| self.limits.has_room(*uid)) {
            return None;
        }
        uids.iter().for_each(|uid| self.limits.take_descriptors(*uid, 1));
        self.links.insert(name, link);
        for family in families {
            self.families.get_mut(&family)?.links.insert(name);
        }
        Some((name, channel, rings, forth.2))
    }

    pub(crate) fn tell_link(&mut self, id: u64, name: u64, peer: u64) {
        let Some(file) = self.links.get(&name).map(|link| Arc::clone(&link.file)) else { return };
        let member = self.ports.get_mut(&id).and_then(|port| port.member.as_mut());
        if member.is_some_and(|member| member.links.insert(name)) {
            let far = u8::from(self.is_host(peer));
            self.send(id, ToProcess::LinkMade { link: name, peer, far }, Some(file));
        }
    }
}

/// The secret of a channel inside a host, which needs none.
const NEAR: Secret = [0; 2];
