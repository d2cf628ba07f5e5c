//! The deviations of siw from the RFCs: the known ones, those that `weft conform` finds, and a table of them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

/// A requirement that a target does not keep.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    pub(crate) id: String,
    pub(crate) check: String,
    expected: String,
    observed: String,
    sent: String,
}

impl Finding {
    /// Returns the failures in a report of `weft conform --json`.
    pub(crate) fn failures(report: &Value) -> Result<Vec<Self>, String> {
        let rows = report["results"].as_array().ok_or("the report has no results")?;
        let field = |row: &Value, name: &str| row[name].as_str().unwrap_or_default().to_owned();
        let failed = rows.iter().filter(|row| row["verdict"] == "fail");
        Ok(failed
            .map(|row| Self {
                id: field(row, "id"),
                check: field(row, "check"),
                expected: field(row, "expected"),
                observed: field(row, "observed"),
                sent: field(row, "sent"),
            })
            .collect())
    }
}

/// The requirements that siw is known not to keep on a guest.
#[derive(Debug, Default)]
pub(crate) struct Known {
    always: BTreeSet<String>,
    /// Deviations that show only with some timings.
    sometimes: BTreeSet<String>,
}

impl Known {
    /// Returns those of `found` that are not known.
    pub(crate) fn strangers<'a>(&self, found: &'a [Finding]) -> Vec<&'a Finding> {
        let is_known = |id: &String| self.always.contains(id) || self.sometimes.contains(id);
        found.iter().filter(|finding| !is_known(&finding.id)).collect()
    }
}

/// Returns the known deviations of a guest.
pub(crate) fn known(guest: &str) -> Result<Known, String> {
    let mut known = Known::default();
    for line in KNOWN.lines().skip(1) {
        let mut fields = line.split(',');
        let (Some(id), Some(guests), Some(when)) = (fields.next(), fields.next(), fields.next()) else {
            return Err(format!("deviations.csv: `{line}` has not the three fields id,guests,when"));
        };
        if guests == "all" || guests.split(' ').any(|one| one == guest) {
            let ids = if when == "always" { &mut known.always } else { &mut known.sometimes };
            ids.insert(id.to_owned());
        }
    }
    Ok(known)
}

/// Returns an error unless the found deviations are the known ones.
pub(crate) fn compare(known: &Known, found: &[Finding]) -> Result<(), String> {
    let ids: BTreeSet<String> = found.iter().map(|finding| finding.id.clone()).collect();
    let missing: Vec<_> = known.always.difference(&ids).cloned().collect();
    let new = known.strangers(found).into_iter();
    let new: Vec<_> =
        new.map(|finding| format!("{} ({}: {})", finding.id, finding.check, finding.observed)).collect();
    match (missing.is_empty(), new.is_empty()) {
        (true, true) => Ok(()),
        (false, true) => Err(format!("known deviations that it does not find: {}", missing.join(", "))),
        (true, false) => Err(format!("deviations that are not known: {}", new.join(", "))),
        (false, false) => Err(format!("not found: {}; not known: {}", missing.join(", "), new.join(", "))),
    }
}

/// Returns the deviations in the reports kept below `captures` as a table in Markdown. Each row has one dialogue and
/// its result.
pub(crate) fn table(captures: &Path) -> Result<String, String> {
    let mut rows: BTreeMap<[String; 3], (BTreeSet<String>, BTreeSet<String>, String)> = BTreeMap::new();
    let failed = |error: std::io::Error| {
        format!("{}: {error}; first: tests/interop/run --case conform --keep", captures.display())
    };
    for entry in std::fs::read_dir(captures).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let guest = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Ok(text) = std::fs::read(path.join(FOLDER).join(REPORT)) else { continue };
        let report = serde_json::from_slice(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        for finding in Finding::failures(&report)? {
            let (ids, guests, sent) =
                rows.entry([finding.check, finding.expected, finding.observed]).or_default();
            ids.insert(finding.id);
            guests.insert(guest.clone());
            *sent = finding.sent;
        }
    }
    let mut out = String::from(
        "| dialogue | requirements | sent | expected | siw | guests |\n|---|---|---|---|---|---|\n",
    );
    for ([check, expected, observed], (ids, guests, sent)) in rows {
        let all = |words: BTreeSet<String>| words.into_iter().collect::<Vec<_>>().join(" ");
        let guests = if guests.len() == GUESTS { "all".into() } else { all(guests) };
        out.push_str(&format!(
            "| {check} | {} | `{}` | {expected} | {observed} | {guests} |\n",
            all(ids),
            tail(&sent)
        ));
    }
    Ok(out)
}

/// Returns the last octets, at which siw failed.
fn tail(digits: &str) -> String {
    match digits.len().checked_sub(SHOWN) {
        Some(start @ 1..) => format!("…{}", &digits[start..]),
        _ => digits.to_owned(),
    }
}

/// The file name of a run's report, among its captures.
pub(crate) const REPORT: &str = "report.json";
const KNOWN: &str = include_str!("../deviations.csv");
/// The directory of the case's captures.
const FOLDER: &str = "conform-passive";
const GUESTS: usize = 4;
/// The number of digits shown: two for each octet.
const SHOWN: usize = 128;
