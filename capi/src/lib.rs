//! libibverbs and librdmacm on Weft: unmodified verbs programs run without an RDMA device, a kernel module or privileges.
//!
//! ```text
//!   a C program ── symbols, and function pointers in structs ──▶ c/      the boundary: pointers in, numbers out
//!                                                                 │
//!   abi/  the structs, octet for octet                            ▼
//!                                     process ── context, pd, mr, cq, channel, srq, qp, cm/      safe objects
//!                                                                 │
//!                                                                 ▼
//!                                                        weft-rnic and weft-cm
//! ```
//! * **One engine for each process**, made when the first device is opened, with the settings that `WEFT_*` variables give
//!   ([`settings`](self)). A child after `fork` has none of its parent's objects, and makes an engine of its own.
//! * **A handle is looked up, never followed.** What the program passes is the name of an object in a table; null, foreign and
//!   destroyed handles are found out there (`EINVAL`). The struct behind the pointer is for the program to read; what the
//!   library relies on is kept elsewhere.
//! * **Everything unsafe is in `c/`**: what reads and writes memory of the program, and the exported functions themselves. Behind
//!   it are safe types and [`rustix::io::Errno`].
//! * **No panic leaves.** Each exported function is one closure inside of `c/boundary.rs`, which also knows the three ways in which
//!   these libraries tell errors.
//! * Destroying waits until all events of the object that the program has taken are acknowledged, as in libibverbs.
//!
//! The crate has no Rust interface. `weft-preload` makes a library of it.

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
