//! All cases, one after the other.

use std::fs::File;
use std::io::{self, Write};

use crate::args::{Args, Command};
use crate::case::{Case, Trouble};
use crate::harness::{judge, measure, turns};
use crate::markdown::{self, Page};
use crate::progress::Progress;
use crate::{cases, exs, group, loss, matrix, report, sizes, sockets, sweep};

/// Measures the cases that `args` asks for, and prints them on `out`. Returns failures of `out` as they are.
///
/// # Errors
/// [`Trouble`] when the whole run has failed: missing rows, unchecked octets, output that cannot be written.
pub fn run(args: &Args, out: &mut dyn Write) -> io::Result<Result<(), Trouble>> {
    match &args.command {
        Some(Command::Run(wanted)) => return matrix::run(wanted, args, out),
        Some(Command::Sweep(wanted)) => return sweep::run(wanted, args, out),
        Some(Command::Sockets(wanted)) => return sockets::run(wanted, args, out),
        Some(Command::Group(wanted)) => return group::run(wanted, args, out),
        Some(Command::Exs(wanted)) => return exs::run(wanted, args, out),
        Some(Command::Loss(wanted)) => return loss::run(wanted, args, out),
        None => {}
    }
    let wanted: Vec<&'static Case> = cases::all().filter(|case| args.wants(case)).collect();
    let is_only_plot = args.plot.is_some() && args.only.iter().any(|text| text == SIZES);
    if wanted.is_empty() && !is_only_plot {
        let text = format!("no case has {} in its name (--list names them all)", args.only.join(" or "));
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    if args.list {
        return report::list(&wanted, out).map(Ok);
    }
    let mut page = args.update.as_deref().map(|path| Page::open(path, &["machine", "table"])).transpose()?;
    let mut file = args.save.as_ref().map(File::create).transpose().map_err(|error| {
        let path = args.save.as_deref().unwrap_or_else(|| "".as_ref()).display();
        io::Error::new(io::ErrorKind::InvalidInput, format!("cannot write {path}: {error}"))
    })?;
    let effort = args.effort();
    let plot_ticks = args.plot.as_ref().map_or(0, |_| sizes::ticks() as u64);
    let progress =
        Progress::new(wanted.iter().map(|case| turns(case, &effort) as u64).sum::<u64>() + plot_ticks);
    if !args.json && !wanted.is_empty() {
        progress.suspend(|| report::heading(out))?;
    }
    let mut rows = Vec::new();
    for case in &wanted {
        progress.begin(case.name);
        for row in measure(case, &effort, &mut || progress.advance()) {
            progress.suspend(|| report::print(&row, args.json, out))?;
            if let Some(file) = &mut file {
                writeln!(file, "{}", report::object(&row))?;
            }
            rows.push(row);
        }
    }
    let drawn = args.plot.as_ref().map_or(Ok(Vec::new()), |file| {
        progress.begin(SIZES);
        sizes::plot(file, &effort, &mut || progress.advance())
    });
    progress.finish();
    if !args.json {
        report::footer(out, &wanted)?;
    }
    if let Some(page) = &mut page {
        page.replace("machine", &markdown::wrapped(&markdown::machine(&wanted, effort.pairs)));
        page.replace("table", &markdown::table(&rows));
        page.save()?;
    }
    for line in drawn.as_deref().unwrap_or_default() {
        progress.suspend(|| writeln!(io::stderr(), "bench: no curve: {line}"))?;
    }
    let drawn = drawn.map(drop);
    Ok(judge(&rows, args.strict).and(drawn))
}

/// The name of the curves of `--plot` for `--only`.
const SIZES: &str = "sizes";
