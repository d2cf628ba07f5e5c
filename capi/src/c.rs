//! The boundary to C: the exported functions, and those that C calls by pointers.
//!
//! The rules that hold here:
//! * An exported function is one call of a method of `trace::Call`, which `args![..]` makes from the arguments that a
//!   trace shows. No panic leaves it, and each error becomes the answer of its family of functions.
//! * A pointer of the program is a handle or an argument. A handle is looked up in a table of
//!   [`crate::process::Process`] and never followed. An argument is checked for null, copied in by [`boundary::read`]
//!   and copied out by [`boundary::write`]. The buffers of rsocket's calls are lent during the call
//!   ([`boundary::lent`]).
//! * The program guarantees that an argument points to memory as the headers say. Every `SAFETY` below relies on
//!   that.
//! * Everything else is safe code outside of this module and `raw/`.

mod addrinfo;
mod boundary;
mod connect;
mod context;
mod cq;
mod device_file;
mod exs;
mod exs_event;
mod exs_io;
mod exs_poll;
mod exs_sync;
mod exs_sync_memory;
mod exs_sync_same;
mod fork;
mod id;
mod memory;
mod names;
mod post;
mod qp;
mod qp_ex;
mod rsocket;
mod rsocket_io;
mod rsocket_poll;
mod sets;
mod show;
mod srq;
mod structs;
mod sysfs;
mod trace;
mod unsupported;
