//! The control channel of a guest: lines over a virtio port. A thread reads them. `guest/agent.c` is the other end.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::patience::Deadline;

/// The host's end.
#[derive(Debug)]
pub(crate) struct Control {
    output: Mutex<UnixStream>,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

/// The guest's messages so far.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// The guest's description of itself when it was ready; empty while it boots.
    ready: Option<String>,
    pub(crate) jobs: HashMap<u64, JobState>,
    last_job: u64,
    closed: bool,
}

/// The state of a job.
#[derive(Clone, Debug, Default)]
pub(crate) struct JobState {
    pub(crate) lines: Vec<String>,
    pub(crate) status: Option<i32>,
    /// The guest rebooted while the job ran.
    pub(crate) is_lost: bool,
}

impl Control {
    /// Connects to the socket of the port as soon as QEMU has made it.
    pub(crate) fn connect(path: &Path, deadline: Deadline) -> Result<Self, String> {
        let stream = loop {
            match UnixStream::connect(path) {
                Ok(stream) => break stream,
                Err(error) if deadline.left().is_zero() => {
                    return Err(format!("{}: {error}", path.display()));
                }
                Err(_) => std::thread::sleep(RETRY),
            }
        };
        let input = stream.try_clone().map_err(|error| error.to_string())?;
        let shared = Arc::new(Shared::default());
        let reader = Arc::clone(&shared);
        std::thread::spawn(move || reader.read(input));
        Ok(Self { output: Mutex::new(stream), shared })
    }

    /// Starts `command` and returns its number.
    pub(crate) fn start(&self, command: &str) -> Result<u64, String> {
        let id = {
            let mut state = self.shared.lock();
            if state.ready.is_none() {
                return Err("the guest is not ready".into());
            }
            state.last_job += 1;
            let id = state.last_job;
            state.jobs.insert(id, JobState::default());
            id
        };
        self.say(&format!("start {id} {command}"))?;
        Ok(id)
    }

    pub(crate) fn kill(&self, id: u64) -> Result<(), String> {
        self.say(&format!("kill {id}"))
    }

    /// Waits until the guest is ready, and returns its description of itself.
    pub(crate) fn wait_ready(&self, timeout: Duration) -> Result<String, String> {
        self.wait(timeout, |state| state.ready.clone())
            .map_err(|error| format!("the guest does not boot: {error}"))
    }

    /// Marks the guest as not ready until it reports again.
    pub(crate) fn expect_boot(&self) {
        self.shared.lock().lose_all();
    }

    /// Waits until `look` returns a value.
    pub(crate) fn wait<T>(
        &self,
        timeout: Duration,
        mut look: impl FnMut(&mut State) -> Option<T>,
    ) -> Result<T, String> {
        let deadline = Deadline::after(timeout);
        let mut state = self.shared.lock();
        loop {
            if let Some(found) = look(&mut state) {
                return Ok(found);
            }
            if state.closed {
                return Err("the virtual machine has ended".into());
            }
            let left = deadline.left();
            if left.is_zero() {
                return Err(format!("nothing within {} s", timeout.as_secs()));
            }
            let waited = self.shared.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn say(&self, line: &str) -> Result<(), String> {
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        writeln!(output, "{line}").map_err(|error| format!("the control channel: {error}"))
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self, input: UnixStream) {
        let mut input = BufReader::new(input);
        let mut line = Vec::new();
        // An error means the same as an end: the guest is gone.
        while matches!(input.read_until(b'\n', &mut line), Ok(1..)) {
            self.lock().handle(String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n']));
            self.changed.notify_all();
            line.clear();
        }
        self.lock().closed = true;
        self.changed.notify_all();
    }
}

impl State {
    fn handle(&mut self, line: &str) {
        if let Some(ready) = line.strip_prefix("ready ") {
            self.lose_all();
            self.ready = Some(ready.into());
            return;
        }
        let Some(end) = line.find([':', '=']) else { return };
        let (id, rest) = (line[..end].parse().ok(), &line[end + 1..]);
        let Some(job) = id.and_then(|id: u64| self.jobs.get_mut(&id)) else { return };
        if line.as_bytes()[end] == b':' {
            job.lines.push(rest.into());
        } else {
            job.status = rest.parse().ok();
        }
    }

    fn lose_all(&mut self) {
        self.ready = None;
        for job in self.jobs.values_mut().filter(|job| job.status.is_none()) {
            job.is_lost = true;
        }
    }
}

const RETRY: Duration = Duration::from_millis(20);
