//! A DDP segment of the target, taken apart octet by octet.

use crate::octets::Place;

/// A segment with its RDMAP control octet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// T, L, reserved and DV.
    pub(crate) ddp: u8,
    /// RV, reserved and opcode.
    pub(crate) rdmap: u8,
    pub(crate) header: Header,
    pub(crate) payload: Vec<u8>,
}

/// The header behind the two control octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Header {
    Tagged { stag: u32, to: u64 },
    Untagged { invalidate: u32, queue: u32, msn: u32, offset: u32 },
}

/// The fields of an RDMA Read Request Header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadFields {
    pub(crate) sink: Place,
    pub(crate) size: u32,
    pub(crate) source: Place,
}

impl Segment {
    /// Returns the segment in `ulpdu`, or `None` if that is shorter than a header.
    pub(crate) fn parse(ulpdu: &[u8]) -> Option<Self> {
        let is_tagged = ulpdu.first()? & 0x80 != 0;
        let len = if is_tagged { TAGGED_LEN } else { UNTAGGED_LEN };
        let (head, payload) = ulpdu.split_at_checked(len)?;
        let header = if is_tagged {
            Header::Tagged { stag: word(head, 2), to: long(head, 6) }
        } else {
            Header::Untagged {
                invalidate: word(head, 2),
                queue: word(head, 6),
                msn: word(head, 10),
                offset: word(head, 14),
            }
        };
        Some(Self { ddp: head[0], rdmap: head[1], header, payload: payload.to_vec() })
    }

    pub(crate) const fn is_tagged(&self) -> bool {
        self.ddp & 0x80 != 0
    }

    pub(crate) const fn is_last(&self) -> bool {
        self.ddp & 0x40 != 0
    }

    pub(crate) const fn opcode(&self) -> u8 {
        self.rdmap & 0x0F
    }
}

impl ReadFields {
    /// Returns the fields at the start of a Read Request's payload, or `None` if there are fewer than 28 octets.
    pub(crate) fn parse(payload: &[u8]) -> Option<Self> {
        let head = payload.get(..READ_LEN)?;
        Some(Self {
            sink: Place(word(head, 0), long(head, 4)),
            size: word(head, 12),
            source: Place(word(head, 16), long(head, 20)),
        })
    }
}

/// Returns four octets as a number in network order.
pub(crate) fn word(octets: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(std::array::from_fn(|i| octets[at + i]))
}

/// Returns eight octets as a number in network order.
pub(crate) fn long(octets: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(std::array::from_fn(|i| octets[at + i]))
}

const TAGGED_LEN: usize = 14;
const UNTAGGED_LEN: usize = 18;
const READ_LEN: usize = 28;

/// Opcodes of RDMAP.
pub(crate) mod opcode {
    pub(crate) const WRITE: u8 = 0;
    pub(crate) const READ_REQUEST: u8 = 1;
    pub(crate) const READ_RESPONSE: u8 = 2;
    pub(crate) const SEND: u8 = 3;
    pub(crate) const SEND_SE_INVALIDATE: u8 = 6;
    pub(crate) const TERMINATE: u8 = 7;
    pub(crate) const ATOMIC_RESPONSE: u8 = 11;
}
