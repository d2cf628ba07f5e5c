//! Fast registration and Local Invalidate: STags that come and go on the send queue.

use weft_netif::Duration;
use weft_rnic::{
    Access, CompletionOpcode, Data, FastMr, FastRegister, QpState, SendOpcode, SendWr, Sge, Stag, Status,
};
use weft_tests::Pair;

use crate::world::{
    GUARD, WR, connected, contents, drain, end_of_a, end_of_b, memory_of, outcomes, post_recv, qp_on,
    read_from, terminate_code,
};

const LEN: usize = 64;
/// The first tagged offset of a registration, which is no address.
const IOVA: u64 = 0xF000_0000_0000_0000;

/// Memory for the stream of `b` alone.
fn fast_memory(pair: &Pair) -> FastMr {
    let memory = pair.b.pd.alloc_fast_mr_for(&pair.b.qp, LEN).unwrap();
    assert_eq!((memory.len(), memory.is_empty()), (LEN, false));
    memory.write(0, &[GUARD; LEN]).unwrap();
    memory
}

fn all_of(memory: &FastMr) -> Vec<u8> {
    let mut octets = vec![0; LEN];
    memory.read(0, &mut octets).unwrap();
    octets
}

/// The registration of 32 octets from octet 16 on.
fn part(stag: Stag) -> FastRegister {
    FastRegister { stag, offset: 16, iova: IOVA, length: 32, access: Access::ALL }
}

fn register(request: FastRegister) -> SendWr<'static> {
    SendWr { wr_id: 1, opcode: SendOpcode::FastRegister(request), ..WR }
}

fn invalidate(stag: Stag) -> SendWr<'static> {
    SendWr { wr_id: 2, opcode: SendOpcode::LocalInvalidate { stag }, ..WR }
}

fn do_now(pair: &mut Pair, wr: &SendWr<'_>) -> Status {
    pair.b.qp.post_send(wr).unwrap();
    let done = pair.completion_of_b();
    assert_eq!(done.wr_id, wr.wr_id);
    done.status
}

fn write(pair: &mut Pair, stag: Stag, to: u64) {
    let opcode = SendOpcode::Write { stag, to };
    pair.a.qp.post_send(&SendWr { wr_id: 5, opcode, data: Data::Inline(b"fast"), ..WR }).unwrap();
    assert_eq!(outcomes(&[pair.completion_of_a()]), [(5, Status::Success)]);
    pair.settle(Duration::from_millis(10));
}

/// The STag is valid for the message behind its registration, for the peer and locally. Before and after, it is
/// invalid.
// Covers 5041-8.3-2, 5040-8.1.1-5.
#[test]
fn an_stag_lives_from_its_registration_to_its_invalidation() {
    for is_local in [false, true] {
        let mut pair = connected();
        let memory = fast_memory(&pair);
        let request = part(memory.stag(0x77));
        let sges = [Sge { addr: IOVA, length: 4, lkey: request.stag }];
        let heard = pair.a.memory(4);
        post_recv(&pair.a.qp, 7, &[heard.sge(0, 4)]);
        let send = SendWr { wr_id: 3, data: Data::Sges(&sges), ..WR };
        pair.b.qp.post_sends(&[register(request), send]).unwrap();
        assert_eq!(outcomes(&[pair.completion_of_a()]), [(7, Status::Success)]);
        assert_eq!(contents(&heard), [GUARD; 4]);
        let done = drain(&pair.b.cq);
        assert_eq!(outcomes(&done), [(1, Status::Success), (3, Status::Success)]);
        assert_eq!((done[0].opcode, done[0].byte_len), (CompletionOpcode::FastRegister, 0));
        assert_eq!((memory.rkey(), memory.is_valid()), (request.stag, true));
        write(&mut pair, request.stag, IOVA + 28);
        assert_eq!(all_of(&memory)[40..52], *b"\xEE\xEE\xEE\xEEfast\xEE\xEE\xEE\xEE");
        let before = all_of(&memory);
        assert_eq!(do_now(&mut pair, &invalidate(request.stag)), Status::Success);
        assert!(!memory.is_valid());
        // The owner may invalidate it again.
        assert_eq!(do_now(&mut pair, &invalidate(request.stag)), Status::Success);
        if is_local {
            assert_eq!(do_now(&mut pair, &send), Status::LocalProtection);
            assert_eq!(terminate_code(&end_of_a(&mut pair)), (0x0, 0x0, 0x00));
        } else {
            write(&mut pair, request.stag, IOVA);
            assert_eq!(terminate_code(&end_of_a(&mut pair)), (0x1, 0x1, 0x00));
        }
        end_of_b(&mut pair);
        assert_eq!(all_of(&memory), before);
    }
}

#[test]
fn the_peer_invalidates_an_stag_and_the_next_one_has_another_key() {
    let mut pair = connected();
    let memory = fast_memory(&pair);
    for key in 0..4 {
        let request = FastRegister { offset: 16 * u64::from(key), length: 16, ..part(memory.stag(key)) };
        assert_eq!(do_now(&mut pair, &register(request)), Status::Success);
        write(&mut pair, request.stag, IOVA);
        post_recv(&pair.b.qp, 7, &[]);
        let opcode = SendOpcode::SendInvalidate { stag: request.stag };
        pair.a.qp.post_send(&SendWr { opcode, ..WR }).unwrap();
        let done = pair.completion_of_b();
        assert_eq!((done.status, done.invalidated), (Status::Success, Some(request.stag.0)));
        assert!(!memory.is_valid());
        pair.completion_of_a();
    }
    let mut expected = vec![GUARD; LEN];
    for part in expected.chunks_mut(16) {
        part[..4].copy_from_slice(b"fast");
    }
    assert_eq!(all_of(&memory), expected);
    write(&mut pair, memory.stag(3), IOVA);
    assert_eq!(terminate_code(&end_of_a(&mut pair)), (0x1, 0x1, 0x00));
}

/// With a fence the Read that fills the memory ends first. Without a fence its answer finds the memory gone, which is
/// the reader's own fault.
#[test]
fn an_invalidation_with_a_fence_waits_for_the_read_before_it() {
    for fence in [true, false] {
        let mut pair = connected();
        let memory = fast_memory(&pair);
        let source = memory_of(&pair.a, b"read by b");
        let request = part(memory.stag(1));
        let sges = [Sge { addr: IOVA, length: 9, lkey: request.stag }];
        let read = SendWr { wr_id: 9, opcode: read_from(&source, 0), data: Data::Sges(&sges), ..WR };
        let invalidate = SendWr { fence, ..invalidate(request.stag) };
        pair.b.qp.post_sends(&[register(request), read, invalidate]).unwrap();
        pair.settle(Duration::from_millis(100));
        let done = outcomes(&drain(&pair.b.cq));
        assert!(!memory.is_valid());
        if fence {
            assert_eq!(done, [(1, Status::Success), (9, Status::Success), (2, Status::Success)]);
            assert_eq!(all_of(&memory)[16..25], *b"read by b");
            assert_eq!(pair.b.qp.state(), QpState::Rts);
        } else {
            let expected =
                [(1, Status::Success), (9, Status::LocalProtection), (2, Status::WorkRequestFlushed)];
            assert_eq!(done, expected);
            assert_eq!(all_of(&memory), [GUARD; LEN]);
            // This is DDP's own error: the tagged buffer does not exist.
            assert_eq!(terminate_code(&end_of_a(&mut pair)), (0x1, 0x1, 0x00));
        }
    }
}

#[test]
fn invalid_registrations_and_invalidations_are_refused() {
    for case in 0..7 {
        let mut pair = connected();
        let memory = fast_memory(&pair);
        let good = part(memory.stag(1));
        let ordinary = pair.b.memory(LEN);
        let other = qp_on(&pair.b, &pair.b.cq);
        let others = pair.b.pd.alloc_fast_mr_for(&other, LEN).unwrap();
        let foreign = pair.b.device.alloc_pd().alloc_fast_mr(LEN).unwrap();
        let wr = match case {
            0 => register(FastRegister { length: 49, ..good }),
            1 => register(FastRegister { access: Access::REMOTE_WRITE, ..good }),
            2 => register(FastRegister { stag: ordinary.lkey(), ..good }),
            3 => register(FastRegister { stag: others.stag(1), ..good }),
            4 => register(FastRegister { stag: foreign.stag(1), ..good }),
            5 => invalidate(ordinary.lkey()),
            _ => {
                assert_eq!(do_now(&mut pair, &register(good)), Status::Success);
                register(FastRegister { stag: memory.stag(2), ..good })
            }
        };
        assert_eq!(do_now(&mut pair, &wr), Status::MemoryWindowBind, "{case}");
        assert_eq!(terminate_code(&end_of_a(&mut pair)), (0x0, 0x0, 0x00));
        assert_eq!((memory.is_valid(), others.is_valid(), foreign.is_valid()), (case == 6, false, false));
        assert!(!ordinary.is_invalidated());
    }
}

/// Local Invalidate also ends a registration by call for one stream, and it does not come back.
#[test]
fn an_ordinary_region_of_one_stream_is_invalidated_locally() {
    let mut pair = connected();
    let memory = pair.b.own_memory(8);
    write(&mut pair, memory.rkey(), memory.addr());
    assert_eq!(do_now(&mut pair, &invalidate(memory.lkey())), Status::Success);
    assert!(memory.is_invalidated());
    write(&mut pair, memory.rkey(), memory.addr());
    assert_eq!(terminate_code(&end_of_a(&mut pair)), (0x1, 0x1, 0x00));
    assert_eq!(contents(&memory), *b"fast\0\0\0\0");
}

/// Requests without a message wrap like others: none is lost when they fill the whole queue.
#[test]
fn a_queue_full_of_registrations_and_invalidations() {
    let mut pair = connected();
    let memory = fast_memory(&pair);
    for round in 0..8_u64 {
        for index in 0..64 {
            let stag = memory.stag(u8::try_from(index % 256).unwrap());
            let wr_id = round * 128 + index * 2;
            pair.b.qp.post_send(&SendWr { wr_id, ..register(part(stag)) }).unwrap();
            pair.b.qp.post_send(&SendWr { wr_id: wr_id + 1, ..invalidate(stag) }).unwrap();
        }
        pair.settle(Duration::from_millis(1));
        let expected: Vec<_> = (0..128).map(|index| (round * 128 + index, Status::Success)).collect();
        assert_eq!(outcomes(&drain(&pair.b.cq)), expected);
    }
    assert!(!memory.is_valid());
}
