//! Sockets of two contexts on the host's TCP.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod connecting;
mod messages;
mod streams;
mod waiting;
mod world;
