//! The summary: a table for people, one JSON object for machines.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Duration;

use serde_json::{Value, json};
use weft_tests::simulate::{Kind, Tally, command};

/// The results of all seeds together.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    pub(crate) kind: Kind,
    pub(crate) from: u64,
    pub(crate) tally: Tally,
    /// Seeds and reasons, in the order of the seeds.
    pub(crate) failures: Vec<(u64, String)>,
    /// The hashes of all runs together. The order of the runs does not change it.
    pub(crate) hash: u64,
    pub(crate) elapsed: Duration,
    pub(crate) threads: usize,
}

/// Reports at once that a seed has failed, and the command that repeats it.
pub(crate) fn complain(kind: Kind, seed: u64, reason: &str) {
    // If standard error is closed, the summary and the exit status still report it.
    let _unread = writeln!(io::stderr(), "seed {seed} failed: {reason}\n  {}", command(kind, seed));
}

/// Prints the results of all seeds.
pub(crate) fn print(summary: &Summary, json: bool) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if json {
        writeln!(out, "{}", object(summary))?
    } else {
        table(summary, &mut out)?
    }
    out.flush()
}

fn table(summary: &Summary, out: &mut impl Write) -> io::Result<()> {
    let tally = &summary.tally;
    let seconds = summary.elapsed.as_secs_f64();
    let rate = tally.seeds as f64 / seconds.max(f64::MIN_POSITIVE);
    let mut row = |name: &str, value: &str| writeln!(out, "{name:<44} {value:>16}");
    row("seeds", &tally.seeds.to_string())?;
    row("first seed", &summary.from.to_string())?;
    row("failed", &summary.failures.len().to_string())?;
    row("seconds", &format!("{seconds:.1}"))?;
    row("seeds per second", &format!("{rate:.1}"))?;
    row("threads", &summary.threads.to_string())?;
    row("virtual hours", &format!("{:.1}", tally.virtual_micros as f64 / 3.6e9))?;
    row("steps", &tally.steps.to_string())?;
    row("frames", &tally.frames.to_string())?;
    row("octets moved", &tally.octets.to_string())?;
    row("hash", &format!("{:016x}", summary.hash))?;
    for (title, counts) in sections(summary) {
        writeln!(out, "\n{title}")?;
        for (name, count) in counts {
            writeln!(out, "  {name:<42} {count:>16}")?;
        }
    }
    writeln!(out)?;
    match &summary.failures[..] {
        [] => writeln!(out, "ok"),
        failures => {
            for (seed, _) in failures {
                writeln!(out, "failed: {}", command(summary.kind, *seed))?;
            }
            Ok(())
        }
    }
}

fn object(summary: &Summary) -> Value {
    let tally = &summary.tally;
    let failures = summary.failures.iter().map(
        |(seed, reason)| json!({ "seed": seed, "reason": reason, "command": command(summary.kind, *seed) }),
    );
    let mut object = json!({
        "seeds": tally.seeds,
        "from": summary.from,
        "seconds": summary.elapsed.as_secs_f64(),
        "threads": summary.threads,
        "virtual_us": tally.virtual_micros,
        "steps": tally.steps,
        "frames": tally.frames,
        "octets": tally.octets,
        "hash": format!("{:016x}", summary.hash),
        "failures": failures.collect::<Vec<_>>(),
        "ok": summary.failures.is_empty(),
    });
    for (title, counts) in sections(summary) {
        object[title] = json!(counts);
    }
    object
}

fn sections(summary: &Summary) -> [(&'static str, &BTreeMap<String, u64>); 5] {
    let tally = &summary.tally;
    [
        ("operations", &tally.operations),
        ("faults", &tally.faults),
        ("ends", &tally.ends),
        ("bad accesses", &tally.bad),
        ("completions without success", &tally.statuses),
    ]
}
