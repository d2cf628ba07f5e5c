//! Failed attempts, each with its event and its status. Those that take time do so on virtual time.

use weft_cm::{ConnParam, Errno, EventKind, State};
use weft_netif::Duration;
use weft_rnic::{CmEvent, ConnectFailure, StreamingConnection};

use crate::world::{PATIENCE, Side, World, readable};

/// The streaming connection that `side` gets next.
fn stream(world: &World, side: &Side, events: &weft_rnic::EventChannel) -> StreamingConnection {
    let CmEvent::StreamRequest(request) = world.until(|| events.next()) else { panic!("no connection") };
    side.device.accept_stream(request.id).unwrap()
}

#[test]
fn no_way_to_the_peer() {
    let world = World::new();
    let id = world.a.id();
    id.resolve_addr(None, "192.168.7.7:9".parse().unwrap(), PATIENCE).unwrap();
    let event = world.expect(&world.a.channel, EventKind::AddrError);
    assert_eq!((event.error(), id.state()), (Some(Errno::NETUNREACH), State::Bound));
    assert_eq!(event.status(), -101);
    assert!(id.device().is_none());
    // It may try another address.
    id.resolve_addr(None, "10.0.0.2:9".parse().unwrap(), PATIENCE).unwrap();
    world.expect(&world.a.channel, EventKind::AddrResolved);
}

#[test]
fn the_peer_says_no() {
    let world = World::new();
    let (_listener, address) = world.b.listen(1);
    let client = world.resolved(address);
    client.connect(&ConnParam::default()).unwrap();
    let (server, _) = world.request();
    server.reject(b"not today").unwrap();
    assert_eq!(server.state(), State::Over);
    let event = world.expect(&world.a.channel, EventKind::Rejected);
    assert_eq!((event.error(), event.private_data()), (Some(Errno::CONNREFUSED), &b"not today"[..]));
    assert_eq!(client.state(), State::Over);
    // An id connects once.
    assert_eq!(client.connect(&ConnParam::default()).unwrap_err().errno(), Errno::INVAL);
}

#[test]
fn nothing_listens_at_the_peer() {
    let world = World::new();
    let client = world.resolved(world.b.device.address(9));
    client.connect(&ConnParam::default()).unwrap();
    let event = world.expect(&world.a.channel, EventKind::Rejected);
    assert_eq!((event.error(), event.private_data()), (Some(Errno::CONNREFUSED), &b""[..]));
    assert_eq!(event.connect_failure(), Some(&ConnectFailure::Refused));
}

/// With repeats a listener may be late; each attempt begins when its event would be taken, and the last one is told.
#[test]
fn a_listener_that_is_late() {
    let world = World::new();
    world.a.cm.set_connect_repeats(2, std::time::Duration::ZERO);
    let address = world.b.device.address(7174);
    let client = world.resolved(address);
    client.connect(&ConnParam { private_data: b"again", ..ConnParam::default() }).unwrap();
    for _ in 0..2 {
        world.settle(1);
        assert!(readable(&world.a.channel));
        assert!(world.a.channel.next().is_none(), "refused, and begun again");
        assert_eq!(client.state(), State::Connecting);
    }
    let refused = world.expect(&world.a.channel, EventKind::Rejected);
    assert_eq!(refused.error(), Some(Errno::CONNREFUSED));
    let client = world.resolved(address);
    client.connect(&ConnParam { private_data: b"again", ..ConnParam::default() }).unwrap();
    world.settle(1);
    let listener = world.b.id();
    listener.bind(address).unwrap();
    listener.listen(1).unwrap();
    assert!(world.a.channel.next().is_none());
    let (server, request) = world.request();
    assert_eq!(request.private_data(), b"again");
    server.accept(&ConnParam::default()).unwrap();
    world.expect(&world.a.channel, EventKind::Established);
}

/// No host has the address; a host that was there answers no more; a server speaks TCP and never MPA. In all three
/// cases the attempt takes the time limit of a startup, and no more.
#[test]
fn silence() {
    let startup = Duration::from_secs(40);
    for case in ["no neighbor", "no answer to SYN", "no MPA"] {
        let world = World::new();
        let events = world.b.device.create_event_channel().unwrap();
        let streaming = world.b.device.listen_streaming(&events, 0).unwrap();
        let address = match case {
            "no neighbor" => "10.0.0.77:9".parse().unwrap(),
            _ => streaming.local_addr(),
        };
        if case == "no answer to SYN" {
            // The neighbor is known by the first connection.
            let (_listener, address) = world.b.listen(1);
            drop(world.connect(address));
            world.settle(100);
            while world.a.channel.next().is_some() {}
            world.freeze_b();
        }
        let client = world.resolved(address);
        let begun = world.now();
        client.connect(&ConnParam::default()).unwrap();
        let event = world.expect(&world.a.channel, EventKind::Unreachable);
        assert_eq!(event.error(), Some(Errno::TIMEDOUT), "{case}");
        assert_eq!(world.now() - begun, startup, "{case}");
        assert_eq!(client.state(), State::Over);
        world.settle(1000);
        assert!(!readable(&world.a.channel), "{case}");
    }
}

#[test]
fn the_peer_hangs_up_or_talks_nonsense() {
    let world = World::new();
    let events = world.b.device.create_event_channel().unwrap();
    let streaming = world.b.device.listen_streaming(&events, 0).unwrap();
    let client = world.resolved(streaming.local_addr());
    client.connect(&ConnParam::default()).unwrap();
    drop(stream(&world, &world.b, &events));
    let event = world.expect(&world.a.channel, EventKind::Rejected);
    assert_eq!(event.error(), Some(Errno::CONNRESET));
    let client = world.resolved(streaming.local_addr());
    client.connect(&ConnParam::default()).unwrap();
    let peer = stream(&world, &world.b, &events);
    assert_eq!(peer.send(&[0x55; 40]), Ok(40));
    let event = world.expect(&world.a.channel, EventKind::ConnectError);
    assert_eq!(event.error(), Some(Errno::PROTO));
}

/// The peer goes before it is answered.
#[test]
fn an_answer_that_comes_too_late() {
    for accepts in [true, false] {
        let world = World::new();
        let (_listener, address) = world.b.listen(1);
        let client = world.resolved(address);
        client.connect(&ConnParam::default()).unwrap();
        let (server, _) = world.request();
        drop(client);
        world.settle(1);
        let refused = if accepts { server.accept(&ConnParam::default()) } else { server.reject(b"") };
        assert_eq!(refused.unwrap_err().errno(), Errno::CONNRESET);
        assert_eq!(server.state(), State::Over);
    }
}

/// Giving up an attempt makes one event. An event that was on its way comes instead.
#[test]
fn an_attempt_is_given_up() {
    let world = World::new();
    let (_listener, address) = world.b.listen(2);
    let client = world.resolved(address);
    client.connect(&ConnParam::default()).unwrap();
    client.disconnect().unwrap();
    assert_eq!(client.state(), State::Disconnecting);
    let event = world.expect(&world.a.channel, EventKind::Disconnected);
    assert_eq!((event.error(), client.state()), (Some(Errno::CONNABORTED), State::Over));
    // Here the connection is established already, but its event has not been taken.
    let client = world.resolved(address);
    client.connect(&ConnParam::default()).unwrap();
    let (server, _) = world.request();
    server.accept(&ConnParam::default()).unwrap();
    world.settle(1);
    client.disconnect().unwrap();
    world.expect(&world.a.channel, EventKind::Established);
    assert_eq!(client.state(), State::Disconnecting);
    world.expect(&world.a.channel, EventKind::Disconnected);
    // And here the peer has rejected.
    let client = world.resolved(address);
    client.connect(&ConnParam::default()).unwrap();
    let refused = world.until(|| world.b.channel.next().filter(|it| it.kind() == EventKind::ConnectRequest));
    drop(refused);
    world.settle(1);
    client.disconnect().unwrap();
    world.expect(&world.a.channel, EventKind::Rejected);
    world.settle(100);
    assert!(!readable(&world.a.channel));
}

/// A peer that vanishes, and one whose queue pair is destroyed: the end is told with a reason.
#[test]
fn a_connection_is_lost() {
    let world = World::new();
    let (_listener, address) = world.b.listen(2);
    let [_client, server] = world.connect(address);
    drop(server.detach_qp().unwrap());
    let event = world.expect(&world.a.channel, EventKind::Disconnected);
    assert_eq!(event.error(), Some(Errno::CONNRESET));
    assert!(event.disconnect_reason().is_some());
    server.disconnect().unwrap();
    world.expect(&world.b.channel, EventKind::Disconnected);
}
