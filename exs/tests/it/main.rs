//! Sockets of two contexts on the host's TCP.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[cfg(all(feature = "tokio", feature = "futures-io"))]
mod byte_stream;
mod closing;
mod connecting;
mod faults;
mod files;
mod first_octets;
mod in_place;
mod memory;
mod messages;
mod plain;
mod responder;
mod script;
mod silence;
mod stat;
mod stats;
mod stepped;
mod streams;
mod threads;
mod vectored;
mod waiting;
mod world;
