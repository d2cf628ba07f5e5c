//! Two hosts on a seeded path, against what each has written.

use weft_tcp::{Cause, Config, Flags, Micros, Segment, Seq, State};

use crate::host::{Host, Role};
use crate::path::{Path, Random};

/// Lives of a pair: both write, read, pause and close, and their devices are full now and then.
#[test]
fn all_octets_arrive_once_and_both_sides_end() {
    let seeds = std::env::var("WEFT_TCP_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(200);
    let mut most = Micros(0);
    for seed in 0..seeds {
        let result = std::panic::catch_unwind(|| Pair::new(seed).run());
        match result {
            Ok(Ok(end)) => most = most.max(end),
            Ok(Err(failure)) => panic!("seed {seed}: {failure}"),
            Err(_) => panic!("seed {seed}"),
        }
    }
    assert!(most > REPAIR, "no life was long: {most:?}");
}

enum Action {
    Write(u32),
    Read(bool),
    Full(bool),
    Close,
}

struct Pair {
    now: Micros,
    hosts: [Host; 2],
    /// What a host has sent is on the path of its number.
    paths: [Path; 2],
    plan: Vec<(Micros, usize, Action)>,
    /// What each host writes in all, and which octets of it the other one has taken.
    written: [u32; 2],
    taken: [Vec<bool>; 2],
    /// The scale in the SYN of each host, and the right edge that it has told.
    scales: [Option<u8>; 2],
    edges: [Option<Seq>; 2],
}

impl Pair {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed + 1);
        let paths = [Path::new(&mut random), Path::new(&mut random)];
        let isns = [Seq(u32::MAX - 5_000), Seq(u32::MAX - 100_000), Seq(0), Seq(3_000_000_000)];
        let hosts = [0, 1].map(|_| {
            let mut host = Host::new(config(&mut random), random.one_of(&isns));
            host.records = random.one_of(&[1024, 1024, 8]);
            host.intervals = random.one_of(&[64, 64, 2]);
            host
        });
        let mut written = [0; 2];
        let mut plan = Vec::new();
        for side in [0, 1] {
            let mut at = 10_000;
            for _ in 0..random.below(12) {
                at += random.one_of(&[0, 100, 10_000, 700_000]);
                let octets = 1 + random.one_of(&[1, 100, 3_000, 60_000]) * u32::from(random.chance(90));
                written[side] += octets;
                plan.push((Micros(at), side, Action::Write(octets)));
                let pause = random.below(2_000_000);
                if random.chance(20) {
                    plan.push((Micros(at), 1 - side, Action::Read(false)));
                    plan.push((Micros(at + pause), 1 - side, Action::Read(true)));
                }
                if random.chance(10) {
                    plan.push((Micros(at), side, Action::Full(true)));
                    plan.push((Micros(at + pause / 10), side, Action::Full(false)));
                }
            }
            plan.push((Micros(at + random.below(1_000_000)), side, Action::Close));
        }
        plan.sort_by_key(|(at, ..)| *at);
        let taken = written.map(|octets| vec![false; octets as usize]);
        let mut pair =
            Self { now: Micros(0), hosts, paths, plan, written, taken, scales: [None; 2], edges: [None; 2] };
        pair.open(&mut random);
        pair
    }

    fn open(&mut self, random: &mut Random) {
        let is_faithful = self.paths.iter().all(Path::is_faithful);
        self.hosts[0].connect(self.now);
        if random.chance(10) {
            self.hosts[1].connect(self.now);
        } else {
            self.hosts[1].listen();
            // A cookie needs the first segment after the SYN.
            self.hosts[1].backlog = usize::from(!is_faithful || random.chance(50));
        }
    }

    /// Runs to the end. Returns when it was.
    fn run(mut self) -> Result<Micros, String> {
        for _ in 0..400_000 {
            for side in [0, 1] {
                self.hosts[side].transmit(self.now);
                self.carry(side)?;
            }
            if self.is_over() {
                return self.settle();
            }
            let times = [0, 1].map(|side| {
                let timeout = self.hosts[side].next_timeout().filter(|_| !self.hosts[side].is_full);
                [timeout, self.paths[side].next_arrival()].into_iter().flatten().min()
            });
            let planned = self.plan.first().map(|(at, ..)| *at);
            let next = times.into_iter().chain([planned]).flatten().min();
            self.now = self.now.max(next.ok_or_else(|| format!("nothing happens any more: {self:?}"))?);
            if self.now > REPAIR {
                self.paths.iter_mut().for_each(Path::repair);
            }
            if self.now > END {
                return Err(format!("it does not end: {self:?}"));
            }
            self.happen()?;
        }
        Err(format!("too much happens: {self:?}"))
    }

    /// Does what is due now.
    fn happen(&mut self) -> Result<(), String> {
        let now = self.now;
        while self.plan.first().is_some_and(|(at, ..)| *at <= now) {
            let (_, side, action) = self.plan.remove(0);
            self.act(side, action)?;
        }
        for side in [0, 1] {
            while let Some(segment) = self.paths[1 - side].receive(now) {
                self.hosts[side].arrive(&segment, now);
                self.note_taken(side)?;
            }
            if self.hosts[side].next_timeout().is_some_and(|at| at <= now) {
                self.hosts[side].expire(now);
            }
        }
        Ok(())
    }

    fn act(&mut self, side: usize, action: Action) -> Result<(), String> {
        let (now, host) = (self.now, &mut self.hosts[side]);
        let is_open = matches!(&host.role, Role::Open(_));
        let is_opening = is_open && host.connection()?.state() == State::SynSent;
        match action {
            // The passive side is not there yet, and the active one would give up.
            Action::Write(_) | Action::Close if !is_open || is_opening => {
                let later = now + Micros(50_000);
                self.plan.insert(0, (later, side, action));
                for (at, other, _) in &mut self.plan {
                    *at = if *other == side { later.max(*at) } else { *at };
                }
                self.plan.sort_by_key(|(at, ..)| *at);
            }
            Action::Write(octets) => host.write(octets, now)?,
            Action::Close => {
                let effects = host.connection()?.close(now);
                host.take(Segment::new(Seq(0), None), effects, now);
            }
            Action::Full(is_full) => host.is_full = is_full,
            Action::Read(reads) => {
                host.reads = reads;
                let unread = host.unread;
                if reads && is_open {
                    host.read(unread, now)?;
                }
            }
        }
        Ok(())
    }

    /// Checks what a host has sent, and puts it on its path.
    fn carry(&mut self, side: usize) -> Result<(), String> {
        for (at, segment) in std::mem::take(&mut self.hosts[side].gone) {
            let is_syn = segment.flags.has(Flags::SYN);
            if is_syn {
                self.scales[side] = segment.options.window_scale;
            }
            let is_scaled = !is_syn && self.scales.iter().all(Option::is_some);
            let scale = self.scales[side].filter(|_| is_scaled).unwrap_or(0);
            if let Some(ack) = segment.ack.filter(|_| !segment.flags.has(Flags::RST)) {
                let edge = ack + (u32::from(segment.window) << scale);
                if self.edges[side].is_some_and(|before| edge.is_before(before)) {
                    return Err(format!("the window of {side} shrinks: {segment:?}"));
                }
                self.edges[side] = Some(edge);
            }
            let is_beyond =
                self.edges[1 - side].is_some_and(|edge| edge.is_before(segment.data() + segment.len));
            if is_beyond && segment.len > 1 {
                return Err(format!("{side} sends beyond the window: {segment:?}"));
            }
            self.paths[side].send(segment, at);
        }
        Ok(())
    }

    /// Checks that what a host has taken is new.
    fn note_taken(&mut self, side: usize) -> Result<(), String> {
        let first = self.hosts[1 - side].iss + 1;
        for (start, len) in std::mem::take(&mut self.hosts[side].pieces) {
            for octet in start.since(first)..start.since(first) + len {
                match self.taken[1 - side].get_mut(octet as usize) {
                    Some(taken) if !*taken => *taken = true,
                    _ => return Err(format!("{side} takes {octet} twice, or it was not written")),
                }
            }
        }
        let received = self.hosts[side].received as usize;
        if self.taken[1 - side].get(..received).is_none_or(|taken| taken.contains(&false)) {
            return Err(format!("{side} has {received} octets, and some are missing"));
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        let is_ended = |host: &Host| matches!(host.role, Role::Closed | Role::Waiting(_));
        self.plan.is_empty() && self.hosts.iter().all(is_ended)
    }

    fn settle(self) -> Result<Micros, String> {
        for side in [0, 1] {
            let (host, other) = (&self.hosts[side], &self.hosts[1 - side]);
            let is_finished =
                matches!((&host.role, host.cause), (Role::Waiting(_), None) | (_, Some(Cause::Finished)));
            if !is_finished
                || other.received != self.written[side]
                || host.released as usize != host.frames.len()
            {
                return Err(format!("host {side}: {self:?}"));
            }
        }
        Ok(self.now)
    }
}

impl std::fmt::Debug for Pair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "at {:?}, {:?} written", self.now, self.written)?;
        for host in &self.hosts {
            let state = match &host.role {
                Role::Open(connection) => format!("{:?}", connection.state()),
                Role::Waiting(_) => "TimeWait".into(),
                Role::Listening(_) => "Listen".into(),
                Role::Closed => "Closed".into(),
            };
            write!(f, "; {state} {:?}: {} received, ", host.cause, host.received)?;
            write!(f, "{} of {} frames released", host.released, host.frames.len())?;
        }
        Ok(())
    }
}

fn config(random: &mut Random) -> Config {
    let mut config = Config::new(1500, false);
    config.mss = random.one_of(&[1460, 1460, 100, 8_960]);
    config.timestamps = random.chance(70);
    config.sack = random.chance(80);
    config.window_scaling = random.chance(70);
    config.ecn = random.chance(30);
    config.timeout = None;
    config.keep_alive = random.chance(20).then_some(Micros::from_secs(1));
    config.receive.window = random.one_of(&[65_536, 65_536, 3_000]);
    config.receive.window_max = random.one_of(&[4 << 20, 65_535, 3_000]);
    config.send.pacing = random.chance(50);
    config
}

/// The path is good from here on.
const REPAIR: Micros = Micros::from_secs(8);
/// All has to be over.
const END: Micros = Micros::from_secs(300);
