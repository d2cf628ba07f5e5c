//! A command that runs in a guest.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::control::{Control, JobState};
use crate::patience::Deadline;

/// A command in a guest. Its drop ends the command, if it still runs.
#[derive(Debug)]
pub(crate) struct Job {
    control: Arc<Control>,
    id: u64,
    command: String,
    /// The number of lines that were waited for.
    seen: AtomicUsize,
}

/// How a command ended.
#[derive(Clone, Debug)]
pub(crate) struct Output {
    /// The status as a shell counts it. After a signal it is 128 and the signal's number.
    pub(crate) status: i32,
    /// The lines of standard output and standard error, in the order in which they came.
    pub(crate) lines: Vec<String>,
}

impl Job {
    pub(crate) fn start(control: &Arc<Control>, command: &str) -> Result<Self, String> {
        let id = control.start(command)?;
        Ok(Self { control: Arc::clone(control), id, command: command.into(), seen: AtomicUsize::new(0) })
    }

    /// Waits for the end of the command.
    pub(crate) fn wait(&self, timeout: Duration) -> Result<Output, String> {
        self.look(timeout, |job| job.status.map(|status| Ok(Output { status, lines: job.lines.clone() })))
    }

    /// Waits for a line that contains `text`, behind those of former calls, and returns it.
    pub(crate) fn wait_for_line(&self, text: &str, timeout: Duration) -> Result<String, String> {
        let deadline = Deadline::after(timeout);
        while let Some(line) = self.next_line(deadline.left())? {
            if line.contains(text) {
                return Ok(line);
            }
        }
        let status = self.wait(Duration::ZERO)?.status;
        Err(self.explain(&format!("ended with status {status} without `{text}`")))
    }

    /// Returns the next line, or `None` when the command has ended.
    pub(crate) fn next_line(&self, timeout: Duration) -> Result<Option<String>, String> {
        let seen = self.seen.load(Ordering::Relaxed);
        let line = self.look(timeout, |job| match job.lines.get(seen) {
            Some(line) => Some(Ok(Some(line.clone()))),
            None => job.status.map(|_| Ok(None)),
        })?;
        self.seen.fetch_add(usize::from(line.is_some()), Ordering::Relaxed);
        Ok(line)
    }

    /// Ends the command and all its children. [`Job::wait`] then returns the status.
    pub(crate) fn kill(&self) -> Result<(), String> {
        self.control.kill(self.id)
    }

    /// Returns all lines so far.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.look(Duration::ZERO, |job| Some(Ok(job.lines.clone()))).unwrap_or_default()
    }

    fn look<T>(
        &self,
        timeout: Duration,
        mut look: impl FnMut(&JobState) -> Option<Result<T, String>>,
    ) -> Result<T, String> {
        let found = self.control.wait(timeout, |state| {
            let job = state.jobs.get(&self.id)?;
            let lost = || job.is_lost.then(|| Err("the guest was started again".into()));
            look(job).or_else(lost)
        });
        found.and_then(|found| found).map_err(|error| self.explain(&error))
    }

    /// Returns the error with the last lines of the command.
    fn explain(&self, error: &str) -> String {
        let said = self.control.wait(Duration::ZERO, |state| Some(state.jobs.get(&self.id)?.lines.clone()));
        let said = said.unwrap_or_default();
        let said = &said[said.len().saturating_sub(LAST_LINES)..];
        format!(
            "in the guest, `{}`: {error}{}{}",
            self.command,
            if said.is_empty() { "" } else { "; it said: " },
            said.join(" / ")
        )
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let runs = |job: &JobState| job.status.is_none() && !job.is_lost;
        let running = self.control.wait(Duration::ZERO, |state| state.jobs.get(&self.id).map(runs));
        if running == Ok(true) && self.kill().is_ok() {
            // The next command may need the port of this one. If the guest no longer answers, the next step reports
            // it.
            let _ended = self.control.wait(END_TIMEOUT, |state| {
                state.jobs.get(&self.id).is_none_or(|job| !runs(job)).then_some(())
            });
        }
    }
}

const LAST_LINES: usize = 5;
const END_TIMEOUT: Duration = Duration::from_secs(10);
