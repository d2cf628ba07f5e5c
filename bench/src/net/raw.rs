//! smoltcp alone on a device with offloads, against a kernel socket or another smoltcp: the figure of TCP itself.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::socket::tcp::{CongestionControl, Socket, SocketBuffer, State};
use smoltcp::time::{Duration, Instant};
use smoltcp::wire::{EthernetAddress, IpCidr};

use weft_rnic::CLOCK_SCALE;

use super::device::Offload;
use super::kernel::{Socket as KernelSocket, Waiting};
use super::place::{End, PATIENCE, Patience, Shared, now, turn};
use super::scene::Scene;
use super::work::{Kind, Source, Work};
use super::{Outcome, say};
use crate::case::{Effort, Sample, Side, Trouble};

/// Two ends, at least one of which is smoltcp.
#[derive(Debug)]
pub(crate) struct Raw {
    pub(crate) scene: Arc<Scene>,
    pub(crate) sites: [Site; 2],
    pub(crate) work: Work,
}

/// The socket at an end.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Site {
    /// A kernel socket.
    Kernel(Ipv4Addr),
    /// smoltcp on a TAP device, with an address of its own.
    Tap(&'static str, Ipv4Addr),
    /// smoltcp on a network interface, with an address of its own.
    Packet(&'static str, Ipv4Addr),
}

/// One end: an interface with one socket.
struct Smoltcp<'a> {
    device: Offload,
    iface: Interface,
    sockets: SocketSet<'static>,
    handle: SocketHandle,
    patience: Patience<'a>,
    start: std::time::Instant,
    work: Work,
    source: Source,
    sink: Vec<u8>,
    is_full: bool,
}

/// Either end.
#[expect(clippy::large_enum_variant, reason = "there are two of them")]
enum Either<'a> {
    Kernel(KernelSocket<'a>),
    Smoltcp(Smoltcp<'a>),
}

impl Side for Raw {
    fn turn(&mut self, effort: &Effort) -> Result<Sample, Trouble> {
        let (tell, told) = channel();
        let (sites, work) = (self.sites, self.work);
        let server = move |shared| Either::accept(shared, sites[0], work, &tell);
        let client = move |shared| Either::connect(shared, sites[1], work, &told);
        turn((&self.scene.places, &Shared::default()), server, client, &work, effort)
    }
}

impl<'a> Either<'a> {
    fn accept(shared: &'a Shared, site: Site, work: Work, tell: &Sender<SocketAddr>) -> Outcome<Self> {
        if let Site::Kernel(address) = site {
            let address = (IpAddr::V4(address), tell);
            return KernelSocket::accept(shared, address, Waiting::Spinning, work).map(Self::Kernel);
        }
        let mut end = Smoltcp::open(shared, site, work)?;
        let address = SocketAddr::new(site.address().into(), port());
        end.socket().listen(address.port()).map_err(Trouble::failed)?;
        tell.send(address).map_err(say("telling the client"))?;
        end.until_established().map(Self::Smoltcp)
    }

    fn connect(shared: &'a Shared, site: Site, work: Work, told: &Receiver<SocketAddr>) -> Outcome<Self> {
        if let Site::Kernel(_) = site {
            return KernelSocket::connect(shared, told, Waiting::Spinning, work).map(Self::Kernel);
        }
        let mut end = Smoltcp::open(shared, site, work)?;
        let to = told.recv_timeout(PATIENCE).map_err(say("waiting for the server"))?;
        let Smoltcp { iface, sockets, handle, .. } = &mut end;
        let socket = sockets.get_mut::<Socket<'_>>(*handle);
        socket.connect(iface.context(), to, port()).map_err(Trouble::failed)?;
        end.until_established().map(Self::Smoltcp)
    }
}

impl Site {
    const fn address(&self) -> Ipv4Addr {
        match self {
            Self::Kernel(address) | Self::Tap(_, address) | Self::Packet(_, address) => *address,
        }
    }
}

impl<'a> Smoltcp<'a> {
    fn open(shared: &'a Shared, site: Site, work: Work) -> Outcome<Self> {
        let device = match site {
            Site::Tap(name, _) => Offload::tap(name),
            Site::Packet(name, _) => Offload::packet(name),
            Site::Kernel(_) => Err(std::io::ErrorKind::InvalidInput.into()),
        };
        let mut device = device.map_err(say("a device with offloads"))?;
        let [a, b, c, d] = site.address().octets();
        let mut config = Config::new(EthernetAddress([2, 0x55, a, b, c, d]).into());
        config.random_seed = u64::from(port());
        let mut iface = Interface::new(config, &mut device, Instant::ZERO);
        iface.update_ip_addrs(|addresses| {
            // There is room for more than one.
            let _full = addresses.push(IpCidr::new(site.address().into(), 24));
        });
        let buffer = || SocketBuffer::new(vec![0; BUFFER]);
        let mut socket = Socket::new(buffer(), buffer());
        socket.set_nagle_enabled(false);
        socket.set_ack_delay(Some(Duration::from_millis(10 * u64::from(CLOCK_SCALE))));
        socket.set_congestion_control(CongestionControl::Cubic);
        let mut sockets = SocketSet::new(Vec::with_capacity(1));
        let handle = sockets.add(socket);
        let source = Source::of(work);
        let (sink, patience) = (source.sink(), shared.patience());
        Ok(Self {
            device,
            iface,
            sockets,
            handle,
            patience,
            start: now(),
            work,
            source,
            sink,
            is_full: false,
        })
    }

    fn until_established(mut self) -> Outcome<Self> {
        while self.socket().state() != State::Established {
            self.poll();
            self.patience.idle()?;
        }
        Ok(self)
    }

    fn socket(&mut self) -> &mut Socket<'static> {
        self.sockets.get_mut(self.handle)
    }

    fn poll(&mut self) {
        let micros = self.start.elapsed().as_micros() * u128::from(CLOCK_SCALE);
        let micros = i64::try_from(micros).unwrap_or(i64::MAX);
        self.iface.poll(Instant::from_micros(micros), &mut self.device, &mut self.sockets);
    }

    /// Sends `len` octets from `at` on, of the source or of the sink.
    fn send(&mut self, of_sink: bool, at: usize, len: usize) -> Outcome {
        let mut sent = at;
        loop {
            let Self { sockets, handle, source, sink, .. } = self;
            let octets = if of_sink { &sink[..] } else { source.octets() };
            let socket = sockets.get_mut::<Socket<'_>>(*handle);
            let step = socket.send_slice(&octets[sent..at + len]).map_err(Trouble::failed)?;
            sent += step;
            self.poll();
            if sent == at + len {
                self.patience.rest();
                return Ok(());
            }
            if step == 0 {
                self.patience.idle()?;
            }
        }
    }

    /// Fills the sink from `at` to `end`.
    fn receive(&mut self, at: usize, end: usize) -> Outcome {
        let mut received = at;
        loop {
            let Self { sockets, handle, sink, .. } = self;
            let socket = sockets.get_mut::<Socket<'_>>(*handle);
            let step = socket.recv_slice(&mut sink[received..end]).map_err(Trouble::failed)?;
            received += step;
            if received == end {
                self.patience.rest();
                return Ok(());
            }
            self.poll();
            if step == 0 {
                self.patience.idle()?;
            }
        }
    }
}

impl End for Smoltcp<'_> {
    const NAME: &'static str = "smoltcp";

    fn prepare(&mut self) -> Outcome {
        Ok(())
    }

    fn serve(&mut self) -> Outcome {
        let Work { size, round, .. } = self.work;
        self.is_full = true;
        if self.work.kind == Kind::Stream {
            self.receive(0, size * round)?;
            return self.send(false, 0, 1);
        }
        for index in 0..round {
            self.receive(index * size, (index + 1) * size)?;
            self.send(true, index * size, size)?;
        }
        Ok(())
    }

    fn ask(&mut self) -> Outcome {
        let Work { size, batch, round, .. } = self.work;
        if self.work.kind == Kind::Stream {
            for index in (0..round).step_by(batch) {
                self.send(false, self.source.offset(index), size * batch)?;
            }
            return self.receive(0, 1);
        }
        self.is_full = true;
        for index in 0..round {
            self.send(false, self.source.offset(index), size)?;
            self.receive(index * size, (index + 1) * size)?;
        }
        Ok(())
    }

    fn check(&mut self) -> Outcome {
        if core::mem::take(&mut self.is_full) {
            self.source.check(&self.sink)?;
            self.sink.fill(0);
        }
        Ok(())
    }

    fn progress(&mut self) {
        self.poll();
    }
}

impl End for Either<'_> {
    const NAME: &'static str = "smoltcp";

    fn prepare(&mut self) -> Outcome {
        match self {
            Self::Kernel(end) => end.prepare(),
            Self::Smoltcp(end) => end.prepare(),
        }
    }

    fn serve(&mut self) -> Outcome {
        match self {
            Self::Kernel(end) => end.serve(),
            Self::Smoltcp(end) => end.serve(),
        }
    }

    fn ask(&mut self) -> Outcome {
        match self {
            Self::Kernel(end) => end.ask(),
            Self::Smoltcp(end) => end.ask(),
        }
    }

    fn check(&mut self) -> Outcome {
        match self {
            Self::Kernel(end) => end.check(),
            Self::Smoltcp(end) => end.check(),
        }
    }

    fn progress(&mut self) {
        match self {
            Self::Kernel(end) => end.progress(),
            Self::Smoltcp(end) => end.progress(),
        }
    }
}

/// Another port each time, so that no connection looks like an earlier one to the kernel.
fn port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    40_000 + NEXT.fetch_add(1, Ordering::Relaxed) % 20_000
}

/// Octets of each socket buffer: several of the largest segments, and both of them in a second-level cache.
const BUFFER: usize = 512 << 10;
