//! The tools of a case: a guest, the role of siw, and the processes of this machine.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::guest::Guest;
use crate::image::Image;
use crate::program::Program;

/// The tools of a case. All captures that it leaves in `dir` are checked.
#[derive(Debug)]
pub(crate) struct Bench<'a> {
    pub(crate) guest: &'a Guest,
    pub(crate) image: &'a Image,
    pub(crate) role: Role,
    /// The case's own directory, empty at the start.
    pub(crate) dir: &'a Path,
}

/// The role of siw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Role {
    /// It connects.
    Active,
    /// It listens.
    Passive,
}

impl Bench<'_> {
    /// Returns the path for the capture of a case that makes one.
    pub(crate) fn pcap(&self) -> PathBuf {
        self.dir.join("wire.pcap")
    }

    /// Starts a `weft` process on the TCP of this machine.
    pub(crate) fn weft_on_host(&self, args: &[&str]) -> Result<Program, String> {
        Program::start(weft()?.args(args).args(["--netif", "host"]), |_| true)
    }

    /// Starts a verbs program of this machine on Weft, by `weft run`. Spaces separate the words of the command.
    pub(crate) fn weft_run(&self, transport: &[&str], command: &str) -> Result<Program, String> {
        Program::start(weft()?.arg("run").args(transport).arg("--").args(command.split(' ')), |_| true)
    }

    /// Starts a `weft` process on `wire`, with a capture of its own, named after `label`.
    pub(crate) fn weft(&self, label: &str, wire: &Path, args: &[&str]) -> Result<Program, String> {
        let mut command = weft()?;
        command.args(args);
        command.arg("--netif").arg(format!("unix:{}", wire.display()));
        command.args(["--ip", "10.0.0.2/24", "--pcap"]).arg(self.dir.join(format!("{label}.pcap")));
        Program::start(&mut command, |_| true)
    }
}

impl Role {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Active => "siw active",
            Self::Passive => "siw passive",
        }
    }
}

/// Returns the shell command for a client whose server may not listen yet. The shell repeats `command` with pauses,
/// at most eight times, while the output matches `refused`, a pattern of grep -E.
pub(crate) fn tried_until_heard(command: &str, refused: &str) -> String {
    format!(
        "for try in 1 2 3 4 5 6 7 8; do {command} >/tmp/said 2>&1; status=$?; \
        grep -qE '{refused}' /tmp/said || break; sleep 0.5; done; cat /tmp/said; exit $status"
    )
}

/// Returns the command for a process that ends with this one.
fn weft() -> Result<Command, String> {
    let here = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]).arg(here.with_file_name("weft"));
    Ok(command)
}
