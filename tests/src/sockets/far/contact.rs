//! How simulated daemons open lanes and lose them: they follow `remote/opening.rs` and `remote/losing.rs` of the real one.

use weft_sockets_stepped::far::{Outgoing, Session};

use super::super::lanes::{Message, News, Packet};
use super::super::sabotage::Sabotage;
use super::channel::Channel;
use super::host::{Contact, Host, PLACES};

impl Host {
    /// News of a lane.
    pub(super) fn hear_lane(&mut self, news: News) {
        match news {
            News::Ask { lane, session, received } => self.answer(lane, session, received),
            News::Answer { lane, session, received } => {
                if matches!(self.contact, Contact::Asking(own) if own == lane) {
                    self.meet(session, received, true);
                    (self.contact, self.lost, self.free) = (Contact::Up(lane), None, PLACES);
                    self.send(News::Open { lane });
                }
            }
            News::Refusal { lane } => {
                if matches!(self.contact, Contact::Asking(own) if own == lane) {
                    self.lose_lane();
                }
            }
            News::Nobody { lane } => {
                if matches!(self.contact, Contact::Asking(own) if own == lane) {
                    self.bury_daemon();
                }
            }
            News::Open { lane } => {
                if matches!(self.contact, Contact::Answering(own) if own == lane) {
                    (self.contact, self.lost, self.free) = (Contact::Up(lane), None, PLACES);
                }
            }
            News::Lost { lane } if self.contact.lane() == Some(lane) => self.lose_lane(),
            News::Done { lane, number } if self.contact.lane() == Some(lane) => {
                self.free += 1;
                let done = number.zip(self.session.as_mut());
                if let Some(Message::Write { own, .. }) =
                    done.and_then(|(number, (_, session))| session.complete(number))
                    && let Some(channel) = self.channels.get_mut(own)
                {
                    channel.relay.complete();
                }
            }
            News::Packet { lane, packet } if matches!(self.contact, Contact::Up(own) if own == lane) => {
                self.handle(packet);
            }
            _ => {}
        }
    }

    fn handle(&mut self, packet: Packet) {
        let message = match packet {
            Packet::Acknowledgment(low) => {
                return self.acknowledge(|session, done| session.acknowledge(low, done));
            }
            Packet::Message(message) => message,
        };
        if let Some((_, session)) = &mut self.session {
            session.receive();
        }
        match message {
            Message::Letter(letter) => self.handle_letter(letter),
            Message::Notice(notice) | Message::Write { notice, .. } => self.handle_notice(notice),
        }
    }

    /// The other daemon tells what it has received.
    fn acknowledge(
        &mut self,
        hear: impl FnOnce(
            &mut Session<Message>,
            &mut dyn FnMut(Message),
        ) -> Result<(), weft_sockets_stepped::Broken>,
    ) {
        let Some((_, session)) = &mut self.session else { return };
        let channels = &mut self.channels;
        let mut done = |message| {
            if let Message::Write { own, .. } = message
                && let Some(channel) = channels.get_mut(&own)
            {
                channel.relay.complete();
            }
        };
        if hear(session, &mut done).is_err() {
            self.world.fail(format!("daemon {}: the other one has received what was not sent", self.number));
        }
    }

    /// Asks for a first lane.
    pub(super) fn open_lane_if_due(&mut self) {
        if matches!(self.contact, Contact::None(until) if until <= self.now()) {
            self.open_lane();
        }
    }

    fn open_lane(&mut self) {
        let lane = self.world.lanes.borrow_mut().open();
        self.contact = Contact::Asking(lane);
        let (session, received) = self.state();
        self.send(News::Ask { lane, session, received });
    }

    fn answer(&mut self, lane: u64, session: u64, received: u64) {
        // Of two that cross, that of the first stays.
        if matches!(self.contact, Contact::Asking(_)) && self.number == 0 {
            return self.send(News::Refusal { lane });
        }
        self.drop_lane(self.now());
        self.meet(session, received, false);
        self.contact = Contact::Answering(lane);
        let (session, received) = self.state();
        self.send(News::Answer { lane, session, received });
    }

    /// Goes on with the session that both daemons have, or begins a new one.
    fn meet(&mut self, session: u64, received: u64, is_asking: bool) {
        let now = self.now();
        if session != 0 && self.session.as_ref().is_some_and(|(own, _)| *own == session) {
            self.acknowledge(|session, done| session.resume(received, done));
            self.lost.get_or_insert(now);
            return;
        }
        self.end_session();
        let name = if is_asking { session } else { self.world.random.borrow_mut().next().max(1) };
        self.session = Some((name, Session::new()));
        self.lost = Some(now);
        self.tell_claims();
    }

    /// The session, and how many of its messages were received.
    fn state(&self) -> (u64, u64) {
        self.session.as_ref().map_or((0, 0), |(name, session)| (*name, session.received()))
    }

    fn send(&self, news: News) {
        let arrival = self.world.later();
        self.world.lanes.borrow_mut().send(1 - self.number, news, arrival);
    }

    fn lose_lane(&mut self) {
        self.world.tally.borrow_mut().operation("lane lost", 0);
        let again = match (&self.session, self.number) {
            (None, _) => NOBODY,
            (Some(_), 0) => SOON,
            (Some(_), _) => 3 * SOON,
        };
        let now = self.now();
        self.drop_lane(now + again);
        if self.session.is_some() {
            self.lost.get_or_insert(now);
        }
    }

    /// There is no other daemon any more. A new one would know nothing of the session.
    fn bury_daemon(&mut self) {
        let again = if self.session.is_some() { RESTART } else { NOBODY };
        self.drop_lane(self.now() + again);
        self.end_session();
    }

    fn drop_lane(&mut self, until: u64) {
        if let Some(lane) = self.contact.lane() {
            let arrival = self.world.later();
            self.world.lanes.borrow_mut().destroy(self.number, lane, arrival);
        }
        self.contact = Contact::None(until);
    }

    /// Ends the session. Its connections go on by TCP.
    fn end_session(&mut self) {
        let (channels, halves) = (std::mem::take(&mut self.channels), std::mem::take(&mut self.halves));
        (self.session, self.lost) = (None, None);
        self.claims.iter_mut().for_each(|claim| claim.told = None);
        self.remote.clear();
        for channel in channels.into_values() {
            if self.world.sabotage != Some(Sabotage::SessionEnd) {
                self.lower_end(&channel);
            }
            self.world.tally.borrow_mut().operation("connection without a session", 0);
            self.orphans.push(channel.half);
        }
        halves.values().for_each(|half| self.abandon(half));
    }

    /// Lets a process go on by the kernel's stream, because nobody carries its octets any more.
    fn lower_end(&self, channel: &Channel) {
        let words = channel.half.words();
        for sleepers in [Outgoing::lower(words.ours), channel.relay.incoming.lower(words.theirs)] {
            self.wake(&channel.half.process.family, sleepers);
        }
    }

    /// Asks for a new lane where one was lost, and ends the session that has waited too long.
    pub(super) fn look_for_lanes(&mut self) {
        let (Some(lost), now) = (self.lost, self.now()) else { return };
        if lost + PATIENCE <= now && !matches!(self.contact, Contact::Up(_)) {
            self.drop_lane(now + SOON);
            self.end_session();
        } else if matches!(self.contact, Contact::None(again) if again <= now) {
            self.open_lane();
        }
    }

    pub(super) fn lanes_deadline(&self) -> Option<u64> {
        let lost = self.lost? + PATIENCE;
        match self.contact {
            Contact::None(again) => Some(again.min(lost)),
            _ => Some(lost),
        }
    }
}

/// In microseconds, as the real daemon has them.
const SOON: u64 = 100_000;
const RESTART: u64 = 1_000_000;
const PATIENCE: u64 = 5_000_000;
const NOBODY: u64 = 60_000_000;
