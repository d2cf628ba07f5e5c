//! Measures what was chosen among comparisons and figures.

use std::io::{self, Write};

use crate::args::{Args, Choice, Turns};
use crate::case::{Case, Effort};
use crate::figure::{self, Figure};
use crate::harness::{Row, judge, measure, turns};
use crate::machine::first_line;
use crate::markdown::{self, Page};
use crate::plot::write;
use crate::process::Outcome;
use crate::progress::Progress;
use crate::report;

/// What a command can measure.
pub(crate) struct Catalogue {
    pub(crate) cases: Vec<&'static Case>,
    pub(crate) figures: Vec<&'static Figure>,
    pub(crate) turns: Turns,
    /// Draws the rows of comparisons for `--plot`. `None` if only figures are drawn.
    pub(crate) draw: Option<Draw>,
}

/// Draws rows as SVG.
type Draw = fn(&[Row], &Effort) -> Outcome<String>;

/// Measures and prints a row for each comparison, or a figure.
pub(crate) fn run(
    choice: &Choice,
    catalogue: Catalogue,
    args: &Args,
    out: &mut dyn Write,
) -> io::Result<Outcome<()>> {
    let Catalogue { mut cases, figures, turns: usual, draw } = catalogue;
    let effort = choice.effort(args, usual);
    if let Some(name) = &choice.figure {
        let Some(figure) = figures.iter().find(|figure| figure.name == name) else {
            let text = format!("there is no figure {name} (--list names them all)");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        };
        return figure::run(figure, args, &effort, out);
    }
    let is_all = choice.only.is_empty();
    cases.retain(|case| is_all || choice.only.iter().any(|text| case.name.contains(text.as_str())));
    if cases.is_empty() {
        let text = format!("no case has {} in its name (--list names them all)", choice.only.join(" or "));
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    if choice.list {
        report::list(&cases, out)?;
        for figure in figures {
            writeln!(out, "--figure {:<25} {}", figure.name, figure.title)?;
        }
        return Ok(Ok(()));
    }
    let mut page = args.update.as_deref().map(|path| Page::open(path, &["machine", "table"])).transpose()?;
    let progress = Progress::new(cases.iter().map(|case| turns(case, &effort) as u64).sum());
    if !args.json {
        progress.suspend(|| report::heading(out))?;
    }
    let mut rows = Vec::new();
    for case in &cases {
        progress.begin(case.name);
        for row in measure(case, &effort, &mut || progress.advance()) {
            progress.suspend(|| report::print(&row, args.json, out))?;
            rows.push(row);
        }
    }
    progress.finish();
    if let Some(page) = &mut page {
        // What else the machine had to do meanwhile.
        let load = first_line("/proc/loadavg");
        let load = load.split(' ').next().unwrap_or_default();
        let machine =
            format!("{}; {}; load average at the end {load}", markdown::host(), figure::turns(&effort));
        page.replace("machine", &markdown::wrapped(&machine));
        if is_all {
            page.replace("table", &markdown::table(&rows));
        } else {
            page.merge("table", &markdown::table(&rows));
        }
        page.save()?;
    }
    let drawn = match (&args.plot, draw) {
        (Some(file), Some(draw)) => draw(&rows, &effort).and_then(|svg| write(file, &svg)),
        _ => Ok(()),
    };
    Ok(judge(&rows, args.strict).and(drawn))
}
