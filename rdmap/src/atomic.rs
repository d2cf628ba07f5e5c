//! Atomic Request and Response headers, and the arithmetic of RFC 7306.

use weft_ddp::Stag;

use crate::Error;

/// An Atomic Request (RFC 7306 section 5.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtomicRequest {
    /// The operation.
    pub op: AtomicOp,
    /// Chosen by the requester, returned in the response.
    pub id: u32,
    /// The responder's buffer.
    pub stag: Stag,
    /// Offset of the 8 octets there.
    pub to: u64,
}

impl AtomicRequest {
    /// The octets of the header, which is the whole message.
    pub const LEN: usize = 52;

    /// Reads the message. A wrong length is [`Error::StreamCatastrophic`]. An undefined operation is
    /// [`Error::UnexpectedOpcode`]. Fields that the operation does not use are ignored.
    pub fn parse(octets: &[u8]) -> Result<Self, Error> {
        let octets: &[u8; Self::LEN] = octets.try_into().map_err(|_| Error::StreamCatastrophic)?;
        let [o0, o1, o2, o3, i0, i1, i2, i3, s0, s1, s2, s3, words @ ..] = *octets;
        let (words, _) = words.as_chunks::<8>();
        let [to, data, mask, compare, compare_mask] =
            core::array::from_fn(|i| words.get(i).map_or(0, |word| u64::from_be_bytes(*word)));
        let op = match u32::from_be_bytes([o0, o1, o2, o3]) & 0x0000_000F {
            FETCH_ADD => AtomicOp::FetchAdd { add: data, mask },
            COMPARE_SWAP => AtomicOp::CompareSwap { swap: data, swap_mask: mask, compare, compare_mask },
            _ => return Err(Error::UnexpectedOpcode),
        };
        let id = u32::from_be_bytes([i0, i1, i2, i3]);
        Ok(Self { op, id, stag: Stag(u32::from_be_bytes([s0, s1, s2, s3])), to })
    }

    /// Returns the header's octets.
    pub fn emit(&self) -> [u8; Self::LEN] {
        // FetchAdd does not compare, and its two fields for that have fixed contents (RFC 7306 section 5.2.1).
        let (code, words) = match self.op {
            AtomicOp::FetchAdd { add, mask } => (FETCH_ADD, [self.to, add, mask, 0, u64::MAX]),
            AtomicOp::CompareSwap { swap, swap_mask, compare, compare_mask } => {
                (COMPARE_SWAP, [self.to, swap, swap_mask, compare, compare_mask])
            }
        };
        let mut octets = [0; Self::LEN];
        octets[0..4].copy_from_slice(&code.to_be_bytes());
        octets[4..8].copy_from_slice(&self.id.to_be_bytes());
        octets[8..12].copy_from_slice(&self.stag.0.to_be_bytes());
        for (field, word) in octets[12..].chunks_exact_mut(8).zip(words) {
            field.copy_from_slice(&word.to_be_bytes());
        }
        octets
    }
}

/// An Atomic Response (RFC 7306 section 5.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtomicResponse {
    /// The request that this answers.
    pub id: u32,
    /// The 8 octets as they were before the operation.
    pub original: u64,
}

impl AtomicResponse {
    /// The octets of the header, which is the whole message.
    pub const LEN: usize = 12;

    /// Reads the message. Another length is [`Error::StreamCatastrophic`].
    pub fn parse(octets: &[u8]) -> Result<Self, Error> {
        let octets: &[u8; Self::LEN] = octets.try_into().map_err(|_| Error::StreamCatastrophic)?;
        let [i0, i1, i2, i3, original @ ..] = *octets;
        Ok(Self { id: u32::from_be_bytes([i0, i1, i2, i3]), original: u64::from_be_bytes(original) })
    }

    /// Returns the header's octets.
    pub fn emit(&self) -> [u8; Self::LEN] {
        let mut octets = [0; Self::LEN];
        octets[0..4].copy_from_slice(&self.id.to_be_bytes());
        octets[4..12].copy_from_slice(&self.original.to_be_bytes());
        octets
    }
}

/// An atomic operation on 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomicOp {
    /// See [`fetch_add`].
    FetchAdd {
        /// Summand.
        add: u64,
        /// The top bits of the fields that are added separately; 0 adds the whole word.
        mask: u64,
    },
    /// Stores `swap` where `swap_mask` is set, if memory equals `compare` where `compare_mask` is set.
    CompareSwap {
        /// New value.
        swap: u64,
        /// The bits of it to store.
        swap_mask: u64,
        /// Value to compare with.
        compare: u64,
        /// The bits of it to compare.
        compare_mask: u64,
    },
}

impl AtomicOp {
    /// Returns the new value of memory that held `original` before.
    pub const fn apply(&self, original: u64) -> u64 {
        match *self {
            Self::FetchAdd { add, mask } => fetch_add(original, add, mask),
            Self::CompareSwap { swap, swap_mask, compare, compare_mask } => {
                if (compare ^ original) & compare_mask == 0 {
                    (original & !swap_mask) | (swap & swap_mask)
                } else {
                    original
                }
            }
        }
    }
}

/// Adds field by field: the carry out of every bit that is set in `mask` is dropped.
pub const fn fetch_add(original: u64, add: u64, mask: u64) -> u64 {
    // With the top bit of each field cleared, no carry can leave the field. The top bit itself is then the carry that
    // arrives there plus the two cleared bits, added without carry.
    (original & !mask).wrapping_add(add & !mask) ^ ((original ^ add) & mask)
}

const FETCH_ADD: u32 = 0x0;
const COMPARE_SWAP: u32 = 0x2;
