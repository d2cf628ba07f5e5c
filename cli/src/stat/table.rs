//! Answers as tables.

use std::io::{IsTerminal, Write};
use std::path::Path;

use serde_json::Value;
use weft_verbs::{CqCounters, QpCounters};

use super::args::What;
use super::ask::Found;
use crate::failure::Failure;

/// A table whose columns are as wide as their contents. Numbers are aligned to the right.
#[derive(Debug)]
pub(super) struct Table {
    rows: Vec<Vec<String>>,
    is_number: Vec<bool>,
}

impl Table {
    pub(super) fn new(titles: &[&str]) -> Self {
        let rows = vec![titles.iter().map(|&title| title.to_owned()).collect()];
        Self { rows, is_number: vec![true; titles.len()] }
    }

    pub(super) fn push(&mut self, row: Vec<String>) {
        for (is_number, cell) in self.is_number.iter_mut().zip(&row) {
            *is_number &= cell == NONE || cell.parse::<f64>().is_ok();
        }
        self.rows.push(row);
    }

    /// True if there is no row below the titles.
    pub(super) fn is_empty(&self) -> bool {
        self.rows.len() == 1
    }

    /// Prints the table. The titles stand out on a terminal.
    pub(super) fn print(&self) -> Result<(), Failure> {
        let width =
            |column: usize| self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.is_number.len()).map(width).collect();
        let is_plain = !std::io::stdout().is_terminal() || std::env::var_os("NO_COLOR").is_some();
        let mut out = std::io::stdout().lock();
        for (index, row) in self.rows.iter().enumerate() {
            let cells = row.iter().zip(&widths).zip(&self.is_number);
            let cells =
                cells.map(
                    |((cell, &width), &is_number)| {
                        if is_number { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
                    },
                );
            let line = cells.collect::<Vec<_>>().join("  ");
            let line = line.trim_end();
            if index == 0 && !is_plain {
                writeln!(out, "\x1b[1m{line}\x1b[0m")?;
            } else {
                writeln!(out, "{line}")?;
            }
        }
        Ok(())
    }
}

/// Prints the devices.
pub(super) fn list(found: &[Found], folder: &Path, is_json: bool) -> Result<(), Failure> {
    let mut out = std::io::stdout();
    if is_json {
        for Found { answer, .. } in found {
            writeln!(out, "{answer}")?;
        }
        return Ok(());
    }
    if found.is_empty() {
        let folder = folder.display();
        writeln!(out, "no process answers in {folder}: start one with WEFT_STAT=1")?;
        return Ok(());
    }
    let columns = ["pid", "device", "address", "qps", "mrs", "cqs", "connections", "listeners", "threads"];
    let mut table = Table::new(&[
        "PROCESS",
        "DEVICE",
        "PROGRAM",
        "ADDRESS",
        "QP",
        "MR",
        "CQ",
        "CM",
        "LISTENERS",
        "THREADS",
    ]);
    for Found { program, answer } in found {
        let mut row: Vec<String> = columns.iter().map(|column| cell(&answer[*column])).collect();
        row.insert(2, program.clone());
        table.push(row);
    }
    table.print()
}

/// Prints the objects of one kind.
pub(super) fn objects(answer: &Value, what: What, with_stags: bool) -> Result<(), Failure> {
    let fixed = columns(what)
        .iter()
        .filter(|(_, key)| with_stags || !["stag", "iova"].contains(key))
        .map(|&(title, key)| (title.to_owned(), key));
    let counted = counters(what).iter().map(|&name| (name.to_uppercase().replace('_', "-"), name));
    let columns: Vec<(String, &str)> = fixed.chain(counted).collect();
    let titles: Vec<&str> = columns.iter().map(|(title, _)| title.as_str()).collect();
    let mut table = Table::new(&titles);
    let objects = answer[what.request(false)].as_array().map(Vec::as_slice).unwrap_or_default();
    for object in objects {
        table.push(columns.iter().map(|(_, key)| fill(object, key)).collect());
    }
    // The last line stands for all objects since the start.
    let sums = &answer["sums"];
    if sums.is_object() {
        let cells = columns.iter().skip(1).map(|(_, key)| fill(sums, key));
        table.push(core::iter::once("all".to_owned()).chain(cells).collect());
    }
    table.print()
}

/// Returns the counters of each object, whose columns come last.
const fn counters(what: What) -> &'static [&'static str] {
    match what {
        What::Qp => QpCounters::NAMES,
        What::Cq => CqCounters::NAMES,
        What::Exs => &["stale_adverts", "holds", "window_stalls", "ring_stalls", "advert_stalls"],
        What::Mr
        | What::Srq
        | What::Pd
        | What::Cm
        | What::Listener
        | What::Sockets
        | What::Group
        | What::Counters => &[],
    }
}

/// Returns the titles, and the fields of the answer below them. `a/b` shows two fields, the used part of a whole.
const fn columns(what: What) -> &'static [(&'static str, &'static str)] {
    match what {
        What::Qp => &[
            ("QP", "qp_num"),
            ("STATE", "state"),
            ("LOCAL", "local"),
            ("PEER", "peer"),
            ("SQ", "send_used/send_wr"),
            ("RQ", "recv_used/recv_wr"),
            ("SRQ", "srq"),
            ("SEND-CQ", "send_cq"),
            ("RECV-CQ", "recv_cq"),
            ("PD", "pd"),
        ],
        What::Mr => &[
            ("STAG", "stag"),
            ("IOVA", "iova"),
            ("KIND", "kind"),
            ("LENGTH", "len"),
            ("PD", "pd"),
            ("QP", "qp_num"),
            ("VALID", "valid"),
            ("ACCESS", "access"),
        ],
        What::Cq => &[
            ("CQ", "cq"),
            ("USED", "used/entries"),
            ("ARMED", "armed"),
            ("CHANNEL", "channel"),
            ("OVERRUN", "overrun"),
        ],
        What::Srq => {
            &[("SRQ", "srq"), ("USED", "recv_used/recv_wr"), ("LIMIT", "limit"), ("PD", "pd"), ("QP", "qps")]
        }
        What::Pd => &[("PD", "pd"), ("QP", "qps"), ("MR", "mrs")],
        What::Cm => &[
            ("ID", "id"),
            ("PHASE", "phase"),
            ("ROLE", "role"),
            ("LOCAL", "local"),
            ("PEER", "peer"),
            ("QP", "qp_num"),
        ],
        What::Listener => {
            &[("ADDRESS", "address"), ("MODE", "mode"), ("UNANSWERED", "unanswered"), ("BACKLOG", "backlog")]
        }
        What::Group => &[
            ("SESSION", "session"),
            ("EPOCH", "epoch"),
            ("FROM", "peer"),
            ("REPLICA", "index/replicas"),
            ("RANGE", "range"),
            ("WINDOW", "window"),
            ("READY", "ready"),
            ("SLOTS", "slots"),
            ("LAPS", "laps"),
            ("QP", "qp_num"),
            ("THREADS", "threads"),
        ],
        What::Exs => EXS,
        What::Sockets | What::Counters => &[],
    }
}

fn fill(object: &Value, key: &str) -> String {
    match key.split_once('/') {
        Some((used, all)) if object[used].is_null() && object[all].is_null() => NONE.to_owned(),
        Some((used, all)) => format!("{}/{}", cell(&object[used]), cell(&object[all])),
        // As `weft group status` shows it.
        None if key == "session" => format!("{:016x}", object[key].as_u64().unwrap_or_default()),
        None => cell(&object[key]),
    }
}

/// Returns a value as text.
pub(super) fn cell(value: &Value) -> String {
    match value {
        Value::Null => NONE.to_owned(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(list) => join(list.iter().map(cell)),
        Value::Object(object) => join(object.iter().map(|(name, value)| format!("{name}={}", cell(value)))),
        other => other.to_string(),
    }
}

fn join(cells: impl Iterator<Item = String>) -> String {
    let joined = cells.collect::<Vec<_>>().join(",");
    if joined.is_empty() { NONE.to_owned() } else { joined }
}

const NONE: &str = "-";
const EXS: &[(&str, &str)] = &[
    ("SOCKET", "socket"),
    ("TYPE", "type"),
    ("STATE", "state"),
    ("LOCAL", "local"),
    ("PEER", "peer"),
    ("QP", "qp_num"),
    ("SENDS", "sends"),
    ("RECEIVES", "receives"),
    ("WINDOW", "window_used/window"),
    ("CREDITS", "credits_used/credits"),
    ("ADVERTS", "adverts_unused/adverts"),
    ("RING", "ring_used/ring"),
    ("SENT", "sent"),
    ("DIRECT", "sent_direct"),
    ("BY-RING", "sent_ring"),
    ("INLINE", "sent_inline"),
    ("PLAIN", "sent_plain"),
    ("%DIRECT", "sent_direct_percent"),
    ("RECEIVED", "received"),
    ("DIRECT", "received_direct"),
    ("BY-RING", "received_ring"),
    ("INLINE", "received_inline"),
    ("PLAIN", "received_plain"),
    ("%DIRECT", "received_direct_percent"),
];
