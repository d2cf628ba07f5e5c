//! Calls that make no sense: the error that librdmacm would give, a clear line, and nothing changed.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use weft_cm::{Cm, ConnParam, Errno, Error, EventKind, Id, Op, State};
use weft_rnic::QpInit;

use crate::world::{PATIENCE, World, readable};

/// Every call on `id`, and whether its state alone allows it.
fn calls(id: &Id, peer: SocketAddr) -> Vec<(Op, Result<(), Error>)> {
    let param = ConnParam::default();
    vec![
        (Op::Bind, id.bind("10.0.0.1:0".parse().unwrap())),
        (Op::ResolveAddr, id.resolve_addr(None, peer, PATIENCE)),
        (Op::ResolveRoute, id.resolve_route(PATIENCE)),
        (Op::Listen, id.listen(1)),
        (Op::Connect, id.connect(&param)),
        (Op::Accept, id.accept(&param)),
        (Op::Reject, id.reject(b"")),
        (Op::Establish, id.establish()),
        (Op::Disconnect, id.disconnect()),
    ]
}

/// Checks that exactly the calls which the table forbids are refused with EINVAL; none of the others is made.
fn expect_refusals(id: &Id, peer: SocketAddr) {
    let state = id.state();
    let forbidden = calls_forbidden(state);
    for (op, outcome) in calls(id, peer).into_iter().filter(|(op, _)| forbidden.contains(op)) {
        let error = outcome.unwrap_err();
        assert_eq!(error, Error::State { op, state });
        assert_eq!(error.errno(), Errno::INVAL);
        assert_eq!(error.to_string(), format!("the id cannot {}: it is {state}", op.describe()));
        assert_eq!(id.state(), state);
    }
    assert!(!forbidden.is_empty());
}

fn calls_forbidden(state: State) -> Vec<Op> {
    let all = [
        Op::Bind,
        Op::ResolveAddr,
        Op::ResolveRoute,
        Op::Listen,
        Op::Connect,
        Op::Accept,
        Op::Reject,
        Op::Establish,
        Op::Disconnect,
    ];
    all.into_iter().filter(|&op| state.after(op).is_none()).collect()
}

/// In states where every call is forbidden or has no effect, all of them can be tried one after the other.
#[test]
fn calls_in_the_wrong_state() {
    let world = World::new();
    let (listener, address) = world.b.listen(4);
    let id = world.a.id();
    for (op, refused) in [
        (Op::ResolveRoute, id.resolve_route(PATIENCE)),
        (Op::Connect, id.connect(&ConnParam::default())),
        (Op::Accept, id.accept(&ConnParam::default())),
        (Op::Reject, id.reject(b"")),
        (Op::Establish, id.establish()),
        (Op::Disconnect, id.disconnect()),
    ] {
        assert_eq!(refused, Err(Error::State { op, state: State::Idle }));
    }
    assert_eq!(id.get_request().unwrap_err(), Error::WrongMode);
    expect_refusals(&listener, address);
    let [client, server] = world.connect(address);
    // In RTS all but two calls are forbidden, and those are tried elsewhere.
    for id in [&client, &server] {
        assert_eq!(calls_forbidden(id.state()).len(), 7);
        assert_eq!(id.bind(address), Err(Error::State { op: Op::Bind, state: State::Connected }));
        assert!(id.connect(&ConnParam::default()).is_err() && id.accept(&ConnParam::default()).is_err());
        assert!(id.listen(1).is_err() && id.reject(b"").is_err());
    }
    client.disconnect().unwrap();
    world.expect(&world.a.channel, EventKind::Disconnected);
    expect_refusals(&client, address);
    world.expect(&world.b.channel, EventKind::Disconnected);
    assert!(!readable(&world.a.channel) && !readable(&world.b.channel));
}

#[test]
fn addresses_that_cannot_be_had() {
    let world = World::new();
    let (_listener, address) = world.b.listen(1);
    let id = world.b.id();
    let refused = id.bind(address).unwrap_err();
    assert_eq!((refused, refused.errno()), (Error::AddrInUse(address), Errno::ADDRINUSE));
    let refused = id.bind("10.0.0.9:0".parse().unwrap()).unwrap_err();
    assert_eq!(refused.errno(), Errno::ADDRNOTAVAIL);
    assert_eq!(io::Error::from(refused).kind(), io::ErrorKind::AddrNotAvailable);
    let refused = id.bind("[fd00::1]:0".parse().unwrap()).unwrap_err();
    assert_eq!(refused.errno(), Errno::ADDRNOTAVAIL);
    id.bind("0.0.0.0:700".parse().unwrap()).unwrap();
    assert_eq!(id.bind("0.0.0.0:701".parse().unwrap()).unwrap_err().errno(), Errno::INVAL);
    let other = world.b.id();
    assert_eq!(other.bind("10.0.0.2:700".parse().unwrap()).unwrap_err().errno(), Errno::ADDRINUSE);
    drop(id);
    other.bind("10.0.0.2:700".parse().unwrap()).unwrap();
    let id = world.a.id();
    for peer in ["10.0.0.2:0", "0.0.0.0:9", "224.0.0.1:9"] {
        let refused = id.resolve_addr(None, peer.parse().unwrap(), PATIENCE).unwrap_err();
        assert_eq!(refused.errno(), Errno::INVAL, "{peer}");
    }
    let source = Some("10.0.0.1:0".parse().unwrap());
    let refused = id.resolve_addr(source, "[fd00::2]:9".parse().unwrap(), PATIENCE);
    assert_eq!(refused, Err(Error::FamilyMismatch));
    let refused = id.resolve_addr(Some("10.0.0.3:0".parse().unwrap()), address, PATIENCE);
    assert_eq!(refused.unwrap_err().errno(), Errno::ADDRNOTAVAIL);
    assert_eq!((id.state(), id.local_addr()), (State::Idle, None));
    assert!(!readable(&world.a.channel));
}

#[test]
fn objects_that_do_not_fit() {
    let world = World::new();
    let (_listener, address) = world.b.listen(1);
    let id = world.a.id();
    let init = QpInit::new(&world.a.cq, &world.a.cq);
    assert_eq!(id.create_qp(&world.a.pd, &init).unwrap_err(), Error::NoDevice);
    id.resolve_addr(None, address, PATIENCE).unwrap();
    world.expect(&world.a.channel, EventKind::AddrResolved);
    id.resolve_route(PATIENCE).unwrap();
    world.expect(&world.a.channel, EventKind::RouteResolved);
    assert_eq!(id.connect(&ConnParam::default()).unwrap_err(), Error::NoQp);
    assert_eq!(id.detach_qp().unwrap_err(), Error::NoQp);
    assert!(id.create_qp(&world.b.pd, &init).is_err());
    // A queue pair that was made by hand, on the wrong device and then on the right one.
    let foreign = world.b.device.create_qp(&world.b.pd, &QpInit::new(&world.b.cq, &world.b.cq)).unwrap();
    id.attach_qp(Arc::new(foreign)).unwrap();
    assert_eq!(id.connect(&ConnParam::default()).unwrap_err().errno(), Errno::INVAL);
    drop(id.detach_qp().unwrap());
    let qp = Arc::new(world.a.device.create_qp(&world.a.pd, &init).unwrap());
    id.attach_qp(Arc::clone(&qp)).unwrap();
    assert_eq!(id.attach_qp(qp).unwrap_err(), Error::HasQp);
    assert_eq!(id.create_qp(&world.a.pd, &init).unwrap_err(), Error::HasQp);
    let deep = ConnParam { initiator_depth: Some(1000), ..ConnParam::default() };
    assert_eq!(id.connect(&deep).unwrap_err().errno(), Errno::INVAL);
    assert_eq!(id.state(), State::RouteResolved);
    id.connect(&ConnParam::default()).unwrap();
    let (server, _) = world.request();
    assert_eq!(server.accept(&deep).unwrap_err().errno(), Errno::INVAL);
    server.accept(&ConnParam::default()).unwrap();
    world.expect(&world.a.channel, EventKind::Established);
}

#[test]
fn channels_of_another_manager() {
    let world = World::new();
    assert_eq!(world.a.cm.create_id(Some(&world.b.channel)).unwrap_err(), Error::Foreign);
    let id = world.a.id();
    assert_eq!(id.try_migrate(Some(&world.b.channel)), Err(Error::Foreign));
    let without_devices = Cm::new();
    let id = without_devices.create_id(Some(&without_devices.create_event_channel().unwrap())).unwrap();
    assert_eq!(id.listen(1).unwrap_err().errno(), Errno::ADDRNOTAVAIL);
    assert_eq!(id.state(), State::Idle);
}
