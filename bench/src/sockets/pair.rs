//! Two programs in conversation, as a side of a comparison.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use clap::ValueEnum;

use super::carrier::{Carrier, Daemon};
use super::process::{Outcome, say};
use super::talk::{Socket, Wait, Work};
use crate::case::{Effort, Sample, Side, Trouble};

/// The conversation of two programs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Talk {
    pub(super) work: Work,
    pub(super) size: usize,
    pub(super) wait: Wait,
    pub(super) socket: Socket,
    /// The cores of client and server.
    pub(super) cores: [Option<usize>; 2],
}

/// A server and a client that has connected to it.
pub(super) struct Pair {
    server: Program,
    client: Program,
    /// The programs between them.
    relays: Vec<Program>,
    talk: Talk,
    carrier: Carrier,
    /// The connection has had a turn, in which it left TCP.
    is_warm: bool,
    _paths: Paths,
}

/// The sockets of the file system, which go with this value.
#[derive(Default)]
struct Paths(Vec<String>);

/// A running program of the conversation. It ends with this value.
struct Program {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Talk {
    /// Returns messages there and back, each end on a core of its own.
    pub(super) const fn ping(size: usize, wait: Wait) -> Self {
        Self { work: Work::Ping, size, wait, socket: Socket::Tcp, cores: [Some(0), Some(1)] }
    }

    /// Returns messages one way.
    pub(super) const fn stream(size: usize) -> Self {
        Self { work: Work::Stream, ..Self::ping(size, Wait::Blocking) }
    }

    /// Returns connections with an octet there and back.
    pub(super) const fn connections() -> Self {
        Self { work: Work::Connect, ..Self::ping(1, Wait::Blocking) }
    }

    /// Returns the same conversation over another kind of socket.
    pub(super) const fn over(self, socket: Socket) -> Self {
        Self { socket, ..self }
    }

    /// Returns the same conversation with another way to wait.
    pub(super) const fn waiting(self, wait: Wait) -> Self {
        Self { wait, ..self }
    }

    /// Returns the same conversation on these cores.
    pub(super) const fn on(self, cores: [Option<usize>; 2]) -> Self {
        Self { cores, ..self }
    }

    /// Returns the messages of a round.
    fn round(&self) -> usize {
        match self.work {
            Work::Ping => (ROUND / self.size.max(1)).clamp(2, 200),
            Work::Stream => (ROUND / self.size.max(1)).clamp(4, 16_384),
            Work::Connect | Work::Relay => 20,
        }
    }

    /// Starts both programs.
    pub(super) fn start(self, carrier: &Carrier) -> Outcome<Pair> {
        self.start_behind(0, carrier)
    }

    /// Starts both programs, and so many others between them that pass on each message.
    pub(super) fn start_behind(self, relays: usize, carrier: &Carrier) -> Outcome<Pair> {
        let mut paths = Paths::default();
        let mut server = self.program(
            carrier,
            &Part { serves: true, work: self.work, at: &self.place(&mut paths), next: None },
        )?;
        let mut place = server.line()?;
        let mut between = Vec::new();
        for _ in 0..relays {
            let at = self.place(&mut paths);
            let part = Part { serves: true, work: Work::Relay, at: &at, next: Some(place.trim()) };
            let mut relay = self.program(carrier, &part)?;
            place = relay.line()?;
            between.push(relay);
        }
        let part = Part { serves: false, work: self.work, at: place.trim(), next: None };
        let mut client = self.program(carrier, &part)?;
        if client.line()?.trim() != "ready" {
            return Err(Trouble::failed("the client could not connect"));
        }
        Ok(Pair {
            server,
            client,
            relays: between,
            talk: self,
            carrier: carrier.clone(),
            is_warm: false,
            _paths: paths,
        })
    }

    /// Returns where a program listens: at a port that it chooses, or at a path.
    fn place(&self, paths: &mut Paths) -> String {
        if self.socket != Socket::Unix {
            return "0".to_owned();
        }
        let name = format!("weft-bench-{}-{}", std::process::id(), super::process::next_number());
        let path = std::env::temp_dir().join(name).display().to_string();
        paths.0.push(path.clone());
        path
    }

    fn program(&self, carrier: &Carrier, part: &Part<'_>) -> Outcome<Program> {
        let program = std::env::current_exe().map_err(say("finding this program"))?;
        let mut command = carrier.command(part.serves, program.as_os_str())?;
        command.args(["bench", "sockets", "talk", "--at", part.at]);
        command.args([
            "--work",
            &word(part.work),
            "--wait",
            &word(self.wait),
            "--socket",
            &word(self.socket),
        ]);
        command.args(["--size", &self.size.to_string(), "--round", &self.round().to_string()]);
        if part.serves {
            command.arg("--serve");
        }
        if let Some(next) = part.next {
            command.args(["--next", next]);
        }
        if let Some(core) = self.cores[usize::from(part.serves)] {
            command.args(["--core", &core.to_string()]);
        }
        Program::start(command)
    }
}

/// One program of a conversation.
struct Part<'a> {
    serves: bool,
    work: Work,
    at: &'a str,
    next: Option<&'a str>,
}

fn word(value: impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

impl Program {
    fn start(mut command: Command) -> Outcome<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(say("starting a program"))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Trouble::failed("a program without input and output"));
        };
        Ok(Self { child, input, output: BufReader::new(output) })
    }

    fn line(&mut self) -> Outcome<String> {
        let mut line = String::new();
        match self.output.read_line(&mut line) {
            Ok(0) => Err(Trouble::failed("a program of the conversation ended early")),
            Ok(_) => Ok(line),
            Err(error) => Err(Trouble::failed(error)),
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}

impl Side for Pair {
    fn turn(&mut self, effort: &Effort) -> Outcome<Sample> {
        let daemon = self.carrier.daemon();
        let by_ring = daemon.map(Daemon::octets_by_ring).transpose()?;
        let before = self.cpu()?;
        writeln!(self.client.input, "{}", effort.turn.as_nanos().max(1)).map_err(say("asking for a turn"))?;
        let line = self.client.line()?;
        let cpu = self.cpu()?.saturating_sub(before);
        let mut numbers = line.split_whitespace().map(str::parse::<u64>);
        let (Some(Ok(transfers)), Some(Ok(nanos))) = (numbers.next(), numbers.next()) else {
            return Err(Trouble::failed(format!("a program answered: {}", line.trim())));
        };
        let octets = transfers * self.talk.size as u64;
        if let (Some(daemon), Some(before)) = (daemon, by_ring)
            && self.talk.work != Work::Connect
            && std::mem::replace(&mut self.is_warm, true)
        {
            daemon.check(before, octets * self.passes())?;
        }
        // The programs compare every octet before they report a transfer.
        let wall = Duration::from_nanos(nanos);
        Ok(Sample { wall, cpu, transfers, octets, checked: transfers, figure: 0.0 })
    }
}

impl Pair {
    /// Returns how often each octet goes through a socket.
    fn passes(&self) -> u64 {
        let ways = if self.talk.work == Work::Ping { 2 } else { 1 };
        ways * (self.relays.len() as u64 + 1)
    }

    /// Returns the CPU time of both programs and of the daemon.
    pub(super) fn cpu(&self) -> Outcome<Duration> {
        let daemon = self.carrier.daemon().map(Daemon::id);
        let programs = self.relays.iter().chain([&self.server, &self.client]);
        programs.map(|program| program.child.id()).chain(daemon).map(super::process::cpu_of).sum()
    }
}

impl Drop for Paths {
    fn drop(&mut self) {
        for path in &self.0 {
            let _removed = std::fs::remove_file(path);
        }
    }
}

const ROUND: usize = 4 << 20;
