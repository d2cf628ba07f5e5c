//! ULPDUs for the peer to send, and the changes that make the input's ULPDUs valid.

use weft_rdmap::Opcode;

use super::ledger::{AREA_LEN, Ledger};
use super::opponent::{Asked, Opponent};

/// Puts the values that the device expects now into a ULPDU, as far as there is room. Those are MSN and MO in an
/// untagged one, and STags and tagged offsets of the device's memory. The replaced octets choose the memory (the last
/// octet of an STag) and the offset in it (the last two of a tagged offset).
pub(super) fn patch(ulpdu: &mut [u8], opponent: &Opponent, ledger: &Ledger) {
    let Some(&[first, control]) = ulpdu.first_chunk() else { return };
    let opcode = Opcode::parse(control).ok();
    if first & TAGGED != 0 {
        match (opcode, opponent.asked.front()) {
            (Some(Opcode::ReadResponse), Some(Asked::Read { stag, to, .. })) => {
                put(ulpdu, 2, &stag.0.to_be_bytes());
                put(ulpdu, 6, &to.to_be_bytes());
            }
            _ => patch_place(ulpdu, 2, 6, ledger),
        }
        return;
    }
    if let Some(&queue) = ulpdu.get(9) {
        let (msn, mo) = opponent.next(usize::from(queue));
        put(ulpdu, 10, &msn.to_be_bytes());
        put(ulpdu, 14, &mo.to_be_bytes());
    }
    match opcode {
        Some(Opcode::SendInvalidate | Opcode::SendSolicitedInvalidate) => patch_stag(ulpdu, 2, ledger),
        Some(Opcode::ReadRequest) => patch_place(ulpdu, 34, 38, ledger),
        Some(Opcode::AtomicRequest) => patch_place(ulpdu, 26, 30, ledger),
        Some(Opcode::AtomicResponse) => {
            if let Some(Asked::Atomic { id }) = opponent.asked.front() {
                put(ulpdu, 18, &id.to_be_bytes());
            }
        }
        _ => {}
    }
}

/// Returns a segment of an untagged message, whose MSN and MO are still to be patched.
pub(super) fn untagged(is_last: bool, opcode: u8, queue: u8, word: u8, payload: &[u8]) -> Vec<u8> {
    let first = if is_last { 0x41 } else { 0x01 };
    let mut octets = vec![first, 0x40 | opcode, 0, 0, 0, word, 0, 0, 0, queue];
    octets.extend_from_slice(&[0; 8]);
    octets.extend_from_slice(payload);
    octets
}

/// Returns a tagged segment, whose STag is still to be patched.
pub(super) fn tagged(is_last: bool, opcode: u8, area: u8, offset: u16, payload: &[u8]) -> Vec<u8> {
    let first = if is_last { 0xC1 } else { 0x81 };
    let mut octets = vec![first, 0x40 | opcode, 0, 0, 0, area, 0, 0, 0, 0, 0, 0];
    octets.extend_from_slice(&offset.to_be_bytes());
    octets.extend_from_slice(payload);
    octets
}

/// Returns the octets behind the DDP header of a Read Request, whose source is still to be patched.
pub(super) fn read_request(area: u8, offset: u16, size: u32) -> Vec<u8> {
    let mut octets = vec![0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0x10, 0];
    octets.extend_from_slice(&size.to_be_bytes());
    octets.extend_from_slice(&[0, 0, 0, area, 0, 0, 0, 0, 0, 0]);
    octets.extend_from_slice(&offset.to_be_bytes());
    octets
}

/// Returns the octets behind the DDP header of an Atomic Request, whose target is still to be patched.
pub(super) fn atomic_request(operation: u8, area: u8, offset: u16, words: [u64; 4]) -> Vec<u8> {
    let mut octets = vec![0, 0, 0, operation, 0, 0, 0, 7, 0, 0, 0, area, 0, 0, 0, 0, 0, 0];
    octets.extend_from_slice(&offset.to_be_bytes());
    for word in words {
        octets.extend_from_slice(&word.to_be_bytes());
    }
    octets
}

/// Returns the octets behind the DDP header of a Terminate. The highest bit of `bits` selects the order of Linux siw.
/// The three lowest bits are M, D and R, with the headers of the device's last segment behind them.
pub(super) fn terminate(kind: u8, code: u8, bits: u8, header: &[u8]) -> Vec<u8> {
    let mut octets = if bits & 0x80 == 0 {
        vec![kind, code, (bits & 0x07) << 5, 0]
    } else {
        vec![kind.rotate_left(4), code, (bits & 0x07).reverse_bits() >> 5, 0]
    };
    if bits & 0x06 != 0 {
        octets.extend_from_slice(&[0, 46]);
    }
    if bits & 0x02 != 0 {
        octets.extend_from_slice(header);
    }
    if bits & 0x01 != 0 {
        octets.extend_from_slice(&read_request(1, 0, 8));
    }
    octets
}

/// Returns octets that differ from their neighbours.
pub(super) fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251).to_le_bytes()[0] ^ 0x55).collect()
}

fn patch_place(ulpdu: &mut [u8], stag_at: usize, to_at: usize, ledger: &Ledger) {
    let Some(&choice) = ulpdu.get(stag_at + 3) else { return };
    let area = ledger.area(choice);
    if let Some(&[high, low]) = ulpdu.get(to_at + 6..to_at + 8) {
        // Some offsets are to be beyond the end.
        let offset = u64::from(u16::from_be_bytes([high, low])) % (AREA_LEN as u64 * 2);
        put(ulpdu, to_at, &area.to.wrapping_add(offset).to_be_bytes());
    }
    put(ulpdu, stag_at, &area.stag.0.to_be_bytes());
}

fn patch_stag(ulpdu: &mut [u8], at: usize, ledger: &Ledger) {
    if let Some(&choice) = ulpdu.get(at + 3) {
        put(ulpdu, at, &ledger.area(choice).stag.0.to_be_bytes());
    }
}

fn put(ulpdu: &mut [u8], at: usize, octets: &[u8]) {
    if let Some(place) = ulpdu.get_mut(at..at + octets.len()) {
        place.copy_from_slice(octets);
    }
}

const TAGGED: u8 = 0x80;
