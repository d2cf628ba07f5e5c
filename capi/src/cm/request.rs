//! Translates arguments of connection management.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use rustix::io::Errno;
use weft_cm::ConnParam;

use crate::abi;

/// Returns the parameters of a connection. Without C's struct the depths are those of the device.
pub(crate) fn connect_param<'a>(param: Option<&abi::ConnParam>, private_data: &'a [u8]) -> ConnParam<'a> {
    let Some(param) = param else { return ConnParam { private_data, ..ConnParam::default() } };
    let depth = |depth| (depth != abi::MAX_DEPTH).then_some(u16::from(depth));
    ConnParam {
        private_data,
        responder_resources: depth(param.responder_resources),
        initiator_depth: depth(param.initiator_depth),
        flow_control: param.flow_control != 0,
        retry_count: param.retry_count,
        rnr_retry_count: param.rnr_retry_count,
        srq: param.srq != 0,
        qp_num: param.qp_num,
        ..ConnParam::default()
    }
}

/// Reads a `struct sockaddr_in` or `struct sockaddr_in6`. `octets` may be longer.
///
/// # Errors
/// `EAFNOSUPPORT` for another family, `EINVAL` for too few octets.
pub(crate) fn socket_address(octets: &[u8]) -> Result<SocketAddr, Errno> {
    let &[f0, f1, p0, p1, ref rest @ ..] = octets else { return Err(Errno::INVAL) };
    let port = u16::from_be_bytes([p0, p1]);
    match i32::from(u16::from_ne_bytes([f0, f1])) {
        libc::AF_INET => {
            let &[a, b, c, d, ..] = rest else { return Err(Errno::INVAL) };
            Ok(SocketAddrV4::new(Ipv4Addr::new(a, b, c, d), port).into())
        }
        libc::AF_INET6 => {
            let (flow, rest) = rest.split_first_chunk().ok_or(Errno::INVAL)?;
            let (ip, rest) = rest.split_first_chunk::<16>().ok_or(Errno::INVAL)?;
            let (scope, _) = rest.split_first_chunk().ok_or(Errno::INVAL)?;
            let (flow, scope) = (u32::from_be_bytes(*flow), u32::from_ne_bytes(*scope));
            Ok(SocketAddrV6::new(Ipv6Addr::from(*ip), port, flow, scope).into())
        }
        _ => Err(Errno::AFNOSUPPORT),
    }
}

/// Returns an address as C's struct, and how many octets of it count.
pub(crate) fn storage(address: SocketAddr) -> (abi::Storage, u32) {
    let mut octets = [0; 128];
    let family = match address {
        SocketAddr::V4(v4) => {
            octets[4..8].copy_from_slice(&v4.ip().octets());
            libc::AF_INET
        }
        SocketAddr::V6(v6) => {
            octets[4..8].copy_from_slice(&v6.flowinfo().to_be_bytes());
            octets[8..24].copy_from_slice(&v6.ip().octets());
            octets[24..28].copy_from_slice(&v6.scope_id().to_ne_bytes());
            libc::AF_INET6
        }
    };
    let family = u16::try_from(family).unwrap_or(0);
    octets[..2].copy_from_slice(&family.to_ne_bytes());
    octets[2..4].copy_from_slice(&address.port().to_be_bytes());
    (abi::Storage(octets), address_len(address))
}

/// The size of `struct sockaddr_in` or `struct sockaddr_in6`.
const fn address_len(address: SocketAddr) -> u32 {
    if address.is_ipv4() { 16 } else { 28 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_translated_without_loss() {
        for text in ["192.0.2.7:7174", "[fd00::7]:1", "0.0.0.0:0", "[::]:65535"] {
            let address: SocketAddr = text.parse().unwrap();
            let (storage, len) = storage(address);
            assert_eq!(socket_address(&storage.0[..len as usize]), Ok(address));
        }
        assert_eq!(socket_address(&[0; 16]), Err(Errno::AFNOSUPPORT));
        assert_eq!(socket_address(&[0; 3]), Err(Errno::INVAL));
    }

    #[test]
    fn the_largest_depth_is_the_devices() {
        let param = abi::ConnParam {
            private_data: core::ptr::null(),
            private_data_len: 0,
            responder_resources: abi::MAX_DEPTH,
            initiator_depth: 3,
            flow_control: 0,
            retry_count: 0,
            rnr_retry_count: 0,
            srq: 0,
            qp_num: 0,
        };
        let wanted = connect_param(Some(&param), b"x");
        assert_eq!((wanted.responder_resources, wanted.initiator_depth), (None, Some(3)));
        assert_eq!(connect_param(None, b"x").private_data, b"x");
    }
}
