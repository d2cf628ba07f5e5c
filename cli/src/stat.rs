//! `weft stat`: counters and objects of the devices in running processes.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

mod args;
mod ask;
mod counters;
mod sockets;
mod table;

use ask::Socket;

pub use args::{Args, Subject, Target, What};

use crate::failure::Failure;

/// Prints the counters or objects.
pub fn run(args: &Args) -> ExitCode {
    match show(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.print("stat"),
    }
}

fn show(args: &Args) -> Result<(), Failure> {
    if args.stags && args.what != What::Mr {
        return Err(Failure::usage("--stags is for mr"));
    }
    let is_of_process = matches!(args.subject, None | Some(Subject::Process(_)));
    if args.all && (args.what != What::Counters || !is_of_process) {
        return Err(Failure::usage("--all is for counters"));
    }
    let folder =
        args.dir.clone().or_else(weft_stat::stat_folder_from_env).unwrap_or_else(weft_stat::stat_folder);
    let target = match args.subject {
        Some(Subject::Sockets) if !matches!(args.what, What::Counters | What::Sockets) => {
            return Err(Failure::usage(
                "nothing stands behind `sockets`: weft stat PID sockets is for one process",
            ));
        }
        Some(Subject::Group) => return of_all(args, &folder, What::Group),
        Some(Subject::Exs) => return of_all(args, &folder, What::Exs),
        Some(Subject::Sockets) => return sockets::show(args, &folder, None),
        Some(Subject::Process(target)) if args.what == What::Sockets => {
            return sockets::show(args, &folder, Some(target.pid));
        }
        Some(Subject::Process(target)) => Some(target),
        None => None,
    };
    let Some(target) = target else {
        return if args.watch.is_some() {
            Err(Failure::usage("--watch needs a process: weft stat PID --watch SECONDS"))
        } else {
            table::list(&ask::all(&folder)?, &folder, args.json)
        };
    };
    let sockets = ask::of(&folder, target)?;
    match args.watch {
        Some(seconds) => watch(args, &sockets, seconds),
        None => {
            sockets.iter().try_for_each(|socket| print(args, &socket.ask(args.what.request(args.stags))?))
        }
    }
}

/// Prints what all processes in the folder tell that have something of a kind.
fn of_all(args: &Args, folder: &Path, what: What) -> Result<(), Failure> {
    let name = what.request(false);
    if args.what != What::Counters && args.what != what {
        return Err(Failure::usage(format!(
            "nothing stands behind `{name}`: weft stat PID {name} is for one process"
        )));
    }
    if args.watch.is_some() {
        return Err(Failure::usage(format!("--watch needs a process: weft stat PID {name} --watch SECONDS")));
    }
    let answers = ask::with(folder, name)?;
    if answers.is_empty() && !args.json {
        let folder = folder.display();
        // A replica answers always.
        let line = match what {
            What::Exs => {
                format!("no process with Extended Sockets answers in {folder}: start one with WEFT_STAT=1")
            }
            _ => format!("no replica of a group answers in {folder}"),
        };
        writeln!(std::io::stdout(), "{line}")?;
    }
    for answer in answers {
        if !args.json {
            writeln!(std::io::stdout(), "process {}", answer["pid"])?;
        }
        print(&Args { what, ..args.clone() }, &answer)?;
    }
    Ok(())
}

/// Asks again and again. Prints the counters that have moved, with their rates.
fn watch(args: &Args, sockets: &[Socket], seconds: f64) -> Result<(), Failure> {
    let pause = Duration::from_secs_f64(seconds);
    let request = args.what.request(args.stags);
    let mut before: Vec<Option<(Instant, BTreeMap<String, u64>)>> = vec![None; sockets.len()];
    loop {
        let mut is_there = false;
        for (socket, before) in sockets.iter().zip(&mut before) {
            // The end of the process is no failure: it ends the watch.
            let Some(answer) = socket.ask_if_there(request)? else { continue };
            is_there = true;
            if args.json || args.what != What::Counters {
                print(args, &answer)?;
                continue;
            }
            let (time, values) = (now(), counters::read(&answer));
            match before {
                None => counters::print(&answer, args.all)?,
                Some((since, old)) => counters::moved(old, &values, (time - *since).as_secs_f64())?,
            }
            *before = Some((time, values));
        }
        if !is_there {
            return Ok(());
        }
        std::io::stdout().flush()?;
        std::thread::sleep(pause);
    }
}

/// Prints one answer.
fn print(args: &Args, answer: &serde_json::Value) -> Result<(), Failure> {
    if args.json {
        writeln!(std::io::stdout(), "{answer}")?;
        return Ok(());
    }
    match args.what {
        What::Counters => counters::print(answer, args.all),
        what => table::objects(answer, what, args.stags),
    }
}

#[expect(clippy::disallowed_methods, reason = "rates are per second of real time")]
fn now() -> Instant {
    Instant::now()
}
