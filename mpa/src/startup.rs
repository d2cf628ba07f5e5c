//! Request and Reply Frames (RFC 5044 7.1.1, RFC 6581 6 and 9): from octets to values and back.

use core::fmt;

use nom::bytes::streaming::{tag, take};
use nom::error::{ErrorKind, ParseError};
use nom::number::streaming::{be_u8, be_u16};
use nom::{Err, IResult};

/// The octets of the longest startup frame.
pub const MAX_FRAME_LEN: usize = HEADER_LEN + MAX_PRIVATE_DATA;

/// The most octets of Private Data in a frame. IRD and ORD, if present, take 4 of them.
pub const MAX_PRIVATE_DATA: usize = 512;

/// The value of IRD or ORD that leaves it to the ULPs (RFC 6581 9.1).
pub const NOT_NEGOTIATED: u16 = 0x3FFF;

/// The two startup frames. The key in the first 16 octets tells which one it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameKind {
    /// From the Initiator.
    Request,
    /// From the Responder.
    Reply,
}

impl FrameKind {
    const fn key(self) -> &'static [u8; KEY_LEN] {
        match self {
            Self::Request => b"MPA ID Req Frame",
            Self::Reply => b"MPA ID Rep Frame",
        }
    }
}

/// The message that opens a peer-to-peer connection. It has no payload, and the ULP does not see it (RFC 6581 9.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RtrKind {
    /// A Send (flag B).
    Send,
    /// An RDMA Write (flag C).
    Write,
    /// An RDMA Read (flag D).
    Read,
}

/// A set of RTR messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RtrSet {
    /// A Send (flag B).
    pub send: bool,
    /// An RDMA Write (flag C).
    pub write: bool,
    /// An RDMA Read (flag D).
    pub read: bool,
}

impl RtrSet {
    /// Every kind.
    pub const ALL: Self = Self { send: true, write: true, read: true };

    /// Returns true if no kind is in the set.
    pub const fn is_empty(self) -> bool {
        !self.send && !self.write && !self.read
    }

    /// Returns the kinds that are in both sets.
    pub const fn intersection(self, other: Self) -> Self {
        Self {
            send: self.send && other.send,
            write: self.write && other.write,
            read: self.read && other.read,
        }
    }

    /// Returns true if `kind` is in the set.
    pub const fn contains(self, kind: RtrKind) -> bool {
        match kind {
            RtrKind::Send => self.send,
            RtrKind::Write => self.write,
            RtrKind::Read => self.read,
        }
    }

    /// Returns the kind to prefer: Write, which needs nothing of the peer, then Read, then Send.
    pub const fn first(self) -> Option<RtrKind> {
        if self.write {
            Some(RtrKind::Write)
        } else if self.read {
            Some(RtrKind::Read)
        } else if self.send {
            Some(RtrKind::Send)
        } else {
            None
        }
    }
}

/// The four octets that RFC 6581 puts before the ULP's Private Data. IRD and ORD are the sender's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Enhanced {
    /// Flag A: peer-to-peer. Without it the connection is client-server, and `rtr` has no meaning.
    pub peer_to_peer: bool,
    /// Flags B, C and D.
    pub rtr: RtrSet,
    /// Reads that the sender can have inbound at once, 14 bits, or [`NOT_NEGOTIATED`].
    pub ird: u16,
    /// Reads that the sender wants to have outbound at once, 14 bits, or [`NOT_NEGOTIATED`].
    pub ord: u16,
}

impl Enhanced {
    fn from_words(first: u16, second: u16) -> Self {
        Self {
            peer_to_peer: first & FLAG_HIGH != 0,
            rtr: RtrSet {
                send: first & FLAG_LOW != 0,
                write: second & FLAG_HIGH != 0,
                read: second & FLAG_LOW != 0,
            },
            ird: first & DEPTH_MASK,
            ord: second & DEPTH_MASK,
        }
    }

    fn words(self) -> Result<[u16; 2], StartupError> {
        if let Some(depth) = [self.ird, self.ord].into_iter().find(|depth| *depth > DEPTH_MASK) {
            return Err(StartupError::Depth(depth));
        }
        let first = flag(self.peer_to_peer, FLAG_HIGH) | flag(self.rtr.send, FLAG_LOW) | self.ird;
        let second = flag(self.rtr.write, FLAG_HIGH) | flag(self.rtr.read, FLAG_LOW) | self.ord;
        Ok([first, second])
    }
}

/// A Request or Reply Frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StartupFrame<'a> {
    /// Request or Reply.
    pub kind: FrameKind,
    /// M: the sender wants Markers in what it receives.
    pub markers: bool,
    /// C: the sender requires CRCs, in both directions.
    pub crc: bool,
    /// R: the Responder rejects. The flag has no meaning in a Request.
    pub reject: bool,
    /// The reserved flag bits as received, in their places; 0 in our own frames.
    pub reserved: u8,
    /// 1 (RFC 5044) or 2 (RFC 6581).
    pub revision: u8,
    /// The data of RFC 6581, if the S flag is set; only with revision 2.
    pub enhanced: Option<Enhanced>,
    /// The ULP's part of the Private Data: at most 512 octets, 508 with `enhanced`.
    pub private_data: &'a [u8],
}

impl<'a> StartupFrame<'a> {
    /// Reads the frame of this kind at the start of `octets`. Returns it with its length in octets. Ignores octets
    /// behind the frame.
    ///
    /// Returns `None` if more octets are needed.
    ///
    /// # Errors
    /// A wrong [`StartupError::Key`], an unknown [`StartupError::Revision`], or a bad length
    /// ([`StartupError::PrivateDataTooLong`], [`StartupError::EnhancedTooShort`]), as soon as the octets show it. The
    /// caller then has to close TCP without an answer.
    pub fn parse(kind: FrameKind, octets: &'a [u8]) -> Result<Option<(Self, usize)>, StartupError> {
        match frame(kind, octets) {
            Ok((rest, frame)) => Ok(Some((frame, octets.len() - rest.len()))),
            Err(Err::Incomplete(_)) => Ok(None),
            Err(Err::Error(Fault(error)) | Err::Failure(Fault(error))) => Err(error),
        }
    }

    /// Does the same as [`StartupFrame::parse`] for either kind. Meant for decoders: an endpoint knows which kind it
    /// awaits.
    ///
    /// # Errors
    /// As [`StartupFrame::parse`].
    pub fn parse_any(octets: &'a [u8]) -> Result<Option<(Self, usize)>, StartupError> {
        match Self::parse(FrameKind::Request, octets) {
            Err(StartupError::Key) => Self::parse(FrameKind::Reply, octets),
            result => result,
        }
    }

    /// Writes the frame to the start of `out` and returns its length in octets.
    ///
    /// # Errors
    /// If a field has a value that the frame cannot carry, or `out` is shorter than [`StartupFrame::len`].
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, StartupError> {
        if !is_known(self.revision) || (self.enhanced.is_some() && self.revision < ENHANCED_REVISION) {
            return Err(StartupError::Revision(self.revision));
        }
        self.check_private_data()?;
        let words = self.enhanced.map(Enhanced::words).transpose()?;
        let len = self.len();
        let out = out.get_mut(..len).ok_or(StartupError::BufferTooSmall { needed: len })?;
        let (key, out) = out.split_at_mut(KEY_LEN);
        key.copy_from_slice(self.kind.key());
        let (fixed, out) = out.split_at_mut(HEADER_LEN - KEY_LEN);
        #[expect(clippy::cast_possible_truncation, reason = "at most 512")]
        let [high, low] = ((len - HEADER_LEN) as u16).to_be_bytes();
        fixed.copy_from_slice(&[self.flags(), self.revision, high, low]);
        let (enhanced, private_data) = out.split_at_mut(self.enhanced_len());
        for (field, word) in enhanced.chunks_exact_mut(2).zip(words.into_iter().flatten()) {
            field.copy_from_slice(&word.to_be_bytes());
        }
        private_data.copy_from_slice(self.private_data);
        Ok(len)
    }

    /// Returns the octets of the frame.
    #[expect(clippy::len_without_is_empty, reason = "no frame is empty")]
    pub const fn len(&self) -> usize {
        HEADER_LEN + self.enhanced_len() + self.private_data.len()
    }

    /// Returns an error if the Private Data is too long for the frame.
    pub(crate) const fn check_private_data(&self) -> Result<(), StartupError> {
        let (len, max) = (self.private_data.len(), MAX_PRIVATE_DATA - self.enhanced_len());
        if len > max { Err(StartupError::PrivateDataTooLong { len, max }) } else { Ok(()) }
    }

    const fn enhanced_len(&self) -> usize {
        if self.enhanced.is_some() { ENHANCED_LEN } else { 0 }
    }

    fn flags(&self) -> u8 {
        let own = if self.markers { FLAG_M } else { 0 }
            | if self.crc { FLAG_C } else { 0 }
            | if self.reject { FLAG_R } else { 0 }
            | if self.enhanced.is_some() { FLAG_S } else { 0 };
        own | self.reserved & reserved_mask(self.revision)
    }
}

/// Why a startup frame cannot be read, written or used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartupError {
    /// The first 16 octets are not the key of the expected frame.
    Key,
    /// More Private Data than the frame may carry.
    PrivateDataTooLong {
        /// The octets that are there, or that the length field announces.
        len: usize,
        /// Octets that are allowed.
        max: usize,
    },
    /// A revision that is unknown, not supported by this end, or not the one of the Request.
    Revision(u8),
    /// The S flag promises IRD and ORD, but there are fewer than 4 octets of Private Data.
    EnhancedTooShort,
    /// The Reply's S flag is not that of the Request.
    EnhancedMismatch,
    /// IRD or ORD does not fit into its 14 bits.
    Depth(u16),
    /// The buffer for the frame is too short.
    BufferTooSmall {
        /// Octets of the frame.
        needed: usize,
    },
}

impl fmt::Display for StartupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key => write!(f, "wrong key in the startup frame"),
            Self::PrivateDataTooLong { len, max } => {
                write!(f, "{len} octets of private data, at most {max} are allowed")
            }
            Self::Revision(revision) => write!(f, "MPA revision {revision} cannot be used here"),
            Self::EnhancedTooShort => write!(f, "enhanced startup frame is too short for IRD and ORD"),
            Self::EnhancedMismatch => write!(f, "enhanced Request and plain Reply, or the reverse"),
            Self::Depth(depth) => write!(f, "IRD or ORD of {depth} is over the limit of {DEPTH_MASK}"),
            Self::BufferTooSmall { needed } => write!(f, "startup frame needs a buffer of {needed} octets"),
        }
    }
}

impl core::error::Error for StartupError {}

fn frame(kind: FrameKind, input: &[u8]) -> IResult<&[u8], StartupFrame<'_>, Fault> {
    let (input, _) = tag(&kind.key()[..])(input)?;
    let (input, flags) = be_u8(input)?;
    let (input, revision) = be_u8(input)?;
    if !is_known(revision) {
        return Err(Err::Failure(Fault(StartupError::Revision(revision))));
    }
    let (input, len) = be_u16(input)?;
    let len = usize::from(len);
    if len > MAX_PRIVATE_DATA {
        return Err(Err::Failure(Fault(StartupError::PrivateDataTooLong { len, max: MAX_PRIVATE_DATA })));
    }
    let is_enhanced = flags & FLAG_S & !reserved_mask(revision) != 0;
    let enhanced_len = if is_enhanced { ENHANCED_LEN } else { 0 };
    let Some(private_len) = len.checked_sub(enhanced_len) else {
        return Err(Err::Failure(Fault(StartupError::EnhancedTooShort)));
    };
    let (input, enhanced) = if is_enhanced { enhanced(input)? } else { (input, None) };
    let (input, private_data) = take(private_len)(input)?;
    let frame = StartupFrame {
        kind,
        markers: flags & FLAG_M != 0,
        crc: flags & FLAG_C != 0,
        reject: flags & FLAG_R != 0,
        reserved: flags & reserved_mask(revision),
        revision,
        enhanced,
        private_data,
    };
    Ok((input, frame))
}

fn enhanced(input: &[u8]) -> IResult<&[u8], Option<Enhanced>, Fault> {
    let (input, first) = be_u16(input)?;
    let (input, second) = be_u16(input)?;
    Ok((input, Some(Enhanced::from_words(first, second))))
}

/// Carries our error through nom. Of the combinators used here only the key's `tag` can refuse octets.
struct Fault(StartupError);

impl<I> ParseError<I> for Fault {
    fn from_error_kind(_: I, _: ErrorKind) -> Self {
        Self(StartupError::Key)
    }

    fn append(_: I, _: ErrorKind, other: Self) -> Self {
        other
    }
}

const fn is_known(revision: u8) -> bool {
    matches!(revision, PLAIN_REVISION | ENHANCED_REVISION)
}

/// Revision 2 has taken one of the reserved bits of revision 1 for the S flag.
const fn reserved_mask(revision: u8) -> u8 {
    if revision < ENHANCED_REVISION { 0x1F } else { 0x0F }
}

const fn flag(is_set: bool, bit: u16) -> u16 {
    if is_set { bit } else { 0 }
}

/// Revision of RFC 5044.
pub(crate) const PLAIN_REVISION: u8 = 1;
/// Revision of RFC 6581.
pub(crate) const ENHANCED_REVISION: u8 = 2;

const KEY_LEN: usize = 16;
const HEADER_LEN: usize = 20;
const ENHANCED_LEN: usize = 4;

const FLAG_M: u8 = 0x80;
const FLAG_C: u8 = 0x40;
const FLAG_R: u8 = 0x20;
const FLAG_S: u8 = 0x10;

/// A in the first word, C in the second.
const FLAG_HIGH: u16 = 0x8000;
/// B in the first word, D in the second.
const FLAG_LOW: u16 = 0x4000;
const DEPTH_MASK: u16 = 0x3FFF;
