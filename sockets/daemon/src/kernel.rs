//! What the kernel tells of sockets and processes, and does for them, where rustix has no safe call.
#![allow(unsafe_code)]

use core::ffi::{c_int, c_ulong};
use core::mem::MaybeUninit;
use core::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::net::{AddressFamily, SocketType, getpeername, getsockname, ipproto, socket, sockopt};
use weft_sockets::{Claim, Digests, Reason, Tuple};

/// Returns the process of a pidfd.
pub(crate) fn pid_of(pidfd: impl AsFd) -> Option<i32> {
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", pidfd.as_fd().as_raw_fd())).ok()?;
    let pid = text.lines().find_map(|line| line.strip_prefix("Pid:"))?;
    pid.trim().parse().ok().filter(|pid| *pid > 0)
}

/// Returns the user and the process that have connected. `None` if this process cannot see that one: it belongs to
/// another namespace of processes, and the kernel tells 0 in the place of its id.
pub(crate) fn credentials(socket: impl AsFd) -> Option<(u32, i32)> {
    let mut octets = [0; size_of::<libc::ucred>()];
    let len = option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, &mut octets).ok()?;
    let word = |at: usize| octets.get(at..)?.first_chunk().copied();
    let (pid, uid) = (i32::from_ne_bytes(word(0)?), u32::from_ne_bytes(word(4)?));
    (len == octets.len() && pid > 0).then_some((uid, pid))
}

/// Reads what decides about a claim from its socket. That does not tell the digests.
///
/// # Errors
/// Why this socket cannot be claimed.
pub(crate) fn read_claim(socket: impl AsFd) -> Result<Claim, Reason> {
    let socket = socket.as_fd();
    let is_stream = sockopt::socket_type(socket) == Ok(SocketType::STREAM);
    let is_ip = matches!(sockopt::socket_domain(socket), Ok(AddressFamily::INET | AddressFamily::INET6));
    if !is_stream || !is_ip || sockopt::socket_protocol(socket) != Ok(Some(ipproto::TCP)) {
        return Err(Reason::Option);
    }
    let (local, peer) = addresses(socket)?;
    // The sending queue is asked before what was acknowledged, and the receiving queue behind what was received. So
    // octets on their way make `written` more and `consumed` less, never the other way round.
    let unsent = queue(socket, libc::TIOCOUTQ)?;
    let mut info = [0; INFO_LEN];
    let len = option(socket, libc::IPPROTO_TCP, libc::TCP_INFO, &mut info)?;
    let unread = queue(socket, libc::FIONREAD)?;
    let mut namespace = [0; 8];
    if len < INFO_LEN || option(socket, libc::SOL_SOCKET, SO_NETNS_COOKIE, &mut namespace)? != namespace.len()
    {
        return Err(Reason::Kernel);
    }
    if info[STATE] != ESTABLISHED {
        return Err(Reason::Short);
    }
    if info[OPTIONS] & SYN_DATA != 0 || local == peer {
        return Err(Reason::Option);
    }
    let count = |at: usize| info[at..].first_chunk().map_or(0, |octets| u64::from_ne_bytes(*octets));
    Ok(Claim {
        tuple: Tuple::new(u64::from_ne_bytes(namespace), local, peer),
        window_scales: (info[WINDOW_SCALES] & 0xf, info[WINDOW_SCALES] >> 4),
        options: info[OPTIONS] & AGREED,
        written: count(BYTES_ACKED) + unsent,
        consumed: count(BYTES_RECEIVED).saturating_sub(unread),
        digests: Digests::default(),
        is_far: false,
    })
}

/// Reads the namespace and the addresses of a connection.
///
/// # Errors
/// Why this socket has none.
pub(crate) fn read_tuple(socket: impl AsFd) -> Result<Tuple, Reason> {
    let (local, peer) = addresses(socket.as_fd())?;
    let namespace = namespace_of(&socket).map_err(|_| Reason::Kernel)?;
    Ok(Tuple::new(namespace, local, peer))
}

/// The own address of a connection, and that of the other end.
fn addresses(socket: BorrowedFd<'_>) -> Result<(SocketAddr, SocketAddr), Reason> {
    let local = getsockname(socket).ok().and_then(|address| SocketAddr::try_from(address).ok());
    let peer = getpeername(socket).ok().flatten().and_then(|address| SocketAddr::try_from(address).ok());
    local.zip(peer).ok_or(Reason::Short)
}

/// Returns the cookie of this process's network namespace.
///
/// # Errors
/// The kernel's, and `Unsupported` before Linux 5.14.
pub(crate) fn namespace() -> std::io::Result<u64> {
    namespace_of(socket(AddressFamily::INET, SocketType::STREAM, None)?)
}

/// Returns the cookie of a socket's network namespace.
///
/// # Errors
/// As of [`namespace`].
pub(crate) fn namespace_of(socket: impl AsFd) -> std::io::Result<u64> {
    let mut cookie = [0; 8];
    match option(socket.as_fd(), libc::SOL_SOCKET, SO_NETNS_COOKIE, &mut cookie) {
        Ok(8) => Ok(u64::from_ne_bytes(cookie)),
        _ => Err(std::io::ErrorKind::Unsupported.into()),
    }
}

/// Returns random octets.
///
/// # Errors
/// The kernel's.
pub(crate) fn random<const N: usize>() -> std::io::Result<[u8; N]> {
    let mut octets = [0; N];
    std::io::Read::read_exact(&mut std::fs::File::open("/dev/urandom")?, &mut octets)?;
    Ok(octets)
}

/// Returns the name of this boot of the kernel.
///
/// # Errors
/// The kernel's, and `InvalidData` if it tells something else.
pub(crate) fn boot_id() -> std::io::Result<[u8; 16]> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    let number = u128::from_str_radix(&digits, 16).map_err(|_| std::io::ErrorKind::InvalidData)?;
    Ok(number.to_be_bytes())
}

/// Leaves the session of the parent, and closes the descriptors that it has left open, but for the standard ones. The
/// caller has opened none yet.
pub fn leave_parent() {
    // A leader of a group cannot leave, and need not.
    let _stays = rustix::process::setsid();
    // SAFETY: nothing of this process uses descriptors yet. Errors leave them open, which does no harm.
    let _open = unsafe { libc::close_range(3, u32::MAX, 0) };
}

/// Returns a descriptor that can be read once SIGTERM or SIGINT has come. They no longer end the process. The caller has
/// no other threads yet.
///
/// # Errors
/// The kernel's.
pub fn stop_signals() -> std::io::Result<OwnedFd> {
    let mut signals = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `sigemptyset` fills the set in, and the other calls read or change it.
    unsafe {
        libc::sigemptyset(signals.as_mut_ptr());
        libc::sigaddset(signals.as_mut_ptr(), libc::SIGTERM);
        libc::sigaddset(signals.as_mut_ptr(), libc::SIGINT);
        libc::pthread_sigmask(libc::SIG_BLOCK, signals.as_ptr(), core::ptr::null_mut());
    }
    // SAFETY: the set is filled in.
    let descriptor = unsafe { libc::signalfd(-1, signals.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
    if descriptor < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made it for this caller.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Has a program begin with the signals blocked that this thread blocks now, whatever it blocks later.
pub fn keep_signals(command: &mut Command) {
    let mut signals = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: without a set to change, the call only fills the other one in.
    let signals = unsafe {
        libc::pthread_sigmask(libc::SIG_BLOCK, core::ptr::null(), signals.as_mut_ptr());
        signals.assume_init()
    };
    let restore = move || {
        // SAFETY: the set is filled in.
        match unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const signals, core::ptr::null_mut()) } {
            0 => Ok(()),
            error => Err(std::io::Error::from_raw_os_error(error)),
        }
    };
    // SAFETY: the closure makes one system call, which a child may make before exec.
    unsafe { command.pre_exec(restore) };
}

/// Asks for an option. Returns how many octets came.
fn option(socket: BorrowedFd<'_>, level: c_int, name: c_int, value: &mut [u8]) -> Result<usize, Reason> {
    let mut len = libc::socklen_t::try_from(value.len()).unwrap_or(0);
    // SAFETY: the kernel writes at most `len` octets to `value`.
    let result =
        unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, value.as_mut_ptr().cast(), &raw mut len) };
    if result == 0 { Ok(len as usize) } else { Err(Reason::Kernel) }
}

/// Asks how many octets are in a queue.
fn queue(socket: BorrowedFd<'_>, request: c_ulong) -> Result<u64, Reason> {
    let mut len: c_int = 0;
    // SAFETY: these requests write one `int`.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), request as _, &raw mut len) };
    u64::try_from(len).ok().filter(|_| result == 0).ok_or(Reason::Kernel)
}

/// `SO_NETNS_COOKIE` of Linux.
const SO_NETNS_COOKIE: c_int = 71;
/// Places in Linux's `struct tcp_info`, in octets.
const STATE: usize = 0;
const OPTIONS: usize = 5;
const WINDOW_SCALES: usize = 6;
const BYTES_ACKED: usize = 120;
const BYTES_RECEIVED: usize = 128;
const INFO_LEN: usize = 136;
/// `TCP_ESTABLISHED`
const ESTABLISHED: u8 = 1;
/// `TCPI_OPT_TIMESTAMPS`, `TCPI_OPT_SACK`, `TCPI_OPT_WSCALE`, `TCPI_OPT_ECN`
const AGREED: u8 = 1 | 2 | 4 | 8;
/// `TCPI_OPT_SYN_DATA`
const SYN_DATA: u8 = 32;

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn the_claims_of_both_ends_fit() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let mut client =
            TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
        let (mut server, _) = listener.accept().expect("a connection");
        client.write_all(b"question").expect("written");
        server.read_exact(&mut [0; 5]).expect("read");
        let first = read_claim(&server).expect("a claim");
        let later = read_claim(&client).expect("a claim");
        assert_eq!(first.consumed, 5);
        // The SYN of the end that connected counts as well.
        assert!((8..=9).contains(&later.written), "{}", later.written);
        assert!(first.fits(&later) && later.fits(&first));
    }

    #[test]
    fn other_descriptors_cannot_be_claimed() {
        let (left, _right) = UnixStream::pair().expect("a pair");
        assert_eq!(read_claim(&left), Err(Reason::Option));
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        assert_eq!(read_claim(&listener), Err(Reason::Short));
        assert_eq!(read_claim(std::fs::File::open("/dev/null").expect("a file")), Err(Reason::Option));
    }
}
