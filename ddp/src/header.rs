//! The two DDP headers as values.

use core::fmt;

use crate::Error;

/// A steering tag: the name of a registered buffer, chosen by its owner (RFC 5041 section 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Stag(pub u32);

impl fmt::Display for Stag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#010x}", self.0)
    }
}

/// A DDP header (RFC 5041 sections 4.2 and 4.3). Reserved bits are sent as zero and ignored on receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// The payload goes to an offset of the buffer that the STag names.
    Tagged {
        /// Last segment of its message (the L bit).
        last: bool,
        /// The first octet reserved for the upper layer: the RDMAP control octet.
        control: u8,
        /// Buffer to place into.
        stag: Stag,
        /// Tagged offset of the payload's first octet.
        to: u64,
    },
    /// The payload goes to the next buffer that the receiver posted on a queue.
    Untagged {
        /// Last segment of its message (the L bit).
        last: bool,
        /// The first octet reserved for the upper layer: the RDMAP control octet.
        control: u8,
        /// The other four octets reserved for the upper layer: RDMAP's Invalidate STag, or zero.
        word: u32,
        /// Queue number.
        queue: u32,
        /// Message sequence number of this queue; the first message has 1.
        msn: u32,
        /// Offset of the payload's first octet in its message.
        mo: u32,
    },
}

impl Header {
    /// The octets of a tagged header.
    pub const TAGGED_LEN: usize = 14;
    /// The octets of an untagged header.
    pub const UNTAGGED_LEN: usize = 18;

    /// Reads the header at the front of a ULPDU. The payload follows it.
    #[inline]
    pub(crate) fn parse(ulpdu: &[u8]) -> Result<Self, Error> {
        let Some(&first) = ulpdu.first() else { return Err(Error::Runt) };
        let tagged = first & TAGGED != 0;
        let last = first & LAST != 0;
        // The length is checked before the version: a runt has no whole header that a Terminate could return.
        if tagged {
            let octets: &[u8; Self::TAGGED_LEN] = ulpdu.first_chunk().ok_or(Error::Runt)?;
            if first & VERSION_MASK != VERSION {
                return Err(Error::TaggedVersion);
            }
            let [_, control, s0, s1, s2, s3, to @ ..] = *octets;
            let stag = Stag(u32::from_be_bytes([s0, s1, s2, s3]));
            Ok(Self::Tagged { last, control, stag, to: u64::from_be_bytes(to) })
        } else {
            let octets: &[u8; Self::UNTAGGED_LEN] = ulpdu.first_chunk().ok_or(Error::Runt)?;
            if first & VERSION_MASK != VERSION {
                return Err(Error::UntaggedVersion);
            }
            let [_, control, w0, w1, w2, w3, q0, q1, q2, q3, n0, n1, n2, n3, mo @ ..] = *octets;
            let word = u32::from_be_bytes([w0, w1, w2, w3]);
            let queue = u32::from_be_bytes([q0, q1, q2, q3]);
            let msn = u32::from_be_bytes([n0, n1, n2, n3]);
            Ok(Self::Untagged { last, control, word, queue, msn, mo: u32::from_be_bytes(mo) })
        }
    }

    /// Writes the header to the front of `out`.
    ///
    /// # Panics
    ///
    /// If `out` is shorter than [`Header::len`].
    #[inline(always)]
    pub fn emit(&self, out: &mut [u8]) {
        match *self {
            Self::Tagged { last, control, stag, to } => {
                let out = &mut out[..Self::TAGGED_LEN];
                out[0] = TAGGED | last_bit(last) | VERSION;
                out[1] = control;
                out[2..6].copy_from_slice(&stag.0.to_be_bytes());
                out[6..14].copy_from_slice(&to.to_be_bytes());
            }
            Self::Untagged { last, control, word, queue, msn, mo } => {
                let out = &mut out[..Self::UNTAGGED_LEN];
                out[0] = last_bit(last) | VERSION;
                out[1] = control;
                out[2..6].copy_from_slice(&word.to_be_bytes());
                out[6..10].copy_from_slice(&queue.to_be_bytes());
                out[10..14].copy_from_slice(&msn.to_be_bytes());
                out[14..18].copy_from_slice(&mo.to_be_bytes());
            }
        }
    }

    /// Returns the octets of this header on the wire.
    #[expect(clippy::len_without_is_empty, reason = "a header is never empty")]
    #[inline]
    pub const fn len(&self) -> usize {
        match self {
            Self::Tagged { .. } => Self::TAGGED_LEN,
            Self::Untagged { .. } => Self::UNTAGGED_LEN,
        }
    }

    /// Returns true on the last segment of a message.
    #[inline]
    pub const fn is_last(&self) -> bool {
        match self {
            Self::Tagged { last, .. } | Self::Untagged { last, .. } => *last,
        }
    }

    /// Returns the RDMAP control octet.
    #[inline]
    pub const fn control(&self) -> u8 {
        match self {
            Self::Tagged { control, .. } | Self::Untagged { control, .. } => *control,
        }
    }

    /// Returns true if the segment names its buffer by STag.
    pub const fn is_tagged(&self) -> bool {
        matches!(self, Self::Tagged { .. })
    }

    /// Returns the header of the segment whose payload starts `offset` octets into the message that `self` begins.
    #[inline]
    pub(crate) const fn at(self, offset: u32, last: bool) -> Self {
        match self {
            Self::Tagged { control, stag, to, .. } => {
                // The receiver judges by its buffer whether the sum wraps (RFC 5041 section 7.1).
                Self::Tagged { last, control, stag, to: to.wrapping_add(offset as u64) }
            }
            Self::Untagged { control, word, queue, msn, .. } => {
                Self::Untagged { last, control, word, queue, msn, mo: offset }
            }
        }
    }
}

const fn last_bit(last: bool) -> u8 {
    if last { LAST } else { 0 }
}

const TAGGED: u8 = 0x80;
const LAST: u8 = 0x40;
const VERSION_MASK: u8 = 0x03;
const VERSION: u8 = 0x01;
