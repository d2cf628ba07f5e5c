//! The numbers of errors, for callers that know those of the system.

use std::io;

use rustix::io::Errno;
use weft_netif::{ConnectError, ListenError};
use weft_rnic::{CmError, ConnectFailure};

use crate::error::Error;

impl Error {
    /// Returns the number that a socket function of the system would leave in `errno`.
    #[must_use]
    pub const fn errno(&self) -> Errno {
        match self {
            Self::InvalidOption(_) | Self::Range | Self::ForeignMemory => Errno::INVAL,
            Self::Full => Errno::AGAIN,
            Self::MessageSize => Errno::MSGSIZE,
            Self::Refused(_) | Self::Connect(ConnectFailure::Refused | ConnectFailure::Closed) => {
                Errno::CONNREFUSED
            }
            Self::Connect(ConnectFailure::Unreachable) => Errno::HOSTUNREACH,
            Self::Connect(ConnectFailure::Protocol(_)) | Self::Protocol(_) => Errno::PROTO,
            Self::Connect(ConnectFailure::TimedOut) | Self::TimedOut => Errno::TIMEDOUT,
            Self::Address(error) => address(error),
            Self::Shutdown => Errno::PIPE,
            Self::Canceled => Errno::CANCELED,
            Self::Reset => Errno::CONNRESET,
            Self::Memory(error) => Errno::from_raw_os_error(error.errno().code()),
            Self::Device(error) => Errno::from_raw_os_error(error.errno().code()),
            Self::System(errno) => *errno,
        }
    }
}

impl From<Error> for io::Error {
    /// The kind is that of the number, and the text that of the error.
    fn from(error: Error) -> Self {
        Self::new(Self::from_raw_os_error(error.errno().raw_os_error()).kind(), error)
    }
}

const fn address(error: &CmError) -> Errno {
    match error {
        CmError::Listen(ListenError::AddrInUse) | CmError::Connect(ConnectError::AddrInUse) => {
            Errno::ADDRINUSE
        }
        CmError::Listen(ListenError::AddrNotAvailable | ListenError::NoPortFree)
        | CmError::Connect(ConnectError::AddrNotAvailable | ConnectError::NoPortFree) => Errno::ADDRNOTAVAIL,
        CmError::Listen(ListenError::Permission) | CmError::Connect(ConnectError::Permission) => {
            Errno::ACCESS
        }
        CmError::Listen(ListenError::System(errno)) => Errno::from_raw_os_error(*errno),
        CmError::Connect(ConnectError::Unroutable) => Errno::NETUNREACH,
        CmError::Connect(ConnectError::FamilyMismatch) => Errno::AFNOSUPPORT,
        CmError::ShutDown => Errno::NODEV,
        _ => Errno::INVAL,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_rnic::{CreateError, RegisterError};

    #[test]
    fn each_error_has_the_number_of_the_system() {
        for (error, errno) in [
            (Error::InvalidOption("ring"), Errno::INVAL),
            (Error::Range, Errno::INVAL),
            (Error::ForeignMemory, Errno::INVAL),
            (Error::Full, Errno::AGAIN),
            (Error::MessageSize, Errno::MSGSIZE),
            (Error::Refused(None), Errno::CONNREFUSED),
            (Error::Connect(ConnectFailure::Refused), Errno::CONNREFUSED),
            (Error::Connect(ConnectFailure::Unreachable), Errno::HOSTUNREACH),
            (Error::Connect(ConnectFailure::TimedOut), Errno::TIMEDOUT),
            (Error::Address(CmError::Listen(ListenError::AddrInUse)), Errno::ADDRINUSE),
            (Error::Address(CmError::Connect(ConnectError::NoPortFree)), Errno::ADDRNOTAVAIL),
            (Error::Address(CmError::Connect(ConnectError::Unroutable)), Errno::NETUNREACH),
            (Error::Address(CmError::ShutDown), Errno::NODEV),
            (Error::Address(CmError::QpBusy), Errno::INVAL),
            (Error::TimedOut, Errno::TIMEDOUT),
            (Error::Shutdown, Errno::PIPE),
            (Error::Canceled, Errno::CANCELED),
            (Error::Reset, Errno::CONNRESET),
            (Error::Protocol(weft_exs_core::Fault::Malformed), Errno::PROTO),
            (Error::Memory(RegisterError::Fault), Errno::FAULT),
            (Error::Memory(RegisterError::OutOfMemory), Errno::NOMEM),
            (Error::Device(CreateError::TooManyQps), Errno::NOMEM),
            (Error::System(Errno::MFILE), Errno::MFILE),
        ] {
            assert_eq!(error.errno(), errno, "{error}");
        }
    }
}
