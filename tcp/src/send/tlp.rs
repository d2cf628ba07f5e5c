//! Tail loss probes (RFC 8985 section 7).

use crate::{Interval, Micros, Seq};

/// The probe's timeout before there is a round-trip time (RFC 8985 section 7.2).
const PTO_INITIAL: Micros = Micros::from_secs(1);
/// Two round trips alone would probe at each hiccup of a local network.
const PTO_SLACK: Micros = Micros::from_millis(1);

/// The probe that is under way.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tlp {
    /// `TLP.end_seq`: SND.NXT when the probe had gone.
    pub(super) end: Option<Seq>,
    /// `TLP.is_retrans`.
    pub(super) is_retrans: bool,
    /// Whether the probe's timer has expired, and it has not gone yet.
    pub(super) is_due: bool,
    /// Whether less than two segments were in flight, so that the peer may have delayed its ACK.
    pub(super) is_short: bool,
}

/// What an ACK says of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Nothing yet, or nothing that matters.
    Open,
    /// The probe was needless: the last segment and the probe have both arrived.
    Needless,
    /// The probe has repaired a loss, so that congestion control has to react (RFC 8985 section 7.4).
    Repaired,
}

/// Returns after which time a probe goes (RFC 8985 section 7.2's `TLP_calc_PTO`).
///
/// The RFC adds the peer's delay with one segment in flight. Two short ones may be delayed as well.
pub(super) fn pto(srtt: Option<Micros>, ack_delay: Micros, is_short: bool) -> Micros {
    let delay = if is_short { ack_delay } else { Micros(0) };
    srtt.map_or(PTO_INITIAL, |srtt| srtt + srtt + PTO_SLACK + delay)
}

impl Tlp {
    /// Takes an ACK (RFC 8985 section 7.4.2). `is_bare` says that it is a duplicate without news of any kind.
    pub(super) fn acknowledge(&mut self, ack: Seq, dsack: Option<Interval>, is_bare: bool) -> Outcome {
        let Some(end) = self.end.filter(|end| !ack.is_before(*end)) else { return Outcome::Open };
        let outcome = if !self.is_retrans {
            Outcome::Open
        } else if dsack.is_some_and(|dsack| dsack.end == end) {
            Outcome::Needless
        } else if end.is_before(ack) {
            Outcome::Repaired
        } else if is_bare {
            Outcome::Needless
        } else {
            return Outcome::Open;
        };
        self.end = None;
        outcome
    }

    /// Ends the probe: a recovery has begun.
    pub(super) const fn cancel(&mut self) {
        (self.end, self.is_due) = (None, false);
    }
}

#[cfg(test)]
mod tests {
    use super::{Outcome, Tlp, pto};
    use crate::{Interval, Micros, Seq};

    // Covers 8985-7.2-1.
    #[test]
    fn the_probe_waits_two_round_trips_and_a_delayed_ack() {
        let delay = Micros::from_millis(50);
        assert_eq!(pto(None, delay, true), Micros::from_secs(1));
        assert_eq!(pto(Some(Micros(3000)), delay, false), Micros(7000));
        assert_eq!(pto(Some(Micros(3000)), delay, true), Micros(57_000));
    }

    /// RFC 8985 section 7.4.2.
    // Covers 8985-7.4-1.
    #[test]
    fn an_ack_tells_whether_the_probe_has_repaired_a_loss() {
        let probe = |is_retrans| Tlp { end: Some(Seq(500)), is_retrans, is_due: false, is_short: false };
        let dsack = Some(Interval::new(Seq(400), Seq(500)));
        assert_eq!(probe(true).acknowledge(Seq(499), dsack, false), Outcome::Open);
        assert_eq!(probe(true).acknowledge(Seq(500), dsack, false), Outcome::Needless);
        assert_eq!(probe(true).acknowledge(Seq(500), None, true), Outcome::Needless);
        assert_eq!(probe(true).acknowledge(Seq(501), None, false), Outcome::Repaired);
        assert_eq!(probe(false).acknowledge(Seq(501), None, false), Outcome::Open);
        let mut open = probe(true);
        assert_eq!((open.acknowledge(Seq(500), None, false), open.end), (Outcome::Open, Some(Seq(500))));
    }
}
