//! The connections of an agent.

#![allow(unsafe_code, reason = "the calls of C programs, which a preloaded library takes")]

use crate::calls::Returned;

/// Opens a listener on the loopback address, and returns it with its port.
pub(crate) fn listen(is_ipv6: bool) -> Result<(i32, u16), i32> {
    let (family, mut address, mut len) = address(is_ipv6, 0);
    let pointer = address.as_mut_ptr().cast::<libc::sockaddr>();
    // SAFETY: the address is a local variable of that length.
    unsafe {
        let fd = checked(libc::socket(family, libc::SOCK_STREAM, 0))?;
        checked(libc::bind(fd, pointer, len))?;
        checked(libc::listen(fd, 16))?;
        checked(libc::getsockname(fd, pointer, &raw mut len))?;
        Ok((fd, u16::from_be_bytes([address[2], address[3]])))
    }
}

/// Connects to a port of the loopback address.
pub(crate) fn connect(is_ipv6: bool, port: u16) -> Returned {
    let (family, address, len) = address(is_ipv6, port);
    // SAFETY: the address is a local variable of that length.
    unsafe {
        let fd = checked(libc::socket(family, libc::SOCK_STREAM, 0))?;
        checked(libc::connect(fd, address.as_ptr().cast(), len))?;
        Ok(fd.into())
    }
}

/// Accepts a connection with these flags of accept4.
pub(crate) fn accept(listener: i32, flags: i32) -> Returned {
    // SAFETY: no address is wanted.
    let fd = unsafe { libc::accept4(listener, core::ptr::null_mut(), core::ptr::null_mut(), flags) };
    checked(fd).map(i64::from)
}

/// Returns the octets of a `sockaddr_in` or `sockaddr_in6` of the loopback interface.
fn address(is_ipv6: bool, port: u16) -> (i32, [u8; 28], u32) {
    let mut octets = [0; 28];
    let (family, len) = if is_ipv6 {
        octets[23] = 1;
        (libc::AF_INET6, size_of::<libc::sockaddr_in6>())
    } else {
        octets[4..8].copy_from_slice(&[127, 0, 0, 1]);
        (libc::AF_INET, size_of::<libc::sockaddr_in>())
    };
    octets[..2].copy_from_slice(&(family as u16).to_ne_bytes());
    octets[2..4].copy_from_slice(&port.to_be_bytes());
    (family, octets, len as u32)
}

fn checked(returned: i32) -> Result<i32, i32> {
    if returned < 0 {
        Err(std::io::Error::last_os_error().raw_os_error().unwrap_or_default())
    } else {
        Ok(returned)
    }
}
