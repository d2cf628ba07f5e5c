//! The spine: the one place where MPA, DDP, RDMAP and the queue pair meet.
//!
//! ```text
//! receive, pushed by arrived octets          transmit, pulled by free TCP space
//!   ulpdu   = mpa.next(octets)                 message = qp.next_message()
//!   segment = ddp.accept(ulpdu)                segment = rdmap.poll_segment(max_ulpdu)
//!   inbound = rdmap.accept(segment)            ulpdu   = mpa.ulpdu_mut(out)
//!   qp.apply(inbound, memory)                  header.emit(ulpdu); qp.fill(body, memory, rest)
//!                                              mpa.seal(out)
//! ```

use weft_ddp::Stag;
use weft_mpa::{Crc32c, Deframer, Framer, Negotiated, RtrKind, STAGING_LEN, Start};
use weft_rdmap::{
    Body, Endpoint, Inbound, Kind, Message, OutstandingRequest, PendingRequest, SendEnd, Terminate, Token,
};
use weft_verbs::{Effect, MemoryTable, QueuePair, Refusal, Status};

use crate::counters::Counters;
use crate::failure::{Cause, Failure};

/// One direction each of MPA, DDP and RDMAP, in Full Operation.
#[derive(Debug)]
pub(crate) struct Stream {
    framer: Framer,
    deframer: Deframer<Box<[u8]>>,
    ddp: weft_ddp::Receiver,
    rdmap: Endpoint<Box<[OutstandingRequest]>, Box<[PendingRequest]>>,
    /// A responder sends nothing before it has validated an FPDU of the initiator (RFC 5044 section 7.1.2).
    may_send: bool,
    /// The next message may be a zero-length Send that only says "ready to receive" (RFC 6581 section 9).
    send_rtr_expected: bool,
}

/// What a queue pair works with besides its stream.
#[derive(Debug)]
pub(crate) struct Surroundings<'a> {
    pub(crate) qp: &'a mut QueuePair,
    pub(crate) memory: &'a MemoryTable,
    pub(crate) counters: &'a mut Counters,
}

impl Stream {
    /// The stream that startup has agreed on. An initiator that owes an RTR message has it queued already.
    pub(crate) fn new(negotiated: &Negotiated, initiator: bool, extensions: bool) -> Self {
        let crc = negotiated.crc.then(Crc32c::default);
        let reads = vec![OutstandingRequest::default(); usize::from(negotiated.ord)].into_boxed_slice();
        let answers = vec![PendingRequest::default(); usize::from(negotiated.ird)].into_boxed_slice();
        let staging = vec![0; STAGING_LEN].into_boxed_slice();
        let rdmap = Endpoint::new(reads, answers);
        let mut stream = Self {
            framer: Framer::new(crc, negotiated.send_markers),
            deframer: Deframer::new(crc, negotiated.receive_markers, staging),
            ddp: weft_ddp::Receiver::new(if extensions { ALL_QUEUES } else { ALL_QUEUES - 1 }),
            rdmap: if extensions { rdmap } else { rdmap.without_extensions() },
            may_send: initiator,
            send_rtr_expected: matches!(negotiated.start, Start::ExpectRtr(kinds) if kinds.send),
        };
        if let Start::SendRtr(kind) = negotiated.start {
            let message = Message { token: RTR, len: 0, kind: rtr_kind(kind) };
            // A fresh endpoint is idle; only a Read without any ORD is refused, and negotiation does not choose that.
            stream.may_send = stream.rdmap.start(message).is_ok();
        }
        stream
    }

    /// Takes octets off `octets` as far as they are whole FPDUs, places and completes. A Terminate ends it.
    pub(crate) fn receive(
        &mut self,
        octets: &mut &[u8],
        around: &mut Surroundings<'_>,
    ) -> Result<Option<Terminate>, Failure> {
        while let Some(ulpdu) = self.deframer.next(octets).map_err(Failure::mpa)? {
            self.may_send = true;
            let segment = self.ddp.accept(ulpdu).map_err(|error| Failure::peer(error.into(), Some(ulpdu)))?;
            around.counters.received.count(segment.header.control());
            let inbound = self.rdmap.accept(segment).map_err(|error| Failure::peer(error, Some(ulpdu)))?;
            if core::mem::take(&mut self.send_rtr_expected) && is_send_rtr(&inbound) {
                continue;
            }
            let effect = around.qp.apply(inbound, around.memory);
            match effect.map_err(|refusal| Failure::refused(refusal, Some(ulpdu)))? {
                Effect::None => {}
                Effect::Terminated(terminate) => return Ok(Some(terminate)),
            }
        }
        Ok(None)
    }

    /// Builds the next FPDU in `out` and answers its length, 0 when there is nothing to send.
    ///
    /// `out` is to hold an FPDU of `mulpdu`; in a smaller one messages are cut into smaller segments.
    pub(crate) fn transmit(
        &mut self,
        out: &mut [u8],
        mulpdu: usize,
        around: &mut Surroundings<'_>,
    ) -> Result<usize, Failure> {
        if !self.may_send {
            return Ok(0);
        }
        let next = around.qp.next_message(self.rdmap.readiness(), around.memory);
        if let Some(message) = next.map_err(|fault| Failure::refused(fault.into(), None))?
            && self.rdmap.start(message).is_err()
        {
            // The queue pair goes by the readiness, so that this is a fault of our own.
            return Err(Failure::local(Cause::Local(Status::General)));
        }
        let max_ulpdu = mulpdu.min(self.framer.room(out.len()));
        let Some(segment) = self.rdmap.poll_segment(max_ulpdu) else { return Ok(0) };
        let len = segment.ulpdu_len();
        let ulpdu = self.framer.ulpdu_mut(out, len);
        segment.header.emit(ulpdu);
        let filled = around.qp.fill(&segment.body, around.memory, &mut ulpdu[segment.header.len()..]);
        filled.map_err(|refusal| self.unsendable(refusal, &segment.body))?;
        let octets = self.framer.seal(out, len);
        around.counters.sent.count(segment.header.control());
        if let Some(token) = segment.finished {
            around.qp.finish(token);
        }
        Ok(octets)
    }

    /// Ends the stream: the Terminate is the last thing that [`Self::transmit`] builds. A responder that has not validated
    /// any FPDU builds none, since it may send nothing at all.
    pub(crate) fn terminate(&mut self, terminate: Terminate) {
        self.rdmap.terminate(terminate);
    }

    /// Which request of ours the peer's Terminate complains about.
    pub(crate) fn culprit(&self, terminate: &Terminate) -> Option<Token> {
        self.rdmap.culprit(terminate)
    }

    /// Whether a Terminate is the only thing that will still be sent.
    pub(crate) const fn is_terminating(&self) -> bool {
        self.rdmap.is_terminating()
    }

    /// Drops what is left of the message in progress: its request is flushed, and its memory the application's again.
    pub(crate) fn abandon_message(&mut self) {
        self.rdmap.cancel_message();
    }

    /// Drops what the peer asked for and has not got; no Atomic of it is done any more.
    pub(crate) fn abandon_answers(&mut self) {
        self.rdmap.cancel_responses();
    }

    /// The largest FPDU that a segment of `mulpdu` octets takes now.
    pub(crate) fn fpdu_len(&self, mulpdu: usize) -> usize {
        self.framer.fpdu_len(mulpdu)
    }

    /// Whether sent segments carry Markers, which MULPDU depends on.
    pub(crate) const fn sends_markers(&self) -> bool {
        self.framer.markers()
    }

    /// Whether the octets received so far end with a whole FPDU, so that a FIN is a graceful close.
    pub(crate) fn is_aligned(&self) -> bool {
        self.deframer.is_aligned()
    }

    /// Whether FIN has to wait: for a Terminate or, without one, for answers to the peer, which nobody sends behind a Terminate.
    pub(crate) fn owes(&self) -> bool {
        if self.rdmap.is_terminating() {
            self.may_send && !self.rdmap.is_terminate_sent()
        } else {
            self.rdmap.readiness().requests_to_answer > 0
        }
    }

    /// A segment could not be filled. When it answers a request of the peer, the peer is to blame, and gets its request back.
    fn unsendable(&mut self, refusal: Refusal, body: &Body) -> Failure {
        if let (Refusal::Peer(error), Body::ReadResponse { .. } | Body::AtomicResponse(_)) = (refusal, body) {
            self.rdmap.fail_response(error);
        }
        Failure::refused(refusal, None)
    }
}

const fn rtr_kind(kind: RtrKind) -> Kind {
    match kind {
        RtrKind::Send => Kind::Send { solicited: false, invalidate: None },
        RtrKind::Write => Kind::Write { stag: RTR_STAG, to: 0 },
        RtrKind::Read => Kind::Read { sink_stag: RTR_STAG, sink_to: 0, source_stag: RTR_STAG, source_to: 0 },
    }
}

const fn is_send_rtr(inbound: &Inbound<'_>) -> bool {
    matches!(inbound, Inbound::Send { payload: [], last: Some(SendEnd { invalidate: None, .. }), .. })
}

/// The RTR message is nobody's work request; no queue pair counts this far.
const RTR: Token = Token(u64::MAX);
/// Some adapters treat STag 0 specially even where no STag is checked.
const RTR_STAG: Stag = Stag(1);
/// Send, Read Request, Terminate and, with RFC 7306, Atomic Response.
const ALL_QUEUES: u32 = 4;
