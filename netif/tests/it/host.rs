//! The kernel's TCP as a transport, over loopback and against plain sockets of the standard library.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};

use weft_netif::{
    CloseCause, ConnectError, ConnectionId, Duration, Ground, HostStack, Instant, Listen, ListenError,
    LlpState, StackConfig, Transport,
};

pub(crate) const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);
const ANY: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);

/// A stack that runs on the machine's time.
pub(crate) struct Host {
    pub(crate) stack: HostStack,
    start: std::time::Instant,
}

impl Host {
    pub(crate) fn new(address: IpAddr) -> Self {
        Self::with(StackConfig::host(address))
    }

    #[expect(clippy::disallowed_methods, reason = "the kernel's TCP works in real time")]
    fn with(config: StackConfig) -> Self {
        let stack = HostStack::new(config, Instant::ZERO).unwrap();
        Self { stack, start: std::time::Instant::now() }
    }

    pub(crate) fn now(&self) -> Instant {
        Instant::from_micros(i64::try_from(self.start.elapsed().as_micros()).unwrap())
    }

    /// Drives the stack until `done` returns a value, and returns that.
    pub(crate) fn until<T>(&mut self, mut done: impl FnMut(&mut HostStack) -> Option<T>) -> T {
        loop {
            let now = self.now();
            assert!(now < Instant::from_secs(60), "nothing happens");
            self.stack.ingress(now);
            let result = done(&mut self.stack);
            self.stack.egress(now);
            while self.stack.next_ready().is_some() {}
            if let Some(result) = result {
                return result;
            }
            std::thread::yield_now();
        }
    }

    pub(crate) fn until_state(&mut self, id: ConnectionId, state: LlpState) {
        self.until(|stack| {
            // While octets of a connection are unread, it is not drained.
            let mut llp = stack.llp(id)?;
            let _looked_at = llp.readable();
            (llp.state() == state).then_some(())
        });
    }

    fn accept(&mut self) -> (ConnectionId, SocketAddr) {
        self.until(HostStack::next_accepted)
    }

    /// Connects this stack to itself. Returns the connecting and the accepting end.
    fn pair(&mut self, address: IpAddr) -> [ConnectionId; 2] {
        let listener = self.stack.listen(SocketAddr::new(address, 0)).unwrap();
        let to = SocketAddr::new(address, listener.port());
        let id = self.stack.connect(to, None).unwrap();
        let (peer, by) = self.accept();
        assert_eq!(by, listener);
        self.until_state(id, LlpState::Established);
        self.stack.unlisten(listener);
        [id, peer]
    }

    /// Connects this stack to a plain socket.
    pub(crate) fn plain_peer(&mut self) -> (ConnectionId, TcpStream) {
        let listener = TcpListener::bind((V4, 0)).unwrap();
        let id = self.stack.connect(listener.local_addr().unwrap(), None).unwrap();
        let plain = listener.accept().unwrap().0;
        self.until_state(id, LlpState::Established);
        (id, plain)
    }

    fn send(&mut self, id: ConnectionId, octets: &[u8]) {
        let mut sent = 0;
        self.until(|stack| {
            sent += stack.llp(id)?.send_slice(&octets[sent..]);
            (sent == octets.len()).then_some(())
        });
    }

    pub(crate) fn receive(&mut self, id: ConnectionId, len: usize) -> Vec<u8> {
        let mut octets = Vec::new();
        self.until(|stack| {
            let mut llp = stack.llp(id)?;
            let piece = llp.readable();
            let n = piece.len();
            octets.extend_from_slice(piece);
            llp.consume(n);
            (octets.len() >= len).then_some(())
        });
        octets
    }
}

fn pattern(len: usize) -> Vec<u8> {
    (0..=250).cycle().take(len).collect()
}

/// If the kernel took only a part of the octets, the connection is ready when the kernel has room again.
#[test]
fn a_connection_that_has_taken_a_part_is_ready_when_it_has_room() {
    let mut host = Host::new(V4);
    let (id, _plain) = host.plain_peer();
    let octets = pattern(8_000_000);
    let taken = host.stack.llp(id).unwrap().send_slice(&octets);
    assert!(taken < octets.len());
    let now = host.now();
    host.stack.egress(now);
    assert_eq!(host.stack.next_ready(), Some(id));
    assert!(host.stack.llp(id).unwrap().send_slice(&octets[taken..]) > 0);
}

#[test]
fn a_transport_of_the_kernel_is_settled_without_connections_and_has_a_seed_of_its_own() {
    let config = StackConfig { seed: 7, ..StackConfig::host(V4) };
    let mut all = Transport::open_several(Ground::Host, &config, 2, Instant::ZERO).unwrap();
    assert_eq!(all[0].config().seed, 7);
    assert_ne!(all[1].config().seed, 7);
    assert!(all[0].is_settled());
    let listener = TcpListener::bind((V4, 0)).unwrap();
    let id = all[0].connect(listener.local_addr().unwrap(), None, Instant::ZERO).unwrap();
    assert!(!all[0].is_settled() && all[1].is_settled());
    all[0].remove(id);
}

/// The FIN is known before the octets in front of it have been read. The end is not reached until they are.
#[test]
fn a_connection_is_drained_when_all_in_front_of_the_fin_is_consumed() {
    let mut host = Host::new(V4);
    let (id, mut plain) = host.plain_peer();
    plain.write_all(b"last words").unwrap();
    plain.shutdown(Shutdown::Write).unwrap();
    host.until(|stack| (stack.llp(id)?.state() == LlpState::PeerClosed).then_some(()));
    let mut llp = host.stack.llp(id).unwrap();
    assert!(!llp.is_drained());
    assert_eq!(llp.readable(), b"last words");
    assert!(!llp.is_drained());
    llp.consume(10);
    host.until(|stack| {
        let mut llp = stack.llp(id)?;
        let _looked_at = llp.readable();
        llp.is_drained().then_some(())
    });
}

#[test]
fn octets_go_both_ways_over_ipv4_and_ipv6_and_both_ends_close() {
    for address in [V4, V6] {
        let mut host = Host::new(address);
        let [a, b] = host.pair(address);
        assert_eq!(host.stack.peer_addr(b), host.stack.local_addr(a));
        assert_eq!(host.stack.peer_addr(a), host.stack.local_addr(b));
        let octets = pattern(3_000_000);
        for (from, to) in [(a, b), (b, a)] {
            let (mut sent, mut heard) = (0, Vec::new());
            host.until(|stack| {
                sent += stack.llp(from)?.send_slice(&octets[sent..]);
                let mut llp = stack.llp(to)?;
                let len = llp.readable().len();
                heard.extend_from_slice(llp.readable());
                llp.consume(len);
                (heard.len() == octets.len()).then_some(())
            });
            assert!(heard == octets);
        }
        host.stack.llp(a).unwrap().shutdown();
        host.until_state(b, LlpState::PeerClosed);
        assert!(host.stack.llp(b).unwrap().is_drained());
        assert_eq!(host.stack.llp(a).unwrap().state(), LlpState::Established);
        host.send(b, b"after the FIN");
        assert_eq!(host.receive(a, 13), b"after the FIN");
        host.stack.llp(b).unwrap().shutdown();
        for id in [a, b] {
            host.until_state(id, LlpState::Closed);
            assert_eq!(host.stack.llp(id).unwrap().cause(), Some(CloseCause::Graceful));
            host.stack.remove(id);
        }
        host.until(|stack| (stack.counters().connections == 0).then_some(()));
    }
}

#[test]
fn a_listener_on_all_addresses_serves_both_families_and_one_on_an_address_only_that() {
    let mut host = Host::new(ANY);
    let both = host.stack.listen(0).unwrap();
    assert!(both.ip().is_unspecified() && both.port() != 0);
    for address in [V4, V6] {
        let plain = TcpStream::connect((address, both.port())).unwrap();
        let (id, by) = host.accept();
        assert_eq!((by, host.stack.peer_addr(id)), (both, Some(plain.local_addr().unwrap())));
    }
    let one = host.stack.listen(SocketAddr::new(V6, 0)).unwrap();
    assert!(TcpStream::connect((V4, one.port())).is_err());
    assert!(TcpStream::connect((V6, one.port())).is_ok());
    assert_eq!(host.stack.listen(one), Err(ListenError::AddrInUse));
    let foreign = SocketAddr::new([192, 0, 2, 1].into(), 0);
    assert_eq!(host.stack.listen(foreign), Err(ListenError::AddrNotAvailable));
    host.stack.unlisten(one);
    assert!(TcpStream::connect((V6, one.port())).is_err());
    assert_eq!(host.stack.listen(one), Ok(one));
}

#[test]
fn connections_that_the_kernel_refuses() {
    let mut host = Host::new(V4);
    let table = [
        ("0.0.0.0:7", ConnectError::Unaddressable),
        ("127.0.0.1:0", ConnectError::Unaddressable),
        ("224.0.0.1:7", ConnectError::Unaddressable),
        ("255.255.255.255:7", ConnectError::Unaddressable),
        ("[::1]:7", ConnectError::FamilyMismatch),
    ];
    for (remote, error) in table {
        assert_eq!(host.stack.connect(remote.parse().unwrap(), None), Err(error), "{remote}");
    }
    let taken = TcpListener::bind((V4, 0)).unwrap().local_addr().unwrap();
    let foreign = Some("192.0.2.1:0".parse().unwrap());
    assert_eq!(host.stack.connect(taken, foreign), Err(ConnectError::AddrNotAvailable));
    // From here on no socket listens on the port.
    let id = host.stack.connect(taken, None).unwrap();
    host.until_state(id, LlpState::Reset);
    assert_eq!(host.stack.llp(id).unwrap().cause(), Some(CloseCause::Refused));
    assert!(host.stack.llp(id).unwrap().transmit(1, |_| (0, ())).is_none());
    // The own end is the wanted one.
    let listener = TcpListener::bind((V4, 0)).unwrap();
    let id = host.stack.connect(listener.local_addr().unwrap(), Some(taken)).unwrap();
    assert_eq!(host.stack.local_addr(id), Some(taken));
}

#[test]
fn a_congestion_control_that_the_kernel_does_not_know_is_refused_at_once() {
    let config = StackConfig { kernel_congestion: Some("no-such".into()), ..StackConfig::host(V4) };
    let error = HostStack::new(config, Instant::ZERO).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
}

#[test]
fn a_connection_never_is_its_own_peer() {
    let mut host = Host::new(V4);
    let own = TcpListener::bind((V4, 0)).unwrap().local_addr().unwrap();
    let id = host.stack.connect(own, Some(own)).unwrap();
    host.until_state(id, LlpState::Reset);
    assert_eq!(host.stack.llp(id).unwrap().cause(), Some(CloseCause::Refused));
}

#[test]
fn a_reset_is_no_fin_and_what_came_before_it_can_be_read() {
    let mut host = Host::new(V4);
    let [a, b] = host.pair(V4);
    host.send(a, b"before");
    host.stack.llp(a).unwrap().abort();
    assert_eq!(host.stack.llp(a).unwrap().cause(), Some(CloseCause::Aborted));
    host.until(|stack| (stack.state(b) == Some(LlpState::Reset)).then_some(()));
    let mut llp = host.stack.llp(b).unwrap();
    assert_eq!((llp.cause(), llp.readable()), (Some(CloseCause::Reset), &b"before"[..]));
    assert!(!llp.is_drained() && llp.room() == 0);
}

#[test]
fn an_abort_resets_a_plain_peer_and_a_removal_delivers_everything_first() {
    let mut host = Host::new(V4);
    let (id, mut plain) = host.plain_peer();
    host.stack.llp(id).unwrap().abort();
    assert_eq!(plain.read(&mut [0]).unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
    let (id, mut plain) = host.plain_peer();
    let octets = pattern(5_000_000);
    // More octets than the kernel takes at once, and unread octets, with which a plain close would reset.
    plain.write_all(b"unread").unwrap();
    let reader = std::thread::spawn(move || {
        let mut heard = Vec::new();
        plain.read_to_end(&mut heard).map(|_| heard)
    });
    host.send(id, &octets);
    host.stack.remove(id);
    host.until(|stack| (stack.counters().lingering == 0).then_some(()));
    assert!(reader.join().unwrap().unwrap() == octets);
}

#[test]
fn removed_connections_are_bounded_in_number_and_time() {
    let config =
        StackConfig { lingering: 3, linger_timeout: Duration::from_millis(20), ..StackConfig::host(V4) };
    let mut host = Host::with(config);
    let mut plains = Vec::new();
    for _ in 0..8 {
        let (id, plain) = host.plain_peer();
        host.stack.remove(id);
        plains.push(plain);
    }
    assert!(host.stack.counters().lingering <= 3);
    host.until(|stack| (stack.counters().connections == 0).then_some(()));
    drop(plains);
}

#[test]
fn small_messages_go_out_in_one_call_and_idle_connections_cost_none() {
    let mut host = Host::new(V4);
    let ends: Vec<_> = (0..50).map(|_| host.pair(V4)).collect();
    host.until(|stack| (stack.poll_at(Instant::ZERO).is_none() && !stack.has_news()).then_some(()));
    let before = host.stack.host_counters();
    let now = host.now();
    for round in 0..100_u8 {
        assert_eq!(host.stack.llp(ends[7][0]).unwrap().send_slice(&[round; 40]), 40);
    }
    host.stack.egress(now);
    assert_eq!(host.receive(ends[7][1], 4000).len(), 4000);
    let after = host.stack.host_counters();
    assert_eq!(after.sends - before.sends, 1);
    assert!(after.receives - before.receives <= 2, "{before:?} {after:?}");
    // No connection has work, so that only the question to epoll is left.
    for _ in 0..10 {
        host.stack.ingress(now);
        host.stack.egress(now);
    }
    let idle = host.stack.host_counters();
    assert_eq!((idle.receives, idle.sends, idle.waits), (after.receives, after.sends, after.waits + 10));
}

#[test]
fn a_peer_that_sends_without_end_does_not_keep_others_waiting() {
    let config = StackConfig { tcp_buffer: 4096, ..StackConfig::host(V4) };
    let mut host = Host::with(config);
    let (id, mut plain) = host.plain_peer();
    plain.write_all(&pattern(100_000)).unwrap();
    let mut turns = 0;
    let mut heard = 0;
    let now = host.now();
    while heard < 100_000 {
        host.stack.ingress(now);
        while let Some(ready) = host.stack.next_ready() {
            let (before, mut llp) = (heard, host.stack.llp(ready).unwrap());
            while !llp.readable().is_empty() {
                heard += llp.readable().len();
                llp.consume(usize::MAX);
            }
            turns += 1;
            assert!(heard - before <= 4096, "one turn takes what one buffer holds");
        }
        host.stack.egress(now);
    }
    assert!(turns >= 25, "{turns}");
    assert_eq!(host.stack.state(id), Some(LlpState::Established));
}

#[test]
fn a_full_backlog_waits_in_the_kernel_and_unlisten_resets_connections_not_taken() {
    let mut host = Host::new(V4);
    let listen = Listen { backlog: Some(2), ..Listen::from(SocketAddr::new(V4, 0)) };
    let listener = host.stack.listen(listen).unwrap();
    let mut plains: Vec<TcpStream> = (0..3).map(|_| TcpStream::connect(listener).unwrap()).collect();
    host.until(|stack| (stack.host_counters().backlog_waits > 0).then_some(()));
    assert_eq!(host.stack.counters().connections, 2);
    let (first, _) = host.accept();
    host.until(|stack| (stack.host_counters().accepted == 3).then_some(()));
    host.stack.unlisten(listener);
    assert_eq!((host.stack.next_accepted(), host.stack.counters().connections), (None, 1));
    let taken = host.stack.peer_addr(first).unwrap();
    let (kept, reset): (Vec<_>, Vec<_>) =
        plains.iter_mut().partition(|plain| plain.local_addr().unwrap() == taken);
    assert_eq!((kept.len(), reset.len()), (1, 2));
    for plain in reset {
        assert_eq!(plain.read(&mut [0]).unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
    }
}

/// Connections are accepted one after the other. Data that comes meanwhile does not let a later connection overtake
/// an earlier one.
#[test]
fn peers_are_heard_in_the_order_of_their_sends_also_during_accept() {
    let mut host = Host::new(V4);
    let listener = host.stack.listen(SocketAddr::new(V4, 0)).unwrap();
    let mut peers = [0; 3].map(|_| TcpStream::connect(listener).unwrap());
    let ids = [0; 3].map(|_| host.accept().0);
    let speaks = |stack: &mut HostStack, id| !stack.llp(id).unwrap().readable().is_empty();
    assert!(!speaks(&mut host.stack, ids[0]));
    peers.iter_mut().for_each(|peer| peer.write_all(b"hello").unwrap());
    assert!(
        !speaks(&mut host.stack, ids[1]) && !speaks(&mut host.stack, ids[2]),
        "the first one spoke before"
    );
    let mut heard = Vec::new();
    host.until(|stack| {
        while let Some(id) = stack.next_ready() {
            if speaks(stack, id) && !heard.contains(&id) {
                heard.push(id);
            }
        }
        (heard.len() == 3).then_some(())
    });
    assert_eq!(heard, ids);
}

#[test]
fn a_half_closed_peer_can_still_be_sent_to() {
    let mut host = Host::new(V4);
    let (id, mut plain) = host.plain_peer();
    plain.write_all(b"last").unwrap();
    plain.shutdown(Shutdown::Write).unwrap();
    assert_eq!(host.receive(id, 4), b"last");
    host.until_state(id, LlpState::PeerClosed);
    host.send(id, b"answer");
    let mut heard = [0; 6];
    plain.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"answer");
}

#[test]
fn a_connection_that_awaits_acknowledgements_is_reported_when_they_come() {
    let mut host = Host::new(V4);
    let (id, plain) = host.plain_peer();
    host.send(id, b"octets");
    host.until(|stack| (stack.llp(id)?.unsent() == 0).then_some(()));
    drop(plain);
}

/// Runs in a process of its own, since the limit is the whole process's.
#[test]
fn without_descriptors_new_peers_wait_and_the_others_go_on() {
    let name = "host::without_descriptors_new_peers_wait_and_the_others_go_on";
    if std::env::var_os(LIMITED).is_none() {
        let output = std::process::Command::new("sh")
            .args(["-c", "ulimit -n 64; exec \"$0\" --exact \"$1\" --nocapture"])
            .arg(std::env::current_exe().unwrap())
            .arg(name)
            .env(LIMITED, "1")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{output:?}");
        return;
    }
    let mut host = Host::new(V4);
    let [a, b] = host.pair(V4);
    let listener = host.stack.listen(0).unwrap();
    let plains: Vec<_> = (0..10).map(|_| TcpStream::connect((V4, listener.port())).unwrap()).collect();
    let hogs: Vec<_> = core::iter::from_fn(|| std::fs::File::open("/dev/null").ok()).collect();
    let now = host.now();
    for _ in 0..5 {
        host.stack.ingress(now);
    }
    // The stack tries once, and again after the pause.
    assert_eq!(host.stack.host_counters().accept_failures, 1);
    assert!(host.stack.poll_at(now).is_some_and(|at| at > now));
    host.send(a, b"others go on");
    assert_eq!(host.receive(b, 12), b"others go on");
    let refused = host.stack.connect((V4, listener.port()).into(), None);
    assert!(matches!(refused, Err(ConnectError::System(_))), "{refused:?}");
    assert!(matches!(host.stack.listen(0), Err(ListenError::System(_))));
    drop(hogs);
    for _ in &plains {
        host.accept();
    }
}

const LIMITED: &str = "WEFT_TEST_LIMITED";

/// Other callers cannot bind a bound port. A caller that names it can use it.
#[test]
fn a_bound_port_is_kept() {
    for address in [V4, V6, ANY] {
        let mut host = Host::new(address);
        let bound = host.stack.bind(SocketAddr::new(address, 0)).unwrap();
        assert_ne!(bound.port(), 0);
        assert_eq!(host.stack.bind(bound), Err(ListenError::AddrInUse));
        assert!(TcpListener::bind(bound).is_ok(), "the kernel lets sockets share a port without a listener");
        assert_eq!(host.stack.listen(Listen::from(bound)), Ok(bound));
        assert_eq!(TcpListener::bind(bound).unwrap_err().kind(), std::io::ErrorKind::AddrInUse);
        let to = SocketAddr::new(if address == ANY { V4 } else { address }, bound.port());
        let from = host.stack.bind(SocketAddr::new(to.ip(), 0)).unwrap();
        let id = host.stack.connect(to, Some(from)).unwrap();
        let (accepted, _) = host.accept();
        assert_eq!(host.stack.peer_addr(accepted), Some(from));
        assert_eq!(host.stack.local_addr(id), Some(from));
        host.stack.unbind(bound);
        assert_eq!(host.stack.bind(bound), Err(ListenError::AddrInUse));
        host.stack.unlisten(bound);
        host.stack.unbind(from);
    }
}
