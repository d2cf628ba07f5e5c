//! What an arrived segment means.

use weft_ddp as ddp;
use weft_ddp::{Header, Segment, Stag};

use crate::{
    Asked, AtomicRequest, AtomicResponse, Endpoint, Error, Immediate, Inbound, Opcode, OutstandingRequest,
    PendingRequest, ReadRequest, SendEnd, Terminate, outstanding::Expected,
};

impl<O, I> Endpoint<O, I>
where
    O: AsRef<[OutstandingRequest]> + AsMut<[OutstandingRequest]>,
    I: AsRef<[PendingRequest]> + AsMut<[PendingRequest]>,
{
    /// Takes a segment that DDP accepted, checks what RDMAP can see, and says what it asks for.
    ///
    /// The error is the peer's fault; report it with [`Terminate::from_error`] and the ULPDU.
    pub fn accept<'a>(&mut self, segment: Segment<'a>) -> Result<Inbound<'a>, Error> {
        let Segment { header, payload } = segment;
        let opcode = Opcode::of(&header)?;
        if opcode.is_extension() && !self.extensions {
            return Err(Error::UnexpectedOpcode);
        }
        match header {
            Header::Tagged { last, stag, to, .. } => match opcode {
                Opcode::ReadResponse => self.accept_read_response(Tagged { last, stag, to, payload }),
                _ => Ok(Inbound::Write { stag, to, payload, last }),
            },
            Header::Untagged { last, word, msn, mo, .. } => match opcode {
                Opcode::Send
                | Opcode::SendInvalidate
                | Opcode::SendSolicited
                | Opcode::SendSolicitedInvalidate => {
                    accept_send(opcode, mo, payload, last.then_some(Stag(word)))
                }
                // All others have a short, fixed length and never come in parts.
                _ if !last || mo != 0 => Err(Error::StreamCatastrophic),
                Opcode::ReadRequest => self.accept_read_request(msn, payload),
                Opcode::AtomicRequest => self.accept_atomic_request(msn, payload),
                Opcode::AtomicResponse => self.accept_atomic_response(payload),
                Opcode::Terminate => self.accept_terminate(payload),
                _ => {
                    let solicited = opcode == Opcode::ImmediateSolicited;
                    Ok(Inbound::Immediate { data: Immediate::parse(payload)?, solicited })
                }
            },
        }
    }

    fn accept_read_request(&mut self, msn: u32, payload: &[u8]) -> Result<Inbound<'static>, Error> {
        let request = ReadRequest::parse(payload)?;
        self.await_answer(msn, Asked::Read(request))?;
        Ok(Inbound::ReadRequest(request))
    }

    fn accept_atomic_request(&mut self, msn: u32, payload: &[u8]) -> Result<Inbound<'static>, Error> {
        let request = AtomicRequest::parse(payload)?;
        self.await_answer(msn, Asked::Atomic(request))?;
        Ok(Inbound::AtomicRequest(request))
    }

    /// Each slot of the IRD is the untagged buffer of one request, so a full queue is DDP's "no buffer".
    fn await_answer(&mut self, msn: u32, asked: Asked) -> Result<(), Error> {
        let request = PendingRequest { asked, msn, sent: 0 };
        self.pending.push(request).map_err(|_| ddp::Error::NoBuffer.into())
    }

    /// Responses of both kinds come in the order of the requests (RFC 7306 section 7), so that only the oldest can be meant.
    fn accept_atomic_response(&mut self, payload: &[u8]) -> Result<Inbound<'static>, Error> {
        let response = AtomicResponse::parse(payload)?;
        let Some(OutstandingRequest { token, expected: Expected::Atomic(id), .. }) = self.outstanding.front()
        else {
            return Err(Error::UnexpectedOpcode);
        };
        if *id != response.id {
            return Err(Error::StreamCatastrophic);
        }
        let token = *token;
        self.outstanding.pop();
        Ok(Inbound::AtomicResponse { token, original: response.original })
    }

    /// As with Atomic Responses, only the oldest request can be meant.
    fn accept_read_response<'a>(&mut self, segment: Tagged<'a>) -> Result<Inbound<'a>, Error> {
        let Tagged { last, stag, to, payload } = segment;
        let Some(OutstandingRequest { token, expected: Expected::Read(read), .. }) =
            self.outstanding.front_mut()
        else {
            return Err(Error::UnexpectedOpcode);
        };
        let next_to = read.to.wrapping_add(u64::from(read.received));
        // STag and TO mean nothing in a segment without payload (requirement 5041-5.2-11).
        if !payload.is_empty() {
            if stag != read.stag {
                return Err(ddp::Error::InvalidStag.into());
            }
            if to != next_to {
                return Err(ddp::Error::BaseOrBounds.into());
            }
        }
        let received = u32::try_from(payload.len())
            .ok()
            .and_then(|len| read.received.checked_add(len))
            .filter(|received| *received <= read.size)
            .ok_or(ddp::Error::BaseOrBounds)?;
        if last && received < read.size {
            return Err(Error::StreamCatastrophic);
        }
        read.received = received;
        let (token, stag) = (*token, read.stag);
        if last {
            self.outstanding.pop();
        }
        Ok(Inbound::ReadResponse { token, stag, to: next_to, payload, finished: last })
    }

    fn accept_terminate(&mut self, payload: &[u8]) -> Result<Inbound<'static>, Error> {
        // There is one buffer for one Terminate in the life of a stream (RFC 5040 section 5.4).
        if self.peer_terminated {
            return Err(ddp::Error::NoBuffer.into());
        }
        let terminate = Terminate::parse(payload)?;
        self.peer_terminated = true;
        Ok(Inbound::Terminate(terminate))
    }
}

/// A tagged segment with its fields at hand.
struct Tagged<'a> {
    last: bool,
    stag: Stag,
    to: u64,
    payload: &'a [u8],
}

/// `end` is the Invalidate STag field of the last segment.
fn accept_send(opcode: Opcode, offset: u32, payload: &[u8], end: Option<Stag>) -> Result<Inbound<'_>, Error> {
    let len = u32::try_from(payload.len()).ok().and_then(|len| offset.checked_add(len));
    let len = len.ok_or(ddp::Error::TooLong)?;
    let solicited = matches!(opcode, Opcode::SendSolicited | Opcode::SendSolicitedInvalidate);
    let invalidates = matches!(opcode, Opcode::SendInvalidate | Opcode::SendSolicitedInvalidate);
    let last = end.map(|stag| SendEnd { len, solicited, invalidate: invalidates.then_some(stag) });
    Ok(Inbound::Send { offset, payload, last })
}
