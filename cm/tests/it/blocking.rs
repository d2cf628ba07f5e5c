//! Ids without a channel: each call waits. And several threads on one channel.

use std::sync::Mutex;
use std::time::Duration;

use weft_cm::{AddrInfo, Cm, ConnParam, Errno, Error, EventKind, Id, State};
use weft_rnic::{Device, Progress, QpInit};

use crate::world::{PATIENCE, Side, moving};

fn equip(id: &Id, device: &Device) {
    let cq = device.create_cq(16, None).unwrap();
    id.create_qp(&device.alloc_pd(), &QpInit::new(&cq, &cq)).unwrap();
}

/// A client and a server that only wait, with every kind of progress that needs no caller.
#[test]
fn synchronous_client_and_server() {
    for progress in [Progress::Thread, Progress::Manual] {
        let [a, b] = moving(progress);
        let (clients, servers) = (Cm::new(), Cm::new());
        clients.add(&a);
        servers.add(&b);
        let source = Some(b.address(0));
        let listener = servers.create_ep(&AddrInfo { source, destination: None }).unwrap();
        listener.listen(2).unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let refused = listener.get_request().unwrap();
                let request = refused.take_event().unwrap();
                assert_eq!(
                    (request.kind(), request.private_data()),
                    (EventKind::ConnectRequest, &b"first"[..])
                );
                refused.reject(b"no").unwrap();
                let id = listener.get_request().unwrap();
                assert!(id.is_synchronous());
                equip(&id, &b);
                id.accept(&ConnParam { private_data: b"yes", ..ConnParam::default() }).unwrap();
                assert_eq!(id.state(), State::Connected);
                // It waits until the peer has ended the connection.
                id.disconnect().unwrap();
                assert_eq!(id.state(), State::Over);
            });
            let connect = |private_data| {
                let info = AddrInfo { source: None, destination: Some(address) };
                let id = clients.create_ep(&info).unwrap();
                assert_eq!(id.state(), State::RouteResolved);
                equip(&id, &a);
                let outcome = id.connect(&ConnParam { private_data, ..ConnParam::default() });
                (id, outcome)
            };
            let (id, outcome) = connect(b"first");
            let ended = Error::Ended { kind: EventKind::Rejected, status: Errno::CONNREFUSED };
            assert_eq!(outcome, Err(ended));
            assert_eq!(id.take_event().unwrap().private_data(), b"no");
            let (id, outcome) = connect(b"second");
            outcome.unwrap();
            assert_eq!(id.take_event().unwrap().private_data(), b"yes");
            assert!(id.take_event().is_none());
            id.disconnect().unwrap();
            assert_eq!(id.disconnect(), Ok(()));
        });
        let id = clients.create_id(None).unwrap();
        let unroutable = id.resolve_addr(None, "192.168.9.9:1".parse().unwrap(), PATIENCE);
        assert_eq!(unroutable.unwrap_err().errno(), Errno::NETUNREACH);
    }
}

/// The loss of the device wakes the threads that wait.
#[test]
fn removal_ends_a_wait() {
    let [_a, b] = moving(Progress::Thread);
    let cm = Cm::new();
    cm.add(&b);
    let listener = cm.create_id(None).unwrap();
    listener.bind(b.address(0)).unwrap();
    listener.listen(1).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| listener.get_request().map(|_| ()));
        cm.remove(&b);
        assert_eq!(waiting.join().unwrap(), Err(Error::DeviceRemoved));
    });
    assert_eq!(listener.get_request().unwrap_err().errno(), Errno::NODEV);
}

/// Four threads wait on one channel: each event goes to one of them.
#[test]
fn threads_share_a_channel() {
    let [a, b] = moving(Progress::Thread).map(Side::new);
    let (_listener, address) = b.listen(CLIENTS);
    let requests = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..CLIENTS / 4 {
                    let mut event = b.channel.wait(None).unwrap();
                    assert_eq!(event.kind(), EventKind::ConnectRequest);
                    requests.lock().unwrap().push(event.take_id().unwrap());
                }
            });
        }
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let id = a.cm.create_ep(&AddrInfo { source: None, destination: Some(address) }).unwrap();
                equip(&id, &a.device);
                // The listener's side is dropped unanswered, which rejects it.
                let refused = id.connect(&ConnParam::default()).unwrap_err();
                assert_eq!(refused.errno(), Errno::CONNREFUSED);
            });
        }
        while requests.lock().unwrap().len() < CLIENTS {
            std::thread::yield_now();
        }
        requests.lock().unwrap().clear();
    });
    assert!(b.channel.wait(Some(Duration::ZERO)).is_none());
}

const CLIENTS: usize = 16;
