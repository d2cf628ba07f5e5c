//! CRC and Markers as the two startup frames say, in both roles and all combinations.

use weft_rnic::{CmEvent, ConnParam, Data, RecvWr, SendOpcode, Status};
use weft_tests::{PairConfig, RawPeer};

use crate::octets::{Framing, join, pattern, send};
use crate::world::{Role, World, content, whole, work};

/// The options in the startup frame of one side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish {
    pub(crate) markers: bool,
    pub(crate) crc: bool,
}

impl Wish {
    fn flags(self) -> u8 {
        u8::from(self.markers) << 7 | u8::from(self.crc) << 6
    }
}

const KEYS: [&str; 2] = ["4D504120494420526571204672616D65", "4D504120494420526570204672616D65"];

/// Starts a device that wants `ours` with a peer that wants `theirs`, up to Full Operation.
pub(crate) fn start(role: Role, ours: Wish, theirs: Wish) -> (World, RawPeer) {
    start_with(&PairConfig::default(), role, ours, theirs)
}

/// Does the same with more settings, whose MPA startup is replaced.
pub(crate) fn start_with(config: &PairConfig, role: Role, ours: Wish, theirs: Wish) -> (World, RawPeer) {
    let mpa =
        weft_mpa::Config { markers: ours.markers, crc: ours.crc, enhanced: false, ..Default::default() };
    let world = World::with(&PairConfig { mpa, ..config.clone() });
    let device = &world.side.device;
    let peer = match role {
        Role::Passive => {
            let peer = world.dial();
            peer.send(&join(KEYS[0], &[&[theirs.flags(), 1, 0, 0]]));
            device.accept(world.request().id, &world.side.qp, ConnParam::default()).unwrap();
            // The Reply states the result for the CRC, and the device's own wish for Markers.
            let result = Wish { crc: ours.crc || theirs.crc, ..ours };
            peer.expect(&join(KEYS[1], &[&[result.flags(), 1, 0, 0]]));
            peer
        }
        Role::Active => {
            let remote = world.address_of_peer();
            device.connect(&world.side.events, &world.side.qp, remote, ConnParam::default()).unwrap();
            let peer = world.host.accept();
            peer.expect(&join(KEYS[0], &[&[ours.flags(), 1, 0, 0]]));
            peer.send(&join(KEYS[1], &[&[theirs.flags(), 1, 0, 0]]));
            peer
        }
    };
    assert!(matches!(world.event(), CmEvent::Established { .. }));
    (world, peer)
}

/// Sends of sizes that put Markers at different places, in both directions.
fn exchange(role: Role, ours: Wish, theirs: Wish) {
    let (world, peer) = start(role, ours, theirs);
    let crc = ours.crc || theirs.crc;
    let (mut inward, mut outward) = (Framing::new(crc, ours.markers), Framing::new(crc, theirs.markers));
    let memory = world.side.memory(1400);
    for (msn, size) in (1..).zip([0, 5, 456, 484, 488, 487, 1400, 1]) {
        let case = format!("{role:?}, device {ours:?}, peer {theirs:?}, {size} octets");
        let payload = pattern(size);
        world.side.qp.post_recv(&RecvWr { wr_id: 1, sges: &[whole(&memory)] }).unwrap();
        peer.send(&inward.fpdu(&send(msn, &payload)));
        let received = world.completion();
        assert_eq!((received.status, received.byte_len as usize), (Status::Success, size), "{case}");
        assert_eq!(content(&memory)[..size], payload, "{case}");
        let sges = [memory.sge(0, u32::try_from(size).unwrap())];
        world.side.qp.post_send(&work(2, SendOpcode::Send, Data::Sges(&sges))).unwrap();
        peer.expect(&outward.fpdu(&send(msn, &payload)));
        assert_eq!(world.completion().status, Status::Success, "{case}");
    }
}

#[test]
fn every_combination_of_both_sides_wishes() {
    let wishes = [false, true].map(|markers| [false, true].map(|crc| Wish { markers, crc }));
    for ours in wishes.as_flattened() {
        for theirs in wishes.as_flattened() {
            exchange(Role::Passive, *ours, *theirs);
            exchange(Role::Active, *ours, *theirs);
        }
    }
}

/// Without CRC its field may hold anything.
#[test]
fn the_crc_field_is_ignored_if_no_side_wants_crcs() {
    let off = Wish { markers: false, crc: false };
    for role in [Role::Passive, Role::Active] {
        let (world, peer) = start(role, off, off);
        let memory = world.side.memory(16);
        world.side.qp.post_recv(&RecvWr { wr_id: 1, sges: &[whole(&memory)] }).unwrap();
        let mut octets = Framing::new(false, false).fpdu(&send(1, b"hello"));
        let end = octets.len();
        octets[end - 4..].copy_from_slice(&[0xDE, 0xAD, 0xBE, 0xEF]);
        peer.send(&octets);
        assert_eq!(
            (world.completion().status, content(&memory)[..5].to_vec()),
            (Status::Success, b"hello".to_vec())
        );
    }
}
