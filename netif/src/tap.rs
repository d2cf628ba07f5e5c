//! The TAP device. `unsafe` only to take over the descriptor that tun-tap hands out as a bare number.
#![allow(unsafe_code)]

use core::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};

use tun_tap::{Iface, Mode};

use crate::wire::{ETHERNET_HEADER, MAX_MTU};

/// A TAP device: one read or write is one frame, without packet information before it.
pub(crate) struct Tap {
    fd: OwnedFd,
    /// Frames are read here first, as the caller's buffer needn't have room for the greatest one.
    buffer: Box<[u8]>,
}

impl Tap {
    pub(crate) fn open(name: &str) -> io::Result<Self> {
        let device = Iface::without_packet_info(name, Mode::Tap).map_err(explain)?;
        // SAFETY: `into_raw_fd` gives up the open descriptor, and nobody else has its number.
        let fd = unsafe { OwnedFd::from_raw_fd(device.into_raw_fd()) };
        rustix::io::ioctl_fionbio(&fd, true)?;
        Ok(Self { fd, buffer: vec![0; MAX_MTU + ETHERNET_HEADER].into() })
    }

    /// False when the queue is full or the device is not up: the frame is lost.
    pub(crate) fn send(&self, frame: &[u8]) -> bool {
        rustix::io::write(&self.fd, frame).is_ok_and(|len| len == frame.len())
    }

    /// An error is as good as no frame: the device stays open, and comes back when it is set up again.
    pub(crate) fn receive(&mut self, frame: &mut Vec<u8>) -> bool {
        let Ok(len) = rustix::io::read(&self.fd, &mut self.buffer[..]) else { return false };
        frame.clear();
        frame.extend_from_slice(&self.buffer[..len]);
        len > 0
    }

    pub(crate) fn poll_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
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
