//! Paths that drop long packets and say nothing of it (RFC 8899 section 4.3, RFC 4821 section 7.7).

use crate::{Micros, Seq};

/// What is known of the path's longest packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum BlackHole {
    /// Nothing speaks for one.
    #[default]
    None,
    /// Timeouts in a row have made segments shorter than `former`. That is tried again when `mark` is acknowledged, as an
    /// outage looks the same, and not before `until` if it has failed once more.
    Short { former: u16, mark: Seq, until: Option<Micros> },
    /// Segments are as long as before, until something behind `mark` is acknowledged.
    Trying { mark: Seq },
}

/// Segments in flight that nothing answers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unanswered {
    /// Timeouts in a row.
    pub(super) timeouts: u8,
    /// Octets of options and payload of the first segment.
    pub(super) len: u16,
    pub(super) nxt: Seq,
}

impl BlackHole {
    /// Returns a lower MSS if long segments went unanswered for three timeouts. `least` is an MSS that any path takes.
    pub(super) fn shorter(&mut self, mss: u16, least: u16, what: Unanswered, now: Micros) -> Option<u16> {
        let base = BASE_MSS.max(least);
        let shorter = match self {
            Self::Short { .. } if mss <= base => least,
            _ => base,
        };
        if what.timeouts == 0
            || !what.timeouts.is_multiple_of(TIMEOUTS)
            || mss <= shorter
            || what.len <= shorter
        {
            return None;
        }
        let (former, until) = match *self {
            Self::None => (mss, None),
            Self::Short { former, until, .. } => (former, until),
            Self::Trying { .. } => (mss, Some(now + RAISE)),
        };
        *self = Self::Short { former, mark: what.nxt, until };
        Some(shorter)
    }

    /// Returns a higher MSS if it is to be tried. `una` is SND.UNA, which has advanced.
    pub(super) fn longer(&mut self, una: Seq, nxt: Seq, now: Micros) -> Option<u16> {
        match *self {
            Self::Short { former, mark, until }
                if !una.is_before(mark) && until.is_none_or(|until| until <= now) =>
            {
                *self = Self::Trying { mark: nxt };
                Some(former)
            }
            Self::Trying { mark } if mark.is_before(una) => {
                *self = Self::None;
                None
            }
            _ => None,
        }
    }
}

/// Timeouts in a row that speak for a black hole (RFC 8899's `MAX_PROBES`).
const TIMEOUTS: u8 = 3;
/// The MSS of packets of 1200 octets (RFC 8899's `BASE_PLPMTU`). IPv6 takes 1280 anywhere.
const BASE_MSS: u16 = 1160;
/// When longer segments are tried again that have failed twice (RFC 8899's `PMTU_RAISE_TIMER`).
const RAISE: Micros = Micros::from_secs(600);
