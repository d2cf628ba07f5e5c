//! How a thread waits: whether it spins, yields or sleeps. Times are arguments, in nanoseconds.

/// What a thread has learnt from its waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// How long a spin pays.
    budget: u64,
    /// Sleeps without any spin before.
    sleeps: u32,
    /// The next spin is tried anew, behind sleeps without any.
    is_trial: bool,
    /// Another thread wants this CPU until then.
    busy_until: u64,
}

/// What a thread waits for, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Situation {
    /// The peer ran on this thread's CPU when it published last: it cannot answer while this thread spins.
    pub is_same_cpu: bool,
    /// The wait is in the middle of a transfer: the ring is full, or empty with more to come.
    pub is_in_stream: bool,
    /// The longest spin. 0: this thread never spins.
    pub bound: u64,
    /// The thread lets others run between its looks.
    pub is_yielding: bool,
}

/// One wait, from the first look that found nothing on.
#[derive(Clone, Copy, Debug)]
pub struct Wait {
    began: u64,
    looked: u64,
    spin: u64,
    yields: u32,
    latest: Option<Step>,
    is_disturbed: bool,
    is_in_stream: bool,
    /// A longer time between two looks of a spin means that a thread that takes no part ran on this CPU.
    gap: u64,
    /// How long a thread does not spin after such a gap.
    rest: u64,
}

/// What a thread does before it looks again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It looks again at once.
    Spin,
    /// It lets another thread run.
    Yield,
    /// It sleeps until it is woken.
    Sleep,
}

impl Pace {
    /// The pace of a thread that has not waited yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { budget: FIRST, sleeps: 0, is_trial: false, busy_until: 0 }
    }

    /// True if a spin is worth it.
    #[must_use]
    pub const fn pays(&self) -> bool {
        self.budget > 0
    }

    /// Learns that a spin has found something.
    pub fn pay(&mut self) {
        self.is_trial = false;
        self.budget = if self.budget > LONGEST / 2 { LONGEST } else { self.budget * 2 };
    }

    /// Begins a wait.
    #[must_use]
    pub const fn begin(&self, now: u64, situation: Situation) -> Wait {
        let Situation { is_same_cpu, is_in_stream, bound, is_yielding } = situation;
        let spin = if is_in_stream { IN_STREAM } else { self.budget };
        let is_idle = is_same_cpu || now < self.busy_until;
        let spin = if is_idle || bound == 0 {
            0
        } else if spin < bound {
            spin
        } else {
            bound
        };
        let yields = if is_in_stream {
            YIELDS_IN_STREAM
        } else if is_same_cpu {
            YIELDS_ON_CPU
        } else {
            0
        };
        let (gap, rest) = if is_yielding { (LONG_GAP, LONG_REST) } else { (GAP, REST) };
        Wait {
            began: now,
            looked: now,
            spin,
            yields,
            latest: None,
            is_disturbed: false,
            is_in_stream,
            gap,
            rest,
        }
    }

    /// Learns from a wait, once its thread has found something, or before it sleeps. Returns what the wait came to:
    /// `None` if the thread found something at its first look.
    pub fn end(&mut self, wait: &Wait, now: u64) -> Option<Step> {
        if wait.is_disturbed || wait.is_late(now) {
            self.busy_until = now.saturating_add(wait.rest);
        }
        match wait.latest {
            Some(Step::Spin) if !wait.is_in_stream => self.pay(),
            Some(Step::Sleep) if wait.spin > 0 && !wait.is_in_stream => {
                let is_over = self.is_trial || self.budget / 2 < SHORTEST;
                (self.budget, self.is_trial) = (if is_over { 0 } else { self.budget / 2 }, false);
            }
            Some(Step::Sleep) if self.budget == 0 => {
                self.sleeps += 1;
                if self.sleeps == SLEEPS {
                    (self.sleeps, self.budget, self.is_trial) = (0, LONGEST, true);
                }
            }
            _ => {}
        }
        wait.latest
    }
}

impl Default for Pace {
    fn default() -> Self {
        Self::new()
    }
}

impl Wait {
    /// True if the thread is to look again at once.
    #[must_use]
    pub const fn is_spinning(&self) -> bool {
        matches!(self.latest, Some(Step::Spin))
    }

    /// Tells what to do after a look at this time found nothing.
    #[inline]
    pub fn next(&mut self, now: u64) -> Step {
        if self.is_late(now) {
            (self.is_disturbed, self.spin) = (true, self.spin.min(1));
        }
        self.looked = now;
        let step = if now.saturating_sub(self.began) < self.spin {
            Step::Spin
        } else if self.yields > 0 {
            self.yields -= 1;
            Step::Yield
        } else {
            Step::Sleep
        };
        self.latest = Some(step);
        step
    }

    /// True if another thread ran on this CPU since the look before.
    fn is_late(&self, now: u64) -> bool {
        now.saturating_sub(self.looked) > self.gap && self.latest == Some(Step::Spin)
    }
}

const MICROSECOND: u64 = 1000;
/// The longest spin, unless the user sets another bound.
pub const LONGEST: u64 = 50 * MICROSECOND;
const FIRST: u64 = 20 * MICROSECOND;
/// A shorter budget is none.
const SHORTEST: u64 = MICROSECOND;
/// Sleeps without a budget until one spin is tried anew. It is the longest one: if both ends sleep, the answer takes as
/// long as a wake-up, and with shorter spins neither end would ever find one.
const SLEEPS: u32 = 64;
/// The spin in the middle of a transfer, before the yields.
const IN_STREAM: u64 = 2 * MICROSECOND;
const YIELDS_IN_STREAM: u32 = 20;
const YIELDS_ON_CPU: u32 = 2;
const GAP: u64 = 30 * MICROSECOND;
const REST: u64 = 1000 * MICROSECOND;
/// The gap and the rest of a thread that yields. The others of an exchange run for a shorter time. A thread that computes
/// keeps the CPU for milliseconds, while a sleeper would be woken before its slice ends: so yielding is dear beside it.
const LONG_GAP: u64 = 300 * MICROSECOND;
const LONG_REST: u64 = 100_000 * MICROSECOND;

#[cfg(test)]
mod tests {
    use super::*;

    const ALONE: Situation =
        Situation { is_same_cpu: false, is_in_stream: false, bound: LONGEST, is_yielding: false };
    const ON_CPU: Situation = Situation { is_same_cpu: true, ..ALONE };
    const IN_STREAM: Situation = Situation { is_in_stream: true, ..ALONE };

    /// Waits from `now` on, with a look each microsecond, until the thread sleeps. Returns its spins and its yields.
    fn sleep(pace: &mut Pace, now: u64, situation: Situation) -> (usize, usize) {
        let mut wait = pace.begin(now, situation);
        let (mut spins, mut yields, mut time) = (0, 0, now);
        loop {
            match wait.next(time) {
                Step::Spin => spins += 1,
                Step::Yield => yields += 1,
                Step::Sleep => break,
            }
            time += MICROSECOND;
        }
        assert_eq!(pace.end(&wait, time), Some(Step::Sleep));
        (spins, yields)
    }

    /// Waits, and finds something at the second look.
    fn find(pace: &mut Pace) -> Option<Step> {
        let mut wait = pace.begin(0, ALONE);
        wait.next(0);
        pace.end(&wait, 1)
    }

    #[test]
    fn a_spin_that_pays_doubles_the_budget_and_one_that_does_not_halves_it() {
        let mut pace = Pace::new();
        assert!(pace.pays());
        assert_eq!(sleep(&mut pace, 0, ALONE), (20, 0));
        assert_eq!(sleep(&mut pace, 0, ALONE), (10, 0));
        assert_eq!(find(&mut pace), Some(Step::Spin));
        assert_eq!(sleep(&mut pace, 0, ALONE), (10, 0));
        for _ in 0..9 {
            assert_eq!(find(&mut pace), Some(Step::Spin));
        }
        assert_eq!(sleep(&mut pace, 0, ALONE), (50, 0));
        assert_eq!(sleep(&mut pace, 0, ALONE), (25, 0));
        pace.pay();
        assert_eq!(sleep(&mut pace, 0, ALONE), (25, 0), "also one that asked no clock");
    }

    #[test]
    fn without_a_budget_a_spin_is_tried_at_every_64th_sleep() {
        let mut pace = Pace::new();
        let halved: Vec<_> = (0..5).map(|_| sleep(&mut pace, 0, ALONE).0).collect();
        assert_eq!(halved, [20, 10, 5, 3, 2]);
        for _ in 0..2 {
            assert!(!pace.pays());
            assert!((0..64).all(|_| sleep(&mut pace, 0, ALONE) == (0, 0)));
            assert_eq!(sleep(&mut pace, 0, ALONE), (50, 0), "once");
        }
        assert!((0..64).all(|_| sleep(&mut pace, 0, ALONE) == (0, 0)));
        assert_eq!(find(&mut pace), Some(Step::Spin));
        assert_eq!(sleep(&mut pace, 0, ALONE), (50, 0));
        assert_eq!(sleep(&mut pace, 0, ALONE), (25, 0), "as before the sleeps");
    }

    #[test]
    fn two_ends_that_both_sleep_find_each_other_again() {
        // A message and its answer take a microsecond if the one that waits for it spins, and a wake-up if it sleeps.
        const WAKE: u64 = 40 * MICROSECOND;
        let asleep = Pace { budget: 0, ..Pace::new() };
        let mut ends = [asleep, Pace { sleeps: 17, ..asleep }];
        let (mut now, mut latest) = (0, [WAKE; 2]);
        for message in 0..1000 {
            // The other end works as soon as it has got what this one has sent.
            let (me, until) = (message % 2, now + latest[1 - message % 2] + MICROSECOND);
            let mut wait = ends[me].begin(now, ALONE);
            let mut time = now;
            let is_found = loop {
                match wait.next(time) {
                    Step::Spin if time >= until => break true,
                    Step::Sleep => break false,
                    _ => time += MICROSECOND / 2,
                }
            };
            ends[me].end(&wait, time);
            latest[me] = if is_found { 0 } else { WAKE };
            now = until;
        }
        assert_eq!(latest, [0; 2]);
    }

    #[test]
    fn what_is_found_at_the_first_look_teaches_nothing() {
        let mut pace = Pace::new();
        let wait = pace.begin(0, ALONE);
        assert_eq!((pace.end(&wait, 0), pace), (None, Pace::new()));
    }

    #[test]
    fn with_the_peer_on_this_cpu_a_thread_yields_twice_and_sleeps() {
        let mut pace = Pace::new();
        assert_eq!(sleep(&mut pace, 0, ON_CPU), (0, 2));
        assert_eq!(sleep(&mut pace, 0, ALONE), (20, 0), "that teaches nothing about spins");
    }

    #[test]
    fn a_gap_between_two_looks_ends_the_spins_of_a_millisecond() {
        let mut pace = Pace::new();
        let mut wait = pace.begin(0, ALONE);
        let start = 10_000;
        assert_eq!(wait.next(start), Step::Spin);
        assert_eq!(wait.next(start + GAP + 1), Step::Sleep);
        pace.end(&wait, start + GAP + 1);
        let again = start + GAP + 1 + REST;
        assert_eq!(sleep(&mut pace, again - 1, ALONE), (0, 0));
        assert_eq!(sleep(&mut pace, again, ALONE), (10, 0));
        let mut wait = pace.begin(again, ALONE);
        assert_eq!((wait.next(again), wait.next(again + GAP)), (Step::Spin, Step::Sleep));
        pace.end(&wait, again + GAP);
        assert_ne!(sleep(&mut pace, again, ALONE), (0, 0), "no more than the longest usual gap");
        let mut wait = pace.begin(again, ALONE);
        wait.next(again);
        pace.end(&wait, again + GAP + 1);
        assert_eq!(
            sleep(&mut pace, again + GAP + 2, ALONE),
            (0, 0),
            "also if something was found behind the gap"
        );
    }

    #[test]
    fn within_a_stream_a_thread_spins_shortly_and_yields() {
        let mut pace = Pace::new();
        assert_eq!(sleep(&mut pace, 0, IN_STREAM), (2, 20));
        assert_eq!(sleep(&mut pace, 0, Situation { is_same_cpu: true, ..IN_STREAM }), (0, 20));
        assert_eq!(sleep(&mut pace, 0, ALONE), (20, 0), "that teaches nothing about other waits");
    }

    #[test]
    fn a_thread_that_yields_is_disturbed_by_long_gaps_alone_and_rests_longer() {
        let situation = Situation { is_yielding: true, ..ALONE };
        let mut pace = Pace::new();
        pace.pay();
        pace.pay();
        let mut wait = pace.begin(0, situation);
        assert_eq!((wait.next(0), wait.next(GAP + 1)), (Step::Spin, Step::Spin));
        assert_eq!(wait.next(GAP + 1 + LONG_GAP + 1), Step::Sleep);
        let now = GAP + 1 + LONG_GAP + 1;
        pace.end(&wait, now);
        assert_eq!(sleep(&mut pace, now + LONG_REST - MICROSECOND, situation), (0, 0));
        assert!(sleep(&mut pace, now + LONG_REST, situation).0 > 0);
    }

    #[test]
    fn the_user_bounds_all_spins() {
        let mut pace = Pace::new();
        assert_eq!(sleep(&mut pace, 0, Situation { bound: 3 * MICROSECOND, ..ALONE }), (3, 0));
        assert_eq!(sleep(&mut pace, 0, Situation { bound: MICROSECOND, ..IN_STREAM }), (1, 20));
        assert_eq!(sleep(&mut pace, 0, Situation { bound: 0, ..ALONE }), (0, 0));
        assert_eq!(sleep(&mut pace, 0, Situation { bound: 0, ..IN_STREAM }), (0, 20));
    }
}
