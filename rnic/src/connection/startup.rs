//! The phases of a connection before Full Operation: MPA Request and Reply.

use std::sync::Arc;

use bytes::Bytes;
use weft_mpa::{FrameKind, MAX_FRAME_LEN, Negotiated, Outcome, RtrKind, Start, StartupError, StartupFrame};
use weft_netif::LlpState;
use weft_verbs::{QpEvent, QueuePair};

use crate::connection::operate::transmit;
use crate::connection::state::{Connection, Hold, Interest, Phase, Turn, Verdict};
use crate::connection::terms::Terms;
use crate::events::connection::{CmEvent, ConnectFailure, ConnectRequest};
use crate::failure::Failure;
use crate::ids::{RequestId, StreamingId};
use crate::stream::Stream;
use crate::stream::ending::Stage;
use crate::stream::startup::{self, Agreement};

impl Connection {
    /// Sends the Request if TCP's handshake is over and there is room.
    pub(crate) fn handle_connected(&mut self, turn: &mut Turn<'_>) -> Verdict {
        match startup::is_open(&turn.llp) {
            Ok(true) => {}
            Ok(false) => return Verdict::Keep,
            Err(reason) if self.hold == Hold::Never => return self.fail_startup(turn, reason),
            Err(_) => return self.fail_startup(turn, ConnectFailure::Closed),
        }
        // Octets of streaming mode may still fill the send buffer; a fresh one holds any frame.
        if !turn.llp.has_room(MAX_FRAME_LEN) {
            return Verdict::Keep;
        }
        let Phase::Connecting(initiator, private_data) = &self.phase else { return Verdict::Keep };
        let (initiator, len) = (*initiator, private_data.len());
        // The private data was measured when the application called connect.
        match initiator.request(private_data).and_then(|request| send_frame(turn, &request)) {
            Ok(()) => turn.counters.sent.mpa_requests += 1,
            Err(error) => return self.fail_startup(turn, ConnectFailure::Protocol(error.into())),
        }
        self.trace.request_sent(len);
        self.phase = Phase::AwaitingReply(initiator);
        self.handle_reply(turn)
    }

    /// Waits for the Reply and acts on it.
    pub(crate) fn handle_reply(&mut self, turn: &mut Turn<'_>) -> Verdict {
        let Phase::AwaitingReply(initiator) = self.phase else { return Verdict::Keep };
        let reply = match startup::receive(&mut self.frame, &mut turn.llp, FrameKind::Reply) {
            Ok(None) => return Verdict::Keep,
            Ok(Some(reply)) => reply,
            Err(reason) => return self.fail_startup(turn, reason),
        };
        turn.counters.received.mpa_replies += 1;
        self.trace.reply_received(reply.reject);
        let private_data = Bytes::copy_from_slice(reply.private_data);
        let peer_depths = reply.enhanced.map(|enhanced| (enhanced.ird, enhanced.ord));
        let is_overrun = turn.qp.as_deref().is_some_and(QueuePair::is_overrun);
        let outcome = initiator.handle_reply(&reply).map(|outcome| match outcome {
            // What completes could not be told any more, and that has no code of its own (RFC 6581 section 9.3).
            Outcome::Established(negotiated) if is_overrun => {
                Outcome::Failed { negotiated, error: weft_mpa::Error::LocalCatastrophic }
            }
            outcome => outcome,
        });
        self.frame = Vec::new();
        match outcome {
            Ok(Outcome::Established(negotiated)) => {
                self.establish(turn, Agreement { negotiated, initiator: true, peer_depths, private_data });
                self.operate(turn)
            }
            Ok(Outcome::Rejected { .. }) => {
                turn.counters.mpa.rejects_received += 1;
                self.trace.rejected(true);
                self.report(turn, |qp_num| CmEvent::Rejected { qp_num, private_data, peer_depths });
                self.detach(turn);
                self.leave_mpa(turn)
            }
            Ok(Outcome::Failed { negotiated, error }) => {
                let reason = ConnectFailure::Protocol(error);
                turn.counters.mpa.count_startup(&reason);
                self.trace.startup_failed(&reason);
                self.report(turn, |qp_num| CmEvent::ConnectError { qp_num, reason });
                // The peer believes in the connection: it learns by a Terminate that there is none. The send buffer
                // holds only the Request so far, so that the Terminate goes into it now or, if TCP has ended, never.
                let mut stream = Stream::new(&negotiated, true, true);
                let failure = Failure::mpa(error);
                turn.counters.count_failure(&failure);
                self.trace.terminate_sent(&failure.terminate);
                stream.terminate(failure.terminate);
                let _unsent_if_tcp_ended = transmit(&mut stream, turn);
                self.detach(turn);
                self.shut(turn)
            }
            Err(error) => self.fail_startup(turn, ConnectFailure::Protocol(error)),
        }
    }

    /// Waits for the Request and lets the application decide.
    pub(crate) fn handle_request(&mut self, turn: &mut Turn<'_>) -> Verdict {
        let Phase::AwaitingRequest(responder) = self.phase else { return Verdict::Keep };
        let request = match startup::receive(&mut self.frame, &mut turn.llp, FrameKind::Request) {
            Ok(None) => return Verdict::Keep,
            Ok(Some(request)) => request,
            // An application that does not know of this connection yet has only the counters (RFC 5044 section 7.1.2).
            Err(reason) => return self.fail_startup(turn, reason),
        };
        turn.counters.received.mpa_requests += 1;
        self.trace.request_received(request.revision, request.private_data.len());
        if turn.backlog_is_full {
            return self.fail_startup(turn, ConnectFailure::Closed);
        }
        let offer = match responder.handle_request(&request) {
            Ok(offer) => offer,
            Err(error) => return self.fail_startup(turn, ConnectFailure::Protocol(error)),
        };
        let private_data = Bytes::copy_from_slice(request.private_data);
        self.frame = Vec::new();
        self.tell(CmEvent::ConnectRequest(ConnectRequest {
            id: RequestId(self.serial, self.attempt),
            port: self.listener.map_or(0, |listener| listener.port()),
            peer: self.peer,
            local: self.local,
            stream: (self.hold != Hold::Never).then_some(StreamingId(self.serial)),
            revision: offer.revision,
            private_data,
            ird: offer.peer_ird,
            ord: offer.peer_ord,
        }));
        self.phase = Phase::Offered(offer);
        self.deadline = Some(turn.now + turn.answer_timeout);
        Verdict::Keep
    }

    /// Watches for the end of TCP while the application decides.
    pub(crate) fn watch_offer(&self, turn: &mut Turn<'_>) -> Verdict {
        match turn.llp.state() {
            LlpState::Connecting | LlpState::Established => Verdict::Keep,
            _ if self.hold == Hold::Held => self.fail_startup(turn, ConnectFailure::Closed),
            LlpState::PeerClosed | LlpState::Closed | LlpState::Reset => Verdict::Remove,
        }
    }

    /// Closes a rejected connection when the peer has the Reply. Linux siw acts on a FIN before it reads what came in
    /// the same segment, so that its application would hear of a reset connection, without the private data.
    pub(crate) fn watch_rejection(&mut self, turn: &mut Turn<'_>) -> Verdict {
        let is_open = turn.llp.state() == LlpState::Established;
        if is_open && turn.llp.unsent() > 0 { Verdict::Keep } else { self.shut(turn) }
    }

    /// Accepts for the application: sends the Reply, and the stream begins.
    pub(crate) fn accept(
        &mut self,
        turn: &mut Turn<'_>,
        terms: &Terms<'_>,
        [ird, ord]: [u16; 2],
    ) -> Result<Verdict, StartupError> {
        let Phase::Offered(offer) = &self.phase else { return Ok(Verdict::Keep) };
        let peer_depths = offer.peer_ird.zip(offer.peer_ord);
        let (reply, negotiated) = offer.accept_with(ird, ord, terms.private_data)?;
        send_frame(turn, &reply)?;
        self.cookie = terms.cookie;
        if let Some(events) = terms.events {
            self.events = Some(Arc::clone(events));
        }
        turn.counters.sent.mpa_replies += 1;
        self.trace.reply_sent(false);
        let private_data = Bytes::new();
        self.establish(turn, Agreement { negotiated, initiator: false, peer_depths, private_data });
        Ok(self.operate(turn))
    }

    /// Rejects for the application: sends the Reply and leaves MPA.
    pub(crate) fn reject(
        &mut self,
        turn: &mut Turn<'_>,
        private_data: &[u8],
    ) -> Result<Verdict, StartupError> {
        let Phase::Offered(offer) = &self.phase else { return Ok(Verdict::Keep) };
        send_frame(turn, &offer.reject(private_data)?)?;
        turn.counters.sent.mpa_replies += 1;
        turn.counters.mpa.rejects_sent += 1;
        self.trace.reply_sent(true);
        self.trace.rejected(false);
        if self.hold == Hold::Held {
            return Ok(self.leave_mpa(turn));
        }
        self.phase = Phase::Rejecting;
        self.deadline = Some(turn.now + turn.close_timeout);
        Ok(Verdict::Keep)
    }

    /// Ends a connection that has not come about. TCP is closed at once, without a Terminate.
    pub(crate) fn fail_startup(&self, turn: &mut Turn<'_>, reason: ConnectFailure) -> Verdict {
        self.trace.startup_failed(&reason);
        turn.counters.startup_failures += 1;
        turn.counters.mpa.count_startup(&reason);
        if turn.qp.is_none() && self.hold == Hold::Held {
            self.tell(CmEvent::StreamFailed { id: StreamingId(self.serial), reason });
        }
        self.report(turn, |qp_num| CmEvent::ConnectError { qp_num, reason });
        turn.llp.shutdown();
        Verdict::Remove
    }

    /// Ends a connection that has not come about, since the device is shut down.
    pub(crate) fn give_up(&mut self, turn: &mut Turn<'_>) -> Verdict {
        turn.llp.abort();
        let verdict = self.fail_startup(turn, ConnectFailure::Closed);
        if let Some(qp) = turn.qp.as_deref_mut() {
            qp.handle_event(QpEvent::Failed);
        }
        verdict
    }

    /// After a rejection TCP stays open for the application (RFC 5044 section 7.1.2). One that has never seen the
    /// connection in streaming mode has no handle by which it could use it, so that it is closed.
    fn leave_mpa(&mut self, turn: &mut Turn<'_>) -> Verdict {
        if self.hold != Hold::Held {
            return self.shut(turn);
        }
        self.phase = Phase::Streaming(Interest::default());
        self.deadline = None;
        Verdict::Keep
    }

    fn establish(&mut self, turn: &mut Turn<'_>, agreement: Agreement) {
        let Agreement { negotiated, initiator, peer_depths, private_data } = agreement;
        // A depth that is left to the ULPs is larger, and stands for as many as this device has. An RTR message that
        // is a Read takes a place where there are none else (RFC 6581 section 9.1).
        let rtr_read = match negotiated.start {
            Start::SendRtr(kind) => kind == RtrKind::Read,
            Start::ExpectRtr(kinds) => kinds.read,
            Start::ClientServer => false,
        };
        let max = turn.max_reads.max(u16::from(rtr_read));
        let (ird, ord) = (negotiated.ird.min(max), negotiated.ord.min(max));
        let negotiated = Negotiated { ird, ord, ..negotiated };
        let extensions = turn.qp.as_deref().is_none_or(|qp| qp.queues().extensions);
        let stream = Stream::new(&negotiated, initiator, extensions);
        self.phase = Phase::Full(Stage::Operating(Box::new(stream)));
        self.agreed = Some(negotiated);
        self.deadline = turn.nudge_after.filter(|_| initiator).map(|after| turn.now + after);
        turn.counters.mpa.established += 1;
        self.trace.established(turn.qp.as_deref().map(|qp| qp.queues().number), &negotiated);
        if let Some(qp) = turn.qp.as_deref_mut() {
            qp.handle_event(QpEvent::Established);
        }
        self.report(turn, |qp_num| CmEvent::Established { qp_num, private_data, ird, ord, peer_depths });
    }

    /// Frees the queue pair while the connection is still being closed.
    fn detach(&mut self, turn: &mut Turn<'_>) {
        self.qp = None;
        turn.qp = None;
    }

    fn report(&self, turn: &Turn<'_>, event: impl FnOnce(u32) -> CmEvent) {
        if let Some(qp) = turn.qp.as_deref() {
            self.tell(event(qp.queues().number));
        }
    }
}

/// Sends a frame as a whole. If TCP has no room for it, nothing is sent.
fn send_frame(turn: &mut Turn<'_>, frame: &StartupFrame<'_>) -> Result<(), StartupError> {
    let octets = startup::octets(frame)?;
    // A peer may send its Request before it has read the octets of streaming mode.
    if turn.llp.room() < octets.len() || turn.llp.send_slice(&octets) < octets.len() {
        return Err(StartupError::BufferTooSmall { needed: octets.len() });
    }
    Ok(())
}
