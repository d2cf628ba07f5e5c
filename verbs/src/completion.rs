//! Work completions, as `ibv_wc` names them.

use weft_rdmap::{Form, Opcode};

use crate::numbered::numbered;
use crate::sync::atomic::{AtomicU64, Ordering};

/// How one work request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The identifier that the program gave the work request.
    pub wr_id: u64,
    /// Success or the reason of the failure. With a failure only `wr_id`, `qp_num` and `vendor_err` mean something.
    pub status: Status,
    /// The kind of the work request.
    pub opcode: CompletionOpcode,
    /// Octets placed: received (Recv), written by the peer since its last Send, Immediate Data, Read or Atomic
    /// (RecvWithImmediate, 2^32 - 1 at most), read (Read), or 8 (Atomics).
    pub byte_len: u32,
    /// The STag that the peer invalidated with this message, if any.
    pub invalidated: Option<u32>,
    /// The 8 octets of Immediate Data, if that is what was received (RFC 7306 section 6). Behind a Write with Immediate
    /// the first four are the sender's, in network order if they are a number.
    pub immediate: Option<[u8; 8]>,
    /// The queue pair.
    pub qp_num: u32,
    /// For a failure that the peer reported: layer, type and code of its Terminate, as 0x00llttcc; else 0.
    pub vendor_err: u32,
    /// The peer asked for an event with this message (Send or Immediate Data with Solicited Event).
    pub solicited: bool,
    /// The time of the engine when the completion was made, in microseconds.
    pub timestamp: u64,
}

impl Completion {
    /// A place for a completion, for a poll to overwrite.
    pub const EMPTY: Self = Self {
        wr_id: 0,
        status: Status::General,
        opcode: CompletionOpcode::Send,
        byte_len: 0,
        invalidated: None,
        immediate: None,
        qp_num: 0,
        vendor_err: 0,
        solicited: false,
        timestamp: 0,
    };
}

numbered! {
    /// The outcome of a work request, named and numbered as `ibv_wc_status` is.
    ///
    /// libibverbs knows more. 3, 14, 15, 17 to 19, 22 and 23 belong to datagrams, contexts and tag matching, which
    /// iWARP does not have. 8 (local access) is about Writes with an immediate value in one message; here a Write
    /// touches no receive. 16 (remote aborted) would fit a Terminate without blame, but that names no request, and all
    /// are flushed. 20 (fatal) is for a device that has failed; here a queue pair fails alone.
    pub enum Status {
        /// Done.
        Success = 0 "success",
        /// A Send was longer than the receive buffers of this request.
        LocalLength = 1 "local length error",
        /// The request itself is not well-formed.
        LocalQpOperation = 2 "local QP operation error",
        /// A local SGE names memory that is not there, out of bounds, of another domain or without the right.
        LocalProtection = 4 "local protection error",
        /// The queue pair went to an error state before the request was done.
        WorkRequestFlushed = 5 "work request flushed",
        /// An STag cannot be bound, registered or invalidated as the request asks for.
        MemoryWindowBind = 6 "memory management operation error",
        /// The peer answered this Read or Atomic with data that the request did not ask for.
        BadResponse = 7 "bad response error",
        /// The peer does not take such a message and said so with a Terminate: it is longer than the receive buffer, or
        /// of a kind or order that the peer does not know.
        RemoteInvalidRequest = 9 "remote invalid request error",
        /// The peer refused the access with a Terminate.
        RemoteAccess = 10 "remote access error",
        /// The peer could not do the operation and said so with a Terminate.
        RemoteOperation = 11 "remote operation error",
        /// The peer was silent for longer than TCP is set to wait. The oldest request that was not done gets this
        /// status, and the others are flushed.
        RetryExceeded = 12 "transport retry counter exceeded",
        /// The peer had no receive posted for this message and said so with a Terminate.
        RnrRetryExceeded = 13 "RNR retry counter exceeded",
        /// An error that fits none of the others.
        General = 21 "general error",
    }
}

numbered! {
    /// The kind of work request that completed, numbered as `ibv_wc_opcode` is. Kinds without a name in C have numbers
    /// of our own: from 64 to 127, or from 192 on for receives.
    pub enum CompletionOpcode {
        /// A Send of any kind.
        Send = 0,
        /// An RDMA Write.
        Write = 1,
        /// An RDMA Read.
        Read = 2,
        /// A compare-and-swap.
        CompareSwap = 3,
        /// A fetch-and-add.
        FetchAdd = 4,
        /// A memory window was bound or unbound.
        BindWindow = 5,
        /// An STag was taken out of use.
        LocalInvalidate = 6,
        /// Immediate Data.
        Immediate = 64,
        /// An STag was made valid by fast registration.
        FastRegister = 65,
        /// A NOP.
        Nop = 66,
        /// A WAIT.
        Wait = 67,
        /// Memory was made durable.
        Sync = 68,
        /// A Send received.
        Recv = 128,
        /// Immediate Data received, alone or behind a Write (RFC 7306 section 6).
        RecvWithImmediate = 129,
    }
}

impl CompletionOpcode {
    /// Returns the kind of the receive that a message with this opcode completes.
    #[inline]
    pub(crate) const fn received(opcode: Opcode) -> Self {
        match opcode.form() {
            Form::Immediate { .. } => Self::RecvWithImmediate,
            _ => Self::Recv,
        }
    }
}

/// A completion as it lies in a ring: six words.
///
/// ```text
/// word 0   wr_id
///      1   status (8) | opcode (8) << 8 | flags (16) << 16 | vendor_err (32) << 32
///      2   byte_len (32) | invalidated STag (32) << 32
///      3   qp_num (32)
///      4   timestamp
///      5   immediate data
/// ```
/// Where completions may be written over, word 6 holds the number of the entry, counted from 1. Elsewhere words 6 and 7
/// say which places in a work queue the poll frees. Flag 0x0001 says that the STag is valid, 0x0002 that the event was
/// solicited, 0x0004 that the immediate data is valid.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PackedCompletion(pub(crate) [u64; WORDS]);

impl PackedCompletion {
    /// Octets of an entry, which has room for more behind the completion.
    pub(crate) const OCTETS: usize = 64;
    /// Words of the completion.
    pub(crate) const WORDS: usize = WORDS;

    /// Copies the completion in an entry out.
    #[inline]
    pub(crate) fn load(entry: &[AtomicU64]) -> Self {
        let words = &entry[..WORDS];
        Self(core::array::from_fn(|i| words[i].load(Ordering::Relaxed)))
    }

    /// Writes it into an entry.
    #[inline(always)]
    pub(crate) fn store(&self, entry: &[AtomicU64]) {
        for (word, value) in entry[..WORDS].iter().zip(self.0) {
            word.store(value, Ordering::Relaxed);
        }
    }

    #[inline]
    pub(crate) const fn unpack(&self) -> Completion {
        let [wr_id, kind, len, qp_num, timestamp, immediate] = self.0;
        let [status, opcode, flags, _, e0, e1, e2, e3] = kind.to_le_bytes();
        let (byte_len, word) = split(len);
        Completion {
            wr_id,
            // The ring is private memory, and holds only numbers that were written there.
            status: match Status::from_number(status) {
                Some(status) => status,
                None => Status::General,
            },
            opcode: match CompletionOpcode::from_number(opcode) {
                Some(opcode) => opcode,
                None => CompletionOpcode::Send,
            },
            byte_len,
            invalidated: if flags & FLAG_INVALIDATED != 0 { Some(word) } else { None },
            immediate: if flags & FLAG_IMMEDIATE != 0 { Some(immediate.to_le_bytes()) } else { None },
            qp_num: split(qp_num).0,
            vendor_err: u32::from_le_bytes([e0, e1, e2, e3]),
            solicited: flags & FLAG_SOLICITED != 0,
            timestamp,
        }
    }
}

impl From<&Completion> for PackedCompletion {
    #[inline]
    fn from(completion: &Completion) -> Self {
        let mut flags = 0;
        if completion.invalidated.is_some() {
            flags |= FLAG_INVALIDATED;
        }
        if completion.solicited {
            flags |= FLAG_SOLICITED;
        }
        if completion.immediate.is_some() {
            flags |= FLAG_IMMEDIATE;
        }
        let [e0, e1, e2, e3] = completion.vendor_err.to_le_bytes();
        Self([
            completion.wr_id,
            u64::from_le_bytes([completion.status as u8, completion.opcode as u8, flags, 0, e0, e1, e2, e3]),
            join(completion.byte_len, completion.invalidated.unwrap_or(0)),
            join(completion.qp_num, 0),
            completion.timestamp,
            u64::from_le_bytes(completion.immediate.unwrap_or_default()),
        ])
    }
}

/// Returns the low and the high half of a word.
#[expect(clippy::cast_possible_truncation, reason = "the two halves are what is wanted")]
pub(crate) const fn split(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

/// Returns the word of a low and a high half.
pub(crate) const fn join(low: u32, high: u32) -> u64 {
    low as u64 | (high as u64) << 32
}

/// Words of an entry that a completion takes.
const WORDS: usize = 6;
const FLAG_INVALIDATED: u8 = 0x01;
const FLAG_SOLICITED: u8 = 0x02;
const FLAG_IMMEDIATE: u8 = 0x04;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_comes_back() {
        for &status in Status::ALL {
            for &opcode in CompletionOpcode::ALL {
                let completion = Completion { status, opcode, ..Completion::EMPTY };
                assert_eq!(PackedCompletion::from(&completion).unpack(), completion);
                assert!((status as usize) < Status::NUMBERS);
            }
        }
        assert_eq!(Status::from_number(3), None);
    }

    #[test]
    fn packing_keeps_every_field() {
        let completion = Completion {
            wr_id: u64::MAX - 1,
            status: Status::RemoteAccess,
            opcode: CompletionOpcode::Recv,
            byte_len: 0xFFFF_FFFE,
            invalidated: Some(0x8000_0001),
            immediate: Some(*b"imm data"),
            qp_num: 0xABCD_EF01,
            vendor_err: 0x0001_0203,
            solicited: true,
            timestamp: 42,
        };
        assert_eq!(PackedCompletion::from(&completion).unpack(), completion);
        let plain = Completion { invalidated: None, immediate: None, solicited: false, ..completion };
        assert_eq!(PackedCompletion::from(&plain).unpack(), plain);
    }
}
