//! What a sender does about loss and marks, and how it takes that back.

use super::prr::Prr;
use crate::congestion::Congestion;
use crate::{Interval, Micros, Seq};

/// What the congestion window obeys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The congestion control.
    Open,
    /// PRR, because of a mark (RFC 3168) or of a loss that a tail probe has repaired.
    Reducing,
    /// PRR, while what is lost goes again (RFC 6675).
    Recovery,
    /// Slow start after the retransmission timer expired.
    Loss,
}

/// Forward RTO-Recovery (RFC 5682 section 3): whether the expiry was needless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frto {
    Off,
    /// The first segment has gone again (step 1).
    Repeated,
    /// The next two segments are new ones (step 2b).
    Probing,
}

/// What is needed to take a reduction back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Undo {
    /// Window, threshold and CUBIC's epoch before the reduction.
    pub(super) before: Congestion,
    /// SND.UNA then: D-SACKs of what lies before say nothing.
    pub(super) una: Seq,
    /// Octets sent again, those in flight then counted, that no D-SACK has called needless.
    pub(super) unproved: u32,
    /// When the first of them went again (RFC 3522's RetransmitTS).
    pub(super) first_at: Option<Micros>,
    /// Whether the timer caused the reduction.
    pub(super) by_timer: bool,
    /// Whether less than two segments were in flight, so that the peer may have delayed its ACK.
    pub(super) is_short: bool,
}

/// The recovery that is under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recovery {
    pub(super) phase: Phase,
    /// It ends when this number is acknowledged (RFC 6675's RecoveryPoint).
    pub(super) high: Seq,
    pub(super) prr: Prr,
    pub(super) frto: Frto,
    pub(super) undo: Option<Undo>,
    /// The next lost segment goes whatever the window says: the one that a timeout sends again.
    pub(super) is_forced: bool,
}

impl Recovery {
    pub(super) fn new(una: Seq) -> Self {
        let (prr, frto) = (Prr::default(), Frto::Off);
        Self { phase: Phase::Open, high: una, prr, frto, undo: None, is_forced: false }
    }

    /// Whether lost segments are being repaired (RFC 8985's "in Fast or RTO recovery").
    pub(super) const fn is_recovering(&self) -> bool {
        matches!(self.phase, Phase::Recovery | Phase::Loss)
    }

    /// Notes octets that go again.
    pub(super) fn resent(&mut self, octets: u32, now: Micros) {
        self.is_forced = false;
        if let Some(undo) = &mut self.undo {
            undo.unproved = undo.unproved.saturating_add(octets);
            undo.first_at.get_or_insert(now);
        }
    }

    /// Takes a D-SACK of octets that went again. Returns whether every retransmission of this recovery was needless
    /// (RFC 3708 section 3).
    ///
    /// `sent_at` says when the octets went last, if they are not acknowledged yet. Those of an earlier recovery do not count.
    pub(super) fn is_disproved(&mut self, dsack: Interval, sent_at: Option<Micros>) -> bool {
        let Some((undo, first)) =
            self.undo.as_mut().and_then(|undo| undo.first_at.map(|first| (undo, first)))
        else {
            return false;
        };
        let is_of_this = sent_at.map_or_else(|| !dsack.start.is_before(undo.una), |at| first <= at);
        if !is_of_this || undo.unproved == 0 {
            return false;
        }
        undo.unproved = undo.unproved.saturating_sub(dsack.len());
        undo.unproved == 0
    }
}
