//! The Terminate header, and the only place where errors become octets.

use core::fmt;

use heapless::Vec;
use nom::{
    IResult, Parser,
    bytes::complete::take,
    combinator::{cond, opt},
    number::complete::{be_u8, be_u16},
};
use weft_ddp::{Header, Segment};

use crate::{Asked, AtomicRequest, Error, Opcode, PendingRequest, ReadRequest};

/// A Terminate message (RFC 5040 section 4.8): why one side ends the stream, and the headers of the segment that
/// caused this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terminate {
    /// Layer that found the error: 0 RDMAP, 1 DDP, 2 LLP (MPA); 4 bits.
    pub layer: u8,
    /// Error type within the layer; 4 bits.
    pub etype: u8,
    /// Error code within the type.
    pub code: u8,
    /// The octets of the segment in question, as the sender counted them. Peers count differently, so this number is
    /// for people and not for decisions.
    pub segment_len: Option<u16>,
    /// DDP header of the segment in question; empty if not returned.
    pub ddp_header: Vec<u8, { Header::UNTAGGED_LEN }>,
    /// Read Request header; empty if not returned, shorter than 28 octets if the peer cut it off.
    pub rdma_header: Vec<u8, { ReadRequest::LEN }>,
    /// The 13 reserved bits as received; 0 in our own Terminates.
    pub reserved: u16,
    /// True if the bits of each field group came in reverse order, as Linux siw writes them.
    pub swapped: bool,
    /// The M, D and R bits that came set although their field was left out. They are kept for [`Terminate::emit`].
    missing: u8,
}

impl Terminate {
    /// The length of the longest header: control word, length and both returned headers.
    pub const MAX_LEN: usize = CONTROL_LEN + LENGTH_LEN + Header::UNTAGGED_LEN + ReadRequest::LEN;

    /// A Terminate without headers, for errors that no segment caused, and for those of the LLP.
    pub const fn new(layer: u8, etype: u8, code: u8) -> Self {
        Self {
            layer,
            etype,
            code,
            segment_len: None,
            ddp_header: Vec::new(),
            rdma_header: Vec::new(),
            reserved: 0,
            swapped: false,
            missing: 0,
        }
    }

    /// The Terminate for an error. `ulpdu` is the segment that caused the error, if one did. The headers to return by
    /// RFC 5040 figure 10 are taken from it.
    pub fn from_error(error: &Error, ulpdu: Option<&[u8]>) -> Self {
        let Some(ulpdu) = ulpdu else { return Self::with_headers(error, None, &[], None) };
        let header_len = match ulpdu.first() {
            Some(first) if first & TAGGED != 0 => Header::TAGGED_LEN,
            _ => Header::UNTAGGED_LEN,
        };
        let request = Segment::parse(ulpdu)
            .ok()
            .filter(|segment| Opcode::of(&segment.header) == Ok(Opcode::ReadRequest))
            .and_then(|segment| ReadRequest::parse(segment.payload).ok());
        let header = ulpdu.get(..header_len).unwrap_or_default();
        Self::with_headers(error, u16::try_from(ulpdu.len()).ok(), header, request)
    }

    /// The Terminate for a tagged segment of `len` octets, of which the caller has only the DDP header, `head`.
    pub fn from_head(error: &Error, head: &[u8; Header::TAGGED_LEN], len: usize) -> Self {
        Self::with_headers(error, u16::try_from(len).ok(), head, None)
    }

    /// The Terminate for a request of the peer whose answer fails. Its DDP header is made again from its sequence
    /// number. A Read Request comes back moved on by the octets of the response that were sent. The header of an
    /// Atomic Request is not returned (RFC 7306 section 8.1).
    pub fn for_pending(error: &Error, pending: &PendingRequest) -> Self {
        let (opcode, len, request) = match &pending.asked {
            Asked::Read(read) => (Opcode::ReadRequest, ReadRequest::LEN, Some(read.moved_on(pending.sent))),
            Asked::Atomic(_) => (Opcode::AtomicRequest, AtomicRequest::LEN, None),
        };
        let control = opcode.control();
        let header = Header::Untagged { last: true, control, word: 0, queue: 1, msn: pending.msn, mo: 0 };
        let mut octets = [0; Header::UNTAGGED_LEN];
        header.emit(&mut octets);
        let len = u16::try_from(Header::UNTAGGED_LEN + len).ok();
        Self::with_headers(error, len, &octets, request)
    }

    /// Reads the octets behind the DDP header. Only the control word must be there. Peers may leave out, cut off or
    /// append the rest. Both known bit orders are understood.
    pub fn parse(octets: &[u8]) -> Result<Self, Error> {
        let (_, terminate) = terminate(octets).map_err(|_| Error::StreamCatastrophic)?;
        Ok(terminate)
    }

    /// Returns the octets behind the DDP header.
    pub fn emit(&self) -> Vec<u8, { Self::MAX_LEN }> {
        let bits = self.bits();
        let [first, word] = if self.swapped {
            [u16::from(self.etype << 4 | self.layer & 0xF), u16::from(bits.reverse_bits() >> 5) << 8]
        } else {
            [u16::from(self.layer << 4 | self.etype & 0xF), u16::from(bits) << 13]
        };
        let [first, second] = (first << 8 | u16::from(self.code)).to_be_bytes();
        let [third, fourth] = (word | self.reserved & RESERVED).to_be_bytes();
        let length = self.has_length().then(|| self.segment_len.unwrap_or(0).to_be_bytes());
        [first, second, third, fourth]
            .into_iter()
            .chain(length.into_iter().flatten())
            .chain(self.ddp_header.iter().copied())
            .chain(self.rdma_header.iter().copied())
            .collect()
    }

    /// Returns the number of octets behind the DDP header: 4 to [`Terminate::MAX_LEN`].
    #[expect(clippy::len_without_is_empty, reason = "the control word is always there")]
    pub fn len(&self) -> usize {
        CONTROL_LEN
            + LENGTH_LEN * usize::from(self.has_length())
            + self.ddp_header.len()
            + self.rdma_header.len()
    }

    /// Returns true if the segment in question is a Read or Atomic Request.
    pub fn names_request(&self) -> bool {
        let segment = Segment::parse(&self.ddp_header);
        segment.is_ok_and(|segment| Opcode::of(&segment.header).is_ok_and(Opcode::is_request))
    }

    /// Returns the error in words, such as "DDP tagged buffer: invalid STag".
    pub fn describe(&self) -> &'static str {
        meaning(self.layer, self.etype, self.code).unwrap_or(match (self.layer, self.etype) {
            (0x0, 0x1) => "RDMAP remote protection: unknown error code",
            (0x0, 0x2) => "RDMAP remote operation: unknown error code",
            (0x0, _) => "RDMAP: unknown error type",
            (0x1, 0x1) => "DDP tagged buffer: unknown error code",
            (0x1, 0x2) => "DDP untagged buffer: unknown error code",
            (0x1, 0x3) => "DDP: error of the lower layer",
            (0x1, _) => "DDP: unknown error type",
            (0x2, 0x0) => "MPA: unknown error code",
            (0x2, _) => "LLP: unknown error type",
            _ => "unknown layer",
        })
    }

    /// Returns the error that a sender like Linux siw means, which writes the layer in the place of the type. Returns
    /// `None` unless both readings are registered errors and nothing else tells the bit order. `self` then has the
    /// RFC's reading.
    pub fn other_reading(&self) -> Option<Self> {
        let Self { layer, etype, code, .. } = *self;
        let is_ambiguous = !self.swapped && self.bits() == 0 && self.reserved == 0 && layer != etype;
        let is_registered = |layer, etype| meaning(layer, etype, code).is_some();
        let both = is_ambiguous && is_registered(layer, etype) && is_registered(etype, layer);
        both.then(|| Self { swapped: true, ..Self::new(etype, layer, code) })
    }

    /// Picks the headers that the error's class returns (RFC 5040 figure 10). Only protection errors return the Read
    /// Request header. Section 7.1 would want it with every error of a Read Request, but the figure denies it to
    /// operation errors.
    fn with_headers(error: &Error, len: Option<u16>, header: &[u8], request: Option<ReadRequest>) -> Self {
        let (layer, etype, code) = error.code();
        let mut terminate = Self::new(layer, etype, code);
        if etype == 0x0 {
            return terminate;
        }
        if !header.is_empty() {
            terminate.segment_len = len;
            terminate.ddp_header = header.iter().copied().take(Header::UNTAGGED_LEN).collect();
        }
        if let (0x0, 0x1, Some(request)) = (layer, etype, request) {
            terminate.rdma_header = Vec::from_array(request.emit());
        }
        terminate
    }

    /// Returns the M, D and R bits as the number on the wire, with R lowest.
    fn bits(&self) -> u8 {
        let length = u8::from(self.segment_len.is_some()) * LENGTH_BIT;
        let ddp = u8::from(!self.ddp_header.is_empty()) * DDP_BIT;
        let rdma = u8::from(!self.rdma_header.is_empty()) * RDMA_BIT;
        self.missing | length | ddp | rdma
    }

    fn has_length(&self) -> bool {
        self.segment_len.is_some() || !self.ddp_header.is_empty()
    }
}

impl fmt::Display for Terminate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:x}/{:x}/{:02x})", self.describe(), self.layer, self.etype, self.code)?;
        match self.other_reading() {
            Some(other) => write!(f, ", or from Linux siw: {other}"),
            None => Ok(()),
        }
    }
}

fn terminate(input: &[u8]) -> IResult<&[u8], Terminate> {
    let (rest, (first, code, word)) = (be_u8, be_u8, be_u16).parse(input)?;
    let (mut terminate, bits) = control(first, code, word, rest.len());
    let has_length = bits & (LENGTH_BIT | DDP_BIT) != 0;
    let (mut rest, length) = cond(has_length, opt(be_u16)).parse(rest)?;
    if length == Some(None) {
        // The peer announced a field and left it out. So later announced fields cannot be there either.
        rest = &[];
    }
    let ddp_len = match rest.first() {
        _ if bits & DDP_BIT == 0 => 0,
        Some(first) if first & TAGGED != 0 => Header::TAGGED_LEN,
        _ => Header::UNTAGGED_LEN,
    };
    let rdma_len = if bits & RDMA_BIT == 0 { 0 } else { ReadRequest::LEN };
    let (rest, ddp) = at_most(ddp_len, rest)?;
    let (rest, rdma) = at_most(rdma_len, rest)?;
    terminate.segment_len = length.flatten().filter(|_| bits & LENGTH_BIT != 0);
    terminate.ddp_header = ddp.iter().copied().collect();
    terminate.rdma_header = rdma.iter().copied().collect();
    terminate.missing = bits & !terminate.bits();
    Ok((rest, terminate))
}

/// Reads the control word, and returns the M, D and R bits too.
///
/// It takes the RFC's bit order, or that of Linux siw if only that makes sense. In siw's order, layer and type are
/// swapped, and M, D and R are the lowest bits of the third octet. These bits count only if enough octets follow for
/// a part of each announced field. Else they are reserved bits in the RFC's order, and mean nothing.
fn control(first: u8, code: u8, word: u16, following: usize) -> (Terminate, u8) {
    let [third, fourth] = word.to_be_bytes();
    let (high, low) = (first >> 4, first & 0xF);
    let reversed = third.reverse_bits() >> 5;
    let swapped = fourth == 0
        && match third {
            0x00 => meaning(high, low, code).is_none() && meaning(low, high, code).is_some(),
            0x01..=0x07 => following >= announced(reversed),
            _ => false,
        };
    if swapped {
        (Terminate { swapped, ..Terminate::new(low, high, code) }, reversed)
    } else {
        (Terminate { reserved: word & RESERVED, ..Terminate::new(high, low, code) }, third >> 5)
    }
}

/// Returns the fewest octets that hold a part of each field that M, D and R announce.
fn announced(bits: u8) -> usize {
    let length = bits & (LENGTH_BIT | DDP_BIT) != 0;
    let header = bits & (DDP_BIT | RDMA_BIT) != 0;
    2 * usize::from(length) + usize::from(header)
}

fn at_most(len: usize, input: &[u8]) -> IResult<&[u8], &[u8]> {
    take(len.min(input.len())).parse(input)
}

fn meaning(layer: u8, etype: u8, code: u8) -> Option<&'static str> {
    Some(match (layer, etype, code) {
        (0x0, 0x0, _) => "RDMAP: local catastrophic error",
        (0x0, 0x1, 0x00) => "RDMAP remote protection: invalid STag",
        (0x0, 0x1, 0x01) => "RDMAP remote protection: base or bounds violation",
        (0x0, 0x1, 0x02) => "RDMAP remote protection: access rights violation",
        (0x0, 0x1, 0x03) => "RDMAP remote protection: STag not associated with the stream",
        (0x0, 0x1, 0x04) => "RDMAP remote protection: tagged offset wraps",
        (0x0, 0x1, 0x09) => "RDMAP remote protection: STag cannot be invalidated",
        (0x0, 0x1, 0xFF) => "RDMAP remote protection: unspecified error",
        (0x0, 0x2, 0x05) => "RDMAP remote operation: invalid RDMAP version",
        (0x0, 0x2, 0x06) => "RDMAP remote operation: unexpected opcode",
        (0x0, 0x2, 0x07) => "RDMAP remote operation: catastrophic error of the stream",
        (0x0, 0x2, 0x08) => "RDMAP remote operation: global catastrophic error",
        (0x0, 0x2, 0x09) => "RDMAP remote operation: STag cannot be invalidated",
        (0x0, 0x2, 0xFF) => "RDMAP remote operation: unspecified error",
        (0x1, 0x0, 0x00) => "DDP: local catastrophic error",
        (0x1, 0x1, 0x00) => "DDP tagged buffer: invalid STag",
        (0x1, 0x1, 0x01) => "DDP tagged buffer: base or bounds violation",
        (0x1, 0x1, 0x02) => "DDP tagged buffer: STag not associated with the stream",
        (0x1, 0x1, 0x03) => "DDP tagged buffer: tagged offset wraps",
        (0x1, 0x1, 0x04) => "DDP tagged buffer: invalid DDP version",
        (0x1, 0x2, 0x01) => "DDP untagged buffer: invalid queue number",
        (0x1, 0x2, 0x02) => "DDP untagged buffer: no buffer available",
        (0x1, 0x2, 0x03) => "DDP untagged buffer: message sequence number out of range",
        (0x1, 0x2, 0x04) => "DDP untagged buffer: invalid message offset",
        (0x1, 0x2, 0x05) => "DDP untagged buffer: message too long for the buffer",
        (0x1, 0x2, 0x06) => "DDP untagged buffer: invalid DDP version",
        (0x2, 0x0, 0x01) => "MPA: TCP connection closed or lost",
        (0x2, 0x0, 0x02) => "MPA: CRC mismatch",
        (0x2, 0x0, 0x03) => "MPA: Marker and ULPDU length disagree",
        (0x2, 0x0, 0x04) => "MPA: invalid Request or Reply frame",
        (0x2, 0x0, 0x05) => "MPA: local catastrophic error",
        (0x2, 0x0, 0x06) => "MPA: insufficient IRD resources",
        (0x2, 0x0, 0x07) => "MPA: no matching RTR option",
        _ => return None,
    })
}

/// Octets of the control word.
const CONTROL_LEN: usize = 4;
/// Octets of the DDP segment length.
const LENGTH_LEN: usize = 2;
const TAGGED: u8 = 0x80;
const LENGTH_BIT: u8 = 0x4;
const DDP_BIT: u8 = 0x2;
const RDMA_BIT: u8 = 0x1;
const RESERVED: u16 = 0x1FFF;
