//! Payload that is placed ahead of its turn: from octets behind a gap in TCP's stream, in which Markers tell where FPDUs
//! begin (RFC 5044 section 6). Only payload of Writes and Read Responses moves. All else waits for its turn, in which
//! also the segments that were placed are counted, checked and completed (RFC 5040 section 5.5, RFC 5041 section 5.3).

use core::ops::Range;
use std::collections::VecDeque;

use weft_ddp::{Header, Segment};
use weft_mpa::{Located, Locator};
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
    /// Whether an FPDU is known to begin at this position, which octets before it have told.
    pub(crate) fn begins(&self, position: u64) -> bool {
        self.begins == Some(position)
    }

    /// Places what can be placed of octets at a position of the stream, in which `locator` finds FPDUs. Adds the places
    /// of their FPDUs in the octets to `placed`.
    pub(crate) fn place(
        &mut self,
        (position, mut locator): (u64, Locator<'_>),
        rdmap: &Rdmap,
        placed: &mut Vec<Range<usize>>,
        user: &impl User,
    ) {
        for located in locator.by_ref() {
            let has_room = self.placed.len() < MOST;
            let Some(found) = has_room.then(|| Placed::of(&located, rdmap, user)).flatten() else { continue };
            let at = usize::try_from(located.position - position).unwrap_or(usize::MAX);
            placed.push(at..at.saturating_add(found.fpdu_len));
            let index = self.placed.partition_point(|other| other.position < found.position);
            self.placed.insert(index, found);
        }
        self.begins = locator.begins_behind().or(self.begins);
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
    fn of(located: &Located<'_>, rdmap: &Rdmap, user: &impl User) -> Option<Self> {
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

#[cfg(test)]
mod tests {
    use core::cell::RefCell;

    use weft_ddp::Stag;
    use weft_mpa::{Crc32c, Error as MpaError, Framer, Negotiated, STAGING_LEN, Start};
    use weft_rdmap::{Body, Inbound, Message, Opcode, Place, Readiness, Token};
    use weft_verbs::{LocalFault, Payload, crc};

    use super::*;
    use crate::stream::Stream;

    /// A user with memory at tagged offset 0, which notes what it is told of.
    #[derive(Default)]
    struct Sink {
        memory: RefCell<Vec<u8>>,
        generation: u64,
        told: Vec<String>,
    }

    impl Sink {
        fn put(&self, to: u64, octets: &[u8]) {
            let to = usize::try_from(to).unwrap();
            self.memory.borrow_mut()[to..to + octets.len()].copy_from_slice(octets);
        }

        fn at(&self, to: usize) -> u8 {
            self.memory.borrow()[to]
        }
    }

    impl User for Sink {
        fn next_message(&mut self, _: Readiness) -> Result<Option<Message>, LocalFault> {
            Ok(None)
        }

        fn fill(&mut self, _: &Body, _: &mut Payload<'_>) -> Result<(), Refusal> {
            Err(Refusal::Local(Status::General))
        }

        fn finish(&mut self, _: Token) {}

        fn apply(&mut self, inbound: Inbound<'_>) -> Result<(), Refusal> {
            match inbound {
                Inbound::Write { to, payload, .. } => {
                    self.put(to, payload);
                    self.told.push(format!("write {to}"));
                }
                other => self.told.push(format!("other {}", matches!(other, Inbound::Send { .. }))),
            }
            Ok(())
        }

        fn place_ahead<'o>(
            &self,
            place: &Place,
            _len: usize,
            pieces: impl Iterator<Item = &'o [u8]>,
        ) -> Option<u64> {
            let mut to = place.to;
            for piece in pieces {
                self.put(to, piece);
                to += piece.len() as u64;
            }
            Some(self.generation)
        }

        fn check_ahead(&mut self, _: &Place, _len: usize, generation: u64) -> Result<(), Refusal> {
            let is_same = generation == self.generation;
            if is_same { Ok(()) } else { Err(Refusal::Peer(weft_rdmap::Error::AccessRights)) }
        }

        fn landed(&mut self, place: &Place, len: usize, _: Option<Token>) {
            self.told.push(format!("ahead {} {len}", place.to));
        }

        fn count_sent(&mut self, _: &Header, _: usize, _: usize) {}

        fn count_fpdu(&mut self) {}

        fn count_received(&mut self, _: &Header, _: usize) {}
    }

    /// FPDUs of Writes of these many octets, one behind the other in memory, with a Send behind the second one.
    fn fpdus(lens: &[usize]) -> Vec<Vec<u8>> {
        let mut framer = Framer::new(Some(Crc32c::new(crc::fastest())), true);
        let mut frame = |header: Header, payload: &[u8]| {
            let len = header.len() + payload.len();
            let mut out = vec![0; framer.fpdu_len(len)];
            let ulpdu = framer.ulpdu_mut(&mut out, len);
            header.emit(ulpdu);
            ulpdu[header.len()..].copy_from_slice(payload);
            framer.seal(&mut out, len);
            out
        };
        let (mut made, mut to) = (Vec::new(), 0);
        for (number, &len) in lens.iter().enumerate() {
            let control = Opcode::Write.control();
            let octet = u8::try_from(number % 200).unwrap() + 1;
            made.push(frame(Header::Tagged { last: true, control, stag: Stag(1), to }, &vec![octet; len]));
            to += len as u64;
            if number == 1 {
                let control = Opcode::Send.control();
                made.push(frame(
                    Header::Untagged { last: true, control, word: 0, queue: 0, msn: 1, mo: 0 },
                    &[],
                ));
            }
        }
        made
    }

    /// A stream that has taken the first of the FPDUs.
    fn begun(first: &[u8]) -> (Stream, Sink) {
        let terms = Negotiated {
            revision: 2,
            crc: true,
            send_markers: false,
            receive_markers: true,
            ird: 1,
            ord: 1,
            start: Start::ClientServer,
        };
        let mut stream = Stream::new(&terms, false, true);
        *stream.segments_mut().staging_mut().unwrap() = vec![0; STAGING_LEN].into_boxed_slice();
        let mut sink = Sink { memory: RefCell::new(vec![0; 1 << 16]), ..Sink::default() };
        assert!(!stream.places_ahead(), "the first FPDU is never early");
        take(&mut stream, first, &mut sink).unwrap();
        assert!(stream.places_ahead());
        (stream, sink)
    }

    fn take(stream: &mut Stream, mut octets: &[u8], sink: &mut Sink) -> Result<(), Failure> {
        assert!(stream.receive(&mut octets, sink)?.is_none());
        assert!(octets.is_empty());
        Ok(())
    }

    fn place(stream: &mut Stream, distance: usize, octets: &[u8], sink: &Sink) -> Vec<Range<usize>> {
        let mut placed = Vec::new();
        stream.place_ahead((distance, octets), &mut placed, sink);
        placed
    }

    #[test]
    fn a_write_goes_to_memory_before_the_gap_is_closed_and_counts_in_its_turn() {
        let made = fpdus(&[100, 600, 600]);
        let (mut stream, mut sink) = begun(&made[0]);
        let behind = [&made[2][..], &made[3][..]].concat();
        let placed = place(&mut stream, made[1].len(), &behind, &sink);
        assert_eq!(placed.len(), 1, "the Send waits for its turn");
        assert_eq!(placed[0], made[2].len()..behind.len());
        assert_eq!((sink.at(100), sink.at(700), sink.at(1299)), (0, 3, 3));
        assert_eq!(sink.told, ["write 0"]);
        take(&mut stream, &made[1], &mut sink).unwrap();
        take(&mut stream, &made[2], &mut sink).unwrap();
        assert_eq!(stream.receive_placed(&mut sink).unwrap(), made[3].len());
        assert_eq!(sink.told, ["write 0", "write 100", "other true", "ahead 700 600"]);
    }

    #[test]
    fn memory_that_is_bound_anew_before_the_turn_does_not_count() {
        let made = fpdus(&[100, 600, 600]);
        let (mut stream, mut sink) = begun(&made[0]);
        let gap = made[1].len() + made[2].len();
        assert_eq!(place(&mut stream, gap, &made[3], &sink).len(), 1);
        sink.generation += 1;
        take(&mut stream, &made[1], &mut sink).unwrap();
        take(&mut stream, &made[2], &mut sink).unwrap();
        let failure = stream.receive_placed(&mut sink).unwrap_err();
        assert_eq!(failure.cause, Cause::Peer(weft_rdmap::Error::AccessRights));
        assert!(!sink.told.contains(&"ahead 700 600".to_owned()));
    }

    /// The length field of the FPDU before says that it goes on, and a Marker says that it has ended.
    #[test]
    fn a_chain_that_does_not_come_to_the_fpdu_is_an_error_of_mpa() {
        let made = fpdus(&[100, 600, 600]);
        let (mut stream, mut sink) = begun(&made[0]);
        let gap = made[1].len() + made[2].len();
        assert_eq!(place(&mut stream, gap, &made[3], &sink).len(), 1);
        let mut lying = [&made[1][..], &made[2][..]].concat();
        lying[..2].copy_from_slice(&1200_u16.to_be_bytes());
        take(&mut stream, &lying, &mut sink).unwrap();
        let failure = stream.receive_placed(&mut sink).unwrap_err();
        assert!(matches!(failure.cause, Cause::Mpa(MpaError::Marker { .. })), "{:?}", failure.cause);
    }

    #[test]
    fn a_flood_of_short_writes_is_placed_up_to_a_limit_and_the_rest_waits() {
        let made = fpdus(&[1; 1000]);
        let (mut stream, mut sink) = begun(&made[0]);
        let behind = made[3..].concat();
        let placed = place(&mut stream, made[1].len() + made[2].len(), &behind, &sink);
        assert_eq!(placed.len(), MOST);
        take(&mut stream, &made[1], &mut sink).unwrap();
        take(&mut stream, &made[2], &mut sink).unwrap();
        let mut done = 0;
        for range in placed {
            take(&mut stream, &behind[done..range.start], &mut sink).unwrap();
            assert_eq!(stream.receive_placed(&mut sink).unwrap(), range.len());
            done = range.end;
        }
        take(&mut stream, &behind[done..], &mut sink).unwrap();
        assert_eq!(sink.told.len(), 1001);
    }
}
