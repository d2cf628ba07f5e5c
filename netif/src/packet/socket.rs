//! Questions and settings of AF_PACKET sockets. `unsafe` for the calls that no safe library has.
#![allow(unsafe_code)]

use core::mem::{size_of, size_of_val};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::net::sockopt;

use crate::ifreq::request_for;
use crate::packet::program;

/// The facts that decide whether frames can be sent to a network interface.
#[derive(Debug)]
pub(crate) struct Interface {
    pub(crate) index: i32,
    is_up: bool,
    is_ethernet: bool,
    mtu: usize,
    name: String,
}

impl Interface {
    /// Asks the kernel about `name`.
    pub(crate) fn find(socket: &OwnedFd, name: &str) -> io::Result<Self> {
        let ask = |what| {
            request(socket, name, what).map_err(|error| match error.raw_os_error() {
                Some(libc::ENODEV) => {
                    let text = "there is no such interface in this network namespace";
                    io::Error::new(io::ErrorKind::NotFound, text)
                }
                _ => error,
            })
        };
        let index = ask(libc::SIOCGIFINDEX)?;
        let (flags, mtu, hardware) =
            (ask(libc::SIOCGIFFLAGS)?, ask(libc::SIOCGIFMTU)?, ask(libc::SIOCGIFHWADDR)?);
        // SAFETY: these requests are answered by integers or a `sockaddr`, for which any octets are valid. The kernel
        // has written the field that was asked for.
        let (index, flags, mtu, family) = unsafe {
            let (index, flags) = (index.ifr_ifru.ifru_ifindex, flags.ifr_ifru.ifru_flags);
            (index, flags, mtu.ifr_ifru.ifru_mtu, hardware.ifr_ifru.ifru_hwaddr.sa_family)
        };
        Ok(Self {
            index,
            is_up: libc::c_int::from(flags) & libc::IFF_UP != 0,
            is_ethernet: family == libc::ARPHRD_ETHER,
            mtu: usize::try_from(mtu).unwrap_or(0),
            name: name.into(),
        })
    }

    /// Returns an error that says why packets of `mtu` octets cannot be sent there.
    pub(crate) fn check(&self, mtu: usize) -> io::Result<()> {
        let Self { name, mtu: most, .. } = self;
        let (kind, text) = if !self.is_ethernet {
            (io::ErrorKind::InvalidInput, "is no Ethernet interface".into())
        } else if !self.is_up {
            (io::ErrorKind::NetworkDown, format!("the interface is down: `ip link set {name} up`"))
        } else if mtu > *most {
            let text = format!(
                "an MTU of {mtu} is above the interface's of {most}: `ip link set {name} mtu {mtu}`, or ask for less"
            );
            (io::ErrorKind::InvalidInput, text)
        } else {
            return Ok(());
        };
        Err(io::Error::new(kind, text))
    }
}

/// Has the kernel put virtio's header before each frame, and leave checksums and segments of this host unmade. Frames
/// that are longer than a place of the ring stay whole in the socket's queue.
pub(super) fn ask_for_headers(socket: &OwnedFd) -> io::Result<()> {
    for option in [libc::PACKET_VNET_HDR, libc::PACKET_IGNORE_OUTGOING, libc::PACKET_COPY_THRESH] {
        set_option(socket, libc::SOL_PACKET, option, &1)?;
    }
    Ok(())
}

/// Asks for larger buffers for long frames and sent frames. With smaller ones the socket works and loses more.
pub(super) fn enlarge_buffers(socket: &OwnedFd) {
    let _bounded = sockopt::set_socket_recv_buffer_size_force(socket, BUFFER)
        .or_else(|_| sockopt::set_socket_recv_buffer_size(socket, BUFFER));
    let _bounded = sockopt::set_socket_send_buffer_size_force(socket, BUFFER)
        .or_else(|_| sockopt::set_socket_send_buffer_size(socket, BUFFER));
}

/// Binds the socket to the interface, whose frames arrive from now on.
pub(super) fn bind(socket: &OwnedFd, index: i32) -> io::Result<()> {
    // SAFETY: a `sockaddr_ll` consists of integers, for which zero is a value.
    let mut address: libc::sockaddr_ll = unsafe { core::mem::zeroed() };
    address.sll_family = libc::sa_family_t::try_from(libc::AF_PACKET).unwrap_or_default();
    address.sll_protocol = u16::try_from(libc::ETH_P_ALL).unwrap_or_default().to_be();
    address.sll_ifindex = index;
    // SAFETY: the address is alive during the call, and its length is its own.
    let done = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length_of(&address)) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Has the interface take frames to another address until the socket is closed.
pub(crate) fn join(socket: &OwnedFd, index: i32, mac: [u8; 6], kind: libc::c_int) -> io::Result<()> {
    let mut address = [0; 8];
    address[..6].copy_from_slice(&mac);
    let membership = libc::packet_mreq {
        mr_ifindex: index,
        mr_type: u16::try_from(kind).unwrap_or_default(),
        mr_alen: 6,
        mr_address: address,
    };
    set_option(socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &membership)
}

/// Has the kernel drop all frames that are neither to `mac` nor to a group, and those of VLANs, before it copies them.
pub(super) fn filter(socket: &OwnedFd, mac: [u8; 6]) -> io::Result<()> {
    attach(socket, [libc::SOL_SOCKET, libc::SO_ATTACH_FILTER], &mut program::station(mac))
}

/// Makes the bound socket one of `count` that share the frames of the interface as `group`. The first one has no
/// `group` yet, and the kernel chooses it.
///
/// Frames of TCP go to the socket whose number [`crate::steering::queue_of`] returns for their ports, all others to the
/// first. The numbers may change while the interface is down, so that no caller may rely on them.
pub(super) fn share(socket: &OwnedFd, group: Option<u16>, count: usize) -> io::Result<u16> {
    let fresh = if group.is_none() { libc::PACKET_FANOUT_FLAG_UNIQUEID } else { 0 };
    let kind = libc::PACKET_FANOUT_CBPF | libc::PACKET_FANOUT_FLAG_IGNORE_OUTGOING | fresh;
    let value = u32::from(group.unwrap_or(0)) | kind << 16;
    set_option(socket, libc::SOL_PACKET, libc::PACKET_FANOUT, &value)?;
    if let Some(group) = group {
        return Ok(group);
    }
    attach(socket, [libc::SOL_PACKET, libc::PACKET_FANOUT_DATA], &mut program::queue(count))?;
    let chosen: u32 = option(socket, libc::PACKET_FANOUT)?;
    Ok(u16::try_from(chosen & 0xFFFF).unwrap_or_default())
}

/// Returns how many frames were lost since the last call because the ring was full.
pub(super) fn take_drops(socket: &OwnedFd) -> u64 {
    // An error means that no frame was counted.
    option::<[u32; 2]>(socket, libc::PACKET_STATISTICS).map_or(0, |[_taken, lost]| u64::from(lost))
}

/// Sets an option of AF_PACKET that consists of 32-bit numbers.
fn option<T: Default>(socket: &OwnedFd, option: libc::c_int) -> io::Result<T> {
    let mut value = T::default();
    let mut len = length_of(&value);
    // SAFETY: the kernel writes no more than `len` octets, the size of the value, which consists of numbers.
    let done = unsafe {
        let place = (&raw mut value).cast();
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_PACKET, option, place, &raw mut len)
    };
    if done == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

fn attach(
    socket: &OwnedFd,
    [level, option]: [libc::c_int; 2],
    program: &mut [libc::sock_filter],
) -> io::Result<()> {
    let len = u16::try_from(program.len()).unwrap_or_default();
    set_option(socket, level, option, &libc::sock_fprog { len, filter: program.as_mut_ptr() })
}

/// Sets an option of the socket. `T` is the kernel's type for it.
pub(super) fn set_option<T>(
    socket: &OwnedFd,
    level: libc::c_int,
    option: libc::c_int,
    value: &T,
) -> io::Result<()> {
    // SAFETY: the kernel reads the octets of `value`, which is alive. The caller keeps alive the octets that `value`
    // points to.
    let done = unsafe {
        let place = core::ptr::from_ref(value).cast();
        libc::setsockopt(socket.as_raw_fd(), level, option, place, length_of(value))
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn request(socket: &OwnedFd, name: &str, what: libc::Ioctl) -> io::Result<libc::ifreq> {
    let mut asked = request_for(name)?;
    // SAFETY: the request reads the name and writes the union, both of them in `asked`.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), what, &raw mut asked) };
    if done == 0 { Ok(asked) } else { Err(io::Error::last_os_error()) }
}

fn length_of<T>(value: &T) -> libc::socklen_t {
    debug_assert_eq!(size_of_val(value), size_of::<T>());
    libc::socklen_t::try_from(size_of::<T>()).unwrap_or(0)
}

const BUFFER: usize = 4 << 20;
