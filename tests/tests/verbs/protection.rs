//! Memory protection: the side at fault, and the octets that never change.

use weft_netif::Duration;
use weft_rnic::{
    Access, Cause, CompletionOpcode, Data, DisconnectReason, Mr, QpState, SendOpcode, SendWr, Sge, Status,
};
use weft_tests::{Pair, Side};

use crate::world::{
    GUARD, READ_RESPONSE, WR, WRITE, connected, contents, drain, end_of_a, end_of_b, guarded, len32,
    memory_of, outcomes, pattern, post_recv, read_from, terminate_code, write_to,
};

/// Returns elements of 8 octets that a request of `side` may not write to, by fault, and the memory that they name.
fn bad_elements(side: &Side) -> (Vec<(&'static str, Sge)>, Vec<Mr>) {
    let good = guarded(side, 8);
    let other_pd = side.device.alloc_pd().register(8, Access::ALL).unwrap();
    let read_only = side.pd.register(8, Access::LOCAL_READ | Access::REMOTE_READ).unwrap();
    let gone = side.memory(8).sge(0, 8);
    let elements = vec![
        ("deregistered", gone),
        ("unknown", Sge { lkey: weft_rnic::Stag(good.lkey().0 ^ 0x100), ..good.sge(0, 8) }),
        ("too long", good.sge(0, 9)),
        ("behind the end", good.sge(8, 8)),
        ("before the start", Sge { addr: good.addr() - 1, ..good.sge(0, 8) }),
        ("around the end of all addresses", Sge { addr: u64::MAX - 3, ..good.sge(0, 8) }),
        ("of another domain", other_pd.sge(0, 8)),
        ("without the right to write", read_only.sge(0, 8)),
    ];
    (elements, vec![good, other_pd, read_only])
}

/// A local error on side `a` causes a bad completion there. The Terminate to the peer blames no message.
fn expect_local_error(pair: &mut Pair, what: &str) {
    let reason = DisconnectReason::LocalTerminate(Cause::Local(Status::LocalProtection));
    assert_eq!(end_of_a(pair), reason, "{what}");
    assert_eq!(terminate_code(&end_of_b(pair)), (0x0, 0x0, 0x00), "{what}");
    assert_eq!([pair.a.device.counters().terminates, pair.b.device.counters().terminates], [1, 0]);
    pair.settle(Duration::from_secs(60));
    assert_eq!([pair.a.qp.state(), pair.b.qp.state()], [QpState::Error; 2]);
}

#[test]
fn bad_local_elements_of_the_send_queue() {
    for kind in [CompletionOpcode::Send, CompletionOpcode::Write, CompletionOpcode::Read] {
        for index in 0..8 {
            let mut pair = connected();
            let (bad, regions) = bad_elements(&pair.a);
            let (what, sge) = bad[index];
            if kind != CompletionOpcode::Read && what == "without the right to write" {
                continue;
            }
            let (good, target) = (pair.a.memory(8), guarded(&pair.b, 32));
            let opcode = match kind {
                CompletionOpcode::Write => write_to(&target, 0),
                CompletionOpcode::Read => read_from(&target, 0),
                _ => SendOpcode::Send,
            };
            post_recv(&pair.b.qp, 7, &[target.sge(0, 32)]);
            post_recv(&pair.a.qp, 8, &[good.sge(0, 8)]);
            // The bad element is not the first one, and the request is neither the first nor the last.
            let (sges, fine) = ([good.sge(0, 8), sge], [good.sge(0, 0)]);
            let before = SendWr { wr_id: 1, opcode: write_to(&target, 0), data: Data::Sges(&fine), ..WR };
            let wrong = SendWr { wr_id: 2, opcode, data: Data::Sges(&sges), ..WR };
            pair.a.qp.post_sends(&[before, wrong, SendWr { wr_id: 3, ..before }]).unwrap();
            expect_local_error(&mut pair, what);
            assert_eq!(
                outcomes(&drain(&pair.a.cq)),
                [
                    (1, Status::Success),
                    (2, Status::LocalProtection),
                    (3, Status::WorkRequestFlushed),
                    (8, Status::WorkRequestFlushed)
                ]
            );
            assert_eq!(outcomes(&drain(&pair.b.cq)), [(7, Status::WorkRequestFlushed)]);
            assert_eq!(contents(&target), [GUARD; 32], "{what}");
            drop(regions);
        }
    }
}

#[test]
fn a_message_longer_than_its_receive() {
    let mut pair = connected();
    let target = guarded(&pair.a, 16);
    post_recv(&pair.a.qp, 1, &[target.sge(1, 3), target.sge(8, 5)]);
    post_recv(&pair.a.qp, 2, &[]);
    pair.b.qp.post_send(&SendWr { wr_id: 9, data: Data::Inline(b"123456789"), ..WR }).unwrap();
    // Its data is in TCP: a Send that the receiver cannot place has succeeded for the sender.
    assert_eq!(outcomes(&[pair.completion_of_b()]), [(9, Status::Success)]);
    // DDP, untagged buffer, message too long.
    assert_eq!(terminate_code(&end_of_b(&mut pair)), (0x1, 0x2, 0x05));
    let end = end_of_a(&mut pair);
    assert!(matches!(end, DisconnectReason::LocalTerminate(Cause::Peer(_))), "{end:?}");
    let done = drain(&pair.a.cq);
    assert_eq!(outcomes(&done), [(1, Status::LocalLength), (2, Status::WorkRequestFlushed)]);
    assert_eq!(contents(&target), [GUARD; 16]);
}

#[test]
fn bad_elements_of_the_receive_queue() {
    for index in 0..8 {
        let mut pair = connected();
        let (bad, regions) = bad_elements(&pair.a);
        let (what, sge) = bad[index];
        let good = guarded(&pair.a, 8);
        let before: Vec<_> = regions.iter().map(contents).collect();
        // A message that ends before the bad element succeeds.
        post_recv(&pair.a.qp, 1, &[good.sge(0, 8), sge]);
        post_recv(&pair.a.qp, 2, &[good.sge(0, 7), sge]);
        post_recv(&pair.a.qp, 3, &[]);
        for _ in 0..2 {
            pair.b.qp.post_send(&SendWr { wr_id: 9, data: Data::Inline(b"12345678"), ..WR }).unwrap();
        }
        assert_eq!(outcomes(&[pair.completion_of_a()]), [(1, Status::Success)], "{what}");
        if what == "too long" {
            // One octet of this element would be used.
            assert_eq!(outcomes(&[pair.completion_of_a()]), [(2, Status::Success)]);
            continue;
        }
        expect_local_error(&mut pair, what);
        let done = drain(&pair.a.cq);
        assert_eq!(
            outcomes(&done),
            [(2, Status::LocalProtection), (3, Status::WorkRequestFlushed)],
            "{what}"
        );
        assert_eq!(regions.iter().map(contents).collect::<Vec<_>>(), before, "{what}");
    }
}

#[test]
fn elements_without_octets_may_name_anything() {
    let mut pair = connected();
    let (bad, _regions) = bad_elements(&pair.a);
    let empty: Vec<Sge> = bad.iter().map(|&(_, sge)| Sge { length: 0, ..sge }).collect();
    let target = guarded(&pair.b, 8);
    let requests = [SendOpcode::Send, write_to(&target, 0), read_from(&target, 0)];
    post_recv(&pair.b.qp, 1, &[]);
    for opcode in requests {
        pair.a.qp.post_send(&SendWr { opcode, data: Data::Sges(&empty), ..WR }).unwrap();
        assert_eq!(pair.completion_of_a().status, Status::Success);
    }
    assert_eq!(pair.completion_of_b().status, Status::Success);
}

/// Remote targets of 8 octets that a request of `a` may not reach, and the codes of the Terminate for a Write and a
/// Read.
type RemoteCase = (&'static str, SendOpcode, (u8, u8, u8));

fn remote_cases(pair: &Pair, good: &Mr, regions: &mut Vec<Mr>) -> Vec<RemoteCase> {
    let foreign = pair.b.device.alloc_pd().register(8, Access::ALL).unwrap();
    let read_only = pair.b.pd.register(8, Access::LOCAL_WRITE | Access::REMOTE_READ).unwrap();
    let write_only = pair.b.pd.register(8, Access::LOCAL_WRITE | Access::REMOTE_WRITE).unwrap();
    let local = pair.b.pd.register(8, Access::LOCAL_WRITE).unwrap();
    let gone = pair.b.memory(8);
    let (gone_write, gone_read) = (write_to(&gone, 0), read_from(&gone, 0));
    drop(gone);
    let wrapping = |is_read: bool| {
        let (stag, to) = (good.rkey(), u64::MAX - 6);
        if is_read { SendOpcode::Read { stag, to } } else { SendOpcode::Write { stag, to } }
    };
    let cases = vec![
        ("write to deregistered memory", gone_write, (0x1, 0x1, 0x00)),
        ("write across the end", write_to(good, 25), (0x1, 0x1, 0x01)),
        ("write behind the end", write_to(good, 1 << 40), (0x1, 0x1, 0x01)),
        ("write to another domain", write_to(&foreign, 0), (0x1, 0x1, 0x02)),
        ("write around all addresses", wrapping(false), (0x1, 0x1, 0x03)),
        ("write without the right", write_to(&read_only, 0), (0x0, 0x1, 0x02)),
        ("write to local memory", write_to(&local, 0), (0x0, 0x1, 0x02)),
        ("read of deregistered memory", gone_read, (0x0, 0x1, 0x00)),
        ("read across the end", read_from(good, 25), (0x0, 0x1, 0x01)),
        ("read without the right", read_from(&write_only, 0), (0x0, 0x1, 0x02)),
        ("read of local memory", read_from(&local, 0), (0x0, 0x1, 0x02)),
        ("read of another domain", read_from(&foreign, 0), (0x0, 0x1, 0x03)),
        ("read around all addresses", wrapping(true), (0x0, 0x1, 0x04)),
    ];
    regions.extend([foreign, read_only, write_only, local]);
    cases
}

#[test]
fn remote_access_that_is_refused() {
    for index in 0..13 {
        let mut pair = connected();
        let (good, mut regions) = (guarded(&pair.b, 32), Vec::new());
        let (what, opcode, code) = remote_cases(&pair, &good, &mut regions)[index];
        let mine = guarded(&pair.a, 8);
        post_recv(&pair.b.qp, 5, &[]);
        pair.a.qp.post_send(&SendWr { wr_id: 1, opcode, data: Data::Sges(&[mine.sge(0, 8)]), ..WR }).unwrap();
        assert_eq!(terminate_code(&end_of_a(&mut pair)), code, "{what}");
        let end = end_of_b(&mut pair);
        assert!(
            matches!(end, DisconnectReason::LocalTerminate(Cause::Peer(e)) if e.code() == code),
            "{what}"
        );
        let done = drain(&pair.a.cq);
        // A Write has succeeded when TCP has it. A Read completes with the fault.
        if matches!(opcode, SendOpcode::Read { .. }) {
            assert_eq!(outcomes(&done), [(1, Status::RemoteAccess)], "{what}");
            assert_eq!(done[0].vendor_err, u32::from_be_bytes([0, code.0, code.1, code.2]));
        } else {
            assert_eq!(outcomes(&done), [(1, Status::Success)], "{what}");
        }
        assert_eq!(outcomes(&drain(&pair.b.cq)), [(5, Status::WorkRequestFlushed)]);
        assert_eq!([contents(&good), contents(&mine)], [vec![GUARD; 32], vec![GUARD; 8]], "{what}");
        assert!(regions.iter().all(|region| contents(region) == [0; 8]), "{what}");
    }
}

#[test]
fn a_long_write_beyond_the_bounds_places_only_whole_segments_inside() {
    let mut pair = connected();
    let target = guarded(&pair.b, 10_000);
    let source = memory_of(&pair.a, &pattern(10_000, 1));
    let sges = [source.sge(0, 10_000)];
    pair.a.qp.post_send(&SendWr { opcode: write_to(&target, 1000), data: Data::Sges(&sges), ..WR }).unwrap();
    assert_eq!(terminate_code(&end_of_a(&mut pair)), (0x1, 0x1, 0x01));
    let placed = contents(&target);
    assert!(placed[..1000].iter().all(|&octet| octet == GUARD));
    let fit =
        placed[1000..].iter().zip(contents(&source)).take_while(|(placed, sent)| **placed == *sent).count();
    assert!((7000..9000).contains(&fit), "whole segments inside the bounds are placed: {fit}");
    assert!(placed[1000 + fit..].iter().all(|&octet| octet == GUARD), "of the first outside one nothing is");
}

#[test]
fn memory_deregistered_while_the_peer_reads_it() {
    let mut pair = connected();
    let octets = pattern(1 << 20, 3);
    let (source, sink) = (memory_of(&pair.b, &octets), guarded(&pair.a, 1 << 20));
    let read =
        SendWr { wr_id: 1, opcode: read_from(&source, 0), data: Data::Sges(&[sink.sge(0, 1 << 20)]), ..WR };
    pair.a.qp.post_send(&read).unwrap();
    post_recv(&pair.a.qp, 2, &[]);
    let a = pair.a.device.clone();
    pair.wait(|| (a.counters().received.by_opcode[READ_RESPONSE] > 20).then_some(())).unwrap();
    drop(source);
    assert_eq!(terminate_code(&end_of_a(&mut pair)), (0x0, 0x1, 0x00));
    let done = drain(&pair.a.cq);
    assert_eq!(outcomes(&done), [(1, Status::RemoteAccess), (2, Status::WorkRequestFlushed)]);
    assert_eq!(done[0].vendor_err, 0x0000_0100);
    let end = end_of_b(&mut pair);
    assert!(matches!(end, DisconnectReason::LocalTerminate(Cause::Peer(e)) if e.code() == (0x0, 0x1, 0x00)));
    let placed = contents(&sink).iter().zip(&octets).take_while(|(placed, sent)| placed == sent).count();
    assert!((20_000..1 << 20).contains(&placed));
    assert!(contents(&sink)[placed..].iter().all(|&octet| octet == GUARD));
}

#[test]
fn memory_deregistered_while_it_is_sent() {
    for write in [false, true] {
        let mut pair = connected();
        let (source, target) = (pair.a.memory(1 << 20), pair.b.memory(1 << 20));
        let opcode = if write { write_to(&target, 0) } else { SendOpcode::Send };
        post_recv(&pair.b.qp, 5, &[target.sge(0, 1 << 20)]);
        let sges = [source.sge(0, 1 << 20)];
        pair.a.qp.post_send(&SendWr { wr_id: 1, opcode, data: Data::Sges(&sges), ..WR }).unwrap();
        let (b, index) = (pair.b.device.clone(), if write { WRITE } else { crate::world::SEND });
        pair.wait(|| (b.counters().received.by_opcode[index] > 20).then_some(())).unwrap();
        drop(source);
        expect_local_error(&mut pair, "deregistered on the way");
        assert_eq!(outcomes(&drain(&pair.a.cq)), [(1, Status::LocalProtection)]);
        assert_eq!(outcomes(&drain(&pair.b.cq)), [(5, Status::WorkRequestFlushed)]);
    }
}

#[test]
fn send_with_invalidate() {
    for write in [false, true] {
        let mut pair = connected();
        let (window, mine) = (pair.b.own_memory(8), guarded(&pair.a, 8));
        window.write(0, &[GUARD; 8]).unwrap();
        let invalidate = SendOpcode::SendInvalidate { stag: window.rkey() };
        // The receive may be in the invalidated memory itself.
        post_recv(&pair.b.qp, 1, &[window.sge(0, 4)]);
        pair.a.qp.post_send(&SendWr { opcode: invalidate, data: Data::Inline(b"last"), ..WR }).unwrap();
        let received = pair.completion_of_b();
        assert_eq!((received.status, received.invalidated), (Status::Success, Some(window.rkey().0)));
        assert!(window.is_invalidated());
        assert_eq!(&contents(&window)[..4], b"last");
        assert_eq!(pair.completion_of_a().status, Status::Success);

        let opcode = if write { write_to(&window, 0) } else { read_from(&window, 0) };
        pair.a.qp.post_send(&SendWr { opcode, data: Data::Sges(&[mine.sge(0, 8)]), ..WR }).unwrap();
        let code = if write { (0x1, 0x1, 0x00) } else { (0x0, 0x1, 0x00) };
        assert_eq!(terminate_code(&end_of_a(&mut pair)), code);
        assert_eq!(&contents(&window)[4..], [GUARD; 4]);
        assert_eq!(contents(&mine), [GUARD; 8]);
    }
}

#[test]
fn invalidated_memory_cannot_be_used_locally_either() {
    let mut pair = connected();
    let window = pair.a.own_memory(8);
    post_recv(&pair.a.qp, 1, &[]);
    let opcode = SendOpcode::SendInvalidate { stag: window.rkey() };
    pair.b.qp.post_send(&SendWr { opcode, solicited: true, ..WR }).unwrap();
    let received = pair.completion_of_a();
    assert_eq!((received.invalidated, received.solicited), (Some(window.rkey().0), true));
    pair.a.qp.post_send(&SendWr { wr_id: 2, data: Data::Sges(&[window.sge(0, 8)]), ..WR }).unwrap();
    expect_local_error(&mut pair, "invalidated");
    assert_eq!(outcomes(&drain(&pair.a.cq)), [(2, Status::LocalProtection)]);
    // Another STag uses its place in the table again.
    let old = window.rkey();
    drop(window);
    assert_ne!(pair.a.memory(8).rkey(), old);
}

#[test]
fn stags_that_a_peer_may_not_invalidate() {
    for index in 0..4 {
        let mut pair = connected();
        let foreign = pair.b.device.alloc_pd().register(8, Access::ALL).unwrap();
        let local = pair.b.pd.register_for(&pair.b.qp, 8, Access::LOCAL_WRITE).unwrap();
        let shared = pair.b.memory(8);
        let gone = pair.b.own_memory(8).rkey();
        let stag = [foreign.rkey(), local.rkey(), shared.rkey(), gone][index];
        post_recv(&pair.b.qp, 1, &[]);
        pair.a.qp.post_send(&SendWr { opcode: SendOpcode::SendInvalidate { stag }, ..WR }).unwrap();
        assert_eq!(terminate_code(&end_of_a(&mut pair)), (0x0, 0x1, 0x09));
        assert_eq!(outcomes(&drain(&pair.b.cq)), [(1, Status::WorkRequestFlushed)]);
        assert!(![foreign, local, shared].iter().any(Mr::is_invalidated));
    }
}

#[test]
fn nothing_outside_of_the_target_is_touched() {
    let mut pair = connected();
    for len in [1, 2, 3, 5, 63, 1441, 1460, 2903, 20_011] {
        let octets = pattern(len, len as u64);
        let (before, after) = (17, 23);
        let around = [vec![GUARD; before], octets.clone(), vec![GUARD; after]].concat();
        let source = memory_of(&pair.a, &octets);
        let sges = [source.sge(0, len32(len))];
        let [received, written] = core::array::from_fn(|_| guarded(&pair.b, before + len + after));
        let read = guarded(&pair.a, before + len + after);
        post_recv(&pair.b.qp, 1, &[received.sge(before, len32(len))]);
        let send = SendWr { data: Data::Sges(&sges), ..WR };
        let write = SendWr { opcode: write_to(&written, before), ..send };
        let sink = [read.sge(before, len32(len))];
        let back = SendWr { opcode: read_from(&written, before), data: Data::Sges(&sink), ..WR };
        pair.a.qp.post_sends(&[send, write, back]).unwrap();
        pair.settle(Duration::from_secs(2));
        assert_eq!(drain(&pair.a.cq).len() + drain(&pair.b.cq).len(), 4);
        for memory in [&received, &written, &read] {
            assert!(contents(memory) == around, "{len} octets");
        }
        assert!(contents(&source) == octets);
    }
}
