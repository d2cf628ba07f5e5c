//! The steps that receive and wait.

use std::collections::BTreeMap;

use crate::model::Set;
use crate::play::Play;
use crate::script::Chance;
use crate::stream;
use crate::worlds::{Fault, differ};

/// A receive: the thread's channel, the descriptor, the function, its flags and the octets asked for.
struct Receive {
    channel: usize,
    end: usize,
    fd: i32,
    flags: i32,
    len: u64,
    command: String,
}

impl Play {
    pub(crate) fn receive(&mut self, end: usize, chance: &mut Chance) -> Result<(), Fault> {
        let (unread, state) = (self.model.unread(end), self.model.ends[end].clone());
        let is_ended = self.model.ends[end ^ 1].is_finished;
        let how = chance.pick(&RECEIVES);
        let has_flags = matches!(how, "recv" | "recvfrom" | "recvmsg" | "recvmmsg" | "syscall");
        let mut flags = if has_flags { chance.pick(&FLAGS) } else { 0 };
        let mut len = if chance.once_in(3) { unread } else { chance.len(20_000) };
        let never_blocks =
            !state.is_blocking || state.is_timed || is_ended || flags & libc::MSG_DONTWAIT != 0;
        let waits_for_all = flags & libc::MSG_WAITALL != 0 || state.low_water > 1;
        if waits_for_all && !never_blocks {
            len = len.min(unread);
        }
        let mut how = how;
        if unread == 0 && (!never_blocks || how == "splice") || state.is_odd {
            (how, flags) = ("recv", libc::MSG_DONTWAIT | flags & libc::MSG_PEEK);
        }
        if how == "splice" {
            len = len.clamp(1, 16_384);
        }
        if how == "recvmmsg" {
            // Each message would see the same octets.
            flags = flags & !libc::MSG_PEEK | libc::MSG_WAITFORONE;
        }
        if !state.is_odd && (unread > 0 || is_ended) && (is_ended || !never_blocks || !chance.once_in(4)) {
            self.settle(end, chance)?;
        }
        let (channel, fd) = self.model.user(end, chance);
        let command = format!("in {fd} {how} {flags} {len} {}", 1 + chance.below(4));
        let receive = Receive { channel, end, fd, flags, len, command };
        if !state.is_odd && unread > 0 && never_blocks {
            // Octets may still be on their way.
            self.settle(end, chance)?;
        }
        if state.is_odd {
            self.settle_reset(end, chance)?;
            return self.receive_odd(&receive);
        }
        let answers = self.worlds.ask(channel, &receive.command)?;
        self.compare(&receive, &answers)
    }

    /// Receives from a connection that may have been reset. A reset drops what TCP has not sent yet, and a ring has sent
    /// all: what more arrives is no fault, but from then on the two worlds differ.
    fn receive_odd(&mut self, receive: &Receive) -> Result<(), Fault> {
        let answers = self.worlds.ask(receive.channel, &receive.command)?;
        let len =
            |answer: &str| answer.split(' ').next().and_then(|len| len.parse::<i64>().ok()).unwrap_or(-1);
        let [plain, weft] = &answers;
        if plain == weft {
            return Ok(());
        }
        if len(weft) > len(plain).max(0) {
            self.model.ends[receive.end].is_lost = true;
            self.model.ends[receive.end ^ 1].is_lost = true;
            return Ok(());
        }
        if len(plain) < 1 {
            return Err(differ(&receive.command, plain, weft));
        }
        if receive.flags & libc::MSG_PEEK != 0 {
            return self.until_same(receive.channel, &receive.command);
        }
        // The rest is still on its way.
        let mut rest = len(plain) - len(weft).max(0);
        for _ in 0..PATIENCE {
            let command = format!("in {} recv {} {rest} 1", receive.fd, libc::MSG_DONTWAIT);
            rest -= len(&self.worlds.ask_in(1, receive.channel, &command)?).max(0);
            if rest == 0 {
                return Ok(());
            }
            self.worlds.ask_in(1, receive.channel, "sleep 2000")?;
        }
        Err(format!("{}: {rest} octets never arrive", receive.command))
    }

    /// Receives all that is there.
    pub(crate) fn drain(&mut self, end: usize, chance: &mut Chance) -> Result<(), Fault> {
        while self.model.unread(end) > 0 {
            self.settle(end, chance)?;
            let (channel, fd) = self.model.user(end, chance);
            let (len, how) =
                (self.model.unread(end), chance.pick(&["recv", "recvfrom", "recvmsg", "read", "readv"]));
            let flags = if how.starts_with("recv") {
                chance.pick(&[0, libc::MSG_WAITALL, libc::MSG_DONTWAIT])
            } else {
                0
            };
            let command = format!("in {fd} {how} {flags} {len} 1");
            let answers = self.worlds.ask(channel, &command)?;
            self.compare(&Receive { channel, end, fd, flags, len, command }, &answers)?;
        }
        Ok(())
    }

    /// Compares what two receives returned. The one that took less then takes the rest.
    fn compare(&mut self, receive: &Receive, answers: &[String; 2]) -> Result<(), Fault> {
        let taken = answers.each_ref().map(|answer| {
            answer.split_once(' ').and_then(|(len, hash)| Some((len.parse::<u64>().ok()?, hash.to_owned())))
        });
        let [plain, weft] = answers;
        let (Some(first), Some(second)) = (&taken[0], &taken[1]) else {
            return if plain == weft { Ok(()) } else { Err(differ(&receive.command, plain, weft)) };
        };
        let unread = self.model.unread(receive.end);
        let (stream, start) = (receive.end as i64 ^ 1, self.model.ends[receive.end].read);
        let is_discarded = receive.flags & libc::MSG_TRUNC != 0;
        for (len, hash) in [first, second] {
            let is_right = *len <= unread
                && (*len == 0
                    || is_discarded
                    || *hash == format!("{:x}", stream::hash_of(stream, start, *len)));
            if !is_right {
                let wrong = format!("{}: of {unread} octets from {start} on", receive.command);
                return Err(differ(&wrong, plain, weft));
            }
        }
        if first.0 != second.0 {
            let end = &self.model.ends[receive.end];
            let waits = end.is_blocking && !end.is_timed && receive.flags & libc::MSG_WAITALL != 0;
            let is_all = waits && first.0 == receive.len;
            if is_all || first.0 == 0 || second.0 == 0 {
                return Err(differ(&receive.command, plain, weft));
            }
            self.outcome.short += 1;
        }
        if receive.flags & libc::MSG_PEEK != 0 {
            return Ok(());
        }
        let most = first.0.max(second.0);
        for (world, mut done) in [first.0, second.0].into_iter().enumerate() {
            while done < most {
                done += self.take_rest(world, receive, start + done, most - done)?;
            }
        }
        self.model.ends[receive.end].read += most;
        Ok(())
    }

    /// Receives in one world what the other one has received already.
    fn take_rest(&mut self, world: usize, receive: &Receive, start: u64, len: u64) -> Result<u64, Fault> {
        let command = format!("in {} recv {} {len} 1", receive.fd, libc::MSG_DONTWAIT);
        for _ in 0..PATIENCE {
            let answer = self.worlds.ask_in(world, receive.channel, &command)?;
            let taken = answer.split_once(' ').and_then(|(len, hash)| Some((len.parse::<u64>().ok()?, hash)));
            match taken {
                Some((taken, hash)) if taken > 0 => {
                    let wanted = format!("{:x}", stream::hash_of(receive.end as i64 ^ 1, start, taken));
                    return if hash == wanted {
                        Ok(taken)
                    } else {
                        Err(format!("{command}: {answer}, wanted {wanted}"))
                    };
                }
                Some(_) => return Err(format!("{command}: the stream ends too early")),
                None => self.worlds.ask_in(world, receive.channel, "sleep 2000")?,
            };
        }
        Err(format!("{command}: {len} octets from {start} on never arrive"))
    }

    /// Waits until all octets, or the end, have arrived in both worlds, in one of the ways that programs have.
    pub(crate) fn settle(&mut self, end: usize, chance: &mut Chance) -> Result<(), Fault> {
        let (channel, fd) = self.model.user(end, chance);
        let unread = self.model.unread(end);
        if unread > 0 && self.model.ends[end].low_water == 1 && chance.once_in(3) {
            return self.worlds.same(channel, &format!("poll poll 3000 {fd} {}", libc::POLLIN)).map(drop);
        }
        if unread == 0 {
            return self
                .worlds
                .same(channel, &format!("poll poll 3000 {fd} {}", libc::POLLIN | libc::POLLRDHUP))
                .map(drop);
        }
        self.settle_all(end, chance)
    }

    /// Waits until all octets have arrived in both worlds.
    pub(crate) fn settle_all(&mut self, end: usize, chance: &mut Chance) -> Result<(), Fault> {
        let (channel, fd) = self.model.user(end, chance);
        let unread = self.model.unread(end);
        let command = format!("ioctl {fd} {} 0", libc::FIONREAD);
        let (wanted, logged) = (unread.to_string(), self.worlds.log.len());
        for _ in 0..PATIENCE {
            self.worlds.log.truncate(logged);
            let answers = self.worlds.ask(channel, &command)?;
            if answers.iter().all(|answer| *answer == wanted) {
                return Ok(());
            }
            self.worlds.same(channel, "sleep 2000")?;
        }
        Err(format!("{command}: {unread} octets never arrive"))
    }

    /// Asks until both worlds give the same answer.
    pub(crate) fn until_same(&mut self, channel: usize, command: &str) -> Result<(), Fault> {
        let logged = self.worlds.log.len();
        let mut answers = self.worlds.ask(channel, command)?;
        for _ in 0..PATIENCE {
            if answers[0] == answers[1] {
                return Ok(());
            }
            self.worlds.same(channel, "sleep 2000")?;
            self.worlds.log.truncate(logged);
            answers = self.worlds.ask(channel, command)?;
        }
        Err(differ(command, &answers[0], &answers[1]))
    }

    pub(crate) fn poll(&mut self, chance: &mut Chance) -> Result<(), Fault> {
        let process = chance.below(self.model.processes as u64) as usize;
        let ends = self.model.ends.iter().filter(|end| !end.is_lost).flat_map(|end| &end.fds);
        let fds: Vec<i32> = ends.filter(|(holder, _)| *holder == process).map(|(_, fd)| *fd).collect();
        if fds.is_empty() {
            return Ok(());
        }
        let how = chance.pick(&["poll", "ppoll", "select", "pselect"]);
        let kinds = [libc::POLLIN, libc::POLLOUT, libc::POLLPRI, libc::POLLRDHUP];
        let mut command = format!("poll {how} {}", chance.pick(&[0, 0, 4]));
        for _ in 0..1 + chance.below(3) {
            let events = kinds.iter().filter(|_| chance.once_in(2)).sum::<i16>();
            command.push_str(&format!(" {} {events}", chance.pick(&fds)));
        }
        let channel = self.model.channel(process, chance);
        self.until_same(channel, &command)
    }

    pub(crate) fn epoll_create(&mut self, chance: &mut Chance) -> Result<(), Fault> {
        if self.model.sets.len() >= 3 {
            return Ok(());
        }
        let process = chance.below(self.model.processes as u64) as usize;
        let channel = self.model.channel(process, chance);
        let answer = self.worlds.same(channel, "epoll_create1 0")?;
        let Ok(fd) = answer.parse() else { return Ok(()) };
        let outer = self.model.sets.iter().find(|set| set.processes == [process]).map(|set| set.fd);
        self.model.sets.push(Set { processes: vec![process], fd });
        if let Some(outer) = outer.filter(|_| chance.once_in(2)) {
            let data = 9000 + fd;
            let command = format!("epctl {outer} {} {fd} {} {data}", libc::EPOLL_CTL_ADD, libc::EPOLLIN);
            self.worlds.same(channel, &command)?;
        }
        Ok(())
    }

    pub(crate) fn epoll_control(&mut self, chance: &mut Chance) -> Result<(), Fault> {
        if self.model.sets.is_empty() {
            return Ok(());
        }
        let sets: Vec<usize> = (0..self.model.sets.len()).collect();
        let place = chance.pick(&sets);
        let set = self.model.sets[place].clone();
        let process = chance.pick(&set.processes);
        // Of a set that was made before a fork, each process only knows what itself has changed.
        self.model.sets[place].processes = vec![process];
        let ends = self.model.ends.iter().enumerate();
        let held =
            ends.flat_map(|(end, state)| state.fds.iter().map(move |(holder, fd)| (end, *holder, *fd)));
        let fds: Vec<(usize, i32)> =
            held.filter(|(_, holder, _)| *holder == process).map(|(end, _, fd)| (end, fd)).collect();
        if fds.is_empty() {
            return Ok(());
        }
        let (end, fd) = chance.pick(&fds);
        let add = libc::EPOLL_CTL_ADD;
        let operation =
            chance.pick(&[add, add, add, libc::EPOLL_CTL_MOD, libc::EPOLL_CTL_MOD, libc::EPOLL_CTL_DEL]);
        let (input, output) = (libc::EPOLLIN, libc::EPOLLOUT);
        let events =
            chance.pick(&[input, input, input | output, output, input | libc::EPOLLRDHUP, libc::EPOLLPRI])
                | chance.pick(&[0, 0, libc::EPOLLET, libc::EPOLLET, libc::EPOLLONESHOT]);
        let channel = self.model.channel(process, chance);
        let data = end as i32 * 1000 + fd;
        let command = format!("epctl {} {operation} {fd} {} {data}", set.fd, events as u32);
        if self.worlds.same(channel, &command)? == "0" {
            self.model.told.remove(&(set.fd, data.to_string()));
        }
        Ok(())
    }

    /// Waits until both worlds have told the same events of the same members.
    pub(crate) fn epoll_wait(&mut self, chance: &mut Chance) -> Result<(), Fault> {
        if self.model.sets.is_empty() {
            return Ok(());
        }
        let sets: Vec<usize> = (0..self.model.sets.len()).collect();
        let set = self.model.sets[chance.pick(&sets)].clone();
        let channel = self.model.channel(chance.pick(&set.processes), chance);
        let how = chance.pick(&["epoll_wait", "epoll_pwait", "epoll_pwait2"]);
        let command = format!("epwait {} {how} {}", set.fd, chance.pick(&[0, 0, 3]));
        self.deliver(chance)?;
        let mut told = [BTreeMap::new(), BTreeMap::new()];
        for _ in 0..PATIENCE {
            let answers = self.worlds.ask(channel, &command)?;
            for (told, answer) in told.iter_mut().zip(&answers) {
                let (count, list) = answer.split_once(' ').unwrap_or((answer, ""));
                if count.starts_with('-') {
                    return Err(differ(&command, &answers[0], &answers[1]));
                }
                for (data, events) in list.split(',').filter_map(|entry| entry.split_once(':')) {
                    let events = u32::from_str_radix(events, 16).unwrap_or_default();
                    *told.entry(data.to_owned()).or_insert(0) |= events;
                }
            }
            if told[0] == told[1] {
                self.remember(set.fd, &told[1]);
                return Ok(());
            }
            self.worlds.same(channel, "sleep 2000")?;
        }
        let [plain, weft] = &told;
        self.remember(set.fd, weft);
        // An edge may be told once more at a change of carriers, but never not at all. The kernel tells with each arrival
        // whether there is room, even if the octets have been read since: that is no news if there has been room before.
        let is_known = |data: &String, missing: u32| {
            let before = self.model.told.get(&(set.fd, data.clone())).copied().unwrap_or_default();
            missing & !(libc::EPOLLOUT as u32 & before) == 0
        };
        if plain
            .iter()
            .all(|(data, events)| is_known(data, events & !weft.get(data).copied().unwrap_or_default()))
        {
            self.outcome.extra += 1;
            return Ok(());
        }
        Err(differ(&command, &format!("{plain:x?}"), &format!("{weft:x?}")))
    }

    /// Waits until the octets of plain sockets have arrived, which a busy kernel delays. Octets that come in two parts are
    /// two edges, and octets in a ring come at once.
    fn deliver(&mut self, chance: &mut Chance) -> Result<(), Fault> {
        for end in 0..self.model.ends.len() {
            let unread = self.model.unread(end);
            let state = &self.model.ends[end];
            if unread == 0 || state.is_odd || state.is_lost || !self.model.is_open(end) {
                continue;
            }
            let (channel, fd) = self.model.user(end, chance);
            let (command, logged) = (format!("ioctl {fd} {} 0", libc::FIONREAD), self.worlds.log.len());
            for _ in 0..PATIENCE {
                self.worlds.log.truncate(logged);
                if self.worlds.ask_in(0, channel, &command)? == unread.to_string() {
                    break;
                }
                self.worlds.ask_in(0, channel, "sleep 2000")?;
            }
        }
        Ok(())
    }

    /// Notes what a set has told of its members with the library.
    fn remember(&mut self, set: i32, told: &BTreeMap<String, u32>) {
        for (data, events) in told {
            *self.model.told.entry((set, data.clone())).or_insert(0) |= events;
        }
    }

    /// A wait that begins before its cause, in another thread or process.
    pub(crate) fn blocked(&mut self, chance: &mut Chance) -> Result<(), Fault> {
        let Some(end) = self.model.whole_end(chance) else { return Ok(()) };
        let state = self.model.ends[end].clone();
        let Some([(waiter, fd), (other, _)]) = self.model.users([end, end ^ 1], chance) else {
            return Ok(());
        };
        if self.model.unread(end) > 0 {
            return Ok(());
        }
        let mut wanted = state.low_water;
        let how = match chance.below(4) {
            0 | 1 if state.is_blocking && !state.is_timed => "in",
            2 => "epoll",
            _ => chance.pick(&["poll", "ppoll", "select", "pselect"]),
        };
        let mut set = None;
        let command = match how {
            "in" if chance.once_in(2) => {
                wanted = 1 + chance.len(3000);
                let how = chance.pick(&["recv", "recvfrom", "recvmsg", "syscall"]);
                let flags = libc::MSG_WAITALL | chance.pick(&[0, libc::MSG_PEEK]);
                format!("in {fd} {how} {flags} {wanted} {}", 1 + chance.below(3))
            }
            "in" => format!("in {fd} {} 0 8000 {}", chance.pick(&RECEIVES), 1 + chance.below(3)),
            "epoll" => {
                let new = self.worlds.same(waiter, "epoll_create1 0")?;
                let events = libc::EPOLLIN | chance.pick(&[0, libc::EPOLLET]);
                self.worlds
                    .same(waiter, &format!("epctl {new} {} {fd} {} 7", libc::EPOLL_CTL_ADD, events as u32))?;
                let command = format!(
                    "epwait {new} {} -1",
                    chance.pick(&["epoll_wait", "epoll_pwait", "epoll_pwait2"])
                );
                set = Some(new);
                command
            }
            how => format!("poll {how} -1 {fd} {}", libc::POLLIN),
        };
        let command = command.replace("recvmmsg 0", &format!("recvmmsg {}", libc::MSG_WAITFORONE));
        self.worlds.tell(waiter, &command)?;
        self.worlds.same(other, &format!("sleep {}", chance.pick(&[0, 50, 3000])))?;
        self.model.busy = Some(waiter);
        while self.model.unread(end) < wanted {
            self.send_some(end ^ 1, chance)?;
        }
        self.model.busy = None;
        let answers = self.worlds.answers(waiter, &command)?;
        if how == "in" {
            let numbers: Vec<i64> = command.split(' ').filter_map(|word| word.parse().ok()).collect();
            let (flags, len) = (numbers[1] as i32, numbers[2] as u64);
            let receive = Receive { channel: waiter, end, fd, flags, len, command };
            self.compare(&receive, &answers)?;
            return self.drain(end, chance);
        }
        if answers[0] != answers[1] {
            return Err(differ(&command, &answers[0], &answers[1]));
        }
        if let Some(set) = set {
            self.worlds.same(waiter, &format!("close {set}"))?;
        }
        self.drain(end, chance)
    }
}

const RECEIVES: [&str; 9] =
    ["read", "recv", "recvfrom", "readv", "recvmsg", "recvmmsg", "preadv2", "splice", "syscall"];
const FLAGS: [i32; 10] = [
    0,
    0,
    0,
    libc::MSG_DONTWAIT,
    libc::MSG_WAITALL,
    libc::MSG_PEEK,
    libc::MSG_TRUNC,
    libc::MSG_PEEK | libc::MSG_WAITALL,
    libc::MSG_PEEK | libc::MSG_DONTWAIT,
    libc::MSG_WAITALL | libc::MSG_DONTWAIT,
];
/// Tries, 2 ms each, until something that has to come has come.
const PATIENCE: u32 = 250;
