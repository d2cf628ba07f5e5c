//! What the calls can refuse, with the numbers of libc.

use std::io;
use std::net::{IpAddr, SocketAddr};

use rustix::io::Errno;
use weft_netif::{ConnectError, ListenError};
use weft_rnic::{CmError, CreateError};

use crate::kind::EventKind;
use crate::state::{Op, State};

/// Why a call cannot be carried out. Only after [`Error::Ended`] has anything changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The id's state does not allow it.
    State {
        /// What was called.
        op: Op,
        /// The state.
        state: State,
    },
    /// No device has this address.
    AddrNotAvailable(IpAddr),
    /// The port is bound or listened on already.
    AddrInUse(SocketAddr),
    /// No ephemeral port is free.
    NoPortFree,
    /// No device has a route to this address.
    Unroutable(IpAddr),
    /// The address cannot be that of a peer, or its port is 0.
    Unaddressable(SocketAddr),
    /// One address is IPv4, the other one IPv6.
    FamilyMismatch,
    /// The device is gone.
    DeviceRemoved,
    /// No device of this manager has been found for the id yet.
    NoDevice,
    /// The id has no queue pair.
    NoQp,
    /// The id has a queue pair already.
    HasQp,
    /// The id is synchronous, or the call is for synchronous ids only.
    WrongMode,
    /// Events of the id have been taken and not acknowledged.
    Unacknowledged,
    /// The channel or the device belongs to another manager.
    Foreign,
    /// An object cannot be made.
    Create(CreateError),
    /// The device has refused the call.
    Refused(CmError),
    /// A synchronous call was carried out, and led to this event instead of the wanted one.
    Ended {
        /// The event.
        kind: EventKind,
        /// Its status.
        status: Errno,
    },
    /// The system has refused a descriptor.
    System(Errno),
    /// A name cannot be resolved.
    Name,
}

impl Error {
    /// Returns the number that librdmacm would set `errno` to.
    pub const fn errno(&self) -> Errno {
        match self {
            Self::DeviceRemoved | Self::NoDevice => Errno::NODEV,
            Self::State { .. } | Self::NoQp | Self::HasQp | Self::WrongMode | Self::Foreign => Errno::INVAL,
            Self::AddrNotAvailable(_) => Errno::ADDRNOTAVAIL,
            Self::AddrInUse(_) => Errno::ADDRINUSE,
            Self::NoPortFree => Errno::ADDRNOTAVAIL,
            Self::Unroutable(_) => Errno::NETUNREACH,
            Self::Unaddressable(_) => Errno::INVAL,
            Self::FamilyMismatch => Errno::INVAL,
            Self::Unacknowledged => Errno::BUSY,
            Self::Create(CreateError::TooManyQps | CreateError::TooManyCqs) => Errno::NOMEM,
            Self::Create(_) => Errno::INVAL,
            Self::Refused(error) => refused(error),
            Self::Ended { status, .. } | Self::System(status) => *status,
            Self::Name => Errno::NOENT,
        }
    }
}

/// Returns the number for what a device refuses.
const fn refused(error: &CmError) -> Errno {
    match error {
        CmError::Listen(ListenError::AddrInUse) | CmError::Connect(ConnectError::AddrInUse) => {
            Errno::ADDRINUSE
        }
        CmError::Listen(_) | CmError::Connect(ConnectError::AddrNotAvailable | ConnectError::NoPortFree) => {
            Errno::ADDRNOTAVAIL
        }
        CmError::Connect(ConnectError::Unroutable) => Errno::NETUNREACH,
        CmError::Connect(ConnectError::FamilyMismatch) => Errno::AFNOSUPPORT,
        CmError::ShutDown => Errno::NODEV,
        CmError::NotConnected => Errno::NOTCONN,
        CmError::RequestGone => Errno::CONNRESET,
        _ => Errno::INVAL,
    }
}

impl core::fmt::Display for Error {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::State { op, state } => write!(f, "the id cannot {}: it is {state}", op.describe()),
            Self::AddrNotAvailable(address) => write!(f, "no device has the address {address}"),
            Self::AddrInUse(address) => write!(f, "{address} is in use"),
            Self::NoPortFree => f.write_str("no ephemeral port is free"),
            Self::Unroutable(address) => write!(f, "no device has a route to {address}"),
            Self::Unaddressable(address) => write!(f, "{address} cannot be the address of a peer"),
            Self::FamilyMismatch => f.write_str("the addresses are of different IP versions"),
            Self::DeviceRemoved => f.write_str("the device is gone"),
            Self::NoDevice => f.write_str("the id has no device yet: bind it or resolve an address first"),
            Self::NoQp => f.write_str("the id has no queue pair: create or attach one first"),
            Self::HasQp => f.write_str("the id has a queue pair already"),
            Self::WrongMode => f.write_str("the call is for ids without an event channel only"),
            Self::Unacknowledged => f.write_str("events of the id are not acknowledged yet: drop them first"),
            Self::Foreign => f.write_str("the object belongs to another connection manager"),
            Self::Create(error) => error.fmt(f),
            Self::Refused(error) => error.fmt(f),
            Self::Ended { kind, status } => write!(f, "{kind}: {status}"),
            Self::System(errno) => errno.fmt(f),
            Self::Name => f.write_str("the name is not a host with a port, or has no address"),
        }
    }
}

impl core::error::Error for Error {}

impl From<CreateError> for Error {
    fn from(error: CreateError) -> Self {
        Self::Create(error)
    }
}

impl From<CmError> for Error {
    fn from(error: CmError) -> Self {
        match error {
            CmError::ForeignObject => Self::Foreign,
            CmError::Listen(ListenError::NoPortFree) | CmError::Connect(ConnectError::NoPortFree) => {
                Self::NoPortFree
            }
            CmError::Connect(ConnectError::FamilyMismatch) => Self::FamilyMismatch,
            other => Self::Refused(other),
        }
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        Self::from_raw_os_error(error.errno().raw_os_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errno_tells_why_a_device_refuses() {
        for (refused, errno) in [
            (CmError::Listen(ListenError::AddrInUse), Errno::ADDRINUSE),
            (CmError::Listen(ListenError::AddrNotAvailable), Errno::ADDRNOTAVAIL),
            (CmError::Listen(ListenError::NoPortFree), Errno::ADDRNOTAVAIL),
            (CmError::Connect(ConnectError::AddrInUse), Errno::ADDRINUSE),
            (CmError::Connect(ConnectError::AddrNotAvailable), Errno::ADDRNOTAVAIL),
            (CmError::Connect(ConnectError::NoPortFree), Errno::ADDRNOTAVAIL),
            (CmError::Connect(ConnectError::Unroutable), Errno::NETUNREACH),
            (CmError::Connect(ConnectError::Unaddressable), Errno::INVAL),
            (CmError::ShutDown, Errno::NODEV),
            (CmError::NotConnected, Errno::NOTCONN),
            (CmError::RequestGone, Errno::CONNRESET),
            (CmError::QpBusy, Errno::INVAL),
            (CmError::ForeignObject, Errno::INVAL),
        ] {
            assert_eq!(Error::from(refused).errno(), errno, "{refused}");
        }
    }
}
