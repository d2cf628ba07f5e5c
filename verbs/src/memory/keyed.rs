//! STags whose key octet their owner chooses, and which requests of the send queue make valid and invalid: memory
//! windows, and regions for fast registration.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use weft_ddp::Stag;

use crate::access::Access;
use crate::ids::{PdId, StreamId};
use crate::region::Region;
use crate::stag::StagPermutation;

/// An STag with a key octet of its owner's choice. Its upper 24 bits stay with the object. Each bind or fast
/// registration changes the lower 8 bits, and what the STag stands for.
#[derive(Debug)]
pub struct KeyedStag {
    block: u32,
    /// The protection domain.
    pub pd: PdId,
    /// The only stream that may ever use it; without one, all of the protection domain.
    pub stream: Option<StreamId>,
    /// What it is for.
    pub kind: KeyedKind,
    permutation: StagPermutation,
    keys: AtomicU8,
    state: Mutex<State>,
}

/// What a [`KeyedStag`] stands for when it is valid.
#[derive(Debug)]
pub enum KeyedKind {
    /// A part of a memory region, for peers only.
    Window(WindowType),
    /// A part of memory of its own.
    Fast(Region),
}

/// The types of memory windows, as `ibv_mw_type` has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WindowType {
    /// For all streams of the protection domain. It may be bound anew while it is bound, and gets another key each
    /// time.
    Type1,
    /// For the stream of the queue pair that binds it. It must be invalidated before it is bound again; the peer of
    /// that stream may do so.
    Type2B,
}

/// What a valid STag stands for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mapping {
    pub(super) stream: Option<StreamId>,
    pub(super) access: Access,
    /// The tagged offset of the first octet.
    pub(super) base: u64,
    /// The first octet in the memory below.
    pub(super) first: usize,
    pub(super) len: u64,
    /// The region below a window; a fast registration has its own.
    pub(super) region: Stag,
    pub(super) generation: u64,
}

#[derive(Debug)]
struct State {
    key: u8,
    mapping: Option<Mapping>,
}

impl KeyedStag {
    pub(super) fn new(
        block: u32,
        (pd, stream): (PdId, Option<StreamId>),
        kind: KeyedKind,
        permutation: StagPermutation,
    ) -> Self {
        let state = Mutex::new(State { key: permutation.key(block, 0), mapping: None });
        Self { block, pd, stream, kind, permutation, keys: AtomicU8::new(0), state }
    }

    /// Returns the STag with this key octet.
    pub const fn stag(&self, key: u8) -> Stag {
        Stag(self.block << 8 | key as u32)
    }

    /// Returns the STag as it was last bound or registered, valid or not.
    pub fn current(&self) -> Stag {
        self.stag(self.state().key)
    }

    /// Returns whether the STag stands for memory.
    pub fn is_valid(&self) -> bool {
        self.state().mapping.is_some()
    }

    /// Returns an STag for the next bind or registration. Its key octet cannot be guessed from the last ones, and comes
    /// back as late as possible.
    pub fn next_stag(&self) -> Stag {
        let count = self.keys.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        self.stag(self.permutation.key(self.block, count))
    }

    /// Returns whether `stag` is one of its STags, with whatever key octet.
    pub(crate) const fn owns(&self, stag: Stag) -> bool {
        stag.0 >> 8 == self.block
    }

    pub(super) const fn block(&self) -> u32 {
        self.block
    }

    /// Returns what `stag` stands for, if that is its name now.
    pub(super) fn mapping(&self, stag: Stag) -> Option<Mapping> {
        let state = self.state();
        if self.stag(state.key) == stag { state.mapping } else { None }
    }

    /// Gives it another meaning and name.
    pub(super) fn set(&self, stag: Stag, mapping: Option<Mapping>) {
        *self.state() = State { key: stag.0.to_le_bytes()[0], mapping };
    }

    /// Takes the STag out of use, and returns what it stood for.
    pub(super) fn clear(&self) -> Option<Mapping> {
        self.state().mapping.take()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
