//! Payload that is placed ahead of its turn: from octets behind a gap in TCP's stream, in which Markers tell where FPDUs
//! begin (RFC 5044 section 6). Only payload of Writes and Read Responses moves. All else waits for its turn, in which
//! also the segments that were placed are counted, checked and completed (RFC 5040 section 5.5, RFC 5041 section 5.3).

use core::ops::Range;
use std::collections::VecDeque;

use weft_ddp::{Header, Segment};
use weft_mpa::Located;
use weft_verbs::{Refusal, Status};

use crate::failure::{Cause, Failure};
use crate::stream::parked::Rdmap;
use crate::stream::placing;
use crate::stream::segments::Segments;
use crate::stream::user::User;

/// What was placed ahead of its turn.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    /// The FPDUs, in the order of the stream.
    placed: VecDeque<Placed>,
    /// An FPDU begins at this position of the stream: the search has come there.
    begins: Option<u64>,
}

/// An FPDU whose payload was placed ahead of its turn.
#[derive(Debug)]
struct Placed {
    /// The position of its first octet in the stream.
    position: u64,
    fpdu_len: usize,
    /// The DDP header as it has come, and as a value.
    head: [u8; Header::TAGGED_LEN],
    header: Header,
    /// Octets of payload.
    len: usize,
    /// That of the memory in which the payload is.
    generation: u64,
}

impl Ahead {
    /// Places what can be placed of octets at a position of the stream. Adds the places of their FPDUs in the octets to
    /// `placed`.
    pub(crate) fn place(
        &mut self,
        segments: &Segments,
        rdmap: &Rdmap,
        (position, octets): (u64, &[u8]),
        placed: &mut Vec<Range<usize>>,
        user: &mut impl User,
    ) {
        let Some(mut locator) = segments.locate(position, octets, self.begins == Some(position)) else {
            return;
        };
        for located in locator.by_ref() {
            let Some(found) = (self.placed.len() < MOST).then(|| Placed::of(&located, rdmap, user)).flatten()
            else {
                continue;
            };
            let at = usize::try_from(located.position - position).unwrap_or(octets.len());
            placed.push(at..at + found.fpdu_len);
            let index = self.placed.partition_point(|other| other.position < found.position);
            self.placed.insert(index, found);
        }
        if locator.is_at_end() {
            self.begins = Some(position + octets.len() as u64);
        }
    }

    /// Takes the FPDU at this position, whose turn it is. Returns its length.
    ///
    /// # Errors
    /// What the segment would have come to without a gap: the stream does not come to its beginning, RDMAP does not
    /// expect it, or its memory is not in order (any more).
    pub(crate) fn take(
        &mut self,
        position: u64,
        segments: &mut Segments,
        rdmap: &mut Rdmap,
        user: &mut impl User,
    ) -> Result<usize, Failure> {
        let unknown = || Failure::local(Cause::Local(Status::General));
        let is_next = self.placed.front().is_some_and(|placed| placed.position == position);
        let placed = self.placed.pop_front().filter(|_| is_next).ok_or_else(unknown)?;
        segments.pass(placed.fpdu_len).map_err(Failure::mpa)?;
        user.count_fpdu();
        let Placed { header, len, .. } = placed;
        user.count_received(&header, len);
        let refused = |refusal| placing::refused(refusal, &placed.head, len);
        // As without a gap: RDMAP first, and then the memory.
        let place = rdmap.place_of(&header, len);
        let finished = rdmap.accept_placed(&header, len).map_err(|error| refused(Refusal::Peer(error)))?;
        let place = place.ok_or_else(unknown)?;
        user.check_ahead(&place, len, placed.generation).map_err(refused)?;
        user.landed(&place, len, finished);
        Ok(placed.fpdu_len)
    }
}

impl Placed {
    /// Places the payload of an FPDU, if it is one that may be placed.
    fn of(located: &Located<'_>, rdmap: &Rdmap, user: &mut impl User) -> Option<Self> {
        let len = located.ulpdu_len.checked_sub(Header::TAGGED_LEN).filter(|len| *len > 0)?;
        let (head, payload) = located.split()?;
        let header = Segment::parse(&head).ok()?.header;
        let place = rdmap.place_ahead(&header, len)?;
        let generation = user.place_ahead(&place, len, payload)?;
        let (position, fpdu_len) = (located.position, located.fpdu.len());
        Some(Self { position, fpdu_len, head, header, len, generation })
    }
}

/// FPDUs that are placed and wait for their turn.
const MOST: usize = 256;
