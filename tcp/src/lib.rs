//! TCP (RFC 9293), made for iWARP: the protocol of one connection, without a clock, octets or memory of its own.
//!
//! ```text
//! seq time limit   sequence numbers, points in time, how often something is done
//! wire             segments, their options and headers, ranges of numbers
//! config           settings
//! opening          handshake, LISTEN, half-open records, SYN cookies, ISN
//! state connection RFC 9293 section 3.10: a sender, a receiver and their state
//! receive          the receiver: what is new, and what the peer is told of it
//! send congestion  the sender: what goes when, and what goes again
//! timestamps       RFC 7323: the clock, and PAWS
//! time_wait        what is left in TIME-WAIT
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
#[doc(hidden)]
pub mod fuzzing;
mod limit;
mod opening;
mod receive;
mod send;
mod seq;
mod state;
mod time;
mod time_wait;
mod timestamps;
mod wire;

pub use config::Config;
pub use connection::{Cause, Connection, Effects, Outgoing, Unreachable};
pub use limit::RateLimit;
pub use opening::{HalfOpen, Listened, Opening, Secret, SynCookies, Tuple, listen};
pub use receive::{ReceiveConfig, Received, Receiver};
pub use send::{
    Acked, Acknowledgement, Agreed, Control, Frame, Reason, SendConfig, SendCounters, Sender, Sent, Transmit,
    Unsent,
};
pub use seq::Seq;
pub use state::State;
pub use time::Micros;
pub use time_wait::{TimeWait, Waited};
pub use wire::{Ecn, Flags, Interval, Malformed, Options, SackBlocks, Segment, Template, Timestamps};

/// What the owner of the frames calls a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Token(pub u32);
