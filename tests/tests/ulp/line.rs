//! Two TCP ends on one wire and one virtual clock, and the streams on them.

use weft_mpa::Config;
use weft_netif::{ConnectionId, Duration, Instant, Llp, Stack, StackConfig};
use weft_rnic::Access;
use weft_rnic::ulp::{
    Agreement, Association, DdpEvent, DdpStream, RdmapEvent, RdmapStream, Startup, StartupEvent,
};
use weft_verbs::{MemoryRegion, MemoryTable, PdId, Region};

/// One TCP connection, with both ends at hand.
#[derive(Debug)]
pub(crate) struct Line {
    stacks: [Stack; 2],
    ids: [ConnectionId; 2],
    now: Instant,
}

/// The settings of a line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LineConfig {
    pub(crate) mtu: usize,
    pub(crate) tcp_buffer: usize,
}

impl Default for LineConfig {
    fn default() -> Self {
        Self { mtu: 1500, tcp_buffer: 256 * 1024 }
    }
}

impl Line {
    pub(crate) fn new(config: LineConfig) -> Self {
        let (left, right) = weft_netif::pair(config.mtu);
        let stack = |wire, address: &str, seed| {
            let ip = address.parse().expect("an address of a test");
            let LineConfig { mtu, tcp_buffer } = config;
            Stack::new(wire, StackConfig { mtu, tcp_buffer, seed, ..StackConfig::new(ip) }, Instant::ZERO)
        };
        let mut stacks = [stack(left, "10.0.0.1/24", 1), stack(right, "10.0.0.2/24", 2)];
        stacks[1].listen(PORT).expect("a free port");
        let remote = format!("10.0.0.2:{PORT}").parse().expect("an address of a test");
        let opened = stacks[0].connect(remote, None, Instant::ZERO).expect("a way");
        let mut line = Self { stacks, ids: [opened, opened], now: Instant::ZERO };
        line.ids[1] = line.run(|line| line.stacks[1].next_accepted().map(|(id, _)| id));
        line
    }

    /// The byte streams of one end.
    pub(crate) fn llp(&mut self, end: usize) -> Llp<'_> {
        self.stacks[end].llp(self.ids[end]).expect("a connection that was never removed")
    }

    /// Runs until `act` returns a value. Panics after an hour of virtual time, or when no more events come.
    pub(crate) fn run<T>(&mut self, mut act: impl FnMut(&mut Self) -> Option<T>) -> T {
        let deadline = self.now + Duration::from_secs(3600);
        loop {
            if let Some(result) = act(self) {
                return result;
            }
            assert!(self.step(deadline), "waited in vain");
        }
    }

    /// Lets all events of the next second happen, with a call of `act` at each step.
    pub(crate) fn settle(&mut self, mut act: impl FnMut(&mut Self)) {
        let deadline = self.now + Duration::from_secs(1);
        act(self);
        while self.step(deadline) {
            act(self);
        }
    }

    /// Sends queued octets, and moves on to the next event. Returns false if that is after the deadline.
    fn step(&mut self, deadline: Instant) -> bool {
        for stack in &mut self.stacks {
            stack.egress(self.now);
        }
        let next = self.stacks.iter().filter_map(|stack| stack.poll_at(self.now)).min();
        let Some(next) = next.filter(|next| *next <= deadline) else {
            self.now = deadline;
            return false;
        };
        self.now = next.max(self.now);
        for stack in &mut self.stacks {
            stack.ingress(self.now);
            while stack.next_ready().is_some() {}
        }
        true
    }
}

/// A stream of either kind, with the methods that the tests need.
pub(crate) trait Stream {
    type Event: core::fmt::Debug;

    fn new(agreement: &Agreement, association: Association) -> Self;
    fn poll(&mut self, llp: &mut Llp<'_>, memory: &MemoryTable) -> Option<Self::Event>;
}

impl Stream for DdpStream {
    type Event = DdpEvent;

    fn new(agreement: &Agreement, association: Association) -> Self {
        Self::new(agreement, association, QUEUES).expect("no RTR message")
    }

    fn poll(&mut self, llp: &mut Llp<'_>, memory: &MemoryTable) -> Option<DdpEvent> {
        self.poll(llp, memory)
    }
}

impl Stream for RdmapStream {
    type Event = RdmapEvent;

    fn new(agreement: &Agreement, association: Association) -> Self {
        Self::new(agreement, association, 4)
    }

    fn poll(&mut self, llp: &mut Llp<'_>, memory: &MemoryTable) -> Option<RdmapEvent> {
        self.poll(llp, memory)
    }
}

/// One end of a stream, with its memory and its events.
#[derive(Debug)]
pub(crate) struct End<S: Stream> {
    pub(crate) stream: S,
    pub(crate) association: Association,
    pub(crate) memory: MemoryTable,
    pub(crate) events: Vec<S::Event>,
}

impl<S: Stream> End<S> {
    pub(crate) fn new(agreement: &Agreement) -> Self {
        let association = Association::new(PdId(1));
        let memory = MemoryTable::new(7);
        Self { stream: S::new(agreement, association), association, memory, events: Vec::new() }
    }

    /// Polls until no work is left, and keeps the events.
    pub(crate) fn poll(&mut self, llp: &mut Llp<'_>) {
        while let Some(event) = self.stream.poll(llp, &self.memory) {
            self.events.push(event);
        }
    }

    /// Registers `len` octets for this stream, from tagged offset `iova` on.
    pub(crate) fn register(&mut self, len: usize, iova: u64, access: Access) -> std::sync::Arc<MemoryRegion> {
        let region = Region::owned(len).expect("memory for a test");
        self.association.register(&mut self.memory, region, iova, access).expect("an STag")
    }

    /// Returns the events since the last call.
    pub(crate) fn take(&mut self) -> Vec<S::Event> {
        core::mem::take(&mut self.events)
    }
}

/// Both ends of a stream: an initiator and a responder.
#[derive(Debug)]
pub(crate) struct Both<S: Stream> {
    pub(crate) line: Line,
    pub(crate) ends: [End<S>; 2],
}

impl<S: Stream> Both<S> {
    /// Makes two ends by MPA's startup with these wishes.
    pub(crate) fn new(config: LineConfig, wishes: [Config; 2]) -> Self {
        let mut line = Line::new(config);
        let agreements = start(&mut line, wishes);
        Self { line, ends: agreements.map(|agreement| End::new(&agreement)) }
    }

    /// Lets all events happen.
    pub(crate) fn settle(&mut self) {
        let Self { line, ends } = self;
        line.settle(|line| {
            for (number, end) in ends.iter_mut().enumerate() {
                end.poll(&mut line.llp(number));
            }
        });
    }
}

/// MPA's startup between both ends of a line.
pub(crate) fn start(line: &mut Line, [left, right]: [Config; 2]) -> [Agreement; 2] {
    let mut ends =
        [Startup::initiator(left, b"left").expect("short private data"), Startup::responder(right)];
    let mut agreements = [None, None];
    line.run(|line| {
        for (number, startup) in ends.iter_mut().enumerate() {
            while let Some(event) = startup.poll(&mut line.llp(number)).expect("a startup that fits") {
                match event {
                    StartupEvent::Requested { .. } => {
                        startup.accept([right.ird, right.ord], b"right").expect("short private data");
                    }
                    StartupEvent::Established(agreement) => agreements[number] = Some(agreement),
                    other => panic!("{other:?}"),
                }
            }
        }
        agreements.iter().all(Option::is_some).then_some(())
    });
    agreements.map(|agreement| agreement.expect("both are there"))
}

/// The wishes of an end of a plain stream: CRC or not, Markers or not, revision 1.
pub(crate) fn plain(crc: bool, markers: bool) -> Config {
    Config { crc, markers, enhanced: false, ..Config::default() }
}

/// Returns the octets of memory.
pub(crate) fn contents(memory: &MemoryRegion) -> Vec<u8> {
    let mut octets = vec![0; memory.region.len()];
    assert!(memory.region.copy_out(0, &mut octets));
    octets
}

/// The number of queues of the tests' streams.
pub(crate) const QUEUES: u16 = 6;
const PORT: u16 = 4791;
