//! Segments that arrive (RFC 9293 section 3.10.7).

use super::Connection;
use super::effects::{Cause, Effects};
use crate::opening::{Agreement, has_ecn};
use crate::state::Event;
use crate::{Acknowledgement, Flags, Interval, Micros, Segment, Sent, Seq, State};

impl<S: AsRef<[Sent]> + AsMut<[Sent]>, I: AsMut<[Interval]>> Connection<S, I> {
    /// Takes a segment of this connection whose checksum is good.
    pub fn handle(&mut self, segment: &Segment, now: Micros) -> Effects {
        match self.state {
            State::Closed => Effects { reply: segment.reset(), ..Effects::default() },
            State::SynSent => self.in_syn_sent(segment, now),
            _ => match self.check(segment, now) {
                Verdict::Dropped => Effects::default(),
                Verdict::Reset => {
                    let is_opening = self.state == State::SynReceived;
                    self.end(if is_opening { Cause::Refused } else { Cause::Reset })
                }
                Verdict::Taken => self.acknowledged(segment, now),
            },
        }
    }

    /// RFC 9293 section 3.10.7.3.
    fn in_syn_sent(&mut self, segment: &Segment, now: Micros) -> Effects {
        let nothing = Effects::default();
        let is_acknowledged = match segment.ack {
            Some(ack) if ack == self.iss + 1 && self.syn_times > 0 => true,
            Some(_) => return Effects { reply: segment.reset(), ..nothing },
            None => false,
        };
        if segment.flags.has(Flags::RST) {
            return if is_acknowledged { self.end(Cause::Refused) } else { nothing };
        }
        if !segment.flags.has(Flags::SYN) {
            return nothing;
        }
        // ECN falls away if the SYN had to be repeated without it, and if both sides open at the same time.
        let ecn = self.config.ecn && self.syn_times == 1 && is_acknowledged && has_ecn(segment);
        self.agreement = Agreement::new(&self.config, segment, ecn);
        if let Some(stamps) = segment.options.timestamps {
            self.clock.start(stamps.value, now);
        }
        self.synchronize(segment.seq, now);
        if !is_acknowledged {
            self.state = self.state.after(Event::Syn);
            self.syn_times = 0;
            return nothing;
        }
        let rtt = (self.syn_times == 1).then(|| now.since(self.syn_sent_at));
        self.establish(segment, rtt, now);
        self.receiver.acknowledge();
        let mut rest = *segment;
        rest.seq = segment.data();
        rest.flags = segment.flags.without(Flags::SYN);
        Effects { opened: true, ..self.text(&rest, now) }
    }

    /// RFC 9293 section 3.10.7.4, first to fourth, with RFC 5961 and RFC 7323 section 5.3.
    fn check(&mut self, segment: &Segment, now: Micros) -> Verdict {
        if segment.flags.has(Flags::RST) {
            if self.state == State::TimeWait {
                // RFC 1337: it may come from an old duplicate.
                return Verdict::Dropped;
            }
            // RFC 5961 section 3.2.
            let is_exact = segment.seq == self.receiver.next();
            if !is_exact && self.receiver.accepts(&Segment::new(segment.seq, None)) {
                self.challenge(now);
            }
            return if is_exact { Verdict::Reset } else { Verdict::Dropped };
        }
        if segment.flags.has(Flags::SYN) {
            return self.check_syn(segment, now);
        }
        if self.agreement.timestamps {
            // RFC 7323 section 3.2: dropped without a word.
            let Some(stamps) = segment.options.timestamps else { return Verdict::Dropped };
            if !self.clock.is_fresh(stamps.value, now) {
                self.refuse(segment, now);
                return Verdict::Dropped;
            }
        }
        if !self.receiver.accepts(segment) {
            self.refuse(segment, now);
            return Verdict::Dropped;
        }
        Verdict::Taken
    }

    /// RFC 5961 section 4.2: a SYN in a synchronized state gets a challenge ACK.
    ///
    /// Only if both sides have opened at the same time a SYN is expected: the SYN/ACK, which has the number of the SYN
    /// (RFC 9293 figure 8), or the repeated SYN, which asks for ours again.
    fn check_syn(&mut self, segment: &Segment, now: Micros) -> Verdict {
        if self.state == State::SynReceived && segment.seq == self.irs {
            match segment.ack {
                Some(ack) if ack == self.iss + 1 => return Verdict::Taken,
                Some(_) => {}
                None => {
                    self.syn_times = 0;
                    return Verdict::Dropped;
                }
            }
        }
        self.challenge(now);
        Verdict::Dropped
    }

    /// RFC 9293 section 3.10.7.4, fifth. RFC 5961 section 5.2 limits how old an acknowledgement may be.
    fn acknowledged(&mut self, segment: &Segment, now: Micros) -> Effects {
        let Some(ack) = segment.ack else { return Effects::default() };
        let mut opened = false;
        if self.state == State::SynReceived {
            if ack != self.iss + 1 {
                return Effects { reply: segment.reset(), ..Effects::default() };
            }
            // Our number went in a SYN and in a SYN/ACK, and either may be the one that is acknowledged (RFC 6298 section 3).
            self.establish(segment, None, now);
            opened = true;
            if segment.flags.has(Flags::SYN) {
                self.receiver.acknowledge();
                return Effects { opened, ..Effects::default() };
            }
        }
        let oldest = self.sender.una() - self.sender.max_window();
        if ack.is_before(oldest) || self.sender.nxt().is_before(ack) {
            self.challenge(now);
            return Effects { opened, ..Effects::default() };
        }
        let was_closed = self.sender.window() == 0;
        // Not before the number is known to be good: a stranger's timestamp would make all later ones of the peer old.
        if let Some(stamps) = segment.options.timestamps.filter(|_| self.agreement.timestamps) {
            self.clock.take(stamps.value, segment.seq, self.receiver.acknowledged(), now);
        }
        let acked = self.sender.acknowledge(&self.acknowledgement(segment, ack), now);
        self.hear(segment, acked.octets > 0 || was_closed, now);
        if acked.octets > 0
            && let Some(mss) = self.black_hole.longer(self.sender.una(), self.sender.nxt(), now)
        {
            self.set_mss(mss, now);
        }
        if acked.fin {
            self.state = self.state.after(Event::FinAcknowledged);
        }
        let mut effects = self.text(segment, now);
        effects.opened = opened;
        effects.acked = acked.octets - u32::from(acked.fin);
        if self.state == State::Closed {
            effects.closed = Some(Cause::Finished);
        }
        effects
    }

    fn acknowledgement<'a>(&self, segment: &'a Segment, ack: Seq) -> Acknowledgement<'a> {
        let stamps = segment.options.timestamps.filter(|_| self.agreement.timestamps);
        let sack = if self.agreement.sack { segment.options.sack.as_slice() } else { &[] };
        Acknowledgement {
            seq: segment.seq,
            ack,
            window: self.agreement.window(segment),
            sack,
            echo: stamps.map(|stamps| self.clock.sent_at(stamps.echo)),
            ece: segment.flags.has(Flags::ECE),
            occupies: segment.seq_len() > 0,
        }
    }

    /// RFC 9293 section 3.10.7.4, seventh and eighth: the text and the FIN.
    fn text(&mut self, segment: &Segment, now: Micros) -> Effects {
        if !self.state.receives() {
            if segment.seq_len() > 0 {
                self.receiver.acknowledge();
            }
            return Effects::default();
        }
        let received = self.receiver.receive(segment, now);
        if received.fin {
            self.state = self.state.after(Event::Fin);
        }
        Effects { received, ..Effects::default() }
    }

    /// Notes a sign of life. `is_progress` says that octets are acknowledged, or that the window was closed before.
    fn hear(&mut self, segment: &Segment, is_progress: bool, now: Micros) {
        self.heard_at = now;
        (self.probed_at, self.asked_at) = (None, None);
        if is_progress || self.sender.window() == 0 {
            self.progress_at = now;
        }
        if segment.len > 0
            && let Some(stamps) = segment.options.timestamps.filter(|_| self.agreement.timestamps)
        {
            let age = self.clock.age(stamps.echo, now).filter(|age| age.0 > 0);
            self.receive_rtt = match (self.receive_rtt, age) {
                (Some(known), Some(age)) if age > known => Some(Micros(known.0 + (age.0 - known.0) / 8)),
                (_, age) => age,
            };
        }
    }

    /// Answers a segment that is not acceptable with an ACK, so that both sides know where they are. Segments without
    /// text are answered so often only, or two sides could answer each other's answers forever.
    fn refuse(&mut self, segment: &Segment, now: Micros) {
        if segment.seq_len() == 0 {
            self.challenge(now);
        } else {
            self.receiver.refuse(segment);
        }
    }

    /// RFC 5961 section 7: a challenge ACK, at most so many a second.
    fn challenge(&mut self, now: Micros) {
        if self.challenges.allows(now) {
            self.receiver.acknowledge();
        }
    }
}

/// What becomes of a segment before its acknowledgement is looked at.
enum Verdict {
    Dropped,
    Reset,
    Taken,
}
