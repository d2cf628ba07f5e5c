//! The connections that daemons know, and what the programs' connections did in all.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use super::args::Args;
use super::ask;
use super::table::{Table, cell};
use crate::failure::Failure;

/// Prints what the daemons in the folder tell of all processes, or of this one.
pub(super) fn show(args: &Args, folder: &Path, pid: Option<u32>) -> Result<(), Failure> {
    loop {
        let answers = ask::daemons(folder)?;
        if answers.is_empty() {
            let folder = folder.display();
            return Err(Failure::work(format!("no daemon answers in {folder}: weft daemon starts one")));
        }
        for answer in &answers {
            // The daemon's own number stands for all that it knows.
            let pid = pid.filter(|pid| answer["pid"] != *pid);
            if args.json {
                writeln!(std::io::stdout(), "{answer}")?;
            } else {
                connections(answer, pid)?;
                processes(answer, pid)?;
            }
        }
        let Some(seconds) = args.watch else { return Ok(()) };
        std::io::stdout().flush()?;
        std::thread::sleep(Duration::from_secs_f64(seconds));
    }
}

/// Prints a line for each connection, seen from this process if it is one of its ends.
fn connections(answer: &Value, pid: Option<u32>) -> Result<(), Failure> {
    let mut table = Table::new(&TITLES);
    for connection in list(&answer["connections"]) {
        let is_its = |end: &Value| pid.is_none_or(|pid| has(end, pid));
        let ends = [&connection["ends"][0], &connection["ends"][1]];
        let Some(own) = ends.iter().position(|end| !end.is_null() && is_its(end)) else { continue };
        let (own, other) = (ends[own], ends[1 - own]);
        let mut row: Vec<String> =
            [&own["address"], &other["address"], &own["pids"], &other["pids"]].map(cell).into();
        row.extend(FIELDS.map(|field| cell(&own[field])));
        table.push(row);
    }
    if table.is_empty() {
        let whose = pid.map_or_else(String::new, |pid| format!(" of process {pid}"));
        writeln!(std::io::stdout(), "no connection{whose} shares memory")?;
        return Ok(());
    }
    table.print()
}

/// Prints a line for the processes of each family, and the sums since the daemon began.
fn processes(answer: &Value, pid: Option<u32>) -> Result<(), Failure> {
    let mut table =
        Table::new(&["PROCESSES", "UID", "SEEN", "CLAIMED", "SENT-BY-MEMORY", "READ-BY-MEMORY", "ON-TCP"]);
    let mut push = |of: &Value, name: String| {
        let reasons = of["tcp_by_reason"].as_object().into_iter().flatten();
        let reasons: Vec<String> = reasons.map(|(reason, count)| format!("{reason} {count}")).collect();
        let both = |count: &str, octets: &str| format!("{} ({} octets)", cell(&of[count]), cell(&of[octets]));
        let (sent, read) = (both("upgraded_out", "octets_out"), both("upgraded_in", "octets_in"));
        let [uid, seen, claimed] = ["uid", "seen", "claimed"].map(|field| cell(&of[field]));
        table.push(vec![name, uid, seen, claimed, sent, read, reasons.join(", ")]);
    };
    for family in list(&answer["processes"]) {
        if pid.is_none_or(|pid| has(family, pid)) {
            push(family, cell(&family["pids"]));
        }
    }
    push(&answer["sums"], "all since the start".to_owned());
    writeln!(std::io::stdout())?;
    table.print()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn has(value: &Value, pid: u32) -> bool {
    list(&value["pids"]).any(|other| *other == pid)
}

const FIELDS: [&str; 12] = [
    "sends_by",
    "sent",
    "sent_by_memory",
    "reads_by",
    "read",
    "read_by_memory",
    "window",
    "unread",
    "spins",
    "yields",
    "sleeps",
    "wakes",
];
const TITLES: [&str; 16] = [
    "LOCAL",
    "PEER",
    "PIDS",
    "PEER-PIDS",
    "SENDS-BY",
    "SENT",
    "BY-MEMORY",
    "READS-BY",
    "READ",
    "BY-MEMORY",
    "WINDOW",
    "UNREAD",
    "SPINS",
    "YIELDS",
    "SLEEPS",
    "WAKES",
];
