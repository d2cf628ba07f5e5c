//! A receiver that is as simple as can be.

use std::vec::Vec;

use super::path::Random;
use crate::{Interval, Micros, Seq};

/// How a peer reads and acknowledges.
#[derive(Clone, Debug)]
pub(super) struct Reader {
    /// Octets of its buffer.
    pub(super) buffer: u32,
    /// How long its application sleeps when the buffer is full, 0 if it always reads.
    pub(super) sleep: Micros,
    /// How long it delays an ACK.
    pub(super) ack_delay: Micros,
    /// Segments that it acknowledges together.
    pub(super) every: u32,
    pub(super) dsack: bool,
    /// Whether it discards what is out of order now and then, having SACKed it, in parts of a million.
    pub(super) reneges: u32,
    /// Whether its window may shrink.
    pub(super) shrinks: bool,
}

impl Reader {
    pub(super) fn plain() -> Self {
        let (buffer, sleep, ack_delay) = (4 << 20, Micros(0), Micros::from_millis(40));
        Self { buffer, sleep, ack_delay, every: 2, dsack: true, reneges: 0, shrinks: false }
    }

    pub(super) fn of(random: &mut Random, emss: u16) -> Self {
        let large = random.one_in(2);
        Self {
            buffer: if large { 1 << 20 } else { 1 + random.below(u32::from(emss) * 20) },
            sleep: Micros(u64::from(random.pick(&[0, 0, 20_000, 1_000_000_u32]))),
            ack_delay: Micros(u64::from(random.pick(&[1000, 10_000, 40_000, 200_000_u32]))),
            every: random.pick(&[1, 2, 2, 8]),
            dsack: !random.one_in(4),
            reneges: random.pick(&[0, 0, 0, 2000]),
            shrinks: random.one_in(6),
        }
    }
}

/// An ACK on its way.
#[derive(Clone, Debug)]
pub(super) struct Ack {
    pub(super) ack: Seq,
    pub(super) window: u32,
    pub(super) sack: Vec<Interval>,
    pub(super) echo: Option<u32>,
    pub(super) ece: bool,
}

/// A data segment on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Data {
    pub(super) seq: Seq,
    /// Numbers that it occupies.
    pub(super) len: u32,
    pub(super) is_fin: bool,
    pub(super) cwr: bool,
    pub(super) is_marked: bool,
    pub(super) timestamp: u32,
}

/// The peer of a sender.
#[derive(Debug)]
pub(super) struct Peer {
    reader: Reader,
    sack: bool,
    timestamps: bool,
    pub(super) nxt: Seq,
    /// What lies out of order, the newest first.
    beyond: Vec<Interval>,
    /// Octets in order that the application has not read.
    unread: u32,
    /// Where a segment with FIN ends.
    fin: Option<Seq>,
    pub(super) wakes: Option<Micros>,
    pub(super) ack_at: Option<Micros>,
    due: u32,
    dsack: Option<Interval>,
    recent: u32,
    last_ack: Seq,
    edge: Seq,
    ece: bool,
}

impl Peer {
    pub(super) fn new(reader: &Reader, (sack, timestamps): (bool, bool), first: Seq) -> Self {
        Self {
            reader: reader.clone(),
            sack,
            timestamps,
            nxt: first,
            beyond: std::vec![],
            unread: 0,
            fin: None,
            wakes: None,
            ack_at: None,
            due: 0,
            dsack: None,
            recent: 0,
            last_ack: first,
            edge: first + reader.buffer,
            ece: false,
        }
    }

    /// Whether the stream and its FIN have arrived.
    pub(super) fn is_done(&self) -> bool {
        self.fin == Some(self.nxt)
    }

    /// Takes a segment. Returns whether an ACK is due at once.
    pub(super) fn receive(&mut self, data: &Data, now: Micros, random: &mut Random) -> bool {
        self.ece = (self.ece && !data.cwr) || data.is_marked;
        let whole = Interval::new(data.seq, data.seq + data.len);
        if self.timestamps && !self.last_ack.is_before(data.seq) && data.timestamp >= self.recent {
            self.recent = data.timestamp;
        }
        if data.is_fin {
            self.fin = Some(whole.end);
        }
        let part = Interval::new(whole.start.max(self.nxt), whole.end.min(self.edge));
        let is_known = self.beyond.iter().any(|have| have.contains(whole));
        if !self.nxt.is_before(whole.end) || is_known {
            self.dsack = Some(whole);
            return true;
        }
        if part.is_empty() {
            return true;
        }
        if self.reader.reneges > 0 && random.ppm(self.reader.reneges) {
            self.beyond.clear();
        }
        if self.nxt.is_before(part.start) {
            self.keep(part);
            return true;
        }
        let before = self.nxt;
        let had_gap = !self.beyond.is_empty();
        self.nxt = part.end;
        while let Some(at) = self.beyond.iter().position(|have| !self.nxt.is_before(have.start)) {
            self.nxt = self.nxt.max(self.beyond.remove(at).end);
        }
        self.unread += self.nxt.since(before);
        self.read(now);
        self.due += 1;
        if self.due < self.reader.every && !had_gap && !self.is_done() {
            self.ack_at = Some(self.ack_at.unwrap_or(now + self.reader.ack_delay));
            return false;
        }
        true
    }

    fn keep(&mut self, mut part: Interval) {
        self.beyond.retain(|have| {
            let touches = !have.end.is_before(part.start) && !part.end.is_before(have.start);
            if touches {
                part = Interval::new(part.start.min(have.start), part.end.max(have.end));
            }
            !touches
        });
        self.beyond.insert(0, part);
    }

    fn read(&mut self, now: Micros) {
        if self.reader.sleep == Micros(0) {
            self.unread = 0;
        } else if 2 * self.unread >= self.reader.buffer && self.wakes.is_none() {
            self.wakes = Some(now + self.reader.sleep);
        }
    }

    /// The application reads all.
    pub(super) fn wake(&mut self) {
        (self.wakes, self.unread) = (None, 0);
    }

    /// Returns the ACK that goes now.
    pub(super) fn ack(&mut self) -> Ack {
        (self.due, self.ack_at, self.last_ack) = (0, None, self.nxt);
        let edge = self.nxt + self.reader.buffer.saturating_sub(self.unread);
        self.edge = if self.reader.shrinks { edge } else { self.edge.max(edge) };
        let mut sack = std::vec![];
        if self.sack {
            sack.extend(self.dsack.take().filter(|_| self.reader.dsack));
            sack.extend(self.beyond.iter().copied().take(3));
            sack.truncate(if self.timestamps { 3 } else { 4 });
        }
        let echo = self.timestamps.then_some(self.recent);
        Ack { ack: self.nxt, window: self.edge.since(self.nxt), sack, echo, ece: self.ece }
    }
}
