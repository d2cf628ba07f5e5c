//! What an endpoint sends next.

use weft_ddp::{Cut, Header, Queue};

use crate::{
    Body, Endpoint, Opcode, Outbound, OutstandingRequest, PendingRequest,
    endpoint::{Ending, Own, Side},
};

impl<O, I> Endpoint<O, I>
where
    O: AsRef<[OutstandingRequest]> + AsMut<[OutstandingRequest]>,
    I: AsRef<[PendingRequest]> + AsMut<[PendingRequest]>,
{
    /// The next segment to send, of at most `max_ulpdu` octets with its header. None if there is nothing to
    /// send, or `max_ulpdu` is too small for it: one octet of payload behind the header, or the whole of a Read
    /// Request (46 octets) or Terminate (at most 70), which are not cut.
    ///
    /// A Terminate comes first. Own messages and answers to the peer's Reads take turns: at most 4 segments of
    /// one while the other waits. Only a Write and a Read Response wait for each other's end, because both
    /// are tagged, and peers such as Linux siw break the connection over two tagged messages in turns.
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

    fn next_side(&self) -> Option<Side> {
        let answer_begun = self.answer.as_ref().is_some_and(|answer| !answer.is_untouched());
        match (&self.own, self.pending.is_empty()) {
            (Own::Idle, true) => None,
            (Own::Idle, false) => Some(Side::Answer),
            (_, true) => Some(Side::Own),
            (own, false) if own.is_tagged() && own.is_begun() => Some(Side::Own),
            (own, false) if own.is_tagged() && answer_begun => Some(Side::Answer),
            (_, false) => Some(self.turn.next()),
        }
    }

    fn poll_terminate(&mut self, max_ulpdu: usize) -> Option<Outbound> {
        let Ending::Asked(terminate) = &self.ending else { return None };
        let octets = terminate.emit();
        let outbound = self.inline(Opcode::Terminate, Queue::Terminate, &octets, max_ulpdu)?;
        self.ending = Ending::Sent;
        Some(outbound)
    }

    fn poll_own(&mut self, max_ulpdu: usize) -> Option<Outbound> {
        match &mut self.own {
            Own::Idle => None,
            Own::Payload { token, cutter } => {
                let Cut { header, offset, len } = cutter.next(max_ulpdu)?;
                let token = *token;
                let finished = cutter.is_done().then_some(token);
                if finished.is_some() {
                    self.own = Own::Idle;
                }
                Some(Outbound { header, body: Body::Message { token, offset }, len, finished })
            }
            Own::Read { token, request } => {
                let (token, request) = (*token, *request);
                let outbound =
                    self.inline(Opcode::ReadRequest, Queue::ReadRequest, &request.emit(), max_ulpdu)?;
                let (stag, to, size) = (request.sink_stag, request.sink_to, request.size);
                // The slot was free when the Read started, and nobody else takes one.
                let Header::Untagged { msn, .. } = outbound.header else { return None };
                let read = OutstandingRequest { token, msn, stag, to, size, received: 0 };
                self.outstanding.push(read).ok()?;
                self.own = Own::Idle;
                Some(outbound)
            }
        }
    }

    fn poll_answer(&mut self, max_ulpdu: usize) -> Option<Outbound> {
        let read = self.pending.front_mut()?;
        let request = read.request;
        let control = Opcode::ReadResponse.control();
        let answer = self.answer.get_or_insert_with(|| {
            self.sender.tagged(control, request.sink_stag, request.sink_to, request.size)
        });
        let Cut { header, offset, len } = answer.next(max_ulpdu)?;
        self.answered = Some(PendingRequest { sent: offset, ..*read });
        read.sent = answer.offset();
        if answer.is_done() {
            self.answer = None;
            self.pending.pop();
        }
        let to = request.source_to.wrapping_add(u64::from(offset));
        let body = Body::ReadResponse { stag: request.source_stag, to };
        Some(Outbound { header, body, len, finished: None })
    }

    /// A message of RDMAP's own that fits one segment, or None if `max_ulpdu` would cut it.
    fn inline(&mut self, opcode: Opcode, queue: Queue, octets: &[u8], max_ulpdu: usize) -> Option<Outbound> {
        if max_ulpdu < Header::UNTAGGED_LEN + octets.len() {
            return None;
        }
        let len = u32::try_from(octets.len()).ok()?;
        let Cut { header, len, .. } =
            self.sender.untagged(opcode.control(), 0, queue, len).next(max_ulpdu)?;
        let body = Body::Inline(octets.iter().copied().collect());
        Some(Outbound { header, body, len, finished: None })
    }
}
