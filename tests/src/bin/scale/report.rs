//! The results, for people and for machines.

use std::io::{self, Write};

use serde_json::json;

use crate::args::Args;

/// One measurement.
pub(crate) struct Row {
    pub(crate) case: &'static str,
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
    pub(crate) bound: Bound,
    pub(crate) note: String,
}

/// The bound of a value.
pub(crate) enum Bound {
    AtMost(f64),
    Below(f64),
}

impl Row {
    pub(crate) fn is_met(&self) -> bool {
        match self.bound {
            Bound::AtMost(bound) => self.value <= bound,
            Bound::Below(bound) => self.value < bound,
        }
    }
}

impl core::fmt::Display for Bound {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::AtMost(bound) => write!(f, "at most {bound}"),
            Self::Below(bound) => write!(f, "below {bound}"),
        }
    }
}

/// Prints all rows.
pub(crate) fn print(rows: &[Row], args: &Args) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if !args.json {
        writeln!(
            out,
            "{} connections, queues of {}, TCP buffers of {} octets\n",
            args.qps, args.depth, args.tcp_buffer
        )?;
    }
    for row in rows {
        let Row { case, value, unit, bound, note } = row;
        if args.json {
            let target = bound.to_string();
            let object = json!({
                "case": case, "value": value, "unit": unit, "target": target, "met": row.is_met(), "note": note,
                "qps": args.qps, "depth": args.depth, "tcp_buffer": args.tcp_buffer,
            });
            writeln!(out, "{object}")?;
        } else {
            let verdict = if row.is_met() { "met" } else { "MISSED" };
            writeln!(out, "{case:<50} {value:>8.2} {unit:<8} {bound:<12} {verdict:<7} {note}")?;
        }
    }
    out.flush()
}

/// Returns the middle one of an odd number of values.
pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
