//! The next segment that an endpoint sends.

use weft_ddp::{Cut, Header, Queue};

use crate::{
    Asked, AtomicResponse, Body, Endpoint, Kind, Message, Opcode, Outbound, OutstandingRequest,
    PendingRequest, ReadRequest, Token,
    endpoint::{Ending, Own, Side, Trailer},
    outstanding::{Expected, Sink},
};

impl<O, I> Endpoint<O, I>
where
    O: AsRef<[OutstandingRequest]> + AsMut<[OutstandingRequest]>,
    I: AsRef<[PendingRequest]> + AsMut<[PendingRequest]>,
{
    /// Returns the next segment to send, of at most `max_ulpdu` octets with its header.
    ///
    /// Returns `None` if there is no segment to send, or `max_ulpdu` is too small. A message that may be cut needs
    /// one octet of payload behind the header. The others need room for the whole message: Read Request (46 octets),
    /// Atomic Request (70) and Response (30), Immediate Data (26), Terminate (at most 70).
    ///
    /// A Terminate comes first. Own messages and answers to the peer's Reads and Atomics take turns: at most 4
    /// segments of one while the other waits. Only a Write and a Read Response wait for each other's end. Both are
    /// tagged, and peers such as Linux siw break the connection over two tagged messages in turns.
    pub fn poll_segment(&mut self, max_ulpdu: usize) -> Option<Outbound> {
        match self.ending {
            Ending::Open => {}
            Ending::Asked(_) => return self.poll_terminate(max_ulpdu),
            Ending::Sent => return None,
        }
        let side = self.next_side()?;
        let outbound = match side {
            Side::Own => self.poll_own(max_ulpdu),
            Side::Answer => self.poll_answer(max_ulpdu),
        }?;
        self.turn.count(side);
        Some(outbound)
    }

    /// Returns the octets of payload that are left of the message whose segment comes next. Returns 0 for a message
    /// that is never cut, and if there is no message.
    pub fn left(&self) -> u32 {
        let side = matches!(self.ending, Ending::Open).then(|| self.next_side()).flatten();
        match (side, &self.own, self.pending.front()) {
            (Some(Side::Own), Own::Payload { cutter, .. }, _) => cutter.remaining(),
            (Some(Side::Answer), _, Some(PendingRequest { asked: Asked::Read(request), sent, .. })) => {
                request.size - sent
            }
            _ => 0,
        }
    }

    /// Returns the only segment of a Send or Write that fits into one segment, if no other message waits. This is
    /// [`start`](Self::start) and [`poll_segment`](Self::poll_segment) in one call, without a message in progress.
    /// Returns `None`, without any effect, in all other cases.
    #[inline]
    pub fn whole_message(&mut self, message: &Message, max_ulpdu: usize) -> Option<Outbound> {
        if !matches!((&self.own, &self.ending), (Own::Idle, Ending::Open)) || !self.pending.is_empty() {
            return None;
        }
        let Message { token, len, ref kind } = *message;
        let fits = |header: usize| max_ulpdu.checked_sub(header).is_some_and(|room| len as usize <= room);
        let control = kind.opcode().control();
        let mut cutter = match *kind {
            Kind::Send { invalidate, .. } if fits(Header::UNTAGGED_LEN) => {
                let word = invalidate.map_or(0, |stag| stag.0);
                self.sender.untagged(control, word, Queue::Send, len)
            }
            Kind::Write { stag, to } if fits(Header::TAGGED_LEN) => {
                self.sender.tagged(control, stag, to, len)
            }
            _ => return None,
        };
        let Cut { header, offset, len } = cutter.next(max_ulpdu)?;
        self.turn.count(Side::Own);
        Some(Outbound { header, body: Body::Message { token, offset }, len, finished: Some(token) })
    }

    #[inline]
    fn next_side(&self) -> Option<Side> {
        let answer_begun = self.answer.as_ref().is_some_and(|answer| !answer.is_untouched());
        match (&self.own, self.pending.front().map(|request| request.asked)) {
            (Own::Idle, None) => None,
            (Own::Idle, Some(_)) => Some(Side::Answer),
            (_, None) => Some(Side::Own),
            (own, Some(_)) if own.is_between() => Some(Side::Own),
            (own, Some(Asked::Read(_))) if own.is_tagged() && own.is_begun() => Some(Side::Own),
            (own, Some(Asked::Read(_))) if own.is_tagged() && answer_begun => Some(Side::Answer),
            (_, Some(_)) => Some(self.turn.next()),
        }
    }

    fn poll_terminate(&mut self, max_ulpdu: usize) -> Option<Outbound> {
        let Ending::Asked(terminate) = &self.ending else { return None };
        let octets = terminate.emit();
        let outbound = self.inline(Opcode::Terminate.control(), Queue::Terminate, &octets, max_ulpdu)?;
        self.ending = Ending::Sent;
        Some(outbound)
    }

    fn poll_own(&mut self, max_ulpdu: usize) -> Option<Outbound> {
        match &mut self.own {
            Own::Idle => None,
            Own::Payload { token, cutter, behind: Some(immediate) } if cutter.is_done() => {
                let (token, immediate) = (*token, *immediate);
                self.poll_immediate(token, immediate, max_ulpdu)
            }
            Own::Payload { token, cutter, behind } => {
                let Cut { header, offset, len } = cutter.next(max_ulpdu)?;
                let token = *token;
                let finished = (cutter.is_done() && behind.is_none()).then_some(token);
                if finished.is_some() {
                    self.own = Own::Idle;
                }
                Some(Outbound { header, body: Body::Message { token, offset }, len, finished })
            }
            Own::Immediate { token, immediate } => {
                let (token, immediate) = (*token, *immediate);
                self.poll_immediate(token, immediate, max_ulpdu)
            }
            Own::Request { token, asked } => {
                let (token, asked) = (*token, *asked);
                let (outbound, expected) = match asked {
                    Asked::Read(request) => {
                        let ReadRequest { sink_stag: stag, sink_to: to, size, .. } = request;
                        let control = Opcode::ReadRequest.control();
                        let outbound =
                            self.inline(control, Queue::ReadRequest, &request.emit(), max_ulpdu)?;
                        (outbound, Expected::Read(Sink { stag, to, size, received: 0 }))
                    }
                    Asked::Atomic(request) => {
                        let control = Opcode::AtomicRequest.control();
                        let outbound =
                            self.inline(control, Queue::ReadRequest, &request.emit(), max_ulpdu)?;
                        (outbound, Expected::Atomic(request.id))
                    }
                };
                // The slot was free when the request started, and no other request can take it.
                let Header::Untagged { msn, .. } = outbound.header else { return None };
                self.outstanding.push(OutstandingRequest { token, msn, expected }).ok()?;
                self.own = Own::Idle;
                Some(outbound)
            }
        }
    }

    fn poll_immediate(&mut self, token: Token, immediate: Trailer, max_ulpdu: usize) -> Option<Outbound> {
        let octets = immediate.data.emit();
        let outbound = self.inline(immediate.control, Queue::Send, &octets, max_ulpdu)?;
        self.own = Own::Idle;
        Some(Outbound { finished: Some(token), ..outbound })
    }

    fn poll_answer(&mut self, max_ulpdu: usize) -> Option<Outbound> {
        match self.pending.front()?.asked {
            Asked::Read(request) => self.poll_read_response(&request, max_ulpdu),
            Asked::Atomic(request) => {
                let len = AtomicResponse::LEN;
                let control = Opcode::AtomicResponse.control();
                let header = self.whole(control, Queue::AtomicResponse, len, max_ulpdu)?;
                self.answered = self.pending.front().copied();
                self.pending.pop();
                Some(Outbound { header, body: Body::AtomicResponse(request), len, finished: None })
            }
        }
    }

    fn poll_read_response(&mut self, request: &ReadRequest, max_ulpdu: usize) -> Option<Outbound> {
        let read = self.pending.front_mut()?;
        let control = Opcode::ReadResponse.control();
        let answer = self.answer.get_or_insert_with(|| {
            self.sender.tagged(control, request.sink_stag, request.sink_to, request.size)
        });
        let Cut { header, offset, len } = answer.next(max_ulpdu)?;
        self.answered = Some(*read);
        read.sent = answer.offset();
        if answer.is_done() {
            self.answer = None;
            self.pending.pop();
        }
        let to = request.source_to.wrapping_add(u64::from(offset));
        let body = Body::ReadResponse { stag: request.source_stag, to };
        Some(Outbound { header, body, len, finished: None })
    }

    /// Returns a message of RDMAP's own that fits one segment, or `None` if `max_ulpdu` would cut it.
    fn inline(&mut self, control: u8, queue: Queue, octets: &[u8], max_ulpdu: usize) -> Option<Outbound> {
        let header = self.whole(control, queue, octets.len(), max_ulpdu)?;
        let body = Body::Inline(octets.iter().copied().collect());
        Some(Outbound { header, body, len: octets.len(), finished: None })
    }

    /// Returns the header of an untagged message of one segment, or `None` if `max_ulpdu` would cut it.
    fn whole(&mut self, control: u8, queue: Queue, len: usize, max_ulpdu: usize) -> Option<Header> {
        if max_ulpdu < Header::UNTAGGED_LEN + len {
            return None;
        }
        let cut = self.sender.untagged(control, 0, queue, u32::try_from(len).ok()?).next(max_ulpdu)?;
        Some(cut.header)
    }
}
