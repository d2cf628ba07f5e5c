//! A running `weft`, with its output line by line, and the time limit of all waits.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::Folder;

/// A child process. It is killed when this is dropped.
pub(crate) struct Process {
    child: Child,
    stdout: Receiver<String>,
    stderr: Receiver<String>,
}

/// The status and the output of a process that has ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finished {
    pub(crate) status: i32,
    pub(crate) stdout: Vec<String>,
    pub(crate) stderr: Vec<String>,
}

impl Process {
    /// Starts `weft` with the words of `line` as arguments. `~` is a space within a word.
    pub(crate) fn weft(line: &str) -> Self {
        Self::start(weft().args(line.split_whitespace().map(|word| word.replace('~', " "))))
    }

    pub(crate) fn start(command: &mut Command) -> Self {
        Self::start_with(command, |_| true)
    }

    /// As [`Self::start`], but keeps only lines that are wanted, for programs with much output.
    pub(crate) fn start_with(command: &mut Command, is_wanted: fn(&str) -> bool) -> Self {
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stdout = lines(child.stdout.take().unwrap(), is_wanted);
        let stderr = lines(child.stderr.take().unwrap(), |_| true);
        Self { child, stdout, stderr }
    }

    /// Returns the next line on standard output.
    pub(crate) fn line(&self) -> String {
        self.stdout.recv_timeout(PATIENCE).expect("a further line on standard output")
    }

    /// Returns the next line on standard error.
    pub(crate) fn complaint(&self) -> String {
        self.stderr.recv_timeout(PATIENCE).expect("a further line on standard error")
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns true if the process has ended by itself.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.id().cast_signed()).unwrap(), signal).unwrap();
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
    }

    /// Waits for the end, and returns the status with the rest of the output.
    pub(crate) fn finish(mut self) -> Finished {
        let stdout = self.rest(Stream::Stdout);
        let stderr = self.rest(Stream::Stderr);
        let status = self.child.wait().unwrap();
        // -1 stands for the end by a signal: the command has no such status.
        Finished { status: status.code().unwrap_or(-1), stdout, stderr }
    }

    fn rest(&mut self, stream: Stream) -> Vec<String> {
        let mut rest = Vec::new();
        loop {
            let receiver = match stream {
                Stream::Stdout => &self.stdout,
                Stream::Stderr => &self.stderr,
            };
            match receiver.recv_timeout(PATIENCE) {
                Ok(line) => rest.push(line),
                Err(RecvTimeoutError::Disconnected) => return rest,
                Err(RecvTimeoutError::Timeout) => {
                    self.kill();
                    panic!("the process does not end; so far it said {rest:?}");
                }
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process may have ended already. Nothing of it may stay.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// Returns the command without arguments.
pub(crate) fn weft() -> Command {
    Command::new(env!("CARGO_BIN_EXE_weft"))
}

/// Runs `weft` to its end.
pub(crate) fn run(line: &str) -> Finished {
    Process::weft(line).finish()
}

/// Returns the path of a file in a folder, as a word of a command line.
pub(crate) fn path_in(folder: &Folder, name: &str) -> String {
    folder.0.join(name).to_str().unwrap().to_owned()
}

enum Stream {
    Stdout,
    Stderr,
}

fn lines(pipe: impl Read + Send + 'static, is_wanted: fn(&str) -> bool) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut pipe = BufReader::new(pipe);
        let mut line = String::new();
        while pipe.read_line(&mut line).is_ok_and(|len| len > 0) {
            let text = line.trim_end_matches('\n');
            if is_wanted(text) && sender.send(text.to_owned()).is_err() {
                return;
            }
            line.clear();
        }
    });
    receiver
}

/// A wait that takes this long hangs, on any machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
