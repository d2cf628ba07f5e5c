//! Counters, and how fast they move.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::ask::Socket;
use super::table::Table;
use super::{Args, What};
use crate::failure::Failure;

/// Prints the counters of one device; those that are 0 only with `all`.
pub(super) fn print(answer: &Value, all: bool) -> Result<(), Failure> {
    let counters = read(answer);
    let mut table = Table::new(&["COUNTER", "VALUE"]);
    for (name, value) in &counters {
        if all || *value != 0 {
            table.push(vec![name.clone(), value.to_string()]);
        }
    }
    table.print()?;
    let zeros = counters.values().filter(|value| **value == 0).count();
    if !all && zeros > 0 {
        writeln!(std::io::stdout(), "({zeros} counters are 0: --all shows them)")?;
    }
    Ok(())
}

/// Asks again and again. Of the counters those are printed that have moved, with their rates.
pub(super) fn watch(args: &Args, sockets: &[Socket], seconds: f64) -> Result<(), Failure> {
    let pause = Duration::from_secs_f64(seconds);
    let request = args.what.request(args.stags);
    let mut before: Vec<Option<(Instant, BTreeMap<String, u64>)>> = vec![None; sockets.len()];
    loop {
        let mut is_there = false;
        for (socket, before) in sockets.iter().zip(&mut before) {
            // The end of the process is what a watcher waits for.
            let Some(answer) = socket.ask_if_there(request)? else { continue };
            is_there = true;
            if args.json || args.what != What::Counters {
                super::print(args, &answer)?;
                continue;
            }
            let (time, counters) = (now(), read(&answer));
            match before {
                None => print(&answer, args.all)?,
                Some((since, old)) => moved(old, &counters, (time - *since).as_secs_f64())?,
            }
            *before = Some((time, counters));
        }
        if !is_there {
            return Ok(());
        }
        std::io::stdout().flush()?;
        std::thread::sleep(pause);
    }
}

fn moved(old: &BTreeMap<String, u64>, new: &BTreeMap<String, u64>, seconds: f64) -> Result<(), Failure> {
    let mut table = Table::new(&["COUNTER", "VALUE", "CHANGE", "PER-SECOND"]);
    for (name, &value) in new {
        let change = i128::from(value) - i128::from(old.get(name).copied().unwrap_or(0));
        if change != 0 {
            #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
            let rate = change as f64 / seconds.max(1e-9);
            table.push(vec![name.clone(), value.to_string(), change.to_string(), format!("{rate:.1}")]);
        }
    }
    writeln!(std::io::stdout())?;
    table.print()
}

fn read(answer: &Value) -> BTreeMap<String, u64> {
    let counters = answer["counters"].as_object().into_iter().flatten();
    counters.map(|(name, value)| (name.clone(), value.as_u64().unwrap_or(0))).collect()
}

#[expect(clippy::disallowed_methods, reason = "rates are per second of real time")]
fn now() -> Instant {
    Instant::now()
}
