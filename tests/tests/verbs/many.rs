//! Many queue pairs, and queue pairs that are connected to each other on one device.

use weft_netif::Duration;
use weft_rnic::{
    CmEvent, CompletionOpcode, ConnParam, Cq, Data, DisconnectReason, Lockstep, Mr, Qp, SendWr, Status,
};
use weft_tests::{PORT, Pair, PairConfig, Side};

use crate::world::{
    WR, contents, drain, len32, link_simply, memory_of, outcomes, pattern, post_recv, qp_on, read_from,
    reason, write_to,
};

#[test]
fn a_device_connects_to_itself() {
    let clock = weft_rnic::Clock::virtual_time();
    let (wire, _nobody) = weft_netif::pair(1500);
    let side = Side::new(wire, &clock, "10.0.0.1/24", &PairConfig::default());
    let mut lockstep = Lockstep::new(clock, &[&side.device]);
    let listener = side.device.listen(&side.events, PORT).unwrap();
    let acceptor = qp_on(&side, &side.cq);
    let mut event = || {
        let deadline = lockstep.now() + Duration::from_secs(5);
        lockstep.run_until(deadline, || side.events.next()).expect("an event")
    };
    side.device.connect(&side.events, &side.qp, side.device.address(PORT), ConnParam::default()).unwrap();
    let CmEvent::ConnectRequest(request) = event() else { panic!("no request") };
    side.device.accept(request.id, &acceptor, ConnParam::default()).unwrap();
    assert!(matches!([event(), event()], [CmEvent::Established { .. }, CmEvent::Established { .. }]));

    let octets = pattern(100_000, 1);
    let (from, into) = (memory_of(&side, &octets), [side.memory(100_000), side.memory(100_000)]);
    let back = side.memory(100_000);
    post_recv(&acceptor, 10, &[into[0].sge(0, 100_000)]);
    let (sges, sink) = ([from.sge(0, 100_000)], [back.sge(0, 100_000)]);
    let send = SendWr { wr_id: 1, data: Data::Sges(&sges), ..WR };
    let write = SendWr { wr_id: 2, opcode: write_to(&into[1], 0), ..send };
    let read = SendWr { wr_id: 3, opcode: read_from(&into[1], 0), data: Data::Sges(&sink), ..WR };
    side.qp.post_sends(&[send, write, read]).unwrap();
    let deadline = lockstep.now() + Duration::from_secs(5);
    lockstep.run_until(deadline, || None::<()>);
    let mut done = outcomes(&drain(&side.cq));
    done.sort_by_key(|&(wr_id, _)| wr_id);
    assert_eq!(done, [1, 2, 3, 10].map(|wr_id| (wr_id, Status::Success)));
    for memory in [&into[0], &into[1], &back] {
        assert!(contents(memory) == octets);
    }
    assert!(side.device.stack_counters().looped > 200, "no frame of it has seen the wire");

    acceptor.disconnect().unwrap();
    lockstep.run_until(lockstep.now() + Duration::from_secs(5), || None::<()>);
    let mut ends = [(); 2].map(|()| match side.events.next().expect("an end of each") {
        CmEvent::Disconnected { qp_num, reason } => (qp_num, reason),
        other => panic!("not disconnected: {other:?}"),
    });
    ends.sort_by_key(|(qp_num, _)| *qp_num);
    assert_eq!(
        ends,
        [(side.qp.number(), DisconnectReason::Peer), (acceptor.number(), DisconnectReason::Local)]
    );
    drop(listener);
}

/// One of many connections.
struct Lane {
    a: Qp,
    b: Qp,
    source: Mr,
    received: Mr,
    written: Mr,
    read: Mr,
    len: usize,
}

impl Lane {
    fn new(pair: &mut Pair, cqs: &[Cq; 2], index: usize) -> Self {
        let (a, b) = (qp_on(&pair.a, &cqs[0]), qp_on(&pair.b, &cqs[1]));
        link_simply(pair, &a, &b);
        let len = 5000 + 37 * index;
        let source = memory_of(&pair.a, &pattern(len, index as u64));
        let [received, written] = core::array::from_fn(|_| pair.b.memory(len));
        Self { a, b, source, received, written, read: pair.a.memory(len), len }
    }

    fn post(&self) {
        let len = len32(self.len);
        post_recv(&self.b, 0, &[self.received.sge(0, len)]);
        let (sges, sink) = ([self.source.sge(0, len)], [self.read.sge(0, len)]);
        let write = SendWr { wr_id: 1, opcode: write_to(&self.written, 0), data: Data::Sges(&sges), ..WR };
        let send = SendWr { wr_id: 2, opcode: WR.opcode, ..write };
        let read = SendWr { wr_id: 3, opcode: read_from(&self.written, 0), data: Data::Sges(&sink), ..WR };
        self.a.post_sends(&[write, send, read]).unwrap();
    }
}

#[test]
fn two_hundred_queue_pairs_at_once() {
    let config = PairConfig { tcp_buffer: 16 * 1024, ..PairConfig::default() };
    let mut pair = Pair::new(&config);
    let cqs = [pair.a.device.create_cq(1024, None).unwrap(), pair.b.device.create_cq(1024, None).unwrap()];
    let lanes: Vec<Lane> = (0..200).map(|index| Lane::new(&mut pair, &cqs, index)).collect();
    for lane in &lanes {
        lane.post();
    }
    let (mut at_a, mut at_b) = (Vec::new(), Vec::new());
    pair.wait(|| {
        at_a.extend(drain(&cqs[0]));
        at_b.extend(drain(&cqs[1]));
        (at_a.len() == 600 && at_b.len() == 200).then_some(())
    })
    .unwrap_or_else(|| panic!("{} and {} completions", at_a.len(), at_b.len()));
    let order: Vec<u32> = at_a.iter().map(|completion| completion.qp_num).collect();
    let switches = order.windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert!(switches > 300, "they take turns: {switches}");
    for lane in &lanes {
        let of = |qp: &Qp, all: &[weft_rnic::Completion]| -> Vec<_> {
            all.iter().filter(|c| c.qp_num == qp.number()).map(|c| (c.wr_id, c.status)).collect()
        };
        assert_eq!(of(&lane.a, &at_a), [1, 2, 3].map(|wr_id| (wr_id, Status::Success)));
        assert_eq!(of(&lane.b, &at_b), [(0, Status::Success)]);
        let octets = contents(&lane.source);
        for memory in [&lane.received, &lane.written, &lane.read] {
            assert!(contents(memory) == octets, "queue pair {}", lane.a.number());
        }
    }
    assert!(at_b.iter().all(|c| c.opcode == CompletionOpcode::Recv));
    // All connections end, each with one event at either side.
    for lane in &lanes {
        lane.a.disconnect().unwrap();
    }
    pair.settle(Duration::from_secs(60));
    for (events, expected) in
        [(pair.a.events.clone(), DisconnectReason::Local), (pair.b.events.clone(), DisconnectReason::Peer)]
    {
        let ends: Vec<_> = core::iter::from_fn(|| events.next()).map(reason).collect();
        assert_eq!(ends, vec![expected; 200]);
    }
    assert_eq!(pair.a.device.stack_counters().connections, 0);
}
