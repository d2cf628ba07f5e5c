//! `weft sockets --explain`: which connections of a program were upgraded, and why others were not.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode};

use nix::libc::SI_USER;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;
use weft_daemon::keep_signals;
use weft_sockets::Reason;

use super::settings::TRACE;
use crate::failure::Failure;

/// Runs the program, passes signals on to it, and prints to standard error what its library traced. Returns its exit
/// status, or 128 and the signal's number as a shell does.
pub(super) fn run(mut command: Command) -> Result<ExitCode, Failure> {
    let given =
        command.get_envs().find(|(name, _)| *name == TRACE).and_then(|(_, file)| file.map(PathBuf::from));
    let before = given.as_deref().map_or(Ok(0), length)?;
    let file = given
        .clone()
        .unwrap_or_else(|| std::env::temp_dir().join(format!("weft-sockets-explain-{}", std::process::id())));
    command.env(TRACE, &file);
    keep_signals(&mut command);
    let signals = SigSet::from_iter(PASSED.into_iter().chain([Signal::SIGCHLD]));
    let blocked = signals.thread_block();
    let blocked = blocked.and_then(|()| SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC));
    let signals = blocked.map_err(|error| Failure::work(format!("signals: {error}")))?;
    let mut child = command.spawn().map_err(|error| Failure::not_run(&command, &error))?;
    let status = wait(&mut child, &signals)?;
    // Without connections there is no file.
    let lines = lines_behind(&file, before).unwrap_or_default();
    if given.is_none() {
        let _gone = std::fs::remove_file(&file);
    }
    // If standard error is closed, the exit status is still the program's.
    let _unread = write!(io::stderr(), "{}", Story::new(&lines));
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)))
}

/// Returns the length of the trace's file: the lines of earlier programs. The end of a pipe or of a terminal never comes.
fn length(file: &Path) -> Result<u64, Failure> {
    let found = file.metadata().map_err(|error| Failure::work(format!("{}: {error}", file.display())))?;
    if found.is_file() {
        return Ok(found.len());
    }
    let file = file.display();
    Err(Failure::usage(format!("--explain reads the trace at the end, and {file} is no regular file")))
}

/// Returns what was written to a file behind its first `before` octets.
fn lines_behind(file: &Path, before: u64) -> io::Result<String> {
    let mut file = File::open(file)?;
    file.seek(SeekFrom::Start(before))?;
    let mut lines = String::new();
    file.read_to_string(&mut lines)?;
    Ok(lines)
}

/// Waits for the program's end. A terminal's signals reach the program without help, other processes' signals do not.
fn wait(child: &mut Child, signals: &SignalFd) -> Result<std::process::ExitStatus, Failure> {
    let program = Pid::from_raw(i32::try_from(child.id()).map_err(Failure::work)?);
    loop {
        if let Some(status) = child.try_wait().map_err(Failure::work)? {
            return Ok(status);
        }
        let Some(info) = signals.read_signal().map_err(Failure::work)? else { continue };
        let signal = i32::try_from(info.ssi_signo).ok().and_then(|number| Signal::try_from(number).ok());
        if let Some(signal) = signal.filter(|signal| PASSED.contains(signal) && info.ssi_code == SI_USER) {
            // The program may have ended, which the next round sees.
            let _gone = kill(program, signal);
        }
    }
}

/// What the lines of a trace tell.
#[derive(Debug, Default, PartialEq, Eq)]
struct Story {
    claimed: usize,
    sends: usize,
    reads: usize,
    /// Claims that came to nothing, and of which no line says why.
    unanswered: usize,
    /// How often each reason kept a connection, or a direction of it, on TCP or took it back.
    reasons: BTreeMap<Reason, usize>,
}

impl Story {
    fn new(lines: &str) -> Self {
        let count = |words: &str| lines.lines().filter(|line| line.contains(words)).count();
        let mut reasons = BTreeMap::new();
        for (_, name) in lines.lines().filter_map(|line| line.rsplit_once(", ")) {
            if let Some(reason) = Reason::ALL.iter().find(|reason| reason.name() == name) {
                *reasons.entry(*reason).or_default() += 1;
            }
        }
        Self {
            claimed: count(": claimed"),
            sends: count(": sends by a ring"),
            reads: count(": reads from a ring"),
            unanswered: unanswered(lines),
            reasons,
        }
    }
}

impl core::fmt::Display for Story {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self { claimed, sends, reads, unanswered, reasons } = self;
        writeln!(
            out,
            "weft sockets: connections that sent by shared memory or RDMA: {sends}; that received so: {reads}; attempts: {claimed}"
        )?;
        if *claimed == 0 && reasons.is_empty() {
            writeln!(
                out,
                "weft sockets: no attempt: the program had no connection with 4 calls or more, or loads no library"
            )?;
        }
        if *unanswered > 0 {
            writeln!(
                out,
                "weft sockets: attempts that no other end answered: {unanswered}: it does not run under weft sockets, its \
                 host has no lane to this one (`weft stat sockets` tells why), or it asks another daemon, or did not come in time"
            )?;
        }
        for (reason, count) in reasons {
            writeln!(
                out,
                "weft sockets: attempts that ended with {}: {count}: {}",
                reason.name(),
                reason.text()
            )?;
        }
        Ok(())
    }
}

/// Counts the claims behind which neither a ring nor a reason stands.
fn unanswered(lines: &str) -> usize {
    let (mut open, mut count, mut dropped) = (BTreeSet::new(), 0, 0);
    for line in lines.lines() {
        let Some((connection, event)) = line.split_once(": ") else { continue };
        if event == "claimed" {
            // An earlier claim of the same descriptor had no answer.
            count += usize::from(!open.insert(connection));
        } else if event.starts_with("claim dropped") {
            dropped += 1;
        } else if event.starts_with("sends by a ring") || event.starts_with("reads from a ring") {
            open.remove(connection);
        }
    }
    (count + open.len()).saturating_sub(dropped)
}

/// The signals that ask a program for something.
const PASSED: [Signal; 7] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGWINCH,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_earlier_programs_are_not_counted() {
        let file = std::env::temp_dir().join(format!("weft-explain-lines-{}", std::process::id()));
        std::fs::write(&file, "7 4: claimed\n").unwrap();
        let before = length(&file).unwrap();
        std::fs::write(&file, "7 4: claimed\n8 4: claimed\n").unwrap();
        assert_eq!(lines_behind(&file, before).unwrap(), "8 4: claimed\n");
        std::fs::remove_file(&file).unwrap();
    }

    #[test]
    fn a_trace_is_counted() {
        let story = Story::new(
            "7 4: claimed\n7 4: sends by a ring from 10\n7 4: reads from a ring behind 3\n7 5: claimed\n\
             7 end 1: claim dropped, no-partner\n7 6: not claimed, shared\n8 6: not claimed, shared\n\
             7 9: claimed\n7 9: claimed\n",
        );
        let reasons = BTreeMap::from([(Reason::NoPartner, 1), (Reason::Shared, 2)]);
        assert_eq!(story, Story { claimed: 4, sends: 1, reads: 1, unanswered: 2, reasons });
        let text = story.to_string();
        assert!(text.contains("ended with shared: 2: several processes hold this end"), "{text}");
        assert!(text.contains("no other end answered: 2: it does not run under weft sockets"), "{text}");
        assert!(Story::new("").to_string().contains("no attempt"));
    }
}
