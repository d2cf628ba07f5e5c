//! The boundary to C, and the only unsafe code of this crate.
//!
//! The rules that hold here:
//! * An exported function is one call of [`boundary`]'s, so that no panic leaves and each error becomes what its family of
//!   functions answers. `args![..]` in front of it names the arguments that [`trace`] shows.
//! * A pointer of the program is either a handle, which is looked up in a table of [`crate::process::Process`] and never followed, or
//!   an argument, which is copied in by [`boundary::read`] and copied out by [`boundary::write`], checked for null, at once; the
//!   buffers of rsocket's calls are lent for as long as the call lasts ([`boundary::lent`]). That
//!   it points to what the headers say is what the program vouches for; every `SAFETY` below means that.
//! * What is left is safe code outside of this module.

mod addrinfo;
mod boundary;
mod connect;
mod context;
mod cq;
mod device_file;
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
mod show;
mod srq;
mod structs;
mod sysfs;
mod trace;
mod unsupported;
