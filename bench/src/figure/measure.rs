//! Measures a table or a figure.

use std::io::{self, Write};
use std::path::Path;

use super::row::{Row, Values};
use super::{Body, Compared, Figure, Line, picture};
use crate::args::Args;
use crate::case::{Effort, Side, Trouble};
use crate::harness::checked_turn;
use crate::markdown::Page;
use crate::plot::write;
use crate::process::Outcome;
use crate::progress::Progress;

/// Measures a figure, and prints and draws it.
pub(crate) fn run(
    figure: &Figure,
    args: &Args,
    effort: &Effort,
    out: &mut dyn Write,
) -> io::Result<Outcome<()>> {
    let mut page = args.update.as_deref().map(|path| Page::open(path, &[figure.name])).transpose()?;
    if !args.json {
        writeln!(out, "{}\npaper: {}\n", figure.title, figure.paper)?;
    }
    if let Body::Text { print, table } = figure.body {
        print(args.json, out)?;
        if let Some(page) = &mut page {
            page.replace(figure.name, &table());
            page.save()?;
        }
        return Ok(Ok(()));
    }
    if !args.json {
        Row::heading(figure, out)?;
    }
    let wanted = rows(figure);
    let columns = figure.columns().1.len();
    let progress = Progress::new((wanted.len() * columns * (effort.pairs + 1)) as u64);
    progress.begin(figure.name);
    let mut rows = Vec::new();
    for (mut row, open) in wanted {
        row.values = measure(open(), effort, &|| progress.advance());
        progress.suspend(|| row.print(figure, args.json, out))?;
        rows.push(row);
    }
    progress.finish();
    if let Some(page) = &mut page {
        page.replace(figure.name, &picture::table(figure, &rows, effort));
        page.save()?;
    }
    let drawn = args.plot.as_deref().map_or(Ok(()), |file| plot(figure, &rows, effort, file));
    let failures = rows.iter().flat_map(|row| &row.values).filter_map(|value| value.as_ref().err());
    let failure = failures.into_iter().find(|trouble| matches!(trouble, Trouble::Failed(_)));
    Ok(failure.map_or(drawn, |trouble| Err(trouble.clone())))
}

fn plot(figure: &Figure, rows: &[Row], effort: &Effort, file: &Path) -> Outcome<()> {
    write(file, &picture::draw(figure, rows, effort)?)
}

/// Has the sides take turns, and returns the samples of each.
fn measure(sides: Compared, effort: &Effort, tick: &dyn Fn()) -> Vec<Values> {
    let mut sides: Vec<(Outcome<Box<dyn Side>>, Vec<_>)> =
        sides.into_iter().map(|side| (side, Vec::new())).collect();
    for turn in 0..=effort.pairs {
        for (side, samples) in &mut sides {
            if let Ok(own) = side {
                match checked_turn(own.as_mut(), effort) {
                    // The first turn of each side warms caches and is not counted.
                    Ok(sample) if turn > 0 => samples.push(sample),
                    Ok(_) => {}
                    Err(trouble) => *side = Err(trouble),
                }
            }
            tick();
        }
    }
    sides.into_iter().map(|(side, samples)| side.map(|_| samples)).collect()
}

/// Returns a row for each point or line, without values, and what makes its sides.
fn rows(figure: &Figure) -> Vec<(Row, Box<dyn Fn() -> Compared>)> {
    match figure.body {
        Body::Curves { quantity, points, open, .. } => {
            let row = |&point: &usize| {
                let row = Row::new(point.to_string(), quantity, "");
                (row, Box::new(move || open(point)) as Box<dyn Fn() -> Compared>)
            };
            points.iter().map(row).collect()
        }
        Body::Lines { lines, .. } => {
            let row = |line: &'static Line| {
                let row = Row::new(line.name.to_owned(), line.quantity, line.paper);
                (row, Box::new(line.open) as Box<dyn Fn() -> Compared>)
            };
            lines.iter().map(row).collect()
        }
        Body::Text { .. } => Vec::new(),
    }
}
