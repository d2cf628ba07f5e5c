//! Errors of listening, connecting and settings.

use core::fmt;

/// Why [`Stack::listen`](crate::Stack::listen) refused a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListenError {
    /// The port is listened on or bound already.
    AddrInUse,
    /// The address is not an own one.
    AddrNotAvailable,
    /// Port 0 asks for any port, and none is free.
    NoPortFree,
    /// Only privileged users may listen there (`host` only).
    Permission,
    /// The system refuses with this error number (errno) (`host` only).
    System(i32),
}

impl fmt::Display for ListenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Permission => "only privileged users may listen on that port",
            Self::System(errno) => return system(f, "cannot listen", *errno),
            Self::AddrInUse => "the port is in use already",
            Self::AddrNotAvailable => "the address to listen on is not an own address",
            Self::NoPortFree => "no port is free to listen on",
        })
    }
}

impl core::error::Error for ListenError {}

/// Why [`Stack::connect`](crate::Stack::connect) refused at once, before anything was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectError {
    /// The local port is listened on, or has a connection to the same remote address and port.
    AddrInUse,
    /// The local address is not an own one.
    AddrNotAvailable,
    /// All ephemeral ports are taken towards that remote address and port.
    NoPortFree,
    /// Port 0, or an unspecified, multicast, broadcast or loopback address.
    Unaddressable,
    /// The remote address is outside the own net, and no route or gateway leads there.
    Unroutable,
    /// The own address is IPv4 and the remote one IPv6, or the other way round.
    FamilyMismatch,
    /// A firewall or a missing privilege forbids it (`host` only).
    Permission,
    /// The system refuses with this error number (errno) (`host` only).
    System(i32),
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Permission => "the system does not allow this connection",
            Self::System(errno) => return system(f, "cannot connect", *errno),
            Self::AddrInUse => "the local port is in use",
            Self::AddrNotAvailable => "the local address is not an own address",
            Self::NoPortFree => "no ephemeral port is free towards this peer",
            Self::Unaddressable => "the remote address or port cannot be connected to",
            Self::Unroutable => "the remote address is outside the own net and no route leads there",
            Self::FamilyMismatch => "the remote address is of another IP version than the own one",
        })
    }
}

impl core::error::Error for ConnectError {}

fn system(f: &mut fmt::Formatter<'_>, what: &str, errno: i32) -> fmt::Result {
    write!(f, "{what}: {}", std::io::Error::from_raw_os_error(errno))
}

/// What is wrong with a [`StackConfig`](crate::StackConfig).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigError {
    /// The address setting is wrong.
    Ip(crate::IpSettingError),
    /// The MTU is outside 576 (IPv6: 1280) to 65535.
    Mtu(usize),
    /// The MAC address is zero, multicast or broadcast.
    Mac([u8; 6]),
    /// The TCP buffer is not within 1 KiB to 1 GiB.
    TcpBuffer(usize),
    /// The backlog or a burst is zero, which would never do any work.
    ZeroLimit,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(error) => error.fmt(f),
            Self::Mtu(mtu) => write!(f, "an MTU of {mtu} is outside 576 (IPv6: 1280) to 65535"),
            Self::Mac(mac) => write!(f, "{mac:02x?} is not the MAC address of one station"),
            Self::TcpBuffer(len) => write!(f, "a TCP buffer of {len} octets is outside 1 KiB to 1 GiB"),
            Self::ZeroLimit => f.write_str("backlog and bursts must be at least 1"),
        }
    }
}

impl core::error::Error for ConfigError {}
