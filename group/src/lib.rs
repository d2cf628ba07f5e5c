//! Replicated memory whose replicas' programs do nothing for an operation (HyperLoop, SIGCOMM 2018).
//!
//! A client replicates memory to a chain of hosts. It sends one message for an operation, and the devices of the replicas
//! place it, forward it, copy, compare and swap, and acknowledge. A replica posts its work requests once, into cyclic
//! queues; a message rewrites operands of the requests of its slot.
//!
//! ```text
//! op       operations, and whether one makes sense
//! window   the operations under way, and conflicts between them
//! message  the octets of an operation
//! program  the requests of a replica, and which octets of a message go where
//! replica  the objects of a session at one replica
//! session  the client's side of it
//! ```
#![forbid(unsafe_code)]

mod message;
mod op;
mod program;
mod replica;
mod session;
mod window;

pub use message::{MAX_MESSAGE, Name, Originals, UNTOUCHED, decode_acknowledgement, encode, message_len};
pub use op::{Copy, MAX_REPLICAS, Op, OpError, Replicas, Swap};
pub use program::{ELEMENTS, Parts, Place, STEPS};
pub use replica::{MAX_WINDOW, Replica, SetupError, Shape};
pub use session::{Done, OpId, Session, SessionError, Terms};
pub use window::Window;
