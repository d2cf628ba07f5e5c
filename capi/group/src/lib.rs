//! Groups of replicas for C: `include/weft_group.h`, which is the documentation, and `libweft_group.so`.
//!
//! Each row imports rows below it only:
//!
//! ```text
//!   c/         functions of C: pointers in, numbers out
//!   groups     the table of names
//!   group      a session, and what is done in it
//!   options    what a session is opened with
//!   failure    numbers of errno, and the line that goes with one
//!   abi        the structs of C, octet for octet
//! ```
//!
//! Unsafe code is in `c/` alone. A handle is a name that is looked up and never followed. No panic leaves. The crate
//! has no Rust interface.

mod abi;
mod c;
mod failure;
mod group;
mod groups;
mod options;
