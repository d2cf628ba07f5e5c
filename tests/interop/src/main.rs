//! Weft against Linux siw in virtual machines. `tests/interop/run` builds the guests and then starts this.

#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod bench;
mod boot;
mod campaign;
mod capture;
mod cases;
mod console;
mod control;
mod deviations;
mod guest;
mod image;
mod job;
mod meeting;
mod patience;
mod pattern;
mod program;
mod relay;
mod report;
mod torn;
mod tries;
mod verbs;

use campaign::Places;
use image::Image;

/// Runs Weft against Linux siw in virtual machines: each case with siw connecting and listening, on each guest.
///
/// Guests are Linux 6.1 and 6.12, each with siw as it is (plain) and with CRC and peer-to-peer start (p2p).
/// Exit status 1 if a case failed; its captures are then in `failed` beside the guests.
#[derive(Debug, Parser)]
#[command(name = "tests/interop/run", args_conflicts_with_subcommands = false)]
struct Cli {
    /// Where the guests are
    #[arg(long, hide = true)]
    lab: PathBuf,
    /// A directory for sockets and captures, whose name is short and which the caller removes
    #[arg(long, hide = true)]
    scratch: PathBuf,
    /// List the cases and end
    #[arg(long)]
    list: bool,
    /// Write the results to this file, too
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    selection: campaign::Selection,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Boot one guest for use by hand, until Ctrl-C
    Boot(boot::Args),
    /// Print the deviations that the case `conform` found in a run with --keep, as a table
    Deviations,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(&cli) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("tests/interop/run: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns true if all cases passed.
fn run(cli: &Cli) -> Result<bool, String> {
    if cli.list {
        for case in cases::CASES {
            println!("{:14}{}", case.name, case.about);
        }
        return Ok(true);
    }
    let images = Image::all(&cli.lab);
    match &cli.command {
        Some(Command::Boot(args)) => return boot::run(args, &images, &cli.scratch).map(|()| true),
        Some(Command::Deviations) => {
            report::say(&deviations::table(&cli.lab.join(campaign::KEPT))?)?;
            return Ok(true);
        }
        None => {}
    }
    let places = Places { scratch: &cli.scratch, lab: &cli.lab };
    let rows = campaign::run(&cli.selection, images, &places)?;
    report::print(&rows)?;
    if let Some(path) = &cli.json {
        report::write_json(&rows, path)?;
    }
    Ok(rows.iter().all(|row| row.tried.outcome.is_ok()))
}
