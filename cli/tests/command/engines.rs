//! Several engines, each on a queue of its own of a real device. The queues are those of a TAP device, sockets of a
//! fanout group, or queues of an interface by AF_XDP.

use weft_netif::{Spec, Wire};
use weft_rnic::{
    Access, CmEvent, Completion, Config, ConnParam, Cq, Data, Device, EventChannel, Mr, Pd, Progress, Qp,
    QpInit, RecvWr, SendOpcode, SendWr, Status,
};

use crate::namespace::{in_namespace, ip};
use crate::process::{Finished, PATIENCE, Process, run};
use crate::xdp;

/// A device of [`ENGINES`] engines, with a queue for completions on each.
struct End {
    device: Device,
    pd: Pd,
    cqs: Vec<Cq>,
    events: EventChannel,
}

/// A queue pair with memory that the peer writes to, and memory that is written from.
struct Party {
    qp: Qp,
    cq: Cq,
    source: Mr,
    sink: Mr,
}

impl End {
    fn new(spec: &str, address: &str) -> Self {
        let spec: Spec = spec.parse().unwrap();
        let queues = Wire::open_queues(&spec, 1500, ENGINES).unwrap();
        assert_eq!(queues.len(), ENGINES);
        let config = Config::new(address.parse().unwrap(), 7);
        let config = Config { engines: ENGINES, progress: Progress::Thread, ..config };
        let device = Device::open(queues, config).unwrap();
        let cqs = (0..ENGINES).map(|vector| device.create_cq_on(vector, 64, None).unwrap()).collect();
        let events = device.create_event_channel().unwrap();
        Self { pd: device.alloc_pd(), cqs, events, device }
    }

    fn party(&self, vector: usize, filler: u8) -> Party {
        let cq = self.cqs[vector].clone();
        let qp = self.device.create_qp(&self.pd, &QpInit::new(&cq, &cq)).unwrap();
        let memory = || self.pd.register(LEN, Access::ALL).unwrap();
        let (source, sink) = (memory(), memory());
        let octets: Vec<u8> = (0..=250).cycle().map(|octet: u8| octet ^ filler).take(LEN).collect();
        source.write(0, &octets).unwrap();
        qp.post_recv(&RecvWr { wr_id: RECEIVED, sges: &[] }).unwrap();
        Party { qp, cq, source, sink }
    }

    fn event(&self) -> CmEvent {
        self.events.wait(Some(PATIENCE)).expect("an event")
    }

    /// Returns the segments of Writes that an engine has sent and received, and the frames of its queue.
    fn carried(&self, vector: usize) -> [u64; 4] {
        let counters = self.device.engine_counters(vector).unwrap();
        let frames = counters.wire;
        [counters.sent.by_opcode[0], counters.received.by_opcode[0], frames.sent, frames.received]
    }
}

impl Party {
    /// Writes all of the source into the peer's memory, and sends a message behind it.
    fn write_to(&self, peer: &Self) {
        let write = SendWr {
            wr_id: 0,
            opcode: SendOpcode::Write { stag: peer.sink.rkey(), to: peer.sink.addr() },
            data: Data::Sges(&[self.source.sge(0, u32::try_from(LEN).unwrap())]),
            signaled: false,
            fence: false,
            solicited: false,
        };
        let message = SendWr { opcode: SendOpcode::Send, data: Data::Inline(&[]), ..write };
        self.qp.post_sends(&[write, message]).unwrap();
    }

    fn await_message(&self) -> Completion {
        loop {
            match self.cq.poll_one() {
                Some(done) => break done,
                None => std::thread::yield_now(),
            }
        }
    }

    fn content(&self, memory: &Mr) -> Vec<u8> {
        let mut octets = vec![0; memory.len()];
        memory.read(0, &mut octets).unwrap();
        octets
    }
}

/// Makes two connections at once between different engines of the sides, and compares the octets of both directions.
fn exchange(specs: [&str; 2]) {
    let a = End::new(specs[0], "10.0.0.1/24");
    let b = End::new(specs[1], "10.0.0.2/24");
    let listener = b.device.listen(&b.events, 7174).unwrap();
    let mut links = Vec::new();
    for vector in 0..ENGINES {
        let filler = u8::try_from(vector).unwrap();
        let (left, right) = (a.party(vector, filler), b.party(ENGINES - 1 - vector, filler | 0x80));
        let param = ConnParam { peer_to_peer: Some(true), ..ConnParam::default() };
        a.device.connect(&a.events, &left.qp, listener.local_addr(), param).unwrap();
        let CmEvent::ConnectRequest(request) = b.event() else { panic!("a request") };
        b.device.accept(request.id, &right.qp, ConnParam::default()).unwrap();
        for end in [&a, &b] {
            assert!(matches!(end.event(), CmEvent::Established { .. }));
        }
        links.push([left, right]);
    }
    for [left, right] in &links {
        left.write_to(right);
        right.write_to(left);
    }
    for [left, right] in &links {
        for (to, from) in [(left, right), (right, left)] {
            let done = to.await_message();
            assert_eq!((done.status, done.wr_id, done.qp_num), (Status::Success, RECEIVED, to.qp.number()));
            assert!(to.content(&to.sink) == from.content(&from.source));
        }
    }
    for (end, vector) in [&a, &b].into_iter().flat_map(|end| (0..ENGINES).map(move |vector| (end, vector))) {
        let least = (LEN / 1460) as u64;
        let [sent, received, frames_sent, frames_received] = end.carried(vector);
        assert!(sent >= least && received >= least, "engine {vector}: {sent} sent, {received} received");
        assert!(
            frames_sent >= LEAST_FRAMES,
            "queue {vector}: {frames_sent} frames sent, {frames_received} received"
        );
    }
    // The kernel chooses the queue of a frame. No frame may be lost on the way to its engine.
    let frames: u64 = (0..ENGINES).map(|vector| b.carried(vector)[3]).sum();
    assert!(frames >= ENGINES as u64 * LEAST_FRAMES);
}

#[test]
fn two_connections_on_the_queues_of_a_tap_device() {
    const TRIAL: &str = "tuntap add weft-tap mode tap multi_queue && ip link add weft-br type bridge";
    in_namespace("engines::two_connections_on_the_queues_of_a_tap_device", TRIAL, || {
        ip(&["link add br0 type bridge", "link set br0 up"]);
        for tap in ["tap0", "tap1"] {
            ip(&[
                &format!("tuntap add {tap} mode tap multi_queue"),
                &format!("link set {tap} master br0 up"),
            ]);
        }
        exchange(["tap:tap0", "tap:tap1"]);
    });
}

#[test]
fn two_connections_on_the_sockets_of_a_fanout_group() {
    in_namespace("engines::two_connections_on_the_sockets_of_a_fanout_group", xdp::VETH, || {
        ip(&[xdp::VETH, "link set weft0 up", "link set weft1 up"]);
        exchange(["packet:weft0", "packet:weft1"]);
    });
}

/// Clients of rping take turns among the engines, and see no difference.
#[test]
fn clients_of_a_server_with_several_engines() {
    in_namespace("engines::clients_of_a_server_with_several_engines", xdp::VETH, || {
        ip(&[xdp::VETH, "link set weft0 up", "link set weft1 up"]);
        let server = Process::weft("rping -s -P --engines 2 --netif packet:weft0 --ip 10.0.0.1/24");
        let client = || run("rping -c -C 5 -S 5000 -a 10.0.0.1 --netif packet:weft1 --ip 10.0.0.2/24");
        // The server's stack answers before the server listens.
        let is_early = |done: &Finished| done.stderr.iter().any(|line| line.contains("nobody listens there"));
        let first = (0..50).map(|_| client()).find(|done| !is_early(done)).unwrap();
        for done in std::iter::once(first).chain(std::iter::repeat_with(client).take(2)) {
            assert_eq!((done.status, done.stderr.len()), (0, 0), "{done:?}");
            assert!(server.line().ends_with(" was served 5 pings"));
        }
        let refused = run("rping -c --engines 2 -a 10.0.0.1 --netif packet:weft1 --ip 10.0.0.2/24");
        assert_eq!((refused.status, refused.stderr.len()), (2, 1), "{refused:?}");
    });
}

#[test]
fn two_connections_on_the_queues_of_an_interface() {
    xdp::with_veth("engines::two_connections_on_the_queues_of_an_interface", || {
        let queues = format!("numrxqueues {ENGINES} numtxqueues {ENGINES}");
        ip(&[
            "link del weft0",
            &format!("link add weft0 {queues} type veth peer name weft1 {queues}"),
            "link set weft0 up",
            "link set weft1 up",
        ]);
        exchange(["xdp:weft0", "xdp:weft1"]);
    });
}

const ENGINES: usize = 2;
const LEN: usize = 1 << 20;
/// The kernel cuts frames of up to 65,500 octets into segments.
const LEAST_FRAMES: u64 = LEN as u64 / 65_500;
const RECEIVED: u64 = 7;
