//! A row of a table or figure.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::Figure;
use crate::case::{Quantity, Sample, Trouble};
use crate::harness::Spread;
use crate::process::Outcome;
use crate::report;

/// The samples of all turns of a side.
pub(crate) type Values = Outcome<Vec<Sample>>;

/// One row, with the turns of each column.
pub(crate) struct Row {
    pub(crate) name: String,
    quantity: Quantity,
    /// The paper's value for this row; empty if the whole figure has a sentence.
    paper: &'static str,
    pub(crate) values: Vec<Values>,
}

impl Row {
    pub(crate) const fn new(name: String, quantity: Quantity, paper: &'static str) -> Self {
        Self { name, quantity, paper, values: Vec::new() }
    }

    pub(crate) fn heading(figure: &Figure, out: &mut dyn Write) -> io::Result<()> {
        let (over, columns) = figure.columns();
        write!(out, "{over:<WIDTH$}")?;
        columns.iter().try_for_each(|column| write!(out, " {column:>28}"))?;
        let ratio = if columns.len() > 1 { "ratio" } else { "" };
        writeln!(out, " {ratio:>22}")
    }

    /// Returns the values of a column.
    pub(crate) fn spread(&self, column: usize) -> Option<Spread> {
        let samples = self.values.get(column)?.as_ref().ok()?;
        Some(Spread::of(samples.iter().map(|sample| sample.value(self.quantity)).collect()))
    }

    /// Returns the ratios of neighbouring turns of the first two columns.
    pub(crate) fn ratio(&self) -> Option<Spread> {
        let [Ok(ours), Ok(theirs), ..] = self.values.as_slice() else { return None };
        let value = |sample: &Sample| sample.value(self.quantity);
        Some(Spread::of(ours.iter().zip(theirs).map(|(ours, theirs)| value(ours) / value(theirs)).collect()))
    }

    /// Returns the cells of all columns and the ratio, as text.
    pub(crate) fn cells(&self) -> (Vec<String>, String) {
        let cell = |(column, value): (usize, &Values)| match (value, self.spread(column)) {
            (Err(Trouble::Skipped(reason)), _) if reason.is_empty() => "–".to_owned(),
            (Err(trouble), _) => trouble.to_string(),
            (Ok(_), spread) => {
                spread.map_or_else(String::new, |spread| report::value(spread, self.quantity.unit()))
            }
        };
        let ratio = self.ratio().map_or_else(String::new, |ratio| report::value(ratio, ""));
        (self.values.iter().enumerate().map(cell).collect(), ratio)
    }

    /// Returns the paper's value, behind the words that say so.
    pub(crate) fn paper(&self) -> String {
        if self.paper.is_empty() { String::new() } else { format!("paper: {}", self.paper) }
    }

    pub(crate) fn print(&self, figure: &Figure, as_json: bool, out: &mut dyn Write) -> io::Result<()> {
        if as_json {
            writeln!(out, "{}", self.object(figure))?;
        } else {
            let (cells, ratio) = self.cells();
            write!(out, "{:<WIDTH$}", self.name)?;
            cells.iter().try_for_each(|cell| write!(out, " {cell:>28}"))?;
            writeln!(out, " {ratio:>22}  {}", self.paper())?;
        }
        out.flush()
    }

    fn object(&self, figure: &Figure) -> Value {
        let (over, columns) = figure.columns();
        let spread = |Spread { median, min, max }| json!({ "median": median, "min": min, "max": max });
        let value = |(column, value): (usize, &Values)| match value {
            Err(trouble) => json!({ "missing": trouble.to_string() }),
            Ok(samples) => {
                let mut object = self.spread(column).map_or(Value::Null, spread);
                let cpu: f64 = samples.iter().map(|sample| sample.cpu.as_secs_f64()).sum();
                let transfers: u64 = samples.iter().map(|sample| sample.transfers).sum();
                object["cpu_micros"] = json!(cpu * 1e6 / transfers.max(1) as f64);
                object
            }
        };
        let values: serde_json::Map<_, _> = columns
            .iter()
            .zip(self.values.iter().enumerate().map(value))
            .map(|(name, value)| ((*name).to_owned(), value))
            .collect();
        let paper = if self.paper.is_empty() { figure.paper } else { self.paper };
        json!({ "figure": figure.name, "over": over, "point": self.name, "unit": self.quantity.unit(),
            "better": self.quantity.better().name(), "values": values, "ratio": self.ratio().map(spread),
            "paper": paper })
    }
}

/// The width of names in the table.
const WIDTH: usize = 44;
