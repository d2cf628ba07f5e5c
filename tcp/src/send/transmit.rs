//! What goes next.

use super::Sender;
use super::fin::Fin;
use super::recovery::Frto;
use super::sent::{ENDS, FIN, PROBE, Sent, Stamp};
use super::terms::{Frame, Reason, Transmit};
use super::timers::Probe;
use crate::{Micros, Seq};

impl<S: AsRef<[Sent]> + AsMut<[Sent]>> Sender<S> {
    /// Returns what may go now, if anything. Changes nothing: what the device refuses was never sent.
    pub fn poll_transmit(&self, now: Micros) -> Option<Transmit> {
        if let Some(probe) = self.window_probe().or_else(|| self.tail_probe()) {
            return Some(probe);
        }
        let is_early = self.rate().is_some() && self.pacing.wait(now).is_some() && !self.recovery.is_forced;
        self.waiting().filter(|_| !is_early)
    }

    /// Returns what may go but for pacing.
    pub(super) fn waiting(&self) -> Option<Transmit> {
        let is_frto = self.recovery.frto == Frto::Probing && self.unsent.octets > 0;
        self.lost().filter(|_| !is_frto).or_else(|| self.fresh())
    }

    /// Returns the octets of the next new segment.
    pub(super) fn first_unsent(&self) -> u32 {
        self.unsent.first.min(u32::from(self.emss)).min(self.unsent.octets)
    }

    /// Returns the probe of a window, if it is due (RFC 9293 sections 3.8.6.1 and 3.8.6.2.1): as much as the window takes of
    /// the next segment, but one octet at least.
    fn window_probe(&self) -> Option<Transmit> {
        let (seq, reason) = (self.board.nxt, Reason::WindowProbe);
        match self.timers.probe? {
            Probe::First => self.again(self.board.first(), 0, reason),
            Probe::New if self.board.is_full() => None,
            Probe::New if self.unsent.octets == 0 => Some(Transmit::Fin { seq, reason }),
            Probe::New => {
                let room = self.window.room(seq).clamp(1, self.first_unsent().max(1));
                Some(Transmit::New { seq, room, ect: false, cwr: false, reason })
            }
        }
    }

    /// Returns the tail loss probe, if it is due (RFC 8985 section 7.3's `TLP_send_probe`): a new segment if the window lets
    /// it, else the last one again.
    fn tail_probe(&self) -> Option<Transmit> {
        if !self.tlp.is_due {
            return None;
        }
        let (seq, room, reason) = (self.board.nxt, self.first_unsent(), Reason::TailProbe);
        let is_open = matches!(self.fin, Fin::Open | Fin::Asked) && !self.board.is_full();
        if is_open && room > 0 && room <= self.window.room(seq) {
            return Some(Transmit::New { seq, room, ect: self.ecn, cwr: self.cwr, reason });
        }
        let last = self.board.ring.len().checked_sub(1)?;
        let sent = self.board.ring.get(last)?;
        let before = (sent.segments() - 1) * u32::from(sent.segment);
        self.again(last, u16::try_from(before).unwrap_or(0), reason)
    }

    /// Returns the next segment that is lost, if congestion window and peer's window let it go.
    fn lost(&self) -> Option<Transmit> {
        let index = self.board.first_lost()?;
        let sent = self.board.ring.get(index)?;
        let len = u32::from(sent.len.min(self.emss));
        (self.is_free(len) && len <= self.window.room(sent.seq))
            .then(|| self.again(index, 0, Reason::Loss))?
    }

    /// Whether the congestion window lets so many octets go. One segment always does.
    fn is_free(&self, octets: u32) -> bool {
        let pipe = self.pipe();
        self.recovery.is_forced || pipe == 0 || pipe.saturating_add(octets) <= self.congestion.cwnd()
    }

    /// Returns at most a segment of a record, from its octet `from` on.
    fn again(&self, index: usize, from: u16, reason: Reason) -> Option<Transmit> {
        let sent = self.board.ring.get(index)?;
        let seq = sent.seq + u32::from(from);
        if sent.is(FIN) {
            return Some(Transmit::Fin { seq, reason });
        }
        let len = sent.len.saturating_sub(from).min(self.emss);
        Some(Transmit::Again {
            seq,
            token: sent.token,
            offset: sent.offset.saturating_add(from),
            len,
            reason,
        })
    }

    /// Returns new octets or the FIN, if both windows let them go.
    fn fresh(&self) -> Option<Transmit> {
        let (seq, reason) = (self.board.nxt, Reason::Window);
        let (first, window) = (self.first_unsent(), self.window.room(seq));
        if !matches!(self.fin, Fin::Open | Fin::Asked) || self.board.is_full() {
            return None;
        }
        if first == 0 {
            return (self.fin == Fin::Asked && window > 0).then_some(Transmit::Fin { seq, reason });
        }
        if first > window || !self.is_free(first) {
            return None;
        }
        let room = self.congestion.cwnd().saturating_sub(self.pipe()).min(window).max(first);
        Some(Transmit::New { seq, room, ect: self.ecn, cwr: self.cwr, reason })
    }

    /// Returns the stamp of a transmission that ends at `end`.
    fn stamp(&mut self, end: Seq, now: Micros) -> Stamp {
        self.last = (self.last.0.then(now, end.is_before(self.last.1)), end);
        self.last.0
    }

    /// Notes that new octets have gone, as [`Transmit::New`] said, in the frame. [`Sender::offer`] is due afterwards.
    pub fn sent_new(&mut self, transmit: &Transmit, frame: &Frame, now: Micros) {
        let &Transmit::New { seq, cwr, reason, .. } = transmit else { return };
        if seq != self.board.nxt || frame.len == 0 {
            return;
        }
        let len = u32::from(frame.len);
        let is_beyond = self.window.room(seq) < len;
        let marks = if frame.ends { ENDS } else { 0 } | if is_beyond { PROBE } else { 0 };
        let mut sent = Sent::new(seq, frame.len, marks, self.stamp(seq + len, now));
        (sent.token, sent.offset, sent.segment) = (frame.token, frame.offset, frame.segment.max(1));
        if !self.board.push(sent) {
            return;
        }
        if cwr {
            (self.cwr, self.cwr_end) = (false, seq + len);
        }
        self.counters.octets += u64::from(len);
        self.unsent.octets = self.unsent.octets.saturating_sub(len);
        let rest = self.unsent.first.saturating_sub(len);
        self.unsent.first = if rest > 0 { rest } else { self.unsent.octets.min(u32::from(self.emss)) };
        self.count_probe(reason, false, now);
        self.went(len, now);
    }

    /// Notes that octets have gone again, or a FIN, as [`Transmit::Again`] and [`Transmit::Fin`] said.
    pub fn sent(&mut self, transmit: &Transmit, now: Micros) {
        let (seq, len, reason) = match *transmit {
            Transmit::New { .. } => return,
            Transmit::Again { seq, len, reason, .. } => (seq, len, reason),
            Transmit::Fin { seq, reason } if seq == self.board.nxt => return self.sent_fin(reason, now),
            Transmit::Fin { seq, reason } => (seq, 1, reason),
        };
        let Some(mut index) = self.board.find(seq) else { return };
        if let Some(before) =
            self.board.ring.get(index).map(|sent| seq.since(sent.seq)).filter(|octets| *octets > 0)
        {
            index += usize::from(self.board.cut(index, u16::try_from(before).unwrap_or(0)));
        }
        self.board.cut(index, len);
        let octets = self.board.ring.get(index).map_or(0, |sent| u32::from(sent.len));
        let sent_at = self.stamp(seq + octets, now);
        self.board.resend(index, sent_at);
        if reason == Reason::Loss {
            self.recovery.resent(octets, sent_at.at());
        }
        self.counters.repeated += 1;
        self.counters.repeated_octets += u64::from(octets);
        if index == self.board.first() {
            self.timers.rto = None;
        }
        self.count_probe(reason, true, now);
        self.went(octets, now);
    }

    /// Notes that the FIN has gone for the first time.
    fn sent_fin(&mut self, reason: Reason, now: Micros) {
        let seq = self.board.nxt;
        let marks = FIN | ENDS | if self.window.room(seq) == 0 { PROBE } else { 0 };
        let sent = Sent::new(seq, 1, marks, self.stamp(seq + 1, now));
        if self.fin == Fin::Asked && self.board.push(sent) {
            self.fin = Fin::Sent;
            self.count_probe(reason, false, now);
            self.went(1, now);
        }
    }

    /// Notes that a probe has gone, if it was one.
    fn count_probe(&mut self, reason: Reason, is_retrans: bool, now: Micros) {
        match reason {
            Reason::TailProbe => {
                self.counters.tail_probes += 1;
                self.tlp.is_due = false;
                self.tlp.is_short = self.is_short();
                (self.tlp.end, self.tlp.is_retrans) = (Some(self.board.nxt), is_retrans);
                self.timers.rto = Some(now + self.rtt.rto());
            }
            Reason::WindowProbe => {
                self.counters.window_probes += 1;
                self.timers.probe = None;
            }
            Reason::Window | Reason::Loss => {}
        }
    }

    /// Notes octets for all that counts them.
    fn went(&mut self, octets: u32, now: Micros) {
        self.recovery.prr.sent(octets);
        self.usage.most = self.usage.most.max(self.pipe());
        if let Some(rate) = self.rate() {
            self.pacing.sent(octets, rate, u32::from(self.emss), now);
        }
        self.busy_at = now;
        self.timers.pto = None;
        self.arm(now, false);
    }
}
