//! Atomic Requests and Responses of RFC 7306, octet by octet, and a buffer of the target for them.

use crate::finding::Stop;
use crate::octets::{Place, join};
use crate::ping::{Advertisement, Client};
use crate::probe::shown;
use crate::segment::{Segment, long, opcode, word};
use crate::startup::Request;
use crate::stream::{Fpdu, Stream};
use crate::terminate::Terminate;
use crate::trial::Trial;

/// An Atomic Request with all its fields.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AtomicRequest {
    pub(crate) msn: u32,
    /// 28 reserved bits and the code.
    pub(crate) code: u32,
    pub(crate) id: u32,
    pub(crate) place: Place,
    /// Add or Swap Data, and its mask.
    pub(crate) data: [u64; 2],
    /// Compare Data, and its mask.
    pub(crate) compare: [u64; 2],
}

/// The fields of an Atomic Response.
#[derive(Clone, Debug)]
pub(crate) struct AtomicResponse {
    pub(crate) segment: Segment,
    pub(crate) id: u32,
    pub(crate) value: u64,
}

impl AtomicRequest {
    pub(crate) const fn fetch_add(msn: u32, place: Place, add: u64, mask: u64) -> Self {
        Self { msn, code: FETCH_ADD, id: id(msn), place, data: [add, mask], compare: [0, u64::MAX] }
    }

    pub(crate) const fn cmp_swap(msn: u32, place: Place, swap: [u64; 2], compare: [u64; 2]) -> Self {
        Self { msn, code: CMP_SWAP, id: id(msn), place, data: swap, compare }
    }

    pub(crate) fn emit(&self) -> Vec<u8> {
        let words = [self.code, self.id, self.place.0].map(u32::to_be_bytes).concat();
        let longs = [self.place.1, self.data[0], self.data[1], self.compare[0], self.compare[1]];
        let header = [&self.msn.to_be_bytes()[..], &[0; 4]].concat();
        join("414A 00000000 00000001", &[&header, &words, &longs.map(u64::to_be_bytes).concat()])
    }
}

impl AtomicResponse {
    /// Returns the Response in `fpdu`. Looks at its opcode only. Returns `None` for other opcodes and for fewer than
    /// 12 octets.
    pub(crate) fn parse(fpdu: &Fpdu) -> Option<Self> {
        let segment =
            Segment::parse(&fpdu.ulpdu).filter(|segment| segment.opcode() == opcode::ATOMIC_RESPONSE)?;
        let payload = fpdu.ulpdu.get(UNTAGGED_LEN..).filter(|payload| payload.len() >= RESPONSE_LEN)?;
        let (id, value) = (word(payload, 0), long(payload, 4));
        Some(Self { segment, id, value })
    }
}

impl Trial<'_> {
    /// Opens a stream on which Atomics work. Returns it with the part of the target's buffer that begins at a
    /// multiple of 8. The next MSN of queue 1 is 2.
    pub(crate) fn open_atomic(&mut self) -> Result<(Stream, Advertisement), Stop> {
        let stream = self.open()?;
        self.learn_atomic(stream)
    }

    /// Does the same with the given Request.
    pub(crate) fn open_atomic_with(
        &mut self,
        request: &Request,
    ) -> Result<(Stream, Advertisement, u16), Stop> {
        self.need_enhanced()?;
        let (stream, reply) = self.open_with(request)?;
        let ird = reply.enhanced().map_or(0, |(ird, _)| ird & 0x3FFF);
        let (stream, buffer) = self.learn_atomic(stream)?;
        Ok((stream, buffer, ird))
    }

    fn learn_atomic(&mut self, mut stream: Stream) -> Result<(Stream, Advertisement), Stop> {
        let mut buffer = Client::new(BUFFER_LEN).learn_buffer(self, &mut stream)?;
        buffer.to = buffer.to.next_multiple_of(8);
        stream.send_ulpdu(&AtomicRequest::fetch_add(1, buffer.place(0), 0, 0).emit());
        let fpdu = stream.read_fpdu().map_err(|missing| {
            self.note(missing);
            Stop::Unsuited(format!("{missing} instead of an Atomic Response"))
        })?;
        if AtomicResponse::parse(&fpdu).is_some() {
            return Ok((stream, buffer));
        }
        Err(Stop::Unsuited(match Terminate::parse(&fpdu.ulpdu) {
            Some(terminate) if is_unknown_opcode(&terminate) => {
                format!("the target has no Atomics: {terminate}")
            }
            _ => format!("the target's buffer takes no Atomics: {}", shown(&fpdu)),
        }))
    }
}

/// Returns true if the Terminate says "unexpected opcode". Layer and type may be in the RFC's order or exchanged.
pub(crate) const fn is_unknown_opcode(terminate: &Terminate) -> bool {
    matches!(terminate.code(), [0x02 | 0x20, 0x06])
}

/// Returns an identifier that no other field contains.
pub(crate) const fn id(msn: u32) -> u32 {
    0x0A0B_0C00 + msn
}

pub(crate) const FETCH_ADD: u32 = 0;
pub(crate) const CMP_SWAP: u32 = 2;
/// The length of the buffer that the target is asked for. Behind a multiple of 8 it has room for several words.
pub(crate) const BUFFER_LEN: usize = 64;
const UNTAGGED_LEN: usize = 18;
const RESPONSE_LEN: usize = 12;
