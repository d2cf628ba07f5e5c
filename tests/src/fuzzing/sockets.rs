//! Ends of a connection in shared memory, by the core whose atomic operations can be interrupted.

mod calls;
mod daemon;
mod hostile;
mod link;
mod party;
mod shared;

pub use calls::sockets_calls;
pub use link::sockets_link;
