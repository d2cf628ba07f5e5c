//! A host that poses as another one. On a wire nothing but a nonce says who a daemon is.

use std::net::SocketAddr;

use weft_daemon::Lanes;
use weft_sockets::far::Letter;
use weft_sockets::{Hello, RingPlace};

use crate::client::wait_until;
use crate::lanes::{Host, Talk, hosts, talk, wire};
use crate::space::{Space, tcp_between};
use crate::stranger::{Stranger, hello};

/// Two honest hosts whose lane is on a wire, and a third host with an address of its own on that wire.
struct Scene {
    spaces: [Space; 2],
    hosts: [Host; 2],
    talk: Talk,
    far: Space,
}

impl Scene {
    fn new() -> Option<Self> {
        let spaces = Space::two()?;
        let wires = ["10.78.0.1/24", "10.78.0.2/24"].map(|ip| wire("packet:w", ip));
        let mut hosts = hosts(&spaces, wires);
        let talk = talk(&spaces, &mut hosts);
        wait_until(|| spaces[0].established(Lanes::PORT) == 0);
        let far = spaces[0].stranger();
        Some(Self { spaces, hosts, talk, far })
    }

    /// Greets the first host by the TCP of the hosts, and names an address on the wire. Returns the greeting, which
    /// ends when it is dropped, and what the first host has said.
    fn greet(&self, wire: [u8; 4], nonce: u8) -> (Stranger, Hello) {
        let stranger = Stranger::new(&self.far);
        let theirs = stranger.greet(&self.far, &greeting(wire, nonce).encode()).expect("an answer");
        assert_eq!(theirs.wire, Some(on_wire([10, 78, 0, 1])), "the first host would come to the wire");
        (stranger, theirs)
    }

    /// Comes to the first host on the wire, from 10.78.0.9.
    fn come(&self, nonce: [u8; 16]) -> (Stranger, Option<Hello>) {
        let stranger = Stranger::on_wire(&self.spaces[1]);
        let answer = stranger.ask([10, 78, 0, 1], &Hello { nonce, ..hello() }.encode());
        (stranger, answer)
    }

    /// The honest connection and one that begins now have all their octets, and no lane has left the wire.
    fn goes_on(&mut self) {
        self.talk.exchange(&self.hosts);
        let mut next = talk(&self.spaces, &mut self.hosts);
        next.exchange(&self.hosts);
        self.talk.exchange(&self.hosts);
    }

    /// The first host tells nobody of a connection with the third one.
    fn has_no_lane_there(&mut self) {
        let (first, _second) = tcp_between(&self.spaces[0], &self.far);
        self.hosts[0].client.claim(&first);
        assert!(self.hosts[0].offer().is_none(), "the claim has gone to somebody");
    }
}

fn greeting(wire: [u8; 4], nonce: u8) -> Hello {
    Hello { wire: Some(on_wire(wire)), nonce: [nonce; 16], ..hello() }
}

fn on_wire(ip: [u8; 4]) -> SocketAddr {
    (ip, Lanes::PORT).into()
}

/// The stranger has greeted, and names its own address on the wire. It comes with nonces that it was not told: none,
/// its own, and one that differs in one bit.
#[test]
fn a_wrong_nonce_opens_no_lane_and_harms_nobody() {
    let Some(mut scene) = Scene::new() else { return };
    let (greeting, theirs) = scene.greet([10, 78, 0, 9], 3);
    let mut near = theirs.nonce;
    near[15] ^= 1;
    for nonce in [[0; 16], [3; 16], near] {
        let (_stranger, answer) = scene.come(nonce);
        assert_eq!(answer, None, "{nonce:?}");
        scene.goes_on();
    }
    scene.has_no_lane_there();
    scene.goes_on();
    drop(greeting);
}

/// The right nonce is of no use to anybody but the address that the greeting has named. Here the stranger has named
/// that of the second host, and comes from its own.
#[test]
fn a_greeting_in_the_name_of_another_host_opens_no_lane_and_harms_nobody() {
    let Some(mut scene) = Scene::new() else { return };
    let (greeting, theirs) = scene.greet([10, 78, 0, 2], 3);
    for nonce in [theirs.nonce, [3; 16]] {
        let (_stranger, answer) = scene.come(nonce);
        assert_eq!(answer, None, "{nonce:?}");
        scene.goes_on();
    }
    scene.has_no_lane_there();
    scene.goes_on();
    drop(greeting);
}

/// The control: with the nonce of its greeting the third host has a lane on the wire, after a wrong one, too. The claim
/// of a connection with it comes there. A second one with the same nonce has nothing.
#[test]
fn the_right_nonce_opens_a_lane() {
    let Some(mut scene) = Scene::new() else { return };
    let (greeting, theirs) = scene.greet([10, 78, 0, 9], 3);
    let (wrong, answer) = scene.come([4; 16]);
    assert_eq!(answer, None);
    drop(wrong);
    let (lane, answer) = scene.come(theirs.nonce);
    assert_eq!(answer.expect("a lane").nonce, [3; 16], "the first host shows the stranger's nonce");
    let (first, _second) = tcp_between(&scene.spaces[0], &scene.far);
    scene.hosts[0].client.claim(&first);
    let Letter::Claim { id, peer, .. } = lane.letter() else { panic!("no claim") };
    assert_eq!(peer.ip(), scene.far.ip.parse::<std::net::IpAddr>().expect("an address"));
    let ring = RingPlace::new(64, 16).expect("a place");
    lane.send(Letter::Open { id, channel: 1, stag: 1, ring, secret: [1, 2] });
    assert!(matches!(lane.letter(), Letter::Opened { .. }));
    scene.hosts[0].offer().expect("an offer");
    scene.goes_on();
    drop((greeting, lane));
}
