//! How lanes are lost, and what comes of their sessions.

use core::time::Duration;
use std::io::Write;

use crate::hosts::host::{Contact, Host};
use crate::hosts::rnic::Way;
use crate::hosts::why::Why;
use crate::remote::opening::NOBODY;
use crate::state::State;

impl State {
    /// Ends a lane. Its session waits for another one.
    pub(crate) fn lose_lane(&mut self, name: u64, now: Duration) {
        let again = self.again(name, now);
        self.drop_lane(name, again);
        if let Some(host) = self.hosts.as_mut().and_then(|hosts| hosts.host(name))
            && host.session.is_some()
        {
            host.lost.get_or_insert(now);
        }
    }

    /// Notes why there is no lane to a host. The operator is told what only an operator can mend, once for each host.
    pub(crate) fn note_why(&mut self, name: u64, why: Why) {
        let Some(host) = self.hosts.as_mut().and_then(|hosts| hosts.host(name)) else { return };
        host.why = Some(why);
        if let Some(complaint) = why.complaint()
            && !host.complaints.contains(&why)
        {
            host.complaints.push(why);
            // Nobody has to read it: `weft stat sockets` shows the reason, too.
            let _unread = writeln!(std::io::stderr(), "weft daemon: no lane to {}: {complaint}", host.remote);
        }
    }

    /// Ends the lane and the session with a host whose daemon broke a rule, or is silent.
    pub(crate) fn refuse_host(&mut self, name: u64, why: Why, now: Duration) {
        self.note_why(name, why);
        self.drop_lane(name, now + NOBODY);
        self.end_session(name);
    }

    /// No daemon listens on a host any more. Another one would know nothing of the session.
    pub(crate) fn bury_daemon(&mut self, name: u64, now: Duration) {
        let had_session = self.hosts.as_mut().and_then(|hosts| hosts.host(name)?.session.take()).is_some();
        self.drop_lane(name, now + if had_session { RESTART } else { NOBODY });
        self.end_session(name);
    }

    /// Destroys the queue pair to a host, if there is one. This daemon asks for none before `until`.
    pub(crate) fn drop_lane(&mut self, name: u64, until: Duration) {
        let Some(hosts) = &mut self.hosts else { return };
        hosts.by_qp.retain(|_, host| *host != name);
        if let Some(host) = hosts.host(name) {
            host.contact = Contact::None(until);
        }
    }

    /// When this daemon may ask a host again. Of two daemons that have lost a lane, that of the lower address asks first.
    pub(crate) fn again(&self, name: u64, now: Duration) -> Duration {
        match self.hosts.as_ref().and_then(|hosts| hosts.hosts.get(&name)) {
            Some(Host { session: Some(_), local, remote, .. }) if local < remote => now + SOON,
            Some(Host { session: Some(_), .. }) => now + 3 * SOON,
            _ => now + NOBODY,
        }
    }

    /// Ends the session with a host. Its connections go on by TCP.
    pub(crate) fn end_session(&mut self, name: u64) {
        let Some(mut host) = self.take_host(name) else { return };
        let channels = core::mem::take(&mut host.channels);
        let halves = core::mem::take(&mut host.halves);
        host.by_place.clear();
        (host.session, host.lost) = (None, None);
        host.told.clear();
        host.memory.clear();
        self.put_host(host);
        for channel in channels.into_values() {
            self.lower_end(&channel);
            self.close(channel.link, channel.number, 1 - channel.party);
        }
        self.abandon_all(halves.into_values());
        self.claims.forget(name);
    }

    /// Asks for new lanes where some were lost, and ends the sessions that have waited too long.
    pub(crate) fn look_for_lanes(&mut self, now: Duration) {
        self.expire_halves(now);
        for (name, lost, again) in self.lost() {
            if lost + PATIENCE <= now {
                self.drop_lane(name, now + SOON);
                self.end_session(name);
                if self.leave_wire(name, now) {
                    self.open_lane(name, None, now);
                }
            } else if again.is_some_and(|again| again <= now) {
                self.open_lane(name, None, now);
            }
        }
    }

    /// Takes the TCP of a host for a while if its session was on a wire, which does not lead there now.
    fn leave_wire(&mut self, name: u64, now: Duration) -> bool {
        let host = self.hosts.as_mut().and_then(|hosts| hosts.host(name));
        let Some(host) = host.filter(|host| host.way == Way::Wire) else { return false };
        (host.way, host.off_wire) = (Way::Kernel, now + NOBODY);
        true
    }

    /// Returns when the lanes want to be looked at, although nothing comes.
    pub(crate) fn lanes_deadline(&self) -> Option<Duration> {
        let lost = self.lost().into_iter();
        let lost =
            lost.map(|(_, lost, again)| again.map_or(lost + PATIENCE, |again| again.min(lost + PATIENCE)));
        let hosts = self.hosts.iter().flat_map(|hosts| hosts.hosts.values());
        let quiet = self.hosts.as_ref().and_then(|hosts| hosts.quiet);
        lost.chain(hosts.filter_map(Host::touch_deadline)).chain(quiet).chain(self.halves_deadline()).min()
    }

    /// The hosts whose sessions have no lane, since when, and when this daemon may ask for one.
    fn lost(&self) -> Vec<(u64, Duration, Option<Duration>)> {
        let hosts = self.hosts.iter().flat_map(|hosts| hosts.hosts.values());
        let lost = hosts.filter_map(|host| {
            let again = match host.contact {
                Contact::None(until) => Some(until),
                Contact::Opening(_) | Contact::Up(_) => None,
            };
            Some((host.name, host.lost?, again))
        });
        lost.collect()
    }
}

/// How long a daemon waits until it asks for a lane anew.
const SOON: Duration = Duration::from_millis(100);
/// When this daemon asks a host again whose daemon has gone.
const RESTART: Duration = Duration::from_secs(1);
/// How long a session goes on without a lane.
const PATIENCE: Duration = Duration::from_secs(5);
