//! What the sides have in common: programs that they start, and how they fail.

use core::fmt::Display;
use std::fs;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::case::Trouble;

/// A result, or the reason why there is none.
pub(super) type Outcome<T> = Result<T, Trouble>;

/// Returns a function that makes a failure of `what` out of an error.
pub(super) fn say<E: Display>(what: &str) -> impl Fn(E) -> Trouble {
    move |error| Trouble::failed(format!("{what}: {error}"))
}

/// Returns a number that this process has not had yet.
pub(super) fn next_number() -> u32 {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    NUMBER.fetch_add(1, Ordering::Relaxed)
}

/// Returns the CPU time of all threads of a process that still run.
pub(super) fn cpu_of(process: u32) -> Outcome<Duration> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).map_err(say("asking for CPU time"))?;
    let nanos = tasks.filter_map(|task| {
        // A thread may have ended meanwhile.
        let text = fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    });
    Ok(Duration::from_nanos(nanos.sum()))
}
