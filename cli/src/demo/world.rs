//! The two RNICs of the demo, and the messages between them.

use core::num::NonZeroU64;
use std::fs::File;
use std::io::BufWriter;

use rustix::time::{ClockId, clock_gettime};
use weft_netif::{Capture, Congestion, Duration, Impairment, ImpairmentConfig, Wire};
use weft_rnic::{
    Access, Clock, CmEvent, Completion, Config, ConnParam, Cq, Data, Device, EventChannel, Lockstep, Mr, Pd,
    Progress, Qp, QpCapacity, QpInit, RecvWr, Region, SegmentCounters, SendOpcode, SendWr, Stag, Status,
};

use super::args::Args;
use super::report::Row;
use super::workload::{MAX_SIZE, Operation, Round, fill};
use crate::failure::Failure;
use crate::progress;

/// Two connected RNICs.
#[derive(Debug)]
pub(crate) struct World {
    sides: [Side; 2],
    lockstep: Lockstep,
    messages: u64,
    /// The expected octets of a message, and those that were found.
    expected: Vec<u8>,
    found: Vec<u8>,
}

/// One RNIC with its objects, and the advertised memory of the other one.
#[derive(Debug)]
struct Side {
    name: &'static str,
    qp: Qp,
    cq: Cq,
    events: EventChannel,
    /// Source of Sends and Writes, sink of Reads.
    local: Mr,
    /// Sink of the peer's Sends and Writes, source of its Reads.
    exposed: Mr,
    /// The peer's `exposed`, from its advertisement.
    remote: (Stag, u64),
    device: Device,
}

impl World {
    /// Makes two RNICs on one wire, connects them and exchanges their STags.
    pub(crate) fn new(args: &Args) -> Result<Self, Failure> {
        let clock = Clock::virtual_time();
        let (left, right) = weft_netif::pair(args.mtu as usize);
        // The capture sits outside the impairment, so that it has every frame that the first RNIC sent or received.
        let mut left = impaired(left, args, args.seed);
        if let Some(path) = &args.pcap {
            let file = File::create(path)
                .map_err(|error| Failure::usage(format!("cannot write {}: {error}", path.display())))?;
            left = left.with_capture(Capture::new(BufWriter::new(file)));
        }
        let right = impaired(right, args, !args.seed);
        let sides = [
            Side::new("first", left, "10.0.0.1/24", &clock, args)?,
            Side::new("second", right, "10.0.0.2/24", &clock, args)?,
        ];
        let lockstep = Lockstep::new(clock, &[&sides[0].device, &sides[1].device]);
        let size = MAX_SIZE as usize;
        let mut world = Self { sides, lockstep, messages: 0, expected: vec![0; size], found: vec![0; size] };
        world.connect()?;
        world.advertise()?;
        Ok(world)
    }

    /// Moves the messages of a round, one at a time, and checks each.
    pub(crate) fn run(&mut self, round: &Round, progress: &progress::Progress) -> Result<Row, Failure> {
        let mut cpu_seconds = 0.0;
        let mut latencies = Vec::with_capacity(round.messages as usize);
        for index in 0..round.messages {
            let from = (index % 2) as usize;
            self.messages += 1;
            fill(&mut self.expected[..round.size as usize], self.messages);
            self.prepare(round, from)?;
            let (begin, cpu) = (self.lockstep.now(), cpu_time());
            self.transfer(round, from)?;
            cpu_seconds += cpu_time() - cpu;
            latencies.push((self.lockstep.now() - begin).total_micros());
            self.check(round, from)?;
            progress.advance();
        }
        latencies.sort_unstable();
        let median_latency = latencies.get(latencies.len() / 2).copied().unwrap_or(0);
        Ok(Row { round: *round, cpu_seconds, median_latency })
    }

    /// Disconnects, and returns how many segments went over the wire.
    pub(crate) fn close(mut self) -> Result<SegmentCounters, Failure> {
        self.sides[0].qp.disconnect().map_err(Failure::work)?;
        for side in 0..2 {
            match self.event(side)? {
                CmEvent::Disconnected { .. } => {}
                other => return Err(self.unexpected(side, &other)),
            }
        }
        let [first, second] = self.sides.each_ref().map(|side| side.device.counters());
        for (sent, received) in [(first.sent, second.received), (second.sent, first.received)] {
            if sent != received {
                return Err(Failure::work(format!("sent {sent:?}, but received {received:?}")));
            }
        }
        // Let TCP finish its own close, so that the capture ends with it.
        let deadline = self.lockstep.now() + CLOSE_TIME;
        self.lockstep.run_until(deadline, || None::<()>);
        let capture = self.sides[0].device.with_wire(Wire::take_capture).flatten();
        capture
            .map_or(Ok(()), Capture::finish)
            .map_err(|error| Failure::work(format!("cannot write the capture: {error}")))?;
        let mut segments = first.sent;
        segments.add(&second.sent);
        Ok(segments)
    }

    fn connect(&mut self) -> Result<(), Failure> {
        let [first, second] = &self.sides;
        let _listener = second.device.listen(&second.events, PORT).map_err(Failure::work)?;
        let remote = second.device.address(PORT);
        first
            .device
            .connect(&first.events, &first.qp, remote, ConnParam::default())
            .map_err(Failure::work)?;
        let request = match self.event(1)? {
            CmEvent::ConnectRequest(request) => request,
            other => return Err(self.unexpected(1, &other)),
        };
        let second = &self.sides[1];
        second.device.accept(request.id, &second.qp, ConnParam::default()).map_err(Failure::work)?;
        for side in [0, 1] {
            match self.event(side)? {
                CmEvent::Established { .. } => {}
                other => return Err(self.unexpected(side, &other)),
            }
        }
        Ok(())
    }

    /// Has each side send the other the place of its memory: STag and tagged offset, big-endian.
    fn advertise(&mut self) -> Result<(), Failure> {
        for from in [0, 1] {
            let sender = &self.sides[from];
            let mut advertisement = [0; ADVERTISEMENT];
            advertisement[..4].copy_from_slice(&sender.exposed.rkey().0.to_be_bytes());
            advertisement[4..].copy_from_slice(&sender.exposed.addr().to_be_bytes());
            self.sides[1 - from].post_recv(ADVERTISEMENT_LEN)?;
            self.sides[from].post_send(SendOpcode::Send, Data::Inline(&advertisement))?;
            self.completion(from)?;
            self.completion(1 - from)?;
            let receiver = &mut self.sides[1 - from];
            receiver.exposed.read(0, &mut advertisement).map_err(Failure::work)?;
            let [a, b, c, d, to @ ..] = advertisement;
            receiver.remote = (Stag(u32::from_be_bytes([a, b, c, d])), u64::from_be_bytes(to));
        }
        Ok(())
    }

    /// Writes the contents of a message to its source, and clears its sink.
    fn prepare(&mut self, round: &Round, from: usize) -> Result<(), Failure> {
        let size = round.size as usize;
        self.found[..size].fill(0);
        let (source, sink) = self.ends(round.operation, from);
        source.write(0, &self.expected[..size]).map_err(Failure::work)?;
        sink.write(0, &self.found[..size]).map_err(Failure::work)?;
        if round.operation != Operation::Read {
            self.sides[1 - from].post_recv(round.size)?;
        }
        Ok(())
    }

    fn transfer(&mut self, round: &Round, from: usize) -> Result<(), Failure> {
        let side = &self.sides[from];
        let (stag, to) = side.remote;
        let sge = [side.local.sge(0, round.size)];
        let data = Data::Sges(&sge);
        match round.operation {
            Operation::Send => {
                side.post_send(SendOpcode::Send, data)?;
                self.completion(from)?;
                self.completion(1 - from)?;
            }
            Operation::Write => {
                side.post_send(SendOpcode::Write { stag, to }, data)?;
                // The peer's program sees nothing of a Write. An empty Send behind it shows that the Write has been
                // placed.
                side.post_send(SendOpcode::Send, Data::Inline(&[]))?;
                self.completion(from)?;
                self.completion(from)?;
                self.completion(1 - from)?;
            }
            Operation::Read => {
                side.post_send(SendOpcode::Read { stag, to }, data)?;
                self.completion(from)?;
            }
        }
        Ok(())
    }

    fn check(&mut self, round: &Round, from: usize) -> Result<(), Failure> {
        let size = round.size as usize;
        let mut found = core::mem::take(&mut self.found);
        let (_, sink) = self.ends(round.operation, from);
        let read = sink.read(0, &mut found[..size]);
        self.found = found;
        read.map_err(Failure::work)?;
        let differing =
            self.expected[..size].iter().zip(&self.found).position(|(expected, found)| expected != found);
        match differing {
            None => Ok(()),
            Some(offset) => Err(Failure::work(format!(
                "{} of {size} octets, message {}: octet {offset} is {:#04x} and should be {:#04x}",
                round.operation.name(),
                self.messages,
                self.found[offset],
                self.expected[offset]
            ))),
        }
    }

    /// Returns the source and the sink of an operation that `from` asks for.
    const fn ends(&self, operation: Operation, from: usize) -> (&Mr, &Mr) {
        let (near, far) = (&self.sides[from], &self.sides[1 - from]);
        match operation {
            Operation::Send | Operation::Write => (&near.local, &far.exposed),
            Operation::Read => (&far.exposed, &near.local),
        }
    }

    fn completion(&mut self, side: usize) -> Result<Completion, Failure> {
        let cq = self.sides[side].cq.clone();
        let deadline = self.lockstep.now() + PATIENCE;
        let name = self.sides[side].name;
        match self.lockstep.run_until(deadline, || cq.poll_one()) {
            Some(completion) if completion.status == Status::Success => Ok(completion),
            Some(completion) => {
                let reason =
                    self.sides[side].events.next().map_or_else(String::new, |event| format!(" ({event:?})"));
                Err(Failure::work(format!(
                    "a request of the {name} RNIC failed: {}{reason}",
                    completion.status
                )))
            }
            None => Err(Failure::work(format!("a request of the {name} RNIC did not complete"))),
        }
    }

    fn event(&mut self, side: usize) -> Result<CmEvent, Failure> {
        let events = self.sides[side].events.clone();
        let deadline = self.lockstep.now() + PATIENCE;
        let name = self.sides[side].name;
        self.lockstep
            .run_until(deadline, || events.next())
            .ok_or_else(|| Failure::work(format!("the {name} RNIC had no event of its connection in time")))
    }

    fn unexpected(&self, side: usize, event: &CmEvent) -> Failure {
        let name = self.sides[side].name;
        match event {
            CmEvent::ConnectError { reason, .. } => Failure::work(format!("the {name} RNIC: {reason}")),
            CmEvent::Disconnected { reason, .. } => Failure::work(format!("the {name} RNIC: {reason}")),
            other => Failure::work(format!("the {name} RNIC got an unexpected event: {other:?}")),
        }
    }
}

impl Side {
    fn new(
        name: &'static str,
        wire: Wire,
        address: &str,
        clock: &Clock,
        args: &Args,
    ) -> Result<Self, Failure> {
        let mut config = Config::new(address.parse().map_err(Failure::work)?, args.seed);
        config.stack.mtu = args.mtu as usize;
        config.stack.congestion = Congestion::None;
        // Virtual time costs nothing, so TCP may retry for as long as the losses need.
        config.stack.timeout = None;
        config.stack.half_open_timeout = PATIENCE;
        config.startup_timeout = PATIENCE;
        config.mpa.markers = args.markers;
        config.mpa.crc = !args.no_crc;
        config.clock = clock.clone();
        config.progress = Progress::External;
        let device = Device::open(wire, config).map_err(Failure::usage)?;
        let pd = device.alloc_pd();
        let cq = device.create_cq(16, None).map_err(Failure::work)?;
        let capacity = QpCapacity { send_wr: 8, recv_wr: 8, ..QpCapacity::default() };
        let init = QpInit { capacity, signal_all: true, ..QpInit::new(&cq, &cq) };
        Ok(Self {
            name,
            qp: device.create_qp(&pd, &init).map_err(Failure::work)?,
            cq,
            events: device.create_event_channel().map_err(Failure::work)?,
            local: memory(&pd, Access::LOCAL_WRITE, LOCAL_BASE)?,
            exposed: memory(&pd, Access::ALL, EXPOSED_BASE)?,
            remote: (Stag(0), 0),
            device,
        })
    }

    fn post_recv(&self, length: u32) -> Result<(), Failure> {
        self.qp.post_recv(&RecvWr { wr_id: 0, sges: &[self.exposed.sge(0, length)] }).map_err(Failure::work)
    }

    fn post_send(&self, opcode: SendOpcode, data: Data<'_>) -> Result<(), Failure> {
        let wr = SendWr { wr_id: 0, opcode, data, signaled: true, fence: false, solicited: false };
        self.qp.post_send(&wr).map_err(Failure::work)
    }
}

fn impaired(wire: Wire, args: &Args, seed: u64) -> Wire {
    let config = ImpairmentConfig {
        seed,
        loss: args.loss,
        delay: WIRE_DELAY,
        rate: args.rate.and_then(NonZeroU64::new),
        queue: args.queue,
        ..ImpairmentConfig::default()
    };
    wire.with_impairment(Impairment::new(config))
}

/// Registers room for the largest message, with tagged offsets from `base` on: addresses would differ between runs.
fn memory(pd: &Pd, access: Access, base: u64) -> Result<Mr, Failure> {
    let region = Region::owned(MAX_SIZE as usize).ok_or_else(|| Failure::work("there is no memory left"))?;
    pd.register_at(region, access, base).map_err(Failure::work)
}

/// Returns the CPU time of this process so far, in seconds.
fn cpu_time() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

const PORT: u16 = 7174;
/// STag and tagged offset.
const ADVERTISEMENT: usize = 12;
const ADVERTISEMENT_LEN: u32 = 12;
const LOCAL_BASE: u64 = 0x1000_0000;
const EXPOSED_BASE: u64 = 0x2000_0000;
const WIRE_DELAY: Duration = Duration::from_micros(5);
/// Virtual time after which a missing event is an error.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);
/// Longer than TCP's TIME-WAIT.
const CLOSE_TIME: Duration = Duration::from_secs(60);
