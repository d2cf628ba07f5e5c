//! A relay between `weft conform` and a server. It changes the server's octets, and the judge has to notice.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use weft_conform::octets::fpdu;
use weft_netif::{ConnectionId, Instant, LlpState, Spec, Stack, StackConfig, Wire};

/// The change to the octets of the server.
#[derive(Clone, Copy)]
pub(crate) enum Sabotage {
    /// A change to a Reply Frame.
    Reply(fn(&mut Vec<u8>)),
    /// A change to a ULPDU. The FPDU around it is made anew.
    Ulpdu(fn(&mut Vec<u8>)),
    /// A change to a whole FPDU.
    Fpdu(fn(&mut Vec<u8>)),
}

/// Relays connections to a port of loopback to the server at the other end of `wire`, one at a time.
pub(crate) fn relay(wire: &Path, server: SocketAddr, sabotage: Sabotage) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let wire = open(wire);
    std::thread::spawn(move || {
        let stack = Stack::new(wire, StackConfig::new("10.0.0.2/24".parse().unwrap()), Instant::ZERO);
        let mut relay = Relay { stack, start: start(), sabotage };
        while let Ok((client, _)) = listener.accept() {
            relay.serve(client, server);
        }
    });
    address
}

struct Relay {
    stack: Stack,
    start: std::time::Instant,
    sabotage: Sabotage,
}

/// One connection, while it is relayed.
struct Traffic {
    client: TcpStream,
    server: ConnectionId,
    up: Vec<u8>,
    down: Down,
    client_has_ended: bool,
}

/// The octets of the server: a Reply Frame, then FPDUs.
struct Down {
    octets: Vec<u8>,
    has_replied: bool,
    /// With Markers, FPDUs pass unchanged: they cannot be taken apart here.
    passes: bool,
}

impl Relay {
    fn serve(&mut self, client: TcpStream, server: SocketAddr) {
        client.set_nonblocking(true).unwrap();
        client.set_nodelay(true).unwrap();
        let server = self.stack.connect(server, None, self.now()).unwrap();
        let down = Down { octets: Vec::new(), has_replied: false, passes: false };
        let mut traffic = Traffic { client, server, up: Vec::new(), down, client_has_ended: false };
        while self.pump(&mut traffic) {
            self.sleep(&traffic.client);
        }
        self.stack.remove(server);
        let now = self.now();
        self.stack.egress(now);
    }

    /// Moves all waiting octets. Returns false when the connection is over.
    fn pump(&mut self, traffic: &mut Traffic) -> bool {
        let now = self.now();
        self.stack.ingress(now);
        while self.stack.next_ready().is_some() {}
        let is_open = self.exchange(traffic);
        self.stack.egress(now);
        is_open
    }

    fn exchange(&mut self, traffic: &mut Traffic) -> bool {
        let mut llp = self.stack.llp(traffic.server).unwrap();
        if llp.state() == LlpState::Connecting {
            return true;
        }
        if !traffic.read_client() {
            llp.abort();
            return false;
        }
        let sent = llp.send_slice(&traffic.up);
        traffic.up.drain(..sent);
        if traffic.client_has_ended && traffic.up.is_empty() {
            llp.shutdown();
        }
        let octets = llp.readable().to_vec();
        llp.consume(octets.len());
        let out = traffic.down.take(&octets, self.sabotage);
        // The next read shows whether the client has gone.
        traffic.client.set_nonblocking(false).unwrap();
        let _gone = traffic.client.write_all(&out);
        traffic.client.set_nonblocking(true).unwrap();
        match llp.state() {
            LlpState::Reset => false,
            _ if llp.is_drained() => {
                let _gone = traffic.client.shutdown(Shutdown::Write);
                !traffic.client_has_ended
            }
            _ => true,
        }
    }

    fn now(&self) -> Instant {
        Instant::from_micros(i64::try_from(self.start.elapsed().as_micros()).unwrap())
    }

    fn sleep(&self, client: &TcpStream) {
        let wire = self.stack.poll_fd().unwrap();
        let client = client.as_fd();
        let timeout = Timespec::try_from(Duration::from_millis(1)).unwrap();
        let mut fds = [PollFd::new(&wire, PollFlags::IN), PollFd::new(&client, PollFlags::IN)];
        let _interrupted = poll(&mut fds, Some(&timeout));
    }
}

impl Traffic {
    /// Returns false when the client has reset the connection.
    fn read_client(&mut self) -> bool {
        let mut octets = [0; 65_536];
        match self.client.read(&mut octets) {
            Ok(0) => self.client_has_ended = true,
            Ok(len) => {
                // The Request asks for Markers.
                self.down.passes |= octets.starts_with(b"MPA ID Req Frame") && octets[16] & 0x80 != 0;
                self.up.extend_from_slice(&octets[..len]);
            }
            Err(error) => return error.kind() == ErrorKind::WouldBlock,
        }
        true
    }
}

impl Down {
    /// Takes octets of the server, and returns those that go on to the client.
    fn take(&mut self, octets: &[u8], sabotage: Sabotage) -> Vec<u8> {
        self.octets.extend_from_slice(octets);
        let mut out = Vec::new();
        if !self.has_replied && self.octets.len() >= 20 {
            let len = 20 + usize::from(u16::from_be_bytes([self.octets[18], self.octets[19]]));
            if self.octets.len() < len {
                return out;
            }
            let mut reply: Vec<u8> = self.octets.drain(..len).collect();
            if let Sabotage::Reply(change) = sabotage {
                change(&mut reply);
            }
            self.has_replied = true;
            out.extend(reply);
        }
        while self.has_replied && !self.octets.is_empty() {
            let len = match self.octets[..] {
                _ if self.passes => self.octets.len(),
                [high, low, ..] => (2 + usize::from(u16::from_be_bytes([high, low]))).next_multiple_of(4) + 4,
                _ => break,
            };
            if self.octets.len() < len {
                break;
            }
            let octets: Vec<u8> = self.octets.drain(..len).collect();
            out.extend(if self.passes { octets } else { change_fpdu(octets, sabotage) });
        }
        out
    }
}

fn change_fpdu(mut octets: Vec<u8>, sabotage: Sabotage) -> Vec<u8> {
    match sabotage {
        Sabotage::Reply(_) => octets,
        Sabotage::Fpdu(change) => {
            change(&mut octets);
            octets
        }
        Sabotage::Ulpdu(change) => {
            let len = usize::from(u16::from_be_bytes([octets[0], octets[1]]));
            let mut ulpdu = octets[2..2 + len].to_vec();
            change(&mut ulpdu);
            fpdu(&ulpdu)
        }
    }
}

/// Time between two attempts: the socket is there a moment before its server listens.
fn open(wire: &Path) -> Wire {
    let begin = start();
    loop {
        match Wire::open(&Spec::Unix(wire.into()), 1500) {
            Err(error) if error.kind() == ErrorKind::ConnectionRefused && begin.elapsed() < PATIENCE => {
                std::thread::yield_now();
            }
            wire => return wire.unwrap(),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the two processes live in real time")]
fn start() -> std::time::Instant {
    std::time::Instant::now()
}

const PATIENCE: Duration = Duration::from_secs(30);
