//! The demo's output: a table for people, JSON lines for machines.

use std::io::{self, Write};

use serde_json::{Map, Value, json};
use weft_rnic::SegmentCounters;

use super::args::Args;
use super::workload::Round;
use crate::failure::Failure;

/// A row of the table.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) round: Round,
    /// CPU time of the transfers, in seconds.
    pub(crate) cpu_seconds: f64,
    /// Median time from post to completion, in microseconds of virtual time.
    pub(crate) median_latency: u64,
}

/// The printer of the rows, while the demo runs.
#[derive(Debug)]
pub(crate) struct Report {
    json: bool,
}

impl Report {
    pub(crate) const fn new(json: bool) -> Self {
        Self { json }
    }

    pub(crate) fn begin(&self, args: &Args) -> Result<(), Failure> {
        if self.json {
            return Ok(());
        }
        let on = |set: bool| if set { "on" } else { "off" };
        let rate = args.rate.map(|rate| format!(", {rate} bit/s")).unwrap_or_default();
        let mut out = io::stdout().lock();
        writeln!(
            out,
            "two RNICs, MTU {}, CRC {}, Markers {}, loss {}, seed {}{rate}",
            args.mtu,
            on(!args.no_crc),
            on(args.markers),
            args.loss,
            args.seed
        )?;
        writeln!(
            out,
            "{:<9} {:>8} {:>9} {:>11} {:>15}",
            "operation", "size", "messages", "GB/s (CPU)", "median latency"
        )?;
        Ok(())
    }

    pub(crate) fn row(&self, row: &Row) -> Result<(), Failure> {
        let Round { operation, size, messages } = row.round;
        let rate = f64::from(size) * f64::from(messages) / row.cpu_seconds.max(f64::MIN_POSITIVE) / 1e9;
        let mut out = io::stdout().lock();
        if self.json {
            let object = json!({
                "operation": operation.name(),
                "size": size,
                "messages": messages,
                "gb_per_cpu_second": rate,
                "median_latency_us": row.median_latency,
            });
            writeln!(out, "{object}")?;
        } else {
            writeln!(
                out,
                "{:<9} {:>8} {:>9} {:>11.4} {:>12} us",
                operation.name(),
                size,
                messages,
                rate,
                row.median_latency
            )?;
        }
        Ok(())
    }

    pub(crate) fn finish(&self, segments: &SegmentCounters) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        if self.json {
            let counts: Map<String, Value> =
                segments.kinds().map(|(kind, count)| (kind.to_owned(), count.into())).collect();
            writeln!(out, "{}", json!({ "segments": counts, "ok": true }))?;
        } else {
            let counts: Vec<String> = segments
                .kinds()
                .filter(|&(_, count)| count > 0)
                .map(|(kind, count)| format!("{kind} {count}"))
                .collect();
            writeln!(out, "segments: {}", counts.join(", "))?;
            writeln!(out, "ok")?;
        }
        out.flush()?;
        Ok(())
    }

    /// Prints the last JSON object of a demo that failed. Without `--json` only standard error has the reason.
    pub(crate) fn fail(&self, failure: &Failure) {
        let reason = match failure {
            Failure::Usage(reason) | Failure::Work(reason) | Failure::NotRun(reason, _) => reason,
            Failure::OutputClosed => return,
        };
        if self.json {
            // Standard error and the exit status show the failure even if this line cannot be written.
            let _unwritten = writeln!(io::stdout(), "{}", json!({ "ok": false, "error": reason }));
        }
    }
}
