//! One device with its ends of all connections.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use weft_netif::{Ground, Wire};
use weft_rnic::{
    Access, CmEvent, CompChannel, Completion, Config, ConnParam, Cq, CqInit, Data, Device, EventChannel, Mr,
    Pd, Progress, Qp, QpCapacity, QpInit, RecvWr, SendOpcode, SendWr, Status,
};

use crate::args::Args;

/// One device with its end of each connection.
pub(crate) struct Side {
    pub(crate) device: Device,
    pub(crate) events: EventChannel,
    pub(crate) established: usize,
    pd: Pd,
    channel: CompChannel,
    cq: Cq,
    /// Sends complete here, and this queue is not polled.
    sent: Cq,
    /// The target of every message.
    memory: Mr,
    qps: Vec<Qp>,
    /// Places in `qps` by number.
    places: HashMap<u32, usize>,
    depth: u32,
}

impl Side {
    /// Opens a device with that address on a wire, driven as `progress` says.
    pub(crate) fn on_wire(wire: Wire, address: &str, args: &Args, progress: Progress) -> io::Result<Self> {
        let address = address.parse().map_err(io::Error::other)?;
        Self::new(wire.into(), Config::new(address, 1), args, progress)
    }

    /// Opens a device on the host's loopback, driven as `progress` says.
    pub(crate) fn on_host(args: &Args, progress: Progress) -> io::Result<Self> {
        Self::new(Ground::Host, Config::host(Ipv4Addr::LOCALHOST.into(), 1), args, progress)
    }

    fn new(ground: Ground, mut config: Config, args: &Args, progress: Progress) -> io::Result<Self> {
        config.stack.tcp_buffer = args.tcp_buffer as usize;
        config.progress = progress;
        config.max_reads = 16;
        config.mpa.ird = config.mpa.ird.min(16);
        config.mpa.ord = config.mpa.ord.min(16);
        let device = Device::open(ground, config)?;
        let pd = device.alloc_pd();
        let channel = device.create_comp_channel()?;
        let entries = 2 * args.depth * args.qps.min(1024);
        let cq = device.create_cq(entries, Some(&channel)).map_err(io::Error::other)?;
        let quiet = CqInit { ignore_overrun: true, ..CqInit::new(1) };
        let sent = device.create_cq_with(&quiet).map_err(io::Error::other)?;
        let events = device.create_event_channel()?;
        let memory = pd.register(8, Access::LOCAL_WRITE).map_err(io::Error::other)?;
        let (qps, places, depth) = (Vec::new(), HashMap::new(), args.depth);
        Ok(Self { device, events, established: 0, pd, channel, cq, sent, memory, qps, places, depth })
    }

    /// Begins `count` connections.
    pub(crate) fn dial(&mut self, remote: SocketAddr, count: usize) -> io::Result<()> {
        for _ in 0..count {
            let param = ConnParam { peer_to_peer: Some(true), ..ConnParam::default() };
            let index = self.new_end()?;
            self.device.connect(&self.events, &self.qps[index], remote, param).map_err(io::Error::other)?;
        }
        Ok(())
    }

    /// Answers connect requests and counts the established connections.
    pub(crate) fn handle_events(&mut self) -> io::Result<()> {
        while let Some(event) = self.events.next() {
            match event {
                CmEvent::ConnectRequest(request) => {
                    let index = self.new_end()?;
                    let param = ConnParam::default();
                    self.device.accept(request.id, &self.qps[index], param).map_err(io::Error::other)?;
                }
                CmEvent::Established { .. } => self.established += 1,
                CmEvent::Disconnected { reason, .. } => {
                    let text = format!("a connection has ended: {reason}");
                    return Err(io::Error::new(io::ErrorKind::ConnectionReset, text));
                }
                other => return Err(io::Error::other(format!("not connected: {other:?}"))),
            }
        }
        Ok(())
    }

    /// Sends 8 octets on connection number `index`, without a completion.
    pub(crate) fn send(&self, index: usize) -> io::Result<()> {
        self.qps[index].post_send(&PING).map_err(io::Error::other)
    }

    /// Returns the connection on which a message has arrived, if one has, and posts the next receive there.
    pub(crate) fn message(&self) -> io::Result<Option<usize>> {
        match self.cq.poll_one() {
            None => Ok(None),
            Some(Completion { status: Status::Success, qp_num, .. }) => {
                let index = *self.places.get(&qp_num).ok_or_else(|| io::Error::other("nobody's message"))?;
                self.post_recv(index)?;
                Ok(Some(index))
            }
            Some(Completion { status: Status::WorkRequestFlushed, .. }) => {
                let why = core::iter::from_fn(|| self.events.next()).last();
                let text = format!("a request was flushed: {why:?}");
                Err(io::Error::new(io::ErrorKind::ConnectionReset, text))
            }
            Some(other) => Err(io::Error::other(format!("a request ended with {}", other.status))),
        }
    }

    /// Sleeps until a message has arrived, at most `timeout`: arms, polls once more, and only then waits.
    pub(crate) fn sleep_for_message(&self, timeout: Duration) -> io::Result<Option<usize>> {
        if let Some(index) = self.message()? {
            return Ok(Some(index));
        }
        self.cq.request_notification(false);
        if let Some(index) = self.message()? {
            return Ok(Some(index));
        }
        self.channel.wait(Some(timeout));
        self.message()
    }

    /// Makes a queue pair with a full receive queue. The peer may send to it as soon as it is connected.
    fn new_end(&mut self) -> io::Result<usize> {
        let (send_wr, recv_wr) = (self.depth, self.depth);
        let capacity = QpCapacity { send_wr, recv_wr, send_sge: 2, recv_sge: 2, ..QpCapacity::default() };
        let init = QpInit { capacity, ..QpInit::new(&self.sent, &self.cq) };
        let qp = self.device.create_qp(&self.pd, &init).map_err(io::Error::other)?;
        self.places.insert(qp.number(), self.qps.len());
        self.qps.push(qp);
        let index = self.qps.len() - 1;
        (0..self.depth).try_for_each(|_| self.post_recv(index))?;
        Ok(index)
    }

    fn post_recv(&self, index: usize) -> io::Result<()> {
        let sges = [self.memory.sge(0, 8)];
        self.qps[index].post_recv(&RecvWr { wr_id: 0, sges: &sges }).map_err(io::Error::other)
    }
}

const PING: SendWr<'static> = SendWr { data: Data::Inline(b"8 octets"), ..SendWr::new(SendOpcode::Send) };
