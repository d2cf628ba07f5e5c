//! Why a call of a session fails.

use weft_rnic::PostError;

use crate::op::OpError;
use crate::replica::SetupError;

/// Why a call fails. After [`Self::Op`] nothing has changed. After anything else the session is over, and what was under way
/// may be done in part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionError {
    /// The operation makes no sense, or has to wait.
    Op(OpError),
    /// A connection is lost, or a replica has answered something else than was asked. The number is that of the replica, if
    /// it is known.
    Lost(Option<usize>),
    /// A newer epoch has begun.
    Sealed {
        /// The newer epoch.
        epoch: u64,
    },
    /// The replicas have acknowledged nothing for as long as the session waits.
    TimedOut,
    /// A replica does not open the session, or cannot be reached.
    Refused(String),
    /// The device has no room for the objects of the session.
    Device(String),
}

impl core::fmt::Display for SessionError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Op(error) => error.fmt(f),
            Self::Lost(None) => f.write_str("a connection of the session is lost, and the session is over"),
            Self::Lost(Some(replica)) => write!(f, "replica {replica} is lost, and the session is over"),
            Self::Sealed { epoch } => {
                write!(f, "epoch {epoch} has begun, by a repair or another client: the session is over")
            }
            Self::TimedOut => f.write_str("the replicas did not answer in time"),
            Self::Refused(reason) | Self::Device(reason) => f.write_str(reason),
        }
    }
}

impl core::error::Error for SessionError {}

impl From<OpError> for SessionError {
    fn from(error: OpError) -> Self {
        Self::Op(error)
    }
}

/// A request that cannot be posted: the connection is not there any more.
impl From<PostError> for SessionError {
    fn from(_: PostError) -> Self {
        Self::Lost(None)
    }
}

impl From<SetupError> for SessionError {
    fn from(error: SetupError) -> Self {
        Self::Device(error.to_string())
    }
}
