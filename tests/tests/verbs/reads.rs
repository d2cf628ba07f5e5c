//! Reads: the fence, and the number of outstanding ones.

use weft_netif::Duration;
use weft_rnic::{
    Cause, Completion, CompletionOpcode, ConnParam, Data, DisconnectReason, SendOpcode, SendWr, Sge, Status,
};
use weft_tests::Pair;

use crate::world::{
    READ_REQUEST, READ_RESPONSE, SEND, WR, WRITE, connected, contents, drain, end_of_a, end_of_b, link,
    memory_of, outcomes, pattern, post_recv, qp_on, read_from, terminate_code, write_to,
};

/// Posts a long Read and a Send of the fetched octets. Returns how many segments of the Read Response `a` had
/// received when the Send left it, and the number of all segments.
fn send_behind_a_read(pair: &mut Pair, fence: bool) -> (u64, u64) {
    let octets = pattern(300_000, 5);
    let (source, sink, echo) = (memory_of(&pair.b, &octets), pair.a.memory(300_000), pair.b.memory(300_000));
    post_recv(&pair.b.qp, 3, &[echo.sge(0, 300_000)]);
    let sges = [sink.sge(0, 300_000)];
    let read = SendWr { wr_id: 1, opcode: read_from(&source, 0), data: Data::Sges(&sges), ..WR };
    pair.a.qp.post_sends(&[read, SendWr { wr_id: 2, fence, data: Data::Sges(&sges), ..WR }]).unwrap();
    let a = pair.a.device.clone();
    let begun = pair.wait(|| {
        let counters = a.counters();
        (counters.sent.by_opcode[SEND] > 0).then_some(counters.received.by_opcode[READ_RESPONSE])
    });
    pair.settle(Duration::from_secs(5));
    assert_eq!(outcomes(&drain(&pair.a.cq)), [(1, Status::Success), (2, Status::Success)]);
    assert!(contents(&sink) == octets);
    assert_eq!(contents(&echo) == octets, fence, "a Send without fence cannot know what the Read will fetch");
    (begun.unwrap(), a.counters().received.by_opcode[READ_RESPONSE])
}

#[test]
fn a_fence_waits_for_the_reads_before_it() {
    let (begun, total) = send_behind_a_read(&mut connected(), true);
    assert_eq!(begun, total);
    assert!(total > 200);
}

#[test]
fn without_a_fence_nothing_waits() {
    let (begun, total) = send_behind_a_read(&mut connected(), false);
    assert!(begun < total, "{begun} of {total}");
}

#[test]
fn a_fenced_read_waits_and_so_does_everything_behind_it() {
    let mut pair = connected();
    let (source, sink) = (pair.b.memory(1 << 20), pair.a.memory(1 << 20));
    let (long, short) = ([sink.sge(0, 1 << 20)], [sink.sge(0, 1), sink.sge(1, 1)]);
    let read = SendWr { wr_id: 1, opcode: read_from(&source, 0), data: Data::Sges(&long), ..WR };
    let fenced = SendWr { wr_id: 2, fence: true, data: Data::Sges(&short), ..read };
    let write = SendWr { wr_id: 3, opcode: write_to(&source, 0), data: Data::Inline(b"x"), ..WR };
    let a = pair.a.device.clone();
    let sent = || a.counters().sent.by_opcode[READ_REQUEST] + a.counters().sent.by_opcode[WRITE];
    let before = sent();
    pair.a.qp.post_sends(&[read, fenced, write]).unwrap();
    pair.wait(|| (sent() > before + 1).then_some(())).unwrap();
    assert_eq!(pair.a.cq.poll_one().map(|first| first.wr_id), Some(1), "the first Read has come to its end");
    assert_eq!([pair.completion_of_a().wr_id, pair.completion_of_a().wr_id], [2, 3]);
    // Of a Read with several elements only the first part waits. The others do not wait for each other.
    assert_eq!(sent() - before, 4);
}

/// Does 50 Reads of 1000 octets each. Returns the agreed depths, and the largest number of outstanding Reads.
fn most_outstanding(depths: [ConnParam<'_>; 2]) -> ([(u16, u16); 2], u64) {
    let mut pair = connected();
    let (qa, qb) = (qp_on(&pair.a, &pair.a.cq), qp_on(&pair.b, &pair.b.cq));
    let negotiated = link(&mut pair, &qa, &qb, depths);
    let octets = pattern(50_000, 8);
    let (source, sink) = (memory_of(&pair.b, &octets), pair.a.memory(50_000));
    for i in 0..50 {
        let (offset, opcode) = (i * 1000, read_from(&source, i * 1000));
        let sges = [sink.sge(offset, 1000)];
        qa.post_send(&SendWr { wr_id: i as u64, opcode, data: Data::Sges(&sges), ..WR }).unwrap();
    }
    let (most, done) = watch_reads(&mut pair, 50);
    assert_eq!(outcomes(&done), (0..50).map(|wr_id| (wr_id, Status::Success)).collect::<Vec<_>>());
    assert!(contents(&sink) == octets);
    (negotiated, most)
}

/// Waits for `requests` completions of `a`. Also returns the largest number of outstanding Reads.
fn watch_reads(pair: &mut Pair, requests: usize) -> (u64, Vec<Completion>) {
    let (a, cq) = (pair.a.device.clone(), pair.a.cq.clone());
    let (mut most, mut done) = (0, Vec::new());
    pair.wait(|| {
        let counters = a.counters();
        most = most.max(counters.sent.by_opcode[READ_REQUEST] - counters.received.by_opcode[READ_RESPONSE]);
        done.extend(drain(&cq));
        (done.len() == requests).then_some(())
    })
    .unwrap();
    (most, done)
}

fn depths(ird: u16, ord: u16) -> ConnParam<'static> {
    ConnParam { ird: Some(ird), ord: Some(ord), ..ConnParam::default() }
}

#[test]
fn never_more_reads_outstanding_than_agreed() {
    let cases = [
        (depths(1, 1), depths(1, 1), [(1, 1), (1, 1)]),
        (depths(4, 8), depths(3, 2), [(4, 3), (3, 2)]),
        (depths(2, 5), depths(9, 7), [(2, 5), (9, 2)]),
        (depths(16, 40), depths(40, 16), [(16, 40), (40, 16)]),
    ];
    for (a, b, expected) in cases {
        let (negotiated, most) = most_outstanding([a, b]);
        assert_eq!(negotiated, expected);
        // The agreed number is also reached.
        assert_eq!(most, u64::from(expected[0].1));
    }
}

#[test]
fn the_elements_of_a_read_count_each() {
    let mut pair = connected();
    let (qa, qb) = (qp_on(&pair.a, &pair.a.cq), qp_on(&pair.b, &pair.b.cq));
    link(&mut pair, &qa, &qb, [depths(1, 2), depths(2, 1)]);
    let octets = pattern(16, 1);
    let (source, sink) = (memory_of(&pair.b, &octets), pair.a.memory(16));
    let sges: Vec<Sge> = (0..16).map(|i| sink.sge(i, 1)).collect();
    let read = SendWr { wr_id: 1, opcode: read_from(&source, 0), data: Data::Sges(&sges), ..WR };
    qa.post_sends(&[read, SendWr { wr_id: 2, ..read }]).unwrap();
    let (most, _) = watch_reads(&mut pair, 2);
    assert_eq!(most, 2);
    assert_eq!(pair.a.device.counters().sent.by_opcode[READ_REQUEST], 32);
    assert_eq!(contents(&sink), octets);
}

#[test]
fn a_read_without_any_depth_is_a_local_error() {
    for (a, b) in [(depths(4, 0), depths(4, 4)), (depths(4, 4), depths(0, 4))] {
        let mut pair = connected();
        let (qa, qb) = (qp_on(&pair.a, &pair.a.cq), qp_on(&pair.b, &pair.b.cq));
        assert_eq!(link(&mut pair, &qa, &qb, [a, b])[0].1, 0);
        let (source, sink) = (pair.b.memory(8), pair.a.memory(8));
        let sges = [sink.sge(0, 8)];
        let read = SendOpcode::Read { stag: source.rkey(), to: source.addr() };
        let write = SendWr { wr_id: 1, opcode: write_to(&source, 0), data: Data::Sges(&sges), ..WR };
        let read = SendWr { wr_id: 2, opcode: read, ..write };
        qa.post_sends(&[write, read, SendWr { wr_id: 3, ..write }]).unwrap();
        let local = Cause::Local(Status::LocalQpOperation);
        assert_eq!(end_of_a(&mut pair), DisconnectReason::LocalTerminate(local));
        assert_eq!(terminate_code(&end_of_b(&mut pair)), (0x0, 0x0, 0x00));
        let done = drain(&pair.a.cq);
        assert_eq!(
            outcomes(&done),
            [(1, Status::Success), (2, Status::LocalQpOperation), (3, Status::WorkRequestFlushed)]
        );
        assert_eq!(done[0].opcode, CompletionOpcode::Write);
        assert_eq!(pair.a.device.counters().sent.by_opcode[READ_REQUEST], 0);
    }
}
