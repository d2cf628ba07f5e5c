//! Why a subcommand did not do its work.

use std::io::Write;
use std::process::ExitCode;

/// A failure in one line, and whose it is.
#[derive(Debug)]
pub enum Failure {
    /// The arguments or the input make no sense: exit status 2.
    Usage(String),
    /// The work failed on the way: exit status 1.
    Work(String),
    /// The reader of the output has gone, which is nobody's fault: exit status 0.
    OutputClosed,
}

impl Failure {
    /// A failure on the way.
    pub fn work(reason: impl core::fmt::Display) -> Self {
        Self::Work(reason.to_string())
    }

    /// Arguments that make no sense.
    pub fn usage(reason: impl core::fmt::Display) -> Self {
        Self::Usage(reason.to_string())
    }

    /// The same, with the name of the party that it is about in front.
    pub(crate) fn of(self, party: impl core::fmt::Display) -> Self {
        match self {
            Self::Usage(reason) => Self::Usage(format!("{party}: {reason}")),
            Self::Work(reason) => Self::Work(format!("{party}: {reason}")),
            Self::OutputClosed => Self::OutputClosed,
        }
    }

    /// Prints the line and answers the exit status. `command` is empty where no subcommand is at work.
    pub fn print(&self, command: &str) -> ExitCode {
        match self {
            Self::Usage(reason) => complain(command, reason, 2),
            Self::Work(reason) => complain(command, reason, 1),
            Self::OutputClosed => ExitCode::SUCCESS,
        }
    }
}

/// Failures of standard output.
impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            Self::OutputClosed
        } else {
            Self::Work(format!("cannot write the output: {error}"))
        }
    }
}

fn complain(command: &str, reason: &str, status: u8) -> ExitCode {
    let space = if command.is_empty() { "" } else { " " };
    // Where standard error is closed the status still tells.
    let _unread = writeln!(std::io::stderr(), "weft{space}{command}: {reason}");
    ExitCode::from(status)
}
