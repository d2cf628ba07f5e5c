//! A chain of replicas, each a process, and its client, which is the benchmark.

use core::net::{Ipv4Addr, SocketAddr};
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use weft_group::{Durability, Session, Terms};
use weft_rnic::{CmEvent, ConnParam, Device, EventChannel, Progress, Qp, Stag};

use super::files;
use super::network::{self, Network};
use super::terms::Mode;
use crate::case::Trouble;
use crate::process::{Folder, Outcome, next_number, say};

/// What a chain is like.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) mode: Mode,
    pub(super) replicas: usize,
    pub(super) network: Network,
    /// Slots of a session.
    pub(super) window: u32,
    /// Octets of a session's range.
    pub(super) len: usize,
    /// The longest write of one slot.
    pub(super) piece: u32,
    pub(super) sessions: usize,
    /// The memory of each replica has a file.
    pub(super) has_files: bool,
    /// The replica, if any, whose program computes for 1 ms of each 2 ms.
    pub(super) busy: Option<usize>,
}

/// A running chain.
pub(super) struct Chain {
    pub(super) sessions: Vec<Session>,
    programs: Vec<Program>,
    _events: EventChannel,
    _device: Device,
    _files: Option<Folder>,
}

/// The program of a replica. It ends with this value.
struct Program {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    address: SocketAddr,
}

/// What threads have used.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    pub(super) cpu: Duration,
    /// How often one of them was switched to.
    pub(super) switches: u64,
}

/// What the threads of all replicas have used: those of the programs, and those of the devices.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usages {
    pub(super) programs: Usage,
    pub(super) devices: Usage,
}

impl Chain {
    pub(super) fn start(plan: &Plan) -> Outcome<Self> {
        let files = plan.has_files.then(files::folder).transpose()?;
        let [.., number] = next_number().to_be_bytes();
        let start = |index| Program::start(plan, index, number, files.as_ref());
        let mut programs = (0..plan.replicas).map(start).collect::<Outcome<Vec<_>>>()?;
        plan.network.at_client(|| {
            // The client's thread drives its device, and sleeps nowhere.
            let (address, interface) = (plan.network.client(number), plan.network.interface());
            let device = network::open(address, interface, 99, Progress::Manual)?;
            let events = device.create_event_channel().map_err(say("making a channel"))?;
            let mut sessions = Vec::new();
            for number in 0..plan.sessions {
                sessions.push(open(plan, &device, &events, &mut programs, number as u64 + 1)?);
            }
            Ok(Self { sessions, programs, _events: events, _device: device, _files: files })
        })
    }

    /// Has all programs do what a line says, at the same time, and returns their answers.
    pub(super) fn ask_all(&mut self, line: &str) -> Outcome<Vec<String>> {
        self.programs.iter_mut().try_for_each(|program| program.tell(line))?;
        self.programs.iter_mut().map(Program::hear).collect()
    }

    /// Returns what the threads of the replicas have used so far.
    pub(super) fn usages(&self) -> Outcome<Usages> {
        let mut all = Usages::default();
        for program in &self.programs {
            for (name, usage) in threads(program.child.id())?.into_values() {
                let sum = if DEVICES.iter().any(|device| name.starts_with(device)) {
                    &mut all.devices
                } else {
                    &mut all.programs
                };
                sum.cpu += usage.cpu;
                sum.switches += usage.switches;
            }
        }
        Ok(all)
    }

    /// Gives the devices' threads real-time priority. Only root may.
    pub(super) fn prefer_devices(&self) -> Outcome<()> {
        for program in &self.programs {
            let threads = threads(program.child.id())?;
            for (thread, _) in
                threads.iter().filter(|(_, (name, _))| DEVICES.iter().any(|device| name.starts_with(device)))
            {
                let id = thread.to_string();
                let status =
                    Command::new("chrt").args(["-f", "-p", "10", &id]).stderr(Stdio::null()).status();
                if !status.is_ok_and(|status| status.success()) {
                    return Err(Trouble::Skipped("chrt gives no real-time priority here".to_owned()));
                }
            }
        }
        Ok(())
    }
}

/// Opens a session: the connections come up from the tail.
fn open(
    plan: &Plan,
    device: &Device,
    events: &EventChannel,
    programs: &mut [Program],
    number: u64,
) -> Outcome<Session> {
    let terms = Terms {
        replicas: plan.replicas,
        window: plan.window,
        len: plan.len as u64,
        piece: plan.piece,
        epoch: 1,
        session: number,
        durability: if plan.has_files { Durability::File } else { Durability::Volatile },
    };
    let mut session = Session::new(device, terms).map_err(say("making a session"))?;
    let mut stags = Vec::new();
    for program in &mut *programs {
        stags.push(program.ask("open")?.trim_start_matches("opened ").to_owned());
    }
    let target = u32::from_str_radix(&stags[0], 16).map_err(say("an STag"))?;
    session.set_target(Stag(target));
    let mut successor: Option<(SocketAddr, String)> = None;
    for (program, stag) in programs.iter_mut().zip(&stags).rev() {
        match successor.take() {
            None => {
                program.tell("tail")?;
                connect(device, events, session.tail(), program.address)?;
            }
            Some((address, stag)) => program.tell(&format!("next {address} {stag}"))?,
        }
        program.expect("ready")?;
        // Whoever connects next is its predecessor, which is told in the next round, or the client below.
        program.tell("up")?;
        successor = Some((program.address, stag.clone()));
    }
    connect(device, events, session.head(), programs[0].address)?;
    programs.iter_mut().try_for_each(|program| program.expect("up"))?;
    Ok(session)
}

fn connect(device: &Device, events: &EventChannel, qp: &Qp, address: SocketAddr) -> Outcome<()> {
    let param = ConnParam { peer_to_peer: Some(true), ..ConnParam::default() };
    device.connect(events, qp, address, param).map_err(say("connecting"))?;
    match events.wait(Some(PATIENCE)) {
        Some(CmEvent::Established { .. }) => Ok(()),
        other => Err(Trouble::failed(format!("the client is not connected: {other:?}"))),
    }
}

impl Program {
    fn start(plan: &Plan, index: usize, chain: u8, files: Option<&Folder>) -> Outcome<Self> {
        let own = std::env::current_exe().map_err(say("finding this program"))?;
        let mut command = plan.network.command(index, own.as_ref())?;
        command.args(["bench", "group", "replica", "--mode", plan.mode.name()]);
        for (name, value) in [
            ("--index", index),
            ("--replicas", plan.replicas),
            ("--window", plan.window as usize),
            ("--len", plan.len),
            ("--sessions", plan.sessions),
        ] {
            command.arg(name).arg(value.to_string());
        }
        command.args(["--address", &plan.network.replica(index, chain).to_string()]);
        if let Some(interface) = plan.network.interface() {
            command.args(["--interface", interface]);
        }
        if let Some(files) = files {
            command.arg("--file").arg(files.path().join(index.to_string()));
        }
        if plan.busy == Some(index) {
            command.arg("--busy");
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(say("starting a replica"))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Trouble::failed("a replica without pipes"));
        };
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let mut program = Self { child, input: Some(input), output: BufReader::new(output), address: any };
        program.address = program.hear()?.parse().map_err(say("the address of a replica"))?;
        Ok(program)
    }

    fn tell(&mut self, line: &str) -> Outcome<()> {
        let told = self.input.as_mut().map(|input| writeln!(input, "{line}").and_then(|()| input.flush()));
        told.unwrap_or(Ok(())).map_err(say("telling a replica"))
    }

    fn hear(&mut self) -> Outcome<String> {
        let mut line = String::new();
        match self.output.read_line(&mut line) {
            Ok(1..) => Ok(line.trim_end().to_owned()),
            Ok(0) => Err(Trouble::failed("a replica has ended")),
            Err(error) => Err(say("hearing a replica")(error)),
        }
    }

    fn ask(&mut self, line: &str) -> Outcome<String> {
        self.tell(line)?;
        self.hear()
    }

    fn expect(&mut self, wanted: &str) -> Outcome<()> {
        let answer = self.hear()?;
        if answer == wanted { Ok(()) } else { Err(Trouble::failed(format!("{answer} instead of {wanted}"))) }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.input = None;
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}

/// Returns the threads of a process by number, with their names and what they have used.
fn threads(process: u32) -> Outcome<BTreeMap<u64, (String, Usage)>> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).map_err(say("asking for threads"))?;
    let thread = |task: std::io::Result<fs::DirEntry>| {
        // A thread may have ended meanwhile.
        let path = task.ok()?.path();
        let read = |name: &str| fs::read_to_string(path.join(name)).ok();
        let nanos = read("schedstat")?.split_whitespace().next()?.parse().ok()?;
        let status = read("status")?;
        let lines = status.lines().filter_map(|line| line.split_once("_ctxt_switches:"));
        let switches = lines.filter_map(|(_, count)| count.trim().parse::<u64>().ok()).sum();
        let usage = Usage { cpu: Duration::from_nanos(nanos), switches };
        let number = path.file_name()?.to_str()?.parse().ok()?;
        Some((number, (read("comm")?.trim_end().to_owned(), usage)))
    };
    Ok(tasks.filter_map(thread).collect())
}

impl Usages {
    pub(super) fn add(&mut self, other: &Self) {
        for (sum, more) in [(&mut self.programs, other.programs), (&mut self.devices, other.devices)] {
            sum.cpu += more.cpu;
            sum.switches += more.switches;
        }
    }

    /// Returns what was used since then.
    pub(super) fn since(&self, before: &Self) -> Self {
        let usage = |now: Usage, before: Usage| Usage {
            cpu: now.cpu.saturating_sub(before.cpu),
            switches: now.switches.saturating_sub(before.switches),
        };
        Self { programs: usage(self.programs, before.programs), devices: usage(self.devices, before.devices) }
    }
}

/// The names of devices' threads begin so.
const DEVICES: [&str; 2] = ["weft-engine", "weft-flush"];
const PATIENCE: Duration = Duration::from_secs(20);
