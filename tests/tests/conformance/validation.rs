//! The checks of every arriving message (RFC 5040 section 7.2, figures 9 and 10).

use weft_ddp::Error as Ddp;
use weft_rdmap::Error as Rdmap;
use weft_rnic::{Access, Cause, DisconnectReason, Region, Status};

use crate::octets::{
    Place, bare_terminate, fpdu, join, read_request, send, send_invalidate, send_part, tagged, vector, write,
};
use crate::scene::{Answer, Outcome, Row, Scene, run_all};
use crate::world::{FILL, Role, World, content};

/// RDMAP's control octet, the first octet, the queue and the MSN of an empty untagged segment.
fn untagged(control: u8, first: u8, queue: u32, msn: u32) -> Vec<u8> {
    join("", &[&[first, control], &[0; 4], &queue.to_be_bytes(), &msn.to_be_bytes(), &[0; 4]])
}

/// In a scene one segment is refused with `error`, and its DDP header comes back with `code`.
fn refuse(
    role: Role,
    bad: impl Fn(&Scene) -> Vec<u8>,
    code: &'static str,
    error: impl Into<weft_rdmap::Error>,
) {
    let scene = Scene::new(role);
    let row = Row::new("refused", bad(&scene), Answer::Ddp(code), error);
    scene.run(&row);
}

/// The segment `good` with one octet changed.
fn with(mut good: Vec<u8>, at: usize, octet: u8) -> Vec<u8> {
    good[at] = octet;
    good
}

/// A Read Request for the scene's target.
fn request(scene: &Scene) -> Vec<u8> {
    read_request(1, Place(1, 0), 8, Place(scene.target.rkey().0, scene.target.addr()))
}

/// DDP's fields in each kind of message: versions, STag, bounds, queue, MSN, MO.
// Covers 5040-7.2-1.
#[test]
fn ddp_checks_the_segments_of_all_messages() {
    for role in [Role::Passive, Role::Active] {
        refuse(
            role,
            |s| tagged("C040", s.target.rkey().0, s.target.addr(), b"x"),
            "1104",
            Ddp::TaggedVersion,
        );
        refuse(role, |s| write(s.target.rkey().0 ^ 1, s.target.addr(), b"x"), "1100", Ddp::InvalidStag);
        refuse(role, |s| write(s.target.rkey().0, s.target.addr() + 64, b"x"), "1101", Ddp::BaseOrBounds);
        refuse(role, |s| write(s.target.rkey().0, u64::MAX, b"xy"), "1103", Ddp::ToWrap);
        refuse(role, |s| write(s.foreign.rkey().0, s.foreign.addr(), b"x"), "1102", Ddp::WrongStream);
        let response = |s: &Scene| tagged("C142", s.sink_place.0, s.sink_place.1, b"12345678");
        refuse(role, |s| with(response(s), 0, 0xC0), "1104", Ddp::TaggedVersion);
        refuse(role, |s| tagged("C142", s.sink_place.0 ^ 1, s.sink_place.1, b"1"), "1100", Ddp::InvalidStag);
        refuse(role, |s| tagged("C142", s.sink_place.0, s.sink_place.1 + 1, b"1"), "1101", Ddp::BaseOrBounds);
        for control in [0x43, 0x44, 0x45, 0x46] {
            refuse(role, |_| untagged(control, 0x40, 0, 1), "1206", Ddp::UntaggedVersion);
            refuse(role, |_| untagged(control, 0x41, 4, 1), "1201", Ddp::InvalidQueue);
            refuse(role, |_| untagged(control, 0x41, 0, 2), "1203", Ddp::MsnRange);
            refuse(role, |_| with(untagged(control, 0x41, 0, 1), 17, 1), "1204", Ddp::InvalidMo);
        }
        let scene = Scene::new(role);
        let too_long =
            Row::new("17 octets", send_part("01", 1, 0, &[7; 17]), Answer::Ddp("1205"), Ddp::TooLong);
        scene.run(&too_long.receives([Status::LocalLength, Status::WorkRequestFlushed]));
        refuse(role, |_| with(bare_terminate("0000"), 0, 0x42), "1206", Ddp::UntaggedVersion);
        refuse(role, |_| with(bare_terminate("0000"), 13, 2), "1203", Ddp::MsnRange);
        refuse(role, |_| with(bare_terminate("0000"), 17, 4), "1204", Ddp::InvalidMo);
    }
}

/// Every undefined opcode on each queue, and every opcode on a queue that is not its own.
// Covers 5040-7.2-2, 5040-7.2-7, 7306-8.2-3.
#[test]
fn opcodes_are_checked_on_every_queue() {
    for role in [Role::Passive, Role::Active] {
        for opcode in 0x0..=0xF {
            let valid_tagged = matches!(opcode, 0x0 | 0x2);
            if !valid_tagged && opcode % 2 == u8::from(role == Role::Active) {
                let bad = move |s: &Scene| {
                    join(
                        "C1",
                        &[
                            &[0x40 | opcode],
                            &s.target.rkey().0.to_be_bytes(),
                            &s.target.addr().to_be_bytes(),
                            b"x",
                        ],
                    )
                };
                refuse(role, bad, "0206", Rdmap::UnexpectedOpcode);
            }
            // Queue 0 takes Sends (and Immediate Data), 1 Read Requests (and Atomics), 2 Terminates, 3 Atomic
            // Responses.
            let own = [&[0x3, 0x4, 0x5, 0x6, 0x8, 0x9][..], &[0x1, 0xA], &[0x7], &[0xB]];
            for (queue, own) in (0..).zip(own) {
                if !own.contains(&opcode) && (opcode + queue) % 2 == u8::from(role == Role::Active) {
                    refuse(
                        role,
                        |_| untagged(0x40 | opcode, 0x41, u32::from(queue), 1),
                        "0206",
                        Rdmap::UnexpectedOpcode,
                    );
                }
            }
        }
    }
}

/// RV is 1 and nothing else, in each kind of message.
// Covers 5040-7.2-3, 5040-7.2-8.
#[test]
fn the_version_is_checked_in_every_message() {
    for role in [Role::Passive, Role::Active] {
        for version in [0x00, 0x80, 0xC0] {
            let error = Rdmap::InvalidVersion;
            refuse(
                role,
                |s| with(write(s.target.rkey().0, s.target.addr(), b"x"), 1, version),
                "0205",
                error,
            );
            let response = |s: &Scene| tagged("C142", s.sink_place.0, s.sink_place.1, b"12345678");
            refuse(role, |s| with(response(s), 1, version | 0x2), "0205", error);
            for opcode in [0x3, 0x4, 0x5, 0x6] {
                refuse(role, |_| untagged(version | opcode, 0x41, 0, 1), "0205", error);
            }
            refuse(role, |s| with(request(s), 1, version | 0x1), "0205", error);
            refuse(role, |_| with(bare_terminate("0000"), 1, version | 0x7), "0205", error);
        }
    }
}

/// An STag that is unknown, was deregistered, or was invalidated before.
// Covers 5040-7.2-4.
#[test]
fn an_stag_to_invalidate_must_be_valid() {
    run_all(&[
        |s| {
            let bad = send_invalidate(1, s.target.rkey().0 ^ 1, b"hello");
            Row::new("unknown", bad, Answer::Ddp("0109"), Rdmap::CannotInvalidate)
        },
        |s| {
            let gone = s.world.side.memory(8).rkey().0;
            Row::new(
                "gone",
                with(send_invalidate(1, gone, b""), 1, 0x46),
                Answer::Ddp("0109"),
                Rdmap::CannotInvalidate,
            )
        },
        |s| {
            s.target.invalidate();
            let bad = send_invalidate(1, s.target.rkey().0, b"hello");
            Row::new("invalidated", bad, Answer::Ddp("0109"), Rdmap::CannotInvalidate)
        },
    ]);
}

/// An STag of another protection domain, and one of another stream of the same domain.
// Covers 5040-7.2-5.
#[test]
fn an_stag_to_invalidate_must_be_the_streams() {
    for role in [Role::Passive, Role::Active] {
        for control in [0x44, 0x46] {
            let bad = |s: &Scene| with(send_invalidate(1, s.foreign.rkey().0, b"hello"), 1, control);
            refuse(role, bad, "0109", Rdmap::CannotInvalidate);
            let scene = Scene::new(role);
            let bound = scene.world.bound(&scene.world.new_qp(), 8);
            let bad = with(send_invalidate(1, bound.rkey().0, b"hello"), 1, control);
            let row = Row::new("of another stream", bad, Answer::Ddp("0109"), Rdmap::CannotInvalidate);
            scene.run(&row);
            assert!(!bound.is_invalidated());
        }
    }
}

/// The DDP fields of a Read Request.
// Covers 5040-7.2-6.
#[test]
fn ddp_checks_read_requests() {
    for role in [Role::Passive, Role::Active] {
        refuse(role, |s| with(request(s), 0, 0x40), "1206", Ddp::UntaggedVersion);
        refuse(role, |s| with(request(s), 0, 0x43), "1206", Ddp::UntaggedVersion);
        refuse(role, |s| with(request(s), 9, 4), "1201", Ddp::InvalidQueue);
        refuse(role, |s| with(request(s), 13, 5), "1203", Ddp::MsnRange);
        refuse(role, |s| with(request(s), 13, 0), "1203", Ddp::MsnRange);
        refuse(role, |s| with(request(s), 17, 4), "1204", Ddp::InvalidMo);
    }
}

/// A source that is unknown, deregistered, invalidated, or not this stream's.
// Covers 5040-7.2-9, 5040-7.2-10.
#[test]
fn the_source_must_be_valid_and_the_streams() {
    run_all(&[
        |s| {
            let bad = read_request(1, Place(1, 0), 8, Place(s.target.rkey().0 ^ 0x100, s.target.addr()));
            Row::new("unknown", bad, Answer::Read("0100"), Rdmap::InvalidStag)
        },
        |s| {
            let gone = s.world.side.memory(8);
            let bad = read_request(1, Place(1, 0), 8, Place(gone.rkey().0, gone.addr()));
            Row::new("deregistered", bad, Answer::Read("0100"), Rdmap::InvalidStag)
        },
        |s| {
            s.target.invalidate();
            Row::new("invalidated", request(s), Answer::Read("0100"), Rdmap::InvalidStag)
        },
        |s| {
            let bad = read_request(1, Place(1, 0), 1, Place(s.foreign.rkey().0, s.foreign.addr()));
            Row::new("of another domain", bad, Answer::Read("0103"), Rdmap::WrongStream)
        },
    ]);
    for role in [Role::Passive, Role::Active] {
        let scene = Scene::new(role);
        let bound = scene.world.bound(&scene.world.new_qp(), 8);
        let bad = read_request(1, Place(1, 0), 8, Place(bound.rkey().0, bound.addr()));
        let row = Row::new("of another stream", bad, Answer::Read("0103"), Rdmap::WrongStream);
        scene.run(&row);
    }
}

/// The last octet can be read, and none before the first or behind the last.
// Covers 5040-7.2-11, 5040-7.2-12.
#[test]
fn the_source_must_be_inside() {
    const LEN: u64 = 64;
    for role in [Role::Passive, Role::Active] {
        for (at, size) in [
            (u64::MAX, 1),
            (u64::MAX, 64),
            (LEN, 1),
            (1 << 40, 8),
            (LEN - 1, 2),
            (0, 65),
            (8, 57),
            (0, u32::MAX),
        ] {
            let scene = Scene::new(role);
            let to = scene.target.addr();
            // Accesses inside come first, up to both edges.
            let good = read_request(1, Place(7, 0), 64, Place(scene.target.rkey().0, to));
            let edge = read_request(2, Place(7, 0), 1, Place(scene.target.rkey().0, to + 63));
            scene.peer.send(&[fpdu(&good), fpdu(&edge)].concat());
            scene.peer.expect(&fpdu(&tagged("C142", 7, 0, &[FILL; 64])));
            scene.peer.expect(&fpdu(&tagged("C142", 7, 0, &[FILL])));
            let bad = read_request(3, Place(7, 0), size, Place(scene.target.rkey().0, to.wrapping_add(at)));
            let answer = fpdu(&crate::octets::terminate_read("0101", &bad));
            scene.end(&fpdu(&bad), &answer, Cause::Peer(Rdmap::BaseOrBounds), &Outcome::ALL_FLUSHED);
        }
    }
}

/// Offset plus size beyond 2^64, also where the memory reaches up to there.
// Covers 5040-7.2-13.
#[test]
fn the_source_must_not_wrap() {
    run_all(&[
        |s| {
            let bad = read_request(1, Place(1, 0), 8, Place(s.target.rkey().0, u64::MAX - 3));
            Row::new("8 octets", bad, Answer::Read("0104"), Rdmap::ToWrap)
        },
        |s| {
            let bad = read_request(1, Place(1, 0), u32::MAX, Place(s.target.rkey().0, u64::MAX - 5));
            Row::new("many", bad, Answer::Read("0104"), Rdmap::ToWrap)
        },
    ]);
    for role in [Role::Passive, Role::Active] {
        let world = World::new();
        let region = Region::owned(16).unwrap();
        // The last octet of all has the offset 2^64 - 2.
        let memory = world.side.pd.register_at(region, Access::ALL, u64::MAX - 16).unwrap();
        let peer = world.establish(role);
        let source = Place(memory.rkey().0, u64::MAX - 8);
        peer.send(&[vector("write0"), fpdu(&read_request(1, Place(1, 0), 8, source))].concat());
        peer.expect(&fpdu(&tagged("C142", 1, 0, &[0; 8])));
        let bad = read_request(2, Place(1, 0), 10, source);
        peer.send(&fpdu(&bad));
        peer.expect(&fpdu(&crate::octets::terminate_read("0104", &bad)));
        assert_eq!(world.disconnected(), DisconnectReason::LocalTerminate(Cause::Peer(Rdmap::ToWrap)));
    }
}

/// Memory without the right to be read by a peer; a request for no octets of it is answered.
// Covers 5040-7.2-14.
#[test]
fn the_source_must_grant_reading() {
    for role in [Role::Passive, Role::Active] {
        for is_local in [false, true] {
            let scene = Scene::new(role);
            let memory = if is_local { &scene.local } else { &scene.write_only };
            let source = Place(memory.rkey().0, memory.addr());
            scene.peer.send(&fpdu(&read_request(1, Place(1, 0), 0, source)));
            scene.peer.expect(&fpdu(&tagged("C142", 1, 0, b"")));
            let bad = read_request(2, Place(1, 0), 1, source);
            let answer = fpdu(&crate::octets::terminate_read("0102", &bad));
            scene.end(&fpdu(&bad), &answer, Cause::Peer(Rdmap::AccessRights), &Outcome::ALL_FLUSHED);
        }
    }
}

/// A message that is valid in every field is taken. So the refusals above are not refusals of everything.
// Covers 5040-7.2-1, 5040-7.2-6.
#[test]
fn valid_messages_are_taken() {
    for role in [Role::Passive, Role::Active] {
        let scene = Scene::new(role);
        scene.finish_sends();
        let (stag, to) = (scene.target.rkey().0, scene.target.addr());
        let all = [write(stag, to, b"written"), send(1, b"sent"), request(&scene)];
        scene.peer.send(&all.map(|ulpdu| fpdu(&ulpdu)).concat());
        scene.peer.expect(&fpdu(&tagged("C142", 1, 0, &[&b"written"[..], &[FILL]].concat())));
        assert_eq!(scene.world.all_completions(), [(1, Status::Success)]);
        assert_eq!(content(&scene.inbox)[..4], *b"sent");
    }
}
