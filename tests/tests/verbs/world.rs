//! Helpers: requests, contents, and queue pairs beyond the first of each side.

use weft_netif::Duration;
use weft_rnic::{
    CmEvent, Completion, ConnParam, Cq, Data, DisconnectReason, Mr, Qp, QpCapacity, QpInit, RecvWr,
    SendOpcode, SendWr, Sge, Status,
};
use weft_tests::{Pair, PairConfig, Side};

/// A signaled, empty Send. Tests change some of its fields.
pub(crate) const WR: SendWr<'static> = SendWr {
    wr_id: 0,
    opcode: SendOpcode::Send,
    data: Data::Sges(&[]),
    signaled: true,
    fence: false,
    solicited: false,
};

/// Queues with room for the requests of these tests.
pub(crate) const CAPACITY: QpCapacity =
    QpCapacity { send_wr: 128, recv_wr: 128, send_sge: 16, recv_sge: 16, inline: 256 };

/// Indices into the segment counters.
pub(crate) const WRITE: usize = 0x0;
pub(crate) const READ_REQUEST: usize = 0x1;
pub(crate) const READ_RESPONSE: usize = 0x2;
pub(crate) const SEND: usize = 0x3;

/// The content of memory around the target of an operation.
pub(crate) const GUARD: u8 = 0xEE;

/// Returns octets that differ from those of other seeds and from their neighbours.
pub(crate) fn pattern(len: usize, seed: u64) -> Vec<u8> {
    let mut random = Random(seed);
    let mut octets = Vec::with_capacity(len + 8);
    while octets.len() < len {
        octets.extend_from_slice(&random.next().to_le_bytes());
    }
    octets.truncate(len);
    octets
}

/// SplitMix64: the choices of a test, which its seed repeats.
#[derive(Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ (word >> 31)
    }

    /// Returns a number below `limit`.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).expect("below a usize")
    }
}

pub(crate) fn len32(len: usize) -> u32 {
    u32::try_from(len).expect("a length of a test")
}

/// Returns all octets of a memory region.
pub(crate) fn contents(memory: &Mr) -> Vec<u8> {
    let mut octets = vec![0; memory.len()];
    memory.read(0, &mut octets).expect("the whole region");
    octets
}

/// Returns memory that holds `octets`.
pub(crate) fn memory_of(side: &Side, octets: &[u8]) -> Mr {
    let memory = side.memory(octets.len());
    memory.write(0, octets).expect("the whole region");
    memory
}

/// Returns memory of guard octets.
pub(crate) fn guarded(side: &Side, len: usize) -> Mr {
    memory_of(side, &vec![GUARD; len])
}

pub(crate) fn write_to(memory: &Mr, offset: usize) -> SendOpcode {
    SendOpcode::Write { stag: memory.rkey(), to: memory.addr() + offset as u64 }
}

pub(crate) fn read_from(memory: &Mr, offset: usize) -> SendOpcode {
    SendOpcode::Read { stag: memory.rkey(), to: memory.addr() + offset as u64 }
}

/// A pair that is connected with the peer-to-peer start, so that either side may send first.
pub(crate) fn connected() -> Pair {
    connected_with(CAPACITY)
}

pub(crate) fn connected_with(capacity: QpCapacity) -> Pair {
    let mut pair = Pair::connected(&PairConfig { capacity, peer_to_peer: true, ..PairConfig::default() });
    // The RTR message is counted too, and has arrived after this.
    pair.settle(Duration::from_millis(1));
    pair
}

/// Makes a queue pair with both queues' completions in `cq`.
pub(crate) fn qp_on(side: &Side, cq: &Cq) -> Qp {
    let init = QpInit { capacity: CAPACITY, ..QpInit::new(cq, cq) };
    side.device.create_qp(&side.pd, &init).expect("room for a queue pair")
}

/// Connects a further queue pair of each side. Returns `(ird, ord)` of both.
pub(crate) fn link(pair: &mut Pair, a: &Qp, b: &Qp, params: [ConnParam<'_>; 2]) -> [(u16, u16); 2] {
    let remote = pair.address_of_b();
    pair.a.device.connect(&pair.a.events, a, remote, params[0]).expect("a free queue pair");
    let CmEvent::ConnectRequest(request) = pair.event_of_b() else { panic!("no connect request") };
    pair.b.device.accept(request.id, b, params[1]).expect("a free queue pair");
    [pair.event_of_a(), pair.event_of_b()].map(|event| match event {
        CmEvent::Established { ird, ord, .. } => (ird, ord),
        other => panic!("not established: {other:?}"),
    })
}

/// Connects `a` and `b` with the peer-to-peer start.
pub(crate) fn link_simply(pair: &mut Pair, a: &Qp, b: &Qp) {
    link(pair, a, b, [ConnParam { peer_to_peer: Some(true), ..ConnParam::default() }, ConnParam::default()]);
}

/// Takes all completions from a queue.
pub(crate) fn drain(cq: &Cq) -> Vec<Completion> {
    core::iter::from_fn(|| cq.poll_one()).collect()
}

/// Returns the fields of completions that most tests compare.
pub(crate) fn outcomes(completions: &[Completion]) -> Vec<(u64, Status)> {
    completions.iter().map(|completion| (completion.wr_id, completion.status)).collect()
}

/// Posts a receive of a list of SGEs.
pub(crate) fn post_recv(qp: &Qp, wr_id: u64, sges: &[Sge]) {
    qp.post_recv(&RecvWr { wr_id, sges }).expect("room in the receive queue");
}

pub(crate) fn reason(event: CmEvent) -> DisconnectReason {
    match event {
        CmEvent::Disconnected { reason, .. } => reason,
        other => panic!("not disconnected: {other:?}"),
    }
}

/// Returns the reason for the end of `a`'s connection.
pub(crate) fn end_of_a(pair: &mut Pair) -> DisconnectReason {
    reason(pair.event_of_a())
}

/// Returns the reason for the end of `b`'s connection.
pub(crate) fn end_of_b(pair: &mut Pair) -> DisconnectReason {
    reason(pair.event_of_b())
}

/// Returns layer, type and code of the Terminate that a peer has sent.
pub(crate) fn terminate_code(reason: &DisconnectReason) -> (u8, u8, u8) {
    match reason {
        DisconnectReason::PeerTerminate { code, .. } => *code,
        other => panic!("no Terminate: {other:?}"),
    }
}
