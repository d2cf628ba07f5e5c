//! Faults that the simulation has to notice.

/// What a test does to the outcomes of a side, to see that the simulation notices it. It happens once, with the first
/// receive that has octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sabotage {
    /// An octet that was received changes.
    Octet,
    /// What was received is lost.
    Lost,
    /// What was received comes twice.
    Twice,
    /// An octet of a buffer changes after it has come back.
    Late,
    /// The outcome of the receive is never told.
    Silent,
}

impl Sabotage {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Octet, Self::Lost, Self::Twice, Self::Late, Self::Silent];
}
