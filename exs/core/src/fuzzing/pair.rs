//! The body of the fuzz target `exs_pair`: two sessions, whose users, completions and connection do what the input
//! says. Whatever they do, neither session finds a fault of the other one, no send and receive wait for each other, and
//! a close of both ends in its time.
//!
//! ```text
//! octets 0, 1   bit 0: a stream; bit 1: STags may be invalidated; bit 2: a ring; windows, 4 to 7; credits, 1 to 4
//! then steps    octet 0, low three bits: what happens; bit 3: on which side; bit 7: the send queue has no room
//!               0  what comes next from the other side; bit 4: all that is on its way
//!               1  the oldest request completes; bit 4: all
//!               2  a send: octets; bit 4: with a deadline
//!               3  a receive: octets; bit 4: with a deadline; bit 5: in place, or waits for all
//!               4  cancels, all or the last one (bit 4); 5: shuts down, or takes nothing more (bit 4)
//!               6  closes, or recycles (bit 4)
//!               7  the connection is cut (bit 4 and 5), or time passes
//! ```

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

use weft_ddp::Stag;

use super::Input;
use crate::{
    Action, Cause, HEADER_LEN, Kind, Loss, Message, Mode, Op, RecvRequest, Ring, Role, SendRequest, Session,
    Terms,
};

/// Reads octets as the life of two sessions. Returns how many operations have completed.
///
/// # Panics
/// If a session blames the other one, an action makes no sense, or an operation does not end once.
pub fn pair(octets: &[u8]) -> usize {
    let mut input = Input(octets);
    let mut world = World::new(input.octet(), input.octet());
    while !input.0.is_empty() {
        world.step(&mut input);
    }
    world.end()
}

/// Two devices, and what is on the way to each.
struct World {
    sides: [Side; 2],
    wires: [VecDeque<Packet>; 2],
    now: Duration,
    is_cut: bool,
}

/// What is on the way from one side to the other.
enum Packet {
    Write { stag: Stag },
    Send { octets: Vec<u8>, invalidated: Option<Stag> },
    ReadRequest { op: Op, stag: Stag },
    ReadResponse { op: Op },
    Fin,
}

/// A session, and what its device knows.
struct Side {
    session: Session,
    posted: VecDeque<u16>,
    held: BTreeSet<u16>,
    /// Operations under way.
    operations: BTreeMap<Op, Operation>,
    done: VecDeque<Op>,
    reads: Vec<Op>,
    /// The windows in use, and whose they are.
    windows: BTreeMap<Stag, Op>,
    ops: u64,
    completed: usize,
    has_ended: bool,
}

/// An operation under way.
#[derive(Debug, PartialEq)]
struct Operation {
    is_send: bool,
    /// Requests that are not told to have completed.
    posted: usize,
}

impl World {
    fn new(flags: u8, numbers: u8) -> Self {
        let kind = if flags & 1 == 0 { Kind::Message } else { Kind::Stream };
        let ring = Ring { len: 8, to: 0, stag: RING };
        let peer_ring = Some(ring).filter(|_| kind == Kind::Stream && flags & 4 != 0);
        let terms = |side: u8| {
            let window = |side: u8| u16::from(4 + (flags >> (4 + 2 * side) & 3));
            let credits = |side: u8| u16::from(1 + (numbers >> (2 * side) & 3));
            Terms {
                kind,
                window: window(side),
                peer_window: window(1 - side),
                send_credits: credits(1 - side),
                recv_credits: credits(side),
                immediate: (numbers >> 4 & 3).into(),
                invalidates: flags & 2 != 0,
                reads: 1,
                ring: peer_ring.map_or(0, |ring| ring.len),
                peer_ring,
                direct_min: u32::from(numbers >> 6) + 1,
            }
        };
        let side = |side, role| Side {
            session: Session::new(role, &terms(side)),
            posted: VecDeque::new(),
            held: BTreeSet::new(),
            operations: BTreeMap::new(),
            done: VecDeque::new(),
            reads: Vec::new(),
            windows: BTreeMap::new(),
            ops: 0,
            completed: 0,
            has_ended: false,
        };
        let sides = [side(0, Role::Initiator), side(1, Role::Responder)];
        let mut world = Self { sides, wires: Default::default(), now: Duration::ZERO, is_cut: false };
        // Both have posted their slots before anything is sent.
        for (side, room) in [(0, false), (1, false), (0, true)] {
            world.act(side, room);
        }
        world
    }

    fn step(&mut self, input: &mut Input<'_>) {
        let how = input.octet();
        let (number, bit) = (usize::from(how >> 3 & 1), how & 16 != 0);
        let deadline = Some(self.now + BRIEF).filter(|_| bit);
        let side = &mut self.sides[number];
        match how & 7 {
            0 => while self.deliver(number) && bit {},
            1 => while side.finish() && bit {},
            2 => side.send(input.octet().into(), deadline),
            3 => side.receive(input.octet().into(), how & 32 != 0, deadline),
            4 => _ = side.session.cancel(Some(Op(side.ops)).filter(|_| bit)),
            5 if bit => side.session.stop_receiving(),
            5 => side.session.shutdown(),
            6 if bit => {
                if let Some(slot) = side.held.pop_first() {
                    assert!(side.session.recycle(slot));
                }
            }
            6 => side.session.close(self.now + BRIEF),
            _ if how & 48 == 48 => self.cut(),
            _ => {
                self.now += BRIEF / 2;
                self.sides.iter_mut().for_each(|side| side.session.handle_time(self.now));
            }
        }
        self.act(number, how & 128 == 0);
        self.act(1 - number, true);
        if how & 7 == 7 {
            let times = self.sides.iter().filter_map(|side| side.session.poll_at());
            assert!(times.into_iter().all(|at| at > self.now), "what was to be done has been done");
        }
    }

    /// Gives a side what comes next. Returns whether there was something.
    fn deliver(&mut self, number: usize) -> bool {
        let Some(packet) = self.wires[number].pop_front() else { return false };
        let side = &mut self.sides[number];
        match packet {
            // The connection is gone for this side.
            _ if side.has_ended => {}
            Packet::Write { stag } => {
                assert!(stag == RING || side.windows.contains_key(&stag), "a void advert")
            }
            Packet::Send { octets, invalidated } => {
                let slot = side.posted.pop_front().expect("a Send finds a slot");
                if let Some(stag) = invalidated {
                    assert!(side.windows.remove(&stag).is_some(), "the STag is not in use");
                }
                side.session.handle_message(slot, &octets, invalidated);
            }
            Packet::ReadRequest { op, stag } => {
                assert!(side.windows.contains_key(&stag), "a Read comes too late");
                self.wires[1 - number].push_back(Packet::ReadResponse { op });
            }
            Packet::ReadResponse { op } => {
                side.reads.retain(|one| *one != op);
                side.done.push_back(op);
            }
            Packet::Fin => side.lose(Loss::Fin),
        }
        self.act(number, true);
        true
    }

    /// Cuts the connection. What is on its way is lost.
    fn cut(&mut self) {
        self.is_cut = true;
        self.wires.iter_mut().for_each(VecDeque::clear);
        self.sides.iter_mut().for_each(|side| side.lose(Loss::Reset));
    }

    /// Does what the session of a side wants.
    fn act(&mut self, number: usize, room: bool) {
        while let Some(action) = self.sides[number].session.poll(room) {
            self.sides[number].perform(action, &mut self.wires[1 - number]);
            if self.is_cut {
                self.wires[1 - number].clear();
            }
        }
    }

    /// Lets everything happen that can.
    fn settle(&mut self) {
        (0..2).for_each(|number| self.act(number, true));
        while (0..2).any(|number| {
            let side = &mut self.sides[number];
            let slot = side.held.pop_first();
            let is_recycled = slot.is_some_and(|slot| side.session.recycle(slot));
            let has_done = is_recycled || self.deliver(number) || self.sides[number].finish();
            self.act(number, true);
            has_done
        }) {}
    }

    /// Lets everything happen that can, closes both sides, and then cuts the connection.
    fn end(mut self) -> usize {
        self.settle();
        if !self.sides.iter().any(|side| side.has_ended) {
            for (from, to) in [(0, 1), (1, 0)] {
                let waits = |side: usize, is_send| {
                    self.sides[side].operations.values().any(|op| op.is_send == is_send)
                };
                assert!(!waits(from, true) || !waits(to, false), "a send and a receive wait for each other");
            }
        }
        self.sides.iter_mut().for_each(|side| side.session.close(self.now + BRIEF));
        self.settle();
        for _ in 0..2 {
            self.now += BRIEF;
            self.sides.iter_mut().for_each(|side| side.session.handle_time(self.now));
            self.settle();
        }
        assert!(self.sides.iter().all(|side| side.has_ended), "a close ends in time");
        self.cut();
        for number in 0..2 {
            self.act(number, true);
            while self.sides[number].finish() {
                self.act(number, true);
            }
            let side = &self.sides[number];
            assert!(side.has_ended && side.operations.is_empty() && side.session.is_idle());
            assert!(side.windows.is_empty(), "memory can still be reached");
        }
        self.sides.iter().map(|side| side.completed).sum()
    }
}

impl Side {
    fn send(&mut self, len: u32, deadline: Option<Duration>) {
        let op = self.next_op();
        let request = SendRequest { op, len, elements: 1, stag: stag(op), to: 0, deadline };
        if self.session.send(request).is_ok() {
            self.operations.insert(op, Operation { is_send: true, posted: 0 });
        }
    }

    fn receive(&mut self, len: u32, bit: bool, deadline: Option<Duration>) {
        let op = self.next_op();
        let (is_in_place, waits_for_all) = (bit, bit);
        let request = RecvRequest { op, len, is_in_place, waits_for_all, stag: stag(op), to: 0, deadline };
        if self.session.receive(request).is_ok() {
            self.operations.insert(op, Operation { is_send: false, posted: 0 });
        }
    }

    /// Tells of the oldest completion. Returns whether there was one.
    fn finish(&mut self) -> bool {
        let Some(op) = self.done.pop_front() else { return false };
        if let Some(operation) = self.operations.get_mut(&op) {
            operation.posted -= 1;
        }
        self.session.handle_done(op, true);
        true
    }

    /// Takes the end of the connection, behind all that was posted.
    fn lose(&mut self, loss: Loss) {
        while self.finish() {}
        self.flush();
        self.session.handle_loss(loss);
    }

    fn flush(&mut self) {
        for op in core::mem::take(&mut self.reads) {
            if let Some(operation) = self.operations.get_mut(&op) {
                operation.posted -= 1;
            }
            self.session.handle_done(op, false);
        }
    }

    fn perform(&mut self, action: Action, wire: &mut VecDeque<Packet>) {
        match action {
            Action::Recv { slot } => {
                assert!(!self.posted.contains(&slot) && !self.held.contains(&slot));
                self.posted.push_back(slot);
            }
            Action::Bind { op } => {
                assert!(self.windows.insert(stag(op), op).is_none());
                self.post(op);
                self.done.push_back(op);
            }
            Action::BindPart { op, stag, .. } => {
                assert!(self.operations.contains_key(&op) && self.windows.insert(stag, op).is_none());
            }
            Action::Send(outgoing) => {
                let mut octets = outgoing.message.encode().to_vec();
                octets.resize(HEADER_LEN + outgoing.message.payload_len() as usize, 0);
                assert!(Message::parse(&octets).is_ok());
                wire.push_back(Packet::Send { octets, invalidated: outgoing.invalidate });
                if let Some(op) = outgoing.op {
                    self.post(op);
                    self.done.push_back(op);
                }
            }
            Action::Read { op, stag, .. } => {
                self.post(op);
                self.reads.push(op);
                wire.push_back(Packet::ReadRequest { op, stag });
            }
            Action::Gather { op, .. } => assert!(self.operations.contains_key(&op)),
            Action::Write { stag, .. } => wire.push_back(Packet::Write { stag }),
            Action::Copy { .. } => {}
            Action::Revoke { op } => self.windows.retain(|_, one| *one != op),
            Action::Complete { op, result } => {
                let left = self.operations.remove(&op).map(|operation| operation.posted);
                assert_eq!(left, Some(0), "{op:?} can still be reached, or has completed");
                assert!(!self.windows.values().any(|one| *one == op), "the peer can still reach {op:?}");
                self.completed += 1;
                if let Ok(outcome) = result
                    && let Mode::InPlace { slot } = outcome.mode
                {
                    assert!(self.held.insert(slot) && !self.posted.contains(&slot));
                }
            }
            Action::End { cause, abort } => {
                let blames = matches!(cause, Cause::Fault(_) | Cause::Blamed(_));
                assert!(!blames && !core::mem::replace(&mut self.has_ended, true), "{cause:?}");
                let octets = abort.map(|message| message.encode().to_vec());
                wire.extend(octets.map(|octets| Packet::Send { octets, invalidated: None }));
                wire.push_back(Packet::Fin);
                self.flush();
            }
            Action::Closed => assert!(self.operations.is_empty() && self.has_ended),
        }
    }

    fn post(&mut self, op: Op) {
        assert!(!self.has_ended);
        self.operations.get_mut(&op).expect("the operation is under way").posted += 1;
    }

    const fn next_op(&mut self) -> Op {
        self.ops += 1;
        Op(self.ops)
    }
}

/// The first STag of an operation's window.
fn stag(op: Op) -> Stag {
    Stag(u32::try_from(op.0 << 8).unwrap_or(u32::MAX))
}

const RING: Stag = Stag(1);
const BRIEF: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A step. Some are more likely.
    fn step() -> impl Strategy<Value = Vec<u8>> {
        let what = prop::sample::select(&[0, 0, 0, 1, 1, 2, 2, 2, 3, 3, 3, 4, 5, 6, 6, 7][..]);
        (what, any::<u8>(), 0..12_u8).prop_map(|(what, bits, octet)| {
            let bits = if what == 7 && bits % 8 != 0 { bits & 0xCF } else { bits };
            let step = what | (bits << 3);
            if matches!(what, 2 | 3) { Vec::from([step, octet]) } else { Vec::from([step]) }
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

        #[test]
        fn two_sessions_never_blame_each_other(
            terms: [u8; 2],
            steps in prop::collection::vec(step(), 0..80),
        ) {
            pair(&[&terms[..], &steps.concat()].concat());
        }
    }

    #[test]
    fn operations_of_both_kinds_complete_between_the_two() {
        for kind in 0..2 {
            // A receive and a send of 9 octets on either side; then all that follows.
            let steps = [3, 9, 10, 9, 11, 9, 2, 9, 16, 25, 24, 17];
            assert_eq!(pair(&[&[kind | 4, 0][..], &steps].concat()), 4, "{kind}");
        }
    }
}
