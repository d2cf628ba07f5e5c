//! Faults of a wire: loss, duplicates, reordering, damage, delay, and a limited rate.

use core::cmp::Reverse;
use core::fmt;
use core::num::NonZeroU64;
use core::ops::Range;
use std::collections::BinaryHeap;

use smoltcp::time::{Duration, Instant};

use crate::ethernet::ETHERNET_HEADER;
use crate::random::Random;

/// The effects of an [`Impairment`] on frames. The default has none.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ImpairmentConfig {
    /// The same seed and the same frames at the same times give the same result.
    pub seed: u64,
    /// Probability that a frame is lost, 0 to 1.
    pub loss: f64,
    /// Losses in bursts, beside `loss`.
    pub bursts: Option<Bursts>,
    /// Probability that a frame comes twice, 0 to 1.
    pub duplicate: f64,
    /// Probability that a frame is held back, so that later ones overtake it: for 0.1 to 1.1 ms and a random part of
    /// `delay`, in addition to `delay`.
    pub reorder: f64,
    /// Probability that one bit of an IP packet is flipped. Only bits under a checksum can be hit. On a real wire the
    /// frame check sequence protects the Ethernet header and ARP, and frames in memory have none.
    pub corrupt: f64,
    /// Time on the way of each frame.
    pub delay: Duration,
    /// Longest additional time on the way, equally distributed. It lets frames overtake each other.
    pub jitter: Duration,
    /// Interval in which the link is down, and frames that are sent get lost.
    pub down: Option<Range<Instant>>,
    /// Rate of the line in bit/s. A frame of `n` octets occupies the line for max(`n`, 60) + 24 octets: Ethernet adds
    /// preamble, frame check sequence and interframe gap. A frame that finds the line busy waits. All other faults come
    /// behind the line.
    pub rate: Option<NonZeroU64>,
    /// The most octets on the near side of the line, counted as those of `rate`: the rest of the frame that the line
    /// sends, and all frames that wait. A frame that would make them more is lost, unless the line is idle. `None` sets
    /// no limit.
    pub queue: Option<u64>,
}

/// Losses in bursts, by the model of Gilbert and Elliott: the way is good or bad, and each frame may find it changed.
/// On a good way frames are lost with [`ImpairmentConfig::loss`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bursts {
    /// Probability that a frame finds a good way turned bad, 0 to 1.
    pub begin: f64,
    /// Probability that a frame finds a bad way turned good, 0 to 1.
    pub end: f64,
    /// Probability that a frame is lost on a bad way, 0 to 1.
    pub loss: f64,
}

impl Bursts {
    /// Returns bursts in which all frames are lost: `frames` of them on average, at least 1, and `share` of all frames,
    /// 0 to 1 (exclusive).
    #[must_use]
    pub const fn of(frames: f64, share: f64) -> Self {
        let end = 1.0 / frames;
        Self { begin: end * share / (1.0 - share), end, loss: 1.0 }
    }
}

/// A box in the middle of a wire that loses, duplicates, holds back, delays and damages frames, by a seeded
/// generator. It has no clock and does no I/O. Frames go in by [`Impairment::push`] and come out by
/// [`Impairment::pop`] when they are due.
#[derive(Clone)]
pub struct Impairment {
    config: ImpairmentConfig,
    random: Random,
    queue: BinaryHeap<Reverse<(Instant, u64, Vec<u8>)>>,
    sequence: u64,
    /// The way is bad ([`Bursts`]).
    is_bad: bool,
    /// The time at which the line will be idle, in microseconds times its rate. A bit takes a million of these.
    idle_at: u128,
    lost: u64,
    duplicated: u64,
    held_back: u64,
    corrupted: u64,
}

impl Impairment {
    /// Returns a box with no frames in it.
    #[must_use]
    pub const fn new(config: ImpairmentConfig) -> Self {
        let random = Random::new(config.seed);
        Self {
            config,
            random,
            queue: BinaryHeap::new(),
            sequence: 0,
            is_bad: false,
            idle_at: 0,
            lost: 0,
            duplicated: 0,
            held_back: 0,
            corrupted: 0,
        }
    }

    /// Returns true if a frame that is not lost goes on at once, unchanged: the only fault is loss, and no frame
    /// waits.
    pub(crate) fn is_immediate(&self) -> bool {
        let ImpairmentConfig { duplicate, reorder, corrupt, delay, jitter, rate, .. } = self.config;
        let chances = [duplicate, reorder, corrupt];
        let times = [delay, jitter];
        chances == [0.0; 3] && times == [Duration::ZERO; 2] && rate.is_none() && self.queue.is_empty()
    }

    /// Returns true if the next frame gets through.
    pub(crate) fn passes(&mut self, now: Instant) -> bool {
        let lost = self.loses() || self.is_down(now);
        self.lost += u64::from(lost);
        !lost
    }

    /// Takes a frame in at `now`. A full box (65,536 frames) loses it.
    pub fn push(&mut self, now: Instant, frame: &[u8]) {
        let Some(sent) = self.send(now, frame.len()) else {
            self.lost += 1;
            return;
        };
        let lost = self.loses();
        let copies = 1 + usize::from(self.random.chance(self.config.duplicate));
        if lost || self.is_down(now) || self.queue.len() + copies > MAX_QUEUE {
            self.lost += 1;
            return;
        }
        self.duplicated += u64::from(copies == 2);
        for _ in 0..copies {
            let mut copy = frame.to_vec();
            let jitter = self.random.below(self.config.jitter.total_micros().saturating_add(1));
            let mut due = sent + self.config.delay + Duration::from_micros(jitter);
            if self.random.chance(self.config.reorder) {
                let held = MIN_HOLD + self.random.below(self.config.delay.total_micros() + HOLD_SPAN);
                due += Duration::from_micros(held);
                self.held_back += 1;
            }
            if self.random.chance(self.config.corrupt) {
                self.turn_bit(&mut copy);
            }
            self.queue.push(Reverse((due, self.sequence, copy)));
            self.sequence += 1;
        }
    }

    /// Returns the next frame that is due by `now`.
    pub fn pop(&mut self, now: Instant) -> Option<Vec<u8>> {
        if self.poll_at()? > now {
            return None;
        }
        self.queue.pop().map(|Reverse((_, _, frame))| frame)
    }

    /// Returns the time at which the next frame is due.
    #[must_use]
    pub fn poll_at(&self) -> Option<Instant> {
        self.queue.peek().map(|Reverse((due, _, _))| *due)
    }

    /// Returns how many frames were lost, duplicated, held back and damaged so far.
    #[must_use]
    pub const fn counts(&self) -> [u64; 4] {
        [self.lost, self.duplicated, self.held_back, self.corrupted]
    }

    /// Returns true if the next frame gets lost by chance.
    fn loses(&mut self) -> bool {
        let mut chance = self.config.loss;
        if let Some(Bursts { begin, end, loss }) = self.config.bursts {
            self.is_bad ^= self.random.chance(if self.is_bad { end } else { begin });
            chance = if self.is_bad { loss } else { chance };
        }
        self.random.chance(chance)
    }

    /// Puts a frame of `len` octets on the line. Returns the time at which all of it was sent, or `None` if the queue
    /// has no room for it.
    fn send(&mut self, now: Instant, len: usize) -> Option<Instant> {
        let Some(rate) = self.config.rate else { return Some(now) };
        let rate = u128::from(rate.get());
        let time_of = |octets: u64| u128::from(octets) * 8 * 1_000_000;
        let present = u128::from(now.total_micros().unsigned_abs()) * rate;
        let (waiting, own) = (self.idle_at.saturating_sub(present), time_of(len.max(MIN_FRAME) as u64 + GAP));
        if waiting > 0 && self.config.queue.is_some_and(|queue| waiting + own > time_of(queue)) {
            return None;
        }
        self.idle_at = present + waiting + own;
        Some(Instant::from_micros(i64::try_from(self.idle_at.div_ceil(rate)).ok()?))
    }

    fn is_down(&self, now: Instant) -> bool {
        self.config.down.as_ref().is_some_and(|interval| interval.contains(&now))
    }

    fn turn_bit(&mut self, frame: &mut [u8]) {
        let is_ip = matches!(frame.get(12..14), Some([0x08, 0x00] | [0x86, 0xDD]));
        let bits = (frame.len().saturating_sub(ETHERNET_HEADER) as u64) * 8;
        let bit = usize::try_from(self.random.below(bits)).unwrap_or(0);
        if is_ip && bits > 0 {
            frame[ETHERNET_HEADER + bit / 8] ^= 1 << (bit % 8);
            self.corrupted += 1;
        }
    }
}

impl fmt::Debug for Impairment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { config, queue, .. } = self;
        f.debug_struct("Impairment")
            .field("config", config)
            .field("queue", &queue.len())
            .finish_non_exhaustive()
    }
}

const MAX_QUEUE: usize = 65_536;
/// Octets of the shortest frame, without its frame check sequence.
const MIN_FRAME: usize = 60;
/// Octets that a frame takes on a line besides its own: preamble 8, frame check sequence 4, interframe gap 12.
const GAP: u64 = 24;
/// In microseconds.
const MIN_HOLD: u64 = 100;
/// In microseconds.
const HOLD_SPAN: u64 = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    fn run(config: ImpairmentConfig) -> (Vec<(Instant, Vec<u8>)>, [u64; 4]) {
        let mut impairment = Impairment::new(config);
        let mut out = Vec::new();
        for number in 0..1000_u64 {
            let now = Instant::from_micros(i64::try_from(number * 50).unwrap());
            let mut frame = vec![0x08, 0x00];
            frame.splice(0..0, [0; 12]);
            frame.extend_from_slice(&number.to_be_bytes());
            impairment.push(now, &frame);
            while let Some(frame) = impairment.pop(now) {
                out.push((now, frame));
            }
        }
        while let Some(at) = impairment.poll_at() {
            assert_eq!(impairment.pop(at - Duration::from_micros(1)), None);
            out.extend(impairment.pop(at).map(|frame| (at, frame)));
        }
        (out, impairment.counts())
    }

    #[test]
    fn the_default_changes_nothing() {
        let (out, counts) = run(ImpairmentConfig::default());
        assert_eq!(counts, [0; 4]);
        assert!(
            out.iter().enumerate().all(|(number, (_, frame))| frame[14..] == (number as u64).to_be_bytes())
        );
        assert_eq!(out.len(), 1000);
    }

    #[test]
    fn a_seed_gives_the_same_result_again_and_another_seed_another() {
        let config = |seed| ImpairmentConfig {
            seed,
            loss: 0.05,
            bursts: None,
            duplicate: 0.05,
            reorder: 0.05,
            corrupt: 0.05,
            delay: Duration::from_micros(20),
            jitter: Duration::from_micros(70),
            down: Some(Instant::from_millis(10)..Instant::from_millis(11)),
            rate: NonZeroU64::new(1_000_000_000),
            queue: None,
        };
        assert_eq!(run(config(1)), run(config(1)));
        assert_ne!(run(config(1)), run(config(2)));
        let (_, [lost, duplicated, held_back, corrupted]) = run(config(1));
        assert!((40..110).contains(&lost), "{lost}");
        for count in [duplicated, held_back, corrupted] {
            assert!((20..90).contains(&count), "{count}");
        }
    }

    #[test]
    fn frames_of_one_moment_stay_in_order() {
        let delay = Duration::from_millis(1);
        let mut impairment = Impairment::new(ImpairmentConfig { delay, ..ImpairmentConfig::default() });
        for number in (0..9).rev() {
            impairment.push(Instant::ZERO, &[number; 60]);
        }
        for number in (0..9).rev() {
            assert_eq!(impairment.pop(Instant::ZERO + delay), Some(vec![number; 60]));
        }
    }

    /// Pushes frames of these lengths at these microseconds. Returns when each of them has come out, in their order; 0
    /// for a lost one.
    fn arrivals(config: ImpairmentConfig, frames: impl Iterator<Item = (i64, usize)>) -> Vec<i64> {
        let mut impairment = Impairment::new(config);
        assert!(!impairment.is_immediate());
        let mut arrivals = Vec::new();
        for (number, (at, len)) in frames.enumerate() {
            arrivals.push(0);
            let mut frame = vec![0; len];
            frame[..8].copy_from_slice(&(number as u64).to_le_bytes());
            impairment.push(Instant::from_micros(at), &frame);
        }
        while let Some(at) = impairment.poll_at() {
            let frame = impairment.pop(at).unwrap();
            let number = u64::from_le_bytes(frame[..8].try_into().unwrap());
            arrivals[usize::try_from(number).unwrap()] = at.total_micros();
        }
        arrivals
    }

    #[test]
    fn a_line_has_its_rate_exactly() {
        for (rate, len, octets) in [(10_000_000_000, 1514, 1538), (123_456_789, 14, 84), (3_000_001, 61, 85)]
        {
            let config = ImpairmentConfig { rate: NonZeroU64::new(rate), ..ImpairmentConfig::default() };
            let frames = 50_000;
            let arrivals = arrivals(config, (0..frames).map(|_| (1000, len)));
            for (number, arrival) in arrivals.into_iter().enumerate() {
                // The frame arrives in the microsecond in which its last bit does.
                let bits = (number as u128 + 1) * octets * 8;
                let expected = (bits * 1_000_000).div_ceil(u128::from(rate));
                assert_eq!(arrival, 1000 + i64::try_from(expected).unwrap(), "{number} at {rate} bit/s");
            }
        }
    }

    #[test]
    fn a_line_saves_no_time_for_later() {
        // A frame of 125 octets on the line takes a millisecond.
        let config = ImpairmentConfig {
            rate: NonZeroU64::new(1_000_000),
            delay: Duration::from_millis(5),
            ..ImpairmentConfig::default()
        };
        let frames = [(0, 101), (0, 101), (1500, 101), (10_000, 101), (10_999, 101)];
        assert_eq!(arrivals(config, frames.into_iter()), [6000, 7000, 8000, 16_000, 17_000]);
    }

    #[test]
    fn a_full_queue_loses_frames_until_the_line_has_sent_some() {
        let config = ImpairmentConfig {
            rate: NonZeroU64::new(1_000_000),
            queue: Some(250),
            ..ImpairmentConfig::default()
        };
        let frames = [(0, 101), (0, 101), (0, 101), (999, 101), (1000, 101), (1000, 101)];
        assert_eq!(arrivals(config.clone(), frames.into_iter()), [1000, 2000, 0, 0, 3000, 0]);
        // A line that is idle takes any frame.
        let config = ImpairmentConfig { queue: Some(0), ..config };
        assert_eq!(arrivals(config, frames.into_iter()), [1000, 0, 0, 0, 2000, 0]);
    }

    #[test]
    fn a_frame_that_would_go_on_at_once_counts_when_it_is_lost() {
        let mut impairment = Impairment::new(ImpairmentConfig { loss: 1.0, ..ImpairmentConfig::default() });
        assert!(impairment.is_immediate());
        for _ in 0..3 {
            assert!(!impairment.passes(Instant::ZERO));
        }
        assert_eq!(impairment.counts(), [3, 0, 0, 0]);
    }

    /// Returns for each of many frames whether it gets lost. The frames are pushed, or asked for one by one.
    fn losses(config: &ImpairmentConfig, is_pushed: bool) -> Vec<bool> {
        let mut impairment = Impairment::new(config.clone());
        let frame = |_| {
            let lost = if is_pushed {
                impairment.push(Instant::ZERO, &[0; 60]);
                impairment.pop(Instant::ZERO).is_none()
            } else {
                !impairment.passes(Instant::ZERO)
            };
            assert!(impairment.is_immediate(), "bursts hold no frame back");
            lost
        };
        (0..1_000_000).map(frame).collect()
    }

    #[test]
    fn bursts_have_their_length_and_share() {
        let config = ImpairmentConfig { bursts: Some(Bursts::of(8.0, 0.01)), ..ImpairmentConfig::default() };
        for is_pushed in [false, true] {
            let losses = losses(&config, is_pushed);
            let lost = losses.iter().filter(|&&lost| lost).count() as f64;
            let bursts = losses.windows(2).filter(|pair| !pair[0] && pair[1]).count() as f64;
            assert!((0.009..0.011).contains(&(lost / losses.len() as f64)), "{lost} lost");
            assert!((7.5..8.5).contains(&(lost / bursts)), "{lost} lost in {bursts} bursts");
        }
    }

    #[test]
    fn a_good_way_and_a_bad_one_lose_by_their_own_chances() {
        let bursts = Some(Bursts { begin: 0.1, end: 0.1, loss: 0.5 });
        let config = ImpairmentConfig { loss: 0.1, bursts, ..ImpairmentConfig::default() };
        let losses = losses(&config, false);
        let share = |lost: &[bool]| lost.iter().filter(|&&lost| lost).count() as f64 / lost.len() as f64;
        assert!((0.29..0.31).contains(&share(&losses)), "half of the time each: {}", share(&losses));
        // Behind a loss the way is bad with 5/6, and stays so with 0.9: 0.1 + 0.4 (0.9 * 5/6 + 0.1 / 6).
        let behind: Vec<bool> = losses.windows(2).filter(|pair| pair[0]).map(|pair| pair[1]).collect();
        assert!((0.39..0.42).contains(&share(&behind)), "{}", share(&behind));
    }

    #[test]
    fn a_link_that_is_down_loses_all() {
        let down = Some(Instant::from_millis(10)..Instant::from_millis(20));
        let (out, counts) = run(ImpairmentConfig { down, ..ImpairmentConfig::default() });
        assert_eq!((out.len(), counts), (800, [200, 0, 0, 0]));
    }

    #[test]
    fn reordering_lets_later_frames_overtake() {
        let (out, counts) = run(ImpairmentConfig { reorder: 0.1, ..ImpairmentConfig::default() });
        let order: Vec<&[u8]> = out.iter().map(|(_, frame)| &frame[14..]).collect();
        assert!(counts[2] > 0 && !order.is_sorted());
        assert_eq!(out.len(), 1000);
    }

    #[test]
    fn corruption_spares_arp_and_the_ethernet_header() {
        let mut impairment =
            Impairment::new(ImpairmentConfig { corrupt: 1.0, ..ImpairmentConfig::default() });
        let (mut arp, mut ip) = ([0; 60], [0; 60]);
        arp[12..14].copy_from_slice(&[0x08, 0x06]);
        ip[12..14].copy_from_slice(&[0x86, 0xDD]);
        for _ in 0..100 {
            impairment.push(Instant::ZERO, &arp);
            assert_eq!(impairment.pop(Instant::ZERO).unwrap(), arp);
            impairment.push(Instant::ZERO, &ip);
            let damaged = impairment.pop(Instant::ZERO).unwrap();
            let turned: u32 = damaged.iter().zip(ip).map(|(left, right)| (left ^ right).count_ones()).sum();
            assert_eq!((turned, &damaged[..14]), (1, &ip[..14]));
        }
        for short in [&[1, 2, 3], &ip[..14]] {
            impairment.push(Instant::ZERO, short);
            assert_eq!(impairment.pop(Instant::ZERO).as_deref(), Some(short));
        }
    }
}
