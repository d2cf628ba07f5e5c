//! libibverbs, librdmacm and Extended Sockets on Weft. Unmodified programs run without an RDMA device, a kernel module
//! or privileges.
//!
//! Each row imports rows below it only:
//!
//! ```text
//!   c/            functions of C: pointers in, numbers out
//!   calls/        the calls on names: they find objects, make them, remove their names
//!   process       the tables of names; the open device (opened); the child of a fork begins with an empty one
//!   objects       context, pd, mr, mw, channel, cq, srq, qp, cm/, roce/, rsocket/: know no names, no process, no c/
//!                 exs/: knows no process and no c/, and has its own tables of names
//!   settings      values of the environment; device, gid, sysfs: values of the device
//!   raw/  abi/    memory that C sees, signals; the structs of C, octet for octet
//! ```
//! * **One engine for each process.** The first device that is opened makes it, with the settings of the `WEFT_*`
//!   variables ([`settings`](self)). A child after `fork` has none of its parent's objects, and makes an engine of its
//!   own.
//! * **A handle is looked up, never followed.** A pointer of the program is the name of an object in a table. Null,
//!   foreign and destroyed handles are refused there (`EINVAL`). The struct behind the pointer is for the program; the
//!   library keeps what it relies on elsewhere.
//! * **Unsafe code is in `c/` and `raw/`**: the exported functions, and access to memory of the program. Everything
//!   else works with safe types and [`rustix::io::Errno`].
//! * **No panic leaves.** Each exported function is one closure inside of `c/trace.rs` and `c/boundary.rs`, which turn
//!   its outcome into the answer of the function's family.
//! * **Destroying waits**, as in libibverbs, until all events of the object that the program has taken are
//!   acknowledged.
//!
//! The crate has no Rust interface. `capi/preload`, `capi/directory` and `capi/exs` make libraries of it.

mod abi;
mod acks;
mod addrinfo;
mod builder;
mod c;
mod calls;
mod channel;
mod cm;
mod context;
mod cq;
mod descriptor;
mod device;
mod errno;
mod exs;
mod gid;
mod handles;
mod mr;
mod mw;
mod opened;
mod pd;
mod personality;
mod process;
mod qp;
mod raw;
mod roce;
mod rsocket;
mod settings;
mod srq;
mod sysfs;
mod tally;
mod work;
