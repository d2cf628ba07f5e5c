//! The boundary to C. All unsafe code is here.
//!
//! * A handle is looked up in [`crate::groups`] and never followed. Any other pointer is checked for null, and read
//!   or written by [`boundary`].
//! * The program guarantees that an argument points to memory as `weft_group.h` says. Every `SAFETY` below relies on
//!   that.
//! * No panic leaves a function.

mod boundary;
mod calls;
