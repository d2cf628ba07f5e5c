//! Scripts of Python that run under the library, step by step.
#![allow(clippy::unwrap_used, reason = "a test fails there")]

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use weft_sockets::end::Phase;
use weft_sockets::sync::Ordering;
use weft_sockets::{Carrier, Leg, Link, Slab};

use crate::programs::library;

/// A script of Python that runs under the library and takes its orders line by line.
pub(crate) struct Script {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Script {
    /// Starts a script that finds no daemon, or says why not.
    pub(crate) fn start(text: &str) -> Option<Self> {
        Self::start_with(text, &[("WEFT_DAEMON", "@weft-test-nobody")])
    }

    /// Starts a script with these variables in its environment, or says why not.
    pub(crate) fn start_with(text: &str, variables: &[(&str, &str)]) -> Option<Self> {
        let mut command = Command::new(PYTHON);
        command.args(["-u", "-c", text]);
        command.env("LD_PRELOAD", library()).envs(variables.iter().copied());
        Self::run(&mut command)
    }

    /// As [`start_with`](Self::start_with), in a network namespace.
    pub(crate) fn start_in(namespace: &str, text: &str, variables: &[(&str, &str)]) -> Option<Self> {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", namespace, "env"]);
        command.arg(format!("LD_PRELOAD={}", library().display()));
        command.args(variables.iter().map(|(name, value)| format!("{name}={value}")));
        Self::run(command.args([PYTHON, "-u", "-c", text]))
    }

    fn run(command: &mut Command) -> Option<Self> {
        let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let Ok(mut child) = started else {
            println!("skipped: {PYTHON} is not installed");
            return None;
        };
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Some(Self { child, input, output })
    }

    /// The process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the script's next line.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Lets the script go on behind a call of `input()`.
    pub(crate) fn go_on(&mut self) {
        self.say("");
    }

    /// Answers a call of `input()`.
    pub(crate) fn say(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
    }

    /// Maps the ends of the script's process.
    pub(crate) fn slab(&self) -> Slab {
        Slab::map(self.memory("weft-ends").expect("the process has a slab")).unwrap()
    }

    /// Maps the link of the script's process, if it has one.
    pub(crate) fn link(&self) -> Option<Link> {
        self.memory("weft-link").map(|file| Link::map(file).unwrap())
    }

    fn memory(&self, name: &str) -> Option<File> {
        let folder = PathBuf::from(format!("/proc/{}/fd", self.child.id()));
        let is_it = |path: &PathBuf| {
            std::fs::read_link(path).is_ok_and(|target| target.display().to_string().contains(name))
        };
        let mut files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        files.find(is_it).map(|file| File::options().read(true).write(true).open(file).unwrap())
    }

    /// Which directions of the script's only connection with a channel go by rings: what it sends, and what it reads.
    pub(crate) fn rings(&self) -> [bool; 2] {
        let slab = self.slab();
        let end = slab.ends().map(|(_, end)| end).find(|end| end.state().phase == Phase::Offered);
        let is_ring = |word: u64| Leg::from_word(word).is_some_and(|leg| leg.carrier != Carrier::Tcp);
        end.map_or([false; 2], |end| {
            [&end.outbound.leg, &end.inbound.leg].map(|word| is_ring(word.load(Ordering::Acquire)))
        })
    }

    /// Lets the script go on to its end, which must be a good one.
    pub(crate) fn end(mut self) {
        self.go_on();
        self.end_by_itself();
    }

    /// Waits for the end of the script, which must be a good one.
    pub(crate) fn end_by_itself(mut self) {
        assert!(self.child.wait().unwrap().success());
    }
}

/// The interpreter of the scripts.
pub(crate) const PYTHON: &str = "/usr/bin/python3.11";
