//! Acknowledgement, destruction, and the loss of a device.

use weft_cm::{ConnParam, Errno, Error, EventKind, State};
use weft_netif::Duration;

use crate::world::{PATIENCE, World, readable};

/// An id is there until its events are acknowledged. A thread that waits for that goes on then.
#[test]
fn destruction_waits_for_acknowledgements() {
    let world = World::new();
    let (listener, address) = world.b.listen(2);
    let client = world.resolved(address);
    client.connect(&ConnParam::default()).unwrap();
    let (server, request) = world.request();
    // A connect request counts among the events of its listener.
    let (listener, refused) = listener.try_destroy().unwrap_err();
    assert_eq!((refused, refused.errno()), (Error::Unacknowledged, Errno::BUSY));
    server.try_destroy().unwrap();
    std::thread::scope(|scope| {
        let (begins, begun) = std::sync::mpsc::channel();
        let destroyed = scope.spawn(move || {
            begins.send(()).unwrap();
            listener.destroy();
        });
        begun.recv().unwrap();
        // A destruction that does not wait is over by now.
        (0..1000).for_each(|_| std::thread::yield_now());
        assert!(!destroyed.is_finished());
        drop(request);
        destroyed.join().unwrap();
    });
    assert_eq!(world.b.cm.counters().ids, 0);
    // The port is free again, and the request was rejected.
    let id = world.b.id();
    id.bind(address).unwrap();
    let event = world.expect(&world.a.channel, EventKind::Rejected);
    assert_eq!(event.id(), client.number());
    let (client, _) = client.try_destroy().unwrap_err();
    drop(event);
    client.try_destroy().unwrap();
}

/// A thread can end the id by a shared handle, also more than once.
#[test]
fn an_id_that_is_ended_is_left_without_device() {
    let world = World::new();
    let (listener, address) = world.b.listen(2);
    listener.end();
    listener.end();
    assert_eq!(world.b.cm.counters().ids, 0);
    assert!(listener.device().is_none());
    assert_eq!(listener.get_request().unwrap_err().errno(), Errno::INVAL);
    world.b.id().bind(address).unwrap();
}

/// A program that disconnects and takes the queue pair away gets the event of the end all the same, and once, in
/// whichever order both happen.
#[test]
fn the_end_is_told_without_the_queue_pair() {
    for is_told_by_the_device in [false, true] {
        let world = World::new();
        let (_listener, address) = world.b.listen(1);
        let [client, server] = world.connect(address);
        client.disconnect().unwrap();
        if is_told_by_the_device {
            world.expect(&world.b.channel, EventKind::Disconnected);
            server.disconnect().unwrap();
            world.settle(1);
            assert!(readable(&world.a.channel));
        }
        drop(client.detach_qp().unwrap());
        world.expect(&world.a.channel, EventKind::Disconnected);
        assert_eq!(client.state(), State::Over);
        world.settle(10);
        assert!(world.a.channel.next().is_none() && !readable(&world.a.channel));
    }
}

/// Events of a destroyed id never come, neither those that wait nor those that would follow.
#[test]
fn a_destroyed_id_is_silent() {
    let world = World::new();
    let (listener, address) = world.b.listen(4);
    for step in 0..4 {
        let client = world.resolved(address);
        client.connect(&ConnParam::default()).unwrap();
        if step == 0 {
            drop(client);
        } else {
            let (server, _) = world.request();
            if step == 1 {
                drop(server);
                world.settle(1);
                drop(client);
            } else {
                server.accept(&ConnParam::default()).unwrap();
                world.settle(1);
                if step == 3 {
                    server.disconnect().unwrap();
                    world.settle(1);
                }
                drop((client, server));
            }
        }
        world.settle(1000);
        assert!(!readable(&world.a.channel), "step {step}");
        assert!(world.a.channel.next().is_none() && world.b.channel.next().is_none(), "step {step}");
        assert_eq!((world.a.cm.counters().ids, world.b.cm.counters().ids), (0, 1));
    }
    // A request whose event was not taken ends with its listener.
    let client = world.resolved(address);
    client.connect(&ConnParam::default()).unwrap();
    world.settle(1);
    assert!(readable(&world.b.channel));
    drop(listener);
    assert!(!readable(&world.b.channel));
    world.expect(&world.a.channel, EventKind::Rejected);
}

/// An event shows what it holds after its id is gone. A request that is not taken is rejected when its event is
/// dropped.
#[test]
fn events_outlive_their_ids() {
    let world = World::new();
    let (_listener, address) = world.b.listen(1);
    let client = world.resolved(address);
    client.connect(&ConnParam { private_data: b"me", ..ConnParam::default() }).unwrap();
    let event = world.expect(&world.b.channel, EventKind::ConnectRequest);
    assert_eq!(world.b.cm.counters().ids, 2);
    drop(event);
    assert_eq!(world.b.cm.counters().ids, 1);
    let event = world.expect(&world.a.channel, EventKind::Rejected);
    drop(client);
    assert_eq!((event.kind().name(), event.error()), ("REJECTED", Some(Errno::CONNREFUSED)));
}

/// A connection whose id is destroyed closes, although the application holds its queue pair.
#[test]
fn an_id_takes_its_connection_along() {
    let world = World::new();
    let (_listener, address) = world.b.listen(1);
    let [client, _server] = world.connect(address);
    let qp = client.qp().unwrap();
    client.destroy();
    let event = world.expect(&world.b.channel, EventKind::Disconnected);
    assert_eq!(event.error(), None);
    world.settle(100);
    assert_eq!(qp.state(), weft_rnic::QpState::Error);
    assert!(!readable(&world.a.channel));
}

/// Every id of the device gets the event of the loss, once and last. Listeners stop, requests are rejected, connections
/// end.
#[test]
fn a_device_is_removed() {
    let world = World::new();
    let (listener, address) = world.b.listen(4);
    let [client, server] = world.connect(address);
    let waiting = world.resolved(address);
    waiting.connect(&ConnParam::default()).unwrap();
    let (request, _) = world.request();
    let bound = world.b.id();
    bound.bind(world.b.device.address(0)).unwrap();
    let idle = world.b.id();
    world.b.cm.remove(&world.b.device);
    let mut lost: Vec<_> = (0..4)
        .map(|_| {
            let event = world.expect(&world.b.channel, EventKind::DeviceRemoval);
            event.id()
        })
        .collect();
    lost.sort_unstable();
    let mut expected = [&listener, &server, &request, &bound].map(weft_cm::Id::number);
    expected.sort_unstable();
    assert_eq!(lost, expected);
    for id in [&listener, &server, &request, &bound] {
        assert_eq!(id.state(), State::Removed);
        assert_eq!(id.listen(1).unwrap_err().errno(), Errno::NODEV);
        id.disconnect().unwrap();
    }
    assert_eq!(idle.state(), State::Idle);
    // The peer sees a graceful end of its connection and a rejection of its request.
    let mut kinds = [(); 2].map(|()| world.until(|| world.a.channel.next()).kind());
    kinds.sort_unstable_by_key(|kind| *kind as u32);
    assert_eq!(kinds, [EventKind::Rejected, EventKind::Disconnected]);
    let late = world.resolved(address);
    late.connect(&ConnParam::default()).unwrap();
    world.expect(&world.a.channel, EventKind::Rejected);
    world.settle(100);
    assert!(!readable(&world.b.channel));
    drop((client, waiting));
    assert_eq!(idle.bind(world.b.device.address(0)).unwrap_err().errno(), Errno::ADDRNOTAVAIL);
}

/// Nothing of a connection is left when its time has passed, whichever side has ended it.
#[test]
fn connections_leave_nothing() {
    let world = World::new();
    let (_listener, address) = world.b.listen(1);
    let [client, server] = world.connect(address);
    drop((client, server));
    world.settle(u64::from(weft_rnic::CLOCK_SCALE) * 100);
    assert_eq!(world.a.device.stack_counters().connections, 0);
    assert_eq!(world.b.device.stack_counters().connections, 0);
    let begun = world.now();
    let id = world.a.id();
    id.resolve_addr(None, address, PATIENCE).unwrap();
    assert!(world.now() - begun == Duration::ZERO);
}
