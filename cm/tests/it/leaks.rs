//! Connections that come and go leave nothing behind.

use weft_cm::{ConnParam, EventKind};

use crate::world::{World, readable};

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// What the devices and managers of a world hold.
fn held(world: &World) -> [usize; 6] {
    let connections = |side: &crate::world::Side| {
        let queue_pairs = side.device.qps().len();
        [
            usize::try_from(side.device.stack_counters().connections).unwrap(),
            queue_pairs,
            side.cm.counters().ids,
        ]
    };
    let ([a, b, c], [d, e, f]) = (connections(&world.a), connections(&world.b));
    [a, b, c, d, e, f]
}

/// A thousand connections one after the other, ended by either side or just dropped.
#[test]
fn a_thousand_connections() {
    let world = World::new();
    let (_listener, address) = world.b.listen(4);
    let before = held(&world);
    let mut most = 0;
    for round in 0..1000 {
        let [client, server] = world.connect(address);
        match round % 4 {
            0 => client.disconnect().unwrap(),
            1 => server.disconnect().unwrap(),
            2 => drop(client),
            _ => drop(server),
        }
        while world.until(|| world.a.channel.next().or_else(|| world.b.channel.next())).kind()
            != EventKind::Disconnected
        {}
        most = most.max(world.b.device.stack_counters().connections);
    }
    // Connections that linger in TCP get the time to end.
    world.settle(1000);
    while world.a.channel.next().or_else(|| world.b.channel.next()).is_some() {}
    assert_eq!(held(&world), before);
    assert!(most <= 300, "{most} connections at a time");
    assert!(!readable(&world.a.channel) && !readable(&world.b.channel));
}

/// Channels and synchronous ids, which have a descriptor each, leave none behind. Other tests run beside this one, so
/// that it counts far more than they can have.
#[test]
fn descriptors_are_closed() {
    let world = World::new();
    let before = descriptors();
    for _ in 0..2000 {
        let id = world.a.cm.create_id(None).unwrap();
        let channel = world.a.cm.create_event_channel().unwrap();
        id.migrate(Some(&channel)).unwrap();
        id.migrate(None).unwrap();
    }
    let (_listener, address) = world.b.listen(4);
    for _ in 0..10 {
        let client = world.resolved(address);
        client.connect(&ConnParam::default()).unwrap();
        drop(world.request());
        world.expect(&world.a.channel, EventKind::Rejected);
    }
    assert!(descriptors() < before + 1000);
}
