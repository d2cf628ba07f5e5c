//! Segments that go.

use super::Connection;
use crate::{Ecn, Flags, Frame, Interval, Micros, Reason, Segment, Sent, State, Transmit};

/// The next segment to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// Its header. For [`Transmit::New`] its length is the room there is. The owner puts in the length that goes, and
    /// sets PSH on the last segment of a turn. CWR belongs to the first segment of a super-frame.
    pub segment: Segment,
    /// Its payload or FIN, which the sender has chosen. A segment without is an ACK, a SYN or an RST.
    pub transmit: Option<Transmit>,
}

impl<S: AsRef<[Sent]> + AsMut<[Sent]>, I: AsMut<[Interval]>> Connection<S, I> {
    /// Returns the next segment to send. It is asked for again until [`Self::sent`] is called.
    pub fn poll_transmit(&mut self, now: Micros) -> Option<Outgoing> {
        let alone = |segment| Some(Outgoing { segment, transmit: None });
        if let Some(reset) = self.reset {
            return alone(reset);
        }
        match self.state {
            State::Closed => None,
            State::SynSent | State::SynReceived => {
                if self.syn_due_at() <= now {
                    alone(self.syn(now))
                } else {
                    None
                }
            }
            _ => {
                let tells_blocks = self.receiver.is_due(now) && self.receiver.has_blocks();
                if !tells_blocks && let Some(transmit) = self.sender.poll_transmit(now) {
                    return Some(self.carrying(transmit, now));
                }
                if self.receiver.is_due(now) {
                    let mut ack = self.header(self.sender.acceptable(), now);
                    ack.options.sack = self.receiver.blocks();
                    return alone(ack);
                }
                // RFC 9293 section 3.8.4: the number before the next one makes the peer answer.
                if self.probe_due_at()? <= now {
                    alone(self.header(self.sender.nxt() - 1, now))
                } else {
                    None
                }
            }
        }
    }

    /// Notes that a segment has gone. `frame` is where the octets of [`Transmit::New`] lie; without it they count as not
    /// sent. The owner calls [`Self::offer`] again afterwards.
    pub fn sent(&mut self, outgoing: &Outgoing, frame: Option<&Frame>, now: Micros) {
        let Outgoing { segment, transmit } = outgoing;
        if segment.flags.has(Flags::RST) {
            self.reset = None;
        } else if segment.flags.has(Flags::SYN) {
            self.syn_times = self.syn_times.saturating_add(1);
            self.syn_sent_at = now;
        } else {
            if transmit.is_some_and(|transmit| transmit.reason() == Reason::WindowProbe) {
                self.asked_at.get_or_insert(now);
            }
            match (transmit, frame) {
                (Some(new @ Transmit::New { .. }), Some(frame)) => self.sender.sent_new(new, frame, now),
                (Some(Transmit::New { .. }), None) => return,
                (Some(again), _) => self.sender.sent(again, now),
                (None, _) if segment.seq.is_before(self.sender.acceptable()) => {
                    let first = self.probed_at.map_or(now, |(first, _)| first);
                    self.probed_at = Some((first, now));
                }
                (None, _) => {}
            }
            self.receiver.sent(segment);
        }
    }

    /// Returns the header of what the sender has chosen.
    fn carrying(&self, transmit: Transmit, now: Micros) -> Outgoing {
        let segment = match transmit {
            Transmit::New { seq, room, ect, cwr, .. } => {
                let mut segment = self.header(seq, now);
                segment.len = room;
                segment.ecn = if ect { Ecn::Ect0 } else { Ecn::NotEct };
                if cwr {
                    segment.flags |= Flags::CWR;
                }
                segment
            }
            Transmit::Again { seq, len, .. } => {
                let mut segment = self.header(seq, now);
                segment.len = len.into();
                segment.flags |= Flags::PSH;
                segment
            }
            Transmit::Fin { seq, .. } => {
                let mut segment = self.header(seq, now);
                segment.flags |= Flags::FIN;
                segment
            }
        };
        Outgoing { segment, transmit: Some(transmit) }
    }
}
