//! What a seed decides.

use super::path::{Path, Random};
use super::peer::Reader;
use crate::{Control, Micros, SendConfig};

/// A run: the path, the peer, and what the owner sends.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) path: Path,
    pub(super) reader: Reader,
    pub(super) config: SendConfig,
    pub(super) iss: u32,
    pub(super) emss: u16,
    pub(super) sack: bool,
    pub(super) timestamps: bool,
    pub(super) ecn: bool,
    /// Octets of the whole stream.
    pub(super) octets: u32,
    /// Octets that the application hands over at once, and the pause between.
    pub(super) batch: u32,
    pub(super) pause: Micros,
    /// Segments of a frame, at most.
    pub(super) offload: u32,
    /// Whether frames are as long as messages, which have any length.
    pub(super) is_ragged: bool,
    /// Places for records at first. They are exchanged for twice as many when they are full.
    pub(super) records: usize,
    /// When the EMSS falls, and to what.
    pub(super) emss_falls: Option<(Micros, u16)>,
}

impl Plan {
    /// A transfer over a good path: 10 ms there and back, no limit of rate.
    pub(super) fn plain(octets: u32) -> Self {
        Self {
            path: Path::good(Micros::from_millis(5)),
            reader: Reader::plain(),
            config: SendConfig { pacing: false, ..SendConfig::default() },
            iss: 1000,
            emss: 1000,
            sack: true,
            timestamps: true,
            ecn: false,
            octets,
            batch: u32::MAX,
            pause: Micros(0),
            offload: 1,
            is_ragged: false,
            records: 4096,
            emss_falls: None,
        }
    }

    /// The run of a seed.
    pub(super) fn of(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let emss = random.pick(&[200, 536, 1000, 1448, 8948]);
        let path = Path::of(&mut random);
        let control = if random.one_in(5) { Control::None(u32::from(emss) * 32) } else { Control::Cubic };
        let octets = random.below(u32::from(emss) * 400) + 1;
        Self {
            reader: Reader::of(&mut random, emss),
            config: SendConfig { control, pacing: random.one_in(2), ..SendConfig::default() },
            iss: if random.one_in(2) { u32::MAX - random.below(octets) } else { random.below(u32::MAX) },
            emss,
            sack: !random.one_in(4),
            timestamps: !random.one_in(3),
            ecn: random.one_in(4),
            octets,
            batch: if random.one_in(2) { u32::MAX } else { random.below(20 * u32::from(emss)) + 1 },
            pause: Micros(u64::from(random.pick(&[100, 5000, 50_000, 400_000_u32]))),
            offload: random.pick(&[1, 1, 4, 40]),
            is_ragged: random.one_in(3),
            records: random.pick(&[4, 64, 4096]),
            emss_falls: random.one_in(8).then(|| (Micros(u64::from(random.below(500_000))), emss / 2)),
            path,
        }
    }
}
