//! TCP (RFC 9293), made for iWARP: the protocol of one connection, without a clock, octets or memory of its own.
//!
//! ```text
//! seq interval       sequence numbers, ranges of them
//! time               points in time, in microseconds
//! segment options    what a header says
//! header             headers of segments that go
//! config handshake   settings, and what both ends agree on
//! timestamps isn     the clock of timestamps, numbers that nobody may guess
//! send               the sender: what goes when, and what goes again
//! congestion         how much may be in flight
//! listen             LISTEN and SYN-RECEIVED
//! listen cookie      LISTEN and SYN-RECEIVED, in a record or in a cookie
//! time_wait reset    the end, and what has no connection
//! state connection   RFC 9293 section 3.10: a sender, a receiver and their state
//! receive            the receiver: what is new, and what the peer is told of it
//! ```
//!
//! Time, random numbers and storage are arguments; what is to be sent, and when the next timer runs, are results. Octets
//! are known by number and by the [`Token`] of the frame that holds them.

#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod config;
mod congestion;
mod connection;
mod cookie;
#[doc(hidden)]
pub mod fuzzing;
mod handshake;
mod header;
mod interval;
mod isn;
mod limit;
mod listen;
mod options;
mod receive;
mod reset;
mod segment;
mod send;
mod seq;
mod state;
mod time;
mod time_wait;
mod timestamps;

pub use config::Config;
pub use connection::{Cause, Connection, Effects, Outgoing, Unreachable};
pub use cookie::SynCookies;
pub use header::Template;
pub use interval::{Interval, SackBlocks};
pub use isn::{Secret, Tuple};
pub use limit::RateLimit;
pub use listen::{HalfOpen, Listened, Opening, listen};
pub use options::{Options, Timestamps};
pub use receive::{ReceiveConfig, Received, Receiver};
pub use segment::{Ecn, Flags, Malformed, Segment};
pub use send::{
    Acked, Acknowledgement, Agreed, Control, Frame, Reason, SendConfig, SendCounters, Sender, Sent, Transmit,
    Unsent,
};
pub use seq::Seq;
pub use state::State;
pub use time::Micros;
pub use time_wait::{TimeWait, Waited};

/// What the owner of the frames calls a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Token(pub u32);
