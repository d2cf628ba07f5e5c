//! The sends of a stream in order, from the user's call until their memory is free.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::Way;
use crate::op::Op;

/// The sends of a stream.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Sends {
    /// Sends of which octets are not on the wire. Some of the first one's may be.
    queued: VecDeque<Send>,
    /// Sends that are on the wire as a whole.
    leaving: VecDeque<Sent>,
    /// For each DATA that has not left, how many of `leaving` end with it.
    out: VecDeque<usize>,
    /// How many of `leaving` have left.
    left: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Send {
    op: Op,
    len: u32,
    elements: u8,
    /// Octets on the wire.
    taken: u32,
    way: Way,
}

impl Send {
    const fn rest(&self) -> u32 {
        self.len - self.taken
    }
}

/// A range of a user's send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Part {
    /// The send.
    pub op: Op,
    /// The first octet.
    pub at: u32,
    /// Octets, at least 1.
    pub len: u32,
}

/// A send whose memory is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sent {
    /// The send.
    pub op: Op,
    /// All of its octets.
    pub octets: u32,
    /// How they went. Immediate data is [`Way::Inline`], whatever the receiver does with it.
    pub way: Way,
}

impl Sends {
    pub(crate) const fn new() -> Self {
        Self { queued: VecDeque::new(), leaving: VecDeque::new(), out: VecDeque::new(), left: 0 }
    }

    pub(crate) fn queue(&mut self, op: Op, len: u32, elements: u8) {
        self.queued.push_back(Send { op, len, elements, taken: 0, way: Way::Direct });
        self.end_finished();
    }

    /// Takes a send back. Returns false if octets of it are on the wire, or it is not queued.
    pub(crate) fn cancel(&mut self, op: Op) -> bool {
        let at = self.queued.iter().position(|send| send.op == op && send.taken == 0);
        let is_found = at.and_then(|at| self.queued.remove(at)).is_some();
        self.end_finished();
        is_found
    }

    /// Finds the next octets, at most `limit`. They stay queued.
    pub(crate) fn gather(&self, limit: u32, parts: &mut Vec<Part>) -> u32 {
        let (mut len, mut elements) = (0, 0);
        for send in &self.queued {
            elements += usize::from(send.elements);
            if len == limit || !parts.is_empty() && elements > MAX_ELEMENTS {
                break;
            }
            let part = send.rest().min(limit - len);
            if part > 0 {
                parts.push(Part { op: send.op, at: send.taken, len: part });
                len += part;
            }
        }
        len
    }

    /// Takes the parts out of the queue, for one DATA.
    pub(crate) fn take(&mut self, parts: &[Part], way: Way) {
        self.out.push_back(0);
        for part in parts {
            if let Some(send) = self.queued.front_mut() {
                send.taken += part.len;
                send.way = send.way.max(way);
            }
            self.end_finished();
        }
    }

    /// The oldest DATA that is out has left.
    pub(crate) fn handle_left(&mut self) {
        self.left += self.out.pop_front().unwrap_or(0);
    }

    /// Returns the next send that has left.
    pub(crate) fn poll(&mut self) -> Option<Sent> {
        self.left = self.left.checked_sub(1)?;
        self.leaving.pop_front()
    }

    /// Returns true if all sends are on the wire.
    pub(crate) fn are_taken(&self) -> bool {
        self.queued.is_empty()
    }

    /// Returns how many octets of the next send are not on the wire, or 0.
    pub(crate) fn next_rest(&self) -> u32 {
        self.queued.front().map_or(0, Send::rest)
    }

    /// Returns all sends that were not polled, in order.
    pub(crate) fn ops(&self) -> impl Iterator<Item = Op> {
        self.leaving.iter().map(|sent| sent.op).chain(self.queued.iter().map(|send| send.op))
    }

    /// Returns how many DATA have not left.
    pub(crate) fn out(&self) -> usize {
        self.out.len()
    }

    /// Takes all sends that were not polled, in order.
    pub(crate) fn abandon(&mut self) -> impl Iterator<Item = Op> {
        self.out.clear();
        self.left = 0;
        self.leaving.drain(..).map(|sent| sent.op).chain(self.queued.drain(..).map(|send| send.op))
    }

    /// Takes sends without further octets out of the queue. They complete when the last DATA has left.
    fn end_finished(&mut self) {
        while self.queued.front().is_some_and(|send| send.rest() == 0)
            && let Some(Send { op, len, way, .. }) = self.queued.pop_front()
        {
            self.leaving.push_back(Sent { op, octets: len, way });
            match self.out.back_mut() {
                Some(ends) => *ends += 1,
                None => self.left += 1,
            }
        }
    }
}

/// Elements of memory that one request of a queue pair gathers, beside the header of a message.
const MAX_ELEMENTS: usize = 31;

#[cfg(test)]
mod tests {
    use super::*;

    fn part(op: u64, at: u32, len: u32) -> Part {
        Part { op: Op(op), at, len }
    }

    fn ops(sends: &mut Sends) -> Vec<u64> {
        core::iter::from_fn(|| sends.poll()).map(|sent| sent.op.0).collect()
    }

    #[test]
    fn a_send_completes_when_its_last_octets_have_left_and_one_without_octets_in_its_turn() {
        let (mut sends, mut parts) = (Sends::new(), Vec::new());
        sends.queue(Op(1), 0, 0);
        assert_eq!(ops(&mut sends), [1]);
        sends.queue(Op(2), 3, 1);
        sends.queue(Op(3), 0, 0);
        sends.queue(Op(4), 2, 1);
        assert_eq!(sends.gather(2, &mut parts), 2);
        sends.take(&parts, Way::Ring);
        parts.clear();
        assert_eq!(sends.gather(8, &mut parts), 3);
        assert_eq!(parts, [part(2, 2, 1), part(4, 0, 2)]);
        sends.take(&parts, Way::Direct);
        sends.queue(Op(5), 0, 0);
        sends.handle_left();
        assert!(ops(&mut sends).is_empty());
        sends.handle_left();
        assert_eq!(sends.poll(), Some(Sent { op: Op(2), octets: 3, way: Way::Ring }));
        assert_eq!(ops(&mut sends), [3, 4, 5]);
        sends.handle_left();
        assert!(ops(&mut sends).is_empty());
    }

    #[test]
    fn a_send_that_is_on_the_wire_in_part_stays() {
        let (mut sends, mut parts) = (Sends::new(), Vec::new());
        sends.queue(Op(1), 2, 1);
        sends.queue(Op(2), 2, 1);
        sends.queue(Op(3), 0, 0);
        assert_eq!(sends.gather(1, &mut parts), 1);
        sends.take(&parts, Way::Direct);
        assert!(!sends.cancel(Op(1)) && sends.cancel(Op(2)) && !sends.cancel(Op(2)));
        assert_eq!((sends.next_rest(), sends.are_taken()), (1, false));
        assert_eq!(sends.ops().collect::<Vec<_>>(), [Op(1), Op(3)]);
    }

    #[test]
    fn one_request_gathers_no_more_elements_than_a_queue_pair_takes() {
        let (mut sends, mut parts) = (Sends::new(), Vec::new());
        for (op, elements) in [(1, 30), (2, 1), (3, 1), (4, 31), (5, 40)] {
            sends.queue(Op(op), 4, elements);
        }
        for expected in [&[1, 2][..], &[3], &[4], &[5]] {
            parts.clear();
            sends.gather(u32::MAX, &mut parts);
            sends.take(&parts, Way::Direct);
            assert_eq!(parts.iter().map(|part| part.op.0).collect::<Vec<_>>(), expected);
        }
    }
}
