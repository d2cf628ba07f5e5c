//! CPU time of threads of this process, by their names.

use std::fs;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

use super::{Outcome, say};

/// Threads of this process: their clocks, and how long they had worked at the last look.
#[derive(Debug)]
pub(super) struct Threads(Vec<(ClockId, Duration)>);

impl Threads {
    /// Returns those that have one of these names now.
    pub(super) fn named(names: &[&str]) -> Outcome<Self> {
        let tasks = fs::read_dir("/proc/self/task").map_err(say("looking for threads"))?;
        let clocks = tasks.filter_map(|task| {
            // A thread may have ended meanwhile.
            let path = task.ok()?.path();
            let name = fs::read_to_string(path.join("comm")).ok()?;
            let id: i32 = path.file_name()?.to_str()?.parse().ok()?;
            // What the kernel's header posix-timers.h calls CPUCLOCK_SCHED of a thread.
            names.contains(&name.trim_end()).then(|| (ClockId::from_raw((!id << 3) | 0b110), Duration::ZERO))
        });
        Ok(Self(clocks.collect()))
    }

    /// Returns how long they have worked since the last look. One that has ended meanwhile is of an earlier measurement.
    pub(super) fn look(&mut self) -> Duration {
        let mut worked = Duration::ZERO;
        self.0.retain_mut(|(clock, last)| {
            let now = clock_gettime(*clock).map(Duration::from);
            now.inspect(|now| worked += now.saturating_sub(core::mem::replace(last, *now))).is_ok()
        });
        worked
    }
}
