//! The user's half of an RDMAP stream: requests, posted buffers and their events. The queue pair of verbs is the other
//! user of the same stream code. [`Reach`] has the accesses to memory that both need. Their completions have no common
//! code: verbs have rings in memory, and these streams have events that own their buffers.

use std::collections::VecDeque;

use weft_ddp::Header;
use weft_rdmap::{Body, Error, Inbound, Kind, Message, Readiness, SendEnd, Token};
use weft_verbs::{LocalFault, Payload, Reach, Refusal, Status};

use super::buffer::{Buffer, BufferQueue};
use super::{RdmapEvent, Source};
use crate::stream::user::User;

/// The requests whose end the ULP has not been told.
#[derive(Debug, Default)]
pub(super) struct Requests {
    waiting: VecDeque<Request>,
    /// The started requests, in the order of the calls, which is also the order of completions (RFC 5040 section 5.5).
    started: VecDeque<Started>,
    /// The token of the first started request.
    first: u64,
    buffers: BufferQueue,
    /// The event of the last received segment.
    event: Option<RdmapEvent>,
}

/// A request of the ULP: a Send, a Write, Immediate Data, a Read or an Atomic.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) id: u64,
    pub(super) kind: Kind,
    pub(super) len: u32,
    /// The octets of a Send or Write; empty for all others.
    pub(super) source: Source,
}

#[derive(Debug)]
struct Started {
    id: u64,
    source: Source,
    /// For an Atomic: the original value.
    original: Option<u64>,
    status: Option<Status>,
}

/// The requests of a stream with the memory in reach, in the form that the stream code needs.
#[derive(Debug)]
pub(super) struct Side<'a> {
    pub(super) requests: &'a mut Requests,
    pub(super) reach: Reach<'a>,
}

impl Requests {
    pub(super) fn post(&mut self, request: Request) {
        self.waiting.push_back(request);
    }

    pub(super) fn post_buffer(&mut self, id: u64, buffer: Vec<u8>) {
        self.buffers.post(id, buffer);
    }

    /// Returns the next event for the ULP. If the stream has ended (`ended`), this includes flushed requests and
    /// returned buffers.
    pub(super) fn next_event(&mut self, ended: bool) -> Option<RdmapEvent> {
        if let Some(event) = self.event.take() {
            return Some(event);
        }
        if let Some(status) = self.status_of_first() {
            return self.complete(status);
        }
        if !ended {
            return None;
        }
        let flushed = Status::WorkRequestFlushed;
        let waiting =
            |request: Request| RdmapEvent::Completed { id: request.id, status: flushed, original: None };
        let returned = |buffer: Buffer| RdmapEvent::Returned { id: buffer.id, buffer: buffer.octets };
        self.complete(flushed)
            .or_else(|| self.waiting.pop_front().map(waiting))
            .or_else(|| self.buffers.give_back().map(returned))
    }

    /// Marks a started request as failed.
    pub(super) fn fail(&mut self, token: Token, status: Status) {
        if let Some(started) = self.started_mut(token) {
            started.status.get_or_insert(status);
        }
    }

    /// Returns true if the ULP has been told the end of all its requests.
    pub(super) fn is_done(&self) -> bool {
        self.waiting.is_empty() && self.started.is_empty() && self.event.is_none()
    }

    fn status_of_first(&self) -> Option<Status> {
        self.started.front()?.status
    }

    fn complete(&mut self, status: Status) -> Option<RdmapEvent> {
        let Started { id, original, .. } = self.started.pop_front()?;
        self.first += 1;
        Some(RdmapEvent::Completed { id, status, original })
    }

    fn started_mut(&mut self, token: Token) -> Option<&mut Started> {
        // An RTR message is no request of the ULP, and its token is greater than those of all requests.
        self.started.get_mut(usize::try_from(token.0.checked_sub(self.first)?).ok()?)
    }
}

impl Side<'_> {
    /// Places a part of a Send, and delivers the Send with the last part.
    fn place_send(&mut self, offset: u32, payload: &[u8], last: Option<SendEnd>) -> Result<(), Error> {
        let Reach { memory, pd, stream } = self.reach;
        if let Some(stag) = last.and_then(|end| end.invalidate) {
            memory.check_invalidate(stag, pd, stream).map_err(|_| Error::CannotInvalidate)?;
        }
        self.requests.buffers.place(offset, payload)?;
        let Some(end) = last else { return Ok(()) };
        if let Some(stag) = end.invalidate {
            memory.invalidate(stag, pd, stream).map_err(|_| Error::CannotInvalidate)?;
        }
        let buffer = self.requests.buffers.deliver(end.len).ok_or(weft_ddp::Error::NoBuffer)?;
        let Buffer { id, octets } = buffer;
        self.requests.event = Some(RdmapEvent::Received {
            id,
            buffer: octets,
            solicited: end.opcode.is_solicited(),
            invalidated: end.invalidate,
        });
        Ok(())
    }

    /// Marks a request of this end as successful.
    fn succeed(&mut self, token: Token, original: Option<u64>) {
        if let Some(started) = self.requests.started_mut(token) {
            started.status = Some(Status::Success);
            started.original = original;
        }
    }
}

impl User for Side<'_> {
    fn is_sated(&self) -> bool {
        self.requests.event.is_some() || self.requests.status_of_first().is_some()
    }

    fn next_message(&mut self, readiness: Readiness) -> Result<Option<Message>, LocalFault> {
        let Some(request) = self.requests.waiting.front().filter(|_| readiness.idle) else { return Ok(None) };
        let fetches = matches!(request.kind, Kind::Read { .. } | Kind::Atomic { .. });
        if fetches && readiness.requests_free == 0 {
            return Ok(None);
        }
        let checked = request.source.check(self.reach);
        let Some(Request { id, kind, len, source }) = self.requests.waiting.pop_front() else {
            return Ok(None);
        };
        let token = Token(self.requests.first + self.requests.started.len() as u64);
        let status = checked.is_err().then_some(Status::LocalProtection);
        self.requests.started.push_back(Started { id, source, original: None, status });
        match status {
            None => Ok(Some(Message { token, len, kind })),
            Some(status) => Err(LocalFault(status)),
        }
    }

    fn fill(&mut self, body: &Body, payload: &mut Payload<'_>) -> Result<(), Refusal> {
        match body {
            // An RTR message is no request of the ULP, and has no octets.
            Body::Message { token, offset } if payload.left() > 0 => {
                let reach = self.reach;
                let started = self.requests.started_mut(*token).ok_or(Refusal::Local(Status::General))?;
                started.source.fill(reach, *offset, payload).map_err(|_| {
                    started.status = Some(Status::LocalProtection);
                    Refusal::Local(Status::LocalProtection)
                })
            }
            other => self.reach.fill_own(other, payload),
        }
    }

    fn finish(&mut self, token: Token) {
        self.succeed(token, None);
    }

    fn apply(&mut self, inbound: Inbound<'_>) -> Result<(), Refusal> {
        match inbound {
            Inbound::Send { offset, payload, last } => {
                self.place_send(offset, payload, last).map_err(Refusal::Peer)?;
            }
            Inbound::Write { stag, to, payload, .. } => {
                self.reach.write(stag, to, payload).map_err(Refusal::Peer)?;
            }
            Inbound::ReadRequest(request) => self.reach.check_read(&request).map_err(Refusal::Peer)?,
            Inbound::AtomicRequest(request) => self.reach.check_atomic(&request).map_err(Refusal::Peer)?,
            Inbound::ReadResponse { token, stag, to, payload, finished } => {
                if let Err(error) = self.reach.place_response(stag, to, payload) {
                    self.requests.fail(token, Status::LocalProtection);
                    return Err(Refusal::Peer(error));
                }
                if finished {
                    self.succeed(token, None);
                }
            }
            Inbound::AtomicResponse { token, original } => self.succeed(token, Some(original)),
            Inbound::Immediate { data, solicited } => {
                let no_buffer = Refusal::Peer(weft_ddp::Error::NoBuffer.into());
                let Buffer { id, octets } = self.requests.buffers.deliver(0).ok_or(no_buffer)?;
                self.requests.event =
                    Some(RdmapEvent::Immediate { id, buffer: octets, data: data.0, solicited });
            }
            // The stream handles a Terminate itself.
            Inbound::Terminate(_) => {}
        }
        Ok(())
    }

    fn count_sent(&mut self, _: &Header, _: usize, _: usize) {}

    fn count_fpdu(&mut self) {}

    fn count_received(&mut self, _: &Header, _: usize) {}
}
