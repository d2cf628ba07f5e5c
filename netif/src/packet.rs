//! Network interfaces by AF_PACKET.

use core::fmt;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::Errno;
use rustix::net::sockopt::socket_error;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use crate::ethernet::{MAX_FRAME, VNET_HEADER};
use crate::frame::Frame;
use crate::packet::ring::{Arrival, Ring};
use crate::virtio;

mod program;
mod ring;
mod socket;

pub(crate) use socket::{Interface, join};

/// A network interface by AF_PACKET. Each frame is sent by one call. Frames are received from a ring that the kernel
/// shares. Frames longer than the MTU, which come with offloads, are received by one call each.
///
/// The station has a MAC address of its own beside the interface's. So the kernel takes its frames for another
/// station's and answers none of them. Otherwise the kernel would reset TCP connections to ports that it does not
/// know.
pub(crate) struct Packet {
    socket: Arc<OwnedFd>,
    ring: Ring,
    offload: bool,
    index: i32,
    /// Frames that were lost here, because the ring or the queue was full, or they were longer than any packet.
    lost: AtomicU64,
}

impl Packet {
    /// Opens `name` for IP packets of `mtu` octets, `count` times. The kernel gives all frames of a connection to the
    /// same one. With `offload` the kernel or the hardware cuts long frames, and neither side fills in checksums.
    pub(crate) fn open_queues(name: &str, mtu: usize, offload: bool, count: usize) -> io::Result<Vec<Self>> {
        let mut queues = Vec::new();
        let mut group = None;
        for _ in 0..count {
            let queue = Self::open(name, mtu, offload)?;
            if count > 1 {
                group = Some(socket::share(&queue.socket, group, count)?);
            }
            queues.push(queue);
        }
        Ok(queues)
    }

    fn open(name: &str, mtu: usize, offload: bool) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        // With protocol 0 no frame arrives before the socket is bound, so that all frames are in the ring.
        let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)
            .map_err(|error| explain(error.into()))?;
        let interface = Interface::find(&socket, name)?;
        interface.check(mtu)?;
        socket::ask_for_headers(&socket)?;
        let ring = Ring::map(&socket, mtu)?;
        socket::enlarge_buffers(&socket);
        socket::bind(&socket, interface.index)?;
        Ok(Self { socket: Arc::new(socket), ring, offload, index: interface.index, lost: AtomicU64::new(0) })
    }

    /// Takes the frames to a station's MAC address and to its groups, and no others.
    pub(crate) fn claim(&self, mac: [u8; 6], address: IpAddr) -> io::Result<()> {
        refuse_the_kernels(address, self.index)?;
        join(&self.socket, self.index, mac, libc::PACKET_MR_UNICAST)?;
        for group in groups(address) {
            join(&self.socket, self.index, group, libc::PACKET_MR_MULTICAST)?;
        }
        socket::filter(&self.socket, mac)
    }

    /// Sends a frame. Returns false if it is lost, because the queue is full or the interface is down.
    pub(crate) fn send(&self, frame: &mut Frame) -> bool {
        let header = virtio::header_for(frame);
        let parts = [IoSlice::new(&header), IoSlice::new(frame)];
        rustix::io::writev(&self.socket, &parts).is_ok_and(|len| len == VNET_HEADER + frame.len())
    }

    /// Takes the next frame. It may be longer than the MTU: a peer on the same machine leaves segments and checksums
    /// to hardware that does not exist. Frames that a network card has put together look the same.
    pub(crate) fn receive(&mut self, frame: &mut Frame) -> bool {
        while let Some(arrival) = self.ring.take(frame) {
            if arrival.is_losing {
                self.lost.fetch_add(socket::take_drops(&self.socket), Ordering::Relaxed);
            }
            if self.restore(arrival, frame).is_some() {
                return true;
            }
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        false
    }

    /// Returns true if the device fills in checksums, and cuts long frames into segments.
    pub(crate) const fn has_offloads(&self) -> bool {
        self.offload
    }

    pub(crate) fn poll_fd(&self) -> BorrowedFd<'_> {
        // A socket of an interface that went down stays readable until the error is taken, and no sleeper could
        // sleep.
        let _down = socket_error(&self.socket);
        self.socket.as_fd()
    }

    /// Returns the same descriptor, for a sleeper that does not borrow the device.
    pub(crate) fn shared_fd(&self) -> Arc<OwnedFd> {
        let _down = socket_error(&self.socket);
        Arc::clone(&self.socket)
    }

    pub(crate) fn is_readable(&self) -> bool {
        self.ring.is_readable()
    }

    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Reads the next frame of the socket's queue. Returns `None` if there is none, or one that makes no sense.
    fn read(&self, frame: &mut Frame) -> Option<()> {
        let mut header = [0; VNET_HEADER];
        frame.reset(MAX_FRAME);
        let mut parts = [IoSliceMut::new(&mut header), IoSliceMut::new(frame)];
        let len = match rustix::io::readv(&self.socket, &mut parts) {
            // The kernel tells once that the interface went down. Frames may wait behind that.
            Err(Errno::NETDOWN) => rustix::io::readv(&self.socket, &mut parts),
            read => read,
        };
        frame.truncate(len.ok()?.checked_sub(VNET_HEADER)?);
        virtio::accept(frame, &header)
    }

    /// Gives the frame the form that it has on a wire. Returns `None` if it did not come whole.
    fn restore(&self, arrival: Arrival, frame: &mut Frame) -> Option<()> {
        if arrival.is_queued {
            // It was too long for its place in the ring. The whole frame waits in the socket's queue.
            self.read(frame)?;
        } else {
            virtio::accept(frame, &arrival.header)?;
        }
        if frame.len() != arrival.len {
            return None;
        }
        // A tag with VLAN 0 is a priority only. Another tag is put back, so that the frame does not pass for an
        // untagged one.
        if let Some([tpid, tci]) = arrival.tag.filter(|[_, tci]| tci & 0x0FFF != 0) {
            frame.insert(12, &[tpid.to_be_bytes(), tci.to_be_bytes()].concat());
        }
        Some(())
    }
}

impl fmt::Debug for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { socket, index, lost, .. } = self;
        let mut text = f.debug_struct("Packet");
        text.field("socket", socket).field("index", index).field("lost", lost).finish_non_exhaustive()
    }
}

/// Returns an error if the kernel takes the address for its own.
pub(crate) fn refuse_the_kernels(address: IpAddr, interface: i32) -> io::Result<()> {
    if !is_the_kernels(address, interface) {
        return Ok(());
    }
    let text = format!(
        "{address} is this host's own address, and its kernel would answer our peers by resets: give a free address of that \
         net"
    );
    Err(io::Error::new(io::ErrorKind::AddrInUse, text))
}

/// Returns true if the kernel takes the address for its own, so that a socket can be bound to it.
fn is_the_kernels(address: IpAddr, interface: i32) -> bool {
    let nobodys = match address {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, 1)),
    };
    let bind = |address| {
        let mut target = SocketAddr::new(address, 0);
        if let SocketAddr::V6(target) = &mut target {
            target.set_scope_id(interface.unsigned_abs());
        }
        UdpSocket::bind(target).is_ok()
    };
    // With `ip_nonlocal_bind` every address can be bound to, so that this test shows nothing.
    bind(address) && !bind(nobodys)
}

/// Returns the Ethernet groups of neighbor discovery for this address. IPv4 uses the broadcast, which always comes.
pub(crate) fn groups(address: IpAddr) -> Vec<[u8; 6]> {
    match address {
        IpAddr::V4(_) => Vec::new(),
        IpAddr::V6(address) => {
            let [.., a, b, c] = address.octets();
            vec![[0x33, 0x33, 0, 0, 0, 1], [0x33, 0x33, 0xFF, a, b, c]]
        }
    }
}

fn explain(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            let advice = "needs CAP_NET_RAW (root, or a shell of `unshare -Urn`)";
            io::Error::new(error.kind(), advice)
        }
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Spec, Wire};

    #[test]
    fn an_own_address_is_known_and_a_foreign_one_is_not() {
        for own in ["127.0.0.1", "127.7.7.7"] {
            assert!(is_the_kernels(own.parse().unwrap(), 1), "{own}");
        }
        for foreign in ["192.0.2.1", "2001:db8::1"] {
            assert!(!is_the_kernels(foreign.parse().unwrap(), 1), "{foreign}");
        }
    }

    #[test]
    fn a_missing_permission_says_what_to_do() {
        let error = explain(io::ErrorKind::PermissionDenied.into());
        assert!(error.to_string().contains("CAP_NET_RAW"), "{error}");
    }

    #[test]
    fn a_missing_interface_is_one_clear_line() {
        let error = Wire::open(&Spec::Packet("weft-nowhere".into()), 1500).unwrap_err().to_string();
        let lines = [
            "packet:weft-nowhere: there is no such interface in this network namespace",
            "packet:weft-nowhere: needs CAP_NET_RAW (root, or a shell of `unshare -Urn`)",
        ];
        assert!(lines.contains(&error.as_str()), "{error}");
    }

    #[test]
    fn the_groups_of_an_address_are_those_of_ndp() {
        assert!(groups("10.0.0.1".parse().unwrap()).is_empty());
        let [all, solicited] = groups("fd00::12:3456".parse().unwrap())[..] else { panic!("two groups") };
        assert_eq!(all, [0x33, 0x33, 0, 0, 0, 1]);
        assert_eq!(solicited, [0x33, 0x33, 0xFF, 0x12, 0x34, 0x56]);
    }
}
