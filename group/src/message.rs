//! The message of an operation: what a client sends to the head of a chain, and what each replica hands on.
//!
//! It is a run of blocks, one for each replica that it has not reached, and a trailer. All numbers are little-endian, as in
//! the entries of send queues. The device of a replica scatters the first block over entries ([`crate::program`]), and the
//! rest is the message for the next replica.
//!
//! ```text
//! octets of a block                            octets of the trailer
//!   0      opcode of COPY                        0..8    number of the operation
//!   1      opcode of SWAP                        8..16   epoch
//!   2      opcode of SYNC                       16..24   session
//!   3      opcode of DATA                       24..32   zero
//!   4..8   length of COPY                       32..     result cells, 8 octets for each replica
//!   8..16  source of COPY
//!  16..24  sink of COPY
//!  24..32  word of SWAP
//!  32..64  swap, swap mask, compare, compare mask
//!  64..72  start of SYNC
//!  72..76  length of SYNC
//!  76..80  length of DATA
//!  80..88  start of DATA in the memory of the replica
//!  88..96  start of DATA in the memory of the next one
//! ```

use crate::op::{Copy, MAX_REPLICAS, Op, Replicas, Swap};

/// Octets of a block.
pub(crate) const BLOCK: usize = 96;
/// Octets of the trailer before the result cells.
pub(crate) const TRAILER: usize = 32;
/// Octets of a result cell.
pub(crate) const CELL: usize = 8;
/// Octets of the longest message.
pub const MAX_MESSAGE: usize = MAX_REPLICAS * (BLOCK + CELL) + TRAILER;
/// The value of a result cell that no replica has written.
pub const UNTOUCHED: u64 = u64::MAX;

/// Opcodes of entries (docs/queues.md).
const NOP: u8 = 0x10;
const READ: u8 = 0x04;
const COMPARE_SWAP: u8 = 0x07;
const WRITE: u8 = 0x03;
const SYNC: u8 = 0x0C;
const SYNC_LATER: u8 = 0x0E;

/// What names an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name {
    /// Its number in the session.
    pub number: u64,
    /// The epoch of the group.
    pub epoch: u64,
    /// The session.
    pub session: u64,
}

/// Returns the octets of the message that reaches replica `index` of `replicas`; that of the acknowledgement for `index`
/// equal to `replicas`.
pub const fn message_len(index: usize, replicas: usize) -> usize {
    replicas.saturating_sub(index) * BLOCK + TRAILER + replicas * CELL
}

/// Writes the message of `op` for a chain of `replicas` into `out`, and returns its length; `None` if `out` is too short.
pub fn encode(op: &Op, name: &Name, replicas: usize, out: &mut [u8]) -> Option<usize> {
    let len = message_len(0, replicas);
    let out = out.get_mut(..len)?;
    let (blocks, rest) = out.split_at_mut(replicas * BLOCK);
    for (index, block) in blocks.as_chunks_mut::<BLOCK>().0.iter_mut().enumerate() {
        encode_block(op, index, block);
    }
    let (trailer, cells) = rest.split_at_mut(TRAILER);
    for (place, value) in trailer.chunks_exact_mut(8).zip([name.number, name.epoch, name.session, 0]) {
        place.copy_from_slice(&value.to_le_bytes());
    }
    cells.fill(0xFF);
    Some(len)
}

fn encode_block(op: &Op, index: usize, block: &mut [u8; BLOCK]) {
    block.fill(0);
    let mut put = |at: usize, octets: &[u8]| block[at..at + octets.len()].copy_from_slice(octets);
    let swap = op.swap.filter(|swap| swap.on.contains(index));
    let opcode = |is: bool, opcode: u8| if is { opcode } else { NOP };
    let write = op.write.as_ref().filter(|write| !write.is_empty());
    // An empty one still has octets made durable that earlier operations left to it.
    let flush = op.flush.as_ref();
    put(
        0,
        &[
            opcode(op.copy.is_some(), READ),
            opcode(swap.is_some(), COMPARE_SWAP),
            opcode(flush.is_some(), if op.flushes_later { SYNC_LATER } else { SYNC }),
            opcode(write.is_some(), WRITE),
        ],
    );
    if let Some(copy) = op.copy {
        put(4, &copy.len.to_le_bytes());
        put(8, &copy.from.to_le_bytes());
        put(16, &copy.to.to_le_bytes());
    }
    if let Some(swap) = swap {
        put(24, &swap.at.to_le_bytes());
        for (at, value) in (32..).step_by(8).zip([swap.swap, u64::MAX, swap.compare, u64::MAX]) {
            put(at, &value.to_le_bytes());
        }
    }
    if let Some(flush) = flush {
        put(64, &flush.start.to_le_bytes());
        put(72, &len32(flush.end - flush.start).to_le_bytes());
    }
    if let Some(write) = write {
        put(76, &len32(write.end - write.start).to_le_bytes());
        put(80, &write.start.to_le_bytes());
        put(88, &write.start.to_le_bytes());
    }
}

/// Reads an acknowledgement of a chain of `replicas`: which operation it is for, and what each replica found in the word.
/// `None` if it has another length.
pub fn decode_acknowledgement(octets: &[u8], replicas: usize) -> Option<(Name, Originals)> {
    if octets.len() != message_len(replicas, replicas) || replicas > MAX_REPLICAS {
        return None;
    }
    let mut words = octets.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
    let name = Name { number: words.next()?, epoch: words.next()?, session: words.next()? };
    let mut originals = [UNTOUCHED; MAX_REPLICAS];
    for (original, word) in originals.iter_mut().zip(words.skip(1)) {
        *original = word;
    }
    Some((name, originals))
}

/// A message, or an acknowledgement, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// What names the operation.
    pub name: Name,
    /// What is left to be done. The replicas that still have to swap are its execute map.
    pub op: Op,
    /// How many replicas have it before them.
    pub left: usize,
    /// How many replicas the chain has.
    pub replicas: usize,
    /// What the replicas that it has passed found in the word of a swap.
    pub originals: Originals,
}

/// Reads octets on any hop of a chain, whatever its length; `None` if they are no message. For those who look on: a replica
/// reads no message.
pub fn decode(octets: &[u8]) -> Option<Message> {
    let words = octets.len().checked_sub(TRAILER)? / CELL;
    // From 14 replicas on a length may fit several numbers of them. A trailer does not look like a block.
    (0..=MAX_REPLICAS).rev().find_map(|left| {
        let replicas = words.checked_sub(left * BLOCK / CELL)?;
        let fits = (left.max(1)..=MAX_REPLICAS).contains(&replicas)
            && octets.len() == left * BLOCK + TRAILER + replicas * CELL;
        if fits { decode_as(octets, left, replicas) } else { None }
    })
}

fn decode_as(octets: &[u8], left: usize, replicas: usize) -> Option<Message> {
    let (blocks, trailer) = octets.split_at_checked(left * BLOCK)?;
    let (name, originals) = decode_acknowledgement(trailer, replicas)?;
    if trailer.get(24..TRAILER)? != [0; 8] {
        return None;
    }
    let mut op = Op::default();
    let mut on = 0;
    for (index, block) in blocks.as_chunks::<BLOCK>().0.iter().enumerate() {
        let word = |at: usize| {
            block.get(at..at + 8).and_then(|octets| octets.try_into().ok()).map(u64::from_le_bytes)
        };
        let half = |at: usize| {
            block.get(at..at + 4).and_then(|octets| octets.try_into().ok()).map(u32::from_le_bytes)
        };
        let [copy, swap, sync, data, ..] = *block;
        let is = |found: u8, opcode: u8| {
            if found == opcode { Some(true) } else { (found == NOP).then_some(false) }
        };
        let range = |start: u64, len: u32| Some(start..start.checked_add(len.into())?);
        if is(copy, READ)? {
            op.copy = Some(Copy { len: half(4)?, from: word(8)?, to: word(16)? });
        }
        if is(swap, COMPARE_SWAP)? {
            on |= 1 << (replicas - left + index);
            op.swap = Some(Swap { at: word(24)?, swap: word(32)?, compare: word(48)?, on: Replicas(on) });
        }
        op.flushes_later = sync == SYNC_LATER;
        if op.flushes_later || is(sync, SYNC)? {
            op.flush = Some(range(word(64)?, half(72)?)?);
        }
        if is(data, WRITE)? {
            op.write = Some(range(word(80)?, half(76)?)?);
        }
    }
    Some(Message { name, op, left, replicas, originals })
}

/// What each replica found in the word of a swap: the result map. All ones where it did not swap.
pub type Originals = [u64; MAX_REPLICAS];

/// A length of an operation that was checked.
fn len32(len: u64) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: Name = Name { number: 7, epoch: 8, session: 9 };

    /// The lengths of the design: 344, 248 and 152 octets in a chain of three, and 56 of the acknowledgement.
    #[test]
    fn lengths_shrink_by_a_block_at_each_replica() {
        assert_eq!([0, 1, 2, 3].map(|index| message_len(index, 3)), [344, 248, 152, 56]);
        assert_eq!(message_len(0, MAX_REPLICAS), MAX_MESSAGE);
    }

    #[test]
    fn a_flush_that_is_left_to_a_later_one_has_an_opcode_of_its_own() {
        let op = Op { flush: Some(8..24), flushes_later: true, ..Op::default() };
        let mut out = [0; MAX_MESSAGE];
        let len = encode(&op, &NAME, 1, &mut out).unwrap();
        assert_eq!(out[..4], [NOP, NOP, 0x0E, NOP]);
        assert_eq!(decode(&out[..len]).map(|message| message.op), Some(op));
    }

    #[test]
    fn an_operation_in_octets() {
        let op = Op {
            write: Some(0x1000..0x1010),
            copy: Some(Copy { from: 0x2000, to: 0x3000, len: 0x40 }),
            swap: Some(Swap { at: 0x4000, compare: 5, swap: 6, on: Replicas(0b10) }),
            flush: Some(0x5000..0x5020),
            ..Op::default()
        };
        let mut out = [0xAA; MAX_MESSAGE];
        assert_eq!(encode(&op, &NAME, 2, &mut out), Some(240));
        let word = |at: usize| u64::from_le_bytes(out[at..at + 8].try_into().unwrap());
        assert_eq!(out[..8], [0x04, 0x10, 0x0C, 0x03, 0x40, 0, 0, 0]);
        assert_eq!([word(8), word(16), word(24)], [0x2000, 0x3000, 0], "the head does not swap");
        assert_eq!([word(64), word(72), word(80), word(88)], [0x5000, 0x10_0000_0020, 0x1000, 0x1000]);
        assert_eq!(out[96..100], [0x04, 0x07, 0x0C, 0x03]);
        assert_eq!([120, 128, 136, 144, 152].map(word), [0x4000, 6, u64::MAX, 5, u64::MAX]);
        assert_eq!([192, 200, 208, 216, 224, 232].map(word), [7, 8, 9, 0, u64::MAX, u64::MAX]);
        assert_eq!(out[240], 0xAA);
    }

    #[test]
    fn what_is_not_asked_for_is_a_nop() {
        let mut out = [0xAA; MAX_MESSAGE];
        encode(&Op { write: Some(5..5), ..Op::default() }, &NAME, 1, &mut out).unwrap();
        assert_eq!(out[..4], [0x10; 4]);
        assert!(out[4..96].iter().all(|octet| *octet == 0));
        assert_eq!(encode(&Op::default(), &NAME, 1, &mut out[..135]), None);
    }

    /// What a looker-on sees on each hop is what the client has sent.
    #[test]
    fn a_message_is_read_on_every_hop() {
        for replicas in [1, 2, 3, 14, 16] {
            let on = Replicas(0b0110_1010_0000_0101 & (u16::MAX >> (16 - replicas)));
            let op = Op {
                write: Some(0x1000..0x1010),
                copy: Some(Copy { from: 0x2000, to: 0x3000, len: 0x40 }),
                swap: Some(Swap { at: 0x4000, compare: 5, swap: 6, on }),
                flush: Some(0x5000..0x5020),
                ..Op::default()
            };
            let mut out = [0; MAX_MESSAGE];
            let len = encode(&op, &NAME, replicas, &mut out).unwrap();
            for passed in 0..=replicas {
                let message = decode(&out[passed * BLOCK..len]).unwrap();
                assert_eq!(
                    (message.name, message.left, message.replicas),
                    (NAME, replicas - passed, replicas)
                );
                let rest = Replicas(on.0 & u16::try_from(0xFFFF_u32 << passed & 0xFFFF).unwrap());
                let swap = op.swap.filter(|_| rest.0 != 0).map(|swap| Swap { on: rest, ..swap });
                let expected = if passed == replicas { Op::default() } else { Op { swap, ..op.clone() } };
                assert_eq!(message.op, expected, "{passed} of {replicas}");
            }
            assert_eq!(decode(&out[1..len]), None);
            out[3] = 0x1F;
            assert_eq!(decode(&out[..len]), None, "no opcode of a message");
        }
        assert_eq!(decode(&[]), None);
    }

    #[test]
    fn acknowledgements() {
        let mut octets = Vec::new();
        for word in [1_u64, 2, 3, 0, 10, 11] {
            octets.extend(word.to_le_bytes());
        }
        let (name, originals) = decode_acknowledgement(&octets, 2).unwrap();
        assert_eq!(name, Name { number: 1, epoch: 2, session: 3 });
        assert_eq!(originals[..3], [10, 11, UNTOUCHED]);
        assert_eq!(decode_acknowledgement(&octets, 3), None);
        assert_eq!(decode_acknowledgement(&octets[1..], 2), None);
        assert_eq!(decode_acknowledgement(&[], 17), None);
    }
}
