//! An RDMAP stream for a ULP that needs no verbs (RFC 5040, RFC 7306).

use core::mem::discriminant;

use weft_ddp::{Header, Stag};
use weft_mpa::{NOT_NEGOTIATED, Negotiated, STAGING_LEN};
use weft_netif::Llp;
use weft_rdmap::{AtomicOp, Error, Immediate, Kind, Terminate};
use weft_verbs::MemoryTable;

use super::ddp::grow;
use super::requests::{Request, Requests, Side};
use super::{Agreement, Association, PostError, RdmapEvent, Source};
use crate::failure::{Cause, Failure, status_of};
use crate::stream::ending::{Peer, Stage, Step};
use crate::stream::{Stream, pump};

/// One end of an RDMAP stream on DDP, MPA and TCP.
///
/// The ULP posts buffers for the peer's messages, registers memory that the peer may read and write, and requests the
/// operations of RFC 5040 and RFC 7306. [`poll`](Self::poll) does the work and returns the events. Requests complete
/// in the order of the calls. A completed Send or Write is in TCP, so the ULP may change its octets (RFC 5040 section
/// 5.5).
///
/// An error ends the stream: the peer gets a Terminate, then TCP is closed. An ending stream waits for the peer's FIN
/// without a deadline, because it has no clock. [`abort`](Self::abort) ends it at once.
#[derive(Debug)]
pub struct RdmapStream {
    stage: Stage,
    requests: Requests,
    association: Association,
    /// Whether sent segments carry Markers. MULPDU depends on it.
    sends_markers: bool,
    /// The number of Reads and Atomics that may be outstanding.
    ord: u16,
    /// Whether the ULP has asked for a graceful end.
    is_closing: bool,
    /// Whether transmit went first in the last call of `poll`.
    transmits: bool,
    scratch: Vec<u8>,
}

impl RdmapStream {
    /// Makes a stream on the LLP whose startup returned `agreement`. IRD and ORD are those of the agreement. If startup
    /// has left them to the ULPs, both are `depth`.
    #[must_use]
    pub fn new(agreement: &Agreement, association: Association, depth: u16) -> Self {
        let settle = |agreed| if agreed == NOT_NEGOTIATED { depth } else { agreed };
        let (ird, ord) = (settle(agreement.negotiated.ird), settle(agreement.negotiated.ord));
        let negotiated = Negotiated { ird, ord, ..agreement.negotiated };
        let mut stream = Stream::new(&negotiated, agreement.initiator, true);
        if let Some(staging) = stream.segments_mut().staging_mut() {
            *staging = vec![0; STAGING_LEN].into_boxed_slice();
        }
        Self {
            stage: Stage::Operating(Box::new(stream)),
            requests: Requests::default(),
            association,
            sends_markers: negotiated.send_markers,
            ord,
            is_closing: false,
            transmits: false,
            scratch: Vec::new(),
        }
    }

    /// Posts a buffer for the next Send or Immediate Data of the peer. A longer Send is the peer's error. The event
    /// with the buffer has `id`, too.
    ///
    /// # Errors
    /// [`PostError::Closed`].
    pub fn post_buffer(&mut self, id: u64, buffer: Vec<u8>) -> Result<(), PostError> {
        if self.stage.operating().is_none() {
            return Err(PostError::Closed);
        }
        self.requests.post_buffer(id, buffer);
        Ok(())
    }

    /// Sends a message to the peer's next buffer. `solicited` requests an event there. `invalidate` is an STag that the
    /// peer shall invalidate when the message has come.
    ///
    /// # Errors
    /// [`PostError::TooLong`] or [`PostError::Closed`].
    pub fn send(
        &mut self,
        id: u64,
        source: impl Into<Source>,
        solicited: bool,
        invalidate: Option<Stag>,
    ) -> Result<(), PostError> {
        let source = source.into();
        let len = source.message_len()?;
        self.post(Request { id, kind: Kind::Send { solicited, invalidate }, len, source })
    }

    /// Writes to offset `to` of the peer's memory `stag`.
    ///
    /// # Errors
    /// [`PostError::TooLong`] or [`PostError::Closed`].
    pub fn write(
        &mut self,
        id: u64,
        (stag, to): (Stag, u64),
        source: impl Into<Source>,
    ) -> Result<(), PostError> {
        let source = source.into();
        let len = source.message_len()?;
        self.post(Request { id, kind: Kind::Write { stag, to }, len, source })
    }

    /// Reads `len` octets at an offset of the peer's memory (`source`) into registered memory of this end (`sink`).
    ///
    /// # Errors
    /// [`PostError::NoReads`] or [`PostError::Closed`].
    pub fn read(
        &mut self,
        id: u64,
        sink: (Stag, u64),
        source: (Stag, u64),
        len: u32,
    ) -> Result<(), PostError> {
        let ((sink_stag, sink_to), (source_stag, source_to)) = (sink, source);
        let kind = Kind::Read { sink_stag, sink_to, source_stag, source_to };
        self.fetch(Request { id, kind, len, source: Source::from(&[]) })
    }

    /// Changes 64 bits of the peer's memory. The completion has the original value (RFC 7306 section 5).
    ///
    /// # Errors
    /// [`PostError::NoReads`] or [`PostError::Closed`].
    pub fn atomic(&mut self, id: u64, op: AtomicOp, (stag, to): (Stag, u64)) -> Result<(), PostError> {
        self.fetch(Request { id, kind: Kind::Atomic { op, stag, to }, len: 0, source: Source::from(&[]) })
    }

    /// Sends 8 octets to the peer's ULP. They consume a posted buffer there (RFC 7306 section 6).
    ///
    /// # Errors
    /// [`PostError::Closed`].
    pub fn immediate(&mut self, id: u64, data: [u8; 8], solicited: bool) -> Result<(), PostError> {
        let kind = Kind::Immediate { solicited, data: Immediate(data) };
        self.post(Request { id, kind, len: 0, source: Source::from(&[]) })
    }

    /// Closes the stream with FIN after all requests of both sides are done. The stream still receives messages of the
    /// peer.
    pub const fn shutdown(&mut self) {
        self.is_closing = true;
    }

    /// Ends the stream by a Terminate with `error` (RFC 5040 section 6.2.2). All requests are flushed.
    pub fn terminate(&mut self, error: Error) {
        self.stage.terminate(Terminate::from_error(&error, None));
    }

    /// Ends the stream at once, without a Terminate: the peer's end sees its connection lost.
    pub fn abort(&mut self, llp: &mut Llp<'_>) {
        llp.abort();
        self.stage.shut();
    }

    /// Receives and sends as much as possible, up to one event. Returns `None` if there is no more work until the LLP
    /// has news or the ULP makes another call.
    pub fn poll(&mut self, llp: &mut Llp<'_>, memory: &MemoryTable) -> Option<RdmapEvent> {
        loop {
            let is_operating = self.stage.operating().is_some();
            if let Some(event) = self.requests.next_event(!is_operating) {
                return Some(event);
            }
            let before = discriminant(&self.stage);
            let event = if is_operating { self.operate(llp, memory) } else { self.end(llp, memory) };
            if event.is_some() || discriminant(&self.stage) == before {
                return event;
            }
        }
    }

    /// Returns the longest Send that fits into one segment now, in octets. It depends on TCP's segment size and on
    /// Markers.
    #[must_use]
    pub fn max_send(&self, llp: &Llp<'_>) -> usize {
        pump::mulpdu(llp, self.sends_markers) - Header::UNTAGGED_LEN
    }

    /// Returns the longest Write, or part of a Read Response, that fits into one segment now, in octets.
    #[must_use]
    pub fn max_write(&self, llp: &Llp<'_>) -> usize {
        pump::mulpdu(llp, self.sends_markers) - Header::TAGGED_LEN
    }

    fn post(&mut self, request: Request) -> Result<(), PostError> {
        if self.stage.operating().is_none() || self.is_closing {
            return Err(PostError::Closed);
        }
        self.requests.post(request);
        Ok(())
    }

    fn fetch(&mut self, request: Request) -> Result<(), PostError> {
        if self.ord == 0 { Err(PostError::NoReads) } else { self.post(request) }
    }

    fn operate(&mut self, llp: &mut Llp<'_>, memory: &MemoryTable) -> Option<RdmapEvent> {
        // The directions take turns to go first, so that a peer that always sends cannot stop this end from sending.
        self.transmits = !self.transmits;
        for transmits in [self.transmits, !self.transmits] {
            let moved =
                if transmits { self.transmit(llp, memory).map(|()| None) } else { self.receive(llp, memory) };
            match moved {
                Ok(None) => {}
                Ok(Some(terminate)) => return Some(self.handle_terminate(llp, terminate)),
                Err(failure) => return Some(self.fail(failure)),
            }
            if let Some(event) = self.requests.next_event(false) {
                return Some(event);
            }
        }
        let owes = self.stage.operating().is_some_and(Stream::owes);
        if self.is_closing && self.requests.is_done() && !owes {
            llp.shutdown();
        }
        self.watch(llp)
    }

    /// Ends the stream after Full Operation: discards input, sends the stream's pending messages, then FIN, and waits
    /// for the peer's FIN.
    fn end(&mut self, llp: &mut Llp<'_>, memory: &MemoryTable) -> Option<RdmapEvent> {
        pump::discard(llp);
        // A second failure changes nothing: the stream is already ending, and FIN follows.
        if self.transmit(llp, memory).is_err() {
            self.shut(llp);
        }
        self.watch(llp)
    }

    /// Handles a change of TCP's state or of the stream's.
    fn watch(&mut self, llp: &mut Llp<'_>) -> Option<RdmapEvent> {
        match self.stage.watch(Peer::of(llp))? {
            Step::PeerFinished { graceful: true } => return Some(RdmapEvent::PeerClosed),
            Step::PeerFinished { graceful: false } | Step::Lost => {
                return Some(RdmapEvent::Failed(Cause::Mpa(weft_mpa::Error::Closed)));
            }
            Step::Over => return Some(RdmapEvent::Closed),
            Step::Shut => self.shut(llp),
        }
        None
    }

    fn shut(&mut self, llp: &mut Llp<'_>) {
        llp.shutdown();
        self.stage.shut();
    }

    /// Handles the peer's Terminate: the request that the peer refused fails, and all others are flushed.
    fn handle_terminate(&mut self, llp: &mut Llp<'_>, terminate: Terminate) -> RdmapEvent {
        if let Some(token) = self.stage.operating().and_then(|stream| stream.culprit(&terminate)) {
            self.requests.fail(token, status_of(&terminate));
        }
        self.shut(llp);
        RdmapEvent::Terminated(terminate)
    }

    fn fail(&mut self, failure: Failure) -> RdmapEvent {
        self.stage.terminate(failure.terminate);
        RdmapEvent::Failed(failure.cause)
    }

    fn receive(&mut self, llp: &mut Llp<'_>, memory: &MemoryTable) -> Result<Option<Terminate>, Failure> {
        let Stage::Operating(stream) = &mut self.stage else { return Ok(None) };
        let mut user = Side { requests: &mut self.requests, reach: self.association.reach(memory) };
        pump::receive(llp, |octets| stream.receive(octets, &mut user))
    }

    fn transmit(&mut self, llp: &mut Llp<'_>, memory: &MemoryTable) -> Result<(), Failure> {
        let mulpdu = pump::mulpdu(llp, self.sends_markers);
        let (Stage::Operating(stream) | Stage::Ending(stream)) = &mut self.stage else { return Ok(()) };
        let mut user = Side { requests: &mut self.requests, reach: self.association.reach(memory) };
        // FPDUs of one length differ by at most one Marker, so this is enough room for each of them.
        grow(&mut self.scratch, stream.fpdu_room(mulpdu) + MARKER_LEN);
        pump::transmit_all(stream, llp, &mut self.scratch, mulpdu, &mut user)
    }
}

/// The difference in octets between the longest and the shortest FPDU of one ULPDU length: one Marker.
const MARKER_LEN: usize = 4;
