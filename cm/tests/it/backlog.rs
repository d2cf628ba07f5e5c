//! More peers than a listener takes: full backlogs, and peers that connect and say nothing.

use weft_cm::{ConnParam, Errno, EventKind};
use weft_rnic::StreamState;

use crate::world::{World, readable};

/// As many requests wait as the backlog allows, taken or not. The next one is refused, and there is room again after an
/// answer.
#[test]
fn a_full_backlog() {
    let world = World::new();
    let (_listener, address) = world.b.listen(3);
    let clients: Vec<_> = (0..8).map(|_| world.resolved(address)).collect();
    for client in &clients {
        client.connect(&ConnParam::default()).unwrap();
        world.settle(1);
    }
    for client in &clients[3..] {
        let event = world.expect(&world.a.channel, EventKind::Rejected);
        assert_eq!((event.id(), event.error()), (client.number(), Some(Errno::CONNRESET)));
    }
    let (first, _) = world.request();
    first.accept(&ConnParam::default()).unwrap();
    world.expect(&world.a.channel, EventKind::Established);
    let (late, mut servers) = (world.resolved(address), Vec::new());
    late.connect(&ConnParam::default()).unwrap();
    for _ in 0..3 {
        let mut event =
            world.until(|| world.b.channel.next().filter(|event| event.kind() == EventKind::ConnectRequest));
        let id = event.take_id().unwrap();
        world.b.equip(&id);
        id.accept(&ConnParam::default()).unwrap();
        world.expect(&world.a.channel, EventKind::Established);
        servers.push(id);
    }
}

/// Hundreds of peers speak TCP and no MPA. Other peers are served meanwhile, and nothing is left of the silent ones.
#[test]
fn half_open_startups() {
    let world = World::new();
    let (_listener, address) = world.b.listen(2);
    let events = world.a.device.create_event_channel().unwrap();
    let mut silent = Vec::new();
    for round in 0..6 {
        for _ in 0..50 {
            silent.push(world.a.device.open_stream(&events, address).unwrap());
        }
        world.settle(1);
        let [client, server] = world.connect(address);
        drop((client, server));
        world.settle(1);
        let open = silent.iter().filter(|stream| stream.state() == StreamState::Streaming).count();
        assert!(open <= 128, "{open} are kept after round {round}");
    }
    world.settle(1000);
    assert!(silent.iter().all(|stream| stream.state() == StreamState::Closed));
    assert!(!readable(&world.b.channel));
    assert_eq!(world.b.device.stack_counters().connections, 0);
    assert_eq!(world.b.cm.counters().ids, 1);
    world.connect(address);
}

/// The program takes no event. The backlog bounds the events that peers can cause, however many come and go.
#[test]
fn events_that_are_not_taken() {
    let world = World::new();
    let (_listener, address) = world.b.listen(4);
    for _ in 0..100 {
        let client = world.resolved(address);
        client.connect(&ConnParam::default()).unwrap();
        world.settle(1);
        drop(client);
        world.settle(1);
        // A peer that has gone has taken its request along.
        assert!(!readable(&world.b.channel));
    }
    let clients: Vec<_> = (0..20).map(|_| world.resolved(address)).collect();
    clients.iter().for_each(|client| client.connect(&ConnParam::default()).unwrap());
    world.settle(10);
    let waiting = std::iter::from_fn(|| world.b.channel.next()).count();
    assert_eq!(waiting, 4);
}
