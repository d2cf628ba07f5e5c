//! Ours: two devices on a thread each. A thread drives its device by polling its completion queue.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use weft_netif::{Ground, IpSetting, Spec, Wire};
use weft_rnic::{
    Access, CmEvent, Completion, Config, ConnParam, Cq, Data, Device, EventChannel, Mr, Pd, Progress, Qp,
    QpCapacity, QpInit, RecvWr, SendOpcode, SendWr, Sge, Stag, Status,
};

use super::place::{End, PATIENCE, Patience, Shared, turn};
use super::scene::Scene;
use super::work::{Kind, Source, Work};
use super::{Outcome, say};
use crate::case::{Effort, Sample, Side, Trouble};

/// Two devices of ours.
#[derive(Debug)]
pub(crate) struct Verbs {
    pub(crate) scene: Arc<Scene>,
    pub(crate) sites: [Site; 2],
    pub(crate) op: Op,
    pub(crate) work: Work,
    pub(crate) crc: bool,
}

/// The ground that a device is opened on.
#[derive(Clone, Debug)]
pub(crate) enum Site {
    /// The kernel's TCP.
    Host(IpAddr),
    /// An interface, with an address of the device's own.
    Wire(Spec, IpAddr),
}

/// The operation of a stream. Round trips are Sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Send,
    Write,
    /// The client reads the messages out of the server's memory.
    Read,
}

/// The server's address, and its memory for Writes or Reads.
struct Offer {
    address: SocketAddr,
    stag: Stag,
    to: u64,
}

/// One end of the connection.
struct Node<'a> {
    qp: Qp,
    cq: Cq,
    device: Device,
    patience: Patience<'a>,
    op: Op,
    work: Work,
    source: Source,
    /// The source as registered memory.
    from: Mr,
    /// The messages that arrived in this round, one behind the other, and a place for a signal behind them.
    sink: Mr,
    /// The server's sink, or its source for Reads.
    target: Option<(Stag, u64)>,
    came: Vec<u8>,
    /// The sink was filled in this round.
    is_full: bool,
    out: Vec<Completion>,
    /// Receives posted in this round, and those completed.
    receives: [usize; 2],
    /// Sends and Writes that the send queue holds.
    under_way: usize,
}

impl Side for Verbs {
    fn turn(&mut self, effort: &Effort) -> Result<Sample, Trouble> {
        let (tell, told) = channel();
        let this = &*self;
        let server = move |shared| Node::accept(shared, this, &tell);
        let client = move |shared| Node::connect(shared, this, &told);
        turn((&self.scene.places, &Shared::default()), server, client, &self.work, effort)
    }
}

impl Site {
    /// Opens a device.
    pub(super) fn open(&self, crc: bool, progress: Progress) -> Outcome<Device> {
        // Each connection has another port, so that the kernel takes none for an earlier one.
        static SEED: AtomicU64 = AtomicU64::new(1);
        let seed = SEED.fetch_add(1, Ordering::Relaxed);
        let mut config = match *self {
            Self::Host(address) => Config::host(address, seed),
            Self::Wire(_, address) => {
                let ip = IpSetting { address, prefix: 24, gateways: Vec::new(), routes: Vec::new() };
                Config::new(ip, seed)
            }
        };
        config.stack.kernel_congestion = Some("cubic".into());
        config.mpa.crc = crc;
        config.progress = progress;
        let ground = match self {
            Self::Host(_) => Ground::Host,
            Self::Wire(spec, _) => Wire::open(spec, config.stack.mtu).map_err(say("a device"))?.into(),
        };
        // The kernel may allow cubic to the administrator only.
        Device::open(ground, config).map_err(|error| match error.kind() {
            std::io::ErrorKind::PermissionDenied => {
                Trouble::Skipped(format!("a device with the kernel's cubic: {error}"))
            }
            _ => say("a device")(error),
        })
    }
}

impl<'a> Node<'a> {
    fn accept(shared: &'a Shared, verbs: &Verbs, tell: &Sender<Offer>) -> Outcome<Self> {
        let (node, events, _pd) = Self::open(shared, verbs, &verbs.sites[0])?;
        let listener = node.device.listen(&events, 0).map_err(Trouble::failed)?;
        let address = node.device.address(listener.local_addr().port());
        let memory = if verbs.op == Op::Read { &node.from } else { &node.sink };
        let offer = Offer { address, stag: memory.rkey(), to: memory.addr() };
        tell.send(offer).map_err(say("telling the client"))?;
        node.until_established(&events)
    }

    fn connect(shared: &'a Shared, verbs: &Verbs, told: &Receiver<Offer>) -> Outcome<Self> {
        let (mut node, events, _pd) = Self::open(shared, verbs, &verbs.sites[1])?;
        let offer = told.recv_timeout(PATIENCE).map_err(say("waiting for the server"))?;
        node.target = Some((offer.stag, offer.to));
        node.device
            .connect(&events, &node.qp, offer.address, ConnParam::default())
            .map_err(Trouble::failed)?;
        node.until_established(&events)
    }

    fn open(shared: &'a Shared, verbs: &Verbs, site: &Site) -> Outcome<(Self, EventChannel, Pd)> {
        let device = site.open(verbs.crc, Progress::Manual)?;
        let pd = device.alloc_pd();
        let cq = device.create_cq(2 * DEPTH, None).map_err(Trouble::failed)?;
        let capacity =
            QpCapacity { send_wr: DEPTH, recv_wr: DEPTH, send_sge: 1, recv_sge: 1, ..QpCapacity::default() };
        // The sender of a stream has no other bound than TCP's window, as with sockets.
        let init = QpInit { capacity, rnr_wait: true, ..QpInit::new(&cq, &cq) };
        let qp = device.create_qp(&pd, &init).map_err(Trouble::failed)?;
        let source = Source::of(verbs.work);
        let register = |len| pd.register(len, Access::ALL).map_err(Trouble::failed);
        let came = source.sink();
        let (from, sink) = (register(source.octets().len())?, register(came.len() + SIGNAL.len())?);
        from.write(0, source.octets()).map_err(Trouble::failed)?;
        let events = device.create_event_channel().map_err(say("a device"))?;
        let node = Self {
            qp,
            cq,
            device,
            patience: shared.patience(),
            op: verbs.op,
            work: verbs.work,
            source,
            from,
            sink,
            target: None,
            came,
            is_full: false,
            out: vec![Completion::EMPTY; BURST],
            receives: [0; 2],
            under_way: 0,
        };
        Ok((node, events, pd))
    }

    fn until_established(mut self, events: &EventChannel) -> Outcome<Self> {
        loop {
            match events.next() {
                Some(CmEvent::ConnectRequest(request)) => {
                    let accepted = self.device.accept(request.id, &self.qp, ConnParam::default());
                    accepted.map_err(Trouble::failed)?;
                }
                Some(CmEvent::Established { .. }) => return Ok(self),
                Some(other) => return Err(Trouble::failed(format!("not connected: {other:?}"))),
                None => self.patience.idle()?,
            }
        }
    }

    /// Posts the receive for the next message of the round, or for the signal behind Writes.
    fn post_receive(&mut self) -> Outcome {
        let Work { size, .. } = self.work;
        let index = self.receives[0];
        let sge = if index < self.expected() && self.is_filled_by_receives() {
            self.sink.sge(index * size, u32::try_from(size).map_err(Trouble::failed)?)
        } else {
            self.sink.sge(self.came.len(), SIGNAL_LEN)
        };
        self.receives[0] += 1;
        self.qp.post_recv(&RecvWr { wr_id: 0, sges: &[sge] }).map_err(Trouble::failed)
    }

    /// Posts requests for messages of the source, the last of them with a completion.
    fn post_messages(&mut self, first: usize) -> Outcome {
        let Work { size, batch, .. } = self.work;
        let length = u32::try_from(size).map_err(Trouble::failed)?;
        self.under_way += batch;
        if batch == 1 {
            let sges = [match self.op {
                Op::Read => self.sink.sge(first * size, length),
                Op::Send | Op::Write => self.from.sge(self.source.offset(first), length),
            }];
            return self.qp.post_send(&self.message(first, &sges, true)).map_err(Trouble::failed);
        }
        let index = |at: usize| first + at.min(batch - 1);
        let sges: [_; BATCH] =
            core::array::from_fn(|at| [self.from.sge(self.source.offset(index(at)), length)]);
        let wrs: [_; BATCH] = core::array::from_fn(|at| self.message(index(at), &sges[at], at + 1 == batch));
        self.qp.post_sends(&wrs[..batch]).map_err(|(_, error)| Trouble::failed(error))
    }

    /// The request for a message of the source, which lies in `sges`.
    fn message<'s>(&'s self, index: usize, sges: &'s [Sge], signaled: bool) -> SendWr<'s> {
        let Work { size, kind, .. } = self.work;
        let opcode = match (self.op, kind, self.target) {
            (Op::Write, Kind::Stream, Some((stag, to))) => {
                SendOpcode::Write { stag, to: to + (index * size) as u64 }
            }
            (Op::Read, Kind::Stream, Some((stag, to))) => {
                SendOpcode::Read { stag, to: to + self.source.offset(index) as u64 }
            }
            _ => SendOpcode::Send,
        };
        let data = if size <= INLINE && self.op != Op::Read {
            Data::Inline(self.source.messages(index, 1))
        } else {
            Data::Sges(sges)
        };
        SendWr { data, signaled, ..SendWr::new(opcode) }
    }

    /// Waits until the send queue has room for a batch.
    fn make_room(&mut self) -> Outcome {
        while self.under_way + self.work.batch > DEPTH as usize {
            self.poll()?;
        }
        Ok(())
    }

    fn post_signal(&mut self) -> Outcome {
        self.make_room()?;
        self.under_way += self.work.batch;
        let wr = SendWr { data: Data::Inline(&SIGNAL), signaled: true, ..SendWr::new(SendOpcode::Send) };
        self.qp.post_send(&wr).map_err(Trouble::failed)
    }

    /// Takes completions. Drives the device if there are none.
    fn poll(&mut self) -> Outcome {
        let taken = self.cq.poll(&mut self.out);
        if taken == 0 {
            return self.patience.idle();
        }
        self.patience.rest();
        for completion in &self.out[..taken] {
            if completion.status != Status::Success {
                return Err(Trouble::failed(format!("{:?}: {}", completion.opcode, completion.status)));
            }
            if completion.opcode == weft_rnic::CompletionOpcode::Recv {
                self.receives[1] += 1;
            } else {
                self.under_way -= self.work.batch;
            }
        }
        Ok(())
    }

    /// Returns true if messages arrive in receives here, and not by Writes.
    fn is_filled_by_receives(&self) -> bool {
        self.work.kind == Kind::RoundTrips || (self.op == Op::Send && self.target.is_none())
    }

    /// Returns the receives of a round.
    fn expected(&self) -> usize {
        if self.is_filled_by_receives() { self.work.round } else { 1 }
    }

    /// Waits until `count` messages of the round have come, and keeps receives posted.
    fn receive(&mut self, count: usize) -> Outcome {
        while self.receives[1] < count {
            self.poll()?;
            while self.receives[0] < self.expected() && self.receives[0] - self.receives[1] < DEPTH as usize {
                self.post_receive()?;
            }
        }
        Ok(())
    }

    fn round_trips(&mut self, is_first: bool) -> Outcome {
        for index in 0..self.work.round {
            if is_first {
                self.post_messages(index)?;
            }
            self.receive(index + 1)?;
            if !is_first {
                self.post_messages(index)?;
            }
        }
        self.drain()
    }

    /// Waits until the send queue is empty.
    fn drain(&mut self) -> Outcome {
        while self.under_way > 0 {
            self.poll()?;
        }
        Ok(())
    }
}

impl End for Node<'_> {
    const NAME: &'static str = "ours";

    fn prepare(&mut self) -> Outcome {
        self.receives = [0; 2];
        for _ in 0..self.expected().min(DEPTH as usize) {
            self.post_receive()?;
        }
        Ok(())
    }

    fn serve(&mut self) -> Outcome {
        self.is_full = self.op != Op::Read;
        if self.work.kind == Kind::RoundTrips {
            return self.round_trips(false);
        }
        self.receive(self.expected())?;
        self.post_signal()?;
        self.drain()
    }

    fn ask(&mut self) -> Outcome {
        if self.work.kind == Kind::RoundTrips {
            self.is_full = true;
            return self.round_trips(true);
        }
        for first in (0..self.work.round).step_by(self.work.batch) {
            self.make_room()?;
            self.post_messages(first)?;
            self.device.progress();
        }
        if self.op == Op::Read {
            self.is_full = true;
            self.drain()?;
        }
        if self.op != Op::Send {
            self.post_signal()?;
        }
        self.receive(1)?;
        self.drain()
    }

    fn check(&mut self) -> Outcome {
        if core::mem::take(&mut self.is_full) {
            self.sink.read(0, &mut self.came).map_err(Trouble::failed)?;
            self.source.check(&self.came)?;
            self.came.fill(0);
            self.sink.write(0, &self.came).map_err(Trouble::failed)?;
        }
        Ok(())
    }

    fn progress(&mut self) {
        self.device.progress();
    }
}

/// The message that says that all messages were sent, or have come.
const SIGNAL: [u8; SIGNAL_LEN as usize] = *b"finished";
const SIGNAL_LEN: u32 = 8;
/// Requests that each queue holds.
const DEPTH: u32 = 256;
/// Requests for one doorbell at most.
const BATCH: usize = 32;
/// Octets that are posted inline.
const INLINE: usize = 64;
/// Completions taken at a time.
const BURST: usize = 64;
