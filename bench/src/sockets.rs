//! `weft bench sockets`: programs on sockets, with the library and without it.
//!
//! ```text
//!   cases.rs     the comparisons            figures.rs   the papers' tables and figures
//!   talk.rs      a program at one end of a conversation; pair.rs: two of them
//!   programs.rs  redis and nginx            ring.rs      two threads on a ring alone
//!   carrier.rs   the kernel's TCP, or the library and a daemon of its own
//! ```
//!
//! Each side has programs of its own, which stay connected from turn to turn. The programs compare every octet. A turn
//! of ours counts only if the daemon has seen the octets go through rings.

mod carrier;
mod cases;
mod figure;
mod figures;
mod hog;
mod idle;
mod pair;
mod process;
mod programs;
mod ring;
mod several;
pub(crate) mod talk;

use std::io::{self, Write};
use std::time::Duration;

use process::{Outcome, say};

use crate::args::{Args, Program, SocketsArgs};
use crate::case::{Case, Effort};
use crate::harness::{judge, measure, turns};
use crate::progress::Progress;
use crate::report;

/// Measures and prints a row for each comparison, or plays the part of a program.
pub(crate) fn run(wanted: &SocketsArgs, args: &Args, out: &mut dyn Write) -> io::Result<Outcome<()>> {
    match &wanted.program {
        Some(Program::Talk(talk)) => return Ok(talk::run(talk, out).map_err(say("the conversation"))),
        Some(Program::Hog) => return hog::run(),
        None => {}
    }
    let effort = Effort { turn: if args.quick { QUICK_TURN } else { TURN }, ..args.effort() };
    if let Some(name) = &wanted.figure {
        let Some(figure) = figures::FIGURES.iter().find(|figure| figure.name == name) else {
            let text = format!("there is no figure {name} (--list names them all)");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        };
        return figure::run(figure, args, &effort, out);
    }
    let is_wanted = |case: &&Case| {
        wanted.only.is_empty() || wanted.only.iter().any(|text| case.name.contains(text.as_str()))
    };
    let cases: Vec<&'static Case> = cases::CASES.iter().filter(is_wanted).collect();
    if cases.is_empty() {
        let text = format!("no case has {} in its name (--list names them all)", wanted.only.join(" or "));
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    if wanted.list {
        report::list(&cases, out)?;
        for figure in &figures::FIGURES {
            writeln!(out, "--figure {:<25} {}", figure.name, figure.title)?;
        }
        return Ok(Ok(()));
    }
    let progress = Progress::new(cases.iter().map(|case| turns(case, &effort) as u64).sum());
    if !args.json {
        progress.suspend(|| report::heading(out))?;
    }
    let mut rows = Vec::new();
    for case in cases {
        progress.begin(case.name);
        for row in measure(case, &effort, &mut || progress.advance()) {
            progress.suspend(|| report::print(&row, args.json, out))?;
            rows.push(row);
        }
    }
    progress.finish();
    Ok(judge(&rows, args.strict))
}

const TURN: Duration = Duration::from_secs(2);
const QUICK_TURN: Duration = Duration::from_millis(100);
