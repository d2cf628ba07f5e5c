//! Short messages, sent without being kept: most of what small messages cost is what is remembered of them in case that they do
//! not go out at once.
//!
//! A Send or Write that fits into one segment, and finds nothing before it in progress, is copied from where it is to its FPDU, and
//! is done. All others go the general way, and so does whatever is not in order: what becomes of it is decided there.

use std::sync::atomic::{AtomicU64, Ordering};

use weft_ddp::{Header, Stag};
use weft_rdmap::{Kind, Message, Token};

use super::{Pending, QueuePair};
use crate::completion::split;
use crate::entry::{FLAG_INLINE, FLAG_SIGNALED, FLAG_SOLICITED, HEADER_WORDS, OP_SEND, OP_WRITE, load_sge};
use crate::ring::WORD;
use crate::{CompletionOpcode, MemoryTable, QpState, Status};

/// A message of [`Short::MAX_LEN`] octets at most whose payload has been copied.
#[derive(Clone, Copy, Debug)]
pub struct Short {
    /// The message.
    pub message: Message,
    wr_id: u64,
    signaled: bool,
}

impl Short {
    /// The most octets of a short message. It gets its CRC behind the copy, which for a long one is slower than along with it.
    pub const MAX_LEN: usize = 1024;
    /// The octets that its ULPDU may take.
    pub const MAX_ULPDU: usize = Header::UNTAGGED_LEN + Self::MAX_LEN;
}

impl QueuePair {
    /// Puts the payload of the next request into `ulpdu`, behind the place of its header, if it is a short message that fits there and
    /// that nothing holds back.
    ///
    /// The request is not started by this, but by [`Self::finish_short`].
    #[inline]
    pub fn put_short(&self, memory: &MemoryTable, ulpdu: &mut [u8]) -> Option<Short> {
        let end = self.drain_until.unwrap_or_else(|| self.sends_posted());
        let is_next = !self.active && self.pending.is_empty() && self.started < end;
        if !is_next || self.queues.state() != QpState::Rts {
            return None;
        }
        let (head, body) = self.queues.send.entry(self.started).split_first_chunk::<HEADER_WORDS>()?;
        // Whoever releases a held entry writes this word last: what was written before is to be seen behind it.
        let control = head[1].load(Ordering::Acquire);
        let kind = kind_of(control, head)?;
        let [_, flags, ..] = control.to_le_bytes();
        let signaled = flags & FLAG_SIGNALED != 0 || self.signal_all;
        if signaled && self.queues.as_infiniband() && matches!(kind, Kind::Write { .. }) {
            // It has to be confirmed.
            return None;
        }
        let (sges, inline_len) = split(control);
        let header_len =
            if matches!(kind, Kind::Send { .. }) { Header::UNTAGGED_LEN } else { Header::TAGGED_LEN };
        let place = ulpdu.get_mut(header_len..)?;
        let len = if flags & FLAG_INLINE != 0 {
            put_inline(body, inline_len, self.queues.send.max_inline(), place)?;
            inline_len
        } else if sges >> 16 == 1 && self.queues.send.max_sge() > 0 {
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
        Some(Short { message, wr_id: head[0].load(Ordering::Relaxed), signaled })
    }

    /// The short message that was put last is in TCP.
    #[inline]
    pub fn finish_short(&mut self, short: &Short) {
        let opcode = match short.message.kind {
            Kind::Send { .. } => CompletionOpcode::Send,
            _ => CompletionOpcode::Write,
        };
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

/// The message of an entry with this control word, if it is a Send or Write that is in order and has no fence.
#[inline]
fn kind_of(control: u64, head: &[AtomicU64; HEADER_WORDS]) -> Option<Kind> {
    let [opcode, flags, ..] = control.to_le_bytes();
    if flags & !(FLAG_SIGNALED | FLAG_SOLICITED | FLAG_INLINE) != 0 {
        return None;
    }
    let solicited = flags & FLAG_SOLICITED != 0;
    match opcode {
        OP_SEND => Some(Kind::Send { solicited, invalidate: None }),
        OP_WRITE if !solicited => {
            let (stag, _) = split(head[3].load(Ordering::Relaxed));
            Some(Kind::Write { stag: Stag(stag), to: head[2].load(Ordering::Relaxed) })
        }
        _ => None,
    }
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
