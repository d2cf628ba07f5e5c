//! The threads that run seeds, and the one that collects their results.

use std::io::IsTerminal;
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use weft_tests::simulate::{Kind, Options, Outcome, run as run_seed};

use crate::args::Args;
use crate::report::{self, Summary};

/// The state that the threads share.
struct Work {
    next: AtomicU64,
    end: u64,
    until: Option<Instant>,
    stop: AtomicBool,
}

/// Runs all seeds.
#[expect(clippy::disallowed_methods, reason = "a user waits in real time")]
pub(crate) fn run(args: &Args) -> Summary {
    let start = Instant::now();
    let available = thread::available_parallelism().map_or(1, NonZero::get);
    let threads = args.threads.map_or(available, usize::from);
    let end = if args.seconds.is_some() { u64::MAX } else { args.from + args.seeds };
    let work = Work {
        next: AtomicU64::new(args.from),
        end,
        until: args.seconds.and_then(|seconds| start.checked_add(Duration::from_secs(seconds))),
        stop: AtomicBool::new(false),
    };
    let (sender, receiver) = channel();
    let mut summary = thread::scope(|scope| {
        for _ in 0..threads {
            let (sender, work) = (sender.clone(), &work);
            scope.spawn(move || run_seeds(work, args.kind(), &sender));
        }
        drop(sender);
        collect(args, &work, &receiver)
    });
    summary.failures.sort_unstable();
    Summary { kind: args.kind(), from: args.from, elapsed: start.elapsed(), threads, ..summary }
}

#[expect(clippy::disallowed_methods, reason = "a user waits in real time")]
fn run_seeds(work: &Work, kind: Kind, outcomes: &Sender<Outcome>) {
    loop {
        let late = work.until.is_some_and(|until| Instant::now() >= until);
        let seed = work.next.fetch_add(1, Ordering::Relaxed);
        if late || work.stop.load(Ordering::Relaxed) || seed >= work.end {
            return;
        }
        if outcomes.send(run_seed(seed, Options { kind, ..Options::default() })).is_err() {
            return;
        }
    }
}

fn collect(args: &Args, work: &Work, outcomes: &Receiver<Outcome>) -> Summary {
    let bar = bar(args);
    let mut summary = Summary::default();
    for outcome in outcomes {
        summary.tally.add(&outcome.tally);
        summary.hash = summary.hash.wrapping_add(outcome.hash);
        bar.inc(1);
        if let Some(reason) = outcome.failure {
            bar.suspend(|| report::complain(args.kind(), outcome.seed, &reason));
            summary.failures.push((outcome.seed, reason));
            work.stop.fetch_or(args.fail_fast, Ordering::Relaxed);
        }
    }
    bar.finish_and_clear();
    summary
}

/// Returns a progress bar, which is hidden unless a user sees it.
fn bar(args: &Args) -> ProgressBar {
    let is_seen = std::io::stderr().is_terminal();
    let target = if is_seen { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let (length, template) = match args.seconds {
        Some(_) => (None, "{spinner} {pos} seeds in {elapsed}, {per_sec}"),
        None => (Some(args.seeds), "{bar:40} {pos}/{len} seeds, {per_sec}, {eta} left"),
    };
    let bar = ProgressBar::with_draw_target(length, target);
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}
