//! What the sides have in common: programs that they start, and how they fail.

use core::fmt::Display;
use core::net::Ipv4Addr;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::param::clock_ticks_per_second;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::case::Trouble;

/// A result, or the reason why there is none.
pub(crate) type Outcome<T> = Result<T, Trouble>;

/// Returns a function that makes a failure of `what` out of an error.
pub(crate) fn say<E: Display>(what: &str) -> impl Fn(E) -> Trouble {
    move |error| Trouble::failed(format!("{what}: {error}"))
}

/// Returns a number that this process has not had yet.
pub(crate) fn next_number() -> u32 {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    NUMBER.fetch_add(1, Ordering::Relaxed)
}

/// A folder of this process's own. It goes away with this value, and all that is in it.
#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// Makes it below another one.
    pub(crate) fn below(parent: &Path) -> Outcome<Self> {
        let path = parent.join(format!("weft-bench-{}-{}", std::process::id(), next_number()));
        fs::create_dir(&path).map_err(say("making a folder"))?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _removed = fs::remove_dir_all(&self.0);
    }
}

/// Returns the CPU time of all threads of a process that still run.
pub(crate) fn cpu_of(process: u32) -> Outcome<Duration> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).map_err(say("asking for CPU time"))?;
    let nanos = tasks.filter_map(|task| {
        // A thread may have ended meanwhile.
        let text = fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    });
    Ok(Duration::from_nanos(nanos.sum()))
}

/// Returns the CPU time of all processes that this one has started and that have ended.
pub(crate) fn cpu_of_children() -> Outcome<Duration> {
    let text = fs::read_to_string("/proc/self/stat").map_err(say("asking for CPU time"))?;
    // The fields behind the name begin with the third one; the 16th and 17th are wanted.
    let fields = text.rsplit(')').next().unwrap_or_default().split_whitespace().skip(13).take(2);
    let ticks: u64 = fields.filter_map(|field| field.parse::<u64>().ok()).sum();
    Ok(Duration::from_secs(ticks) / u32::try_from(clock_ticks_per_second()).unwrap_or(100))
}

/// Lets this process and those that it starts have so many descriptors.
pub(crate) fn raise_descriptors(wanted: u64) -> Outcome<()> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= wanted) {
        return Ok(());
    }
    let raised = Rlimit { current: Some(wanted), maximum: limit.maximum };
    setrlimit(Resource::Nofile, raised)
        .map_err(|error| Trouble::Skipped(format!("{wanted} descriptors: {error}")))
}

/// Returns a port of the address that no program listens at.
pub(crate) fn free_port(address: Ipv4Addr) -> Outcome<u16> {
    let free = TcpListener::bind((address, 0)).and_then(|listener| listener.local_addr());
    free.map(|address| address.port()).map_err(say("finding a port"))
}
