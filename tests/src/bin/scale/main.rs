//! `scale`: many connected queue pairs in one process, and the cost of one of them, of all of them and of none.

mod args;
mod ends;
mod far;
mod measure;
mod report;
mod side;
mod wake;

use std::io;
use std::process::ExitCode;

use args::{Answer, Args, Transport};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use weft_rnic::Progress;
use weft_tests::command_line;

fn main() -> ExitCode {
    let args = match command_line::parse::<Args>() {
        Ok(args) => args,
        Err(status) => return status,
    };
    match run(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => command_line::complain::<Args>(&error.to_string(), 1),
    }
}

/// Returns true if all targets were met.
fn run(args: &Args) -> io::Result<bool> {
    let descriptors = allow_descriptors()?;
    if args.transport == Transport::Host && descriptors < u64::from(args.qps) + SPARE_DESCRIPTORS {
        println!("skipped: {} connections need as many descriptors, and {descriptors} are allowed", args.qps);
        return Ok(true);
    }
    if let Some(answer) = args.answer {
        let progress = if answer == Answer::Manual { Progress::Manual } else { Progress::Thread };
        return far::answer(args, progress).map(|()| true);
    }
    // Memory comes first: memory that an earlier measurement has freed would be used again without growth.
    let mut rows = vec![measure::resident(args)?, measure::round_trip(args)?, measure::idle(args)?];
    // A wire in memory has no counterpart in the kernel.
    if args.transport == Transport::Host {
        rows.push(wake::sleeping(args)?);
    }
    report::print(&rows, args)?;
    Ok(args.report || rows.iter().all(report::Row::is_met))
}

/// Allows as many descriptors as this process may have, and returns their number. Each connection of the host needs
/// one.
fn allow_descriptors() -> io::Result<u64> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })?;
    Ok(limit.maximum.unwrap_or(u64::MAX))
}

/// The descriptors for all other purposes.
const SPARE_DESCRIPTORS: u64 = 64;
