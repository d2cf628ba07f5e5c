//! What a side has said of the end of its octets.

/// What this side has said of its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Shutdown {
    Open,
    /// It follows what was started before.
    Wanted,
    Sent,
}
