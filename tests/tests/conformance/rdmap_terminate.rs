//! The Terminate header that the device sends (RFC 5040 section 4.8), in every case of the error tables that a peer or the
//! own application can bring about: figures 9 and 10, RFC 5041 section 7.2 and RFC 5044 section 8.

use weft_rnic::{Access, ConnParam, DisconnectReason, Mr};
use weft_tests::{PairConfig, RawPeer, hex};

use crate::octets::{
    Framing, Place, bare_terminate, fpdu, join, pattern, read_request, send, send_invalidate, send_part, tagged,
    write,
};
use crate::rdmap_wire::{ROLES, read_ulpdu};
use crate::world::{Role, World, filled, whole};

/// What the device has: a receive of 16 octets, and memory of 64 octets each.
struct Stage {
    world: World,
    peer: RawPeer,
    target: Mr,
    write_only: Mr,
    read_only: Mr,
    foreign: Mr,
}

impl Stage {
    fn new(role: Role) -> Self {
        let world = World::with(&PairConfig::default());
        let register = |access| world.side.pd.register(64, access).unwrap();
        let (write_only, read_only) =
            (register(Access::LOCAL_WRITE | Access::REMOTE_WRITE), register(Access::REMOTE_READ));
        let foreign = world.side.device.alloc_pd().register(64, Access::ALL).unwrap();
        let target = filled(&world.side, 64);
        let inbox = filled(&world.side, 16);
        world.side.post_recv(1, whole(&inbox));
        let param = ConnParam { ird: Some(2), ..ConnParam::default() };
        let peer = world.establish_with(role, &world.side.qp, param);
        // The receive's memory stays; nobody looks at it.
        std::mem::forget(inbox);
        Self { world, peer, target, write_only, read_only, foreign }
    }
}
