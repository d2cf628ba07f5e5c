//! Addresses: `rdma_getaddrinfo`, and structs of the program's.
#![allow(unsafe_code)]

use core::ffi::{c_char, c_int};
use core::mem::MaybeUninit;
use core::ptr::null_mut;
use std::net::SocketAddr;

use rustix::io::Errno;

use super::boundary::{Outcome, octets, read, read_optional, string, write};
use super::fork::process;
use super::trace::args;
use crate::abi;
use crate::addrinfo::AddrInfo;
use crate::cm::socket_address;

/// Returns the number of getaddrinfo(3) if the look-up fails; for other errors -1 and `errno`.
#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_getaddrinfo(
    node: *const c_char,
    service: *const c_char,
    hints: *const abi::AddrInfo,
    out: *mut *mut abi::AddrInfo,
) -> c_int {
    args![node, service, hints, out].number(|| {
        // SAFETY: null, or the program's hints.
        let hints = unsafe { read_optional(hints) };
        if out.is_null() || node.is_null() && service.is_null() && hints.is_none() {
            return Err(Errno::INVAL);
        }
        let flags = hints.map_or(0, |hints| hints.ai_flags);
        let qp_type = hints.map_or(0, |hints| hints.ai_qp_type);
        let qp_type = if qp_type == 0 { abi::QPT_RC.cast_signed() } else { qp_type };
        let mut addresses = match hints {
            // SAFETY: the addresses of the program's hints.
            Some(hints) => unsafe {
                [given(hints.ai_src_addr, hints.ai_src_len)?, given(hints.ai_dst_addr, hints.ai_dst_len)?]
            },
            None => [None; 2],
        };
        if !(node.is_null() && service.is_null()) {
            let family = hints.map_or(0, |hints| hints.ai_family);
            // SAFETY: strings of the program's.
            match unsafe { look_up(node, service, flags, family) } {
                Ok(found) => addresses[usize::from(flags & abi::RAI_PASSIVE == 0)] = Some(found),
                Err(reason) => return Ok(reason),
            }
        }
        let info = AddrInfo::new(addresses, flags, qp_type);
        process().addr_infos.insert(info.handle().addr(), &info);
        // SAFETY: the program's place for the answer.
        unsafe { write(out, info.handle()) }?;
        Ok(0)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rdma_freeaddrinfo(info: *mut abi::AddrInfo) {
    args![info].always((), || drop(process().addr_infos.remove(info.addr())));
}

/// # Safety
/// `address` is null, or points to `len` octets.
pub(super) unsafe fn given(address: *const libc::sockaddr, len: u32) -> Outcome<Option<SocketAddr>> {
    if address.is_null() || len == 0 {
        return Ok(None);
    }
    // SAFETY: as the caller says.
    let octets = unsafe { octets(address.cast(), (len as usize).min(size_of::<abi::Storage>())) }?;
    socket_address(&octets).map(Some)
}

/// Reads a `struct sockaddr`. Its family says how long it is.
///
/// # Safety
/// It is null, or points to an address.
pub(super) unsafe fn address(pointer: *const libc::sockaddr) -> Outcome<SocketAddr> {
    // SAFETY: as the caller says, and every address has a family.
    let family = unsafe { read(pointer.cast::<u16>()) }?;
    let len = match i32::from(family) {
        libc::AF_INET => size_of::<libc::sockaddr_in>(),
        libc::AF_INET6 => size_of::<libc::sockaddr_in6>(),
        _ => return Err(Errno::AFNOSUPPORT),
    };
    // SAFETY: as the caller says.
    socket_address(&unsafe { octets(pointer.cast(), len) }?)
}

/// Returns the first address of a name, or the number of getaddrinfo(3).
///
/// # Safety
/// Both are null or strings.
unsafe fn look_up(
    node: *const c_char,
    service: *const c_char,
    flags: c_int,
    family: c_int,
) -> Result<SocketAddr, c_int> {
    // SAFETY: as the caller says.
    let [node, service] = unsafe { [string(node), string(service)] };
    let null = core::ptr::null();
    // SAFETY: a struct of numbers and pointers, for which zero is a value.
    let mut hints: libc::addrinfo = unsafe { MaybeUninit::zeroed().assume_init() };
    hints.ai_socktype = libc::SOCK_STREAM;
    // Without the flag the family is only a wish, which the stock library ignores. With the flag it is a condition.
    hints.ai_family = if flags & abi::RAI_FAMILY != 0 { family } else { 0 };
    for (theirs, ours) in [(abi::RAI_PASSIVE, libc::AI_PASSIVE), (abi::RAI_NUMERICHOST, libc::AI_NUMERICHOST)]
    {
        if flags & theirs != 0 {
            hints.ai_flags |= ours;
        }
    }
    let mut found = null_mut();
    let [node, service] = [node, service].map(|name| name.map_or(null, core::ffi::CStr::as_ptr));
    // SAFETY: strings that end, a struct of hints, and a place for the answer.
    let reason = unsafe { libc::getaddrinfo(node, service, &raw const hints, &raw mut found) };
    if reason != 0 {
        return Err(reason);
    }
    // SAFETY: a list that is not empty, whose addresses are as long as it says; it is given back once.
    let address = unsafe {
        let first = read(found).map_err(|_| libc::EAI_FAIL);
        let address =
            first.and_then(|first| given(first.ai_addr, first.ai_addrlen).map_err(|_| libc::EAI_FAMILY));
        libc::freeaddrinfo(found);
        address
    };
    address?.ok_or(libc::EAI_FAMILY)
}
