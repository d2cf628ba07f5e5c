//! RACK: losses found by time (RFC 8985 sections 5 and 6).

use super::scoreboard::Scoreboard;
use super::sent::{Sent, Stamp};
use crate::{Micros, Seq};

/// So many segments SACKed allow to do without a reordering window (RFC 8985's `DupThresh`).
pub(super) const DUP_THRESH: u32 = 3;
/// Recoveries without D-SACK after which the reordering window is small again (RFC 8985's `RACK.reo_wnd_persist`).
const REO_WND_PERSIST: u8 = 16;

/// What RACK remembers of a connection (RFC 8985 section 5.3).
#[derive(Clone, Copy, Debug)]
pub(super) struct Rack {
    /// `RACK.xmit_ts` and `RACK.end_seq`: when the newest of the segments that arrived went, and its end.
    newest: Option<(Stamp, Seq)>,
    /// `RACK.rtt`: the round-trip time of that segment.
    rtt: Micros,
    /// `RACK.fack`: the highest end of what has arrived.
    fack: Seq,
    /// `RACK.reordering_seen`.
    reordering_seen: bool,
    /// `RACK.reo_wnd_mult`.
    reo_wnd_mult: u32,
    /// `RACK.reo_wnd_persist`.
    reo_wnd_persist: u8,
    /// `RACK.dsack_round`.
    dsack_round: Option<Seq>,
}

/// What a round of [`Rack::detect_loss`] has found.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Found {
    /// Octets that are lost now and were not before.
    pub(super) lost: u32,
    /// When the next of those in flight is lost, if it does not arrive before.
    pub(super) at: Option<Micros>,
}

impl Rack {
    pub(super) const fn new(iss: Seq) -> Self {
        Self {
            newest: None,
            rtt: Micros(0),
            fack: iss,
            reordering_seen: false,
            reo_wnd_mult: 1,
            reo_wnd_persist: REO_WND_PERSIST,
            dsack_round: None,
        }
    }

    /// Returns when a record in flight is lost, if something that went later has arrived, without any cursor.
    #[cfg(test)]
    pub(super) fn lost_at(&self, sent: &Sent, reo_wnd: Micros) -> Option<Micros> {
        let is_older = self.newest.is_some_and(|newest| sent_after(newest, (sent.sent_at, sent.end())));
        (is_older && sent.is_in_flight()).then(|| sent.sent_at.at() + self.rtt + reo_wnd)
    }

    /// Forgets which segment arrived last: it was an original, and was taken for its retransmission.
    pub(super) const fn forget(&mut self) {
        self.newest = None;
    }

    /// Notes that a recovery was needless: what it took for lost was late.
    pub(super) const fn see_reordering(&mut self) {
        self.reordering_seen = true;
    }

    /// Takes a segment that has arrived (RFC 8985 section 6.2 steps 2 and 3). Returns its round-trip time, if the ACK is
    /// surely that of its last transmission.
    pub(super) fn deliver(&mut self, sent: &Sent, ack: Arrival) -> Option<Micros> {
        let end = sent.end();
        if self.fack.is_before(end) {
            self.fack = end;
        } else if end.is_before(self.fack) && !sent.is_repeated() {
            self.reordering_seen = true;
        }
        let rtt = ack.now.since(sent.sent_at.at());
        if sent.is_repeated() {
            let is_older = |echo: u32| (echo.wrapping_sub(ticks(sent.sent_at.at())).cast_signed()) < 0;
            if ack.echo.is_some_and(is_older) || ack.min_rtt.is_some_and(|min| rtt < min) {
                return None;
            }
        }
        if self.newest.is_none_or(|newest| sent_after((sent.sent_at, end), newest)) {
            (self.newest, self.rtt) = (Some((sent.sent_at, end)), rtt);
        }
        Some(rtt)
    }

    /// Takes what an ACK says of reordering by D-SACK, and the end of a recovery (RFC 8985 section 6.2 step 4).
    pub(super) fn adapt(&mut self, una: Seq, nxt: Seq, is_dsack: bool, has_recovered: bool) {
        if self.dsack_round.is_some_and(|round| !una.is_before(round)) {
            self.dsack_round = None;
        }
        if self.dsack_round.is_none() && is_dsack {
            self.dsack_round = Some(nxt);
            self.reo_wnd_mult = self.reo_wnd_mult.saturating_add(1);
            self.reo_wnd_persist = REO_WND_PERSIST;
        } else if has_recovered {
            self.reo_wnd_persist = self.reo_wnd_persist.saturating_sub(1);
            if self.reo_wnd_persist == 0 {
                self.reo_wnd_mult = 1;
            }
        }
    }

    /// Returns the reordering window (RFC 8985 section 6.2 step 4).
    pub(super) fn reo_wnd(&self, path: Path) -> Micros {
        if !self.reordering_seen && (path.is_recovering || path.segs_sacked >= DUP_THRESH) {
            return Micros(0);
        }
        let quarter = path.min_rtt.0 / 4;
        Micros(quarter.saturating_mul(u64::from(self.reo_wnd_mult))).min(path.srtt)
    }

    /// Marks what is lost (RFC 8985 section 6.2 step 5).
    ///
    /// The RFC waits for the last of the segments in question, this for the first, which is known without a walk over all
    /// of them; each is judged by its own time either way.
    pub(super) fn detect_loss<S>(&self, board: &mut Scoreboard<S>, reo_wnd: Micros, now: Micros) -> Found
    where
        S: AsRef<[Sent]> + AsMut<[Sent]>,
    {
        let mut found = Found::default();
        let Some(newest) = self.newest else { return found };
        let judge = |sent: &Sent| {
            if !sent_after(newest, (sent.sent_at, sent.end())) {
                return Verdict::Later;
            }
            let until = sent.sent_at.at() + self.rtt + reo_wnd;
            if now < until { Verdict::At(until) } else { Verdict::Lost }
        };
        while let Some(index) = board.oldest_repeated()
            && let Some(sent) = board.ring.get(index)
        {
            match judge(sent) {
                Verdict::Lost => found.lost += board.lose(index),
                Verdict::At(at) => {
                    found.at = Some(at);
                    break;
                }
                Verdict::Later => break,
            }
        }
        let from = board.find(board.judged.max(board.una));
        for index in from.unwrap_or_else(|| board.ring.len()).. {
            let Some(sent) = board.ring.get(index).copied() else { break };
            if sent.is_in_flight() && !sent.is_repeated() {
                match judge(&sent) {
                    Verdict::Lost => found.lost += board.lose(index),
                    Verdict::At(at) => {
                        found.at = Some(found.at.map_or(at, |other| other.min(at)));
                        break;
                    }
                    Verdict::Later => break,
                }
            }
            board.judged = sent.end();
        }
        found
    }

    /// Marks what is lost when the retransmission timer expires (RFC 8985 section 6.3): the first segment, and those that
    /// are older than a round trip and the reordering window.
    pub(super) fn mark_losses_on_rto<S>(&self, board: &mut Scoreboard<S>, reo_wnd: Micros, now: Micros)
    where
        S: AsRef<[Sent]> + AsMut<[Sent]>,
    {
        let first = board.first();
        for index in first..board.ring.len() {
            let Some(sent) = board.ring.get(index) else { break };
            if index == first || sent.sent_at.at() + self.rtt + reo_wnd <= now {
                board.lose(index);
            }
        }
    }
}

/// What is known of an ACK when segments arrive by it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    pub(super) now: Micros,
    /// The echoed timestamp in milliseconds.
    pub(super) echo: Option<u32>,
    /// The least round-trip time.
    pub(super) min_rtt: Option<Micros>,
}

/// What the reordering window depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path {
    pub(super) min_rtt: Micros,
    pub(super) srtt: Micros,
    pub(super) segs_sacked: u32,
    pub(super) is_recovering: bool,
}

enum Verdict {
    /// It went after the newest that arrived.
    Later,
    /// Lost then, unless it arrives.
    At(Micros),
    Lost,
}

/// Whether the first segment went after the second (RFC 8985's `RACK_sent_after`).
fn sent_after((xmit_ts1, end1): (Stamp, Seq), (xmit_ts2, end2): (Stamp, Seq)) -> bool {
    xmit_ts1 > xmit_ts2 || xmit_ts1 == xmit_ts2 && end2.is_before(end1)
}

/// Returns the timestamp of a point in time: ticks of 1 ms, modulo 2^32.
#[expect(clippy::cast_possible_truncation, reason = "timestamps wrap around")]
pub(super) const fn ticks(at: Micros) -> u32 {
    (at.0 / 1000) as u32
}
