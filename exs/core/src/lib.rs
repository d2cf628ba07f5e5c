//! Extended Sockets (EXS): the protocol between two sockets over RDMA, without a device.
//!
//! ```text
//! session  a connected socket: calls, messages and completions in, actions out
//! pull     messages: the receiver reads them out of the sender's memory
//! stream   a stream of octets, both ways
//! push     its rules: the sender writes it into receives that the peer has advertised, or through the peer's ring
//! window   how many Sends of any kind each side may send
//! plain    a connected socket over TCP alone, to a peer without EXS
//! action   what a session wants to have done
//! op       operations of the user, and how they end
//! terms    what follows from both hellos
//! hello    what the two sides tell each other at the start
//! message  the octets of a message
//! shutdown what a side has said of its end
//! stats    what a session has counted
//! fault    what a peer can do wrong
//! ```
//!
//! This crate has no clock, no I/O and no memory of the user. Octets and times are arguments; what is to be done is
//! returned.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod action;
mod fault;
mod flow;
#[doc(hidden)]
pub mod fuzzing;
mod hello;
mod message;
mod op;
mod plain;
mod pull;
pub mod push;
#[cfg(test)]
mod push_tests;
mod session;
mod shutdown;
mod stats;
mod stream;
mod terms;
mod window;

pub use action::{Action, Cause, Outgoing, Place};
pub use fault::Fault;
pub use hello::{
    Hello, Kind, MAX_ADVERTS, MAX_CREDITS, MAX_IMMEDIATE, MAX_RING, MAX_WINDOW, MIN_RING, MIN_SLOT,
    MIN_WINDOW, RejectCode, Ring, VERSION,
};
pub use message::{Ack, Advert, Body, Data, Extent, HEADER_LEN, Message, Msg, Source, Target};
pub use op::{Mode, Op, OpError, Outcome, RecvRequest, SendRequest};
pub use plain::{Plain, PlainAction};
pub use session::{Loss, Role, Session};
pub use stats::{ByWay, Credits, Stats};
pub use terms::{Terms, Wishes};
