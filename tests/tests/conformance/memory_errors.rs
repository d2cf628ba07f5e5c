//! Memory that a peer may not touch: unknown, foreign, too short, without the right.

use weft_ddp::Error as Ddp;
use weft_rdmap::Error as Rdmap;
use weft_rnic::{Cause, ConnParam, DisconnectReason, QpState, Status};
use weft_tests::hex;

use crate::octets::{Place, fpdu, pattern, read_request, send, send_invalidate, tagged, vector, write};
use crate::scene::{Answer, Outcome, Row, Scene, run_all};
use crate::world::{FLUSHED, Role, World};

#[test]
fn writes_to_unknown_memory() {
    run_all(&[
        |s| {
            Row::new(
                "another key",
                write(s.target.rkey().0 ^ 1, s.target.addr(), b"12345678"),
                Answer::Ddp("1100"),
                Ddp::InvalidStag,
            )
        },
        |s| {
            Row::new(
                "another index",
                write(s.target.rkey().0 ^ 0x8000_0000, s.target.addr(), b"12345678"),
                Answer::Ddp("1100"),
                Ddp::InvalidStag,
            )
        },
        |s| Row::new("STag 0", write(0, s.target.addr(), b"1"), Answer::Ddp("1100"), Ddp::InvalidStag),
        |s| {
            let gone = s.world.side.memory(64);
            Row::new(
                "deregistered",
                write(gone.rkey().0, gone.addr(), b"12345678"),
                Answer::Ddp("1100"),
                Ddp::InvalidStag,
            )
        },
        |s| {
            Row::new(
                "invalidated",
                write(s.target.rkey().0, s.target.addr(), b"12345678"),
                Answer::Ddp("1100"),
                Ddp::InvalidStag,
            )
            .after(send_invalidate(1, s.target.rkey().0, b"bye"))
            .receives([Status::Success, FLUSHED])
            .inbox(b"bye")
        },
    ]);
}

#[test]
fn writes_outside_of_their_memory_are_refused() {
    run_all(&[
        |s| {
            Row::new(
                "other domain",
                write(s.foreign.rkey().0, s.foreign.addr(), b"12345678"),
                Answer::Ddp("1102"),
                Ddp::WrongStream,
            )
        },
        |s| {
            Row::new(
                "one beyond the end",
                write(s.target.rkey().0, s.target.addr() + 57, b"12345678"),
                Answer::Ddp("1101"),
                Ddp::BaseOrBounds,
            )
        },
        |s| {
            Row::new(
                "behind the end",
                write(s.target.rkey().0, s.target.addr() + 64, b"1"),
                Answer::Ddp("1101"),
                Ddp::BaseOrBounds,
            )
        },
        |s| {
            Row::new(
                "one before",
                write(s.target.rkey().0, s.target.addr() - 1, b"12345678"),
                Answer::Ddp("1101"),
                Ddp::BaseOrBounds,
            )
        },
        |s| {
            Row::new(
                "offset 0",
                write(s.target.rkey().0, 0, b"12345678"),
                Answer::Ddp("1101"),
                Ddp::BaseOrBounds,
            )
        },
        |s| {
            Row::new(
                "too much",
                write(s.target.rkey().0, s.target.addr(), &[7; 65]),
                Answer::Ddp("1101"),
                Ddp::BaseOrBounds,
            )
        },
        |s| {
            Row::new(
                "around 2^64",
                write(s.target.rkey().0, u64::MAX - 3, b"12345678"),
                Answer::Ddp("1103"),
                Ddp::ToWrap,
            )
        },
    ]);
}

/// DDP has no code for rights, so that RDMAP's is used (doubt D10).
#[test]
fn writes_without_the_right() {
    run_all(&[
        |s| {
            Row::new(
                "only readable",
                write(s.read_only.rkey().0, s.read_only.addr(), b"12345678"),
                Answer::Ddp("0102"),
                Rdmap::AccessRights,
            )
        },
        |s| {
            Row::new(
                "only local",
                write(s.local.rkey().0, s.local.addr(), b"12345678"),
                Answer::Ddp("0102"),
                Rdmap::AccessRights,
            )
        },
        |s| {
            Row::new(
                "a receive buffer",
                write(s.local.rkey().0, s.local.addr() + 63, b"1"),
                Answer::Ddp("0102"),
                Rdmap::AccessRights,
            )
        },
    ]);
}

fn request(source: Place, size: u32) -> Vec<u8> {
    read_request(1, Place(0x0102_0304, 0x1122_3344_5566_7788), size, source)
}

#[test]
fn reads_outside_of_their_source_are_refused() {
    run_all(&[
        |s| {
            Row::new(
                "unknown",
                request(Place(s.target.rkey().0 ^ 1, s.target.addr()), 8),
                Answer::Read("0100"),
                Rdmap::InvalidStag,
            )
        },
        |_| Row::new("STag 0", request(Place(0, 0), 1), Answer::Read("0100"), Rdmap::InvalidStag),
        |s| {
            Row::new(
                "other domain",
                request(Place(s.foreign.rkey().0, s.foreign.addr()), 8),
                Answer::Read("0103"),
                Rdmap::WrongStream,
            )
        },
        |s| {
            Row::new(
                "one beyond the end",
                request(Place(s.target.rkey().0, s.target.addr() + 57), 8),
                Answer::Read("0101"),
                Rdmap::BaseOrBounds,
            )
        },
        |s| {
            Row::new(
                "one before",
                request(Place(s.target.rkey().0, s.target.addr() - 1), 8),
                Answer::Read("0101"),
                Rdmap::BaseOrBounds,
            )
        },
        |s| {
            Row::new(
                "everything",
                request(Place(s.target.rkey().0, s.target.addr()), u32::MAX),
                Answer::Read("0101"),
                Rdmap::BaseOrBounds,
            )
        },
        |s| {
            Row::new(
                "around 2^64",
                request(Place(s.target.rkey().0, u64::MAX - 6), 8),
                Answer::Read("0104"),
                Rdmap::ToWrap,
            )
        },
        |s| {
            Row::new(
                "only writable",
                request(Place(s.write_only.rkey().0, s.write_only.addr()), 8),
                Answer::Read("0102"),
                Rdmap::AccessRights,
            )
        },
        |s| {
            Row::new(
                "only local",
                request(Place(s.local.rkey().0, s.local.addr()), 8),
                Answer::Read("0102"),
                Rdmap::AccessRights,
            )
        },
    ]);
}

#[test]
fn invalidations_without_the_right_are_refused() {
    run_all(&[
        |s| {
            Row::new(
                "unknown",
                send_invalidate(1, s.target.rkey().0 ^ 1, b"hello"),
                Answer::Ddp("0109"),
                Rdmap::CannotInvalidate,
            )
        },
        |_| Row::new("STag 0", send_invalidate(1, 0, b""), Answer::Ddp("0109"), Rdmap::CannotInvalidate),
        |s| {
            Row::new(
                "other domain",
                send_invalidate(1, s.foreign.rkey().0, b"hello"),
                Answer::Ddp("0109"),
                Rdmap::CannotInvalidate,
            )
        },
        |s| {
            Row::new(
                "only local",
                send_invalidate(1, s.local.rkey().0, b"hello"),
                Answer::Ddp("0109"),
                Rdmap::CannotInvalidate,
            )
        },
        |s| {
            Row::new(
                "twice",
                send_invalidate(2, s.target.rkey().0, b"two"),
                Answer::Ddp("0109"),
                Rdmap::CannotInvalidate,
            )
            .after(send_invalidate(1, s.target.rkey().0, b"one"))
            .receives([Status::Success, FLUSHED])
            .inbox(b"one")
        },
        |s| {
            let mut part = send_invalidate(1, s.foreign.rkey().0, b"efgh");
            part[17] = 4;
            let mut first = send_invalidate(1, s.foreign.rkey().0, b"abcd");
            first[0] = 0x01;
            Row::new("in parts", part, Answer::Ddp("0109"), Rdmap::CannotInvalidate)
                .after(first)
                .inbox(b"abcd")
        },
    ]);
}

/// The Read (3) asked for 8 octets.
#[test]
fn read_responses_that_differ_from_the_request_are_refused() {
    fn response(s: &Scene, payload: &[u8]) -> Vec<u8> {
        tagged("C142", s.sink_place.0, s.sink_place.1, payload)
    }
    run_all(&[
        |s| {
            Row::new(
                "another STag",
                tagged("C142", s.target.rkey().0, s.target.addr(), b"12345678"),
                Answer::Ddp("1100"),
                Ddp::InvalidStag,
            )
        },
        |s| {
            Row::new(
                "another offset",
                tagged("C142", s.sink_place.0, s.sink_place.1 + 1, b"1234567"),
                Answer::Ddp("1101"),
                Ddp::BaseOrBounds,
            )
        },
        |s| Row::new("too much", response(s, b"123456789"), Answer::Ddp("1101"), Ddp::BaseOrBounds),
        |s| Row::new("too little", response(s, b"1234567"), Answer::Ddp("0207"), Rdmap::StreamCatastrophic),
        |s| Row::new("nothing", response(s, b""), Answer::Ddp("0207"), Rdmap::StreamCatastrophic),
    ]);
}

#[test]
fn a_read_response_without_a_request_is_refused() {
    for role in [Role::Passive, Role::Active] {
        let scene = Scene::new(role);
        scene.finish_sends();
        let bad = tagged("C142", scene.sink_place.0, scene.sink_place.1, b"12345678");
        let answer = fpdu(&crate::octets::terminate("0206", &bad));
        let outcome = Outcome { expected: &[(1, FLUSHED), (2, FLUSHED)], inbox: &[] };
        scene.end(&fpdu(&bad), &answer, Cause::Peer(Rdmap::UnexpectedOpcode), &outcome);
    }
}

/// Memory that was deregistered meanwhile is unknown. The Read into it completes with the error.
#[test]
fn a_read_response_to_deregistered_memory() {
    let mut scene = Scene::new(Role::Passive);
    drop(scene.sink.take());
    let bad = tagged("C142", scene.sink_place.0, scene.sink_place.1, b"12345678");
    let answer = fpdu(&crate::octets::terminate("1100", &bad));
    let expected = [(1, FLUSHED), (2, FLUSHED), (3, Status::LocalProtection), (4, FLUSHED)];
    let outcome = Outcome { expected: &expected, inbox: &[] };
    scene.end(&fpdu(&bad), &answer, Cause::Peer(Ddp::InvalidStag.into()), &outcome);
}

/// The application deregisters the source while the device sends it. The octets sent before are correct. The Terminate
/// returns the request for the rest: its offsets and length are advanced by these octets.
#[test]
fn a_source_that_is_deregistered_during_the_answer() {
    let world = World::new();
    let peer = world.establish(Role::Passive);
    let source = world.side.memory(2 << 20);
    let content = pattern(2 << 20);
    source.write(0, &content).unwrap();
    let (stag, to, size) = (source.rkey().0, source.addr(), 2 << 20);
    let (sink, sink_to) = (0x0102_0304, 0x1122_3344_5566_7788_u64);
    peer.set_reading(false);
    peer.send(&fpdu(&read_request(1, Place(sink, sink_to), size, Place(stag, to))));
    world.settle();
    drop(source);
    peer.set_reading(true);
    let mut sent = 0_u32;
    let terminate = loop {
        let ulpdu = crate::octets::read_fpdu(&peer);
        if ulpdu[0] & 0x80 == 0 {
            break ulpdu;
        }
        let payload = &ulpdu[14..];
        let place = [&sink.to_be_bytes()[..], &(sink_to + u64::from(sent)).to_be_bytes()].concat();
        assert_eq!(ulpdu[..14], [&hex("8142"), &place[..]].concat());
        assert_eq!(payload, &content[sent as usize..][..payload.len()]);
        sent += u32::try_from(payload.len()).unwrap();
    };
    assert!(sent > 100_000 && sent < size, "{sent} octets were sent before");
    let rest = read_request(
        1,
        Place(sink, sink_to + u64::from(sent)),
        size - sent,
        Place(stag, to + u64::from(sent)),
    );
    assert_eq!(terminate, crate::octets::terminate_read("0100", &rest));
    peer.expect_fin();
    assert_eq!(world.disconnected(), DisconnectReason::LocalTerminate(Cause::Peer(Rdmap::InvalidStag)));
    peer.close();
    world.expect_service();
}

/// A receive whose memory is gone is the application's fault. The Terminate to the peer blames no message.
#[test]
fn a_receive_into_memory_that_is_gone() {
    for role in [Role::Passive, Role::Active] {
        let world = World::new();
        let peer = world.establish(role);
        let memory = world.side.memory(16);
        world.side.post_recv(1, memory.sge(0, 16));
        world.side.post_recv(2, memory.sge(0, 16));
        drop(memory);
        peer.send(&fpdu(&send(1, b"hello")));
        peer.expect(&vector("term-localcat"));
        peer.expect_fin();
        let cause = Cause::Local(Status::LocalProtection);
        assert_eq!(world.disconnected(), DisconnectReason::LocalTerminate(cause));
        assert_eq!(world.all_completions(), [(1, Status::LocalProtection), (2, FLUSHED)]);
        peer.close();
        world.settle();
        assert_eq!(world.side.qp.state(), QpState::Error);
        world.expect_service();
    }
}

/// An access without octets is not checked (RFC 5041 section 5.2), so that no side is blamed for it.
#[test]
fn empty_messages_may_name_anything() {
    for role in [Role::Passive, Role::Active] {
        let world = World::new();
        let peer = world.establish_with(role, &world.side.qp, ConnParam::default());
        let everything = [
            write(0, 0, b""),
            write(u32::MAX, u64::MAX, b""),
            read_request(1, Place(7, u64::MAX), 0, Place(0, 0)),
            read_request(2, Place(8, 9), 0, Place(u32::MAX, u64::MAX)),
        ];
        peer.send(&everything.map(|ulpdu| fpdu(&ulpdu)).concat());
        peer.expect(&fpdu(&tagged("C142", 7, u64::MAX, b"")));
        peer.expect(&fpdu(&tagged("C142", 8, 9, b"")));
        peer.expect_silence();
        world.expect_no_news();
    }
}
