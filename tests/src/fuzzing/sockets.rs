//! Ends of a connection in shared memory, by the core whose atomic operations can be interrupted.

mod calls;
mod daemon;
mod far;
mod hostile;
mod letter;
mod link;
mod order;
mod party;
mod shared;

pub use calls::sockets_calls;
pub use far::sockets_far;
pub use letter::sockets_letter;
pub use link::sockets_link;
pub use order::sockets_order;
