//! Lengths that every wire uses: of headers, and of the IP packets in Ethernet frames.

/// The octets of an Ethernet header. Frames have neither a VLAN tag nor a frame check sequence.
pub(crate) const ETHERNET_HEADER: usize = 14;
/// The octets of virtio's header, which precedes a frame if the device has offloads (virtio 1.2, section 5.1.6).
pub(crate) const VNET_HEADER: usize = 10;
/// The smallest MTU: every IPv4 host takes packets of this length (RFC 791).
pub(crate) const MIN_MTU: usize = 576;
/// The largest MTU: the total length of an IPv4 packet has 16 bits.
pub(crate) const MAX_MTU: usize = 65_535;
/// The octets of the longest frame that any device takes or gives.
pub(crate) const MAX_FRAME: usize = ETHERNET_HEADER + MAX_MTU;
