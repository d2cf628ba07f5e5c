//! All that two or three sessions may do to a lock, in every order.

use std::collections::HashMap;

use super::*;
use crate::message::UNTOUCHED;

/// One session: its lock, the compare-and-swap under way with the replicas that it has not reached, and how often it still
/// wants the lock.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Contender {
    lock: Lock,
    flight: Option<(u16, Vec<u64>)>,
    wants: u8,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct World {
    words: Vec<u64>,
    contenders: Vec<Contender>,
}

impl Contender {
    fn swap(&self) -> Option<Swap> {
        match self.lock.next() {
            Step::Swap(swap) => Some(swap),
            _ => None,
        }
    }

    fn is_idle(&self) -> bool {
        self.flight.is_none() && self.lock.next() == Step::Free && self.wants == 0
    }
}

impl World {
    fn new(words: &[u64], contenders: u16, wants: u8) -> Self {
        let contender = |number: u16| Contender {
            lock: Lock::new(0, words.len(), owner(7, number)),
            flight: None,
            wants,
        };
        Self { words: words.to_vec(), contenders: (1..=contenders).map(contender).collect() }
    }

    /// Returns all worlds that come next. With `retries` false, nobody begins to get the lock.
    fn next(&self, retries: bool) -> Vec<Self> {
        let mut next = Vec::new();
        for index in 0..self.contenders.len() {
            let contender = &self.contenders[index];
            if let Some((left, _)) = &contender.flight {
                // Replicas do not all see the sessions in the same order.
                for replica in (0..self.words.len()).filter(|replica| left >> replica & 1 == 1) {
                    next.push(self.reach(index, replica));
                }
                continue;
            }
            let mut world = self.clone();
            let changed = &mut world.contenders[index];
            match contender.lock.next() {
                Step::Swap(swap) => changed.flight = Some((swap.on.0, vec![UNTOUCHED; MAX_REPLICAS])),
                Step::Owned => changed.lock.release(),
                Step::Free | Step::Busy(_) if contender.wants > 0 && retries => changed.lock.acquire(),
                _ => continue,
            }
            next.push(world);
        }
        next
    }

    /// A compare-and-swap under way reaches a replica. After the last one it is acknowledged.
    fn reach(&self, index: usize, replica: usize) -> Self {
        let mut world = self.clone();
        let contender = &mut world.contenders[index];
        let swap = contender.swap().unwrap();
        let (mut left, mut found) = contender.flight.take().unwrap();
        left &= !(1 << replica);
        found[replica] = world.words[replica];
        if world.words[replica] == swap.compare {
            world.words[replica] = swap.swap;
        }
        if left > 0 {
            contender.flight = Some((left, found));
        } else {
            let is_owned = contender.lock.phase == Phase::Owned;
            let is_whole = contender.lock.take(&found.try_into().unwrap());
            assert!(is_whole || swap.swap != 0, "what a session has nobody takes from it");
            contender.wants -= u8::from(!is_owned && contender.lock.next() == Step::Owned);
        }
        world
    }

    fn owners(&self) -> usize {
        self.contenders.iter().filter(|contender| contender.lock.next() == Step::Owned).count()
    }
}

fn owner(epoch: u64, number: u16) -> Owner {
    Owner::new(epoch, 40 + u64::from(number), NonZeroU16::new(number).unwrap())
}

/// All worlds that can be reached, and the numbers of those that come next.
struct Space {
    worlds: Vec<World>,
    /// With all steps, and with those alone by which nobody begins to get the lock.
    next: [Vec<Vec<usize>>; 2],
}

impl Space {
    fn new(start: World) -> Self {
        let mut numbers = HashMap::from([(start.clone(), 0)]);
        let mut space = Self { worlds: vec![start], next: [Vec::new(), Vec::new()] };
        while let Some(world) = space.worlds.get(space.next[0].len()).cloned() {
            for retries in [true, false] {
                let mut next = Vec::new();
                for world in world.next(retries) {
                    assert!(world.owners() <= 1, "two owners");
                    let number = *numbers.entry(world.clone()).or_insert(space.worlds.len());
                    if number == space.worlds.len() {
                        space.worlds.push(world);
                    }
                    next.push(number);
                }
                space.next[usize::from(!retries)].push(next);
            }
        }
        space
    }

    /// Returns a world from which none of those can be reached that `is_goal` names.
    fn stuck(&self, without_retries: bool, is_goal: impl Fn(&World) -> bool) -> Option<&World> {
        let next = &self.next[usize::from(without_retries)];
        let mut before = vec![Vec::new(); self.worlds.len()];
        for (number, next) in next.iter().enumerate() {
            next.iter().for_each(|next| before[*next].push(number));
        }
        let mut good: Vec<bool> = self.worlds.iter().map(is_goal).collect();
        let mut open: Vec<usize> = (0..good.len()).filter(|number| good[*number]).collect();
        while let Some(number) = open.pop() {
            for &earlier in &before[number] {
                if !core::mem::replace(&mut good[earlier], true) {
                    open.push(earlier);
                }
            }
        }
        good.iter().position(|good| !good).map(|number| &self.worlds[number])
    }
}

/// Never two owners; each session that wants the lock can still get it, whatever has happened; and as long as nobody begins
/// anew, the session that has the word of replica 0 gets all the others.
fn examine(words: &[u64], contenders: u16, wants: u8) -> usize {
    let space = Space::new(World::new(words, contenders, wants));
    let is_done = |world: &World| world.contenders.iter().all(Contender::is_idle);
    assert!(space.stuck(false, is_done).is_none(), "somebody never gets the lock");
    let rests = |world: &World| {
        let is_at_rest = |contender: &Contender| {
            contender.flight.is_none() && matches!(contender.lock.next(), Step::Busy(_) | Step::Free)
        };
        let nobody_has_it = || world.words.iter().all(|word| owner(7, 1).may_take(*word));
        world.owners() == 1 || world.contenders.iter().all(is_at_rest) && nobody_has_it()
    };
    assert!(space.stuck(true, rests).is_none(), "nobody gets on");
    let is_left = |world: &World| is_done(world) && world.words.iter().any(|word| *word != 0);
    assert!(!space.worlds.iter().any(is_left), "a word is left");
    space.worlds.len()
}

#[test]
fn every_order_of_two_sessions_is_good() {
    let stale = owner(6, 9).word();
    for replicas in 1..=3 {
        examine(&vec![0; replicas], 2, 2);
        // What a change of epoch leaves: the word of a session that is over.
        examine(&vec![stale; replicas], 2, 2);
    }
    // A word that only some replicas have.
    examine(&[0, stale, 0], 2, 1);
    examine(&[stale, 0, owner(5, 9).word()], 2, 1);
}

#[test]
fn every_order_of_three_sessions_is_good() {
    let stale = owner(6, 9).word();
    for replicas in 1..=2 {
        examine(&vec![0; replicas], 3, 1);
        examine(&vec![stale; replicas], 3, 1);
    }
    let worlds = examine(&[0; 3], 3, 1);
    assert!(worlds > 10_000, "{worlds}");
}

#[test]
fn words_of_older_epochs_are_free_and_those_of_newer_ones_are_not() {
    let own = owner(7, 1);
    assert!(own.may_take(0) && own.may_take(owner(6, 1).word()));
    assert!(
        !own.may_take(own.word()) && !own.may_take(owner(7, 2).word()) && !own.may_take(owner(8, 2).word())
    );
    // The 24 bits of the epoch go around.
    let around = owner((1 << 24) + 1, 1);
    assert_eq!(around.epoch(), 1);
    assert!(around.may_take(owner((1 << 24) - 1, 1).word()));
    assert!(!owner((1 << 24) - 1, 1).may_take(around.word()));
    assert_ne!(Owner::new(1 << 24, 1 << 24, NonZeroU16::MIN).word(), 0);
}

#[test]
fn the_wait_grows_and_has_a_limit() {
    for attempt in 0..40 {
        let longest = 25_u64 << attempt.min(10);
        assert_eq!(backoff(longest - 1, attempt), Duration::from_micros(longest - 1));
        assert_eq!(backoff(longest, attempt), Duration::ZERO);
    }
}
