//! The connection manager over two devices: on one virtual clock, and with threads.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod addresses;
mod backlog;
mod blocking;
mod events;
mod failures;
mod host;
mod leaks;
mod life;
mod migration;
mod misuse;
mod world;
