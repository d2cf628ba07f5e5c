//! Unsafe code that knows nothing of objects and calls: memory that the program sees, signals, and the host's addresses.
//!
//! Every file here and in `c/` may hold `unsafe`; each block states its reason. No other file of this crate has any.

mod interfaces;
mod signals;
mod visible;

pub(crate) use interfaces::{Interface, interfaces};
pub(crate) use signals::{Blocked, interruptible};
pub(crate) use visible::Visible;
