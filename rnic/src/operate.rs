//! The phases of a connection in and after Full Operation.

use weft_mpa::mulpdu;
use weft_netif::LlpState;
use weft_rdmap::Terminate;
use weft_verbs::{QpEvent, Status};

use crate::cm::DisconnectReason;
use crate::connection::{Connection, Phase, Turn, Verdict};
use crate::failure::{Cause, Failure};
use crate::stream::{Stream, Surroundings};

impl Connection {
    /// Full Operation: takes what has arrived, sends what there is room for, and sees to the end.
    pub(crate) fn operate(&mut self, turn: &mut Turn<'_>) -> Verdict {
        let Phase::Operating(stream) = &mut self.phase else { return Verdict::Keep };
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
        match turn.llp.state() {
            LlpState::Connecting | LlpState::Established => Verdict::Keep,
            LlpState::PeerClosed if !turn.llp.is_drained() => Verdict::Keep,
            LlpState::PeerClosed | LlpState::Closed => self.handle_fin(turn),
            LlpState::Reset => {
                self.ended = Some(DisconnectReason::Lost);
                self.finish(turn)
            }
        }
    }

    /// Sends what the stream still owes, a Terminate or the answers to Reads and Atomics, then FIN.
    pub(crate) fn end(&mut self, turn: &mut Turn<'_>) -> Verdict {
        let Phase::Ending(stream) = &mut self.phase else { return Verdict::Keep };
        discard(turn);
        if matches!(turn.llp.state(), LlpState::Closed | LlpState::Reset) {
            return self.finish(turn);
        }
        // A second failure changes nothing: the stream is at its end already, and FIN follows.
        let failed = transmit(stream, turn).is_err();
        if failed || !stream.owes() { self.shut(turn) } else { Verdict::Keep }
    }

    /// FIN is sent: throws input away until the peer has sent its own, so that TCP does not answer it with a reset.
    pub(crate) fn drain(&mut self, turn: &mut Turn<'_>) -> Verdict {
        discard(turn);
        match turn.llp.state() {
            LlpState::Connecting | LlpState::Established => Verdict::Keep,
            LlpState::PeerClosed if !turn.llp.is_drained() => Verdict::Keep,
            LlpState::PeerClosed | LlpState::Closed | LlpState::Reset => self.finish(turn),
        }
    }

    /// The peer has closed its direction: gracefully between two FPDUs, else it is an error (RFC 5044 section 7.2).
    fn handle_fin(&mut self, turn: &mut Turn<'_>) -> Verdict {
        let Phase::Operating(mut stream) = core::mem::replace(&mut self.phase, Phase::Draining) else {
            return Verdict::Keep;
        };
        let aligned = stream.is_aligned();
        stream.abandon_message();
        if !aligned {
            stream.abandon_answers();
        }
        if let Some(qp) = turn.qp.as_deref_mut() {
            qp.handle_event(if aligned { QpEvent::CloseStarted } else { QpEvent::Failed });
        }
        let reason = if aligned { DisconnectReason::Peer } else { DisconnectReason::Lost };
        self.report_end(turn, reason);
        self.phase = Phase::Ending(stream);
        self.deadline = Some(turn.now + turn.close_timeout);
        self.end(turn)
    }

    /// The peer has ended the stream: the request that it refused fails, all others are flushed.
    fn handle_terminate(&mut self, turn: &mut Turn<'_>, terminate: &Terminate) -> Verdict {
        let culprit = match &self.phase {
            Phase::Operating(stream) => stream.culprit(terminate),
            _ => None,
        };
        if let Some(qp) = turn.qp.as_deref_mut() {
            if let Some(token) = culprit {
                let code = [0, terminate.layer, terminate.etype, terminate.code];
                qp.fail(token, refusal(terminate), u32::from_be_bytes(code));
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

    /// This side has found an error: the peer gets a Terminate, the queue pair is flushed.
    fn fail(&mut self, turn: &mut Turn<'_>, failure: Failure) -> Verdict {
        let Phase::Operating(mut stream) = core::mem::replace(&mut self.phase, Phase::Draining) else {
            return Verdict::Keep;
        };
        turn.counters.terminates += 1;
        stream.terminate(failure.terminate);
        if let Some(qp) = turn.qp.as_deref_mut() {
            qp.handle_event(QpEvent::Terminated);
        }
        self.report_end(turn, DisconnectReason::LocalTerminate(failure.cause));
        self.phase = Phase::Ending(stream);
        self.deadline = Some(turn.now + turn.close_timeout);
        self.end(turn)
    }
}

/// Receives as long as TCP has octets.
fn receive(stream: &mut Stream, turn: &mut Turn<'_>) -> Result<Option<Terminate>, Failure> {
    let Turn { llp, qp: Some(qp), memory, counters, .. } = turn else { return Ok(None) };
    let mut around = Surroundings { qp, memory, counters };
    loop {
        let octets = llp.readable();
        if octets.is_empty() {
            return Ok(None);
        }
        let mut rest = octets;
        let received = stream.receive(&mut rest, &mut around);
        let consumed = octets.len() - rest.len();
        llp.consume(consumed);
        if !matches!(received, Ok(None)) {
            return received;
        }
    }
}

/// Sends as long as there is something to send and TCP has room for a whole FPDU of the largest size.
pub(crate) fn transmit(stream: &mut Stream, turn: &mut Turn<'_>) -> Result<(), Failure> {
    let Turn { llp, qp: Some(qp), memory, counters, scratch, tcp_buffer, .. } = turn else { return Ok(()) };
    let mut around = Surroundings { qp, memory, counters };
    // An FPDU larger than the buffer would wait for room for ever.
    let mulpdu = mulpdu(llp.emss().min(*tcp_buffer), stream.sends_markers());
    loop {
        let needed =
            stream.fpdu_len(if stream.is_terminating() { mulpdu.min(TERMINATE_ULPDU) } else { mulpdu });
        if llp.room() < needed {
            return Ok(());
        }
        let in_place = llp.transmit(|out| {
            if out.len() < needed {
                return (0, None);
            }
            let built = stream.transmit(out, mulpdu, &mut around);
            (built.as_ref().map_or(0, |&octets| octets), Some(built))
        });
        let built = match in_place {
            None => return Ok(()),
            Some(Some(built)) => built?,
            // The free part of the buffer wraps, so that the FPDU is built beside it and copied in two pieces.
            Some(None) => {
                let octets = stream.transmit(scratch, mulpdu, &mut around)?;
                llp.send_slice(&scratch[..octets])
            }
        };
        if built == 0 {
            return Ok(());
        }
    }
}

fn discard(turn: &mut Turn<'_>) {
    loop {
        let octets = turn.llp.readable().len();
        if octets == 0 {
            return;
        }
        turn.llp.consume(octets);
    }
}

/// How the request that a Terminate complains about ends: protection errors are the peer's memory refusing.
const fn refusal(terminate: &Terminate) -> Status {
    match (terminate.layer, terminate.etype) {
        (0x0 | 0x1, 0x1) => Status::RemoteAccess,
        _ => Status::RemoteOperation,
    }
}

/// Octets of the longest Terminate with its DDP header (RFC 5040 section 4.8).
const TERMINATE_ULPDU: usize = 70;
