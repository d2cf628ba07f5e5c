//! A path that loses, repeats, delays and reorders.

use std::collections::VecDeque;

use crate::Micros;

/// Pseudo-random numbers (splitmix64).
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x1234_5678)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn below(&mut self, end: u32) -> u32 {
        u32::try_from(self.next() % u64::from(end.max(1))).unwrap()
    }

    pub(super) fn one_in(&mut self, times: u32) -> bool {
        self.below(times) == 0
    }

    pub(super) fn ppm(&mut self, parts: u32) -> bool {
        self.below(1_000_000) < parts
    }

    pub(super) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(u32::try_from(of.len()).unwrap()) as usize]
    }
}

/// What a path does. Parts are of a million.
#[derive(Clone, Debug)]
pub(super) struct Path {
    /// The time of one direction.
    pub(super) delay: Micros,
    /// Octets a millisecond at the bottleneck of data, and its queue in octets. 0 is no limit.
    pub(super) rate: u32,
    pub(super) queue: u32,
    /// Whether the bottleneck marks instead of dropping when its queue is half full (ECN).
    pub(super) marks: bool,
    pub(super) loss: u32,
    pub(super) ack_loss: u32,
    /// Mean length of a burst of losses.
    pub(super) burst: u32,
    pub(super) duplicate: u32,
    pub(super) reorder: u32,
    /// By how much more what is reordered is late, at most.
    pub(super) late: Micros,
    /// When nothing passes.
    pub(super) outage: Option<(Micros, Micros)>,
    /// From then on nothing is lost, reordered or repeated.
    pub(super) good_from: Micros,
    is_in_burst: bool,
    busy_until: Micros,
    /// The numbers of packets that a scenario drops, in order.
    pub(super) drops: VecDeque<u32>,
    pub(super) packets: u32,
}

/// What happened to a packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Passed {
    pub(super) at: Micros,
    pub(super) is_marked: bool,
}

impl Path {
    pub(super) fn good(delay: Micros) -> Self {
        Self {
            delay,
            rate: 0,
            queue: 0,
            marks: false,
            loss: 0,
            ack_loss: 0,
            burst: 1,
            duplicate: 0,
            reorder: 0,
            late: Micros(0),
            outage: None,
            good_from: Micros(u64::MAX),
            is_in_burst: false,
            busy_until: Micros(0),
            drops: VecDeque::new(),
            packets: 0,
        }
    }

    pub(super) fn of(random: &mut Random) -> Self {
        let delay = Micros(u64::from(random.pick(&[10, 100, 1000, 10_000, 50_000_u32])));
        let loss = random.pick(&[0, 0, 1000, 10_000, 50_000, 200_000]);
        let outage = random.one_in(5).then(|| {
            let from = u64::from(random.below(300_000));
            (Micros(from), Micros(from + u64::from(random.below(2_000_000))))
        });
        Self {
            rate: random.pick(&[0, 0, 100, 1000, 100_000]),
            queue: 10_000 + random.below(200_000),
            marks: random.one_in(2),
            loss,
            ack_loss: random.pick(&[0, 0, 10_000, 300_000]),
            burst: random.pick(&[1, 1, 8]),
            duplicate: random.pick(&[0, 0, 10_000, 100_000]),
            reorder: random.pick(&[0, 0, 10_000, 100_000]),
            late: Micros(u64::from(random.below(30_000))),
            outage,
            good_from: Micros::from_secs(10),
            ..Self::good(delay)
        }
    }

    /// Sends a packet with data. Calls `arrives` for each copy that does.
    pub(super) fn data(
        &mut self,
        len: u32,
        now: Micros,
        random: &mut Random,
        mut arrives: impl FnMut(Passed),
    ) {
        self.packets += 1;
        let is_dropped = self.drops.front() == Some(&self.packets) && self.drops.pop_front().is_some();
        if is_dropped || self.is_lost(self.loss, now, random) {
            return;
        }
        let (mut at, mut is_marked) = (now, false);
        if self.rate > 0 {
            let waits = self.busy_until.max(now);
            let queued = u32::try_from(waits.since(now).0 * u64::from(self.rate) / 1000).unwrap_or(u32::MAX);
            if queued > self.queue {
                return;
            }
            is_marked = self.marks && queued > self.queue / 2;
            at = waits + Micros(u64::from(len + 60) * 1000 / u64::from(self.rate));
            self.busy_until = at;
        }
        for _ in 0..1 + u32::from(now < self.good_from && random.ppm(self.duplicate)) {
            arrives(Passed { at: at + self.delay(now, random), is_marked });
        }
    }

    /// Sends an ACK. Returns when it arrives.
    pub(super) fn ack(&mut self, now: Micros, random: &mut Random) -> Option<Micros> {
        let is_lost = self.is_lost(self.ack_loss, now, random);
        (!is_lost).then(|| now + self.delay(now, random))
    }

    fn delay(&self, now: Micros, random: &mut Random) -> Micros {
        let is_late = now < self.good_from && random.ppm(self.reorder);
        let late = if is_late { random.below(u32::try_from(self.late.0).unwrap() + 1) } else { 0 };
        self.delay + Micros(u64::from(late))
    }

    /// Whether a packet is lost: in an outage, or in a burst, which begins so often that `parts` are lost in all.
    fn is_lost(&mut self, parts: u32, now: Micros, random: &mut Random) -> bool {
        if self.outage.is_some_and(|(from, to)| from <= now && now < to) {
            return true;
        }
        if now >= self.good_from {
            return false;
        }
        self.is_in_burst =
            if self.is_in_burst { !random.one_in(self.burst) } else { random.ppm(parts / self.burst) };
        self.is_in_burst && parts > 0
    }
}
