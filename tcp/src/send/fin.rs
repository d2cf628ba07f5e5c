//! The end of our stream.

/// How far our FIN has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fin {
    /// The connection is not established: nothing goes.
    Early,
    /// There may be more data.
    Open,
    /// It goes after what is offered.
    Asked,
    Sent,
    Acknowledged,
}
