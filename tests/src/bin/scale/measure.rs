//! The measurements.

use std::fs;
use std::io;
use std::time::{Duration, Instant};

use weft_rnic::Progress;

use crate::args::Args;
use crate::ends::Ends;
use crate::report::{Bound, Row, median};

/// Measures the round trip on one of many connections against that on the only one, in turns.
pub(crate) fn round_trip(args: &Args) -> io::Result<Row> {
    let alone = Ends::new(args, Progress::Manual, 1, 1)?;
    let many = Ends::new(args, Progress::Manual, args.qps, args.qps)?;
    let picked = (args.qps / 2) as usize;
    // The first turn of each warms caches and is not counted.
    turn(&alone, 0, args.turns)?;
    turn(&many, picked, args.turns)?;
    let mut pairs = Vec::new();
    for _ in 0..PAIRS {
        pairs.push((turn(&many, picked, args.turns)?, turn(&alone, 0, args.turns)?));
    }
    let mut ratios: Vec<f64> = pairs.iter().map(|(many, alone)| many / alone).collect();
    let ratio = median(&mut ratios);
    let alone = median(&mut pairs.iter().map(|&(_, alone)| alone).collect::<Vec<_>>());
    Ok(Row {
        case: "8 B Send round trip, one of many / the only one",
        value: ratio,
        unit: "times",
        bound: Bound::AtMost(2.5),
        note: format!("{alone:.2} us alone; ratios {:.2} to {:.2}", ratios[0], ratios[PAIRS - 1]),
    })
}

/// Measures the memory of an idle connection: one end of it, with its queue pair.
pub(crate) fn resident(args: &Args) -> io::Result<Row> {
    let mut ends = Ends::new(args, Progress::Manual, 1, args.qps)?;
    let before = resident_octets()?;
    ends.grow(args.qps)?;
    let after = resident_octets()?;
    let each =
        after.saturating_sub(before) as f64 / f64::from(ends.ends_here() * (args.qps - 1).max(1)) / 1024.0;
    Ok(Row {
        case: "resident memory of one end of an idle connection",
        value: each,
        unit: "KiB",
        bound: Bound::AtMost(64.0),
        note: format!("{} MiB for {} ends", after.saturating_sub(before) >> 20, ends.ends_here() * args.qps),
    })
}

/// Measures the CPU time of both driver threads while nothing happens.
pub(crate) fn idle(args: &Args) -> io::Result<Row> {
    let ends = Ends::new(args, Progress::Thread, args.qps, args.qps)?;
    // Work that the last connects have left behind, such as acknowledgements, is done first.
    std::thread::sleep(Duration::from_secs(1));
    let both = || -> io::Result<u64> {
        let other = ends.other_process().map_or(Ok(0), |process| cpu_nanos(&process.to_string()))?;
        Ok(cpu_nanos("self")? + other)
    };
    let before = both()?;
    std::thread::sleep(Duration::from_secs(u64::from(args.idle)));
    let spent = both()?.saturating_sub(before);
    let share = spent as f64 / 1e9 / f64::from(args.idle) * 100.0;
    Ok(Row {
        case: "CPU while nothing happens, of one core",
        value: share,
        unit: "percent",
        bound: Bound::Below(1.0),
        note: format!("{} us in {} s, both ends", spent / 1000, args.idle),
    })
}

/// Returns the microseconds of one round trip.
#[expect(clippy::disallowed_methods, reason = "a measurement takes the time")]
fn turn(ends: &Ends, index: usize, turns: u32) -> io::Result<f64> {
    let start = Instant::now();
    for _ in 0..turns {
        ends.round_trip(index)?;
    }
    Ok(start.elapsed().as_secs_f64() * 1e6 / f64::from(turns))
}

fn resident_octets() -> io::Result<usize> {
    let statm = fs::read_to_string("/proc/self/statm")?;
    let pages: Option<usize> = statm.split_whitespace().nth(1).and_then(|pages| pages.parse().ok());
    Ok(pages.ok_or_else(|| io::Error::other("/proc/self/statm is not as it should be"))? * PAGE)
}

/// Returns the CPU time of all threads of a process so far, in nanoseconds.
fn cpu_nanos(process: &str) -> io::Result<u64> {
    let mut sum = 0;
    for task in fs::read_dir(format!("/proc/{process}/task"))? {
        let schedstat = fs::read_to_string(task?.path().join("schedstat"))?;
        let nanos: Option<u64> = schedstat.split_whitespace().next().and_then(|nanos| nanos.parse().ok());
        sum += nanos.ok_or_else(|| io::Error::other("schedstat is not as it should be"))?;
    }
    Ok(sum)
}

/// The number of compared turns of each kind.
const PAIRS: usize = 9;
const PAGE: usize = 4096;
