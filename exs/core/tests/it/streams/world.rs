//! Two devices, the wires between them, and what their users want.

use std::collections::VecDeque;

use weft_exs_core::{Cause, Kind, Op, OpError, Ring, Role, Terms};

use super::device::{BASE, BLANK, Device, Event, Packet, RING};
use crate::play::{self, Step};

/// What happens in a world. Both sides have the same terms.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) window: u16,
    pub(crate) adverts: u16,
    pub(crate) ring: u32,
    pub(crate) immediate: u32,
    pub(crate) direct_min: u32,
    /// What the users do, one letter after the other:
    ///
    /// `e`, `s`, `l` send 0, 1, 3 octets; `r` receives up to 2, `a` 3 and waits for all; `k` cancels all; `x` shuts down,
    /// `X` takes nothing more; `w` waits until nothing is under way; `z` waits for the peer's end of reading; `c` closes.
    pub(crate) scripts: [String; 2],
}

/// A state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) devices: [Device; 2],
    /// What each side has sent.
    wires: [VecDeque<Packet>; 2],
    /// Octets that each side has sent and the other one's user has not got.
    streams: [VecDeque<u8>; 2],
    /// The number of the next octet that each side sends.
    octets: [u8; 2],
    /// Receives that have not ended, with their octets, and whether each waits for all.
    receives: [VecDeque<(Op, u32, bool)>; 2],
    /// Sides whose user has canceled or takes nothing more.
    may_be_short: [bool; 2],
    /// Sides that send nothing more.
    are_shut: [bool; 2],
    /// How much of its script each user has done.
    at: [usize; 2],
    wrong: Option<&'static str>,
}

impl play::World for World {
    type Plan = Plan;

    fn new(plan: &Plan) -> Self {
        let ring = Some(Ring { len: plan.ring, to: BASE, stag: RING }).filter(|ring| ring.len > 0);
        let terms = Terms {
            kind: Kind::Stream,
            window: plan.window,
            peer_window: plan.window,
            send_credits: plan.adverts,
            recv_credits: plan.adverts,
            immediate: plan.immediate,
            invalidates: false,
            reads: 1,
            ring: plan.ring,
            peer_ring: ring,
            direct_min: plan.direct_min,
        };
        let mut world = Self {
            devices: [Role::Initiator, Role::Responder].map(|role| Device::new(role, &terms)),
            wires: Default::default(),
            streams: Default::default(),
            octets: [0; 2],
            receives: Default::default(),
            may_be_short: [false; 2],
            are_shut: [false; 2],
            at: [0; 2],
            wrong: None,
        };
        // Both have posted their slots before anything is sent.
        (0..2).for_each(|side| world.drain(side, false));
        (0..2).for_each(|side| world.drain(side, true));
        world
    }

    fn steps(&self, plan: &Plan) -> Vec<Step> {
        let mut steps = Vec::new();
        if self.wrong.is_some() {
            return steps;
        }
        for (side, device) in self.devices.iter().enumerate() {
            let is_idle = device.session.is_idle();
            match plan.scripts[side].as_bytes().get(self.at[side]) {
                Some(b'w') if !is_idle => {}
                Some(b'z') if !self.streams[side].is_empty() => {}
                Some(_) => steps.push(Step::User(side)),
                None => {}
            }
            if !self.wires[1 - side].is_empty() {
                steps.push(Step::Deliver(side));
            }
            if !device.done.is_empty() {
                steps.push(Step::Done(side));
            }
        }
        if steps.is_empty() {
            let waits = |side: &usize| self.devices[*side].session.poll_at().is_some();
            steps.extend((0..2).filter(waits).map(Step::Time));
        }
        steps
    }

    fn step(&mut self, plan: &Plan, step: Step, room: bool) {
        let (Step::User(side)
        | Step::Deliver(side)
        | Step::Done(side)
        | Step::Recycle(side)
        | Step::Time(side)) = step;
        match step {
            Step::User(_) => self.call(plan, side),
            Step::Deliver(_) => {
                // Writes come with the Send behind them.
                while let Some(packet) = self.wires[1 - side].pop_front() {
                    let is_write = matches!(packet, Packet::Write { .. });
                    let taken = self.devices[side].take(packet);
                    self.note(taken);
                    if !is_write {
                        break;
                    }
                }
            }
            Step::Done(_) => {
                if let Some((op, ok)) = self.devices[side].done.pop_front() {
                    self.devices[side].session.handle_done(op, ok);
                }
            }
            // Streams hand nothing out in place.
            Step::Recycle(_) => {}
            Step::Time(_) => {
                let session = &mut self.devices[side].session;
                if let Some(at) = session.poll_at() {
                    session.handle_time(at);
                }
            }
        }
        self.drain(side, room);
    }

    fn drain(&mut self, side: usize, room: bool) {
        while let Some(action) = self.devices[side].session.poll(room) {
            let done = self.devices[side].perform(action, &mut self.wires[side]);
            let event = done.and_then(|event| event.map_or(Ok(()), |event| self.complete(side, &event)));
            self.note(event);
        }
    }

    fn is_finished(&self, plan: &Plan) -> bool {
        (0..2).all(|side| self.at[side] == plan.scripts[side].len() && self.devices[side].is_closed)
    }

    fn wrong(&self) -> Option<&'static str> {
        self.wrong
    }

    fn ended(&self) -> [Option<Cause>; 2] {
        self.devices.each_ref().map(|device| device.ended)
    }
}

impl World {
    fn note(&mut self, result: Result<(), &'static str>) {
        if let Err(wrong) = result {
            self.wrong.get_or_insert(wrong);
        }
    }

    fn call(&mut self, plan: &Plan, side: usize) {
        let device = &mut self.devices[side];
        let op = Op(self.at[side] as u64);
        let letter = plan.scripts[side].as_bytes()[self.at[side]];
        self.at[side] += 1;
        match letter {
            b'e' | b's' | b'l' => {
                let len = match letter {
                    b'e' => 0,
                    b's' => 1,
                    _ => 3,
                };
                let octets: Vec<u8> = (self.octets[side]..).take(len).collect();
                if device.send(op, octets.clone()) {
                    self.octets[side] += u8::try_from(len).unwrap();
                    self.streams[side].extend(octets);
                }
            }
            b'r' | b'a' => {
                let (len, waits_for_all) = if letter == b'r' { (2, false) } else { (3, true) };
                self.receives[side].push_back((op, len, waits_for_all));
                if !device.receive(op, len, waits_for_all) {
                    self.receives[side].pop_back();
                }
            }
            b'k' => {
                self.may_be_short[side] = true;
                device.session.cancel(None);
            }
            b'X' => {
                self.may_be_short[side] = true;
                device.session.stop_receiving();
            }
            b'x' => {
                self.are_shut[side] = true;
                device.session.shutdown();
            }
            b'c' => {
                self.are_shut[side] = true;
                self.may_be_short[side] = true;
                device.session.close(core::time::Duration::from_secs(30));
            }
            _ => {}
        }
    }

    /// Compares the end of an operation with what the users have sent.
    fn complete(&mut self, side: usize, event: &Event) -> Result<(), &'static str> {
        let ended = self.devices[side].ended;
        let Some(at) = self.receives[side].iter().position(|(op, ..)| *op == event.op) else {
            return match event.result {
                Ok(outcome) if outcome.octets as usize == event.octets.len() => Ok(()),
                Err(OpError::Canceled) if self.may_be_short[side] => {
                    self.streams[side].retain(|octet| !event.octets.contains(octet));
                    Ok(())
                }
                Err(error) if ended.is_some_and(|cause| cause.error() == error) => Ok(()),
                _ => Err("a send ends without a reason"),
            };
        };
        let (_, len, waits_for_all) = self.receives[side].remove(at).unwrap();
        let octets = match event.result {
            Ok(outcome) => outcome.octets,
            Err(OpError::Canceled) if self.may_be_short[side] => return Ok(()),
            Err(error) if ended.is_some_and(|cause| cause.error() == error) => return Ok(()),
            Err(_) => return Err("a receive fails without a reason"),
        };
        let (filled, rest) = event.octets.split_at(octets as usize);
        let are_next = self.streams[1 - side].drain(..filled.len().min(self.streams[1 - side].len()));
        if !are_next.eq(filled.iter().copied()) || rest.iter().any(|octet| *octet != BLANK) {
            return Err("a receive holds something else");
        }
        let is_end = self.are_shut[1 - side] && self.streams[1 - side].is_empty();
        let is_short = octets < len && (octets == 0 || waits_for_all);
        let is_right = !is_short || is_end || self.may_be_short[side] || ended.is_some();
        if is_right { Ok(()) } else { Err("a receive ends too early") }
    }
}
