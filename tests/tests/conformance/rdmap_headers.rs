//! The control octet, the Invalidate STag field and the kind of segment, in all messages of RFC 5040 (sections 3.1 to
//! 4.2).

use weft_ddp::Error as Ddp;
use weft_rdmap::Error as Rdmap;
use weft_rnic::{CompletionOpcode, Data, SendOpcode, SendWr, Stag, Status};
use weft_tests::hex;

use crate::octets::{
    Place, bare_terminate, fpdu, join, pattern, read_fpdu, read_request, send, tagged, write,
};
use crate::rdmap_wire::{OPCODES, SMALL_MTU, outcome};
use crate::scene::{Answer, Row, Scene};
use crate::world::{FILL, ROLES, Role, World, content, filled, open, open_mtu, whole, work};

/// One message of each kind, as the device makes it, in the order of [`MADE`]. Most are 600 octets in two segments.
fn made_by_the_device(role: Role) -> Vec<Vec<u8>> {
    let (world, peer) = open_mtu(role, SMALL_MTU);
    let memory = world.side.memory(600);
    memory.write(0, &pattern(600)).unwrap();
    let all = [whole(&memory)];
    let invalidate = SendOpcode::SendInvalidate { stag: Stag(0x1122_3344) };
    let far = (Stag(0xAABB_CCDD), 0x1000);
    for wr in [
        work(1, SendOpcode::Send, Data::Sges(&all)),
        SendWr { solicited: true, ..work(2, SendOpcode::Send, Data::Inline(b"hello")) },
        work(3, invalidate, Data::Sges(&all)),
        SendWr { solicited: true, ..work(4, invalidate, Data::Sges(&all)) },
        work(5, SendOpcode::Write { stag: far.0, to: far.1 }, Data::Sges(&all)),
        work(6, SendOpcode::Read { stag: far.0, to: far.1 }, Data::Sges(&all)),
    ] {
        world.side.qp.post_send(&wr).unwrap();
    }
    let mut ulpdus: Vec<_> = (0..10).map(|_| read_fpdu(&peer)).collect();
    peer.send(&fpdu(&read_request(
        1,
        Place(0x5566_7788, 0x2000),
        600,
        Place(memory.rkey().0, memory.addr()),
    )));
    ulpdus.extend((0..2).map(|_| read_fpdu(&peer)));
    peer.send(&fpdu(&write(memory.rkey().0 ^ 1, memory.addr(), b"nowhere")));
    ulpdus.push(read_fpdu(&peer));
    peer.expect_fin();
    ulpdus
}

/// For each segment of [`made_by_the_device`]: opcode, queue of an untagged one, octets 2 to 5 (Invalidate STag or
/// STag), octets in all, and whether it is the last one of its message.
const MADE: [(u8, Option<u8>, u32, usize, bool); 13] = [
    (0x3, Some(0), 0, 530, false),
    (0x3, Some(0), 0, 18 + 88, true),
    (0x5, Some(0), 0, 18 + 5, true),
    (0x4, Some(0), 0x1122_3344, 530, false),
    (0x4, Some(0), 0x1122_3344, 18 + 88, true),
    (0x6, Some(0), 0x1122_3344, 530, false),
    (0x6, Some(0), 0x1122_3344, 18 + 88, true),
    (0x0, None, 0xAABB_CCDD, 530, false),
    (0x0, None, 0xAABB_CCDD, 14 + 84, true),
    (0x1, Some(1), 0, 18 + 28, true),
    (0x2, None, 0x5566_7788, 530, false),
    (0x2, None, 0x5566_7788, 14 + 84, true),
    (0x7, Some(2), 0, 18 + 4 + 2 + 14, true),
];

// Covers 5040-4.1-1, 5040-4.1-2, 5040-4.1-8, 5040-4.1-10.
#[test]
fn the_second_octet_is_version_one_zeros_and_the_opcode() {
    for role in ROLES {
        for (ulpdu, (opcode, ..)) in made_by_the_device(role).iter().zip(MADE) {
            assert_eq!(ulpdu[1] >> 6, 0b01);
            assert_eq!(ulpdu[1] >> 4 & 0b11, 0b00);
            assert_eq!(ulpdu[1] & 0xF, opcode);
        }
    }
}

// Covers 5040-4.1-4, 5040-4.1-6, 5040-4.1-7, 5040-3.1-2.
#[test]
fn each_opcode_has_its_kind_of_segment_and_its_queue() {
    for role in ROLES {
        let ulpdus = made_by_the_device(role);
        for (ulpdu, (opcode, queue, word, ..)) in ulpdus.iter().zip(MADE) {
            assert_eq!(ulpdu[1], 0x40 | opcode);
            assert_eq!(ulpdu[0] >> 7, u8::from(queue.is_none()), "T of opcode {opcode}");
            match queue {
                Some(queue) => assert_eq!(ulpdu[6..10], [0, 0, 0, queue], "queue of opcode {opcode}"),
                None => assert_eq!(ulpdu[2..6], word.to_be_bytes(), "STag of opcode {opcode}"),
            }
        }
        // The offsets of the Write and of the Read Response, each in two segments.
        let offsets = [7, 8, 10, 11].map(|index: usize| ulpdus[index][6..14].to_vec());
        assert_eq!(offsets, [0x1000_u64, 0x1204, 0x2000, 0x2204].map(|to| to.to_be_bytes().to_vec()));
    }
}

/// Every segment of a message has the same octets for RDMAP in its DDP header: one, and four more if it is untagged.
// Covers 5040-4.1-3, 5040-4.1-12, 5040-3.1-4.
#[test]
fn the_invalidate_field_names_an_stag_or_is_zero() {
    for role in ROLES {
        let mut invalidating = 0;
        for (ulpdu, (opcode, queue, word, ..)) in made_by_the_device(role).iter().zip(MADE) {
            assert_eq!(ulpdu[1], 0x40 | opcode);
            if queue.is_some() {
                assert_eq!(ulpdu[2..6], word.to_be_bytes(), "opcode {opcode}");
                assert_eq!(matches!(opcode, 0x4 | 0x6), word != 0);
                invalidating += usize::from(word != 0);
            }
        }
        assert_eq!(invalidating, 4);
    }
}

/// The first octet is DDP's: T, L, four zeros, version 1; each message ends with one L. A Read Request and a Terminate
/// are their headers and nothing else.
// Covers 5040-3.1-1, 5040-3.1-3, 5040-4.2-1.
#[test]
fn a_message_is_one_ddp_message() {
    for role in ROLES {
        let ulpdus = made_by_the_device(role);
        assert_eq!(ulpdus.len(), MADE.len());
        for (ulpdu, (opcode, queue, _, len, last)) in ulpdus.iter().zip(MADE) {
            let flags = u8::from(queue.is_none()) << 7 | u8::from(last) << 6;
            assert_eq!(ulpdu[0], flags | 0x01, "opcode {opcode}");
            assert_eq!(ulpdu.len(), len, "opcode {opcode}");
        }
        // Eight messages, so eight last segments; MSN and MO of the Sends say the same.
        assert_eq!(ulpdus.iter().filter(|ulpdu| ulpdu[0] & 0x40 != 0).count(), 8);
        let places: Vec<_> = ulpdus[..7].iter().map(|ulpdu| (ulpdu[13], ulpdu[16], ulpdu[17])).collect();
        assert_eq!(places, [(1, 0, 0), (1, 2, 0), (2, 0, 0), (3, 0, 0), (3, 2, 0), (4, 0, 0), (4, 2, 0)]);
        for ulpdu in &ulpdus[..7] {
            let offset = usize::from(ulpdu[16]) << 8;
            let message = if ulpdu[13] == 2 { b"hello".to_vec() } else { pattern(600) };
            assert_eq!(ulpdu[18..], message[offset..][..ulpdu.len() - 18]);
        }
    }
}

/// A good message of each opcode except Terminate. RDMAP's octet is changed by `control`, and the Invalidate STag of
/// messages that invalidate nothing is `word`.
fn all_kinds_arrive(role: Role, control: u8, word: u32) {
    let (world, peer) = open(role);
    let (memory, target, victim) =
        (filled(&world.side, 64), world.side.own_memory(64), world.side.own_memory(8));
    let word = if word == 0 { 0 } else { victim.rkey().0 };
    let change = |mut ulpdu: Vec<u8>| {
        ulpdu[1] |= control;
        if ulpdu[0] & 0x80 == 0 && !matches!(ulpdu[1] & 0xF, 0x4 | 0x6) {
            ulpdu[2..6].copy_from_slice(&word.to_be_bytes());
        }
        fpdu(&ulpdu)
    };
    let read = SendOpcode::Read { stag: Stag(7), to: 9 };
    world.side.qp.post_send(&work(1, read, Data::Sges(&[memory.sge(0, 8)]))).unwrap();
    peer.expect(&fpdu(&read_request(1, Place(memory.lkey().0, memory.addr()), 8, Place(7, 9))));
    peer.send(&change(tagged("C142", memory.lkey().0, memory.addr(), b"response")));
    assert_eq!(outcome(&world.completion()), (1, Status::Success, CompletionOpcode::Read, 8));
    peer.send(&change(write(memory.rkey().0, memory.addr() + 8, b"a Write.")));
    peer.send(&change(read_request(1, Place(1, 2), 16, Place(memory.rkey().0, memory.addr()))));
    peer.expect(&fpdu(&tagged("C142", 1, 2, b"responsea Write.")));
    for (msn, octet) in (1..).zip([0x43, 0x44, 0x45, 0x46]) {
        world.side.post_recv(2, memory.sge(16, 8));
        let named = if octet == 0x46 { victim.rkey() } else { target.rkey() };
        let head = join("41", &[&[octet], &named.0.to_be_bytes(), &[0; 4]]);
        let mut ulpdu = join("", &[&head, &u32::to_be_bytes(msn), &[0; 4], b"Send"]);
        if octet & 0x7 == 0x3 || octet & 0x7 == 0x5 {
            ulpdu[2..6].fill(0);
        }
        assert!(!victim.is_invalidated());
        peer.send(&change(ulpdu));
        let done = world.completion();
        assert_eq!(outcome(&done), (2, Status::Success, CompletionOpcode::Recv, 4));
        assert_eq!(done.solicited, octet >= 0x45);
        assert_eq!(done.invalidated, matches!(octet, 0x44 | 0x46).then_some(named.0));
        assert_eq!(content(&memory)[16..24], [&b"Send"[..], &[FILL; 4]].concat());
        memory.write(16, &[FILL; 8]).unwrap();
    }
    assert!(target.is_invalidated() && victim.is_invalidated());
    expect_terminate_taken(&world, &peer, &change(bare_terminate("2002")));
}

fn expect_terminate_taken(world: &World, peer: &weft_tests::RawPeer, octets: &[u8]) {
    use weft_rnic::DisconnectReason::PeerTerminate;
    peer.send(octets);
    peer.expect_fin();
    let reason = world.disconnected();
    assert!(matches!(reason, PeerTerminate { code: (2, 0, 2), .. }), "{reason:?}");
}

// Covers 5040-4.1-11.
#[test]
fn reserved_bits_mean_nothing() {
    for role in ROLES {
        for bits in [0x00, 0x10, 0x20, 0x30] {
            all_kinds_arrive(role, bits, 0);
        }
    }
}

/// The field even names memory that could be invalidated.
// Covers 5040-4.1-13.
#[test]
fn messages_without_invalidate_may_have_any_value_in_the_field() {
    for role in ROLES {
        all_kinds_arrive(role, 0x00, 1);
    }
}

/// Returns a segment of the kind that belongs to `opcode`, with `control` in place of RDMAP's octet. Otherwise it is
/// valid.
fn segment(scene: &Scene, opcode: u8, control: u8) -> Vec<u8> {
    let mut ulpdu = match opcode {
        0x0 => write(scene.target.rkey().0, scene.target.addr(), b"12345678"),
        0x1 => read_request(1, Place(1, 0), 8, Place(scene.target.rkey().0, scene.target.addr())),
        0x2 => tagged("C142", scene.sink_place.0, scene.sink_place.1, b"12345678"),
        0x7 => bare_terminate("2002"),
        0x4 | 0x6 => {
            join("4144", &[&scene.target.rkey().0.to_be_bytes(), &hex("00000000 00000001 00000000")])
        }
        _ => send(1, b"hello"),
    };
    ulpdu[1] = control;
    ulpdu
}

/// With revisions 1 and 2 of MPA only version 1 is valid. Version 0 belongs to the RDMA Consortium's MPA.
// Covers 5040-4.1-9, 5040-4.1-2, 5040-5.1-3.
#[test]
fn other_versions_are_refused() {
    for role in ROLES {
        for (opcode, _) in OPCODES {
            for version in [0x00, 0x80, 0xC0] {
                let scene = Scene::new(role);
                let bad = segment(&scene, opcode, version | opcode);
                scene.run(&Row::new("version", bad, Answer::Ddp("0205"), Rdmap::InvalidVersion));
            }
        }
    }
}

/// An untagged message in a tagged segment that names good memory, and a tagged message in an untagged one with a
/// receive.
// Covers 5040-4.1-5.
#[test]
fn the_wrong_kind_of_segment_is_refused() {
    for role in ROLES {
        for (opcode, queue) in OPCODES {
            let scene = Scene::new(role);
            let bad = match queue {
                Some(_) => {
                    let head = [0xC1, 0x40 | opcode];
                    let target = (scene.target.rkey().0.to_be_bytes(), scene.target.addr().to_be_bytes());
                    join("", &[&head, &target.0, &target.1, &[0; 28]])
                }
                None => {
                    join("41", &[&[0x40 | opcode], &hex("00000000 00000000 00000001 00000000"), b"12345678"])
                }
            };
            scene.run(&Row::new("T", bad, Answer::Ddp("0206"), Rdmap::UnexpectedOpcode));
        }
    }
}

/// The other queues of RFC 5040 with the next MSN of each, and a queue that does not exist.
// Covers 5040-4.1-7, 5040-3.1-2.
#[test]
fn the_wrong_queue_is_refused() {
    for role in ROLES {
        for (opcode, queue) in OPCODES {
            for other in [0, 1, 2, 9] {
                if queue.is_none_or(|queue| queue == other) {
                    continue;
                }
                let scene = Scene::new(role);
                let mut bad = segment(&scene, opcode, 0x40 | opcode);
                bad[9] = other;
                let row = if other == 9 {
                    Row::new("queue 9", bad, Answer::Ddp("1201"), Ddp::InvalidQueue)
                } else {
                    Row::new("queue", bad, Answer::Ddp("0206"), Rdmap::UnexpectedOpcode)
                };
                scene.run(&row);
            }
        }
    }
}

/// A Read Request has its 28 octets and nothing else, a Terminate four at least.
// Covers 5040-4.2-1, 5040-4.4-1.
#[test]
fn messages_of_headers_alone_have_the_length_of_the_header() {
    for role in ROLES {
        for len in [18, 18 + 12, 18 + 27, 18 + 29, 18 + 56] {
            let scene = Scene::new(role);
            let mut bad = segment(&scene, 0x1, 0x41);
            bad.resize(len, 0);
            scene.run(&Row::new("Read Request", bad, Answer::Ddp("0207"), Rdmap::StreamCatastrophic));
        }
        for len in 18..22 {
            let scene = Scene::new(role);
            let mut bad = segment(&scene, 0x7, 0x47);
            bad.truncate(len);
            scene.run(&Row::new("Terminate", bad, Answer::Ddp("0207"), Rdmap::StreamCatastrophic));
        }
    }
}
