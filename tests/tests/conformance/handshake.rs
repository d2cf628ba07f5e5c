//! Startup frames, written down and compared octet by octet. The part behind the key is hexadecimal.

use weft_mpa::RtrSet;
use weft_netif::Duration;
use weft_rnic::{CmEvent, ConnParam};
use weft_tests::{PairConfig, RawPeer, hex};

use crate::octets::join;
use crate::world::World;

/// The key of a Request.
pub(crate) const REQUEST: &str = "4D504120494420526571204672616D65";
/// The key of a Reply.
pub(crate) const REPLY: &str = "4D504120494420526570204672616D65";
/// The default frame of a device, behind the key: CRC, enhanced data, 16 Reads in each direction.
pub(crate) const DEFAULT: &str = "50 02 0004 0010 0010";
/// The depth is left to the ULPs (RFC 6581 section 9.1).
pub(crate) const OPEN: u16 = 0x3FFF;

/// A device whose depths may be anything.
pub(crate) fn world_of(mpa: weft_mpa::Config) -> World {
    World::with(&PairConfig { mpa, max_reads: OPEN - 1, ..PairConfig::default() })
}

/// The default settings with these RTR messages: bits 4, 2 and 1 for Send, Write and Read, in the order of B, C and D.
pub(crate) fn with_rtr(bits: u16) -> weft_mpa::Config {
    let rtr = RtrSet { send: bits & 4 != 0, write: bits & 2 != 0, read: bits & 1 != 0 };
    weft_mpa::Config { rtr, ..weft_mpa::Config::default() }
}

/// Asks for the peer-to-peer start.
pub(crate) const PEER_TO_PEER: ConnParam<'static> = ConnParam { peer_to_peer: Some(true), ..ConnParam::NONE };

/// A frame of revision 2 with enhanced data: A, B, C and D as the bits 8, 4, 2 and 1, then IRD and ORD.
pub(crate) fn enhanced(key: &str, flags: u16, ird: u16, ord: u16) -> Vec<u8> {
    let first = flags << 12 & 0xC000 | ird;
    let second = flags << 14 & 0xC000 | ord;
    join(key, &[&hex("50 02 0004"), &first.to_be_bytes(), &second.to_be_bytes()])
}

/// The peer connects and sends a Request.
pub(crate) fn ask(world: &World, request: &[u8]) -> RawPeer {
    let peer = world.dial();
    peer.send(request);
    peer
}

/// The application accepts on the device's own queue pair.
pub(crate) fn accept(world: &World, param: ConnParam<'_>) {
    let request = world.request();
    world.side.device.accept(request.id, &world.side.qp, param).unwrap();
}

/// The device connects. Returns the peer, which has received the Request.
pub(crate) fn connect(world: &World, param: ConnParam<'_>) -> RawPeer {
    let remote = world.address_of_peer();
    world.side.device.connect(&world.side.events, &world.side.qp, remote, param).unwrap();
    world.host.accept()
}

/// Returns the depths in the application's event of an established connection: its IRD and ORD, and the peer's.
pub(crate) fn depths(world: &World) -> ((u16, u16), Option<(u16, u16)>) {
    match world.event() {
        CmEvent::Established { ird, ord, peer_depths, .. } => ((ird, ord), peer_depths),
        event => panic!("{event:?} instead of a connection"),
    }
}

/// Lets all immediate events happen.
pub(crate) fn moment(world: &World) {
    world.host.settle(Duration::from_millis(100));
}
