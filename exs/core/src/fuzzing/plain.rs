//! The body of `exs_plain`: a socket over TCP alone, whose user and whose TCP do what the input says.
//!
//! ```text
//! octet 0       octets of one request for TCP at most, less 1
//! then steps    octet 0, low three bits: what happens
//!               0  a send: octets; bit 3: with a deadline
//!               1  a receive: octets; bit 3: it waits until it is full; bit 4: with a deadline
//!               2  TCP has room for more: octets
//!               3  TCP has more: octets; bit 3: and nothing behind them
//!               4  the peer acknowledges all
//!               5  a call: 0 cancels one, 1 cancels all, 2 shuts down, 3 takes nothing more, 4 closes, 5 lets time pass
//!               6  the connection is lost: 0 both sides have closed it, 1 reset, 2 timed out
//!               7  what is wanted is done; bit 3: one action only
//! ```

use alloc::collections::VecDeque;
use core::time::Duration;

use super::{DEADLINE, Input};
use crate::{Cause, Loss, Mode, Op, Outcome, Plain, PlainAction, RecvRequest, SendRequest};
use weft_ddp::Stag;

/// Reads any octets as the life of a socket. Returns how many operations have completed.
///
/// # Panics
/// If octets are lost, come twice or out of order, or if an operation does not end once.
pub fn plain(octets: &[u8]) -> usize {
    let mut input = Input(octets);
    let mut tcp = Tcp::new(u32::from(input.octet()) + 1);
    while !input.0.is_empty() {
        tcp.step(&mut input);
    }
    tcp.end()
}

/// A socket, and what TCP and the user know.
struct Tcp {
    socket: Plain,
    part: u32,
    /// Octets that TCP takes, and octets that it has.
    room: u32,
    there: u32,
    /// The peer sends nothing more behind those.
    is_finished: bool,
    is_acknowledged: bool,
    /// Nothing more goes to TCP.
    has_finished: bool,
    /// Operations under way, in order: their lengths, and the octets that have been moved.
    sends: VecDeque<(Op, u32, u32)>,
    receives: VecDeque<(Op, u32, u32)>,
    now: Duration,
    ops: u64,
    completed: usize,
    has_ended: bool,
    is_closed: bool,
}

impl Tcp {
    fn new(part: u32) -> Self {
        Self {
            socket: Plain::new(part),
            part,
            room: 0,
            there: 0,
            is_finished: false,
            is_acknowledged: false,
            has_finished: false,
            sends: VecDeque::new(),
            receives: VecDeque::new(),
            now: Duration::ZERO,
            ops: 0,
            completed: 0,
            has_ended: false,
            is_closed: false,
        }
    }

    fn step(&mut self, input: &mut Input<'_>) {
        let how = input.octet();
        let has = |bit: u8| how & bit != 0;
        match how & 7 {
            0 => {
                let (op, len) = (self.next_op(), input.octet().into());
                let deadline = has(8).then(|| self.now + DEADLINE);
                let request = SendRequest { op, len, elements: 1, stag: Stag(0), to: 0, deadline };
                // What is started may end at once.
                self.sends.push_back((op, len, 0));
                if self.socket.send(request).is_err() {
                    self.sends.pop_back();
                }
            }
            1 => {
                let (op, len) = (self.next_op(), input.octet().into());
                let (waits_for_all, deadline) = (has(8), has(16).then(|| self.now + DEADLINE));
                let (stag, to, is_in_place) = (Stag(0), 0, false);
                self.receives.push_back((op, len, 0));
                let request = RecvRequest { op, len, is_in_place, waits_for_all, stag, to, deadline };
                if self.socket.receive(request).is_err() {
                    self.receives.pop_back();
                }
            }
            2 => {
                self.room += u32::from(input.octet());
                self.socket.handle_ready();
            }
            3 if !self.is_finished => {
                self.there += u32::from(input.octet());
                self.is_finished = has(8);
                self.socket.handle_ready();
            }
            4 => {
                self.is_acknowledged = true;
                self.socket.handle_ready();
            }
            5 => self.call(input.octet()),
            6 => self.socket.handle_loss(match input.octet() % 3 {
                // TCP says that of both directions only when its user has closed one, and has all of the other.
                0 if self.has_finished && self.is_finished && self.there == 0 => Loss::Fin,
                2 => Loss::TimedOut,
                _ => Loss::Reset,
            }),
            7 if has(8) => _ = self.act(),
            _ => while self.act() {},
        }
    }

    fn call(&mut self, which: u8) {
        match which % 6 {
            0 => {
                let op = Op(u64::from(which / 6) % (self.ops + 1));
                assert!(self.socket.cancel(Some(op)) <= 1);
            }
            1 => _ = self.socket.cancel(None),
            2 => self.socket.shutdown(),
            3 => self.socket.stop_receiving(),
            4 => self.socket.close(self.now + DEADLINE * 2),
            _ => {
                self.now += DEADLINE;
                self.socket.handle_time(self.now);
            }
        }
    }

    /// Does what is wanted next, if there is something.
    fn act(&mut self) -> bool {
        let Some(action) = self.socket.poll() else { return false };
        let is_request =
            !matches!(action, PlainAction::Complete { .. } | PlainAction::End { .. } | PlainAction::Closed);
        assert!(!is_request || !self.has_ended, "TCP is asked behind the end");
        match action {
            PlainAction::Send { op, at, len } => {
                assert!(!self.has_finished && (1..=self.part).contains(&len));
                let (first, whole, done) = self.sends.front_mut().expect("a send is under way");
                assert_eq!((*first, *done), (op, at), "octets are sent out of order");
                let taken = len.min(self.room);
                *done += taken;
                assert!(at + len <= *whole);
                self.room -= taken;
                self.socket.handle_sent(taken);
            }
            PlainAction::Receive { op, at, len } => {
                assert!((1..=self.part).contains(&len));
                let (first, whole, done) = self.receives.front_mut().expect("a receive is under way");
                assert_eq!((*first, *done), (op, at), "octets are received out of order");
                assert!(at + len <= *whole);
                let came = len.min(self.there);
                if came == 0 && self.is_finished {
                    self.socket.handle_finished();
                } else {
                    *done += came;
                    self.there -= came;
                    self.socket.handle_received(came);
                }
            }
            PlainAction::Look if self.there == 0 && self.is_finished => self.socket.handle_finished(),
            PlainAction::Look => self.socket.handle_look(self.there > 0),
            PlainAction::Finish => assert!(!core::mem::replace(&mut self.has_finished, true)),
            PlainAction::Confirm => {
                assert!(self.has_finished && self.is_finished && self.there == 0);
                self.socket.handle_delivery(self.is_acknowledged);
            }
            PlainAction::Complete { op, result } => self.complete(op, result.ok()),
            PlainAction::End { is_done } => {
                assert!(!core::mem::replace(&mut self.has_ended, true));
                assert_eq!(is_done, self.socket.ended() == Some(Cause::Closed));
            }
            PlainAction::Closed => {
                assert!(self.has_ended && !core::mem::replace(&mut self.is_closed, true));
                assert!(self.sends.is_empty() && self.receives.is_empty());
            }
        }
        true
    }

    /// Takes the end of an operation, which has not ended before.
    fn complete(&mut self, op: Op, outcome: Option<Outcome>) {
        self.completed += 1;
        if let Some(at) = self.sends.iter().position(|(one, ..)| *one == op) {
            let (_, len, done) = self.sends.remove(at).expect("it is there");
            // One that was canceled has moved nothing, unless the connection has ended.
            assert!(outcome.map_or(done == 0 || self.has_ended, |it| it.octets == len && done == len));
            return;
        }
        let at = self.receives.iter().position(|(one, ..)| *one == op).expect("it is under way");
        let (_, len, done) = self.receives.remove(at).expect("it is there");
        match outcome {
            Some(outcome) if outcome.mode == Mode::End => assert!(done == 0 && len > 0),
            Some(outcome) => assert_eq!(outcome.octets, done),
            None => assert_eq!(done, 0, "octets that came are lost"),
        }
    }

    /// Ends the connection, and everything with it.
    fn end(mut self) -> usize {
        self.socket.close(self.now + DEADLINE);
        while self.act() {}
        self.now += DEADLINE * 3;
        self.socket.handle_time(self.now);
        while self.act() {}
        assert!(self.has_ended && self.is_closed && self.socket.is_idle());
        assert!(self.sends.is_empty() && self.receives.is_empty());
        self.completed
    }

    const fn next_op(&mut self) -> Op {
        self.ops += 1;
        Op(self.ops)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_socket_holds_on_likely_input(part in 0..9_u8, steps in prop::collection::vec((0..32_u8, 0..24_u8), 0..60)) {
            let steps = steps.into_iter().flat_map(|(what, octet)| match what & 7 {
                4 | 7 => alloc::vec![what],
                _ => alloc::vec![what, octet],
            });
            plain(&core::iter::once(part).chain(steps).collect::<alloc::vec::Vec<_>>());
        }

        #[test]
        fn a_socket_holds_on_any_input(octets in prop::collection::vec(any::<u8>(), 0..400)) {
            plain(&octets);
        }
    }

    #[test]
    fn octets_go_both_ways() {
        assert_eq!(plain(&[3, 0, 9, 1 | 8, 9, 2, 99, 3 | 8, 9, 7, 5, 2, 7, 4, 5, 4, 7]), 2);
    }
}
