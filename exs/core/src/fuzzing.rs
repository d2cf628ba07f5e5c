//! The bodies of fuzz targets. `pair.rs` has that of `exs_pair`, `plain.rs` that of `exs_plain`. This file has that of
//! `exs_message`: hellos, and a session whose user and whose peer do what the input says.
//!
//! ```text
//! octet 0       bit 0: the session is the responder; bit 1: the peer's STags may be invalidated
//! then steps    octet 0, low three bits: what happens
//!               0  a message of these fields: type, flags, id, len, b, octets of payload, and how the STag is invalidated
//!               1  a message of any octets: their number, then the octets
//!               2  a send: octets; bit 3: with a deadline
//!               3  a receive: octets; bit 3: in place; bit 4: with a deadline
//!               4  something posted completes; the number of which
//!               5  a call: 0 cancels, 1 recycles, 2 shuts down, 3 takes nothing more, 4 closes, 5 lets time pass
//!               6  the connection is lost
//!               7  actions are taken; bit 3: without room
//! ```

mod pair;
mod plain;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::time::Duration;

use weft_ddp::Stag;

use crate::{
    Action, HEADER_LEN, Hello, Kind, Loss, Message, Mode, Op, Outgoing, Place, RecvRequest, RejectCode, Role,
    SendRequest, Session, Terms,
};

pub use pair::pair;
pub use plain::plain;

/// Reads any octets as private data, and then as a session's life. Returns how many operations have completed.
///
/// # Panics
/// If something is read that cannot be written again, if an action makes no sense, or if an operation does not end
/// once.
pub fn message(octets: &[u8]) -> usize {
    if let Ok(hello) = Hello::parse(octets) {
        assert_eq!(hello.encode(), octets[..Hello::LEN]);
    }
    if let Some(code) = RejectCode::parse(octets) {
        assert_eq!(code.encode(), octets[..RejectCode::LEN]);
    }
    if let Ok((message, payload)) = Message::parse(octets) {
        assert_eq!((&message.encode()[..], payload), octets.split_at(HEADER_LEN));
    }
    let mut input = Input(octets);
    let mut device = Device::new(input.octet());
    while !input.0.is_empty() {
        device.step(&mut input);
    }
    device.end()
}

/// A session, and what its device knows.
struct Device {
    session: Session,
    window: usize,
    /// Slots in the receive queue.
    posted: BTreeSet<u16>,
    /// Slots that the user has.
    held: BTreeSet<u16>,
    /// Requests of the send queue that have not completed, for the operations under way.
    requests: BTreeMap<Op, usize>,
    /// Windows in use.
    windows: BTreeSet<Op>,
    /// Sends on the way to the peer, modulo 2^16: its limit is that and its window.
    sent: u16,
    ops: u64,
    completed: usize,
    has_ended: bool,
}

impl Device {
    fn new(flags: u8) -> Self {
        let role = if flags & 1 != 0 { Role::Responder } else { Role::Initiator };
        let terms = Terms {
            kind: Kind::Message,
            window: WINDOW,
            peer_window: WINDOW,
            send_credits: 3,
            recv_credits: 3,
            immediate: 8,
            invalidates: flags & 2 != 0,
            reads: 2,
            ring: 0,
            peer_ring: None,
            direct_min: 1,
        };
        let mut device = Self {
            session: Session::new(role, &terms),
            window: WINDOW.into(),
            posted: BTreeSet::new(),
            held: BTreeSet::new(),
            requests: BTreeMap::new(),
            windows: BTreeSet::new(),
            sent: 0,
            ops: 0,
            completed: 0,
            has_ended: false,
        };
        device.act(true);
        assert_eq!(device.posted.len(), device.window);
        device
    }

    fn step(&mut self, input: &mut Input<'_>) {
        let how = input.octet();
        match how & 7 {
            0 => {
                let [kind, flags, id, len, b, payload, invalidated] = [(); 7].map(|()| input.octet());
                let mut octets = Vec::from([kind, flags]);
                octets.extend((self.sent.wrapping_add(WINDOW)).to_be_bytes());
                // The high half of the fields is 0, but for numbers below 0.
                let id = i32::from(id.cast_signed());
                octets.extend(id.to_be_bytes());
                octets.extend(u32::from(len).to_be_bytes());
                let (stag, to) = if kind == 0x10 && flags & 1 == 0 { (7, 9) } else { (0, 0) };
                octets.extend(u32::to_be_bytes(stag));
                octets.extend(u64::to_be_bytes(to));
                octets.extend(u64::from(b).to_be_bytes());
                octets.resize(HEADER_LEN + usize::from(payload), payload);
                self.hear(&octets, Some(u32::from(invalidated)).filter(|stag| *stag > 0));
            }
            1 => {
                let len = input.octet();
                let octets = input.take(len.into());
                self.hear(octets, None);
            }
            2 => {
                let op = self.next_op();
                let (len, deadline) = (input.octet().into(), (how & 8 != 0).then_some(DEADLINE));
                let request = SendRequest { op, len, elements: 1, stag: stag(op), to: 0, deadline };
                if self.session.send(request).is_ok() {
                    self.requests.insert(op, 0);
                }
            }
            3 => {
                let op = self.next_op();
                let (len, deadline) = (input.octet().into(), (how & 16 != 0).then_some(DEADLINE));
                let is_in_place = how & 8 != 0;
                let (stag, waits_for_all) = (stag(op), false);
                let request = RecvRequest { op, len, is_in_place, waits_for_all, stag, to: 0, deadline };
                if self.session.receive(request).is_ok() {
                    self.requests.insert(op, 0);
                }
            }
            4 => {
                let open: Vec<Op> = self.open();
                if let Some(op) = open.get(usize::from(input.octet()) % open.len().max(1)) {
                    self.finish(*op, true);
                }
            }
            5 => self.call(input.octet()),
            6 => self.session.handle_loss(Loss::Fin),
            _ => self.act(how & 8 == 0),
        }
    }

    /// Takes a message, if a slot is there for it.
    fn hear(&mut self, octets: &[u8], invalidated: Option<u32>) {
        if let Some(slot) = self.posted.pop_first() {
            let op = self.windows.iter().copied().find(|op| Some(stag(*op).0) == invalidated);
            if let Some(op) = op {
                self.windows.remove(&op);
            }
            self.session.handle_message(slot, octets, invalidated.map(Stag));
        }
    }

    fn call(&mut self, call: u8) {
        match call % 6 {
            0 => _ = self.session.cancel(Some(Op(self.ops)).filter(|_| call & 8 != 0)),
            1 => {
                if let Some(slot) = self.held.pop_first() {
                    assert!(self.session.recycle(slot));
                }
            }
            2 => self.session.shutdown(),
            3 => self.session.stop_receiving(),
            4 => self.session.close(DEADLINE),
            _ => self.session.handle_time(DEADLINE),
        }
    }

    /// Does what the session wants.
    fn act(&mut self, room: bool) {
        while let Some(action) = self.session.poll(room) {
            match action {
                Action::Recv { slot } => {
                    assert!(self.posted.insert(slot) && !self.held.contains(&slot) && slot < WINDOW + 3);
                    assert!(self.posted.len() <= self.window);
                }
                Action::Bind { op } => {
                    assert!(self.windows.insert(op));
                    self.post(op);
                }
                Action::Send(Outgoing { message, payload, op, .. }) => {
                    assert!(!self.has_ended && room);
                    assert_eq!(payload.is_some(), message.payload_len() > 0);
                    self.sent = self.sent.wrapping_add(1);
                    if let Some(op) = op {
                        self.post(op);
                    }
                }
                Action::Read { op, len, .. } => {
                    assert!(len > 0 && room);
                    self.post(op);
                }
                Action::Copy { from: Place::Slot { slot, at: 0 }, to: Place::Memory { op, at: 0 }, len } => {
                    assert!(len > 0 && !self.posted.contains(&slot) && self.requests.contains_key(&op));
                }
                Action::BindPart { .. }
                | Action::Gather { .. }
                | Action::Write { .. }
                | Action::Copy { .. } => {
                    panic!("messages have nothing of a stream");
                }
                // The peer may have said that a window is out of use which is not bound.
                Action::Revoke { op } => _ = self.windows.remove(&op),
                Action::Complete { op, result } => {
                    assert_eq!(
                        self.requests.remove(&op),
                        Some(0),
                        "{op:?} can still be reached, or has completed"
                    );
                    assert!(!self.windows.contains(&op));
                    self.completed += 1;
                    if let Ok(outcome) = result {
                        assert!(outcome.octets <= outcome.message_len);
                        if let Mode::InPlace { slot } = outcome.mode {
                            assert!(self.held.insert(slot) && !self.posted.contains(&slot));
                        }
                    }
                }
                Action::End { .. } => assert!(!core::mem::replace(&mut self.has_ended, true)),
                Action::Closed => assert!(self.requests.is_empty() && self.has_ended),
            }
        }
    }

    /// Ends the connection, and flushes what is posted.
    fn end(mut self) -> usize {
        self.session.handle_loss(Loss::Reset);
        self.act(true);
        for op in self.open() {
            while self.requests.get(&op).is_some_and(|posted| *posted > 0) {
                self.finish(op, false);
            }
        }
        self.act(true);
        assert!(self.has_ended && self.requests.is_empty() && self.session.is_idle(), "{:?}", self.requests);
        for slot in core::mem::take(&mut self.held) {
            assert!(self.session.recycle(slot));
        }
        self.completed
    }

    /// Operations of which something is posted.
    fn open(&self) -> Vec<Op> {
        self.requests.iter().filter(|(_, posted)| **posted > 0).map(|(op, _)| *op).collect()
    }

    fn post(&mut self, op: Op) {
        assert!(!self.has_ended);
        *self.requests.get_mut(&op).expect("the operation is under way") += 1;
    }

    fn finish(&mut self, op: Op, ok: bool) {
        if let Some(posted) = self.requests.get_mut(&op) {
            *posted -= 1;
        }
        self.session.handle_done(op, ok);
    }

    const fn next_op(&mut self) -> Op {
        self.ops += 1;
        Op(self.ops)
    }
}

/// What is left of the input. Behind its end are zeros.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn octet(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }

    fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        taken
    }
}

/// The STag of an operation's window.
fn stag(op: Op) -> Stag {
    Stag(u32::try_from(op.0).unwrap_or(u32::MAX))
}

const WINDOW: u16 = 8;
const DEADLINE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A step, with octets that it may need.
    fn step() -> impl Strategy<Value = Vec<u8>> {
        let fields = (
            prop::sample::select(&[0x01, 0x10, 0x11, 0x30, 0x31, 0x20][..]),
            0..2_u8,
            -1..4_i8,
            0..12_u8,
            0..2_u8,
            0..6_u8,
        );
        let message = fields.prop_map(|(kind, flags, id, len, b, stag)| {
            let payload = if kind == 0x10 && flags == 1 { len } else { 0 };
            Vec::from([0, kind, flags, id.cast_unsigned(), len, b, payload, stag.saturating_sub(3)])
        });
        prop_oneof![4 => message, 6 => (2..8_u8, 0..4_u8, 0..12_u8).prop_map(|(what, bits, octet)| Vec::from([what | bits << 3, octet]))]
    }

    proptest! {
        #[test]
        fn a_session_holds_on_likely_input(flags in 0..4_u8, steps in prop::collection::vec(step(), 0..40)) {
            message(&[Vec::from([flags]), steps.concat()].concat());
        }

        #[test]
        fn a_session_holds_on_any_input(octets in prop::collection::vec(any::<u8>(), 0..400)) {
            message(&octets);
        }
    }

    #[test]
    fn a_message_in_each_direction_completes() {
        let (initiator, actions) = (0, 7);
        let receive = [3, 9];
        let msg = [0, 0x10, 1, 0, 2, 0, 2, 0];
        let send = [2, 5, actions, 4, 0];
        let ack = [0, 0x11, 0, 0, 0, 0, 0, 0];
        let input = [&[initiator][..], &receive, &msg, &[actions], &send, &ack, &[actions]].concat();
        assert_eq!(message(&input), 2);
    }
}
