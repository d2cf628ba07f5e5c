//! MPA's startup for a ULP: Request and Reply, as either end (RFC 5044 section 7.1, RFC 6581 section 9).

use bytes::Bytes;
use weft_mpa::{
    Config, Error, FrameKind, Initiator, Negotiated, Offer, Outcome, Responder, StartupError, StartupFrame,
};
use weft_netif::{Llp, LlpState};

use super::{Agreement, AnswerError};
use crate::events::connection::ConnectFailure;
use crate::failure::Failure;
use crate::stream::startup;
use crate::stream::user::Nobody;
use crate::stream::{Stream, pump};

/// One end of MPA's startup on one TCP connection.
///
/// Startup takes exactly the octets of its frames from TCP. The octets after them belong to the stream, or after a
/// rejection to the ULP. Startup has no clock: a caller that needs a time limit aborts the LLP.
#[derive(Debug)]
pub struct Startup {
    phase: Phase,
    /// The received octets of the peer's frame.
    frame: Vec<u8>,
    /// The octets of this end's frame that are still to be sent.
    outbox: Vec<u8>,
}

/// The events of a startup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartupEvent {
    /// The peer's Request. The ULP answers it by [`Startup::accept`] or [`Startup::reject`].
    Requested {
        /// Revision of MPA: 1 (RFC 5044) or 2 (RFC 6581).
        revision: u8,
        /// The peer's IRD, if its Request is enhanced.
        ird: Option<u16>,
        /// The peer's ORD, if its Request is enhanced.
        ord: Option<u16>,
        /// The private data of the Request.
        private_data: Bytes,
    },
    /// Full Operation begins. The ULP makes a stream on the LLP.
    Established(Agreement),
    /// The peer's ULP has rejected the Request. The LLP is open and belongs to the ULP (RFC 5044 section 7.1.2).
    Rejected {
        /// The peer's IRD, if the Reply has it.
        ird: Option<u16>,
        /// The ORD that the peer has or needs, if the Reply has it.
        ord: Option<u16>,
        /// The private data of the Reply.
        private_data: Bytes,
    },
    /// The rejecting Reply is in TCP. The LLP is open and belongs to the ULP.
    RejectionSent,
}

#[derive(Debug)]
enum Phase {
    /// This end sends the Request and waits for the Reply.
    AwaitingReply(Initiator),
    AwaitingRequest(Responder),
    /// The Request waits for the ULP's answer.
    Offered(Offer, Bytes),
    /// This end sends the Reply.
    Replying(StartupEvent),
    Over,
}

impl Startup {
    /// Makes the end that sends the Request, with this private data.
    ///
    /// # Errors
    /// [`StartupError`] if the private data is too long: the limit is 512 octets, or 508 with IRD and ORD.
    pub fn initiator(config: Config, private_data: &[u8]) -> Result<Self, StartupError> {
        let initiator = Initiator::new(config);
        let outbox = startup::octets(&initiator.request(private_data)?)?;
        Ok(Self { phase: Phase::AwaitingReply(initiator), frame: Vec::new(), outbox })
    }

    /// Makes the end that waits for a Request.
    #[must_use]
    pub fn responder(config: Config) -> Self {
        let phase = Phase::AwaitingRequest(Responder::new(config));
        Self { phase, frame: Vec::new(), outbox: Vec::new() }
    }

    /// Sends and receives as much as possible, up to one event. After `None` the caller calls again when the LLP has
    /// news.
    ///
    /// # Errors
    /// [`ConnectFailure`] if startup has failed. The LLP is closed then. A peer that regards the connection as
    /// established has got a Terminate.
    pub fn poll(&mut self, llp: &mut Llp<'_>) -> Result<Option<StartupEvent>, ConnectFailure> {
        let result = self.step(llp);
        if result.is_err() {
            self.phase = Phase::Over;
            llp.shutdown();
        }
        result
    }

    /// Accepts the Request with this private data. An answer to an enhanced Request also has this IRD and ORD.
    ///
    /// # Errors
    /// [`AnswerError`]. Nothing has changed then.
    pub fn accept(&mut self, [ird, ord]: [u16; 2], private_data: &[u8]) -> Result<(), AnswerError> {
        let Phase::Offered(offer, greeting) = &self.phase else { return Err(AnswerError::NothingAsked) };
        let peer_depths = offer.peer_ird.zip(offer.peer_ord);
        let (reply, negotiated) = offer.accept_with(ird, ord, private_data).map_err(AnswerError::Frame)?;
        let private_data = greeting.clone();
        let agreement = Agreement { negotiated, initiator: false, peer_depths, private_data };
        self.answer(&reply, StartupEvent::Established(agreement))
    }

    /// Rejects the Request, with this private data.
    ///
    /// # Errors
    /// [`AnswerError`]. Nothing has changed then.
    pub fn reject(&mut self, private_data: &[u8]) -> Result<(), AnswerError> {
        let Phase::Offered(offer, _) = &self.phase else { return Err(AnswerError::NothingAsked) };
        let reply = offer.reject(private_data).map_err(AnswerError::Frame)?;
        self.answer(&reply, StartupEvent::RejectionSent)
    }

    fn answer(&mut self, reply: &StartupFrame<'_>, event: StartupEvent) -> Result<(), AnswerError> {
        self.outbox = startup::octets(reply).map_err(AnswerError::Frame)?;
        self.phase = Phase::Replying(event);
        Ok(())
    }

    fn step(&mut self, llp: &mut Llp<'_>) -> Result<Option<StartupEvent>, ConnectFailure> {
        if !self.outbox.is_empty() {
            let is_open = startup::is_open(llp).map_err(|reason| match self.phase {
                Phase::AwaitingReply(_) => reason,
                _ => ConnectFailure::Closed,
            })?;
            // Octets of the ULP may still fill the send buffer. An empty send buffer has room for any frame.
            if !is_open || !llp.has_room(self.outbox.len()) {
                return Ok(None);
            }
            let sent = llp.send_slice(&self.outbox);
            self.outbox.drain(..sent);
        }
        match &self.phase {
            Phase::AwaitingReply(initiator) => self.handle_reply(llp, *initiator),
            Phase::AwaitingRequest(responder) => self.handle_request(llp, *responder),
            Phase::Offered(..) => match llp.state() {
                LlpState::Connecting | LlpState::Established => Ok(None),
                LlpState::PeerClosed | LlpState::Closed | LlpState::Reset => Err(ConnectFailure::Closed),
            },
            Phase::Replying(event) => {
                let event = event.clone();
                self.phase = Phase::Over;
                Ok(Some(event))
            }
            Phase::Over => Ok(None),
        }
    }

    fn handle_reply(
        &mut self,
        llp: &mut Llp<'_>,
        initiator: Initiator,
    ) -> Result<Option<StartupEvent>, ConnectFailure> {
        let reply = startup::receive(&mut self.frame, llp, FrameKind::Reply)?;
        let Some(reply) = reply else { return Ok(None) };
        self.phase = Phase::Over;
        let private_data = Bytes::copy_from_slice(reply.private_data);
        let peer_depths = reply.enhanced.map(|enhanced| (enhanced.ird, enhanced.ord));
        match initiator.handle_reply(&reply).map_err(ConnectFailure::Protocol)? {
            Outcome::Established(negotiated) => {
                let initiator = true;
                let agreement = Agreement { negotiated, initiator, peer_depths, private_data };
                Ok(Some(StartupEvent::Established(agreement)))
            }
            Outcome::Rejected { ird, ord } => Ok(Some(StartupEvent::Rejected { ird, ord, private_data })),
            Outcome::Failed { negotiated, error } => {
                refuse(llp, &negotiated, error);
                Err(ConnectFailure::Protocol(error))
            }
        }
    }

    fn handle_request(
        &mut self,
        llp: &mut Llp<'_>,
        responder: Responder,
    ) -> Result<Option<StartupEvent>, ConnectFailure> {
        let request = startup::receive(&mut self.frame, llp, FrameKind::Request)?;
        let Some(request) = request else { return Ok(None) };
        let private_data = Bytes::copy_from_slice(request.private_data);
        let revision = request.revision;
        let offer = responder.handle_request(&request).map_err(ConnectFailure::Protocol)?;
        let (ird, ord) = (offer.peer_ird, offer.peer_ord);
        self.phase = Phase::Offered(offer, private_data.clone());
        Ok(Some(StartupEvent::Requested { revision, ird, ord, private_data }))
    }
}

/// Sends a Terminate to a peer that regards the connection as established (RFC 6581 section 9.3). The send buffer
/// holds only the Request so far, so the Terminate goes into it now or, if TCP has ended, never.
fn refuse(llp: &mut Llp<'_>, negotiated: &Negotiated, error: Error) {
    let mut stream = Stream::new(negotiated, true, true);
    stream.terminate(Failure::mpa(error).terminate);
    let mulpdu = pump::mulpdu(llp, stream.segments().sends_markers());
    let mut scratch = vec![0; stream.fpdu_room(mulpdu)];
    let _unsent_if_tcp_ended = pump::transmit_all(&mut stream, llp, &mut scratch, mulpdu, &mut Nobody);
}
