//! The devices below a wire.
//!
//! A new kind of device has a file of its own, as `unix.rs`, and a variant of [`Link`]. This is what it owes:
//!
//! * Each kind answers for itself in `open_queues`, `send`, `receive` and `poll_fd`. No call blocks. `send` returns
//!   false if the frame is lost. `receive` fills the frame by `copy_from`, or by `reset(MAX_FRAME)` and `truncate`.
//! * [`Link::send`] fills in the checksums that smoltcp leaves to the wire. A kind that can do without them, or whose
//!   device computes them, says so in `needs_checksums`.
//! * A sleeper would never see what a device keeps without telling. So each kind says in `is_readable`, `wants_write`
//!   and `poll_at` what it keeps: frames, octets, a time to act. In `losses` it says whether its other end can end.
//! * All other methods end in the usual answer, which is right for a device that has one station. A kind gives another
//!   answer to save time or to tell more. `claim` is for devices that have other users, too.
//! * A child after `fork` has a copy of each descriptor. Copies of a socket hide from the peer that this process has
//!   ended. So the kind holds a [`Mark`](crate::held::Mark) beside its socket, as in `unix.rs`: the child closes marked
//!   copies. No peer waits for the end of a TAP device or a packet socket, so that these have no mark.

use core::net::IpAddr;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use smoltcp::time::Instant;

use crate::frame::Frame;
use crate::packet::Packet;
use crate::pair::PairEnd;
use crate::spec::Spec;
use crate::tap::Tap;
use crate::unix::UnixLink;
use crate::xdp::Xdp;

/// A device, or one of its queues. Methods that return what a [`Wire`](crate::Wire) returns are described there.
#[derive(Debug)]
pub(crate) enum Link {
    Pair(PairEnd),
    Unix(UnixLink),
    Tap(Tap),
    Packet(Packet),
    Xdp(Xdp),
}

impl Link {
    /// Opens the device `spec` as `queues` links, or as one link if it has fewer queues.
    pub(crate) fn open_queues(spec: &Spec, mtu: usize, queues: usize) -> io::Result<Vec<Self>> {
        let refuse = |text| Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        match spec {
            _ if queues == 0 => refuse("at least one queue is needed"),
            Spec::Pair => refuse("a pair joins two stacks of one process"),
            Spec::Host => refuse("the kernel's TCP has no wire"),
            Spec::Unix(path) => Ok(vec![Self::Unix(UnixLink::connect(path)?)]),
            Spec::UnixListen(path) => Ok(vec![Self::Unix(UnixLink::listen(path)?)]),
            Spec::Tap(name) => all(Tap::open_queues(name, true, queues), Self::Tap),
            Spec::PlainTap(name) => all(Tap::open_queues(name, false, queues), Self::Tap),
            Spec::Packet(name) => all(Packet::open_queues(name, mtu, true, queues), Self::Packet),
            Spec::PlainPacket(name) => all(Packet::open_queues(name, mtu, false, queues), Self::Packet),
            Spec::Xdp { interface, queue } => {
                all(Xdp::open_queues(interface, *queue, mtu, queues), Self::Xdp)
            }
        }
    }

    /// Sends a frame, and leaves any frame in its place. Returns false if it is lost.
    #[inline]
    pub(crate) fn send(&mut self, now: Instant, frame: &mut Frame) -> bool {
        if self.needs_checksums() {
            frame.complete();
        }
        match self {
            Self::Pair(end) => end.send(frame),
            Self::Unix(link) => link.send(now, frame),
            Self::Tap(tap) => tap.send(frame),
            Self::Packet(packet) => packet.send(frame),
            Self::Xdp(xdp) => xdp.send(frame),
        }
    }

    /// Takes the next frame. Returns false if there is none. The frame is trusted only if the device has verified TCP's
    /// checksum.
    #[inline]
    pub(crate) fn receive(&mut self, now: Instant, frame: &mut Frame) -> bool {
        match self {
            Self::Pair(end) => end.receive(frame),
            Self::Unix(link) => link.receive(now, frame),
            Self::Tap(tap) => tap.receive(frame),
            Self::Packet(packet) => packet.receive(frame),
            Self::Xdp(xdp) => xdp.receive(frame),
        }
    }

    pub(crate) fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Pair(end) => end.poll_fd(),
            Self::Unix(link) => link.poll_fd(),
            Self::Tap(tap) => Some(tap.poll_fd()),
            Self::Packet(packet) => Some(packet.poll_fd()),
            Self::Xdp(xdp) => Some(xdp.poll_fd()),
        }
    }

    pub(crate) fn is_readable(&self) -> bool {
        match self {
            Self::Pair(end) => end.is_readable(),
            Self::Unix(link) => link.is_readable(),
            Self::Tap(_) => false,
            Self::Packet(packet) => packet.is_readable(),
            Self::Xdp(xdp) => xdp.is_readable(),
        }
    }

    pub(crate) fn wants_write(&self) -> bool {
        match self {
            Self::Unix(link) => link.wants_write(),
            Self::Pair(_) | Self::Tap(_) | Self::Packet(_) | Self::Xdp(_) => false,
        }
    }

    pub(crate) fn poll_at(&self) -> Option<Instant> {
        match self {
            Self::Unix(link) => link.poll_at(),
            Self::Pair(_) | Self::Tap(_) | Self::Packet(_) | Self::Xdp(_) => None,
        }
    }

    pub(crate) const fn losses(&self) -> u64 {
        match self {
            Self::Unix(link) => link.losses(),
            Self::Pair(_) | Self::Tap(_) | Self::Packet(_) | Self::Xdp(_) => 0,
        }
    }

    /// Returns true if a frame needs its checksums before the device takes it. The device does without them if nothing
    /// can damage the frame on its way (`pair`), or if it computes them as virtio's header says.
    const fn needs_checksums(&self) -> bool {
        match self {
            Self::Pair(_) => false,
            Self::Tap(tap) => !tap.has_offloads(),
            Self::Packet(packet) => !packet.has_offloads(),
            _ => true,
        }
    }

    /// Returns true if the device cuts long frames into segments ([`Frame::segment`]).
    pub(crate) const fn segments(&self) -> bool {
        match self {
            Self::Tap(tap) => tap.has_offloads(),
            Self::Packet(packet) => packet.has_offloads(),
            _ => false,
        }
    }

    pub(crate) const fn is_drained(&self) -> bool {
        match self {
            Self::Pair(end) => end.is_drained(),
            _ => false,
        }
    }

    /// Returns the descriptor of [`Self::poll_fd`] for a sleeper that does not borrow the device.
    pub(crate) fn wait_fd(&self) -> Option<Arc<OwnedFd>> {
        match self {
            Self::Tap(tap) => Some(tap.shared_fd()),
            Self::Packet(packet) => Some(packet.shared_fd()),
            _ => Some(Arc::new(self.poll_fd()?.try_clone_to_owned().ok()?)),
        }
    }

    pub(crate) const fn has_carrier(&self) -> Option<bool> {
        match self {
            Self::Unix(link) => Some(link.has_peer()),
            _ => None,
        }
    }

    /// Returns how many frames the device has lost before they were received.
    pub(crate) fn lost(&self) -> u64 {
        match self {
            Self::Packet(packet) => packet.lost(),
            Self::Xdp(xdp) => xdp.lost(),
            _ => 0,
        }
    }

    pub(crate) fn claim(&self, mac: [u8; 6], ip: IpAddr) -> io::Result<()> {
        match self {
            Self::Packet(packet) => packet.claim(mac, ip),
            Self::Xdp(xdp) => xdp.claim(mac, ip),
            _ => Ok(()),
        }
    }
}

/// Makes a link of each queue.
fn all<T>(opened: io::Result<Vec<T>>, link: impl Fn(T) -> Link) -> io::Result<Vec<Link>> {
    Ok(opened?.into_iter().map(link).collect())
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixListener;

    use super::*;
    use crate::checksum;

    const NOW: Instant = Instant::ZERO;

    /// A TCP segment on IPv4 as smoltcp leaves it, without checksums.
    fn unfinished() -> Frame {
        let mut frame = Frame::copy_of(&[0; 54]);
        frame[12..18].copy_from_slice(&[0x08, 0x00, 0x45, 0, 0, 40]);
        (frame[23], frame[46]) = (6, 0x50);
        frame.is_trusted = true;
        assert!(!checksum::is_good(&frame));
        frame
    }

    // Covers 9293-MUST-2.
    #[test]
    fn a_device_that_only_carries_octets_gets_whole_checksums() {
        let path = std::env::temp_dir().join(format!("weft-link-{}", std::process::id()));
        let listener = UnixListener::bind(&path).unwrap();
        let mut links = Link::open_queues(&Spec::Unix(path.clone()), 1500, 1).unwrap();
        std::fs::remove_file(path).unwrap();
        assert!(links[0].send(NOW, &mut unfinished()));
        let mut record = [0; 58];
        listener.accept().unwrap().0.read_exact(&mut record).unwrap();
        assert!(checksum::is_good(&record[4..]));
    }

    #[test]
    fn a_frame_in_memory_keeps_its_checksums_unfilled() {
        let [left, right] = PairEnd::both();
        assert!(Link::Pair(left).send(NOW, &mut unfinished()));
        let mut frame = Frame::default();
        assert!(Link::Pair(right).receive(NOW, &mut frame));
        assert_eq!((frame.is_trusted, &frame[..]), (true, &unfinished()[..]));
    }
}
