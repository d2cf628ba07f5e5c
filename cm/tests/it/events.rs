//! The event of each successful call, and what the events carry.

use weft_cm::{ConnParam, EventKind, State};

use crate::world::{PATIENCE, World, readable};

/// The whole life of a connection, with every event in its order, and the states.
#[test]
fn a_connection_from_beginning_to_end() {
    let world = World::new();
    let (listener, address) = world.b.listen(4);
    assert_eq!((listener.state(), address.ip()), (State::Listening, "10.0.0.2".parse().unwrap()));
    listener.set_context(77);
    let client = world.a.id();
    client.set_context(88);
    assert!(!readable(&world.a.channel));
    client.resolve_addr(None, address, PATIENCE).unwrap();
    assert_eq!(client.state(), State::ResolvingAddr);
    assert!(readable(&world.a.channel));
    let event = world.expect(&world.a.channel, EventKind::AddrResolved);
    assert_eq!((event.id(), event.context(), event.status()), (client.number(), 88, 0));
    assert!(!readable(&world.a.channel));
    assert!(client.device().unwrap().is_same(&world.a.device));
    client.resolve_route(PATIENCE).unwrap();
    world.expect(&world.a.channel, EventKind::RouteResolved);
    world.a.equip(&client);
    let param = ConnParam {
        private_data: b"request",
        responder_resources: Some(5),
        initiator_depth: Some(6),
        retry_count: 7,
        rnr_retry_count: 7,
        flow_control: true,
        ..ConnParam::default()
    };
    client.connect(&param).unwrap();
    assert_eq!(client.state(), State::Connecting);
    let (server, event) = world.request();
    assert_eq!((event.id(), event.listen_id()), (server.number(), Some(listener.number())));
    assert_eq!((event.context(), server.context(), server.state()), (77, 77, State::Requested));
    assert_eq!(event.private_data(), b"request");
    // The peer wants 6 outstanding requests, which this side is to hold, and holds 5.
    assert_eq!((event.param().responder_resources, event.param().initiator_depth), (6, 5));
    assert_eq!((server.local_addr(), server.peer_addr()), (Some(address), client.local_addr()));
    assert_eq!(client.peer_addr(), Some(address));
    let param = ConnParam { private_data: b"reply", initiator_depth: Some(3), ..ConnParam::default() };
    server.accept(&param).unwrap();
    let event = world.expect(&world.b.channel, EventKind::Established);
    assert_eq!((event.id(), event.context(), event.private_data()), (server.number(), 77, &b""[..]));
    assert_eq!(event.param().qp_num, server.qp().unwrap().number());
    assert_eq!(event.param().initiator_depth, 3);
    let event = world.expect(&world.a.channel, EventKind::Established);
    assert_eq!((event.private_data(), event.param().responder_resources), (&b"reply"[..], 5));
    assert_eq!([client.state(), server.state()], [State::Connected; 2]);
    client.establish().unwrap();
    server.establish().unwrap();
    client.disconnect().unwrap();
    assert_eq!(client.state(), State::Disconnecting);
    for channel in [&world.a.channel, &world.b.channel] {
        assert_eq!(world.expect(channel, EventKind::Disconnected).status(), 0);
    }
    assert_eq!([client.state(), server.state()], [State::Over; 2]);
    // After the event of the end a program may disconnect, too, and gets no other event.
    server.disconnect().unwrap();
    client.disconnect().unwrap();
    world.settle(100);
    assert!(!readable(&world.a.channel) && !readable(&world.b.channel));
}

/// Private data of every length that fits, in all three directions. One octet more is refused and changes nothing.
#[test]
fn private_data_of_every_length() {
    let world = World::new();
    let (_listener, address) = world.b.listen(4);
    let octets: Vec<u8> = (0..=u8::MAX).cycle().take(509).collect();
    for len in (0..=508).step_by(127).chain([1, 507]) {
        for accepts in [true, false] {
            let client = world.resolved(address);
            let data = &octets[..len];
            let too_much = ConnParam { private_data: &octets, ..ConnParam::default() };
            assert_eq!(client.connect(&too_much).unwrap_err().errno(), weft_cm::Errno::INVAL);
            assert_eq!(client.state(), State::RouteResolved);
            let param = ConnParam { private_data: data, ..ConnParam::default() };
            client.connect(&param).unwrap();
            let (server, event) = world.request();
            assert_eq!(event.private_data(), data);
            assert!(server.accept(&too_much).is_err() && server.reject(&octets).is_err());
            let kind = if accepts {
                server.accept(&param).unwrap();
                world.expect(&world.b.channel, EventKind::Established);
                EventKind::Established
            } else {
                server.reject(data).unwrap();
                EventKind::Rejected
            };
            assert_eq!(world.expect(&world.a.channel, kind).private_data(), data);
        }
    }
}

/// Events of several ids come in the order in which they happened, and each goes to its own.
#[test]
fn one_channel_serves_many_ids() {
    let world = World::new();
    let (_listener, address) = world.b.listen(16);
    let clients: Vec<_> = (0..8).map(|_| world.resolved(address)).collect();
    for client in &clients {
        client.connect(&ConnParam::default()).unwrap();
    }
    let servers: Vec<_> = clients.iter().map(|_| world.request().0).collect();
    for server in servers.iter().rev() {
        server.accept(&ConnParam::default()).unwrap();
    }
    for server in servers.iter().rev() {
        let event = world.expect(&world.b.channel, EventKind::Established);
        assert_eq!(event.id(), server.number());
    }
    let mut seen: Vec<_> =
        clients.iter().map(|_| world.expect(&world.a.channel, EventKind::Established).id()).collect();
    seen.sort_unstable();
    assert_eq!(seen, clients.iter().map(weft_cm::Id::number).collect::<Vec<_>>());
    assert!(clients.iter().all(|client| client.state() == State::Connected));
}
