//! Sockets of the kernel: how they are made and set up, and the meaning of their errors. `unsafe` stands for two
//! questions that rustix lacks: the segment size, and the octets that are not acknowledged yet.
#![allow(unsafe_code)]

use core::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::net::UdpSocket;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt;
use rustix::net::{
    AddressFamily, Shutdown, SocketAddrAny, SocketFlags, SocketType, acceptfrom_with, bind, connect,
    getsockname, ipproto, listen, shutdown, socket_with,
};

use crate::config::StackConfig;
use crate::error::{ConnectError, ListenError};
use crate::held::Held;
use crate::llp::state::CloseCause;

/// The outcome of the first step of a connection.
#[derive(Debug)]
pub(super) enum Opening {
    /// The peer has not answered yet.
    Pending(Held),
    /// The peer has answered at once, as a peer on the same machine can.
    Open(Held),
    /// The peer does not listen on that port.
    Refused,
}

/// Returns an error if the kernel refuses the configured congestion control. The answer is the same for both
/// families.
pub(super) fn try_congestion(config: &StackConfig) -> Result<(), Errno> {
    let Some(name) = &config.kernel_congestion else { return Ok(()) };
    let any = |ip: IpAddr| open(SocketAddr::new(ip, 0));
    let socket = any([0; 4].into()).or_else(|_none| any([0; 16].into()))?;
    sockopt::set_tcp_congestion(&socket, name)
}

/// Opens a listening socket on `local`, which may be unspecified, and returns it with its address.
pub(super) fn open_listener(
    local: SocketAddr,
    backlog: usize,
    config: &StackConfig,
) -> Result<(Held, SocketAddr), ListenError> {
    on_both_families(local, |local| {
        let socket = open_for(local)?;
        // Accepted sockets inherit these options.
        set_options(&socket, config)?;
        bind(&socket, &local)?;
        listen(&socket, i32::try_from(backlog).unwrap_or(i32::MAX))?;
        Ok(socket)
    })
}

/// Opens a socket that only reserves the port of `local`. Sockets with the same option can share the port.
pub(super) fn open_bound(local: SocketAddr) -> Result<(Held, SocketAddr), ListenError> {
    on_both_families(local, |local| {
        let socket = open_for(local)?;
        // With the option set, the kernel could choose a port that another socket reserves.
        sockopt::set_socket_reuseaddr(&socket, local.port() != 0)?;
        bind(&socket, &local)?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        Ok(socket)
    })
}

/// Makes one socket for both families if the address is unspecified. On a machine without IPv6 it is for IPv4 only.
fn on_both_families(
    local: SocketAddr,
    make: impl Fn(SocketAddr) -> Result<Held, Errno>,
) -> Result<(Held, SocketAddr), ListenError> {
    let both = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), local.port());
    let made = match local.ip().is_unspecified().then(|| make(both)) {
        None | Some(Err(Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL)) => make(local),
        Some(made) => made,
    };
    let socket = made.map_err(listen_error)?;
    let local = local_addr(&socket).ok_or(ListenError::System(Errno::AFNOSUPPORT.raw_os_error()))?;
    Ok((socket, local))
}

/// Opens a socket that can share its port with sockets that do not listen.
fn open_for(local: SocketAddr) -> Result<Held, Errno> {
    let socket = open(local)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if local.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, !local.ip().is_unspecified())?;
    }
    Ok(socket)
}

/// Accepts the next connection of a listening socket.
pub(super) fn accept(listener: &Held) -> Result<(Held, Option<SocketAddr>), Errno> {
    let (socket, peer) = acceptfrom_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC)?;
    Ok((Held::marked(socket), peer.and_then(address)))
}

/// Begins a connection to `remote`, from `local` if that is given.
pub(super) fn open_connection(
    remote: SocketAddr,
    local: Option<SocketAddr>,
    config: &StackConfig,
) -> Result<Opening, ConnectError> {
    let socket = open(remote).map_err(connect_error)?;
    set_options(&socket, config).map_err(connect_error)?;
    if let Some(local) = local {
        if local.port() != 0 {
            // The port may be used again although a former connection is in TIME-WAIT there.
            sockopt::set_socket_reuseaddr(&socket, true).map_err(connect_error)?;
        }
        bind(&socket, &local).map_err(connect_error)?;
    }
    match connect(&socket, &remote) {
        Ok(()) if is_connected_to_itself(&socket, remote) => Ok(Opening::Refused),
        Ok(()) => Ok(Opening::Open(socket)),
        Err(Errno::INPROGRESS | Errno::INTR) => Ok(Opening::Pending(socket)),
        Err(Errno::CONNREFUSED) => Ok(Opening::Refused),
        // The kernel returns this error when it finds no ephemeral port.
        Err(Errno::ADDRNOTAVAIL) => Err(ConnectError::NoPortFree),
        Err(errno) => Err(connect_error(errno)),
    }
}

/// Returns true if the socket is its own peer. If a port of this machine is not listened on, the kernel may choose
/// the same port for the own end. Then TCP's simultaneous open connects the socket with itself.
pub(super) fn is_connected_to_itself(socket: &Held, remote: SocketAddr) -> bool {
    local_addr(socket) == Some(remote)
}

/// Returns the own end of a socket.
pub(super) fn local_addr(socket: &Held) -> Option<SocketAddr> {
    getsockname(socket).ok().and_then(address)
}

/// Returns the address of this host for connections to `remote`.
pub(super) fn source_to(remote: SocketAddr) -> Option<IpAddr> {
    let any: IpAddr = if remote.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
    // A datagram socket finds its route when it is connected. Nothing is sent.
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect(remote).ok()?;
    socket.local_addr().ok().map(|local| local.ip())
}

/// Sends FIN. An error means that the connection has ended, which the socket reports as an event, too.
pub(super) fn finish(socket: &Held) -> Result<(), Errno> {
    shutdown(socket, Shutdown::Write)
}

/// Closes a socket by RST.
pub(super) fn reset(socket: Held) {
    // If the kernel refuses the option, the peer gets a FIN instead.
    let _told_otherwise = sockopt::set_socket_linger(&socket, Some(Duration::ZERO));
    drop(socket);
}

/// Returns why the kernel has ended a connection; `None` if it has not.
pub(super) fn pending_error(socket: &Held) -> Option<CloseCause> {
    match sockopt::socket_error(socket) {
        Ok(Ok(())) => None,
        Ok(Err(errno)) | Err(errno) => Some(cause(errno)),
    }
}

/// Returns how a connection has ended, from its error.
pub(super) const fn cause(errno: Errno) -> CloseCause {
    match errno {
        Errno::CONNREFUSED => CloseCause::Refused,
        Errno::TIMEDOUT => CloseCause::TimedOut,
        Errno::HOSTUNREACH | Errno::NETUNREACH | Errno::HOSTDOWN | Errno::NETDOWN => CloseCause::Unreachable,
        _ => CloseCause::Reset,
    }
}

/// Returns the octets of payload in the largest segment to the peer. Segments on loopback reach no wire, so that an
/// FPDU may have MPA's largest length.
pub(super) fn emss(socket: &Held, peer: SocketAddr) -> usize {
    if peer.ip().is_loopback() {
        return LOOPBACK_EMSS;
    }
    let mut mss: libc::c_int = 0;
    let mut len: libc::socklen_t = INT_LEN;
    // SAFETY: the descriptor is open, and value and length point to an int and its size, which outlive the call.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_MAXSEG,
            (&raw mut mss).cast(),
            &raw mut len,
        )
    };
    let default = if peer.is_ipv4() { DEFAULT_MSS } else { DEFAULT_MSS_V6 };
    let known = (result == 0).then_some(mss).and_then(|mss| usize::try_from(mss).ok());
    known.filter(|&mss| mss > 0).unwrap_or(default)
}

/// Returns how many octets the kernel has and the peer has not acknowledged; 0 if the connection has ended.
pub(super) fn unacknowledged(socket: &Held) -> usize {
    let mut octets: libc::c_int = 0;
    // SAFETY: the descriptor is open, and this request (SIOCOUTQ) writes one int to where the pointer leads.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut octets) };
    if result == 0 { usize::try_from(octets).unwrap_or(0) } else { 0 }
}

/// Returns an IPv4-mapped address as IPv4, and others unchanged.
pub(super) fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        IpAddr::V4(v4) => SocketAddr::new(v4.into(), address.port()),
        IpAddr::V6(_) => address,
    }
}

fn address(any: SocketAddrAny) -> Option<SocketAddr> {
    SocketAddr::try_from(any).ok().map(canonical)
}

fn open(to: SocketAddr) -> Result<Held, Errno> {
    let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP)).map(Held::marked)
}

/// Sets the options of a socket. Small FPDUs go out at once. The user timeout finds an absent peer while data is
/// under way. Otherwise probes do, the first after the configured silence.
fn set_options(socket: &impl AsFd, config: &StackConfig) -> Result<(), Errno> {
    sockopt::set_tcp_nodelay(socket, true)?;
    if let Some(name) = &config.kernel_congestion {
        sockopt::set_tcp_congestion(socket, name)?;
    }
    if let Some(timeout) = config.timeout {
        let millis = u32::try_from(timeout.total_millis()).unwrap_or(u32::MAX);
        sockopt::set_tcp_user_timeout(socket, millis.max(1))?;
    }
    if let Some(silence) = config.keep_alive {
        let patience = config.timeout.unwrap_or(silence).secs();
        sockopt::set_socket_keepalive(socket, true)?;
        sockopt::set_tcp_keepidle(socket, seconds(silence.secs()))?;
        sockopt::set_tcp_keepintvl(socket, seconds(patience / u64::from(PROBES)))?;
        sockopt::set_tcp_keepcnt(socket, PROBES)?;
    }
    Ok(())
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds.clamp(1, MAX_KEEPALIVE))
}

fn listen_error(errno: Errno) -> ListenError {
    match errno {
        Errno::ADDRINUSE => ListenError::AddrInUse,
        Errno::ADDRNOTAVAIL | Errno::AFNOSUPPORT => ListenError::AddrNotAvailable,
        Errno::ACCESS | Errno::PERM => ListenError::Permission,
        errno => ListenError::System(errno.raw_os_error()),
    }
}

fn connect_error(errno: Errno) -> ConnectError {
    match errno {
        Errno::ADDRINUSE => ConnectError::AddrInUse,
        Errno::ADDRNOTAVAIL => ConnectError::AddrNotAvailable,
        Errno::HOSTUNREACH | Errno::NETUNREACH | Errno::NETDOWN => ConnectError::Unroutable,
        Errno::AFNOSUPPORT => ConnectError::FamilyMismatch,
        Errno::ACCESS | Errno::PERM => ConnectError::Permission,
        Errno::INVAL => ConnectError::Unaddressable,
        errno => ConnectError::System(errno.raw_os_error()),
    }
}

/// Octets of C's int.
const INT_LEN: libc::socklen_t = 4;
/// More than MULPDU allows.
const LOOPBACK_EMSS: usize = 65_535;
/// RFC 9293 section 3.7.1.
const DEFAULT_MSS: usize = 536;
const DEFAULT_MSS_V6: usize = 1220;
/// Probes that an idle peer may leave unanswered.
const PROBES: u32 = 3;
/// The kernel's greatest value, in seconds.
const MAX_KEEPALIVE: u64 = 32_767;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_have_the_options_by_which_a_dead_peer_is_found() {
        let own: IpAddr = [127, 0, 0, 1].into();
        let config = StackConfig {
            kernel_congestion: Some("reno".into()),
            timeout: Some(smoltcp::time::Duration::from_millis(1500)),
            keep_alive: Some(smoltcp::time::Duration::from_secs(20)),
            ..StackConfig::host(own)
        };
        let (listener, local) = open_listener(SocketAddr::new(own, 0), 1, &config).unwrap();
        let Ok(Opening::Pending(client) | Opening::Open(client)) = open_connection(local, None, &config)
        else {
            panic!("loopback refuses")
        };
        let server = loop {
            match accept(&listener) {
                Ok((socket, peer)) => {
                    assert_eq!(peer, local_addr(&client));
                    break socket;
                }
                Err(errno) => assert_eq!(errno, Errno::AGAIN),
            }
        };
        for socket in [&client, &server] {
            assert!(sockopt::tcp_nodelay(socket).unwrap() && sockopt::socket_keepalive(socket).unwrap());
            assert_eq!(sockopt::tcp_congestion(socket).as_deref(), Ok("reno"));
            assert_eq!(sockopt::tcp_user_timeout(socket), Ok(1500));
            assert_eq!(sockopt::tcp_keepidle(socket), Ok(Duration::from_secs(20)));
            assert_eq!(sockopt::tcp_keepintvl(socket), Ok(Duration::from_secs(1)));
            assert_eq!(sockopt::tcp_keepcnt(socket), Ok(PROBES));
            assert_eq!(unacknowledged(socket), 0);
        }
        assert_eq!(emss(&client, local), LOOPBACK_EMSS);
        // For a peer that is not on loopback the kernel's answer counts.
        let kernels = emss(&client, "192.0.2.1:1".parse().unwrap());
        assert!((500..65_536).contains(&kernels), "{kernels}");
    }
}
