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
    /// How long to wait for an answer.
    pub(crate) patience: Duration,
    /// True if the target understands the enhanced startup of RFC 6581.
    pub(crate) is_enhanced: bool,
    /// Whether the sinks of its Reads can be read and written afterwards. `None` until a check has tried.
    pub(crate) lasting_sink: Cell<Option<bool>>,
}

/// Why an endpoint cannot be tested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetError {
    /// The tester cannot open a connection.
    Dial(DialError),
    /// The endpoint takes the connection and never answers.
    Silent(Duration),
    /// The endpoint closes the connection instead of answering.
    Closed,
    /// The endpoint answers with octets that are no Reply Frame.
    Foreign(Vec<u8>),
    /// The endpoint rejects connections.
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
    /// Opens the endpoint at `address`, whose answers may take `patience`. Finds out whether it listens, speaks MPA,
    /// and knows RFC 6581's startup.
    ///
    /// # Errors
    /// If it cannot be tested. The time until then is bounded.
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

    /// Returns true if the target understands the enhanced startup of RFC 6581.
    #[must_use]
    pub const fn is_enhanced(&self) -> bool {
        self.is_enhanced
    }

    /// Gives connections time to close. Returns the wire's capture, if there is one.
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
