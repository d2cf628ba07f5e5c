//! Atomics on the wire (RFC 7306 section 5): the answers that a peer gets, and the messages that it gets from us.

use weft_rnic::{Access, CompletionOpcode, ConnParam, Data, Mr, Region, SendOpcode, SendWr, Stag, Status};
use weft_tests::PairConfig;

use crate::octets::{Place, fpdu, join, read_request, tagged, vector, write};
use crate::world::{FILL, ROLES, Role, World, content, filled, open, whole, work};

/// The five words behind the identifier and the STag: offset, data, mask, compare data, compare mask.
pub(crate) type Words = [u64; 5];

/// Returns an Atomic Request. `code` is the word with the Atomic Operation Code.
pub(crate) fn request(msn: u32, code: u32, id: u32, stag: u32, words: Words) -> Vec<u8> {
    let header = join("414A 00000000 00000001", &[&msn.to_be_bytes(), &[0; 4]]);
    let words = words.map(u64::to_be_bytes).concat();
    [header, join("", &[&code.to_be_bytes(), &id.to_be_bytes(), &stag.to_be_bytes(), &words])].concat()
}

/// Returns a fetch-and-add.
pub(crate) fn fetch_add(msn: u32, id: u32, place: Place, add: u64) -> Vec<u8> {
    request(msn, 0, id, place.0, [place.1, add, 0, 0, u64::MAX])
}

/// Returns a compare-and-swap of the whole word.
pub(crate) fn compare_swap(msn: u32, id: u32, place: Place, compare: u64, swap: u64) -> Vec<u8> {
    request(msn, 2, id, place.0, [place.1, swap, u64::MAX, compare, u64::MAX])
}

/// Returns an Atomic Response.
pub(crate) fn response(msn: u32, id: u32, original: u64) -> Vec<u8> {
    join("414B 00000000 00000003", &[&msn.to_be_bytes(), &[0; 4], &id.to_be_bytes(), &original.to_be_bytes()])
}

/// A word of the device's memory, between guards.
#[derive(Debug)]
struct Word(Mr);

impl Word {
    fn new(world: &World, value: u64) -> Self {
        let memory = filled(&world.side, 24);
        memory.write(8, &value.to_ne_bytes()).unwrap();
        Self(memory)
    }

    fn place(&self) -> Place {
        Place(self.0.rkey().0, self.0.addr() + 8)
    }

    /// Returns the value, and checks that no octet beside it has changed.
    fn value(&self) -> u64 {
        let octets = content(&self.0);
        assert_eq!((&octets[..8], &octets[16..]), (&[FILL; 8][..], &[FILL; 8][..]));
        u64::from_ne_bytes(octets[8..16].try_into().unwrap())
    }
}

/// A request is answered, and the application gets no event.
// Covers 7306-5.2.1-16, 7306-5.2.1-9, 7306-5.2.1-10, 7306-5.1.1-7.
#[test]
fn a_fetch_and_add_is_answered() {
    for role in ROLES {
        let (world, peer) = open(role);
        let word = Word::new(&world, 0x37);
        peer.send(&fpdu(&fetch_add(1, 0x0A0B_0C0D, word.place(), 5)));
        peer.expect(&vector("atomic-rsp"));
        assert_eq!(word.value(), 0x3C);
        world.expect_no_news();
    }
}

/// T is 0 and the queue 3, whose numbers count only Atomics.
// Covers 7306-4-2, 7306-5-5, 7306-5.2-2, 7306-5.2.2-3.
#[test]
fn responses_have_a_queue_of_their_own() {
    for role in ROLES {
        let (world, peer) = open(role);
        let word = Word::new(&world, 1);
        let read = read_request(2, Place(9, 0), 0, word.place());
        let requests = [fetch_add(1, 1, word.place(), 1), read, fetch_add(3, 2, word.place(), 1)];
        peer.send(&requests.map(|request| fpdu(&request)).concat());
        let answers: Vec<_> = (0..3).map(|_| crate::octets::read_fpdu(&peer)).collect();
        let ends = [&answers[0], &answers[2]].map(|octets| octets[..18].to_vec());
        assert_eq!(ends[0], join("414B 00000000 00000003 00000001 00000000", &[]));
        assert_eq!(ends[1], join("414B 00000000 00000003 00000002 00000000", &[]));
    }
}

/// Identifier, then the value, both in network order; the queue as in the DDP header.
// Covers 7306-5.2.2-1, 7306-5.2.2-4, 7306-5.2.2-5, 7306-5.2.1-3.
#[test]
fn the_octets_of_a_response() {
    let (world, peer) = open(Role::Passive);
    let word = Word::new(&world, 0x0102_0304_0506_0708);
    peer.send(&fpdu(&fetch_add(1, 0xA1B2_C3D4, word.place(), 0)));
    let octets = crate::octets::read_fpdu(&peer);
    assert_eq!(octets.len(), 30);
    assert_eq!(octets[6..10], [0, 0, 0, 3]);
    assert_eq!(octets[18..], join("A1B2C3D4 0102030405060708", &[]));
}

// Covers 7306-1.1-1, 7306-5-3, 7306-5.2.1-2, 7306-5.1.2-2.
#[test]
fn both_operations_are_supported() {
    for role in ROLES {
        let (world, peer) = open(role);
        let word = Word::new(&world, 0);
        peer.send(&fpdu(&compare_swap(1, 1, word.place(), 0, 0x1111_1111_1111_1111)));
        peer.expect(&fpdu(&response(1, 1, 0)));
        assert_eq!(word.value(), 0x1111_1111_1111_1111);
        // The values do not match: the word stays, and its value is returned too.
        peer.send(&fpdu(&compare_swap(2, 2, word.place(), 0, 5)));
        peer.expect(&fpdu(&response(2, 2, 0x1111_1111_1111_1111)));
        assert_eq!(word.value(), 0x1111_1111_1111_1111);
        peer.send(&fpdu(&fetch_add(3, 3, word.place(), 1)));
        peer.expect(&fpdu(&response(3, 3, 0x1111_1111_1111_1111)));
        assert_eq!(word.value(), 0x1111_1111_1111_1112);
    }
}

/// Every row of the tables that were computed from the RFC's pseudocode.
// Covers 7306-5.1.1-6, 7306-5.1.2-1, 7306-5.2.1-6.
#[test]
fn the_arithmetic() {
    let text = include_str!("../../data/vectors.json");
    let vectors: serde_json::Value = serde_json::from_str(text).unwrap();
    let (world, peer) = open(Role::Passive);
    let word = Word::new(&world, 0);
    let mut msn = 1;
    for (table, code) in [("fetchadd", 0), ("cmpswap", 2)] {
        for row in vectors["atomic-math"][table].as_array().unwrap() {
            let number = |key: &str| {
                let digits = row[key].as_str().unwrap_or("0");
                u64::from_str_radix(digits, 16).unwrap()
            };
            let Place(stag, to) = word.place();
            let words = if code == 0 {
                // The fields that a fetch-and-add does not use are ignored.
                [to, number("add"), number("mask"), 0x1234, 0x5678]
            } else {
                [to, number("swap"), number("smask"), number("cmp"), number("cmask")]
            };
            word.0.write(8, &number("orig").to_ne_bytes()).unwrap();
            peer.send(&fpdu(&request(msn, code, msn, stag, words)));
            peer.expect(&fpdu(&response(msn, msn, number("orig"))));
            assert_eq!(word.value(), number("result"), "{row}");
            msn += 1;
        }
    }
    assert_eq!(msn, 14);
}

/// Reserved bits and the Invalidate STag field mean nothing.
// Covers 7306-5.2.1-1.
#[test]
fn reserved_bits_are_ignored() {
    for role in ROLES {
        let (world, peer) = open(role);
        let (word, other) = (Word::new(&world, 7), world.side.own_memory(8));
        let Place(stag, to) = word.place();
        let mut odd = request(1, 0xFFFF_FFF0, 9, stag, [to, 1, 0, 0, 0]);
        odd[2..6].copy_from_slice(&other.rkey().0.to_be_bytes());
        peer.send(&fpdu(&odd));
        peer.expect(&fpdu(&response(1, 9, 7)));
        assert!(!other.is_invalidated());
        assert_eq!(word.value(), 8);
    }
}

/// An odd tagged offset is valid if the memory behind it is aligned. An even one is invalid if the memory is not.
// Covers 7306-5.2.1-4, 7306-5.2.1-5.
#[test]
fn the_address_counts_and_not_the_offset() {
    let (world, peer) = open(Role::Passive);
    let region = Region::owned(16).unwrap();
    let memory = world.side.pd.register_at(region, Access::ALL, 0x1001).unwrap();
    peer.send(&fpdu(&fetch_add(1, 1, Place(memory.rkey().0, 0x1001), 5)));
    peer.expect(&fpdu(&response(1, 1, 0)));
    peer.send(&fpdu(&fetch_add(2, 2, Place(memory.rkey().0, 0x1009), 6)));
    peer.expect(&fpdu(&response(2, 2, 0)));
    assert_eq!(content(&memory), [5_u64.to_ne_bytes(), 6_u64.to_ne_bytes()].concat());
    let misaligned = fetch_add(3, 3, Place(memory.rkey().0, 0x1008), 6);
    peer.send(&fpdu(&misaligned));
    peer.expect(&fpdu(&crate::octets::terminate("0207", &misaligned)));
}

/// Atomics among Reads are done in the order sent, each on the result of the one before.
// Covers 7306-5.4-9, 7306-5.4-10, 7306-7-5.
#[test]
fn atomics_are_done_in_order() {
    for role in ROLES {
        let (world, peer) = open(role);
        let word = Word::new(&world, 0);
        let place = word.place();
        let requests = [
            fetch_add(1, 11, place, 1),
            compare_swap(2, 12, place, 1, 10),
            read_request(3, Place(77, 0), 8, place),
            fetch_add(4, 14, place, 5),
            read_request(5, Place(78, 0), 8, place),
            compare_swap(6, 16, place, 99, 10),
        ];
        peer.send(&requests.map(|request| fpdu(&request)).concat());
        let answers = [
            response(1, 11, 0),
            response(2, 12, 1),
            tagged("C142", 77, 0, &10_u64.to_ne_bytes()),
            response(3, 14, 10),
            tagged("C142", 78, 0, &15_u64.to_ne_bytes()),
            response(4, 16, 15),
        ];
        peer.expect(&answers.map(|answer| fpdu(&answer)).concat());
        assert_eq!(word.value(), 15);
    }
}

/// An Atomic works on the octets of an earlier Write of the same stream.
// Covers 7306-5.4-6.
#[test]
fn an_atomic_sees_an_earlier_write() {
    let (world, peer) = open(Role::Passive);
    let word = Word::new(&world, 0);
    let Place(stag, to) = word.place();
    for round in 1..=1000_u32 {
        let value = u64::from(round) << 20;
        let written = fpdu(&write(stag, to, &value.to_ne_bytes()));
        peer.send(&[written, fpdu(&fetch_add(round, round, word.place(), 1))].concat());
        peer.expect(&fpdu(&response(round, round, value)));
        assert_eq!(word.value(), value + 1);
    }
}

/// As many Reads and Atomics together as the IRD are taken at once.
// Covers 7306-5.2.2-6.
#[test]
fn all_slots_of_the_ird_are_served() {
    let (world, peer) = open(Role::Passive);
    let word = Word::new(&world, 100);
    let mut octets = Vec::new();
    for msn in 1..=16_u32 {
        let ulpdu = if msn % 2 == 0 {
            read_request(msn, Place(msn, 0), 8, word.place())
        } else {
            fetch_add(msn, msn, word.place(), 1)
        };
        octets.extend(fpdu(&ulpdu));
    }
    peer.send(&octets);
    for msn in 1..=16_u32 {
        let value = 100 + u64::from(msn / 2);
        let answer = if msn % 2 == 0 {
            tagged("C142", msn, 0, &value.to_ne_bytes())
        } else {
            response(msn.div_ceil(2), msn, value)
        };
        peer.expect(&fpdu(&answer));
    }
}

const TARGET: Place = Place(0x100, 0x1000);
const ADD: SendOpcode = SendOpcode::FetchAdd { stag: Stag(TARGET.0), to: TARGET.1, add: 5, mask: 0 };

/// The messages for our own Atomics, and the time of their completions.
// Covers 7306-5.4-8, 7306-5.2.2-8, 7306-5.2.1-7, 7306-5.2.1-13.
#[test]
fn our_atomics_complete_with_the_response() {
    for role in ROLES {
        let (world, peer) = open(role);
        let sink = filled(&world.side, 24);
        world.side.qp.post_send(&work(0x0A0B, ADD, Data::Sges(&[sink.sge(8, 8)]))).unwrap();
        // The identifier is the number of the request in its queue, counted from 0.
        peer.expect(&fpdu(&fetch_add(1, 0, TARGET, 5)));
        world.expect_no_news();
        peer.send(&fpdu(&response(1, 0, 0x37)));
        let completion = world.completion();
        assert_eq!((completion.wr_id, completion.status), (0x0A0B, Status::Success));
        assert_eq!((completion.opcode, completion.byte_len), (CompletionOpcode::FetchAdd, 8));
        let mut expected = vec![FILL; 24];
        expected[8..16].copy_from_slice(&0x37_u64.to_ne_bytes());
        assert_eq!(content(&sink), expected);
        let swap = SendOpcode::CompareSwap {
            stag: Stag(TARGET.0),
            to: TARGET.1,
            swap: 1,
            swap_mask: 2,
            compare: 3,
            compare_mask: 4,
        };
        world.side.qp.post_send(&work(2, swap, Data::Sges(&[sink.sge(0, 8)]))).unwrap();
        peer.expect(&fpdu(&request(2, 2, 1, TARGET.0, [TARGET.1, 1, 2, 3, 4])));
        peer.send(&fpdu(&response(2, 1, u64::MAX)));
        assert_eq!(world.completion().opcode, CompletionOpcode::CompareSwap);
        assert_eq!(content(&sink)[..8], [0xFF; 8]);
    }
}

/// Several Atomics at a time, in the order posted, at most the peer's IRD (16 here). Responses take no receives.
// Covers 7306-5.2.1-14, 7306-5.2.2-2, 7306-5.2.2-7, 7306-5-6.
#[test]
fn our_atomics_wait_for_the_ird_of_the_peer() {
    for role in ROLES {
        let (world, peer) = open(role);
        let (sink, inbox) = (filled(&world.side, 8 * 20), filled(&world.side, 8));
        world.side.post_recv(99, whole(&inbox));
        for wr_id in 0..20_u32 {
            let sge = sink.sge(8 * wr_id as usize, 8);
            world.side.qp.post_send(&work(u64::from(wr_id), ADD, Data::Sges(&[sge]))).unwrap();
        }
        let ord = 16;
        for id in 0..ord {
            peer.expect(&fpdu(&fetch_add(id + 1, id, TARGET, 5)));
        }
        peer.expect_silence();
        for id in 0..20 {
            peer.send(&fpdu(&response(id + 1, id, u64::from(id) << 32)));
            if ord + id < 20 {
                peer.expect(&fpdu(&fetch_add(ord + id + 1, ord + id, TARGET, 5)));
            }
            let completion = world.completion();
            assert_eq!((completion.wr_id, completion.status), (u64::from(id), Status::Success));
        }
        let originals: Vec<u8> = (0..20_u64).flat_map(|id| (id << 32).to_ne_bytes()).collect();
        assert_eq!(content(&sink), originals);
        assert_eq!(content(&inbox), [FILL; 8]);
    }
}

/// A fence holds later requests until the Atomic is done. No earlier completion says that the peer's memory has
/// changed.
// Covers 7306-5.4-1, 7306-5.4-8.
#[test]
fn a_fence_waits_for_atomics() {
    for role in ROLES {
        let (world, peer) = open(role);
        let sink = filled(&world.side, 8);
        world.side.qp.post_send(&work(1, ADD, Data::Sges(&[whole(&sink)]))).unwrap();
        let fenced = SendWr { fence: true, ..work(2, SendOpcode::Send, Data::Inline(b"behind")) };
        world.side.qp.post_send(&fenced).unwrap();
        peer.expect(&fpdu(&fetch_add(1, 0, TARGET, 5)));
        let answer = fpdu(&response(1, 0, 1));
        peer.send(&answer[..answer.len() - 1]);
        peer.expect_silence();
        world.expect_no_news();
        peer.send(&answer[answer.len() - 1..]);
        peer.expect(&fpdu(&crate::octets::send(1, b"behind")));
        assert_eq!(world.all_completions(), [(1, Status::Success), (2, Status::Success)]);
    }
}

/// The peer closes its direction behind its requests. They are answered before our direction is closed.
#[test]
fn pending_requests_are_answered_before_a_close() {
    for role in ROLES {
        let (world, peer) = open(role);
        let word = Word::new(&world, 1);
        peer.send(
            &[fpdu(&fetch_add(1, 1, word.place(), 1)), fpdu(&fetch_add(2, 2, word.place(), 1))].concat(),
        );
        peer.close();
        peer.expect(&[fpdu(&response(1, 1, 1)), fpdu(&response(2, 2, 2))].concat());
        peer.expect_fin();
        assert_eq!(word.value(), 3);
    }
}

/// Eight streams add at the same time. No addition is lost, and no two streams get the same value.
// Covers 7306-5-1, 7306-5.3-1, 7306-5.4-2.
#[test]
fn streams_do_not_disturb_each_other() {
    const STREAMS: u32 = 8;
    const ROUNDS: u32 = 200;
    let world = World::with(&PairConfig { mtu: 576, ..PairConfig::default() });
    let word = Word::new(&world, 0);
    let qps: Vec<_> = (0..STREAMS).map(|_| world.new_qp()).collect();
    let peers: Vec<_> = qps
        .iter()
        .map(|qp| {
            let peer = world.establish_with(Role::Passive, qp, ConnParam::default());
            peer.send(&vector("write0"));
            peer
        })
        .collect();
    let mut seen = Vec::new();
    for round in 0..ROUNDS / 10 {
        let numbers = round * 10 + 1..=round * 10 + 10;
        for peer in &peers {
            let burst: Vec<u8> =
                numbers.clone().flat_map(|msn| fpdu(&fetch_add(msn, msn, word.place(), 1))).collect();
            peer.send(&burst);
        }
        for peer in &peers {
            for msn in numbers.clone() {
                let octets = crate::octets::read_fpdu(peer);
                assert_eq!(octets[..22], response(msn, msn, 0)[..22]);
                seen.push(u64::from_be_bytes(octets[22..].try_into().unwrap()));
            }
        }
    }
    let total = u64::from(STREAMS * ROUNDS);
    assert_eq!(word.value(), total);
    seen.sort_unstable();
    assert!(seen.iter().copied().eq(0..total), "a value was returned twice");
}
