//! Completion queues that change their size, and queues that ignore overruns.

use weft_netif::Duration;
use weft_rnic::{CompletionOpcode, CqInit, QpState, ResizeError, SendWr, Status};

use crate::world::{CAPACITY, WR, connected, drain, link_simply, outcomes, post_recv, qp_on};

/// Sizes grow and shrink while completions come and wait: none is lost, and all are in order.
#[test]
fn nothing_is_lost_by_a_resize() {
    let mut pair = connected();
    let cq = pair.a.device.create_cq(4, None).unwrap();
    let (qp, peer) = (qp_on(&pair.a, &cq), qp_on(&pair.b, &pair.b.cq));
    link_simply(&mut pair, &qp, &peer);
    let (mut posted, mut seen) = (0, 0);
    for (entries, send) in [(16, 3), (8, 4), (128, 1), (64, 60), (4, 0), (4, 4), (2, 0), (1, 0)] {
        let waiting = posted - seen;
        let resized = cq.resize(entries);
        assert_eq!(resized, if waiting > u64::from(entries) { Err(ResizeError::InUse) } else { Ok(()) });
        assert!(cq.capacity() >= waiting);
        for wr_id in posted..posted + send {
            post_recv(&peer, wr_id, &[]);
            qp.post_send(&SendWr { wr_id, ..WR }).unwrap();
        }
        posted += send;
        pair.settle(Duration::from_secs(1));
        // Some completions stay for the next size.
        let keep = if entries == 64 { 0 } else { 2 };
        while posted - seen > keep {
            let done = cq.poll_one().expect("all have completed");
            assert_eq!((done.wr_id, done.status), (seen, Status::Success));
            seen += 1;
        }
    }
    assert!(!cq.is_overrun());
    assert_eq!(outcomes(&drain(&cq)).len() as u64, posted - seen);
    assert_eq!(qp.state(), QpState::Rts);
    assert_eq!(cq.resize(u32::MAX), Err(ResizeError::TooLarge));
}

/// A queue serves queue pairs that come one by one, and has room for all that those before can complete. Their
/// completions wait while it grows.
#[test]
fn a_queue_that_grows_with_its_queue_pairs_never_overruns() {
    let mut pair = connected();
    let cq = pair.a.device.create_cq(1, None).unwrap();
    let quiet = pair.b.device.create_cq_with(&CqInit { ignore_overrun: true, ..CqInit::new(1) }).unwrap();
    let (mut links, mut needed) = (Vec::new(), 0);
    for link in 0..5_u64 {
        needed += CAPACITY.send_wr + CAPACITY.recv_wr;
        cq.resize(needed).unwrap();
        let (qp, peer) = (qp_on(&pair.a, &cq), qp_on(&pair.b, &quiet));
        link_simply(&mut pair, &qp, &peer);
        let granted = qp.query().unwrap().capacity;
        assert_eq!([granted.send_wr, granted.recv_wr], [CAPACITY.send_wr, CAPACITY.recv_wr]);
        for request in 0..u64::from(CAPACITY.recv_wr) {
            let wr_id = link << 32 | request;
            post_recv(&peer, 0, &[]);
            post_recv(&qp, wr_id, &[]);
            qp.post_send(&SendWr { wr_id, ..WR }).unwrap();
            peer.post_send(&WR).unwrap();
        }
        links.push((qp, peer));
        pair.settle(Duration::from_secs(1));
    }
    assert!(!cq.is_overrun() && cq.capacity() >= needed.into());
    let done = outcomes(&drain(&cq));
    assert_eq!(done.len(), needed as usize);
    assert!(done.iter().all(|&(_, status)| status == Status::Success));
    assert!(done.is_sorted_by_key(|(wr_id, _)| wr_id >> 32), "those of the first queue pair come first");
}

/// An overrun of a queue that ignores overruns ends no connection.
#[test]
fn a_queue_that_ignores_overruns_goes_on() {
    let mut pair = connected();
    let cq = pair.b.device.create_cq_with(&CqInit { ignore_overrun: true, ..CqInit::new(4) }).unwrap();
    let (peer, qp) = (qp_on(&pair.a, &pair.a.cq), qp_on(&pair.b, &cq));
    link_simply(&mut pair, &peer, &qp);
    for wr_id in 0..50 {
        post_recv(&qp, wr_id, &[]);
        peer.post_send(&WR).unwrap();
    }
    pair.settle(Duration::from_secs(1));
    assert!(!cq.is_overrun());
    assert_eq!((qp.state(), peer.state()), (QpState::Rts, QpState::Rts));
    let there = drain(&cq);
    assert_eq!(outcomes(&there), [46, 47, 48, 49].map(|wr_id| (wr_id, Status::Success)));
    assert!(there.iter().all(|done| done.opcode == CompletionOpcode::Recv));
}
