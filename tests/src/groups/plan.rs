//! What a seed decides before a run.

use weft_group::Durability;
use weft_netif::{Duration, ImpairmentConfig};

use crate::simulate::random::Random;

/// What happens in a run.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) replicas: usize,
    /// Sessions, each with a client and a range of its own.
    pub(super) sessions: usize,
    pub(super) window: u32,
    pub(super) piece: u32,
    pub(super) durability: Durability,
    pub(super) mtu: usize,
    /// Operations of each session.
    pub(super) operations: u64,
    /// Operations that a client has under way at most.
    pub(super) depth: u64,
    pub(super) impairment: ImpairmentConfig,
    /// What goes wrong, and behind how many operations of all sessions: the last one first.
    pub(super) faults: Vec<(u64, Fault)>,
    pub(super) random: Random,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The program of a replica ends.
    Kill(usize),
    /// A host loses its power, or all of its links. The replicas come first, and the clients behind them.
    Silence(usize),
    /// A host loses its links for so many milliseconds.
    Away(usize, u32),
    /// The program of a client ends.
    Leave(usize),
}

impl Plan {
    /// Returns the plan of a run whose two clients share a range, and how many times each of them takes the lock.
    pub(super) fn shared(seed: u64) -> Self {
        let mut plan = Self::new(seed);
        let random = &mut plan.random;
        let (sessions, operations) = (2, random.between(3, 8));
        let mut faults: Vec<_> = (0..random.below(3))
            .map(|_| {
                let host = random.below(plan.replicas + sessions);
                let fault = match random.below(4) {
                    0 => Fault::Kill(host % plan.replicas),
                    1 => Fault::Silence(host),
                    2 => Fault::Away(host, random.pick(&[20, 300, 4000, 12_000])),
                    _ => Fault::Leave(random.below(sessions)),
                };
                // An operation under the lock is three operations of the group.
                (random.below(6 * operations) as u64, fault)
            })
            .collect();
        // The last one comes first.
        faults.sort_by_key(|(at, _)| core::cmp::Reverse(*at));
        Self { sessions, operations: operations as u64, faults, ..plan }
    }

    pub(super) fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let (replicas, sessions) = (random.between(1, 4), random.between(1, 2));
        let operations = random.between(10, 80) as u64;
        let host = random.below(replicas + sessions);
        let fault = match random.below(8) {
            0 | 1 => Some(Fault::Kill(host % replicas)),
            2 => Some(Fault::Silence(host)),
            3 => {
                let milliseconds = random.pick(&[1, 20, 300, 4000]);
                Some(Fault::Away(host, milliseconds))
            }
            4 => Some(Fault::Leave(random.below(sessions))),
            _ => None,
        };
        let most = usize::try_from(operations).unwrap_or(1) * sessions;
        let faults = fault.map(|fault| (random.below(most) as u64, fault)).into_iter().collect();
        let is_lossy = random.percent(50);
        let share = |random: &mut Random| if is_lossy { random.below(40) as f64 / 1000.0 } else { 0.0 };
        let impairment = ImpairmentConfig {
            loss: share(&mut random),
            duplicate: share(&mut random),
            reorder: share(&mut random),
            delay: Duration::from_micros(random.between(5, 400) as u64),
            ..ImpairmentConfig::default()
        };
        Self {
            replicas,
            sessions,
            window: random.pick(&[2, 4, 16]),
            piece: random.pick(&[16, 200, 1000]),
            // The memory is volatile, so that a SYNC has nothing to do.
            durability: random.pick(&[Durability::Volatile, Durability::File]),
            mtu: random.pick(&[600, 1500, 9000]),
            operations,
            depth: random.pick(&[1, 3, 16]),
            impairment,
            faults,
            random,
        }
    }
}
