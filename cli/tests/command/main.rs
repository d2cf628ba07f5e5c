//! The `weft` command from outside: arguments, exit statuses, output, pipes, two processes on one wire.

#![allow(clippy::unwrap_used, reason = "a test that fails here has failed")]

mod bench;
mod conform;
mod daemon;
mod demo;
mod engines;
mod exs;
mod gone;
mod group;
mod group_kills;
mod group_kv;
mod group_repair;
mod group_threads;
mod held;
mod help;
mod host;
mod namespace;
mod packet;
mod pipes;
mod process;
mod rping;
mod saboteur;
mod sockets;
mod stat;
#[path = "../support/mod.rs"]
mod support;
mod tap;
mod tshark;
mod units;
mod usage;
mod xdp;
