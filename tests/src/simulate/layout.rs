//! The planned memory of one end of a lane: regions, and places in them with guards between.

use weft_rnic::Access;

use super::random::Random;

/// A run of octets in a region of one end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) region: usize,
    pub(crate) offset: usize,
    pub(crate) len: usize,
}

/// The purpose of a region. Except for windows, the discriminant is the region's index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Sources of Sends and Writes. No operation writes here.
    Source = 0,
    /// Receive buffers and sinks of Reads and Atomics. Peers have no access.
    Sink = 1,
    /// Targets of the peer's Writes.
    Exposed = 2,
    /// Sources of the peer's Reads.
    Readable = 3,
    /// All of the above.
    Mixed = 4,
    /// Targets of the peer's Atomics.
    Words = 5,
    /// Memory of another protection domain.
    Foreign = 6,
    /// Memory of another stream of the same protection domain.
    Bound = 7,
    /// Memory of this stream alone. The peer may use it until a Send of its own invalidates it.
    Window = 8,
}

impl Role {
    pub(crate) fn access(self) -> Access {
        match self {
            Self::Source => Access::LOCAL_READ,
            Self::Sink => Access::LOCAL_WRITE,
            Self::Exposed => Access::LOCAL_WRITE | Access::REMOTE_WRITE,
            Self::Readable => Access::REMOTE_READ,
            Self::Mixed => Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ,
            Self::Words => Access::LOCAL_WRITE | Access::REMOTE_ATOMIC,
            Self::Foreign | Self::Bound | Self::Window => Access::ALL,
        }
    }
}

/// A region to be registered, with its contents at the start.
#[derive(Clone, Debug)]
pub(crate) struct RegionPlan {
    pub(crate) role: Role,
    pub(crate) iova: u64,
    pub(crate) octets: Vec<u8>,
}

/// The regions of one end while places are taken from them.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    regions: Vec<RegionPlan>,
}

impl Layout {
    pub(crate) fn new() -> Self {
        let region = |role| RegionPlan { role, iova: 0, octets: Vec::new() };
        Self { regions: ROLES.into_iter().map(region).collect() }
    }

    /// Returns a fresh place, behind a guard of any length, also 0. All octets are random, so that each place is
    /// unique.
    pub(crate) fn take(&mut self, role: Role, len: usize, random: &mut Random) -> Place {
        let region = role as usize;
        let octets = &mut self.regions[region].octets;
        let guard = random.pick(&[0, 0, 1, 7, 8, 64]) + random.below(8);
        octets.extend(random.octets(guard));
        if role == Role::Words {
            octets.resize(octets.len().next_multiple_of(WORD), GUARD);
        }
        let offset = octets.len();
        octets.extend(random.octets(len));
        Place { region, offset, len }
    }

    /// Returns a new region for a window.
    pub(crate) fn window(&mut self, random: &mut Random) -> usize {
        let len = random.between(1, 64);
        self.regions.push(RegionPlan { role: Role::Window, iova: 0, octets: random.octets(len) });
        self.regions.len() - 1
    }

    pub(crate) fn contents(&self, place: &Place) -> &[u8] {
        &self.regions[place.region].octets[place.offset..place.offset + place.len]
    }

    /// Ends all regions with a guard, and gives them their tagged offsets.
    pub(crate) fn finish(mut self, random: &mut Random) -> Vec<RegionPlan> {
        for region in &mut self.regions {
            // An unaligned place still has to be inside, and no region may be empty.
            let least = WORD * usize::from(region.role == Role::Words || region.octets.is_empty());
            let guard = random.pick(&[0, 1, 64]) + least;
            region.octets.extend(random.octets(guard));
            let len = region.octets.len() as u64;
            region.iova = match random.below(6) {
                0 => 0,
                1 => random.next() & 0xFFFF,
                2 => (1 << 32) - len / 2,
                3 => u64::MAX - len,
                _ => random.next() >> 1,
            };
        }
        self.regions
    }
}

pub(crate) const WORD: usize = 8;
const GUARD: u8 = 0xA5;
const ROLES: [Role; 8] = [
    Role::Source,
    Role::Sink,
    Role::Exposed,
    Role::Readable,
    Role::Mixed,
    Role::Words,
    Role::Foreign,
    Role::Bound,
];
