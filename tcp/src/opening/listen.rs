//! The states LISTEN and, after it, SYN-RECEIVED.

use super::handshake::{Agreement, has_ecn};
use crate::receive::Window;
use crate::timestamps::{TimestampClock, is_before};
use crate::{Config, Flags, Micros, Segment, Seq};

/// What a listener does with a segment for which there is no connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listened {
    /// Nothing.
    Dropped,
    /// It sends this RST.
    Reset(Segment),
    /// It makes a [`HalfOpen`], or a SYN cookie.
    Syn,
}

/// RFC 9293 section 3.10.7.2: what a segment is to the state LISTEN. `segment` is no answer to a SYN cookie.
pub fn listen(segment: &Segment) -> Listened {
    let is_syn = segment.flags.has(Flags::SYN) && !segment.flags.has(Flags::RST) && segment.ack.is_none();
    match segment.reset() {
        Some(_) if is_syn => Listened::Syn,
        Some(reset) if segment.ack.is_some() => Listened::Reset(reset),
        _ => Listened::Dropped,
    }
}

/// A connection in the state SYN-RECEIVED that was LISTEN before.
///
/// A caller sends [`Self::syn_ack`] at once and whenever [`Self::next_timeout`] is over. It calls [`Self::sent`] for each
/// SYN/ACK, those of [`Opening::Reply`] included: a repeated one measures no time and has no ECN. It drops the record
/// when its own limit of time is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HalfOpen {
    iss: Seq,
    irs: Seq,
    agreement: Agreement,
    timestamp_offset: u32,
    /// TSval of the SYN.
    recent: u32,
    times_sent: u8,
    sent_at: Micros,
}

/// What comes of a segment for a half-open connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// Nothing.
    Dropped,
    /// This segment is sent: a SYN/ACK, an ACK or an RST.
    Reply(Segment),
    /// The peer has given up. The record ends, and nothing is sent.
    Ended,
    /// The connection is established. The caller makes a connection of the record, and gives it this segment.
    Opened,
}

impl HalfOpen {
    /// Takes a SYN without ACK. `iss` and `timestamp_offset` come from [`Secret`](crate::Secret).
    pub fn new(config: &Config, syn: &Segment, iss: Seq, timestamp_offset: u32, now: Micros) -> Self {
        let agreement = Agreement::new(config, syn, has_ecn(syn));
        let recent = syn.options.timestamps.map_or(0, |stamps| stamps.value);
        Self { iss, irs: syn.seq, agreement, timestamp_offset, recent, times_sent: 0, sent_at: now }
    }

    /// Returns the record that answered the SYN of a connection, of which nothing was kept (RFC 4987 section 3.6).
    pub(crate) const fn restored(
        (iss, irs): (Seq, Seq),
        agreement: Agreement,
        (timestamp_offset, recent): (u32, u32),
        now: Micros,
    ) -> Self {
        Self { iss, irs, agreement, timestamp_offset, recent, times_sent: 0, sent_at: now }
    }

    /// Returns the SYN/ACK to send now. ECN falls away when it is repeated (RFC 3168 section 6.1.1.1).
    pub fn syn_ack(&self, config: &Config, now: Micros) -> Segment {
        let mut options = self.agreement.options(config);
        options.timestamps = self.agreement.timestamps.then(|| self.clock(now).stamp(now));
        let has_ecn = self.agreement.ecn && self.times_sent == 0;
        Segment {
            flags: if has_ecn { Flags::SYN | Flags::ECE } else { Flags::SYN },
            window: first_window(config),
            options,
            ..Segment::new(self.iss, Some(self.irs + 1))
        }
    }

    /// Notes that the SYN/ACK has gone.
    pub fn sent(&mut self, now: Micros) {
        self.times_sent = self.times_sent.saturating_add(1);
        if self.times_sent > 1 {
            self.agreement.ecn = false;
        }
        self.sent_at = now;
    }

    /// Returns when the SYN/ACK has to go again: after 1 s, and twice as long each further time (RFC 6298 rules 2.1, 5.5).
    pub fn next_timeout(&self) -> Micros {
        self.sent_at + syn_timeout(self.times_sent)
    }

    /// Takes a segment for this connection (RFC 9293 section 3.10.7.4, RFC 5961).
    pub fn handle(&self, config: &Config, segment: &Segment, now: Micros) -> Opening {
        let next = self.irs + 1;
        let offset = segment.seq.since(next);
        let is_inside = offset < u32::from(first_window(config)) || offset == 0;
        if segment.flags.has(Flags::RST) {
            return match (offset, is_inside) {
                (0, _) => Opening::Ended,
                (_, true) => self.challenge(config, now),
                (_, false) => Opening::Dropped,
            };
        }
        let is_syn = segment.flags.has(Flags::SYN);
        if is_syn && segment.seq == self.irs && segment.ack.is_none() {
            return Opening::Reply(self.syn_ack(config, now));
        }
        let is_old = match segment.options.timestamps {
            Some(stamps) => self.agreement.timestamps && is_before(stamps.value, self.recent),
            None if self.agreement.timestamps => return Opening::Dropped,
            None => false,
        };
        let is_unacceptable = is_old || !is_inside;
        match segment.ack {
            // A half-open peer that knows other numbers would answer the answer, and this side that one, for ever.
            _ if is_unacceptable && segment.seq_len() == 0 => Opening::Dropped,
            _ if is_unacceptable => self.challenge(config, now),
            _ if is_syn => Opening::Ended,
            None => Opening::Dropped,
            Some(ack) if ack == self.iss + 1 => Opening::Opened,
            Some(_) => segment.reset().map_or(Opening::Dropped, Opening::Reply),
        }
    }

    /// Returns ISS and IRS.
    pub(crate) const fn numbers(&self) -> (Seq, Seq) {
        (self.iss, self.irs)
    }

    pub(crate) const fn agreement(&self) -> &Agreement {
        &self.agreement
    }

    /// Returns how often the SYN/ACK went, 0 if that is not known.
    pub(crate) const fn times_sent(&self) -> u8 {
        self.times_sent
    }

    /// Returns the time since the SYN/ACK went, if it went once.
    pub(crate) fn rtt(&self, now: Micros) -> Option<Micros> {
        (self.times_sent == 1).then(|| now.since(self.sent_at))
    }

    /// Returns the clock of the connection's timestamps.
    pub(crate) const fn clock(&self, now: Micros) -> TimestampClock {
        let mut clock = TimestampClock::new(self.timestamp_offset);
        clock.start(self.recent, now);
        clock
    }

    fn challenge(&self, config: &Config, now: Micros) -> Opening {
        let mut ack =
            Segment { window: first_window(config), ..Segment::new(self.iss + 1, Some(self.irs + 1)) };
        if let Some(shifts) = self.agreement.shifts {
            // Rounded up: rounding down would take back what the SYN/ACK has promised.
            ack.window = ack.window.div_ceil(1 << shifts.receive);
        }
        ack.options.timestamps = self.agreement.timestamps.then(|| self.clock(now).stamp(now));
        Opening::Reply(ack)
    }
}

/// Returns the window field of a segment with SYN, which is never scaled (RFC 7323 section 2.2).
pub(crate) fn first_window(config: &Config) -> u16 {
    u16::try_from(config.receive.window.min(config.receive.window_max)).unwrap_or(u16::MAX)
}

/// Returns how long a SYN or SYN/ACK is waited for that was sent so many times, at least once.
pub(crate) fn syn_timeout(times_sent: u8) -> Micros {
    Micros(Micros::from_secs(1).0 << times_sent.saturating_sub(1).min(6))
}

const _: () = assert!(size_of::<HalfOpen>() <= 64 && size_of::<Window>() <= 48);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, Timestamps};

    const ISS: Seq = Seq(0xFFFF_FFFF);
    const NOW: Micros = Micros::from_secs(5);

    fn syn() -> Segment {
        let options = Options {
            mss: Some(1400),
            window_scale: Some(2),
            sack_permitted: true,
            timestamps: Some(Timestamps { value: 40, echo: 0 }),
            ..Options::default()
        };
        let flags = Flags::SYN | Flags::ECE | Flags::CWR;
        Segment { flags, window: 500, options, ..Segment::new(Seq(99), None) }
    }

    fn opening(segment: Segment) -> Opening {
        let config = Config::new(1500, false);
        let mut half = HalfOpen::new(&config, &syn(), ISS, 7, NOW);
        half.sent(NOW);
        half.handle(&config, &segment, NOW)
    }

    fn ack(seq: u32, ack: u32, value: u32) -> Segment {
        let mut segment = Segment::new(Seq(seq), Some(Seq(ack)));
        segment.options.timestamps = Some(Timestamps { value, echo: 0 });
        segment
    }

    /// RFC 9293 section 3.10.7.2.
    #[test]
    fn a_listener_takes_a_syn_and_resets_what_acknowledges() {
        let mut segment = syn();
        assert_eq!(listen(&segment), Listened::Syn);
        segment.ack = Some(Seq(4));
        assert!(matches!(listen(&segment), Listened::Reset(Segment { seq: Seq(4), ack: None, .. })));
        segment.flags = Flags::RST;
        assert_eq!(listen(&segment), Listened::Dropped);
        assert_eq!(listen(&Segment { flags: Flags::SYN | Flags::RST, ..syn() }), Listened::Dropped);
        assert_eq!(listen(&Segment { flags: Flags::FIN, ..syn() }), Listened::Dropped);
    }

    #[test]
    fn the_answer_has_the_options_of_the_question() {
        let config = Config::new(1500, false);
        let mut half = HalfOpen::new(&config, &syn(), ISS, 7, NOW);
        let answer = half.syn_ack(&config, NOW);
        assert_eq!((answer.seq, answer.ack, answer.window), (ISS, Some(Seq(100)), 65_535));
        assert_eq!(answer.flags, Flags::SYN | Flags::ECE);
        let timestamps = Some(Timestamps { value: 5007, echo: 40 });
        let options = Options {
            mss: Some(1460),
            window_scale: Some(7),
            sack_permitted: true,
            timestamps,
            ..Options::default()
        };
        assert_eq!(answer.options, options);
        let times = [1, 2, 4].map(|seconds| {
            half.sent(NOW);
            assert_eq!(half.next_timeout(), NOW + Micros::from_secs(seconds));
            half.syn_ack(&config, NOW).flags
        });
        assert_eq!(times, [Flags::SYN; 3], "a repeated one has no ECN");
        let bare = Segment { options: Options::default(), flags: Flags::SYN, ..syn() };
        let answer = HalfOpen::new(&config, &bare, ISS, 7, NOW).syn_ack(&config, NOW);
        assert_eq!(answer.options, Options { mss: Some(1460), ..Options::default() });
    }

    /// RFC 9293 section 3.10.7.4, RFC 5961 sections 3.2 and 4.2.
    #[test]
    fn only_a_true_ack_opens() {
        assert_eq!(opening(ack(100, 0, 40)), Opening::Opened);
        assert_eq!(opening(ack(300, 0, 41)), Opening::Opened, "the ACK itself was lost");
        let reset = Segment { flags: Flags::RST, ..Segment::new(Seq(1), None) };
        assert_eq!(opening(ack(100, 1, 40)), Opening::Reply(reset));
        let octet = |segment| Segment { len: 1, ..segment };
        let Opening::Reply(challenge) = opening(octet(ack(99, 0, 40))) else { panic!("before the window") };
        assert_eq!((challenge.seq, challenge.ack, challenge.flags), (Seq(0), Some(Seq(100)), Flags::NONE));
        assert_eq!(challenge.window, 512);
        assert_eq!(opening(octet(ack(100, 0, 39))), Opening::Reply(challenge), "PAWS");
        assert_eq!([ack(99, 0, 40), ack(100, 0, 39)].map(opening), [Opening::Dropped; 2], "without octets");
        assert_eq!(opening(Segment::new(Seq(100), Some(Seq(0)))), Opening::Dropped, "no timestamps");
        assert_eq!(opening(Segment { ack: None, ..ack(100, 0, 40) }), Opening::Dropped);
        assert_eq!(opening(Segment { flags: Flags::RST, ..ack(100, 7, 0) }), Opening::Ended);
        assert_eq!(opening(Segment { flags: Flags::RST, ..ack(101, 7, 0) }), Opening::Reply(challenge));
        assert_eq!(opening(Segment { flags: Flags::RST, ..ack(99, 7, 0) }), Opening::Dropped);
        assert!(matches!(opening(syn()), Opening::Reply(Segment { flags: Flags::SYN, .. })));
        assert_eq!(opening(Segment { seq: Seq(102), ..syn() }), Opening::Ended);
    }

    /// Two listeners get a SYN each in the name of the other one. Neither knows the other's numbers, and so neither is
    /// content with an answer.
    #[test]
    fn two_half_open_sides_do_not_answer_each_other_forever() {
        let config = Config::new(1500, false);
        let half =
            |iss| HalfOpen::new(&config, &Segment { options: Options::default(), ..syn() }, iss, 7, NOW);
        let sides = [half(Seq(1_000_000)), half(Seq(2_000_000_000))];
        let mut segment = sides[0].syn_ack(&config, NOW);
        let mut answers = 0;
        while let Opening::Reply(answer) = sides[(answers + 1) % 2].handle(&config, &segment, NOW) {
            (segment, answers) = (answer, answers + 1);
            assert!(answers < 10, "{segment:?}");
        }
        assert_eq!(answers, 1, "a SYN is answered, and an ACK is not");
    }
}
