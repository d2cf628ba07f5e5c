//! Octets that were received, in the frames in which they came, until the user takes them.

use core::ops::Range;
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
    /// Pieces beyond a gap that the user has not seen.
    unseen: usize,
    /// Storage for [`Self::visit_ahead`].
    given: Vec<Range<usize>>,
}

/// Octets in a frame: from `start` to `end`.
#[derive(Debug)]
pub(crate) struct Piece {
    frame: Frame,
    start: usize,
    end: usize,
    /// The buffer was made for this and later pieces.
    is_copy: bool,
    /// The user has seen it beyond a gap.
    is_seen: bool,
    /// The user needs the octets no more, and they are not in the frame.
    is_given: bool,
}

impl Piece {
    /// Takes a frame with payload from `start` on. Leaves another frame in its place.
    ///
    /// A frame whose payload fills only a small part of its buffer is copied.
    pub(crate) fn of(incoming: &mut Frame, start: usize, len: usize, pool: &mut Pool) -> Self {
        if len * WASTE < incoming.size() && incoming.size() > COPY {
            return Self::copy(&incoming[start..start + len], pool);
        }
        let other = if incoming.is_shared() { Frame::default() } else { pool.frame() };
        let frame = core::mem::replace(incoming, other);
        Self { frame, start, end: start + len, is_copy: false, is_seen: false, is_given: false }
    }

    fn copy(octets: &[u8], pool: &mut Pool) -> Self {
        let (mut frame, len) = (pool.frame(), octets.len());
        frame.reset(len.max(COPY));
        frame[..len].copy_from_slice(octets);
        Self { frame, start: 0, end: len, is_copy: true, is_seen: false, is_given: false }
    }

    /// Octets that the user needs no more.
    fn given(len: usize) -> Self {
        Self { frame: Frame::default(), start: 0, end: len, is_copy: false, is_seen: true, is_given: true }
    }

    fn octets(&self) -> &[u8] {
        if self.is_given { &[] } else { &self.frame[self.start..self.end] }
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
        Self { ready: VecDeque::new(), unread: 0, ahead: VecDeque::new(), unseen: 0, given: Vec::new() }
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
            self.unseen -= usize::from(!piece.is_seen);
            self.push(Some(piece), pool);
        }
    }

    /// Takes octets beyond a gap.
    pub(crate) fn insert(&mut self, seq: Seq, piece: Piece) {
        let place = self.ahead.partition_point(|(other, _)| other.is_before(seq));
        self.ahead.insert(place, (seq, piece));
        self.unseen += 1;
    }

    /// Returns how many pieces beyond a gap the user has not seen.
    pub(crate) const fn unseen(&self) -> usize {
        self.unseen
    }

    /// Hands `f` each piece beyond a gap once, with its distance from the first unread octet. `next` is the number of the
    /// first octet that is missing. `f` adds the places in the piece that it needs no more. These leave the frame, and the
    /// rest of the piece is copied.
    pub(crate) fn visit_ahead(
        &mut self,
        next: Seq,
        pool: &mut Pool,
        mut f: impl FnMut((usize, &[u8]), &mut Vec<Range<usize>>),
    ) {
        let mut index = 0;
        while self.unseen > 0 && index < self.ahead.len() {
            let (seq, piece) = &mut self.ahead[index];
            let seq = *seq;
            index += 1;
            if core::mem::replace(&mut piece.is_seen, true) {
                continue;
            }
            self.unseen -= 1;
            let distance = usize::try_from(seq.since(next)).unwrap_or(usize::MAX).saturating_add(self.unread);
            let mut given = core::mem::take(&mut self.given);
            f((distance, piece.octets()), &mut given);
            if !given.is_empty()
                && let Some((_, piece)) = self.ahead.remove(index - 1)
            {
                index -= 1;
                for part in parts(&piece, &given, pool) {
                    self.ahead.insert(index, (seq + u32::try_from(part.0).unwrap_or(0), part.1));
                    index += 1;
                }
                pool.recycle(piece.frame);
                given.clear();
            }
            self.given = given;
        }
    }

    /// Returns how many octets come first that the user needs no more, as far as they were given away together.
    pub(crate) fn placed(&self) -> usize {
        self.ready.front().filter(|piece| piece.is_given).map_or(0, Piece::len)
    }

    /// Returns the first octets, as far as they lie in one frame.
    pub(crate) fn first(&self) -> &[u8] {
        self.ready.front().map_or(&[], Piece::octets)
    }

    /// Copies the first octets, as many as there is room for, up to one that was given away. Returns how many there were.
    pub(crate) fn peek(&self, mut octets: &mut [u8]) -> usize {
        let room = octets.len();
        for piece in self.ready.iter().take_while(|piece| !piece.is_given) {
            let len = piece.len().min(octets.len());
            let (place, rest) = octets.split_at_mut(len);
            place.copy_from_slice(&piece.octets()[..len]);
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
        self.unseen = 0;
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

/// Cuts a piece into what was given away, and copies of the rest. Returns each part with its place in the piece.
fn parts<'a>(
    piece: &'a Piece,
    given: &'a [Range<usize>],
    pool: &'a mut Pool,
) -> impl Iterator<Item = (usize, Piece)> + 'a {
    let octets = piece.octets();
    let ends = given.iter().cloned().chain(core::iter::once(octets.len()..octets.len()));
    ends.scan(0, move |done, range| {
        let (start, end) = (range.start.clamp(*done, octets.len()), range.end.clamp(*done, octets.len()));
        let rest = (*done < start).then(|| {
            let copy = Piece { is_seen: true, ..Piece::copy(&octets[*done..start], pool) };
            (*done, copy)
        });
        *done = end;
        Some(rest.into_iter().chain((start < end).then(|| (start, Piece::given(end - start)))))
    })
    .flatten()
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
    fn what_is_given_away_ahead_of_its_turn_comes_in_its_place() {
        let (mut held, mut pool) = (Held::new(), Pool::new(2000));
        let next = Seq(u32::MAX);
        let whole = piece(&[10, 11, 12, 13, 14, 15, 16], &mut pool);
        held.insert(next + 10, whole);
        assert_eq!(held.unseen(), 1);
        held.visit_ahead(next, &mut pool, |(distance, octets), given| {
            assert_eq!((distance, octets.len()), (10, 7));
            given.extend([1..3, 3..5]);
        });
        assert_eq!((held.unseen(), held.unread()), (0, 0));
        held.visit_ahead(next, &mut pool, |_, _| panic!("each piece is seen once"));
        let first = piece(&[0; 10], &mut pool);
        held.append(Some(first), 17, &mut pool);
        assert_eq!((held.unread(), held.placed(), held.peek(&mut [0; 20])), (17, 0, 11));
        held.consume(10, &mut pool);
        assert_eq!((held.first(), held.placed()), (&[10][..], 0));
        held.consume(1, &mut pool);
        for _ in 0..2 {
            assert_eq!((held.first(), held.placed()), (&[][..], 2));
            held.consume(2, &mut pool);
        }
        assert_eq!((held.first(), held.unread()), (&[15, 16][..], 2));
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
