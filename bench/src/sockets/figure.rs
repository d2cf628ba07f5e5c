//! `weft bench sockets --figure NAME`: tables and figures of two papers, measured anew.
//!
//! S0 is the thesis "Low-Latency Implementation of Network Sockets over Remote DMA", S1 is SocksDirect (SIGCOMM 2019).

use std::io::{self, Write};
use std::path::Path;

use serde_json::json;

use super::process::Outcome;
use crate::args::Args;
use crate::case::{Effort, Quantity, Side, Trouble};
use crate::harness::{Spread, checked_turn};
use crate::plot::{self, Chart, Corner, Curve, draw};
use crate::progress::Progress;
use crate::report;

/// One table or figure.
pub(super) struct Figure {
    /// Its name for `--figure`.
    pub(super) name: &'static str,
    /// What it shows.
    pub(super) title: &'static str,
    /// The paper's figures, as far as a sentence can tell them.
    pub(super) paper: &'static str,
    /// The quantity on the abscissa.
    pub(super) over: &'static str,
    pub(super) quantity: Quantity,
    /// The names of the sides. The first one is ours.
    pub(super) columns: &'static [&'static str],
    /// The values on the abscissa.
    pub(super) points: &'static [usize],
    /// Makes the sides of a point, in the order of the columns.
    pub(super) open: fn(usize) -> Outcome<Compared>,
}

/// The sides of a point, in the order of the columns.
pub(super) type Compared = Vec<Box<dyn Side>>;

/// The values of one point: one for each column.
struct Row {
    point: usize,
    values: Vec<Outcome<Spread>>,
}

/// Measures a figure, and prints and draws it.
pub(super) fn run(
    figure: &Figure,
    args: &Args,
    effort: &Effort,
    out: &mut dyn Write,
) -> io::Result<Outcome<()>> {
    if !args.json {
        writeln!(out, "{}\nin the paper: {}\n", figure.title, figure.paper)?;
        write!(out, "{:>12}", figure.over)?;
        figure.columns.iter().try_for_each(|column| write!(out, " {column:>28}"))?;
        writeln!(out, " {:>8}", "ratio")?;
    }
    let progress = Progress::new(figure.points.len() as u64);
    progress.begin(figure.name);
    let mut rows = Vec::new();
    for &point in figure.points {
        let row = measure(figure, point, effort);
        progress.advance();
        progress.suspend(|| print(figure, &row, args.json, out))?;
        rows.push(row);
    }
    progress.finish();
    let drawn = args.plot.as_deref().map_or(Ok(()), |file| plot(figure, &rows, file));
    let failures = rows.iter().flat_map(|row| &row.values).filter_map(|value| value.as_ref().err());
    let failure = failures.into_iter().find(|trouble| matches!(trouble, Trouble::Failed(_)));
    Ok(failure.map_or(drawn, |trouble| Err(trouble.clone())))
}

fn measure(figure: &Figure, point: usize, effort: &Effort) -> Row {
    let mut sides = match (figure.open)(point) {
        Ok(sides) => sides,
        Err(trouble) => return Row { point, values: vec![Err(trouble); figure.columns.len()] },
    };
    let mut samples: Vec<Outcome<Vec<f64>>> = sides.iter().map(|_| Ok(Vec::new())).collect();
    for turn in 0..=effort.pairs {
        for (side, values) in sides.iter_mut().zip(&mut samples) {
            let Ok(taken) = values else { continue };
            match checked_turn(side.as_mut(), effort) {
                // The first turn of each side warms caches and is not counted.
                Ok(sample) if turn > 0 => taken.push(sample.value(figure.quantity)),
                Ok(_) => {}
                Err(trouble) => *values = Err(trouble),
            }
        }
    }
    Row { point, values: samples.into_iter().map(|values| values.map(Spread::of)).collect() }
}

fn print(figure: &Figure, row: &Row, as_json: bool, out: &mut dyn Write) -> io::Result<()> {
    let ratio = match row.values.as_slice() {
        [Ok(ours), Ok(theirs), ..] => Some(ours.median / theirs.median),
        _ => None,
    };
    if as_json {
        let value = |value: &Outcome<Spread>| match value {
            Ok(spread) => json!(spread.median),
            Err(trouble) => json!(trouble.to_string()),
        };
        let values: serde_json::Map<_, _> = figure
            .columns
            .iter()
            .zip(&row.values)
            .map(|(name, it)| ((*name).to_owned(), value(it)))
            .collect();
        let object = json!({ "figure": figure.name, "over": figure.over, "point": row.point,
            "unit": figure.quantity.unit(), "values": values, "ratio": ratio, "paper": figure.paper });
        return writeln!(out, "{object}");
    }
    write!(out, "{:>12}", row.point)?;
    for value in &row.values {
        let text = match value {
            Ok(spread) => report::value(*spread, figure.quantity.unit()),
            Err(trouble) => trouble.to_string(),
        };
        write!(out, " {text:>28}")?;
    }
    writeln!(out, " {:>8}", ratio.map_or_else(String::new, report::short))?;
    out.flush()
}

fn plot(figure: &Figure, rows: &[Row], file: &Path) -> Outcome<()> {
    let curve = |(index, name): (usize, &&str)| {
        let values = rows.iter().filter_map(|row| Some((row.point, row.values.get(index)?.as_ref().ok()?)));
        let points = values.map(|(point, spread)| plot::Point {
            x: point as f64,
            y: spread.median,
            spread: [spread.min, spread.max],
        });
        Curve {
            name: (*name).to_owned(),
            color: index.saturating_sub(1),
            is_ours: index == 0,
            points: points.collect(),
        }
    };
    let chart = Chart {
        title: figure.title.to_owned(),
        notes: vec![format!("In the paper: {}", figure.paper)],
        x: figure.over.to_owned(),
        y: figure.quantity.unit().to_owned(),
        legend: Corner::UpperLeft,
        curves: figure.columns.iter().enumerate().map(curve).collect(),
        marks: Vec::new(),
    };
    let svg = draw(&[chart])?;
    std::fs::write(file, svg)
        .map_err(|error| Trouble::failed(format!("cannot write {}: {error}", file.display())))
}
