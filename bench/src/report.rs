//! Rows as text and as JSON.

use std::io::{self, Write};

use serde_json::{Map, Value, json};

use crate::case::Case;
use crate::harness::{Outcome, Row, Spread};

/// Prints the line above the table.
pub(crate) fn heading(out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "{:<34} {:<32} {:>26}  {:>26}  {:>19}  {:<14} cpu s/GB",
        "case", "against", "ours", "reference", "ratio", "target"
    )
}

/// Prints one row of the table.
pub(crate) fn line(out: &mut dyn Write, row: &Row) -> io::Result<()> {
    let (case, reference) = (row.case, row.reference);
    let outcome = match &row.outcome {
        Ok(outcome) => outcome,
        Err(trouble) => return writeln!(out, "{:<34} {:<32} {trouble}", case.name, reference.name),
    };
    let unit = case.quantity.unit();
    let verdict = match (reference.target, row.is_met()) {
        (Some(target), Some(true)) => format!("{target} met"),
        (Some(target), _) => format!("{target} MISSED"),
        (None, _) => String::new(),
    };
    let [ours, theirs] = outcome.cpu_per_gb;
    let cpu = if ours > 0.0 { format!("{ours:.2}, {theirs:.2}") } else { String::new() };
    let line = format!(
        "{:<34} {:<32} {:>26}  {:>26}  {:>19}  {verdict:<14} {cpu}",
        case.name,
        reference.name,
        value(outcome.ours, unit),
        value(outcome.theirs, unit),
        value(outcome.ratio, ""),
    );
    writeln!(out, "{}", line.trim_end())
}

/// Prints the lines below the table: the factors by which clocks ran.
pub(crate) fn footer(out: &mut dyn Write, cases: &[&Case]) -> io::Result<()> {
    let mut scales: Vec<u32> = cases.iter().map(|case| case.clock_scale).collect();
    scales.sort_unstable();
    scales.dedup();
    for scale in scales {
        let names: Vec<&str> =
            cases.iter().filter(|case| case.clock_scale == scale).map(|case| case.name).collect();
        writeln!(out, "\nTCP's clock at {scale} times real time: {}", names.join(", "))?;
    }
    Ok(())
}

/// Prints a line for each comparison.
pub(crate) fn list(cases: &[&Case], out: &mut dyn Write) -> io::Result<()> {
    for case in cases {
        for reference in case.references {
            let target = reference.target.map_or_else(String::new, |target| target.to_string());
            let line = format!("{:<34} {:<32} {target}", case.name, reference.name);
            writeln!(out, "{}", line.trim_end())?;
        }
    }
    Ok(())
}

/// Prints one row, as text or as JSON.
pub(crate) fn print(row: &Row, as_json: bool, out: &mut dyn Write) -> io::Result<()> {
    if as_json { writeln!(out, "{}", object(row)) } else { line(out, row) }?;
    out.flush()
}

/// Returns a row as a JSON object.
pub(crate) fn object(row: &Row) -> Value {
    let (case, reference) = (row.case, row.reference);
    let mut object = Map::new();
    object.insert("case".into(), case.name.into());
    object.insert("reference".into(), reference.name.into());
    match &row.outcome {
        Ok(outcome) => fill(&mut object, row, outcome),
        Err(trouble) => {
            object.insert("missing".into(), trouble.to_string().into());
        }
    }
    Value::Object(object)
}

fn fill(object: &mut Map<String, Value>, row: &Row, outcome: &Outcome) {
    let quantity = row.case.quantity;
    let mut put = |key: &str, value: Value| {
        object.insert(key.to_owned(), value);
    };
    put("ours", json!(outcome.ours.median));
    put("reference_value", json!(outcome.theirs.median));
    put("ratio", json!(outcome.ratio.median));
    put("better", quantity.better().name().into());
    put("unit", quantity.unit().into());
    put("ours_spread", json!([outcome.ours.min, outcome.ours.max]));
    put("reference_spread", json!([outcome.theirs.min, outcome.theirs.max]));
    put("ratio_spread", json!([outcome.ratio.min, outcome.ratio.max]));
    put("cpu_seconds_per_gb", json!(outcome.cpu_per_gb));
    put("clock_scale", row.case.clock_scale.into());
    if let (Some(target), Some(is_met)) = (row.reference.target, row.is_met()) {
        put("target", json!(target.bound()));
        put("met", is_met.into());
    }
}

/// Returns a median with its spread as text.
pub(crate) fn value(spread: Spread, unit: &str) -> String {
    let Spread { median, min, max } = spread;
    let space = if unit.is_empty() { "" } else { " " };
    format!("{}{space}{unit} [{}..{}]", short(median), short(min), short(max))
}

/// Returns three significant digits, or four near 1, where shares differ little.
pub(crate) fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if (0.9..1.0).contains(&size) => format!("{value:.4}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}
