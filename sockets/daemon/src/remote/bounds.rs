//! How much another host can make this daemon keep.

use core::time::Duration;

use weft_sockets::Claimant;
use weft_sockets::far::{Notice, NoticeKind};

use crate::hosts::failure::Failure;
use crate::hosts::host::{Contact, Host};
use crate::state::State;

impl Host {
    /// Counts a claim of the other daemon. Returns false if it has sent too many in this second.
    pub(crate) fn take_claim(&mut self, now: Duration) -> bool {
        let (second, claims) = self.claims;
        self.claims = if now.saturating_sub(second) >= SECOND { (now, 1) } else { (second, claims + 1) };
        self.claims.1 <= CLAIMS
    }

    /// Notes a claim that the other daemon is told. Of those that it never answers, the oldest are forgotten.
    pub(crate) fn note_claim(&mut self, id: u64, claimant: Claimant) {
        self.told.insert(id, claimant);
        while self.told.len() > TOLD {
            self.told.pop_first();
        }
    }

    /// Checks that a channel has had this number. It may be over by now.
    pub(crate) const fn check_number(&self, number: u32) -> Result<(), Failure> {
        if self.has_had(number) { Ok(()) } else { Err(Failure::Host) }
    }

    /// The other daemon has a channel for a half that was given up: it hears that this end is closed.
    pub(crate) fn close_late(&mut self, own: u32) {
        self.notify(Notice { kind: NoticeKind::Closed, channel: own, value: 0 });
    }
}

impl State {
    /// Gives up the channels that other daemons have not answered in time. They keep rings of a user meanwhile.
    pub(crate) fn expire_halves(&mut self, now: Duration) {
        let Some(hosts) = &mut self.hosts else { return };
        let mut late = Vec::new();
        for host in hosts.hosts.values_mut() {
            late.extend(
                host.halves.extract_if(.., |_, half| half.since + ANSWER <= now).map(|(_, half)| half),
            );
        }
        self.abandon_all(late.into_iter());
    }

    /// Returns when [`expire_halves`](Self::expire_halves) has something to do.
    pub(crate) fn halves_deadline(&self) -> Option<Duration> {
        let hosts = self.hosts.iter().flat_map(|hosts| hosts.hosts.values());
        hosts.filter_map(|host| host.halves.values().next()).map(|half| half.since + ANSWER).min()
    }

    /// Forgets a host that has no lane and no session, if too many are known. Returns false if there is none.
    pub(crate) fn make_room_for_host(&mut self, now: Duration) -> bool {
        let Some(hosts) = &mut self.hosts else { return false };
        if hosts.hosts.len() < HOSTS {
            return true;
        }
        let is_idle = |host: &&Host| {
            host.session.is_none()
                && host.challenge.is_none()
                && matches!(host.contact, Contact::None(until) if until <= now)
        };
        let has_links = |name| self.families.get(&name).is_some_and(|family| !family.links.is_empty());
        let mut idle = hosts.hosts.values().filter(is_idle).map(|host| host.name);
        let Some(name) = idle.find(|name| !has_links(*name)) else { return false };
        if let Some(host) = hosts.hosts.remove(&name) {
            hosts.by_address.remove(&(host.local, host.remote));
        }
        hosts.names.remove(&name);
        self.remove_family(name);
        true
    }
}

const SECOND: Duration = Duration::from_secs(1);
/// Claims of a host in a second. The others stay on TCP.
const CLAIMS: u32 = 4096;
/// Claims that a host was told and has not answered.
const TOLD: usize = 1 << 14;
/// The time that a daemon has to answer [`Letter::Open`](weft_sockets::far::Letter::Open).
const ANSWER: Duration = Duration::from_secs(10);
/// Remote addresses that are known at most.
const HOSTS: usize = 4096;
