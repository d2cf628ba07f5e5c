//! Deadlines of many connections.

use smoltcp::time::Instant;

/// A hierarchical timer wheel with at most one deadline for each key. Arming and cancelling take constant time.
///
/// There are six levels of 64 slots. A slot of level `n` spans 64^n ticks of a millisecond. A deadline waits in the
/// lowest level in which it differs from the wheel's time. It moves down when the time enters its slot. Keys are
/// small numbers (places in a table), and their list nodes lie in one vector.
#[derive(Debug)]
pub(crate) struct Wheel {
    elapsed: u64,
    /// The wheel has nothing to do before this tick.
    quiet_until: u64,
    occupied: [u64; LEVELS],
    heads: [[usize; SLOTS]; LEVELS],
    nodes: Vec<Node>,
}

#[derive(Debug, Clone, Copy)]
struct Node {
    previous: usize,
    next: usize,
    when: u64,
    place: Option<(usize, usize)>,
}

impl Wheel {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            elapsed: micros(now) / TICK_MICROS,
            quiet_until: u64::MAX,
            occupied: [0; LEVELS],
            heads: [[NONE; SLOTS]; LEVELS],
            nodes: Vec::new(),
        }
    }

    /// Sets the deadline of `key`, rounded up to a tick, so that it never fires early.
    pub(crate) fn arm(&mut self, key: usize, deadline: Instant) {
        if self.nodes.len() <= key {
            self.nodes.resize(key + 1, Node { previous: NONE, next: NONE, when: 0, place: None });
        }
        let when = micros(deadline).div_ceil(TICK_MICROS);
        if self.nodes[key].place.is_some() {
            if self.nodes[key].when == when {
                return;
            }
            self.cancel(key);
        }
        self.insert(key, when);
    }

    /// Has `key` fire at the deadline or before: an earlier deadline stays. So a caller that sets a deadline for each
    /// message seldom moves it from list to list.
    pub(crate) fn arm_by(&mut self, key: usize, deadline: Instant) {
        let when = micros(deadline).div_ceil(TICK_MICROS);
        let is_early = |node: &Node| node.place.is_some() && node.when <= when;
        if !self.nodes.get(key).is_some_and(is_early) {
            self.arm(key, deadline);
        }
    }

    pub(crate) fn cancel(&mut self, key: usize) {
        let Some(node) = self.nodes.get_mut(key) else { return };
        let Some((level, slot)) = node.place.take() else { return };
        let Node { previous, next, .. } = *node;
        if previous == NONE {
            self.heads[level][slot] = next;
            if next == NONE {
                self.occupied[level] &= !(1 << slot);
            }
        } else {
            self.nodes[previous].next = next;
        }
        if next != NONE {
            self.nodes[next].previous = previous;
        }
    }

    /// Takes out one key whose deadline has come. The caller repeats this until it returns `None`.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<usize> {
        let tick = micros(now) / TICK_MICROS;
        if tick < self.quiet_until {
            self.elapsed = self.elapsed.max(tick);
            return None;
        }
        while let Some((level, slot, at)) = self.next_slot().filter(|&(_, _, at)| at <= tick) {
            self.elapsed = self.elapsed.max(at);
            let mut key = self.heads[level][slot];
            if level == 0 {
                self.cancel(key);
                return Some(key);
            }
            self.heads[level][slot] = NONE;
            self.occupied[level] &= !(1 << slot);
            while key != NONE {
                let Node { next, when, .. } = self.nodes[key];
                self.insert(key, when);
                key = next;
            }
        }
        self.elapsed = self.elapsed.max(tick);
        self.quiet_until = self.next_slot().map_or(u64::MAX, |(_, _, at)| at);
        None
    }

    /// Returns the time for the next [`Wheel::pop_due`]. It is never late, and may be early by the span of a slot of
    /// a high level.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let micros = self.next_slot()?.2.saturating_mul(TICK_MICROS);
        Some(Instant::from_micros(i64::try_from(micros).unwrap_or(i64::MAX)))
    }

    fn insert(&mut self, key: usize, when: u64) {
        let clamped = when.clamp(self.elapsed, self.elapsed + MAX_TICKS);
        let differing = (self.elapsed ^ clamped) | (SLOTS as u64 - 1);
        let level = ((63 - differing.leading_zeros()) / SLOT_BITS) as usize;
        let level = level.min(LEVELS - 1);
        let slot = slot_of(clamped, level);
        let begin = clamped & (u64::MAX << (SLOT_BITS as usize * level));
        self.quiet_until = self.quiet_until.min(begin);
        let next = self.heads[level][slot];
        self.nodes[key] = Node { previous: NONE, next, when, place: Some((level, slot)) };
        if next != NONE {
            self.nodes[next].previous = key;
        }
        self.heads[level][slot] = key;
        self.occupied[level] |= 1 << slot;
    }

    /// Returns the earliest slot with a deadline in it: level, slot, first tick. Lower levels are earlier.
    fn next_slot(&self) -> Option<(usize, usize, u64)> {
        let level = self.occupied.iter().position(|&occupied| occupied != 0)?;
        let current = slot_of(self.elapsed, level);
        let ahead = self.occupied[level].rotate_right(u32::try_from(current).unwrap_or(0)).trailing_zeros();
        let slot = (current + ahead as usize) % SLOTS;
        let shift = SLOT_BITS * u32::try_from(level).unwrap_or(0);
        let start = (self.elapsed >> shift) + u64::from(ahead);
        Some((level, slot, (start << shift).max(self.elapsed)))
    }
}

fn slot_of(tick: u64, level: usize) -> usize {
    usize::try_from((tick >> (SLOT_BITS as usize * level)) % SLOTS as u64).unwrap_or(0)
}

fn micros(instant: Instant) -> u64 {
    u64::try_from(instant.total_micros()).unwrap_or(0)
}

const TICK_MICROS: u64 = 1000;
const LEVELS: usize = 6;
const SLOT_BITS: u32 = 6;
const SLOTS: usize = 1 << SLOT_BITS;
/// The longest distance of a deadline (two years). A deadline that is farther away is put in at this distance, and
/// again when that time comes. One slot of the highest level is not used, so that no deadline gets into the slot of the
/// present time.
const MAX_TICKS: u64 = (SLOTS as u64 - 1) << (SLOT_BITS as usize * (LEVELS - 1));
const NONE: usize = usize::MAX;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_earlier_deadline_stays() {
        let at = Instant::from_millis;
        let mut wheel = Wheel::new(at(0));
        wheel.arm_by(0, at(50));
        wheel.arm_by(0, at(500));
        assert_eq!((wheel.pop_due(at(49)), wheel.pop_due(at(50))), (None, Some(0)));
        wheel.arm_by(0, at(500));
        wheel.arm_by(0, at(100));
        assert_eq!(
            (wheel.pop_due(at(99)), wheel.pop_due(at(100)), wheel.pop_due(at(600))),
            (None, Some(0), None)
        );
    }

    #[derive(Debug, Clone)]
    enum Operation {
        Arm(usize, u64),
        Cancel(usize),
        Advance(u64),
    }

    fn operations() -> impl Strategy<Value = Vec<Operation>> {
        // Spans of every level, from one tick to more than the wheel's whole range.
        let span = (0_u32..42).prop_flat_map(|bits| 0..=(1_u64 << bits));
        let operation = prop_oneof![
            4 => (0_usize..20, span.clone()).prop_map(|(key, span)| Operation::Arm(key, span)),
            1 => (0_usize..20).prop_map(Operation::Cancel),
            3 => span.prop_map(Operation::Advance),
        ];
        prop::collection::vec(operation, 1..80)
    }

    fn at(tick: u64) -> Instant {
        Instant::from_millis(i64::try_from(tick).unwrap())
    }

    proptest! {
        #[test]
        fn fires_the_same_keys_as_a_sorted_map(start in 0_u64..1 << 40, operations in operations()) {
            let (mut now, mut model) = (start, BTreeMap::new());
            let mut wheel = Wheel::new(at(now));
            for operation in operations {
                match operation {
                    Operation::Arm(key, span) => {
                        wheel.arm(key, at(now + span));
                        model.insert(key, now + span);
                    }
                    Operation::Cancel(key) => {
                        wheel.cancel(key);
                        model.remove(&key);
                    }
                    Operation::Advance(span) => now += span,
                }
                let mut fired: Vec<usize> = std::iter::from_fn(|| wheel.pop_due(at(now))).collect();
                fired.sort_unstable();
                let due: Vec<_> = model.iter().filter(|entry| *entry.1 <= now).map(|entry| *entry.0).collect();
                model.retain(|_, when| *when > now);
                prop_assert_eq!(fired, due);
                let earliest = model.values().min().map(|when| at(*when));
                prop_assert_eq!(wheel.next_deadline().is_some(), earliest.is_some());
                prop_assert!(wheel.next_deadline() <= earliest, "{:?} is late", wheel.next_deadline());
                prop_assert!(wheel.next_deadline().is_none_or(|next| next > at(now)));
            }
        }
    }

    #[test]
    fn a_deadline_inside_a_tick_fires_at_its_end() {
        let mut wheel = Wheel::new(Instant::ZERO);
        wheel.arm(3, Instant::from_micros(10_001));
        assert_eq!(wheel.next_deadline(), Some(Instant::from_millis(11)));
        assert_eq!(wheel.pop_due(Instant::from_micros(10_999)), None);
        assert_eq!(wheel.pop_due(Instant::from_micros(11_000)), Some(3));
        assert_eq!(wheel.next_deadline(), None);
    }
}
