//! `weft conform` against siw: it has to find the deviations that siw is known for, and no others.

use std::time::Duration;

use serde_json::Value;

use crate::cases::Bench;
use crate::deviations::{self, Finding};

pub(crate) fn run(bench: &Bench<'_>) -> Result<(), String> {
    let port = PORT.to_string();
    let target = bench.guest.start(&format!("peer target -s -a 10.0.0.1 -p {port}"))?;
    target.wait_for_line("listening", READY)?;
    let args = ["conform", "10.0.0.1", "--port", &port, "--timeout", "2", "--json"];
    let output = bench.weft("conform", bench.guest.wire(), &args)?.wait(PATIENCE)?;
    let [report] = output.lines.as_slice() else {
        return Err(format!("status {}: {}", output.status, output.lines.join(" / ")));
    };
    let report: Value = serde_json::from_str(report).map_err(|error| format!("weft conform: {error}"))?;
    let path = bench.dir.join(deviations::REPORT);
    std::fs::write(&path, format!("{report:#}\n")).map_err(|error| format!("{}: {error}", path.display()))?;
    deviations::compare(&deviations::known(&bench.image.name())?, &Finding::failures(&report)?)
}

const PORT: u16 = 7174;
const READY: Duration = Duration::from_secs(60);
/// Many of siw's deviations are silence, and each silence is waited for three times.
const PATIENCE: Duration = Duration::from_secs(600);
