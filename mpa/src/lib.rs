//! MPA, the layer of iWARP that puts records into the octet stream of TCP.
//!
//! TCP may cut and join what is written to it, but DDP needs its segments whole. MPA gives each DDP segment (a ULPDU)
//! a length, pads it, and closes it with a CRC32c. The result is an FPDU. A receiver may ask for Markers. A Marker
//! stands at every 512th octet of the stream and points back to the start of the FPDU that it interrupts. Before the
//! first FPDU the two ends exchange one Request and one Reply Frame and settle what they will use.
//!
//! ```text
//!  Initiator                         Responder
//!      | -------- Request Frame -------> |     StartupFrame, Initiator, Responder
//!      | <-------- Reply Frame --------- |
//!      | == FPDU == FPDU == ...          |     Framer -> TCP -> Deframer
//!
//!  FPDU   | length 2 | ULPDU ... | pad 0-3 | CRC 4 |     Markers of 4 octets before, inside, or before the CRC
//! ```
//!
//! The crate does no I/O, keeps no clock, allocates nothing and needs no `std`. Octets come in as slices and go out
//! into slices that the caller owns. The CRC is an argument, because the fast one needs `std` (feature `std`, on by
//! default).
//!
//! ```
//! use weft_mpa::{Config, Crc32c, Deframer, FrameKind, Framer, Initiator, Outcome, Responder, StartupFrame, STAGING_LEN};
//!
//! // Startup: the Initiator asks, the Responder answers, both know what was agreed.
//! let initiator = Initiator::new(Config::default());
//! let mut wire = [0; 64];
//! let sent = initiator.request(b"hi")?.emit(&mut wire)?;
//! let (request, _) = StartupFrame::parse(FrameKind::Request, &wire[..sent])?.expect("the whole frame is here");
//! let offer = Responder::new(Config::default()).handle_request(&request)?;
//! let (reply, ours) = offer.accept(b"welcome")?;
//! let Outcome::Established(theirs) = initiator.handle_reply(&reply)? else { panic!("it was accepted") };
//! assert!(ours.crc && theirs.crc);
//!
//! // Full Operation: a ULPDU is built in place, sealed, and comes out of the stream again.
//! let crc = Some(Crc32c::default());
//! let mut framer = Framer::new(crc, theirs.send_markers);
//! framer.ulpdu_mut(&mut wire, 5).copy_from_slice(b"hello");
//! let len = framer.seal(&mut wire, 5);
//! let mut deframer = Deframer::new(crc, ours.receive_markers, vec![0; STAGING_LEN]);
//! let mut stream = &wire[..len];
//! assert_eq!(deframer.next(&mut stream)?, Some(&b"hello"[..]));
//! # Ok::<(), weft_mpa::Error>(())
//! ```
//!
//! RFC 5044 (MPA), RFC 6581 (peer-to-peer start, IRD and ORD), RFC 3720 appendix B.4 (CRC32c examples).

#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod crc;
mod deframe;
mod error;
mod fpdu;
#[doc(hidden)]
pub mod fuzzing;
mod locate;
mod marker;
mod negotiate;
mod startup;

pub use crc::Crc32c;
pub use deframe::{CrcState, Deframer, Fpdu, STAGING_LEN};
pub use error::Error;
pub use fpdu::{Framer, MAX_ULPDU, mulpdu};
pub use locate::{Located, Locator};
pub use negotiate::{Config, Initiator, Negotiated, Offer, Outcome, Responder, Start};
pub use startup::{
    Enhanced, FrameKind, MAX_FRAME_LEN, MAX_PRIVATE_DATA, NOT_NEGOTIATED, RtrKind, RtrSet, StartupError,
    StartupFrame,
};
