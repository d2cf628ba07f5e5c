//! What carries a socket to a peer without EXS: TCP alone.

use weft_exs_core::{self as core, Loss, Op, PlainAction};
use weft_rnic::{CloseCause, StreamError, StreamingConnection};

use super::calls::Calls;

/// A stream over TCP alone.
#[derive(Debug)]
pub(super) struct Plain {
    pub(super) session: core::Plain,
    /// Until the connection has ended.
    tcp: Option<StreamingConnection>,
    /// On their way between TCP and an operation's memory.
    octets: Box<[u8]>,
    /// There was more to be done than one turn does.
    pub(super) has_more: bool,
}

impl Plain {
    pub(super) fn new(tcp: StreamingConnection) -> Self {
        let octets = vec![0; PART as usize].into_boxed_slice();
        Self { session: core::Plain::new(PART), tcp: Some(tcp), octets, has_more: false }
    }

    /// Returns whether the peer's TCP has acknowledged all that TCP was given.
    pub(super) fn is_delivered(&self) -> bool {
        self.tcp.as_ref().is_none_or(|tcp| tcp.unsent() == Ok(0))
    }

    /// Does what there is to do, but not more than a part of it: a fast peer leaves time for others.
    pub(super) fn perform(&mut self, calls: &mut Calls) {
        for _ in 0..TURN {
            let Some(action) = self.session.poll() else {
                self.has_more = false;
                return;
            };
            self.carry_out(action, calls);
        }
        self.has_more = true;
    }

    fn carry_out(&mut self, action: PlainAction, calls: &mut Calls) {
        match action {
            PlainAction::Send { op, at, len } => self.send(op, (at, len), calls),
            PlainAction::Receive { op, at, len } => self.receive(op, (at, len), calls),
            PlainAction::Look => match self.ask(|tcp, _| tcp.peek(&mut [0])) {
                Ok(there) => self.session.handle_look(there > 0),
                Err(error) => self.handle_end(error),
            },
            PlainAction::Finish => {
                // If there is no connection any more, the next request hears of it.
                let _gone = self.ask(|tcp, _| tcp.shutdown().map(|()| 0));
            }
            PlainAction::Confirm => match self.ask(|tcp, _| tcp.unsent()) {
                Ok(unsent) => self.session.handle_delivery(unsent == 0),
                Err(error) => self.handle_end(error),
            },
            PlainAction::Complete { op, result } => {
                calls.complete(op, result.map_err(Into::into), |_| None);
            }
            PlainAction::End { is_done } => {
                if let Some(tcp) = self.tcp.take().filter(|_| !is_done) {
                    tcp.abort();
                }
            }
            PlainAction::Closed => calls.tell_closed(self.session.closed().map_err(Into::into)),
        }
    }

    fn send(&mut self, op: Op, (at, len): (u32, u32), calls: &mut Calls) {
        let octets = self.octets.get_mut(..len as usize).unwrap_or_default();
        if !calls.transfers.get(&op).is_some_and(|transfer| transfer.area.copy_out(at as usize, octets)) {
            // Others follow in the stream, which has a gap now.
            calls.fault(op);
            self.session.handle_loss(Loss::Reset);
            return;
        }
        match self.ask(|tcp, octets| tcp.send(octets.get(..len as usize).unwrap_or_default())) {
            Ok(sent) => self.session.handle_sent(count(sent)),
            Err(error) => self.handle_end(error),
        }
    }

    fn receive(&mut self, op: Op, (at, len): (u32, u32), calls: &mut Calls) {
        match self.ask(|tcp, octets| tcp.receive(octets.get_mut(..len as usize).unwrap_or_default())) {
            Ok(came) => {
                let octets = self.octets.get(..came).unwrap_or_default();
                let transfer = calls.transfers.get(&op);
                if !transfer.is_some_and(|transfer| transfer.area.copy_in(at as usize, octets)) {
                    calls.fault(op);
                }
                self.session.handle_received(count(came));
            }
            Err(error) => self.handle_end(error),
        }
    }

    /// Asks TCP for something.
    fn ask(
        &mut self,
        request: impl FnOnce(&StreamingConnection, &mut [u8]) -> Result<usize, StreamError>,
    ) -> Result<usize, StreamError> {
        self.tcp.as_ref().map_or(Err(StreamError::Closed), |tcp| request(tcp, &mut self.octets))
    }

    fn handle_end(&mut self, error: StreamError) {
        if error == StreamError::Finished {
            return self.session.handle_finished();
        }
        let cause = self.tcp.as_ref().and_then(StreamingConnection::cause);
        self.session.handle_loss(match cause {
            Some(CloseCause::Graceful) => Loss::Fin,
            Some(CloseCause::TimedOut) => Loss::TimedOut,
            _ => Loss::Reset,
        });
    }
}

fn count(octets: usize) -> u32 {
    u32::try_from(octets).unwrap_or(PART)
}

/// Octets that are copied at a time.
const PART: u32 = 16 << 10;
/// What is done in one turn: about 1 MiB.
const TURN: usize = 64;
