//! smoltcp alone, on the same wire: the figure of TCP itself.
//!
//! An end is one smoltcp interface with one socket in one set, as in smoltcp's own examples. It uses the wire of our
//! devices, and their MTU, socket buffers, congestion control, delayed acknowledgements, clock and bursts. Checksums
//! are off, since a wire in memory needs none, and so is Nagle's algorithm. Data is copied once at each end, from the
//! user's memory into the socket buffer and from there into the user's memory (`send` and `recv` with a closure). There
//! is no CRC.

use smoltcp::iface::{Config, Interface, PollIngressSingleResult, PollResult, SocketHandle, SocketSet};
use smoltcp::phy::{ChecksumCapabilities, Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp::{CongestionControl, Socket, SocketBuffer, State};
use smoltcp::wire::{EthernetAddress, IpCidr};
use weft_netif::{Congestion, Instant, StackConfig, Wire};
use weft_rnic::Clock;

use crate::case::Trouble;
use crate::setting::Setting;

mod ping;
mod stream;

pub(crate) use ping::Ping;
pub(crate) use stream::{Pieces, Stream};

/// Both ends of one connection.
pub(crate) struct Ends {
    pub(crate) near: End,
    pub(crate) far: End,
    clock: Clock,
}

/// One end: an interface with a socket.
pub(crate) struct End {
    port: Port,
    iface: Interface,
    sockets: SocketSet<'static>,
    handle: SocketHandle,
    /// Frames that an end receives, and sends, before the other end has its turn.
    bursts: [usize; 2],
}

impl Ends {
    /// Connects two ends over a wire with this setting.
    pub(crate) fn new(setting: &Setting) -> Result<Self, Trouble> {
        let clock = setting.clock();
        let [left, right] = setting.wires();
        let mut near = End::new(left, &setting.stack(0), clock.now());
        let mut far = End::new(right, &setting.stack(1), clock.now());
        let remote = (setting.stack(1).ip.address, PORT);
        far.sockets.get_mut::<Socket<'_>>(far.handle).listen(PORT).map_err(Trouble::failed)?;
        let socket = near.sockets.get_mut::<Socket<'_>>(near.handle);
        socket.connect(near.iface.context(), remote, PORT + 1).map_err(Trouble::failed)?;
        let mut ends = Self { near, far, clock };
        while ends.near.socket().state() != State::Established
            || ends.far.socket().state() != State::Established
        {
            ends.poll();
        }
        Ok(ends)
    }

    /// Gives both ends a turn, one after the other.
    pub(crate) fn poll(&mut self) {
        let now = self.clock.now();
        self.near.poll(now);
        self.far.poll(now);
    }

    pub(crate) fn now(&self) -> Instant {
        self.clock.now()
    }
}

impl End {
    fn new(wire: Wire, config: &StackConfig, now: Instant) -> Self {
        let mut port = Port { wire, now, mtu: config.mtu, incoming: Vec::new(), outgoing: Vec::new() };
        let mut settings = Config::new(EthernetAddress(config.mac).into());
        settings.random_seed = config.seed;
        let mut iface = Interface::new(settings, &mut port, now);
        iface.update_ip_addrs(|addresses| {
            // There is room for more than one.
            let _full = addresses.push(IpCidr::new(config.ip.address.into(), config.ip.prefix));
        });
        let buffer = || SocketBuffer::new(vec![0; config.tcp_buffer]);
        let mut socket = Socket::new(buffer(), buffer());
        socket.set_nagle_enabled(false);
        socket.set_ack_delay(config.ack_delay);
        socket.set_congestion_control(match config.congestion {
            Congestion::Cubic => CongestionControl::Cubic,
            Congestion::None => CongestionControl::None,
        });
        let mut sockets = SocketSet::new(Vec::with_capacity(1));
        let handle = sockets.add(socket);
        Self { port, iface, sockets, handle, bursts: [config.ingress_burst, config.lone_burst()] }
    }

    /// Receives and sends, both in bounded bursts.
    pub(crate) fn poll(&mut self, now: Instant) {
        let Self { port, iface, sockets, bursts: [ingress, egress], .. } = self;
        port.now = now;
        for _ in 0..*ingress {
            if iface.poll_ingress_single(now, port, sockets) == PollIngressSingleResult::None {
                break;
            }
        }
        for _ in 0..*egress {
            if iface.poll_egress(now, port, sockets) == PollResult::None {
                break;
            }
        }
    }

    /// Sends octets from `from` on, as many as there is room for. Returns the place behind the last octet.
    pub(crate) fn send(&mut self, octets: &[u8], from: usize) -> Result<usize, Trouble> {
        let mut sent = from;
        // The free part of the buffer may be in two pieces.
        for _ in 0..2 {
            let rest = &octets[sent..];
            let step = self.socket_mut().send(|room| {
                let step = room.len().min(rest.len());
                room[..step].copy_from_slice(&rest[..step]);
                (step, step)
            });
            sent += step.map_err(Trouble::failed)?;
        }
        Ok(sent)
    }

    /// Copies arrived octets into `octets`, from `from` on. Returns the place behind the last octet.
    pub(crate) fn receive(&mut self, octets: &mut [u8], from: usize) -> Result<usize, Trouble> {
        let mut received = from;
        for _ in 0..2 {
            if !self.socket().can_recv() {
                break;
            }
            let rest = &mut octets[received..];
            let step = self.socket_mut().recv(|came| {
                let step = came.len().min(rest.len());
                rest[..step].copy_from_slice(&came[..step]);
                (step, step)
            });
            received += step.map_err(Trouble::failed)?;
        }
        Ok(received)
    }

    pub(crate) fn socket(&self) -> &Socket<'static> {
        self.sockets.get(self.handle)
    }

    fn socket_mut(&mut self) -> &mut Socket<'static> {
        self.sockets.get_mut(self.handle)
    }
}

/// The wire as smoltcp's device. It has one buffer for received frames and one for sent frames. The wire exchanges
/// them, as it does for our stack.
struct Port {
    wire: Wire,
    now: Instant,
    mtu: usize,
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
}

struct Received<'a>(&'a [u8]);

struct Sending<'a> {
    wire: &'a mut Wire,
    now: Instant,
    frame: &'a mut Vec<u8>,
}

impl Device for Port {
    type RxToken<'a> = Received<'a>;
    type TxToken<'a> = Sending<'a>;

    fn receive(&mut self, now: Instant) -> Option<(Received<'_>, Sending<'_>)> {
        let Self { wire, incoming, outgoing, .. } = self;
        if !wire.receive(now, incoming) {
            return None;
        }
        Some((Received(incoming), Sending { wire, now, frame: outgoing }))
    }

    fn transmit(&mut self, now: Instant) -> Option<Sending<'_>> {
        Some(Sending { wire: &mut self.wire, now, frame: &mut self.outgoing })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = self.mtu + ETHERNET_HEADER;
        capabilities.checksum = ChecksumCapabilities::ignored();
        capabilities
    }
}

impl RxToken for Received<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(self.0)
    }
}

impl TxToken for Sending<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        // The frame overwrites the octets of an earlier one.
        self.frame.resize(len, 0);
        let result = f(self.frame);
        self.wire.send_buffer(self.now, self.frame);
        result
    }
}

const PORT: u16 = 7174;
const ETHERNET_HEADER: usize = 14;
