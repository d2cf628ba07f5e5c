//! An entry of a send queue: its layout, how a request gets into one and how the engine reads it.
//!
//! In words of 64 bits, little-endian:
//!
//! ```text
//! word 0   wr_id
//!      1   opcode (8) | flags (8) << 8 | SGEs (16) << 16 | inline octets (32) << 32
//!      2   the peer's tagged offset; or the immediate data; of a WAIT the completion queue (32) | completions (32) << 32
//!      3   the peer's STag (32) | STag to invalidate, or a Write's immediate data (32) << 32
//!      4.. SGEs of two words: addr, then lkey (32) | length (32) << 32; or the inline octets
//!      6.. of an Atomic: add and mask; or swap, swap mask, compare, compare mask
//!      6.. of a Bind or Fast Register: length, rights, and of the latter the offset; word 2 is the first tagged offset, word 3
//!          the STag that becomes valid (32) | the region below a window (32) << 32
//! ```
//! Flags: 0x01 signaled, 0x02 fence, 0x04 solicited, 0x08 inline, 0x10 strict (WAIT only).

use weft_ddp::Stag;

use crate::access::Access;
use crate::completion::{join, split};
use crate::numbered::numbered;
use crate::ring::WORD;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::work::{Bind, Data, FastRegister, PostError, SendOpcode, SendWr, Sge};

numbered! {
    /// The operation of an entry, by the number that stands there.
    pub(crate) enum Operation {
        Send = 0x01,
        SendInvalidate = 0x02,
        Write = 0x03,
        Read = 0x04,
        Immediate = 0x05,
        FetchAdd = 0x06,
        CompareSwap = 0x07,
        WriteImmediate = 0x08,
        BindWindow = 0x09,
        FastRegister = 0x0A,
        LocalInvalidate = 0x0B,
        Sync = 0x0C,
        SyncLater = 0x0E,
        Nop = 0x10,
        Wait = 0x11,
        Hold = 0x12,
    }
}

// An operation takes 8 bits of the control word.
const _: () = assert!(Operation::NUMBERS <= 1 << u8::BITS);

/// What the entries of one queue have room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EntryFormat {
    pub(crate) max_sge: usize,
    pub(crate) max_inline: usize,
}

impl EntryFormat {
    /// Returns the octets of an entry.
    pub(crate) fn octets(self) -> usize {
        let body = (self.max_sge * SGE_WORDS * WORD).max(self.max_inline);
        HEADER_WORDS * WORD + body.max((SGE_WORDS + ATOMIC_WORDS) * WORD)
    }

    /// Hands the words of a request to `store`; `counts` is the result of [`Self::validate`] for it.
    #[inline]
    pub(crate) fn pack(wr: &SendWr<'_>, counts: Counts, mut store: impl FnMut(usize, u64)) {
        let Counts { sges, octets } = counts;
        let mut operands = |operands: &[u64]| {
            for (i, operand) in operands.iter().enumerate() {
                store(HEADER_WORDS + SGE_WORDS + i, *operand);
            }
        };
        let (opcode, stag, to, other) = match wr.opcode {
            SendOpcode::Send => (Operation::Send, Stag(0), 0, Stag(0)),
            SendOpcode::SendInvalidate { stag } => (Operation::SendInvalidate, Stag(0), 0, stag),
            SendOpcode::Write { stag, to } => (Operation::Write, stag, to, Stag(0)),
            SendOpcode::WriteImmediate { stag, to, immediate } => {
                (Operation::WriteImmediate, stag, to, Stag(u32::from_le_bytes(immediate)))
            }
            SendOpcode::Read { stag, to } => (Operation::Read, stag, to, Stag(0)),
            SendOpcode::Immediate { data } => {
                (Operation::Immediate, Stag(0), u64::from_le_bytes(data), Stag(0))
            }
            SendOpcode::FetchAdd { stag, to, add, mask } => {
                operands(&[add, mask]);
                (Operation::FetchAdd, stag, to, Stag(0))
            }
            SendOpcode::CompareSwap { stag, to, swap, swap_mask, compare, compare_mask } => {
                operands(&[swap, swap_mask, compare, compare_mask]);
                (Operation::CompareSwap, stag, to, Stag(0))
            }
            SendOpcode::BindWindow(Bind { window, region, addr, length, access }) => {
                operands(&[length, access.bits().into()]);
                (Operation::BindWindow, window, addr, region)
            }
            SendOpcode::FastRegister(FastRegister { stag, offset, iova, length, access }) => {
                operands(&[length, access.bits().into(), offset]);
                (Operation::FastRegister, stag, iova, Stag(0))
            }
            SendOpcode::LocalInvalidate { stag } => (Operation::LocalInvalidate, Stag(0), 0, stag),
            SendOpcode::Sync => (Operation::Sync, Stag(0), 0, Stag(0)),
            SendOpcode::SyncLater => (Operation::SyncLater, Stag(0), 0, Stag(0)),
            SendOpcode::Nop => (Operation::Nop, Stag(0), 0, Stag(0)),
            SendOpcode::Wait { cq, count, .. } => (Operation::Wait, Stag(0), join(cq, count), Stag(0)),
            SendOpcode::Hold => (Operation::Hold, Stag(0), 0, Stag(0)),
        };
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        let mut flags = flag(wr.signaled, FLAG_SIGNALED)
            | flag(wr.fence, FLAG_FENCE)
            | flag(wr.solicited, FLAG_SOLICITED)
            | flag(matches!(wr.opcode, SendOpcode::Wait { strict: true, .. }), FLAG_STRICT);
        match wr.data {
            Data::Sges(sges) => {
                for (i, sge) in sges.iter().enumerate() {
                    store(HEADER_WORDS + i * SGE_WORDS, sge.addr);
                    store(HEADER_WORDS + i * SGE_WORDS + 1, join(sge.lkey.0, sge.length));
                }
            }
            Data::Inline(octets) => {
                flags |= FLAG_INLINE;
                for (i, chunk) in octets.chunks(WORD).enumerate() {
                    let mut word = [0; WORD];
                    word[..chunk.len()].copy_from_slice(chunk);
                    store(HEADER_WORDS + i, u64::from_le_bytes(word));
                }
            }
        }
        store(0, wr.wr_id);
        store(
            1,
            u64::from(opcode as u8) | u64::from(flags) << 8 | u64::from(sges) << 16 | u64::from(octets) << 32,
        );
        store(2, to);
        store(3, join(stag.0, other.0));
    }

    /// Copies an entry out into `work` and checks every field: a peer may have written a registered one. Only the
    /// identifier of a held entry means something, since a peer may be writing the rest at this moment.
    ///
    /// # Errors
    /// [`BadEntry`] when a field makes no sense; `work.wr_id` and `work.signaled` are set all the same.
    #[inline]
    pub(crate) fn unpack(self, entry: &[AtomicU64], work: &mut SendWork) -> Result<(), BadEntry> {
        let load = |index: usize| entry[index].load(Ordering::Relaxed);
        let Control { operation, flags, sges, octets } = peek(entry);
        work.wr_id = load(0);
        work.signaled = flags & FLAG_SIGNALED != 0;
        work.fence = flags & FLAG_FENCE != 0;
        work.solicited = flags & FLAG_SOLICITED != 0;
        work.len = 0;
        work.sges.clear();
        work.inline.clear();
        work.opcode = operation.and_then(|it| opcode_of(it, flags, entry)).ok_or(BadEntry)?;
        if matches!(work.opcode, SendOpcode::Hold) {
            return Ok(());
        }
        let known = if matches!(work.opcode, SendOpcode::Wait { .. }) { FLAGS | FLAG_STRICT } else { FLAGS };
        if flags & !known != 0 || work.solicited && !may_solicit(&work.opcode) {
            return Err(BadEntry);
        }
        let len = if flags & FLAG_INLINE != 0 {
            let len = octets as usize;
            if len > self.max_inline || !work.opcode.takes_inline() {
                return Err(BadEntry);
            }
            for i in 0..len.div_ceil(WORD) {
                work.inline.extend_from_slice(&load(HEADER_WORDS + i).to_le_bytes());
            }
            work.inline.truncate(len);
            octets
        } else {
            if sges > self.max_sge {
                return Err(BadEntry);
            }
            load_sges(&entry[HEADER_WORDS..HEADER_WORDS + sges * SGE_WORDS], &mut work.sges);
            total(&work.sges).ok_or(BadEntry)?
        };
        if !fits(&work.opcode, work.sges.len(), len) {
            return Err(BadEntry);
        }
        work.len = len;
        Ok(())
    }

    /// Returns whether the queue can take a request, and with how many SGEs and inline octets.
    #[inline]
    pub(crate) fn validate(self, wr: &SendWr<'_>) -> Result<Counts, PostError> {
        let (sges, octets, len) = match wr.data {
            Data::Sges(sges) if sges.len() > self.max_sge => return Err(PostError::TooManySges),
            Data::Sges(sges) => (sges.len(), 0, total(sges).ok_or(PostError::TooLong)?),
            Data::Inline(_) if !wr.opcode.takes_inline() => return Err(PostError::BadFlags),
            Data::Inline(octets) if octets.len() > self.max_inline => return Err(PostError::InlineTooLong),
            Data::Inline(octets) => {
                let len = u32::try_from(octets.len()).map_err(|_| PostError::InlineTooLong)?;
                (0, len, len)
            }
        };
        if wr.solicited && !may_solicit(&wr.opcode) {
            return Err(PostError::BadFlags);
        }
        if !fits(&wr.opcode, sges, len) {
            return Err(PostError::BadData);
        }
        Ok(Counts { sges: u16::try_from(sges).map_err(|_| PostError::TooManySges)?, octets })
    }
}

/// The control word of an entry. It says what the other words mean.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Control {
    /// `None` for a number that no operation has.
    pub(crate) operation: Option<Operation>,
    pub(crate) flags: u8,
    pub(crate) sges: usize,
    pub(crate) octets: u32,
}

/// Reads the control word of an entry. A peer that releases a held entry writes this word last: after this load the
/// engine sees all that was written before the word.
#[inline(always)]
pub(crate) fn peek(entry: &[AtomicU64]) -> Control {
    let word = entry[1].load(Ordering::Acquire);
    let [number, flags, ..] = word.to_le_bytes();
    let (low, octets) = split(word);
    Control { operation: Operation::from_number(number), flags, sges: (low >> 16) as usize, octets }
}

/// Makes a NOP of an entry that binds a window, with the same flags. An entry that a peer changes meanwhile stays.
pub(crate) fn make_nop(entry: &[AtomicU64]) {
    let word = entry[1].load(Ordering::Relaxed);
    let nop = word & !u64::from(u8::MAX) | Operation::Nop as u64;
    let _changed = entry[1].compare_exchange(word, nop, Ordering::AcqRel, Ordering::Relaxed);
}

/// Returns the peer's STag and tagged offset in an entry. In one that binds a window they are that window's.
#[inline(always)]
pub(crate) fn peek_remote(entry: &[AtomicU64]) -> (Stag, u64) {
    let (stag, _) = split(entry[3].load(Ordering::Relaxed));
    (Stag(stag), entry[2].load(Ordering::Relaxed))
}

/// SGEs and inline octets of a valid request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counts {
    sges: u16,
    octets: u32,
}

/// Returns whether the operation takes this much local data.
const fn fits(opcode: &SendOpcode, sges: usize, len: u32) -> bool {
    match opcode {
        SendOpcode::Immediate { .. } => len == 0,
        SendOpcode::FetchAdd { .. } | SendOpcode::CompareSwap { .. } => sges == 1 && len == ATOMIC_LEN,
        SendOpcode::Nop | SendOpcode::Hold => true,
        SendOpcode::Wait { count, .. } => *count > 0 && sges == 0 && len == 0,
        SendOpcode::BindWindow(_) | SendOpcode::FastRegister(_) | SendOpcode::LocalInvalidate { .. } => {
            sges == 0 && len == 0
        }
        SendOpcode::Send
        | SendOpcode::SendInvalidate { .. }
        | SendOpcode::Write { .. }
        | SendOpcode::WriteImmediate { .. }
        | SendOpcode::Read { .. }
        | SendOpcode::Sync
        | SendOpcode::SyncLater => true,
    }
}

/// Returns whether the Solicited flag goes with the operation. An entry that may become another operation, or was one
/// before, may have any flag.
const fn may_solicit(opcode: &SendOpcode) -> bool {
    opcode.takes_receive() || matches!(opcode, SendOpcode::Nop | SendOpcode::Hold)
}

/// Returns the operation of an entry with its operands, if they make sense.
#[inline]
fn opcode_of(operation: Operation, flags: u8, entry: &[AtomicU64]) -> Option<SendOpcode> {
    let load = |index: usize| entry[index].load(Ordering::Relaxed);
    let (to, (stag, second)) = (load(2), split(load(3)));
    let (stag, second) = (Stag(stag), Stag(second));
    let rights = |word: u64| Access::from_bits(u8::try_from(word).ok()?);
    Some(match operation {
        Operation::Send => SendOpcode::Send,
        Operation::SendInvalidate => SendOpcode::SendInvalidate { stag: second },
        Operation::Write => SendOpcode::Write { stag, to },
        Operation::WriteImmediate => {
            SendOpcode::WriteImmediate { stag, to, immediate: second.0.to_le_bytes() }
        }
        Operation::Read => SendOpcode::Read { stag, to },
        Operation::Immediate => SendOpcode::Immediate { data: to.to_le_bytes() },
        Operation::FetchAdd => {
            let [add, mask, ..] = load_operands(entry);
            SendOpcode::FetchAdd { stag, to, add, mask }
        }
        Operation::CompareSwap => {
            let [swap, swap_mask, compare, compare_mask] = load_operands(entry);
            SendOpcode::CompareSwap { stag, to, swap, swap_mask, compare, compare_mask }
        }
        Operation::BindWindow => {
            let [length, access, ..] = load_operands(entry);
            let access = rights(access)?;
            SendOpcode::BindWindow(Bind { window: stag, region: second, addr: to, length, access })
        }
        Operation::FastRegister => {
            let [length, access, offset, _] = load_operands(entry);
            SendOpcode::FastRegister(FastRegister { stag, offset, iova: to, length, access: rights(access)? })
        }
        Operation::LocalInvalidate => SendOpcode::LocalInvalidate { stag: second },
        Operation::Sync => SendOpcode::Sync,
        Operation::SyncLater => SendOpcode::SyncLater,
        Operation::Nop => SendOpcode::Nop,
        Operation::Wait => {
            let (cq, count) = split(to);
            SendOpcode::Wait { cq, count, strict: flags & FLAG_STRICT != 0 }
        }
        Operation::Hold => SendOpcode::Hold,
    })
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
    /// Octets of the whole message; 0 for an entry that makes no sense.
    pub len: u32,
}

impl SendWork {
    /// Makes one without room for data: the first entries with data make it, and an idle queue pair needs none.
    pub fn new() -> Self {
        Self {
            wr_id: 0,
            opcode: SendOpcode::Send,
            signaled: false,
            fence: false,
            solicited: false,
            sges: Vec::new(),
            inline: Vec::new(),
            len: 0,
        }
    }
}

impl Default for SendWork {
    fn default() -> Self {
        Self::new()
    }
}

/// An entry whose fields make no sense. The posting call refuses such a request, but a peer can write one into a
/// registered entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadEntry;

/// Copies the SGEs in `words` out, behind those that are in `sges`.
#[inline]
pub(crate) fn load_sges(words: &[AtomicU64], sges: &mut Vec<Sge>) {
    for words in words.as_chunks().0 {
        sges.push(load_sge(words));
    }
}

#[inline]
pub(crate) fn load_sge([addr, rest]: &[AtomicU64; SGE_WORDS]) -> Sge {
    let (lkey, length) = split(rest.load(Ordering::Relaxed));
    Sge { addr: addr.load(Ordering::Relaxed), length, lkey: Stag(lkey) }
}

/// Returns the sum of the lengths, if it fits in a message.
#[inline]
pub(crate) fn total(sges: &[Sge]) -> Option<u32> {
    sges.iter().try_fold(0_u32, |sum, sge| sum.checked_add(sge.length))
}

pub(crate) const HEADER_WORDS: usize = 4;
pub(crate) const SGE_WORDS: usize = 2;
const ATOMIC_WORDS: usize = 4;
/// Octets of the original value, which an Atomic fetches.
const ATOMIC_LEN: u32 = 8;
pub(crate) const FLAG_SIGNALED: u8 = 0x01;
pub(crate) const FLAG_FENCE: u8 = 0x02;
pub(crate) const FLAG_SOLICITED: u8 = 0x04;
pub(crate) const FLAG_INLINE: u8 = 0x08;
const FLAG_STRICT: u8 = 0x10;
const FLAGS: u8 = FLAG_SIGNALED | FLAG_FENCE | FLAG_SOLICITED | FLAG_INLINE;
