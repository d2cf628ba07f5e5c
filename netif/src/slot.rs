use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::time::Instant;

use crate::wire::ETHERNET_HEADER;

/// The device that smoltcp sees: room for one received frame, and a list of frames it wants to send. The
/// stack decides which socket set gets the one, and where the others go. Buffers are used again.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) incoming: Vec<u8>,
    pub(crate) outgoing: Vec<Vec<u8>>,
    /// Tokens given out for sending, whether or not something was sent by them.
    pub(crate) offered: u64,
    loaded: bool,
    spare: Vec<Vec<u8>>,
    mtu: usize,
}

impl Slot {
    pub(crate) const fn new(mtu: usize) -> Self {
        Self { incoming: Vec::new(), outgoing: Vec::new(), offered: 0, loaded: false, spare: Vec::new(), mtu }
    }

    /// Makes `incoming` the frame that the next receive gets.
    pub(crate) const fn load(&mut self) {
        self.loaded = true;
    }

    /// Takes back the buffer of a frame that was sent.
    pub(crate) fn recycle(&mut self, buffer: Vec<u8>) {
        if self.spare.len() < MAX_SPARE {
            self.spare.push(buffer);
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
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = self.mtu + ETHERNET_HEADER;
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
    outgoing: &'a mut Vec<Vec<u8>>,
    spare: &'a mut Vec<Vec<u8>>,
}

impl TxToken for Sending<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.clear();
        buffer.resize(len, 0);
        let result = f(&mut buffer);
        self.outgoing.push(buffer);
        result
    }
}

/// More are never under way at once but in frames turned round, which can wait for an allocation.
const MAX_SPARE: usize = 64;
