//! Waits that signals interrupt, with a handler that sends or receives.

use crate::play::Play;
use crate::script::Chance;
use crate::worlds::{Fault, Worlds, differ};

impl Play {
    /// A wait in a process with one thread, and signals whose handler uses the same connection or another one.
    pub(crate) fn signal(&mut self, chance: &mut Chance) -> Result<(), Fault> {
        let Some(end) = self.model.whole_end(chance) else { return Ok(()) };
        let (waiter, fd) = self.model.user(end, chance);
        let actors = &self.model.actors;
        let Some(process) = actors.iter().find(|actor| actor.channel == waiter).map(|actor| actor.process)
        else {
            return Ok(());
        };
        let state = &self.model.ends[end];
        let is_alone = actors.iter().filter(|actor| actor.process == process).count() == 1;
        if !is_alone || state.low_water > 1 || state.is_timed {
            return Ok(());
        }
        let is_receive = state.is_blocking && chance.once_in(2);
        let has_limit = chance.once_in(3);
        let restarts = chance.once_in(2);
        let has_other_sender = self.model.ends[end ^ 1].fds.iter().any(|(holder, _)| *holder != process);
        let goes_on = is_receive && restarts && !has_limit;
        if goes_on && !has_other_sender {
            return Ok(());
        }
        self.drain(end, chance)?;
        let handler = self.install(end, (waiter, process), restarts, chance)?;
        let command = self.prepare_wait((waiter, fd), is_receive, has_limit, chance)?;
        self.worlds.tell(waiter, &command)?;
        if goes_on {
            Worlds::interrupt(&handler.processes)?;
            self.model.busy = Some(waiter);
            self.send_some(end ^ 1, chance)?;
            self.model.busy = None;
        }
        let answers = match goes_on {
            true => self.worlds.answers(waiter, &command)?,
            false => self.worlds.interrupted(waiter, &command, &handler.processes)?,
        };
        if answers[0] != answers[1] {
            return Err(differ(&command, &answers[0], &answers[1]));
        }
        if goes_on {
            self.model.ends[end].read +=
                answers[0].split(' ').next().and_then(|len| len.parse::<u64>().ok()).unwrap_or(0);
        }
        let handled = self.worlds.same(waiter, "handled")?;
        let moved = handled.split(' ').nth(1).and_then(|moved| moved.parse::<u64>().ok()).unwrap_or(0);
        match handler.is_send {
            true => self.model.ends[handler.end].written += moved,
            false => self.model.ends[handler.end].read += moved,
        }
        if is_receive && has_limit {
            self.worlds.same(waiter, &format!("setopt {fd} {} {} 0", libc::SOL_SOCKET, libc::SO_RCVTIMEO))?;
        }
        self.drain(end, chance)
    }

    /// Has a process handle the signal by a call on a connection of its own.
    fn install(
        &mut self,
        end: usize,
        (waiter, process): (usize, usize),
        restarts: bool,
        chance: &mut Chance,
    ) -> Result<Handler, Fault> {
        let is_good = |other: &usize| {
            let state = &self.model.ends[*other];
            let is_held = state.fds.iter().any(|(holder, _)| *holder == process);
            let is_whole = |state: &crate::model::End| !state.is_odd && !state.is_finished && !state.is_lost;
            is_held
                && is_whole(state)
                && self.model.is_open(other ^ 1)
                && is_whole(&self.model.ends[other ^ 1])
        };
        let others: Vec<usize> = (0..self.model.ends.len()).filter(is_good).collect();
        let other = chance.pick(&others);
        // What a handler sends to the end that waits would end the wait.
        let has_room = self.model.unread(other ^ 1) < 4000;
        let is_send = other != end ^ 1 && has_room && chance.once_in(2);
        if !is_send && other != end && self.model.unread(other) > 0 {
            self.settle_all(other, chance)?;
        }
        let fds = self.model.ends[other].fds.iter();
        let fd = fds.filter(|(holder, _)| *holder == process).map(|(_, fd)| *fd).next().unwrap_or(-1);
        let (how, position) = (if is_send { "out" } else { "in" }, self.model.ends[other].written);
        let len = 1 + chance.below(100);
        let order = format!("handle {how} {} {fd} {len} {other} {position}", u8::from(restarts));
        Ok(Handler { is_send, end: other, processes: self.worlds.ask(waiter, &order)? })
    }

    /// Returns the command of a wait that nothing ends, or a limit after a long time.
    fn prepare_wait(
        &mut self,
        (waiter, fd): (usize, i32),
        is_receive: bool,
        has_limit: bool,
        chance: &mut Chance,
    ) -> Result<String, Fault> {
        if is_receive {
            let (level, name) = (libc::SOL_SOCKET, libc::SO_RCVTIMEO);
            if has_limit {
                self.worlds.same(waiter, &format!("setopt {fd} {level} {name} 8000"))?;
            }
            let how = chance.pick(&["read", "recv", "recvfrom", "readv", "recvmsg", "syscall"]);
            return Ok(format!("in {fd} {how} 0 8000 {}", 1 + chance.below(3)));
        }
        let limit = if has_limit { 8000 } else { -1 };
        Ok(match chance.below(5) {
            0 => format!("poll poll {limit} {fd} {}", libc::POLLIN),
            1 => format!("poll ppoll {limit} {fd} {}", libc::POLLIN),
            2 => format!("poll select {limit} {fd} {}", libc::POLLIN),
            3 => format!("poll pselect {limit} {fd} {}", libc::POLLIN),
            _ => {
                let set = self.worlds.same(waiter, "epoll_create1 0")?;
                let add = libc::EPOLL_CTL_ADD;
                self.worlds.same(waiter, &format!("epctl {set} {add} {fd} {} 7", libc::EPOLLIN))?;
                format!(
                    "epwait {set} {} {limit}",
                    chance.pick(&["epoll_wait", "epoll_pwait", "epoll_pwait2"])
                )
            }
        })
    }
}

/// What a handler does.
struct Handler {
    is_send: bool,
    end: usize,
    /// The numbers of the two processes that have it.
    processes: [String; 2],
}
