//! SYN cookies.

use super::handshake::{Agreement, Shifts, has_ecn};
use super::listen::first_window;
use crate::receive::Window;
use crate::timestamps::{TimestampClock, is_before};
use crate::{Config, Flags, HalfOpen, Micros, RateLimit, Secret, Segment, Seq, Timestamps, Tuple};

/// Answers SYNs without keeping anything (RFC 4987 section 3.6).
///
/// The ISS holds the peer's MSS out of eight, and a hash. The low bits of the timestamp hold what does not fit there;
/// without timestamps the connection has neither window scaling nor SACK.
#[derive(Clone, Copy, Debug)]
pub struct SynCookies {
    /// When the last one was sent. An ACK is looked at for two periods after it.
    sent_at: Option<Micros>,
    limit: RateLimit,
}

impl SynCookies {
    /// Returns a state in which no cookie was sent.
    pub const fn new() -> Self {
        Self { sent_at: None, limit: RateLimit::new(PER_SECOND) }
    }

    /// Returns the SYN/ACK for a SYN, unless too many were sent in this second.
    pub fn answer(
        &mut self,
        config: &Config,
        (secret, tuple): (&Secret, &Tuple),
        syn: &Segment,
        now: Micros,
    ) -> Option<Segment> {
        if !self.limit.allows(now) {
            return None;
        }
        self.sent_at = Some(now);
        let mut agreement = Agreement::new(config, syn, has_ecn(syn));
        if !agreement.timestamps {
            agreement = Agreement { shifts: None, sack: false, ecn: false, ..agreement };
        }
        let class = MSS_CLASSES.iter().rposition(|&mss| mss <= agreement.mss).unwrap_or(0);
        let content = Content {
            irs: syn.seq,
            class: u8::try_from(class).unwrap_or(0),
            bits: agreement.timestamps.then(|| bits(&agreement)),
        };
        let mut options = agreement.options(config);
        if let (Some(stamps), Some(bits)) = (syn.options.timestamps, content.bits) {
            let value = TimestampClock::new(secret.timestamp_offset(tuple)).value(now);
            options.timestamps = Some(Timestamps { value: lowered(value, bits), echo: stamps.value });
        }
        Some(Segment {
            flags: if agreement.ecn { Flags::SYN | Flags::ECE } else { Flags::SYN },
            window: first_window(config),
            options,
            ..Segment::new(content.isn((secret, tuple), period(now)), Some(syn.seq + 1))
        })
    }

    /// Returns the record of the connection whose cookie a segment brings back.
    ///
    /// A cookie is good in the 64 s in which it was made and in the next 64 s.
    pub fn check(
        &self,
        config: &Config,
        (secret, tuple): (&Secret, &Tuple),
        segment: &Segment,
        now: Micros,
    ) -> Option<HalfOpen> {
        let is_recent = self.sent_at.is_some_and(|sent_at| now.since(sent_at) < PERIOD + PERIOD);
        let is_plain = !segment.flags.has(Flags::SYN) && !segment.flags.has(Flags::RST);
        let iss = segment.ack.filter(|_| is_recent && is_plain)? - 1;
        let irs = segment.seq - 1;
        let stamps = segment.options.timestamps.filter(|_| config.timestamps);
        let offset = secret.timestamp_offset(tuple);
        let value = TimestampClock::new(offset).value(now);
        if stamps.is_some_and(|stamps| is_before(value, stamps.echo)) {
            return None;
        }
        let bits = stamps.map(|stamps| (stamps.echo & LOW_BITS).to_be_bytes()[3]);
        let class = (iss.0 >> CLASS_SHIFT).to_be_bytes()[3] & 7;
        let content = Content { irs, class, bits };
        let made_in = [period(now), period(now).wrapping_sub(1)].into_iter();
        made_in.map(|period| content.isn((secret, tuple), period)).find(|isn| *isn == iss)?;
        let bits = bits.unwrap_or(NO_SCALE);
        let receive = Window::shift_for(config.receive.window_max);
        let agreement = Agreement {
            mss: MSS_CLASSES.get(usize::from(class)).copied()?,
            shifts: Some(bits & NO_SCALE)
                .filter(|&send| send != NO_SCALE)
                .map(|send| Shifts { send, receive }),
            timestamps: stamps.is_some(),
            sack: bits & SACK != 0,
            ecn: bits & ECN != 0,
        };
        let recent = stamps.map_or(0, |stamps| stamps.value);
        Some(HalfOpen::restored((iss, irs), agreement, (offset, recent), now))
    }
}

impl Default for SynCookies {
    fn default() -> Self {
        Self::new()
    }
}

/// What a cookie vouches for.
#[derive(Clone, Copy)]
struct Content {
    irs: Seq,
    class: u8,
    /// The low bits of the timestamp, if there are timestamps.
    bits: Option<u8>,
}

impl Content {
    /// Returns the cookie: a bit of the period, three of the MSS, 28 of a hash over all.
    fn isn(&self, (secret, tuple): (&Secret, &Tuple), period: u32) -> Seq {
        let [a, b, c, d] = self.irs.0.to_be_bytes();
        let [e, f, g, h] = period.to_be_bytes();
        let content = [a, b, c, d, e, f, g, h, self.class, self.bits.unwrap_or(u8::MAX)];
        let hash = secret.cookie(tuple, &content) & ((1 << CLASS_SHIFT) - 1);
        Seq(period << 31 | u32::from(self.class) << CLASS_SHIFT | hash)
    }
}

fn bits(agreement: &Agreement) -> u8 {
    let shift = agreement.shifts.map_or(NO_SCALE, |shifts| shifts.send);
    shift | if agreement.sack { SACK } else { 0 } | if agreement.ecn { ECN } else { 0 }
}

/// Returns the last timestamp up to `value` that has these low bits. One ahead of the clock would make later ones old.
const fn lowered(value: u32, bits: u8) -> u32 {
    let candidate = value & !LOW_BITS | bits as u32;
    if candidate > value { candidate.wrapping_sub(LOW_BITS + 1) } else { candidate }
}

#[expect(clippy::cast_possible_truncation, reason = "periods are told apart by their low bits")]
const fn period(now: Micros) -> u32 {
    (now.0 / PERIOD.0) as u32
}

const PERIOD: Micros = Micros::from_secs(64);
const PER_SECOND: u16 = 2000;
/// What the peer's MSS is rounded down to.
const MSS_CLASSES: [u16; 8] = [48, 536, 1220, 1400, 1440, 1460, 8940, 65_475];
const CLASS_SHIFT: u32 = 28;
const LOW_BITS: u32 = 0x3F;
const NO_SCALE: u8 = 0x0F;
const SACK: u8 = 0x10;
const ECN: u8 = 0x20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;

    struct Scene {
        cookies: SynCookies,
        config: Config,
        secret: Secret,
        tuple: Tuple,
    }

    impl Scene {
        fn new() -> Self {
            let tuple = Tuple { local: ([10, 0, 0, 1], 80).into(), remote: ([10, 0, 0, 2], 9).into() };
            let (cookies, config) = (SynCookies::new(), Config::new(9000, false));
            Self { cookies, config, secret: Secret::new([3; 16]), tuple }
        }

        fn answer(&mut self, syn: &Segment, now: Micros) -> Option<Segment> {
            self.cookies.answer(&self.config, (&self.secret, &self.tuple), syn, now)
        }

        fn check(&self, ack: &Segment, now: Micros) -> Option<HalfOpen> {
            self.cookies.check(&self.config, (&self.secret, &self.tuple), ack, now)
        }
    }

    fn syn(options: Options) -> Segment {
        let flags = Flags::SYN | Flags::ECE | Flags::CWR;
        Segment { flags, options, ..Segment::new(Seq(u32::MAX), None) }
    }

    fn ack_of(answer: &Segment) -> Segment {
        let mut ack = Segment::new(answer.ack.unwrap(), Some(answer.seq + 1));
        let echo = answer.options.timestamps.map(|stamps| stamps.value);
        ack.options.timestamps = echo.map(|echo| Timestamps { value: 50, echo });
        ack
    }

    fn all() -> Options {
        Options {
            mss: Some(1450),
            window_scale: Some(9),
            sack_permitted: true,
            timestamps: Some(Timestamps { value: 40, echo: 0 }),
            ..Options::default()
        }
    }

    #[test]
    fn a_cookie_brings_back_what_was_agreed_on() {
        let mut scene = Scene::new();
        for millis in [100_000, 100_001, 100_063, 3_999_999] {
            let now = Micros::from_millis(millis);
            let answer = scene.answer(&syn(all()), now).unwrap();
            let clock = TimestampClock::new(scene.secret.timestamp_offset(&scene.tuple)).value(now);
            let behind = clock.wrapping_sub(answer.options.timestamps.unwrap().value);
            assert!(behind < 64, "{behind} ms");
            let half = scene.check(&ack_of(&answer), now).unwrap();
            assert_eq!(half.numbers(), (answer.seq, Seq(u32::MAX)));
            let shifts = Some(Shifts { send: 9, receive: 7 });
            let agreement = Agreement { mss: 1440, shifts, timestamps: true, sack: true, ecn: true };
            assert_eq!(*half.agreement(), agreement);
        }
    }

    #[test]
    fn without_timestamps_only_the_mss_is_kept() {
        let mut scene = Scene::new();
        let answer = scene.answer(&syn(Options { timestamps: None, ..all() }), Micros(0)).unwrap();
        assert_eq!(answer.options, Options { mss: Some(8960), ..Options::default() });
        assert_eq!(answer.flags, Flags::SYN);
        let half = scene.check(&ack_of(&answer), Micros(0)).unwrap();
        let none = Agreement { mss: 1440, shifts: None, timestamps: false, sack: false, ecn: false };
        assert_eq!(*half.agreement(), none);
    }

    #[test]
    fn what_was_not_sent_is_no_cookie() {
        let mut scene = Scene::new();
        let now = Micros::from_secs(63);
        let answer = scene.answer(&syn(all()), now).unwrap();
        let good = ack_of(&answer);
        assert!(scene.check(&good, Micros::from_secs(127)).is_some(), "the next period");
        assert!(scene.check(&good, Micros::from_secs(128)).is_none(), "the one behind it");
        for bit in 0..32 {
            assert!(
                scene
                    .check(&Segment { ack: Some(Seq((answer.seq + 1).0 ^ 1 << bit)), ..good }, now)
                    .is_none()
            );
        }
        assert!(scene.check(&Segment { seq: good.seq + 1, ..good }, now).is_none());
        assert!(scene.check(&Segment { flags: Flags::RST, ..good }, now).is_none());
        let mut scaled = good;
        scaled.options.timestamps =
            Some(Timestamps { value: 50, echo: answer.options.timestamps.unwrap().value ^ 1 });
        assert!(scene.check(&scaled, now).is_none(), "another window scale");
        scene.tuple.remote.set_port(10);
        assert!(scene.check(&good, now).is_none(), "another peer");
        let mut scene = Scene::new();
        assert!(scene.check(&good, now).is_none(), "no cookie was sent");
        scene.answer(&syn(all()), now);
        scene.secret = Secret::new([4; 16]);
        assert!(scene.check(&good, now).is_none(), "another key");
    }

    #[test]
    fn a_flood_gets_so_many_answers_and_no_more() {
        let mut scene = Scene::new();
        let answered = (0..5000).filter(|_| scene.answer(&syn(all()), Micros(5)).is_some()).count();
        assert_eq!(answered, 2000);
    }
}
