//! The connections that daemons know, and what the programs' connections did in all.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use rustix::process::geteuid;
use serde_json::Value;

use super::args::Args;
use super::ask;
use super::table::{Table, cell};
use crate::failure::Failure;
use crate::sockets::{HOST, listening};

/// Prints what the daemons in the folder tell of all processes, or of this one.
pub(super) fn show(args: &Args, folder: &Path, pid: Option<u32>) -> Result<(), Failure> {
    let mut is_first = true;
    loop {
        let mut answers = ask::with(folder, "sockets")?;
        let has_several = answers.len() > 1;
        let is_silent = answers.is_empty();
        answers.retain(|answer| pid.is_none_or(|pid| knows(answer, pid)));
        if answers.is_empty() {
            return match pid {
                // The end of what is watched is no failure.
                _ if !is_first => Ok(()),
                Some(pid) if !is_silent => Err(unknown(folder, pid)),
                _ => Err(Failure::work(silent(folder, listening().as_deref(), geteuid().is_root()))),
            };
        }
        is_first = false;
        for answer in answers {
            print(args, answer, pid, has_several)?;
        }
        let Some(seconds) = args.watch else { return Ok(()) };
        std::io::stdout().flush()?;
        std::thread::sleep(Duration::from_secs_f64(seconds));
    }
}

fn print(args: &Args, mut answer: Value, pid: Option<u32>, has_several: bool) -> Result<(), Failure> {
    // The daemon's own number stands for all that it knows.
    let pid = pid.filter(|pid| answer["pid"] != *pid);
    if args.json {
        if let Some(pid) = pid {
            keep(&mut answer["connections"], |connection| list(&connection["ends"]).any(|end| has(end, pid)));
            keep(&mut answer["processes"], |family| has(family, pid));
        }
        writeln!(std::io::stdout(), "{answer}")?;
        return Ok(());
    }
    if has_several {
        // Daemons of several network namespaces have one address, and those of several namespaces of processes one number.
        let [daemon, address, namespace] =
            ["pid", "address", "network_namespace"].map(|field| cell(&answer[field]));
        writeln!(std::io::stdout(), "daemon {daemon} at {address} in network namespace {namespace}")?;
    }
    connections(&answer, pid)?;
    processes(&answer, pid)?;
    if pid.is_none() {
        hosts(&answer)?;
    }
    if has_several {
        writeln!(std::io::stdout())?;
    }
    Ok(())
}

/// Returns true if the answer has something of a process, or is its own.
fn knows(answer: &Value, pid: u32) -> bool {
    answer["pid"] == pid || list(&answer["processes"]).any(|family| has(family, pid))
}

fn unknown(folder: &Path, pid: u32) -> Failure {
    Failure::work(ask::out_of_reach(pid).unwrap_or_else(|| {
        let folder = folder.display();
        format!("no daemon in {folder} knows process {pid}: `weft sockets` did not start it, or it used no socket yet")
    }))
}

/// Says why no daemon answers in the folder. `address` is where one listens all the same.
fn silent(folder: &Path, address: Option<&str>, is_root: bool) -> String {
    let folder = folder.display();
    match address {
        Some(HOST) if !is_root => {
            format!("no daemon answers in {folder}: that of root, at {HOST}, answers only root")
        }
        Some(address) => format!(
            "no daemon answers in {folder}: the one at {address} has another folder, which its XDG_RUNTIME_DIR or WEFT_STAT \
             names"
        ),
        None => format!("no daemon answers in {folder}: `weft sockets` or `weft daemon` starts one"),
    }
}

/// Prints a line for each connection, seen from this process if it is one of its ends.
fn connections(answer: &Value, pid: Option<u32>) -> Result<(), Failure> {
    let mut table = Table::new(&TITLES);
    for connection in list(&answer["connections"]) {
        let is_its = |end: &Value| end["is_remote"] != true && pid.is_none_or(|pid| has(end, pid));
        let ends = [&connection["ends"][0], &connection["ends"][1]];
        let Some(own) = ends.iter().position(|end| !end.is_null() && is_its(end)) else { continue };
        let (own, other) = (ends[own], ends[1 - own]);
        let mut row: Vec<String> =
            [&own["address"], &other["address"], &own["pids"], &other["pids"]].map(cell).into();
        row.extend(FIELDS.map(|field| cell(&own[field])));
        let is_on_tcp = ["sends_by", "reads_by"].iter().any(|field| own[field] == "tcp");
        row.push(if is_on_tcp { cell(&own["reason"]) } else { "-".to_owned() });
        table.push(row);
    }
    if table.is_empty() {
        let whose = pid.map_or_else(String::new, |pid| format!(" of process {pid}"));
        writeln!(std::io::stdout(), "no open connection{whose} has left TCP")?;
        return Ok(());
    }
    table.print()
}

/// Prints a line for the processes of each family, and the sums since the daemon began.
fn processes(answer: &Value, pid: Option<u32>) -> Result<(), Failure> {
    let mut table =
        Table::new(&["PROCESSES", "UID", "SEEN", "CLAIMED", "SENT-BY-RING", "READ-BY-RING", "ON-TCP"]);
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

/// Prints a line for each remote host that the daemon has asked, or that has asked it.
fn hosts(answer: &Value) -> Result<(), Failure> {
    let mut table = Table::new(&["HOST", "LOCAL", "LANE", "CHANNELS", "REASON"]);
    for host in list(&answer["hosts"]) {
        table
            .push(["address", "local", "state", "channels", "reason"].map(|field| cell(&host[field])).into());
    }
    if table.is_empty() {
        return Ok(());
    }
    writeln!(std::io::stdout())?;
    table.print()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn keep(values: &mut Value, is_wanted: impl Fn(&Value) -> bool) {
    if let Value::Array(values) = values {
        values.retain(is_wanted);
    }
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
const TITLES: [&str; 17] = [
    "LOCAL",
    "PEER",
    "PIDS",
    "PEER-PIDS",
    "SENDS-BY",
    "SENT",
    "BY-RING",
    "READS-BY",
    "READ",
    "BY-RING",
    "WINDOW",
    "UNREAD",
    "SPINS",
    "YIELDS",
    "SLEEPS",
    "WAKES",
    "REASON",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_that_answers_elsewhere_is_named() {
        let said = |address, is_root| silent(Path::new("/x"), address, is_root);
        assert!(said(Some(HOST), false).ends_with("answers only root"));
        assert!(said(Some(HOST), true).contains("the one at @weft/1/0 has another folder"));
        assert!(said(Some("@weft/1/7"), false).contains("the one at @weft/1/7 has another folder"));
        assert!(said(None, false).ends_with("`weft daemon` starts one"));
    }
}
