//! How processes are woken: by the daemon, or by each other once they know each other's doorbells.

use std::sync::Arc;

use rustix::net::{Shutdown, shutdown};
use weft_sockets::layout::WAITERS;
use weft_sockets::sync::{Ordering, fence};
use weft_sockets::{ToProcess, WaiterName};

use crate::bell::Bell;
use crate::foreign::Foreign;
use crate::port::Member;
use crate::state::{Broken, State};

impl State {
    /// Wakes a process, or one of its waiters, of the family at the other end of a link.
    pub(crate) fn wake(&self, family: u64, sleeper: Option<WaiterName>) {
        let Some(family) = self.families.get(&family) else { return };
        match sleeper {
            Some(name) => {
                let member = family.members.get(&name.member).and_then(|id| self.member(*id));
                member.into_iter().for_each(|member| member.ring(name.line));
            }
            None => family.members.values().filter_map(|id| self.member(*id)).for_each(Member::ring_all),
        }
    }

    /// Tells a port of the status page and the doorbells of another one, which can then be woken without the daemon.
    pub(crate) fn introduce(&mut self, to: u64, of: u64) {
        let Some(uid) = self.ports.get(&to).map(|port| port.uid).filter(|_| to != of) else { return };
        let is_same_user = self.ports.get(&of).is_some_and(|port| port.uid == uid);
        let Some(member) = self.member_mut(of) else { return };
        let (family, place) = (member.family, member.place);
        let Some((status, _)) = member.status.as_ref().filter(|_| !member.known_by.contains(&to)) else {
            return;
        };
        let status = Arc::clone(status);
        member.known_by.insert(to);
        let bells: Vec<_> = member.bells.iter().map(|(line, bell)| (*line, Arc::clone(&bell.file))).collect();
        if let Some(other) = self.member_mut(to) {
            other.knows.insert(of);
        }
        self.send(to, ToProcess::PeerStatus { family, member: place }, Some(status));
        for (line, file) in bells.into_iter().filter(|_| is_same_user) {
            let waiter = WaiterName { member: place, line };
            self.send(to, ToProcess::PeerBell { family, waiter }, Some(file));
        }
    }

    pub(crate) fn add_bell(&mut self, id: u64, line: u8, file: Foreign) -> Result<(), Broken> {
        let uid = self.ports.get(&id).map(|port| port.uid).ok_or(Broken)?;
        let bell = Bell::new(file, self.uid == uid).filter(|_| usize::from(line) < WAITERS).ok_or(Broken)?;
        let member = self.member_mut(id).ok_or(Broken)?;
        let (family, waiter) = (member.family, WaiterName { member: member.place, line });
        let is_new = member.bells.insert(line, bell.clone()).is_none();
        // The waiter may sleep already: then it hears of mail that came before its bell.
        member.ring(line);
        let known_by: Vec<_> = member.known_by.iter().copied().collect();
        self.limits.take_descriptors(uid, usize::from(is_new));
        for other in known_by {
            if self.ports.get(&other).is_some_and(|port| port.uid == uid) {
                self.send(other, ToProcess::PeerBell { family, waiter }, Some(Arc::clone(&bell.file)));
            }
        }
        Ok(())
    }

    pub(crate) fn ring(
        &mut self,
        id: u64,
        name: u64,
        party: u8,
        sleeper: Option<WaiterName>,
    ) -> Result<(), Broken> {
        let Some((_, party)) = self.party(id, name, party)? else { return Ok(()) };
        let Some(family) = self.links.get(&name).map(|link| link.families[1 - party]) else { return Ok(()) };
        self.wake(family, sleeper);
        let of = sleeper.and_then(|name| self.families.get(&family)?.members.get(&name.member).copied());
        if let Some(of) = of {
            self.introduce(id, of);
        }
        Ok(())
    }

    /// Tells all processes that this daemon leaves: their ports have ended. Those that sleep look for another daemon, too.
    pub(crate) fn take_leave(&self) {
        for (id, port) in &self.ports {
            if let Some(socket) = port.socket() {
                // A port whose process is gone needs no end.
                let _ended = shutdown(socket, Shutdown::Both);
            }
            self.tell_mail(*id, 1);
        }
    }

    /// Tells a process that mail has come.
    pub(crate) fn tell_mail(&self, id: u64, sent: u32) {
        let Some(member) = self.member(id).filter(|_| sent > 0) else { return };
        let header = self.families.get(&member.family).map(|family| family.slab.header());
        if let Some(words) = header.and_then(|header| header.members.get(usize::from(member.place))) {
            words.mail.fetch_add(sent, Ordering::Release);
        }
        // A sleeper marks itself and then looks for mail.
        fence(Ordering::SeqCst);
        member.ring_all();
        // A process shuts a stream down and then looks for mail. Without this mail, the daemon tells that end.
        if let Some(hosts) = self.hosts.as_ref().filter(|hosts| hosts.has_channels()) {
            let _rung = rustix::io::write(&*hosts.bell, &1_u64.to_ne_bytes());
        }
    }
}
