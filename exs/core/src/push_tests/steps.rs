//! What can happen in a world.

use std::vec::Vec;

use weft_ddp::Stag;

use super::broken::Broken;
use super::plan::Plan;
use super::world::{Flight, World, index, number};
use crate::message::{Advert, Body, Target};
use crate::op::Op;
use crate::push::Control;

/// What can happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// The user sends the next send.
    Send,
    /// The user cancels a send.
    CancelSend(Op),
    /// The user sends no more.
    ShutDown,
    /// The user begins the next receive.
    Receive,
    /// The user cancels a receive.
    Cancel(Op),
    /// The user reads no more.
    ShutRead,
    /// The sender puts a message on the wire.
    SenderSays,
    /// The oldest DATA that has not left leaves.
    Leave,
    /// The receiver puts a message on the wire.
    ReceiverSays,
    /// The receiver hears a message.
    Forth,
    /// The sender hears a message.
    Back,
}

impl Plan {
    /// Lists what may happen. Some of it may turn out to do nothing.
    pub(super) fn events(&self, world: &World, events: &mut Vec<Event>) {
        if world.wrong.is_some() {
            return;
        }
        if world.sends < self.sends.len() {
            events.push(Event::Send);
        } else if self.shuts_down && !world.is_shut_down {
            events.push(Event::ShutDown);
        }
        if world.send_cancels > 0 {
            let waits = |send: &usize| !world.taken_back[*send];
            events.extend((0..world.sends).filter(waits).map(|send| Event::CancelSend(Op(send as u64))));
        }
        if world.receives < self.receives.len() {
            events.push(Event::Receive);
        }
        if world.cancels > 0 {
            let ops = (0..world.receives as u64).map(Op).filter(|op| world.is_waiting(*op));
            events.extend(ops.map(Event::Cancel));
        }
        if self.shuts_read && world.read.is_none() {
            events.push(Event::ShutRead);
        }
        if world.out > 0 {
            events.push(Event::Leave);
        }
        events.extend([Event::SenderSays, Event::ReceiverSays]);
        if !world.forth.is_empty() {
            events.push(Event::Forth);
        }
        if !world.back.is_empty() {
            events.push(Event::Back);
        }
    }

    /// Lets an event happen. Returns false if it does nothing.
    pub(super) fn happen(&self, world: &mut World, event: Event) -> bool {
        let happens = match event {
            Event::Send => {
                world.sender.send(Op(world.sends as u64), self.sends[world.sends], 1);
                world.sends += 1;
                true
            }
            Event::CancelSend(op) => {
                let is_taken_back = world.sender.cancel(op);
                if is_taken_back {
                    world.taken_back[index(op)] = true;
                    world.send_cancels -= 1;
                }
                is_taken_back
            }
            Event::ShutDown => {
                world.is_shut_down = true;
                true
            }
            Event::Receive => {
                let (len, waits_for_all) = self.receives[world.receives];
                let op = Op(world.receives as u64);
                world.begin_receive(len);
                world.receiver.receive(op, len, waits_for_all);
                true
            }
            Event::Cancel(op) => {
                world.cancels -= 1;
                world.mark_canceled(op);
                let is_begun = world.receiver.cancel(op);
                world.check(is_begun || world.read.is_some(), "a receive cannot be canceled");
                if self.is_broken(Broken::CancelWithoutRevoke) {
                    world.forget_window(op);
                }
                true
            }
            Event::ShutRead => {
                world.receiver.shut_down();
                world.read = Some(world.receives);
                true
            }
            Event::SenderSays => self.sender_says(world),
            Event::Leave => {
                world.out -= 1;
                world.sender.handle_left();
                true
            }
            Event::ReceiverSays => self.receiver_says(world),
            Event::Forth => self.forth(world),
            Event::Back => self.back(world),
        };
        world.act(self, 0);
        while let Some(sent) = world.sender.poll_sent() {
            world.complete(self, &sent);
        }
        happens
    }

    /// Notes it if a world in which nothing more happens by itself is not as it should be.
    pub(super) fn check_rest(&self, world: &mut World) {
        let is_quiet = world.forth.is_empty() && world.back.is_empty() && world.out == 0;
        if is_quiet && !self.sender_says(&mut world.clone()) && !self.receiver_says(&mut world.clone()) {
            world.check_rest(self);
        }
    }

    fn sender_says(&self, world: &mut World) -> bool {
        if self.is_broken(Broken::RingBeyondFree) && world.sender.ring.free() == 0 {
            world.sender.ring.read(1);
        }
        let epoch = world.sender.epoch;
        let mut parts = Vec::new();
        match world.sender.poll_transfer(&mut parts) {
            None if world.is_shut_down && !world.is_end_sent => {
                let Some(end) = world.sender.end() else { return false };
                world.is_end_sent = true;
                world.forth.push_back(Flight::Shutdown(end));
            }
            None => return false,
            Some(transfer) => {
                let mut data = transfer.data;
                world.check_parts(self, &parts, data.len);
                let sink = world.write(&transfer);
                match &mut data.target {
                    Target::Ring { .. } if self.is_broken(Broken::EpochBesideRing) => {
                        world.sender.epoch = epoch;
                    }
                    Target::Advert { is_last, .. } if self.is_broken(Broken::AlwaysLast) => *is_last = true,
                    _ => {}
                }
                world.forth.push_back(Flight::Data(data, sink));
                match data.len {
                    0 => {}
                    _ if self.leaves_late => world.out += 1,
                    _ => world.sender.handle_left(),
                }
            }
        }
        true
    }

    fn receiver_says(&self, world: &mut World) -> bool {
        let receiver = &mut world.receiver;
        if self.is_broken(Broken::NoFree) {
            receiver.told = receiver.ring.total_read();
        }
        if self.is_broken(Broken::NoFreeBehindHold) && receiver.holds && receiver.ops().next().is_none() {
            return false;
        }
        let early = self.is_broken(Broken::AdvertBeforeAnswer) && receiver.awaits_answer;
        let window = if early { receiver.advertise() } else { None };
        let Some(control) = window.map(Control::Advert).or_else(|| receiver.poll_control()) else {
            return false;
        };
        let body = match control {
            Control::Free { read } => Body::Free { read },
            Control::Revoke { epoch } => Body::Revoke { epoch },
            Control::Advert(window) => {
                let epoch = receiver.epoch;
                if self.is_broken(Broken::FirstCountsAsFree) && window.advert(Stag(0), 0).first.is_some() {
                    receiver.told = receiver.ring.total_read();
                }
                let stag = Stag((epoch + 1) * 1000 + number(window.op.0));
                let (stag, to) = world.bind(&window, stag);
                Body::Advert(window.advert(stag, to))
            }
        };
        world.back.push_back(body);
        true
    }

    fn forth(&self, world: &mut World) -> bool {
        match world.forth.pop_front() {
            None => return false,
            Some(Flight::Shutdown(end)) => {
                let is_taken = world.receiver.handle_shutdown(end).is_ok();
                world.check(is_taken, "SHUTDOWN is a fault");
            }
            Some(Flight::Data(data, sink)) => {
                let is_in_use = sink.is_none_or(|stag| world.is_in_use(stag));
                world.check(is_in_use, "a Write comes to a window that is not in use");
                let is_taken = world.receiver.handle_data(&data).is_ok();
                world.check(is_taken, "DATA is a fault");
                let through_ring = data.len > 0 && matches!(data.target, Target::Ring { .. });
                if self.is_broken(Broken::NoNewEpoch) && through_ring && world.receiver.epoch > 0 {
                    world.receiver.is_void = false;
                }
                world.act(self, data.position);
            }
        }
        true
    }

    fn back(&self, world: &mut World) -> bool {
        let Some(body) = world.back.pop_front() else { return false };
        let is_taken = match body {
            Body::Advert(advert) => self.hear_advert(world, advert),
            Body::Free { read } => {
                let held = world.sender.holds;
                let is_taken = world.sender.handle_free(read).is_ok();
                if self.is_broken(Broken::FreeEndsNoHold) {
                    world.sender.holds = held;
                }
                is_taken
            }
            Body::Revoke { epoch } => {
                let before = world.sender.clone();
                let is_taken = world.sender.handle_revoke(epoch).is_ok();
                if self.is_broken(Broken::NoAnswer) {
                    world.sender.owed = 0;
                }
                if self.is_broken(Broken::RevokeWithoutEffect) {
                    world.sender.epoch = before.epoch;
                    world.sender.adverts = before.adverts;
                }
                is_taken
            }
            _ => false,
        };
        world.check(is_taken, "a message of the receiver is a fault");
        true
    }

    fn hear_advert(&self, world: &mut World, mut advert: Advert) -> bool {
        let before = world.sender.clone();
        match &mut advert.first {
            Some(first) if self.is_broken(Broken::FirstWithoutPosition) => *first = world.sender.position,
            None if self.is_broken(Broken::AnyEpoch) => world.sender.epoch = advert.epoch,
            _ => {}
        }
        let is_taken = world.sender.handle_advert(advert).is_ok();
        if advert.first.is_some() && self.is_broken(Broken::FirstFreesNothing) {
            world.sender.ring = before.ring;
        }
        if self.is_broken(Broken::FirstEndsNoHold) {
            world.sender.holds = before.holds;
        }
        is_taken
    }
}
