//! What an acknowledgement says: which octets have arrived, and how long that took.

use super::Sender;
use super::fin::Fin;
use super::rack::{Arrival, ticks};
use super::sent::{FIN, PROBE, SACKED, Sent, Stamp};
use super::terms::{Acked, Acknowledgement};
use crate::{Interval, Micros, Seq};

/// Round-trip times are taken from timestamps only from here on: their ticks are too coarse below.
const LEAST_BY_TIMESTAMP: Micros = Micros::from_millis(10);
/// Blocks of a SACK option that are looked at, all that fit into one (RFC 2018 section 3).
const MOST_BLOCKS: usize = 4;

/// What an acknowledgement has brought.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct News {
    /// By how much SND.UNA has advanced.
    pub(super) advanced: u32,
    /// Octets that were not known to have arrived (RFC 9937's DeliveredData).
    pub(super) delivered: u32,
    /// FlightSize and pipe before it.
    pub(super) flight: u32,
    pub(super) dsack: Option<Interval>,
    /// When the octets of the D-SACK went last, if their record is still there.
    pub(super) dsack_at: Option<Micros>,
    /// Whether something was SACKed for the first time.
    pub(super) has_sacked: bool,
    /// Whether octets have arrived that went once, before the last expiry of the timer (RFC 5682 step 3).
    pub(super) original: bool,
    /// Whether it is a duplicate ACK (RFC 5681 section 2).
    pub(super) is_duplicate: bool,
    /// The round-trip time of the newest and the oldest segment by it, of those whose ACK it surely is.
    pub(super) newest: Option<Micros>,
    pub(super) oldest: Option<Micros>,
    /// Whether octets that went again have arrived.
    pub(super) has_repeated: bool,
    /// When the segment at SND.UNA went again, if this ACK is that of its original (RFC 3522 section 3.2).
    pub(super) late: Option<Micros>,
    /// Whether it let a probe's octet beyond the window go again.
    pub(super) octets_freed: bool,
}

impl<S: AsRef<[Sent]> + AsMut<[Sent]>> Sender<S> {
    /// Takes the acknowledgement of an acceptable segment (RFC 9293 section 3.10.7.4, fifth check).
    ///
    /// Work is bounded by what was in flight: each record is delivered once. An ACK before SND.UNA or beyond SND.NXT has no
    /// effect; the caller answers the latter (RFC 5961 section 5.2 comes before).
    pub fn acknowledge(&mut self, ack: &Acknowledgement<'_>, now: Micros) -> Acked {
        if self.board.nxt.is_before(ack.ack) {
            return Acked { beyond: true, ..Acked::default() };
        }
        if ack.ack.is_before(self.board.una) || self.fin == Fin::Early {
            return Acked::default();
        }
        let (una, was_closed) = (self.board.una, self.fin == Fin::Acknowledged);
        let update = self.window.update(ack);
        let is_quiet = ack.ack == una && !ack.occupies && !update.is_other && !self.board.is_empty();
        let mut news = self.take(ack, now);
        news.is_duplicate = is_quiet;
        if update.has_opened && ack.ack == una {
            news.octets_freed = self.free_probe();
        }
        if !self.sack {
            self.count_duplicates(&mut news);
        }
        self.measure(&news, ack, now);
        self.judge(ack, &news, now);
        if news.advanced > 0 || update.has_opened {
            self.timers.probes = 0;
        }
        self.arm(now, news.advanced > 0);
        let fin = self.fin == Fin::Acknowledged && !was_closed;
        Acked { octets: news.advanced, fin, beyond: false }
    }

    /// Marks what has arrived.
    fn take(&mut self, ack: &Acknowledgement<'_>, now: Micros) -> News {
        let Self { board, rack, rtt, recovery, fin, .. } = self;
        let mut news = News { advanced: ack.ack.since(board.una), flight: board.flight(), ..News::default() };
        let arrival = Arrival { now, echo: ack.echo, min_rtt: rtt.min() };
        let mut newest_at = Stamp::default();
        let mut deliver = |sent: &Sent, news: &mut News| {
            if sent.is(FIN) && sent.end() == ack.ack {
                *fin = Fin::Acknowledged;
            }
            if sent.is(SACKED) {
                return;
            }
            news.delivered += u32::from(sent.len);
            news.has_repeated |= sent.is_repeated();
            news.original |= !sent.is_repeated() && !recovery.high.is_before(sent.end());
            let Some(time) = rack.deliver(sent, arrival) else { return };
            if !sent.is_repeated() {
                news.oldest = Some(news.oldest.map_or(time, |other| other.max(time)));
            }
            if sent.sent_at >= newest_at {
                (newest_at, news.newest) = (sent.sent_at, Some(time));
            }
        };
        news.late = board.ring.get(board.first()).and_then(|first| late(first, ack));
        let first = ack.sack.first().and_then(|block| board.ring.get(board.find(block.start)?));
        news.dsack_at = first.map(|sent| sent.sent_at.at());
        board.acknowledge(ack.ack, |sent| deliver(sent, &mut news));
        let blocks = ack.sack.get(..MOST_BLOCKS).unwrap_or(ack.sack);
        let Some((dsack, blocks)) = split(blocks, ack.ack, board.nxt).filter(|_| self.sack) else {
            self.counters.bad_sacks += u64::from(self.sack);
            return news;
        };
        news.dsack = dsack;
        let before = news.delivered;
        for block in blocks {
            board.sack(*block, |sent| deliver(sent, &mut news));
        }
        news.has_sacked = news.delivered > before;
        news
    }

    /// Takes round-trip times: the least from each ACK, SRTT from one a flight (RFC 6298 section 3), by timestamps where
    /// nothing else is sure (RFC 7323 section 4.1).
    fn measure(&mut self, news: &News, ack: &Acknowledgement<'_>, now: Micros) {
        if let Some(rtt) = news.newest {
            self.rtt.sample_min(rtt, now);
        }
        let by_timestamp = || {
            let echo = ack.echo.filter(|_| news.advanced > 0)?;
            let rtt = Micros::from_millis(u64::from(ticks(now).wrapping_sub(echo)));
            (LEAST_BY_TIMESTAMP..Micros::from_secs(60)).contains(&rtt).then_some(rtt)
        };
        // An original that arrives together with a retransmission has waited for it (RFC 6298 section 3).
        let oldest = if news.has_repeated { news.newest.filter(|_| ack.echo.is_some()) } else { news.oldest };
        let Some(rtt) = oldest.or_else(by_timestamp) else { return };
        if !self.board.una.is_before(self.sample_from) || news.dsack.is_none() && self.rtt.backoff() > 0 {
            self.rtt.sample(rtt, now);
            self.sample_from = self.board.nxt;
        }
    }

    /// Lets the record go again that has probed a closed window, when the window opens and the peer has not taken it.
    fn free_probe(&mut self) -> bool {
        let first = self.board.first();
        let Some(sent) = self.board.ring.get_mut(first) else { return false };
        let is_probe = sent.is(PROBE) || self.timers.probes > 0;
        sent.marks &= !PROBE;
        is_probe && self.board.lose(first) > 0
    }

    /// Counts what has arrived where the peer has no SACK.
    fn count_duplicates(&mut self, news: &mut News) {
        let smss = u32::from(self.emss);
        if news.advanced > 0 {
            news.delivered = self.duplicates.advance(news.advanced, smss);
        } else if news.is_duplicate && !news.octets_freed {
            news.delivered = self.duplicates.add(smss, self.board.totals().pipe);
        }
        if self.board.is_empty() {
            self.duplicates.clear();
        }
    }
}

/// Returns when a record went again, if an ACK advances over it and echoes a timestamp from before.
///
/// The echo is that of the segment at SND.UNA (RFC 7323 section 4.3), so that nothing is known of records behind it.
fn late(first: &Sent, ack: &Acknowledgement<'_>) -> Option<Micros> {
    let is_older = |echo: u32| echo.wrapping_sub(ticks(first.sent_at.at())).cast_signed() < 0;
    let is_covered = !ack.ack.is_before(first.end());
    (is_covered && first.times == 2 && !first.is(SACKED) && ack.echo.is_some_and(is_older))
        .then_some(first.sent_at.at())
}

/// Parts D-SACK from the blocks of what has arrived (RFC 2883 section 4). Returns `None` if the option is to be ignored:
/// a block lies outside (SND.UNA, SND.NXT].
fn split(blocks: &[Interval], una: Seq, nxt: Seq) -> Option<(Option<Interval>, &[Interval])> {
    let Some((first, others)) = blocks.split_first() else { return Some((None, blocks)) };
    let is_below = !una.is_before(first.end) && !first.is_empty();
    let is_within = others.first().is_some_and(|second| second.contains(*first)) && !first.is_empty();
    let (dsack, blocks) = if is_below || is_within { (Some(*first), others) } else { (None, blocks) };
    let outer = Interval::new(una + 1, nxt);
    let is_good = |block: &Interval| !block.is_empty() && outer.contains(*block);
    blocks.iter().all(is_good).then_some((dsack, blocks))
}

#[cfg(test)]
mod tests {
    use super::split;
    use crate::{Interval, Seq};

    fn block(start: u32, end: u32) -> Interval {
        Interval::new(Seq(start), Seq(end))
    }

    /// RFC 2883 section 4, RFC 2018 section 4.
    // Covers 2883-4-5.
    #[test]
    fn the_first_block_may_be_a_dsack_and_the_others_lie_in_flight() {
        let (una, nxt) = (Seq(1000), Seq(9000));
        let parted =
            |blocks: &[Interval]| split(blocks, una, nxt).map(|(dsack, blocks)| (dsack, blocks.len()));
        assert_eq!(parted(&[]), Some((None, 0)));
        assert_eq!(parted(&[block(2000, 3000)]), Some((None, 1)));
        assert_eq!(parted(&[block(500, 1000), block(2000, 3000)]), Some((Some(block(500, 1000)), 1)));
        assert_eq!(parted(&[block(2000, 2500), block(2000, 3000)]), Some((Some(block(2000, 2500)), 1)));
        for bad in
            [block(500, 1001), block(1000, 1001), block(8000, 9001), block(3000, 2000), block(3000, 3000)]
        {
            assert_eq!(parted(&[block(2000, 3000), bad]), None, "{bad:?}");
        }
        assert_eq!(parted(&[block(500, 1001)]), None);
    }
}
