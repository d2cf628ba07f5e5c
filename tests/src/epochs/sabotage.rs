//! Rules that are broken on purpose.

/// A rule that is broken, so that a test sees that the world notices it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sabotage {
    /// Coordinators take copies for done without asking for them.
    SkipCopy,
    /// A server that starts again has its former incarnation.
    SameIncarnation,
    /// A client that has lost its session opens another one in the same epoch.
    SameEpoch,
    /// A client takes a write for done as soon as it has begun.
    RashWrite,
}

impl Sabotage {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::SkipCopy, Self::SameIncarnation, Self::SameEpoch, Self::RashWrite];
}
