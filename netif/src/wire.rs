//! One end of an Ethernet on any device: counts, captures and impairs its frames.

use core::hash::BuildHasher;
use core::net::IpAddr;
use std::hash::RandomState;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use smoltcp::time::Instant;

use crate::capture::Capture;
use crate::counters::WireCounters;
use crate::demux::Tuple;
use crate::ethernet::{ETHERNET_HEADER, MAX_MTU, MIN_MTU};
use crate::frame::Frame;
use crate::hub::Port;
use crate::impair::Impairment;
use crate::link::Link;
use crate::pair::PairEnd;
use crate::random::Random;
use crate::spec::Spec;

/// One end of an Ethernet, with an optional capture and an optional impairment.
///
/// Frames have no frame check sequence. The capture is outermost: it sees sent frames before the impairment, and
/// received frames after that of the peer. The impairment acts on sent frames only; each wire of a pair can have one.
#[derive(Debug)]
pub struct Wire {
    below: Below,
    mtu: usize,
    capture: Option<Capture>,
    impairment: Option<Impairment>,
    counters: WireCounters,
    /// The frame in use for callers that pass frames as octets.
    own: Frame,
}

/// The device of a wire, or its share of a wire whose frames several stacks divide among them.
#[derive(Debug)]
pub(crate) enum Below {
    Link(Link),
    Port(Port),
}

/// Returns the two ends of a wire through memory. Each direction holds 512 frames and loses further ones, like a
/// wire. The ends may live in two threads.
///
/// # Panics
/// When `mtu` (the IP MTU) is outside 576 to 65535.
#[must_use]
pub fn pair(mtu: usize) -> (Wire, Wire) {
    assert!((MIN_MTU..=MAX_MTU).contains(&mtu), "an MTU of {mtu} is outside {MIN_MTU} to {MAX_MTU}");
    let [left, right] = PairEnd::both().map(|end| Wire::new(Below::Link(Link::Pair(end)), mtu));
    (left, right)
}

impl Wire {
    /// Opens the device `spec` for IP packets of up to `mtu` octets.
    ///
    /// `unix` fails while no process listens on its path; the caller may try again. `unix-listen` returns at once.
    /// Peers are accepted later, one at a time. Frames that are sent without a peer are lost.
    ///
    /// # Errors
    /// `InvalidInput` for [`Spec::Pair`] (see [`pair`](crate::pair)) and for an MTU outside 576 to 65535, otherwise the
    /// system's error. Its text names the device and, in frequent cases, the remedy.
    pub fn open(spec: &Spec, mtu: usize) -> io::Result<Self> {
        let mut queues = Self::open_queues(spec, mtu, 1)?;
        queues.pop().ok_or_else(|| io::ErrorKind::InvalidInput.into())
    }

    /// Opens the device `spec` as `queues` wires, each of which takes a part of the frames:
    ///
    /// * `tap`: the queues of a TAP device (`multi_queue`);
    /// * `packet`: sockets on a network interface that share its frames by the ports of TCP;
    /// * `xdp`: shares of the queues of a network interface.
    ///
    /// Returns a single wire if the device has fewer queues, as a Unix socket has.
    ///
    /// # Errors
    /// As [`Wire::open`], and `InvalidInput` if `queues` is 0 or a TAP device has one queue only.
    pub fn open_queues(spec: &Spec, mtu: usize, queues: usize) -> io::Result<Vec<Self>> {
        if !(MIN_MTU..=MAX_MTU).contains(&mtu) {
            let text = format!("an MTU of {mtu} is outside {MIN_MTU} to {MAX_MTU}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let links = Link::open_queues(spec, mtu, queues)
            .map_err(|error| io::Error::new(error.kind(), format!("{spec}: {error}")))?;
        Ok(links.into_iter().map(|link| Self::new(Below::Link(link), mtu)).collect())
    }

    pub(crate) fn new(below: Below, mtu: usize) -> Self {
        Self {
            below,
            mtu,
            capture: None,
            impairment: None,
            counters: WireCounters::default(),
            own: Frame::default(),
        }
    }

    /// Takes the frames for the station with these addresses. A device that has other users, too (`packet`, `xdp`),
    /// gives no frames before. Other devices have one station only, and need no call.
    ///
    /// # Errors
    /// `AddrInUse` if the address is the host's own, otherwise the system's error.
    pub fn claim(&mut self, mac: [u8; 6], ip: IpAddr) -> io::Result<()> {
        self.link().map_or(Ok(()), |link| link.claim(mac, ip))
    }

    /// Returns the same wire, which then records every frame.
    #[must_use]
    pub fn with_capture(self, capture: Capture) -> Self {
        Self { capture: Some(capture), ..self }
    }

    /// Returns the same wire, which then impairs sent frames.
    #[must_use]
    pub fn with_impairment(self, impairment: Impairment) -> Self {
        Self { impairment: Some(impairment), ..self }
    }

    /// Takes the capture away, for the caller to finish it.
    pub fn take_capture(&mut self) -> Option<Capture> {
        self.capture.take().or_else(|| self.port()?.take_capture())
    }

    /// Sends a frame, or loses it, as wires do. The counters tell which.
    pub fn send(&mut self, now: Instant, frame: &[u8]) {
        let mut own = std::mem::take(&mut self.own);
        own.copy_from(frame);
        self.transmit(now, &mut own);
        self.own = own;
    }

    /// Does the same as [`Wire::send`], but leaves other octets in place of the frame. This saves a copy if the
    /// device is memory.
    pub fn send_buffer(&mut self, now: Instant, frame: &mut Vec<u8>) {
        let mut own = std::mem::take(&mut self.own);
        own.swap(frame);
        self.transmit(now, &mut own);
        own.swap(frame);
        self.own = own;
    }

    /// Receives the next frame into `frame`. Returns false if there is none.
    pub fn receive(&mut self, now: Instant, frame: &mut Vec<u8>) -> bool {
        let mut own = std::mem::take(&mut self.own);
        let received = self.take(now, &mut own);
        if received {
            own.complete();
            own.swap(frame);
        }
        self.own = own;
        received
    }

    /// Does the same as [`Wire::send`], but leaves any frame in place of this one. A frame in a buffer that may be
    /// shared stays. Returns false if the device did not take it.
    pub(crate) fn transmit(&mut self, now: Instant, frame: &mut Frame) -> bool {
        if frame.segment == 0 && frame.len() > self.mtu + ETHERNET_HEADER {
            self.counters.too_long += 1;
            return true;
        }
        if let Some(capture) = &mut self.capture {
            record(capture, now, frame);
        }
        match &mut self.impairment {
            None => self.put(now, frame),
            Some(impairment) if impairment.is_immediate() => !impairment.passes(now) || self.put(now, frame),
            Some(impairment) => {
                frame.complete();
                impairment.push(now, frame);
                self.flush(now);
                true
            }
        }
    }

    /// Does the same as [`Wire::receive`], but TCP's checksum may be missing if nothing can have damaged the frame.
    pub(crate) fn take(&mut self, now: Instant, frame: &mut Frame) -> bool {
        self.flush(now);
        let received = match &mut self.below {
            Below::Link(link) => link.receive(now, frame),
            Below::Port(port) => port.receive(now, frame),
        };
        if received {
            self.counters.received += 1;
            self.counters.octets_received += frame.len() as u64;
            if let Some(capture) = &mut self.capture {
                record(capture, now, frame);
            }
        }
        received
    }

    /// Returns true if the wire knows that no frame was left when the last one was taken.
    pub(crate) fn is_drained(&self) -> bool {
        self.link().is_some_and(Link::is_drained)
    }

    /// Returns true if the device cuts long frames into segments ([`Frame::segment`]). An impaired wire takes single
    /// segments only.
    pub(crate) fn segments(&self) -> bool {
        let cuts = match &self.below {
            Below::Link(link) => link.segments(),
            Below::Port(port) => port.segments(),
        };
        cuts && self.impairment.is_none()
    }

    /// Returns the time for a [`Wire::receive`] even if no frame arrives. A delayed frame is due then, or it is time
    /// to look for a lost peer.
    #[must_use]
    pub fn poll_at(&self) -> Option<Instant> {
        let retry = match &self.below {
            Below::Link(link) => link.poll_at(),
            Below::Port(port) => port.poll_at(),
        };
        let due = self.impairment.as_ref().and_then(Impairment::poll_at);
        [retry, due].into_iter().flatten().min()
    }

    /// Returns the descriptor that becomes readable when a frame arrives. It may be another one after each call of
    /// [`Wire::receive`]. Returns `None` for a Unix socket that has lost its peer, and if the kernel has no eventfd
    /// left.
    #[must_use]
    pub fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.below {
            Below::Link(link) => link.poll_fd(),
            Below::Port(port) => Some(port.bell()),
        }
    }

    /// Returns all descriptors to sleep on until a frame arrives, each with whether to wait until it is writable,
    /// too. They are copies, since the wire may change its own meanwhile. Returns `None` if [`Wire::poll_fd`] does.
    #[must_use]
    pub fn wait_fds(&self) -> Option<Vec<(Arc<OwnedFd>, bool)>> {
        match &self.below {
            Below::Link(link) => Some(vec![(link.wait_fd()?, link.wants_write())]),
            Below::Port(port) => port.wait_fds(),
        }
    }

    /// Returns true if a frame is known to wait, without asking the kernel.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        match &self.below {
            Below::Link(link) => link.is_readable(),
            Below::Port(port) => port.is_readable(),
        }
    }

    /// Returns true if octets wait for [`Wire::poll_fd`] to become writable (Unix sockets only). A sleeper should
    /// wait for that, too, and then call [`Wire::receive`].
    #[must_use]
    pub fn wants_write(&self) -> bool {
        self.link().is_some_and(Link::wants_write)
    }

    /// Returns whether a peer is at the other end of a Unix socket, or `None` for all other wires, which cannot tell.
    /// The answer changes in [`Wire::send`] and [`Wire::receive`]. Of the wires that share a Unix socket
    /// ([`Wire::share`]), only the first one answers.
    #[must_use]
    pub fn has_carrier(&self) -> Option<bool> {
        match &self.below {
            Below::Link(link) => link.has_carrier(),
            Below::Port(port) => port.has_carrier(),
        }
    }

    /// Returns how often the wire has lost its other end for good: a Unix socket has hung up. The count changes in
    /// [`Wire::take`] behind the last frame of the lost peer. The next frame is from another peer.
    pub(crate) fn losses(&self) -> u64 {
        match &self.below {
            Below::Link(link) => link.losses(),
            Below::Port(port) => port.losses(),
        }
    }

    /// Returns the IP MTU.
    #[must_use]
    pub const fn mtu(&self) -> usize {
        self.mtu
    }

    /// Returns the impairment, for its counts.
    #[must_use]
    pub const fn impairment(&self) -> Option<&Impairment> {
        self.impairment.as_ref()
    }

    /// Returns the counters of the wire.
    #[must_use]
    pub fn counters(&self) -> WireCounters {
        match &self.below {
            Below::Link(link) => WireCounters { receive_lost: link.lost(), ..self.counters },
            Below::Port(port) => port.counters(),
        }
    }

    /// Returns true if the wire is memory of this process, so that its other end is no foreign station.
    pub(crate) fn is_memory(&self) -> bool {
        match &self.below {
            Below::Link(link) => matches!(link, Link::Pair(_)),
            Below::Port(port) => port.is_memory(),
        }
    }

    /// Returns 128 bits that nobody else knows, or on memory those that follow from `seed`. Wires that share a device
    /// have the same ones.
    pub(crate) fn key(&self, seed: u64) -> [u8; 16] {
        if let Some(port) = self.port() {
            return port.key();
        }
        let mut random = Random::new(seed);
        let system = RandomState::new();
        let word = |word: u8| if self.is_memory() { random.draw() } else { system.hash_one(word) };
        let [low, high] = [0, 1].map(word).map(u64::to_ne_bytes);
        let mut key = [0; 16];
        key[..8].copy_from_slice(&low);
        key[8..].copy_from_slice(&high);
        key
    }

    /// Returns true if the frames of a connection come to this wire.
    pub(crate) fn owns(&self, tuple: &Tuple) -> bool {
        self.port().is_none_or(|port| port.owns(tuple))
    }

    /// Makes the frames of a connection come to this wire. Returns true if [`Self::forget_connection`] is needed at
    /// its end.
    pub(crate) fn claim_connection(&self, tuple: Tuple) -> bool {
        self.port().is_some_and(|port| port.claim(tuple))
    }

    pub(crate) fn forget_connection(&self, tuple: &Tuple) {
        if let Some(port) = self.port() {
            port.forget(tuple);
        }
    }

    /// Gives a frame to the stack of its connection, if that is another one on the same device.
    pub(crate) fn hand_over(&self, frame: &Frame, turned: bool) -> bool {
        self.port().is_some_and(|port| port.hand_over(frame, turned))
    }

    /// Returns the next frame to the own address that another stack on the same device has sent.
    pub(crate) fn take_turned(&self) -> Option<Frame> {
        self.port()?.take_turned()
    }

    /// Returns the device, if it is the wire's own.
    const fn link(&self) -> Option<&Link> {
        match &self.below {
            Below::Link(link) => Some(link),
            Below::Port(_) => None,
        }
    }

    /// Returns the share of a wire that this is, if it is one. Only a share knows the connections of each stack.
    const fn port(&self) -> Option<&Port> {
        match &self.below {
            Below::Port(port) => Some(port),
            Below::Link(_) => None,
        }
    }

    fn flush(&mut self, now: Instant) {
        while let Some(frame) = self.impairment.as_mut().and_then(|impairment| impairment.pop(now)) {
            self.put(now, &mut Frame::copy_of(&frame));
        }
    }

    fn put(&mut self, now: Instant, frame: &mut Frame) -> bool {
        let len = frame.len();
        let taken = match &mut self.below {
            Below::Link(link) => link.send(now, frame),
            Below::Port(port) => port.send(now, frame),
        };
        if taken {
            self.counters.sent += 1;
            self.counters.octets_sent += len as u64;
        } else {
            self.counters.send_lost += 1;
        }
        taken
    }
}

/// Records a frame with whole checksums. The device still may fill them in, as it has to if it cuts the frame.
fn record(capture: &mut Capture, now: Instant, frame: &mut Frame) {
    let is_trusted = frame.is_trusted;
    frame.complete();
    capture.record(now, frame);
    frame.is_trusted = is_trusted;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ImpairmentConfig, pair};

    #[test]
    fn opening_an_impossible_wire_gives_one_clear_line() {
        let table = [
            (Spec::Pair, 1500, "pair: a pair joins two stacks of one process"),
            (Spec::Tap("x".into()), 575, "an MTU of 575 is outside 576 to 65535"),
            (Spec::Tap("x".into()), 65_536, "an MTU of 65536 is outside 576 to 65535"),
        ];
        for (spec, mtu, text) in table {
            let error = Wire::open(&spec, mtu).unwrap_err();
            assert_eq!((error.kind(), error.to_string().as_str()), (io::ErrorKind::InvalidInput, text));
        }
        let error = Wire::open(&Spec::Unix("/nonexistent/weft".into()), 1500).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(error.to_string().starts_with("unix:/nonexistent/weft: "), "{error}");
    }

    #[test]
    fn a_capture_leaves_the_devices_work_to_the_device() {
        let (left, mut right) = pair(1500);
        let mut left = left.with_capture(Capture::new(Vec::new()));
        let mut frame = Frame::copy_of(&[7; 5000]);
        (frame.is_trusted, frame.segment) = (true, 1000);
        left.transmit(Instant::ZERO, &mut frame);
        assert!(right.take(Instant::ZERO, &mut frame));
        assert_eq!((frame.is_trusted, frame.segment, frame.len()), (true, 1000, 5000));
    }

    #[test]
    fn a_delayed_frame_comes_when_its_sender_is_polled_in_time() {
        let (left, mut right) = pair(1500);
        let delay = smoltcp::time::Duration::from_millis(5);
        let config = ImpairmentConfig { delay, ..ImpairmentConfig::default() };
        let mut left = left.with_impairment(Impairment::new(config));
        let mut frame = Vec::new();
        left.send(Instant::ZERO, &[9; 60]);
        assert!(!right.receive(Instant::ZERO, &mut frame));
        let due = left.poll_at().unwrap();
        assert_eq!(due, Instant::from_millis(5));
        assert!(!left.receive(due, &mut frame));
        assert!(right.receive(due, &mut frame) && frame == [9; 60]);
        assert_eq!(left.poll_at(), None);
    }
}
