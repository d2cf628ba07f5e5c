//! What the calls of the API can refuse. Nothing was changed by a call that did.

use weft_netif::{ConnectError, ListenError};

/// Why an object cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateError {
    /// The device holds as many queue pairs as its settings allow.
    TooManyQps,
    /// More than a queue or a request can hold.
    TooLarge {
        /// Of what.
        what: &'static str,
        /// The number asked for.
        wanted: usize,
        /// The largest number.
        max: usize,
    },
    /// One of the objects given belongs to another device.
    ForeignObject,
}

impl core::fmt::Display for CreateError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::TooManyQps => {
                f.write_str("the device holds as many queue pairs as it can: raise max_qps or destroy some")
            }
            Self::TooLarge { what, wanted, max } => write!(f, "{wanted} {what} are too many: at most {max}"),
            Self::ForeignObject => f.write_str("the objects belong to different devices"),
        }
    }
}

impl core::error::Error for CreateError {}

/// Why a call of connection management cannot be carried out. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CmError {
    /// The port cannot be listened on.
    Listen(ListenError),
    /// The address cannot be connected to.
    Connect(ConnectError),
    /// The queue pair is connected, connecting, or has been.
    QpBusy,
    /// The queue pair has no connection.
    NotConnected,
    /// The queue pair or the channel is another device's.
    ForeignObject,
    /// The request was answered already, or the peer has gone.
    RequestGone,
    /// More private data than the startup frame takes.
    PrivateDataTooLong {
        /// Octets given.
        len: usize,
        /// Octets allowed.
        max: usize,
    },
}

impl core::fmt::Display for CmError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Listen(error) => error.fmt(f),
            Self::Connect(error) => error.fmt(f),
            Self::QpBusy => f.write_str("the queue pair is not idle: a connection needs a fresh one"),
            Self::ForeignObject => f.write_str("the queue pair or event channel belongs to another device"),
            Self::NotConnected => f.write_str("the queue pair has no connection"),
            Self::RequestGone => {
                f.write_str("the connect request was answered already, or the peer has gone")
            }
            Self::PrivateDataTooLong { len, max } => {
                write!(f, "{len} octets of private data are too many: at most {max}")
            }
        }
    }
}

impl core::error::Error for CmError {}
