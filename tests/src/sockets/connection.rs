//! A connection of the simulated host.

use std::cell::{Cell, RefCell};

use super::oracle::Direction;

/// A connection, and what its directions have to be. The left end sends in the first.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) number: usize,
    pub(crate) socket: usize,
    pub(crate) directions: [RefCell<Direction>; 2],
    /// The processes of threads that have not sent all yet, by side.
    pub(crate) writers: [RefCell<Vec<usize>>; 2],
    pub(crate) is_shut: [Cell<bool>; 2],
    /// Senders beside the first one, by side.
    pub(crate) senders: [Cell<usize>; 2],
    /// A program does something else until then, by side.
    pub(crate) busy_until: [Cell<u64>; 2],
    is_excused: Cell<bool>,
}

impl Connection {
    /// Makes one. The salts tell its directions from others.
    pub(crate) fn new(number: usize, socket: usize, salts: [u8; 2]) -> Self {
        Self {
            number,
            socket,
            directions: salts.map(|salt| RefCell::new(Direction::new(salt))),
            writers: Default::default(),
            is_shut: Default::default(),
            senders: Default::default(),
            busy_until: Default::default(),
            is_excused: Cell::new(false),
        }
    }

    /// Octets may be lost from now on, since something has died or was closed.
    pub(crate) fn excuse(&self) {
        self.is_excused.set(true);
    }

    /// Names another sender.
    pub(crate) fn new_sender(&self, side: usize) -> usize {
        self.senders[side].set(self.senders[side].get() + 1);
        self.senders[side].get()
    }

    /// A thread of a process sends no more.
    pub(crate) fn end_writer(&self, side: usize, process: usize) {
        let mut writers = self.writers[side].borrow_mut();
        let its = writers.iter().position(|writer| *writer == process);
        its.map(|at| writers.swap_remove(at));
    }

    pub(crate) fn is_excused(&self) -> bool {
        self.is_excused.get()
    }
}
