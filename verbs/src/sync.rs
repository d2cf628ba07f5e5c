//! The atomics and locks by which the application and the engine share queues.

pub(crate) use std::sync::{Mutex, MutexGuard, atomic};
