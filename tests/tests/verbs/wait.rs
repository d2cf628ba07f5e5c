//! WAIT between two devices: a send queue goes on when another queue pair has its completions.

use weft_netif::Duration;
use weft_rnic::{CqInit, Data, QpInit, SendOpcode, SendWr, Status};
use weft_tests::Pair;

use crate::world::{
    WR, connected, contents, drain, guarded, link_simply, outcomes, post_recv, qp_on, write_to,
};

/// Two connections. On `b` the second one waits for many receives of the first one, and no completion is polled.
#[test]
fn a_send_queue_goes_on_by_itself() {
    let mut pair = connected();
    let counting = pair.b.device.create_cq_with(&CqInit { ignore_overrun: true, ..CqInit::new(2) }).unwrap();
    let (first, inward) = (qp_on(&pair.a, &pair.a.cq), qp_on(&pair.b, &counting));
    link_simply(&mut pair, &first, &inward);
    let sink = guarded(&pair.a, 8);
    let wait = SendOpcode::Wait { cq: counting.number(), count: 10, strict: false };
    for (wr_id, octets) in [(1, b"after 10"), (2, b"after 20")] {
        pair.b.qp.post_send(&SendWr { wr_id, opcode: wait, ..WR }).unwrap();
        let write =
            SendWr { wr_id: wr_id + 10, opcode: write_to(&sink, 0), data: Data::Inline(octets), ..WR };
        pair.b.qp.post_send(&write).unwrap();
    }
    for number in 1..=25_usize {
        post_recv(&inward, 0, &[]);
        first.post_send(&WR).unwrap();
        pair.settle(Duration::from_secs(1));
        let expected: &[(u64, Status)] = match number {
            10 => &[(1, Status::Success), (11, Status::Success)],
            20 => &[(2, Status::Success), (12, Status::Success)],
            _ => &[],
        };
        assert_eq!(outcomes(&drain(&pair.b.cq)), expected, "after {number}");
        assert_eq!(contents(&sink) == b"after 10", (10..20).contains(&number));
        assert_eq!(contents(&sink) == b"after 20", number >= 20);
    }
    assert!(!counting.is_overrun());
    assert_eq!(drain(&counting).len(), 2, "the newest ones");
}

/// Every send queue counts separately, from the beginning of the completion queue on.
#[test]
fn each_send_queue_has_a_count_of_its_own() {
    let mut pair = connected();
    let cq = pair.b.device.create_cq(64, None).unwrap();
    let (first, inward) = (qp_on(&pair.a, &pair.a.cq), qp_on(&pair.b, &cq));
    link_simply(&mut pair, &first, &inward);
    for wr_id in 0..3 {
        post_recv(&inward, wr_id, &[]);
        first.post_send(&WR).unwrap();
    }
    pair.settle(Duration::from_secs(1));
    assert_eq!(drain(&cq).len(), 3);
    let (second, late) = (qp_on(&pair.a, &pair.a.cq), qp_on(&pair.b, &pair.b.cq));
    link_simply(&mut pair, &second, &late);
    let wait = SendOpcode::Wait { cq: cq.number(), count: 2, strict: false };
    for (qp, wr_id) in [(&pair.b.qp, 1), (&late, 2), (&late, 3)] {
        qp.post_send(&SendWr { wr_id, opcode: wait, ..WR }).unwrap();
    }
    pair.settle(Duration::from_secs(1));
    let mut done = outcomes(&drain(&pair.b.cq));
    done.sort_unstable_by_key(|&(wr_id, _)| wr_id);
    assert_eq!(done, [(1, Status::Success), (2, Status::Success)]);
    // The waiting queue pair is destroyed, and then the completions come that it waited for.
    drop(late);
    post_recv(&inward, 9, &[]);
    first.post_send(&WR).unwrap();
    pair.settle(Duration::from_secs(1));
    assert_eq!(outcomes(&drain(&cq)), [(9, Status::Success)]);
    assert_eq!(outcomes(&drain(&pair.b.cq)), []);
}

/// The receives of a connection that ends are flushed. What waits for them goes on, unless it is strict: a Write that was
/// to follow a message would be carried out though the message never came.
#[test]
fn a_strict_wait_does_not_take_a_flushed_receive_for_a_message() {
    for strict in [false, true] {
        let mut pair = connected();
        let inbox = pair.b.device.create_cq_with(&CqInit { ignore_overrun: true, ..CqInit::new(8) }).unwrap();
        let (first, inward) = (qp_on(&pair.a, &pair.a.cq), qp_on(&pair.b, &inbox));
        link_simply(&mut pair, &first, &inward);
        let sink = guarded(&pair.a, 8);
        for (wr_id, octets) in [(1, b"a replay"), (2, b"no more!")] {
            post_recv(&inward, wr_id, &[]);
            let wait = SendOpcode::Wait { cq: inbox.number(), count: 1, strict };
            pair.b.qp.post_send(&SendWr { wr_id, opcode: wait, ..WR }).unwrap();
            let write =
                SendWr { wr_id: wr_id + 10, opcode: write_to(&sink, 0), data: Data::Inline(octets), ..WR };
            pair.b.qp.post_send(&write).unwrap();
        }
        first.post_send(&WR).unwrap();
        pair.settle(Duration::from_secs(1));
        assert_eq!(contents(&sink), b"a replay", "the message that has come");
        drop(first);
        pair.settle(Duration::from_secs(1));
        let (last, rest) = match strict {
            false => (b"no more!", Status::Success),
            true => (b"a replay", Status::WorkRequestFlushed),
        };
        assert_eq!(contents(&sink), last);
        let good = Status::Success;
        assert_eq!(outcomes(&drain(&pair.b.cq)), [(1, good), (11, good), (2, rest), (12, rest)]);
    }
}

/// A queue of another protection domain, a queue without a user, and a queue that does not exist.
#[test]
fn an_unreachable_queue_is_a_bad_request() {
    type Choose = fn(&Pair) -> (Vec<weft_rnic::Qp>, u32);
    let choices: [Choose; 3] = [
        |pair| {
            let cq = pair.b.device.create_cq(4, None).unwrap();
            let other = pair.b.device.alloc_pd();
            (vec![pair.b.device.create_qp(&other, &QpInit::new(&cq, &cq)).unwrap()], cq.number())
        },
        |pair| (Vec::new(), pair.b.device.create_cq(4, None).unwrap().number()),
        |_| (Vec::new(), u32::MAX),
    ];
    for choose in choices {
        let mut pair = connected();
        let (_users, cq) = choose(&pair);
        pair.b
            .qp
            .post_send(&SendWr { wr_id: 1, opcode: SendOpcode::Wait { cq, count: 1, strict: false }, ..WR })
            .unwrap();
        pair.b.qp.post_send(&SendWr { wr_id: 2, ..WR }).unwrap();
        pair.settle(Duration::from_secs(1));
        let expected = [(1, Status::LocalQpOperation), (2, Status::WorkRequestFlushed)];
        assert_eq!(outcomes(&drain(&pair.b.cq)), expected);
    }
}
