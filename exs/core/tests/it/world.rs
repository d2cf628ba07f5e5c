//! Two devices and the wires between them.

use std::collections::VecDeque;

use weft_exs_core::{Cause, Kind, Op, Role, Terms};

use super::device::{Device, Packet};
use super::model::Messages;
use super::play::{self, Step};

/// What happens in a world.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) windows: [u16; 2],
    /// Messages that each side takes without acknowledgement.
    pub(crate) credits: [u16; 2],
    /// Octets of the longest immediate data.
    pub(crate) immediate: u32,
    /// Whether STags may be invalidated.
    pub(crate) invalidates: bool,
    /// What the users do, one letter after the other:
    ///
    /// `e`, `s`, `l` send 0, 1, 3 octets; `r`, `R` receive into 2, 3 octets, `i` in place, else into 2; `k` cancels all;
    /// `x` shuts down, `X` takes nothing more; `w` waits until nothing is under way; `c` closes.
    pub(crate) scripts: [String; 2],
}

/// A state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) devices: [Device; 2],
    /// What each side has sent.
    wires: [VecDeque<Packet>; 2],
    messages: Messages,
    /// How much of its script each user has done.
    at: [usize; 2],
    wrong: Option<&'static str>,
}

impl play::World for World {
    type Plan = Plan;

    fn new(plan: &Plan) -> Self {
        let device = |side: usize, role| {
            let terms = Terms {
                kind: Kind::Message,
                window: plan.windows[side],
                peer_window: plan.windows[1 - side],
                send_credits: plan.credits[1 - side],
                recv_credits: plan.credits[side],
                immediate: plan.immediate,
                invalidates: plan.invalidates,
                reads: 1,
                ring: 0,
                peer_ring: None,
                direct_min: 1,
            };
            Device::new(role, &terms)
        };
        let mut world = Self {
            devices: [device(0, Role::Initiator), device(1, Role::Responder)],
            wires: [VecDeque::new(), VecDeque::new()],
            messages: Messages::default(),
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
            match plan.scripts[side].as_bytes().get(self.at[side]) {
                Some(b'w') if !device.is_idle() => {}
                Some(_) => steps.push(Step::User(side)),
                None => {}
            }
            if !self.wires[1 - side].is_empty() {
                steps.push(Step::Deliver(side));
            }
            if !device.done.is_empty() {
                steps.push(Step::Done(side));
            }
            if !device.held.is_empty() {
                steps.push(Step::Recycle(side));
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
        let device = &mut self.devices[side];
        let result = match step {
            Step::User(_) => {
                self.at[side] += 1;
                self.call(side, plan.scripts[side].as_bytes()[self.at[side] - 1]);
                Ok(())
            }
            Step::Deliver(_) => {
                let packet = self.wires[1 - side].pop_front().unwrap();
                device.take(packet, &mut self.wires[side])
            }
            Step::Done(_) => {
                for (op, ok) in device.done.split_off(0) {
                    device.session.handle_done(op, ok);
                }
                Ok(())
            }
            Step::Recycle(_) => {
                let slot = device.held.pop_first().unwrap();
                device.slots.remove(&slot);
                if device.session.recycle(slot) { Ok(()) } else { Err("the slot was not held") }
            }
            Step::Time(_) => {
                let now = device.session.poll_at().unwrap();
                device.session.handle_time(now);
                Ok(())
            }
        };
        self.wrong = self.wrong.or_else(|| result.err());
        self.drain(side, room);
    }

    fn drain(&mut self, side: usize, room: bool) {
        self.messages.side = side;
        while let Some(action) = self.devices[side].session.poll(room) {
            let result = self.devices[side].perform(action, &mut self.wires[side], &mut self.messages);
            self.wrong = self.wrong.or_else(|| result.err());
        }
    }

    fn is_finished(&self, plan: &Plan) -> bool {
        let is_over = |side: usize| {
            let script = &plan.scripts[side];
            let device = &self.devices[side];
            self.at[side] == script.len() && device.is_idle() && device.is_closed == script.contains('c')
        };
        is_over(0) && is_over(1) && self.wires.iter().all(VecDeque::is_empty)
    }

    fn wrong(&self) -> Option<&'static str> {
        self.wrong
    }

    fn ended(&self) -> [Option<Cause>; 2] {
        self.devices.each_ref().map(|device| device.ended)
    }
}

impl World {
    fn call(&mut self, side: usize, letter: u8) {
        let device = &mut self.devices[side];
        let op = Op((side + 2 * self.at[side]) as u64);
        match letter {
            b'e' | b's' | b'l' => {
                let len = match letter {
                    b'e' => 0,
                    b's' => 1,
                    _ => 3,
                };
                let octets: Vec<u8> = (0..len).map(|at| u8::try_from(op.0 % 64).unwrap() * 4 + at).collect();
                if device.send(op, octets.clone()) {
                    self.messages.send(side, op, octets);
                }
            }
            b'r' | b'R' | b'i' => {
                let len = if letter == b'R' { 3 } else { 2 };
                if device.receive(op, len, letter == b'i') {
                    self.messages.receive(side, op, len, letter == b'i');
                }
            }
            b'k' => _ = device.session.cancel(None),
            b'x' => {
                self.messages.are_shut[side] = true;
                device.session.shutdown();
            }
            b'X' => {
                self.messages.are_stopped[side] = true;
                device.session.stop_receiving();
            }
            b'c' => {
                self.messages.are_shut[side] = true;
                device.session.close(LINGER);
            }
            _ => {}
        }
    }
}

/// How long closes wait. Time goes on only when nothing else happens.
const LINGER: core::time::Duration = core::time::Duration::from_secs(30);
