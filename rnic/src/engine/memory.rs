//! The memory table of a device, which all of its engines use.

use std::ops::Deref;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use weft_verbs::MemoryTable;

/// An engine's way to the memory table: its own behind its lock, or one that several engines share.
///
/// A shared table is read-locked for each turn of a connection, and write-locked for a change. So after a
/// deregistration no engine is in a turn that has found the region. A request of the send queue may take an STag out
/// of use for a whole domain: it binds a window of type 1 anew, or invalidates shared memory. The STag is out of use
/// at once, and the request completes when no engine is in a turn that began before. Only one engine uses what a peer
/// can invalidate.
#[derive(Debug)]
pub(crate) struct Memory {
    own: MemoryTable,
    shared: Option<SharedMemory>,
}

/// A table of several engines.
pub(crate) type SharedMemory = Arc<RwLock<MemoryTable>>;

/// The table, to be looked into.
#[derive(Debug)]
pub(super) enum MemoryRef<'a> {
    Own(&'a MemoryTable),
    Shared(RwLockReadGuard<'a, MemoryTable>),
}

impl Memory {
    /// The way to a table of its own or, if `shared`, to that one.
    pub(crate) fn new(seed: u64, shared: Option<SharedMemory>) -> Self {
        Self { own: MemoryTable::new(seed), shared }
    }

    /// The table, to be looked into.
    pub(super) fn read(&self) -> MemoryRef<'_> {
        match &self.shared {
            None => MemoryRef::Own(&self.own),
            Some(table) => MemoryRef::Shared(table.read().unwrap_or_else(PoisonError::into_inner)),
        }
    }

    /// The engine's own table.
    pub(super) const fn own(&self) -> &MemoryTable {
        &self.own
    }

    /// The same, to be changed.
    pub(super) const fn own_mut(&mut self) -> &mut MemoryTable {
        &mut self.own
    }

    /// Whether several engines use the table.
    pub(super) const fn is_shared(&self) -> bool {
        self.shared.is_some()
    }

    /// Blocks until no engine is in a turn that has begun before. The calling engine must be in none.
    pub(super) fn await_turns(&self) {
        if let Some(table) = &self.shared {
            // The write lock comes when all readers have gone.
            drop(table.write().unwrap_or_else(PoisonError::into_inner));
        }
    }
}

impl Deref for MemoryRef<'_> {
    type Target = MemoryTable;

    fn deref(&self) -> &MemoryTable {
        match self {
            Self::Own(table) => table,
            Self::Shared(table) => table,
        }
    }
}
