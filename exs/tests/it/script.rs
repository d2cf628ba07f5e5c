//! A peer that speaks octets over a bare queue pair. It shares no code with the crate.

use std::cell::Cell;
use std::net::SocketAddr;
use std::time::Duration;

use weft_rnic::{
    Access, CmEvent, Completion, CompletionOpcode, Config, ConnParam, Cq, CqInit, Data, Device, EventChannel,
    Ground, Listen, Listener, Mr, Pd, Progress, Qp, QpCapacity, QpInit, RecvWr, SendOpcode, SendWr, Status,
};

use crate::world::{LOCAL, PATIENCE};

/// The peer.
pub(crate) struct Script {
    cq: Cq,
    qp: Qp,
    arrived: Mr,
    /// Memory for its messages, Writes and Reads, and for the peer's Reads.
    pub(crate) memory: Mr,
    pub(crate) device: Device,
    pub(crate) events: EventChannel,
    /// Messages that were sent. Each has its own place in the memory.
    sent: Cell<usize>,
    _pd: Pd,
}

/// The fields of a message.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fields {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) limit: u16,
    pub(crate) id: u32,
    pub(crate) len: u32,
    pub(crate) stag: u32,
    pub(crate) a: u64,
    pub(crate) b: u64,
}

impl Script {
    pub(crate) fn new() -> Self {
        let config = Config { progress: Progress::Thread, ..Config::host(LOCAL, 77) };
        Self::on(Device::open(Ground::Host, config).unwrap())
    }

    /// Makes a peer on a device that the test drives.
    pub(crate) fn on(device: Device) -> Self {
        let pd = device.alloc_pd();
        let cq = device.create_cq_with(&CqInit::new(256)).unwrap();
        let capacity = QpCapacity { send_wr: 64, recv_wr: 64, send_sge: 1, recv_sge: 1, inline: 0 };
        let init = QpInit { capacity, signal_all: true, ..QpInit::new(&cq, &cq) };
        let qp = device.create_qp(&pd, &init).unwrap();
        let arrived = pd.register(64 * SLOT, Access::LOCAL_WRITE).unwrap();
        for slot in 0..64 {
            let sges = [arrived.sge(slot * SLOT, 256)];
            qp.post_recv(&RecvWr { wr_id: slot as u64, sges: &sges }).unwrap();
        }
        let memory = pd.register(64 << 10, Access::ALL).unwrap();
        let events = device.create_event_channel().unwrap();
        Self { cq, qp, events, arrived, memory, device, sent: Cell::new(0), _pd: pd }
    }

    /// Connects with a hello, and returns the peer's.
    pub(crate) fn connect(&self, to: SocketAddr, hello: &[u8]) -> Vec<u8> {
        let param = ConnParam { private_data: hello, ird: Some(8), ord: Some(8), ..ConnParam::NONE };
        self.device.connect(&self.events, &self.qp, to, param).unwrap();
        match self.events.wait(Some(PATIENCE)) {
            Some(CmEvent::Established { private_data, .. }) => private_data.to_vec(),
            other => panic!("{other:?}"),
        }
    }

    /// Listens for one connection.
    pub(crate) fn listen(&self, at: impl Into<Listen>) -> Listener {
        self.device.listen(&self.events, at).unwrap()
    }

    /// Accepts the connection with a hello, and returns the peer's.
    pub(crate) fn accept(&self, hello: &[u8]) -> Vec<u8> {
        self.answer(self.events.wait(Some(PATIENCE)), hello)
    }

    /// As [`Self::accept`], if there is a request.
    pub(crate) fn try_accept(&self, hello: &[u8]) -> Option<Vec<u8>> {
        self.events.next().map(|event| self.answer(Some(event), hello))
    }

    fn answer(&self, event: Option<CmEvent>, hello: &[u8]) -> Vec<u8> {
        let Some(CmEvent::ConnectRequest(request)) = event else { panic!("it is no request: {event:?}") };
        let param = ConnParam { private_data: hello, ird: Some(8), ord: Some(8), ..ConnParam::NONE };
        self.device.accept(request.id, &self.qp, param).unwrap();
        request.private_data.to_vec()
    }

    /// Looks for a time that nothing comes.
    pub(crate) fn silence(&self, time: Duration) {
        std::thread::sleep(time);
        let comes = core::iter::from_fn(|| self.cq.poll_one()).find(|completion| completion.wr_id != SENT);
        assert!(comes.is_none(), "{comes:?}");
    }

    /// Sends a message.
    pub(crate) fn send(&self, octets: &[u8]) {
        let at = (32 << 10) + self.sent.replace(self.sent.get() + 1) * SLOT;
        self.memory.write(at, octets).unwrap();
        self.post_at(SendOpcode::Send, at, octets.len());
    }

    /// Posts a request on the first octets of the memory.
    pub(crate) fn post(&self, opcode: SendOpcode, len: usize) {
        self.post_at(opcode, 0, len);
    }

    fn post_at(&self, opcode: SendOpcode, at: usize, len: usize) {
        let sges = [self.memory.sge(at, u32::try_from(len).unwrap())];
        let request = SendWr { wr_id: SENT, data: Data::Sges(&sges), ..SendWr::new(opcode) };
        // A connection that has ended takes none.
        let _ended = self.qp.post_send(&request);
    }

    /// Returns the next message, or nothing if the connection has ended.
    pub(crate) fn next(&self) -> Option<Vec<u8>> {
        loop {
            let completion = self.completion();
            if completion.wr_id != SENT {
                let mut octets = vec![0; completion.byte_len as usize];
                let at = usize::try_from(completion.wr_id).unwrap() * SLOT;
                let is_message =
                    completion.status == Status::Success && completion.opcode == CompletionOpcode::Recv;
                return is_message.then(|| {
                    self.arrived.read(at, &mut octets).unwrap();
                    octets
                });
            }
        }
    }

    /// Returns the status of the next request of the send queue that completes.
    pub(crate) fn done(&self) -> Status {
        loop {
            let completion = self.completion();
            if completion.wr_id == SENT {
                return completion.status;
            }
        }
    }

    /// Returns the status of a request of the send queue that has completed, if there is one.
    pub(crate) fn try_done(&self) -> Option<Status> {
        core::iter::from_fn(|| self.cq.poll_one())
            .find(|completion| completion.wr_id == SENT)
            .map(|completion| completion.status)
    }

    fn completion(&self) -> Completion {
        for _ in 0..PATIENCE.as_millis() {
            if let Some(completion) = self.cq.poll_one() {
                return completion;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        panic!("nothing comes")
    }
}

impl Fields {
    pub(crate) fn octets(self) -> Vec<u8> {
        let Self { kind, flags, limit, id, len, stag, a, b } = self;
        let mut octets = vec![kind, flags];
        octets.extend(limit.to_be_bytes());
        for word in [id, len, stag] {
            octets.extend(word.to_be_bytes());
        }
        for word in [a, b] {
            octets.extend(word.to_be_bytes());
        }
        octets
    }

    pub(crate) fn read(octets: &[u8]) -> Self {
        let word = |at: usize| u32::from_be_bytes(octets[at..at + 4].try_into().unwrap());
        let long = |at: usize| u64::from_be_bytes(octets[at..at + 8].try_into().unwrap());
        Self {
            kind: octets[0],
            flags: octets[1],
            limit: u16::from_be_bytes([octets[2], octets[3]]),
            id: word(4),
            len: word(8),
            stag: word(12),
            a: long(16),
            b: long(24),
        }
    }
}

/// Octets from one slot to the next.
const SLOT: usize = 256;
/// The identifier of requests of the send queue.
const SENT: u64 = 1000;
