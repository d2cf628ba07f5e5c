//! Which device an address means, IPv6, ephemeral ports, names.

use std::net::{IpAddr, SocketAddr};

use weft_cm::{Cm, ConnParam, Errno, EventKind, resolve};
use weft_rnic::{Config, Device, Progress};

use crate::world::{PATIENCE, World};

#[test]
fn ipv6_as_ipv4() {
    let world = World::at(["fd00::1/64", "fd00::2/64"]);
    let (_listener, address) = world.b.listen(1);
    assert!(address.is_ipv6());
    let [client, server] = world.connect(address);
    assert_eq!(server.peer_addr(), client.local_addr());
    assert_eq!(client.local_addr().unwrap().ip(), "fd00::1".parse::<IpAddr>().unwrap());
    client.disconnect().unwrap();
    world.expect(&world.b.channel, EventKind::Disconnected);
}

/// A bound id connects from its port. An id that is not bound gets an ephemeral port.
#[test]
fn ports_of_the_connecting_side() {
    let world = World::new();
    let (_listener, address) = world.b.listen(2);
    let bound = world.a.id();
    bound.bind("0.0.0.0:0".parse().unwrap()).unwrap();
    let port = bound.local_addr().unwrap().port();
    assert!(port >= 49_152, "{port}");
    bound.resolve_addr(None, address, PATIENCE).unwrap();
    world.expect(&world.a.channel, EventKind::AddrResolved);
    assert_eq!(bound.local_addr(), Some(world.a.device.address(port)));
    bound.resolve_route(PATIENCE).unwrap();
    world.expect(&world.a.channel, EventKind::RouteResolved);
    world.a.equip(&bound);
    bound.connect(&ConnParam::default()).unwrap();
    let (server, _) = world.request();
    assert_eq!(server.peer_addr(), Some(world.a.device.address(port)));
    let unbound = world.resolved(address);
    assert_eq!(unbound.local_addr(), Some(world.a.device.address(0)));
    unbound.connect(&ConnParam::default()).unwrap();
    let (server, _) = world.request();
    assert_eq!(server.peer_addr(), unbound.local_addr());
    assert_ne!(unbound.local_addr().unwrap().port(), port);
}

fn device(address: &str) -> Device {
    let (wire, _nobody) = weft_netif::pair(1500);
    let mut config = Config::new(address.parse().unwrap(), 1);
    config.progress = Progress::External;
    Device::open(wire, config).unwrap()
}

/// The bound address, else the longest prefix, chooses the device.
#[test]
fn the_device_for_an_address() {
    let devices = [
        "10.0.0.1/24",
        "10.1.0.1/16,gw 10.1.0.9",
        "10.2.0.1/16,route 10.0.0.128/25 via 10.2.0.9",
        "fd00::1/64",
    ]
    .map(device);
    let cm = Cm::new();
    devices.iter().for_each(|device| cm.add(device));
    cm.add(&devices[0]);
    assert_eq!((cm.counters().devices, cm.devices().len()), (4, 4));
    let channel = cm.create_event_channel().unwrap();
    let table = [
        (None, "10.0.0.7:1", 0),
        (None, "10.0.0.200:1", 2),
        (None, "10.2.3.4:1", 2),
        (None, "8.8.8.8:1", 1),
        (None, "10.0.0.1:1", 0),
        (None, "[fd00::7]:1", 3),
        (Some("10.1.0.1:0"), "10.0.0.7:1", 1),
        (Some("0.0.0.0:0"), "10.0.0.7:1", 0),
        (Some("[::]:0"), "[fd00::7]:1", 3),
    ];
    for (source, peer, expected) in table {
        let id = cm.create_id(Some(&channel)).unwrap();
        let source = source.map(|source: &str| source.parse().unwrap());
        id.resolve_addr(source, peer.parse().unwrap(), PATIENCE).unwrap();
        let event = channel.next().unwrap();
        assert_eq!(event.kind(), EventKind::AddrResolved, "{peer}");
        assert!(id.device().unwrap().is_same(&devices[expected]), "{source:?} to {peer}");
    }
}

/// One port on all devices: of one IP version, or of both.
#[test]
fn listening_everywhere() {
    let devices = ["10.0.0.1/24", "10.1.0.1/16", "fd00::1/64"].map(device);
    let cm = Cm::new();
    devices.iter().for_each(|device| cm.add(device));
    let channel = cm.create_event_channel().unwrap();
    for (any, count) in [("0.0.0.0:0", 2), ("[::]:0", 3)] {
        let id = cm.create_id(Some(&channel)).unwrap();
        id.bind(any.parse().unwrap()).unwrap();
        id.listen(1).unwrap();
        let local = id.local_addr().unwrap();
        assert!(local.ip().is_unspecified() && local.port() != 0);
        let taken = |device: &&Device| device.bind(device.address(local.port())).is_err();
        assert_eq!(devices.iter().filter(taken).count(), count);
        let other = cm.create_id(Some(&channel)).unwrap();
        assert_eq!(other.bind(local).unwrap_err().errno(), Errno::ADDRINUSE);
        // With one device fewer it goes on.
        if count == 3 {
            cm.remove(&devices[2]);
            assert!(channel.next().is_none());
            assert!(!taken(&&devices[2]) && taken(&&devices[0]));
        }
        drop(id);
        assert_eq!(devices.iter().filter(taken).count(), 0);
    }
}

#[test]
fn names() {
    let literal: SocketAddr = "192.0.2.7:7174".parse().unwrap();
    assert_eq!(resolve("192.0.2.7:7174"), Ok(vec![literal]));
    assert_eq!(resolve("[2001:db8::7]:1"), Ok(vec!["[2001:db8::7]:1".parse().unwrap()]));
    for name in ["", "192.0.2.7", "192.0.2.7:70000", ":x"] {
        assert_eq!(resolve(name).unwrap_err().errno(), Errno::NOENT, "{name}");
    }
}
