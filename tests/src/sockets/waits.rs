//! Waits of a program's threads, by the kernel or beside a ring, as `poll` of the library has them.

use weft_sockets_stepped::end::{FAR, SHARED};
use weft_sockets_stepped::{Carrier, Gate, Leg, Sink, Source};

use super::end::{End, enter_kernel};
use super::process::LinkView;
use super::sabotage::Sabotage;
use super::world::Waits;

/// What a thread waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) octets: bool,
    pub(crate) room: bool,
}

/// What a look has found.
#[derive(Clone, Copy, Debug, Default)]
struct Look {
    is_ready: bool,
    is_inbound: bool,
    is_outbound: bool,
    /// The other end has said where its stream ends.
    is_ended: bool,
    /// The thread has to look again by itself.
    is_paced: bool,
}

impl End {
    /// Waits until a call may find something.
    pub(crate) fn sleep(&self, wanted: Wanted) {
        self.look_for_mail();
        let mut is_taken = None;
        if self.world.sabotage == Some(Sabotage::LookBeforeGate) {
            is_taken = Some(self.is_taken());
            enter_kernel();
        }
        let goes_in = !self.process.is_single && self.world.sabotage != Some(Sabotage::GateOfWait);
        let goes_out = goes_in && wanted.room && self.world.sabotage != Some(Sabotage::GateOfRoom);
        let words = self.words();
        let is_outside = goes_out
            && self.go_in(self.out_gate(), words.outbound.leg(), |link| {
                self.leave(self.out_section(&self.outbound(link)));
            });
        let is_inside = goes_in
            && self.go_in(self.in_gate(), words.inbound.leg(), |link| {
                self.leave(self.in_section(&self.inbound(link)));
            });
        if is_taken.unwrap_or_else(|| self.is_taken()) {
            self.wait_for_ring(wanted);
        } else {
            self.wait_for(wanted, Leg::default(), None);
            // Nobody would wake it.
            if !self.process.is_single && self.in_gate().is_closed() {
                self.world.fail(format!("{self}: waits in the kernel, and the reader leaves TCP"));
            }
            if !self.process.is_single && wanted.room && self.is_in_ring() {
                self.world.fail(format!("{self}: waits in the kernel for room, and the sender leaves TCP"));
            }
        }
        if is_inside {
            self.in_gate().leave();
        }
        if is_outside {
            self.out_gate().leave();
        }
    }

    /// Goes inside the gate of a direction. Returns false if the direction has left TCP. A thread that closes the gate
    /// decides in a section whether it opens it again, so that `pass` goes through one.
    fn go_in(&self, gate: Gate<'_>, leg: Leg, pass: impl Fn(&LinkView)) -> bool {
        loop {
            if gate.enter() {
                return true;
            }
            if let Some(link) = self.link().filter(|_| leg.number == 0) {
                pass(&link);
            }
            if gate.is_closed() {
                return false;
            }
        }
    }

    fn is_taken(&self) -> bool {
        self.in_gate().is_closed() || self.out_gate().is_closed()
    }

    fn is_in_ring(&self) -> bool {
        self.link().is_some_and(|link| self.outbound(&link).sink() == Sink::Ring)
    }

    fn wait_for_ring(&self, wanted: Wanted) {
        self.obey();
        let left = self.watch();
        let leg = self.words().outbound.leg();
        let line = self.process.take_line();
        let is_rung = self.process.is_rung(&self.world);
        if is_rung {
            self.process.need_bell(&self.world, line);
        }
        let sleep = self.process.doze(line);
        let goes_on = |other| self.process.goes_on(other);
        if let Some(link) = self.link() {
            if wanted.octets && self.in_gate().is_closed() {
                let inbound = self.inbound(&link);
                let section = self.in_section(&inbound);
                // All see all stores at once: the barrier does nothing here.
                let _barrier = inbound.announce(sleep, goes_on);
                self.leave(section);
            }
            if wanted.room && self.out_gate().is_closed() {
                let outbound = self.outbound(&link);
                let section = self.out_section(&outbound);
                let _asked = outbound.ask_for_room(sleep, goes_on);
                self.leave(section);
            }
        }
        let is_blind = self.world.sabotage == Some(Sabotage::LastLook);
        let look = self.look(wanted);
        if is_blind || !look.is_ready {
            let span = if is_rung { LONG } else { SLICE };
            let span = span.min(if look.is_paced { PACE } else { LONG }).min(left);
            self.wait_for(wanted, leg, Some((line, span)));
        }
        self.process.awake(line);
        self.look_for_mail();
    }

    /// Waits for the kernel's socket, and for the bell of a line as long as that span. The thread has looked for room
    /// behind this leg.
    fn wait_for(&self, wanted: Wanted, leg: Leg, line: Option<(usize, u64)>) {
        // The kernel is asked for all that the program wants, unless the thread waits for a ring.
        let look = if line.is_some() { self.look(wanted) } else { Look::default() };
        let start = self.world.now.get();
        // What does not count yet would end the wait at once.
        let early = if line.is_some() { self.left() } else { None };
        let hides = early.is_some() && self.hides();
        let is_open = look.is_outbound && !look.is_ended && !self.words().has(FAR);
        self.world.wait(Waits {
            until: line.map(|(_, span)| start + span.min(early.unwrap_or(span))),
            readable: (wanted.octets && !hides).then(|| self.socket()),
            ended: is_open.then(|| self.socket()),
            writable: (wanted.room && !look.is_outbound).then(|| self.socket()),
            broken: (!hides).then(|| self.socket()),
            bell: line.map(|(line, _)| (self.process.number, line)),
            futex: None,
            news: None,
        });
        // A process that begins a larger ring does not wake its relatives.
        let room = wanted.room && (!self.words().has(SHARED) || self.words().outbound.leg() == leg);
        self.judge(Wanted { room, ..wanted }, start);
    }

    fn look(&self, wanted: Wanted) -> Look {
        let mut look = Look::default();
        let Some(link) = self.link() else { return look };
        if self.in_gate().is_closed() {
            let inbound = self.inbound(&link);
            let section = self.in_section(&inbound);
            let is_there = match inbound.source() {
                Ok(Source::Tcp { .. }) => inbound.is_reset(),
                Ok(Source::Ring { available }) => {
                    look.is_inbound = true;
                    available > 0 || inbound.is_at_end() || inbound.is_reset()
                }
                Err(_) => true,
            };
            self.leave(section);
            look.is_ready |= wanted.octets && is_there;
        }
        let outbound = self.outbound(&link);
        let is_taken = self.out_gate().is_closed();
        if is_taken && outbound.sink() == Sink::Tcp {
            (look.is_outbound, look.is_paced) = [self.is_record_early(&outbound); 2].into();
        } else if is_taken {
            look.is_outbound = true;
            let section = self.out_section(&outbound);
            let is_shut = self.is_shut();
            let has_room = outbound.is_writable().unwrap_or(true);
            self.leave(section);
            let inbound = self.inbound(&link);
            look.is_ended = inbound.is_end_expected();
            look.is_ready |= wanted.room && (is_shut || has_room || inbound.is_reset());
        }
        look
    }

    /// A sleep has ended: it must not have been over octets, or over room, that came long ago.
    fn judge(&self, wanted: Wanted, start: u64) {
        // A reset wakes a thread that waits in the kernel for a reader that waits for an answer.
        if self.world.kernel.borrow().is_broken(self.socket()) {
            return;
        }
        let directions = &self.connection.directions;
        let put = || directions[1 - self.side].borrow().put_at;
        let taken = || directions[self.side].borrow().room_at;
        // Asked again behind a look: something may have come since the sleep has ended.
        let is_old = |at: &dyn Fn() -> u64| start.saturating_sub(1000) < at() && self.is_too_long(at());
        let look = |wanted| self.look(wanted).is_ready;
        let octets = wanted.octets && is_old(&put) && look(Wanted { room: false, ..wanted }) && is_old(&put);
        // A sleeper for room is woken once half of the ring is free.
        let has_half = || {
            let Carrier::Ring(ring) = self.words().outbound.leg().carrier else { return true };
            let link = self.link();
            link.is_some_and(|link| {
                self.outbound(&link).unread().is_ok_and(|octets| octets <= ring.len() / 2)
            })
        };
        let is_there = || look(Wanted { octets: false, ..wanted }) && has_half();
        let room = wanted.room && is_old(&taken) && is_there() && is_old(&taken);
        if octets || room {
            self.world.fail(format!("{self}: sleeps over {}", if octets { "octets" } else { "room" }));
        }
    }

    /// True if nobody sleeps so long over what came at `start`, as nothing has gone wrong.
    pub(crate) fn is_too_long(&self, start: u64) -> bool {
        // Behind a daemon's death each side looks for another one, after a sleep of this length at most.
        let is_excused = self.world.trouble.get().is_some_and(|trouble| trouble + 3 * LONG > start);
        start + LONG / 2 < self.world.now.get() && !is_excused
    }
}

/// In microseconds.
const LONG: u64 = 5_000_000;
const SLICE: u64 = 10_000;
const PACE: u64 = 1000;
