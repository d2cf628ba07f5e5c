//! The processes that can be asked, and their answers.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::geteuid;
use serde_json::Value;
use weft_stat::STAT_VERSION;

use super::args::Target;
use crate::failure::Failure;

/// The socket of a device.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Socket {
    pub(super) pid: u32,
    pub(super) device: u32,
    path: PathBuf,
}

/// A device that answered, and the name of its program.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) program: String,
    pub(super) answer: Value,
}

/// Returns all devices in the folder that answer.
pub(super) fn all(folder: &Path) -> Result<Vec<Found>, Failure> {
    let mut found = Vec::new();
    for socket in sockets(folder)? {
        // A process that has ended may leave its socket behind.
        if let Some(answer) = socket.ask_if_there("device")? {
            let name = fs::read_to_string(format!("/proc/{}/comm", socket.pid));
            let program = name.map_or_else(|_| "?".to_owned(), |name| name.trim().to_owned());
            found.push(Found { program, answer });
        }
    }
    Ok(found)
}

/// Returns what the processes in the folder answer that have a section.
pub(super) fn with(folder: &Path, section: &str) -> Result<Vec<Value>, Failure> {
    let sockets = sockets(folder)?;
    Ok(sockets.iter().filter_map(|socket| socket.ask_if_there(section).ok().flatten()).collect())
}

/// Returns the sockets of a process' devices.
pub(super) fn of(folder: &Path, target: Target) -> Result<Vec<Socket>, Failure> {
    let Target { pid, device } = target;
    let mut sockets = sockets(folder)?;
    sockets.retain(|socket| socket.pid == pid && device.is_none_or(|device| device == socket.device));
    if !sockets.is_empty() {
        return Ok(sockets);
    }
    Err(Failure::work(match (out_of_reach(pid), device) {
        (Some(reason), _) => reason,
        (None, Some(device)) => {
            format!("process {pid} has no device {device} in {}", folder.display())
        }
        (None, None) => {
            format!("process {pid} has no socket in {}: start it with WEFT_STAT=1", folder.display())
        }
    }))
}

/// Returns why this user learns nothing of a process, or `None` if it is a process of this user.
pub(super) fn out_of_reach(pid: u32) -> Option<String> {
    match fs::metadata(format!("/proc/{pid}")) {
        Err(_) => Some(format!("there is no process {pid}")),
        Ok(process) if process.uid() != geteuid().as_raw() && !geteuid().is_root() => {
            Some(format!("process {pid} belongs to another user, and answers only that user and root"))
        }
        Ok(_) => None,
    }
}

/// Returns the sockets in the folder, sorted by process and device.
fn sockets(folder: &Path) -> Result<Vec<Socket>, Failure> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        // No process has made the folder yet.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Failure::work(format!("{}: {error}", folder.display()))),
    };
    let paths = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    let mut sockets: Vec<_> = paths.filter_map(|path| Socket::named(&path)).collect();
    sockets.sort_unstable();
    Ok(sockets)
}

impl Socket {
    fn named(path: &Path) -> Option<Self> {
        let name = path.file_name().and_then(OsStr::to_str)?.strip_suffix(".sock")?;
        let (pid, device) = name.split_once('-')?;
        Some(Self { pid: pid.parse().ok()?, device: device.parse().ok()?, path: path.to_owned() })
    }

    /// Returns the answer to a request.
    pub(super) fn ask(&self, request: &str) -> Result<Value, Failure> {
        self.ask_if_there(request)?.ok_or_else(|| Failure::work(format!("process {} has ended", self.pid)))
    }

    /// Returns the answer to a request, or `None` if the process has ended.
    pub(super) fn ask_if_there(&self, request: &str) -> Result<Option<Value>, Failure> {
        let pid = self.pid;
        let text = match self.exchange(request) {
            Ok(text) => text,
            Err(error) => {
                return match error.kind() {
                    ErrorKind::ConnectionRefused | ErrorKind::NotFound => Ok(None),
                    ErrorKind::PermissionDenied => {
                        Err(Failure::work(format!("process {pid} may not be asked: permission denied")))
                    }
                    ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                        Err(Failure::work(format!("process {pid} does not answer; it may be stopped")))
                    }
                    _ => Err(Failure::work(format!("process {pid}: {error}"))),
                };
            }
        };
        // The device was closed, or has too many connections.
        if text.is_empty() {
            return Ok(None);
        }
        let answer: Value = serde_json::from_str(&text)
            .map_err(|_| Failure::work(format!("process {pid} gave an answer that is no JSON")))?;
        match (answer["weft_stat"].as_u64(), answer["error"].as_str()) {
            (Some(version), _) if version != u64::from(STAT_VERSION) => Err(Failure::work(format!(
                "process {pid} answers in version {version}, this program reads version {STAT_VERSION}"
            ))),
            (None, _) => Err(Failure::work(format!("process {pid} is no device of Weft"))),
            (_, Some(error)) => Err(Failure::work(format!("process {pid}: {error}"))),
            _ => Ok(Some(answer)),
        }
    }

    fn exchange(&self, request: &str) -> io::Result<String> {
        let mut stream = UnixStream::connect(&self.path)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.write_all(format!("{request}\n").as_bytes())?;
        let mut text = String::new();
        match stream.read_to_string(&mut text) {
            Err(error) if error.kind() == ErrorKind::ConnectionReset => Ok(String::new()),
            read => read.map(|_| text),
        }
    }
}

/// A working device answers within milliseconds.
const PATIENCE: Duration = Duration::from_secs(5);
