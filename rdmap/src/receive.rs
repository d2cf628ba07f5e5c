//! The meaning of an arrived segment.

use weft_ddp as ddp;
use weft_ddp::{Header, Segment, Stag};

use crate::{
    Asked, AtomicRequest, AtomicResponse, Endpoint, Error, Form, Immediate, Inbound, Opcode,
    OutstandingRequest, PendingRequest, ReadRequest, SendEnd, Terminate, Token, outstanding::Expected,
};

impl<O, I> Endpoint<O, I>
where
    O: AsRef<[OutstandingRequest]> + AsMut<[OutstandingRequest]>,
    I: AsRef<[PendingRequest]> + AsMut<[PendingRequest]>,
{
    /// Takes a segment that DDP accepted, makes RDMAP's checks, and returns what the caller has to do.
    ///
    /// An error is the peer's fault. The caller reports it with [`Terminate::from_error`] and the ULPDU.
    #[inline]
    pub fn accept<'a>(&mut self, segment: Segment<'a>) -> Result<Inbound<'a>, Error> {
        let opcode = Opcode::of(&segment.header)?;
        if !self.extensions && opcode.is_extension() {
            return Err(Error::UnexpectedOpcode);
        }
        match (segment.header, opcode.form()) {
            (Header::Tagged { last, stag, to, .. }, Form::Write) => {
                Ok(Inbound::Write { stag, to, payload: segment.payload, last })
            }
            (Header::Untagged { last, word, mo, .. }, Form::Send { invalidates, .. }) => {
                let len = message_len(mo, segment.payload)?;
                let invalidate = invalidates.then_some(Stag(word));
                let last = last.then_some(SendEnd { len, opcode, invalidate });
                Ok(Inbound::Send { offset: mo, payload: segment.payload, last })
            }
            (_, form) => self.accept_other(form, segment),
        }
    }

    /// Takes a segment that is neither of a Send nor of a Write.
    fn accept_other<'a>(&mut self, form: Form, segment: Segment<'a>) -> Result<Inbound<'a>, Error> {
        let Segment { header, payload } = segment;
        match (header, form) {
            (Header::Tagged { last, stag, to, .. }, Form::ReadResponse) => {
                let answer = self.accept_read_response(Tagged { last, stag, to, len: payload.len() })?;
                let Placed { token, stag, to, finished } = answer;
                Ok(Inbound::ReadResponse { token, stag, to, payload, finished })
            }
            // All other messages have a short, fixed length and never come in parts.
            (Header::Untagged { last: false, .. } | Header::Untagged { mo: 1.., .. }, _) => {
                Err(Error::StreamCatastrophic)
            }
            (Header::Untagged { msn, .. }, Form::ReadRequest) => self.accept_read_request(msn, payload),
            (Header::Untagged { msn, .. }, Form::AtomicRequest) => self.accept_atomic_request(msn, payload),
            (_, Form::AtomicResponse) => self.accept_atomic_response(payload),
            (_, Form::Terminate) => self.accept_terminate(payload),
            (_, Form::Immediate { solicited }) => {
                Ok(Inbound::Immediate { data: Immediate::parse(payload)?, solicited })
            }
            // Sends and Writes are taken above. `Opcode::of` has refused what is not on its queue.
            (
                _,
                Form::Send { .. }
                | Form::Write
                | Form::ReadRequest
                | Form::ReadResponse
                | Form::AtomicRequest,
            ) => Err(Error::UnexpectedOpcode),
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

    /// Responses of both kinds come in the order of the requests (RFC 7306 section 7). So this must answer the oldest
    /// one.
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

    /// Returns the place for the `len` octets of payload behind this header, if the segment is right. For a caller
    /// that places the payload as it arrives, and then calls [`accept_placed`](Self::accept_placed).
    pub fn place_of(&self, header: &Header, len: usize) -> Option<Place> {
        let &Header::Tagged { stag, to, .. } = header else { return None };
        match Opcode::of(header).ok()? {
            Opcode::Write => Some(Place { stag, to, answers: None }),
            Opcode::ReadResponse => {
                let OutstandingRequest { token, expected: Expected::Read(read), .. } =
                    self.outstanding.front()?
                else {
                    return None;
                };
                let next_to = read.to.wrapping_add(u64::from(read.received));
                let rest = usize::try_from(read.size - read.received).ok()?;
                let fits = stag == read.stag && to == next_to && len <= rest;
                fits.then_some(Place { stag, to, answers: Some(*token) })
            }
            _ => None,
        }
    }

    /// Returns the place for the `len` octets of payload behind this header ahead of their turn: of a Write, or of the
    /// answer to any Read of ours, if they lie wholly in what is missing of its sink. In its turn the segment has to be
    /// right all the same ([`place_of`](Self::place_of)).
    pub fn place_ahead(&self, header: &Header, len: usize) -> Option<Place> {
        let &Header::Tagged { stag, to, .. } = header else { return None };
        match Opcode::of(header).ok()? {
            Opcode::Write => Some(Place { stag, to, answers: None }),
            Opcode::ReadResponse => self.outstanding.iter().find_map(|request| {
                let Expected::Read(read) = request.expected else { return None };
                let offset = to.wrapping_sub(read.to.wrapping_add(u64::from(read.received)));
                let rest = u64::from(read.size - read.received);
                let fits = stag == read.stag && offset.checked_add(len as u64).is_some_and(|end| end <= rest);
                fits.then_some(Place { stag, to, answers: Some(request.token) })
            }),
            _ => None,
        }
    }

    /// Does the same as [`accept`](Self::accept) for a tagged segment whose `len` octets of payload were placed by
    /// [`place_of`](Self::place_of). Returns the Read that this segment completes.
    pub fn accept_placed(&mut self, header: &Header, len: usize) -> Result<Option<Token>, Error> {
        let &Header::Tagged { last, stag, to, .. } = header else { return Err(Error::UnexpectedOpcode) };
        match Opcode::of(header)? {
            Opcode::ReadResponse => {
                let placed = self.accept_read_response(Tagged { last, stag, to, len })?;
                Ok(placed.finished.then_some(placed.token))
            }
            _ => Ok(None),
        }
    }

    /// As with Atomic Responses, this must answer the oldest request.
    fn accept_read_response(&mut self, segment: Tagged) -> Result<Placed, Error> {
        let Tagged { last, stag, to, len } = segment;
        let Some(OutstandingRequest { token, expected: Expected::Read(read), .. }) =
            self.outstanding.front_mut()
        else {
            return Err(Error::UnexpectedOpcode);
        };
        let next_to = read.to.wrapping_add(u64::from(read.received));
        // STag and TO mean nothing in a segment without payload (requirement 5041-5.2-11).
        if len > 0 {
            if stag != read.stag {
                return Err(ddp::Error::InvalidStag.into());
            }
            if to != next_to {
                return Err(ddp::Error::BaseOrBounds.into());
            }
        }
        let received = u32::try_from(len)
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
        Ok(Placed { token, stag, to: next_to, finished: last })
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

/// The place for the payload of a tagged segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The buffer.
    pub stag: Stag,
    /// The tagged offset of the first octet.
    pub to: u64,
    /// The Read of ours that it answers; `None` for the octets of a Write.
    pub answers: Option<Token>,
}

/// The fields of a tagged segment.
struct Tagged {
    last: bool,
    stag: Stag,
    to: u64,
    len: usize,
}

/// The part of a Read Response that has come.
struct Placed {
    token: Token,
    stag: Stag,
    to: u64,
    finished: bool,
}

/// The octets of a message up to the end of this segment.
#[inline]
fn message_len(offset: u32, payload: &[u8]) -> Result<u32, Error> {
    let len = u32::try_from(payload.len()).ok().and_then(|len| offset.checked_add(len));
    len.ok_or_else(|| ddp::Error::TooLong.into())
}
