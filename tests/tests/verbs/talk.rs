//! A connection in streaming mode between two devices.

use weft_netif::Duration;
use weft_rnic::{
    CmEvent, ConnParam, Data, EventChannel, Listener, Qp, SendWr, Status, StreamState, StreamingConnection,
};
use weft_tests::{Pair, PairConfig, Side};

use crate::world::{WR, contents, guarded, len32, memory_of, pattern, post_recv, qp_on, write_to};

/// The port for connections that begin in streaming mode.
pub(crate) const PORT: u16 = 7175;

/// Two devices with one connection in streaming mode between them.
pub(crate) struct Talk {
    pub(crate) pair: Pair,
    pub(crate) a: StreamingConnection,
    pub(crate) b: StreamingConnection,
    pub(crate) listener: Listener,
}

impl Talk {
    pub(crate) fn new(config: &PairConfig) -> Self {
        let mut pair = Pair::new(config);
        let listener = pair.b.device.listen_streaming(&pair.b.events, PORT).unwrap();
        let (a, b) = open(&mut pair);
        Self { pair, a, b, listener }
    }

    /// Moves `text` from `from` to `to` in pieces of different sizes. Returns it as it has arrived.
    pub(crate) fn carry(&mut self, a_to_b: bool, text: &[u8], piece: usize) -> Vec<u8> {
        let (from, to) = if a_to_b { (&self.a, &self.b) } else { (&self.b, &self.a) };
        let (mut sent, mut heard, mut buffer) = (0, Vec::new(), vec![0; piece]);
        self.pair
            .wait(|| {
                sent += from.send(&text[sent..]).unwrap();
                take(to, &mut buffer, &mut heard);
                (heard.len() == text.len()).then_some(())
            })
            .expect("all octets arrive");
        heard
    }

    pub(crate) fn expect_line(&mut self, a_to_b: bool, line: &[u8]) {
        assert_eq!(self.carry(a_to_b, line, line.len()), line);
    }

    /// `a` asks in lines, `b` agrees and becomes responder. The caller sends the answer of `a`.
    pub(crate) fn agree(&mut self) {
        self.expect_line(true, b"RDMA?\n");
        let b = &self.b;
        self.pair.wait(|| b.start_responder(b"RDMA!\n").ok()).expect("room for the last message");
        let (a, mut line) = (&self.a, [0; 16]);
        let len = self.pair.wait(|| Some(a.receive_until(&mut line, b'\n').unwrap()).filter(|&len| len > 0));
        assert_eq!((len, &line[..6]), (Some(6), &b"RDMA!\n"[..]));
        a.start_initiator(&self.pair.a.qp, with(b"please")).unwrap();
    }

    /// Starts MPA between both, and makes a Write and a Send over it.
    pub(crate) fn convert(&mut self) {
        self.agree();
        let CmEvent::ConnectRequest(request) = self.event_of_b() else { panic!("no connect request") };
        assert_eq!((&request.private_data[..], request.stream), (&b"please"[..], Some(self.b.id())));
        self.pair.b.device.accept(request.id, &self.pair.b.qp, with(b"welcome")).unwrap();
        let CmEvent::Established { private_data, .. } = self.event_of_a() else { panic!("not established") };
        assert_eq!(&private_data[..], b"welcome");
        assert!(matches!(self.event_of_b(), CmEvent::Established { .. }));
        assert_eq!([self.a.state(), self.b.state()], [StreamState::Mpa; 2]);
        let text = pattern(20_000, 5);
        let (source, target) = (memory_of(&self.pair.a, &text), guarded(&self.pair.b, text.len()));
        post_recv(&self.pair.b.qp, 1, &[]);
        let sge = [source.sge(0, len32(text.len()))];
        let write = SendWr { opcode: write_to(&target, 0), data: Data::Sges(&sge), ..WR };
        self.pair.a.qp.post_send(&write).unwrap();
        self.pair.a.qp.post_send(&WR).unwrap();
        assert_eq!(self.pair.completion_of_b().status, Status::Success);
        assert_eq!(contents(&target), text);
    }

    /// The next event of `a` that is more than a wake-up.
    pub(crate) fn event_of_a(&mut self) -> CmEvent {
        let events = self.pair.a.events.clone();
        self.pair.wait(|| news(&events)).expect("an event of a")
    }

    /// The next event of `b` that is more than a wake-up.
    pub(crate) fn event_of_b(&mut self) -> CmEvent {
        let events = self.pair.b.events.clone();
        self.pair.wait(|| news(&events)).expect("an event of b")
    }

    pub(crate) fn settle(&mut self) {
        self.pair.settle(Duration::from_secs(1));
    }

    /// Checks that a further connection can be established and used.
    pub(crate) fn expect_usable(self) {
        let Self { mut pair, a, b, listener } = self;
        drop((a, b));
        while pair.a.events.next().is_some() || pair.b.events.next().is_some() {}
        let fresh = |side: &Side| -> Qp { qp_on(side, &side.cq) };
        (pair.a.qp, pair.b.qp) = (fresh(&pair.a), fresh(&pair.b));
        pair.settle(Duration::from_secs(1));
        let (a, b) = open(&mut pair);
        let mut talk = Self { pair, a, b, listener };
        while talk.pair.a.cq.poll_one().is_some() || talk.pair.b.cq.poll_one().is_some() {}
        talk.convert();
    }
}

pub(crate) fn open(pair: &mut Pair) -> (StreamingConnection, StreamingConnection) {
    let remote = pair.b.device.address(PORT);
    let a = pair.a.device.open_stream(&pair.a.events, remote).unwrap();
    assert_eq!((a.state(), a.peer()), (StreamState::Opening, remote));
    let CmEvent::StreamRequest(request) = pair.event_of_b() else { panic!("no stream request") };
    assert_eq!((request.port, request.peer.ip()), (PORT, pair.a.device.address(0).ip()));
    let b = pair.b.device.accept_stream(request.id).unwrap();
    assert_eq!((b.id(), b.peer()), (request.id, request.peer));
    assert_eq!(pair.event_of_a(), CmEvent::StreamReady { id: a.id() });
    (a, b)
}

/// Receives once, and appends the octets to `heard`.
pub(crate) fn take(from: &StreamingConnection, buffer: &mut [u8], heard: &mut Vec<u8>) -> usize {
    let len = from.receive(buffer).unwrap();
    heard.extend_from_slice(&buffer[..len]);
    len
}

pub(crate) fn with(private_data: &[u8]) -> ConnParam<'_> {
    ConnParam { private_data, ..ConnParam::default() }
}

/// The next event that is more than a wake-up, without waiting.
pub(crate) fn news(events: &EventChannel) -> Option<CmEvent> {
    std::iter::from_fn(|| events.next()).find(|event| !matches!(event, CmEvent::StreamReady { .. }))
}
