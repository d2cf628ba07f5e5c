//! Octets that were received, in the frames in which they came, until the user takes them.

use std::collections::VecDeque;

use weft_tcp::Seq;

use super::pool::Pool;
use crate::frame::Frame;

/// The received octets of a connection.
#[derive(Debug)]
pub(crate) struct Held {
    /// In order.
    ready: VecDeque<Piece>,
    /// Octets in these.
    unread: usize,
    /// Beyond a gap, each with the number of its first octet, sorted by that.
    ahead: VecDeque<(Seq, Piece)>,
}

/// Octets in a frame: from `start` to `end`.
#[derive(Debug)]
pub(crate) struct Piece {
    frame: Frame,
    start: usize,
    end: usize,
    /// The buffer was made for this and later pieces.
    is_copy: bool,
}

impl Piece {
    /// Takes a frame with payload from `start` on. Leaves another frame in its place.
    ///
    /// A frame whose payload fills only a small part of its buffer is copied.
    pub(crate) fn of(incoming: &mut Frame, start: usize, len: usize, pool: &mut Pool) -> Self {
        if len * WASTE < incoming.size() && incoming.size() > COPY {
            let mut frame = pool.frame();
            frame.reset(len.max(COPY));
            frame[..len].copy_from_slice(&incoming[start..start + len]);
            return Self { frame, start: 0, end: len, is_copy: true };
        }
        let other = if incoming.is_shared() { Frame::default() } else { pool.frame() };
        let frame = core::mem::replace(incoming, other);
        Self { frame, start, end: start + len, is_copy: false }
    }

    /// Puts the octets of another piece behind the own ones, if both are short. Otherwise returns it.
    fn join(&mut self, other: Self, pool: &mut Pool) -> Option<Self> {
        let end = self.end + other.len();
        if !self.is_copy || !other.is_copy || end > self.frame.len() {
            return Some(other);
        }
        self.frame[self.end..end].copy_from_slice(&other.frame[other.start..other.end]);
        self.end = end;
        pool.recycle(other.frame);
        None
    }

    const fn len(&self) -> usize {
        self.end - self.start
    }
}

impl Held {
    pub(crate) const fn new() -> Self {
        Self { ready: VecDeque::new(), unread: 0, ahead: VecDeque::new() }
    }

    /// Returns how many octets are in order.
    pub(crate) const fn unread(&self) -> usize {
        self.unread
    }

    /// Takes octets that are next, if `piece` has any, and has the next `ready` octets be in order.
    pub(crate) fn append(&mut self, piece: Option<Piece>, ready: usize, pool: &mut Pool) {
        let until = self.unread + ready;
        self.push(piece, pool);
        while self.unread < until {
            let Some((_, piece)) = self.ahead.pop_front() else { return };
            self.push(Some(piece), pool);
        }
    }

    /// Takes octets beyond a gap.
    pub(crate) fn insert(&mut self, seq: Seq, piece: Piece) {
        let place = self.ahead.partition_point(|(other, _)| other.is_before(seq));
        self.ahead.insert(place, (seq, piece));
    }

    /// Returns the first octets, as far as they lie in one frame.
    pub(crate) fn first(&self) -> &[u8] {
        self.ready.front().map_or(&[], |piece| &piece.frame[piece.start..piece.end])
    }

    /// Copies the first octets, as many as there is room for. Returns how many there were.
    pub(crate) fn peek(&self, mut octets: &mut [u8]) -> usize {
        let room = octets.len();
        for piece in &self.ready {
            let len = piece.len().min(octets.len());
            let (place, rest) = octets.split_at_mut(len);
            place.copy_from_slice(&piece.frame[piece.start..piece.start + len]);
            octets = rest;
        }
        room - octets.len()
    }

    /// Takes octets away, at most as many as there are. Returns how many there were.
    pub(crate) fn consume(&mut self, most: usize, pool: &mut Pool) -> usize {
        let mut left = most;
        while left > 0
            && let Some(piece) = self.ready.front_mut()
        {
            let len = piece.len().min(left);
            piece.start += len;
            left -= len;
            if piece.len() == 0
                && let Some(piece) = self.ready.pop_front()
            {
                pool.recycle(piece.frame);
            }
        }
        self.unread -= most - left;
        most - left
    }

    /// Forgets what lies beyond a gap.
    pub(crate) fn forget_ahead(&mut self, pool: &mut Pool) {
        self.ahead.drain(..).for_each(|(_, piece)| pool.recycle(piece.frame));
    }

    fn push(&mut self, piece: Option<Piece>, pool: &mut Pool) {
        let Some(piece) = piece else { return };
        self.unread += piece.len();
        let left = match self.ready.back_mut() {
            Some(last) => last.join(piece, pool),
            None => Some(piece),
        };
        self.ready.extend(left);
    }
}

/// A frame whose payload takes less than this part of its buffer is copied.
const WASTE: usize = 4;
/// Octets of the buffers of copies. Frames in buffers of this size and smaller ones are not copied.
const COPY: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(octets: &[u8], pool: &mut Pool) -> Piece {
        Piece::of(&mut Frame::copy_of(octets), 0, octets.len(), pool)
    }

    fn all(held: &mut Held, pool: &mut Pool) -> Vec<u8> {
        let mut octets = Vec::new();
        while !held.first().is_empty() {
            octets.extend(held.first());
            held.consume(held.first().len(), pool);
        }
        octets
    }

    #[test]
    fn octets_beyond_gaps_follow_when_these_are_filled() {
        let (mut held, mut pool) = (Held::new(), Pool::new(2000));
        let number = |octets: u32| Seq(u32::MAX) + octets;
        held.insert(number(6), piece(&[6, 7], &mut pool));
        held.insert(number(2), piece(&[2, 3], &mut pool));
        let first = piece(&[0, 1], &mut pool);
        held.append(Some(first), 4, &mut pool);
        assert_eq!((held.unread(), held.peek(&mut [0; 3]), held.first()), (4, 3, &[0, 1][..]));
        assert_eq!(held.consume(1, &mut pool), 1);
        let gap = piece(&[4, 5], &mut pool);
        held.append(Some(gap), 4, &mut pool);
        assert_eq!(all(&mut held, &mut pool), [1, 2, 3, 4, 5, 6, 7]);
        assert_eq!((held.unread(), held.consume(9, &mut pool)), (0, 0));
    }

    #[test]
    fn short_pieces_of_large_frames_lie_together() {
        let (mut held, mut pool) = (Held::new(), Pool::new(2000));
        for number in 0..100_u8 {
            let mut frame = Frame::copy_of(&[number; 4000]);
            let piece = Piece::of(&mut frame, 10, 20, &mut pool);
            assert_eq!(frame.len(), 4000, "the frame stays");
            held.append(Some(piece), 20, &mut pool);
        }
        assert!(held.ready.len() < 5);
        assert_eq!(all(&mut held, &mut pool), (0..100).flat_map(|number| [number; 20]).collect::<Vec<_>>());
    }
}
