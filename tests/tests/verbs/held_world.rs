//! A chain of three devices, and a client's changes to the send queue of the middle one.

use weft_netif::{Duration, Wire};
use weft_rnic::{
    Access, Clock, CmEvent, ConnParam, Cq, Data, Listener, Lockstep, Mr, Qp, QpInit, SendOpcode,
    SendQueueLayout, SendWr,
};
use weft_tests::{PORT, PairConfig, Side};

use crate::world::{CAPACITY, WR, write_to};

pub(crate) const HOLD: SendOpcode = SendOpcode::Hold;

/// The client reaches the replica, and the replica the tail.
#[derive(Debug)]
pub(crate) struct Chain {
    pub(crate) client: Side,
    pub(crate) replica: Side,
    pub(crate) tail: Side,
    /// The replica's queue pair to the client, whose other end is the client's own.
    pub(crate) inward: Qp,
    /// The replica's queue pair to the tail, whose other end is the tail's own.
    pub(crate) forward: Qp,
    /// Completions of the replica's receives, and of the requests that it forwards.
    pub(crate) inbox: Cq,
    pub(crate) outbox: Cq,
    lockstep: Lockstep,
    hub: Hub,
    _listeners: [Listener; 2],
}

impl Chain {
    pub(crate) fn new() -> Self {
        let clock = Clock::virtual_time();
        let config = PairConfig { capacity: CAPACITY, ..PairConfig::default() };
        let mut hub = Hub { ports: Vec::new(), clock: clock.clone() };
        let [client, replica, tail] = ["10.0.0.1/24", "10.0.0.2/24", "10.0.0.3/24"].map(|address| {
            let (near, far) = weft_netif::pair(config.mtu);
            hub.ports.push(far);
            Side::new(near, &clock, address, &config)
        });
        let listeners = [&replica, &tail].map(|side| side.device.listen(&side.events, PORT).unwrap());
        let [inbox, outbox] = [(); 2].map(|()| replica.device.create_cq(64, None).unwrap());
        let create = |cq: &Cq| {
            let init = QpInit { capacity: CAPACITY, ..QpInit::new(cq, cq) };
            replica.device.create_qp(&replica.pd, &init).unwrap()
        };
        let (inward, forward) = (create(&inbox), create(&outbox));
        let lockstep = Lockstep::new(clock, &[&client.device, &replica.device, &tail.device]);
        let mut chain = Self {
            client,
            replica,
            tail,
            inward,
            forward,
            inbox,
            outbox,
            lockstep,
            hub,
            _listeners: listeners,
        };
        let Self { client, replica, tail, inward, forward, lockstep, hub, .. } = &mut chain;
        let mut settle = || settle(lockstep, hub);
        connect([&*client, &*replica], [&client.qp, &*inward], &mut settle);
        connect([&*replica, &*tail], [&*forward, &tail.qp], &mut settle);
        chain
    }

    /// The replica's send queue to the tail, as memory.
    pub(crate) fn send_queue(&self, access: Access) -> Mr {
        self.replica.pd.register_send_queue(&self.forward, access).unwrap()
    }

    /// Lets all events of a second happen.
    pub(crate) fn settle(&mut self) {
        settle(&mut self.lockstep, &mut self.hub);
    }
}

/// Connects two queue pairs, which may be of the same device.
pub(crate) fn connect(sides: [&Side; 2], qps: [&Qp; 2], settle: &mut impl FnMut()) {
    let param = ConnParam { peer_to_peer: Some(true), ..ConnParam::default() };
    let [a, b] = sides;
    a.device.connect(&a.events, qps[0], b.device.address(PORT), param).unwrap();
    settle();
    let Some(CmEvent::ConnectRequest(request)) = b.events.next() else { panic!("no connect request") };
    b.device.accept(request.id, qps[1], ConnParam::default()).unwrap();
    settle();
    for side in sides {
        assert!(matches!(side.events.next(), Some(CmEvent::Established { .. })));
    }
}

/// Writes a request into the entry with this number, by two Writes: first the part behind the control word, then that
/// word.
pub(crate) fn rewrite(by: &Qp, queue: &Mr, layout: &SendQueueLayout, index: u64, wr: &SendWr<'_>) {
    let octets = layout.encode(wr).unwrap();
    let rest = SendQueueLayout::REST..octets.len();
    for range in [rest, SendQueueLayout::CONTROL..SendQueueLayout::REST] {
        let opcode = write_to(queue, layout.offset(index) + range.start);
        let data = Data::Inline(&octets[range]);
        by.post_send(&SendWr { wr_id: 0, opcode, data, ..WR }).unwrap();
    }
}

/// Changes the opcode of the entry with this number, if it is the first one. Returns the former one.
pub(crate) fn release(chain: &mut Chain, queue: &Mr, index: u64, opcodes: [u64; 2]) -> u64 {
    let layout = chain.forward.send_queue_layout();
    let SendOpcode::Write { stag, to } = write_to(queue, layout.offset(index) + SendQueueLayout::CONTROL)
    else {
        panic!("it is a Write")
    };
    let [compare, swap] = opcodes;
    let opcode = SendOpcode::CompareSwap { stag, to, swap, swap_mask: 0xFF, compare, compare_mask: 0xFF };
    let word = chain.client.memory(8);
    let sges = [word.sge(0, 8)];
    chain.client.qp.post_send(&SendWr { opcode, data: Data::Sges(&sges), ..WR }).unwrap();
    chain.settle();
    let mut octets = [0; 8];
    word.read(0, &mut octets).unwrap();
    u64::from_ne_bytes(octets) & 0xFF
}

/// A wire of three ends: every frame comes to all others.
#[derive(Debug)]
struct Hub {
    ports: Vec<Wire>,
    clock: Clock,
}

impl Hub {
    fn carry(&mut self) {
        let now = self.clock.now();
        let mut frame = Vec::new();
        for from in 0..self.ports.len() {
            while self.ports[from].receive(now, &mut frame) {
                for to in (0..self.ports.len()).filter(|&to| to != from) {
                    self.ports[to].send(now, &frame);
                }
            }
        }
    }
}

fn settle(lockstep: &mut Lockstep, hub: &mut Hub) {
    let deadline = lockstep.now() + Duration::from_secs(1);
    lockstep.run_until(deadline, || {
        hub.carry();
        None::<()>
    });
}
