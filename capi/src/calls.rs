//! The work of C's calls with the names of this process: they find objects, make them, and remove their names.
//!
//! Each file adds methods to [`Process`](crate::process::Process). Objects know neither names nor the process.

mod context;
mod cq;
mod endpoint;
mod event;
mod exs;
mod id;
mod memory;
mod qp;
mod roce;
mod rsocket;
mod srq;

pub(crate) use event::Delivered;
