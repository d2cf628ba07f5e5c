//! The messages of RFC 7306 one by one: their fields (section 4), when an Atomic begins (section 5.4), and the effect
//! of an unaligned one at both ends (section 5.1).

use weft_rdmap::Error as Rdmap;
use weft_rnic::{
    Cause, CmEvent, CompletionOpcode, Data, DisconnectReason, RecvWr, SendOpcode, SendWr, Sge, Stag, Status,
};
use weft_tests::{Pair, PairConfig};

use crate::atomics::{compare_swap, fetch_add, response};
use crate::octets::{Place, fpdu, join, read_fpdu};
use crate::world::{FILL, ROLES, Role, content, filled, open, work};

const DATA: [u8; 8] = [1, 2, 3, 4, 5, 6, 7, 8];
const IMMEDIATE: SendOpcode = SendOpcode::Immediate { data: DATA };

const fn to_add(stag: u32, to: u64) -> SendOpcode {
    SendOpcode::FetchAdd { stag: Stag(stag), to, add: 5, mask: 0 }
}

/// A swap that always succeeds on memory full of [`FILL`].
const fn to_swap(stag: u32, to: u64) -> SendOpcode {
    let compare = u64::from_ne_bytes([FILL; 8]);
    SendOpcode::CompareSwap {
        stag: Stag(stag),
        to,
        swap: 0,
        swap_mask: u64::MAX,
        compare,
        compare_mask: u64::MAX,
    }
}

/// Returns each message of RFC 7306 as the device makes it, in the order of [`MADE`].
fn made_by_the_device(role: Role) -> Vec<Vec<u8>> {
    let (world, peer) = open(role);
    let memory = filled(&world.side, 16);
    let sges = [memory.sge(0, 8)];
    for wr in [
        work(1, IMMEDIATE, Data::Inline(b"")),
        SendWr { solicited: true, ..work(2, IMMEDIATE, Data::Inline(b"")) },
        work(3, to_add(0xAABB_CCDD, 0x1000), Data::Sges(&sges)),
        work(4, to_swap(0xAABB_CCDD, 0x1000), Data::Sges(&sges)),
    ] {
        world.side.qp.post_send(&wr).unwrap();
    }
    let mut ulpdus: Vec<_> = (0..4).map(|_| read_fpdu(&peer)).collect();
    let word = Place(memory.rkey().0, memory.addr() + 8);
    peer.send(&[fpdu(&fetch_add(1, 7, word, 1)), fpdu(&compare_swap(2, 8, word, 0, 1))].concat());
    ulpdus.extend((0..2).map(|_| read_fpdu(&peer)));
    ulpdus
}

/// Opcode, queue, and octets of the RDMAP header behind the 18 of DDP's.
const MADE: [(u8, u8, usize); 6] =
    [(0x8, 0, 8), (0x9, 0, 8), (0xA, 1, 52), (0xA, 1, 52), (0xB, 3, 12), (0xB, 3, 12)];

/// RV is 1, then the opcode; nothing is invalidated; T is 0, and the queue is the opcode's.
// Covers 7306-4.1-1, 7306-4.1-2, 7306-4.1-3, 7306-4.1-5.
#[test]
fn each_message_has_its_opcode_and_its_queue() {
    for role in ROLES {
        let ulpdus = made_by_the_device(role);
        assert_eq!(ulpdus.len(), MADE.len());
        for (ulpdu, (opcode, queue, _)) in ulpdus.iter().zip(MADE) {
            assert_eq!(ulpdu[1] >> 6, 0b01, "RV of opcode {opcode:x}");
            assert_eq!(ulpdu[1] & 0x3F, opcode);
            assert_eq!(ulpdu[2..6], [0; 4], "Invalidate STag of opcode {opcode:x}");
            assert_eq!(ulpdu[0] & 0x80, 0, "T of opcode {opcode:x}");
            assert_eq!(ulpdu[6..10], [0, 0, 0, queue], "queue of opcode {opcode:x}");
        }
    }
}

/// Each message is one segment with a header of its length and nothing behind it; the 28 bits before the operation are
/// zero.
// Covers 7306-4-1, 7306-4.2-1, 7306-5.2.1-1.
#[test]
fn each_message_has_the_length_of_its_header() {
    for role in ROLES {
        for (ulpdu, (opcode, _, len)) in made_by_the_device(role).iter().zip(MADE) {
            assert_eq!(ulpdu[0] & 0x40, 0x40, "L of opcode {opcode:x}");
            assert_eq!(ulpdu.len(), 18 + len, "opcode {opcode:x}");
            if opcode == 0xA {
                assert_eq!(ulpdu[18..21], [0; 3]);
                assert_eq!(ulpdu[21] & 0xF0, 0);
            }
        }
    }
}

/// The field names memory that the peer could invalidate. None of the messages invalidates it. RDMAP's reserved bits
/// mean nothing either. The values are in memory in this machine's order.
// Covers 7306-4.1-4, 7306-5.1.1-7.
#[test]
fn the_invalidate_field_means_nothing() {
    for role in ROLES {
        for reserved in [0x00, 0x30] {
            let (world, peer) = open(role);
            let (memory, victim) = (filled(&world.side, 16), world.side.own_memory(8));
            let change = |mut ulpdu: Vec<u8>| {
                ulpdu[1] |= reserved;
                ulpdu[2..6].copy_from_slice(&victim.rkey().0.to_be_bytes());
                fpdu(&ulpdu)
            };
            for (msn, control) in [(1_u32, 0x48), (2, 0x49)] {
                world.side.qp.post_recv(&RecvWr { wr_id: msn.into(), sges: &[] }).unwrap();
                let head = join("41", &[&[control], &[0; 8], &msn.to_be_bytes(), &[0; 4], &DATA]);
                peer.send(&change(head));
                let done = world.completion();
                assert_eq!((done.wr_id, done.status), (msn.into(), Status::Success));
                assert_eq!((done.immediate, done.solicited), (Some(DATA), control == 0x49));
                assert_eq!(done.invalidated, None);
            }
            let word = Place(memory.rkey().0, memory.addr());
            peer.send(&change(fetch_add(1, 9, word, 0)));
            peer.expect(&fpdu(&response(1, 9, u64::from_ne_bytes([FILL; 8]))));
            let sges = [memory.sge(8, 8)];
            world.side.qp.post_send(&work(3, to_add(7, 0x1000), Data::Sges(&sges))).unwrap();
            peer.expect(&fpdu(&fetch_add(1, 0, Place(7, 0x1000), 5)));
            peer.send(&change(response(1, 0, 0x37)));
            let done = world.completion();
            assert_eq!((done.wr_id, done.status), (3, Status::Success));
            assert_eq!((done.opcode, done.invalidated), (CompletionOpcode::FetchAdd, None));
            assert_eq!(content(&memory)[8..], 0x37_u64.to_ne_bytes());
            assert!(!victim.is_invalidated());
            world.expect_no_news();
        }
    }
}

/// An Atomic Request does not begin before its last octet has come. It works on the word at that time.
// Covers 7306-5.4-4, 7306-5.4-6.
#[test]
fn an_incomplete_atomic_is_not_done() {
    for role in ROLES {
        for swaps in [false, true] {
            let (world, peer) = open(role);
            let memory = world.side.memory(8);
            let word = Place(memory.rkey().0, memory.addr());
            // The swap would match the first value, and does not match the last one.
            let request = if swaps { compare_swap(1, 1, word, 0, 9) } else { fetch_add(1, 1, word, 5) };
            let octets = fpdu(&request);
            let mut sent = 0;
            for cut in [2, 20, 40, 72, octets.len() - 1] {
                peer.send(&octets[sent..cut]);
                peer.expect_silence();
                assert_eq!(content(&memory), [0; 8]);
                sent = cut;
            }
            memory.write(0, &100_u64.to_ne_bytes()).unwrap();
            peer.send(&octets[sent..]);
            peer.expect(&fpdu(&response(1, 1, 100)));
            let result: u64 = if swaps { 100 } else { 105 };
            assert_eq!(content(&memory), result.to_ne_bytes());
        }
    }
}

/// Two devices: an Atomic to an aligned address is done. An unaligned one is an error at both ends. It changes
/// nothing at the responder, and returns nothing to the requester.
// Covers 7306-5.1.1-1, 7306-5.1.2-3, 7306-5.1.1-4, 7306-5.1.2-6.
#[test]
fn an_unaligned_atomic_is_an_error_at_both_ends() {
    for swaps in [false, true] {
        for shift in 1..8 {
            let mut pair = Pair::connected(&PairConfig::default());
            let (target, sink) = (filled(&pair.b, 24), filled(&pair.a, 16));
            let post = |pair: &Pair, wr_id, offset: u64, sge: Sge| {
                let to = target.addr() + offset;
                let opcode = if swaps { to_swap(target.rkey().0, to) } else { to_add(target.rkey().0, to) };
                pair.a.qp.post_send(&work(wr_id, opcode, Data::Sges(&[sge]))).unwrap();
            };
            post(&pair, 1, 8, sink.sge(0, 8));
            let done = pair.completion_of_a();
            assert_eq!((done.wr_id, done.status), (1, Status::Success));
            let changed = content(&target);
            assert_ne!(changed[8..16], [FILL; 8]);
            post(&pair, 2, shift, sink.sge(8, 8));
            let done = pair.completion_of_a();
            assert_eq!((done.wr_id, done.status), (2, Status::RemoteOperation));
            expect_end(&mut pair);
            assert_eq!(content(&target), changed);
            assert_eq!(content(&sink), [FILL; 16]);
        }
    }
}

/// Expects that the responder's application gets the error and that the requester's gets the Terminate.
fn expect_end(pair: &mut Pair) {
    let cause = Cause::Peer(Rdmap::StreamCatastrophic);
    let event = pair.event_of_b();
    let expected = DisconnectReason::LocalTerminate(cause);
    assert!(matches!(event, CmEvent::Disconnected { ref reason, .. } if *reason == expected), "{event:?}");
    let event = pair.event_of_a();
    let CmEvent::Disconnected { reason: DisconnectReason::PeerTerminate { code, .. }, .. } = event else {
        panic!("{event:?} instead of a Terminate")
    };
    assert_eq!(code, (0, 2, 7));
}
