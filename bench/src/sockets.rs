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
mod carrier;
mod cases;
mod compatibility;
mod daemon;
mod derived;
mod end;
mod figures;
mod first;
mod hosts;
mod idle;
mod iperf;
mod load;
mod many;
mod nginx;
mod pair;
mod primitives;
mod redis;
mod ring;
mod rpc;
mod rstream;
mod server;
mod several;
mod tables;
mod talk;
pub(crate) mod terms;
mod xmlrpc;

use std::io::{self, Write};

use crate::args::{Args, Program, SocketsArgs};
use crate::case::Case;
use crate::harness::{judge, measure, turns};
use crate::markdown::{self, Page};
use crate::process::{Outcome, say};
use crate::progress::Progress;
use crate::{figure, hog, report};

/// Measures and prints a row for each comparison, or plays the part of a program.
pub(crate) fn run(wanted: &SocketsArgs, args: &Args, out: &mut dyn Write) -> io::Result<Outcome<()>> {
    match &wanted.program {
        Some(Program::Talk(talk)) => return Ok(talk::run(talk, out).map_err(say("the conversation"))),
        Some(Program::Hog) => return hog::run(),
        None => {}
    }
    let effort = wanted.effort(args);
    let mut figures = figures::FIGURES.iter().chain(&tables::TABLES).chain(&between::FIGURES);
    if let Some(name) = &wanted.figure {
        let Some(figure) = figures.find(|figure| figure.name == name) else {
            let text = format!("there is no figure {name} (--list names them all)");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        };
        return figure::run(figure, args, &effort, out);
    }
    let is_wanted = |case: &&Case| {
        wanted.only.is_empty() || wanted.only.iter().any(|text| case.name.contains(text.as_str()))
    };
    let cases: Vec<&'static Case> = cases::CASES.iter().chain(&between::CASES).filter(is_wanted).collect();
    if cases.is_empty() {
        let text = format!("no case has {} in its name (--list names them all)", wanted.only.join(" or "));
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    if wanted.list {
        report::list(&cases, out)?;
        for figure in figures {
            writeln!(out, "--figure {:<25} {}", figure.name, figure.title)?;
        }
        return Ok(Ok(()));
    }
    let mut page = args.update.as_deref().map(|path| Page::open(path, &["machine", "table"])).transpose()?;
    let progress = Progress::new(cases.iter().map(|case| turns(case, &effort) as u64).sum());
    if !args.json {
        progress.suspend(|| report::heading(out))?;
    }
    let mut rows = Vec::new();
    for case in &cases {
        progress.begin(case.name);
        for row in measure(case, &effort, &mut || progress.advance()) {
            progress.suspend(|| report::print(&row, args.json, out))?;
            rows.push(row);
        }
    }
    progress.finish();
    if let Some(page) = &mut page {
        let machine = format!("{}; {}", markdown::host(), figure::turns(&effort));
        page.replace("machine", &markdown::wrapped(&machine));
        if wanted.only.is_empty() {
            page.replace("table", &markdown::table(&rows));
        } else {
            page.merge("table", &markdown::table(&rows));
        }
        page.save()?;
    }
    Ok(judge(&rows, args.strict))
}
