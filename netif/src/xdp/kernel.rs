//! Calls of the kernel for a redirect program: a few of bpf(2), and two about the interface. `unsafe`, since no safe
//! library has these calls.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use super::program::Instruction;
use crate::ifreq::request_for;

/// Makes a map of AF_XDP sockets with `len` places.
pub(super) fn create_socket_map(len: u32) -> io::Result<OwnedFd> {
    let mut request = CreateMap { kind: XSKMAP, key_len: 4, value_len: 4, entries: len };
    new_descriptor(MAP_CREATE, &mut request)
}

/// Puts a bound socket into the map, which it leaves when it is closed.
pub(super) fn put_socket(map: &OwnedFd, place: u32, socket: RawFd) -> io::Result<()> {
    let mut request = UpdateMap {
        map: map.as_raw_fd(),
        _pad: 0,
        key: (&raw const place).expose_provenance() as u64,
        value: (&raw const socket).expose_provenance() as u64,
        flags: 0,
    };
    call(MAP_UPDATE_ELEM, &mut request).map(drop)
}

/// Loads a program for XDP into the kernel.
pub(super) fn load(program: &[Instruction]) -> io::Result<OwnedFd> {
    // Programs under any license may use the helpers that this one uses.
    let license = c"MIT OR Apache-2.0";
    let mut name = [0; 16];
    name[..4].copy_from_slice(b"weft");
    let mut request = LoadProgram {
        kind: PROGRAM_XDP,
        count: u32::try_from(program.len()).unwrap_or(u32::MAX),
        instructions: program.as_ptr().expose_provenance() as u64,
        license: license.as_ptr().expose_provenance() as u64,
        log_level: 0,
        log_len: 0,
        log: 0,
        kernel_version: 0,
        flags: 0,
        name,
        interface: 0,
        attach_type: ATTACH_XDP,
    };
    new_descriptor(PROG_LOAD, &mut request)
}

/// Runs the program at an interface, in the given mode, until the descriptor is closed.
pub(super) fn attach(program: &OwnedFd, interface: i32, mode: u32) -> io::Result<OwnedFd> {
    let mut request =
        CreateLink { program: program.as_raw_fd(), interface, attach_type: ATTACH_XDP, flags: mode };
    new_descriptor(LINK_CREATE, &mut request)
}

/// Replaces the attached program between two frames.
pub(super) fn replace(link: &OwnedFd, program: &OwnedFd) -> io::Result<()> {
    let mut request =
        UpdateLink { link: link.as_raw_fd(), program: program.as_raw_fd(), flags: 0, old_program: 0 };
    call(LINK_UPDATE, &mut request).map(drop)
}

/// Returns the Ethernet address of an interface; `socket` may be any socket.
pub(super) fn mac_of(socket: &OwnedFd, name: &str) -> io::Result<[u8; 6]> {
    let mut request = request_for(name)?;
    // SAFETY: the request reads the name and writes the union, both of them in `request`.
    if unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFHWADDR, &raw mut request) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has written a `sockaddr`, for which any octets are valid.
    let octets = unsafe { request.ifr_ifru.ifru_hwaddr.sa_data };
    let mut mac = [0; 6];
    mac.iter_mut().zip(octets).for_each(|(to, octet)| *to = octet.to_ne_bytes()[0]);
    Ok(mac)
}

/// Returns how many receive queues an interface has; one if its driver does not tell.
pub(super) fn count_queues(socket: &OwnedFd, name: &str) -> io::Result<u32> {
    let mut channels = Channels { command: GET_CHANNELS, ..Channels::default() };
    let mut request = request_for(name)?;
    request.ifr_ifru.ifru_data = (&raw mut channels).cast();
    // SAFETY: the request reads the name, and the command in `channels`, and writes no more than that structure.
    if unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) } != 0 {
        return Ok(1);
    }
    Ok(channels.received.saturating_add(channels.combined).max(1))
}

fn new_descriptor<T>(command: libc::c_int, request: &mut T) -> io::Result<OwnedFd> {
    let fd = call(command, request)?;
    // SAFETY: these commands return a new descriptor, which has no other owner. It is closed on exec.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Calls bpf(2). `T` is the part of the kernel's `bpf_attr` that the command uses; the rest counts as zeros.
fn call<T>(command: libc::c_int, request: &mut T) -> io::Result<RawFd> {
    let (request, len) = (core::ptr::from_mut(request), size_of::<T>());
    // SAFETY: the kernel reads `len` octets of the request, which is alive, and memory that it points to, which the
    // callers keep alive. None of these commands writes there.
    let answer = unsafe { libc::syscall(libc::SYS_bpf, command, request, len) };
    match RawFd::try_from(answer) {
        Ok(answer) if answer >= 0 => Ok(answer),
        _ => Err(io::Error::last_os_error()),
    }
}

#[repr(C)]
struct CreateMap {
    kind: u32,
    key_len: u32,
    value_len: u32,
    entries: u32,
}

#[repr(C)]
struct UpdateMap {
    map: RawFd,
    _pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct LoadProgram {
    kind: u32,
    count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_len: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach_type: u32,
}

#[repr(C)]
struct CreateLink {
    program: RawFd,
    interface: i32,
    attach_type: u32,
    flags: u32,
}

#[repr(C)]
struct UpdateLink {
    link: RawFd,
    program: RawFd,
    flags: u32,
    old_program: RawFd,
}

/// `ethtool_channels`.
#[repr(C)]
#[derive(Default)]
struct Channels {
    command: u32,
    most: [u32; 4],
    received: u32,
    sent: u32,
    other: u32,
    combined: u32,
}

/// In the driver (XDP_FLAGS_DRV_MODE).
pub(super) const NATIVE: u32 = 1 << 2;
/// In the kernel behind the driver, for every driver (XDP_FLAGS_SKB_MODE).
pub(super) const GENERIC: u32 = 1 << 1;

const MAP_CREATE: libc::c_int = 0;
const MAP_UPDATE_ELEM: libc::c_int = 2;
const PROG_LOAD: libc::c_int = 5;
const LINK_CREATE: libc::c_int = 28;
const LINK_UPDATE: libc::c_int = 29;
/// BPF_MAP_TYPE_XSKMAP.
const XSKMAP: u32 = 17;
/// BPF_PROG_TYPE_XDP.
const PROGRAM_XDP: u32 = 6;
/// BPF_XDP.
const ATTACH_XDP: u32 = 37;
/// ETHTOOL_GCHANNELS.
const GET_CHANNELS: u32 = 0x3C;
const SIOCETHTOOL: libc::Ioctl = 0x8946;
