//! The orderly end of a device, within a time limit.

use std::time::Duration;

use weft_netif::Duration as EngineTime;
use weft_rnic::{
    Access, CmError, CmEvent, ConnParam, CreateError, Data, DisconnectReason, Progress, QpState, SendWr,
    Status,
};
use weft_tests::{PORT, Pair, PairConfig};

use crate::threads::{Ends, Guard};
use crate::world::{WR, contents, drain, memory_of, outcomes, pattern, post_recv, qp_on, reason, write_to};

/// Posted requests are done, receives are flushed, both sides get the end, and no connection of TCP is left.
#[test]
fn posted_requests_are_done_first() {
    let mut pair = Pair::connected(&PairConfig::default());
    let octets = pattern(1_000_000, 3);
    let (source, far) = (memory_of(&pair.a, &octets), pair.b.memory(octets.len()));
    let idle = qp_on(&pair.a, &pair.a.cq);
    post_recv(&idle, 20, &[]);
    post_recv(&pair.a.qp, 10, &[]);
    let sges = [source.sge(0, 1_000_000)];
    let write = SendWr { wr_id: 1, opcode: write_to(&far, 0), data: Data::Sges(&sges), ..WR };
    pair.a.qp.post_send(&write).unwrap();
    assert!(!pair.a.device.shutdown(Duration::ZERO), "a megabyte is still to be sent");
    pair.settle(EngineTime::from_secs(300));
    assert!(contents(&far) == octets);
    let mut done = outcomes(&drain(&pair.a.cq));
    done.sort_unstable_by_key(|&(wr_id, _)| wr_id);
    let flushed = Status::WorkRequestFlushed;
    assert_eq!(done, [(1, Status::Success), (10, flushed), (20, flushed)]);
    let ends = [pair.a.events.next(), pair.b.events.next()].map(|event| reason(event.expect("an end")));
    assert_eq!(ends, [DisconnectReason::Local, DisconnectReason::Peer]);
    assert!(pair.a.device.is_idle() && pair.b.device.is_idle());
    assert_eq!([pair.a.qp.state(), idle.state()], [QpState::Error; 2]);
}

/// A device that was shut down refuses all new objects, and does not listen any more.
#[test]
fn new_objects_are_refused() {
    let mut pair = Pair::new(&PairConfig::default());
    let (before, opening) = (qp_on(&pair.b, &pair.b.cq), qp_on(&pair.b, &pair.b.cq));
    let nobody = "10.0.0.77:9".parse().unwrap();
    pair.b.device.connect(&pair.b.events, &opening, nobody, ConnParam::default()).unwrap();
    pair.b.device.shutdown(Duration::ZERO);
    let event = pair.b.events.next();
    assert!(matches!(event, Some(CmEvent::ConnectError { qp_num, .. }) if qp_num == opening.number()));
    let (device, pd, cq) = (&pair.b.device, &pair.b.pd, &pair.b.cq);
    assert_eq!(device.create_cq(1, None).err(), Some(CreateError::ShutDown));
    assert_eq!(device.create_qp(pd, &weft_rnic::QpInit::new(cq, cq)).err(), Some(CreateError::ShutDown));
    let srq = weft_rnic::SrqInit { max_wr: 1, max_sge: 1, limit: 0 };
    assert_eq!(pd.create_srq(&srq).err(), Some(CreateError::ShutDown));
    assert_eq!(device.listen(&pair.b.events, PORT + 1).err(), Some(CmError::ShutDown));
    assert_eq!(device.open_stream(&pair.b.events, nobody).err(), Some(CmError::ShutDown));
    let refused = device.connect(&pair.b.events, &before, nobody, ConnParam::default());
    assert_eq!(refused, Err(CmError::ShutDown));
    // Memory stays valid as long as the application holds it, and posted requests are flushed.
    assert!(pd.register(8, Access::ALL).is_ok());
    post_recv(&before, 5, &[]);
    pair.settle(EngineTime::from_secs(1));
    assert_eq!(outcomes(&drain(&pair.b.cq)), [(5, Status::WorkRequestFlushed)]);
    let remote = pair.address_of_b();
    pair.a.device.connect(&pair.a.events, &pair.a.qp, remote, ConnParam::default()).unwrap();
    assert!(matches!(pair.event_of_a(), CmEvent::ConnectError { .. }));
}

#[test]
fn devices_with_threads_wait_for_the_end() {
    let ends = Ends::new(Progress::Thread, Progress::Thread);
    let (qa, qb) = ends.link();
    let memory = ends.b.pd.register(100_000, Access::ALL).unwrap();
    let source = ends.a.pd.register(100_000, Access::ALL).unwrap();
    let sges = [source.sge(0, 100_000)];
    let write = SendWr { wr_id: 1, opcode: write_to(&memory, 0), data: Data::Sges(&sges), ..WR };
    qa.post_send(&write).unwrap();
    assert!(ends.a.device.shutdown(crate::threads::PATIENCE));
    assert_eq!(outcomes(&drain(&ends.a.cq)), [(1, Status::Success)]);
    assert!(ends.b.device.shutdown(crate::threads::PATIENCE), "its connection has ended already");
    assert_eq!([qa.state(), qb.state()], [QpState::Error; 2]);
}

/// The shutdown waits for an absent peer as long as its limit, and no longer.
#[test]
fn connections_that_do_not_end_in_time_are_reset() {
    let ends = Ends::new(Progress::Manual, Progress::Manual);
    let (qa, _qb) = ends.link();
    post_recv(&qa, 10, &[]);
    // From here on the other device is not driven.
    assert!(!ends.a.device.shutdown(Duration::from_millis(20)));
    assert_eq!(outcomes(&drain(&ends.a.cq)), [(10, Status::WorkRequestFlushed)]);
    assert_eq!(qa.state(), QpState::Error);
}

/// The same for streams that only TCP still closes. A peer that has not closed yet would otherwise retry for a long
/// time.
#[test]
fn streams_whose_peer_has_not_closed_are_reset() {
    let ends = Ends::new(Progress::Manual, Progress::Manual);
    let _listener = ends.b.device.listen_streaming(&ends.b.events, PORT + 1).unwrap();
    let _opened = ends.a.device.open_stream(&ends.a.events, ends.b.device.address(PORT + 1)).unwrap();
    let guard = Guard::new();
    let accepted = loop {
        guard.check("a stream");
        assert!(!matches!(ends.a.events.next(), Some(CmEvent::StreamFailed { .. })));
        if let Some(CmEvent::StreamRequest(request)) = ends.b.events.next() {
            break ends.b.device.accept_stream(request.id).unwrap();
        }
    };
    assert!(!ends.a.device.shutdown(Duration::from_millis(20)), "nobody drives the other device meanwhile");
    // Octets on a wire in memory are there at once.
    while accepted.receive(&mut [0; 8]).is_ok() {
        guard.check("an end");
    }
    assert_eq!(ends.b.device.counters().tcp.resets_received, 1);
}
