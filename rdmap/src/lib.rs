//! RDMAP, the Remote Direct Memory Access Protocol: Send, Write, Read and Terminate over DDP (RFC 5040), Immediate
//! Data and Atomics (RFC 7306).
//!
//! RDMAP gives DDP segments a meaning, and keeps two lists for it. One has our Reads and Atomics that the peer still
//! has to answer. The other has the peer's that we have to answer. One [`Endpoint`] is one end of a stream:
//!
//! ```text
//!   Message ──► start ──┐                            ┌── accept ◄── Segment
//!                       ▼                            ▼
//!                 own message  requests to answer ◄──┤──► requests outstanding
//!                       └───────┬────────┘           │
//!                               ▼                    ▼
//!   Outbound ◄── poll_segment: Terminate, or    Inbound: Send, Immediate, Write, ReadRequest, ReadResponse,
//!                the two in turns               AtomicRequest, AtomicResponse, Terminate
//! ```
//!
//! The owner of the memory may place a tagged payload as it arrives, before the segment is whole. Then it calls
//! `place_of` and `accept_placed`.
//!
//! An endpoint holds no payload. [`Outbound`] has the source of a segment's octets, and [`Inbound`] their destination.
//! The caller owns the memory, checks it and copies. The caller also supplies the storage for the lists.
//!
//! # Example
//!
//! A Send from one end to the other:
//!
//! ```
//! use weft_ddp::Receiver;
//! use weft_rdmap::{Endpoint, Inbound, Kind, Message, OutstandingRequest, PendingRequest, Token};
//!
//! let new = || Endpoint::new([OutstandingRequest::default(); 4], [PendingRequest::default(); 4]);
//! let (mut left, mut right) = (new(), new());
//!
//! let kind = Kind::Send { solicited: false, invalidate: None };
//! left.start(Message { token: Token(1), len: 5, kind })?;
//! let outbound = left.poll_segment(1442).expect("a Send is in progress");
//! assert_eq!(outbound.finished, Some(Token(1)));
//!
//! let mut ulpdu = vec![0; outbound.ulpdu_len()];
//! outbound.header.emit(&mut ulpdu);
//! ulpdu[outbound.header.len()..].copy_from_slice(b"hello");
//!
//! let segment = Receiver::new(4).accept(&ulpdu)?;
//! let Inbound::Send { payload, last: Some(end), .. } = right.accept(segment)? else { panic!() };
//! assert_eq!((payload, end.len), (&b"hello"[..], 5));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Specifications
//!
//! * RFC 5040, A Remote Direct Memory Access Protocol Specification
//! * RFC 7306, RDMA Protocol Extensions

#![no_std]
#![forbid(unsafe_code)]

mod atomic;
mod endpoint;
mod error;
#[doc(hidden)]
pub mod fuzzing;
mod immediate;
mod message;
mod opcode;
mod outstanding;
mod read;
mod receive;
mod terminate;
mod transmit;

pub use atomic::{AtomicOp, AtomicRequest, AtomicResponse, fetch_add};
pub use endpoint::{Endpoint, Readiness};
pub use error::{Busy, Error};
pub use immediate::Immediate;
pub use message::{Body, Inbound, Kind, MAX_UNCUT, MAX_UNCUT_ULPDU, Message, Outbound, SendEnd, Token};
pub use opcode::{Form, Opcode};
pub use outstanding::{Asked, OutstandingRequest, PendingRequest};
pub use read::ReadRequest;
pub use receive::Place;
pub use terminate::Terminate;
