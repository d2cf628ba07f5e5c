//! The daemon of the workers, which dies and comes again.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A daemon at an address of this program's own.
pub(crate) struct Daemon {
    program: PathBuf,
    child: Option<Child>,
    pub(crate) address: String,
    folder: PathBuf,
}

impl Daemon {
    /// Starts the daemon, unless the sockets are plain.
    pub(crate) fn start(beside: &Path, is_plain: bool) -> io::Result<Self> {
        let address = format!("@weft-havoc-{}", std::process::id());
        let folder = std::env::temp_dir().join(format!("weft-havoc-{}", std::process::id()));
        let mut daemon = Self { program: beside.join("weft"), child: None, address, folder };
        if !is_plain {
            daemon.begin()?;
        }
        Ok(daemon)
    }

    /// Kills it and starts another one.
    pub(crate) fn restart(&mut self) -> io::Result<()> {
        self.end();
        self.begin()
    }

    /// Returns what this daemon has counted of all processes.
    pub(crate) fn sums(&self) -> serde_json::Value {
        self.tell()["sums"].take()
    }

    /// Returns what the daemon knows of a connection with this address.
    pub(crate) fn connection(&self, address: &str) -> String {
        let told = self.tell();
        let connections = told["connections"].as_array().into_iter().flatten();
        let has_it = |connection: &&serde_json::Value| connection.to_string().contains(address);
        connections.filter(has_it).map(ToString::to_string).collect()
    }

    /// Returns what the daemon holds, once it serves.
    pub(crate) fn held_at_first(&self) -> Option<Held> {
        self.child.as_ref()?;
        while self.tell().is_null() {
            std::thread::sleep(Duration::from_millis(10));
        }
        self.held()
    }

    /// Returns what the daemon holds.
    pub(crate) fn held(&self) -> Option<Held> {
        self.child.as_ref().and_then(|child| Held::of(child.id()))
    }

    fn tell(&self) -> serde_json::Value {
        let Some(child) = &self.child else { return serde_json::Value::Null };
        let mut command = Command::new(&self.program);
        command.args(["stat", &child.id().to_string(), "sockets", "--json"]).env("WEFT_STAT", &self.folder);
        let answer = command.stderr(Stdio::null()).output().map(|output| output.stdout).unwrap_or_default();
        serde_json::from_slice(&answer).unwrap_or_default()
    }

    fn begin(&mut self) -> io::Result<()> {
        let mut command = Command::new(&self.program);
        command.args(["daemon", "--name", &self.address]).env("WEFT_STAT", &self.folder);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn()?;
        while !std::fs::read_to_string("/proc/net/unix")?.contains(&self.address) {
            if let Some(status) = child.try_wait()? {
                return Err(io::Error::other(format!("the daemon ended: {status}")));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        self.child = Some(child);
        Ok(())
    }

    fn end(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ended = child.kill();
            let _reaped = child.wait();
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.end();
        let _gone = std::fs::remove_dir_all(&self.folder);
    }
}

/// What a process holds.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    /// Its descriptors by kind.
    kinds: BTreeMap<String, usize>,
    pub(crate) descriptors: usize,
    pub(crate) memfds: usize,
    pub(crate) eventfds: usize,
    /// Memory of its own, in KiB.
    pub(crate) own: u64,
    /// Memory of memfds that it has touched, in KiB.
    pub(crate) shared: u64,
}

impl Held {
    /// Looks at a process.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        let all: Vec<String> = std::fs::read_dir(format!("/proc/{pid}/fd"))
            .ok()?
            .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
            .map(|target| target.to_string_lossy().replace(|letter: char| letter.is_ascii_digit(), ""))
            .collect();
        let count = |kind: &str| all.iter().filter(|target| target.starts_with(kind)).count();
        let mut kinds = BTreeMap::new();
        for kind in &all {
            *kinds.entry(kind.clone()).or_default() += 1;
        }
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let kib = |name: &str| {
            let text = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
            text.trim().trim_end_matches(" kB").parse().unwrap_or(0)
        };
        Some(Self {
            kinds,
            descriptors: all.len(),
            memfds: count("/memfd:"),
            eventfds: count("anon_inode:[eventfd]"),
            own: kib("RssAnon:"),
            shared: kib("RssShmem:"),
        })
    }
}

impl core::fmt::Display for Held {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self { kinds, descriptors, own, shared, .. } = self;
        write!(f, "{descriptors} descriptors {kinds:?}, {own} KiB of its own, {shared} KiB shared")
    }
}
