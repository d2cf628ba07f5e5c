//! How a connection leaves TCP: claim, offer, then each direction by itself, as `upgrade.rs` of the library has it.

use weft_sockets::{ToDaemon, ToProcess};
use weft_sockets_stepped::end::{Attach, EAGER, FAR, Phase, SHUT, STAYS, STUCK, State, Switch, Traffic};
use weft_sockets_stepped::layout::{self, ATTACHED, DECLINED};
use weft_sockets_stepped::sync::Ordering::{Acquire, Relaxed};
use weft_sockets_stepped::{Carrier, Gate, Inbound, Leg, Outbound, Reason, RingPlace};

use super::end::{End, enter_kernel};
use super::places::{FAR_NAME, SMALLER};
use super::sabotage::Sabotage;
use super::service::Post;

impl End {
    /// Goes on with the upgrade behind a call that moved octets by TCP.
    pub(crate) fn moved(&self) {
        self.words().identity.calls.fetch_add(1, Relaxed);
        self.look_for_mail();
        match self.words().state().phase {
            Phase::Plain => self.consider(),
            Phase::Offered if !self.words().has(STAYS) => {
                if self.words().inbound.inside.load(Relaxed) == 0 {
                    self.attach();
                }
                if self.words().outbound.inside.load(Relaxed) == 0 {
                    self.switch();
                }
            }
            _ => {}
        }
        if self.words().has(FAR) {
            self.appear();
            let _later = self.renounce(false);
        }
    }

    /// Tells the daemon that this process has the channel.
    fn appear(&self) {
        let is_here = self.words().has(FAR) && self.words().state().phase == Phase::Offered;
        if let Some(link) = self.link().filter(|_| is_here) {
            let outbound = self.outbound(&link);
            if outbound.appear() {
                self.tell_reader_of(&outbound);
            }
        }
    }

    /// Claims the end if that is worth it.
    pub(crate) fn consider(&self) {
        let (words, identity) = (self.words(), &self.words().identity);
        let traffic = Traffic {
            calls: identity.calls.load(Relaxed),
            octets: self.written() + self.consumed(),
            threshold: identity.threshold.load(Relaxed),
            tries: identity.tries.load(Relaxed),
            age: u32::MAX,
            flags: identity.flags.load(Relaxed) | if self.world.is_eager { EAGER } else { 0 },
        };
        if !traffic.is_worth_it() || !self.is_held_alone() || !self.process.open_port(&self.world) {
            return;
        }
        let state = words.state();
        if !self.agrees() || state.phase != Phase::Plain || !words.advance(state, Phase::Claimed) {
            return;
        }
        let (slot, generation, socket) = (self.slot, self.generation, self.socket());
        self.world.kernel.borrow_mut().hold(socket);
        if self.process.tell(&self.world, Post::Claim { slot, generation, socket }) {
            identity.tries.fetch_add(1, Relaxed);
            // More often than the library, so that short runs claim again.
            identity.threshold.store(traffic.worth() + 4, Relaxed);
        } else {
            let arrival = self.world.later();
            self.world.kernel.borrow_mut().release(socket, arrival);
            words.advance(state.with(Phase::Claimed), Phase::Plain);
        }
    }

    /// True if the kernel has counted what the program has moved.
    fn agrees(&self) -> bool {
        let words = self.words();
        let is_inside = || words.outbound.inside.load(Acquire) | words.inbound.inside.load(Acquire) != 0;
        let was_inside = is_inside();
        let counts = (self.written(), self.consumed());
        enter_kernel();
        let is_agreed = self.world.kernel.borrow().counts(self.socket()) == counts;
        let is_moving = || was_inside || is_inside() || counts != (self.written(), self.consumed());
        if !is_agreed && !is_moving() && !words.has(STAYS) {
            self.world.fail(format!("{self}: the counts differ before a claim"));
        }
        is_agreed
    }

    /// Reads the daemon's mail.
    pub(crate) fn look_for_mail(&self) {
        while let Some(message) = self.process.read_mail(&self.world) {
            self.hear(message);
        }
    }

    fn hear(&self, message: ToProcess) {
        let slab = &self.process.family.slab;
        match message {
            ToProcess::Offer { slot, generation, link, channel, party, ring, secret } => {
                self.process.add_party(link, party.into());
                let end = slab.end(slot).filter(|end| end.state().generation == generation);
                let is_taken = end.is_some_and(|end| {
                    let (identity, state) = (&end.identity, end.state());
                    match state.phase {
                        Phase::Offered => {
                            let place = (identity.link.load(Relaxed), identity.channel.load(Relaxed));
                            (place, identity.party.load(Relaxed)) == ((link, channel), party.into())
                        }
                        // Of several processes that are here at a time one fills the words in.
                        Phase::Plain | Phase::Claimed if end.advance(state, Phase::Fresh) => {
                            identity.link.store(link, Relaxed);
                            identity.channel.store(channel, Relaxed);
                            identity.party.store(party.into(), Relaxed);
                            if link & FAR_NAME != 0 {
                                identity.flags.fetch_or(FAR, Relaxed);
                                Self::keep(end, secret);
                            }
                            end.outbound.ring.store(packed(place_of(ring)), Relaxed);
                            let is_taken = end.advance(state.with(Phase::Fresh), Phase::Offered);
                            // The program may make no further call before it hears of the other end.
                            if is_taken {
                                let taken = Self { slot, generation, ..self.clone() };
                                taken.tell_shut();
                                taken.appear();
                            }
                            is_taken
                        }
                        Phase::Fresh => true,
                        _ => false,
                    }
                });
                if !is_taken {
                    self.process.tell(
                        &self.world,
                        Post::Other(ToDaemon::Closed { slot, generation, link, channel, party }, None),
                    );
                }
            }
            ToProcess::Dropped { slot, generation, .. } => {
                let state = State { phase: Phase::Claimed, generation };
                slab.end(slot).map(|end| end.advance(state, Phase::Plain));
            }
            ToProcess::RingMade { link, channel, party, ring } => {
                let is_its = |end: &&layout::End| {
                    let identity = &end.identity;
                    end.state().phase == Phase::Offered
                        && identity.link.load(Relaxed) == link
                        && identity.channel.load(Relaxed) == channel
                        && identity.party.load(Relaxed) == u32::from(party)
                };
                let ends = slab.header().ends.load(Acquire);
                if let Some(end) = (0..ends).filter_map(|slot| slab.end(slot)).find(is_its) {
                    end.outbound.ring.store(packed(place_of(ring)), Relaxed);
                }
            }
            _ => {}
        }
    }

    /// Takes the receiving direction into the library's own hands, and tells the sender.
    fn attach(&self) {
        let Some(link) = self.link() else { return };
        let (gate, inbound) = (self.in_gate(), self.inbound(&link));
        let is_stuck = self.words().inbound.flags.load(Relaxed) & STUCK != 0;
        if is_stuck || self.consumed() == 0 || !self.is_held_alone() {
            return;
        }
        self.tell_shut();
        let is_unlocked = self.world.sabotage == Some(Sabotage::AttachUnlocked);
        // A thread that finds the gate closed reads under the lock.
        let section = (!is_unlocked).then(|| self.in_section(&inbound));
        let decision = self.decide_attach(&gate);
        section.into_iter().for_each(|section| self.leave(section));
        match decision {
            Some(Ok(())) if self.tell_sender(&inbound) => {
                self.world.note(format_args!("{self} attaches at {}", self.consumed()));
            }
            Some(Ok(())) => gate.open(),
            Some(Err(_)) => self.world.fail(format!("{self}: the counts of what it has read differ")),
            None => {}
        }
    }

    /// Tells the end of a stream that was shut down before the channel came: there was nobody to tell.
    fn tell_shut(&self) {
        let Some(link) = self.link().filter(|_| self.is_shut()) else { return };
        let outbound = self.outbound(&link);
        let section = self.out_section(&outbound);
        // A broken rule shows at the next look, too.
        let _told = outbound.finish();
        self.leave(section);
        self.tell_reader_of(&outbound);
    }

    /// Closes the gate, and decides whether the reader may leave TCP. `None`: not now. Then the gate is open.
    fn decide_attach(&self, gate: &Gate<'_>) -> Option<Result<(), Reason>> {
        if !gate.try_close() {
            return None;
        }
        enter_kernel();
        let kernel = self.world.kernel.borrow().counts(self.socket()).1;
        let attach = Attach { is_offered: true, is_alone: true, consumed: self.consumed(), kernel };
        // An end that has gone back to TCP may be another program's.
        let decision = if self.words().has(STAYS) { None } else { attach.decide() };
        if decision.is_none() {
            gate.open();
        }
        decision
    }

    /// Tells the sender that its reader has left TCP. Returns false if another thread takes the end back to TCP meanwhile.
    fn tell_sender(&self, inbound: &Inbound<'_>) -> bool {
        let section = self.in_section(inbound);
        let stays = self.words().has(STAYS);
        if !stays {
            inbound.attach();
        }
        self.leave(section);
        self.tell_sender_of(inbound);
        !stays
    }

    /// Begins to send by the ring, if the reader has attached.
    fn switch(&self) {
        let Some(link) = self.link() else { return };
        let outbound = self.outbound(&link);
        let flags = self.words().outbound.flags.load(Relaxed);
        let is_vain = self.words().has(FAR) && outbound.is_awaited_in_vain();
        let is_fixed = flags & (SHUT | STUCK) != 0;
        if is_fixed || is_vain || outbound.is_attached().is_none() || !self.is_held_alone() {
            return;
        }
        let section = self.out_section(&outbound);
        let gate = self.out_gate();
        // Another thread may have taken the end back to TCP, in its own section.
        if !self.words().has(STAYS) && (self.world.sabotage == Some(Sabotage::Gate) || gate.try_close()) {
            match self.decide_switch(outbound.is_attached()) {
                Some(Err(Reason::Evidence)) => {
                    self.world.fail(format!("{self}: the counts of what it has written differ"));
                }
                Some(Err(_)) => {
                    self.words().outbound.flags.fetch_or(STUCK, Relaxed);
                    gate.open();
                }
                Some(Ok(carrier)) if outbound.commit() => self.begin(&outbound, carrier),
                _ => gate.open(),
            }
        }
        self.leave(section);
    }

    fn begin(&self, outbound: &Outbound<'_>, carrier: Carrier) {
        match outbound.begin_leg(carrier) {
            Ok(true) => {
                self.words().outbound.ring.store(0, Relaxed);
                self.world.tally.borrow_mut().operation("switch", 0);
                self.world.note(format_args!("{self} sends by a ring from {}", self.written()));
            }
            Ok(false) => self.out_gate().open(),
            Err(_) => self.world.fail(format!("{self}: the reader has broken a rule")),
        }
    }

    /// Tells a far reader that the ring for which it waits never comes, by a record. That is due once nobody carries octets
    /// to it, and with `is_last`, before the end of the stream, if the daemon is dead. Returns false if the record can go out
    /// later: it is sent only if all octets before it have arrived.
    pub(crate) fn renounce(&self, is_last: bool) -> bool {
        let words = self.words();
        if words.outbound.leg().number != 0 || words.state().phase != Phase::Offered {
            return true;
        }
        let Some(link) = self.link() else { return true };
        let outbound = self.outbound(&link);
        let is_dead = || is_last && outbound.is_awaited() && !self.process.has_daemon(&self.world);
        // Another program may have a socket that went back to TCP for another reason.
        let is_others = words.has(STAYS) && words.reason() != Some(Reason::Lane);
        if is_others || !outbound.is_awaited_in_vain() && !is_dead() || !self.is_held_alone() {
            return true;
        }
        let has_arrived = || self.world.kernel.borrow().has_arrived(self.socket());
        if !has_arrived() {
            return false;
        }
        let section = self.out_section(&outbound);
        let gate = self.out_gate();
        let mut is_done = false;
        if gate.try_close() {
            enter_kernel();
            let decision = if has_arrived() { self.decide_switch(Some(true)) } else { None };
            is_done = decision.is_some();
            match decision {
                Some(Ok(_)) if outbound.renounce() => {
                    words.stay(Reason::Lane);
                    let _is_out = self.go_back(&link, &outbound);
                    self.world.tally.borrow_mut().operation("renounced", 0);
                    self.world.note(format_args!("{self} sends by TCP for good from {}", self.written()));
                }
                Some(Err(_)) => {
                    outbound.keep_silent();
                    gate.open();
                }
                _ => gate.open(),
            }
        }
        self.leave(section);
        is_done
    }

    fn decide_switch(&self, is_attached: Option<bool>) -> Option<Result<Carrier, Reason>> {
        let leg = Leg::from_word(self.words().outbound.ring.load(Acquire))?;
        if leg.carrier == Carrier::Tcp {
            return None;
        }
        let switch = Switch {
            attached: is_attached.map_or(0, |is_attached| if is_attached { ATTACHED } else { DECLINED }),
            is_alone: self.is_held_alone(),
            // A thread that has shut the direction down since tells the end in a section of its own, behind this flag.
            is_held: self.is_shut(),
            written: self.written() + self.words().outbound.kernel.load(Relaxed),
            kernel: self.world.kernel.borrow().counts(self.socket()).0,
        };
        Some(switch.decide()?.map(|()| leg.carrier))
    }
}

/// The leg's word for a carrier that waits for its number.
fn packed(carrier: Carrier) -> u64 {
    Leg { number: 0, carrier }.to_word()
}

/// The daemon's ring, which is smaller here.
fn place_of(ring: weft_sockets::RingPlace) -> Carrier {
    RingPlace::new(ring.unit, ring.log2 - SMALLER).map_or(Carrier::Tcp, Carrier::Ring)
}
