//! When something is to be done though nothing arrives.

use super::Sender;
use super::fin::Fin;
use super::recovery::{Frto, Phase};
use super::rtt::RTO_MAX;
use super::sent::{SACKED, Sent};
use super::timers::{Probe, Timers};
use super::tlp::pto;
use crate::Micros;

/// The shortest time of idling after which the congestion window is halved.
const IDLE: Micros = Micros::from_millis(200);

impl<S: AsRef<[Sent]> + AsMut<[Sent]>> Sender<S> {
    /// Returns when [`Sender::expire`] or, for pacing, [`Sender::poll_transmit`] is due.
    pub fn next_timeout(&self) -> Option<Micros> {
        let Timers { rto, pto, reorder, persist, .. } = self.timers;
        let paced = self.rate().filter(|_| self.waiting().is_some()).map(|_| self.pacing.due());
        [rto, pto, reorder, persist, paced].into_iter().flatten().min()
    }

    /// Does what is due by now.
    pub fn expire(&mut self, now: Micros) {
        let is_due = |timer: Option<Micros>| timer.is_some_and(|at| at <= now);
        if is_due(self.timers.reorder) {
            self.lose_by_time(now);
        }
        if is_due(self.timers.persist) {
            (self.timers.persist, self.timers.probe) = (None, Some(Probe::New));
            self.timers.probes = self.timers.probes.saturating_add(1);
        }
        if is_due(self.timers.rto) {
            self.time_out(now);
        } else if is_due(self.timers.pto) {
            (self.timers.pto, self.tlp.is_due) = (None, true);
        }
    }

    /// The reordering timer: what has not arrived by now is lost (RFC 8985 section 6.2 step 5).
    fn lose_by_time(&mut self, now: Micros) {
        let flight = self.board.flight();
        if self.find_lost(now) > 0 {
            self.recover_after(flight);
        }
        self.arm(now, false);
    }

    /// The retransmission timer (RFC 6298 rules 5.4 to 5.6, RFC 8985 section 6.3, RFC 5682 section 3.1 step 1).
    fn time_out(&mut self, now: Micros) {
        let first = self.board.first();
        let Some(sent) = self.board.ring.get(first).copied() else { return };
        if sent.is(SACKED) {
            self.counters.reneged += 1;
            self.board.renege();
        }
        if self.window.room(sent.seq) < u32::from(sent.len) {
            self.timers.probe = Some(Probe::First);
            self.timers.probes = self.timers.probes.saturating_add(1);
            self.timers.rto = Some(now + self.probe_interval());
            return;
        }
        self.counters.timeouts += 1;
        let is_first = self.recovery.phase != Phase::Loss;
        let flight = self.board.flight();
        if is_first {
            if self.recovery.phase != Phase::Open {
                self.congestion.set_cwnd(self.congestion.ssthresh());
            }
            self.remember(true);
        }
        let is_new_event = matches!(self.recovery.phase, Phase::Open);
        self.cwr |= self.ecn && is_new_event;
        self.congestion.timeout(flight, is_new_event);
        let reo_wnd = if self.sack { self.rack.reo_wnd(self.path()) } else { Micros(0) };
        self.rack.mark_losses_on_rto(&mut self.board, reo_wnd, now);
        if !self.sack {
            (first..self.board.ring.len()).for_each(|index| _ = self.board.lose(index));
        }
        self.duplicates.clear();
        self.recovery.frto = if is_first { Frto::Repeated } else { Frto::Off };
        (self.recovery.phase, self.recovery.high) = (Phase::Loss, self.board.nxt);
        self.recovery.is_forced = true;
        self.tlp.cancel();
        self.rtt.back_off();
        self.timers.pto = None;
        self.timers.rto = Some(now + self.rtt.rto());
    }

    /// Sets the timers after something has gone or arrived. `has_advanced` says that SND.UNA has (RFC 6298 rule 5.3).
    pub(super) fn arm(&mut self, now: Micros, has_advanced: bool) {
        self.board.settle();
        if has_advanced || !self.may_probe_tail() {
            self.tlp.is_due = false;
        }
        if self.board.is_empty() {
            let (persist, probe) = (self.timers.persist, self.timers.probe);
            self.timers = Timers { probes: self.timers.probes, ..Timers::default() };
            if self.is_shut() {
                self.timers.probe = probe;
                let at = persist.unwrap_or_else(|| now + self.probe_interval());
                self.timers.persist = Some(at).filter(|_| probe.is_none());
            }
            return;
        }
        // A record that is SACKed is not sent again: the next expiry forgets that it is.
        let may_probe = self.board.ring.get(self.board.first()).is_some_and(|first| !first.is(SACKED));
        (self.timers.persist, self.timers.probe) =
            (None, self.timers.probe.filter(|probe| *probe == Probe::First && may_probe));
        let interval = if self.timers.probes > 0 { self.probe_interval() } else { self.rtt.rto() };
        let rto = self.timers.rto.filter(|_| !has_advanced).unwrap_or(now + interval);
        self.timers.rto = Some(rto);
        if !self.may_probe_tail() {
            self.timers.pto = None;
        } else if has_advanced || self.timers.pto.is_none() && !self.tlp.is_due {
            self.timers.pto = Some(rto.min(now + self.pto()));
        }
    }

    /// Returns the timeout of a tail loss probe (RFC 8985 section 7.2).
    pub(super) fn pto(&self) -> Micros {
        pto(self.rtt.srtt(), self.rtt.ack_delay(), self.is_short())
    }

    /// Whether a tail loss probe may be due (RFC 8985 section 7.2): with SACK, nothing SACKed or lost, outside recovery, one
    /// probe at a time.
    fn may_probe_tail(&self) -> bool {
        let totals = self.board.totals();
        let is_calm = matches!(self.recovery.phase, Phase::Open | Phase::Reducing);
        let is_window_open = self.timers.probes == 0;
        self.sack && self.tlp.end.is_none() && is_calm && is_window_open && totals.sacked + totals.lost == 0
    }

    /// Whether something waits, nothing is in flight, and the window does not take the next segment.
    fn is_shut(&self) -> bool {
        let next = match self.fin {
            Fin::Early | Fin::Acknowledged | Fin::Sent => return false,
            Fin::Open | Fin::Asked if self.unsent.octets > 0 => self.first_unsent(),
            Fin::Open => return false,
            Fin::Asked => 1,
        };
        self.window.room(self.board.nxt) < next
    }

    /// Returns the time between probes of a window: doubled up to a minute (RFC 9293 section 3.8.6.1).
    fn probe_interval(&self) -> Micros {
        Micros(self.rtt.rto().0 << self.timers.probes.min(16)).min(RTO_MAX)
    }

    /// Halves the congestion window for each period of idling before something goes.
    pub(super) fn rest(&mut self, now: Micros) {
        if !self.board.is_empty() || self.unsent.octets == 0 {
            return;
        }
        let period = self.rtt.rto().max(IDLE);
        let periods = u32::try_from(now.since(self.busy_at).0 / period.0.max(1)).unwrap_or(u32::MAX);
        if periods > 0 {
            self.congestion.idle(periods);
            self.busy_at = now;
        }
    }
}
