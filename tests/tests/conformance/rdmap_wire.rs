//! The shared parts of the RDMAP modules: ready connections, single ULPDUs, and messages of many segments.

use weft_rnic::{Completion, CompletionOpcode, Status};

use crate::octets::{fpdu, join};

/// Octets of payload in a tagged and in an untagged segment with [`SMALL_MTU`], where a ULPDU has 530 at most.
pub(crate) const TAGGED: usize = 516;
pub(crate) const UNTAGGED: usize = 512;
pub(crate) const SMALL_MTU: usize = 576;
pub(crate) const MTU: usize = 1500;

/// The opcodes of RFC 5040 figure 4 with the queue of each, if it is untagged.
pub(crate) const OPCODES: [(u8, Option<u8>); 8] = [
    (0x0, None),
    (0x1, Some(1)),
    (0x2, None),
    (0x3, Some(0)),
    (0x4, Some(0)),
    (0x5, Some(0)),
    (0x6, Some(0)),
    (0x7, Some(2)),
];

/// The FPDUs of a Send whose segments have `max` octets; `head` is RDMAP's octet and the Invalidate STag field.
pub(crate) fn send_fpdus(head: &str, msn: u32, message: &[u8], max: usize) -> Vec<u8> {
    segments(message, max, |last, offset, payload| {
        let mo = u32::try_from(offset).expect("a short message");
        let start = if last { "41" } else { "01" };
        join(&[start, head].concat(), &[&[0; 4], &msn.to_be_bytes(), &mo.to_be_bytes(), payload])
    })
}

/// The FPDUs of a Write (opcode 0) or Read Response (2) whose segments have `max` octets.
pub(crate) fn tagged_fpdus(opcode: u8, place: crate::octets::Place, message: &[u8], max: usize) -> Vec<u8> {
    segments(message, max, |last, offset, payload| {
        let head = [if last { 0xC1 } else { 0x81 }, 0x40 | opcode];
        let to = place.1.wrapping_add(offset as u64);
        join("", &[&head, &place.0.to_be_bytes(), &to.to_be_bytes(), payload])
    })
}

fn segments(message: &[u8], max: usize, ulpdu: impl Fn(bool, usize, &[u8]) -> Vec<u8>) -> Vec<u8> {
    let count = message.len().div_ceil(max).max(1);
    let segment = |index: usize| {
        let (start, end) = (index * max, (index * max + max).min(message.len()));
        fpdu(&ulpdu(index + 1 == count, start, &message[start..end]))
    };
    (0..count).flat_map(segment).collect()
}

/// Returns the fields of a completion that describe the message.
pub(crate) fn outcome(completion: &Completion) -> (u64, Status, CompletionOpcode, u32) {
    (completion.wr_id, completion.status, completion.opcode, completion.byte_len)
}
