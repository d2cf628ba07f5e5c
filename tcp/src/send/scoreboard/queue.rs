//! The queue of what was sent again and is in flight, by time.

use super::Scoreboard;
use crate::Seq;
use crate::send::sent::{QUEUED, Sent};

impl<S: AsRef<[Sent]> + AsMut<[Sent]>> Scoreboard<S> {
    /// Returns the record that was sent again longest ago and is in flight.
    pub(in crate::send) fn oldest_repeated(&self) -> Option<usize> {
        self.queue.and_then(|(first, _)| self.find(first))
    }

    pub(super) fn set_prev(&mut self, of: Seq, to: Seq) {
        if let Some(sent) = self.find(of).and_then(|index| self.ring.get_mut(index)) {
            sent.prev = to;
        }
    }

    pub(super) fn set_next(&mut self, of: Seq, to: Seq) {
        if let Some(sent) = self.find(of).and_then(|index| self.ring.get_mut(index)) {
            sent.next = to;
        }
    }

    /// Puts a record at the end of the queue of what was sent again.
    pub(super) fn enqueue(&mut self, index: usize) {
        let Some(sent) = self.ring.get_mut(index) else { return };
        let (seq, before) = (sent.seq, self.queue.map_or(sent.seq, |(_, last)| last));
        sent.marks |= QUEUED;
        (sent.prev, sent.next) = (before, seq);
        self.set_next(before, seq);
        self.queue = Some((self.queue.map_or(seq, |(first, _)| first), seq));
    }

    /// Takes a record out of the queue of what was sent again, if it is in it.
    pub(super) fn dequeue(&mut self, index: usize) {
        let Some(sent) = self.ring.get_mut(index) else { return };
        if !sent.is(QUEUED) {
            return;
        }
        sent.marks &= !QUEUED;
        let (seq, prev, next) = (sent.seq, sent.prev, sent.next);
        let (is_first, is_last) = (prev == seq, next == seq);
        if !is_first {
            self.set_next(prev, if is_last { prev } else { next });
        }
        if !is_last {
            self.set_prev(next, if is_first { next } else { prev });
        }
        self.queue = match (self.queue, is_first, is_last) {
            (_, true, true) | (None, ..) => None,
            (Some((_, last)), true, false) => Some((next, last)),
            (Some((first, _)), false, true) => Some((first, prev)),
            (queue, false, false) => queue,
        };
    }
}
