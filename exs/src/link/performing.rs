//! How a link does what its session wants.

use std::time::Duration;

use weft_exs_core::{Action, HEADER_LEN, Op, Outgoing, Place};
use weft_rnic::{Access, SendOpcode};

use super::calls::{Calls, Transfer};
use super::rdma::{Rdma, Stage};

impl Rdma {
    /// Does all that the session wants, as far as the send queue has room. The rest waits for completions.
    pub(super) fn perform(&mut self, calls: &mut Calls, now: Duration) {
        loop {
            let has_room =
                self.stage == Stage::Open && self.requests.len() + BURST <= self.objects.send_entries();
            if let Some(action) = self.session.poll(has_room) {
                self.carry_out(action, calls, now);
                continue;
            }
            self.requests.post(&self.objects.qp);
            let Some(op) = self.requests.take_refused() else { break };
            self.session.handle_done(op, false);
        }
        if let Stage::Draining(until) = self.stage {
            self.requests.seal();
            self.requests.post(&self.objects.qp);
            if self.requests.len() == 0 || until <= now {
                self.stage = Stage::Leaving;
                // If there is no connection any more, its end has been told, and waits to be taken.
                let _gone = self.objects.qp.disconnect();
            }
        }
    }

    fn carry_out(&mut self, action: Action, calls: &mut Calls, now: Duration) {
        match action {
            Action::Recv { slot } => self.objects.post_slot(slot),
            Action::Bind { op } => {
                let bind = calls.transfers.get_mut(&op).and_then(|Transfer { area, window, .. }| {
                    window.as_mut().map(|window| window.bind(area, 0, area.len, Access::REMOTE_READ))
                });
                // The message follows, and tells of both.
                self.request(bind, Some(op), false);
            }
            Action::BindPart { op, at, len, stag } => {
                let bind = calls.transfers.get_mut(&op).and_then(|Transfer { area, window, .. }| {
                    let window = window.as_mut()?;
                    debug_assert_eq!(window.stag(), stag, "both count the keys");
                    Some(window.bind(area, at, len, Access::REMOTE_WRITE))
                });
                self.request(bind, None, false);
            }
            Action::Read { op, len, stag, to } => {
                self.gather(op, (0, len), calls);
                self.request(Some(SendOpcode::Read { stag, to }), Some(op), true);
            }
            Action::Gather { op, at, len } => self.gather(op, (at, len), calls),
            Action::Write { stag, to, .. } => self.request(Some(SendOpcode::Write { stag, to }), None, false),
            Action::Send(outgoing) => self.send(&outgoing, calls),
            Action::Copy { from, to, len } => self.copy(from, to, len, calls),
            Action::Revoke { op } => {
                // It takes a Bind with it that waits in the send queue, but none that is not there yet.
                self.requests.post(&self.objects.qp);
                if let Some(window) = calls.transfers.get(&op).and_then(|transfer| transfer.window.as_ref()) {
                    window.revoke(&self.objects.qp);
                }
            }
            Action::Complete { op, result } => self.complete(op, result.map_err(Into::into), calls),
            Action::End { abort, .. } => {
                if let (Stage::Open, Some(message)) = (self.stage, abort)
                    && self.requests.len() < self.objects.send_entries()
                {
                    self.send(&Outgoing { message, payload: None, invalidate: None, op: None }, calls);
                }
                if matches!(self.stage, Stage::Starting | Stage::Open) {
                    // A clean end gives the last message as much time as the close had.
                    let linger = if abort.is_none() { calls.options.linger } else { DRAIN_PATIENCE };
                    self.stage = Stage::Draining(now.saturating_add(linger.max(DRAIN_PATIENCE)));
                }
            }
            Action::Closed => calls.tell_closed(self.session.closed().map_err(Into::into)),
        }
    }

    /// Sends a message with its immediate data, from a header of its own and the user's memory.
    fn send(&mut self, outgoing: &Outgoing, calls: &Calls) {
        let header = self.header * HEADER_LEN;
        // As many headers as entries: the one that is written over belongs to a request that has completed.
        self.header = (self.header + 1) % self.objects.send_entries();
        self.objects.headers.copy_in(header, &outgoing.message.encode());
        self.requests.gather_first(self.objects.headers.sge(header, HEADER));
        if let Some(op) = outgoing.payload {
            let len = calls.transfers.get(&op).map_or(0, |transfer| transfer.area.len);
            self.gather(op, (0, len), calls);
        }
        let opcode = match outgoing.invalidate {
            Some(stag) => SendOpcode::SendInvalidate { stag },
            None => SendOpcode::Send,
        };
        self.request(Some(opcode), outgoing.op, outgoing.op.is_some());
    }

    /// Ends the request that is made. The session hears of it by this operation.
    fn request(&mut self, opcode: Option<SendOpcode>, told: Option<Op>, is_signaled: bool) {
        match opcode {
            Some(opcode) => self.requests.end(opcode, told, is_signaled),
            None => self.requests.refuse(told),
        }
    }

    /// Adds octets of an operation to the request that is made.
    fn gather(&mut self, op: Op, (at, len): (u32, u32), calls: &Calls) {
        if let Some(transfer) = calls.transfers.get(&op) {
            self.requests.gather(transfer.area.elements(at, len));
        }
    }

    /// Copies octets of this side. The session names places that exist, but memory of the caller's may be gone.
    fn copy(&self, from: Place, to: Place, len: u32, calls: &mut Calls) {
        let is_copied = match from {
            Place::Slot { slot, at } => {
                let at = self.objects.slot_at(slot) + HEADER_LEN + at as usize;
                let part = self.objects.slots.part(at..at + len as usize);
                part.is_some_and(|part| self.write((to, 0), &part, calls))
            }
            Place::Ring { at } => self.copy_from_ring(at as usize, to, len as usize, calls),
            // Nothing is copied from the user's memory.
            Place::Memory { .. } => false,
        };
        if let Place::Memory { op, .. } = to
            && !is_copied
        {
            calls.fault(op);
        }
    }

    /// Copies octets of the ring, which the peer may change meanwhile: no slice of it is made.
    fn copy_from_ring(&self, at: usize, to: Place, len: usize, calls: &Calls) -> bool {
        let Some(ring) = &self.objects.ring else { return false };
        let mut scratch = [0; SCRATCH];
        (0..len).step_by(SCRATCH).all(|done| {
            let octets = &mut scratch[..SCRATCH.min(len - done)];
            ring.read(at + done, octets).is_ok() && self.write((to, done), octets, calls)
        })
    }

    fn write(&self, (to, done): (Place, usize), octets: &[u8], calls: &Calls) -> bool {
        match to {
            Place::Memory { op, at } => calls
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
/// How long a connection that ends for a fault waits for what was posted.
const DRAIN_PATIENCE: Duration = Duration::from_secs(1);
/// Octets that are copied at a time.
const SCRATCH: usize = 8 << 10;
#[expect(clippy::cast_possible_truncation, reason = "it is 32")]
const HEADER: u32 = HEADER_LEN as u32;
