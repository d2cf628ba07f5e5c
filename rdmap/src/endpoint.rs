//! One end of an RDMAP stream.

use weft_ddp::{Cutter, Header, Queue, Segment, Sender};

use crate::{
    Asked, AtomicRequest, Busy, Error, Immediate, Kind, Message, Opcode, OutstandingRequest, PendingRequest,
    ReadRequest, Terminate, Token, outstanding::Fifo,
};

/// One end of an RDMAP stream: the message in progress, the Reads and Atomics in both directions, and the Terminate
/// that may end the stream.
///
/// `O` is the storage for our own Reads and Atomics that wait for an answer. Its length is the ORD: at most so many
/// are outstanding. `I` is the storage for the peer's that we have to answer, and its length is the IRD. Any slice
/// will do: an array, a vector, a borrowed one, also an empty one.
///
/// # Calling order
///
/// * Arrived segments go through [`accept`](Self::accept), which tells the place of the payload.
/// * While there is room to send, the caller starts the next message by [`start`](Self::start) if
///   [`readiness`](Self::readiness) is idle. Then it builds the segment that [`poll_segment`](Self::poll_segment)
///   returns.
/// * On any error the caller calls [`terminate`](Self::terminate). Then it sends until
///   [`is_terminate_sent`](Self::is_terminate_sent), and passes in nothing more (requirement 5041-7.1-19).
#[derive(Debug)]
pub struct Endpoint<O, I> {
    pub(crate) sender: Sender,
    pub(crate) own: Own,
    pub(crate) outstanding: Fifo<OutstandingRequest, O>,
    pub(crate) pending: Fifo<PendingRequest, I>,
    /// The Read Response to the front of `pending`, after its first segment was asked for.
    pub(crate) answer: Option<Cutter>,
    /// The request whose response segment was handed out last, in its state before that segment.
    pub(crate) answered: Option<PendingRequest>,
    pub(crate) turn: Turn,
    pub(crate) ending: Ending,
    pub(crate) peer_terminated: bool,
    /// True if the end knows the opcodes of RFC 7306.
    pub(crate) extensions: bool,
}

impl<O, I> Endpoint<O, I>
where
    O: AsRef<[OutstandingRequest]> + AsMut<[OutstandingRequest]>,
    I: AsRef<[PendingRequest]> + AsMut<[PendingRequest]>,
{
    /// An end of a fresh stream, with room for as many Reads and Atomics in each direction as the storages have
    /// entries.
    pub fn new(ord_storage: O, ird_storage: I) -> Self {
        Self {
            sender: Sender::new(),
            own: Own::Idle,
            outstanding: Fifo::new(ord_storage),
            pending: Fifo::new(ird_storage),
            answer: None,
            answered: None,
            turn: Turn { side: Side::Answer, streak: 0 },
            ending: Ending::Open,
            peer_terminated: false,
            extensions: true,
        }
    }

    /// An end that does not know the opcodes of RFC 7306, like an older RNIC. Arriving messages with these opcodes
    /// are unexpected (section 1.1 there).
    #[must_use]
    pub fn without_extensions(self) -> Self {
        Self { extensions: false, ..self }
    }

    /// Takes the next message to send. Messages go out one after the other, in the order started.
    pub fn start(&mut self, message: Message) -> Result<(), Busy> {
        if !self.readiness().idle {
            return Err(Busy);
        }
        if self.turn.streak == 0 && self.pending.is_empty() {
            // The first message of all may be the RTR message, and no other message goes before that (6581-5-1).
            self.turn.side = Side::Own;
        }
        let Message { token, len, kind } = message;
        let control = kind.opcode().control();
        self.own = match kind {
            Kind::Send { invalidate, .. } => {
                let word = invalidate.map_or(0, |stag| stag.0);
                let cutter = self.sender.untagged(control, word, Queue::Send, len);
                Own::Payload { token, cutter, behind: None }
            }
            Kind::Write { stag, to } => {
                let cutter = self.sender.tagged(control, stag, to, len);
                Own::Payload { token, cutter, behind: None }
            }
            Kind::WriteImmediate { stag, to, solicited, data } => {
                let cutter = self.sender.tagged(control, stag, to, len);
                let control = Kind::Immediate { solicited, data }.opcode().control();
                Own::Payload { token, cutter, behind: Some(Trailer { control, data }) }
            }
            Kind::Immediate { data, .. } => Own::Immediate { token, immediate: Trailer { control, data } },
            Kind::Read { .. } | Kind::Atomic { .. } if self.outstanding.is_full() => return Err(Busy),
            Kind::Read { sink_stag, sink_to, source_stag, source_to } => {
                let request = ReadRequest { sink_stag, sink_to, size: len, source_stag, source_to };
                Own::Request { token, asked: Asked::Read(request) }
            }
            Kind::Atomic { op, stag, to } => {
                // The peer returns the identifier. It serves only to check that the answer is the right one.
                let [_, _, _, _, id @ ..] = token.0.to_be_bytes();
                let request = AtomicRequest { op, id: u32::from_be_bytes(id), stag, to };
                Own::Request { token, asked: Asked::Atomic(request) }
            }
        };
        Ok(())
    }

    /// Ends the stream: the Terminate is sent before all other messages, and nothing after it. Only the first call
    /// counts, since the first error is the one to report (requirement 5040-7.1-5).
    pub fn terminate(&mut self, terminate: Terminate) {
        if matches!(self.ending, Ending::Open) {
            self.ending = Ending::Asked(terminate);
        }
    }

    /// Ends the stream because the memory of the last response segment was deregistered after the segment was handed
    /// out. The caller must not send that segment. The Terminate returns the header of the request. That of a Read
    /// Request is moved on by the octets that were sent before.
    pub fn fail_response(&mut self, error: Error) {
        let terminate = match &self.answered {
            Some(request) => Terminate::for_pending(&error, request),
            None => Terminate::from_error(&error, None),
        };
        self.terminate(terminate);
    }

    /// Forgets the own message in progress; no more of it is sent. For a stream whose owner takes the memory back: no
    /// other message may follow a part of one.
    pub const fn cancel_message(&mut self) {
        self.own = Own::Idle;
    }

    /// Forgets the peer's Reads and Atomics. For a stream that is ending: the peer would take a response that stops
    /// in the middle for an error.
    pub fn cancel_responses(&mut self) {
        self.pending.clear();
        self.answer = None;
    }

    /// Returns the message of ours that the peer's Terminate complains about, as far as its headers tell. That is an
    /// unanswered Read or Atomic, or the Send or Write in progress. A message that was sent to its end is already
    /// completed, so the result is `None`.
    pub fn culprit(&self, terminate: &Terminate) -> Option<Token> {
        let Segment { header, .. } = Segment::parse(&terminate.ddp_header).ok()?;
        if Opcode::of(&header).is_ok_and(Opcode::is_request) {
            let Header::Untagged { msn: wanted, .. } = header else { return None };
            // Linux siw returns another number than the request's, so the second guess is the oldest request.
            let named = self.outstanding.iter().find(|request| request.msn == wanted);
            return named.or_else(|| self.outstanding.front()).map(|request| request.token);
        }
        let Own::Payload { token, cutter, .. } = &self.own else { return None };
        let is_current = match (cutter.first(), &header) {
            // The offset tells the message from an earlier one to the same buffer, which is done.
            (Header::Tagged { stag: ours, to: first, .. }, Header::Tagged { stag, to, .. }) => {
                ours == stag && to.wrapping_sub(*first) < u64::from(cutter.offset())
            }
            (Header::Untagged { queue: q, msn: m, .. }, Header::Untagged { queue, msn, .. }) => {
                (q, m) == (queue, msn)
            }
            _ => false,
        };
        is_current.then_some(*token)
    }

    /// Returns the oldest Read or Atomic of ours that is not answered in full. The next answer is for it.
    pub fn oldest_request(&self) -> Option<Token> {
        self.outstanding.front().map(|request| request.token)
    }

    /// Returns what may be started now.
    #[inline]
    pub fn readiness(&self) -> Readiness {
        let unsent = matches!(self.own, Own::Request { .. });
        let requests_outstanding = self.outstanding.len() + usize::from(unsent);
        Readiness {
            idle: matches!((&self.own, &self.ending), (Own::Idle, Ending::Open)),
            requests_outstanding,
            requests_free: self.outstanding.capacity().saturating_sub(requests_outstanding),
            requests_to_answer: self.pending.len(),
        }
    }

    /// Returns true if [`poll_segment`](Self::poll_segment) has a segment to send, given enough room.
    #[inline]
    pub fn has_output(&self) -> bool {
        match self.ending {
            Ending::Open => !matches!(self.own, Own::Idle) || !self.pending.is_empty(),
            Ending::Asked(_) => true,
            Ending::Sent => false,
        }
    }

    /// Returns true from the first call of [`terminate`](Self::terminate) on.
    pub const fn is_terminating(&self) -> bool {
        !matches!(self.ending, Ending::Open)
    }

    /// Returns true after the Terminate was handed out to be sent.
    pub const fn is_terminate_sent(&self) -> bool {
        matches!(self.ending, Ending::Sent)
    }
}

/// The messages that an [`Endpoint`] can take now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Readiness {
    /// True if no message is in progress, so that one may start.
    pub idle: bool,
    /// Reads and Atomics of ours that were started and are not answered in full.
    pub requests_outstanding: usize,
    /// Reads and Atomics that may still be started.
    pub requests_free: usize,
    /// Reads and Atomics of the peer that are not answered in full.
    pub requests_to_answer: usize,
}

/// Our own message in progress.
#[derive(Debug)]
pub(crate) enum Own {
    Idle,
    /// A Send or Write, with the Immediate Data behind it, if there is any.
    Payload {
        token: Token,
        cutter: Cutter,
        behind: Option<Trailer>,
    },
    Request {
        token: Token,
        asked: Asked,
    },
    Immediate {
        token: Token,
        immediate: Trailer,
    },
}

/// Immediate Data to send, alone or behind a Write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trailer {
    pub(crate) control: u8,
    pub(crate) data: Immediate,
}

impl Own {
    pub(crate) const fn is_tagged(&self) -> bool {
        matches!(self, Self::Payload { cutter, .. } if cutter.is_tagged())
    }

    /// Returns true if a Write was sent and its Immediate Data was not.
    pub(crate) const fn is_between(&self) -> bool {
        matches!(self, Self::Payload { cutter, .. } if cutter.is_done())
    }

    pub(crate) const fn is_begun(&self) -> bool {
        matches!(self, Self::Payload { cutter, .. } if !cutter.is_untouched())
    }
}

/// The progress of the stream's end.
#[derive(Debug)]
pub(crate) enum Ending {
    Open,
    Asked(Terminate),
    Sent,
}

/// The side whose segment goes out: our own message's, or an answer's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Own,
    Answer,
}

/// The side that sent last, and the number of its segments in a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    pub(crate) side: Side,
    pub(crate) streak: u32,
}

impl Turn {
    /// Returns the side that sends next if both wait.
    pub(crate) const fn next(&self) -> Side {
        match self.side {
            side if self.streak < BURST => side,
            Side::Own => Side::Answer,
            Side::Answer => Side::Own,
        }
    }

    #[inline]
    pub(crate) fn count(&mut self, side: Side) {
        let streak = if side == self.side { self.streak.saturating_add(1) } else { 1 };
        *self = Self { side, streak };
    }
}

/// The most segments that one side may send in a row while the other waits.
const BURST: u32 = 4;
