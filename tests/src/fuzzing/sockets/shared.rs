//! What lies outside of both ends: the memory, the kernel's streams, and the model.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use weft_sockets_stepped::{Link, MAX_LOG2, RingPlace, Slab};

/// What lies outside of both ends.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) link: Link,
    pub(super) slab: Slab,
    /// The directions, by the party that sends.
    pub(super) streams: [RefCell<Stream>; 2],
    /// A sender has left its ring by itself. If the reader asks for TCP then, the connection may be reset.
    pub(super) is_left: Cell<bool>,
    pub(super) is_reset: Cell<bool>,
}

/// The kernel's stream of a direction, and the model.
#[derive(Debug, Default)]
pub(super) struct Stream {
    tcp: VecDeque<u8>,
    /// Octets that went into the kernel's stream and came out of it.
    by_tcp: (u64, u64),
    pub(super) sent: u64,
    pub(super) received: u64,
    pub(super) is_shut: bool,
}

impl Shared {
    pub(super) fn new() -> Self {
        let link = Link::map(Link::create().expect("memory")).expect("a link");
        let slab = Slab::map(Slab::create().expect("memory")).expect("a slab");
        Self { link, slab, streams: Default::default(), is_left: Cell::default(), is_reset: Cell::default() }
    }

    /// The octets at an address of the link.
    pub(super) fn read(&self, (address, len): (*mut u8, usize)) -> Vec<u8> {
        let unit = |unit| self.link.ring(RingPlace::new(unit, MAX_LOG2).expect("a place"));
        let start = unit(FIRST_UNIT).address(0, 0).expect("an address");
        let (offset, mut octets) = (address.addr() - start.addr(), vec![0; len]);
        let number = FIRST_UNIT + u32::try_from(offset >> 16).expect("a unit");
        assert!(unit(number).read(offset % (1 << 16), &mut octets), "memory of a ring");
        octets
    }

    /// What the kernel has counted of an end: written and consumed.
    pub(super) fn kernel(&self, party: usize) -> (u64, u64) {
        (self.streams[party].borrow().by_tcp.0, self.streams[1 - party].borrow().by_tcp.1)
    }
}

impl Stream {
    /// The kernel takes octets of a program: as many as its queue has room for.
    pub(super) fn push(&mut self, octets: &[u8]) -> usize {
        let len = octets.len().min(QUEUE.saturating_sub(self.tcp.len()));
        self.tcp.extend(&octets[..len]);
        self.by_tcp.0 += len as u64;
        len
    }

    /// The kernel gives up to `len` octets to a program.
    pub(super) fn pop(&mut self, len: usize) -> Vec<u8> {
        let octets: Vec<u8> = self.tcp.drain(..len.min(self.tcp.len())).collect();
        self.by_tcp.1 += octets.len() as u64;
        octets
    }

    /// The octets that the program sends next.
    pub(super) fn next(&self, len: usize) -> Vec<u8> {
        (self.sent..).take(len).map(octet).collect()
    }

    pub(super) fn take(&mut self, octets: &[u8]) {
        for octet in octets {
            assert_eq!(*octet, self::octet(self.received), "octet {} of {}", self.received, self.sent);
            self.received += 1;
        }
        assert!(self.received <= self.sent, "octets that nobody has sent");
    }
}

/// The octet at a position of a stream. No two stretches look the same.
pub(super) fn octet(position: u64) -> u8 {
    (position * 31 + position / 251 + position / 65_521).to_le_bytes()[0] & 0x7f
}

/// How many octets the kernel's queue of a direction takes.
const QUEUE: usize = 300;
const FIRST_UNIT: u32 = 64;
