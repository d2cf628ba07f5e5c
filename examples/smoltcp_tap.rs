//! RDMAP on smoltcp: the program has a TAP of the crate `tun-tap`, smoltcp's interface, and a TCP socket of smoltcp's.
//! Its peer is a device of Weft, with Weft's own TCP, on the same TAP, on the kernel's side.
//!
//! It needs the right to make a TAP, as root has it, or a user in a namespace of its own:
//! `unshare -rn cargo run -p weft-examples --example smoltcp_tap`

use std::io::ErrorKind;
use std::process::Command;
use std::sync::mpsc::{Sender, channel};

use smoltcp::iface::{Config as InterfaceConfig, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{self, DeviceCapabilities, Medium};
use smoltcp::socket::tcp::{Socket, SocketBuffer};
use smoltcp::time::{Duration, Instant};
use smoltcp::wire::{EthernetAddress, IpAddress, IpCidr};
use tun_tap::{Iface, Mode};
use weft_examples::{Endpoint, PORT, Result};
use weft_mpa::Config;
use weft_netif::{Llp, SocketStream, Spec, Tcp, Wire};
use weft_rnic::ulp::{
    Agreement, Association, MemoryTable, PdId, RdmapEvent, RdmapStream, Startup, StartupEvent,
};
use weft_rnic::{Access, Clock, Data, Progress, RecvWr, Region, SendOpcode, SendWr, Stag, Status};

const MTU: usize = 1500;
/// Octets that the client writes, and reads back: many segments.
const LEN: usize = 100_000;

fn main() -> Result {
    let tap = match Iface::without_packet_info("", Mode::Tap) {
        Ok(tap) => tap,
        Err(error) if matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::NotFound) => {
            println!("skipped: no TAP can be made here ({error})");
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    tap.set_non_blocking()?;
    if !Command::new("ip").args(["link", "set", tap.name(), "up"]).status()?.success() {
        return Err("the TAP cannot be set up".into());
    }
    let wire = Wire::open(&Spec::PlainPacket(tap.name().to_owned()), MTU)?;
    let (ready, told) = channel();
    std::thread::scope(|scope| {
        let serving = scope.spawn(move || serve(wire, &ready));
        told.recv()?;
        Host::new(tap)?.visit()?;
        serving.join().map_err(|_| "the server has panicked")?
    })
}

/// The peer: it offers memory, and looks at it after the client's message.
fn serve(wire: Wire, ready: &Sender<std::net::SocketAddr>) -> Result {
    let mut config = weft_rnic::Config::new("10.98.0.1/24".parse()?, 1).with_tcp(Tcp::Own);
    config.progress = Progress::Thread;
    let server = Endpoint::new(&weft_rnic::Device::open(wire, config)?)?;
    // Its tagged offsets begin at 0.
    let memory = server.pd.register_at(Region::owned(LEN).ok_or("no memory")?, Access::ALL, 0)?;
    let word = server.memory(16)?;
    server.qp.post_recv(&RecvWr { wr_id: 0, sges: &[word.sge(0, 16)] })?;
    server.accept_one(ready)?;
    let offer = memory.rkey().0.to_be_bytes();
    server.qp.post_send(&SendWr { data: Data::Inline(&offer), ..SendWr::new(SendOpcode::Send) })?;
    server.completion()?;
    let mut written = vec![0; LEN];
    memory.read(0, &mut written)?;
    if written != letter() {
        return Err("the server's memory differs".into());
    }
    println!("server: {LEN} octets were written into my memory");
    Ok(())
}

/// A host of smoltcp's, with one connection.
struct Host {
    tap: Tap,
    iface: Interface,
    sockets: SocketSet<'static>,
    handle: SocketHandle,
    stream: SocketStream,
    clock: Clock,
}

impl Host {
    fn new(iface: Iface) -> Result<Self> {
        let mut tap = Tap(iface);
        let settings = InterfaceConfig::new(EthernetAddress([0x02, 0, 0, 0, 0, 2]).into());
        let mut iface = Interface::new(settings, &mut tap, Instant::ZERO);
        iface.update_ip_addrs(|addresses| {
            // The list is empty, and has room for more than one.
            let _fits = addresses.push(IpCidr::new(IpAddress::v4(10, 98, 0, 2), 24));
        });
        let buffer = || SocketBuffer::new(vec![0; 1 << 16]);
        let mut socket = Socket::new(buffer(), buffer());
        socket.set_nagle_enabled(false);
        socket.set_timeout(Some(Duration::from_secs(10)));
        socket.connect(iface.context(), (IpAddress::v4(10, 98, 0, 1), PORT), 49152)?;
        let mut sockets = SocketSet::new(Vec::new());
        let handle = sockets.add(socket);
        // 20 octets of IPv4, and 20 of TCP.
        Ok(Self {
            tap,
            iface,
            sockets,
            handle,
            stream: SocketStream::new(MTU - 40),
            clock: Clock::real_time(1),
        })
    }

    /// Connects by MPA, and does its work in the server's memory.
    fn visit(&mut self) -> Result {
        // The server sends first, although this side has connected (RFC 6581).
        let wish = Config { peer_to_peer: true, ird: 4, ord: 4, ..Config::default() };
        let mut startup = Startup::initiator(wish, b"")?;
        let agreement = self.run(|host| match startup.poll(&mut host.llp())? {
            Some(StartupEvent::Established(agreement)) => Ok(Some(agreement)),
            None => Ok(None),
            Some(other) => Err(format!("not connected: {other:?}").into()),
        })?;
        let mut visitor = Visitor::new(&agreement)?;
        self.run(|host| visitor.poll(host).map(|is_over| is_over.then_some(())))?;
        println!("client: {LEN} octets went there by RDMA Write, and back by RDMA Read");
        Ok(())
    }

    fn llp(&mut self) -> Llp<'_> {
        Llp::Socket(self.stream.llp(self.sockets.get_mut(self.handle)))
    }

    /// Polls the interface until `act` returns a result.
    fn run<T>(&mut self, mut act: impl FnMut(&mut Self) -> Result<Option<T>>) -> Result<T> {
        loop {
            let now = self.clock.now();
            self.iface.poll(now, &mut self.tap, &mut self.sockets);
            if let Some(result) = act(self)? {
                self.iface.poll(now, &mut self.tap, &mut self.sockets);
                return Ok(result);
            }
            // A program with more to do would sleep on the TAP's descriptor, until `Interface::poll_at`.
            std::thread::sleep(std::time::Duration::from_micros(50));
        }
    }
}

/// The work on the stream.
struct Visitor {
    stream: RdmapStream,
    memory: MemoryTable,
    copy: std::sync::Arc<weft_rnic::ulp::MemoryRegion>,
}

const WRITE: u64 = 1;
const READ: u64 = 2;
const WORD: u64 = 3;

impl Visitor {
    fn new(agreement: &Agreement) -> Result<Self> {
        let association = Association::new(PdId(1));
        let mut stream = RdmapStream::new(agreement, association, 4);
        let mut memory = MemoryTable::new(1);
        let region = Region::owned(LEN).ok_or("no memory")?;
        let copy = association.register(&mut memory, region, 0, Access::LOCAL_WRITE)?;
        stream.post_buffer(0, vec![0; 4])?;
        Ok(Self { stream, memory, copy })
    }

    /// Handles what has happened. Returns true when the connection is closed.
    fn poll(&mut self, host: &mut Host) -> Result<bool> {
        let mut llp = host.llp();
        while let Some(event) = self.stream.poll(&mut llp, &self.memory) {
            match event {
                RdmapEvent::Received { buffer, .. } => {
                    let offered = Stag(u32::from_be_bytes(buffer.as_slice().try_into()?));
                    self.stream.write(WRITE, (offered, 0), letter())?;
                    self.stream.read(READ, (self.copy.stag, 0), (offered, 0), u32::try_from(LEN)?)?;
                }
                RdmapEvent::Completed { id: READ, status: Status::Success, .. } => {
                    let mut octets = vec![0; LEN];
                    if !self.copy.region.copy_out(0, &mut octets) || octets != letter() {
                        return Err("read back something else".into());
                    }
                    self.stream.send(WORD, b"have a look", false, None)?;
                    self.stream.shutdown();
                }
                RdmapEvent::Completed { status: Status::Success, .. } | RdmapEvent::PeerClosed => {}
                RdmapEvent::Closed => return Ok(true),
                other => return Err(format!("client: {other:?}").into()),
            }
        }
        Ok(false)
    }
}

fn letter() -> Vec<u8> {
    (0..=250).cycle().take(LEN).collect()
}

/// The TAP as a device of smoltcp's: one read or write is one frame.
struct Tap(Iface);

struct Received(Vec<u8>);

struct Free<'a>(&'a Iface);

impl phy::Device for Tap {
    type RxToken<'a> = Received;
    type TxToken<'a> = Free<'a>;

    fn receive(&mut self, _now: Instant) -> Option<(Received, Free<'_>)> {
        let mut frame = vec![0; MTU + 14];
        let len = self.0.recv(&mut frame).ok()?;
        frame.truncate(len);
        Some((Received(frame), Free(&self.0)))
    }

    fn transmit(&mut self, _now: Instant) -> Option<Free<'_>> {
        Some(Free(&self.0))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = MTU + 14;
        capabilities
    }
}

impl phy::RxToken for Received {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

impl phy::TxToken for Free<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut frame = vec![0; len];
        let result = f(&mut frame);
        // A frame that the kernel refuses is lost, and TCP sends it again.
        let _sent = self.0.send(&frame);
        result
    }
}
