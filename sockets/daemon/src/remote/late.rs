//! Questions of readers whose sessions ended before the answer came.
//!
//! A reader that has attached asks its sender for TCP, and hands the socket over once it knows that no record is in the way of
//! the next program. If the session ends meanwhile, or a daemon, nothing that a daemon keeps leads from one end to the other. The
//! secret of the channel does, which stands in the slabs of both ends. So the process asks again, by whichever daemon it
//! has, and that one asks the daemon of the other host.

use core::time::Duration;

use weft_sockets::Secret;
use weft_sockets::end::{FAR, Phase};
use weft_sockets::far::{Incoming, Letter, Outgoing};
use weft_sockets::layout::ENDS;
use weft_sockets::sync::Ordering;

use crate::foreign::Foreign;
use crate::hosts::host::Contact;
use crate::hosts::key;
use crate::kernel::read_tuple;
use crate::state::{Broken, State};

/// An end in a link to another host.
struct Place {
    link: u64,
    channel: u32,
    party: usize,
    family: u64,
}

impl State {
    /// Asks the other host of an end for a reader that has no answer. Without a session the next question of the process finds
    /// one.
    pub(crate) fn ask_late(
        &mut self,
        id: u64,
        (slot, generation): (u32, u32),
        socket: &Foreign,
        now: Duration,
    ) -> Result<(), Broken> {
        let uid =
            self.ports.get(&id).filter(|port| port.member.is_some()).map(|port| port.uid).ok_or(Broken)?;
        if slot >= ENDS {
            return Err(Broken);
        }
        let Some((place, secret)) = self.asking(id, slot, generation) else { return Ok(()) };
        // A session that has the channel carries the question.
        let is_carried = self.find_channel(place.link, place.channel).is_some();
        let Some(hosts) = self.hosts.as_ref().filter(|_| !is_carried) else { return Ok(()) };
        let namespace = hosts.namespace;
        let Ok(tuple) = read_tuple(socket) else { return Ok(()) };
        if tuple.namespace != namespace || !self.limits.take_claim(uid, now) {
            return Ok(());
        }
        let Some(name) = self.name_host(key(tuple.local, tuple.peer), now) else { return Ok(()) };
        let Some(host) = self.hosts.as_mut().and_then(|hosts| hosts.host(name)) else { return Ok(()) };
        match host.contact {
            _ if host.session.is_some() => host.send(Letter::Ask { secret }),
            Contact::None(until) if until <= now => self.open_lane(name, None, now),
            _ => {}
        }
        Ok(())
    }

    /// Takes the question of a reader on another host.
    pub(crate) fn handle_ask(&mut self, name: u64, secret: Secret, now: Duration) {
        let is_heard =
            self.hosts.as_mut().and_then(|hosts| hosts.host(name)).map(|host| host.take_claim(now));
        let Some(place) = is_heard.filter(|is_heard| *is_heard).and_then(|_| self.place_of(name, secret))
        else {
            return;
        };
        let words = self.links.get(&place.link).and_then(|link| link.memory.channel(place.channel));
        let Some(words) = words.and_then(|words| words.directions.get(place.party)) else { return };
        let (stays, sleepers) = Outgoing::handle_late_question(words);
        if sleepers.is_some() {
            self.wake(place.family, None);
        }
        if let Some(host) = self.hosts.as_mut().and_then(|hosts| hosts.host(name)).filter(|_| stays) {
            host.send(Letter::Stays { secret });
        }
    }

    /// Takes the answer for a reader of this host.
    pub(crate) fn handle_stays(&self, name: u64, secret: Secret) {
        let Some(place) = self.place_of(name, secret) else { return };
        let words = self.links.get(&place.link).and_then(|link| link.memory.channel(place.channel));
        let Some(words) = words.and_then(|words| words.directions.get(1 - place.party)) else { return };
        if Incoming::answer_late(words).is_some() {
            self.wake(place.family, None);
        }
    }

    /// The end that a process asks for, and the secret of its channel.
    fn asking(&self, id: u64, slot: u32, generation: u32) -> Option<(Place, Secret)> {
        let name = self.member(id)?.family;
        let family = self.families.get(&name)?;
        let end = family.slab.end(slot).filter(|end| end.state().generation == generation)?;
        let secret = secret_of(end)?;
        Some((place_of(name, end), secret))
    }

    /// The end whose channel has this secret. No session carries it, and no host but `name` has had it.
    fn place_of(&self, name: u64, secret: Secret) -> Option<Place> {
        let families = self.families.iter().filter(|(name, _)| !self.is_host(**name));
        let mut ends =
            families.flat_map(|(name, family)| family.slab.ends().map(move |(_, end)| (*name, end)));
        let (family, end) = ends.find(|(_, end)| secret_of(end) == Some(secret))?;
        let place = place_of(family, end);
        let families = self.links.get(&place.link)?.families;
        let other = *families.get(1 - place.party)?;
        // The other party of a link of an earlier daemon is not known.
        let is_its = families.get(place.party) == Some(&family) && [0, name].contains(&other);
        (is_its && self.find_channel(place.link, place.channel).is_none()).then_some(place)
    }
}

fn place_of(family: u64, end: &weft_sockets::layout::End) -> Place {
    let identity = &end.identity;
    Place {
        link: identity.link.load(Ordering::Relaxed),
        channel: identity.channel.load(Ordering::Relaxed),
        party: usize::from(identity.party.load(Ordering::Relaxed) == 1),
        family,
    }
}

/// The secret of a far end that has a channel.
fn secret_of(end: &weft_sockets::layout::End) -> Option<Secret> {
    let secret = end.identity.secret.each_ref().map(|word| word.load(Ordering::Relaxed));
    (end.state().phase == Phase::Offered && end.has(FAR) && secret != [0; 2]).then_some(secret)
}
