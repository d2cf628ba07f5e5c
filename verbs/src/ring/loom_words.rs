//! The memory of a ring in a model of loom's, whose atomics are values that it has to make.

use crate::sync::atomic::AtomicU64;

/// Words that are zero.
#[derive(Debug)]
pub(super) struct Words(Box<[AtomicU64]>);

impl Words {
    pub(super) fn zeroed(len: usize) -> Self {
        Self((0..len).map(|_| AtomicU64::new(0)).collect())
    }
}

impl core::ops::Deref for Words {
    type Target = [AtomicU64];

    fn deref(&self) -> &[AtomicU64] {
        &self.0
    }
}

/// Octets that an entry has at least.
pub(super) const MIN_STRIDE: usize = 64;
