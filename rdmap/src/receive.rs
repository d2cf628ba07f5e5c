//! What an arrived segment means.

use weft_ddp as ddp;
use weft_ddp::{Header, Segment, Stag};

use crate::{
    Endpoint, Error, Inbound, Opcode, OutstandingRequest, PendingRequest, ReadRequest, SendEnd, Terminate,
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
        match header {
            Header::Tagged { last, stag, to, .. } => match opcode {
                Opcode::ReadResponse => self.accept_read_response(Tagged { last, stag, to, payload }),
                _ => Ok(Inbound::Write { stag, to, payload, last }),
            },
            Header::Untagged { last, word, msn, mo, .. } => match opcode {
                Opcode::ReadRequest if last && mo == 0 => self.accept_read_request(msn, payload),
                Opcode::Terminate if last && mo == 0 => self.accept_terminate(payload),
                // Messages of RDMAP's own are short and never come in parts.
                Opcode::ReadRequest | Opcode::Terminate => Err(Error::StreamCatastrophic),
                // RFC 7306 is not served yet, so a peer that uses it hears what an older RNIC would say.
                Opcode::Immediate
                | Opcode::ImmediateSolicited
                | Opcode::AtomicRequest
                | Opcode::AtomicResponse => Err(Error::UnexpectedOpcode),
                _ => accept_send(opcode, mo, payload, last.then_some(Stag(word))),
            },
        }
    }

    fn accept_read_request(&mut self, msn: u32, payload: &[u8]) -> Result<Inbound<'static>, Error> {
        let request = ReadRequest::parse(payload)?;
        let read = PendingRequest { request, msn, sent: 0 };
        // Each slot of the IRD is the untagged buffer of one request, so a full queue is DDP's "no buffer".
        self.pending.push(read).map_err(|_| ddp::Error::NoBuffer)?;
        Ok(Inbound::ReadRequest(request))
    }

    /// Responses come in the order of the requests, so only the oldest Read can be meant.
    fn accept_read_response<'a>(&mut self, segment: Tagged<'a>) -> Result<Inbound<'a>, Error> {
        let Tagged { last, stag, to, payload } = segment;
        let read = self.outstanding.front_mut().ok_or(Error::UnexpectedOpcode)?;
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
        let (token, stag) = (read.token, read.stag);
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
