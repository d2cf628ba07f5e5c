//! One end of a world: a session, and the device that does what the session wants.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use weft_exs_core::{
    Action, Cause, HEADER_LEN, Mode, Op, Outgoing, Place, RecvRequest, SendRequest, Session,
};
use weft_exs_core::{Role, Terms};

use super::model::{Event, Messages};

/// What is on the way from one device to the other, in order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Packet {
    Send { octets: Vec<u8>, invalidate: Option<u32> },
    ReadRequest { op: Op, len: u32, stag: u32, to: u64 },
    ReadResponse { op: Op, octets: Vec<u8> },
    Fin,
}

/// One end.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Device {
    pub(crate) session: Session,
    /// Slots in the receive queue.
    posted: BTreeSet<u16>,
    /// What slots hold since their last message.
    pub(crate) slots: BTreeMap<u16, Vec<u8>>,
    /// Memory of operations under way.
    memory: BTreeMap<Op, Vec<u8>>,
    /// Windows in use, by their STags.
    windows: BTreeMap<u32, Op>,
    /// Completions that the session has not been told of.
    pub(crate) done: VecDeque<(Op, bool)>,
    /// Reads that wait for the peer.
    reads: Vec<Op>,
    /// Slots that the user has in place.
    pub(crate) held: BTreeSet<u16>,
    pub(crate) ended: Option<Cause>,
    pub(crate) is_closed: bool,
}

impl Device {
    pub(crate) fn new(role: Role, terms: &Terms) -> Self {
        Self {
            session: Session::new(role, terms),
            posted: BTreeSet::new(),
            slots: BTreeMap::new(),
            memory: BTreeMap::new(),
            windows: BTreeMap::new(),
            done: VecDeque::new(),
            reads: Vec::new(),
            held: BTreeSet::new(),
            ended: None,
            is_closed: false,
        }
    }

    /// Starts a send of these octets. Returns whether the session takes it.
    pub(crate) fn send(&mut self, op: Op, octets: Vec<u8>) -> bool {
        let len = u32::try_from(octets.len()).unwrap();
        let request = SendRequest { op, len, elements: 1, stag: stag(op), to: BASE, deadline: None };
        self.memory.insert(op, octets);
        self.session.send(request).inspect_err(|_| _ = self.memory.remove(&op)).is_ok()
    }

    /// Starts a receive. Returns whether the session takes it.
    pub(crate) fn receive(&mut self, op: Op, len: u32, is_in_place: bool) -> bool {
        self.memory.insert(op, Vec::new());
        let request = RecvRequest {
            op,
            len,
            is_in_place,
            waits_for_all: false,
            stag: weft_ddp::Stag(0),
            to: 0,
            deadline: None,
        };
        self.session.receive(request).inspect_err(|_| _ = self.memory.remove(&op)).is_ok()
    }

    /// Does one action.
    pub(crate) fn perform(
        &mut self,
        action: Action,
        wire: &mut VecDeque<Packet>,
        messages: &mut Messages,
    ) -> Result<(), &'static str> {
        let is_new = match action {
            Action::Recv { slot } => {
                self.slots.remove(&slot);
                self.posted.insert(slot) && !self.held.contains(&slot)
            }
            Action::Bind { op } => {
                self.done.push_back((op, true));
                self.windows.insert(stag(op).0, op).is_none()
            }
            Action::Send(outgoing) => {
                let packet = self.packet(outgoing)?;
                wire.push_back(packet);
                self.done.extend(outgoing.op.map(|op| (op, true)));
                true
            }
            Action::Read { op, len, stag, to } => {
                wire.push_back(Packet::ReadRequest { op, len, stag: stag.0, to });
                self.reads.push(op);
                self.memory.contains_key(&op)
            }
            Action::Copy { from: Place::Slot { slot, at: 0 }, to: Place::Memory { op, at: 0 }, len } => {
                let octets = self.slots.remove(&slot).ok_or("nothing is in that slot")?;
                let octets =
                    octets.get(HEADER_LEN..HEADER_LEN + len as usize).ok_or("the slot has less")?.to_vec();
                self.memory.insert(op, octets).is_some()
            }
            Action::Revoke { op } => self.windows.remove(&stag(op).0).is_some(),
            Action::Complete { op, result } => {
                let mut octets = self.memory.remove(&op).ok_or("no such operation, or completed twice")?;
                let is_posted = self.done.iter().any(|(one, _)| *one == op) || self.reads.contains(&op);
                if is_posted || self.windows.contains_key(&stag(op).0) {
                    return Err("the device can still reach the memory of an operation that has completed");
                }
                if let Ok(outcome) = result
                    && let Mode::InPlace { slot } = outcome.mode
                {
                    octets = self
                        .slots
                        .get(&slot)
                        .and_then(|octets| octets.get(HEADER_LEN..))
                        .unwrap_or(&[])
                        .to_vec();
                    self.held.insert(slot);
                }
                messages.handle(&Event { op, result, octets, cause: self.ended })?;
                true
            }
            Action::End { cause, abort } => {
                let octets = abort.map(|message| message.encode().to_vec());
                wire.extend(octets.map(|octets| Packet::Send { octets, invalidate: None }));
                wire.push_back(Packet::Fin);
                self.flush();
                self.ended.replace(cause).is_none()
            }
            Action::BindPart { .. } | Action::Gather { .. } | Action::Write { .. } | Action::Copy { .. } => {
                false
            }
            Action::Closed => !std::mem::replace(&mut self.is_closed, true),
        };
        if is_new { Ok(()) } else { Err("the action makes no sense") }
    }

    /// Takes what has come from the wire.
    pub(crate) fn take(&mut self, packet: Packet, wire: &mut VecDeque<Packet>) -> Result<(), &'static str> {
        match packet {
            // The connection is gone, for this side.
            _ if self.ended.is_some() => {}
            Packet::Send { octets, invalidate } => {
                let slot = self.posted.pop_first().ok_or("no receive is posted")?;
                if invalidate.is_some_and(|stag| self.windows.remove(&stag).is_none()) {
                    return Err("the STag cannot be invalidated");
                }
                self.slots.insert(slot, octets.clone());
                self.session.handle_message(slot, &octets, invalidate.map(weft_ddp::Stag));
            }
            Packet::ReadRequest { op, len, stag, to } => {
                let source = self.windows.get(&stag).ok_or("a Read comes too late")?;
                let source = self.memory.get(source).ok_or("the memory is gone")?;
                let octets =
                    source.get(..len as usize).filter(|_| to == BASE).ok_or("out of bounds")?.to_vec();
                wire.push_back(Packet::ReadResponse { op, octets });
            }
            Packet::ReadResponse { op, octets } => {
                self.reads.retain(|one| *one != op);
                self.memory.insert(op, octets).ok_or("the memory is gone")?;
                self.done.push_back((op, true));
            }
            Packet::Fin => {
                self.flush();
                for (op, ok) in self.done.split_off(0) {
                    self.session.handle_done(op, ok);
                }
                self.session.handle_loss(weft_exs_core::Loss::Fin);
            }
        }
        Ok(())
    }

    /// Returns whether no operation is under way, and nothing is left of one.
    pub(crate) fn is_idle(&self) -> bool {
        self.memory.is_empty() && self.done.is_empty() && self.held.is_empty() && self.session.is_idle()
    }

    fn packet(
        &self,
        Outgoing { message, payload, invalidate, .. }: Outgoing,
    ) -> Result<Packet, &'static str> {
        let mut octets = message.encode().to_vec();
        if let Some(op) = payload {
            octets.extend(self.memory.get(&op).ok_or("no such operation")?);
        }
        Ok(Packet::Send { octets, invalidate: invalidate.map(|stag| stag.0) })
    }

    fn flush(&mut self) {
        self.done.extend(self.reads.drain(..).map(|op| (op, false)));
    }
}

/// The STag of the window of an operation.
fn stag(op: Op) -> weft_ddp::Stag {
    weft_ddp::Stag(u32::try_from(op.0).unwrap() + 100)
}

/// The tagged offset of the first octet of each window.
const BASE: u64 = 0x1000;
