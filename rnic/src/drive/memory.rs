//! The memory table of a device, to be changed while no engine copies from or to memory.

use std::ops::{Deref, DerefMut};
use std::sync::{MutexGuard, PoisonError, RwLockWriteGuard};

use weft_verbs::MemoryTable;

use crate::engine::memory::SharedMemory;
use crate::engine::tables::Engine;

/// The table, to be changed: no engine copies from or to memory as long as this is held.
#[derive(Debug)]
pub(crate) enum MemoryMut<'a> {
    Own(MutexGuard<'a, Engine>),
    Shared(RwLockWriteGuard<'a, MemoryTable>),
}

impl<'a> MemoryMut<'a> {
    pub(crate) fn shared(table: &'a SharedMemory) -> Self {
        Self::Shared(table.write().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Deref for MemoryMut<'_> {
    type Target = MemoryTable;

    fn deref(&self) -> &MemoryTable {
        match self {
            Self::Own(engine) => engine.memory_table(),
            Self::Shared(table) => table,
        }
    }
}

impl DerefMut for MemoryMut<'_> {
    fn deref_mut(&mut self) -> &mut MemoryTable {
        match self {
            Self::Own(engine) => engine.memory_table_mut(),
            Self::Shared(table) => table,
        }
    }
}
