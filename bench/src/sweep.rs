//! `weft bench sweep`: RDMA Write against plain TCP, from 50 octets to 1,400 KB, on the same smoltcp and wire.

use core::fmt::Write as _;
use std::io::{self, Write};

use serde_json::json;

use crate::args::{Args, SweepArgs};
use crate::case::{Effort, Sample, Side, Trouble};
use crate::harness::Spread;
use crate::markdown::Page;
use crate::ours::{self, Ends, Op, Work};
use crate::plot::{self, Chart, Corner, Curve, Mark, draw};
use crate::progress::Progress;
use crate::raw::{self, Pieces};
use crate::report::{short, value};
use crate::setting::Setting;

/// The result of one size.
#[derive(Clone, Copy, Debug)]
struct Point {
    size: usize,
    /// Microseconds of one transfer: ours and TCP's.
    micros: [Spread; 2],
    /// CPU microseconds of one transfer: ours and TCP's.
    cpu: [Spread; 2],
    /// The ratios of times, and of CPU times.
    ratios: [Spread; 2],
}

/// Measures, and prints a line for each size.
pub(crate) fn run(wanted: &SweepArgs, args: &Args, out: &mut dyn Write) -> io::Result<Result<(), Trouble>> {
    let mut page = args.update.as_deref().map(|path| Page::open(path, &["sweep"])).transpose()?;
    if !args.json {
        let factor = Setting::new(1500).clock_scale;
        writeln!(out, "TCP's clock at {factor} times real time\n")?;
        writeln!(
            out,
            "{:>9} {:>12} {:>12} {:>7} {:>14} {:>14} {:>7}",
            "octets", "Write us", "TCP us", "ratio", "Write CPU us", "TCP CPU us", "ratio"
        )?;
    }
    let points = measure(wanted, &mut |point| {
        if args.json {
            writeln!(out, "{}", object(point, wanted))?;
        } else {
            let [time, cpu] = point.ratios.map(|ratio| ratio.median);
            let [[ours, theirs], [our_cpu, their_cpu]] =
                [point.micros, point.cpu].map(|both| both.map(|spread| spread.median));
            writeln!(
                out,
                "{:>9} {ours:>12.3} {theirs:>12.3} {time:>7.2} {our_cpu:>14.3} {their_cpu:>14.3} {cpu:>7.2}",
                point.size
            )?;
        }
        out.flush()
    })?;
    let points = match points {
        Ok(points) => points,
        Err(trouble) => return Ok(Err(trouble)),
    };
    if let Some(file) = &args.plot {
        let svg = match draw(&charts(&points, wanted)) {
            Ok(svg) => svg,
            Err(trouble) => return Ok(Err(trouble)),
        };
        if let Err(error) = std::fs::write(file, svg) {
            return Ok(Err(Trouble::failed(format!("cannot write {}: {error}", file.display()))));
        }
    }
    if let Some(page) = &mut page {
        page.replace("sweep", &table(&points, wanted.mtu));
        page.save()?;
    }
    for (index, what) in ["time", "CPU time"].into_iter().enumerate() {
        if args.json {
            let size = crossover(&points, index);
            writeln!(out, "{}", json!({ "case": "sweep", "crossover": what, "size": size }))?;
        } else {
            writeln!(out, "{}", sentence(&points, index, what))?;
        }
    }
    Ok(Ok(()))
}

/// Takes all turns of all sizes. Calls `each` after every size.
fn measure(
    wanted: &SweepArgs,
    each: &mut dyn FnMut(&Point) -> io::Result<()>,
) -> io::Result<Result<Vec<Point>, Trouble>> {
    let progress = Progress::new(SIZES.len() as u64);
    progress.begin("sweep");
    let mut points = Vec::new();
    for size in SIZES {
        match point(wanted, size) {
            Ok(point) => points.push(point),
            Err(trouble) => return Ok(Err(Trouble::failed(format!("{size} octets: {trouble}")))),
        }
        progress.advance();
        progress.suspend(|| points.last().map_or(Ok(()), &mut *each))?;
    }
    progress.finish();
    Ok(Ok(points))
}

/// Returns the size from which on ours is better, also at all larger sizes.
fn crossover(points: &[Point], index: usize) -> Option<usize> {
    let is_better = |point: &&Point| point.ratios[index].median <= 1.0;
    points.iter().rev().take_while(is_better).last().map(|point| point.size)
}

/// Returns the crossover as a sentence.
fn sentence(points: &[Point], index: usize, what: &str) -> String {
    let Some(size) = crossover(points, index) else {
        let ratio = |point: &Point| point.ratios[index].median;
        let best = points.iter().min_by(|one, other| ratio(one).total_cmp(&ratio(other)));
        let best = best.map_or_else(String::new, |point| {
            format!(
                "; a Write comes nearest at {} octets, with {:.2} times that of TCP",
                point.size,
                ratio(point)
            )
        });
        return format!("{what}: no crossover{best}");
    };
    format!("{what}: crossover at {size} octets: from there on a Write takes no more than plain TCP")
}

fn point(wanted: &SweepArgs, size: usize) -> Result<Point, Trouble> {
    let setting = Setting { crc: !wanted.no_crc, ..Setting::new(wanted.mtu as usize) };
    let turn = (wanted.transfers as usize / TURNS).max(1);
    // A turn has whole rounds, each as large as in other cases.
    let fits = |round: &usize| turn.is_multiple_of(*round) && round * size <= ROUND_OCTETS;
    let round = (1..=turn).rev().find(fits).unwrap_or(1);
    let work = Work { round, ..Work::new(Op::Write, size) };
    let mut ours = ours::Stream::new(Ends::on_pair(&setting, 1, 64)?, work)?;
    let mut theirs = raw::Stream::new(&setting, Pieces { round, at_once: size, ..Pieces::new(size) })?;
    let (mut samples, rounds) = ([Vec::new(), Vec::new()], turn / round);
    for _ in 0..TURNS {
        samples[0].push(several(&mut ours, rounds)?);
        samples[1].push(several(&mut theirs, rounds)?);
    }
    let each = |time: fn(&Sample) -> f64| -> [Vec<f64>; 2] {
        let micros = |sample: &Sample| time(sample) * 1e6 / sample.transfers as f64;
        [0, 1].map(|side| samples[side].iter().map(micros).collect())
    };
    let (wall, cpu) = (each(|sample| sample.wall.as_secs_f64()), each(|sample| sample.cpu.as_secs_f64()));
    let ratio = |[ours, theirs]: &[Vec<f64>; 2]| {
        Spread::of(ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs).collect())
    };
    let ratios = [ratio(&wall), ratio(&cpu)];
    Ok(Point { size, micros: wall.map(Spread::of), cpu: cpu.map(Spread::of), ratios })
}

/// Rounds of one turn.
fn several(side: &mut dyn Side, rounds: usize) -> Result<Sample, Trouble> {
    let one = Effort { turn: std::time::Duration::ZERO, pairs: TURNS, is_tiny: false };
    let mut sum = Sample::default();
    for _ in 0..rounds {
        let sample = side.turn(&one)?;
        if sample.checked < sample.transfers {
            return Err(Trouble::failed("octets were not checked"));
        }
        sum.wall += sample.wall;
        sum.cpu += sample.cpu;
        sum.transfers += sample.transfers;
        sum.octets += sample.octets;
        sum.checked += sample.checked;
    }
    Ok(sum)
}

/// Returns the charts of time and of CPU time over size, with the crossovers.
fn charts(points: &[Point], wanted: &SweepArgs) -> [Chart; 2] {
    [("Time", 0), ("CPU time", 1)].map(|(what, index)| {
        let curve = |name: &str, side: usize| {
            let spreads = points.iter().map(|point| (point.size, [point.micros, point.cpu][index][side]));
            let points = spreads.map(|(size, spread)| plot::Point {
                x: size as f64,
                y: spread.median,
                spread: [spread.min, spread.max],
            });
            Curve { name: name.to_owned(), color: 0, is_ours: side == 0, points: points.collect() }
        };
        let mark = crossover(points, index).map(|size| Mark { x: size as f64, text: "crossover".to_owned() });
        Chart {
            title: format!("{what} of one transfer over size"),
            notes: vec![format!(
                "RDMA Write and plain TCP on the same smoltcp and wire, MTU {}, {} transfers of each size",
                wanted.mtu, wanted.transfers
            )],
            x: "Octets of a transfer".to_owned(),
            has_octets: true,
            y: format!("{what}, µs"),
            legend: Corner::UpperLeft,
            curves: vec![curve("RDMA Write", 0), curve("plain TCP", 1)],
            marks: mark.into_iter().collect(),
        }
    })
}

/// Returns the result of the sweep as Markdown.
fn table(points: &[Point], mtu: u32) -> String {
    let mut text = format!(
        "At MTU {mtu}:\n\n| octets | Write | TCP | ratio | Write, CPU | TCP, CPU | ratio |\n|---|---|---|---|---|---|---|\n"
    );
    for point in points {
        let [[ours, theirs], [our_cpu, their_cpu]] =
            [point.micros, point.cpu].map(|both| both.map(|spread| value(spread, "us")));
        let [time, cpu] = point.ratios.map(|ratio| short(ratio.median));
        let size = point.size;
        let _ok = writeln!(text, "| {size} | {ours} | {theirs} | {time} | {our_cpu} | {their_cpu} | {cpu} |");
    }
    for (index, what) in ["time", "CPU time"].into_iter().enumerate() {
        let _ok = write!(text, "\n* {}", sentence(points, index, what));
    }
    text
}

fn object(point: &Point, wanted: &SweepArgs) -> serde_json::Value {
    let [ours, theirs] = point.micros.map(|spread| spread.median);
    let [our_cpu, their_cpu] = point.cpu.map(|spread| spread.median);
    let [time, cpu] = point.ratios.map(|spread| spread.median);
    json!({
        "case": "sweep", "reference": "plain TCP", "size": point.size, "mtu": wanted.mtu, "crc": !wanted.no_crc,
        "transfers": wanted.transfers, "ours": ours, "reference_value": theirs, "ratio": time, "better": "lower",
        "unit": "us", "ours_cpu": our_cpu, "reference_cpu": their_cpu, "ratio_cpu": cpu,
        "clock_scale": Setting::new(1500).clock_scale,
    })
}

/// The sizes in octets, from 50 B to 1,400 KB.
const SIZES: [usize; 15] = [
    50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000,
    1_400_000,
];
const TURNS: usize = 5;
const ROUND_OCTETS: usize = 4 << 20;
