//! One end: a session of a stream, and the device that does what the session wants.

use std::collections::{BTreeMap, VecDeque};

use weft_ddp::Stag;
use weft_exs_core::{
    Action, Cause, HEADER_LEN, Loss, Op, OpError, Outcome, Outgoing, Place, RecvRequest, Role, SendRequest,
    Session, Terms,
};

/// What is on the way from one device to the other, in order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Packet {
    Write { stag: Stag, to: u64, octets: Vec<u8> },
    Send(Vec<u8>),
    Fin,
}

/// One end.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Device {
    pub(crate) session: Session,
    /// Slots in the receive queue.
    posted: VecDeque<u16>,
    /// What slots hold since their last message.
    slots: BTreeMap<u16, Vec<u8>>,
    ring: Vec<u8>,
    /// Memory of operations under way.
    memory: BTreeMap<Op, Vec<u8>>,
    /// Windows in use, by their STags: the operation, the first octet, and how many.
    windows: BTreeMap<u32, (Op, u32, u32)>,
    /// What the next request takes.
    gathered: Vec<u8>,
    /// Completions of Sends of which the session has not been told.
    pub(crate) done: VecDeque<(Op, bool)>,
    pub(crate) ended: Option<Cause>,
    pub(crate) is_closed: bool,
}

/// An operation has completed.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) op: Op,
    pub(crate) result: Result<Outcome, OpError>,
    pub(crate) octets: Vec<u8>,
}

impl Device {
    pub(crate) fn new(role: Role, terms: &Terms) -> Self {
        Self {
            session: Session::new(role, terms),
            posted: VecDeque::new(),
            slots: BTreeMap::new(),
            ring: vec![BLANK; terms.ring as usize],
            memory: BTreeMap::new(),
            windows: BTreeMap::new(),
            gathered: Vec::new(),
            done: VecDeque::new(),
            ended: None,
            is_closed: false,
        }
    }

    /// Starts a send of these octets. Returns whether the session takes it.
    pub(crate) fn send(&mut self, op: Op, octets: Vec<u8>) -> bool {
        let len = u32::try_from(octets.len()).unwrap();
        self.memory.insert(op, octets);
        let request = SendRequest { op, len, elements: 1, stag: Stag(0), to: 0, deadline: None };
        self.session.send(request).inspect_err(|_| _ = self.memory.remove(&op)).is_ok()
    }

    /// Starts a receive. Returns whether the session takes it.
    pub(crate) fn receive(&mut self, op: Op, len: u32, waits_for_all: bool) -> bool {
        self.memory.insert(op, vec![BLANK; len as usize]);
        let stag = Stag(u32::try_from(op.0 + 1).unwrap() << 8);
        let request =
            RecvRequest { op, len, is_in_place: false, waits_for_all, stag, to: BASE, deadline: None };
        self.session.receive(request).inspect_err(|_| _ = self.memory.remove(&op)).is_ok()
    }

    /// Does one action. Returns the operation that has completed by it.
    pub(crate) fn perform(
        &mut self,
        action: Action,
        wire: &mut VecDeque<Packet>,
    ) -> Result<Option<Event>, &'static str> {
        match action {
            Action::Recv { slot } => {
                self.slots.remove(&slot);
                self.posted.push_back(slot);
            }
            Action::BindPart { op, at, len, stag } => {
                let is_there = self.memory.get(&op).is_some_and(|memory| memory.len() == (at + len) as usize);
                let is_bound = self.windows.values().any(|(one, ..)| *one == op);
                if !is_there || is_bound || self.windows.insert(stag.0, (op, at, len)).is_some() {
                    return Err("a window is bound to what it must not be");
                }
            }
            Action::Gather { op, at, len } => {
                let memory = self.memory.get(&op).ok_or("a request gathers memory that is not there")?;
                self.gathered.extend(&memory[at as usize..][..len as usize]);
            }
            Action::Write { stag, to, len } => {
                let octets = std::mem::take(&mut self.gathered);
                if octets.len() != len as usize {
                    return Err("a Write gathers something else");
                }
                wire.push_back(Packet::Write { stag, to, octets });
            }
            Action::Send(Outgoing { message, payload: None, invalidate: None, op }) => {
                if message.payload_len() as usize != self.gathered.len() {
                    return Err("a Send gathers something else");
                }
                let mut octets = message.encode().to_vec();
                octets.append(&mut self.gathered);
                wire.push_back(Packet::Send(octets));
                self.done.extend(op.map(|op| (op, true)));
            }
            Action::Copy { from, to, len } => (0..len).try_for_each(|octet| self.copy(from, to, octet))?,
            Action::Revoke { op } => self.windows.retain(|_, (one, ..)| *one != op),
            Action::Complete { op, result } => {
                let octets = self.memory.remove(&op).ok_or("no such operation, or completed twice")?;
                let is_bound = self.windows.values().any(|(one, ..)| *one == op);
                if is_bound || self.done.iter().any(|(one, _)| *one == op) {
                    return Err("the device can still reach the memory of an operation that has completed");
                }
                return Ok(Some(Event { op, result, octets }));
            }
            Action::End { cause, abort } => {
                wire.extend(abort.map(|message| Packet::Send(message.encode().to_vec())));
                wire.push_back(Packet::Fin);
                // A clean close comes behind what is posted.
                self.done.iter_mut().for_each(|(_, ok)| *ok = cause == Cause::Closed);
                if self.ended.replace(cause).is_some() {
                    return Err("a connection ends twice");
                }
            }
            Action::Closed if !self.is_closed => self.is_closed = true,
            _ => return Err("the action makes no sense"),
        }
        Ok(None)
    }

    /// Takes what has come from the wire.
    pub(crate) fn take(&mut self, packet: Packet) -> Result<(), &'static str> {
        match packet {
            // The connection is gone, for this side.
            _ if self.ended.is_some() => {}
            Packet::Write { stag: RING, to, octets } => {
                for (at, octet) in (to - BASE..).zip(octets) {
                    let place = Place::Ring { at: u32::try_from(at).unwrap() };
                    self.place(place, octet)?;
                }
            }
            Packet::Write { stag, to, octets } => {
                let &(op, at, len) = self.windows.get(&stag.0).ok_or("a Write comes to no window")?;
                let first = u32::try_from(to - BASE).unwrap();
                if first < at || first as usize + octets.len() > (at + len) as usize {
                    return Err("a Write is beyond its window");
                }
                (first..)
                    .zip(octets)
                    .try_for_each(|(at, octet)| self.place(Place::Memory { op, at }, octet))?;
            }
            Packet::Send(octets) => {
                let slot = self.posted.pop_front().ok_or("no receive is posted")?;
                self.session.handle_message(slot, &octets, None);
                self.slots.insert(slot, octets);
            }
            Packet::Fin => {
                for (op, ok) in self.done.split_off(0) {
                    self.session.handle_done(op, ok);
                }
                self.session.handle_loss(Loss::Fin);
            }
        }
        Ok(())
    }

    fn copy(&mut self, from: Place, to: Place, octet: u32) -> Result<(), &'static str> {
        let value = match from {
            Place::Slot { slot, at } => {
                let octets = self.slots.get(&slot).ok_or("the slot is empty")?;
                *octets.get(HEADER_LEN + (at + octet) as usize).ok_or("the slot has less")?
            }
            Place::Ring { at } => std::mem::replace(&mut self.ring[(at + octet) as usize], BLANK),
            Place::Memory { .. } => BLANK,
        };
        if value == BLANK {
            return Err("octets are copied that are not there");
        }
        let place = match to {
            Place::Ring { at } => Place::Ring { at: at + octet },
            Place::Memory { op, at } => Place::Memory { op, at: at + octet },
            Place::Slot { .. } => return Err("octets are copied into a slot"),
        };
        self.place(place, value)
    }

    fn place(&mut self, place: Place, value: u8) -> Result<(), &'static str> {
        let octet = match place {
            Place::Ring { at } => self.ring.get_mut(at as usize),
            Place::Memory { op, at } => {
                self.memory.get_mut(&op).and_then(|memory| memory.get_mut(at as usize))
            }
            Place::Slot { .. } => None,
        };
        let before = octet.map(|octet| std::mem::replace(octet, value));
        if before == Some(BLANK) {
            Ok(())
        } else {
            Err("octets are overwritten, or there is no place for them")
        }
    }
}

pub(crate) const BLANK: u8 = 0xFF;
pub(crate) const RING: Stag = Stag(1);
/// The first tagged offset of rings and windows.
pub(crate) const BASE: u64 = 0x1000;
