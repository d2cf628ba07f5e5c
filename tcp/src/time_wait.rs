//! The state TIME-WAIT.

use crate::timestamps::{TimestampClock, is_before};
use crate::{Flags, Micros, Segment, Seq};

/// What is left of a connection that both sides have closed and this side first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeWait {
    /// SND.NXT and RCV.NXT.
    send_next: Seq,
    receive_next: Seq,
    window: u16,
    has_timestamps: bool,
    timestamp_offset: u32,
    /// TS.Recent.
    recent: u32,
    ends_at: Micros,
}

/// What comes of a segment in TIME-WAIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// Nothing.
    Dropped,
    /// This ACK is sent.
    Reply(Segment),
    /// A new connection of the same ends may begin with this SYN. Its ISS has to be this number or behind it.
    Reopened(Seq),
}

impl TimeWait {
    /// `last` is an ACK that the connection would send now.
    pub(crate) fn new(last: &Segment, clock: &TimestampClock, now: Micros) -> Self {
        Self {
            send_next: last.seq,
            receive_next: last.ack.unwrap_or(Seq(0)),
            window: last.window,
            has_timestamps: last.options.timestamps.is_some(),
            timestamp_offset: clock.value(now).wrapping_sub(crate::timestamps::ticks(now)),
            recent: clock.recent(),
            ends_at: now + MSL + MSL,
        }
    }

    /// Returns when the record may be dropped.
    pub const fn next_timeout(&self) -> Micros {
        self.ends_at
    }

    /// Takes a segment (RFC 9293 section 3.10.7.4).
    ///
    /// A repeated FIN is acknowledged and begins the time anew. Nothing else occupies numbers that are still open, and
    /// so gets an ACK. An RST is dropped: it may come from an old duplicate and would let others do harm (RFC 1337).
    pub fn handle(&mut self, segment: &Segment, now: Micros) -> Waited {
        if segment.flags.has(Flags::RST) {
            return Waited::Dropped;
        }
        if segment.flags.has(Flags::SYN) && segment.ack.is_none() && self.is_newer(segment) {
            return Waited::Reopened(self.send_next + FAR);
        }
        let is_old = segment
            .options
            .timestamps
            .is_some_and(|stamps| self.has_timestamps && is_before(stamps.value, self.recent));
        if !is_old && segment.flags.has(Flags::FIN) && segment.end() == self.receive_next {
            self.ends_at = now + MSL + MSL;
        }
        if segment.seq_len() == 0 && segment.seq == self.receive_next {
            return Waited::Dropped;
        }
        Waited::Reply(self.ack(now))
    }

    /// RFC 6191 section 2: whether a SYN is surely later than all segments of the old connection.
    fn is_newer(&self, syn: &Segment) -> bool {
        let is_behind = self.receive_next.is_before(syn.seq);
        match syn.options.timestamps {
            Some(_) if !self.has_timestamps => true,
            Some(stamps) if stamps.value != self.recent => is_before(self.recent, stamps.value),
            _ => is_behind,
        }
    }

    fn ack(&self, now: Micros) -> Segment {
        let mut ack =
            Segment { window: self.window, ..Segment::new(self.send_next, Some(self.receive_next)) };
        if self.has_timestamps {
            let mut clock = TimestampClock::new(self.timestamp_offset);
            clock.start(self.recent, now);
            ack.options.timestamps = Some(clock.stamp(now));
        }
        ack
    }
}

/// Maximum segment lifetime. RFC 9293 section 3.4.2 takes 2 minutes and lets an engineer choose.
const MSL: Micros = Micros::from_secs(30);
/// How far behind the old connection's numbers a new one begins: the old window, and one more.
const FAR: u32 = 0x1_0001;

const _: () = assert!(size_of::<TimeWait>() <= 48);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Timestamps;

    const NOW: Micros = Micros::from_secs(5);

    fn record(has_timestamps: bool) -> TimeWait {
        let mut clock = TimestampClock::new(7);
        clock.start(40, NOW);
        let mut last = Segment { window: 9, ..Segment::new(Seq(500), Some(Seq(100))) };
        last.options.timestamps = has_timestamps.then(|| clock.stamp(NOW));
        TimeWait::new(&last, &clock, NOW)
    }

    fn segment(seq: u32, flags: Flags, value: Option<u32>) -> Segment {
        let ack = (!flags.has(Flags::SYN)).then_some(Seq(500));
        let mut segment = Segment { flags, ..Segment::new(Seq(seq), ack) };
        segment.options.timestamps = value.map(|value| Timestamps { value, echo: 0 });
        segment
    }

    /// RFC 9293 section 3.10.7.4.
    #[test]
    fn a_repeated_fin_is_acknowledged_and_begins_the_time_anew() {
        let mut record = record(true);
        assert_eq!(record.next_timeout(), Micros::from_secs(65));
        let later = Micros::from_secs(15);
        let Waited::Reply(ack) = record.handle(&segment(99, Flags::FIN, Some(40)), later) else { panic!() };
        assert_eq!((ack.seq, ack.ack, ack.window), (Seq(500), Some(Seq(100)), 9));
        assert_eq!(ack.options.timestamps, Some(Timestamps { value: 15_007, echo: 40 }));
        assert_eq!(record.next_timeout(), Micros::from_secs(75));
        record.handle(&segment(99, Flags::FIN, Some(39)), Micros::from_secs(20));
        record.handle(&segment(98, Flags::FIN, Some(40)), Micros::from_secs(20));
        assert_eq!(record.next_timeout(), Micros::from_secs(75), "an old one does not");
        assert_eq!(
            record.handle(&segment(100, Flags::NONE, Some(40)), later),
            Waited::Dropped,
            "an ACK alone"
        );
        assert!(matches!(record.handle(&segment(98, Flags::NONE, Some(40)), later), Waited::Reply(_)));
    }

    /// RFC 1337.
    #[test]
    fn a_reset_does_not_end_the_wait() {
        assert_eq!(record(false).handle(&segment(100, Flags::RST, None), NOW), Waited::Dropped);
    }

    /// RFC 6191 section 2.
    // Covers 9293-SHLD-4.
    #[test]
    fn a_later_syn_opens_again() {
        let opens = |has_timestamps, seq, value| {
            let answer = record(has_timestamps).handle(&segment(seq, Flags::SYN, value), NOW);
            assert!(matches!(answer, Waited::Reopened(Seq(66_037)) | Waited::Reply(_)), "{answer:?}");
            answer == Waited::Reopened(Seq(66_037))
        };
        assert!(opens(true, 0, Some(41)) && !opens(true, 200, Some(39)));
        assert!(opens(true, 101, Some(40)) && !opens(true, 100, Some(40)));
        assert!(opens(true, 101, None) && !opens(true, 100, None));
        assert!(opens(false, 0, Some(1)));
        assert!(opens(false, 101, None) && !opens(false, 100, None));
    }
}
