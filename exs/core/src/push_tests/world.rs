//! One state of both ends, of the wires between them, and of the memory.

use std::collections::VecDeque;
use std::vec;
use std::vec::Vec;

use weft_ddp::Stag;

use super::plan::Plan;
use crate::message::{Body, Data};
use crate::op::Op;
use crate::push::{
    Local, Part, Place, Received, Receiver, ReceiverTerms, Sender, SenderTerms, Sent, Transfer, Window,
};
use crate::{Ring, push};

/// One state of both ends, of the wires between them, and of the memory.
#[derive(Clone, Debug, PartialEq, Hash)]
pub(super) struct World {
    pub(super) sender: Sender,
    pub(super) receiver: Receiver,
    pub(super) forth: VecDeque<Flight>,
    pub(super) back: VecDeque<Body>,
    /// How many sends and receives were begun.
    pub(super) sends: usize,
    pub(super) receives: usize,
    pub(super) cancels: u8,
    pub(super) send_cancels: u8,
    pub(super) is_shut_down: bool,
    pub(super) is_end_sent: bool,
    /// How many receives were begun before the user read no more.
    pub(super) read: Option<usize>,
    /// DATA that has not left.
    pub(super) out: usize,
    /// Which sends were taken back.
    pub(super) taken_back: Vec<bool>,
    /// The next octet that goes on the wire: its send, and its number there.
    cursor: (usize, u32),
    /// The next send that has to complete.
    next_sent: usize,
    memory: Memory,
    pub(super) wrong: Option<&'static str>,
}

/// What is on the wire.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Flight {
    /// With the window into which its octets were written.
    Data(Data, Option<Stag>),
    Shutdown(u64),
}

/// The receiver's memory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Memory {
    ring: Vec<u32>,
    /// The memory of each receive that was begun and has not ended.
    receives: Vec<Option<Vec<u32>>>,
    windows: Vec<Option<Bound>>,
    is_canceled: Vec<bool>,
    /// Octets that receives have ended with.
    delivered: u32,
}

/// A window in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Bound {
    stag: Stag,
    at: u32,
    len: u32,
}

impl World {
    pub(super) fn new(plan: &Plan) -> Self {
        let &Plan { ring, ring_part, adverts, small, inline_max, direct_min, .. } = plan;
        let there = Some(Ring { len: ring, to: RING_TO, stag: RING }).filter(|ring| ring.len > 0);
        let stored =
            if plan.is_broken(super::broken::Broken::TooManyAdverts) { adverts - 1 } else { adverts };
        let terms = SenderTerms { ring: there, ring_part, inline_max, direct_min, adverts: stored };
        let receives = plan.receives.len();
        Self {
            sender: Sender::new(terms),
            receiver: Receiver::new(ReceiverTerms { ring, ring_part, adverts, small }),
            forth: VecDeque::new(),
            back: VecDeque::new(),
            sends: 0,
            receives: 0,
            cancels: plan.cancels,
            send_cancels: plan.send_cancels,
            is_shut_down: false,
            is_end_sent: false,
            read: None,
            out: 0,
            taken_back: vec![false; plan.sends.len()],
            cursor: (0, 0),
            next_sent: 0,
            memory: Memory {
                ring: vec![BLANK; ring as usize],
                receives: vec![None; receives],
                windows: vec![None; receives],
                is_canceled: vec![false; receives],
                delivered: 0,
            },
            wrong: None,
        }
    }

    /// Notes what is wrong, unless something was before.
    pub(super) fn check(&mut self, is_right: bool, wrong: &'static str) {
        if !is_right {
            self.wrong.get_or_insert(wrong);
        }
    }

    pub(super) fn begin_receive(&mut self, len: u32) {
        self.memory.receives[self.receives] = Some(vec![BLANK; len as usize]);
        self.receives += 1;
    }

    pub(super) fn mark_canceled(&mut self, op: Op) {
        self.memory.is_canceled[index(op)] = true;
    }

    /// What an end may do that follows no rule: the window is out of use while its advert is valid.
    pub(super) fn forget_window(&mut self, op: Op) {
        self.memory.windows[index(op)] = None;
    }

    pub(super) fn is_waiting(&self, op: Op) -> bool {
        self.memory.receives[index(op)].is_some() && !self.memory.is_canceled[index(op)]
    }

    pub(super) fn delivered(&self) -> u32 {
        self.memory.delivered
    }

    /// The octets of DATA have to be the next ones of the sends that were not taken back.
    pub(super) fn check_parts(&mut self, plan: &Plan, parts: &[Part], len: u32) {
        self.check(parts.iter().map(|part| part.len).sum::<u32>() == len, "parts are not as long as DATA");
        for part in parts {
            let (mut send, mut at) = self.cursor;
            while send < plan.sends.len() && (at == plan.sends[send] || self.taken_back[send]) {
                (send, at) = (send + 1, 0);
            }
            let is_next = (index(part.op), part.at) == (send, at);
            self.check(is_next && part.at + part.len <= plan.sends[send], "octets are sent out of order");
            self.cursor = (send, at + part.len);
        }
    }

    /// Places the octets of Writes, and returns the window, if they go into one.
    pub(super) fn write(&mut self, transfer: &Transfer) -> Option<Stag> {
        let writes = transfer.writes.iter().flatten();
        let written: u32 = writes.clone().map(|write| write.len).sum();
        let Data { len, is_inline, .. } = transfer.data;
        self.check(written == if is_inline { 0 } else { len }, "Writes are not as long as DATA");
        let mut position = number(transfer.data.position);
        let mut sink = None;
        for &push::Write { stag, to, len } in writes {
            if stag == RING {
                let at = number(to - RING_TO);
                for octet in at..at + len {
                    self.place(Place::Ring { at: octet }, position);
                    position += 1;
                }
                continue;
            }
            let at = number(to);
            let is_within =
                |bound: &Bound| bound.stag == stag && bound.at <= at && at + len <= bound.at + bound.len;
            let window = self.memory.windows.iter().position(|window| window.as_ref().is_some_and(is_within));
            let Some(window) = window else {
                self.check(false, "a Write goes to a window that is not in use");
                return None;
            };
            for octet in at..at + len {
                self.place(Place::Receive { op: Op(window as u64), at: octet }, position);
                position += 1;
            }
            sink = Some(stag);
        }
        sink
    }

    pub(super) fn is_in_use(&self, stag: Stag) -> bool {
        self.memory.windows.iter().flatten().any(|bound| bound.stag == stag)
    }

    /// Binds a window, and returns its STag and the tagged offset of its first octet.
    pub(super) fn bind(&mut self, window: &Window, stag: Stag) -> (Stag, u64) {
        let Window { op, at, len, .. } = *window;
        let is_whole = self.memory.receives[index(op)]
            .as_ref()
            .is_some_and(|memory| memory.len() == (at + len) as usize);
        self.check(is_whole, "a window is not over the rest of a receive");
        let before = self.memory.windows[index(op)].replace(Bound { stag, at, len });
        self.check(before.is_none(), "a receive has two windows");
        (stag, u64::from(at))
    }

    /// Does what the receiver asks for. The slot has the octets from this position on.
    pub(super) fn act(&mut self, plan: &Plan, slot: u64) {
        while let Some(local) = self.receiver.poll_local() {
            match local {
                Local::Unbind { .. } if plan.is_broken(super::broken::Broken::VoidInUse) => {}
                Local::Unbind { op } => {
                    let was = self.memory.windows[index(op)].take();
                    self.check(was.is_some(), "a window is out of use twice");
                }
                Local::Copy { from, to, len } => (0..len).for_each(|octet| self.copy(from, to, octet, slot)),
                Local::Done(received) => self.end(plan, &received),
            }
        }
    }

    /// A send completes.
    pub(super) fn complete(&mut self, plan: &Plan, sent: &Sent) {
        while self.next_sent < plan.sends.len() && self.taken_back[self.next_sent] {
            self.next_sent += 1;
        }
        let is_next =
            sent.op == Op(self.next_sent as u64) && plan.sends.get(self.next_sent) == Some(&sent.octets);
        self.check(is_next, "a send completes out of order");
        self.next_sent += 1;
    }

    /// What has to be true when both ends have nothing to say and nothing is on the wire.
    pub(super) fn check_rest(&mut self, plan: &Plan) {
        let is_idle = self.receiver.ops().next().is_none();
        let unread = self.receiver.unread();
        if self.sender.wait().is_some() {
            // The user has not read what the ring holds, or too little to be told.
            let is_full = if self.sender.holds { unread > 0 } else { plan.ring - unread < plan.ring_part };
            self.check(is_idle && is_full, "octets wait that the peer could take");
        } else {
            self.check(self.sender.position() == self.receiver.position(), "octets are lost");
            let is_over = self.is_end_sent && self.receiver.has_ended() && is_idle;
            self.check(!self.is_shut_down || is_over, "the end of the stream is lost");
            let are_complete = self.sender.ops().next().is_none();
            self.check(self.out > 0 || are_complete, "a send does not complete");
        }
        self.check(unread == 0 || is_idle, "a receive waits in front of octets");
        self.check(self.read.is_none() || is_idle, "a receive waits behind the end of reading");
        let mut ops = self.receiver.ops();
        let is_canceled = ops.any(|op| self.memory.is_canceled[index(op)]);
        drop(ops);
        self.check(!is_canceled, "a canceled receive stays");
    }

    fn copy(&mut self, from: Place, to: Place, octet: u32, slot: u64) {
        let value = match from {
            Place::Slot { at } => number(slot) + at + octet,
            Place::Ring { at } => core::mem::replace(&mut self.memory.ring[(at + octet) as usize], BLANK),
            Place::Receive { .. } => BLANK,
        };
        self.check(value != BLANK, "octets are copied that are not there");
        let place = match to {
            Place::Receive { op, at } => {
                let is_bound = self.memory.windows[index(op)].is_some();
                let is_from_ring = matches!(from, Place::Ring { .. });
                self.check(!is_bound || !is_from_ring, "octets are copied under a window");
                Place::Receive { op, at: at + octet }
            }
            Place::Ring { at } => Place::Ring { at: at + octet },
            Place::Slot { at } => Place::Slot { at: at + octet },
        };
        self.place(place, value);
    }

    fn place(&mut self, place: Place, value: u32) {
        let octet = match place {
            Place::Ring { at } => self.memory.ring.get_mut(at as usize),
            Place::Receive { op, at } => {
                self.memory.receives[index(op)].as_mut().and_then(|memory| memory.get_mut(at as usize))
            }
            Place::Slot { .. } => None,
        };
        let before = octet.map(|octet| core::mem::replace(octet, value));
        self.check(before == Some(BLANK), "octets are overwritten");
    }

    fn end(&mut self, plan: &Plan, received: &Received) {
        let Received { op, octets, is_canceled, .. } = *received;
        let (len, waits_for_all) = plan.receives[index(op)];
        let Some(memory) = self.memory.receives[index(op)].take() else {
            return self.check(false, "a receive ends twice");
        };
        let (filled, rest) = memory.split_at(octets as usize);
        let expected = self.memory.delivered..self.memory.delivered + octets;
        self.check(filled.iter().copied().eq(expected), "octets are received out of order");
        self.check(rest.iter().all(|octet| *octet == BLANK), "octets are behind those received");
        self.memory.delivered += octets;
        self.check(self.memory.windows[index(op)].is_none(), "a window is in use behind the end");
        let was_canceled = core::mem::replace(&mut self.memory.is_canceled[index(op)], false);
        self.check(!is_canceled || was_canceled && octets == 0, "a receive ends as canceled that is not");
        let is_late = self.read.is_some_and(|read| index(op) >= read);
        self.check(!is_late || octets == 0, "a receive takes octets behind the end of reading");
        let may_be_short = was_canceled || self.read.is_some() || self.receiver.has_ended();
        let is_right = octets == len || may_be_short || octets > 0 && !waits_for_all;
        self.check(is_right, "a receive ends too early");
        let are_before_done = self.memory.receives[..index(op)].iter().all(Option::is_none);
        self.check(are_before_done || was_canceled, "receives end out of order");
    }
}

pub(super) fn index(op: Op) -> usize {
    usize::try_from(op.0).unwrap()
}

/// Positions are small here.
pub(super) fn number(position: u64) -> u32 {
    u32::try_from(position).unwrap()
}

const BLANK: u32 = u32::MAX;
const RING: Stag = Stag(1);
const RING_TO: u64 = 1 << 20;
