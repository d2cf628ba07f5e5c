//! The driver: it starts workers, tells them whom to connect to, kills and stops them, and judges what they report.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::args::Args;
use crate::counts::Counts;
use crate::daemon::{Daemon, Held};

/// A worker and what it has said of itself.
struct Worker {
    child: Child,
    port: Option<u16>,
    is_stopped: bool,
    /// What it held before it had a connection.
    held: Option<Held>,
}

/// A connection between workers that live.
struct Connection {
    workers: [usize; 2],
    /// Ends that were reported.
    ended: usize,
}

struct Driver {
    library: Option<PathBuf>,
    /// What each worker hears of the longest rest.
    rest: String,
    daemon: Daemon,
    /// All workers ever; those that were killed are `None`.
    workers: Vec<Option<Worker>>,
    connections: BTreeMap<u64, Connection>,
    /// Children that share a connection with a worker, and the connection.
    children: BTreeMap<u32, u64>,
    /// What the first daemon held before it had a client.
    daemon_held: Option<Held>,
    sender: Sender<(usize, String)>,
    reports: Receiver<(usize, String)>,
    chance: u64,
    next: u64,
    /// Faults, counted, and the first ones printed.
    faults: usize,
    counts: Counts,
}

/// Returns true if nothing was wrong.
#[expect(clippy::disallowed_methods, reason = "the user asks for seconds of real time")]
pub(crate) fn run(args: &Args) -> io::Result<bool> {
    let beside = std::env::current_exe()?.with_file_name("");
    let library = args.library.clone().unwrap_or_else(|| beside.join("libweft_sockets_preload.so"));
    let mut driver = Driver::new(&beside, library, args)?;
    for _ in 0..args.workers {
        driver.start_worker()?;
    }
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(args.seconds) {
        driver.connect(args.connections)?;
        driver.disturb(args)?;
        driver.listen(Duration::from_millis(50));
    }
    driver.finish()?;
    let Driver { counts, faults, .. } = &driver;
    writeln!(io::stdout(), "{} s, {counts}; {faults} faults", start.elapsed().as_secs())?;
    Ok(driver.faults == 0)
}

impl Driver {
    fn new(beside: &Path, library: PathBuf, args: &Args) -> io::Result<Self> {
        let (sender, reports) = channel();
        let daemon = Daemon::start(beside, args.plain)?;
        Ok(Self {
            library: (!args.plain).then_some(library),
            rest: args.rest.to_string(),
            daemon_held: daemon.held_at_first(),
            daemon,
            workers: Vec::new(),
            connections: BTreeMap::new(),
            children: BTreeMap::new(),
            sender,
            reports,
            chance: args.seed,
            next: 1,
            faults: 0,
            counts: Counts::default(),
        })
    }

    fn start_worker(&mut self) -> io::Result<()> {
        let mut command = Command::new(std::env::current_exe()?);
        command
            .args(["--worker", "--rest", &self.rest])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .env_remove("LD_PRELOAD");
        if let Some(library) = &self.library {
            command
                .env("LD_PRELOAD", library)
                .env("WEFT_SOCKETS", "eager")
                .env("WEFT_DAEMON", &self.daemon.address);
        }
        let mut child = command.spawn()?;
        let stdout = child.stdout.take().ok_or_else(|| io::Error::other("no pipe"))?;
        let (number, sender) = (self.workers.len(), self.sender.clone());
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send((number, line)).is_err() {
                    return;
                }
            }
        });
        self.workers.push(Some(Worker { child, port: None, is_stopped: false, held: None }));
        Ok(())
    }

    /// Brings the number of connections up to the wanted one, between workers that run.
    fn connect(&mut self, wanted: usize) -> io::Result<()> {
        for _ in self.connections.len()..wanted {
            let running: Vec<usize> = self.running(|worker| worker.port.is_some() && !worker.is_stopped);
            if running.is_empty() {
                return Ok(());
            }
            let workers = [0, 1].map(|_| running[self.below(running.len())]);
            let Some(port) = self.workers[workers[1]].as_ref().and_then(|worker| worker.port) else {
                continue;
            };
            let id = self.next;
            self.next += 1;
            self.connections.insert(id, Connection { workers, ended: 0 });
            self.counts.connections += 1;
            let is_shared = self.below(SHARED) == 0;
            self.counts.shared += u64::from(is_shared);
            let order = if is_shared { "share" } else { "connect" };
            self.tell(workers[0], &format!("{order} {id} {port}"));
        }
        Ok(())
    }

    /// Kills or stops somebody, or nobody.
    fn disturb(&mut self, args: &Args) -> io::Result<()> {
        let living = self.running(|_| true);
        let victim = living[self.below(living.len())];
        match self.below(40) {
            0 | 1 => {
                // Its connections may break from now on.
                if let Some(mut worker) = self.workers[victim].take() {
                    let _gone = worker.child.kill();
                    let _reaped = worker.child.wait();
                    self.counts.kills += 1;
                    self.connections.retain(|_, connection| !connection.workers.contains(&victim));
                    self.start_worker()?;
                }
            }
            2 | 3 => self.signal(victim, Signal::STOP),
            4..=12 => {
                for worker in living {
                    self.signal(worker, Signal::CONT);
                }
            }
            13 => self.tell(victim, "spawn"),
            14 if !args.plain && !args.spare_daemon => {
                self.count_upgrades();
                self.daemon.restart()?;
                self.counts.restarts += 1;
            }
            15..=17 => self.kill_child(),
            _ => {}
        }
        Ok(())
    }

    fn kill_child(&mut self) {
        let at = self.below(self.children.len());
        let Some((&child, &id)) = self.children.iter().nth(at) else { return };
        let pid = i32::try_from(child).ok().and_then(Pid::from_raw);
        if pid.is_some_and(|pid| kill_process(pid, Signal::KILL).is_ok()) {
            self.counts.children += 1;
            self.connections.remove(&id);
        }
        self.children.remove(&child);
    }

    fn signal(&mut self, worker: usize, signal: Signal) {
        let Some(worker) = &mut self.workers[worker] else { return };
        let is_stop = signal == Signal::STOP;
        if worker.is_stopped != is_stop
            && let Some(pid) = i32::try_from(worker.child.id()).ok().and_then(Pid::from_raw)
            && kill_process(pid, signal).is_ok()
        {
            worker.is_stopped = is_stop;
            self.counts.stops += u64::from(is_stop);
        }
    }

    /// Takes reports for so long.
    #[expect(clippy::disallowed_methods, reason = "reports come in real time")]
    fn listen(&mut self, time: Duration) {
        let until = Instant::now() + time;
        loop {
            match self.reports.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok((worker, line)) => self.handle(worker, &line),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn handle(&mut self, number: usize, line: &str) {
        let mut words = line.split(' ');
        let (kind, value) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let Some(id) = value.parse::<u64>().ok().filter(|_| kind != "finished") else { return };
        match kind {
            "port" => {
                if let Some(worker) = &mut self.workers[number] {
                    worker.port = u16::try_from(id).ok();
                    worker.held = Held::of(worker.child.id());
                }
                return;
            }
            "child" => {
                let child = u32::try_from(id).unwrap_or_default();
                self.children.insert(child, words.next().and_then(|id| id.parse().ok()).unwrap_or_default());
                return;
            }
            "left" => {
                self.children.remove(&u32::try_from(id).unwrap_or_default());
                return;
            }
            "over" => self.counts.whole += 1,
            // The client was killed before it had said which connection this is.
            "broken" if id == 0 => return,
            // A worker of it was killed.
            "broken" if !self.connections.contains_key(&id) => self.counts.broken += 1,
            _ => {
                let address = words.next_back().unwrap_or("none");
                let known = if kind == "stall" { self.daemon.connection(address) } else { String::new() };
                self.fault(&format!("worker {number}: {line} {known}"));
            }
        }
        if kind != "stall"
            && let Some(connection) = self.connections.get_mut(&id)
        {
            connection.ended += 1;
            if connection.ended == 2 {
                self.connections.remove(&id);
            }
        }
    }

    /// Has all survivors finish their connections, and looks at what is left.
    fn finish(&mut self) -> io::Result<()> {
        for worker in self.running(|_| true) {
            self.signal(worker, Signal::CONT);
        }
        // What was told to connect has done so by then, or its worker has a full queue and does it before it finishes.
        self.listen(Duration::from_millis(500));
        let survivors = self.running(|worker| worker.port.is_some());
        survivors.iter().for_each(|worker| self.tell(*worker, "finish"));
        self.wait_for(&survivors, "finished", true);
        self.count_upgrades();
        self.look_at(&survivors);
        for worker in survivors {
            self.tell(worker, "exit");
            if let Some(mut worker) = self.workers[worker].take()
                && !worker.child.wait()?.success()
            {
                self.fault("a worker ended with a failure");
            }
        }
        self.look_at_daemon();
        Ok(())
    }

    /// Waits until all of these workers have said so, and their children have left if that is wanted.
    fn wait_for(&mut self, workers: &[usize], word: &str, with_children: bool) {
        let mut waiting = workers.to_vec();
        while !waiting.is_empty() || with_children && !self.children.is_empty() {
            let Ok((worker, line)) = self.reports.recv_timeout(PATIENCE) else {
                let children = self.children.clone();
                return self.fault(&format!("not {word}: workers {waiting:?}, or children {children:?}"));
            };
            waiting.retain(|other| *other != worker || line != word);
            self.handle(worker, &line);
        }
    }

    /// A survivor may hold a link and doorbells for each of the others, and nothing for the dead. It hears of the dead
    /// at its next calls.
    fn look_at(&mut self, survivors: &[usize]) {
        let mut faults = Vec::new();
        for _ in 0..LOOKS {
            survivors.iter().for_each(|worker| self.tell(*worker, "settle"));
            self.wait_for(survivors, "settled", false);
            faults = survivors.iter().filter_map(|worker| self.excess(*worker, survivors.len())).collect();
            if faults.is_empty() {
                break;
            }
            std::thread::sleep(LOOK);
        }
        let held = survivors.iter().filter_map(|worker| Held::of(self.workers[*worker].as_ref()?.child.id()));
        self.counts.survivor = held.max_by_key(|held| (held.descriptors, held.shared));
        self.counts.survivors = survivors.len();
        faults.iter().for_each(|fault| self.fault(fault));
    }

    /// Adds what this daemon has counted.
    fn count_upgrades(&mut self) {
        let sums = self.daemon.sums();
        let count = |name: &str| sums[name].as_u64().unwrap_or_default();
        self.counts.ring += count("octets_out");
        self.counts.eligible += count("eligible");
        self.counts.upgraded += count("upgraded");
    }

    /// Tells what a survivor holds if that is too much.
    fn excess(&self, number: usize, neighbours: usize) -> Option<String> {
        let worker = self.workers[number].as_ref()?;
        let (before, now) = (worker.held.as_ref()?, Held::of(worker.child.id())?);
        let is_well = now.memfds <= neighbours + OWN_MEMORY
            && now.eventfds <= DOORBELLS * (neighbours + 1)
            && now.descriptors <= before.descriptors + now.memfds + now.eventfds + OWN_DESCRIPTORS
            && now.shared <= before.shared + LINK_KIB * neighbours as u64;
        (!is_well).then(|| format!("worker {number} holds {now}; it began with {before}"))
    }

    /// The daemon may hold nothing for processes that have gone.
    fn look_at_daemon(&mut self) {
        let Some(before) = self.daemon_held.take() else { return };
        let mut left = None;
        for _ in 0..LOOKS {
            left = self.daemon.held();
            let is_well = left.as_ref().is_some_and(|left| {
                left.descriptors <= before.descriptors && left.memfds == 0 && left.eventfds == 0
            });
            if is_well {
                break;
            }
            std::thread::sleep(LOOK);
        }
        let is_well = left.as_ref().is_some_and(|left| {
            left.descriptors <= before.descriptors
                && left.own <= before.own + DAEMON_KIB
                && left.shared <= before.shared
        });
        if !is_well {
            let left = left.as_ref().map_or_else(String::new, ToString::to_string);
            self.fault(&format!("the daemon holds {left} for nobody; it began with {before}"));
        }
        self.counts.daemon = left;
    }

    fn fault(&mut self, text: &str) {
        self.faults += 1;
        if self.faults <= 20 {
            // The exit status tells it, too.
            let _unread = writeln!(io::stdout(), "FAULT: {text}");
        }
    }

    fn tell(&mut self, worker: usize, line: &str) {
        if let Some(stdin) = self.workers[worker].as_mut().and_then(|worker| worker.child.stdin.as_mut()) {
            // A worker that has gone is noticed by what it does not report.
            let _gone = writeln!(stdin, "{line}");
        }
    }

    fn running(&self, is_wanted: impl Fn(&Worker) -> bool) -> Vec<usize> {
        let workers = self.workers.iter().enumerate();
        workers
            .filter(|(_, worker)| worker.as_ref().is_some_and(&is_wanted))
            .map(|(number, _)| number)
            .collect()
    }

    fn below(&mut self, limit: usize) -> usize {
        self.chance = self.chance.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        usize::try_from(self.chance >> 33).unwrap_or_default() % limit.max(1)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        for worker in self.workers.iter_mut().flatten() {
            let _ended = worker.child.kill();
            let _reaped = worker.child.wait();
        }
    }
}

/// One of so many connections is shared by fork.
const SHARED: usize = 6;
/// Memfds of a process beside its links: its ends, and its page.
const OWN_MEMORY: usize = 2;
/// Doorbells of a process for each neighbour at most: one for each of its threads.
const DOORBELLS: usize = 64;
/// Other descriptors of a process's own: its port, and what the library opens for a moment.
const OWN_DESCRIPTORS: usize = 4;
/// Memory that a link may keep for each neighbour, in KiB, beside rings, which are given back.
const LINK_KIB: u64 = 1024;
/// Memory that the daemon's allocator may keep, in KiB.
const DAEMON_KIB: u64 = 8192;
/// What is not as it should be is looked at again, so often.
const LOOKS: u32 = 100;
const LOOK: Duration = Duration::from_millis(50);
/// Nothing is reported for so long at the end only if something hangs.
const PATIENCE: Duration = Duration::from_secs(60);
