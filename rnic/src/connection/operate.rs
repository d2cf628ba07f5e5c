//! The phases of a connection in and after Full Operation.

use weft_mpa::mulpdu;
use weft_netif::{CloseCause, Llp};
use weft_rdmap::Terminate;
use weft_verbs::{Lending, QpEvent, QpNotice, QueuePair, Status};

use crate::connection::state::{Connection, Phase, Turn, Verdict};
use crate::events::connection::{CmEvent, DisconnectReason};
use crate::failure::{Cause, Failure, status_of};
use crate::stream::ending::{Peer, Stage, Step};
use crate::stream::user::Surroundings;
use crate::stream::{Stream, direct, pump};

impl Connection {
    /// Full Operation: takes what has arrived, sends what there is room for, and sees to the end.
    pub(crate) fn operate(&mut self, turn: &mut Turn<'_>) -> Verdict {
        let Phase::Full(Stage::Operating(stream)) = &mut self.phase else { return self.end(turn) };
        match receive(stream, turn) {
            Ok(None) => {}
            Ok(Some(terminate)) => return self.handle_terminate(turn, &terminate),
            Err(failure) => return self.fail(turn, failure),
        }
        if let Err(failure) = transmit(stream, turn) {
            return self.fail(turn, failure);
        }
        if turn.qp.as_ref().is_some_and(|qp| qp.is_overrun()) {
            return self.fail(turn, Failure::local(Cause::CompletionQueueOverrun));
        }
        if turn.qp.as_deref().is_some_and(QueuePair::is_drained) {
            note(turn, QpNotice::SqDrained);
            return self.disconnect(turn);
        }
        if Peer::of(&turn.llp) == Peer::Open { Verdict::Keep } else { self.watch(turn) }
    }

    /// Nothing has come since startup: Linux siw may have left what followed its Reply unread, and looks again when
    /// more comes.
    pub(crate) fn nudge(&mut self, turn: &mut Turn<'_>) -> Verdict {
        let Phase::Full(Stage::Operating(stream)) = &mut self.phase else { return Verdict::Keep };
        if stream.nudge() {
            self.nudges += 1;
            let again = turn.nudge_after.filter(|_| self.nudges < NUDGES);
            self.deadline = again.map(|after| turn.now + after * (1 << self.nudges));
        }
        self.operate(turn)
    }

    /// Ends the connection for the application.
    pub(crate) fn disconnect(&mut self, turn: &mut Turn<'_>) -> Verdict {
        match &self.phase {
            Phase::Full(Stage::Operating(_)) => {
                if let Some(qp) = turn.qp.as_deref_mut() {
                    qp.handle_event(QpEvent::CloseStarted);
                }
                self.ended = Some(DisconnectReason::Local);
                self.shut(turn)
            }
            Phase::Full(_) => Verdict::Keep,
            _ => {
                turn.llp.abort();
                Verdict::Remove
            }
        }
    }

    /// Closes as soon as everything that is posted to the send queue has been done.
    pub(crate) fn drain_and_close(&mut self, turn: &mut Turn<'_>) -> Verdict {
        if let Some(qp) = turn.qp.as_deref_mut() {
            qp.drain();
        }
        self.turn(turn)
    }

    /// Resets the connection and flushes at once.
    pub(crate) fn break_off(&mut self, turn: &mut Turn<'_>) -> Verdict {
        if matches!(self.phase, Phase::Full(Stage::Operating(_))) {
            self.ended = Some(DisconnectReason::Local);
        }
        turn.llp.abort();
        if let Some(qp) = turn.qp.as_deref_mut() {
            qp.handle_event(QpEvent::Failed);
        }
        self.finish(turn)
    }

    /// What follows Full Operation: throws input away, sends what the stream still owes, then FIN, and waits for the
    /// peer's.
    fn end(&mut self, turn: &mut Turn<'_>) -> Verdict {
        pump::discard(&mut turn.llp);
        if let Phase::Full(Stage::Ending(stream)) = &mut self.phase
            && transmit(stream, turn).is_err()
        {
            // A second failure changes nothing: the stream is at its end already, and FIN follows.
            return self.shut(turn);
        }
        self.watch(turn)
    }

    /// Sends FIN and waits for the peer's.
    pub(crate) fn shut(&mut self, turn: &mut Turn<'_>) -> Verdict {
        turn.llp.shutdown();
        self.phase = Phase::Full(Stage::Draining);
        self.undelivered = turn.llp.unsent();
        self.deadline = Some(turn.now + turn.close_timeout);
        self.end(turn)
    }

    /// Returns whether a connection whose time to close is over has as much time again: the peer has acknowledged
    /// octets meanwhile, but not all. So a slow line gets all that was sent, and a peer that is silent does not keep
    /// the connection.
    pub(crate) fn goes_on(&mut self, turn: &mut Turn<'_>) -> bool {
        let before = core::mem::replace(&mut self.undelivered, turn.llp.unsent());
        let goes_on = (1..before).contains(&self.undelivered);
        if goes_on {
            self.deadline = Some(turn.now + turn.close_timeout);
        }
        goes_on
    }

    /// The connection is over: the queue pair ends in Error, and the application hears it if it has not yet.
    pub(crate) fn finish(&mut self, turn: &mut Turn<'_>) -> Verdict {
        if let Some(qp) = turn.qp.as_deref_mut() {
            qp.handle_event(QpEvent::LlpClosed);
            if let Some(reason) = self.ended.take() {
                self.trace.ended(&reason);
                self.tell(CmEvent::Disconnected { qp_num: qp.queues().number, reason });
            }
        }
        Verdict::Remove
    }

    /// Acts on what TCP and the stream have come to.
    fn watch(&mut self, turn: &mut Turn<'_>) -> Verdict {
        let Phase::Full(stage) = &mut self.phase else { return Verdict::Keep };
        match stage.watch(Peer::of(&turn.llp)) {
            None => Verdict::Keep,
            Some(Step::PeerFinished { graceful }) => self.handle_fin(turn, graceful),
            Some(Step::Lost) => self.handle_loss(turn),
            Some(Step::Shut) => self.shut(turn),
            Some(Step::Over) => self.finish(turn),
        }
    }

    /// Tells the application now that the stream has ended, while the connection is still being closed.
    fn report_end(&mut self, turn: &Turn<'_>, reason: DisconnectReason) {
        self.trace.ended(&reason);
        if let Some(qp) = turn.qp.as_deref() {
            self.tell(CmEvent::Disconnected { qp_num: qp.queues().number, reason });
        }
        self.ended = None;
        self.deadline = Some(turn.now + turn.close_timeout);
    }

    fn handle_fin(&mut self, turn: &mut Turn<'_>, graceful: bool) -> Verdict {
        let mut reason = DisconnectReason::Peer;
        if !graceful {
            turn.counters.mpa.cut_short += 1;
            note(turn, QpNotice::Fatal);
            reason = DisconnectReason::Lost;
        }
        if let Some(qp) = turn.qp.as_deref_mut() {
            if graceful {
                qp.handle_peer_left();
            } else {
                qp.handle_event(QpEvent::Failed);
            }
        }
        self.report_end(turn, reason);
        self.end(turn)
    }

    fn handle_loss(&mut self, turn: &mut Turn<'_>) -> Verdict {
        let is_silent = turn.llp.cause() == Some(CloseCause::TimedOut);
        if let Some(qp) = turn.qp.as_deref_mut() {
            qp.note(QpNotice::Fatal);
            if is_silent {
                qp.fail_oldest(Status::RetryExceeded);
            }
        }
        self.ended = Some(if is_silent { DisconnectReason::TimedOut } else { DisconnectReason::Lost });
        self.finish(turn)
    }

    /// Handles the peer's Terminate: the request that it refuses fails, all others are flushed.
    fn handle_terminate(&mut self, turn: &mut Turn<'_>, terminate: &Terminate) -> Verdict {
        let culprit = match &self.phase {
            Phase::Full(stage) => stage.operating().and_then(|stream| stream.culprit(terminate)),
            _ => None,
        };
        turn.counters.terminates_received.count(terminate);
        self.trace.terminate_received(terminate);
        if let Some(qp) = turn.qp.as_deref_mut() {
            if let Some(token) = culprit {
                let code = [0, terminate.layer, terminate.etype, terminate.code];
                qp.fail(token, status_of(terminate), u32::from_be_bytes(code));
            } else {
                if qp.queues().as_infiniband() {
                    // Its Writes are confirmed. So the peer mostly refuses the first one that is not.
                    qp.fail_oldest(status_of(terminate));
                }
                qp.note(QpNotice::Fatal);
            }
            qp.handle_event(QpEvent::Terminated);
        }
        let code = (terminate.layer, terminate.etype, terminate.code);
        let other = terminate.other_reading();
        let other = other.map(|other| ((other.layer, other.etype, other.code), other.describe()));
        let text = terminate.describe();
        self.report_end(turn, DisconnectReason::PeerTerminate { code, text, other });
        self.shut(turn)
    }

    /// Ends the stream with a Terminate for the application.
    pub(crate) fn terminate(&mut self, turn: &mut Turn<'_>) -> Verdict {
        self.fail(turn, Failure::local(Cause::Requested))
    }

    /// Ends the stream after an error that this side has found: the peer gets a Terminate, the queue pair is flushed.
    fn fail(&mut self, turn: &mut Turn<'_>, failure: Failure) -> Verdict {
        let Phase::Full(stage) = &mut self.phase else { return Verdict::Keep };
        let Some(stream) = stage.operating() else { return Verdict::Keep };
        turn.counters.count_failure(&failure);
        if let Some(notice) = failure.cause.notice() {
            note(turn, notice);
        }
        if let (true, Some(qp), Some(token)) =
            (failure.is_in_answer, turn.qp.as_deref_mut(), stream.oldest_request())
        {
            qp.fail(token, Status::BadResponse, 0);
        }
        self.trace.terminate_sent(&failure.terminate);
        stage.terminate(failure.terminate);
        if let Some(qp) = turn.qp.as_deref_mut() {
            qp.handle_event(QpEvent::Terminated);
        }
        self.report_end(turn, DisconnectReason::LocalTerminate(failure.cause));
        self.end(turn)
    }
}

fn note(turn: &mut Turn<'_>, notice: QpNotice) {
    if let Some(qp) = turn.qp.as_deref_mut() {
        qp.note(notice);
    }
}

/// Receives as long as TCP has octets and nothing has to wait for a receive request.
fn receive(stream: &mut Stream, turn: &mut Turn<'_>) -> Result<Option<Terminate>, Failure> {
    let Turn { llp, qp: Some(qp), memory, counters, stagings, .. } = turn else { return Ok(None) };
    let lands = llp.receives_directly();
    let mut user = Surroundings { qp, memory, counters, lending: None, lands };
    stream.resume(&mut user)?;
    loop {
        match direct::receive(stream, llp, &mut user)? {
            Some(0) => break,
            Some(_) => {}
            None => {
                let heard = pump::receive(llp, |octets| {
                    let before = octets.len();
                    stagings.lend(stream.segments_mut());
                    let received = stream.receive(octets, &mut user);
                    stagings.take_back(stream.segments_mut());
                    user.counters.mpa.octets_received += (before - octets.len()) as u64;
                    let lacks_payload = stream.placings.lacks_payload();
                    received.map(|terminate| match terminate {
                        Some(terminate) => Some(Heard::Terminate(terminate)),
                        None => lacks_payload.then_some(Heard::Head),
                    })
                });
                match heard? {
                    None if receive_placed(stream, llp, &mut user)? => {}
                    None => break,
                    Some(Heard::Terminate(terminate)) => return Ok(Some(terminate)),
                    Some(Heard::Head) => {}
                }
            }
        }
    }
    if stream.places_ahead() {
        llp.ahead(|octets, placed| stream.place_ahead(octets, placed, &user));
    }
    Ok(None)
}

/// Takes the next FPDU if its payload was placed ahead of its turn. Returns whether it has.
fn receive_placed(
    stream: &mut Stream,
    llp: &mut Llp<'_>,
    user: &mut Surroundings<'_>,
) -> Result<bool, Failure> {
    if llp.placed() == 0 {
        return Ok(false);
    }
    let len = stream.receive_placed(user)?;
    llp.consume(len);
    user.counters.mpa.octets_received += len as u64;
    Ok(len > 0)
}

/// Why the reading of a buffer ends.
enum Heard {
    Terminate(Terminate),
    /// An FPDU has begun whose payload can go from the socket to where it belongs.
    Head,
}

/// Sends as long as there is something to send and TCP has room for a whole FPDU of the largest size.
pub(crate) fn transmit(stream: &mut Stream, turn: &mut Turn<'_>) -> Result<(), Failure> {
    let Turn { llp, qp: Some(qp), memory, counters, scratch, tcp_buffer, .. } = turn else { return Ok(()) };
    // Most turns that receive have nothing to send.
    if !stream.has_output(qp.has_request()) {
        return Ok(());
    }
    let lends = stream.segments().is_plain() && llp.sends_directly();
    let mut user = Surroundings { qp, memory, counters, lending: lends.then(Lending::new), lands: false };
    // An FPDU larger than the buffer would wait for room for ever.
    let mulpdu = mulpdu(llp.emss().min(*tcp_buffer), stream.segments().sends_markers());
    if lends {
        direct::transmit_all(stream, llp, scratch, mulpdu, &mut user)
    } else {
        pump::transmit_all(stream, llp, scratch, mulpdu, &mut user)
    }
}

/// By default the last one is sent some seconds after the start: a peer that has not begun to read by then never will.
const NUDGES: u32 = 5;
