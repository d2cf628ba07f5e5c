//! Links that an earlier daemon made.

use core::time::Duration;

use rustix::fs::{fcntl_get_seals, fstat};
use weft_sockets::ToProcess;
use weft_sockets::end::{FAR, Phase};
use weft_sockets::far::Outgoing;
use weft_sockets::sync::Ordering;

use crate::foreign::Foreign;
use crate::link::{End, Link};
use crate::state::{Broken, Family, State};

impl State {
    /// Takes a link that a process shows. Its connections go on, and their ends are looked after as before. Nothing more
    /// of it is given out.
    pub(crate) fn adopt(
        &mut self,
        id: u64,
        (name, party): (u64, usize),
        file: Foreign,
        now: Duration,
    ) -> Result<(), Broken> {
        let own = self.member(id).map(|member| member.family).ok_or(Broken)?;
        let family = self.families.get(&own).ok_or(Broken)?;
        if party > 1 || self.is_of_this_daemon(name) {
            return Err(Broken);
        }
        // Only memory has seals. Of another file its server would have to tell.
        fcntl_get_seals(&file).map_err(|_| Broken)?;
        let file_of = |file: &Foreign| fstat(file).map(|stat| (stat.st_dev, stat.st_ino)).map_err(|_| Broken);
        match self.links.get(&name) {
            Some(link) => {
                let is_its = [0, own].contains(&link.families[party]);
                if !is_its || file_of(&link.file)? != file_of(&file)? {
                    // Of the two that show a link one lies, and it may be the other. The link is of no use any more.
                    return Ok(());
                }
            }
            None => {
                let link = Link::adopt(file, family.uid).map_err(|_| Broken)?;
                if !self.limits.take_link(family.uid) {
                    // It goes on without a daemon.
                    return Ok(());
                }
                self.links.insert(name, link);
            }
        }
        let link = self.links.get_mut(&name).ok_or(Broken)?;
        if link.families[party] != own {
            link.show(party, own, family.uid, ends(family, name, party).into_iter());
        }
        if let Some(family) = self.families.get_mut(&own) {
            family.links.insert(name);
        }
        self.tell_adopted(id, name, party);
        self.lower_far_ends(name, party);
        // Relatives without a port hold ends, too.
        self.watch_relatives(own, now);
        // A relative may have shown the link before. From now on this process tells what it closes.
        self.sweep(own);
        self.end_if_spent(name);
        Ok(())
    }

    /// Forgets a link of an earlier daemon that no end of those who have shown it uses: nothing more of it is given out.
    pub(crate) fn end_if_spent(&mut self, name: u64) {
        let link = self.links.get(&name).filter(|link| link.is_adopted() && link.channels.is_empty());
        let Some(link) = link else { return };
        let families = link.families.iter().filter_map(|family| self.families.get(family));
        // A family that is both parties shows one after the other.
        let mut ends = families.flat_map(|family| (0..2).flat_map(|party| ends(family, name, party)));
        if ends.next().is_none() {
            self.end_link(name);
        }
    }

    /// Lets those connections of a link go on by TCP whose other ends are on another host. The earlier daemon was the other
    /// party: what the other host has received is not known any more. The link stays until its ends are closed.
    fn lower_far_ends(&self, name: u64, party: usize) {
        let Some(link) = self.links.get(&name) else { return };
        let Some(family) = link.families.get(party).and_then(|family| self.families.get(family)) else {
            return;
        };
        let mut is_far = false;
        for (number, end) in ends(family, name, party) {
            let words = link.memory.channel(number).and_then(|words| words.directions.get(party));
            if let Some(words) =
                words.filter(|_| family.slab.end(end.slot).is_some_and(|words| words.has(FAR)))
            {
                is_far |= Outgoing::lower(words).is_some();
            }
        }
        if is_far && let Some(family) = link.families.get(party) {
            self.wake(*family, None);
        }
    }

    /// Makes the parties of a link known to each other under their new names, once both have shown it.
    fn tell_adopted(&mut self, id: u64, name: u64, party: usize) {
        let Some(families) = self.links.get(&name).map(|link| link.families) else { return };
        if let Some(member) = self.ports.get_mut(&id).and_then(|port| port.member.as_mut()) {
            member.links.insert(name);
        }
        let peers: Vec<u64> = self.families.get(&families[1 - party]).map_or_else(Vec::new, |family| {
            let ids = family.members.values().copied();
            ids.filter(|id| self.member(*id).is_some_and(|member| member.links.contains(&name))).collect()
        });
        for peer in peers {
            self.tell_link_again(peer, name, families[party]);
            self.introduce(peer, id);
            self.tell_link_again(id, name, families[1 - party]);
            self.introduce(id, peer);
        }
    }

    /// Checks that a process may speak for a party of a link. Returns its user and the party. `None`: the link has ended
    /// meanwhile, or somebody else has shown the link of an earlier daemon. Both are no fault of the process.
    pub(crate) fn party(&self, id: u64, link: u64, party: u8) -> Result<Option<(u32, usize)>, Broken> {
        let port = self.ports.get(&id).ok_or(Broken)?;
        let member = port.member.as_ref().ok_or(Broken)?;
        let (party, is_own) = (usize::from(party), self.is_of_this_daemon(link));
        if party > 1 {
            return Err(Broken);
        }
        let Some(family) = self.links.get(&link).map(|link| link.families[party]) else { return Ok(None) };
        match family == member.family {
            true => Ok(Some((port.uid, party))),
            // The other end may have shown the link of an earlier daemon first.
            false if !is_own => Ok((family == 0).then_some((port.uid, party))),
            false => Err(Broken),
        }
    }

    fn tell_link_again(&mut self, id: u64, name: u64, peer: u64) {
        let file = self.links.get(&name).map(|link| std::sync::Arc::clone(&link.file));
        self.send(id, ToProcess::LinkMade { link: name, peer, far: 0 }, file);
    }
}

/// The channels and ends of a family in a link, as its slab has them.
fn ends(family: &Family, name: u64, party: usize) -> Vec<(u32, End)> {
    let its = family.slab.ends().filter(|(_, end)| {
        let identity = &end.identity;
        let is_party = identity.party.load(Ordering::Relaxed) as usize == party;
        end.state().phase == Phase::Offered && is_party && identity.link.load(Ordering::Relaxed) == name
    });
    its.map(|(slot, end)| {
        let channel = end.identity.channel.load(Ordering::Relaxed);
        (channel, End { slot, generation: end.state().generation })
    })
    .collect()
}
