//! Plays a script in both worlds and compares the results.

use std::path::Path;

use crate::model::{Actor, End, Model};
use crate::script::{Chance, Kind, Script, Step};
use crate::stream;
use crate::worlds::{Fault, Library, Worlds, differ};

/// What came of scripts.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) seeds: u64,
    pub(crate) calls: u64,
    /// Receives that took less in one world.
    pub(crate) short: u64,
    /// Edges that were told once more with the library.
    pub(crate) extra: u64,
    pub(crate) connections: u64,
    pub(crate) ringed: u64,
    pub(crate) octets: u64,
    /// Octets that the kernel's TCP has not carried.
    pub(crate) ring: u64,
    pub(crate) fault: Option<Fault>,
    pub(crate) log: Vec<String>,
}

/// A script that is being played.
pub(crate) struct Play {
    pub(crate) worlds: Worlds,
    pub(crate) model: Model,
    pub(crate) outcome: Outcome,
}

/// Plays a script. The folder is for this run alone.
pub(crate) fn play(script: &Script, folder: &Path, library: &Library) -> Outcome {
    let mut play =
        Play { worlds: Worlds::new(folder, library), model: Model::default(), outcome: Outcome::default() };
    let fault = play.all(script).err();
    let mut outcome = play.outcome;
    outcome.calls = play.worlds.log.len() as u64;
    outcome.log = core::mem::take(&mut play.worlds.log);
    let mains: Vec<usize> = play.model.mains();
    outcome.fault = fault.or_else(|| play.worlds.finish(&mains).err());
    outcome
}

impl Outcome {
    /// Adds the counts of another outcome.
    pub(crate) fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.short += other.short;
        self.extra += other.extra;
        self.connections += other.connections;
        self.ringed += other.ringed;
        self.octets += other.octets;
        self.ring += other.ring;
    }
}

impl Play {
    fn all(&mut self, script: &Script) -> Result<(), Fault> {
        self.model.has_programs = script.has_programs;
        for process in 0..script.processes {
            let main = self.worlds.start_agent()?;
            self.model.actors.push(Actor { channel: main, process });
            self.model.processes += 1;
            for _ in 1..script.threads {
                let channel = self.worlds.start("thread", main)?;
                self.model.actors.push(Actor { channel, process });
            }
        }
        for step in &script.steps {
            self.worlds.log.push(format!("step {} {:?}", step.number, step.kind));
            self.step(step)?;
        }
        self.count();
        Ok(())
    }

    fn step(&mut self, step: &Step) -> Result<(), Fault> {
        let mut chance = step.chance.clone();
        let chance = &mut chance;
        match step.kind {
            Kind::Connect => self.connect(chance),
            Kind::Turns => self.turns(chance),
            Kind::Send => self.on_end(chance, Self::send),
            Kind::Receive => self.on_end(chance, Self::receive),
            Kind::Transfer => self.transfer(chance),
            Kind::Blocked => self.blocked(chance),
            Kind::Poll => self.poll(chance),
            Kind::EpollCreate => self.epoll_create(chance),
            Kind::EpollControl => self.epoll_control(chance),
            Kind::EpollWait => self.epoll_wait(chance),
            Kind::Blocking => self.on_end(chance, Self::blocking),
            Kind::Option => self.on_end(chance, Self::option),
            Kind::Question => self.on_end(chance, Self::question),
            Kind::Urgent => self.urgent(chance),
            Kind::Duplicate => self.on_end(chance, Self::duplicate),
            Kind::Close => self.on_end(chance, Self::close),
            Kind::Shutdown => self.on_end(chance, Self::shutdown),
            Kind::Fork => self.fork(chance),
            Kind::Exec => self.exec(chance),
            Kind::Pass => self.on_end(chance, Self::pass),
            Kind::Signal => self.signal(chance),
        }
    }

    fn on_end(
        &mut self,
        chance: &mut Chance,
        act: fn(&mut Self, usize, &mut Chance) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        match self.model.end(chance) {
            Some(end) => act(self, end, chance),
            None => Ok(()),
        }
    }

    fn connect(&mut self, chance: &mut Chance) -> Result<(), Fault> {
        if self.model.ends.len() >= 6 {
            return Ok(());
        }
        let processes = [0, 1].map(|_| chance.below(self.model.processes as u64) as usize);
        let [server, client] = processes.map(|process| self.model.channel(process, chance));
        let family = chance.pick(&[4, 4, 6]);
        let command = format!("listen {family}");
        let listeners = self.worlds.ask(server, &command)?;
        let split = |answer: &str| answer.split_once(' ').map(|(fd, port)| (fd.to_owned(), port.to_owned()));
        let [Some(plain), Some(weft)] = [&listeners[0], &listeners[1]].map(|answer| split(answer)) else {
            return Err(differ(&command, &listeners[0], &listeners[1]));
        };
        if plain.0 != weft.0 {
            return Err(differ(&command, &plain.0, &weft.0));
        }
        let fds = [plain.1, weft.1].map(|port| format!("connect {family} {port}"));
        let fds = [self.worlds.ask_in(0, client, &fds[0])?, self.worlds.ask_in(1, client, &fds[1])?];
        if fds[0] != fds[1] {
            return Err(differ("connect", &fds[0], &fds[1]));
        }
        let flags = chance.pick(&[0, 0, libc::SOCK_NONBLOCK, libc::SOCK_CLOEXEC]);
        let accepted = self.worlds.same(server, &format!("accept {} {flags}", plain.0))?;
        self.worlds.same(server, &format!("close {}", plain.0))?;
        for (process, fd, has_connected) in [(processes[1], &fds[0], true), (processes[0], &accepted, false)]
        {
            let is_blocking = has_connected || flags != libc::SOCK_NONBLOCK;
            let fd = fd.parse().map_err(|_| format!("connect or accept returned {fd}"))?;
            self.model.ends.push(End::new((process, fd), is_blocking, has_connected));
        }
        Ok(())
    }

    /// Short messages to and fro, as they have to be for an upgrade.
    fn turns(&mut self, chance: &mut Chance) -> Result<(), Fault> {
        let Some(end) = self.model.whole_end(chance) else { return Ok(()) };
        for turn in 0..2 + chance.below(5) {
            for end in [end, end ^ 1] {
                self.send(end, chance)?;
                self.drain(end ^ 1, chance)?;
            }
            if turn % 2 == 0 {
                let (channel, _) = self.model.user(end, chance);
                self.worlds.same(channel, &format!("sleep {}", chance.pick(&[0, 500, 3000])))?;
            }
        }
        Ok(())
    }

    pub(crate) fn send(&mut self, end: usize, chance: &mut Chance) -> Result<(), Fault> {
        let in_flight = self.model.unread(end ^ 1);
        let mut left = WINDOW.saturating_sub(in_flight);
        let parts = if chance.once_in(12) { 1 + chance.below(3) } else { 0 };
        for _ in 0..parts {
            let len = chance.len(left.min(2000));
            left -= len;
            self.send_by(end, libc::MSG_MORE, len, chance)?;
        }
        let len = chance.len(left).max(parts.min(1));
        self.send_by(end, 0, len, chance)
    }

    /// Sends at least one octet, in one call without a flag.
    pub(crate) fn send_some(&mut self, end: usize, chance: &mut Chance) -> Result<(), Fault> {
        let len = chance.len(4000).max(1);
        self.send_by(end, 0, len, chance)
    }

    fn send_by(&mut self, end: usize, flag: i32, len: u64, chance: &mut Chance) -> Result<(), Fault> {
        let hows = if flag == 0 { &SENDS[..] } else { &WITH_FLAGS[..] };
        let (channel, fd) = self.model.user(end, chance);
        let how = chance.pick(hows);
        // An empty pipe would block.
        let how = if len == 0 && how == "splice" { "send" } else { how };
        let flags = flag | chance.pick(&[0, libc::MSG_NOSIGNAL, libc::MSG_DONTWAIT]);
        // A reset may come between two messages.
        let pieces = if self.model.ends[end].is_odd { 1 } else { 1 + chance.below(4) };
        let position = self.model.ends[end].written;
        let command = format!("out {fd} {how} {flags} {len} {pieces} {end} {position}");
        let answer = self.worlds.same(channel, &command)?;
        let is_whole = !self.model.ends[end].is_finished && !self.model.ends[end].is_odd;
        match answer.parse::<u64>() {
            Ok(sent) => self.model.ends[end].written += sent,
            Err(_) if is_whole && self.model.is_open(end ^ 1) => {
                return Err(format!("{command}: both say {answer}"));
            }
            Err(_) => {}
        }
        // A peer that is closed, or has shut down, answers with a reset, which takes a moment.
        if !self.model.is_open(end ^ 1) || self.model.ends[end].is_odd {
            self.model.make_odd(end);
            self.settle_reset(end, chance)?;
        }
        Ok(())
    }

    pub(crate) fn settle_reset(&mut self, end: usize, chance: &mut Chance) -> Result<(), Fault> {
        let (channel, fd) = self.model.user(end, chance);
        self.until_same(
            channel,
            &format!("poll poll 0 {fd} {}", libc::POLLIN | libc::POLLOUT | libc::POLLRDHUP),
        )
    }

    /// More than any buffer holds, at once or in two threads.
    fn transfer(&mut self, chance: &mut Chance) -> Result<(), Fault> {
        let Some(end) = self.model.whole_end(chance) else { return Ok(()) };
        let peer = end ^ 1;
        if self.model.ends[peer].low_water > 1 {
            return Ok(());
        }
        self.drain(peer, chance)?;
        let len = 20_000 + chance.below(chance.clone().pick(&[40_000, 100_000, 400_000]));
        let chunk = chance.pick(&[700, 4096, 10_000, 16_384]);
        let position = self.model.ends[end].written;
        let hash = stream::hash_of(end as i64, position, len);
        let wanted = format!("{len} {hash:x}");
        let (command, answers) = match self.model.users([end, peer], chance) {
            Some([(sender, out), (receiver, inward)]) => {
                let how =
                    chance.pick(&["write", "send", "writev", "sendmsg", "sendfile", "splice", "sendmmsg"]);
                let push = format!("push {out} {how} {len} {chunk} {end} {position}");
                let how = chance.pick(&["read", "recv", "readv", "recvmsg", "splice"]);
                let pull = format!("pull {inward} {how} {len} {chunk}");
                self.worlds.tell(sender, &push)?;
                self.worlds.tell(receiver, &pull)?;
                let answers = self.worlds.answers(receiver, &pull)?;
                let sent = self.worlds.answers(sender, &push)?;
                if sent[0] != sent[1] {
                    return Err(differ(&push, &sent[0], &sent[1]));
                }
                (pull, answers)
            }
            None => {
                let (out, inward) = (self.model.ends[end].fds[0], self.model.ends[peer].fds[0]);
                if out.0 != inward.0 {
                    return Ok(());
                }
                let channel = self.model.channel(out.0, chance);
                let command = format!("pump {} {} {len} {chunk} {end} {position}", out.1, inward.1);
                let answers = self.worlds.ask(channel, &command)?;
                (command, answers)
            }
        };
        if answers.iter().any(|answer| *answer != wanted) {
            return Err(format!("{command}: wanted is {wanted}; {}", differ("", &answers[0], &answers[1])));
        }
        self.model.ends[end].written += len;
        self.model.ends[peer].read += len;
        Ok(())
    }

    fn blocking(&mut self, end: usize, chance: &mut Chance) -> Result<(), Fault> {
        let (channel, fd) = self.model.user(end, chance);
        let is_blocking = !self.model.ends[end].is_blocking;
        let flags = libc::O_RDWR | if is_blocking { 0 } else { libc::O_NONBLOCK };
        let command = match chance.below(2) {
            0 => format!("fcntl {fd} {} {flags}", libc::F_SETFL),
            _ => format!("ioctl {fd} {} {}", libc::FIONBIO, i32::from(!is_blocking)),
        };
        self.model.ends[end].is_blocking = is_blocking;
        self.worlds.same(channel, &command).map(drop)
    }

    fn option(&mut self, end: usize, chance: &mut Chance) -> Result<(), Fault> {
        let (channel, fd) = self.model.user(end, chance);
        let (level, name) = chance.pick(&[
            (libc::SOL_SOCKET, libc::SO_RCVTIMEO),
            (libc::SOL_SOCKET, libc::SO_SNDTIMEO),
            (libc::SOL_SOCKET, libc::SO_RCVLOWAT),
            (libc::SOL_SOCKET, libc::SO_LINGER),
            (libc::SOL_SOCKET, libc::SO_KEEPALIVE),
            (libc::IPPROTO_TCP, libc::TCP_NODELAY),
            (libc::IPPROTO_TCP, libc::TCP_CORK),
        ]);
        let is_socket = level == libc::SOL_SOCKET;
        let value = match name {
            libc::SO_RCVTIMEO | libc::SO_SNDTIMEO if is_socket => chance.pick(&[0, 15]),
            libc::SO_RCVLOWAT if is_socket => chance.pick(&[1, 1, 20]),
            libc::SO_LINGER if is_socket => chance.pick(&[-1, 0, 1]),
            _ => chance.pick(&[0, 1]),
        };
        if name == libc::TCP_CORK && !is_socket {
            if self.model.ends[end].is_odd || self.model.ends[end].is_finished || !self.model.is_open(end ^ 1)
            {
                return Ok(());
            }
            self.worlds.same(channel, &format!("setopt {fd} {level} {name} 1"))?;
            self.send(end, chance)?;
            self.send(end, chance)?;
            return self.worlds.same(channel, &format!("setopt {fd} {level} {name} 0")).map(drop);
        }
        let state = &mut self.model.ends[end];
        match name {
            libc::SO_RCVTIMEO if is_socket => state.is_timed = value > 0,
            libc::SO_RCVLOWAT if is_socket => state.low_water = value as u64,
            libc::SO_LINGER if is_socket => state.resets = value == 0,
            _ => {}
        }
        self.worlds.same(channel, &format!("setopt {fd} {level} {name} {value}")).map(drop)
    }

    fn question(&mut self, end: usize, chance: &mut Chance) -> Result<(), Fault> {
        let (channel, fd) = self.model.user(end, chance);
        match chance.below(4) {
            0 => self.worlds.same(channel, &format!("fcntl {fd} {} 0", libc::F_GETFL)).map(drop),
            // A reset drops what TCP has not sent yet, and a ring has sent all.
            1 if !self.model.ends[end].is_odd => {
                self.until_same(channel, &format!("ioctl {fd} {} 0", libc::FIONREAD))
            }
            // What a reader has not taken counts as sent for TCP, and not for a ring.
            2 if self.model.unread(end ^ 1) == 0 => {
                self.until_same(channel, &format!("ioctl {fd} {} 0", libc::TIOCOUTQ))
            }
            _ => {
                let name = chance.pick(&[libc::SO_ERROR, libc::SO_TYPE, libc::SO_RCVLOWAT, libc::SO_LINGER]);
                self.worlds.same(channel, &format!("getopt {fd} {} {name}", libc::SOL_SOCKET)).map(drop)
            }
        }
    }

    /// An octet beside the stream.
    fn urgent(&mut self, chance: &mut Chance) -> Result<(), Fault> {
        let Some(end) = self.model.whole_end(chance) else { return Ok(()) };
        self.drain(end ^ 1, chance)?;
        let (sender, out) = self.model.user(end, chance);
        let (receiver, inward) = self.model.user(end ^ 1, chance);
        self.worlds.same(sender, &format!("out {out} send {} 1 1 {end} 0", libc::MSG_OOB))?;
        self.worlds.same(receiver, &format!("poll poll 3000 {inward} {}", libc::POLLPRI))?;
        self.worlds.same(receiver, &format!("in {inward} recv {} 1 1", libc::MSG_OOB))?;
        // FIONREAD stops at the mark until an octet behind it has been read.
        self.send_by(end, 0, 1, chance)?;
        self.worlds.same(receiver, &format!("poll poll 3000 {inward} {}", libc::POLLIN))?;
        self.worlds.same(receiver, &format!("in {inward} recv 0 1 1"))?;
        self.model.ends[end ^ 1].read += 1;
        Ok(())
    }

    fn duplicate(&mut self, end: usize, chance: &mut Chance) -> Result<(), Fault> {
        let (process, fd) = chance.pick(&self.model.ends[end].fds);
        let channel = self.model.channel(process, chance);
        let spare = 40 + chance.below(8) as i32;
        let command = match chance.below(5) {
            0 => format!("dup {fd}"),
            1 => format!("dup2 {fd} {spare}"),
            2 => format!("dup3 {fd} {spare} {}", libc::O_CLOEXEC),
            3 => format!("fcntl {fd} {} {spare}", libc::F_DUPFD),
            _ => format!("fcntl {fd} {} {spare}", libc::F_DUPFD_CLOEXEC),
        };
        // Nothing else is there, or a duplicate of an end that has others.
        let is_free = |fd: i32| {
            let holders = self.model.ends.iter().filter(|end| end.fds.contains(&(process, fd)));
            holders.clone().all(|end| end.fds.len() > 1) && fd >= 40
        };
        if !is_free(spare) || spare == fd {
            return Ok(());
        }
        let answer = self.worlds.same(channel, &command)?;
        let Ok(new) = answer.parse::<i32>() else { return Ok(()) };
        for end in &mut self.model.ends {
            end.fds.retain(|held| *held != (process, new));
        }
        self.model.ends[end].fds.push((process, new));
        Ok(())
    }

    fn close(&mut self, end: usize, chance: &mut Chance) -> Result<(), Fault> {
        let (process, fd) = chance.pick(&self.model.ends[end].fds);
        self.close_descriptor(end, process, fd, chance)
    }

    pub(crate) fn close_descriptor(
        &mut self,
        end: usize,
        process: usize,
        fd: i32,
        chance: &mut Chance,
    ) -> Result<(), Fault> {
        let channel = self.model.channel(process, chance);
        self.arrive(end, chance)?;
        self.leave_sets(channel, process, fd)?;
        self.worlds.same(channel, &format!("close {fd}"))?;
        self.model.ends[end].fds.retain(|held| *held != (process, fd));
        if self.model.is_open(end) {
            return Ok(());
        }
        let is_reset = self.model.ends[end].resets || self.model.unread(end) > 0;
        self.model.ends[end].is_finished = true;
        if self.model.is_open(end ^ 1) {
            if is_reset {
                self.model.make_odd(end);
            }
            self.settle_reset(end ^ 1, chance)?;
        }
        Ok(())
    }

    /// The kernel tells of a closed descriptor as long as another one shows its socket: a set of the library's does not.
    fn leave_sets(&mut self, channel: usize, process: usize, fd: i32) -> Result<(), Fault> {
        let sets = self.model.sets.iter().filter(|set| set.processes == [process]);
        for set in sets.map(|set| set.fd).collect::<Vec<_>>() {
            self.worlds.same(channel, &format!("epctl {set} {} {fd} 0 0", libc::EPOLL_CTL_DEL))?;
        }
        Ok(())
    }

    /// Before an end stops to receive: octets on their way would decide by chance between an end and a reset.
    fn arrive(&mut self, end: usize, chance: &mut Chance) -> Result<(), Fault> {
        if self.model.is_open(end ^ 1) && self.model.unread(end) > 0 && !self.model.ends[end].is_odd {
            self.settle_all(end, chance)?;
        }
        Ok(())
    }

    fn shutdown(&mut self, end: usize, chance: &mut Chance) -> Result<(), Fault> {
        let (channel, fd) = self.model.user(end, chance);
        let how = chance.pick(&[libc::SHUT_WR, libc::SHUT_WR, libc::SHUT_RD, libc::SHUT_RDWR]);
        self.arrive(end, chance)?;
        self.worlds.same(channel, &format!("shutdown {fd} {how}"))?;
        let state = &mut self.model.ends[end];
        state.is_finished |= how != libc::SHUT_RD;
        if how != libc::SHUT_WR {
            self.model.make_odd(end);
        }
        if self.model.is_open(end ^ 1) { self.settle_reset(end ^ 1, chance) } else { Ok(()) }
    }

    /// Counts the octets that the kernel has not carried.
    fn count(&mut self) {
        for end in &self.model.ends {
            let Some((process, fd)) = end.fds.iter().find(|(process, _)| *process < self.worlds.agents())
            else {
                continue;
            };
            let Some(carried) = self.worlds.kernel_octets(*process, *fd) else { continue };
            // The octet of its SYN counts for the end that has connected.
            let ring = end.written.saturating_sub(carried.saturating_sub(end.has_connected.into()));
            self.outcome.connections += u64::from(end.has_connected);
            self.outcome.ringed += u64::from(end.has_connected && ring > 0);
            self.outcome.octets += end.written;
            self.outcome.ring += ring;
        }
    }
}

/// Octets that are on their way at most, outside of transfers.
const WINDOW: u64 = 16_384;
const WITH_FLAGS: [&str; 4] = ["send", "sendto", "sendmsg", "sendmmsg"];
const SENDS: [&str; 10] =
    ["write", "send", "sendto", "writev", "sendmsg", "sendmmsg", "pwritev2", "sendfile", "splice", "syscall"];
