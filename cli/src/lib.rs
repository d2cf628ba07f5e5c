//! # weft-cli: the `weft` command as a library
//!
//! `main.rs` holds the list of subcommands and nothing else; each subcommand is one module here, with a struct `Args`
//! that clap fills and a function `run` that returns the exit status:
//!
//! | status | meaning |
//! |---|---|
//! | 0 | the work was done |
//! | 1 | the work failed on the way: an I/O error, a mismatch, a peer that misbehaved |
//! | 2 | the arguments or the input make no sense; one line on stderr says why |
//!
//! A reader that goes away (`weft decode … | head`) is no failure: output stops and the status stays 0.
//!
//! ## decode
//!
//! ```text
//!   pcap        packet        reassembly           stream, startup, fpdu     segment         print
//!   records ──► Ethernet, ──► octets in order, ──► startup frames, FPDUs, ──► DDP and ─────► text or
//!               IP, TCP       gaps                 Markers, CRC               RDMAP          JSON lines
//!                            └───────────── each direction its own ────────────────┘
//!               tracker: all connections;  connection: two directions and what they agreed on
//! ```
//!
//! The decoder is a second reader of the protocols beside the data path and shares only the CRC32c function and the
//! words for Terminate codes with it. So it shows what is wrong on the wire where the data path would stop, and a test
//! that compares the two compares two independent readings of the RFCs.
//!
//! ```
//! use weft_cli::decode::{pcap, tracker::Tracker};
//!
//! # let file = [
//! #     0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0,
//! # ];
//! let mut capture = pcap::Capture::open(&file[..])?;
//! let mut tracker = Tracker::new();
//! while let Some(packet) = capture.next()? {
//!     tracker.handle_packet(capture.link(), &packet);
//!     while let Some(record) = tracker.next_record() {
//!         println!("{record:?}");
//!     }
//! }
//! tracker.finish();
//! assert!(tracker.next_record().is_none());
//! # Ok::<(), pcap::Error>(())
//! ```
//!
//! RFCs: 5044 and 6581 (MPA), 5041 (DDP), 5040 and 7306 (RDMAP), 9293 (TCP).

#![forbid(unsafe_code)]

pub mod bench;
pub mod conform;
pub mod daemon;
mod deadline;
pub mod decode;
pub mod demo;
pub mod exs;
pub mod failure;
#[doc(hidden)]
pub mod fuzzing;
mod ground;
pub mod group;
mod library;
pub mod log;
mod progress;
pub mod rping;
pub mod run;
pub mod sockets;
pub mod stat;
mod trace;
mod units;
pub mod usage;
mod wire;
