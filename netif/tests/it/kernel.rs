//! The own TCP against the kernel's, on a TAP device in a network namespace of the test's own.

use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::thread::{JoinHandle, spawn};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use weft_netif::{
    CloseCause, ConnectionId, Duration, Impairment, ImpairmentConfig, Instant, LlpState, Stack, StackConfig,
    Tcp, Wire, pair,
};

use crate::bench::{PORT, Talker, V4, V6, pattern};

/// Runs `body` in a namespace of its own, with a TAP device. The test starts its own binary again for that.
fn in_namespace(name: &str, body: fn()) {
    if std::env::var_os(INSIDE).is_some() {
        ip("tuntap add tap0 mode tap");
        ip("addr add 10.0.0.2/24 dev tap0");
        ip("addr add fd00::2/64 dev tap0 nodad");
        ip("link set tap0 up");
        ip("link set lo up");
        return body();
    }
    let trial = Command::new("unshare").args(["-Urn", "ip", "tuntap", "add", "tap0", "mode", "tap"]).output();
    if !trial.is_ok_and(|trial| trial.status.success()) {
        println!("skipped: {name}: no TAP device in a namespace of its own");
        return;
    }
    let binary = std::env::current_exe().unwrap();
    let mut again = Command::new("unshare");
    again.arg("-Urn").arg(binary).args(["--exact", name, "--nocapture", "--test-threads=1"]);
    let done = again.env(INSIDE, "1").output().unwrap();
    let text = String::from_utf8_lossy(&done.stdout) + String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success() && text.contains("1 passed"), "in the namespace:\n{text}");
}

fn ip(line: &str) {
    let done = Command::new("ip").args(line.split(' ')).output().unwrap();
    assert!(done.status.success(), "ip {line}: {}", String::from_utf8_lossy(&done.stderr));
}

/// A stack whose peer is the kernel. Frames may go through a relay that impairs both directions.
struct World {
    stack: Stack,
    relay: Option<Relay>,
    begin: std::time::Instant,
}

/// Carries frames between the device and a wire through memory. Impairments act on what each of them receives.
struct Relay {
    device: Wire,
    near: Wire,
    to_kernel: Impairment,
    to_stack: Impairment,
}

impl Relay {
    fn work(&mut self, now: Instant) {
        let mut frame = Vec::new();
        while self.near.receive(now, &mut frame) {
            self.to_kernel.push(now, &frame);
        }
        while self.device.receive(now, &mut frame) {
            self.to_stack.push(now, &frame);
        }
        while let Some(frame) = self.to_kernel.pop(now) {
            self.device.send(now, &frame);
        }
        while let Some(frame) = self.to_stack.pop(now) {
            self.near.send(now, &frame);
        }
    }
}

impl World {
    #[expect(clippy::disallowed_methods, reason = "the kernel's TCP works in real time")]
    fn new(address: &str, spec: &str, impairment: Option<ImpairmentConfig>) -> Self {
        let device = Wire::open(&spec.parse().unwrap(), 1500).unwrap();
        let config = StackConfig { tcp: Tcp::Own, ..StackConfig::new(address.parse().unwrap()) };
        let (wire, relay) = match impairment {
            None => (device, None),
            Some(config) => {
                let (far, near) = pair(1500);
                let of = |seed| Impairment::new(ImpairmentConfig { seed, ..config.clone() });
                (far, Some(Relay { device, near, to_kernel: of(1), to_stack: of(2) }))
            }
        };
        Self { stack: Stack::new(wire, config, Instant::ZERO), relay, begin: std::time::Instant::now() }
    }

    fn now(&self) -> Instant {
        Instant::from_micros(i64::try_from(self.begin.elapsed().as_micros()).unwrap())
    }

    /// Works until `done` returns true.
    fn drive(&mut self, mut done: impl FnMut(&mut Stack) -> bool) {
        let limit = self.now() + Duration::from_secs(60);
        while !done(&mut self.stack) {
            let now = self.now();
            assert!(now < limit, "nothing more happens: {:?} {:?}", self.stack, self.stack.tcp_counters());
            self.relay.iter_mut().for_each(|relay| relay.work(now));
            self.stack.ingress(now);
            self.stack.egress(now);
            self.relay.iter_mut().for_each(|relay| relay.work(now));
            let wire = self.relay.as_ref().map_or_else(|| self.stack.wire(), |relay| &relay.device);
            let fd = wire.poll_fd().unwrap();
            let mut fds = [PollFd::new(&fd, PollFlags::IN)];
            let at = self.stack.poll_at(now).unwrap_or(now + Duration::from_millis(1));
            let nanos = at.total_micros().saturating_sub(now.total_micros()).clamp(0, 200) * 1000;
            poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: nanos })).unwrap();
        }
    }

    /// Sends a pattern both ways, and closes. The kernel listens, or connects. `first` closes first: this side or not.
    fn exchange(&mut self, len: usize, kernel_listens: bool, first: bool) {
        let own = SocketAddr::new(self.stack.ip().address, PORT);
        let peer: IpAddr = if own.is_ipv4() { "10.0.0.2" } else { "fd00::2" }.parse().unwrap();
        let now = self.now();
        let (id, kernel) = if kernel_listens {
            let listener = TcpListener::bind(SocketAddr::new(peer, 0)).unwrap();
            let id = self.stack.connect(listener.local_addr().unwrap(), None, now).unwrap();
            (Some(id), spawn(move || talk(listener.accept().unwrap().0, len, !first)))
        } else {
            let _is_listening = self.stack.listen(PORT);
            (None, spawn(move || talk(TcpStream::connect(own).unwrap(), len, !first)))
        };
        let id = id.unwrap_or_else(|| self.accepted());
        self.finish(id, kernel, (len, first));
    }

    fn accepted(&mut self) -> ConnectionId {
        let mut accepted = None;
        self.drive(|stack| {
            accepted = stack.next_accepted();
            accepted.is_some()
        });
        accepted.unwrap().0
    }

    fn finish(&mut self, id: ConnectionId, kernel: JoinHandle<()>, (len, first): (usize, bool)) {
        let [mut talker, _] = Talker::pair(len);
        self.drive(|stack| stack.state(id) != Some(LlpState::Connecting) && talker.talk(stack, id));
        if !first {
            self.drive(|stack| stack.state(id) == Some(LlpState::PeerClosed));
        }
        self.stack.llp(id).unwrap().shutdown();
        self.drive(|stack| stack.state(id) == Some(LlpState::Closed));
        assert_eq!(self.stack.llp(id).unwrap().cause(), Some(CloseCause::Graceful));
        self.stack.remove(id);
        self.drive(|_| kernel.is_finished());
        kernel.join().unwrap();
    }
}

/// The kernel's side: sends one pattern, and checks the other one up to the end of the stream.
fn talk(mut stream: TcpStream, len: usize, first: bool) {
    let mut reader = stream.try_clone().unwrap();
    let reading = spawn(move || {
        let mut octets = vec![0; len];
        reader.read_exact(&mut octets).unwrap();
        assert!(octets.iter().enumerate().all(|(at, octet)| *octet == pattern(1, at)), "other octets");
        reader
    });
    let octets: Vec<u8> = (0..len).map(|at| pattern(2, at)).collect();
    stream.write_all(&octets).unwrap();
    let mut reader = reading.join().unwrap();
    if first {
        stream.shutdown(Shutdown::Write).unwrap();
    }
    assert_eq!(reader.read(&mut [0; 9]).unwrap(), 0, "the end");
}

#[test]
fn streams_to_and_from_the_kernel() {
    in_namespace("kernel::streams_to_and_from_the_kernel", || {
        for spec in ["tap:tap0", "tap:tap0,plain"] {
            for address in [V4[0], V6[0]] {
                let mut world = World::new(address, spec, None);
                for kernel_listens in [true, false] {
                    for first in [true, false] {
                        world.exchange(4 << 20, kernel_listens, first);
                    }
                }
                let counters = world.stack.tcp_counters();
                assert_eq!((counters.opened, counters.accepted, counters.failed), (2, 2, 0));
                assert_eq!((counters.timeouts, counters.resets_received), (0, 0), "{counters:?}");
            }
        }
    });
}

#[test]
fn streams_to_and_from_the_kernel_under_loss() {
    in_namespace("kernel::streams_to_and_from_the_kernel_under_loss", || {
        for (loss, reorder, duplicate) in
            [(0.0, 0.0, 0.0), (0.001, 0.0, 0.0), (0.01, 0.0, 0.0), (0.05, 0.0, 0.0), (0.01, 0.05, 0.02)]
        {
            let delay = Duration::from_micros(100);
            let config = ImpairmentConfig { loss, reorder, duplicate, delay, ..ImpairmentConfig::default() };
            let address = if reorder > 0.0 { V6[0] } else { V4[0] };
            let mut world = World::new(address, "tap:tap0,plain", Some(config));
            for kernel_listens in [true, false] {
                let begin = world.now();
                world.exchange(1 << 20, kernel_listens, kernel_listens);
                let (took, counters) = (world.now() - begin, world.stack.tcp_counters());
                println!("loss {loss} reorder {reorder}: {took}, {} again", counters.segments_retransmitted);
            }
            let counters = world.stack.tcp_counters();
            assert!(loss < 0.005 || counters.segments_retransmitted > 0, "{counters:?}");
        }
    });
}

/// Set for the second start, in the namespace.
const INSIDE: &str = "WEFT_TEST_NAMESPACE";
