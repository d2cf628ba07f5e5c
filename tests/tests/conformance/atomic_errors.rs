//! Atomic Requests and Responses that must not be served (RFC 7306 section 8).

use weft_ddp::Error as Ddp;
use weft_rdmap::Error as Rdmap;
use weft_rnic::{Access, ConnParam, Data, DisconnectReason, SendOpcode, Stag, Status};
use weft_tests::PairConfig;

use crate::atomics::{fetch_add, request};
use crate::octets::{Place, bare_terminate, fpdu, join, read_request, send, terminate};
use crate::scene::{Answer, Row, Scene, run_all};
use crate::world::{FILL, ROLES, Role, World, content, filled, open, whole, work};

/// A fetch-and-add at `offset` of a region of the scene.
fn at(memory: &weft_rnic::Mr, offset: u64) -> Vec<u8> {
    fetch_add(1, 1, Place(memory.rkey().0, memory.addr().wrapping_add(offset)), 1)
}

/// Every wrong alignment, with both operations. (`Scene` compares all memory and the application's events.)
// Covers 7306-5.1.1-2, 7306-5.1.1-3, 7306-5.1.1-5, 7306-8.2-7.
#[test]
fn an_unaligned_fetch_and_add_ends_the_stream() {
    for offset in 1..8 {
        for role in ROLES {
            let scene = Scene::new(role);
            let bad = at(&scene.target, offset);
            scene.run(&Row::new("unaligned", bad, Answer::Ddp("0207"), Rdmap::StreamCatastrophic));
        }
    }
}

// Covers 7306-5.1.2-4, 7306-5.1.2-5, 7306-5.1.2-7, 7306-8.2-6.
#[test]
fn an_unaligned_compare_and_swap_ends_the_stream() {
    for offset in 1..8 {
        for role in ROLES {
            let scene = Scene::new(role);
            let (stag, to) = (scene.target.rkey().0, scene.target.addr() + offset);
            let fill = u64::from_ne_bytes([FILL; 8]);
            let bad = request(1, 2, 1, stag, [to, 1, u64::MAX, fill, u64::MAX]);
            scene.run(&Row::new("unaligned", bad, Answer::Ddp("0207"), Rdmap::StreamCatastrophic));
        }
    }
}

/// The responder's application gets an event, too.
// Covers 7306-5.1.1-4, 7306-5.1.2-6, 7306-8.2-5.
#[test]
fn the_application_hears_of_an_unaligned_atomic() {
    for role in ROLES {
        let (world, peer) = open(role);
        let memory = filled(&world.side, 16);
        peer.send(&fpdu(&at(&memory, 4)));
        let cause = weft_rnic::Cause::Peer(Rdmap::StreamCatastrophic);
        assert_eq!(world.disconnected(), DisconnectReason::LocalTerminate(cause));
        assert_eq!(content(&memory), [FILL; 16]);
    }
}

/// Memory that refuses: the same classes as for a Read Request, without the RDMA header.
// Covers 7306-8.2-8, 7306-8.2-1, 7306-8.1-2.
#[test]
fn memory_without_the_right_refuses_atomics() {
    run_all(&[
        |s| {
            let bad = fetch_add(1, 1, Place(s.target.rkey().0 ^ 1, s.target.addr()), 1);
            Row::new("unknown STag", bad, Answer::Ddp("0100"), Rdmap::InvalidStag)
        },
        |s| Row::new("beyond", at(&s.target, 64), Answer::Ddp("0101"), Rdmap::BaseOrBounds),
        |s| Row::new("over the end", at(&s.target, 60), Answer::Ddp("0101"), Rdmap::BaseOrBounds),
        |s| Row::new("before", at(&s.target, u64::MAX - 7), Answer::Ddp("0101"), Rdmap::BaseOrBounds),
        |s| {
            let bad = fetch_add(1, 1, Place(s.target.rkey().0, u64::MAX - 6), 1);
            Row::new("wraps", bad, Answer::Ddp("0104"), Rdmap::ToWrap)
        },
        |s| Row::new("another domain", at(&s.foreign, 0), Answer::Ddp("0103"), Rdmap::WrongStream),
        |s| Row::new("no rights", at(&s.local, 0), Answer::Ddp("0102"), Rdmap::AccessRights),
        |s| Row::new("only to be read", at(&s.read_only, 0), Answer::Ddp("0102"), Rdmap::AccessRights),
        |s| Row::new("only to be written", at(&s.write_only, 0), Answer::Ddp("0102"), Rdmap::AccessRights),
    ]);
}

/// The right for Atomics permits no other operation.
#[test]
fn atomic_access_is_a_right_of_its_own() {
    let (world, peer) = open(Role::Passive);
    let access = Access::LOCAL_WRITE | Access::REMOTE_ATOMIC;
    let memory = world.side.pd.register(8, access).unwrap();
    peer.send(&fpdu(&at(&memory, 0)));
    peer.expect(&fpdu(&join("414B 00000000 00000003 00000001 00000000 00000001", &[&[0; 8]])));
    let bad = crate::octets::write(memory.rkey().0, memory.addr(), b"1");
    peer.send(&fpdu(&bad));
    peer.expect(&fpdu(&terminate("0102", &bad)));
    assert_eq!(content(&memory), 1_u64.to_ne_bytes());
}

// Covers 7306-5.2.1-11, 7306-10-1.
#[test]
fn undefined_atomic_operations_are_refused() {
    for code in [1, 3, 4, 7, 8, 15] {
        for role in ROLES {
            let scene = Scene::new(role);
            let words = [scene.target.addr(), 1, 0, 0, u64::MAX];
            let bad = request(1, code, 1, scene.target.rkey().0, words);
            scene.run(&Row::new("code", bad, Answer::Ddp("0206"), Rdmap::UnexpectedOpcode));
        }
    }
}

/// An Atomic Request for 8 octets at the start of the scene's memory, with one octet of it changed.
fn changed(scene: &Scene, at_octet: usize, value: u8) -> Vec<u8> {
    let mut ulpdu = at(&scene.target, 0);
    ulpdu[at_octet] = value;
    ulpdu
}

// Covers 7306-4.2-1, 7306-4.1-5, 7306-8.2-2, 7306-8.2-4.
#[test]
fn headers_that_are_wrong() {
    run_all(&[
        |s| {
            let long = [at(&s.target, 0), vec![0]].concat();
            Row::new("71 octets", long, Answer::Ddp("0207"), Rdmap::StreamCatastrophic)
        },
        |s| {
            let short = at(&s.target, 0)[..69].to_vec();
            Row::new("69 octets", short, Answer::Ddp("0207"), Rdmap::StreamCatastrophic)
        },
        |s| Row::new("in parts", changed(s, 0, 0x01), Answer::Ddp("0207"), Rdmap::StreamCatastrophic),
        |s| Row::new("queue 0", changed(s, 9, 0), Answer::Ddp("0206"), Rdmap::UnexpectedOpcode),
        |s| Row::new("queue 3", changed(s, 9, 3), Answer::Ddp("0206"), Rdmap::UnexpectedOpcode),
        |s| Row::new("queue 4", changed(s, 9, 4), Answer::Ddp("1201"), Ddp::InvalidQueue),
        |s| Row::new("MSN 2", changed(s, 13, 2), Answer::Ddp("1203"), Ddp::MsnRange),
        |s| Row::new("MO 1", changed(s, 17, 1), Answer::Ddp("1204"), Ddp::InvalidMo),
        |s| Row::new("DDP version 2", changed(s, 0, 0x42), Answer::Ddp("1206"), Ddp::UntaggedVersion),
        |s| Row::new("RDMAP version 0", changed(s, 1, 0x0A), Answer::Ddp("0205"), Rdmap::InvalidVersion),
        |s| Row::new("RDMAP version 2", changed(s, 1, 0x8A), Answer::Ddp("0205"), Rdmap::InvalidVersion),
        |s| Row::new("RDMAP version 3", changed(s, 1, 0xCA), Answer::Ddp("0205"), Rdmap::InvalidVersion),
    ]);
}

// Covers 7306-8.2-3.
#[test]
fn opcodes_above_the_last_are_refused() {
    for opcode in [0x4C, 0x4D, 0x4E, 0x4F] {
        for role in ROLES {
            let scene = Scene::new(role);
            let mut bad = send(1, b"12345678");
            bad[1] = opcode;
            scene.run(&Row::new("opcode", bad, Answer::Ddp("0206"), Rdmap::UnexpectedOpcode));
        }
    }
}

/// Reads and Atomics share the IRD. The peer takes no octets, so that none is answered meanwhile.
// Covers 7306-5.2.1-8, 7306-5.2-3.
#[test]
fn one_more_than_the_ird() {
    let config = PairConfig { tcp_buffer: 8192, ..PairConfig::default() };
    for first_is_atomic in [true, false] {
        let world = World::with(&config);
        let param = ConnParam { ird: Some(2), ..ConnParam::default() };
        let peer = world.establish_with(Role::Passive, &world.side.qp, param);
        let memory = filled(&world.side, 1 << 20);
        let place = Place(memory.rkey().0, memory.addr());
        let long = read_request(1, Place(1, 0), 1 << 20, place);
        peer.set_reading(false);
        peer.send(&fpdu(&long));
        let (second, third) = (fetch_add(2, 2, place, 1), fetch_add(3, 3, place, 1));
        let read = |msn| read_request(msn, Place(1, 0), 8, place);
        let (second, third) = if first_is_atomic { (second, read(3)) } else { (read(2), third) };
        peer.send(&fpdu(&second));
        world.expect_no_news();
        peer.send(&fpdu(&third));
        let cause = weft_rnic::Cause::Peer(Rdmap::Ddp(Ddp::NoBuffer));
        assert_eq!(world.disconnected(), DisconnectReason::LocalTerminate(cause));
        assert_eq!(content(&memory)[..8], [FILL; 8]);
    }
}

/// The good answer to the device's first Atomic.
const GOOD: &str = "414B 00000000 00000003 00000001 00000000 00000000 0000000000000037";

/// The good answer with one octet of it changed.
fn answer_with(at_octet: usize, value: u8) -> Vec<u8> {
    let mut ulpdu = join(GOOD, &[]);
    ulpdu[at_octet] = value;
    ulpdu
}

/// The device waits for the answer to an Atomic. `bad` comes instead, and its DDP header goes back with `code`.
fn refuse_answer(bad: &[u8], code: &str) {
    for role in ROLES {
        let (world, peer) = open(role);
        let sink = filled(&world.side, 8);
        let to_add = SendOpcode::FetchAdd { stag: Stag(0x100), to: 0x1000, add: 5, mask: 0 };
        world.side.qp.post_send(&work(1, to_add, Data::Sges(&[whole(&sink)]))).expect("room");
        peer.expect(&fpdu(&fetch_add(1, 0, Place(0x100, 0x1000), 5)));
        println!("{code} for {bad:02x?}");
        peer.send(&fpdu(bad));
        peer.expect(&fpdu(&terminate(code, bad)));
        peer.expect_fin();
        assert!(matches!(world.disconnected(), DisconnectReason::LocalTerminate(_)));
        // DDP refuses the segment, or its opcode is of no answer.
        let is_answer = matches!(bad[1], 0x42 | 0x4B) && code.starts_with('0');
        let status = if is_answer { Status::BadResponse } else { Status::WorkRequestFlushed };
        assert_eq!(world.all_completions(), [(1, status)]);
        assert_eq!(content(&sink), [FILL; 8]);
    }
}

/// Responses that do not fit the request.
// Covers 7306-5.2.2-9, 7306-8.1-2, 7306-4-1.
#[test]
fn responses_that_are_wrong() {
    refuse_answer(&answer_with(21, 1), "0207");
    refuse_answer(&join(GOOD, &[])[..29], "0207");
    refuse_answer(&join(GOOD, &[&[0]]), "0207");
    refuse_answer(&answer_with(0, 0x01), "0207");
    refuse_answer(&crate::octets::tagged("C142", 1, 0, &[0; 8]), "0206");
}

/// Responses whose segment is out of order: the version of DDP or RDMAP, the queue, the number, the offset.
// Covers 7306-4-2, 7306-5-6, 7306-8.2-2, 7306-8.2-4.
#[test]
fn responses_in_segments_that_are_wrong() {
    for version in [0x40, 0x42, 0x43] {
        refuse_answer(&answer_with(0, version), "1206");
    }
    for version in [0x0B, 0x8B, 0xCB] {
        refuse_answer(&answer_with(1, version), "0205");
    }
    for queue in 0..3 {
        refuse_answer(&answer_with(9, queue), "0206");
    }
    refuse_answer(&answer_with(9, 4), "1201");
    refuse_answer(&answer_with(13, 0), "1203");
    refuse_answer(&answer_with(13, 2), "1203");
    refuse_answer(&answer_with(17, 4), "1204");
}

/// A second answer to the same request.
// Covers 7306-5.2.2-9.
#[test]
fn a_response_without_a_request_is_refused() {
    for role in ROLES {
        let (world, peer) = open(role);
        let unasked = join("414B 00000000 00000003 00000001 00000000 00000000 0000000000000037", &[]);
        peer.send(&fpdu(&unasked));
        peer.expect(&fpdu(&terminate("0206", &unasked)));
        assert!(matches!(world.disconnected(), DisconnectReason::LocalTerminate(_)));
    }
}

/// The peer refuses our request: its Terminate names the request, which fails. The next one is flushed.
#[test]
fn a_refusal_fails_the_request_it_names() {
    for role in ROLES {
        let (world, peer) = open(role);
        let sink = filled(&world.side, 16);
        let unaligned = SendOpcode::FetchAdd { stag: Stag(0x100), to: 0x1004, add: 5, mask: 0 };
        let swap = SendOpcode::CompareSwap {
            stag: Stag(0x100),
            to: 0x1004,
            swap: 0,
            swap_mask: 0,
            compare: 0,
            compare_mask: 0,
        };
        for (wr_id, opcode) in [(1, unaligned), (2, swap)] {
            world.side.qp.post_send(&work(wr_id, opcode, Data::Sges(&[sink.sge(0, 8)]))).unwrap();
        }
        let first = fetch_add(1, 0, Place(0x100, 0x1004), 5);
        let second = request(2, 2, 1, 0x100, [0x1004, 0, 0, 0, 0]);
        peer.expect(&[fpdu(&first), fpdu(&second)].concat());
        peer.send(&fpdu(&terminate("0207", &first)));
        let DisconnectReason::PeerTerminate { code, .. } = world.disconnected() else {
            panic!("no Terminate reported")
        };
        assert_eq!(code, (0, 2, 7));
        let expected = [(1, Status::RemoteOperation), (2, Status::WorkRequestFlushed)];
        assert_eq!(world.all_completions(), expected);
        assert_eq!(content(&sink), [FILL; 16]);
    }
}

/// The memory for the answer was deregistered meanwhile. That is our own fault, and the Terminate to the peer blames
/// no message.
#[test]
fn a_sink_that_is_deregistered_meanwhile() {
    for role in ROLES {
        let (world, peer) = open(role);
        let sink = filled(&world.side, 8);
        let to_add = SendOpcode::FetchAdd { stag: Stag(0x100), to: 0x1000, add: 5, mask: 0 };
        world.side.qp.post_send(&work(1, to_add, Data::Sges(&[whole(&sink)]))).unwrap();
        peer.expect(&fpdu(&fetch_add(1, 0, Place(0x100, 0x1000), 5)));
        drop(sink);
        let answer = "414B 00000000 00000003 00000001 00000000 00000000 0000000000000037";
        peer.send(&fpdu(&join(answer, &[])));
        peer.expect(&fpdu(&bare_terminate("0000")));
        assert_eq!(world.all_completions(), [(1, Status::LocalProtection)]);
    }
}

/// The target is deregistered before the answer: the request's DDP header comes back, and no answer is sent.
// Covers 7306-8.1-2.
#[test]
fn a_target_that_is_deregistered_before_its_turn() {
    let config = PairConfig { tcp_buffer: 8192, ..PairConfig::default() };
    let world = World::with(&config);
    let peer = world.establish(Role::Passive);
    let (long, word) = (filled(&world.side, 1 << 20), filled(&world.side, 8));
    let source = Place(long.rkey().0, long.addr());
    peer.set_reading(false);
    peer.send(&fpdu(&read_request(1, Place(1, 0), 1 << 20, source)));
    let late = fetch_add(2, 2, Place(word.rkey().0, word.addr()), 1);
    peer.send(&fpdu(&late));
    world.expect_no_news();
    drop(word);
    peer.set_reading(true);
    let terminated = loop {
        let ulpdu = crate::octets::read_fpdu(&peer);
        if ulpdu[1] != 0x42 {
            break ulpdu;
        }
    };
    assert_eq!(terminated, terminate("0100", &late));
    peer.expect_fin();
}

/// An Atomic of the peer waits behind a Read whose answer the peer does not take. Then the peer's FIN comes inside of
/// an FPDU, which is an error. Or it comes at the end of one, and the queue pair is destroyed. In both cases memory
/// does not change any more. The destroyed queue pair has no completion to poll, although its connection goes on.
#[test]
fn pending_atomics_are_not_done_after_an_error() {
    for role in ROLES {
        for rest in [10, 0] {
            let (mut world, peer) = open(role);
            let (large, word) = (filled(&world.side, 2 << 20), filled(&world.side, 8));
            let source = Place(large.rkey().0, large.addr());
            peer.set_reading(false);
            world.side.post_recv(1, word.sge(0, 8));
            let read = fpdu(&read_request(1, Place(3, 0), 2 << 20, source));
            let atomic = fpdu(&fetch_add(2, 1, Place(word.rkey().0, word.addr()), 1));
            peer.send(&[&read, &atomic, &fpdu(&send(1, b"half"))[..rest]].concat());
            world.settle();
            peer.close();
            let reason = world.disconnected();
            assert_eq!(reason, if rest > 0 { DisconnectReason::Lost } else { DisconnectReason::Peer });
            assert_eq!(content(&word), [FILL; 8]);
            if rest == 0 {
                world.side.qp = world.new_qp();
                assert_eq!(world.side.cq.poll_one(), None);
            }
            peer.set_reading(true);
            peer.read_to_fin();
            world.settle();
            assert_eq!(content(&word), [FILL; 8]);
        }
    }
}
