//! The command line of `weft bench`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand};

use crate::case::{Case, Effort};
use crate::matrix::RunArgs;
use crate::sweep::SweepArgs;

/// Measures the data path beside references, turn by turn in one run.
///
/// Each row compares something of ours with something else that does the same work, in turns that follow each other: medians,
/// the smallest and the largest value in brackets, and the median of the ratios of neighbouring turns. Every transfer is
/// compared octet by octet at its end, outside of what is timed. docs/performance.md explains the rows and their targets.
///
/// Exit status: 0 when there are all rows, whatever their ratios are; 1 when one is missing or octets were not checked; 2 when
/// the arguments make no sense. Rows that the machine does not allow are named as skipped; with --strict they are missing.
#[derive(Debug, Clone, Parser)]
#[command(
    verbatim_doc_comment,
    after_help = "Examples:
  weft bench --quick
  weft bench --list
  weft bench --only pair/ --pairs 9
  weft bench --quick --json | tail -n 1
  weft bench --save target/bench.json
  weft bench --only sizes --plot target/bench.svg
  weft bench run --op send --size 8 --batch 32 --signal-every 32 --depth 128
  weft bench sweep"
)]
pub struct Args {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    /// Less time for each turn: all of it in less than a minute
    #[arg(long, global = true)]
    pub quick: bool,
    /// Name the cases and what they are compared with, and measure nothing
    #[arg(long)]
    pub list: bool,
    /// Only cases with this in their name; may be given several times
    #[arg(long, value_name = "TEXT")]
    pub only: Vec<String>,
    /// Turns of each side, 5 to 1000
    #[arg(long, value_name = "N", default_value_t = 5, allow_negative_numbers = true, global = true)]
    #[arg(value_parser = clap::value_parser!(u32).range(5..=1000))]
    pub pairs: u32,
    /// Print one JSON object for each row
    #[arg(long, global = true)]
    pub json: bool,
    /// Write the rows to this file, too, one JSON object a line
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// Draw throughput and latency over size to this file, as SVG
    #[arg(long, value_name = "FILE", global = true)]
    pub plot: Option<PathBuf>,
    /// Fail when a row was skipped that needs no foreign program
    #[arg(long)]
    pub strict: bool,
    /// Put the tables into this file, in place of what stands behind their marks: docs/performance.md
    #[arg(long, value_name = "FILE", global = true)]
    pub update: Option<PathBuf>,
}

/// What is measured instead of the table.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum Command {
    Run(RunArgs),
    Sweep(SweepArgs),
}

impl Args {
    /// How much is done.
    pub(crate) fn effort(&self) -> Effort {
        let turn = if self.quick { QUICK_TURN } else { TURN };
        Effort { turn, pairs: self.pairs as usize, is_tiny: false }
    }

    /// Whether a case was asked for.
    pub(crate) fn wants(&self, case: &Case) -> bool {
        self.only.is_empty() || self.only.iter().any(|text| case.name.contains(text.as_str()))
    }
}

/// Reads the part of all frames that is lost.
pub(crate) fn loss(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.0..=0.5).contains(&value) => Ok(value),
        _ => Err(format!("`{text}` is not a number from 0 to 0.5, as 0.01 is")),
    }
}

const TURN: Duration = Duration::from_millis(250);
const QUICK_TURN: Duration = Duration::from_millis(15);
