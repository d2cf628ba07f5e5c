//! Ours: a device at each end, as users have it, with a thread of its own. The ends sleep while they wait.

use core::net::Ipv4Addr;
use std::net::SocketAddr;
use std::sync::mpsc::Sender;

use weft_rnic::{
    Access, CmEvent, CompChannel, Completion, CompletionOpcode, ConnParam, Cq, Data, Device, EventChannel,
    Mr, Pd, Qp, QpCapacity, QpInit, RecvWr, SendOpcode, SendWr, Stag, Status,
};

use super::conversation::{End, Guard, Offer, SLICE, Stack};
use super::device::Tcp;
use crate::case::Trouble;
use crate::net::{Kind, Source, Work};
use crate::process::{Outcome, say};

/// Devices of ours. A stream is RDMA Writes with Immediate Data, so that the target sees each of them. Round trips are
/// Sends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ours {
    pub(super) tcp: &'static Tcp,
    /// Several connections at the same time have devices of their own.
    pub(super) lane: u8,
}

/// One end of the connection.
pub(super) struct Node<'a> {
    qp: Qp,
    cq: Cq,
    channel: CompChannel,
    device: Device,
    _pd: Pd,
    guard: &'a Guard<'a>,
    work: Work,
    source: Source,
    /// The source as registered memory.
    from: Mr,
    /// [`SLOTS`] messages that have come, and a place for the octets of a credit.
    sink: Mr,
    came: Vec<u8>,
    /// The peer's sink, if this end writes to it.
    target: Option<(Stag, u64)>,
    out: Vec<Completion>,
    /// Receives posted, and those completed.
    receives: [usize; 2],
    under_way: usize,
}

impl Stack for Ours {
    type End<'a> = Node<'a>;

    fn accept<'a>(&self, work: Work, tell: &Sender<Offer>, guard: &'a Guard<'_>) -> Outcome<Node<'a>> {
        let device = self.tcp.open(self.address(1))?;
        let (mut node, events) = Node::new(device, work, guard)?;
        let listener = node.device.listen(&events, 0).map_err(Trouble::failed)?;
        let address: SocketAddr = node.device.address(listener.local_addr().port());
        let memory = Some((node.sink.rkey(), node.sink.addr()));
        node.post_receives()?;
        tell.send(Offer { address, memory }).map_err(say("telling the client"))?;
        node.until_established(&events)
    }

    fn connect<'a>(&self, work: Work, offer: &Offer, guard: &'a Guard<'_>) -> Outcome<Node<'a>> {
        let device = self.tcp.open(self.address(0))?;
        let (mut node, events) = Node::new(device, work, guard)?;
        node.target = offer.memory.filter(|_| work.kind == Kind::Stream);
        node.post_receives()?;
        let connecting = node.device.connect(&events, &node.qp, offer.address, ConnParam::default());
        connecting.map_err(Trouble::failed)?;
        node.until_established(&events)
    }

    fn name(&self) -> &'static str {
        self.tcp.name
    }

    fn source(&self) -> Ipv4Addr {
        self.address(0)
    }

    fn floor(&self) -> Option<f64> {
        self.tcp.floor
    }
}

impl Ours {
    /// Returns the address of the device at a host.
    const fn address(&self, host: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, 93, 0, 11 + 10 * self.lane + host)
    }
}

impl<'a> Node<'a> {
    fn new(device: Device, work: Work, guard: &'a Guard<'_>) -> Outcome<(Self, EventChannel)> {
        let pd = device.alloc_pd();
        let channel = device.create_comp_channel().map_err(say("a device"))?;
        let (sends, receives) = (length(2 * DEPTH)?, length(SLOTS)?);
        let cq = device.create_cq(sends + receives, Some(&channel)).map_err(Trouble::failed)?;
        let capacity = QpCapacity {
            send_wr: sends,
            recv_wr: receives,
            send_sge: 1,
            recv_sge: 1,
            ..QpCapacity::default()
        };
        let qp =
            device.create_qp(&pd, &QpInit { capacity, ..QpInit::new(&cq, &cq) }).map_err(Trouble::failed)?;
        let source = Source::of(work);
        let register = |len| pd.register(len, Access::ALL).map_err(Trouble::failed);
        let (from, sink) = (register(source.octets().len())?, register(SLOTS * work.size + CREDIT.len())?);
        from.write(0, source.octets()).map_err(Trouble::failed)?;
        let events = device.create_event_channel().map_err(say("a device"))?;
        let node = Self {
            qp,
            cq,
            channel,
            device,
            _pd: pd,
            guard,
            work,
            source,
            from,
            sink,
            came: vec![0; work.size],
            target: None,
            out: vec![Completion::EMPTY; DEPTH],
            receives: [0; 2],
            under_way: 0,
        };
        Ok((node, events))
    }

    fn until_established(self, events: &EventChannel) -> Outcome<Self> {
        loop {
            match events.wait(Some(SLICE)) {
                Some(CmEvent::ConnectRequest(request)) => {
                    let accepted = self.device.accept(request.id, &self.qp, ConnParam::default());
                    accepted.map_err(Trouble::failed)?;
                }
                Some(CmEvent::Established { .. }) => return Ok(self),
                Some(other) => return Err(Trouble::failed(format!("not connected: {other:?}"))),
                None => self.guard.may_connect()?,
            }
        }
    }

    /// Keeps receives posted: for the messages of round trips, for signals of Writes, or for credits.
    fn post_receives(&mut self) -> Outcome<()> {
        let Work { kind, size, .. } = self.work;
        while self.receives[0] - self.receives[1] < SLOTS {
            let sge = match kind {
                Kind::RoundTrips => self.sink.sge(self.receives[0] % SLOTS * size, length(size)?),
                Kind::Stream => self.sink.sge(SLOTS * size, length(CREDIT.len())?),
            };
            self.qp.post_recv(&RecvWr { wr_id: 0, sges: &[sge] }).map_err(Trouble::failed)?;
            self.receives[0] += 1;
        }
        Ok(())
    }

    /// Sleeps until there are completions, and takes them. Returns false if they are not wanted any more.
    fn wait(&mut self) -> Outcome<bool> {
        if self.take()? {
            return Ok(true);
        }
        self.cq.request_notification(false);
        if self.take()? || self.channel.wait(Some(SLICE)).is_some() {
            return Ok(true);
        }
        self.guard.goes_on()
    }

    /// Takes completions. Returns false if there are none.
    fn take(&mut self) -> Outcome<bool> {
        let taken = self.cq.poll(&mut self.out);
        for completion in &self.out[..taken] {
            if completion.status != Status::Success {
                // At the end of a turn the peer may be gone first.
                if !self.guard.goes_on()? {
                    return Ok(false);
                }
                return Err(Trouble::failed(format!("{:?}: {}", completion.opcode, completion.status)));
            }
            match completion.opcode {
                CompletionOpcode::Recv | CompletionOpcode::RecvWithImmediate => self.receives[1] += 1,
                _ => self.under_way -= 1,
            }
        }
        Ok(taken > 0)
    }

    fn post(&mut self, wr: &SendWr<'_>) -> Outcome<()> {
        self.qp.post_send(wr).map_err(Trouble::failed)?;
        self.under_way += 1;
        Ok(())
    }
}

impl End for Node<'_> {
    fn send(&mut self, index: usize) -> Outcome<bool> {
        let Work { size, round, .. } = self.work;
        // Each credit is for a number of messages that the target has checked: their places are free again.
        let has_place = |node: &Self| node.target.is_none() || index < node.receives[1] * CREDITED + SLOTS;
        while self.under_way >= DEPTH || !has_place(self) {
            if !self.wait()? {
                return Ok(false);
            }
        }
        self.post_receives()?;
        let Some((stag, to)) = self.target else {
            let octets = self.source.messages(index % round, 1).to_vec();
            let data = Data::Inline(&octets);
            self.post(&SendWr { data, signaled: true, ..SendWr::new(SendOpcode::Send) })?;
            return Ok(true);
        };
        let sges = [self.from.sge(self.source.offset(index % round), length(size)?)];
        let opcode =
            SendOpcode::WriteImmediate { stag, to: to + (index % SLOTS * size) as u64, immediate: [0; 4] };
        self.post(&SendWr { data: Data::Sges(&sges), signaled: true, ..SendWr::new(opcode) })?;
        self.guard.goes_on()
    }

    fn receive(&mut self, index: usize) -> Outcome<bool> {
        let Work { kind, size, round, .. } = self.work;
        while self.receives[1] <= index {
            if !self.wait()? {
                return Ok(false);
            }
        }
        self.sink.read(index % SLOTS * size, &mut self.came).map_err(Trouble::failed)?;
        self.source.check_one(index % round, &self.came)?;
        self.post_receives()?;
        if kind == Kind::Stream && (index + 1).is_multiple_of(CREDITED) {
            self.post(&SendWr {
                data: Data::Inline(&CREDIT),
                signaled: true,
                ..SendWr::new(SendOpcode::Send)
            })?;
        }
        Ok(true)
    }
}

fn length(count: usize) -> Outcome<u32> {
    u32::try_from(count).map_err(Trouble::failed)
}

/// Messages under way.
const DEPTH: usize = 32;
/// Places for messages at the target: more than any window, so that credits never hold the sender back.
const SLOTS: usize = 256;
/// Messages that a credit is for.
const CREDITED: usize = 32;
/// The octets of a credit.
const CREDIT: [u8; 6] = *b"credit";
