//! The device that smoltcp sees.

use core::num::NonZeroUsize;

use smoltcp::phy::{
    Checksum, Device, DeviceCapabilities, Medium, RxToken, SegmentationCapabilities, TxToken,
};
use smoltcp::time::Instant;

use crate::ethernet::ETHERNET_HEADER;
use crate::frame::Frame;

/// The device that smoltcp sees: room for one received frame, and a list of frames it wants to send. The
/// stack decides which socket set gets the one, and where the others go. Buffers are used again, the last one first, while it
/// is in the cache.
///
/// The checksums of IPv4 and TCP are not smoltcp's matter: the wire fills them in where they are needed, and the stack verifies
/// them where they were.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) incoming: Frame,
    pub(crate) outgoing: Vec<Frame>,
    /// Tokens given out for sending, whether or not something was sent by them.
    pub(crate) offered: u64,
    loaded: bool,
    spare: Vec<Frame>,
    mtu: usize,
    /// Octets of the longest frame that the device cuts into segments.
    segmentation: Option<NonZeroUsize>,
}

impl Slot {
    /// `segments` says whether the device cuts long frames into segments.
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

    /// Makes `incoming` the frame that the next receive gets.
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

/// As many whole segments as fit into what the kernel takes, so that a frame does not end within one; none for a device whose
/// MTU is as long.
fn longest_frame(mtu: usize) -> Option<NonZeroUsize> {
    let mss = mtu - IPV4_HEADERS;
    let segments = (MAX_SEGMENTED - ETHERNET_HEADER - IPV4_HEADERS) / mss;
    if segments < 2 { None } else { NonZeroUsize::new(ETHERNET_HEADER + IPV4_HEADERS + segments * mss) }
}

/// More are never under way at once but in frames turned round, which can wait for an allocation.
const MAX_SPARE: usize = 64;
/// AF_PACKET refuses for ever what makes 64 KiB and more together with its headers.
const MAX_SEGMENTED: usize = 65_500;
const IPV4_HEADERS: usize = 40;
