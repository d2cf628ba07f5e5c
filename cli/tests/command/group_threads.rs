//! Which threads of a replica an operation needs: those of its device, and no other.

use std::collections::{BTreeMap, VecDeque};
use std::fs;

use nix::errno::Errno;
use weft_group::{
    Copy, Done, Fresh, Op, OpError, Options, Originals, Replicas, Session, SessionError, Swap, UNTOUCHED,
};
use weft_rnic::Device;

use crate::group::{Group, device};
use crate::held::Held;
use crate::process::{Process, path_in};
use crate::support::{Folder, skip};

/// Octets of each replica's memory, as a number and as the command takes it.
const LEN: u64 = 1 << 20;
const MEMORY: &str = "1M";

/// Operations of all four primitives by turns, and what they make of a replica's memory.
struct Load {
    session: Session,
    memory: Vec<u8>,
    /// The outcomes that are not there yet, oldest first.
    expected: VecDeque<Done>,
    begun: u64,
}

impl Load {
    fn new(session: Session) -> Self {
        Self { session, memory: vec![0; size(LEN)], expected: VecDeque::new(), begun: 0 }
    }

    /// Carries out so many operations of each primitive. As many as the window holds are under way at a time.
    fn run(&mut self, each: u64) -> Result<(), SessionError> {
        for _ in 0..4 * each {
            let op = self.draw();
            let octets = octets(&op, self.begun);
            let id = loop {
                match self.session.submit(&op, &octets) {
                    Err(SessionError::Op(OpError::Full | OpError::Conflict)) => self.take()?,
                    begun => break begun?,
                }
            };
            let originals = self.apply(&op, &octets);
            self.expected.push_back(Done { id, originals });
            self.begun += 1;
        }
        while !self.expected.is_empty() {
            self.take()?;
        }
        Ok(())
    }

    /// Waits for the oldest operation, and compares what it has found.
    fn take(&mut self) -> Result<(), SessionError> {
        let Done { id, originals } = self.expected.pop_front().unwrap();
        assert_eq!(self.session.wait(id)?, originals, "{id:?}");
        Ok(())
    }

    fn draw(&self) -> Op {
        let chance = mix(self.begun);
        let (at, other, len) = (chance % (LEN / 2 - 512), chance / LEN % (LEN / 2 - 512), chance >> 55);
        let upper = LEN / 2 + other;
        let mut op = Op::default();
        match self.begun % 4 {
            0 => op.write = Some(at + other..at + other + len),
            1 => {
                let (from, to) = if len.is_multiple_of(2) { (at, upper) } else { (upper, at) };
                op.copy = Some(Copy { from, to, len: u32::try_from(len).unwrap() });
            }
            2 => {
                let at = (at + other) & !7;
                // Some find another value than they compare with.
                let compare = self.word(at).wrapping_add(u64::from(len < 64));
                op.swap = Some(Swap { at, compare, swap: mix(chance), on: Replicas::ALL });
            }
            _ => op.flush = Some(at..upper),
        }
        op
    }

    fn apply(&mut self, op: &Op, octets: &[u8]) -> Originals {
        let mut originals = [UNTOUCHED; 16];
        if let Some(write) = &op.write {
            self.memory[size(write.start)..size(write.end)].copy_from_slice(octets);
        }
        if let Some(copy) = op.copy {
            self.memory.copy_within(size(copy.from)..size(copy.source().end), size(copy.to));
        }
        if let Some(swap) = op.swap {
            let found = self.word(swap.at);
            originals[..3].fill(found);
            if found == swap.compare {
                self.memory[size(swap.at)..][..8].copy_from_slice(&swap.swap.to_ne_bytes());
            }
        }
        originals
    }

    fn word(&self, at: u64) -> u64 {
        u64::from_ne_bytes(*self.memory[size(at)..].first_chunk().unwrap())
    }

    /// Compares every octet of every replica.
    fn compare(&self, group: &Group, device: &Device) {
        for (index, member) in group.members_of().into_iter().enumerate() {
            let mut alone = Session::open(device, &[member], &Options::default()).unwrap();
            let mut octets = vec![0; size(LEN)];
            alone.read(0, &mut octets, Fresh::Maybe).unwrap();
            let wrong = octets.iter().zip(&self.memory).position(|(found, expected)| found != expected);
            assert_eq!(wrong, None, "the first wrong octet of replica {index}");
        }
    }
}

/// 100,000 operations of each primitive: the kernel counts no switch to any thread of a replica but those of its device.
#[test]
fn no_application_thread_of_a_replica_runs_for_an_operation() {
    let group = Group::with(|_| format!("--memory {MEMORY}"));
    let device = device();
    let mut load = Load::new(group.session(&device));
    load.run(10).unwrap();
    let before: Vec<_> = group.servers.iter().map(at_rest).collect();
    load.run(100_000).unwrap();
    let mut engines = 0;
    for (server, before) in group.servers.iter().zip(before) {
        let after = threads(server);
        let (own, other): (Vec<_>, Vec<_>) = after.iter().partition(|(_, thread)| thread.is_of_device());
        for (id, thread) in &other {
            assert_eq!(thread.switches, before[id].switches, "{} was switched to", thread.name);
        }
        assert_eq!(after.len(), before.len(), "threads came or went");
        assert!(other.iter().any(|(_, thread)| thread.name == "weft-group"), "{after:?}");
        engines += own.iter().map(|(id, thread)| thread.switches - before[id].switches).sum::<u64>();
    }
    assert!(engines > 0, "the devices do the work, and sleep between operations");
    load.compare(&group, &device);
}

/// Each replica in turn stands still but for the threads of its device, as a program does that is busy or blocked.
#[test]
fn a_replica_whose_application_threads_are_held_serves_all_the_same() {
    for held in 0..3 {
        let folder = Folder::new();
        let file = |index| path_in(&folder, &format!("replica{index}"));
        let group = Group::with(|index| format!("--file {} --size {MEMORY}", file(index)));
        let device = device();
        let mut load = Load::new(group.session(&device));
        load.run(10).unwrap();
        let server = &group.servers[held];
        let (own, other): (Vec<_>, Vec<_>) =
            at_rest(server).into_iter().partition(|(_, thread)| thread.is_of_device());
        let names: Vec<_> = own.iter().map(|(_, thread)| thread.name.as_str()).collect();
        assert_eq!(names, ["weft-engine-0", "weft-flush"]);
        let application = match Held::new(other.iter().map(|(id, _)| *id)) {
            Ok(application) => application,
            Err(Errno::EPERM) => return skip("this user may not ptrace its own processes"),
            Err(error) => panic!("{error}"),
        };
        load.run(500).unwrap();
        let after = threads(server);
        let stands = |(id, before): &(i32, Thread)| {
            after[id].state == 't' && after[id].switches <= before.switches + 1
        };
        assert!(other.iter().all(stands), "{other:?} {after:?}");
        drop(application);
        load.compare(&group, &device);
        // Without the engine nothing goes on.
        let all = Held::new(threads(server).into_keys()).unwrap();
        assert_eq!(load.run(1), Err(SessionError::TimedOut));
        drop(all);
        let mut session = group.session(&device);
        let id = session.write(0, b"goes on").unwrap();
        session.wait(id).unwrap();
    }
}

/// What the kernel tells of a thread.
#[derive(Debug)]
struct Thread {
    name: String,
    /// `S` while it sleeps.
    state: char,
    /// How often it was switched away from, whether it wanted to sleep or not.
    switches: u64,
}

impl Thread {
    fn is_of_device(&self) -> bool {
        self.name.starts_with("weft-engine-") || self.name == "weft-flush"
    }
}

/// Returns the threads of a process by their ids.
fn threads(process: &Process) -> BTreeMap<i32, Thread> {
    let tasks = fs::read_dir(format!("/proc/{}/task", process.id())).unwrap();
    let thread = |task: std::io::Result<fs::DirEntry>| {
        let path = task.unwrap().path();
        let status = fs::read_to_string(path.join("status")).unwrap();
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim();
        let count = |name: &str| field(name).parse::<u64>().unwrap();
        let thread = Thread {
            name: field("Name:").to_owned(),
            state: field("State:").chars().next().unwrap(),
            switches: count("voluntary_ctxt_switches:") + count("nonvoluntary_ctxt_switches:"),
        };
        (path.file_name().unwrap().to_str().unwrap().parse().unwrap(), thread)
    };
    tasks.map(thread).collect()
}

/// Returns the threads of a process when all sleep but those of its device: nothing wakes them any more.
fn at_rest(process: &Process) -> BTreeMap<i32, Thread> {
    loop {
        let threads = threads(process);
        if threads.values().all(|thread| thread.is_of_device() || thread.state == 'S') {
            return threads;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// The octets of the write of an operation.
fn octets(op: &Op, number: u64) -> Vec<u8> {
    let len = op.write.as_ref().map_or(0, |write| write.end - write.start);
    (0..len).map(|at| mix(number ^ at << 40).to_le_bytes()[0]).collect()
}

/// Numbers that look random (splitmix64).
const fn mix(number: u64) -> u64 {
    let mixed = number.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ mixed >> 31
}

fn size(octets: u64) -> usize {
    usize::try_from(octets).unwrap()
}
