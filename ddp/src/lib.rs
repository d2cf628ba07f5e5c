//! DDP, Direct Data Placement (RFC 5041). It tells for each piece of a message its place in memory.
//!
//! A message is cut into segments. Each carries its own address, so that a receiver can place a segment when it comes
//! and needs no reassembly buffer. There are two kinds of address:
//!
//! ```text
//!   tagged     STag + TO           the peer names one of our registered buffers and an offset in it
//!   untagged   QN + MSN + MO       the n-th buffer that we posted on a queue, and an offset in it
//!
//!   message ──► Sender ──► Cutter ──► Cut { header, range }    ULPDU ──► Receiver ──► Segment { header, payload }
//! ```
//!
//! This crate knows headers and the order of messages. It has no memory, no I/O and no allocation. It tells the
//! places of octets, and the caller copies them. The caller also makes the checks that need the buffer (STag, bounds,
//! rights), and reports them by this crate's [`Error`].
//!
//! # Example
//!
//! One untagged message of 5 octets through an LLP that carries 20 octets at a time:
//!
//! ```
//! use weft_ddp::{Queue, Receiver, Sender};
//!
//! let message = b"hello";
//! let mut cutter = Sender::new().untagged(0x43, 0, Queue::Send, 5);
//! let mut receiver = Receiver::new(3);
//! let mut placed = Vec::new();
//! while let Some(cut) = cutter.next(20) {
//!     let mut ulpdu = vec![0; cut.header.len() + cut.len];
//!     cut.header.emit(&mut ulpdu);
//!     let from = cut.offset as usize;
//!     ulpdu[cut.header.len()..].copy_from_slice(&message[from..from + cut.len]);
//!
//!     let segment = receiver.accept(&ulpdu)?;
//!     placed.extend_from_slice(segment.payload);
//! }
//! assert_eq!(placed, message);
//! # Ok::<(), weft_ddp::Error>(())
//! ```
//!
//! # Specifications
//!
//! * RFC 5041, Direct Data Placement over Reliable Transports
//! * RFC 7306 section 3, for queue 3

#![no_std]
#![forbid(unsafe_code)]

mod error;
#[doc(hidden)]
pub mod fuzzing;
mod header;
mod queue;
mod receive;
mod segment;
mod send;

pub use error::Error;
pub use header::{Header, Stag};
pub use queue::Queue;
pub use receive::{Expected, Receiver};
pub use segment::Segment;
pub use send::{Cut, Cutter, Sender};
