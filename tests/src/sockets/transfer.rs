//! Sends of a program, by TCP or by the ring, and the sections of both directions, as the library does them.

use weft_sockets::ToDaemon;
use weft_sockets_stepped::end::{DEAD, FAR, UNSURE};
use weft_sockets_stepped::sync::Ordering::{Acquire, Relaxed};
use weft_sockets_stepped::{Broken, Carrier, Inbound, Leg, Outbound, Sink};

use super::end::{End, enter_kernel};
use super::kernel::{Anchor, Failed};
use super::places::SMALLER;
use super::process::LinkView;
use super::sabotage::Sabotage;
use super::service::Post;

/// What a call came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Moved(usize),
    Nothing,
    End,
    Failed,
}

impl From<Failed> for Step {
    fn from(failed: Failed) -> Self {
        if failed == Failed::Again { Self::Nothing } else { Self::Failed }
    }
}

impl End {
    /// Sends up to `len` octets of a sender.
    pub(crate) fn send(&self, sender: usize, len: usize) -> Step {
        let octets = self.connection.directions[self.side].borrow_mut().next(sender, len);
        let gate = self.out_gate();
        if !gate.enter() {
            let step = self.in_outbound(|link, outbound| self.give(link, outbound, sender, &octets));
            return if step == Step::Nothing { self.look_at_reader() } else { step };
        }
        enter_kernel();
        let sent = self.send_by_kernel(sender, &octets);
        if let Step::Moved(octets) = sent {
            self.words().outbound.count(octets as u64);
        }
        gate.leave();
        if let Step::Moved(1..) = sent {
            self.moved();
        }
        sent
    }

    /// Sends as a program without the library does.
    pub(crate) fn send_bare(&self, sender: usize, len: usize) -> Step {
        let octets = self.connection.directions[self.side].borrow_mut().next(sender, len);
        self.send_by_kernel(sender, &octets)
    }

    fn send_by_kernel(&self, sender: usize, octets: &[u8]) -> Step {
        let arrival = self.world.later();
        let sent = self.world.kernel.borrow_mut().send(self.socket(), octets, arrival);
        if let Ok(octets) = sent {
            self.connection.directions[self.side].borrow_mut().sent[sender] += octets as u64;
        }
        if let Err(Failed::Reset | Failed::Pipe) = sent {
            self.world.note(format_args!("{self}: the kernel refuses octets, {sent:?}"));
        }
        sent.map_or_else(Step::from, Step::Moved)
    }

    fn give(
        &self,
        link: &LinkView,
        outbound: &Outbound<'_>,
        sender: usize,
        octets: &[u8],
    ) -> Result<Step, Broken> {
        let is_kernels = self.is_shut() || outbound.is_deserted();
        if self.is_dead() && !is_kernels {
            return Ok(Step::Failed);
        }
        if outbound.sink() == Sink::Ring && self.is_broken_by_link() {
            return Err(Broken);
        }
        if outbound.is_asked_back() && self.answer(link, outbound).is_err() {
            self.reset();
            return Ok(Step::Failed);
        }
        self.grow(outbound)?;
        if outbound.sink() == Sink::Tcp || is_kernels {
            if let Some(step) = self.send_backlog(link, outbound)? {
                return Ok(step);
            }
            enter_kernel();
            let sent = self.send_by_kernel(sender, octets);
            match sent {
                Step::Moved(octets) => self.words().outbound.count(octets as u64),
                Step::Failed => self.bury(),
                _ => {}
            }
            return Ok(sent);
        }
        // The reader may find them before the write returns.
        let now = self.world.now.get();
        let before = std::mem::replace(&mut self.connection.directions[self.side].borrow_mut().put_at, now);
        let len = outbound.write(octets)?;
        let mut direction = self.connection.directions[self.side].borrow_mut();
        direction.sent[sender] += len as u64;
        if len == 0 {
            direction.put_at = before;
            return Ok(Step::Nothing);
        }
        direction.put_at = self.world.now.get();
        drop(direction);
        self.words().counts.out_ring.fetch_add(len as u64, Relaxed);
        self.world.tally.borrow_mut().operation("ring write", len);
        Ok(Step::Moved(len))
    }

    /// Sends what the reader has left in the last ring. Returns a step if that is not all out yet.
    pub(crate) fn send_backlog(
        &self,
        link: &LinkView,
        outbound: &Outbound<'_>,
    ) -> Result<Option<Step>, Broken> {
        loop {
            let is_unsure = self.words().outbound.flags.load(Relaxed) & UNSURE != 0;
            if is_unsure && !self.is_untouched() {
                // Some of them may be out already.
                self.reset();
                return Ok(Some(Step::Failed));
            }
            if let Some(step) = self.send_record(outbound) {
                return Ok(Some(step));
            }
            let Some(pieces) = outbound.backlog() else { return Ok(None) };
            let own = &self.words().outbound;
            let from = own.head.load(Relaxed);
            let legs = [own.backlog.load(Relaxed), own.before.load(Relaxed)];
            let (address, len) = pieces[0];
            let octets = legs.into_iter().filter_map(Leg::from_word).find_map(|leg| {
                let Carrier::Ring(place) = leg.carrier else { return None };
                let (ring, at) = (link.memory.ring(place), usize::try_from(from % place.len()).ok()?);
                let mut octets = vec![0; len];
                (ring.address(at, len) == Some(address) && ring.read(at, &mut octets)).then_some(octets)
            });
            let octets = octets.ok_or(Broken)?;
            enter_kernel();
            let arrival = self.world.later();
            let sent = self.world.kernel.borrow_mut().send(self.socket(), &octets, arrival);
            match sent {
                Ok(sent) => {
                    outbound.resent(sent);
                    self.words().counts.out_ring.fetch_sub(sent as u64, Relaxed);
                }
                Err(failed) => return Ok(Some(failed.into())),
            }
            self.world.tally.borrow_mut().operation("backlog", 0);
        }
    }

    /// Begins to send by a larger ring that has come, and gives the old one back once the reader has left it.
    fn grow(&self, outbound: &Outbound<'_>) -> Result<(), Broken> {
        let own = &self.words().outbound;
        let (old, Some(next)) = (own.leg(), Leg::from_word(own.ring.load(Acquire))) else { return Ok(()) };
        match next {
            Leg { number: LEFT, carrier: Carrier::Ring(ring) } => {
                if outbound.is_adopted() || self.world.sabotage == Some(Sabotage::RingTooEarly) {
                    let ring = weft_sockets::RingPlace::new(ring.unit, ring.log2 + SMALLER);
                    let (link, party) = self.place();
                    let (channel, party) =
                        (self.words().identity.channel.load(Relaxed), u8::from(party == 1));
                    if let Some(ring) = ring {
                        let message = ToDaemon::ReturnRing { link, channel, party, ring };
                        self.process.tell(&self.world, Post::Other(message, None));
                    }
                    own.ring.store(0, Relaxed);
                }
            }
            // A relative has begun it, and was killed then.
            Leg { carrier: carrier @ Carrier::Ring(_), .. } if carrier == old.carrier => {
                let left = match Leg::from_word(own.before.load(Relaxed)) {
                    Some(Leg { carrier: carrier @ Carrier::Ring(_), .. }) => {
                        Leg { number: LEFT, carrier }.to_word()
                    }
                    _ => 0,
                };
                own.ring.store(left, Relaxed);
            }
            Leg { carrier: Carrier::Ring(_), .. } => {
                if old.carrier != Carrier::Tcp && outbound.begin_leg(next.carrier)? {
                    own.ring.store(Leg { number: LEFT, ..old }.to_word(), Relaxed);
                    self.connection.directions[self.side].borrow_mut().room_at = self.world.now.get();
                    self.process.wake_own(outbound.own_sleepers());
                    self.world.tally.borrow_mut().operation("larger ring", 0);
                    self.world.note(format_args!("{self} sends by a larger ring"));
                }
            }
            Leg { .. } => {}
        }
        Ok(())
    }

    /// Asks the daemon for a larger ring behind a send that found none free.
    fn want_larger(&self) {
        let own = &self.words().outbound;
        let Carrier::Ring(ring) = own.leg().carrier else { return };
        if ring.log2 + 2 <= LARGEST && own.ring.load(Relaxed) == 0 {
            let (link, party) = self.place();
            let (channel, party) = (self.words().identity.channel.load(Relaxed), u8::from(party == 1));
            let message = ToDaemon::WantRing { link, channel, party, log2: ring.log2 + 2 + SMALLER };
            if self.process.tell(&self.world, Post::Other(message, None)) {
                own.ring.store(ASKED.to_word(), Relaxed);
            }
        }
    }

    /// Asks the kernel's socket below a full ring whether the other end lives.
    fn look_at_reader(&self) -> Step {
        let _left = self.watch();
        enter_kernel();
        let look = self.world.kernel.borrow_mut().look_beyond(self.socket());
        // The daemon of a far end tells it by the link.
        let is_orphan = || !self.words().has(FAR) && self.world.kernel.borrow().is_orphan(self.socket());
        match look {
            Anchor::Silent | Anchor::Foreign if !self.is_killed() => Step::Nothing,
            // A reset of which another call has heard, or another process.
            Anchor::Ended if self.world.kernel.borrow().is_broken(self.socket()) => Step::Failed,
            // It has shut down what it sends, and reads on, unless nobody has it any more.
            Anchor::Ended if self.goes_on_reading() && !is_orphan() && !self.is_killed() => Step::Nothing,
            _ => {
                self.bury();
                Step::Failed
            }
        }
    }

    /// True if the other end was killed before it had read all that was sent to it.
    fn is_killed(&self) -> bool {
        self.link().is_some_and(|link| self.out_gate().is_closed() && self.outbound(&link).is_killed())
    }

    /// True if the other end has said where its stream ends, but is not closed. A program without the library, to which
    /// the stream goes by TCP, says nothing. The death of a far end is told by the link, or by TCP.
    fn goes_on_reading(&self) -> bool {
        let Some(link) = self.link() else { return false };
        let inbound = self.inbound(&link);
        let is_told = inbound.is_end_expected() || self.words().has(FAR);
        self.outbound(&link).sink() == Sink::Tcp || is_told && !inbound.is_reset()
    }

    /// Notes that the program has heard of the connection's failure, which the kernel tells once.
    pub(crate) fn bury(&self) {
        self.words().inbound.flags.fetch_or(DEAD, Relaxed);
    }

    /// True if the program has heard of the connection's failure.
    pub(crate) fn is_dead(&self) -> bool {
        self.words().inbound.flags.load(Relaxed) & DEAD != 0
    }

    /// True if the other end has not read all that was written to its ring.
    pub(crate) fn has_unread(&self) -> bool {
        let Some(link) = self.link().filter(|_| self.out_gate().is_closed()) else { return false };
        self.outbound(&link).unread() != Ok(0)
    }

    /// Runs a section of the receiving direction.
    pub(crate) fn in_inbound(&self, run: impl FnOnce(&Inbound<'_>) -> Result<Step, Broken>) -> Step {
        let Some(link) = self.link() else { return Step::Failed };
        let inbound = self.inbound(&link);
        let section = self.in_section(&inbound);
        let step = run(&inbound);
        let sleepers = inbound.sleepers();
        self.leave(section);
        self.process.wake(&self.world, self.place(), sleepers);
        self.catch_up(&inbound);
        self.unbroken(step)
    }

    /// Runs a section of the sending direction.
    pub(crate) fn in_outbound(
        &self,
        run: impl FnOnce(&LinkView, &Outbound<'_>) -> Result<Step, Broken>,
    ) -> Step {
        let Some(link) = self.link() else {
            self.world
                .note(format_args!("{self} has no link {:x}", self.words().identity.link.load(Relaxed)));
            return Step::Failed;
        };
        let outbound = self.outbound(&link);
        let section = self.out_section(&outbound);
        let full = self.words().outbound.full.load(Relaxed);
        let step = run(&link, &outbound);
        let sleepers = outbound.sleepers();
        if self.words().outbound.full.load(Relaxed) != full {
            self.want_larger();
        }
        self.leave(section);
        if self.world.sabotage != Some(Sabotage::Wake) {
            self.process.wake(&self.world, self.place(), sleepers);
        }
        self.unbroken(step)
    }

    fn unbroken(&self, step: Result<Step, Broken>) -> Step {
        step.unwrap_or_else(|Broken| {
            if !self.connection.is_excused() {
                self.world.fail(format!("{self}: the other end has broken a rule"));
            }
            Step::Failed
        })
    }
}

/// The number of a leg that was left: its ring has to be given back.
const LEFT: u16 = 1;
/// In the place of a ring that the daemon was asked for.
const ASKED: Leg = Leg { number: 2, carrier: Carrier::Tcp };
const LARGEST: u8 = weft_sockets_stepped::MIN_LOG2 + 4;
