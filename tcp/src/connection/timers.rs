//! What the time brings.

use super::Connection;
use super::black_hole::Unanswered;
use super::effects::{Cause, Effects};
use crate::opening::syn_timeout;
use crate::{Config, Interval, Micros, Sent, State};

impl<S: AsRef<[Sent]> + AsMut<[Sent]>, I: AsMut<[Interval]>> Connection<S, I> {
    /// Returns when [`Self::expire`] has to be called, and what is to be sent then. A time that is over is now.
    pub fn next_timeout(&self) -> Option<Micros> {
        if self.reset.is_some() {
            return Some(Micros(0));
        }
        let earliest = match self.state {
            State::Closed => return None,
            State::SynSent | State::SynReceived => Some(self.syn_due_at()),
            _ => {
                let halves = [self.sender.next_timeout(), self.receiver.next_timeout(), self.probe_due_at()];
                halves.into_iter().flatten().min()
            }
        };
        [earliest, self.gives_up_at()].into_iter().flatten().min()
    }

    /// Does what the time brings (RFC 9293 section 3.10.8).
    pub fn expire(&mut self, now: Micros) -> Effects {
        if self.state == State::Closed {
            return Effects::default();
        }
        if self.gives_up_at().is_some_and(|at| at <= now) {
            let effects = self.abort(now);
            return Effects { closed: Some(Cause::TimedOut), ..effects };
        }
        if self.sender.next_timeout().is_some_and(|at| at <= now) {
            let before = self.sender.counters().timeouts;
            self.sender.expire(now);
            if self.sender.counters().timeouts > before {
                self.suspect_black_hole(now);
            }
        }
        Effects::default()
    }

    /// Makes segments shorter if a timeout was one too many for long ones (RFC 8899 section 4.3).
    fn suspect_black_hole(&mut self, now: Micros) {
        let (timeouts, len) = self.sender.unanswered();
        let options = self.agreement.mss - self.agreement.emss();
        let what = Unanswered { timeouts, len: len.saturating_add(options), nxt: self.sender.nxt() };
        let least = self.config.default_mss.max(Config::MIN_MSS);
        if let Some(mss) = self.black_hole.shorter(self.agreement.mss, least, what, now) {
            self.set_mss(mss, now);
        }
    }

    /// Returns when the SYN or SYN/ACK has to go (again): at once, after 1 s, and twice as long each further time (RFC 6298
    /// rules 2.1 and 5.5).
    pub(super) fn syn_due_at(&self) -> Micros {
        if self.syn_times == 0 { Micros(0) } else { self.syn_sent_at + syn_timeout(self.syn_times) }
    }

    /// Returns when an idle peer is probed (next).
    pub(super) fn probe_due_at(&self) -> Option<Micros> {
        if self.is_waiting() || self.state == State::TimeWait {
            return None;
        }
        let silence = self.config.keep_alive?;
        Some(self.probed_at.map_or(self.heard_at + silence, |(_, last)| last + PROBE_INTERVAL.min(silence)))
    }

    /// Returns when the connection is given up unless the peer answers.
    fn gives_up_at(&self) -> Option<Micros> {
        let timeout = self.config.timeout?;
        let waits_since = match self.state {
            State::SynSent | State::SynReceived => Some(self.progress_at),
            State::TimeWait | State::Closed => None,
            // RFC 9293 section 3.8.6.1 (MUST-37): a peer with a closed window lives as long as it answers probes, which
            // may be further apart than the timeout.
            _ if self.is_waiting() && self.sender.window() == 0 => self.asked_at,
            _ if self.is_waiting() => Some(self.progress_at),
            _ => self.probed_at.map(|(first, _)| first),
        };
        waits_since.map(|since| since + timeout)
    }
}

/// How long a probe is waited for before the next one.
const PROBE_INTERVAL: Micros = Micros::from_secs(5);
