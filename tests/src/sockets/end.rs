//! An end of a connection in the hands of a thread, and its sections, as the library has them in programs.

use std::rc::Rc;

use weft_sockets_stepped::end::{Phase, SHARED, UNSURE, allocate};
use weft_sockets_stepped::layout;
use weft_sockets_stepped::sync::AtomicU64;
use weft_sockets_stepped::sync::Ordering::Relaxed;
use weft_sockets_stepped::{Gate, Holder, Inbound, Level, Lock, Outbound, Owner};

use super::connection::Connection;
use super::process::{LinkView, Process};
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
            // A rule of the link that was broken shows at the next look.
            let _departed = outbound.depart_for_the_dead();
            outbound.republish();
            if outbound.record().is_some() || outbound.backlog().is_some() {
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

    /// As `in_section`. `None`: this thread is in one of the direction.
    pub(crate) fn try_in_section(&self, inbound: &Inbound<'_>) -> Option<Section<'_>> {
        let section = self.try_section(&self.words().inbound.lock)?;
        if section.is_inherited {
            inbound.republish();
        }
        Some(section)
    }

    fn section<'a>(&'a self, word: &'a AtomicU64) -> Section<'a> {
        self.try_section(word).expect("there are no signal handlers")
    }

    fn try_section<'a>(&'a self, word: &'a AtomicU64) -> Option<Section<'a>> {
        let level = if self.is_alone() { Level::Alone } else { Level::Shared };
        let lock = Lock::new(word);
        let me = Owner::new(self.process.member, self.thread);
        let is_inherited = match lock.try_lock(me, level) {
            Ok(()) => false,
            Err(Holder::Itself) => return None,
            Err(Holder::Other(_)) => self.wait_for_lock(lock, me),
        };
        Some(Section { lock, level, is_inherited })
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

    pub(crate) fn written(&self) -> u64 {
        self.words().outbound.written.load(Relaxed)
    }

    pub(crate) fn consumed(&self) -> u64 {
        self.words().inbound.consumed.load(Relaxed)
    }
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let side = if self.side == 0 { "left" } else { "right" };
        write!(f, "process {} thread {} {} {side}", self.process.number, self.thread, self.connection.number)
    }
}

/// Lets other threads run, as a call of the kernel's does.
pub(crate) fn enter_kernel() {
    task::pause();
}
