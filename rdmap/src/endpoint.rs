//! One end of an RDMAP stream.

use weft_ddp::{Cutter, Header, Queue, Segment, Sender};

use crate::{
    Asked, AtomicRequest, Busy, Error, Immediate, Kind, Message, Opcode, OutstandingRequest, PendingRequest,
    ReadRequest, Terminate, Token, outstanding::Fifo,
};

/// One end of an RDMAP stream: the message in progress, the Reads and Atomics in both directions, and the Terminate
/// that may end it all.
///
/// `O` is the storage for Reads and Atomics of ours that wait for an answer, and its length the ORD: at most so many are
/// sent ahead. `I` is the storage for the peer's that we have to answer, its length the IRD. Any slice will
/// do: an array, a vector, a borrowed one, also an empty one.
///
/// # Calling order
///
/// * Arrived segments go through [`accept`](Self::accept), which says where the payload belongs.
/// * While there is room to send: [`start`](Self::start) the next message if
///   [`readiness`](Self::readiness) is idle, then build what [`poll_segment`](Self::poll_segment) returns.
/// * On any error: [`terminate`](Self::terminate), then send until
///   [`is_terminate_sent`](Self::is_terminate_sent), and pass in nothing more (requirement 5041-7.1-19).
#[derive(Debug)]
pub struct Endpoint<O, I> {
    pub(crate) sender: Sender,
    pub(crate) own: Own,
    pub(crate) outstanding: Fifo<OutstandingRequest, O>,
    pub(crate) pending: Fifo<PendingRequest, I>,
    /// The Read Response to the front of `pending`, once its first segment was asked for.
    pub(crate) answer: Option<Cutter>,
    /// The request whose response segment was handed out last, as it stood before that segment.
    pub(crate) answered: Option<PendingRequest>,
    pub(crate) turn: Turn,
    pub(crate) ending: Ending,
    pub(crate) peer_terminated: bool,
    /// The opcodes of RFC 7306 are known.
    pub(crate) extensions: bool,
}

impl<O, I> Endpoint<O, I>
where
    O: AsRef<[OutstandingRequest]> + AsMut<[OutstandingRequest]>,
    I: AsRef<[PendingRequest]> + AsMut<[PendingRequest]>,
{
    /// An end of a fresh stream, with room for as many Reads and Atomics in each direction as the storages have entries.
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

    /// An end that does not know the opcodes of RFC 7306, as an older RNIC: they are unexpected when they arrive (section
    /// 1.1 there).
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
            // The first message of all is the RTR message where there is one, and nothing goes before it (6581-5-1).
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
                // The peer gives the identifier back; that it has got the right one is all it is for.
                let [_, _, _, _, id @ ..] = token.0.to_be_bytes();
                let request = AtomicRequest { op, id: u32::from_be_bytes(id), stag, to };
                Own::Request { token, asked: Asked::Atomic(request) }
            }
        };
        Ok(())
    }

    /// Ends the stream: the Terminate is sent before anything else, and nothing after it. Only the first call
    /// counts, since the first error is the one to report (requirement 5040-7.1-5).
    pub fn terminate(&mut self, terminate: Terminate) {
        if matches!(self.ending, Ending::Open) {
            self.ending = Ending::Asked(terminate);
        }
    }

    /// Ends the stream because the memory of the response segment handed out last cannot be reached after all: it
    /// was deregistered meanwhile. That segment must not be sent. The Terminate returns the header of the request; a
    /// Read Request moved on by what was sent before.
    pub fn fail_response(&mut self, error: Error) {
        let terminate = match &self.answered {
            Some(request) => Terminate::for_pending(&error, request),
            None => Terminate::from_error(&error, None),
        };
        self.terminate(terminate);
    }

    /// Forgets the own message in progress, of which nothing more is sent. For a stream whose owner takes the memory back:
    /// no other message may follow a part of one.
    pub const fn cancel_message(&mut self) {
        self.own = Own::Idle;
    }

    /// Forgets the peer's Reads and Atomics. For a stream that is going down: the peer would take a response that stops
    /// in the middle for an error.
    pub fn cancel_responses(&mut self) {
        self.pending.clear();
        self.answer = None;
    }

    /// The message of ours that the peer's Terminate complains about, as far as its headers tell: an unanswered Read or
    /// Atomic, or the Send or Write that is being sent. One that was sent to its end is its user's no more, and nobody's token.
    pub fn culprit(&self, terminate: &Terminate) -> Option<Token> {
        let Segment { header, .. } = Segment::parse(&terminate.ddp_header).ok()?;
        if Opcode::of(&header).is_ok_and(Opcode::is_request) {
            let Header::Untagged { msn: wanted, .. } = header else { return None };
            // Linux siw returns another number than the request's, so that the oldest one is the second guess.
            let named = self.outstanding.iter().find(|request| request.msn == wanted);
            return named.or_else(|| self.outstanding.front()).map(|request| request.token);
        }
        let Own::Payload { token, cutter, .. } = &self.own else { return None };
        let is_current = match (cutter.first(), &header) {
            // An earlier message to the same buffer is told apart by its offset: it is done, and this one is not to blame.
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

    /// The oldest Read or Atomic of ours that was not answered in full: the one that an answer is for.
    pub fn oldest_request(&self) -> Option<Token> {
        self.outstanding.front().map(|request| request.token)
    }

    /// What may be started now.
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

    /// True if [`poll_segment`](Self::poll_segment) has something to send, given enough room.
    #[inline]
    pub fn has_output(&self) -> bool {
        match self.ending {
            Ending::Open => !matches!(self.own, Own::Idle) || !self.pending.is_empty(),
            Ending::Asked(_) => true,
            Ending::Sent => false,
        }
    }

    /// True from the first call of [`terminate`](Self::terminate) on.
    pub const fn is_terminating(&self) -> bool {
        !matches!(self.ending, Ending::Open)
    }

    /// True once the Terminate was handed out to be sent.
    pub const fn is_terminate_sent(&self) -> bool {
        matches!(self.ending, Ending::Sent)
    }
}

/// What an [`Endpoint`] can take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Readiness {
    /// True if no message is in progress, so that one may start.
    pub idle: bool,
    /// Reads and Atomics of ours that were started and not answered in full.
    pub requests_outstanding: usize,
    /// Reads and Atomics that may still be started.
    pub requests_free: usize,
    /// Reads and Atomics of the peer not answered in full.
    pub requests_to_answer: usize,
}

/// Our own message in progress.
#[derive(Debug)]
pub(crate) enum Own {
    Idle,
    /// A Send or Write, and what goes out behind it as a part of the same.
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

    /// Whether a Write is sent, and its Immediate Data is not.
    pub(crate) const fn is_between(&self) -> bool {
        matches!(self, Self::Payload { cutter, .. } if cutter.is_done())
    }

    pub(crate) const fn is_begun(&self) -> bool {
        matches!(self, Self::Payload { cutter, .. } if !cutter.is_untouched())
    }
}

/// How far the end of the stream has come.
#[derive(Debug)]
pub(crate) enum Ending {
    Open,
    Asked(Terminate),
    Sent,
}

/// Whose segment: our own message's, or an answer's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Own,
    Answer,
}

/// Who sent last, and how many segments in a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    pub(crate) side: Side,
    pub(crate) streak: u32,
}

impl Turn {
    /// The side to send next if both wait.
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

/// Segments that one side may send in a row while the other waits.
const BURST: u32 = 4;
