//! MPA and DDP of one stream: FPDUs of TCP to segments and back. What a segment means is not known here.

use weft_ddp::{Expected, Header, Receiver, Segment};
use weft_mpa::{Crc32c, Deframer, Framer, Locator, Negotiated};
use weft_verbs::{Payload, crc};

use crate::stream::parked::Rdmap;

/// One direction each of MPA and DDP, in Full Operation. `Q` is what DDP expects on its queues.
#[derive(Debug)]
pub(crate) struct Segments<Q = [Expected; 4]> {
    framer: Framer,
    deframer: Deframer<Box<[u8]>>,
    /// The CRC with which FPDUs can be found ahead of their turn, if there are Markers as well.
    locating: Option<Crc32c>,
    ddp: Receiver<Q>,
}

/// How the next message fits into the place that it may take.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fit {
    /// It is cut where the place ends.
    Any,
    /// A long one is cut to make an FPDU of so many octets.
    Cut(usize),
    /// The place is what is left of a TCP segment: what fits into a whole one is not cut here.
    Whole,
}

/// A whole ULPDU with good CRC.
#[derive(Debug)]
pub(crate) struct Arrived<'a, Q> {
    pub(crate) ulpdu: &'a [u8],
    ddp: &'a mut Receiver<Q>,
}

impl<'a, Q: AsMut<[Expected]>> Arrived<'a, Q> {
    /// The segment in it, if DDP takes it; to be asked once.
    #[inline]
    pub(crate) fn segment(self) -> Result<Segment<'a>, weft_ddp::Error> {
        self.ddp.accept(self.ulpdu)
    }
}

impl<Q: AsMut<[Expected]>> Segments<Q> {
    /// The two layers as startup has agreed on them; `ddp` knows the queues. There is no staging buffer yet.
    pub(crate) fn new(negotiated: &Negotiated, ddp: Receiver<Q>) -> Self {
        let crc = negotiated.crc.then_some(Crc32c::new(crc::fastest()));
        Self {
            framer: Framer::new(crc, negotiated.send_markers),
            deframer: Deframer::new(crc, negotiated.receive_markers, Box::default()),
            locating: crc.filter(|_| negotiated.receive_markers),
            ddp,
        }
    }

    /// Takes octets off `octets`, and answers the next ULPDU as soon as it is whole.
    #[inline]
    pub(crate) fn next<'a, 'i: 'a>(
        &'a mut self,
        octets: &mut &'i [u8],
    ) -> Result<Option<Arrived<'a, Q>>, weft_mpa::Error> {
        let ulpdu = self.deframer.next(octets)?;
        Ok(ulpdu.map(|ulpdu| Arrived { ulpdu, ddp: &mut self.ddp }))
    }

    /// Builds the FPDU of one segment in `out`, its payload of `len` octets by `fill`, and answers the FPDU's length.
    /// Where it can be, the CRC is made in the pass in which the payload is copied.
    #[inline]
    pub(crate) fn build<E>(
        &mut self,
        out: &mut [u8],
        header: &Header,
        len: usize,
        fill: impl FnOnce(&mut Payload<'_>) -> Result<(), E>,
    ) -> Result<usize, E> {
        let len = header.len() + len;
        header.emit(self.framer.ulpdu_mut(out, len));
        // One run over few octets that have just been written takes less than two, one of them along with the copy.
        let begun = if len < FUSED { None } else { self.framer.begin(out, len, header.len()) };
        let Some(crc) = begun else {
            fill(&mut Payload::new(&mut self.framer.ulpdu_mut(out, len)[header.len()..]))?;
            return Ok(self.framer.seal(out, len));
        };
        let mut payload = Payload::with_crc(&mut self.framer.ulpdu_mut(out, len)[header.len()..], crc);
        fill(&mut payload)?;
        let crc = payload.crc().unwrap_or(crc);
        Ok(self.framer.seal_with_crc(out, len, crc))
    }

    /// The place for a ULPDU of `len` octets in the FPDU that begins at `out`, which has [`Self::room`] for it.
    #[inline]
    pub(crate) fn ulpdu_mut<'o>(&self, out: &'o mut [u8], len: usize) -> &'o mut [u8] {
        self.framer.ulpdu_mut(out, len)
    }

    /// Closes the FPDU whose payload of `len` octets was put behind the header's place in [`Self::ulpdu_mut`] of the
    /// same `out`, where no Markers are sent. Answers its length.
    #[inline(always)]
    pub(crate) fn seal_short(&mut self, out: &mut [u8], header: &Header, len: usize) -> usize {
        let len = header.len() + len;
        header.emit(self.framer.ulpdu_mut(out, len));
        self.framer.seal(out, len)
    }

    /// Builds all of an FPDU but its payload in `out`, and answers how many octets of that go before it, and how many
    /// in all. Only for a [`Self::is_plain`] direction.
    pub(crate) fn build_around(&self, out: &mut [u8], header: &Header, len: usize) -> (usize, usize) {
        header.emit(self.framer.ulpdu_mut(out, header.len()));
        self.framer.seal_around(out, header.len() + len, header.len())
    }

    /// Whether payload may be sent from where it is.
    pub(crate) const fn is_plain(&self) -> bool {
        self.framer.is_plain()
    }

    /// Whether what comes may be placed before an FPDU is whole, as neither a CRC nor Markers have to go over it.
    pub(crate) const fn takes_plain(&self) -> bool {
        self.deframer.is_plain()
    }

    /// The lengths of ULPDU and FPDU if `octets` begin an FPDU whose payload may be placed as it comes, and do not
    /// hold all of it.
    pub(crate) fn partial(&self, octets: &[u8]) -> Option<(usize, usize)> {
        self.deframer.partial(octets)
    }

    /// The place of the staging buffer, or `None` while part of an FPDU is in it. There must be a buffer when octets
    /// come.
    pub(crate) const fn staging_mut(&mut self) -> Option<&mut Box<[u8]>> {
        self.deframer.staging_mut()
    }

    /// The largest ULPDU whose FPDU fits into `len` octets now.
    pub(crate) fn room(&self, len: usize) -> usize {
        self.framer.room(len)
    }

    /// How long the next ULPDU may be: `max_ulpdu`, for which there is room, or less by `fit`. `None` if the message
    /// does not go there.
    pub(crate) fn fitting(&self, [mulpdu, max_ulpdu]: [usize; 2], fit: Fit, rdmap: &Rdmap) -> Option<usize> {
        let left = || rdmap.left() as usize;
        match fit {
            Fit::Cut(fit) if left() > MANY * max_ulpdu => Some(max_ulpdu.min(self.room(fit))),
            Fit::Whole if max_ulpdu < mulpdu && (max_ulpdu + 1..=mulpdu).contains(&(left() + HEADER)) => None,
            _ => Some(max_ulpdu),
        }
    }

    /// The largest FPDU that a ULPDU of `ulpdu_len` octets takes now.
    pub(crate) fn fpdu_len(&self, ulpdu_len: usize) -> usize {
        self.framer.fpdu_len(ulpdu_len)
    }

    /// Whether sent segments carry Markers, which MULPDU depends on.
    pub(crate) const fn sends_markers(&self) -> bool {
        self.framer.markers()
    }

    /// Whether FPDUs can be found ahead of their turn.
    pub(crate) const fn locates(&self) -> bool {
        self.locating.is_some()
    }

    /// The search for FPDUs in octets ahead of their turn, which `begins` with one if that is known.
    pub(crate) fn locate<'o>(&self, position: u64, octets: &'o [u8], begins: bool) -> Option<Locator<'o>> {
        Some(Locator::new(self.locating?, position, octets, begins))
    }

    /// Passes over an FPDU of `len` octets that was found ahead of its turn.
    pub(crate) fn pass(&mut self, len: usize) -> Result<(), weft_mpa::Error> {
        self.deframer.pass(len)
    }

    /// Whether the octets received so far end with a whole FPDU, so that a FIN is a graceful close.
    pub(crate) fn is_aligned(&self) -> bool {
        self.deframer.is_aligned()
    }
}

/// Octets of a ULPDU from which on the CRC goes along with the copy.
const FUSED: usize = 256;
/// A message of more ULPDUs than this may take one more, so that FPDUs end where TCP's segments do.
const MANY: usize = 4;
/// The longest header of a message that may be cut.
const HEADER: usize = Header::UNTAGGED_LEN;
