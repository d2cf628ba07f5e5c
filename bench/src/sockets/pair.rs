//! Two programs in conversation, as a side of a comparison.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use clap::ValueEnum;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, Signal, kill_process};
use rustix::time::Timespec;

use super::carrier::Carrier;
use super::rpc;
use super::terms::{Socket, Threads, Wait, Work};
use crate::case::{Effort, Sample, Side, Trouble};
use crate::process::{Outcome, say};

/// The conversation of two programs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Talk {
    pub(super) work: Work,
    pub(super) size: usize,
    pub(super) wait: Wait,
    pub(super) socket: Socket,
    pub(super) threads: Threads,
    /// Connections at a time, or messages there and back on each of many connections.
    pub(super) count: usize,
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
        Self {
            work: Work::Ping,
            size,
            wait,
            socket: Socket::Tcp,
            threads: Threads::One,
            count: 1,
            cores: [Some(0), Some(1)],
        }
    }

    /// Returns messages one way.
    pub(super) const fn stream(size: usize) -> Self {
        Self { work: Work::Stream, ..Self::ping(size, Wait::Blocking) }
    }

    /// Returns connections, each with so many octets there and back.
    pub(super) const fn connections(count: usize) -> Self {
        Self { count, ..Self::ping(1, Wait::Blocking).doing(Work::Connect) }
    }

    /// Returns so many connections that the server has in one epoll set.
    pub(super) const fn many(count: usize) -> Self {
        Self { count, ..Self::ping(8, Wait::Blocking).doing(Work::Many) }
    }

    /// Returns another conversation with messages of the same size.
    pub(super) const fn doing(self, work: Work) -> Self {
        Self { work, ..self }
    }

    /// Returns the same conversation with a client that has these threads.
    pub(super) const fn by(self, threads: Threads) -> Self {
        Self { threads, ..self }
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

    /// Returns the octets of a transfer, one way.
    fn octets(&self) -> u64 {
        let octets = match self.work {
            Work::Call => 2 * self.size + rpc::overhead(),
            Work::Operate => 0,
            Work::Connect => self.count * self.size,
            _ => self.size,
        };
        octets as u64
    }

    /// Returns the messages of a round.
    fn round(&self) -> usize {
        match self.work {
            Work::Ping | Work::Many | Work::Call => (ROUND / self.size.max(1)).clamp(2, 200),
            Work::Stream => (ROUND / self.size.max(1)).clamp(4, 16_384),
            Work::Operate => 10_000,
            Work::Connect | Work::First | Work::Relay => 20,
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
            &Part { serves: true, work: self.work, at: &self.place(carrier, &mut paths), next: None },
        )?;
        let mut place = server.line()?;
        let mut between = Vec::new();
        for _ in 0..relays {
            let at = self.place(carrier, &mut paths);
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
    fn place(&self, carrier: &Carrier, paths: &mut Paths) -> String {
        if self.socket != Socket::Unix {
            return format!("{}:0", carrier.address());
        }
        let name = format!("weft-bench-{}-{}", std::process::id(), crate::process::next_number());
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
            "--threads",
            &word(self.threads),
        ]);
        command.args(["--size", &self.size.to_string(), "--round", &self.round().to_string()]);
        command.args(["--count", &self.count.to_string()]);
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

    /// Returns the next line that the program prints.
    fn line(&mut self) -> Outcome<String> {
        let mut wanted = [PollFd::new(self.output.get_ref(), PollFlags::IN)];
        if poll(&mut wanted, Some(&PATIENCE)).map_err(say("waiting for a program"))? == 0 {
            return Err(Trouble::failed("a program of the conversation stands still"));
        }
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
        self.signal_spinner(Signal::CONT)?;
        let sample = self.timed_turn(effort);
        self.signal_spinner(Signal::STOP)?;
        sample
    }
}

impl Pair {
    /// Stops a server that spins between its turns, or has it go on. It would take a core from all other sides.
    fn signal_spinner(&self, signal: Signal) -> Outcome<()> {
        if self.talk.wait != Wait::Spinning {
            return Ok(());
        }
        let server = i32::try_from(self.server.child.id()).ok().and_then(Pid::from_raw);
        server
            .map_or(Ok(()), |server| kill_process(server, signal))
            .map_err(say("stopping a server that spins"))
    }

    fn timed_turn(&mut self, effort: &Effort) -> Outcome<Sample> {
        let daemons = self.carrier.daemons().cloned();
        let (octets_before, upgrades_before) = match &daemons {
            Some(daemons) => (daemons.octets_by_ring()?, daemons.upgrades()?),
            None => (0, 0),
        };
        let before = self.cpu()?;
        let line = self.ask(effort.turn)?;
        let cpu = self.cpu()?.saturating_sub(before);
        let mut numbers = line.split_whitespace().map(str::parse::<u64>);
        let (Some(Ok(transfers)), Some(Ok(nanos))) = (numbers.next(), numbers.next()) else {
            return Err(Trouble::failed(format!("a program answered: {}", line.trim())));
        };
        let octets = transfers * self.talk.octets();
        // In its first turn the connection leaves TCP.
        if let Some(daemons) = &daemons
            && std::mem::replace(&mut self.is_warm, true)
        {
            match self.talk.work {
                Work::Operate => {}
                Work::Connect if self.talk.count == 1 => {}
                Work::Connect => daemons.check_upgrades(upgrades_before, transfers)?,
                _ => daemons.check(octets_before, octets * self.passes())?,
            }
        }
        // The programs compare every octet before they report a transfer.
        let wall = Duration::from_nanos(nanos);
        Ok(Sample { wall, cpu, transfers, octets, checked: transfers, figure: 0.0 })
    }
}

impl Pair {
    /// Asks the client for a turn of this time, and returns its answer.
    pub(super) fn ask(&mut self, turn: Duration) -> Outcome<String> {
        writeln!(self.client.input, "{}", turn.as_nanos().max(1)).map_err(say("asking for a turn"))?;
        self.client.line()
    }

    pub(super) const fn carrier(&self) -> &Carrier {
        &self.carrier
    }

    /// Returns how often each octet goes through a socket.
    fn passes(&self) -> u64 {
        let ways = if matches!(self.talk.work, Work::Ping | Work::Many) { 2 } else { 1 };
        ways * (self.relays.len() as u64 + 1)
    }

    /// Returns the CPU time of all programs and of the daemons.
    pub(super) fn cpu(&self) -> Outcome<Duration> {
        let daemons = self.carrier.daemons().into_iter().flat_map(|daemons| daemons.ids());
        let programs = self.relays.iter().chain([&self.server, &self.client]);
        programs.map(|program| program.child.id()).chain(daemons).map(crate::process::cpu_of).sum()
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
/// Seconds after which a program without an answer stands still: a turn has at most 60.
const PATIENCE: Timespec = Timespec { tv_sec: 90, tv_nsec: 0 };
