//! The channels of a simulated daemon, and the links in which they lie.

use std::os::fd::OwnedFd;
use std::rc::Rc;

use weft_sockets_stepped::end::{Phase, SHUT};
use weft_sockets_stepped::layout::{FINAL, KILLED, RESET};
use weft_sockets_stepped::sync::Ordering::{Acquire, SeqCst};
use weft_sockets_stepped::{Carrier, Leg, Link, MIN_LOG2, RingPlace, Secret};

use super::super::connection::Connection;
use super::super::process::{Family, Process};
use crate::relay::{Relay, Words};

/// A link between a family and its daemon.
#[derive(Debug)]
pub(super) struct FarLink {
    pub(super) name: u64,
    pub(super) memory: Rc<Link>,
    pub(super) file: OwnedFd,
    pub(super) family: Rc<Family>,
    /// Its number among the memory of all links.
    pub(super) stag: u32,
    next_unit: u32,
    pub(super) next_channel: u32,
    free: Vec<RingPlace>,
}

/// A connection between an end of this host and one of the other.
#[derive(Debug)]
pub(super) struct Channel {
    pub(super) half: Half,
    /// The number and the memory of the other daemon.
    pub(super) peer: u32,
    pub(super) stag: u32,
    pub(super) relay: Relay,
    /// No process of this host has the end.
    pub(super) is_closed: bool,
}

/// A channel of a process, before the other daemon has its own.
#[derive(Clone, Debug)]
pub(super) struct Half {
    pub(super) process: Rc<Process>,
    pub(super) connection: Rc<Connection>,
    /// Slot and generation.
    pub(super) end: (u32, u32),
    pub(super) link: u64,
    pub(super) memory: Rc<Link>,
    pub(super) number: u32,
    pub(super) party: u32,
    /// The ring for what the process sends, that for what it receives, and larger ones.
    pub(super) rings: Vec<RingPlace>,
    /// What its ends know each other by in the kernel's stream.
    pub(super) secret: Secret,
}

impl FarLink {
    pub(super) fn new(name: u64, family: &Rc<Family>, register: impl FnOnce(&Rc<Link>) -> u32) -> Self {
        let file = Link::create().expect("memory");
        let memory = Rc::new(Link::map(&file).expect("a link"));
        let stag = register(&memory);
        Self {
            name,
            memory,
            file,
            family: Rc::clone(family),
            stag,
            next_unit: 64,
            next_channel: 0,
            free: Vec::new(),
        }
    }

    /// Takes a ring, preferably one that was in use before.
    pub(super) fn take(&mut self, log2: u8) -> Option<RingPlace> {
        if let Some(at) = self.free.iter().position(|ring| ring.log2 == log2) {
            return Some(self.free.swap_remove(at));
        }
        let ring = RingPlace::new(self.next_unit, log2)?;
        self.next_unit += 1 << (log2 - MIN_LOG2);
        Some(ring)
    }

    pub(super) fn give(&mut self, ring: RingPlace) {
        self.free.push(ring);
    }
}

impl Half {
    pub(super) fn words(&self) -> Words<'_> {
        let directions = &self.memory.channel(self.number).expect("a channel").directions;
        let party = self.party as usize;
        Words { ours: &directions[party], theirs: &directions[1 - party] }
    }

    /// Returns a ring to the link.
    pub(super) fn give_back(&mut self, link: &mut FarLink, ring: RingPlace) {
        self.rings.retain(|own| *own != ring);
        link.give(ring);
    }

    /// Tells the other end that the process was killed, as `janitor.rs` does.
    pub(super) fn bury(&self) {
        let Words { ours, theirs } = self.words();
        let leg = Leg::from_word(theirs.legs.leg.load(Acquire)).unwrap_or_default();
        let is_read = theirs.producer.tail.load(Acquire) == theirs.consumer.head.load(Acquire);
        let news = match ours.producer.flags.load(Acquire) & FINAL {
            0 if leg.carrier != Carrier::Tcp && !is_read => KILLED,
            0 => return,
            _ => RESET,
        };
        ours.producer.flags.fetch_or(news, SeqCst);
    }

    /// Returns where a stream ends that its process has shut down before it heard of the channel.
    pub(super) fn end_of_shut(&self) -> Option<u64> {
        let words = self.process.family.slab.end(self.end.0)?;
        let state = words.state();
        let has_not_heard = matches!(state.phase, Phase::Plain | Phase::Claimed);
        let is_shut = words.outbound.flags.load(SeqCst) & SHUT != 0;
        (has_not_heard && is_shut && state.generation == self.end.1)
            .then(|| words.outbound.written.load(Acquire))
    }

    /// True if the process's end is gone.
    pub(super) fn is_left(&self) -> bool {
        let state = self.process.family.slab.end(self.end.0).expect("an end").state();
        state.generation != self.end.1 || matches!(state.phase, Phase::Free | Phase::Closed)
    }
}
