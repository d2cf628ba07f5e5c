//! `weft conform` against siw. It has to find the known deviations of siw, and no others.

use std::time::Duration;

use serde_json::Value;

use crate::bench::Bench;
use crate::deviations::{self, Finding};
use crate::job::Job;

pub(crate) fn run(bench: &Bench<'_>) -> Result<(), String> {
    let known = deviations::known(&bench.image.name())?;
    let _target = begin_target(bench, PORT)?;
    let report = judge(bench, PORT, &[])?;
    let path = bench.dir.join(deviations::REPORT);
    std::fs::write(&path, format!("{report:#}\n")).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut found = Finding::failures(&report)?;
    let doubtful: Vec<String> =
        known.strangers(&found).into_iter().map(|finding| finding.check.clone()).collect();
    if !doubtful.is_empty() {
        // A guest on a busy machine may answer too late once, which is no deviation; a real deviation shows again.
        // The last check has ended the first target's listening socket.
        let _fresh = begin_target(bench, PORT + 1)?;
        let again = Finding::failures(&judge(bench, PORT + 1, &doubtful)?)?;
        found.retain(|finding| {
            !doubtful.contains(&finding.check) || again.iter().any(|other| other.id == finding.id)
        });
    }
    deviations::compare(&known, &found)
}

/// Starts a server on siw that answers nothing by itself.
fn begin_target(bench: &Bench<'_>, port: u16) -> Result<Job, String> {
    let target = bench.guest.start(&format!("peer target -s -a 10.0.0.1 -p {port}"))?;
    target.wait_for_line("listening", READY)?;
    Ok(target)
}

/// Returns the report of all checks, or of those with the names in `only`.
fn judge(bench: &Bench<'_>, port: u16, only: &[String]) -> Result<Value, String> {
    let port = port.to_string();
    let mut args = vec!["conform", "10.0.0.1", "--port", &port, "--timeout", "2", "--json"];
    args.extend(only.iter().flat_map(|check| ["--only", check]));
    let name = if only.is_empty() { "conform" } else { "conform-again" };
    let output = bench.weft(name, bench.guest.wire(), &args)?.wait(PATIENCE)?;
    let [report] = output.lines.as_slice() else {
        return Err(format!("status {}: {}", output.status, output.lines.join(" / ")));
    };
    serde_json::from_str(report).map_err(|error| format!("weft conform: {error}: {report}"))
}

const PORT: u16 = 7174;
const READY: Duration = Duration::from_secs(60);
/// Many of siw's deviations are silence, and the tester waits for each silence three times.
const PATIENCE: Duration = Duration::from_secs(600);
