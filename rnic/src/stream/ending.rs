//! How a stream comes to its end: one state machine for queue pairs and for streams without verbs.
//!
//! ```text
//!                an error found here, or the peer's FIN
//!   Operating ───────────────────────────────────────────▶ Ending
//!       │                                                     │ nothing is owed, or TCP is gone
//!       │ the peer's Terminate, the ULP's wish,               ▼
//!       └───────────────── or TCP is lost ────────────────▶ Draining ───▶ Over
//!                                                              the peer's FIN, or TCP is gone
//! ```
//! It has no clock and does no I/O: its users tell it what they see of TCP, and do what it answers. A user with a clock
//! bounds the time from the end of Full Operation, and again from FIN, and resets the connection after that.
//!
//! A stream of DDP alone is not for this machine: it knows no Terminate, and its two directions close one by one (RFC
//! 5041 section 6.2.1). It shares only [`Peer`].

use weft_netif::{Llp, LlpState};
use weft_rdmap::Terminate;

use crate::stream::Stream;

/// How far a stream has come.
#[derive(Debug)]
pub(crate) enum Stage {
    /// Full Operation.
    Operating(Box<Stream>),
    /// Nothing more is received. What the stream owes is sent, a Terminate or the answers to Reads and Atomics.
    Ending(Box<Stream>),
    /// FIN is sent. Input is thrown away until the peer's FIN, so that TCP does not answer it with a reset.
    Draining,
    /// Nothing is left to do.
    Over,
}

/// What TCP says of the peer's direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// Octets may come, or have not been read yet.
    Open,
    /// FIN has come, and all that was before it has been read.
    Finished,
    /// Both directions are closed, and nothing was lost.
    Closed,
    /// The connection is lost.
    Lost,
}

/// What a stream has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The peer has closed its direction: gracefully between two FPDUs, else it is an error (RFC 5044 section 7.2).
    PeerFinished { graceful: bool },
    /// TCP has lost the connection in Full Operation.
    Lost,
    /// FIN is to be sent.
    Shut,
    /// Neither direction is open any more.
    Over,
}

impl Stage {
    /// Ends Full Operation by a Terminate. Later it is too late for one.
    pub(crate) fn terminate(&mut self, terminate: Terminate) {
        self.end(|stream| stream.terminate(terminate));
    }

    /// Ends everything but TCP, whose FIN the caller sends.
    pub(crate) fn shut(&mut self) {
        if !matches!(self, Self::Over) {
            *self = Self::Draining;
        }
    }

    /// Looks at the peer's direction of TCP, after all that had come was taken, and what could be sent was sent.
    pub(crate) fn watch(&mut self, peer: Peer) -> Option<Step> {
        match (&mut *self, peer) {
            (Self::Operating(_) | Self::Draining, Peer::Open) | (Self::Over, _) => None,
            // All that follows a parked message waits, too.
            (Self::Operating(stream), Peer::Finished) if !stream.parked.is_empty() => None,
            (Self::Operating(_), Peer::Finished | Peer::Closed) => {
                let mut graceful = false;
                self.end(|stream| graceful = stream.handle_fin());
                Some(Step::PeerFinished { graceful })
            }
            (Self::Operating(_), Peer::Lost) => {
                *self = Self::Draining;
                Some(Step::Lost)
            }
            (Self::Ending(stream), Peer::Open | Peer::Finished) if stream.owes() => None,
            (Self::Ending(_), _) => {
                *self = Self::Draining;
                Some(Step::Shut)
            }
            (Self::Draining, _) => {
                *self = Self::Over;
                Some(Step::Over)
            }
        }
    }

    /// The stream in Full Operation.
    pub(crate) const fn operating(&self) -> Option<&Stream> {
        if let Self::Operating(stream) = self { Some(stream) } else { None }
    }

    /// Leaves Full Operation, with what the stream still has to send after `act`.
    fn end(&mut self, act: impl FnOnce(&mut Stream)) {
        *self = match core::mem::replace(self, Self::Draining) {
            Self::Operating(mut stream) => {
                act(&mut stream);
                Self::Ending(stream)
            }
            ended => ended,
        };
    }
}

impl Peer {
    // Every turn asks for it. The call took ten instructions.
    #[inline(always)]
    pub(crate) fn of(llp: &Llp<'_>) -> Self {
        match llp.state() {
            LlpState::Connecting | LlpState::Established => Self::Open,
            LlpState::PeerClosed if !llp.is_drained() => Self::Open,
            LlpState::PeerClosed => Self::Finished,
            LlpState::Closed => Self::Closed,
            LlpState::Reset => Self::Lost,
        }
    }
}

impl Stream {
    /// Ends the stream: the Terminate is the last thing that is built, and a responder that has validated no FPDU
    /// builds none.
    pub(crate) fn terminate(&mut self, terminate: Terminate) {
        self.rdmap.terminate(terminate);
    }

    /// Drops the answers that the peer has not got. Its Atomics that are not done stay undone.
    pub(crate) fn abandon_answers(&mut self) {
        self.rdmap.cancel_responses();
    }

    /// Whether FIN has to wait: for a Terminate or, without one, for answers to the peer, which nobody sends behind a
    /// Terminate.
    pub(crate) fn owes(&self) -> bool {
        if self.rdmap.is_terminating() {
            self.may_send && !self.rdmap.is_terminate_sent()
        } else {
            self.rdmap.readiness().requests_to_answer > 0
        }
    }

    /// Drops what is left of the message in progress: its request is flushed, and its memory the application's again.
    /// Returns whether the peer has gone gracefully, so that it still gets its answers.
    fn handle_fin(&mut self) -> bool {
        self.rdmap.cancel_message();
        let graceful = self.placings.is_none() && self.segments.is_aligned();
        if !graceful {
            self.abandon_answers();
        }
        graceful
    }
}

#[cfg(test)]
mod tests {
    use weft_mpa::{Negotiated, RtrKind, STAGING_LEN, Start};

    use super::*;
    use crate::stream::parked::Parked;
    use crate::stream::segments::Fit;
    use crate::stream::user::Nobody;

    /// The stream of an end that has sent the Request, or has answered it.
    fn stream(initiator: bool) -> Stream {
        let mut stream = Stream::new(&TERMS, initiator, true);
        *stream.segments.staging_mut().unwrap() = vec![0; STAGING_LEN].into_boxed_slice();
        stream
    }

    fn operating(stream: Stream) -> Stage {
        Stage::Operating(Box::new(stream))
    }

    fn ending(stage: &mut Stage) -> &mut Stream {
        let Stage::Ending(stream) = stage else { panic!("{stage:?}") };
        stream
    }

    /// A stream whose peer has asked for a Read and got no answer.
    fn asked_for_a_read() -> Stream {
        let start = Start::SendRtr(RtrKind::Read);
        let mut peer = Stream::new(&Negotiated { start, ..TERMS }, true, true);
        let fpdu = &mut [0; 256];
        let len = send(&mut peer, fpdu);
        let mut stream = stream(false);
        // The user refuses it, but RDMAP knows the request.
        assert!(stream.receive(&mut &fpdu[..len], &mut Nobody).is_err());
        assert!(stream.owes());
        stream
    }

    fn send(stream: &mut Stream, out: &mut [u8]) -> usize {
        stream.transmit(out, (1024, Fit::Any), &mut Nobody).unwrap()
    }

    #[test]
    fn full_operation_goes_on_while_the_peer_may_send() {
        let mut stage = operating(stream(true));
        assert_eq!(stage.watch(Peer::Open), None);
        assert!(stage.operating().is_some());
    }

    #[test]
    fn a_fin_between_two_fpdus_leaves_the_answers_owed() {
        for peer in [Peer::Finished, Peer::Closed] {
            let mut stage = operating(asked_for_a_read());
            assert_eq!(stage.watch(peer), Some(Step::PeerFinished { graceful: true }));
            assert!(ending(&mut stage).owes());
        }
    }

    #[test]
    fn a_fin_inside_an_fpdu_takes_the_answers_along() {
        let mut stream = asked_for_a_read();
        assert!(stream.receive(&mut &[0][..], &mut Nobody).is_ok());
        let mut stage = operating(stream);
        assert_eq!(stage.watch(Peer::Finished), Some(Step::PeerFinished { graceful: false }));
        assert!(!ending(&mut stage).owes());
    }

    #[test]
    fn a_fin_takes_the_message_in_progress_along() {
        let start = Start::SendRtr(RtrKind::Read);
        let mut stage = operating(Stream::new(&Negotiated { start, ..TERMS }, true, true));
        assert!(stage.operating().unwrap().has_output(false));
        assert_eq!(stage.watch(Peer::Finished), Some(Step::PeerFinished { graceful: true }));
        assert!(!ending(&mut stage).has_output(false));
    }

    #[test]
    fn a_fin_waits_behind_a_parked_message() {
        let mut stream = stream(true);
        stream.parked = Parked::with(&[0; 18]);
        let mut stage = operating(stream);
        assert_eq!(stage.watch(Peer::Finished), None);
        assert!(stage.operating().is_some());
        assert_eq!(stage.watch(Peer::Closed), Some(Step::PeerFinished { graceful: true }));
    }

    #[test]
    fn a_lost_connection_owes_nothing() {
        let mut stage = operating(asked_for_a_read());
        assert_eq!(stage.watch(Peer::Lost), Some(Step::Lost));
        assert_eq!(stage.watch(Peer::Lost), Some(Step::Over));
    }

    #[test]
    fn fin_follows_the_terminate() {
        let mut stage = operating(stream(true));
        stage.terminate(TERMINATE);
        assert_eq!(stage.watch(Peer::Open), None, "it is not sent yet");
        assert_eq!(stage.watch(Peer::Finished), None, "nor after the peer's FIN");
        assert!(send(ending(&mut stage), &mut [0; 256]) > 0);
        assert_eq!(stage.watch(Peer::Open), Some(Step::Shut));
        assert!(matches!(stage, Stage::Draining));
    }

    #[test]
    fn a_responder_that_has_heard_nothing_owes_no_terminate() {
        let mut stage = operating(stream(false));
        stage.terminate(TERMINATE);
        assert_eq!(stage.watch(Peer::Open), Some(Step::Shut));
    }

    #[test]
    fn nothing_is_owed_to_a_peer_that_is_gone() {
        for peer in [Peer::Closed, Peer::Lost] {
            let mut stage = operating(stream(true));
            stage.terminate(TERMINATE);
            assert_eq!(stage.watch(peer), Some(Step::Shut));
            assert_eq!(stage.watch(peer), Some(Step::Over));
        }
    }

    #[test]
    fn after_fin_only_the_end_of_the_peers_direction_counts() {
        for peer in [Peer::Finished, Peer::Closed, Peer::Lost] {
            let mut stage = operating(asked_for_a_read());
            stage.shut();
            assert_eq!(stage.watch(Peer::Open), None);
            assert_eq!(stage.watch(peer), Some(Step::Over));
            assert_eq!(stage.watch(peer), None, "it is told once");
        }
    }

    #[test]
    fn a_late_terminate_or_close_changes_nothing() {
        let mut stage = Stage::Draining;
        stage.terminate(TERMINATE);
        assert!(matches!(stage, Stage::Draining));
        let mut stage = Stage::Over;
        stage.shut();
        assert!(matches!(stage, Stage::Over));
    }

    const TERMINATE: Terminate = Terminate::new(0x2, 0x0, 0x02);
    const TERMS: Negotiated = Negotiated {
        revision: 2,
        crc: false,
        send_markers: false,
        receive_markers: false,
        ird: 1,
        ord: 1,
        start: Start::ClientServer,
    };
}
