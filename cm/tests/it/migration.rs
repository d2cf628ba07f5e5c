//! Ids on their way from one channel to another.

use std::sync::atomic::{AtomicBool, Ordering};

use weft_cm::{ConnParam, Error, Event, EventChannel, EventKind};
use weft_rnic::{Progress, QpInit};

use crate::world::{PATIENCE, Side, World, moving, readable};

/// Waiting events move along in their order, later ones come to the new channel, and those of other ids stay.
#[test]
fn events_move_with_their_id() {
    let world = World::new();
    let (listener, address) = world.b.listen(4);
    let other = world.b.cm.create_event_channel().unwrap();
    let client = world.resolved(address);
    client.connect(&ConnParam::default()).unwrap();
    let bystander = world.b.id();
    bystander.resolve_addr(None, "10.0.0.1:9".parse().unwrap(), PATIENCE).unwrap();
    world.settle(1);
    listener.migrate(Some(&other)).unwrap();
    assert!(readable(&other));
    world.expect(&world.b.channel, EventKind::AddrResolved);
    assert!(!readable(&world.b.channel));
    let mut event = world.expect(&other, EventKind::ConnectRequest);
    assert_eq!(listener.try_migrate(Some(&world.b.channel)), Err(Error::Unacknowledged));
    let server = event.take_id().unwrap();
    drop(event);
    listener.try_migrate(Some(&world.b.channel)).unwrap();
    // The id of the request was made on the channel that its listener had then. It accepts there, and moves when the
    // events wait.
    world.b.equip(&server);
    server.accept(&ConnParam::default()).unwrap();
    world.expect(&world.a.channel, EventKind::Established);
    client.disconnect().unwrap();
    world.settle(1);
    assert!(readable(&other));
    let third = world.b.cm.create_event_channel().unwrap();
    server.migrate(Some(&third)).unwrap();
    assert!(!readable(&other));
    world.expect(&third, EventKind::Established);
    world.expect(&third, EventKind::Disconnected);
    assert!(!readable(&third));
}

/// A thread that migrates waits until the event that another thread holds is acknowledged.
#[test]
fn migration_waits_for_acknowledgements() {
    let world = World::new();
    let id = world.a.id();
    let other = world.a.cm.create_event_channel().unwrap();
    id.resolve_addr(None, "10.0.0.2:9".parse().unwrap(), PATIENCE).unwrap();
    let event = world.expect(&world.a.channel, EventKind::AddrResolved);
    let is_dropped = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let migrated = scope.spawn(|| {
            id.migrate(Some(&other)).unwrap();
            is_dropped.load(Ordering::SeqCst)
        });
        is_dropped.store(true, Ordering::SeqCst);
        drop(event);
        assert!(migrated.join().unwrap(), "it has not waited");
    });
    id.resolve_route(PATIENCE).unwrap();
    world.expect(&other, EventKind::RouteResolved);
}

/// Connections come and go while every id moves to and fro between two channels that two threads read: each gets the
/// events of its beginning and its end, once, in this order.
#[test]
fn migration_under_load() {
    let [a, b] = moving(Progress::Thread).map(Side::new);
    let channels = [(); 2].map(|()| b.cm.create_event_channel().unwrap());
    let (listener, address) = b.listen(32);
    let is_over = AtomicBool::new(false);
    let told = std::thread::scope(|scope| {
        let readers: Vec<_> =
            channels.iter().map(|channel| scope.spawn(|| read_all(channel, &is_over))).collect();
        let mut servers = Vec::new();
        for _ in 0..ROUNDS {
            let client = a.cm.create_id(None).unwrap();
            client.resolve_addr(None, address, PATIENCE).unwrap();
            client.resolve_route(PATIENCE).unwrap();
            client.create_qp(&a.pd, &QpInit::new(&a.cq, &a.cq)).unwrap();
            let connected = scope.spawn(move || {
                client.connect(&ConnParam::default()).unwrap();
                client.disconnect().unwrap();
            });
            let mut event = b.channel.wait(None).unwrap();
            let server = event.take_id().unwrap();
            drop(event);
            b.equip(&server);
            server.migrate(Some(&channels[0])).unwrap();
            server.accept(&ConnParam::default()).unwrap();
            for place in [1, 0, 1, 0] {
                server.migrate(Some(&channels[place])).unwrap();
            }
            connected.join().unwrap();
            servers.push(server);
        }
        while servers.iter().any(|server| server.state() != weft_cm::State::Over) {
            servers.iter().for_each(|server| server.migrate(Some(&channels[1])).unwrap());
            std::thread::yield_now();
        }
        is_over.store(true, Ordering::SeqCst);
        // Two more events end the two readers.
        let lasts: Vec<_> = channels.iter().map(|channel| b.cm.create_id(Some(channel)).unwrap()).collect();
        for last in &lasts {
            last.resolve_addr(None, "10.0.0.1:9".parse().unwrap(), PATIENCE).unwrap();
        }
        let mut told: Vec<_> = readers.into_iter().flat_map(|reader| reader.join().unwrap()).collect();
        told.sort_by_key(|&(id, kind)| (id, kind as u32));
        assert_eq!(servers.len(), ROUNDS);
        told
    });
    assert_eq!(told.len(), 2 * ROUNDS);
    for pair in told.chunks(2) {
        assert_eq!(pair[0].0, pair[1].0, "one event of an id is missing or came twice");
        assert_eq!([pair[0].1, pair[1].1], [EventKind::Established, EventKind::Disconnected]);
    }
    drop(listener);
}

/// All events of a channel until it is over.
fn read_all(channel: &EventChannel, is_over: &AtomicBool) -> Vec<(u64, EventKind)> {
    let mut told = Vec::new();
    loop {
        let event: Option<Event> = channel.wait(None);
        let event = event.unwrap();
        if event.kind() == EventKind::AddrResolved && is_over.load(Ordering::SeqCst) {
            return told;
        }
        told.push((event.id(), event.kind()));
    }
}

const ROUNDS: usize = 60;
