//! What an acknowledgement leads to: losses, recovery and its end, and the congestion window.

use super::Sender;
use super::acknowledge::News;
use super::newreno::DUP_ACKS;
use super::prr::{Delivery, Prr};
use super::recovery::{Frto, Phase, Undo};
use super::sent::Sent;
use super::terms::Acknowledgement;
use super::tlp::Outcome;
use super::usage::Usage;
use crate::Micros;
use crate::congestion::{Cause, Growth};

impl<S: AsRef<[Sent]> + AsMut<[Sent]>> Sender<S> {
    /// Judges an acknowledgement whose octets are marked.
    pub(super) fn judge(&mut self, ack: &Acknowledgement<'_>, news: &News, now: Micros) {
        let una = self.board.una;
        let is_bare = news.is_duplicate && !news.has_sacked;
        let is_short = self.tlp.is_short;
        let probed = self.tlp.acknowledge(una, news.dsack, is_bare);
        if probed == Outcome::Needless && is_short {
            self.rtt.delay_more();
        }
        let dsack = news.dsack.filter(|_| probed != Outcome::Needless);
        self.counters.needless_octets += news.dsack.map_or(0, |dsack| u64::from(dsack.len().min(1 << 16)));
        let was_undone = self.undo_if_needless(news);
        let has_recovered = self.recovery.phase != Phase::Open && !una.is_before(self.recovery.high);
        let was_open = self.recovery.phase == Phase::Open;
        if has_recovered {
            self.recover();
        }
        self.rack.adapt(una, self.board.nxt, dsack.is_some(), has_recovered && !was_undone);
        let lost = if self.sack { self.find_lost(now) } else { self.find_lost_by_duplicates(news) };
        if probed == Outcome::Repaired && self.recovery.phase == Phase::Open {
            self.begin(Phase::Reducing, Cause::Loss, news);
        }
        // The peer repeats its news until it has CWR (RFC 3168 section 6.1.3).
        let is_old_mark = self.cwr || una.is_before(self.cwr_end);
        if ack.ece && self.ecn && !is_old_mark && self.recovery.phase == Phase::Open {
            self.counters.marked += 1;
            self.begin(Phase::Reducing, Cause::Ecn, news);
        }
        // What was sent after the reduction and is lost as well, is the next congestion event.
        let is_lost = lost > 0 || has_recovered && self.board.totals().lost > 0;
        if is_lost && matches!(self.recovery.phase, Phase::Open | Phase::Reducing) {
            self.counters.recoveries += 1;
            self.begin(Phase::Recovery, Cause::Loss, news);
        }
        match self.recovery.phase {
            Phase::Open if was_open => self.grow(news, news.advanced, now),
            Phase::Open => {}
            Phase::Loss => self.grow(news, news.delivered, now),
            Phase::Reducing | Phase::Recovery => self.reduce(news, lost),
        }
        if !una.is_before(self.usage.end) {
            self.usage = Usage { end: self.board.nxt, most: self.pipe() };
        }
    }

    /// Marks what is lost by time (RFC 8985 section 6.2). Returns how many octets that are.
    pub(super) fn find_lost(&mut self, now: Micros) -> u32 {
        let reo_wnd = self.rack.reo_wnd(self.path());
        let found = self.rack.detect_loss(&mut self.board, reo_wnd, now);
        self.timers.reorder = found.at;
        found.lost
    }

    /// Marks what is lost by duplicate ACKs (RFC 6582 section 3.2): the first segment at the third of them, and again at
    /// each partial ACK.
    fn find_lost_by_duplicates(&mut self, news: &News) -> u32 {
        let first = self.board.first();
        let is_third = self.recovery.phase == Phase::Open
            && self.duplicates.count >= DUP_ACKS
            && (self.recovery.high.is_before(self.board.una)
                || self.counters.recoveries + self.counters.timeouts == 0);
        let is_partial = self.recovery.phase == Phase::Recovery && news.advanced > 0;
        if is_partial || is_third { self.board.lose(first) } else { 0 }
    }

    /// Begins a reduction by PRR (RFC 9937 section 6.1). CWR tells of each one, whatever its cause, so that marks of the
    /// same window do not reduce it again (RFC 3168 section 6.1.2).
    fn begin(&mut self, phase: Phase, cause: Cause, news: &News) {
        if self.recovery.phase == Phase::Open {
            self.remember(false);
            self.congestion.reduce(cause, news.flight);
            self.cwr = self.ecn;
        }
        let totals = self.board.totals();
        self.recovery.prr = Prr::begin(totals.pipe + totals.lost + news.delivered);
        self.recovery.phase = phase;
        self.recovery.high = self.board.nxt;
        self.tlp.cancel();
    }

    /// Begins recovery after the reordering timer has found losses, with so many octets in flight before.
    pub(super) fn recover_after(&mut self, flight: u32) {
        if matches!(self.recovery.phase, Phase::Open | Phase::Reducing) {
            self.counters.recoveries += 1;
            self.begin(Phase::Recovery, Cause::Loss, &News { flight, ..News::default() });
            self.reduce(&News::default(), 1);
        }
    }

    /// Keeps what is needed to undo a reduction.
    pub(super) fn remember(&mut self, by_timer: bool) {
        let (before, una, is_short) = (self.congestion, self.board.una, self.is_short());
        let unproved = self.board.totals().repeated;
        self.recovery.undo = Some(Undo { before, una, unproved, first_at: None, by_timer, is_short });
    }

    /// Ends a recovery: all that was in flight when it began has arrived.
    fn recover(&mut self) {
        if matches!(self.recovery.phase, Phase::Recovery | Phase::Reducing) {
            self.congestion.set_cwnd(self.congestion.ssthresh());
        }
        self.recovery.phase = Phase::Open;
        self.recovery.frto = Frto::Off;
        self.duplicates.clear();
    }

    /// Takes the last reduction back if this ACK proves it needless. Returns whether it did.
    ///
    /// Three proofs: a timestamp from before the first retransmission (RFC 3522 section 3.2), D-SACKs of all that went again
    /// (RFC 3708), and after a timeout originals that arrive behind the retransmission (RFC 5682 section 3.1, step 3).
    fn undo_if_needless(&mut self, news: &News) -> bool {
        let Some(undo) = self.recovery.undo else { return false };
        let is_of_this = |at: Micros| undo.first_at.is_some_and(|first| first <= at);
        let is_late = self.recovery.is_recovering() && news.late.is_some_and(is_of_this);
        let is_disproved = news.dsack.is_some_and(|dsack| self.recovery.is_disproved(dsack, news.dsack_at));
        let is_needless = is_late || is_disproved || self.probe_timeout(news);
        if !is_needless {
            return false;
        }
        self.counters.undone += 1;
        if undo.by_timer {
            self.rtt.restore();
            self.rack.forget();
            if undo.is_short {
                self.rtt.delay_more();
            }
        } else {
            self.rack.see_reordering();
        }
        let cwnd = self.congestion.cwnd();
        self.congestion = undo.before;
        self.congestion.set_cwnd(cwnd.max(undo.before.cwnd()));
        self.congestion.set_smss(u32::from(self.emss));
        if self.recovery.is_recovering() {
            self.board.revive(self.last.0);
        }
        self.recovery.phase = Phase::Open;
        self.recovery.high = self.board.una;
        self.recovery.frto = Frto::Off;
        self.recovery.undo = None;
        self.recovery.is_forced = false;
        true
    }

    /// Goes on with F-RTO (RFC 5682 section 3.1). Returns whether the timeout was needless.
    fn probe_timeout(&mut self, news: &News) -> bool {
        match self.recovery.frto {
            Frto::Repeated if news.advanced > 0 => {
                let may_probe =
                    self.unsent.octets > 0 && self.window.room(self.board.nxt) >= self.first_unsent();
                self.recovery.frto = if may_probe { Frto::Probing } else { Frto::Off };
                false
            }
            Frto::Probing if news.original => true,
            Frto::Probing if news.advanced > 0 || news.is_duplicate => {
                self.recovery.frto = Frto::Off;
                false
            }
            _ => false,
        }
    }

    /// Grows the window by what has arrived.
    fn grow(&mut self, news: &News, acked: u32, now: Micros) {
        let acked = acked.min(news.flight);
        if acked == 0 {
            return;
        }
        let growth = Growth {
            acked,
            rtt: news.newest,
            srtt: self.rtt.srtt().unwrap_or_default(),
            una: self.board.una,
            nxt: self.board.nxt,
            is_limited: self.recovery.phase == Phase::Loss
                || 2 * u64::from(self.usage.most) >= self.cwnd().into(),
            is_paced: self.rate().is_some(),
            now,
        };
        self.congestion.grow(&growth);
    }

    /// Brings the window down to the threshold (RFC 9937 section 6.2).
    fn reduce(&mut self, news: &News, lost: u32) {
        if news.delivered == 0 && lost == 0 {
            return;
        }
        let is_safe = news.advanced > 0 && lost == 0;
        let delivery = Delivery { delivered: news.delivered, pipe: self.pipe(), is_safe };
        let cwnd = self.recovery.prr.acknowledge(delivery, self.congestion.ssthresh(), u32::from(self.emss));
        self.congestion.set_cwnd(cwnd);
    }
}
