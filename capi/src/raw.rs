//! Unsafe code that knows nothing of objects and calls: memory that the program sees, signals, the host's
//! addresses, and the call that a thread is in.
//!
//! Every file here and in `c/` may hold `unsafe`; each block states its reason. No other file of this crate has any.

mod interfaces;
mod origin;
mod signals;
mod visible;

pub(crate) use interfaces::{Interface, interfaces};
pub(crate) use origin::{Origin, called};
pub(crate) use signals::{Blocked, interruptible};
pub(crate) use visible::Visible;
