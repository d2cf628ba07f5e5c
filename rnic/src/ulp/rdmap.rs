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
/// The ULP posts buffers for what the peer sends, registers memory that the peer may read and write, and asks for the
/// operations of RFC 5040 and RFC 7306. [`poll`](Self::poll) does the work and tells what has become of it. Requests
/// complete in the order of the calls; a completed Send or Write is in TCP, and its octets may be changed (RFC 5040
/// section 5.5).
///
/// An error ends the stream: the peer gets a Terminate, then TCP is closed. A stream that is ending waits for the
/// peer's FIN without a deadline, since it has no clock: [`abort`](Self::abort) ends it at once.
#[derive(Debug)]
pub struct RdmapStream {
    stage: Stage,
    requests: Requests,
    association: Association,
    /// Sent segments carry Markers, which MULPDU depends on.
    sends_markers: bool,
    /// Reads and Atomics that may be outstanding.
    ord: u16,
    /// The ULP has asked for a graceful end.
    is_closing: bool,
    /// Whose turn it is.
    transmits: bool,
    scratch: Vec<u8>,
}

impl RdmapStream {
    /// A stream on the LLP whose startup has led to `agreement`. IRD and ORD are those agreed on; where they are left
    /// to the ULPs, `depth` stands for each.
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

    /// Posts a buffer for the next Send or Immediate Data of the peer; a longer Send is the peer's error. `id` comes
    /// back with it.
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

    /// Sends to the peer's next buffer. `solicited` asks for an event there; `invalidate` is an STag of the peer that
    /// it shall take out of use when the message has come.
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

    /// Reads `len` octets at an offset of the peer's memory (`source`) into registered memory of ours (`sink`).
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

    /// Changes 64 bits of the peer's memory. What was there before comes with the completion (RFC 7306 section 5).
    ///
    /// # Errors
    /// [`PostError::NoReads`] or [`PostError::Closed`].
    pub fn atomic(&mut self, id: u64, op: AtomicOp, (stag, to): (Stag, u64)) -> Result<(), PostError> {
        self.fetch(Request { id, kind: Kind::Atomic { op, stag, to }, len: 0, source: Source::from(&[]) })
    }

    /// Hands 8 octets to the peer's ULP, which take a buffer of its (RFC 7306 section 6).
    ///
    /// # Errors
    /// [`PostError::Closed`].
    pub fn immediate(&mut self, id: u64, data: [u8; 8], solicited: bool) -> Result<(), PostError> {
        let kind = Kind::Immediate { solicited, data: Immediate(data) };
        self.post(Request { id, kind, len: 0, source: Source::from(&[]) })
    }

    /// Closes the stream when all that was asked for is done, on both sides: FIN follows, and what the peer sends is
    /// still taken.
    pub const fn shutdown(&mut self) {
        self.is_closing = true;
    }

    /// Ends the stream by a Terminate that says this (RFC 5040 section 6.2.2). Everything that was asked for is
    /// flushed.
    pub fn terminate(&mut self, error: Error) {
        self.stage.terminate(Terminate::from_error(&error, None));
    }

    /// Ends the stream at once, without a Terminate: the peer's end sees its connection lost.
    pub fn abort(&mut self, llp: &mut Llp<'_>) {
        llp.abort();
        self.stage.shut();
    }

    /// Receives and sends what can be, up to one event. `None` means that there is nothing more to do until the LLP
    /// has news or the ULP asks for something.
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

    /// The longest Send that fits one segment now, in octets: it depends on TCP's segment size and on Markers.
    #[must_use]
    pub fn max_send(&self, llp: &Llp<'_>) -> usize {
        pump::mulpdu(llp, self.sends_markers) - Header::UNTAGGED_LEN
    }

    /// The longest Write, or part of what is read, that fits one segment now, in octets.
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
        // Each direction goes first every other time, so that a peer that always sends does not keep us from it.
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

    /// What follows Full Operation: throws input away, sends what the stream still owes, then FIN, and waits for the
    /// peer's.
    fn end(&mut self, llp: &mut Llp<'_>, memory: &MemoryTable) -> Option<RdmapEvent> {
        pump::discard(llp);
        // A second failure changes nothing: the stream is at its end already, and FIN follows.
        if self.transmit(llp, memory).is_err() {
            self.shut(llp);
        }
        self.watch(llp)
    }

    /// Acts on what TCP and the stream have come to.
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

    /// The peer has ended the stream: the request that it refused fails, all others are flushed.
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
        // Markers take the most room where they come densest, so that this holds all of the FPDUs.
        grow(&mut self.scratch, stream.fpdu_room(mulpdu) + MARKER_LEN);
        pump::transmit_all(stream, llp, &mut self.scratch, mulpdu, &mut user)
    }
}

/// By how much the room for FPDUs of one length differs: by a Marker.
const MARKER_LEN: usize = 4;
