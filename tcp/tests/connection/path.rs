//! A path that loses, repeats, reorders and delays, by a seed.

use std::collections::BTreeMap;

use weft_tcp::{Ecn, Micros, Segment};

/// Numbers that look random (xorshift64*).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn draw(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
    }

    /// Returns a number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.draw() % end.max(1)
    }

    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[usize::try_from(self.below(choices.len() as u64)).expect("a place in a list")]
    }
}

/// One direction of a path.
pub(crate) struct Path {
    random: Random,
    delay: u64,
    loss: u64,
    duplicates: u64,
    /// Segments that come up to so many microseconds later than others.
    late: u64,
    jitter: u64,
    marks: u64,
    /// ACKs without data that are lost besides.
    thins: u64,
    /// Nothing passes from the one time to the other.
    outage: (Micros, Micros),
    /// What is under way, by time of arrival.
    queue: BTreeMap<(Micros, u64), Segment>,
    count: u64,
}

impl Path {
    pub(crate) fn new(random: &mut Random) -> Self {
        let begin = random.below(4_000_000);
        let outage = if random.chance(30) { random.below(3_000_000) } else { 0 };
        Self {
            delay: random.one_of(&[0, 100, 1_000, 20_000, 100_000]),
            loss: random.one_of(&[0, 0, 1, 5, 20]),
            duplicates: random.one_of(&[0, 0, 1, 10]),
            late: random.one_of(&[0, 0, 5, 30]),
            jitter: random.one_of(&[500, 5_000, 300_000]),
            marks: random.one_of(&[0, 0, 5]),
            thins: random.one_of(&[0, 0, 50]),
            outage: (Micros(begin), Micros(begin + outage)),
            random: Random::new(random.draw()),
            queue: BTreeMap::new(),
            count: 0,
        }
    }

    /// Whether the path never loses and never changes the order.
    pub(crate) fn is_faithful(&self) -> bool {
        self.loss + self.late + self.thins == 0 && self.outage.0 == self.outage.1
    }

    /// Lets everything pass from now on.
    pub(crate) fn repair(&mut self) {
        (self.loss, self.duplicates, self.late, self.marks, self.thins) = (0, 0, 0, 0, 0);
        self.outage = (Micros(0), Micros(0));
    }

    pub(crate) fn send(&mut self, mut segment: Segment, now: Micros) {
        let is_bare = segment.seq_len() == 0;
        let is_out = self.outage.0 <= now && now < self.outage.1;
        if is_out || self.random.chance(self.loss) || is_bare && self.random.chance(self.thins) {
            return;
        }
        if segment.ecn != Ecn::NotEct && self.random.chance(self.marks) {
            segment.ecn = Ecn::Ce;
        }
        let copies = 1 + u64::from(self.random.chance(self.duplicates));
        for _ in 0..copies {
            let late = if self.random.chance(self.late) { self.random.below(self.jitter) } else { 0 };
            self.queue.insert((now + Micros(self.delay + late), self.count), segment);
            self.count += 1;
        }
    }

    pub(crate) fn next_arrival(&self) -> Option<Micros> {
        self.queue.keys().next().map(|(at, _)| *at)
    }

    pub(crate) fn receive(&mut self, now: Micros) -> Option<Segment> {
        let first = self.queue.first_entry().filter(|entry| entry.key().0 <= now)?;
        Some(first.remove())
    }
}
