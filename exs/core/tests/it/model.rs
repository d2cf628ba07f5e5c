//! What has to come out: a list of messages for each direction.

use std::collections::VecDeque;

use weft_exs_core::{Cause, Mode, Op, OpError, Outcome};

/// The messages from one side to the other, in the order of their starts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct List(VecDeque<Message>);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Message {
    op: Op,
    octets: Vec<u8>,
    /// Octets that the receiver has got.
    placed: Option<u32>,
    /// The send has failed, since its side has ended. The message may come all the same.
    is_over: bool,
}

/// What is known of a side's messages: of those that it sends, and the receives that wait for the other one's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Messages {
    lists: [List; 2],
    receives: [VecDeque<Receive>; 2],
    /// The side whose operations complete now.
    pub(crate) side: usize,
    /// Sides that take nothing more.
    pub(crate) are_stopped: [bool; 2],
    /// Sides that send nothing more.
    pub(crate) are_shut: [bool; 2],
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Receive {
    op: Op,
    len: u32,
    is_in_place: bool,
}

/// An operation has completed.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) op: Op,
    pub(crate) result: Result<Outcome, OpError>,
    /// What a receive holds.
    pub(crate) octets: Vec<u8>,
    /// Why the side has ended, if it has.
    pub(crate) cause: Option<Cause>,
}

impl Messages {
    pub(crate) fn send(&mut self, side: usize, op: Op, octets: Vec<u8>) {
        self.lists[side].0.push_back(Message { op, octets, placed: None, is_over: false });
    }

    pub(crate) fn receive(&mut self, side: usize, op: Op, len: u32, is_in_place: bool) {
        self.receives[side].push_back(Receive { op, len, is_in_place });
    }

    /// Takes the end of an operation.
    pub(crate) fn handle(&mut self, event: &Event) -> Result<(), &'static str> {
        let side = self.side;
        if let Some(place) = self.receives[side].iter().position(|receive| receive.op == event.op) {
            let receive = self.receives[side].remove(place).unwrap();
            return self.handle_receive(event, &receive, place);
        }
        let list = &mut self.lists[side].0;
        let place = list.iter().position(|message| message.op == event.op).ok_or("no such operation")?;
        if let Err(error) = event.result
            && event.cause.is_some_and(|cause| is_of(cause, error))
        {
            list[place].is_over = true;
            return Ok(());
        }
        let message = list.remove(place).unwrap();
        match event.result {
            Err(OpError::Canceled) if message.placed.is_none() => Ok(()),
            Ok(Outcome { octets, message_len, .. }) => {
                let is_right = place == 0
                    && message.placed == Some(octets)
                    && message_len as usize == message.octets.len();
                if is_right { Ok(()) } else { Err("a send completes too early, or tells something else") }
            }
            Err(OpError::Shutdown)
                if place == 0 && message.placed.is_none() && self.are_stopped[1 - side] =>
            {
                Ok(())
            }
            Err(_) => Err("a send fails without a reason"),
        }
    }

    fn handle_receive(&mut self, event: &Event, receive: &Receive, place: usize) -> Result<(), &'static str> {
        let (side, peer) = (self.side, 1 - self.side);
        let outcome = match event.result {
            Err(OpError::Canceled) => return Ok(()),
            Err(error) if event.cause.is_some_and(|cause| is_of(cause, error)) => return Ok(()),
            Err(_) => return Err("a receive fails without a reason"),
            Ok(outcome) if place == 0 => outcome,
            Ok(_) => return Err("receives complete out of order"),
        };
        let next = self.lists[peer].0.iter_mut().find(|message| message.placed.is_none());
        if outcome.mode == Mode::End {
            let is_right = self.are_stopped[side] || self.are_shut[peer] && next.is_none();
            return if is_right { Ok(()) } else { Err("an end comes too early") };
        }
        let next = next.ok_or("there is no message")?;
        let is_whole = matches!(outcome.mode, Mode::InPlace { .. });
        if is_whole && !receive.is_in_place {
            return Err("nobody wants it in place");
        }
        let placed = if is_whole { next.octets.len() } else { next.octets.len().min(receive.len as usize) };
        next.placed = Some(u32::try_from(placed).unwrap());
        let is_right = event.octets == next.octets[..placed]
            && outcome.octets as usize == placed
            && outcome.message_len as usize == next.octets.len();
        if is_right { Ok(()) } else { Err("a receive holds something else") }
    }
}

/// Returns whether operations end so of a side that has ended for this reason. After a clean end none is left.
fn is_of(cause: Cause, error: OpError) -> bool {
    cause != Cause::Closed && cause.error() == error
}
