//! A peer that speaks octets.
//!
//! It has its own TCP at the other end of a device's wire and knows nothing of MPA, DDP and RDMAP. A test writes down
//! the octets that it sends and expects. It drives the device together with itself on the virtual clock.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::rc::Rc;

use weft_netif::{ConnectionId, Duration, Instant, Llp, LlpState, Stack, StackConfig, Wire};
use weft_rnic::{Clock, Device};

/// The TCP/IP on which [`RawPeer`]s live, with the device that it drives. Clones are handles to the same one.
#[derive(Clone, Debug)]
pub struct RawHost {
    inner: Rc<RefCell<Inner>>,
}

/// One TCP connection between a [`RawHost`] and the device. Its drop leaves the connection open.
#[derive(Debug)]
pub struct RawPeer {
    host: RawHost,
    id: ConnectionId,
    taken: Cell<u64>,
}

impl RawHost {
    /// A host at `address` on `wire`, which shares `clock` with `device` at the other end.
    pub fn new(wire: Wire, clock: &Clock, device: &Device, address: &str, seed: u64) -> Self {
        let ip = address.parse().expect("an address of a test");
        Self::with_config(wire, clock, device, StackConfig { seed, ..StackConfig::new(ip) })
    }

    /// A host with settings of its own, except for the MTU, which is the wire's.
    pub fn with_config(wire: Wire, clock: &Clock, device: &Device, config: StackConfig) -> Self {
        let config = StackConfig { mtu: wire.mtu(), ..config };
        let stack = Stack::new(wire, config, clock.now());
        let inner = Inner {
            stack,
            device: device.clone(),
            clock: clock.clone(),
            sockets: HashMap::new(),
            accepted: VecDeque::new(),
        };
        Self { inner: Rc::new(RefCell::new(inner)) }
    }

    /// Accepts connections to `port` from now on.
    pub fn listen(&self, port: u16) {
        self.inner.borrow_mut().stack.listen(port).expect("a free port");
    }

    /// Returns the next connection that the device opens. Panics if none comes.
    pub fn accept(&self) -> RawPeer {
        let id = self.wait("a connection of the device", || self.inner.borrow_mut().accepted.pop_front());
        self.peer(id)
    }

    /// Opens a connection to `remote`, an address of the device. Panics if the device refuses.
    pub fn connect(&self, remote: SocketAddr) -> RawPeer {
        let id = {
            let mut inner = self.inner.borrow_mut();
            let now = inner.clock.now();
            let id = inner.stack.connect(remote, None, now).expect("a way to the device");
            inner.sockets.insert(id, Socket::default());
            id
        };
        let peer = self.peer(id);
        self.wait("TCP's handshake", || (peer.state() != LlpState::Connecting).then_some(()));
        assert_eq!(peer.state(), LlpState::Established, "the device refuses the connection");
        peer
    }

    /// Returns the present time.
    pub fn now(&self) -> Instant {
        self.inner.borrow().clock.now()
    }

    /// Lets all events of the next `time` happen.
    pub fn settle(&self, time: Duration) {
        let deadline = self.now() + time;
        let mut steps = 0;
        while self.step(deadline) {
            steps += 1;
            assert!(steps < MAX_STEPS, "it never comes to rest");
        }
    }

    /// Runs until `done` returns a value. Panics after [`PATIENCE`] of virtual time.
    pub fn wait<T>(&self, what: &str, mut done: impl FnMut() -> Option<T>) -> T {
        let deadline = self.now() + PATIENCE;
        for _ in 0..MAX_STEPS {
            if let Some(result) = done() {
                return result;
            }
            if !self.step(deadline) {
                return done().unwrap_or_else(|| panic!("waited in vain for {what}"));
            }
        }
        panic!("too much happens while waiting for {what}");
    }

    fn peer(&self, id: ConnectionId) -> RawPeer {
        RawPeer { host: self.clone(), id, taken: Cell::new(0) }
    }

    /// Lets the next event happen and returns true. If there is none up to `limit`, sets the clock to `limit` and
    /// returns false.
    fn step(&self, limit: Instant) -> bool {
        self.inner.borrow_mut().step(limit)
    }
}

impl RawPeer {
    /// Sends `octets` in segments that TCP chooses.
    pub fn send(&self, octets: &[u8]) {
        let mut rest = octets;
        let mut deadline = self.host.now() + PATIENCE;
        while !rest.is_empty() {
            let sent = self.with_llp(|llp| llp.send_slice(rest));
            rest = &rest[sent..];
            if sent > 0 {
                deadline = self.host.now() + PATIENCE;
            }
            if !rest.is_empty() {
                // The send buffer is full. Time has to pass, since the device's acknowledgements may be delayed.
                assert!(self.host.now() < deadline, "the device takes no more octets");
                self.host.settle(Duration::from_millis(1));
            }
        }
    }

    /// Sends as many of `octets` as there is room for, which may be none. Returns how many.
    pub fn offer(&self, octets: &[u8]) -> usize {
        self.with_llp(|llp| llp.send_slice(octets))
    }

    /// Returns the octets that have come, without waiting.
    pub fn take(&self) -> Vec<u8> {
        let octets = std::mem::take(&mut self.host.inner.borrow_mut().socket(self.id).inbox);
        self.taken.set(self.taken.get() + octets.len() as u64);
        octets
    }

    /// Sends `octets` in TCP segments of one octet each.
    pub fn send_one_by_one(&self, octets: &[u8]) {
        for octet in octets {
            self.send(std::slice::from_ref(octet));
            self.host.settle(ACKNOWLEDGED);
        }
    }

    /// Waits for `len` octets.
    pub fn read_exact(&self, len: usize) -> Vec<u8> {
        let what = format!("{len} octets after the first {}", self.taken.get());
        let octets = self.host.wait(&what, || {
            let mut inner = self.host.inner.borrow_mut();
            let socket = inner.socket(self.id);
            if socket.inbox.len() >= len {
                return Some(socket.inbox.drain(..len).collect::<Vec<u8>>());
            }
            let gone = socket.is_finished || socket.state == LlpState::Reset;
            assert!(!gone, "{:?} instead of {what}, after {}", socket.state, show(&socket.inbox));
            None
        });
        self.taken.set(self.taken.get() + octets.len() as u64);
        octets
    }

    /// Waits for exactly these octets.
    #[track_caller]
    pub fn expect(&self, octets: &[u8]) {
        let before = self.taken.get();
        let received = self.read_exact(octets.len());
        if let Some(at) = received.iter().zip(octets).position(|(received, expected)| received != expected) {
            panic!(
                "octet {} of the stream differs, {at} of what was expected:\nreceived {}\nexpected {}",
                before + at as u64,
                show(&received),
                show(octets)
            );
        }
    }

    /// Checks that no octet comes for a second, and that the connection stays open.
    #[track_caller]
    pub fn expect_silence(&self) {
        self.host.settle(Duration::from_secs(1));
        self.expect_nothing_more();
        assert_eq!(self.state(), LlpState::Established, "closed instead of silent");
    }

    /// Waits for the device's FIN. No octet may come before it.
    #[track_caller]
    pub fn expect_fin(&self) {
        self.host.wait("a FIN", || {
            let mut inner = self.host.inner.borrow_mut();
            let socket = inner.socket(self.id);
            assert!(socket.inbox.is_empty(), "octets instead of FIN: {}", show(&socket.inbox));
            assert_ne!(socket.state, LlpState::Reset, "a reset instead of FIN");
            socket.is_finished.then_some(())
        });
    }

    /// Waits for the device's FIN. Returns the octets before it.
    pub fn read_to_fin(&self) -> Vec<u8> {
        self.host.wait("a FIN", || {
            let mut inner = self.host.inner.borrow_mut();
            let socket = inner.socket(self.id);
            assert_ne!(socket.state, LlpState::Reset, "a reset instead of FIN");
            socket.is_finished.then(|| std::mem::take(&mut socket.inbox))
        })
    }

    /// Waits for the device's RST. No octet may come before it.
    #[track_caller]
    pub fn expect_reset(&self) {
        self.host.wait("a RST", || {
            let state = self.state();
            assert!(!matches!(state, LlpState::PeerClosed | LlpState::Closed), "a FIN instead of RST");
            (state == LlpState::Reset).then_some(())
        });
        self.expect_nothing_more();
    }

    /// Sends FIN behind the sent octets.
    pub fn close(&self) {
        self.with_llp(|llp| llp.shutdown());
    }

    /// Sends RST.
    pub fn abort(&self) {
        self.with_llp(|llp| llp.abort());
    }

    /// Stops reading, so that the window closes, or reads again.
    pub fn set_reading(&self, reading: bool) {
        let mut inner = self.host.inner.borrow_mut();
        inner.socket(self.id).is_deaf = !reading;
        inner.refresh(self.id);
    }

    /// Returns the state of the connection.
    pub fn state(&self) -> LlpState {
        self.host.inner.borrow_mut().socket(self.id).state
    }

    #[track_caller]
    fn expect_nothing_more(&self) {
        let mut inner = self.host.inner.borrow_mut();
        let inbox = &inner.socket(self.id).inbox;
        assert!(inbox.is_empty(), "unexpected octets: {}", show(inbox));
    }

    fn with_llp<T>(&self, act: impl FnOnce(&mut Llp<'_>) -> T) -> T {
        let mut inner = self.host.inner.borrow_mut();
        act(&mut inner.stack.llp(self.id).expect("a connection that was never removed"))
    }
}

/// The host's view of one connection. It is read only when the stack names the connection, since every look makes
/// work.
#[derive(Debug)]
struct Socket {
    inbox: Vec<u8>,
    state: LlpState,
    /// The device's FIN has come. All octets before it are in the inbox or read.
    is_finished: bool,
    is_deaf: bool,
}

impl Default for Socket {
    fn default() -> Self {
        Self { inbox: Vec::new(), state: LlpState::Connecting, is_finished: false, is_deaf: false }
    }
}

#[derive(Debug)]
struct Inner {
    stack: Stack,
    device: Device,
    clock: Clock,
    sockets: HashMap<ConnectionId, Socket>,
    accepted: VecDeque<ConnectionId>,
}

impl Inner {
    fn step(&mut self, limit: Instant) -> bool {
        let now = self.clock.now();
        let next = [self.device.poll_at(now), self.stack.poll_at(now)].into_iter().flatten().min();
        let Some(next) = next.filter(|next| *next <= limit) else {
            self.clock.set(limit);
            return false;
        };
        let now = next.max(now);
        self.clock.set(now);
        self.device.poll(now);
        self.stack.ingress(now);
        while let Some((id, _)) = self.stack.next_accepted() {
            self.sockets.insert(id, Socket::default());
            self.accepted.push_back(id);
        }
        while let Some(id) = self.stack.next_ready() {
            self.refresh(id);
        }
        self.stack.egress(now);
        true
    }

    fn refresh(&mut self, id: ConnectionId) {
        let Some(socket) = self.sockets.get_mut(&id) else { return };
        let Some(mut llp) = self.stack.llp(id) else { return };
        while !socket.is_deaf {
            let octets = llp.readable();
            let len = octets.len();
            if len == 0 {
                break;
            }
            socket.inbox.extend_from_slice(octets);
            llp.consume(len);
        }
        socket.state = llp.state();
        socket.is_finished = llp.is_drained();
    }

    fn socket(&mut self, id: ConnectionId) -> &mut Socket {
        self.sockets.get_mut(&id).expect("a connection of this host")
    }
}

fn show(octets: &[u8]) -> String {
    let digits: String = octets.iter().take(SHOWN).map(|octet| format!("{octet:02x}")).collect();
    let more = if octets.len() > SHOWN { "…" } else { "" };
    format!("{digits}{more} ({} octets)", octets.len())
}

/// The longest wait of a peer, in virtual time.
pub const PATIENCE: Duration = Duration::from_secs(600);
/// Longer than the device delays an acknowledgement, so that no two octets share a segment.
const ACKNOWLEDGED: Duration = Duration::from_millis(50);
const MAX_STEPS: usize = 1_000_000;
const SHOWN: usize = 160;
