//! CPU time of threads of this process, by their names.

use std::fs;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

use super::{Outcome, say};

/// Threads of this process.
#[derive(Debug)]
pub(super) struct Threads(Vec<ClockId>);

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
            names.contains(&name.trim_end()).then(|| ClockId::from_raw((!id << 3) | 0b110))
        });
        Ok(Self(clocks.collect()))
    }

    /// Returns how long they have worked since they were started.
    pub(super) fn cpu(&self) -> Outcome<Duration> {
        let times = self.0.iter().map(|clock| clock_gettime(*clock).map(Duration::from));
        times.sum::<Result<Duration, _>>().map_err(say("the time of a thread"))
    }
}
