//! The failure of a subcommand.

use std::io::{ErrorKind, Write};
use std::path::Path;
use std::process::{Command, ExitCode};

/// A failure in one line, and its exit status.
#[derive(Debug)]
pub enum Failure {
    /// The arguments or the input make no sense: exit status 2.
    Usage(String),
    /// The work failed on the way: exit status 1.
    Work(String),
    /// A program that this command was to run did not begin: the exit status stands behind the reason.
    NotRun(String, u8),
    /// The reader of the output has gone. This is no failure of the command: exit status 0.
    OutputClosed,
}

impl Failure {
    /// Returns a failure on the way.
    pub fn work(reason: impl core::fmt::Display) -> Self {
        Self::Work(reason.to_string())
    }

    /// Returns the failure that the arguments or the input make no sense.
    pub fn usage(reason: impl core::fmt::Display) -> Self {
        Self::Usage(reason.to_string())
    }

    /// Says why a program did not begin, with the exit status that env and shells have for that.
    pub(crate) fn not_run(command: &Command, error: &std::io::Error) -> Self {
        let reason = format!("cannot run {}: {error}", Path::new(command.get_program()).display());
        Self::NotRun(reason, if error.kind() == ErrorKind::NotFound { 127 } else { 126 })
    }

    /// Puts the name of the party that failed in front of the reason.
    pub(crate) fn of(self, party: impl core::fmt::Display) -> Self {
        match self {
            Self::Usage(reason) => Self::Usage(format!("{party}: {reason}")),
            Self::Work(reason) => Self::Work(format!("{party}: {reason}")),
            Self::NotRun(reason, status) => Self::NotRun(format!("{party}: {reason}"), status),
            Self::OutputClosed => Self::OutputClosed,
        }
    }

    /// Prints the line and returns the exit status. `command` is empty if no subcommand runs.
    pub fn print(&self, command: &str) -> ExitCode {
        match self {
            Self::Usage(reason) => complain(command, reason, 2),
            Self::Work(reason) => complain(command, reason, 1),
            Self::NotRun(reason, status) => complain(command, reason, *status),
            Self::OutputClosed => ExitCode::SUCCESS,
        }
    }
}

/// An error of standard output.
impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        if error.kind() == ErrorKind::BrokenPipe {
            Self::OutputClosed
        } else {
            Self::Work(format!("cannot write the output: {error}"))
        }
    }
}

fn complain(command: &str, reason: &str, status: u8) -> ExitCode {
    let space = if command.is_empty() { "" } else { " " };
    // If standard error is closed, the exit status still shows the failure.
    let _unread = writeln!(std::io::stderr(), "weft{space}{command}: {reason}");
    ExitCode::from(status)
}
