//! A network namespace that stands for a host.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::AsFd;
use std::process::{Child, Command};
use std::thread;

use rustix::process::geteuid;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::scene::{complaint, neighbor};
use super::{Outcome, say};
use crate::case::Trouble;

/// It ends with the process that keeps it, and that one with this process, also if it is killed.
#[derive(Debug)]
pub(crate) struct Namespace(Child);

impl Namespace {
    pub(crate) fn new() -> Outcome<Self> {
        if !geteuid().is_root() {
            return Err(Trouble::Skipped("only root makes network namespaces".to_owned()));
        }
        let made = Self(neighbor()?.0);
        made.run("ip link set lo up")?;
        Ok(made)
    }

    /// Returns the process that keeps it.
    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    /// Runs a command line there.
    pub(crate) fn run(&self, line: &str) -> Outcome {
        let net = self.argument();
        let words: Vec<&str> = core::iter::once(net.as_str()).chain(line.split_whitespace()).collect();
        match complaint("nsenter", &words) {
            None => Ok(()),
            Some(text) => Err(Trouble::Skipped(format!("{line}: {text}"))),
        }
    }

    /// Returns a command that runs a program there.
    pub(crate) fn command(&self, program: &OsStr) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(self.argument()).arg(program);
        command
    }

    /// Does some work there.
    pub(crate) fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Outcome<T> {
        let net = File::open(self.path()).map_err(say("opening a network namespace"))?;
        // A thread of its own, since a thread cannot go back without a descriptor of its old namespace.
        let worker = || {
            move_into_link_name_space(net.as_fd(), Some(LinkNameSpaceType::Network))
                .map_err(say("moving to a network namespace"))?;
            Ok(work())
        };
        thread::scope(|scope| scope.spawn(worker).join())
            .unwrap_or_else(|_| Err(Trouble::failed("a thread panicked")))
    }

    fn path(&self) -> String {
        format!("/proc/{}/ns/net", self.id())
    }

    fn argument(&self) -> String {
        format!("--net={}", self.path())
    }
}
