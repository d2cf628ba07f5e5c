//! Two devices of ours, connected.

use std::net::SocketAddr;

use weft_netif::Ground;
use weft_rnic::{
    CmEvent, Completion, Config, ConnParam, Cq, Device, EventChannel, Listener, Pd, Qp, QpCapacity, QpInit,
    Status,
};

use crate::case::Trouble;
use crate::setting::Setting;

mod ping;
mod stream;

pub(crate) use ping::Ping;
pub(crate) use stream::{MAX_BATCH, Op, Stream, Work};

/// One device with its end of each connection.
pub(crate) struct Node {
    pub(crate) device: Device,
    pub(crate) pd: Pd,
    pub(crate) cq: Cq,
    pub(crate) qps: Vec<Qp>,
    events: EventChannel,
    established: usize,
    depth: u32,
}

/// Both ends, in one process.
pub(crate) struct Ends {
    /// The end that connects.
    pub(crate) near: Node,
    /// The end that accepts.
    pub(crate) far: Node,
    _listener: Listener,
}

impl Ends {
    /// Makes two devices on a wire in memory, with `qps` connections whose queues hold `depth` requests.
    pub(crate) fn on_pair(setting: &Setting, qps: usize, depth: u32) -> Result<Self, Trouble> {
        let [left, right] = setting.wires();
        let near = Node::open(left, setting.device(0), qps, depth)?;
        let far = Node::open(right, setting.device(1), qps, depth)?;
        let remote = far.device.address(PORT);
        Self::connect(near, far, remote, qps)
    }

    /// Makes `qps` connections from one device to the other, which is reached at `remote`.
    pub(crate) fn connect(
        mut near: Node,
        mut far: Node,
        remote: SocketAddr,
        qps: usize,
    ) -> Result<Self, Trouble> {
        let listener = far.device.listen(&far.events, remote.port()).map_err(Trouble::failed)?;
        let remote = SocketAddr::new(remote.ip(), listener.local_addr().port());
        while near.established < qps {
            // A listener's backlog has room for so many.
            let wanted = (near.established + 64).min(qps);
            for _ in near.established..wanted {
                near.dial(remote)?;
            }
            while near.established < wanted || far.established < wanted {
                near.handle_events()?;
                far.handle_events()?;
            }
        }
        Ok(Self { near, far, _listener: listener })
    }
}

impl Node {
    /// Makes a device for `qps` connections whose queues hold `depth` requests.
    pub(crate) fn open(
        ground: impl Into<Ground>,
        config: Config,
        qps: usize,
        depth: u32,
    ) -> Result<Self, Trouble> {
        let device = Device::open(ground, config)?;
        let pd = device.alloc_pd();
        // There is room for all requests of both directions.
        let entries = u32::try_from(qps).unwrap_or(u32::MAX).saturating_mul(2 * depth);
        let entries = entries.clamp(MIN_CQ_ENTRIES, MAX_CQ_ENTRIES);
        let cq = device.create_cq(entries, None).map_err(Trouble::failed)?;
        let events = device.create_event_channel()?;
        Ok(Self { device, pd, cq, qps: Vec::new(), events, established: 0, depth })
    }

    /// Takes completions. Fails if one of them has failed.
    pub(crate) fn poll<'a>(&self, out: &'a mut [Completion]) -> Result<&'a [Completion], Trouble> {
        let taken = self.cq.poll(out);
        for completion in &out[..taken] {
            if completion.status != Status::Success {
                let text = format!("{:?} ended with: {}", completion.opcode, completion.status);
                return Err(Trouble::failed(text));
            }
        }
        Ok(&out[..taken])
    }

    fn dial(&mut self, remote: SocketAddr) -> Result<(), Trouble> {
        let qp = self.new_qp()?;
        self.device.connect(&self.events, &qp, remote, ConnParam::NONE).map_err(Trouble::failed)?;
        self.qps.push(qp);
        Ok(())
    }

    fn handle_events(&mut self) -> Result<(), Trouble> {
        while let Some(event) = self.events.next() {
            match event {
                CmEvent::ConnectRequest(request) => {
                    let qp = self.new_qp()?;
                    self.device.accept(request.id, &qp, ConnParam::NONE).map_err(Trouble::failed)?;
                    self.qps.push(qp);
                }
                CmEvent::Established { .. } => self.established += 1,
                other => return Err(Trouble::failed(format!("not connected: {other:?}"))),
            }
        }
        Ok(())
    }

    fn new_qp(&self) -> Result<Qp, Trouble> {
        let (send_wr, recv_wr) = (self.depth, self.depth);
        let capacity = QpCapacity { send_wr, recv_wr, send_sge: 1, recv_sge: 1, ..QpCapacity::default() };
        let init = QpInit { capacity, ..QpInit::new(&self.cq, &self.cq) };
        self.device.create_qp(&self.pd, &init).map_err(Trouble::failed)
    }
}

const PORT: u16 = 7174;
const MIN_CQ_ENTRIES: u32 = 1024;
const MAX_CQ_ENTRIES: u32 = 1 << 22;
