//! A process of this machine whose output is read line by line.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use crate::job::Output;
use crate::patience::Deadline;

/// A process. Its drop ends it. Started by `setpriv --pdeathsig KILL`, it also ends with this one.
#[derive(Debug)]
pub(crate) struct Program {
    child: Child,
    arrivals: Receiver<String>,
    lines: Vec<String>,
}

impl Program {
    /// Starts `command`, and keeps the lines of its output for which `keep` returns true.
    pub(crate) fn start(command: &mut Command, keep: fn(&str) -> bool) -> Result<Self, String> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child =
            command.spawn().map_err(|error| format!("{}: {error}", command.get_program().display()))?;
        let (arrived, arrivals) = channel();
        if let Some(stdout) = child.stdout.take() {
            read(stdout, arrived.clone(), keep);
        }
        if let Some(stderr) = child.stderr.take() {
            read(stderr, arrived, keep);
        }
        Ok(Self { child, arrivals, lines: Vec::new() })
    }

    /// Waits for a line that contains `text`.
    pub(crate) fn wait_for_line(&mut self, text: &str, timeout: Duration) -> Result<(), String> {
        let deadline = Deadline::after(timeout);
        loop {
            let Ok(line) = self.arrivals.recv_timeout(deadline.left()) else {
                return Err(format!("no `{text}` in time but: {}", self.lines.join(" / ")));
            };
            let is_it = line.contains(text);
            self.lines.push(line);
            if is_it {
                return Ok(());
            }
        }
    }

    /// Waits until the process ends.
    pub(crate) fn wait(mut self, timeout: Duration) -> Result<Output, String> {
        let deadline = Deadline::after(timeout);
        loop {
            match self.arrivals.recv_timeout(deadline.left()) {
                Ok(line) => self.lines.push(line),
                Err(RecvTimeoutError::Timeout) => {
                    return Err(format!(
                        "not ended within {} s: {}",
                        timeout.as_secs(),
                        self.lines.join(" / ")
                    ));
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let status = self.child.wait().map_err(|error| error.to_string())?;
        Ok(Output { status: status.code().unwrap_or(-1), lines: std::mem::take(&mut self.lines) })
    }

    /// Waits until the process ends. An exit status other than 0 is an error.
    pub(crate) fn finish(self, timeout: Duration) -> Result<Vec<String>, String> {
        let output = self.wait(timeout)?;
        if output.status == 0 {
            Ok(output.lines)
        } else {
            Err(format!("status {}: {}", output.status, output.lines.join(" / ")))
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // The process may have ended by itself, which is as good.
        let _ended = self.child.kill().and_then(|()| self.child.wait());
    }
}

/// Reads until the end of the output, in a thread of its own.
fn read(output: impl Read + Send + 'static, arrived: Sender<String>, keep: fn(&str) -> bool) {
    std::thread::spawn(move || {
        let mut output = BufReader::new(output);
        let mut line = Vec::new();
        while matches!(output.read_until(b'\n', &mut line), Ok(1..)) {
            let text = String::from_utf8_lossy(&line);
            let text = text.trim_end();
            // Without a receiver the program has been dropped.
            if keep(text) && arrived.send(text.into()).is_err() {
                return;
            }
            line.clear();
        }
    });
}
