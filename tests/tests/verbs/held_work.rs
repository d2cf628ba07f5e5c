//! HyperLoop: a peer writes requests into a send queue, and the device runs them without a call of its application.

use weft_netif::Duration;
use weft_rnic::{
    Access, Data, QpInit, QpState, RecvWr, RegisterError, SendOpcode, SendQueueLayout, SendWr, Status,
};
use weft_tests::{Pair, PairConfig};

use crate::held_world::{Chain, HOLD, connect, release, rewrite};
use crate::world::{CAPACITY, WR, contents, drain, guarded, memory_of, outcomes, pattern, write_to};

/// Opcodes of entries.
const WRITE: u64 = 0x03;
const NOP: u64 = 0x10;
const HELD: u64 = 0x12;

/// The client writes into the send queue by which the replica reaches the third device. A WAIT for the receive of the
/// client's Send comes before. After the setup the replica's application makes no call.
#[test]
fn a_replica_forwards_requests_that_the_client_has_written() {
    let mut chain = Chain::new();
    let replica = guarded(&chain.replica, 4096);
    let tail = guarded(&chain.tail, 4096);
    let queue = chain.send_queue(Access::LOCAL_WRITE | Access::REMOTE_WRITE);
    let layout = chain.forward.send_queue_layout();
    // Three rounds: each waits for one message of the client, and then runs the held requests.
    let wait = SendOpcode::Wait { cq: chain.inbox.number(), count: 1, strict: false };
    for round in 0..3 {
        chain.inward.post_recv(&RecvWr { wr_id: 900 + round, sges: &[] }).unwrap();
        chain.forward.post_send(&SendWr { wr_id: round, opcode: wait, signaled: false, ..WR }).unwrap();
        chain.forward.post_send(&SendWr { wr_id: 100 + round, opcode: HOLD, ..WR }).unwrap();
    }
    chain.settle();
    for round in 0..3_u64 {
        let octets = pattern(1000, round);
        let source = memory_of(&chain.client, &octets);
        let to_data = SendWr {
            wr_id: 1,
            opcode: write_to(&replica, 0),
            data: Data::Sges(&[source.sge(0, 1000)]),
            ..WR
        };
        chain.client.qp.post_send(&to_data).unwrap();
        let sges = [replica.sge(0, 1000)];
        let forward =
            SendWr { wr_id: 100 + round, opcode: write_to(&tail, 0), data: Data::Sges(&sges), ..WR };
        rewrite(&chain.client.qp, &queue, &layout, 2 * round + 1, &forward);
        chain.settle();
        assert!(contents(&tail)[..1000] != octets, "the WAIT holds what is released already");
        chain.client.qp.post_send(&SendWr { wr_id: 2, ..WR }).unwrap();
        chain.settle();
        assert!(contents(&tail)[..1000] == octets);
        assert_eq!(contents(&tail)[1000..], contents(&replica)[1000..], "both as they were");
        assert!(drain(&chain.client.cq).iter().all(|done| done.status == Status::Success));
    }
    // Only now a completion queue is polled.
    assert_eq!(outcomes(&drain(&chain.outbox)), [100, 101, 102].map(|wr_id| (wr_id, Status::Success)));
    assert_eq!(outcomes(&drain(&chain.inbox)), [900, 901, 902].map(|wr_id| (wr_id, Status::Success)));
}

/// The owner has written the request except for its opcode. The client releases it by a compare-and-swap of one word,
/// as NOP or as the request that it is.
#[test]
fn a_compare_and_swap_decides() {
    let mut chain = Chain::new();
    let tail = guarded(&chain.tail, 8);
    let queue = chain.send_queue(Access::LOCAL_WRITE | Access::REMOTE_ATOMIC);
    let layout = chain.forward.send_queue_layout();
    let inline = |wr_id: u64| wr_id.to_be_bytes();
    let write = |wr_id: u64| SendWr { wr_id, opcode: write_to(&tail, 0), ..WR };
    for wr_id in 1..=4 {
        let held = SendWr { opcode: HOLD, data: Data::Inline(&inline(wr_id)), ..write(wr_id) };
        chain.forward.post_send(&held).unwrap();
        // The owner itself writes the fields of a held request that the call does not store.
        let entry = layout.encode(&SendWr { data: Data::Inline(&inline(wr_id)), ..write(wr_id) }).unwrap();
        let rest = layout.offset(wr_id - 1) + SendQueueLayout::REST;
        queue.write(rest, &entry[SendQueueLayout::REST..]).unwrap();
    }
    chain.settle();
    assert_eq!(contents(&tail), contents(&guarded(&chain.tail, 8)), "nothing has started");
    for (wr_id, becomes) in [(1, NOP), (2, WRITE), (3, NOP), (4, WRITE)] {
        let before = contents(&tail);
        assert_eq!(release(&mut chain, &queue, wr_id - 1, [HELD, becomes]), HELD);
        let is_write = becomes == WRITE;
        assert_eq!(contents(&tail) != before, is_write, "{wr_id}");
        assert!(!is_write || contents(&tail) == inline(wr_id));
        assert_eq!(outcomes(&drain(&chain.outbox)), [(wr_id, Status::Success)]);
    }
    // This comes too late: the word is no longer HOLD, and nothing happens.
    assert_eq!(release(&mut chain, &queue, 1, [HELD, NOP]), WRITE);
    assert_eq!(outcomes(&drain(&chain.outbox)), []);
}

/// The ring wraps: the owner posts HOLD again in retired entries, and the client continues with the numbers.
#[test]
fn entries_are_used_again() {
    let mut chain = Chain::new();
    let tail = guarded(&chain.tail, 8);
    let queue = chain.send_queue(Access::LOCAL_WRITE | Access::REMOTE_WRITE);
    let layout = chain.forward.send_queue_layout();
    let mut posted = 0;
    for number in 0..3 * layout.entries {
        while posted < layout.entries.min(16) + number {
            chain.forward.post_send(&SendWr { wr_id: posted, opcode: HOLD, ..WR }).unwrap();
            posted += 1;
        }
        let octets = number.to_be_bytes();
        let write = SendWr { wr_id: number, opcode: write_to(&tail, 0), data: Data::Inline(&octets), ..WR };
        rewrite(&chain.client.qp, &queue, &layout, number, &write);
        chain.settle();
        assert_eq!(contents(&tail), octets);
        assert_eq!(outcomes(&drain(&chain.outbox)), [(number, Status::Success)]);
        drain(&chain.client.cq);
    }
}

/// An invalid entry causes a bad completion and the end of that connection only.
#[test]
fn a_bad_entry_ends_its_own_connection() {
    let mut chain = Chain::new();
    let queue = chain.send_queue(Access::LOCAL_WRITE | Access::REMOTE_WRITE);
    let layout = chain.forward.send_queue_layout();
    for wr_id in 1..=2 {
        chain.forward.post_send(&SendWr { wr_id, opcode: HOLD, ..WR }).unwrap();
    }
    let word = 0x77_u64.to_le_bytes();
    let opcode = write_to(&queue, layout.offset(0) + SendQueueLayout::CONTROL);
    chain.client.qp.post_send(&SendWr { wr_id: 5, opcode, data: Data::Inline(&word), ..WR }).unwrap();
    chain.settle();
    let expected = [(1, Status::LocalQpOperation), (2, Status::WorkRequestFlushed)];
    assert_eq!(outcomes(&drain(&chain.outbox)), expected);
    assert_eq!(outcomes(&drain(&chain.client.cq)), [(5, Status::Success)]);
    assert_eq!(chain.client.qp.state(), QpState::Rts);
    // The queue pair has gone, its ring has not. The peer's Writes into it have no effect.
    assert_eq!(chain.forward.state(), QpState::Error);
    chain.client.qp.post_send(&SendWr { wr_id: 6, opcode, data: Data::Inline(&word), ..WR }).unwrap();
    chain.settle();
    assert_eq!(outcomes(&drain(&chain.client.cq)), [(6, Status::Success)]);
}

/// Registered entries outlive their queue pair, and have bounds like all memory.
#[test]
fn the_ring_lives_as_long_as_its_registration() {
    let mut chain = Chain::new();
    let queue = chain.send_queue(Access::ALL);
    let layout = chain.forward.send_queue_layout();
    assert_eq!(queue.len() as u64, layout.entries * layout.stride as u64);
    assert!(queue.write(queue.len() - 1, &[1]).is_ok() && queue.write(queue.len(), &[1]).is_err());
    let other = chain.client.pd.register_send_queue(&chain.forward, Access::ALL);
    assert_eq!(other.err(), Some(RegisterError::ForeignQp));
    let init = QpInit::new(&chain.inbox, &chain.inbox);
    chain.forward = chain.replica.device.create_qp(&chain.replica.pd, &init).unwrap();
    let mut octet = [0];
    queue.read(queue.len() - 1, &mut octet).unwrap();
    assert_eq!(octet, [1]);
    let opcode = write_to(&queue, queue.len() - 1);
    chain.client.qp.post_send(&SendWr { wr_id: 7, opcode, data: Data::Inline(&[2]), ..WR }).unwrap();
    chain.settle();
    queue.read(queue.len() - 1, &mut octet).unwrap();
    assert_eq!((octet, outcomes(&drain(&chain.client.cq))), ([2], vec![(7, Status::Success)]));
}

/// Two queue pairs of one device are connected to each other: a peer makes the device copy its own memory.
#[test]
fn a_device_copies_within_itself() {
    let mut pair =
        Pair::connected(&PairConfig { capacity: CAPACITY, peer_to_peer: true, ..PairConfig::default() });
    let cq = pair.b.device.create_cq(64, None).unwrap();
    let qps = [(); 2].map(|()| pair.b.device.create_qp(&pair.b.pd, &QpInit::new(&cq, &cq)).unwrap());
    let Pair { b, lockstep, .. } = &mut pair;
    let mut settle = || {
        lockstep.run_until(lockstep.now() + Duration::from_secs(1), || None::<()>);
    };
    connect([&*b, &*b], [&qps[0], &qps[1]], &mut settle);
    let octets = pattern(5000, 1);
    let (from, to) = (memory_of(&pair.b, &octets), guarded(&pair.b, 5000));
    let queue = pair.b.pd.register_send_queue(&qps[0], Access::LOCAL_WRITE | Access::REMOTE_WRITE).unwrap();
    let layout = qps[0].send_queue_layout();
    for wr_id in 0..2 {
        qps[0].post_send(&SendWr { wr_id, opcode: HOLD, ..WR }).unwrap();
    }
    let sges = [from.sge(0, 5000)];
    rewrite(
        &pair.a.qp,
        &queue,
        &layout,
        0,
        &SendWr { opcode: write_to(&to, 0), data: Data::Sges(&sges), ..WR },
    );
    pair.settle(Duration::from_secs(1));
    assert!(contents(&to) == octets);
    assert_eq!(outcomes(&drain(&cq)), [(0, Status::Success)]);
    // One of the two writes into the send queue of the other, which is its own peer.
    let nop = layout.encode(&SendWr { wr_id: 1, opcode: SendOpcode::Nop, ..WR }).unwrap();
    let opcode = write_to(&queue, layout.offset(1) + SendQueueLayout::CONTROL);
    let word = &nop[SendQueueLayout::CONTROL..SendQueueLayout::REST];
    qps[1].post_send(&SendWr { wr_id: 9, opcode, data: Data::Inline(word), ..WR }).unwrap();
    pair.settle(Duration::from_secs(1));
    let mut done = outcomes(&drain(&cq));
    done.sort_unstable_by_key(|&(wr_id, _)| wr_id);
    assert_eq!(done, [(1, Status::Success), (9, Status::Success)]);
}
