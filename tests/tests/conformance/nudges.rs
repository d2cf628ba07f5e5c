//! Empty Writes to a peer that is silent at first. Linux siw reads octets that have come only after such a Write.

use weft_netif::Duration;
use weft_rnic::ConnParam;
use weft_tests::PairConfig;

use crate::handshake::{PEER_TO_PEER, REPLY, REQUEST, connect, enhanced};
use crate::octets::{fpdu, tagged, vector};
use crate::world::{Role, World, exchange};

const AFTER: Duration = Duration::from_millis(200);

fn world() -> World {
    World::with(&PairConfig { nudge_after: Some(AFTER), ..PairConfig::default() })
}

/// Returns a Write of no octets to an invalid place.
fn nudge() -> Vec<u8> {
    fpdu(&tagged("C140", 1, 0, b""))
}

/// The device sends five nudges, each after twice the pause of the one before.
#[test]
fn an_initiator_nudges_a_silent_peer() {
    let world = world();
    let peer = world.establish(Role::Active);
    let mut pause = AFTER;
    for _ in 0..5 {
        let before = world.host.now();
        peer.expect(&nudge());
        let waited = world.host.now() - before;
        assert!(waited >= pause && waited < pause + AFTER, "{waited} instead of {pause}");
        pause *= 2;
    }
    world.host.settle(AFTER * 1000);
    peer.expect_silence();
    exchange(&world, &world.side.qp, &peer, 1);
}

/// The RTR message does not show whether the peer has read it. So the device nudges with another Write.
#[test]
fn a_peer_that_has_got_an_rtr_message_is_nudged() {
    let world = world();
    let peer = connect(&world, PEER_TO_PEER);
    peer.expect(&enhanced(REQUEST, 0xF, 16, 16));
    peer.send(&enhanced(REPLY, 0xA, 16, 16));
    peer.expect(&[nudge(), nudge()].concat());
}

#[test]
fn a_peer_that_has_sent_an_fpdu_is_not_nudged() {
    let world = world();
    let peer = world.establish(Role::Active);
    peer.send(&vector("write0"));
    world.host.settle(AFTER * 100);
    peer.expect_silence();
}

/// The initiator has to begin.
#[test]
fn a_responder_sends_no_nudge() {
    let world = world();
    let peer = world.establish_with(Role::Passive, &world.side.qp, ConnParam::default());
    world.host.settle(AFTER * 100);
    peer.expect_silence();
}
