//! The counters of all layers. Every counter is documented.

use weft_netif::{Duration, ImpairmentConfig, Instant};
use weft_rnic::{
    Access, Clock, CmEvent, ConnParam, ConnectFailure, Counters, Data, Device, SendOpcode, SendWr, Status,
};
use weft_tests::{PORT, Pair, PairConfig, Side, hex};

use crate::world::{
    READ_REQUEST, READ_RESPONSE, SEND, WR, WRITE, connected, drain, end_of_a, end_of_b, guarded, len32,
    memory_of, outcomes, pattern, post_recv, qp_on, read_from, write_to,
};

/// Returns a counter by its name.
fn named(counters: &Counters, name: &str) -> u64 {
    let found = counters.list().into_iter().find(|(own, _)| own == name);
    found.unwrap_or_else(|| panic!("there is no counter {name}")).1
}

#[test]
fn every_counter_is_documented() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/observability.md");
    let text = std::fs::read_to_string(path).unwrap();
    let opcodes = text.split("\n\n").find(|paragraph| paragraph.starts_with("OPCODE is one of")).unwrap();
    let list = Counters::default().list();
    for (index, (name, _)) in list.iter().enumerate() {
        assert!(list[..index].iter().all(|(other, _)| other != name), "{name} is there twice");
        let documented = match name.split('.').collect::<Vec<_>>()[..] {
            ["rdmap", opcode, counter] if opcode.starts_with("terminates_") => {
                let cause = text.contains(&format!("| `{counter}` |"));
                cause && text.contains(&format!("| `rdmap.{opcode}.CAUSE` |"))
            }
            ["rdmap", opcode, counter] => {
                let row = format!("| `rdmap.OPCODE.{counter}` |");
                text.contains(&row) && opcodes.contains(&format!("`{opcode}`"))
            }
            _ => text.contains(&format!("| `{name}` |")),
        };
        assert!(documented, "docs/observability.md lacks {name}");
    }
    assert!(list.len() > 150, "{}", list.len());
}

#[test]
fn every_layer_counts_its_share_of_the_same_work() {
    let mut pair = connected();
    let before = [pair.a.device.counters(), pair.b.device.counters()];
    let [source, target] = [memory_of(&pair.a, &pattern(5000, 1)), guarded(&pair.b, 5000)];
    post_recv(&pair.b.qp, 1, &[target.sge(0, 100)]);
    let sges = |len: usize| [source.sge(0, len32(len))];
    let post = |wr_id, opcode, len: usize| {
        let wr = SendWr { wr_id, opcode, data: Data::Sges(&sges(len)), ..WR };
        pair.a.qp.post_send(&wr).unwrap();
    };
    post(1, write_to(&target, 0), 5000);
    post(2, read_from(&target, 0), 3000);
    post(3, SendOpcode::Send, 100);
    pair.settle(Duration::from_secs(5));
    assert_eq!(drain(&pair.a.cq).len() + drain(&pair.b.cq).len(), 4);
    assert_eq!(drain(&pair.a.cq).len(), 0);
    let [a, b] = [pair.a.device.counters(), pair.b.device.counters()];

    let octets = |index: usize| {
        let sent = a.sent.octets_by_opcode[index] - before[0].sent.octets_by_opcode[index];
        assert_eq!(a.sent.octets_by_opcode[index], b.received.octets_by_opcode[index], "{index}");
        assert_eq!(a.sent.by_opcode[index], b.received.by_opcode[index], "{index}");
        sent
    };
    assert_eq!([WRITE, READ_REQUEST, SEND].map(octets), [5000, 28, 100]);
    assert_eq!(b.sent.octets_by_opcode[READ_RESPONSE], 3000);
    assert_eq!(a.received.octets_by_opcode[READ_RESPONSE], 3000);
    for (own, peer, start) in [(&a, &b, &before[0]), (&b, &a, &before[1])] {
        assert_eq!((own.mpa.fpdus_sent, own.mpa.octets_sent), {
            (peer.mpa.fpdus_received, peer.mpa.octets_received)
        });
        assert_eq!(own.mpa.fpdus_sent, own.sent.by_opcode.iter().sum::<u64>());
        // All octets in TCP are FPDUs, except the startup frames.
        assert_eq!(own.tcp.octets_sent - start.tcp.octets_sent, own.mpa.octets_sent - start.mpa.octets_sent);
        assert_eq!((own.tcp.octets_sent, own.tcp.segments_sent), {
            (peer.tcp.octets_received, peer.tcp.segments_received)
        });
        assert_eq!((own.wire.sent, own.wire.octets_sent), (peer.wire.received, peer.wire.octets_received));
        assert_eq!((own.wire.sent, own.wire.received), (own.stack.frames_out, own.stack.frames_in));
        assert_eq!((own.mpa.established, own.tcp.segments_retransmitted), (1, 0));
    }
    assert_eq!(
        (named(&a, "rdmap.write.octets_sent"), named(&b, "rdmap.write.octets_received")),
        (5000, 5000)
    );
    let verbs = (a.verbs.doorbells, a.verbs.sends_posted, a.verbs.sends_started, a.verbs.completed_success);
    assert_eq!(verbs, (3, 3, 3, 3));
    assert_eq!((b.verbs.receives_posted, b.verbs.receives_started, b.verbs.completed_success), (1, 1, 1));
    assert_eq!([a.verbs.completions, b.verbs.completions], [3, 1]);
    assert!(a.engine.doorbells > 0 && a.engine.turns > 0 && a.engine.polls > a.engine.polls_idle);
}

#[test]
fn doorbells_polls_and_destroyed_objects() {
    let mut pair = connected();
    let counters = |pair: &Pair| pair.a.device.counters().verbs;
    let cq = pair.a.device.create_cq(16, None).unwrap();
    let qp = qp_on(&pair.a, &cq);
    let peer = qp_on(&pair.b, &pair.b.cq);
    crate::world::link_simply(&mut pair, &qp, &peer);
    let sink = pair.b.memory(8);
    let wrs: [SendWr<'_>; 3] =
        std::array::from_fn(|_| SendWr { opcode: write_to(&sink, 0), data: Data::Inline(b"8 octets"), ..WR });
    let before = counters(&pair);
    qp.post_sends(&wrs).unwrap();
    qp.post_send(&wrs[0]).unwrap();
    assert_eq!(cq.poll_one(), None);
    pair.settle(Duration::from_secs(1));
    assert_eq!(drain(&cq).len(), 4);
    let after = counters(&pair);
    assert_eq!((after.doorbells - before.doorbells, after.sends_posted - before.sends_posted), (2, 4));
    let [found, empty] = [after.polls_found - before.polls_found, after.polls_empty - before.polls_empty];
    assert_eq!((found, empty), (4, 2), "drain looks once more");
    assert_eq!(qp.post_send(&SendWr { data: Data::Inline(&[0; 999]), ..WR }).map_err(|_| ()), Err(()));
    assert_eq!(counters(&pair).doorbells, after.doorbells, "nothing was posted");
    drop((qp, cq));
    assert_eq!(counters(&pair), after, "what is destroyed was done all the same");
}

#[test]
fn terminates_and_failed_requests_by_their_causes() {
    let mut pair = connected();
    let read_only = pair.b.pd.register(64, Access::LOCAL_READ | Access::REMOTE_READ).unwrap();
    pair.a
        .qp
        .post_send(&SendWr { opcode: write_to(&read_only, 0), data: Data::Inline(b"no"), ..WR })
        .unwrap();
    post_recv(&pair.a.qp, 9, &[]);
    end_of_a(&mut pair);
    end_of_b(&mut pair);
    pair.settle(Duration::from_secs(60));
    assert_eq!(outcomes(&drain(&pair.a.cq))[1], (9, Status::WorkRequestFlushed));
    let [a, b] = [pair.a.device.counters(), pair.b.device.counters()];
    assert_eq!((b.terminates, b.terminates_sent.of(0x0, 0x1, 0x02)), (1, 1));
    assert_eq!((a.terminates, a.terminates_received.of(0x0, 0x1, 0x02)), (0, 1));
    let [sent, received] = ["sent", "received"].map(|way| format!("rdmap.terminates_{way}.0/1/02"));
    assert_eq!(
        [named(&b, &sent), named(&b, &received), named(&a, &sent), named(&a, &received)],
        [1, 0, 0, 1]
    );
    assert_eq!((a.verbs.completed_success, a.verbs.completed_flushed, b.verbs.completed_flushed), (1, 1, 0));

    let mut pair = connected();
    pair.a.qp.post_send(&SendWr { data: Data::Inline(b"nobody waits for it"), ..WR }).unwrap();
    end_of_b(&mut pair);
    let b = pair.b.device.counters();
    assert_eq!((b.verbs.rnr, b.terminates_sent.of(0x1, 0x2, 0x02)), (1, 1));
}

#[test]
fn startups_fail_by_their_causes() {
    let mut pair = Pair::new(&PairConfig::default());
    let refuse = |pair: &mut Pair, port: u16| {
        let remote = pair.b.device.address(port);
        pair.a.device.connect(&pair.a.events, &pair.a.qp, remote, ConnParam::default()).unwrap();
    };
    refuse(&mut pair, PORT + 1);
    let expected =
        |event, reason| assert!(matches!(event, CmEvent::ConnectError { reason: own, .. } if own == reason));
    expected(pair.event_of_a(), ConnectFailure::Refused);
    refuse(&mut pair, PORT);
    let CmEvent::ConnectRequest(request) = pair.event_of_b() else { panic!("no request") };
    pair.b.device.reject(request.id, b"").unwrap();
    assert!(matches!(pair.event_of_a(), CmEvent::Rejected { .. }));
    // No side answers this one.
    refuse(&mut pair, PORT);
    expected(pair.event_of_a(), ConnectFailure::TimedOut);
    pair.settle(Duration::from_secs(1000));
    let [a, b] = [pair.a.device.counters(), pair.b.device.counters()];
    assert_eq!((a.mpa.startup_unreachable, a.mpa.startup_timed_out, a.startup_failures), (1, 1, 2));
    assert_eq!((b.mpa.rejects_sent, a.mpa.rejects_received, a.mpa.established), (1, 1, 0));
    assert_eq!((a.tcp.opened, a.tcp.failed, b.tcp.accepted, b.tcp.failed), (2, 1, 2, 0));
    let startup = (named(&a, "mpa.requests_sent"), named(&b, "mpa.requests_received"));
    assert_eq!((startup, named(&a, "mpa.replies_received")), ((2, 2), 1));
}

#[test]
fn retransmissions_show_what_the_wire_loses() {
    let faults = ImpairmentConfig { loss: 0.05, ..ImpairmentConfig::default() };
    let mut pair = Pair::connected(&PairConfig { faults, peer_to_peer: true, ..PairConfig::default() });
    let [source, target] = [memory_of(&pair.a, &pattern(200_000, 1)), guarded(&pair.b, 200_000)];
    let wr = SendWr { opcode: write_to(&target, 0), data: Data::Sges(&[source.sge(0, 200_000)]), ..WR };
    pair.a.qp.post_send(&wr).unwrap();
    let b = pair.b.device.clone();
    pair.wait(|| (b.counters().received.octets_by_opcode[WRITE] == 200_000).then_some(())).unwrap();
    pair.settle(Duration::from_secs(10));
    let [a, b] = [pair.a.device.counters(), pair.b.device.counters()];
    assert!(a.tcp.segments_retransmitted > 0, "{:?}", a.tcp);
    assert_eq!(a.tcp.octets_sent - a.tcp.octets_retransmitted, b.tcp.octets_received, "{:?}", a.tcp);
    assert_eq!(a.sent.octets_by_opcode[WRITE], 200_000, "RDMAP sends nothing twice");
}

/// A round that took a frame is not idle, even if no connection had a turn. A round that executed a request is not
/// idle, even if no frame came or went.
#[test]
fn a_round_is_idle_unless_frames_or_requests_come() {
    let round = |device: &Device, now: Instant| {
        let before = device.counters().engine;
        device.poll(now);
        let after = device.counters().engine;
        assert_eq!(after.polls, before.polls + 1);
        after.polls_idle > before.polls_idle
    };
    let clock = Clock::virtual_time();
    let (wire, mut neighbor) = weft_netif::pair(1500);
    let side = Side::new(wire, &clock, "10.0.0.1/24", &PairConfig::default());
    let now = clock.now();
    round(&side.device, now);
    assert!(round(&side.device, now));
    let request =
        "FFFFFFFFFFFF 020000000009 0806 0001 0800 06 04 0001 020000000009 0A000009 000000000000 0A000001";
    neighbor.send(now, &hex(request));
    assert!(!round(&side.device, now));
    assert!(round(&side.device, now));

    let pair = connected();
    let now = pair.lockstep.now();
    round(&pair.a.device, now);
    assert!(round(&pair.a.device, now));
    pair.a.qp.post_send(&SendWr { wr_id: 1, opcode: SendOpcode::Nop, ..WR }).unwrap();
    assert!(!round(&pair.a.device, now));
    assert_eq!(outcomes(&drain(&pair.a.cq)), [(1, Status::Success)]);
}
