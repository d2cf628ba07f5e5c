//! The TAP device. The crate `tun-tap` opens a plain device with one queue. `unsafe` stands for the requests for
//! several queues and for offloads, which no safe library has, and for taking over the crate's descriptor.
#![allow(unsafe_code)]

use core::fmt;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, open};
use tun_tap::Iface;

use crate::ethernet::{MAX_FRAME, VNET_HEADER};
use crate::frame::Frame;
use crate::ifreq::request_for;
use crate::virtio;

/// A queue of a TAP device. One read or write is one frame. With offloads virtio's header precedes the frame.
pub(crate) struct Tap {
    fd: Arc<OwnedFd>,
    has_header: bool,
}

impl Tap {
    /// Opens the only queue of a device, or several of a device that may have several. With `offload` the kernel cuts
    /// long frames and hands them over whole, and neither side fills in checksums. If the kernel refuses that, frames
    /// are plain.
    ///
    /// The kernel gives a frame to the queue that has sent the last frame of the same flow, if it remembers that.
    pub(crate) fn open_queues(name: &str, offload: bool, count: usize) -> io::Result<Vec<Self>> {
        let header = if offload { libc::IFF_VNET_HDR } else { 0 };
        let opened = Self::open_all(name, header, count).and_then(|queues| {
            queues.iter().try_for_each(Self::set_up)?;
            Ok(queues)
        });
        match opened {
            Err(error) if offload && error.raw_os_error() == Some(libc::EINVAL) => {
                Self::open_queues(name, false, count)
            }
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Err(Self::refused(name, count)),
            Err(error) if error.raw_os_error() == Some(libc::E2BIG) => {
                Err(io::Error::new(error.kind(), "the device has no further queue"))
            }
            opened => opened.map_err(explain),
        }
    }

    /// Sends a frame. Returns false if it is lost, because the queue is full or the device is down.
    pub(crate) fn send(&self, frame: &mut Frame) -> bool {
        if !self.has_header {
            return rustix::io::write(&self.fd, frame).is_ok_and(|len| len == frame.len());
        }
        let header = virtio::header_for(frame);
        let parts = [IoSlice::new(&header), IoSlice::new(frame)];
        rustix::io::writev(&self.fd, &parts).is_ok_and(|len| len == VNET_HEADER + frame.len())
    }

    /// Takes the next frame. Returns false if there is none. An error counts as none: the device stays open, and
    /// works again when it is up.
    pub(crate) fn receive(&self, frame: &mut Frame) -> bool {
        frame.reset(MAX_FRAME);
        let mut header = [0; VNET_HEADER];
        let len = if self.has_header {
            let mut parts = [IoSliceMut::new(&mut header), IoSliceMut::new(frame)];
            rustix::io::readv(&self.fd, &mut parts).map(|len| len.saturating_sub(VNET_HEADER))
        } else {
            rustix::io::read(&self.fd, &mut **frame)
        };
        frame.truncate(len.unwrap_or(0));
        !frame.is_empty() && virtio::accept(frame, &header).is_some()
    }

    /// Returns true if the kernel fills in checksums, and cuts long frames into segments.
    pub(crate) const fn has_offloads(&self) -> bool {
        self.has_header
    }

    pub(crate) fn poll_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Returns the same descriptor, for a sleeper that does not borrow the device.
    pub(crate) fn shared_fd(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.fd)
    }

    fn open_all(name: &str, header: libc::c_int, count: usize) -> io::Result<Vec<Self>> {
        let several = header | libc::IFF_MULTI_QUEUE;
        let opened = match (count, header) {
            (1, 0) => Self::open_plain(name),
            (1, _) => Self::attach(name, header),
            _ => Self::attach(name, several),
        };
        // The kernel may choose the name.
        let (first, name) = match opened {
            // The kernel refuses a device that may have several queues to a request without that flag.
            Err(error) if count == 1 && error.raw_os_error() == Some(libc::EINVAL) => {
                Self::attach(name, several)?
            }
            opened => opened?,
        };
        let mut queues = vec![first];
        for _ in 1..count {
            queues.push(Self::attach(&name, several)?.0);
        }
        Ok(queues)
    }

    /// Says why the kernel finds a request for so many queues invalid: of an interface of another kind it opens none.
    fn refused(name: &str, count: usize) -> io::Error {
        let is_tap = count > 1 && Self::attach(name, 0).is_ok();
        let text = if is_tap {
            format!("the device has one queue: `ip tuntap add {name} mode tap multi_queue`")
        } else {
            "this interface is no TAP device: name one that `ip tuntap list` shows, or a new one".to_owned()
        };
        io::Error::new(io::ErrorKind::InvalidInput, text)
    }

    /// Opens the only queue of a device without offloads, and returns it with the device's name.
    fn open_plain(name: &str) -> io::Result<(Self, String)> {
        // The crate would cut a name that is too long.
        request_for(name)?;
        let device = Iface::without_packet_info(name, tun_tap::Mode::Tap)?;
        device.set_non_blocking()?;
        let name = device.name().to_owned();
        // SAFETY: the descriptor is open, and `device` gives up its ownership.
        let fd = unsafe { OwnedFd::from_raw_fd(device.into_raw_fd()) };
        Ok((Self { fd: Arc::new(fd), has_header: false }, name))
    }

    /// Opens a queue of the device, and returns it with the device's name. The crate `tun-tap` cannot set the flags for
    /// several queues and for offloads.
    fn attach(name: &str, flags: libc::c_int) -> io::Result<(Self, String)> {
        let has_header = flags & libc::IFF_VNET_HDR != 0;
        let flags = flags | libc::IFF_TAP | libc::IFF_NO_PI;
        let mut request = request_for(name)?;
        request.ifr_ifru.ifru_flags = libc::c_short::try_from(flags).unwrap_or_default();
        let fd = open("/dev/net/tun", OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::empty())?;
        // SAFETY: the request reads and writes nothing but `request`, which is the structure that it is for.
        if unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETIFF, &raw mut request) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let octets = request.ifr_name.iter().map(|octet| octet.to_ne_bytes()[0]);
        let name: Vec<u8> = octets.take_while(|&octet| octet != 0).collect();
        Ok((Self { fd: Arc::new(fd), has_header }, String::from_utf8_lossy(&name).into_owned()))
    }

    /// Tells the device which offloads this side can handle. The device remembers those of its last user. It would
    /// give long frames to a user that does not expect any.
    fn set_up(&self) -> io::Result<()> {
        let offloads = if self.has_header { TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 } else { 0 };
        // SAFETY: the request takes its argument as a number and touches no memory.
        if unsafe { libc::ioctl(self.fd.as_raw_fd(), TUNSETOFFLOAD, offloads) } != 0 {
            return Err(io::Error::last_os_error());
        }
        if self.has_header {
            let size = libc::c_int::try_from(VNET_HEADER).unwrap_or_default();
            // SAFETY: the request reads the integer behind the pointer, which is alive.
            if unsafe { libc::ioctl(self.fd.as_raw_fd(), TUNSETVNETHDRSZ, &raw const size) } != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Tap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tap").field("fd", &self.fd).finish_non_exhaustive()
    }
}

fn explain(error: io::Error) -> io::Error {
    let advice = match error.kind() {
        io::ErrorKind::PermissionDenied => "needs CAP_NET_ADMIN (root, or a shell of `unshare -Urn`)",
        io::ErrorKind::NotFound => "there is no /dev/net/tun on this system",
        io::ErrorKind::ResourceBusy => "another process has the device open",
        _ => return error,
    };
    io::Error::new(error.kind(), advice)
}

// On every architecture the numbers of these requests follow that of TUNSETIFF.
const TUNSETOFFLOAD: libc::Ioctl = libc::TUNSETIFF + 6;
const TUNSETVNETHDRSZ: libc::Ioctl = libc::TUNSETIFF + 14;
const TUN_F_CSUM: libc::c_uint = 0x01;
const TUN_F_TSO4: libc::c_uint = 0x02;
const TUN_F_TSO6: libc::c_uint = 0x04;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Instant, Spec, Wire};

    #[test]
    fn the_frequent_errors_say_what_to_do() {
        let table = [
            (io::ErrorKind::PermissionDenied, "CAP_NET_ADMIN"),
            (io::ErrorKind::NotFound, "/dev/net/tun"),
            (io::ErrorKind::ResourceBusy, "another process"),
        ];
        for (kind, text) in table {
            let error = explain(kind.into());
            assert_eq!(error.kind(), kind);
            assert!(error.to_string().contains(text) && !error.to_string().contains('\n'), "{error}");
        }
    }

    #[test]
    fn a_device_opens_or_says_why_not() {
        match Wire::open(&Spec::Tap("weft-test%d".into()), 1500) {
            Ok(mut wire) => {
                wire.send(Instant::ZERO, &[0; 60]);
                assert_eq!(wire.counters().send_lost, 1, "the device is not up");
                assert!(wire.poll_fd().is_some() && !wire.receive(Instant::ZERO, &mut Vec::new()));
            }
            Err(error) => {
                let text = error.to_string();
                assert!(text.starts_with("tap:weft-test%d: ") && !text.contains('\n'), "{text}");
            }
        }
    }
}
