//! The atomics and locks by which the application and the engine share queues: the standard library's. With `cfg(loom)`
//! they are loom's, which tries all interleavings of a model's threads.

#[cfg(not(loom))]
pub(crate) use std::sync::{Mutex, MutexGuard, atomic};

#[cfg(loom)]
pub(crate) use loom::sync::{Mutex, MutexGuard};

#[cfg(loom)]
pub(crate) mod atomic;
