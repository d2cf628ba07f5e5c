//! Connections between two hosts: over the TCP of the hosts, and over a wire of the daemons' own.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::Duration;

use weft_daemon::{Config, Lanes, Wire};
use weft_sockets::layout::{ATTACHED, CLOSED, COMMITTED, Direction};
use weft_sockets::sync::Ordering;
use weft_sockets::{Carrier, Leg, Link, Reason, RingPlace, ToDaemon, ToProcess};

use crate::client::{Client, Mail, is_readable, wait_until};
use crate::puppet::Puppet;
use crate::run::{Running, config};
use crate::space::{Space, tcp_between};

/// A daemon and a process of a host.
pub(crate) struct Host {
    /// Runs until the host is dropped.
    daemon: Running,
    pub(crate) client: Client,
    links: BTreeMap<u64, Link>,
}

/// One end of a connection with a channel, as its process knows it.
#[derive(Clone, Copy)]
pub(crate) struct End {
    pub(crate) channel: (u64, u32, u8),
    ring: RingPlace,
}

impl Host {
    pub(crate) fn new(space: &Space, lanes: Lanes) -> Self {
        let config = Config { lanes: Some(lanes), ..config() };
        Self::of(space, space.run(|| Running::start(&config)))
    }

    /// A host with this daemon.
    pub(crate) fn of(space: &Space, daemon: Running) -> Self {
        let client = space.run(|| Client::registered(&daemon.address.to_string()));
        Self { daemon, client, links: BTreeMap::new() }
    }

    /// Waits until a connection that was claimed has a channel. `None`: it has none.
    pub(crate) fn offer(&mut self) -> Option<End> {
        loop {
            let Mail { message, descriptors } = self.client.mail();
            match message {
                ToProcess::LinkMade { link, .. } => {
                    self.links.insert(link, Link::map(&descriptors[0]).expect("a link"));
                }
                ToProcess::Offer { link, channel, party, ring, .. } => {
                    return Some(End { channel: (link, channel, party), ring });
                }
                ToProcess::Dropped { reason: Reason::NoPartner, .. } => return None,
                ToProcess::PeerStatus { .. } | ToProcess::PeerBell { .. } => {}
                other => panic!("{other:?} and no offer"),
            }
        }
    }

    fn link(&self, end: &End) -> &Link {
        &self.links[&end.channel.0]
    }

    /// The words of what an end sends, and of what it reads.
    pub(crate) fn words(&self, end: &End) -> (&Direction, &Direction) {
        let (_, number, party) = end.channel;
        let [first, second] = &self.link(end).channel(number).expect("a channel").directions;
        if party == 0 { (first, second) } else { (second, first) }
    }

    /// Rings the daemon as the library does, behind a publication.
    pub(crate) fn ring(&self, end: &End) {
        let (link, _, party) = end.channel;
        self.client.send(ToDaemon::Ring { link, party, sleeper: None }, &[]);
    }

    /// Sends octets by the ring, from this position on. The ring begins there, if it has not begun yet.
    pub(crate) fn send(&self, end: &End, at: usize, octets: &[u8]) {
        let (ours, _) = self.words(end);
        let position = at as u64;
        if ours.legs.leg.load(Ordering::Relaxed) == 0 {
            wait_until(|| ours.reader.attached.load(Ordering::Acquire) == ATTACHED);
            ours.reader.attached.store(COMMITTED, Ordering::Release);
            ours.producer.tail.store(position, Ordering::Relaxed);
            ours.legs.start.store(position, Ordering::Relaxed);
            let leg = Leg { number: 1, carrier: Carrier::Ring(end.ring) };
            ours.legs.leg.store(leg.to_word(), Ordering::Release);
        }
        assert!(self.link(end).ring(end.ring).write(at, octets), "this end does not know how a ring turns");
        ours.producer.tail.store(position + octets.len() as u64, Ordering::Release);
        self.ring(end);
    }

    /// Reads octets by the ring, from this position on.
    pub(crate) fn receive(&self, end: &End, at: usize, len: usize) -> Vec<u8> {
        let (_, theirs) = self.words(end);
        let position = (at + len) as u64;
        wait_until(|| theirs.producer.tail.load(Ordering::Acquire) >= position);
        let leg = Leg::from_word(theirs.legs.leg.load(Ordering::Acquire)).expect("a leg");
        let Carrier::Ring(ring) = leg.carrier else { panic!("{leg:?}") };
        let mut octets = vec![0; len];
        assert!(self.link(end).ring(ring).read(at, &mut octets));
        theirs.consumer.adopted.store(1, Ordering::Release);
        theirs.consumer.head.store(position, Ordering::Release);
        self.ring(end);
        octets
    }

    /// The process has the channel, and the reader of its end takes octets from a ring from now on.
    pub(crate) fn attach(&self, end: &End) {
        let (ours, theirs) = self.words(end);
        ours.legs.present.store(1, Ordering::Release);
        theirs.reader.attached.store(ATTACHED, Ordering::Release);
        self.ring(end);
    }
}

/// Joins two ends, and sends octets both ways: by TCP first and then by rings.
pub(crate) fn talk(spaces: &[Space; 2], hosts: &mut [Host; 2]) -> Talk {
    let [one, other] = spaces;
    let (mut first, mut second) = tcp_between(one, other);
    first.write_all(&[7; 20]).expect("sent");
    second.read_exact(&mut [0; 20]).expect("received");
    let [here, there] = hosts;
    // The second time if the daemons had no lane within the time of a claim.
    let ends = (0..2).find_map(|_| {
        here.client.claim(&first);
        there.client.claim(&second);
        let [first, second] = [here.offer(), there.offer()];
        Some([first?, second?])
    });
    let ends = ends.expect("offers");
    here.attach(&ends[0]);
    there.attach(&ends[1]);
    let mut talk = Talk { _streams: (first, second), ends, turn: 0 };
    talk.exchange(hosts);
    talk
}

/// A connection with a channel at both hosts.
pub(crate) struct Talk {
    _streams: (TcpStream, TcpStream),
    pub(crate) ends: [End; 2],
    turn: usize,
}

impl Talk {
    /// Sends 1,000 octets each way.
    pub(crate) fn exchange(&mut self, hosts: &[Host; 2]) {
        let turn = self.turn;
        self.turn += 1;
        let octets = |from: usize| -> Vec<u8> {
            (0..1000).map(|at| u8::try_from((at * 7 + turn + from) % 256).expect("an octet")).collect()
        };
        for (from, to, start) in [(0, 1, 20), (1, 0, 0)] {
            let at = start + turn * 1000;
            hosts[from].send(&self.ends[from], at, &octets(from));
            assert_eq!(hosts[to].receive(&self.ends[to], at, 1000), octets(from), "turn {turn}");
        }
    }
}

pub(crate) fn wire(spec: &str, ip: &str) -> Option<Wire> {
    Some(Wire { spec: spec.parse().expect("a device"), ip: ip.parse().expect("an address"), mtu: 1500 })
}

pub(crate) fn hosts(spaces: &[Space; 2], wires: [Option<Wire>; 2]) -> [Host; 2] {
    let [first, second] = wires;
    [(0, first), (1, second)].map(|(at, wire)| Host::new(&spaces[at], Lanes { wire, ..lanes() }))
}

/// Settings for hosts in namespaces. The kernel tells the routes of the first thread's namespace, so they are not asked.
pub(crate) fn lanes() -> Lanes {
    Lanes { networks: "10.77.0.0/16".parse().expect("a network"), ..Lanes::default() }
}

/// Connections of the hosts' TCP that are lanes, as the first host sees them.
fn lanes_of_the_kernel(spaces: &[Space; 2]) -> usize {
    spaces[0].established(Lanes::PORT)
}

#[test]
fn without_a_wire_lanes_go_by_the_tcp_of_the_hosts() {
    let Some(spaces) = Space::two() else { return };
    let mut hosts = hosts(&spaces, [None, None]);
    let mut talking = talk(&spaces, &mut hosts);
    assert_eq!(lanes_of_the_kernel(&spaces), 1);
    (1..20).for_each(|_| talking.exchange(&hosts));
    talk(&spaces, &mut hosts);
    assert_eq!(lanes_of_the_kernel(&spaces), 1, "one lane carries all connections");
}

/// Two daemons with these wires leave the TCP of their hosts, and all octets come right.
fn assert_lane_on_wires(spaces: &[Space; 2], wires: [Option<Wire>; 2]) {
    let mut hosts = hosts(spaces, wires);
    let mut talking = talk(spaces, &mut hosts);
    wait_until(|| lanes_of_the_kernel(spaces) == 0);
    (1..20).for_each(|_| talking.exchange(&hosts));
    talk(spaces, &mut hosts);
    assert_eq!(lanes_of_the_kernel(spaces), 0);
}

#[test]
fn two_daemons_with_wires_have_their_lane_there() {
    let Some(spaces) = Space::two() else { return };
    assert_lane_on_wires(&spaces, [wire("packet:w", "10.78.0.1/24"), wire("packet:w", "10.78.0.2/24")]);
}

#[test]
fn a_lane_goes_by_af_xdp() {
    let Some(spaces) = Space::two() else { return };
    let wires = ["10.78.0.1/24", "10.78.0.2/24"].map(|ip| wire("xdp:w", ip));
    let spec = "xdp:w".parse().expect("a device");
    if let Err(error) = spaces[0].run(|| weft_netif::Wire::open(&spec, 1500)) {
        let text = error.to_string();
        assert!(text.contains("needs CAP") || text.contains("has no AF_XDP"), "{text}");
        println!("skipped: {text}");
        return;
    }
    assert_lane_on_wires(&spaces, wires);
}

/// Each host has a bridge with its TAP device and an interface to the other host.
#[test]
fn a_lane_goes_by_tap_devices_on_bridges() {
    let Some(spaces) = Space::two() else { return };
    if let Err(error) = std::fs::File::open("/dev/net/tun") {
        println!("skipped: no TAP devices: {error}");
        return;
    }
    spaces[0].link("v", &spaces[1]);
    for space in &spaces {
        space.command(&["ip", "link", "add", "name", "bridge", "type", "bridge"]);
        space.command(&["ip", "tuntap", "add", "dev", "tap", "mode", "tap"]);
        for name in ["v", "tap"] {
            space.command(&["ip", "link", "set", name, "master", "bridge", "up"]);
        }
        space.command(&["ip", "link", "set", "bridge", "up"]);
    }
    assert_lane_on_wires(&spaces, [wire("tap:tap", "10.78.0.1/24"), wire("tap:tap", "10.78.0.2/24")]);
}

#[test]
fn a_lane_goes_by_a_unix_socket() {
    let Some(spaces) = Space::two() else { return };
    let path = std::env::temp_dir().join(format!("weft-lane-{}", std::process::id()));
    let path = path.display();
    let wires =
        [wire(&format!("unix-listen:{path}"), "10.78.0.1/24"), wire(&format!("unix:{path}"), "10.78.0.2/24")];
    assert_lane_on_wires(&spaces, wires);
}

#[test]
fn a_wire_of_one_daemon_alone_is_not_used() {
    let Some(spaces) = Space::two() else { return };
    for at in [0, 1] {
        let mut wires = [None, None];
        wires[at] = wire("packet:w", "10.78.0.1/24");
        let mut hosts = hosts(&spaces, wires);
        talk(&spaces, &mut hosts);
        // The lane of the turn before may be about to end.
        wait_until(|| lanes_of_the_kernel(&spaces) == 1);
    }
}

/// The second wire is in a net of its own, and then there is nobody at its address.
#[test]
fn a_wire_that_does_not_lead_to_the_other_daemon_is_left() {
    let Some(spaces) = Space::two() else { return };
    spaces[1].command(&["ip", "link", "add", "v", "type", "veth", "peer", "name", "u"]);
    spaces[1].command(&["ip", "link", "set", "v", "up"]);
    for second in [wire("packet:w", "10.79.0.2/24"), wire("packet:v", "10.78.0.2/24")] {
        let mut hosts = hosts(&spaces, [wire("packet:w", "10.78.0.1/24"), second]);
        talk(&spaces, &mut hosts);
        // The lane of the turn before may be about to end.
        wait_until(|| lanes_of_the_kernel(&spaces) == 1);
    }
}

#[test]
fn a_reader_hears_that_the_other_end_was_closed_before_its_offer() {
    let Some(spaces) = Space::two() else { return };
    let mut hosts = hosts(&spaces, [None, None]);
    talk(&spaces, &mut hosts);
    let (first, second) = tcp_between(&spaces[0], &spaces[1]);
    let [here, there] = &mut hosts;
    here.client.claim(&first);
    let (slot, state) = there.client.claim(&second);
    let end = here.offer().expect("an offer");
    there.client.leave_silently(slot);
    there.client.send(ToDaemon::Withdraw { slot, generation: state.generation }, &[]);
    wait_until(|| here.words(&end).1.producer.flags.load(Ordering::Acquire) & CLOSED != 0);
}

#[test]
fn a_larger_ring_goes_to_the_member_of_the_family_that_has_asked() {
    let Some(spaces) = Space::two() else { return };
    let mut hosts = hosts(&spaces, [None, None]);
    let talking = talk(&spaces, &mut hosts);
    let here = &hosts[0];
    let slab = format!("/proc/{}/fd/{}", std::process::id(), here.client.slab_file.as_raw_fd());
    let mut relative = spaces[0].run(|| Puppet::new(&here.daemon.address.to_string()));
    relative.order(&format!("join {slab}"));
    let (link, channel, party) = talking.ends[0].channel;
    // Without the answer, the puppet waits in vain.
    relative.order(&format!("want {link} {channel} {party}"));
    while is_readable(&here.client.port, Duration::from_millis(50)) {
        let message = here.client.mail().message;
        assert!(!matches!(message, ToProcess::RingMade { .. }), "{message:?}");
    }
    here.client.send(ToDaemon::WantRing { link, channel, party, log2: 17 }, &[]);
    let made = loop {
        if let ToProcess::RingMade { link, channel, party, ring } = here.client.mail().message {
            break ((link, channel, party), ring.log2);
        }
    };
    assert_eq!(made, (talking.ends[0].channel, 17));
}
