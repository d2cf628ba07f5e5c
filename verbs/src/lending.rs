//! Payload that is sent from registered memory without a copy, where no CRC has to be made of it.

use std::io;
use std::os::fd::BorrowedFd;

use weft_rdmap::Token;

use crate::memory::{Span, Violation};
use crate::region::{MAX_PIECES, Part, send_gathered};

/// The plan of a gathering send: FPDUs of which some octets were built by their owner, and the rest lies in registered
/// memory.
#[derive(Debug)]
pub struct Lending<'a> {
    parts: [Piece<'a>; MAX_PIECES],
    count: usize,
    /// Octets in registered memory.
    lent: usize,
    /// Built octets that have their place in the plan.
    built: usize,
    /// Where the built octets of the next FPDU begin.
    next: usize,
    /// Where the built octets of the present FPDU stand in the plan, if some of the FPDU is lent.
    open: Option<usize>,
    finished: Option<Token>,
}

/// Octets of a plan.
#[derive(Debug, Clone, Copy)]
enum Piece<'a> {
    /// So many built octets, behind those of the pieces before.
    Built(usize),
    Memory(Span<'a>, usize),
}

impl<'a> Lending<'a> {
    /// Makes a plan without anything lent.
    pub const fn new() -> Self {
        Self {
            parts: [Piece::Built(0); MAX_PIECES],
            count: 0,
            lent: 0,
            built: 0,
            next: 0,
            open: None,
            finished: None,
        }
    }

    /// Begins the next FPDU, whose built octets stand behind the first `built` ones of all.
    pub const fn begin(&mut self, built: usize) {
        (self.next, self.open) = (built, None);
    }

    /// Adds `len` octets behind the others.
    ///
    /// The memory is checked now, before the kernel takes the head of the FPDU. Behind a head without its payload no
    /// Terminate could follow.
    ///
    /// # Errors
    /// [`Violation::Bounds`] when there are too many pieces, [`Violation::Gone`] when the memory is not there any more.
    pub(crate) fn push(&mut self, span: Span<'a>, len: usize) -> Result<(), Violation> {
        span.check_there(len)?;
        if self.open.is_none() {
            self.open = Some(self.add(Piece::Built(0))?);
        }
        self.add(Piece::Memory(span, len))?;
        self.lent += len;
        Ok(())
    }

    /// Forgets what was added for the present FPDU.
    pub(crate) fn retract(&mut self) {
        let Some(open) = self.open.take() else { return };
        let lent: usize = self.parts[open..self.count].iter().map(Piece::lent).sum();
        (self.count, self.lent) = (open, self.lent - lent);
    }

    /// Says that the present FPDU has `head` built octets before what is lent of it. Octets built for earlier FPDUs go
    /// out first.
    pub fn place_head(&mut self, head: usize) {
        if let Some(open) = self.open.take() {
            self.parts[open] = Piece::Built(self.next + head - self.built);
            self.built = self.next + head;
        }
    }

    /// Says that the present FPDU is the last one of the message with this token, and of the plan: no other message
    /// begins before this one is in TCP.
    pub const fn finish(&mut self, token: Token) {
        self.finished = Some(token);
    }

    /// Sends all in one call. `built` holds the built octets. Returns how many octets the kernel has taken.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn send(&self, socket: BorrowedFd<'_>, built: &[u8]) -> io::Result<usize> {
        let (mut parts, mut rest) = ([Part::Octets(&[]); MAX_PIECES + 1], built);
        for (part, piece) in parts.iter_mut().zip(&self.parts[..self.count]) {
            *part = match *piece {
                Piece::Built(len) => Part::Octets(split_off(&mut rest, len)),
                Piece::Memory(span, len) => Part::Memory(span.region(), span.offset(), len),
            };
        }
        parts[self.count] = Part::Octets(rest);
        send_gathered(socket, &parts[..=self.count])
    }

    /// Hands `copy` all octets behind the first `skipped`, piece by piece: a slice of what was built, or a place and
    /// the number of octets to copy from there.
    pub fn each_behind(&self, mut skipped: usize, built: &[u8], mut copy: impl FnMut(Left<'_>)) {
        let mut rest = built;
        for piece in &self.parts[..self.count] {
            match *piece {
                Piece::Built(len) => {
                    let octets = split_off(&mut rest, len);
                    copy(Left::Built(&octets[skipped.min(len)..]));
                    skipped = skipped.saturating_sub(len);
                }
                Piece::Memory(span, len) => {
                    let gone = skipped.min(len);
                    copy(Left::Memory(span.skip(gone), len - gone));
                    skipped -= gone;
                }
            }
        }
        copy(Left::Built(&rest[skipped.min(rest.len())..]));
    }

    /// Returns the message that the plan finishes, and forgets the plan.
    pub fn take_finished(&mut self) -> Option<Token> {
        let finished = self.finished;
        *self = Self::new();
        finished
    }

    /// Returns the number of octets in registered memory.
    pub const fn len(&self) -> usize {
        self.lent
    }

    /// Returns whether nothing is lent.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns whether there may be no place for another FPDU.
    pub const fn is_full(&self) -> bool {
        self.count + Self::MAX + 1 > MAX_PIECES || self.finished.is_some()
    }

    fn add(&mut self, piece: Piece<'a>) -> Result<usize, Violation> {
        let index = self.count;
        *self.parts.get_mut(index).ok_or(Violation::Bounds)? = piece;
        self.count += 1;
        Ok(index)
    }

    /// Pieces of one FPDU at most.
    pub const MAX: usize = 16;
    /// A shorter payload is cheaper to copy, together with others, than to send from where it is.
    pub const MIN_LEN: usize = 4096;
}

impl Default for Lending<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl Piece<'_> {
    const fn lent(&self) -> usize {
        match self {
            Self::Built(_) => 0,
            Self::Memory(_, len) => *len,
        }
    }
}

/// Octets of a plan that are still to be sent.
#[derive(Debug)]
pub enum Left<'a> {
    /// As they were built.
    Built(&'a [u8]),
    /// So many octets of registered memory.
    Memory(Span<'a>, usize),
}

fn split_off<'b>(octets: &mut &'b [u8], len: usize) -> &'b [u8] {
    let (front, rest) = octets.split_at(len.min(octets.len()));
    *octets = rest;
    front
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::AsFd;

    use super::*;
    use crate::access::Access;
    use crate::ids::PdId;
    use crate::memory::{Claim, MemoryTable, Registration};
    use crate::queues::{QpCapacity, QpQueues};
    use crate::region::Region;

    /// Two FPDUs with octets of their own around what is lent, and one between them that is all built.
    #[test]
    fn a_plan_is_sent_in_order_and_any_rest_of_it_can_be_copied() {
        let (mut memory, pd) = (MemoryTable::new(1), PdId(1));
        let region = Region::owned(9).unwrap();
        assert!(region.copy_in(0, b"ABCDEFGHI"));
        let access = Access::LOCAL_READ;
        let registration = Registration { pd, stream: None, access, iova: 0, region };
        let stag = memory.register(registration).unwrap().stag;
        let stream = QpQueues::new(2, &QpCapacity::default()).stream;
        let span = |to, len| memory.check(Claim { stag, right: access, pd, stream }, to, len).unwrap();
        let mut lending = Lending::new();
        lending.begin(0);
        lending.push(span(0, 3), 3).unwrap();
        lending.push(span(3, 2), 2).unwrap();
        lending.place_head(2);
        lending.begin(3);
        lending.begin(6);
        lending.push(span(5, 4), 4).unwrap();
        lending.retract();
        lending.push(span(5, 4), 4).unwrap();
        lending.place_head(1);
        lending.finish(Token(7));
        assert!((lending.len(), lending.is_full()) == (9, true), "{lending:?}");
        let (built, all) = (b"h1t-u-H2T", &b"h1ABCDEt-u-HFGHI2T"[..]);
        let (mut peer, socket) = std::os::unix::net::UnixStream::pair().unwrap();
        assert_eq!(lending.send(socket.as_fd(), built).unwrap(), all.len());
        let mut heard = vec![0; all.len()];
        peer.read_exact(&mut heard).unwrap();
        assert_eq!(heard, all);
        for skipped in 0..=all.len() {
            let mut left = Vec::new();
            lending.each_behind(skipped, built, |part| match part {
                Left::Built(octets) => left.extend_from_slice(octets),
                Left::Memory(span, len) => {
                    let mut octets = vec![0; len];
                    span.copy_out(&mut octets).unwrap();
                    left.extend_from_slice(&octets);
                }
            });
            assert_eq!(left, all[skipped..]);
        }
        assert_eq!((lending.take_finished(), lending.is_empty()), (Some(Token(7)), true));
    }
}
