//! All cases on all guests, two guests at a time.

use std::collections::VecDeque;
use std::io::{IsTerminal, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::bench::{Bench, Role};
use crate::capture;
use crate::cases::{CASES, Captures, Case};
use crate::guest::Guest;
use crate::image::{Image, Siw};
use crate::patience::Stopwatch;
use crate::report::Row;
use crate::tries::{self, Try};

/// The selected cases and guests.
#[derive(Debug, clap::Args)]
pub(crate) struct Selection {
    /// Only this kernel
    #[arg(long, value_name = "6.1|6.12")]
    kernel: Option<String>,
    /// Only this build of siw
    #[arg(long)]
    siw: Option<Siw>,
    /// Only with siw in this role
    #[arg(long)]
    role: Option<Role>,
    /// Only these cases
    #[arg(long = "case", value_name = "NAME", num_args = 1.., value_parser = case)]
    cases: Vec<&'static Case>,
    /// Keep all captures, not only those of cases that failed
    #[arg(long)]
    keep: bool,
}

/// The directories of a run.
#[derive(Debug)]
pub(crate) struct Places<'a> {
    /// For sockets and captures.
    pub(crate) scratch: &'a Path,
    /// For files that outlive this process.
    pub(crate) lab: &'a Path,
}

/// Runs the selected cases and returns their results.
pub(crate) fn run(
    selection: &Selection,
    images: Vec<Image>,
    places: &Places<'_>,
) -> Result<Vec<Row>, String> {
    let images: VecDeque<Image> = images.into_iter().filter(|image| selection.takes(image)).collect();
    if images.is_empty() {
        return Err("there is no such guest".into());
    }
    for name in [KEPT, FAILED] {
        remove(&places.lab.join(name))?;
    }
    let queue = Mutex::new(images);
    let mut rows = Vec::new();
    std::thread::scope(|scope| {
        let workers = [(); WORKERS].map(|()| {
            scope.spawn(|| {
                let mut rows = Vec::new();
                let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                while let Some(image) = next() {
                    rows.extend(run_guest(selection, &image, places));
                }
                rows
            })
        });
        for worker in workers {
            match worker.join() {
                Ok(done) => rows.extend(done),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    Ok(rows)
}

/// Runs all cases on one kind of guest. Trouble of one case must not affect the next. So after a failure, and after a
/// warning of the guest's kernel about itself, the next case gets a fresh guest.
fn run_guest(selection: &Selection, image: &Image, places: &Places<'_>) -> Vec<Row> {
    let dir = places.scratch.join(image.name());
    let mut guest = None;
    let mut rows = Vec::new();
    for (case, role) in selection.cases() {
        let stopwatch = Stopwatch::start();
        let here = dir.join(format!("{}-{role:?}", case.name).to_lowercase());
        let mut version = None;
        let tried = tries::repeat(|| {
            let ready = match guest.take().map_or_else(|| Guest::boot(image, &dir), Ok) {
                Ok(ready) => ready,
                Err(error) => return Try { outcome: Err(error), warning: None },
            };
            version = Some(ready.version().into());
            let seen = ready.console_len();
            let bench = Bench { guest: &ready, image, role, dir: &here };
            let outcome = try_case(case, &bench);
            let kept = keep(selection, &bench, places, outcome.as_ref().err());
            let done = Try { outcome: outcome.and(kept), warning: ready.warning_since(seen) };
            if done.outcome.is_ok() && done.warning.is_none() {
                guest = Some(ready);
            }
            done
        });
        let (kernel, siw, time) = (image.kernel.clone(), image.siw.name(), stopwatch.elapsed());
        let row = Row { kernel, siw, version, case: case.name, role, tried, time };
        show(&row);
        rows.push(row);
    }
    rows
}

fn try_case(case: &Case, bench: &Bench<'_>) -> Result<(), String> {
    std::fs::create_dir_all(bench.dir).map_err(|error| format!("{}: {error}", bench.dir.display()))?;
    let outcome = catch_unwind(AssertUnwindSafe(|| (case.run)(bench)));
    outcome.unwrap_or_else(|_| Err("it panicked".into()))?;
    if matches!(case.captures, Captures::Hostile | Captures::None) {
        Ok(())
    } else {
        capture::check_all(bench.dir, case.captures == Captures::Cut)
    }
}

/// Keeps captures where people find them. After a failure their directory also has the error.
fn keep(
    selection: &Selection,
    bench: &Bench<'_>,
    places: &Places<'_>,
    error: Option<&String>,
) -> Result<(), String> {
    let name = if error.is_some() { FAILED } else { KEPT };
    if error.is_some() || selection.keep {
        let label = bench.dir.file_name().unwrap_or_default();
        let to = places.lab.join(name).join(bench.image.name()).join(label);
        copy(bench.dir, &to)?;
        if let Some(error) = error {
            let written = std::fs::copy(bench.guest.console(), to.join("console.log"))
                .and_then(|_| std::fs::write(to.join("error.txt"), error));
            written.map_err(|error| format!("{}: {error}", to.display()))?;
        }
    }
    remove(bench.dir)
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", to.display());
    std::fs::create_dir_all(to).map_err(failed)?;
    for entry in std::fs::read_dir(from).map_err(failed)? {
        let path: PathBuf = entry.map_err(failed)?.path();
        // Sockets are not kept.
        if path.is_file() {
            std::fs::copy(&path, to.join(path.file_name().unwrap_or_default())).map_err(failed)?;
        }
    }
    Ok(())
}

fn remove(dir: &Path) -> Result<(), String> {
    match std::fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("{}: {error}", dir.display()))
        }
        _ => Ok(()),
    }
}

/// Shows the progress on standard error.
fn show(row: &Row) {
    let mut stderr = std::io::stderr();
    if stderr.is_terminal() {
        // If standard error is closed, there is no other place for it.
        let _told = writeln!(stderr, "{row}");
    }
}

fn case(name: &str) -> Result<&'static Case, String> {
    CASES
        .iter()
        .find(|case| case.name == name)
        .ok_or_else(|| "there is no such case; --list lists them".into())
}

impl Selection {
    fn takes(&self, image: &Image) -> bool {
        self.kernel.as_ref().is_none_or(|kernel| *kernel == image.kernel)
            && self.siw.is_none_or(|siw| siw == image.siw)
    }

    /// Returns the cases with the roles of siw.
    fn cases(&self) -> impl Iterator<Item = (&'static Case, Role)> {
        let wanted =
            |case: &&Case| self.cases.is_empty() || self.cases.iter().any(|one| one.name == case.name);
        let pairs = |case: &'static Case| case.roles.iter().map(move |role| (case, *role));
        let takes = |(_, role): &(&Case, Role)| self.role.is_none_or(|one| one == *role);
        CASES.iter().filter(wanted).flat_map(pairs).filter(takes)
    }
}

/// The guests that run at a time: as many as the gate's machine has processors.
const WORKERS: usize = 2;
pub(crate) const KEPT: &str = "captures";
const FAILED: &str = "failed";
