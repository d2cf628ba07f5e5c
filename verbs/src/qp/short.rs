//! Short messages, sent without being remembered. Most of the cost of a small message is what is remembered of it in
//! case that it does not go out at once.
//!
//! A Send or Write that fits into one segment, and finds nothing before it in progress, is copied from where it is to
//! its FPDU, and is done. All others go the general way. So do requests that are not in order: the general way decides
//! how they end.

use weft_ddp::Header;
use weft_rdmap::{Kind, Message, Token};

use super::{Pending, QueuePair};
use crate::completion::{CompletionOpcode, Status};
use crate::entry::{
    Control, FLAG_INLINE, FLAG_SIGNALED, FLAG_SOLICITED, HEADER_WORDS, Operation, load_sge, peek, peek_remote,
};
use crate::memory::MemoryTable;
use crate::ring::WORD;
use crate::state::QpState;
use crate::sync::atomic::{AtomicU64, Ordering};

/// A message of [`Short::MAX_LEN`] octets at most whose payload has been copied.
#[derive(Clone, Copy, Debug)]
pub struct Short {
    /// The message.
    pub message: Message,
    wr_id: u64,
    signaled: bool,
}

impl Short {
    /// The most octets of a short message. It gets its CRC behind the copy, which for a long one is slower than along
    /// with it.
    pub const MAX_LEN: usize = 1024;
    /// The octets that its ULPDU may take.
    pub const MAX_ULPDU: usize = Header::UNTAGGED_LEN + Self::MAX_LEN;
}

impl QueuePair {
    /// Puts the payload of the next request into `ulpdu`, behind the place of its header, if it is a short message that
    /// fits there and that nothing holds back.
    ///
    /// [`Self::finish_short`] starts and ends the request.
    #[inline]
    pub fn put_short(&self, memory: &MemoryTable, ulpdu: &mut [u8]) -> Option<Short> {
        let end = self.drain_until.unwrap_or_else(|| self.sends_posted());
        let is_next = !self.active && self.pending.is_empty() && self.started < end;
        if !is_next || self.queues.state() != QpState::Rts {
            return None;
        }
        let entry = self.queues.send.entry(self.started);
        let Control { operation, flags, sges, octets: inline_len } = peek(entry);
        let kind = kind_of(operation?, flags, entry)?;
        let body = &entry[HEADER_WORDS..];
        let signaled = flags & FLAG_SIGNALED != 0 || self.signal_all;
        if signaled && self.queues.as_infiniband() && matches!(kind, Kind::Write { .. }) {
            // It has to be confirmed.
            return None;
        }
        let header_len =
            if matches!(kind, Kind::Send { .. }) { Header::UNTAGGED_LEN } else { Header::TAGGED_LEN };
        let place = ulpdu.get_mut(header_len..)?;
        let len = if flags & FLAG_INLINE != 0 {
            put_inline(body, inline_len, self.queues.send.max_inline(), place)?;
            inline_len
        } else if sges == 1 && self.queues.send.max_sge() > 0 {
            let sge = load_sge(body.first_chunk()?);
            let octets = place.get_mut(..sge.length as usize)?;
            if !octets.is_empty() {
                self.reach(memory).lend(sge.lkey, sge.addr, octets.len()).ok()?.copy_out(octets).ok()?;
            }
            sge.length
        } else {
            return None;
        };
        let message = Message { token: Token(self.started), len, kind };
        Some(Short { message, wr_id: entry[0].load(Ordering::Relaxed), signaled })
    }

    /// Ends the request of the short message that was put last, which is in TCP.
    #[inline]
    pub fn finish_short(&mut self, short: &Short) {
        let is_send = matches!(short.message.kind, Kind::Send { .. });
        let opcode = if is_send { CompletionOpcode::Send } else { CompletionOpcode::Write };
        self.started += 1;
        self.counters.sends_started += 1;
        if short.signaled || self.failed {
            let done = Pending { wr_id: short.wr_id, opcode, signaled: short.signaled, ..Pending::default() };
            self.complete(&done);
        } else {
            self.counters.count_completed(Status::Success);
            self.retire_one();
        }
    }
}

/// Returns the message of an entry with this operation and these flags, if it is a Send or Write that is in order and
/// has no fence.
#[inline]
fn kind_of(operation: Operation, flags: u8, entry: &[AtomicU64]) -> Option<Kind> {
    if flags & !(FLAG_SIGNALED | FLAG_SOLICITED | FLAG_INLINE) != 0 {
        return None;
    }
    let solicited = flags & FLAG_SOLICITED != 0;
    if operation == Operation::Send {
        return Some(Kind::Send { solicited, invalidate: None });
    }
    let is_plain_write = operation == Operation::Write && !solicited;
    is_plain_write.then(|| {
        let (stag, to) = peek_remote(entry);
        Kind::Write { stag, to }
    })
}

/// Copies inline octets out, each word read once.
#[inline]
fn put_inline(body: &[AtomicU64], len: u32, max: usize, place: &mut [u8]) -> Option<()> {
    let len = len as usize;
    if len > max {
        return None;
    }
    let words = body.get(..len.div_ceil(WORD))?;
    let (places, rest) = place.get_mut(..len)?.as_chunks_mut::<WORD>();
    for (place, word) in places.iter_mut().zip(words) {
        *place = word.load(Ordering::Relaxed).to_le_bytes();
    }
    if let (false, Some(word)) = (rest.is_empty(), words.last()) {
        rest.copy_from_slice(&word.load(Ordering::Relaxed).to_le_bytes()[..rest.len()]);
    }
    Some(())
}
