//! `weft bench group`: replicas whose devices do the work, beside replicas whose programs do it.
//!
//! ```text
//!   cases.rs     the comparisons; figures.rs: those of the report and of the paper
//!   work.rs      what a client asks for, and what the replicas have to have behind that
//!   chain.rs     replicas, each a process, and what their threads use
//!   replica.rs   the program of a replica; driven.rs: one that does the work by itself
//!   network.rs   what is between a client and its replicas
//!   files.rs     where replicas have their files
//!   members.rs   replicas as users start them; ycsb.rs, redis.rs: databases at them
//! ```

mod cases;
mod chain;
mod driven;
mod figures;
mod files;
mod members;
mod network;
mod redis;
mod replica;
pub(crate) mod terms;
mod work;
mod ycsb;

use std::io::{self, Write};

use crate::args::{Args, GroupArgs, GroupProgram, Turns};
use crate::choice::{self, Catalogue};
use crate::process::Outcome;

/// Measures and prints a row for each comparison, or plays the part of a replica.
pub(crate) fn run(wanted: &GroupArgs, args: &Args, out: &mut dyn Write) -> io::Result<Outcome<()>> {
    if let Some(GroupProgram::Replica(replica)) = &wanted.program {
        return Ok(replica::run(replica, &mut io::stdin().lock(), out));
    }
    files::set_parent(wanted.dir.as_deref())?;
    let cases = cases::CASES.iter().map(files::told).collect();
    let figures = figures::FIGURES.iter().collect();
    choice::run(&wanted.choice, Catalogue { cases, figures, turns: Turns::PROGRAMS, draw: None }, args, out)
}
