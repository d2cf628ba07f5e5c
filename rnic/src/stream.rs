//! The spine: the one place where MPA, DDP, RDMAP and their user meet. The user of verbs is a queue pair.
//!
//! ```text
//! receive, pushed by arrived octets          transmit, pulled by free TCP space
//!   ulpdu   = mpa.next(octets)                 message = user.next_message()
//!   segment = ddp.accept(ulpdu)                segment = rdmap.poll_segment(max_ulpdu)
//!   inbound = rdmap.accept(segment)            ulpdu   = mpa.ulpdu_mut(out)
//!   user.apply(inbound)                        header.emit(ulpdu); user.fill(body, rest)
//!                                              mpa.seal(out)
//! ```

use core::ops::Range;

use weft_mpa::{Negotiated, RtrKind, Start};
use weft_rdmap::{
    Body, Endpoint, Inbound, MAX_UNCUT_ULPDU, Outbound, OutstandingRequest, PendingRequest, Terminate, Token,
};
use weft_verbs::{Payload, Refusal, Status};

use crate::failure::{Cause, Failure, Received};
use crate::stream::ahead::Ahead;
use crate::stream::parked::{Parked, Rdmap};
use crate::stream::placing::Placings;
use crate::stream::segments::{Fit, Segments};
use crate::stream::user::User;

mod ahead;
pub(crate) mod direct;
pub(crate) mod ending;
pub(crate) mod parked;
pub(crate) mod placing;
pub(crate) mod pump;
pub(crate) mod rtr;
pub(crate) mod segments;
pub(crate) mod short;
pub(crate) mod staging;
pub(crate) mod startup;
pub(crate) mod user;

/// One direction each of MPA, DDP and RDMAP, in Full Operation.
#[derive(Debug)]
pub(crate) struct Stream {
    /// MPA and DDP.
    segments: Segments,
    pub(crate) rdmap: Rdmap,
    /// A responder sends nothing before it has validated an FPDU of the initiator (RFC 5044 section 7.1.2).
    may_send: bool,
    parked: Parked,
    pub(crate) placings: Placings,
    ahead: Ahead,
    /// Octets that were taken off the stream.
    position: u64,
    /// What the first message of the peer may be; none after it has come.
    pub(crate) awaited: Option<rtr::First>,
}

impl Stream {
    /// The stream that startup has agreed on. An initiator that owes an RTR message has it queued already.
    pub(crate) fn new(negotiated: &Negotiated, initiator: bool, extensions: bool) -> Self {
        let reads = vec![OutstandingRequest::default(); usize::from(negotiated.ord)].into_boxed_slice();
        let answers = vec![PendingRequest::default(); usize::from(negotiated.ird)].into_boxed_slice();
        let queues = if extensions { ALL_QUEUES } else { ALL_QUEUES - 1 };
        let rdmap = Endpoint::new(reads, answers);
        let mut stream = Self {
            segments: Segments::new(negotiated, weft_ddp::Receiver::new(queues)),
            rdmap: if extensions { rdmap } else { rdmap.without_extensions() },
            may_send: initiator,
            parked: Parked::default(),
            placings: Placings::default(),
            ahead: Ahead::default(),
            position: 0,
            awaited: Some(rtr::First::of(negotiated.start)),
        };
        if let Start::SendRtr(kind) = negotiated.start {
            // A fresh endpoint is idle; only a Read without any ORD is refused, and negotiation does not choose that.
            stream.may_send = stream.rdmap.start(rtr::message(kind)).is_ok();
        }
        stream
    }

    /// Takes whole FPDUs off `octets`, places and completes, up to a Terminate or a message that has to wait.
    #[inline]
    pub(crate) fn receive(&mut self, octets: &mut &[u8], user: &mut impl User) -> Received {
        let before = octets.len();
        let received = self.take(octets, user);
        self.position += (before - octets.len()) as u64;
        received
    }

    /// Whether octets behind a gap are of use: some of their payload may be placed.
    pub(crate) const fn places_ahead(&self) -> bool {
        self.segments.locates() && self.awaited.is_none()
    }

    /// Places what can be placed of octets behind a gap, `distance` octets behind what [`Self::receive`] gets next. Adds
    /// the places of whole FPDUs whose payload is placed to `placed`.
    pub(crate) fn place_ahead(
        &mut self,
        (distance, octets): (usize, &[u8]),
        placed: &mut Vec<Range<usize>>,
        user: &impl User,
    ) {
        let position = self.position + distance as u64;
        let begins = self.ahead.begins(position);
        if let Some(locator) = self.segments.locate(position, octets, begins) {
            self.ahead.place((position, locator), &self.rdmap, placed, user);
        }
    }

    /// Takes the FPDU whose payload was placed, now that it is its turn. Answers its length: 0 if it has to wait.
    pub(crate) fn receive_placed(&mut self, user: &mut impl User) -> Result<usize, Failure> {
        if user.is_sated() || !self.parked.is_empty() {
            return Ok(0);
        }
        let len = self.ahead.take(self.position, &mut self.segments, &mut self.rdmap, user)?;
        self.position += len as u64;
        Ok(len)
    }

    #[inline(always)]
    fn take(&mut self, octets: &mut &[u8], user: &mut impl User) -> Received {
        while !user.is_sated()
            && self.parked.is_empty()
            && !(self.awaited.is_none()
                && self.placings.go_on(&self.segments, &mut self.rdmap, octets, user)?)
            && let Some(arrived) = self.segments.next(octets).map_err(Failure::mpa)?
        {
            let first = self.awaited.take();
            if !core::mem::replace(&mut self.may_send, true) {
                user.note_established();
            }
            let ulpdu = arrived.ulpdu;
            user.count_fpdu();
            let segment = arrived.segment().map_err(|error| Failure::peer(error.into(), Some(ulpdu)))?;
            user.count_received(&segment.header, segment.payload.len());
            if first != Some(rtr::First::MaybeRtr) && short::place(&segment, user) {
                continue;
            }
            let inbound = match self.rdmap.accept(segment) {
                Ok(Inbound::Terminate(terminate)) => return Ok(Some(terminate)),
                Ok(inbound) => inbound,
                Err(error) => return Err(Failure::unexpected(error, ulpdu)),
            };
            if first == Some(rtr::First::MaybeRtr) && rtr::is_send(&inbound) {
                continue;
            }
            if self.parked.keep(&inbound, ulpdu, user) {
                break;
            }
            user.apply(inbound).map_err(|refusal| Failure::refused(refusal, Some(ulpdu)))?;
        }
        Ok(None)
    }

    /// Goes on with a parked message if there is a receive request for it now.
    pub(crate) fn resume(&mut self, user: &mut impl User) -> Result<(), Failure> {
        self.parked.resume(&mut self.rdmap, user)
    }

    /// Whether [`Self::transmit`] may have something to do, for a user that has a request or none.
    pub(crate) fn has_output(&self, has_request: bool) -> bool {
        has_request || self.rdmap.has_output()
    }

    /// Builds the next FPDU in `out` and answers its length there, without what the user lends; 0 when there is
    /// nothing to send, or it does not go there by `fit`. `out` is to hold an FPDU of `mulpdu`; in a smaller one
    /// messages are cut into smaller segments.
    #[inline]
    pub(crate) fn transmit(
        &mut self,
        out: &mut [u8],
        (mulpdu, fit): (usize, Fit),
        user: &mut impl User,
    ) -> Result<usize, Failure> {
        if user.is_sated() {
            return Ok(0);
        }
        if !self.may_send {
            return user.carry_out_local().map(|()| 0).map_err(|fault| Failure::refused(fault.into(), None));
        }
        let max_ulpdu = mulpdu.min(self.segments.room(out.len()));
        if let Some(octets) = short::transmit(&mut self.rdmap, &mut self.segments, (out, max_ulpdu), user) {
            return Ok(octets);
        }
        let next = user.next_message(self.rdmap.readiness());
        if let Some(message) = next.map_err(|fault| Failure::refused(fault.into(), None))?
            && self.rdmap.start(message).is_err()
        {
            // The user goes by the readiness. So this is our own fault.
            return Err(Failure::local(Cause::Local(Status::General)));
        }
        let Some(fitting) = self.segments.fitting([mulpdu, max_ulpdu], fit, &self.rdmap) else {
            return Ok(0);
        };
        let Some(segment) = self.rdmap.poll_segment(fitting) else { return Ok(0) };
        let (octets, fpdu) = self.build(out, &segment, user)?;
        user.count_sent(&segment.header, segment.len, fpdu);
        if let Some(token) = segment.finished {
            user.finish(token);
        }
        Ok(octets)
    }

    /// Asks for an empty Write, which changes nothing, to a peer that has not been heard of, and says whether that is
    /// so. A message in progress serves as well.
    pub(crate) fn nudge(&mut self) -> bool {
        if self.awaited.is_none() {
            return false;
        }
        let _in_progress = self.rdmap.start(rtr::message(RtrKind::Write));
        true
    }

    /// The oldest Read or Atomic of ours that is not answered in full.
    pub(crate) fn oldest_request(&self) -> Option<Token> {
        self.rdmap.oldest_request()
    }

    /// Which request of ours the peer's Terminate complains about.
    pub(crate) fn culprit(&self, terminate: &Terminate) -> Option<Token> {
        self.rdmap.culprit(terminate)
    }

    /// The octets of TCP that the next FPDU may need, with segments of at most `mulpdu`.
    pub(crate) fn fpdu_room(&self, mulpdu: usize) -> usize {
        let terminating = self.rdmap.is_terminating();
        self.segments.fpdu_len(if terminating { mulpdu.min(MAX_UNCUT_ULPDU) } else { mulpdu })
    }

    /// MPA and DDP of this stream.
    pub(crate) const fn segments_mut(&mut self) -> &mut Segments {
        &mut self.segments
    }

    /// The same, to look at.
    pub(crate) const fn segments(&self) -> &Segments {
        &self.segments
    }

    /// Builds the FPDU of one segment in `out`, but for what the user lends of it. Answers its octets in `out`, and
    /// all.
    #[inline]
    fn build(
        &mut self,
        out: &mut [u8],
        segment: &Outbound,
        user: &mut impl User,
    ) -> Result<(usize, usize), Failure> {
        self.build_or_refuse(out, segment, user).map_err(|refusal| {
            // The peer is to blame for an answer that cannot be built, and gets its request back.
            if let (Refusal::Peer(error), Body::ReadResponse { .. } | Body::AtomicResponse(_)) =
                (refusal, &segment.body)
            {
                self.rdmap.fail_response(error);
            }
            Failure::refused(refusal, None)
        })
    }

    #[inline]
    fn build_or_refuse(
        &mut self,
        out: &mut [u8],
        segment: &Outbound,
        user: &mut impl User,
    ) -> Result<(usize, usize), Refusal> {
        if self.segments.is_plain() && user.lend(&segment.body, segment.len)? {
            let (head, octets) = self.segments.build_around(out, &segment.header, segment.len);
            user.send_lent_behind(head);
            return Ok((octets, octets + segment.len));
        }
        let fill = |payload: &mut Payload<'_>| user.fill(&segment.body, payload);
        self.segments.build(out, &segment.header, segment.len, fill).map(|octets| (octets, octets))
    }
}

/// Send, Read Request, Terminate and, with RFC 7306, Atomic Response.
const ALL_QUEUES: u32 = 4;
