//! Extended Sockets (EXS): the protocol between two sockets over RDMA, without a device.
//!
//! ```text
//! hello    what the two sides tell each other at the start
//! message  the octets of a message
//! fault    what a peer can do wrong
//! ```
//!
//! This crate has no clock, no I/O and no memory of the user. Octets and times are arguments; what is to be done is
//! returned.

#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod fault;
mod hello;
mod message;

pub use fault::Fault;
pub use hello::{
    Hello, Kind, MAX_ADVERTS, MAX_CREDITS, MAX_IMMEDIATE, MAX_RING, MAX_WINDOW, MIN_RING, MIN_WINDOW,
    RejectCode, Ring, VERSION,
};
pub use message::{Ack, Advert, Body, Data, Extent, HEADER_LEN, Message, Msg, Source, Target};
