//! The list that `rdma_getaddrinfo` returns.

use core::ptr::null_mut;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::abi;
use crate::cm::storage;
use crate::raw::Visible;

/// Addresses of an endpoint, in memory that the program reads.
#[derive(Debug)]
pub(crate) struct AddrInfo {
    visible: Visible<abi::AddrInfo>,
    _addresses: [Option<Visible<abi::Storage>>; 2],
}

impl AddrInfo {
    /// `addresses` are the own one and the peer's. `flags` and `qp_type` are the program's.
    pub(crate) fn new(addresses: [Option<SocketAddr>; 2], flags: i32, qp_type: i32) -> Arc<Self> {
        let family = match addresses.iter().flatten().next() {
            Some(SocketAddr::V6(_)) => libc::AF_INET6,
            Some(SocketAddr::V4(_)) => libc::AF_INET,
            None => 0,
        };
        let lens = addresses.map(|address| address.map_or(0, |address| storage(address).1));
        let addresses = addresses.map(|address| address.map(|address| Visible::new(storage(address).0)));
        let [src, dst] =
            addresses.each_ref().map(|address| address.as_ref().map_or(null_mut(), |it| it.as_ptr().cast()));
        let visible = Visible::new(abi::AddrInfo {
            ai_flags: flags,
            ai_family: family,
            ai_qp_type: qp_type,
            ai_port_space: i32::try_from(abi::PS_TCP).unwrap_or(0),
            ai_src_len: lens[0],
            ai_dst_len: lens[1],
            ai_src_addr: src,
            ai_dst_addr: dst,
            ai_src_canonname: null_mut(),
            ai_dst_canonname: null_mut(),
            ai_route_len: 0,
            ai_route: null_mut(),
            ai_connect_len: 0,
            ai_connect: null_mut(),
            ai_next: null_mut(),
        });
        Arc::new(Self { visible, _addresses: addresses })
    }

    pub(crate) const fn handle(&self) -> *mut abi::AddrInfo {
        self.visible.as_ptr()
    }
}
