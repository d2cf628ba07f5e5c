//! The addresses of the host.
#![allow(unsafe_code)]

use core::ptr::null_mut;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interface {
    pub(crate) address: IpAddr,
    /// The number of the interface, 0 on a wire.
    pub(crate) index: u32,
}

/// Returns the addresses of all network interfaces that are up, in the system's order. Returns none if the system
/// refuses.
pub(crate) fn interfaces() -> Vec<Interface> {
    let mut first = null_mut();
    // SAFETY: the place for the list is this function's own.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut next = first.cast_const();
    while !next.is_null() {
        // SAFETY: an entry of the list, which lives until it is freed below.
        let entry = unsafe { next.read() };
        if entry.ifa_flags & libc::IFF_UP.cast_unsigned() != 0
            // SAFETY: null, or the address of the entry.
            && let Some(address) = unsafe { address(entry.ifa_addr) }
        {
            // SAFETY: the name of the entry, which ends with 0.
            let index = unsafe { libc::if_nametoindex(entry.ifa_name) };
            found.push(Interface { address, index });
        }
        next = entry.ifa_next.cast_const();
    }
    // SAFETY: the list is the system's, and nothing of it is used any more.
    unsafe { libc::freeifaddrs(first) };
    found
}

/// # Safety
/// `from` is null, or points to an address of the family that it says.
unsafe fn address(from: *const libc::sockaddr) -> Option<IpAddr> {
    if from.is_null() {
        return None;
    }
    // SAFETY: as the caller says; every address begins with its family.
    match i32::from(unsafe { from.read_unaligned() }.sa_family) {
        libc::AF_INET => {
            // SAFETY: as the caller says.
            let address = unsafe { from.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(Ipv4Addr::from(address.sin_addr.s_addr.to_ne_bytes()).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as the caller says.
            let address = unsafe { from.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(Ipv6Addr::from(address.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}
