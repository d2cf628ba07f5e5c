//! The send queue: posted by the application, consumed by the engine.
//!
//! An entry, in words of 64 bits:
//!
//! ```text
//! word 0   wr_id
//!      1   opcode (8) | flags (8) << 8 | SGEs (16) << 16 | inline octets (32) << 32
//!      2   the peer's tagged offset; or the immediate data
//!      3   the peer's STag (32) | STag to invalidate (32) << 32
//!      4.. SGEs of two words: addr, then lkey (32) | length (32) << 32; or the inline octets
//!      6.. of an Atomic: add and mask; or swap, swap mask, compare, compare mask
//! ```
//! Flags: 0x01 signaled, 0x02 fence, 0x04 solicited, 0x08 inline.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use weft_ddp::Stag;

use crate::completion::{join, split};
use crate::ring::WORD;
use crate::work::{MAX_INLINE, MAX_SGE};
use crate::{Data, PostError, Ring, SendOpcode, SendWr, Sge};

/// The part of a send queue that the application and the engine share.
#[derive(Debug)]
pub struct SendQueue {
    ring: Ring,
    posting: Mutex<()>,
    max_sge: usize,
    max_inline: usize,
}

impl SendQueue {
    /// A queue for at least `entries` requests of up to `max_sge` elements and `max_inline` inline octets.
    pub fn new(entries: u32, max_sge: usize, max_inline: usize) -> Self {
        let (max_sge, max_inline) = (max_sge.min(MAX_SGE), max_inline.min(MAX_INLINE));
        let body = (max_sge * SGE_WORDS * WORD).max(max_inline).max((SGE_WORDS + ATOMIC_WORDS) * WORD);
        Self {
            ring: Ring::new(entries, HEADER_WORDS * WORD + body),
            posting: Mutex::new(()),
            max_sge,
            max_inline,
        }
    }

    /// Queues a request. The engine reads it when it starts it.
    ///
    /// # Errors
    /// [`PostError`]; nothing was queued then.
    pub fn post(&self, wr: &SendWr<'_>) -> Result<(), PostError> {
        self.validate(wr)?;
        let _one_at_a_time = self.posting.lock().unwrap_or_else(PoisonError::into_inner);
        let tail = self.ring.tail();
        if tail - self.ring.head().min(tail) >= self.ring.entries() {
            return Err(PostError::QueueFull);
        }
        let entry = self.ring.entry(tail);
        let store = |index: usize, value: u64| entry[index].store(value, Ordering::Relaxed);
        let (opcode, stag, to, invalidate) = match wr.opcode {
            SendOpcode::Send => (OP_SEND, Stag(0), 0, Stag(0)),
            SendOpcode::SendInvalidate { stag } => (OP_SEND_INVALIDATE, Stag(0), 0, stag),
            SendOpcode::Write { stag, to } => (OP_WRITE, stag, to, Stag(0)),
            SendOpcode::Read { stag, to } => (OP_READ, stag, to, Stag(0)),
            SendOpcode::Immediate { data } => (OP_IMMEDIATE, Stag(0), u64::from_le_bytes(data), Stag(0)),
            SendOpcode::FetchAdd { stag, to, add, mask } => {
                store_operands(entry, [add, mask, 0, 0]);
                (OP_FETCH_ADD, stag, to, Stag(0))
            }
            SendOpcode::CompareSwap { stag, to, swap, swap_mask, compare, compare_mask } => {
                store_operands(entry, [swap, swap_mask, compare, compare_mask]);
                (OP_COMPARE_SWAP, stag, to, Stag(0))
            }
        };
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        let mut flags = flag(wr.signaled, FLAG_SIGNALED)
            | flag(wr.fence, FLAG_FENCE)
            | flag(wr.solicited, FLAG_SOLICITED);
        let (sges, octets) = match wr.data {
            Data::Sges(sges) => {
                for (i, sge) in sges.iter().enumerate() {
                    store(HEADER_WORDS + i * SGE_WORDS, sge.addr);
                    store(HEADER_WORDS + i * SGE_WORDS + 1, join(sge.lkey.0, sge.length));
                }
                (u16::try_from(sges.len()).map_err(|_| PostError::TooManySges)?, 0)
            }
            Data::Inline(octets) => {
                flags |= FLAG_INLINE;
                for (i, chunk) in octets.chunks(WORD).enumerate() {
                    let mut word = [0; WORD];
                    word[..chunk.len()].copy_from_slice(chunk);
                    store(HEADER_WORDS + i, u64::from_le_bytes(word));
                }
                (0, u32::try_from(octets.len()).map_err(|_| PostError::InlineTooLong)?)
            }
        };
        store(0, wr.wr_id);
        store(1, u64::from(opcode) | u64::from(flags) << 8 | u64::from(sges) << 16 | u64::from(octets) << 32);
        store(2, to);
        store(3, join(stag.0, invalidate.0));
        self.ring.publish(tail + 1);
        Ok(())
    }

    /// Copies entry number `index` out into `work` and validates it; anyone may have written it.
    ///
    /// # Errors
    /// [`BadEntry`] when a field makes no sense; `work.wr_id` and `work.signaled` are set all the same.
    pub fn load(&self, index: u64, work: &mut SendWork) -> Result<(), BadEntry> {
        let entry = self.ring.entry(index);
        let load = |index: usize| entry[index].load(Ordering::Relaxed);
        let kind = load(1);
        let [opcode, flags, ..] = kind.to_le_bytes();
        let (low, octets) = split(kind);
        let (sges, octets) = ((low >> 16) as usize, octets as usize);
        let (stag, invalidate) = split(load(3));
        work.wr_id = load(0);
        work.signaled = flags & FLAG_SIGNALED != 0;
        work.fence = flags & FLAG_FENCE != 0;
        work.solicited = flags & FLAG_SOLICITED != 0;
        work.sges.clear();
        work.inline.clear();
        work.opcode = match opcode {
            OP_SEND => SendOpcode::Send,
            OP_SEND_INVALIDATE => SendOpcode::SendInvalidate { stag: Stag(invalidate) },
            OP_WRITE => SendOpcode::Write { stag: Stag(stag), to: load(2) },
            OP_READ => SendOpcode::Read { stag: Stag(stag), to: load(2) },
            OP_IMMEDIATE => SendOpcode::Immediate { data: load(2).to_le_bytes() },
            OP_FETCH_ADD => {
                let [add, mask, ..] = load_operands(entry);
                SendOpcode::FetchAdd { stag: Stag(stag), to: load(2), add, mask }
            }
            OP_COMPARE_SWAP => {
                let [swap, swap_mask, compare, compare_mask] = load_operands(entry);
                let stag = Stag(stag);
                SendOpcode::CompareSwap { stag, to: load(2), swap, swap_mask, compare, compare_mask }
            }
            _ => return Err(BadEntry),
        };
        if flags & FLAG_INLINE != 0 {
            if octets > self.max_inline || work.opcode.fetches() {
                return Err(BadEntry);
            }
            for i in 0..octets.div_ceil(WORD) {
                work.inline.extend_from_slice(&load(HEADER_WORDS + i).to_le_bytes());
            }
            work.inline.truncate(octets);
        } else {
            if sges > self.max_sge {
                return Err(BadEntry);
            }
            for i in 0..sges {
                let (lkey, length) = split(load(HEADER_WORDS + i * SGE_WORDS + 1));
                work.sges.push(Sge { addr: load(HEADER_WORDS + i * SGE_WORDS), length, lkey: Stag(lkey) });
            }
        }
        let len = work.len().ok_or(BadEntry)?;
        if fits(&work.opcode, work.sges.len(), len) { Ok(()) } else { Err(BadEntry) }
    }

    /// The number of requests posted so far.
    pub fn posted(&self) -> u64 {
        self.ring.tail()
    }

    /// Gives the entries before `index` back for posting.
    pub fn release(&self, index: u64) {
        self.ring.release(index);
    }

    /// The number of requests that fit.
    pub const fn capacity(&self) -> u64 {
        self.ring.entries()
    }

    fn validate(&self, wr: &SendWr<'_>) -> Result<(), PostError> {
        let (sges, len) = match wr.data {
            Data::Sges(sges) if sges.len() > self.max_sge => return Err(PostError::TooManySges),
            Data::Sges(sges) => (sges.len(), total(sges).ok_or(PostError::TooLong)?),
            Data::Inline(_) if wr.opcode.fetches() => return Err(PostError::BadFlags),
            Data::Inline(octets) if octets.len() > self.max_inline => return Err(PostError::InlineTooLong),
            Data::Inline(octets) => (0, u32::try_from(octets.len()).map_err(|_| PostError::InlineTooLong)?),
        };
        if wr.solicited && !wr.opcode.takes_receive() {
            return Err(PostError::BadFlags);
        }
        if fits(&wr.opcode, sges, len) { Ok(()) } else { Err(PostError::BadData) }
    }
}

/// Whether the operation can do with this much local data.
const fn fits(opcode: &SendOpcode, sges: usize, len: u32) -> bool {
    match opcode {
        SendOpcode::Immediate { .. } => len == 0,
        SendOpcode::FetchAdd { .. } | SendOpcode::CompareSwap { .. } => sges == 1 && len == ATOMIC_LEN,
        _ => true,
    }
}

fn store_operands(entry: &[AtomicU64], operands: [u64; ATOMIC_WORDS]) {
    for (word, operand) in entry[HEADER_WORDS + SGE_WORDS..].iter().zip(operands) {
        word.store(operand, Ordering::Relaxed);
    }
}

fn load_operands(entry: &[AtomicU64]) -> [u64; ATOMIC_WORDS] {
    core::array::from_fn(|i| entry[HEADER_WORDS + SGE_WORDS + i].load(Ordering::Relaxed))
}

/// One entry of a send queue as the engine works on it.
#[derive(Clone, Debug)]
pub struct SendWork {
    /// The request's identifier.
    pub wr_id: u64,
    /// The operation.
    pub opcode: SendOpcode,
    /// A completion is wanted.
    pub signaled: bool,
    /// To be started only when no Read or Atomic is outstanding.
    pub fence: bool,
    /// The peer is to get an event.
    pub solicited: bool,
    /// The local memory; empty with inline data.
    pub sges: Vec<Sge>,
    /// The inline data; empty with SGEs.
    pub inline: Vec<u8>,
}

impl SendWork {
    /// Room for entries of any queue, so that loading one never allocates.
    pub fn new() -> Self {
        Self {
            wr_id: 0,
            opcode: SendOpcode::Send,
            signaled: false,
            fence: false,
            solicited: false,
            sges: Vec::with_capacity(MAX_SGE),
            inline: Vec::with_capacity(MAX_INLINE + WORD),
        }
    }

    /// Octets of the whole message, unless they are more than a message can have.
    pub fn len(&self) -> Option<u32> {
        if self.inline.is_empty() { total(&self.sges) } else { u32::try_from(self.inline.len()).ok() }
    }

    /// Whether the message has no octets.
    pub fn is_empty(&self) -> bool {
        self.len() == Some(0)
    }
}

impl Default for SendWork {
    fn default() -> Self {
        Self::new()
    }
}

/// An entry whose fields make no sense. The posting call does not let one through, but entries can be written by others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadEntry;

/// The sum of the lengths, if it fits in a message.
pub(crate) fn total(sges: &[Sge]) -> Option<u32> {
    sges.iter().try_fold(0_u32, |sum, sge| sum.checked_add(sge.length))
}

const HEADER_WORDS: usize = 4;
const SGE_WORDS: usize = 2;
const ATOMIC_WORDS: usize = 4;
/// Octets of the original value, which an Atomic fetches.
const ATOMIC_LEN: u32 = 8;
const OP_SEND: u8 = 0x01;
const OP_SEND_INVALIDATE: u8 = 0x02;
const OP_WRITE: u8 = 0x03;
const OP_READ: u8 = 0x04;
const OP_IMMEDIATE: u8 = 0x05;
const OP_FETCH_ADD: u8 = 0x06;
const OP_COMPARE_SWAP: u8 = 0x07;
const FLAG_SIGNALED: u8 = 0x01;
const FLAG_FENCE: u8 = 0x02;
const FLAG_SOLICITED: u8 = 0x04;
const FLAG_INLINE: u8 = 0x08;

#[cfg(test)]
mod tests {
    use super::*;

    fn wr<'a>(opcode: SendOpcode, data: Data<'a>) -> SendWr<'a> {
        SendWr { wr_id: 9, opcode, data, signaled: true, fence: false, solicited: false }
    }

    #[test]
    fn entries_come_out_as_they_went_in() {
        let queue = SendQueue::new(4, 2, 20);
        let sges = [
            Sge { addr: u64::MAX, length: 7, lkey: Stag(0xFFFF_FFFF) },
            Sge { addr: 1, length: 0, lkey: Stag(2) },
        ];
        let read = SendOpcode::Read { stag: Stag(3), to: 1 << 60 };
        queue.post(&SendWr { fence: true, ..wr(read, Data::Sges(&sges)) }).unwrap();
        let inline = SendOpcode::SendInvalidate { stag: Stag(0x8000_0000) };
        queue.post(&SendWr { solicited: true, ..wr(inline, Data::Inline(b"twelve octet")) }).unwrap();
        let mut work = SendWork::new();
        assert_eq!(queue.load(0, &mut work), Ok(()));
        assert_eq!((work.opcode, work.fence, work.signaled, work.solicited), (read, true, true, false));
        assert_eq!(work.sges, sges);
        assert_eq!(queue.load(1, &mut work), Ok(()));
        assert_eq!((work.opcode, work.fence, work.solicited), (inline, false, true));
        assert_eq!(
            (work.inline.as_slice(), work.sges.len(), work.len()),
            (&b"twelve octet"[..], 0, Some(12))
        );
    }

    #[test]
    fn refusals() {
        let queue = SendQueue::new(1, 1, 4);
        let sge = Sge { addr: 0, length: u32::MAX, lkey: Stag(1) };
        let write = SendOpcode::Write { stag: Stag(1), to: 0 };
        let read = SendOpcode::Read { stag: Stag(1), to: 0 };
        assert_eq!(queue.post(&wr(write, Data::Sges(&[sge, sge]))), Err(PostError::TooManySges));
        assert_eq!(queue.post(&wr(write, Data::Inline(b"12345"))), Err(PostError::InlineTooLong));
        assert_eq!(queue.post(&wr(read, Data::Inline(b"1"))), Err(PostError::BadFlags));
        assert_eq!(
            queue.post(&SendWr { solicited: true, ..wr(write, Data::Sges(&[])) }),
            Err(PostError::BadFlags)
        );
        let wide = SendQueue::new(1, 2, 0);
        assert_eq!(wide.post(&wr(write, Data::Sges(&[sge, sge]))), Err(PostError::TooLong));
        assert_eq!(queue.post(&wr(write, Data::Sges(&[sge]))), Ok(()));
        assert_eq!(queue.post(&wr(write, Data::Sges(&[sge]))), Err(PostError::QueueFull));
        queue.release(1);
        assert_eq!(queue.post(&wr(write, Data::Sges(&[sge]))), Ok(()));
    }

    #[test]
    fn atomics_and_immediate_data_come_out_as_they_went_in() {
        let queue = SendQueue::new(4, 1, 0);
        let sges = [Sge { addr: 1 << 40, length: 8, lkey: Stag(5) }];
        let (stag, to) = (Stag(0xFFFF_FFFF), u64::MAX);
        let add = SendOpcode::FetchAdd { stag, to, add: 1, mask: u64::MAX };
        let swap =
            SendOpcode::CompareSwap { stag, to, swap: 2, swap_mask: 3, compare: 4, compare_mask: u64::MAX };
        let immediate = SendOpcode::Immediate { data: *b"\x01\x02\x03\x04\x05\x06\x07\xFF" };
        for opcode in [add, swap] {
            queue.post(&wr(opcode, Data::Sges(&sges))).unwrap();
        }
        queue.post(&SendWr { solicited: true, ..wr(immediate, Data::Inline(b"")) }).unwrap();
        let mut work = SendWork::new();
        for (index, opcode, local) in [(0, add, &sges[..]), (1, swap, &sges), (2, immediate, &[])] {
            assert_eq!(queue.load(index, &mut work), Ok(()));
            assert_eq!((work.opcode, work.sges.as_slice(), work.solicited), (opcode, local, index == 2));
        }
    }

    // Covers 7306-6.1-1.
    #[test]
    fn atomics_and_immediate_data_have_fixed_lengths() {
        let queue = SendQueue::new(4, 2, 8);
        let sge = |length| Sge { addr: 0, length, lkey: Stag(5) };
        let (stag, to) = (Stag(1), 0);
        let add = SendOpcode::FetchAdd { stag, to, add: 1, mask: 0 };
        let swap = SendOpcode::CompareSwap { stag, to, swap: 2, swap_mask: 3, compare: 4, compare_mask: 5 };
        for opcode in [add, swap] {
            for sges in [&[][..], &[sge(7)], &[sge(9)], &[sge(4), sge(4)], &[sge(8), sge(0)]] {
                assert_eq!(queue.post(&wr(opcode, Data::Sges(sges))), Err(PostError::BadData));
            }
            assert_eq!(queue.post(&wr(opcode, Data::Inline(b"12345678"))), Err(PostError::BadFlags));
            let sges = [sge(8)];
            let solicited = SendWr { solicited: true, ..wr(opcode, Data::Sges(&sges)) };
            assert_eq!(queue.post(&solicited), Err(PostError::BadFlags));
        }
        let immediate = SendOpcode::Immediate { data: [0; 8] };
        assert_eq!(queue.post(&wr(immediate, Data::Inline(b"1"))), Err(PostError::BadData));
        assert_eq!(queue.post(&wr(immediate, Data::Sges(&[sge(1)]))), Err(PostError::BadData));
        assert_eq!(queue.posted(), 0);
        // The same from whoever wrote the entry without the call.
        let mut work = SendWork::new();
        let poke = |kind: u64| queue.ring.entry(0)[1].store(kind, Ordering::Relaxed);
        for opcode in [OP_FETCH_ADD, OP_COMPARE_SWAP] {
            poke(u64::from(opcode));
            assert_eq!(queue.load(0, &mut work), Err(BadEntry));
            poke(u64::from(opcode) | 1 << 16);
            assert_eq!(queue.load(0, &mut work), Err(BadEntry));
            poke(u64::from(opcode) | u64::from(FLAG_INLINE) << 8 | 8 << 32);
            assert_eq!(queue.load(0, &mut work), Err(BadEntry));
        }
        poke(u64::from(OP_IMMEDIATE) | u64::from(FLAG_INLINE) << 8 | 1 << 32);
        assert_eq!(queue.load(0, &mut work), Err(BadEntry));
    }

    #[test]
    fn whatever_stands_in_an_entry_is_checked() {
        let queue = SendQueue::new(1, 1, 4);
        let mut work = SendWork::new();
        let poke = |kind: u64| queue.ring.entry(0)[1].store(kind, Ordering::Relaxed);
        assert_eq!(queue.load(0, &mut work), Err(BadEntry), "an entry nobody wrote");
        poke(u64::from(OP_WRITE) | 2 << 16);
        assert_eq!(queue.load(0, &mut work), Err(BadEntry), "too many SGEs");
        poke(u64::from(OP_WRITE) | u64::from(FLAG_INLINE) << 8 | 5 << 32);
        assert_eq!(queue.load(0, &mut work), Err(BadEntry), "too much inline data");
        poke(u64::from(OP_READ) | u64::from(FLAG_INLINE) << 8 | 4 << 32);
        assert_eq!(queue.load(0, &mut work), Err(BadEntry), "inline Read");
        poke(0xFF);
        assert_eq!(queue.load(0, &mut work), Err(BadEntry), "unknown opcode");
        poke(u64::from(OP_SEND));
        assert_eq!(queue.load(0, &mut work), Ok(()));
    }
}
