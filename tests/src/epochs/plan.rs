//! What a seed decides before a run.

use weft_group::Topology;
use weft_netif::{Duration, ImpairmentConfig};

use crate::simulate::random::Random;

/// What happens in a run.
#[derive(Debug)]
pub(super) struct Plan {
    /// Hosts with servers.
    pub(super) servers: usize,
    pub(super) clients: usize,
    /// Members that the group is to have.
    pub(super) replicas: usize,
    pub(super) topology: Topology,
    /// The memory of servers is kept on disks.
    pub(super) is_stored: bool,
    /// One member is spared that has all octets.
    pub(super) is_gentle: bool,
    /// Octets of the region.
    pub(super) size: usize,
    pub(super) window: u32,
    pub(super) mtu: usize,
    pub(super) sync_after: Duration,
    /// What happens to frames on their way to each host.
    pub(super) ways: Vec<ImpairmentConfig>,
    /// How long faults happen.
    pub(super) trouble: Duration,
    /// The mean time between two faults.
    pub(super) calm: Duration,
    /// The mean time between two operations of a client.
    pub(super) think: Duration,
    /// In percent: answers of the register that are lost.
    pub(super) lost_answers: usize,
    pub(super) random: Random,
}

impl Plan {
    pub(super) fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let servers = random.between(3, 4);
        let clients = random.between(1, 2);
        let is_stored = random.percent(50);
        let is_lossy = random.percent(30);
        let ways = (0..servers + clients + 1)
            .map(|_| {
                let is_slow = random.percent(10);
                let micros = if is_slow { random.between(5_000, 200_000) } else { random.between(5, 400) };
                let share = |random: &mut Random| match is_lossy {
                    true => random.below(30) as f64 / 1000.0,
                    false => 0.0,
                };
                ImpairmentConfig {
                    loss: share(&mut random),
                    duplicate: share(&mut random),
                    reorder: share(&mut random),
                    delay: Duration::from_micros(micros as u64),
                    seed: random.next(),
                    ..ImpairmentConfig::default()
                }
            })
            .collect();
        let millis = |number: usize| Duration::from_millis(number as u64);
        Self {
            servers,
            clients,
            replicas: random.between(2, 3),
            topology: random.pick(&[Topology::Chain, Topology::Fan]),
            is_stored,
            is_gentle: random.percent(if is_stored { 50 } else { 85 }),
            // One block, or two of which one is short.
            size: random.pick(&[4096, 70_000]),
            window: random.pick(&[2, 8]),
            mtu: random.pick(&[1500, 9000]),
            sync_after: Duration::from_micros(random.pick(&[0, 300, 10_000])),
            ways,
            trouble: millis(random.between(5_000, 30_000)),
            calm: millis(random.pick(&[300, 1_000, 3_000])),
            think: millis(random.pick(&[10, 50, 200])),
            lost_answers: random.pick(&[0, 5, 20]),
            random,
        }
    }
}
