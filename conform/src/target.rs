//! The endpoint under test, and how checks are run against it.

use std::cell::Cell;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use crate::arrival::DialError;
use crate::host::Host;
use crate::octets::digits;
use crate::probe::DEPTH;
use crate::startup::{HEADER_LEN, R, REPLY_KEY, Request};
use crate::stream::{Missing, Stream};

/// An endpoint that listens.
#[derive(Debug)]
pub struct Target {
    pub(crate) host: Host,
    pub(crate) address: SocketAddr,
    /// How long an answer may take.
    pub(crate) patience: Duration,
    /// It understands the enhanced startup of RFC 6581.
    pub(crate) is_enhanced: bool,
    /// Whether the sinks of its Reads can be read and written afterwards, once that was tried.
    pub(crate) lasting_sink: Cell<Option<bool>>,
}

/// Why an endpoint cannot be tested at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetError {
    /// There is no connection to be had.
    Dial(DialError),
    /// It takes the connection and never answers.
    Silent(Duration),
    /// It closes the connection instead of answering.
    Closed,
    /// It answers with something that is no Reply Frame.
    Foreign(Vec<u8>),
    /// It rejects connections.
    Rejected,
}

impl fmt::Display for TargetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dial(error) => error.fmt(f),
            Self::Silent(time) => {
                write!(
                    f,
                    "no answer to an MPA Request within {} s: it has to be an iWARP server",
                    time.as_secs_f32()
                )
            }
            Self::Closed => {
                f.write_str("it closes the connection at an MPA Request of revision 2 and of revision 1")
            }
            Self::Foreign(octets) => {
                write!(f, "it does not speak MPA: instead of a Reply it sends {}", digits(octets, 16))
            }
            Self::Rejected => f.write_str(
                "it rejects the connection (R=1 in its MPA Reply); a server that accepts is needed",
            ),
        }
    }
}

impl std::error::Error for TargetError {}

impl Target {
    /// The endpoint at `address`, whose answers may take `patience`. Finds out whether it is there, speaks MPA, and
    /// knows RFC 6581's startup.
    ///
    /// # Errors
    /// When it cannot be tested, in bounded time.
    pub fn open(host: Host, address: SocketAddr, patience: Duration) -> Result<Self, TargetError> {
        let mut target = Self { host, address, patience, is_enhanced: true, lasting_sink: Cell::new(None) };
        match target.greet(&Request::enhanced(DEPTH, DEPTH)) {
            Err(TargetError::Closed) => {
                target.is_enhanced = false;
                target.greet(&Request::plain())?;
            }
            other => other?,
        }
        Ok(target)
    }

    /// Whether it understands the enhanced startup of RFC 6581.
    #[must_use]
    pub const fn is_enhanced(&self) -> bool {
        self.is_enhanced
    }

    /// Gives connections time to close, and takes back the wire's capture, if there is one.
    #[must_use]
    pub fn close(self) -> Option<weft_netif::Capture> {
        self.host.close()
    }

    fn greet(&self, request: &Request) -> Result<(), TargetError> {
        let connection = self.host.connect(self.address, self.patience).map_err(TargetError::Dial)?;
        let mut stream = Stream::new(connection, self.patience);
        stream.send(&request.emit());
        let head = match stream.read(HEADER_LEN) {
            Ok(head) => head,
            Err(missing) => {
                let (_, received) = stream.record();
                return Err(match missing {
                    _ if !received.is_empty() && !REPLY_KEY.starts_with(received) => {
                        TargetError::Foreign(received.to_vec())
                    }
                    Missing::Silence => TargetError::Silent(self.patience),
                    Missing::Fin | Missing::Reset => TargetError::Closed,
                });
            }
        };
        if !head.starts_with(REPLY_KEY) {
            return Err(TargetError::Foreign(head));
        }
        if head[16] & R != 0 { Err(TargetError::Rejected) } else { Ok(()) }
    }
}
