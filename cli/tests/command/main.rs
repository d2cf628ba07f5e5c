//! The `weft` command as its users meet it: arguments, exit statuses, output, pipes, two processes on one wire.

#![allow(clippy::unwrap_used, reason = "a test that fails here has failed")]

mod conform;
mod demo;
mod help;
mod pipes;
mod process;
mod rping;
mod saboteur;
#[path = "../support/mod.rs"]
mod support;
mod tap;
mod tshark;
mod usage;
