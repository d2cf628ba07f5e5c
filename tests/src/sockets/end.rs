//! An end of a connection in the hands of a thread: sections, claims, and how a direction leaves TCP, as the library does
//! it in programs.

use std::rc::Rc;

use weft_sockets::{ToDaemon, ToProcess};
use weft_sockets_stepped::end::{
    Attach, EAGER, FAR, Phase, SHARED, SHUT, STAYS, STUCK, State, Switch, Traffic, UNSURE, allocate,
};
use weft_sockets_stepped::layout::{self, ATTACHED, DECLINED};
use weft_sockets_stepped::sync::AtomicU64;
use weft_sockets_stepped::sync::Ordering::{Acquire, Relaxed};
use weft_sockets_stepped::{
    Carrier, Gate, Holder, Inbound, Leg, Level, Lock, Outbound, Owner, Reason, RingPlace,
};

use super::connection::Connection;
use super::places::{FAR_NAME, SMALLER};
use super::process::{LinkView, Process};
use super::sabotage::Sabotage;
use super::service::Post;
use super::task;
use super::world::{Waits, World};

/// An end, and the thread that uses it.
#[derive(Clone)]
pub(crate) struct End {
    pub(crate) world: Rc<World>,
    pub(crate) process: Rc<Process>,
    pub(crate) connection: Rc<Connection>,
    /// 0 or 1.
    pub(crate) side: usize,
    pub(crate) slot: u32,
    pub(crate) generation: u32,
    /// Names the thread.
    pub(crate) thread: u32,
}

/// A section of a direction.
#[must_use]
pub(crate) struct Section<'a> {
    lock: Lock<'a>,
    level: Level,
    is_inherited: bool,
}

impl End {
    /// Makes the end of a new connection.
    pub(crate) fn create(
        world: &Rc<World>,
        process: &Rc<Process>,
        connection: &Rc<Connection>,
        side: usize,
    ) -> Self {
        let (slot, state) = allocate(&process.family.slab, 0).expect("room");
        let (process, connection) = (Rc::clone(process), Rc::clone(connection));
        let generation = state.generation;
        let end = Self { world: Rc::clone(world), process, connection, side, slot, generation, thread: 0 };
        let _is_held = end.words().holders.add(end.process.member);
        end.words().advance(state, Phase::Plain);
        end
    }

    /// The same end in the hands of another thread, perhaps of another process of the family.
    pub(crate) fn of(&self, process: &Rc<Process>) -> Self {
        Self { process: Rc::clone(process), thread: self.world.new_thread(), ..self.clone() }
    }

    pub(crate) fn words(&self) -> &layout::End {
        self.process.family.slab.end(self.slot).expect("an end")
    }

    pub(crate) fn socket(&self) -> usize {
        self.connection.socket + self.side
    }

    pub(crate) fn link(&self) -> Option<Rc<LinkView>> {
        self.process.link(self.words().identity.link.load(Relaxed))
    }

    pub(crate) fn outbound<'a>(&'a self, link: &'a LinkView) -> Outbound<'a> {
        let identity = &self.words().identity;
        let place = (identity.channel.load(Relaxed), identity.party.load(Relaxed));
        Outbound::new(&self.words().outbound, &link.memory, place.0, place.1).expect("a channel")
    }

    pub(crate) fn inbound<'a>(&'a self, link: &'a LinkView) -> Inbound<'a> {
        let identity = &self.words().identity;
        let place = (identity.channel.load(Relaxed), identity.party.load(Relaxed));
        Inbound::new(&self.words().inbound, &link.memory, place.0, place.1).expect("a channel")
    }

    /// The link's name and the end's party.
    pub(crate) fn place(&self) -> (u64, u32) {
        let identity = &self.words().identity;
        (identity.link.load(Relaxed), identity.party.load(Relaxed))
    }

    pub(crate) fn out_gate(&self) -> Gate<'_> {
        Gate::new(&self.words().outbound.inside, self.is_alone())
    }

    pub(crate) fn in_gate(&self) -> Gate<'_> {
        Gate::new(&self.words().inbound.inside, self.is_alone())
    }

    pub(crate) fn is_alone(&self) -> bool {
        self.process.is_single && !self.words().has(SHARED)
    }

    pub(crate) fn out_section(&self, outbound: &Outbound<'_>) -> Section<'_> {
        let section = self.section(&self.words().outbound.lock);
        if section.is_inherited {
            outbound.republish();
            if outbound.backlog().is_some() {
                self.words().outbound.flags.fetch_or(UNSURE, Relaxed);
            }
        }
        section
    }

    pub(crate) fn in_section(&self, inbound: &Inbound<'_>) -> Section<'_> {
        let section = self.section(&self.words().inbound.lock);
        if section.is_inherited {
            inbound.republish();
        }
        section
    }

    fn section<'a>(&'a self, word: &'a AtomicU64) -> Section<'a> {
        let level = if self.is_alone() { Level::Alone } else { Level::Shared };
        let lock = Lock::new(word);
        let me = Owner::new(self.process.member, self.thread);
        let is_inherited = match lock.try_lock(me, level) {
            Ok(()) => false,
            Err(Holder::Itself) => unreachable!("there are no signal handlers"),
            Err(Holder::Other(_)) => self.wait_for_lock(lock, me),
        };
        Section { lock, level, is_inherited }
    }

    /// Waits for a lock. Returns true if it was taken from a dead owner.
    fn wait_for_lock(&self, lock: Lock<'_>, me: Owner) -> bool {
        loop {
            if lock.try_lock_after_wait(me) {
                return false;
            }
            let Some(seen) = lock.announce() else { continue };
            let futex = lock.futex().addr();
            if lock.announce() != Some(seen) {
                continue;
            }
            let until = Some(self.world.now.get() + 50_000);
            let is_late = self.world.wait(Waits { until, futex: Some(futex), ..Waits::default() });
            if let Some(owner) = lock.owner().filter(|owner| is_late && self.is_owner_dead(owner.member()))
                && lock.take_over(owner, me)
            {
                self.world.tally.borrow_mut().fault("lock of a dead owner", 1);
                return true;
            }
        }
    }

    fn is_owner_dead(&self, member: u16) -> bool {
        let processes = self.world.processes.borrow();
        let its =
            |other: &&Rc<Process>| Rc::ptr_eq(&other.family, &self.process.family) && other.member == member;
        processes.iter().find(its).is_none_or(|other| !other.is_alive.get())
    }

    /// Ends a section.
    pub(crate) fn leave(&self, section: Section<'_>) {
        let futex = section.lock.futex().addr();
        if section.lock.unlock(section.level) {
            self.world.wake_futex(futex);
        }
    }

    pub(crate) fn is_held_alone(&self) -> bool {
        self.words().holders.only(self.process.member)
    }

    fn written(&self) -> u64 {
        self.words().outbound.written.load(Relaxed)
    }

    fn consumed(&self) -> u64 {
        self.words().inbound.consumed.load(Relaxed)
    }

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
            ToProcess::Offer { slot, generation, link, channel, party, ring, .. } => {
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
                            }
                            end.outbound.ring.store(packed(place_of(ring)), Relaxed);
                            end.advance(state.with(Phase::Fresh), Phase::Offered)
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
        // Before the channel came, there was nobody to tell.
        if self.is_shut() {
            let outbound = self.outbound(&link);
            let section = self.out_section(&outbound);
            let told = outbound.finish();
            self.leave(section);
            self.tell_reader_of(&outbound);
            if told.is_err() {
                return;
            }
        }
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
        if outbound.is_attached().is_none() || flags & (SHUT | STUCK) != 0 || !self.is_held_alone() {
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

    fn decide_switch(&self, is_attached: Option<bool>) -> Option<Result<Carrier, Reason>> {
        let leg = Leg::from_word(self.words().outbound.ring.load(Acquire))?;
        if leg.carrier == Carrier::Tcp {
            return None;
        }
        let switch = Switch {
            attached: is_attached.map_or(0, |is_attached| if is_attached { ATTACHED } else { DECLINED }),
            is_alone: self.is_held_alone(),
            is_held: false,
            written: self.written(),
            kernel: self.world.kernel.borrow().counts(self.socket()).0,
        };
        Some(switch.decide()?.map(|()| leg.carrier))
    }
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let side = if self.side == 0 { "left" } else { "right" };
        write!(f, "process {} thread {} {} {side}", self.process.number, self.thread, self.connection.number)
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

/// Lets other threads run, as a call of the kernel's does.
pub(crate) fn enter_kernel() {
    task::pause();
}
