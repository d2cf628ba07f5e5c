//! `twin`: the same socket calls on plain sockets and with the sockets library, and whether the results are the same.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the driver's words hold numbers of C"
)]

mod agent;
mod calls;
mod connections;
mod daemon;
mod handler;
mod launch;
mod model;
mod play;
mod processes;
mod script;
mod signals;
mod stream;
mod waits;
mod worlds;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use weft_tests::command_line;

use play::{Outcome, play};
use script::Script;
use worlds::Library;

/// Make the same socket calls on plain sockets and with the sockets library, and compare the results.
///
/// Each seed is a script of calls on connections inside one or two processes, with threads and forks. What TCP leaves
/// open is not compared: how much a call moves that may move less. A script that fails is shortened, and its calls are
/// printed. The last line counts the octets that did not go by the kernel's TCP.
#[derive(Debug, Parser)]
#[command(
    name = "twin",
    after_help = "Examples:
  twin --seeds 100
  twin --from 1234 --seeds 1 --verbose
  twin --from 1234 --seeds 1 --steps 0,5,7
  twin --from 1 --seeds 20 --plain"
)]
struct Args {
    /// How many seeds to run
    #[arg(long, value_name = "N", default_value_t = 100)]
    seeds: u64,
    /// The first seed
    #[arg(long, value_name = "M", default_value_t = 1)]
    from: u64,
    /// Seconds after which no further seed begins
    #[arg(long, value_name = "S")]
    seconds: Option<u64>,
    /// Also start programs, pass connections to other processes, and interrupt waits by signals
    #[arg(long)]
    programs: bool,
    /// Only these steps of each script, separated by commas
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    steps: Option<Vec<usize>>,
    /// Print all calls
    #[arg(long)]
    verbose: bool,
    /// Compare plain sockets with plain sockets: what differs is a defect of this program
    #[arg(long)]
    plain: bool,
    /// Do not shorten scripts that fail
    #[arg(long)]
    whole: bool,
    /// Fail unless at least so many octets in a hundred went by a ring
    #[arg(long, value_name = "PERCENT")]
    ring: Option<u64>,
    /// Succeed if at most so many seeds in a hundred differ. They are printed all the same
    #[arg(long, value_name = "PERCENT", default_value_t = 0)]
    tolerate: u64,
    /// The library, instead of the one beside this program
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,
    /// Append what the library traces to this file
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    #[arg(long, hide = true, requires = "channel")]
    agent: Option<PathBuf>,
    #[arg(long, hide = true)]
    channel: Option<i64>,
    /// The agent answers the command by which it came to be
    #[arg(long, hide = true)]
    executed: bool,
}

fn main() -> ExitCode {
    let args = match command_line::parse::<Args>() {
        Ok(args) => args,
        Err(status) => return status,
    };
    if let (Some(folder), Some(channel)) = (&args.agent, args.channel) {
        agent::serve(folder, channel, args.executed);
        return ExitCode::SUCCESS;
    }
    match run(&args) {
        Ok(status) => status,
        Err(error) => command_line::complain::<Args>(&error.to_string(), 1),
    }
}

#[expect(clippy::disallowed_methods, reason = "the user asks for seconds of real time")]
fn run(args: &Args) -> io::Result<ExitCode> {
    let beside = std::env::current_exe()?.with_file_name("");
    let file = args.library.clone().unwrap_or_else(|| beside.join(LIBRARY));
    if !args.plain && !file.is_file() {
        return Err(io::Error::other(format!("there is no {}: cargo build makes it", file.display())));
    }
    let folder = std::env::temp_dir().join(format!("weft-twin-{}", std::process::id()));
    let daemon = daemon::Daemon::start(&beside, args.plain)?;
    let file = (!args.plain).then_some(file);
    let library = Library { file, daemon: daemon.address.clone(), trace: args.trace.clone() };
    let (mut total, mut failed) = (Outcome::default(), 0);
    let start = std::time::Instant::now();
    for seed in args.from..args.from + args.seeds {
        if args.seconds.is_some_and(|limit| start.elapsed().as_secs() >= limit) {
            break;
        }
        let mut script = Script::new(seed, args.programs);
        if let Some(steps) = &args.steps {
            script.keep(steps);
        }
        let outcome = play(&script, &folder, &library);
        total.add(&outcome);
        if outcome.fault.is_some() {
            failed += 1;
            let (script, outcome) =
                if args.whole { (script, outcome) } else { shorten(script, outcome, &folder, &library) };
            report(&script, &outcome)?;
        } else if args.verbose {
            outcome.log.iter().try_for_each(|line| writeln!(io::stdout(), "{line}"))?;
        }
        total.seeds += 1;
    }
    let _gone = std::fs::remove_dir_all(&folder);
    let percent = total.ring * 100 / total.octets.max(1);
    writeln!(
        io::stdout(),
        "{} seeds, {failed} failed; {} calls, {} short reads, {} events told twice; {} connections, {} with a ring; \
         {} octets, {percent} % by ring",
        total.seeds,
        total.calls,
        total.short,
        total.extra,
        total.connections,
        total.ringed,
        total.octets,
    )?;
    let is_enough = args.ring.is_none_or(|wanted| percent >= wanted);
    let is_right = failed * 100 <= args.tolerate * total.seeds;
    Ok(if is_right && is_enough { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn report(script: &Script, outcome: &Outcome) -> io::Result<()> {
    let mut out = io::stdout().lock();
    for line in &outcome.log {
        writeln!(out, "    {line}")?;
    }
    let steps: Vec<String> = script.steps.iter().map(|step| step.number.to_string()).collect();
    let fault = outcome.fault.as_deref().unwrap_or("not seen again");
    writeln!(out, "seed {} failed: {fault}", script.seed)?;
    let programs = if script.has_programs { " --programs" } else { "" };
    writeln!(out, "again: twin --from {} --seeds 1{programs} --steps {}", script.seed, steps.join(","))
}

/// Leaves out steps as long as the script still fails.
fn shorten(
    mut script: Script,
    mut outcome: Outcome,
    folder: &std::path::Path,
    library: &Library,
) -> (Script, Outcome) {
    let (mut size, mut tries) = (script.steps.len() / 2, 0);
    while size > 0 {
        let mut at = 0;
        while at < script.steps.len() && tries < TRIES {
            let mut shorter = script.clone();
            shorter.steps.drain(at..(at + size).min(shorter.steps.len()));
            let again = play(&shorter, folder, library);
            tries += 1;
            if again.fault.is_some() {
                (script, outcome) = (shorter, again);
            } else {
                at += size;
            }
        }
        size /= 2;
    }
    (script, outcome)
}

const LIBRARY: &str = "libweft_sockets_preload.so";
/// Runs of a script that fails, to shorten it.
const TRIES: u32 = 80;
