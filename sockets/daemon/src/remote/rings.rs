//! Further rings of channels between hosts.

use weft_sockets::far::Letter;
use weft_sockets::{MAX_LOG2, MIN_LOG2, RingPlace, ToProcess};

use crate::hosts::failure::Failure;
use crate::state::State;

impl State {
    /// Asks the daemon of the reader for a larger ring, if that is on another host. Returns false if it is not.
    pub(crate) fn ask_for_ring(&mut self, asker: u64, (link, channel): (u64, u32), log2: u8) -> bool {
        let Some((name, own)) = self.find_channel(link, channel) else { return false };
        let Some(hosts) = &mut self.hosts else { return true };
        let Some(host) = hosts.host(name) else { return true };
        let Some(known) = host.channels.get_mut(&own) else { return true };
        // No daemon gives more. One that has no room does not answer.
        if known.asked >= MOST_ASKED {
            return true;
        }
        known.asked += 1;
        known.asker = Some(asker);
        let peer = known.peer;
        host.send(Letter::WantRing { channel: peer, log2 });
        true
    }

    /// Tells the daemon of the reader that a ring was given back.
    pub(crate) fn tell_returned(&mut self, link: u64, channel: u32, ring: RingPlace) {
        let Some((name, own)) = self.find_channel(link, channel) else { return };
        let Some(host) = self.hosts.as_mut().and_then(|hosts| hosts.host(name)) else { return };
        let Some(known) = host.channels.get_mut(&own) else { return };
        let peer = known.peer;
        if let Some(there) = known.outgoing.remove_ring(ring) {
            host.send(Letter::ReturnRing { channel: peer, ring: there });
        }
    }

    /// Makes a further ring for what the other end sends.
    pub(crate) fn make_ring(&mut self, name: u64, own: u32, log2: u8) -> Result<(), Failure> {
        let Some(host) = self.hosts.as_mut().and_then(|hosts| hosts.host(name)) else { return Ok(()) };
        let Some(channel) = host.channels.get_mut(&own) else { return Ok(()) };
        let Some(link) = self.links.get_mut(&channel.link) else { return Ok(()) };
        if !(MIN_LOG2..=MAX_LOG2).contains(&log2) {
            return Err(Failure::Host);
        }
        let uid = link.uids[1 - channel.party];
        if !self.limits.take_ring(uid, 1 << log2) {
            return Ok(());
        }
        let Some(ring) = link.grow(channel.number, 1 - channel.party, log2) else {
            self.limits.give_ring(uid, 1 << log2);
            return Ok(());
        };
        channel.incoming.add_ring(ring);
        let letter = Letter::RingMade { channel: channel.peer, ring };
        host.send(letter);
        Ok(())
    }

    /// The other daemon has made a ring: its counterpart is made here, for the process that has asked. Of two members of a
    /// family, the second would give back what the first has begun to use.
    pub(crate) fn take_ring(&mut self, name: u64, own: u32, there: RingPlace) -> Result<(), Failure> {
        let Some(host) = self.hosts.as_mut().and_then(|hosts| hosts.host(name)) else { return Ok(()) };
        let Some(channel) = host.channels.get_mut(&own) else { return Ok(()) };
        channel.asked = channel.asked.checked_sub(1).ok_or(Failure::Host)?;
        let (name_of_link, number, party) = (channel.link, channel.number, channel.party);
        let Some(link) = self.links.get_mut(&name_of_link) else { return Ok(()) };
        let (uid, family) = (link.uids[party], link.families[party]);
        let members = self.families.get(&family).map(|family| &family.members);
        let is_member = |asker: &u64| members.is_some_and(|members| members.values().any(|id| id == asker));
        let asker = channel.asker.take().filter(is_member);
        let is_free = asker.is_some() && self.limits.take_ring(uid, there.len());
        let ring = if is_free { link.grow(number, party, there.log2) } else { None };
        let (Some(asker), Some(ring)) = (asker, ring) else {
            if is_free {
                self.limits.give_ring(uid, there.len());
            }
            let letter = Letter::ReturnRing { channel: channel.peer, ring: there };
            host.send(letter);
            return Ok(());
        };
        channel.outgoing.add_ring(ring, there);
        let made =
            ToProcess::RingMade { link: name_of_link, channel: number, party: u8::from(party == 1), ring };
        self.send(asker, made, None);
        Ok(())
    }
}

/// Rings that a daemon may have been asked for without an answer, for one channel.
const MOST_ASKED: u8 = 4;
