//! The device that smoltcp sees.

use core::num::NonZeroUsize;

use smoltcp::phy::{
    Checksum, Device, DeviceCapabilities, Medium, RxToken, SegmentationCapabilities, TxToken,
};
use smoltcp::time::Instant;

use crate::ethernet::ETHERNET_HEADER;
use crate::frame::Frame;

/// The device that smoltcp sees: room for one received frame, and a list of frames to send. The stack decides which
/// socket set gets the received frame, and where the others go. Buffers are used again, the last one first, while it is
/// in the cache.
///
/// smoltcp neither fills in nor verifies the checksums of IPv4 and TCP. The wire fills them in if needed, and the
/// stack verifies those that no device has verified.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) incoming: Frame,
    pub(crate) outgoing: Vec<Frame>,
    /// The number of tokens that were given out for sending, used or not.
    pub(crate) offered: u64,
    loaded: bool,
    spare: Vec<Frame>,
    mtu: usize,
    /// The octets of the longest frame that the device cuts into segments, if it does.
    segmentation: Option<NonZeroUsize>,
}

impl Slot {
    /// An empty slot. `segments` is true if the device cuts long frames into segments.
    pub(crate) fn new(mtu: usize, segments: bool) -> Self {
        Self {
            incoming: Frame::default(),
            outgoing: Vec::new(),
            offered: 0,
            loaded: false,
            spare: Vec::new(),
            mtu,
            segmentation: if segments { longest_frame(mtu) } else { None },
        }
    }

    /// Has the next receive return `incoming`.
    pub(crate) const fn load(&mut self) {
        self.loaded = true;
    }

    /// Takes back the buffer of a frame that was sent.
    pub(crate) fn recycle(&mut self, frame: Frame) {
        if self.spare.len() < MAX_SPARE {
            self.spare.push(frame);
        }
    }
}

impl Device for Slot {
    type RxToken<'a> = Received<'a>;
    type TxToken<'a> = Sending<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Received<'_>, Sending<'_>)> {
        if !std::mem::take(&mut self.loaded) {
            return None;
        }
        Some((Received(&self.incoming), Sending { outgoing: &mut self.outgoing, spare: &mut self.spare }))
    }

    fn transmit(&mut self, _: Instant) -> Option<Sending<'_>> {
        self.offered += 1;
        Some(Sending { outgoing: &mut self.outgoing, spare: &mut self.spare })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut segmentation = SegmentationCapabilities::default();
        segmentation.tcpv4 = self.segmentation;
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = self.mtu + ETHERNET_HEADER;
        capabilities.checksum.ipv4 = Checksum::None;
        capabilities.checksum.tcp = Checksum::None;
        capabilities.segmentation = segmentation;
        capabilities
    }
}

pub(crate) struct Received<'a>(&'a [u8]);

impl RxToken for Received<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(self.0)
    }
}

pub(crate) struct Sending<'a> {
    outgoing: &'a mut Vec<Frame>,
    spare: &'a mut Vec<Frame>,
}

impl TxToken for Sending<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut frame = self.spare.pop().unwrap_or_default();
        frame.reset(len);
        let result = f(&mut frame);
        frame.is_trusted = true;
        self.outgoing.push(frame);
        result
    }
}

/// Returns the longest frame of whole segments that the kernel takes; `None` if that is only one segment.
fn longest_frame(mtu: usize) -> Option<NonZeroUsize> {
    let mss = mtu - IPV4_HEADERS;
    let segments = (MAX_SEGMENTED - ETHERNET_HEADER - IPV4_HEADERS) / mss;
    if segments < 2 { None } else { NonZeroUsize::new(ETHERNET_HEADER + IPV4_HEADERS + segments * mss) }
}

/// The most buffers that are kept. More are under way only in frames that turn round, which may cost an allocation.
const MAX_SPARE: usize = 64;
/// AF_PACKET takes no frames of 64 KiB and more with their headers.
const MAX_SEGMENTED: usize = 65_500;
const IPV4_HEADERS: usize = 40;
