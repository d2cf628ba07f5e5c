//! How a link does what its session wants.

use std::time::Duration;

use weft_exs_core::{Action, HEADER_LEN, Op, Outgoing, Place};
use weft_rnic::{Access, Data, SendOpcode, SendWr, Sge};

use super::{Link, Stage, Transfer};

impl Link {
    /// Does all that the session wants, as far as the send queue has room. The rest waits for completions.
    pub(crate) fn perform(&mut self, now: Duration) {
        loop {
            let has_room =
                self.stage == Stage::Open && self.posted.len() + BURST <= self.objects.send_entries();
            if let Some(action) = self.session.poll(has_room) {
                self.carry_out(action, now);
            } else if let Some(op) = self.refused.pop_front() {
                self.session.handle_done(op, false);
            } else {
                break;
            }
        }
        if let Stage::Draining(until) = self.stage
            && (self.posted.is_empty() || until <= now)
        {
            self.stage = Stage::Leaving;
            // If there is no connection any more, its end has been told, and waits to be taken.
            let _gone = self.objects.qp.disconnect();
        }
    }

    fn carry_out(&mut self, action: Action, now: Duration) {
        match action {
            Action::Recv { slot } => self.objects.post_slot(slot),
            Action::Bind { op } => {
                let bind = self.transfers.get_mut(&op).and_then(|Transfer { area, window, .. }| {
                    window.as_mut().map(|window| window.bind(area, 0, area.len, Access::REMOTE_READ))
                });
                self.post(bind, &[], Some(op));
            }
            Action::BindPart { op, at, len, stag } => {
                let bind = self.transfers.get_mut(&op).and_then(|Transfer { area, window, .. }| {
                    let window = window.as_mut()?;
                    debug_assert_eq!(window.stag(), stag, "both count the keys");
                    Some(window.bind(area, at, len, Access::REMOTE_WRITE))
                });
                self.post(bind, &[], None);
            }
            Action::Read { op, len, stag, to } => {
                let sge = self.element(op, 0, len);
                let read = sge.map(|_| SendOpcode::Read { stag, to });
                self.post(read, sge.as_slice(), Some(op));
            }
            Action::Gather { op, at, len } => {
                let sge = self.element(op, at, len);
                self.gathered.extend(sge);
            }
            Action::Write { stag, to, .. } => {
                let gathered = core::mem::take(&mut self.gathered);
                self.post(Some(SendOpcode::Write { stag, to }), &gathered, None);
                self.reuse(gathered);
            }
            Action::Send(outgoing) => self.send(&outgoing),
            Action::Copy { from, to, len } => self.copy(from, to, len),
            Action::Revoke { op } => {
                if let Some(window) = self.transfers.get(&op).and_then(|transfer| transfer.window.as_ref()) {
                    window.revoke(&self.objects.qp);
                }
            }
            Action::Complete { op, result } => self.complete(op, result.map_err(Into::into)),
            Action::End { abort, .. } => {
                if let (Stage::Open, Some(message)) = (self.stage, abort)
                    && self.posted.len() < self.objects.send_entries()
                {
                    self.send(&Outgoing { message, payload: None, invalidate: None, op: None });
                }
                if matches!(self.stage, Stage::Starting | Stage::Open) {
                    self.stage = Stage::Draining(now.saturating_add(DRAIN_PATIENCE));
                }
            }
            Action::Closed => {
                self.is_closed = true;
                let closing = core::mem::take(&mut self.closing);
                self.tell_closed(closing);
            }
        }
    }

    /// Sends a message with its immediate data, from a header of its own and the user's memory.
    fn send(&mut self, outgoing: &Outgoing) {
        let header = self.header * HEADER_LEN;
        // As many headers as entries: the one that is written over belongs to a request that has completed.
        self.header = (self.header + 1) % self.objects.send_entries();
        self.objects.headers.copy_in(header, &outgoing.message.encode());
        let mut sges = core::mem::take(&mut self.gathered);
        sges.insert(0, self.objects.headers.sge(header, HEADER));
        if let Some(op) = outgoing.payload {
            let len = self.transfers.get(&op).map_or(0, |transfer| transfer.area.len);
            sges.extend(self.element(op, 0, len).filter(|_| len > 0));
        }
        let opcode = match outgoing.invalidate {
            Some(stag) => SendOpcode::SendInvalidate { stag },
            None => SendOpcode::Send,
        };
        self.post(Some(opcode), &sges, outgoing.op);
        self.reuse(sges);
    }

    /// Posts a request of which the session hears by this operation.
    fn post(&mut self, opcode: Option<SendOpcode>, sges: &[Sge], told: Option<Op>) {
        let posted = opcode.is_some_and(|opcode| {
            let request = SendWr { data: Data::Sges(sges), ..SendWr::new(opcode) };
            self.objects.qp.post_send(&request).is_ok()
        });
        if posted {
            self.posted.push_back(told);
        } else {
            self.refused.extend(told);
        }
    }

    fn element(&self, op: Op, at: u32, len: u32) -> Option<Sge> {
        self.transfers.get(&op).map(|transfer| transfer.area.sge(at, len))
    }

    /// Keeps the memory of elements for the next request.
    fn reuse(&mut self, mut sges: Vec<Sge>) {
        sges.clear();
        self.gathered = sges;
    }

    /// Copies octets of this side. The session names places that exist, but memory of the caller's may be gone.
    fn copy(&mut self, from: Place, to: Place, len: u32) {
        let is_copied = match from {
            Place::Slot { slot, at } => {
                let at = self.objects.slot_at(slot) + HEADER_LEN + at as usize;
                let part = self.objects.slots.part(at..at + len as usize);
                part.is_some_and(|part| self.write(to, 0, &part))
            }
            Place::Ring { at } => self.copy_from_ring(at as usize, to, len as usize),
            // Nothing is copied from the user's memory.
            Place::Memory { .. } => false,
        };
        if let Place::Memory { op, .. } = to
            && !is_copied
            && let Some(transfer) = self.transfers.get_mut(&op)
        {
            transfer.has_faulted = true;
        }
    }

    /// Copies octets of the ring, which the peer may change meanwhile: no slice of it is made.
    fn copy_from_ring(&self, at: usize, to: Place, len: usize) -> bool {
        let Some(ring) = &self.objects.ring else { return false };
        let mut scratch = [0; SCRATCH];
        (0..len).step_by(SCRATCH).all(|done| {
            let octets = &mut scratch[..SCRATCH.min(len - done)];
            ring.read(at + done, octets).is_ok() && self.write(to, done, octets)
        })
    }

    fn write(&self, to: Place, done: usize, octets: &[u8]) -> bool {
        match to {
            Place::Memory { op, at } => self
                .transfers
                .get(&op)
                .is_some_and(|transfer| transfer.area.copy_in(at as usize + done, octets)),
            Place::Ring { at } => {
                let ring = self.objects.ring.as_ref();
                ring.is_some_and(|ring| ring.write(at as usize + done, octets).is_ok())
            }
            // A slot is written by the device alone.
            Place::Slot { .. } => false,
        }
    }
}

/// Entries of the send queue that have to be free before anything is begun.
const BURST: usize = 3;
/// How long a connection that ends waits for what was posted.
const DRAIN_PATIENCE: Duration = Duration::from_secs(1);
/// Octets that are copied at a time.
const SCRATCH: usize = 8 << 10;
#[expect(clippy::cast_possible_truncation, reason = "it is 32")]
const HEADER: u32 = HEADER_LEN as u32;
