//! `weft bench sockets`: programs on sockets, with the library and without it.
//!
//! ```text
//!   cases.rs     the comparisons            figures.rs, tables.rs, compatibility.rs   those of the papers
//!   talk.rs      a program at one end of a conversation (end.rs, many.rs, rpc.rs); pair.rs: two of them
//!   load.rs      a server and its client (server.rs): redis.rs, nginx.rs, iperf.rs, xmlrpc.rs
//!   ring.rs      two threads on a ring alone; primitives.rs: calls, locks, copies; rstream.rs: rsocket
//!   carrier.rs   the kernel's TCP, or the library with daemons of its own (daemon.rs)
//!   hosts.rs     one host, or two that a veth joins: comparisons and figures between them are in between.rs
//! ```
//!
//! Each side has programs of its own, which stay connected from turn to turn. The programs compare every octet. A turn
//! of ours counts only if the daemon has seen the octets go through rings.

mod between;
pub(crate) mod carrier;
mod cases;
mod compatibility;
pub(crate) mod daemon;
mod derived;
mod end;
mod figures;
mod first;
mod hosts;
mod idle;
mod iperf;
pub(crate) mod load;
mod many;
mod nginx;
mod pair;
mod primitives;
pub(crate) mod redis;
mod ring;
mod rpc;
mod rstream;
pub(crate) mod server;
mod several;
mod tables;
mod talk;
pub(crate) mod terms;
mod xmlrpc;

use std::io::{self, Write};

use crate::args::{Args, Program, SocketsArgs, Turns};
use crate::choice::{self, Catalogue};
use crate::hog;
use crate::process::{Outcome, say};

/// Measures and prints a row for each comparison, or plays the part of a program.
pub(crate) fn run(wanted: &SocketsArgs, args: &Args, out: &mut dyn Write) -> io::Result<Outcome<()>> {
    match &wanted.program {
        Some(Program::Talk(talk)) => return Ok(talk::run(talk, out).map_err(say("the conversation"))),
        Some(Program::Hog) => return hog::run(),
        None => {}
    }
    let cases = cases::CASES.iter().chain(&between::CASES).collect();
    let figures = figures::FIGURES.iter().chain(&tables::TABLES).chain(&between::FIGURES).collect();
    choice::run(&wanted.choice, Catalogue { cases, figures, turns: Turns::PROGRAMS, draw: None }, args, out)
}
