//! `simulate`: runs seeds of the simulation until there are no more seeds or no more time, and reports the results.

mod args;
mod report;
mod workers;

use std::io::{self, Write};
use std::process::ExitCode;

use args::Args;
use weft_tests::command_line;
use weft_tests::simulate::{Options, run};

fn main() -> ExitCode {
    let args = match command_line::parse::<Args>() {
        Ok(args) => args,
        Err(status) => return status,
    };
    let printed = if args.trace { trace(&args) } else { simulate(&args) };
    printed.unwrap_or_else(|error| match error.kind() {
        // The reader has closed the output, which is no failure.
        io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        _ => command_line::complain::<Args>(&format!("cannot write the output: {error}"), 1),
    })
}

fn simulate(args: &Args) -> io::Result<ExitCode> {
    let summary = workers::run(args);
    report::print(&summary, args.json)?;
    Ok(if summary.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Prints the plan of one seed and all events in it.
fn trace(args: &Args) -> io::Result<ExitCode> {
    let outcome = run(args.from, Options { trace: true, kind: args.kind(), ..Options::default() });
    let mut out = io::stdout().lock();
    for line in &outcome.lines {
        writeln!(out, "{line}")?;
    }
    writeln!(out, "hash {:016x}", outcome.hash)?;
    out.flush()?;
    Ok(match &outcome.failure {
        None => ExitCode::SUCCESS,
        Some(reason) => {
            report::complain(args.kind(), outcome.seed, reason);
            ExitCode::FAILURE
        }
    })
}
