//! The daemon of the workers, which dies and comes again.

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

    /// Returns the octets that went by rings in the life of this daemon.
    pub(crate) fn ring_octets(&self) -> u64 {
        let Some(child) = &self.child else { return 0 };
        let mut command = Command::new(&self.program);
        command.args(["stat", &child.id().to_string(), "sockets", "--json"]).env("WEFT_STAT", &self.folder);
        let answer = command.stderr(Stdio::null()).output().map(|output| output.stdout).unwrap_or_default();
        let answer: serde_json::Value = serde_json::from_slice(&answer).unwrap_or_default();
        answer["sums"]["octets_out"].as_u64().unwrap_or_default()
    }

    /// Returns how many descriptors the daemon holds, and how many of them are memfds.
    pub(crate) fn descriptors(&self) -> Option<[usize; 2]> {
        self.child.as_ref().and_then(|child| descriptors(child.id()))
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

/// Returns how many descriptors a process holds, and how many of them are memfds.
pub(crate) fn descriptors(pid: u32) -> Option<[usize; 2]> {
    let all: Vec<PathBuf> = std::fs::read_dir(format!("/proc/{pid}/fd"))
        .ok()?
        .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
        .collect();
    let memory = all.iter().filter(|target| target.to_string_lossy().starts_with("/memfd:"));
    Some([all.len(), memory.count()])
}
