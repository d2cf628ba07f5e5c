//! Questions of readers whose sessions ended before the answer came: as `remote/late.rs` of the real daemon.

use std::rc::Rc;

use weft_sockets_stepped::end::{FAR, Phase};
use weft_sockets_stepped::far::{Incoming, Letter, Outgoing};
use weft_sockets_stepped::layout::End;
use weft_sockets_stepped::sync::Ordering::Relaxed;
use weft_sockets_stepped::{Link, Secret, Sleepers};

use super::super::lanes::Message;
use super::super::process::{Family, Process};
use super::host::Host;

/// An end in a link to the other host.
struct Place {
    family: Rc<Family>,
    memory: Rc<Link>,
    channel: u32,
    party: usize,
}

impl Host {
    /// Asks the other host of an end for a reader that has no answer.
    pub(super) fn ask_late(&mut self, process: &Process, (slot, generation): (u32, u32)) {
        let end = process.family.slab.end(slot).filter(|end| end.state().generation == generation);
        let Some((end, secret)) = end.and_then(|end| Some((end, secret_of(end)?))) else { return };
        let place = (end.identity.link.load(Relaxed), end.identity.channel.load(Relaxed));
        // A session that has the channel carries the question.
        if self.find(place.0, place.1).is_some() {
            return;
        }
        self.world.tally.borrow_mut().operation("asked again", 0);
        if self.session.is_some() {
            self.push(Message::Letter(Letter::Ask { secret }));
        } else {
            self.open_lane_if_due();
        }
    }

    /// Takes the question of a reader on the other host.
    pub(super) fn handle_ask(&mut self, secret: Secret) {
        let Some(place) = self.place_of(secret) else { return };
        let words = &place.memory.channel(place.channel).expect("a channel").directions[place.party];
        let (stays, sleepers) = Outgoing::handle_late_question(words);
        self.wake(&place.family, sleepers);
        if stays {
            self.world.tally.borrow_mut().operation("answered late", 0);
            self.push(Message::Letter(Letter::Stays { secret }));
        }
    }

    /// Takes the answer for a reader of this host.
    pub(super) fn handle_stays(&self, secret: Secret) {
        let Some(place) = self.place_of(secret) else { return };
        let words = &place.memory.channel(place.channel).expect("a channel").directions[1 - place.party];
        if Incoming::answer_late(words).is_some() {
            self.wake(&place.family, Some(Sleepers::Everybody));
        }
    }

    /// The end whose channel has this secret, in a link that this daemon has made or was shown. No session carries it.
    fn place_of(&self, secret: Secret) -> Option<Place> {
        let made = self.links.values().map(|link| (link.name, &link.family, &link.memory));
        let shown = self.shown.iter().map(|(name, (family, memory))| (*name, family, memory));
        made.chain(shown).find_map(|(name, family, memory)| {
            let mut slots = 0..family.slab.header().ends.load(Relaxed);
            let is_its =
                |end: &End| secret_of(end) == Some(secret) && end.identity.link.load(Relaxed) == name;
            let end = slots.find_map(|slot| family.slab.end(slot).filter(|end| is_its(end)))?;
            let channel = end.identity.channel.load(Relaxed);
            let party = usize::from(end.identity.party.load(Relaxed) == 1);
            let (family, memory) = (Rc::clone(family), Rc::clone(memory));
            self.find(name, channel).is_none().then_some(Place { family, memory, channel, party })
        })
    }
}

/// The secret of a far end that has a channel.
fn secret_of(end: &End) -> Option<Secret> {
    let secret = end.identity.secret.each_ref().map(|word| word.load(Relaxed));
    (end.state().phase == Phase::Offered && end.has(FAR) && secret != [0; 2]).then_some(secret)
}
