//! What a sender may do, by what the model knows of the peer and the path.

use std::vec::Vec;

use super::peer::Ack;
use crate::send::Sender;
use crate::send::recovery::Phase;
use crate::send::sent::Sent;
use crate::{Control, Interval, Micros, Reason, SendCounters, Seq, Transmit};

type Verdict = Result<(), &'static str>;

/// An account of its own of windows, SACKs, timeouts and probes.
#[derive(Debug)]
pub(super) struct Judge {
    /// The right edge of the peer's window.
    edge: Seq,
    /// What was SACKed since the peer has reneged.
    sacked: Vec<Interval>,
    reneged: u64,
    /// Before the ACK: congestion window, FlightSize, and the counters.
    cwnd: u32,
    flight: u32,
    before: SendCounters,
    is_open: bool,
    /// Since when the timer runs that expired last or runs now, and how long it ran; and the number of timeouts.
    timeout: Option<(Micros, Micros)>,
    timeouts: u64,
    /// Whether a tail probe has gone since the last ACK.
    has_probed: bool,
    /// When SND.UNA has advanced last.
    advanced: (Seq, Micros),
}

impl Judge {
    pub(super) fn new(una: Seq, edge: Seq) -> Self {
        Self {
            edge,
            sacked: std::vec![],
            reneged: 0,
            cwnd: u32::MAX / 2,
            flight: 0,
            before: SendCounters::default(),
            is_open: true,
            timeout: None,
            timeouts: 0,
            has_probed: false,
            advanced: (una, Micros(0)),
        }
    }

    /// Notes an ACK that the sender is about to take.
    pub(super) fn before(&mut self, sender: &Sender<Vec<Sent>>, ack: &Ack) {
        if !ack.ack.is_before(sender.una()) {
            self.edge = ack.ack + ack.window;
            self.sacked.extend(ack.sack.iter().filter(|block| ack.ack.is_before(block.start)));
        }
        self.is_open = sender.recovery.phase == Phase::Open;
        self.flight = sender.board.flight();
        (self.before, self.has_probed) = (*sender.counters(), false);
    }

    /// Judges what an ACK has done to the congestion window.
    pub(super) fn after(&mut self, sender: &Sender<Vec<Sent>>, now: Micros) -> Verdict {
        let (una, counters, cwnd) = (sender.una(), sender.counters(), sender.cwnd());
        let before = core::mem::replace(&mut self.cwnd, cwnd);
        self.sacked.retain(|block| una.is_before(block.end));
        self.timeout = None;
        if una != self.advanced.0 {
            self.advanced = (una, now);
        }
        if let Control::None(octets) = sender.config.control {
            return if cwnd == octets { Ok(()) } else { Err("a constant window changes") };
        }
        if counters.undone > self.before.undone {
            return Ok(());
        }
        // A recovery ends with the window at the threshold (RFC 9937 section 6.2).
        let is_recovered = sender.recovery.phase == Phase::Open && !self.is_open;
        let at_first = if is_recovered { before.max(sender.congestion.ssthresh()) } else { before };
        let most = u64::from(at_first) + u64::from(self.flight) + 2 * u64::from(sender.emss());
        if u64::from(cwnd) > most {
            return Err("the congestion window grows by more than was in flight");
        }
        let most = u64::from(self.flight) * 86 / 100;
        let most = most.max(2 * u64::from(sender.emss()));
        if counters.recoveries > self.before.recoveries
            && self.is_open
            && u64::from(sender.congestion.ssthresh()) > most
        {
            return Err("a loss does not lower the threshold");
        }
        Ok(())
    }

    /// Judges an expiry of a timer.
    pub(super) fn expired(&mut self, sender: &Sender<Vec<Sent>>, now: Micros) -> Verdict {
        self.cwnd = sender.cwnd();
        let timeouts = sender.counters().timeouts;
        if timeouts == self.timeouts {
            return Ok(());
        }
        self.timeouts = timeouts;
        if now - self.advanced.1 < sender.config.rto_min {
            return Err("the timer expires early");
        }
        let Some((at, gap)) = self.timeout else {
            self.timeout = Some((now, Micros(0)));
            return Ok(());
        };
        let next = now - at;
        self.timeout = Some((now, next));
        let least = Micros(gap.0 * 2).min(Micros::from_secs(60));
        if next < least { Err("the timeout does not double") } else { Ok(()) }
    }

    /// Judges what goes. `is_cut` says that the EMSS has fallen.
    pub(super) fn sent(
        &mut self,
        sender: &Sender<Vec<Sent>>,
        transmit: &Transmit,
        len: u32,
        (is_cut, now): (bool, Micros),
    ) -> Verdict {
        if sender.counters().reneged > self.reneged {
            self.reneged = sender.counters().reneged;
            self.sacked.clear();
        }
        let (seq, reason) = match *transmit {
            Transmit::New { seq, reason, .. } => {
                if self.edge.is_before(seq + len) && reason != Reason::WindowProbe {
                    return Err("it lies beyond the window that the peer has told");
                }
                (seq, reason)
            }
            Transmit::Again { seq, reason, .. } | Transmit::Fin { seq, reason } => (seq, reason),
        };
        if let Some((since, _)) = self.timeout.as_mut().filter(|_| seq == sender.una()) {
            *since = now;
        }
        let whole = Interval::new(seq, seq + len);
        if reason == Reason::Loss && !is_cut && self.sacked.iter().any(|block| block.contains(whole)) {
            return Err("the peer has told that it has it");
        }
        let is_calm = matches!(sender.recovery.phase, Phase::Open | Phase::Reducing);
        if reason == Reason::Loss && is_calm && !is_cut && sender.counters().window_probes == 0 {
            return Err("something is lost and nothing follows from it");
        }
        if reason == Reason::TailProbe && core::mem::replace(&mut self.has_probed, true) {
            return Err("a second tail probe goes without an ACK");
        }
        Ok(())
    }
}
