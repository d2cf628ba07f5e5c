//! The scoreboard: what is in flight, has arrived, or is lost.

mod queue;
mod totals;

use totals::Totals;

use super::ring::Ring;
use super::sent::{ENDS, FIN, LOST, QUEUED, SACKED, Sent, Stamp};
use crate::{Interval, Seq, Token};

/// The blocks of an ACK cut super-frames so often at most: four blocks, two edges.
const MOST_CUTS: usize = 8;

/// The records between SND.UNA and SND.NXT in order of their numbers.
///
/// Records that went once lie in order of time as well. Those sent again stand in a queue by time, which is linked by
/// their numbers. So the search for losses looks at two fronts only.
#[derive(Debug)]
pub(super) struct Scoreboard<S> {
    pub(super) ring: Ring<S>,
    pub(super) una: Seq,
    pub(super) nxt: Seq,
    totals: Totals,
    /// Records at the front that are acknowledged, whose frames the owner has not taken back.
    done: usize,
    /// The first and the last record of the queue of what was sent again.
    queue: Option<(Seq, Seq)>,
    /// No record that went once, is in flight and lies before this one can be lost by time.
    pub(super) judged: Seq,
    /// No lost record lies before this one.
    pub(super) lost_from: Seq,
}

impl<S: AsRef<[Sent]> + AsMut<[Sent]>> Scoreboard<S> {
    pub(super) fn new(storage: S, una: Seq) -> Self {
        let ring = Ring::new(storage);
        let totals = Totals::default();
        Self { ring, una, nxt: una, totals, done: 0, queue: None, judged: una, lost_from: una }
    }

    pub(super) const fn totals(&self) -> Totals {
        self.totals
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.ring.len() == self.done
    }

    /// Whether there is no place for another record of new octets. Some are left for the cuts of an ACK's blocks.
    pub(super) fn is_full(&self) -> bool {
        let capacity = self.ring.capacity();
        self.ring.len() + MOST_CUTS.min(capacity / 2) >= capacity
    }

    /// Returns the octets between SND.UNA and SND.NXT (RFC 5681's FlightSize).
    pub(super) const fn flight(&self) -> u32 {
        self.nxt.since(self.una)
    }

    /// Returns the index of the first record that is not acknowledged.
    pub(super) const fn first(&self) -> usize {
        self.done
    }

    /// Returns the index of the record that holds a number.
    pub(super) fn find(&self, seq: Seq) -> Option<usize> {
        let behind = self.ring.partition(|sent| !seq.is_before(sent.seq)).checked_sub(1)?;
        (behind >= self.done && seq.is_before(self.ring.get(behind)?.end())).then_some(behind)
    }

    /// Returns the frame of the next record that is acknowledged, if the frame ends with it.
    pub(super) fn release(&mut self) -> Option<Token> {
        while self.done > 0 {
            self.done -= 1;
            let sent = self.ring.pop()?;
            if sent.is(ENDS) && !sent.is(FIN) {
                return Some(sent.token);
            }
        }
        None
    }

    /// Takes a record of octets that go for the first time. Returns false if there is no place.
    pub(super) fn push(&mut self, sent: Sent) -> bool {
        let is_taken = self.ring.push(sent);
        if is_taken {
            self.totals.add(&sent);
            self.nxt = sent.end();
        }
        is_taken
    }

    /// Changes a record and the sums with it.
    fn change(&mut self, index: usize, change: impl FnOnce(&mut Sent)) {
        let Some(sent) = self.ring.get_mut(index) else { return };
        self.totals.remove(sent);
        change(sent);
        self.totals.add(sent);
    }

    /// Cuts a record in two, of which the first has `at` octets. Returns false if there is no place for the second.
    pub(super) fn cut(&mut self, index: usize, at: u16) -> bool {
        let Some(mut front) = self.ring.get(index).copied() else { return false };
        if at == 0 || at >= front.len || self.ring.len() == self.ring.capacity() {
            return false;
        }
        let mut rest = front.cut(at);
        (rest.prev, rest.next) = (front.seq, if front.next == front.seq { rest.seq } else { front.next });
        self.ring.insert(index + 1, rest);
        self.change(index, |sent| *sent = front);
        self.totals.add(&rest);
        if front.is(QUEUED) {
            if rest.next != rest.seq {
                self.set_prev(rest.next, rest.seq);
            }
            self.set_next(front.seq, rest.seq);
            self.queue =
                self.queue.map(|(first, last)| (first, if last == front.seq { rest.seq } else { last }));
        }
        true
    }

    /// Notes that the record goes once more, unless the peer has it.
    pub(super) fn resend(&mut self, index: usize, sent_at: Stamp) {
        if self.ring.get(index).is_none_or(|sent| sent.is(SACKED)) {
            return;
        }
        self.dequeue(index);
        self.change(index, |sent| {
            sent.marks &= !LOST;
            sent.times = sent.times.saturating_add(1);
            sent.sent_at = sent_at;
        });
        self.enqueue(index);
    }

    /// Marks a record that is in flight as lost. Returns its octets, 0 if it was not in flight.
    pub(super) fn lose(&mut self, index: usize) -> u32 {
        let Some(sent) = self.ring.get(index).copied().filter(Sent::is_in_flight) else { return 0 };
        self.dequeue(index);
        self.change(index, |sent| sent.marks |= LOST);
        self.lost_from =
            if self.totals.lost == u32::from(sent.len) { sent.seq } else { self.lost_from.min(sent.seq) };
        u32::from(sent.len)
    }

    /// Returns the first record that is lost.
    pub(super) fn first_lost(&self) -> Option<usize> {
        if self.totals.lost == 0 {
            return None;
        }
        let from = self.find(self.lost_from.max(self.una)).unwrap_or(self.done);
        (from..self.ring.len()).find(|&index| self.ring.get(index).is_some_and(|sent| sent.is(LOST)))
    }

    /// Has the next search for what is lost begin at a lost record, so that it costs nothing however often it is made.
    pub(super) fn settle(&mut self) {
        if let Some(sent) = self.first_lost().and_then(|index| self.ring.get(index)) {
            self.lost_from = sent.seq;
        }
    }

    /// Takes the marks of loss from all records: none of them was lost after all.
    ///
    /// Those that went more than once count as sent at `last`, when something went last. So the queue stays in order of time.
    pub(super) fn revive(&mut self, last: Stamp) {
        for index in self.done..self.ring.len() {
            let Some(sent) = self.ring.get(index).copied().filter(|sent| sent.is(LOST)) else { continue };
            self.change(index, |sent| sent.marks &= !LOST);
            if sent.is_repeated() {
                self.change(index, |sent| sent.sent_at = last);
                self.enqueue(index);
            }
        }
        self.judged = self.una;
    }

    /// Takes the marks of SACK from all records, which are lost then (RFC 2018 section 8: the peer may discard them).
    pub(super) fn renege(&mut self) {
        for index in self.done..self.ring.len() {
            if self.ring.get(index).is_some_and(|sent| sent.is(SACKED)) {
                self.change(index, |sent| sent.marks = sent.marks & !SACKED | LOST);
            }
        }
        (self.judged, self.lost_from) = (self.una, self.una);
    }

    /// Marks a block as arrived. Calls `delivered` for each record for which that is news.
    ///
    /// Of a record that lies in the block in part, whole segments are marked. The rest is not: that costs a needless
    /// retransmission at most, and is the peer's or a middlebox's doing.
    pub(super) fn sack(&mut self, block: Interval, mut delivered: impl FnMut(&Sent)) {
        self.cut_at(block.start, u16::div_ceil);
        self.cut_at(block.end, |octets, segment| octets / segment);
        let mut at = block.start;
        while at.is_before(block.end) {
            let index = self.ring.partition(|sent| sent.seq.is_before(at)).max(self.done);
            let Some(sent) = self.ring.get(index).copied() else { return };
            if block.end.is_before(sent.end()) {
                return;
            }
            if !sent.is(SACKED) {
                delivered(&sent);
                self.dequeue(index);
                let end = sent.end();
                self.change(index, |sent| {
                    sent.marks = sent.marks & !LOST | SACKED;
                    sent.next = end;
                });
                at = end;
                continue;
            }
            // The way over what is SACKED is halved each time it is gone, so that a long run costs little.
            at = sent.next;
            if let Some(next) = self.find(at).and_then(|next| self.ring.get(next).copied())
                && next.is(SACKED)
                && next.seq == at
                && let Some(sent) = self.ring.get_mut(index)
            {
                sent.next = next.next;
            }
        }
    }

    /// Cuts the record of several segments in which a number lies. `whole` says in front of which segment.
    fn cut_at(&mut self, at: Seq, whole: impl FnOnce(u16, u16) -> u16) {
        let Some((index, sent)) = self.find(at).and_then(|index| Some((index, *self.ring.get(index)?)))
        else {
            return;
        };
        if sent.segments() > 1 && !sent.is(SACKED) {
            let octets = u16::try_from(at.since(sent.seq)).unwrap_or(u16::MAX);
            self.cut(index, whole(octets, sent.segment).saturating_mul(sent.segment));
        }
    }

    /// Takes a cumulative ACK between SND.UNA and SND.NXT. Calls `delivered` for each record, or the part of one, that it
    /// covers.
    pub(super) fn acknowledge(&mut self, ack: Seq, mut delivered: impl FnMut(&Sent)) {
        while let Some(mut sent) = self.ring.get(self.done).copied()
            && sent.seq.is_before(ack)
        {
            if ack.is_before(sent.end()) {
                let at = u16::try_from(ack.since(sent.seq)).unwrap_or(u16::MAX);
                let rest = self.trim(self.done, at);
                sent.len = at;
                delivered(&sent);
                debug_assert!(rest, "a record that goes on behind the ACK is cut");
                break;
            }
            delivered(&sent);
            self.dequeue(self.done);
            self.totals.remove(&sent);
            self.done += 1;
        }
        self.una = ack;
        self.judged = self.judged.max(ack);
        self.lost_from = self.lost_from.max(ack);
    }

    /// Takes octets from the front of a record, which keeps its place in the queue.
    fn trim(&mut self, index: usize, at: u16) -> bool {
        let Some(mut sent) = self.ring.get(index).copied().filter(|sent| sent.len > at) else { return false };
        let old = sent.seq;
        let mut rest = sent.cut(at);
        let seq = rest.seq;
        if rest.is(QUEUED) {
            let renamed = |link| if link == old { seq } else { link };
            (rest.prev, rest.next) = (renamed(rest.prev), renamed(rest.next));
            if rest.prev != seq {
                self.set_next(rest.prev, seq);
            }
            if rest.next != seq {
                self.set_prev(rest.next, seq);
            }
            self.queue = self.queue.map(|(first, last)| (renamed(first), renamed(last)));
        }
        self.change(index, |sent| *sent = rest);
        true
    }
}
