use std::io;
use std::os::fd::BorrowedFd;

use smoltcp::time::Instant;

use crate::capture::Capture;
use crate::impair::Impairment;
use crate::pair::PairEnd;
use crate::spec::Spec;
use crate::tap::Tap;
use crate::unix::UnixLink;

/// One end of an Ethernet, with an optional capture and an optional impairment on it.
///
/// Frames have no frame check sequence. The capture is outermost: it sees what is sent before the impairment
/// loses it, and what is received after the peer's. The impairment acts on what is sent here; two wires of a
/// pair have one each.
#[derive(Debug)]
pub struct Wire {
    link: Link,
    mtu: usize,
    capture: Option<Capture>,
    impairment: Option<Impairment>,
    counters: WireCounters,
}

/// What a [`Wire`] has done so far, in frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct WireCounters {
    /// Taken by the device.
    pub sent: u64,
    /// Given by the device.
    pub received: u64,
    /// Not taken by the device: it was full, down, or nobody was at the other end.
    pub send_lost: u64,
    /// Not sent since longer than the MTU and the Ethernet header.
    pub too_long: u64,
}

#[derive(Debug)]
pub(crate) enum Link {
    Pair(PairEnd),
    Unix(UnixLink),
    Tap(Tap),
}

impl Wire {
    /// Opens the device `spec` for IP packets of up to `mtu` octets.
    ///
    /// `unix` fails while nobody listens at its path; trying again is the caller's choice. `unix-listen`
    /// returns at once; peers are accepted later, one at a time, and what is sent while there is none is
    /// lost.
    ///
    /// # Errors
    /// `InvalidInput` for [`Spec::Pair`] (see [`pair`](crate::pair)) and for an MTU outside 576 to 65535,
    /// else what the system says, with the device's name and, for the frequent cases, what to do about it.
    pub fn open(spec: &Spec, mtu: usize) -> io::Result<Self> {
        if !(MIN_MTU..=MAX_MTU).contains(&mtu) {
            let text = format!("an MTU of {mtu} is outside {MIN_MTU} to {MAX_MTU}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let link = match spec {
            Spec::Pair => {
                Err(io::Error::new(io::ErrorKind::InvalidInput, "a pair joins two stacks of one process"))
            }
            Spec::Unix(path) => UnixLink::connect(path).map(Link::Unix),
            Spec::UnixListen(path) => UnixLink::listen(path).map(Link::Unix),
            Spec::Tap(name) => Tap::open(name).map(Link::Tap),
        };
        match link {
            Ok(link) => Ok(Self::new(link, mtu)),
            Err(error) => Err(io::Error::new(error.kind(), format!("{spec}: {error}"))),
        }
    }

    pub(crate) fn new(link: Link, mtu: usize) -> Self {
        Self { link, mtu, capture: None, impairment: None, counters: WireCounters::default() }
    }

    /// The same wire with every frame recorded.
    #[must_use]
    pub fn with_capture(self, capture: Capture) -> Self {
        Self { capture: Some(capture), ..self }
    }

    /// The same wire with what is sent impaired.
    #[must_use]
    pub fn with_impairment(self, impairment: Impairment) -> Self {
        Self { impairment: Some(impairment), ..self }
    }

    /// Takes the capture off, to finish it.
    pub const fn take_capture(&mut self) -> Option<Capture> {
        self.capture.take()
    }

    /// Sends a frame, or loses it, as wires do. The counters tell.
    pub fn send(&mut self, now: Instant, frame: &[u8]) {
        if frame.len() > self.mtu + ETHERNET_HEADER {
            self.counters.too_long += 1;
            return;
        }
        if let Some(capture) = &mut self.capture {
            capture.record(now, frame);
        }
        if let Some(impairment) = &mut self.impairment {
            impairment.push(now, frame);
            self.flush(now);
        } else {
            self.put(now, frame);
        }
    }

    /// Puts the next received frame into `frame`, in place of what was there; false when there is none.
    pub fn receive(&mut self, now: Instant, frame: &mut Vec<u8>) -> bool {
        self.flush(now);
        let received = match &mut self.link {
            Link::Pair(end) => end.receive(frame),
            Link::Unix(link) => link.receive(now, frame),
            Link::Tap(tap) => tap.receive(frame),
        };
        if received {
            self.counters.received += 1;
            if let Some(capture) = &mut self.capture {
                capture.record(now, frame);
            }
        }
        received
    }

    /// When to call [`Wire::receive`] even if nothing arrives: a delayed frame is due, or a lost peer is to
    /// be looked for again.
    #[must_use]
    pub fn poll_at(&self) -> Option<Instant> {
        let retry = if let Link::Unix(link) = &self.link { link.poll_at() } else { None };
        let due = self.impairment.as_ref().and_then(Impairment::poll_at);
        [retry, due].into_iter().flatten().min()
    }

    /// What becomes readable when a frame arrives, to sleep on. It may be another one after each call of
    /// [`Wire::receive`]. None for a Unix socket without peer, or when the kernel has no eventfd to give.
    #[must_use]
    pub fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.link {
            Link::Pair(end) => end.poll_fd(),
            Link::Unix(link) => link.poll_fd(),
            Link::Tap(tap) => Some(tap.poll_fd()),
        }
    }

    /// Whether a frame is known to wait, without asking the kernel.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        match &self.link {
            Link::Pair(end) => end.is_readable(),
            Link::Unix(link) => link.is_readable(),
            Link::Tap(_) => false,
        }
    }

    /// Whether octets wait for [`Wire::poll_fd`] to become writable (Unix sockets only); a sleeper should
    /// wait for that too, and then call [`Wire::receive`].
    #[must_use]
    pub fn wants_write(&self) -> bool {
        matches!(&self.link, Link::Unix(link) if link.wants_write())
    }

    /// The IP MTU.
    #[must_use]
    pub const fn mtu(&self) -> usize {
        self.mtu
    }

    /// The impairment, for its counts.
    #[must_use]
    pub const fn impairment(&self) -> Option<&Impairment> {
        self.impairment.as_ref()
    }

    /// What the wire has done so far.
    #[must_use]
    pub const fn counters(&self) -> WireCounters {
        self.counters
    }

    fn flush(&mut self, now: Instant) {
        while let Some(frame) = self.impairment.as_mut().and_then(|impairment| impairment.pop(now)) {
            self.put(now, &frame);
        }
    }

    fn put(&mut self, now: Instant, frame: &[u8]) {
        let taken = match &mut self.link {
            Link::Pair(end) => end.send(frame),
            Link::Unix(link) => link.send(now, frame),
            Link::Tap(tap) => tap.send(frame),
        };
        if taken {
            self.counters.sent += 1;
        } else {
            self.counters.send_lost += 1;
        }
    }
}

pub(crate) const ETHERNET_HEADER: usize = 14;
/// Every IPv4 host takes this much (RFC 791).
pub(crate) const MIN_MTU: usize = 576;
/// The total length of an IPv4 packet has 16 bits.
pub(crate) const MAX_MTU: usize = 65_535;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ImpairmentConfig, pair};

    #[test]
    fn opening_without_sense_gives_one_clear_line() {
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
