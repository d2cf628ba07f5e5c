//! Registers, and what clients do with them.

use stateright::semantics::{LinearizabilityTester, SequentialSpec};

/// A client has another number in each epoch, since what was under way at the end of an epoch has no outcome.
pub(super) type History = LinearizabilityTester<usize, Word>;

/// A register by itself. Each operation returns what was there.
#[derive(Clone, Debug)]
pub(super) struct Word(pub(super) u64);

/// What a client does with a register while it has the lock.
#[derive(Clone, Copy, Debug)]
pub(super) enum Use {
    Read,
    /// Reads it, and then writes this value.
    Exchange(u64),
}

impl SequentialSpec for Word {
    type Op = Use;
    type Ret = u64;

    fn invoke(&mut self, op: &Use) -> u64 {
        match op {
            Use::Read => self.0,
            Use::Exchange(value) => std::mem::replace(&mut self.0, *value),
        }
    }
}

/// How many registers there are.
pub(super) const REGISTERS: usize = 2;
