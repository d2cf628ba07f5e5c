//! What two simulated daemons say to each other: they follow `remote/letters.rs` of the real one.

use std::rc::Rc;

use weft_sockets::ToProcess;
use weft_sockets_stepped::far::{Incoming, Letter, Notice, Outgoing};
use weft_sockets_stepped::{Broken, Digests, MIN_LOG2, RingPlace, Secret, Sleepers};

use super::super::lanes::Message;
use super::super::places::{FAR_NAME, large};
use super::super::process::Process;
use super::channel::{Channel, FarLink, Half};
use super::host::{Claim, Host, OURS};
use crate::relay::Relay;

impl Host {
    /// A process waits for the other end of its connection.
    pub(super) fn claim(&mut self, process: &Rc<Process>, end: (u32, u32), socket: usize) {
        let arrival = self.world.later();
        self.world.kernel.borrow_mut().release(socket, arrival);
        let connection = Rc::clone(&self.world.connections.borrow()[socket / 2]);
        let until = self.now() + PATIENCE;
        let claim = Claim { process: Rc::clone(process), connection, end, until, told: None };
        if self.session.is_none() {
            self.claims.push(claim);
            self.open_lane_if_due();
        } else if self.number == 1 {
            self.claims.push(claim);
            self.tell_claims();
        } else if let Some(at) = self.remote.iter().position(|(_, other)| *other == claim.connection.number) {
            let (id, _) = self.remote.swap_remove(at);
            self.join(&claim, id);
        } else {
            self.claims.push(claim);
        }
    }

    /// Of both daemons, the second tells its claims, and the first compares them.
    pub(super) fn tell_claims(&mut self) {
        if self.number == 0 {
            return;
        }
        let mut claims = std::mem::take(&mut self.claims);
        for claim in claims.iter_mut().filter(|claim| claim.told.is_none()) {
            self.next_claim += 1;
            claim.told = Some(self.next_claim);
            let port = u16::try_from(claim.connection.number).expect("few connections");
            self.push(Message::Letter(Letter::Claim {
                id: self.next_claim,
                local: ([10, 0, 0, 2], port).into(),
                peer: ([10, 0, 0, 1], port).into(),
                own_scale: 0,
                peer_scale: 0,
                options: 0,
                written: 0,
                consumed: 0,
                digests: Digests::default(),
            }));
        }
        self.claims = claims;
    }

    /// Gives a process a channel, and tells the other daemon.
    fn join(&mut self, claim: &Claim, id: u64) {
        let secret = [(); 2].map(|()| self.world.random.borrow_mut().next().max(1));
        let half = self.half(claim, secret);
        let channel = self.new_number();
        let (stag, ring) = (self.links[&half.link].stag, half.rings[1]);
        self.halves.insert(channel, half);
        self.push(Message::Letter(Letter::Open { id, channel, stag, ring, secret }));
    }

    fn half(&mut self, claim: &Claim, secret: Secret) -> Half {
        let family = &claim.process.family;
        let known = self.links.values().find(|link| Rc::ptr_eq(&link.family, family)).map(|link| link.name);
        let name = known.unwrap_or_else(|| {
            let name = FAR_NAME | self.epoch << 32 | (self.number as u64) << 16 | self.links.len() as u64;
            let register = |memory: &Rc<_>| self.world.lanes.borrow_mut().register(memory);
            self.links.insert(name, FarLink::new(name, family, register));
            name
        });
        let link = self.links.get_mut(&name).expect("a link");
        let rings = (0..2).map(|_| link.take(MIN_LOG2).expect("room")).collect();
        let number = link.next_channel;
        link.next_channel += 1;
        let party = u32::from(number % 2 == 1);
        let (process, connection) = (Rc::clone(&claim.process), Rc::clone(&claim.connection));
        let memory = Rc::clone(&link.memory);
        let half =
            Half { process, connection, end: claim.end, link: name, memory, number, party, rings, secret };
        Outgoing::announce(half.words().ours, OURS);
        Incoming::announce(half.words().theirs, OURS);
        half
    }

    /// Both daemons have a channel: the process hears of it.
    fn begin(&mut self, own: u32, half: Half, (peer, stag, ring): (u32, u32, RingPlace)) {
        let relay = Relay::new((half.rings[0], ring), half.rings[1]);
        let (process, link) = (Rc::clone(&half.process), &self.links[&half.link]);
        let (slot, generation) = half.end;
        let party = u8::from(half.party == 1);
        let (link, family, file) = (link.name, self.name(), link.file.try_clone().ok());
        let (channel, ring, secret) = (half.number, large(half.rings[0]), half.secret);
        self.channels.insert(own, Channel { half, peer, stag, relay, is_closed: false });
        self.sweep(&process.family);
        let [status, bell] = self.process.card();
        let waiter = weft_sockets::WaiterName { member: OURS.member, line: OURS.line };
        self.tell(&process, ToProcess::LinkMade { link, peer: family, far: 1 }, file);
        self.tell(&process, ToProcess::PeerStatus { family, member: OURS.member }, Some(status));
        self.tell(&process, ToProcess::PeerBell { family, waiter }, Some(bell));
        self.tell(&process, ToProcess::Offer { slot, generation, link, channel, party, ring, secret }, None);
        self.world.tally.borrow_mut().operation("far channel", 0);
    }

    pub(super) fn handle_letter(&mut self, letter: Letter) {
        match letter {
            Letter::Claim { id, local, .. } => {
                let number = usize::from(local.port());
                match self.claims.iter().position(|claim| claim.connection.number == number) {
                    Some(at) => {
                        let claim = self.claims.swap_remove(at);
                        self.join(&claim, id);
                    }
                    None => self.remote.push((id, number)),
                }
            }
            Letter::Withdraw { id } => self.remote.retain(|(other, _)| *other != id),
            Letter::Open { id, channel, stag, ring, secret } => {
                let at = self.claims.iter().position(|claim| claim.told == Some(id));
                let letter = match at.map(|at| self.claims.swap_remove(at)) {
                    Some(claim) => {
                        let half = self.half(&claim, secret);
                        let own = self.new_number();
                        let (own_stag, own_ring) = (self.links[&half.link].stag, half.rings[1]);
                        self.begin(own, half, (channel, stag, ring));
                        Letter::Opened { channel, own, stag: own_stag, ring: own_ring }
                    }
                    None => Letter::Refused { channel },
                };
                self.push(Message::Letter(letter));
            }
            Letter::Opened { channel, own, stag, ring } => {
                if let Some(half) = self.halves.remove(&channel) {
                    self.begin(channel, half, (own, stag, ring));
                }
            }
            Letter::Refused { channel } => {
                if let Some(half) = self.halves.remove(&channel) {
                    self.abandon(&half);
                }
            }
            Letter::WantRing { channel, log2 } => self.make_ring(channel, log2),
            Letter::RingMade { channel, ring } => self.take_ring(channel, ring),
            Letter::ReturnRing { channel, ring } => self.lose_ring(channel, ring),
            Letter::Leg { channel, number, ring, start } => self.on_channel(channel, |channel| {
                let words = channel.half.words();
                channel.relay.incoming.handle_leg(words.theirs, number, ring, start)
            }),
            Letter::Final { channel, end } => self.on_channel(channel, |channel| {
                let words = channel.half.words();
                channel.relay.incoming.handle_final(words.theirs, end)
            }),
            Letter::Ask { secret } => self.handle_ask(secret),
            Letter::Stays { secret } => self.handle_stays(secret),
        }
    }

    pub(super) fn handle_notice(&mut self, Notice { kind, channel, value }: Notice) {
        self.on_channel(channel, |channel| channel.relay.handle(channel.half.words(), kind, value));
    }

    /// Ends what waits for the answer of the other daemon.
    pub(super) fn abandon(&mut self, half: &Half) {
        self.free_rings(half);
        let (process, connection) = (Rc::clone(&half.process), Rc::clone(&half.connection));
        self.drop_claim(&Claim { process, connection, end: half.end, until: 0, told: None });
    }

    fn on_channel(&mut self, own: u32, act: impl FnOnce(&mut Channel) -> Result<Option<Sleepers>, Broken>) {
        let Some(mut channel) = self.channels.remove(&own) else { return };
        match act(&mut channel) {
            Ok(sleepers) => self.wake(&channel.half.process.family, sleepers),
            Err(Broken) if channel.relay.is_broken() => {}
            Err(Broken) => self.break_channel(&mut channel),
        }
        self.channels.insert(own, channel);
    }

    /// Makes a further ring for what the other end sends.
    fn make_ring(&mut self, own: u32, log2: u8) {
        let Some(channel) = self.channels.get_mut(&own) else { return };
        let Some(link) = self.links.get_mut(&channel.half.link) else { return };
        let Some(ring) = link.take(log2) else { return };
        channel.relay.incoming.add_ring(ring);
        channel.half.rings.push(ring);
        let channel = channel.peer;
        self.push(Message::Letter(Letter::RingMade { channel, ring }));
    }

    /// The other daemon has made a ring: its counterpart is made here.
    fn take_ring(&mut self, own: u32, there: RingPlace) {
        let Some(channel) = self.channels.get_mut(&own) else { return };
        let Some(link) = self.links.get_mut(&channel.half.link) else { return };
        let Some(ring) = link.take(there.log2) else { return };
        channel.relay.outgoing.add_ring(ring, there);
        channel.half.rings.push(ring);
        let Half { link, number, party, ref process, .. } = channel.half;
        let family = Rc::clone(&process.family);
        let made =
            ToProcess::RingMade { link, channel: number, party: u8::from(party == 1), ring: large(ring) };
        let processes = self.world.processes.borrow().clone();
        for member in processes.iter().filter(|process| Rc::ptr_eq(&process.family, &family)) {
            self.tell(member, made, None);
        }
    }

    /// The other end has left a ring of this host.
    fn lose_ring(&mut self, own: u32, ring: RingPlace) {
        let Some(channel) = self.channels.get_mut(&own) else { return };
        if !channel.relay.incoming.remove_ring(ring) {
            let text = format!("daemon {}: a ring comes back that is in use", self.number);
            return self.world.fail(text);
        }
        let link = self.links.get_mut(&channel.half.link);
        link.into_iter().for_each(|link| channel.half.give_back(link, ring));
    }
}

/// How long a claim waits, in microseconds.
const PATIENCE: u64 = 5_000_000;
