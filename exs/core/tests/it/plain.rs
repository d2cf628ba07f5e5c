//! Two sockets over TCP alone, with all that TCP may do between them.

use std::collections::VecDeque;

use core::time::Duration;

use proptest::prelude::*;
use weft_ddp::Stag;
use weft_exs_core::{Cause, Loss, Mode, Op, OpError, Outcome, Plain, PlainAction, RecvRequest, SendRequest};

use crate::play::{self, Step, World as _};

/// What happens in a world.
#[derive(Clone, Debug)]
struct Plan {
    /// Octets that TCP holds each way, and at each end.
    room: usize,
    /// A close may wait for too long.
    are_impatient: bool,
    /// The letters are those of `streams::world`; `t` receives 3 octets in a time that may be over, `T` sends 3 so.
    scripts: [String; 2],
}

/// A state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    sockets: [Plain; 2],
    /// What each side has given to TCP, and what has come to it: octets, and behind them the end.
    sent: [Way; 2],
    came: [Way; 2],
    /// The connection is gone, by RST.
    is_reset: [bool; 2],
    /// Octets of sends that TCP has not been given, and of those that it has and nobody has received.
    sends: [VecDeque<Transfer>; 2],
    receives: [VecDeque<Transfer>; 2],
    on_the_way: [VecDeque<u8>; 2],
    number: [u8; 2],
    next_op: u64,
    at: [usize; 2],
    may_fail: [bool; 2],
    wrong: Option<&'static str>,
    closed: [bool; 2],
}

/// An operation with its octets, how many of them are done, and whether it waits for all.
type Transfer = (Op, Vec<u8>, usize, bool);

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Way {
    octets: VecDeque<u8>,
    is_over: bool,
}

impl play::World for World {
    type Plan = Plan;

    fn new(_: &Plan) -> Self {
        Self {
            sockets: [Plain::new(2), Plain::new(2)],
            sent: Default::default(),
            came: Default::default(),
            is_reset: [false; 2],
            sends: Default::default(),
            receives: Default::default(),
            on_the_way: Default::default(),
            number: [1, 101],
            next_op: 0,
            at: [0; 2],
            may_fail: [false; 2],
            wrong: None,
            closed: [false; 2],
        }
    }

    fn steps(&self, plan: &Plan) -> Vec<Step> {
        let mut steps = Vec::new();
        for side in 0..2 {
            let letter = self.letter(plan, side);
            let is_idle = self.sockets[side].is_idle();
            if letter.is_some_and(|letter| letter != b'w' || is_idle) {
                steps.push(Step::User(side));
            }
            let (sent, came) = (&self.sent[side], &self.came[1 - side]);
            let has_end = sent.is_over && sent.octets.is_empty() && !came.is_over;
            if !sent.octets.is_empty() && came.octets.len() < plan.room || has_end {
                steps.push(Step::Deliver(side));
            }
            let is_due = |at: Duration| plan.are_impatient || at == TIMEOUT;
            if self.sockets[side].poll_at().is_some_and(is_due) {
                steps.push(Step::Time(side));
            }
        }
        steps
    }

    fn step(&mut self, plan: &Plan, step: Step, _: bool) {
        match step {
            Step::User(side) => {
                let letter = self.letter(plan, side).unwrap();
                self.at[side] += 1;
                self.act(side, letter);
                self.drive(plan, side);
            }
            Step::Deliver(side) => {
                // One octet at a time, or the end behind the last one.
                let octet = self.sent[side].octets.pop_front();
                self.came[1 - side].octets.extend(octet);
                self.came[1 - side].is_over |= octet.is_none();
                for one in [side, 1 - side] {
                    self.sockets[one].handle_ready();
                    self.drive(plan, one);
                }
            }
            Step::Time(side) => {
                let at = self.sockets[side].poll_at().unwrap();
                self.sockets[side].handle_time(at);
                self.drive(plan, side);
            }
            Step::Done(_) | Step::Recycle(_) => {}
        }
    }

    fn drain(&mut self, _: usize, _: bool) {}

    fn is_finished(&self, plan: &Plan) -> bool {
        (0..2).all(|side| self.at[side] == plan.scripts[side].len() && self.closed[side])
            && self.sends.iter().all(VecDeque::is_empty)
            && self.receives.iter().all(VecDeque::is_empty)
    }

    fn wrong(&self) -> Option<&'static str> {
        self.wrong
    }

    fn ended(&self) -> [Option<Cause>; 2] {
        self.sockets.each_ref().map(Plain::ended)
    }
}

impl World {
    fn letter(&self, plan: &Plan, side: usize) -> Option<u8> {
        plan.scripts[side].as_bytes().get(self.at[side]).copied()
    }

    fn act(&mut self, side: usize, letter: u8) {
        let deadline = letter.eq_ignore_ascii_case(&b't').then_some(TIMEOUT);
        let op = Op(self.next_op);
        self.next_op += 1;
        match letter {
            b'e' | b's' | b'l' | b'T' => {
                let len = match letter {
                    b'e' => 0,
                    b's' => 1,
                    _ => 3,
                };
                let octets: Vec<u8> = (0..len).map(|_| self.octet(side)).collect();
                let len = u32::try_from(octets.len()).unwrap();
                self.sends[side].push_back((op, octets, 0, true));
                self.may_fail[side] |= letter == b'T';
                let request = SendRequest { op, len, elements: 1, stag: Stag(0), to: 0, deadline };
                if let Err(error) = self.sockets[side].send(request) {
                    self.complete(side, op, Err(error));
                }
            }
            b'r' | b'a' | b't' => {
                let (len, waits_for_all) = if letter == b'r' { (2, false) } else { (3, true) };
                self.receives[side].push_back((op, vec![0; len as usize], 0, waits_for_all));
                let request = RecvRequest {
                    op,
                    len,
                    is_in_place: false,
                    waits_for_all,
                    stag: Stag(0),
                    to: 0,
                    deadline,
                };
                self.may_fail[side] |= letter == b't';
                if let Err(error) = self.sockets[side].receive(request) {
                    self.complete(side, op, Err(error));
                }
            }
            b'k' => {
                self.may_fail[side] = true;
                let under_way = self.sends[side].len() + self.receives[side].len();
                if self.sockets[side].cancel(None) > under_way {
                    self.wrong = Some("more are canceled than there are");
                }
            }
            b'x' => self.sockets[side].shutdown(),
            b'X' => {
                self.may_fail[side] = true;
                self.sockets[side].stop_receiving();
            }
            b'c' => {
                self.may_fail[side] = true;
                self.sockets[side].close(TIMEOUT * 2);
            }
            _ => {}
        }
    }

    fn octet(&mut self, side: usize) -> u8 {
        self.number[side] = self.number[side].wrapping_add(1);
        self.number[side]
    }

    /// Does all that a socket wants to have done.
    fn drive(&mut self, plan: &Plan, side: usize) {
        while let Some(action) = self.sockets[side].poll() {
            match action {
                PlainAction::Send { op, at, len } => self.send(plan, side, (op, at as usize, len as usize)),
                PlainAction::Receive { op, at, len } => self.receive(side, (op, at as usize, len as usize)),
                PlainAction::Look => {
                    let is_there = !self.came[side].octets.is_empty();
                    if is_there || !self.is_over_or_told(side) {
                        self.sockets[side].handle_look(is_there);
                    }
                }
                PlainAction::Finish => self.sent[side].is_over = true,
                PlainAction::Confirm => {
                    if self.is_reset[side] {
                        self.sockets[side].handle_loss(Loss::Reset);
                    } else {
                        let is_complete = self.sent[side].octets.is_empty();
                        self.sockets[side].handle_delivery(is_complete);
                    }
                }
                PlainAction::Complete { op, result } => self.complete(side, op, result),
                PlainAction::End { is_done } => {
                    if !is_done && !self.is_reset[side] {
                        self.is_reset = [true; 2];
                        self.sent.iter_mut().for_each(|way| way.octets.clear());
                        self.sockets[1 - side].handle_ready();
                        self.drive(plan, 1 - side);
                    }
                }
                PlainAction::Closed => {
                    let has_left = !self.sends[side].is_empty() || !self.receives[side].is_empty();
                    if core::mem::replace(&mut self.closed[side], true) || has_left {
                        self.wrong = Some("it is closed with operations, or twice");
                    }
                }
            }
        }
    }

    fn send(&mut self, plan: &Plan, side: usize, (op, at, len): (Op, usize, usize)) {
        if self.is_reset[side] {
            return self.sockets[side].handle_loss(Loss::Reset);
        }
        let room = (plan.room - self.sent[side].octets.len().min(plan.room)).min(len);
        let Some((first, octets, done, _)) = self.sends[side].front_mut() else {
            self.wrong = Some("there is no send");
            return;
        };
        if *first != op || *done != at || self.sent[side].is_over {
            self.wrong = Some("other octets are next");
        }
        let part = octets[at..at + room].to_vec();
        *done += room;
        self.sent[side].octets.extend(&part);
        self.on_the_way[side].extend(&part);
        self.sockets[side].handle_sent(u32::try_from(room).unwrap());
    }

    fn receive(&mut self, side: usize, (op, at, len): (Op, usize, usize)) {
        let there = self.came[side].octets.len().min(len);
        if there == 0 && self.is_over_or_told(side) {
            return;
        }
        let Some((first, octets, done, _)) = self.receives[side].front_mut() else {
            self.wrong = Some("there is no receive");
            return;
        };
        if *first != op || *done != at {
            self.wrong = Some("octets go elsewhere");
        }
        for place in &mut octets[at..at + there] {
            *place = self.came[side].octets.pop_front().unwrap();
            if self.on_the_way[1 - side].pop_front() != Some(*place) {
                self.wrong = Some("octets come in another order");
            }
        }
        *done += there;
        self.sockets[side].handle_received(u32::try_from(there).unwrap());
    }

    /// Tells a socket that no octets come any more, if that is so.
    fn is_over_or_told(&mut self, side: usize) -> bool {
        let is_over = self.came[side].is_over;
        if self.is_reset[side] {
            self.sockets[side].handle_loss(Loss::Reset);
        } else if is_over {
            self.sockets[side].handle_finished();
        }
        is_over || self.is_reset[side]
    }

    /// Takes the end of an operation.
    fn complete(&mut self, side: usize, op: Op, result: Result<Outcome, OpError>) {
        let cause = self.sockets[side].ended();
        let may_fail = self.may_fail[side] || cause.is_some_and(|cause| result == Err(cause.error()));
        if let Some(place) = self.sends[side].iter().position(|(one, ..)| *one == op) {
            let (_, octets, done, _) = self.sends[side].remove(place).unwrap();
            let is_right = match result {
                Ok(outcome) => place == 0 && done == octets.len() && outcome.octets as usize == done,
                Err(OpError::Canceled | OpError::TimedOut) => may_fail && (done == 0 || cause.is_some()),
                Err(_) => may_fail,
            };
            if !is_right {
                self.wrong = Some("a send ends as it should not");
            }
            return;
        }
        let Some(place) = self.receives[side].iter().position(|(one, ..)| *one == op) else {
            self.wrong = Some("an operation ends twice");
            return;
        };
        let (_, octets, done, waits_for_all) = self.receives[side].remove(place).unwrap();
        let is_over = self.came[side].is_over && self.came[side].octets.is_empty();
        let is_right = match result {
            Ok(outcome) if outcome.mode == Mode::End => done == 0 && (is_over || may_fail),
            Ok(outcome) => {
                let is_full = done == octets.len() || !waits_for_all && done > 0;
                outcome.octets as usize == done
                    && place == 0
                    && (is_full || is_over || may_fail || cause.is_some())
            }
            Err(_) => may_fail && done == 0,
        };
        if !is_right {
            self.wrong = Some("a receive ends as it should not");
        }
    }
}

/// Explores all states with this room in TCP.
fn holds(one: &str, other: &str, may_break: bool) {
    for room in [1, 3] {
        let plan = Plan { room, are_impatient: may_break, scripts: [one.to_owned(), other.to_owned()] };
        play::holds::<World>(&plan, may_break, BOUND);
    }
}

#[test]
fn octets_come_in_order_both_ways() {
    holds("lesxrrrrwc", "srxaawc", false);
}

#[test]
fn a_side_may_send_behind_the_other_ones_end() {
    holds("xrrrrwc", "rwlsxwc", false);
}

#[test]
fn receives_and_sends_are_canceled_at_any_time() {
    holds("llkxrwc", "arkrrrrrrrxwc", false);
}

#[test]
fn times_are_over_at_any_time() {
    holds("lTxrwc", "tarrxwc", true);
}

#[test]
fn a_side_may_read_no_more_and_close_at_any_time() {
    holds("lsrc", "rXxwc", true);
    holds("slrc", "lrc", true);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

    #[test]
    fn whatever_users_do_octets_come_in_order_and_each_operation_ends(
        room in 1..9_usize,
        one in "[eslrakt]{0,40}",
        other in "[eslrakt]{0,40}",
        choices in prop::collection::vec(any::<(u8, bool)>(), 400),
    ) {
        let scripts = [one, other].map(|script| script + "x" + &"r".repeat(130) + "wc");
        let plan = Plan { room, are_impatient: false, scripts };
        let world: World = play::run(&plan, &choices);
        prop_assert_eq!(world.wrong(), None);
        prop_assert!(world.is_finished(&plan), "{:#?}", world);
    }
}

/// The time of an operation that has one. A close has twice that.
const TIMEOUT: Duration = Duration::from_secs(1);
/// More states than these would need too much memory.
const BOUND: usize = 3_000_000;
