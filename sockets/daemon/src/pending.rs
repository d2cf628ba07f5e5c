//! Orders of an operator that are not done yet.

use core::time::Duration;

use crate::link::End;

/// Ends that are on their way back to TCP.
#[derive(Debug)]
pub(crate) struct Drain {
    /// The port whose command waits for that. `None`: this daemon waits, to leave.
    pub(crate) asker: Option<u64>,
    /// The process to be drained: its family, its place there, and its number.
    pub(crate) process: Option<(u64, u16, u32)>,
    /// The ends by their families that are not there yet.
    pub(crate) waiting: Vec<(u64, End)>,
    pub(crate) done: u32,
    pub(crate) left: u32,
    pub(crate) until: Duration,
    /// When the ends are looked at again.
    pub(crate) next: Duration,
}

/// How far another daemon is on its way to take the place of this one. The command that starts it has a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Succession {
    #[default]
    None,
    /// It asks for the listener.
    Asked(u64),
    /// It has the listener.
    Given(u64),
    /// It serves.
    Taken,
}
