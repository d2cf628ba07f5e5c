//! One DDP Segment and its RDMAP message, as a decoder reads them: it shows every field and trusts none.

use bytes::Bytes;
use nom::number::complete::{be_u8, be_u16, be_u32, be_u64};
use nom::{IResult, Parser};

use super::ulp::Said;

/// A DDP Segment (RFC 5041) with its RDMAP header (RFC 5040, 7306).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// Octets of the ULPDU: headers and payload.
    pub len: usize,
    /// The message type, [`Kind::Unknown`] for an opcode without one.
    pub kind: Kind,
    /// The DDP header, if the ULPDU is long enough for one.
    pub header: Option<Header>,
    /// Octets behind the DDP header.
    pub payload_len: usize,
    /// The fields behind the DDP header.
    pub detail: Detail,
    /// The fault of the segment, if it has one.
    pub remark: Option<&'static str>,
    /// What a daemon or a replica tells another one by it.
    pub said: Option<Said>,
}

/// The DDP header with the RDMAP control octet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// L: the last segment of its message.
    pub last: bool,
    /// The DDP version, 1.
    pub ddp_version: u8,
    /// The RDMAP version, 1.
    pub rdmap_version: u8,
    /// The RDMAP opcode.
    pub opcode: u8,
    /// The place of the payload.
    pub address: Address,
}

/// The place of a segment's payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Address {
    /// Into a tagged buffer.
    Tagged {
        /// The buffer.
        stag: u32,
        /// The tagged offset in it.
        to: u64,
    },
    /// Into the next buffer of a queue.
    Untagged {
        /// The word that DDP keeps for RDMAP: the STag to invalidate, or 0.
        word: u32,
        /// Queue number.
        qn: u32,
        /// Message sequence number.
        msn: u32,
        /// Message offset.
        mo: u32,
    },
}

/// RDMAP message types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// RDMA Write.
    Write,
    /// RDMA Read Request.
    ReadRequest,
    /// RDMA Read Response.
    ReadResponse,
    /// Send.
    Send,
    /// Send with Invalidate.
    SendInvalidate,
    /// Send with Solicited Event.
    SendSolicited,
    /// Send with Solicited Event and Invalidate.
    SendSolicitedInvalidate,
    /// Terminate.
    Terminate,
    /// Immediate Data.
    Immediate,
    /// Immediate Data with Solicited Event.
    ImmediateSolicited,
    /// Atomic Request.
    AtomicRequest,
    /// Atomic Response.
    AtomicResponse,
    /// None of these.
    Unknown,
}

/// The fields of the RDMAP header behind the DDP header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Detail {
    /// The message has no such header, or it is cut short.
    None,
    /// The RDMA Read Request header.
    ReadRequest {
        /// Data Sink STag.
        sink_stag: u32,
        /// Data Sink TO.
        sink_to: u64,
        /// RDMA Read Message Size.
        size: u32,
        /// Data Source STag.
        source_stag: u32,
        /// Data Source TO.
        source_to: u64,
    },
    /// The Terminate header.
    Terminate(Terminate),
    /// Immediate Data.
    Immediate([u8; 8]),
    /// The Atomic Request header.
    AtomicRequest {
        /// The operation: 0 FetchAdd, 2 CmpSwap.
        operation: u8,
        /// Request Identifier.
        request: u32,
        /// Remote STag.
        stag: u32,
        /// Remote TO.
        to: u64,
        /// Add or Swap Data, its Mask, Compare Data, its Mask.
        operands: [u64; 4],
    },
    /// The Atomic Response header.
    AtomicResponse {
        /// Original Request Identifier.
        request: u32,
        /// Original Remote Data Value.
        original: u64,
    },
}

/// The Terminate header (RFC 5040 4.8).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terminate {
    /// Layer: 0 RDMAP, 1 DDP, 2 MPA.
    pub layer: u8,
    /// Error type.
    pub etype: u8,
    /// Error code.
    pub code: u8,
    /// The sender has layer and type the other way round, as Linux siw does.
    pub swapped: bool,
    /// Both orders make sense, and no bit decides between them. The RFC's order is shown first.
    pub ambiguous: bool,
    /// DDP Segment Length, if its bit is set.
    pub segment_len: Option<u16>,
    /// The Terminated DDP Header, empty if not sent.
    pub ddp_header: Bytes,
    /// The Terminated RDMA Header, empty if not sent.
    pub rdma_header: Bytes,
}

impl Segment {
    /// Reads a ULPDU.
    pub fn read(ulpdu: &[u8]) -> Self {
        let Ok((payload, header)) = header(ulpdu) else {
            let remark = Some("too short for a DDP header");
            let (kind, detail) = (Kind::Unknown, Detail::None);
            return Self { len: ulpdu.len(), kind, header: None, payload_len: 0, detail, remark, said: None };
        };
        let kind = Kind::from_opcode(header.opcode);
        let detail = kind.detail(payload).map_or(Detail::None, |(_, detail)| detail);
        let remark = header.flaw(kind).or_else(|| {
            let wrong = kind
                .header_len()
                .is_some_and(|len| payload.len() < len || (payload.len() > len && kind != Kind::Terminate));
            wrong.then_some("the length does not fit the opcode")
        });
        let (len, payload_len) = (ulpdu.len(), payload.len());
        Self { len, kind, header: Some(header), payload_len, detail, remark, said: None }
    }

    /// Returns the flag L: the segment is the last of its message. Returns false without a header.
    pub fn is_last(&self) -> bool {
        self.header.is_some_and(|header| header.last)
    }
}

impl Header {
    /// Returns the fault of this header, if it has one.
    pub const fn flaw(&self, kind: Kind) -> Option<&'static str> {
        if self.ddp_version != 1 {
            return Some("the DDP version is not 1");
        }
        if self.rdmap_version != 1 {
            return Some("the RDMAP version is not 1");
        }
        match (kind.queue(), self.address) {
            _ if matches!(kind, Kind::Unknown) => Some("the opcode is not known"),
            (None, Address::Tagged { .. }) => None,
            (Some(queue), Address::Untagged { qn, .. }) if queue == qn => None,
            _ => Some("the opcode does not belong to this buffer model or queue"),
        }
    }
}

impl Kind {
    /// Returns the message type of an opcode.
    pub const fn from_opcode(opcode: u8) -> Self {
        match opcode {
            0x0 => Self::Write,
            0x1 => Self::ReadRequest,
            0x2 => Self::ReadResponse,
            0x3 => Self::Send,
            0x4 => Self::SendInvalidate,
            0x5 => Self::SendSolicited,
            0x6 => Self::SendSolicitedInvalidate,
            0x7 => Self::Terminate,
            0x8 => Self::Immediate,
            0x9 => Self::ImmediateSolicited,
            0xa => Self::AtomicRequest,
            0xb => Self::AtomicResponse,
            _ => Self::Unknown,
        }
    }

    /// Returns the short name, as in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::ReadRequest => "read-request",
            Self::ReadResponse => "read-response",
            Self::Send => "send",
            Self::SendInvalidate => "send-inv",
            Self::SendSolicited => "send-se",
            Self::SendSolicitedInvalidate => "send-se-inv",
            Self::Terminate => "terminate",
            Self::Immediate => "immediate",
            Self::ImmediateSolicited => "immediate-se",
            Self::AtomicRequest => "atomic-request",
            Self::AtomicResponse => "atomic-response",
            Self::Unknown => "unknown",
        }
    }

    /// Returns the queue of an untagged message, `None` for a tagged one.
    const fn queue(self) -> Option<u32> {
        match self {
            Self::Write | Self::ReadResponse | Self::Unknown => None,
            Self::ReadRequest | Self::AtomicRequest => Some(1),
            Self::Terminate => Some(2),
            Self::AtomicResponse => Some(3),
            _ => Some(0),
        }
    }

    /// Returns the octets of the RDMAP header, for messages that have one.
    const fn header_len(self) -> Option<usize> {
        match self {
            Self::ReadRequest => Some(28),
            Self::Terminate => Some(4),
            Self::Immediate | Self::ImmediateSolicited => Some(8),
            Self::AtomicRequest => Some(52),
            Self::AtomicResponse => Some(12),
            _ => None,
        }
    }

    /// Reads the RDMAP header of this kind. Fails if it is cut short.
    fn detail(self, payload: &[u8]) -> IResult<&[u8], Detail> {
        match self {
            Self::ReadRequest => read_request(payload),
            Self::Terminate => terminate(payload),
            Self::Immediate | Self::ImmediateSolicited => {
                be_u64.map(|data: u64| Detail::Immediate(data.to_be_bytes())).parse(payload)
            }
            Self::AtomicRequest => atomic_request(payload),
            Self::AtomicResponse => (be_u32, be_u64)
                .map(|(request, original)| Detail::AtomicResponse { request, original })
                .parse(payload),
            _ => Ok((payload, Detail::None)),
        }
    }
}

impl Terminate {
    /// Returns the sender's complaint as words.
    pub fn words(&self) -> &'static str {
        weft_rdmap::Terminate::new(self.layer, self.etype, self.code).describe()
    }

    /// Returns layer, type and words of the other reading, if there is one.
    pub fn other_reading(&self) -> Option<(u8, u8, &'static str)> {
        let (layer, etype) = (self.etype, self.layer);
        let words = weft_rdmap::Terminate::new(layer, etype, self.code).describe();
        self.ambiguous.then_some((layer, etype, words))
    }
}

/// Reads the DDP header and the RDMAP control octet within it.
pub fn header(ulpdu: &[u8]) -> IResult<&[u8], Header> {
    let (rest, (ddp, rdmap)) = (be_u8, be_u8).parse(ulpdu)?;
    let (rest, address) = if ddp & TAGGED != 0 {
        (be_u32, be_u64).map(|(stag, to)| Address::Tagged { stag, to }).parse(rest)?
    } else {
        (be_u32, be_u32, be_u32, be_u32)
            .map(|(word, qn, msn, mo)| Address::Untagged { word, qn, msn, mo })
            .parse(rest)?
    };
    let header = Header {
        last: ddp & LAST != 0,
        ddp_version: ddp & 0x03,
        rdmap_version: rdmap >> 6,
        opcode: rdmap & 0x0f,
        address,
    };
    Ok((rest, header))
}

fn read_request(input: &[u8]) -> IResult<&[u8], Detail> {
    (be_u32, be_u64, be_u32, be_u32, be_u64)
        .map(|(sink_stag, sink_to, size, source_stag, source_to)| Detail::ReadRequest {
            sink_stag,
            sink_to,
            size,
            source_stag,
            source_to,
        })
        .parse(input)
}

fn atomic_request(input: &[u8]) -> IResult<&[u8], Detail> {
    let (rest, (operation, request, stag, to)) = (be_u32, be_u32, be_u32, be_u64).parse(input)?;
    let (rest, (a, b, c, d)) = (be_u64, be_u64, be_u64, be_u64).parse(rest)?;
    let operation = operation.to_be_bytes()[3] & 0x0f;
    Ok((rest, Detail::AtomicRequest { operation, request, stag, to, operands: [a, b, c, d] }))
}

/// Reads a Terminate. The returned headers are read as far as they go: some peers set the bits and leave the octets
/// out.
fn terminate(input: &[u8]) -> IResult<&[u8], Detail> {
    let (rest, (class, code, control, _reserved)) = (be_u8, be_u8, be_u8, be_u8).parse(input)?;
    let (high, low) = (class >> 4, class & 0x0f);
    let swapped = if control == 0 {
        !is_registered(high, low, code) && is_registered(low, high, code)
    } else {
        control & 0xe0 == 0 && control & 0x07 != 0
    };
    let (layer, etype) = if swapped { (low, high) } else { (high, low) };
    let both = is_registered(high, low, code) && is_registered(low, high, code);
    let ambiguous = control == 0 && high != low && both;
    let bits = if swapped { control.reverse_bits() } else { control };
    let (length, rest) = match be_u16::<_, nom::error::Error<&[u8]>>(rest) {
        Ok((rest, length)) if bits & 0xc0 != 0 => (Some(length), rest),
        _ => (None, rest),
    };
    let ddp_len = match rest.first() {
        Some(_) if bits & 0x40 == 0 => 0,
        Some(first) if first & TAGGED != 0 => 14,
        Some(_) => 18,
        None => 0,
    };
    let (ddp_header, rest) = rest.split_at(rest.len().min(ddp_len));
    let rdma_len = if bits & 0x20 == 0 { 0 } else { 28 };
    let (rdma_header, rest) = rest.split_at(rest.len().min(rdma_len));
    let segment_len = length.filter(|_| bits & 0x80 != 0);
    let (ddp_header, rdma_header) = (Bytes::copy_from_slice(ddp_header), Bytes::copy_from_slice(rdma_header));
    let terminate =
        Terminate { layer, etype, code, swapped, ambiguous, segment_len, ddp_header, rdma_header };
    Ok((rest, Detail::Terminate(terminate)))
}

/// Returns true for the code points of RFC 5040, 5041, 5044 and 6581.
const fn is_registered(layer: u8, etype: u8, code: u8) -> bool {
    matches!(
        (layer, etype, code),
        (0, 0, _)
            | (0, 1, 0x00..=0x04 | 0x09 | 0xff)
            | (0, 2, 0x05..=0x09 | 0xff)
            | (1, 0, 0x00)
            | (1, 1, 0x00..=0x04)
            | (1, 2, 0x01..=0x06)
            | (2, 0, 0x01..=0x07)
    )
}

const TAGGED: u8 = 0x80;
const LAST: u8 = 0x40;

#[cfg(test)]
mod tests {
    use super::*;

    fn terminate_of(octets: &[u8]) -> Terminate {
        match terminate(octets) {
            Ok((_, Detail::Terminate(terminate))) => terminate,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_terminate_is_read_in_both_orders() {
        // Same meaning: a Write to an STag that is not there, in RFC order and in that of Linux siw.
        let header = b"\x00\x16\xc1\x40\xde\xad\xbe\xef\0\0\0\0\0\0\x10\0";
        for (control, swapped) in [(b"\x11\x00\xc0\x00", false), (b"\x11\x00\x03\x00", true)] {
            let terminate = terminate_of(&[&control[..], header].concat());
            assert_eq!((terminate.layer, terminate.etype, terminate.code), (1, 1, 0));
            assert_eq!((terminate.swapped, terminate.segment_len), (swapped, Some(22)));
            assert_eq!(&terminate.ddp_header[..], &header[2..]);
        }
        for (octets, expected) in [
            (b"\x12\x02\xc0\x00", (1, 2, 2, false)),
            (b"\x21\x02\x03\x00", (1, 2, 2, true)),
            (b"\x01\x00\xe0\x00", (0, 1, 0, false)),
            (b"\x10\x00\x07\x00", (0, 1, 0, true)),
            (b"\x20\x02\x00\x00", (2, 0, 2, false)),
            (b"\x02\x02\x00\x00", (2, 0, 2, true)),
        ] {
            let terminate = terminate_of(octets);
            assert_eq!((terminate.layer, terminate.etype, terminate.code, terminate.swapped), expected);
        }
    }

    #[test]
    fn a_terminate_of_either_order_shows_both() {
        let terminate = terminate_of(b"\x02\x05\x00\x00");
        assert_eq!((terminate.layer, terminate.etype, terminate.swapped), (0, 2, false));
        let other = terminate.other_reading().map(|(layer, etype, _)| (layer, etype));
        assert_eq!(other, Some((2, 0)));
        // A bit at its place shows the order, and so does a code that only one layer has.
        for octets in [b"\x02\x05\x80\x00", b"\x02\x05\x01\x00", b"\x02\x08\x00\x00", b"\x11\x00\x00\x00"] {
            assert_eq!(terminate_of(octets).other_reading(), None);
        }
    }

    #[test]
    fn a_terminate_that_is_cut_short_is_shown_as_far_as_it_goes() {
        assert_eq!(terminate_of(b"\x01\x00\xe0\x00").segment_len, None);
        let terminate = terminate_of(b"\x01\x00\xe0\x00\x00\x2e\x41\x41");
        assert_eq!(terminate.segment_len, Some(46));
        assert_eq!((&terminate.ddp_header[..], terminate.rdma_header.len()), (&b"\x41\x41"[..], 0));
        assert!(Segment::read(b"\x41\x47\0\0\0\0\0\0\0\x02\0\0\0\x01\0\0\0\0\x01").remark.is_some());
    }

    #[test]
    fn the_fault_of_a_header_is_named() {
        let remark = |first: u8, second: u8, qn: u8| {
            let mut ulpdu = [0; 18];
            (ulpdu[0], ulpdu[1], ulpdu[9]) = (first, second, qn);
            Segment::read(&ulpdu).remark.unwrap_or_default()
        };
        assert_eq!(remark(0x41, 0x43, 0), "");
        assert_eq!(remark(0x42, 0x43, 0), "the DDP version is not 1");
        assert_eq!(remark(0x41, 0x03, 0), "the RDMAP version is not 1");
        assert_eq!(remark(0x41, 0x4c, 0), "the opcode is not known");
        assert_eq!(remark(0x41, 0x43, 1), "the opcode does not belong to this buffer model or queue");
        assert_eq!(remark(0xc1, 0x43, 0), "the opcode does not belong to this buffer model or queue");
        assert_eq!(remark(0x41, 0x40, 0), "the opcode does not belong to this buffer model or queue");
        assert_eq!(remark(0x41, 0x41, 1), "the length does not fit the opcode");
        assert_eq!(Segment::read(&[0x41, 0x43, 0]).remark, Some("too short for a DDP header"));
    }
}
