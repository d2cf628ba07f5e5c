//! The receiver: what of the peer's octets is new, and what it is told about them.

mod delay;
mod reassembly;
#[cfg(test)]
mod tests;
mod window;

pub(crate) use window::Window;

use crate::{Ecn, Flags, Interval, Micros, SackBlocks, Segment, Seq};
use delay::DelayedAck;
use reassembly::Reassembly;

/// Settings of a receiver, which hold before and after the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveConfig {
    /// The window at first. 64 KiB.
    pub window: u32,
    /// The window at most, of which the window scale follows. 4 MiB.
    pub window_max: u32,
    /// How long an ACK may wait for data or another ACK to go with, at most 499 ms (RFC 9293, MUST-40). 10 ms.
    pub ack_delay: Micros,
}

impl Default for ReceiveConfig {
    fn default() -> Self {
        Self { window: 64 << 10, window_max: 4 << 20, ack_delay: Micros::from_millis(10) }
    }
}

/// What became of a segment's payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Where the octets that were taken begin in the payload.
    pub offset: u32,
    /// How many were taken. The owner keeps these until their turn; it drops all others.
    pub len: u32,
    /// How many octets are next in the stream now: those that were taken if they are in order, and what lies behind.
    pub ready: u32,
    /// The peer's stream has ended with these octets.
    pub fin: bool,
    /// Octets in the window were dropped, because there is no interval to note them, or for lack of memory.
    pub refused: bool,
}

/// The receiving half of a connection (RFC 9293 section 3.10.7.4, from "seventh, process the segment text" on).
///
/// Octets are taken once: what was received before is trimmed, so that a repetition changes nothing. Of a segment
/// that has several new parts, the first one is taken; the peer repeats the others.
#[derive(Debug)]
pub struct Receiver<I> {
    /// RCV.NXT. It counts the FIN.
    next: Seq,
    /// The number of the FIN, if it was seen.
    fin: Option<Seq>,
    window: Window,
    ack: DelayedAck,
    reassembly: Reassembly<I>,
    /// What came twice and was not reported yet (RFC 2883).
    duplicate: Option<Interval>,
    has_sack: bool,
    /// Octets beyond a gap are dropped, for lack of memory.
    refuses_ahead: bool,
    /// The peer is told of congestion until it says CWR (RFC 3168 section 6.1.3).
    echoes_congestion: bool,
    has_ecn: bool,
}

impl<I: AsMut<[Interval]>> Receiver<I> {
    /// Returns a receiver whose peer has chosen `irs`. `mss` is what the peer was told.
    pub fn new(config: &ReceiveConfig, mss: u16, irs: Seq, intervals: I, now: Micros) -> Self {
        let next = irs + 1;
        Self {
            next,
            fin: None,
            window: Window::new(next, (config.window.min(config.window_max), config.window_max), now),
            ack: DelayedAck::new(next, mss, config.ack_delay, now),
            reassembly: Reassembly::new(intervals),
            duplicate: None,
            has_sack: false,
            refuses_ahead: false,
            echoes_congestion: false,
            has_ecn: false,
        }
    }

    /// Begins anew with the peer's ISN, of which nothing was known up to now.
    pub fn synchronize(&mut self, config: &ReceiveConfig, irs: Seq, now: Micros) {
        self.next = irs + 1;
        self.window = Window::new(self.next, (config.window.min(config.window_max), config.window_max), now);
        self.ack.synchronize(self.next, now);
    }

    /// Notes what the handshake has agreed on: the MSS, SACK, ECN, and the scale of the windows to come.
    pub fn established(&mut self, mss: u16, has_sack: bool, has_ecn: bool, shift: u8) {
        self.ack.established(mss);
        self.has_sack = has_sack;
        self.has_ecn = has_ecn;
        self.window.scale(shift);
    }

    /// Returns RCV.NXT.
    pub const fn next(&self) -> Seq {
        self.next
    }

    /// Returns Last.ACK.sent.
    pub const fn acknowledged(&self) -> Seq {
        self.ack.last()
    }

    /// Returns RCV.WND: the octets that the peer may send.
    pub const fn window(&self) -> u32 {
        self.window.edge().since(self.next)
    }

    /// Whether the peer's stream has ended and all of it is there.
    pub const fn is_finished(&self) -> bool {
        match self.fin {
            Some(fin) => fin.is_before(self.next),
            None => false,
        }
    }

    /// Whether octets lie beyond a gap.
    pub const fn has_gap(&self) -> bool {
        !self.reassembly.is_empty()
    }

    /// Whether a segment is acceptable: whether any number of it lies in the window (RFC 9293 section 3.10.7.4, first).
    pub const fn accepts(&self, segment: &Segment) -> bool {
        let (window, len) = (self.window(), segment.seq_len());
        let is_inside = segment.seq.since(self.next) < window;
        if len == 0 {
            return is_inside || segment.seq.0 == self.next.0;
        }
        is_inside || segment.seq.is_before(self.next) && self.next.since(segment.seq) < len && window > 0
    }

    /// Takes the payload and the FIN of an acceptable segment. `segment` has no SYN.
    pub fn receive(&mut self, segment: &Segment, now: Micros) -> Received {
        self.note_congestion(segment);
        if segment.seq_len() == 0 {
            return Received::default();
        }
        let range = self.inside(segment);
        let fresh = self.fresh(range);
        let received = if fresh.is_empty() {
            self.acknowledge_each();
            Received::default()
        } else if fresh.start == self.next {
            self.in_order(segment, fresh, now)
        } else {
            self.ahead(segment, fresh)
        };
        if fresh != range || range.end != segment.end() {
            self.ack.at_once();
        }
        received
    }

    /// Returns the part of a segment that lies in the window, and notes its FIN if that does, too.
    ///
    /// Nothing counts behind the FIN. A FIN in front of octets that were received, or of another FIN, is none.
    fn inside(&mut self, segment: &Segment) -> Interval {
        let edge = self.fin.unwrap_or_else(|| self.window.edge());
        let data = segment.seq + segment.len;
        let is_last = match self.fin {
            Some(fin) => fin == data,
            None => data.is_before(edge) && !self.reassembly.reaches_beyond(data + 1),
        };
        if segment.flags.has(Flags::FIN) && is_last {
            self.fin = Some(data);
            return Interval::new(segment.seq, data + 1);
        }
        Interval::new(segment.seq, data.min(edge).max(segment.seq))
    }

    /// Notes a segment that is not acceptable. It gets an ACK, with a D-SACK if its octets came before.
    pub fn refuse(&mut self, segment: &Segment) {
        let old = Interval::new(segment.seq, (segment.seq + segment.len).min(self.next));
        if !old.is_empty() {
            self.note_duplicate(old);
        }
        self.ack.at_once();
    }

    /// Returns the first part of a range that is new, and notes what is not for the next D-SACK (RFC 2883 section 4).
    fn fresh(&mut self, range: Interval) -> Interval {
        let old = Interval::new(range.start, range.end.min(self.next));
        let duplicate = if old.is_empty() { self.reassembly.duplicate(range) } else { Some(old) };
        if let Some(duplicate) = duplicate {
            self.note_duplicate(duplicate);
            if old.is_empty() {
                // It is known, and so this only makes the range around it the newest one.
                self.reassembly.insert(duplicate);
            }
        }
        let start = range.start.max(self.next);
        self.reassembly.missing(Interval::new(start, range.end.max(start)))
    }

    fn note_duplicate(&mut self, range: Interval) {
        let touches = |known: &Interval| known.touches(range);
        self.duplicate = Some(self.duplicate.filter(touches).map_or(range, |known| known.join(range)));
    }

    /// Takes octets that are next. An ACK goes at once if they fill a gap (RFC 5681 section 4.2) or end the stream.
    fn in_order(&mut self, segment: &Segment, fresh: Interval, now: Micros) -> Received {
        let before = self.next;
        self.next = self.reassembly.advance(fresh.end);
        self.ack.arrived(segment.len, self.next, segment.flags.has(Flags::PSH), now);
        if self.next != fresh.end || self.has_gap() {
            self.ack.at_once();
        }
        let fin = self.is_finished();
        if fin {
            self.reassembly.clear();
            self.ack.at_once();
        }
        let (offset, len) = self.part(segment, fresh);
        Received { offset, len, ready: self.next.since(before) - u32::from(fin), fin, refused: false }
    }

    /// Takes octets that lie beyond a gap, if there is a place to note them.
    fn ahead(&mut self, segment: &Segment, fresh: Interval) -> Received {
        self.acknowledge_each();
        if self.refuses_ahead || !self.reassembly.insert(fresh) {
            return Received { refused: true, ..Received::default() };
        }
        let (offset, len) = self.part(segment, fresh);
        Received { offset, len, ..Received::default() }
    }

    /// RFC 5681 section 4.2: an ACK at once. A peer without SACK counts ACKs, and so each segment gets one.
    const fn acknowledge_each(&mut self) {
        if self.has_sack {
            self.ack.at_once();
        } else {
            self.ack.one_more();
        }
    }

    /// Returns where a range lies in the payload of a segment, the FIN's number left out.
    fn part(&self, segment: &Segment, range: Interval) -> (u32, u32) {
        let end = self.fin.map_or(range.end, |fin| range.end.min(fin));
        (range.start.since(segment.seq), end.since(range.start))
    }

    /// RFC 3168 section 6.1.3: from a CE on all ACKs say ECE, until a CWR. A change is told at once.
    fn note_congestion(&mut self, segment: &Segment) {
        if !self.has_ecn {
            return;
        }
        let before = self.echoes_congestion;
        if segment.flags.has(Flags::CWR) {
            self.echoes_congestion = false;
        }
        if segment.ecn == Ecn::Ce && segment.len > 0 {
            self.echoes_congestion = true;
        }
        if self.echoes_congestion != before {
            self.ack.at_once();
        }
    }

    /// Notes that the user has taken octets. `rtt` is the peer's distance, if it is known.
    pub fn consume(&mut self, octets: u32, rtt: Option<Micros>, now: Micros) {
        self.window.consume(octets, rtt, now);
    }

    /// Has an ACK go at once.
    pub const fn acknowledge(&mut self) {
        self.ack.at_once();
    }

    /// Whether a segment without payload has to go now, for an ACK or a window update.
    pub fn is_due(&self, now: Micros) -> bool {
        self.ack.is_due(now) || self.tells_window()
    }

    /// Returns when an ACK has to go, if one waits. A time that is over is now.
    pub fn next_timeout(&self) -> Option<Micros> {
        if self.tells_window() { Some(Micros(0)) } else { self.ack.next_timeout() }
    }

    /// Puts acknowledgement, window and echo of congestion into a segment.
    pub fn fill(&self, segment: &mut Segment) {
        segment.ack = Some(self.next);
        segment.window = self.window.field(self.next, self.ack.segment()).0;
        if self.echoes_congestion {
            segment.flags |= Flags::ECE;
        }
    }

    /// Whether an ACK has blocks of SACK.
    pub const fn has_blocks(&self) -> bool {
        self.has_sack && (self.has_gap() || self.duplicate.is_some())
    }

    /// Returns the blocks of SACK for an ACK: the duplicate first (RFC 2883 section 4), then what lies beyond the gap,
    /// the newest first (RFC 2018 section 4).
    pub fn blocks(&mut self) -> SackBlocks {
        let mut blocks = SackBlocks::NONE;
        if !self.has_sack {
            return blocks;
        }
        if let Some(duplicate) = self.duplicate {
            blocks.push(duplicate);
        }
        self.reassembly.report(&mut blocks);
        blocks
    }

    /// Notes that a segment with the acknowledgement of [`Self::fill`] has gone. Blocks of SACK that it did not have
    /// still have to go.
    pub fn sent(&mut self, segment: &Segment) {
        self.window.told(self.next, segment.window);
        let has_told = !segment.options.sack.is_empty() || !self.has_blocks();
        if has_told {
            self.duplicate = None;
        }
        self.ack.sent(self.next, has_told);
    }

    /// For lack of memory: keeps the window's edge where it is, and takes nothing beyond a gap any more.
    pub const fn freeze(&mut self, is_frozen: bool) {
        self.window.freeze(is_frozen);
        self.refuses_ahead = is_frozen;
    }

    /// For lack of memory: forgets what lies beyond a gap, as RFC 2018 section 8 allows. The owner drops it, too.
    pub fn renege(&mut self) {
        self.reassembly.clear();
    }

    /// Exchanges the storage of intervals for a larger one.
    pub fn swap_intervals(&mut self, intervals: I) -> I {
        self.reassembly.swap(intervals)
    }

    fn tells_window(&self) -> bool {
        !self.is_finished() && self.window.has_news(self.next, self.ack.segment())
    }
}
