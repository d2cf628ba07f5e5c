//! Faults that the simulation has to notice.

/// What a test does to a group to see that the simulation notices it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sabotage {
    /// An octet of a replica changes by itself at the end.
    Octet,
    /// Clients do not take the lock.
    Lock,
    /// All owners of the lock are of the same epoch.
    Age,
    /// Nobody copies the memory of the first member when an epoch begins.
    Copy,
}
