//! The steps that make processes, change their program, or pass connections to them.

use crate::model::{Actor, Set};
use crate::play::Play;
use crate::script::Chance;
use crate::worlds::Fault;

impl Play {
    /// A child: by fork, or a program of its own, which gets what is prepared for it.
    pub(crate) fn fork(&mut self, chance: &mut Chance) -> Result<(), Fault> {
        if self.model.processes > 2 {
            return Ok(());
        }
        let parent = chance.pick(&self.model.actors.clone());
        let how = chance.pick(&["fork", "fork", "spawn", "vfork"]);
        let how = if self.model.has_programs { how } else { "fork" };
        if how != "fork" && !self.prepare(parent, chance)? {
            return Ok(());
        }
        let channel = self.worlds.start(how, parent.channel)?;
        let child = Actor { channel, process: self.model.processes };
        self.model.processes += 1;
        self.model.actors.push(child);
        for end in 0..self.model.ends.len() {
            self.inherit(end, parent.process, child, how == "fork")?;
        }
        let sets = self.model.sets.iter_mut().filter(|set| set.processes.contains(&parent.process));
        if how == "fork" {
            sets.for_each(|Set { processes, .. }| processes.push(child.process));
        }
        Ok(())
    }

    /// A process with one thread becomes another program, which goes on with its connections.
    pub(crate) fn exec(&mut self, chance: &mut Chance) -> Result<(), Fault> {
        let actor = chance.pick(&self.model.actors.clone());
        let threads = self.model.actors.iter().filter(|other| other.process == actor.process).count();
        if threads > 1 || !self.prepare(actor, chance)? {
            return Ok(());
        }
        self.worlds.same(actor.channel, &format!("exec {}", actor.channel))?;
        for set in &mut self.model.sets {
            set.processes.retain(|process| *process != actor.process);
        }
        self.model.sets.retain(|set| !set.processes.is_empty());
        Ok(())
    }

    /// A connection goes to another process in a message.
    pub(crate) fn pass(&mut self, end: usize, chance: &mut Chance) -> Result<(), Fault> {
        let (process, fd) = chance.pick(&self.model.ends[end].fds);
        let others: Vec<usize> = (0..self.model.processes).filter(|other| *other != process).collect();
        if others.is_empty() || self.model.ends[end].is_odd || !self.model.is_open(end ^ 1) {
            return Ok(());
        }
        let other = chance.pick(&others);
        let giver = self.model.channel(process, chance);
        let taker = self.model.channel(other, chance);
        let socket = self.worlds.same(taker, "bind")?;
        self.attended(&[end], giver, &format!("give {fd}"), chance)?;
        let new = self.worlds.same(taker, &format!("take {socket}"))?;
        let new = new.parse().map_err(|_| format!("take returned {new}"))?;
        self.model.ends[end].fds.push((other, new));
        if chance.once_in(2) { self.close_descriptor(end, process, fd, chance) } else { Ok(()) }
    }

    /// Prepares all connections of a process for another program, as programs do. Returns false if one cannot go there.
    fn prepare(&mut self, actor: Actor, chance: &mut Chance) -> Result<bool, Fault> {
        let ends = self.model.ends.iter().enumerate();
        let held: Vec<(usize, i32)> = ends
            .flat_map(|(end, state)| state.fds.iter().map(move |(process, fd)| (end, *process, *fd)))
            .filter(|(_, process, _)| *process == actor.process)
            .map(|(end, _, fd)| (end, fd))
            .collect();
        let is_good = |end: usize| !self.model.ends[end].is_odd && self.model.is_open(end ^ 1);
        if held.len() > 3 || !held.iter().all(|(end, _)| is_good(*end)) {
            return Ok(false);
        }
        for (end, fd) in held {
            self.attended(&[end], actor.channel, &format!("fcntl {fd} {} 0", libc::F_SETFD), chance)?;
        }
        Ok(true)
    }

    /// Has a channel obey a command that the peers of these ends have to answer, while they wait in a hooked call.
    fn attended(
        &mut self,
        ends: &[usize],
        channel: usize,
        command: &str,
        chance: &mut Chance,
    ) -> Result<(), Fault> {
        let mut waiting = Vec::new();
        for end in ends {
            if self.model.ends[end ^ 1].is_handed {
                self.drain(*end, chance)?;
            }
            self.model.ends[*end].is_handed = true;
            let (peer, fd) = self.model.user(end ^ 1, chance);
            if peer != channel && !waiting.contains(&peer) {
                self.worlds.tell(peer, &format!("poll poll {PATIENCE} {fd} 0"))?;
                waiting.push(peer);
            }
        }
        self.worlds.same(channel, command)?;
        for peer in waiting {
            self.worlds.answers(peer, "poll")?;
        }
        Ok(())
    }

    /// Notes which descriptors of an end a child has got.
    fn inherit(&mut self, end: usize, parent: usize, child: Actor, is_forked: bool) -> Result<(), Fault> {
        let fds = self.model.ends[end].fds.clone();
        for (_, fd) in fds.into_iter().filter(|(holder, _)| *holder == parent) {
            let command = format!("getopt {fd} {} {}", libc::SOL_SOCKET, libc::SO_TYPE);
            if is_forked || !self.worlds.same(child.channel, &command)?.starts_with('-') {
                self.model.ends[end].fds.push((child.process, fd));
            }
        }
        Ok(())
    }
}

/// Milliseconds for which the peer of a connection that goes to another program waits in a hooked call.
const PATIENCE: u32 = 400;
