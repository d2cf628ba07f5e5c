//! TAP devices and network interfaces with segmentation and checksum offload, as a device of smoltcp.
//!
//! This is the reference's own device. It shares no code with ours, so that the two have no fault in common. `unsafe`
//! is for three requests that no safe library has.
#![allow(unsafe_code)]

use core::num::{NonZeroU16, NonZeroUsize};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use smoltcp::phy::{
    Checksum, ChecksumCapabilities, Device, DeviceCapabilities, Medium, PacketMeta, RxToken, TxToken,
};
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetFrame, EthernetProtocol, IpProtocol, Ipv4Packet, TcpPacket};

/// A device for TCP segments of up to 64 KiB, with a virtio-net header before each.
#[derive(Debug)]
pub(crate) struct Offload {
    fd: OwnedFd,
    is_tap: bool,
    incoming: Box<[u8]>,
    outgoing: Box<[u8]>,
    /// Octets of `outgoing` that the kernel had no room for, and their header.
    waiting: Option<(usize, Header)>,
}

/// `struct virtio_net_hdr`, in this machine's byte order.
type Header = [u8; HEADER];

impl Offload {
    /// Opens the TAP device `name`.
    pub(crate) fn tap(name: &str) -> io::Result<Self> {
        let fd = open("/dev/net/tun", OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::empty())?;
        // SAFETY: an `ifreq` consists of integers and unions of such, for which zero is a value.
        let mut request: libc::ifreq = unsafe { core::mem::zeroed() };
        for (place, octet) in request.ifr_name.iter_mut().zip(name.bytes()).take(libc::IFNAMSIZ - 1) {
            *place = libc::c_char::from_ne_bytes([octet]);
        }
        let flags = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
        request.ifr_ifru.ifru_flags = libc::c_short::try_from(flags).unwrap_or_default();
        // SAFETY: the request reads and writes nothing but `request`, which is the structure that it is for.
        check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETIFF, &raw mut request) })?;
        set_offloads(&fd, libc::TUN_F_CSUM | libc::TUN_F_TSO4)?;
        Ok(Self::new(fd, true))
    }

    /// Opens a raw socket on the interface `name`.
    pub(crate) fn packet(name: &str) -> io::Result<Self> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        // No frame comes before the socket is bound to the interface.
        let fd = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?;
        let on: libc::c_int = 1;
        for option in [libc::PACKET_VNET_HDR, libc::PACKET_IGNORE_OUTGOING] {
            let len = length_of(&on);
            // SAFETY: both options take one int, which outlives the call, and its size.
            check(unsafe {
                libc::setsockopt(fd.as_raw_fd(), libc::SOL_PACKET, option, (&raw const on).cast(), len)
            })?;
        }
        // SAFETY: a `sockaddr_ll` consists of integers, for which zero is a value.
        let mut address: libc::sockaddr_ll = unsafe { core::mem::zeroed() };
        address.sll_family = libc::sa_family_t::try_from(libc::AF_PACKET).unwrap_or_default();
        address.sll_protocol = u16::try_from(libc::ETH_P_ALL).unwrap_or_default().to_be();
        address.sll_ifindex = name_to_index(&fd, name)?.try_into().unwrap_or_default();
        let len = length_of(&address);
        // SAFETY: the address is alive during the call, and its length is its own.
        check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), len) })?;
        Ok(Self::new(fd, false))
    }

    fn new(fd: OwnedFd, is_tap: bool) -> Self {
        let buffer = || vec![0; FRAME].into_boxed_slice();
        Self { fd, is_tap, incoming: buffer(), outgoing: buffer(), waiting: None }
    }

    /// Sends waiting octets. Returns true if there is room for a further frame.
    fn flush(&mut self) -> bool {
        let Some((len, header)) = self.waiting else { return true };
        let parts = [IoSlice::new(&header), IoSlice::new(&self.outgoing[..len])];
        match rustix::io::writev(&self.fd, &parts) {
            Err(Errno::AGAIN | Errno::NOBUFS | Errno::INTR) => return false,
            // An interface that is down loses the frames that are sent.
            Ok(_) | Err(_) => self.waiting = None,
        }
        true
    }
}

impl Drop for Offload {
    fn drop(&mut self) {
        if self.is_tap {
            // The device keeps this setting after it is closed. The next program that opens it may not expect it.
            let _stays_as_it_is = set_offloads(&self.fd, 0);
        }
    }
}

impl Device for Offload {
    type RxToken<'a> = Received<'a>;
    type TxToken<'a> = Sending<'a>;

    fn receive(&mut self, _now: Instant) -> Option<(Received<'_>, Sending<'_>)> {
        if !self.flush() {
            return None;
        }
        let mut header = [0; HEADER];
        let parts = &mut [IoSliceMut::new(&mut header), IoSliceMut::new(&mut self.incoming)];
        let len = rustix::io::readv(&self.fd, parts).ok()?.checked_sub(HEADER)?;
        let Self { fd, incoming, outgoing, waiting, .. } = self;
        Some((Received(&incoming[..len]), Sending { fd, outgoing, waiting, segment: None }))
    }

    fn transmit(&mut self, _now: Instant) -> Option<Sending<'_>> {
        if !self.flush() {
            return None;
        }
        let Self { fd, outgoing, waiting, .. } = self;
        Some(Sending { fd, outgoing, waiting, segment: None })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = MTU + ETHERNET_HEADER as usize;
        capabilities.checksum = ChecksumCapabilities::ignored();
        capabilities.checksum.ipv4 = Checksum::Tx;
        capabilities.segmentation.tcpv4 = NonZeroUsize::new(LARGEST);
        capabilities
    }
}

/// A frame that was received.
#[derive(Debug)]
pub(crate) struct Received<'a>(&'a [u8]);

/// A frame that is to be sent.
#[derive(Debug)]
pub(crate) struct Sending<'a> {
    fd: &'a OwnedFd,
    outgoing: &'a mut [u8],
    waiting: &'a mut Option<(usize, Header)>,
    segment: Option<NonZeroU16>,
}

impl RxToken for Received<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(self.0)
    }
}

impl TxToken for Sending<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let frame = &mut self.outgoing[..len];
        let result = f(frame);
        let header = header_for(frame, self.segment);
        let parts = [IoSlice::new(&header), IoSlice::new(frame)];
        if matches!(rustix::io::writev(self.fd, &parts), Err(Errno::AGAIN | Errno::NOBUFS | Errno::INTR)) {
            *self.waiting = Some((len, header));
        }
        result
    }

    fn set_meta(&mut self, meta: PacketMeta) {
        self.segment = meta.segmentation_offload_size;
    }
}

/// Asks the kernel to compute the checksum of a TCP segment, and to cut the segment if it is too long.
fn header_for(frame: &mut [u8], segment: Option<NonZeroU16>) -> Header {
    let mut header = [0; HEADER];
    let mut ethernet = EthernetFrame::new_unchecked(frame);
    if ethernet.ethertype() != EthernetProtocol::Ipv4 {
        return header;
    }
    let mut ip = Ipv4Packet::new_unchecked(ethernet.payload_mut());
    if ip.next_header() != IpProtocol::Tcp {
        return header;
    }
    let len = u32::from(ip.total_len()) - u32::from(ip.header_len());
    let addresses = [ip.src_addr(), ip.dst_addr()];
    let halves = addresses.iter().flat_map(|address| {
        let [a, b, c, d] = address.octets();
        [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])]
    });
    let mut sum = halves.map(u32::from).sum::<u32>() + u32::from(u8::from(IpProtocol::Tcp)) + len;
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    let start = ETHERNET_HEADER + u16::from(ip.header_len());
    let mut tcp = TcpPacket::new_unchecked(ip.payload_mut());
    tcp.set_checksum(u16::try_from(sum).unwrap_or_default());
    let headers = start + u16::from(tcp.header_len());
    header[0] = NEEDS_CSUM;
    header[6..8].copy_from_slice(&start.to_ne_bytes());
    header[8..10].copy_from_slice(&CHECKSUM_OFFSET.to_ne_bytes());
    if let Some(segment) = segment {
        header[1] = GSO_TCPV4;
        header[2..4].copy_from_slice(&headers.to_ne_bytes());
        header[4..6].copy_from_slice(&segment.get().to_ne_bytes());
    }
    header
}

/// Sets which frames may come over a TAP device unfinished.
fn set_offloads(tap: &OwnedFd, offloads: libc::c_uint) -> io::Result<()> {
    // SAFETY: the request takes its argument by value.
    check(unsafe { libc::ioctl(tap.as_raw_fd(), libc::TUNSETOFFLOAD, libc::c_ulong::from(offloads)) })
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn length_of<T>(_value: &T) -> libc::socklen_t {
    libc::socklen_t::try_from(size_of::<T>()).unwrap_or_default()
}

const MTU: usize = 1500;
const ETHERNET_HEADER: u16 = 14;
/// `struct virtio_net_hdr` without the number of buffers.
const HEADER: usize = 10;
/// Octets of the longest received frame.
const FRAME: usize = 65_535 + ETHERNET_HEADER as usize;
/// Octets of the longest sent frame: AF_PACKET takes none of 65,536 octets.
const LARGEST: usize = 65_500;
/// From the beginning of a TCP header to its checksum.
const CHECKSUM_OFFSET: u16 = 16;
/// `VIRTIO_NET_HDR_F_NEEDS_CSUM`, `VIRTIO_NET_HDR_GSO_TCPV4`.
const NEEDS_CSUM: u8 = 1;
const GSO_TCPV4: u8 = 1;
