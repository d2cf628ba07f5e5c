//! Why a lane or a channel does not go on.

use weft_sockets::Broken;

/// The lane is of no use any more.
#[derive(Debug)]
pub(crate) struct Lost;

/// Why a look at a channel failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The process or the other daemon broke a rule of the channel.
    Channel,
    /// The lane is lost.
    Lane,
    /// The other daemon broke a rule of the lane.
    Host,
}

impl From<Broken> for Failure {
    fn from(_: Broken) -> Self {
        Self::Channel
    }
}

impl From<Lost> for Failure {
    fn from(_: Lost) -> Self {
        Self::Lane
    }
}
