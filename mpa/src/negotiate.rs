//! The agreement of the two ends before the first FPDU (RFC 5044 7.1.2, RFC 6581 9). Each step consumes the one
//! before.

use crate::startup::{ENHANCED_REVISION, PLAIN_REVISION};
use crate::{Enhanced, Error, FrameKind, NOT_NEGOTIATED, RtrKind, RtrSet, StartupError, StartupFrame};

/// The wishes and abilities of one end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Require CRCs. Only an administrator may turn this off. CRCs are then still on if the peer wants them
    /// (5044-4.4-4).
    pub crc: bool,
    /// Ask the peer to send Markers.
    pub markers: bool,
    /// Use revision 2 with IRD, ORD and peer-to-peer start, or accept it as Responder. False: plain RFC 5044. An
    /// Initiator that leaves both depths to the ULPs and wants no peer-to-peer start uses plain RFC 5044 in any case.
    pub enhanced: bool,
    /// Inbound reads that this end can hold at once. Values over 0x3FFF count as 0x3FFF ([`NOT_NEGOTIATED`]).
    pub ird: u16,
    /// Outbound reads that this end wants at once. Values over 0x3FFF count as 0x3FFF ([`NOT_NEGOTIATED`]).
    pub ord: u16,
    /// As Initiator: ask for the peer-to-peer start. Needs `enhanced`.
    pub peer_to_peer: bool,
    /// The RTR messages that this end can send as Initiator or take as Responder.
    ///
    /// A Responder must take at least one (6581-9.2-3), so the empty set counts as all of them there.
    pub rtr: RtrSet,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            crc: true,
            markers: false,
            enhanced: true,
            ird: 16,
            ord: 16,
            peer_to_peer: false,
            rtr: RtrSet::ALL,
        }
    }
}

/// Which end opens the stream of FPDUs, and how. In all cases the Initiator sends first (5044-7.1.2-15).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// The Initiator's ULP sends when it wants to.
    ClientServer,
    /// This end is the Initiator and sends this message before all others.
    SendRtr(RtrKind),
    /// This end is the Responder. The first FPDU that comes in is one of these messages.
    ExpectRtr(RtrSet),
}

/// The terms that both ends keep from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Negotiated {
    /// 1 (RFC 5044) or 2 (RFC 6581).
    pub revision: u8,
    /// CRCs are generated and checked, in both directions.
    pub crc: bool,
    /// This end sends Markers.
    pub send_markers: bool,
    /// This end receives Markers.
    pub receive_markers: bool,
    /// Inbound reads that this end must be able to hold at once.
    pub ird: u16,
    /// Outbound reads that this end may have at once.
    pub ord: u16,
    /// How the stream of FPDUs begins.
    pub start: Start,
}

/// The end that sends the Request Frame, whichever end opened the TCP connection.
#[derive(Debug, Clone, Copy)]
pub struct Initiator {
    config: Config,
}

impl Initiator {
    /// The state before the Request is sent.
    pub fn new(config: Config) -> Self {
        let (ird, ord) = (depth(config.ird), depth(config.ord));
        // Without any enhanced function to negotiate the frames are those of RFC 5044 (6581-10-3).
        let is_wanted = config.peer_to_peer || ird != NOT_NEGOTIATED || ord != NOT_NEGOTIATED;
        Self { config: Config { enhanced: config.enhanced && is_wanted, ird, ord, ..config } }
    }

    /// Takes the Reply and returns how the startup ends.
    ///
    /// # Errors
    /// The Reply does not answer this Request. The caller has to close TCP at once, without a Terminate
    /// (5044-7.1.2-12).
    pub fn handle_reply(self, reply: &StartupFrame<'_>) -> Result<Outcome, Error> {
        check_kind(reply, FrameKind::Reply)?;
        if reply.revision != self.revision() {
            return Err(StartupError::Revision(reply.revision).into());
        }
        if reply.enhanced.is_some() != self.config.enhanced {
            return Err(StartupError::EnhancedMismatch.into());
        }
        if reply.reject {
            let (ird, ord) = (reply.enhanced.map(|data| data.ird), reply.enhanced.map(|data| data.ord));
            return Ok(Outcome::Rejected { ird, ord });
        }
        let mut negotiated = negotiated(&self.config, reply);
        let result = reply.enhanced.map_or(Ok(()), |data| self.settle(&data, &mut negotiated));
        Ok(match result {
            Ok(()) => Outcome::Established(negotiated),
            Err(error) => Outcome::Failed { negotiated, error },
        })
    }

    /// Returns the Request Frame to send.
    ///
    /// # Errors
    /// [`StartupError::PrivateDataTooLong`]: over 512 octets, 508 with `enhanced`.
    pub fn request<'a>(&self, private_data: &'a [u8]) -> Result<StartupFrame<'a>, StartupError> {
        let config = &self.config;
        let rtr = if config.peer_to_peer { config.rtr } else { RtrSet::default() };
        let enhanced = Enhanced { peer_to_peer: config.peer_to_peer, rtr, ird: config.ird, ord: config.ord };
        checked(StartupFrame {
            kind: FrameKind::Request,
            markers: config.markers,
            crc: config.crc,
            reject: false,
            reserved: 0,
            revision: self.revision(),
            enhanced: config.enhanced.then_some(enhanced),
            private_data,
        })
    }

    /// Adapts IRD, ORD and the first message to the Responder's values, in the order of RFC 6581 9.3.
    fn settle(&self, peer: &Enhanced, negotiated: &mut Negotiated) -> Result<(), Error> {
        if peer.ord != NOT_NEGOTIATED && peer.ord > self.config.ird {
            return Err(Error::InsufficientIrd);
        }
        // NOT_NEGOTIATED is the largest of all depths, so the minimum leaves our own value (6581-9.1-14).
        negotiated.ord = negotiated.ord.min(peer.ird);
        if peer.peer_to_peer != self.config.peer_to_peer {
            return Err(Error::NoRtr);
        }
        if peer.peer_to_peer {
            let mut common = self.config.rtr.intersection(peer.rtr);
            // A Read as RTR message takes a place in the peer's queue like any other Read.
            common.read &= peer.ird > 0;
            let kind = common.first().ok_or(Error::NoRtr)?;
            if kind == RtrKind::Read {
                negotiated.ord = negotiated.ord.max(1);
            }
            negotiated.start = Start::SendRtr(kind);
        }
        Ok(())
    }

    const fn revision(&self) -> u8 {
        if self.config.enhanced { ENHANCED_REVISION } else { PLAIN_REVISION }
    }
}

/// How a Reply ends the startup for the Initiator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Full Operation begins.
    Established(Negotiated),
    /// The peer's ULP does not want the connection. MPA ends, and TCP stays open for the ULP (5044-7.1.2-13).
    Rejected {
        /// The peer's IRD, if it told it.
        ird: Option<u16>,
        /// The ORD that the peer has or needs, if it told it.
        ord: Option<u16>,
    },
    /// The peer accepted on terms that cannot be met. The only FPDU to send is a Terminate with this error.
    Failed {
        /// How the Terminate is to be framed.
        negotiated: Negotiated,
        /// [`Error::InsufficientIrd`] or [`Error::NoRtr`].
        error: Error,
    },
}

/// The end that answers a Request Frame.
#[derive(Debug, Clone, Copy)]
pub struct Responder {
    config: Config,
}

impl Responder {
    /// The state before the Request is received.
    pub fn new(config: Config) -> Self {
        let rtr = if config.rtr.is_empty() { RtrSet::ALL } else { config.rtr };
        Self { config: Config { rtr, ..config } }
    }

    /// Takes the Request. The ULP then decides about the [`Offer`].
    ///
    /// # Errors
    /// The Request cannot be answered, not even by a reject. The caller has to close TCP at once (5044-7.1.2-4,
    /// 6581-10-7).
    pub fn handle_request(self, request: &StartupFrame<'_>) -> Result<Offer, Error> {
        check_kind(request, FrameKind::Request)?;
        let supported = if self.config.enhanced { ENHANCED_REVISION } else { PLAIN_REVISION };
        let is_known = (PLAIN_REVISION..=supported).contains(&request.revision);
        if !is_known || (request.enhanced.is_some() && request.revision != ENHANCED_REVISION) {
            return Err(StartupError::Revision(request.revision).into());
        }
        Ok(Offer {
            revision: request.revision,
            peer_ird: request.enhanced.map(|data| data.ird),
            peer_ord: request.enhanced.map(|data| data.ord),
            peer_to_peer: request.enhanced.is_some_and(|data| data.peer_to_peer),
            request: StartupFrame { private_data: &[], ..*request },
            config: self.config,
        })
    }
}

/// A good Request that waits for the ULP's decision.
#[derive(Debug, Clone, Copy)]
pub struct Offer {
    /// The Request's revision, also that of the Reply.
    pub revision: u8,
    /// The Initiator's IRD, or [`NOT_NEGOTIATED`]; None if the Request is not enhanced.
    pub peer_ird: Option<u16>,
    /// The Initiator's ORD, or [`NOT_NEGOTIATED`]; None if the Request is not enhanced.
    pub peer_ord: Option<u16>,
    /// The Initiator wants to start with an RTR message.
    pub peer_to_peer: bool,
    request: StartupFrame<'static>,
    config: Config,
}

impl Offer {
    /// Accepts with the configured IRD and ORD. Returns the Reply Frame to send, and the agreed terms.
    ///
    /// # Errors
    /// [`StartupError::PrivateDataTooLong`]: over 512 octets, 508 if the Request was enhanced.
    pub fn accept<'a>(self, private_data: &'a [u8]) -> Result<(StartupFrame<'a>, Negotiated), StartupError> {
        let Config { ird, ord, .. } = self.config;
        self.accept_with(ird, ord, private_data)
    }

    /// Accepts with IRD and ORD of the ULP's choice instead of the configured ones.
    ///
    /// An IRD of 0 becomes 1 if the Initiator may open the stream with a Read (6581-9.1-4).
    ///
    /// # Errors
    /// As [`Offer::accept`].
    pub fn accept_with<'a>(
        self,
        ird: u16,
        ord: u16,
        private_data: &'a [u8],
    ) -> Result<(StartupFrame<'a>, Negotiated), StartupError> {
        let mut negotiated = negotiated(&Config { ird, ord, ..self.config }, &self.request);
        let enhanced = self.request.enhanced.map(|peer| {
            let rtr = self.rtr();
            if self.peer_to_peer {
                negotiated.start = Start::ExpectRtr(rtr);
            }
            negotiated.ird = negotiated.ird.max(u16::from(rtr.read));
            negotiated.ord = negotiated.ord.min(peer.ird);
            // If the Initiator leaves a depth to the ULPs, so does the Reply, and our own value stays (6581-9.1-13,
            // -15).
            let ird = if peer.ord == NOT_NEGOTIATED { NOT_NEGOTIATED } else { negotiated.ird };
            let ord = if peer.ird == NOT_NEGOTIATED { NOT_NEGOTIATED } else { negotiated.ord };
            Enhanced { peer_to_peer: self.peer_to_peer, rtr, ird, ord }
        });
        Ok((self.reply(false, enhanced, private_data)?, negotiated))
    }

    /// Rejects: returns the Reply Frame to send. It tells the configured IRD and ORD, so that the peer can adapt.
    ///
    /// # Errors
    /// As [`Offer::accept`].
    pub fn reject<'a>(self, private_data: &'a [u8]) -> Result<StartupFrame<'a>, StartupError> {
        let enhanced = self.request.enhanced.map(|peer| Enhanced {
            peer_to_peer: self.peer_to_peer,
            rtr: self.rtr(),
            ird: if peer.ord == NOT_NEGOTIATED { NOT_NEGOTIATED } else { depth(self.config.ird) },
            ord: if peer.ird == NOT_NEGOTIATED { NOT_NEGOTIATED } else { depth(self.config.ord) },
        });
        self.reply(true, enhanced, private_data)
    }

    /// Returns the RTR messages for the Reply: those that both ends know. If there are none, our own tell the peer so
    /// (6581-9.2-8).
    fn rtr(&self) -> RtrSet {
        let Some(peer) = self.request.enhanced.filter(|peer| peer.peer_to_peer) else {
            return RtrSet::default();
        };
        let common = self.config.rtr.intersection(peer.rtr);
        if common.is_empty() { self.config.rtr } else { common }
    }

    fn reply<'a>(
        &self,
        reject: bool,
        enhanced: Option<Enhanced>,
        private_data: &'a [u8],
    ) -> Result<StartupFrame<'a>, StartupError> {
        checked(StartupFrame {
            kind: FrameKind::Reply,
            markers: self.config.markers,
            // The Reply tells the result and not only our own wish: some Initiators insist on seeing their C again.
            crc: self.config.crc || self.request.crc,
            reject,
            reserved: 0,
            revision: self.revision,
            enhanced,
            private_data,
        })
    }
}

/// Returns the terms that follow from the peer's frame, enhanced or not.
fn negotiated(config: &Config, peer: &StartupFrame<'_>) -> Negotiated {
    Negotiated {
        revision: peer.revision,
        crc: config.crc || peer.crc,
        send_markers: peer.markers,
        receive_markers: config.markers,
        ird: depth(config.ird),
        ord: depth(config.ord),
        start: Start::ClientServer,
    }
}

/// Returns an error if the frame is of the other kind: two Initiators or two Responders have met (5044-7.1.2-20).
fn check_kind(frame: &StartupFrame<'_>, kind: FrameKind) -> Result<(), StartupError> {
    if frame.kind == kind { Ok(()) } else { Err(StartupError::Key) }
}

/// Checks the length of the Private Data here, where the ULP hands it in.
fn checked(frame: StartupFrame<'_>) -> Result<StartupFrame<'_>, StartupError> {
    frame.check_private_data().map(|()| frame)
}

fn depth(depth: u16) -> u16 {
    depth.min(NOT_NEGOTIATED)
}
