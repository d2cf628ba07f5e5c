//! Tagged payload that is placed as it comes: from the socket to where it belongs, without a buffer in between. Only
//! where no CRC has to be made of the FPDU first, nor Markers taken out, and for FPDUs that do not lie whole in what
//! was received.

use rustix::io::Errno;
use weft_ddp::{Header, Segment};
use weft_netif::Llp;
use weft_rdmap::{Place, Terminate};
use weft_verbs::{Landing, Refusal};

use crate::failure::{Cause, Failure};
use crate::stream::parked::Rdmap;
use crate::stream::segments::Segments;
use crate::stream::user::{Surroundings, User};

/// An FPDU that is on its way to memory.
#[derive(Debug)]
pub(crate) struct Placing {
    /// The DDP header as it has come, and as a value.
    head: [u8; Header::TAGGED_LEN],
    header: Header,
    place: Place,
    /// Octets of payload, and how many of them have been placed.
    len: usize,
    placed: usize,
    /// Octets of pad and CRC field that are still to come.
    tail: usize,
}

/// The FPDU of a stream that is on its way to memory, if there is one.
#[derive(Debug, Default)]
pub(crate) struct Placings(Option<Placing>);

impl Placings {
    /// Goes on with the FPDU that is on its way or, if `octets` do not hold all of it, begins with the next one;
    /// whether one is on its way then. The first FPDU of a stream is none for this, since it says more than where its
    /// payload belongs.
    // Out of line its call costs every segment of TCP some fifty instructions.
    #[inline(always)]
    pub(crate) fn go_on(
        &mut self,
        segments: &Segments,
        rdmap: &mut Rdmap,
        octets: &mut &[u8],
        user: &mut impl User,
    ) -> Result<bool, Failure> {
        if !segments.takes_plain() {
            return Ok(false);
        }
        loop {
            if self.0.is_none() {
                self.0 = Placing::begin(segments, rdmap, octets, user);
            }
            let Some(placing) = &mut self.0 else { return Ok(false) };
            placing.take(octets, user)?;
            let Some(whole) = self.0.take_if(|placing| placing.is_whole()) else { return Ok(true) };
            whole.finish(rdmap, user)?;
        }
    }

    /// The FPDU that waits for payload, if one does.
    pub(crate) fn awaiting_payload(&mut self) -> Option<&mut Placing> {
        self.0.as_mut().filter(|placing| placing.lacks_payload())
    }

    /// Whether none is on its way.
    pub(crate) const fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// Whether payload is still to come.
    pub(crate) fn lacks_payload(&self) -> bool {
        self.0.as_ref().is_some_and(Placing::lacks_payload)
    }
}

impl Placing {
    /// Takes length field and DDP header off `octets` if the payload behind them can be placed as it arrives.
    fn begin(segments: &Segments, rdmap: &Rdmap, octets: &mut &[u8], user: &mut impl User) -> Option<Self> {
        let (ulpdu_len, fpdu_len) = segments.partial(octets)?;
        let len = ulpdu_len.checked_sub(Header::TAGGED_LEN).filter(|&len| len >= Landing::MIN_LEN)?;
        let (head, rest) = octets.get(LENGTH_LEN..)?.split_first_chunk()?;
        let header = Segment::parse(head).ok()?.header;
        let place = rdmap.place_of(&header, len)?;
        if !header.is_tagged() || !user.lands(&place, len) {
            return None;
        }
        *octets = rest;
        let tail = fpdu_len - LENGTH_LEN - ulpdu_len;
        Some(Self { head: *head, header, place, len, placed: 0, tail })
    }

    /// Places the payload in `octets`, and takes it off.
    fn take(&mut self, octets: &mut &[u8], user: &mut impl User) -> Result<(), Failure> {
        if self.placed < self.len {
            let placed = user.land(&self.place, self.len, self.placed, octets);
            let placed = placed.map_err(|refusal| self.refused(refusal))?;
            self.placed += placed;
            *octets = &octets[placed..];
        }
        if self.placed == self.len {
            let tail = self.tail.min(octets.len());
            self.tail -= tail;
            *octets = &octets[tail..];
        }
        Ok(())
    }

    /// Receives payload from the socket to where it belongs; behind it come pad, CRC field and the next header.
    /// Answers how many octets of the payload have come.
    pub(crate) fn receive(
        &mut self,
        llp: &mut Llp<'_>,
        user: &mut Surroundings<'_>,
    ) -> Result<usize, Failure> {
        let landing = user.qp.land(&self.place, self.len, self.placed, user.memory);
        let landing = landing.map_err(|refusal| self.refused(refusal))?;
        let spare = self.tail + NEXT_HEAD;
        let mut is_gone = false;
        let received = llp.receive_directly(landing.len(), spare, |socket, spare| {
            landing.receive(socket, spare).map_err(|error| match Errno::from_io_error(&error) {
                Some(Errno::FAULT) => {
                    is_gone = true;
                    Errno::AGAIN.into()
                }
                _ => error,
            })
        });
        if is_gone {
            return Err(self.refused(user.qp.landing_gone(&self.place)));
        }
        self.placed += received;
        Ok(received)
    }

    /// Tells RDMAP and the user that all of it is there.
    fn finish(self, rdmap: &mut Rdmap, user: &mut impl User) -> Result<(), Failure> {
        user.count_fpdu();
        user.count_received(&self.header, self.len);
        let finished = rdmap.accept_placed(&self.header, self.len);
        let finished = finished.map_err(|error| self.refused(Refusal::Peer(error)))?;
        user.landed(&self.place, self.len, finished);
        Ok(())
    }

    /// Whether payload is still to come.
    const fn lacks_payload(&self) -> bool {
        self.placed < self.len
    }

    /// Whether nothing is missing, not even pad and CRC field.
    const fn is_whole(&self) -> bool {
        !self.lacks_payload() && self.tail == 0
    }

    fn refused(&self, refusal: Refusal) -> Failure {
        refused(refusal, &self.head, self.len)
    }
}

/// The failure that a tagged segment with this header comes to, whose `len` octets of payload are in memory already.
pub(crate) fn refused(refusal: Refusal, head: &[u8; Header::TAGGED_LEN], len: usize) -> Failure {
    match refusal {
        Refusal::Peer(error) => {
            let terminate = Terminate::from_head(&error, head, Header::TAGGED_LEN + len);
            Failure { cause: Cause::Peer(error), terminate, is_in_answer: false }
        }
        Refusal::Local(status) => Failure::local(Cause::Local(status)),
    }
}

/// Octets of the length field.
const LENGTH_LEN: usize = 2;
/// What a tagged FPDU has before its payload.
const NEXT_HEAD: usize = LENGTH_LEN + Header::TAGGED_LEN;
