//! How connections come about, and how they do not.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, Wake, Waker};
use std::time::Duration;

use weft_exs::{Context, Error, Messages, Options, RejectCode, Stream};
use weft_netif::Instant;
use weft_rnic::{
    Access, CmEvent, Config, ConnParam, ConnectFailure, CqInit, Device, Ground, Progress, QpInit,
};

use crate::world::{LOCAL, PATIENCE, World};

#[test]
fn a_stream_is_not_connected_with_messages() {
    let world = World::new();
    let options = Options::default();
    let listener = world.server.listen::<Messages>(SocketAddr::new(LOCAL, 0), &options).unwrap();
    let connecting = world.client.connect::<Stream>(listener.local_addr(), &options);
    let refused = connecting.wait_timeout(PATIENCE).unwrap().unwrap_err();
    assert_eq!(refused, Error::Refused(Some(RejectCode::Kind)));
    assert_eq!((world.client.sockets(), world.server.sockets()), (0, 0));
}

#[test]
fn nobody_listens_there() {
    let world = World::new();
    let options = Options::default();
    let listener = world.server.listen::<Messages>(SocketAddr::new(LOCAL, 0), &options).unwrap();
    let address = listener.local_addr();
    drop(listener);
    let connecting = world.client.connect::<Messages>(address, &options);
    let refused = connecting.wait_timeout(PATIENCE).unwrap().unwrap_err();
    assert_eq!(refused, Error::Connect(ConnectFailure::Refused));
}

/// The peer resets the connection before this side has looked at it.
#[test]
fn a_connection_that_is_reset_while_it_opens_is_closed_and_not_unreachable() {
    let config = Config { progress: Progress::External, ..Config::host(LOCAL, 1) };
    let client = Context::open(Ground::Host, config).unwrap();
    let listener = std::net::TcpListener::bind((LOCAL, 0)).unwrap();
    let mut connecting = client.connect::<Stream>(listener.local_addr().unwrap(), &Options::default());
    let mut now = Instant::ZERO;
    listener.set_nonblocking(true).unwrap();
    let peer = loop {
        if let Ok((peer, _)) = listener.accept() {
            break peer;
        }
        now += Duration::from_millis(1).into();
        client.drive(now);
    };
    rustix::net::sockopt::set_socket_linger(&peer, Some(Duration::ZERO)).unwrap();
    drop(peer);
    let error = loop {
        match connecting.wait_timeout(Duration::ZERO) {
            Ok(outcome) => break outcome.unwrap_err(),
            Err(op) => connecting = op,
        }
        now += Duration::from_millis(1).into();
        client.drive(now);
    };
    assert_eq!(error, Error::Connect(ConnectFailure::Closed));
}

#[test]
fn options_beyond_their_limits_are_named() {
    let world = World::new();
    let good = Options::default();
    let bad = [
        ("small_packet_max", Options { small_packet_max: (16 << 20) + 1, ..good }),
        ("small_packet_max", Options { small_packet_max: 16 << 20, recv_credits: 1024, ..good }),
        ("send_credits", Options { send_credits: 0, ..good }),
        ("recv_credits", Options { recv_credits: 1025, ..good }),
        ("window", Options { window: 7, ..good }),
        ("adverts", Options { adverts: 257, ..good }),
        ("ring", Options { ring: 4095, ..good }),
        ("backlog", Options { backlog: 0, ..good }),
    ];
    for (name, options) in bad {
        let refused = world.server.listen::<Messages>(SocketAddr::new(LOCAL, 0), &options);
        assert_eq!(refused.err(), Some(Error::InvalidOption(name)));
        let refused = world.client.connect::<Messages>(SocketAddr::new(LOCAL, 1), &options);
        assert_eq!(refused.wait().err(), Some(Error::InvalidOption(name)));
    }
}

#[test]
fn connections_beyond_the_backlog_are_rejected() {
    let world = World::new();
    let options = Options { backlog: 2, ..Options::default() };
    let listener = world.server.listen::<Messages>(SocketAddr::new(LOCAL, 0), &options).unwrap();
    let connect = || {
        let connecting = world.client.connect::<Messages>(listener.local_addr(), &options);
        connecting.wait_timeout(PATIENCE).unwrap()
    };
    let sockets = [connect().unwrap(), connect().unwrap()];
    assert_eq!(connect().unwrap_err(), Error::Refused(Some(RejectCode::Resources)));
    // An accept that nobody waits for any more takes none.
    let accepted = listener.accept().wait_timeout(PATIENCE).unwrap().unwrap();
    let last = connect().unwrap();
    drop((sockets, accepted, last));
}

#[test]
fn an_accept_that_was_dropped_takes_no_socket() {
    let world = World::new();
    let options = Options::default();
    let listener = world.server.listen::<Messages>(SocketAddr::new(LOCAL, 0), &options).unwrap();
    drop(listener.accept());
    let accepting = listener.accept();
    let connecting = world.client.connect::<Messages>(listener.local_addr(), &options);
    let ours = connecting.wait_timeout(PATIENCE).unwrap().unwrap();
    let theirs = accepting.wait_timeout(PATIENCE).unwrap().unwrap();
    assert_eq!(ours.addresses().map(|[own, peer]| [peer, own]), theirs.addresses());
}

#[test]
fn a_listener_that_is_dropped_cancels_the_calls_that_wait() {
    let world = World::new();
    let options = Options::default();
    let listener = world.server.listen::<Messages>(SocketAddr::new(LOCAL, 0), &options).unwrap();
    let accepts = [listener.accept(), listener.accept()];
    drop(listener);
    for accepting in accepts {
        assert_eq!(accepting.wait_timeout(PATIENCE).unwrap().err(), Some(Error::Canceled));
    }
}

/// A peer that speaks verbs and no EXS, in both roles.
#[test]
fn a_peer_without_exs_is_told_apart() {
    let world = World::new();
    let options = Options::default();
    let config = Config { progress: Progress::Thread, ..Config::host(LOCAL, 9) };
    let device = Device::open(Ground::Host, config).unwrap();
    let pd = device.alloc_pd();
    let cq = device.create_cq_with(&CqInit::new(64)).unwrap();
    let events = device.create_event_channel().unwrap();
    let _memory = pd.register(64, Access::LOCAL_WRITE).unwrap();

    let listener = world.server.listen::<Messages>(SocketAddr::new(LOCAL, 0), &options).unwrap();
    for (octets, code) in [
        (&b""[..], RejectCode::Malformed),
        (&b"something else"[..], RejectCode::Malformed),
        (&b"weft-exs\x02and more"[..], RejectCode::Version),
    ] {
        let qp = device.create_qp(&pd, &QpInit::new(&cq, &cq)).unwrap();
        let param = ConnParam { private_data: octets, ..ConnParam::NONE };
        device.connect(&events, &qp, listener.local_addr(), param).unwrap();
        let Some(CmEvent::Rejected { private_data, .. }) = events.wait(Some(PATIENCE)) else {
            panic!("it is rejected")
        };
        assert_eq!(RejectCode::parse(&private_data), Some(code));
    }
    assert_eq!(world.server.sockets(), 0);

    let listener = device.listen(&events, SocketAddr::new(LOCAL, 0)).unwrap();
    let answers = [(true, Error::Refused(Some(RejectCode::Malformed))), (false, Error::Refused(None))];
    for (accepts, error) in answers {
        let connecting = world.client.connect::<Messages>(listener.local_addr(), &options);
        let Some(CmEvent::ConnectRequest(request)) = events.wait(Some(PATIENCE)) else {
            panic!("there is a request")
        };
        let qp = device.create_qp(&pd, &QpInit::new(&cq, &cq)).unwrap();
        if accepts {
            device.accept(request.id, &qp, ConnParam::NONE).unwrap();
        } else {
            device.reject(request.id, b"no").unwrap();
        }
        assert_eq!(connecting.wait_timeout(PATIENCE).unwrap().unwrap_err(), error);
        while events.wait(Some(Duration::from_millis(100))).is_some() {}
    }
    assert_eq!(world.client.sockets(), 0);
}

/// Runs a future on this thread.
fn run<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut TaskContext::from_waker(&waker)) {
            Poll::Ready(outcome) => return outcome,
            Poll::Pending => std::thread::park_timeout(PATIENCE),
        }
    }
}

#[test]
fn operations_are_futures_for_any_executor() {
    let world = World::new();
    let options = Options::default();
    let listener = world.server.listen::<Messages>(SocketAddr::new(LOCAL, 0), &options).unwrap();
    let server = async {
        let socket = listener.accept().await?;
        let mut buf = world.server.buffer(5000)?;
        for _ in 0..50 {
            let (received, back) = socket.recv(buf, ..).await;
            let len = received?.octets as usize;
            let (sent, back) = socket.send(back, ..len).await;
            sent?;
            buf = back;
        }
        let closed = socket.close();
        closed.await
    };
    let client = async {
        let socket = world.client.connect::<Messages>(listener.local_addr(), &options).await?;
        let mut buf = world.client.buffer(5000)?;
        for len in (0..50).map(|number| number * 100) {
            buf[..len].fill(7);
            let (sent, back) = socket.send(buf, ..len).await;
            sent?;
            let (received, back) = socket.recv(back, ..).await;
            assert_eq!(received?.octets as usize, len);
            assert!(back[..len].iter().all(|octet| *octet == 7));
            buf = back;
        }
        let closed = socket.close();
        closed.await
    };
    std::thread::scope(|scope| {
        let server = scope.spawn(|| run(server));
        assert_eq!(run(client), Ok::<(), Error>(()));
        assert_eq!(server.join().unwrap(), Ok::<(), Error>(()));
    });
}

#[test]
fn a_socket_connects_from_the_port_that_was_asked_for() {
    let world = World::new();
    let options = Options::default();
    let listener = world.server.listen::<Messages>(SocketAddr::new(LOCAL, 0), &options).unwrap();
    // A port that was free a moment ago.
    let port = world.client.device().bind(SocketAddr::new(LOCAL, 0)).unwrap().local_addr().port();
    let own = SocketAddr::new(LOCAL, port);
    let connecting = world.client.connect_from::<Messages>(Some(own), listener.local_addr(), &options);
    let ours = connecting.wait_timeout(PATIENCE).unwrap().unwrap();
    assert_eq!(ours.addresses(), Some([own, listener.local_addr()]));
    let foreign = Some("192.0.2.1:0".parse().unwrap());
    let refused = world.client.connect_from::<Messages>(foreign, listener.local_addr(), &options);
    assert!(matches!(refused.wait(), Err(Error::Address(_))));
}
