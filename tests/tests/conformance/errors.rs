//! Faults that the headers show: the rows of the RFCs' error tables that need no memory.

use weft_ddp::Error as Ddp;
use weft_mpa::Error as Mpa;
use weft_rdmap::Error as Rdmap;
use weft_rnic::{Cause, ConnParam, Data, DisconnectReason, PostError, QpState, SendOpcode, Status};
use weft_tests::{PairConfig, hex};

use crate::octets::{
    Framing, Place, bare_terminate, fpdu, join, pattern, read_request, send, send_part, tagged, terminate,
    vector, write,
};
use crate::scene::{Answer, Outcome, Row, Scene, run_all};
use crate::world::{FILL, FLUSHED, Role, World, content, filled, whole, work};

/// An untagged segment without payload: DDP's and RDMAP's control octets, then the queue, MSN 1.
fn untagged(head: &str, queue: u32) -> Vec<u8> {
    join(head, &[&[0; 4], &queue.to_be_bytes(), &1_u32.to_be_bytes(), &[0; 4]])
}

#[test]
fn ddp_versions() {
    run_all(&[
        |s| {
            Row::new(
                "tagged 0",
                tagged("C040", s.target.rkey().0, s.target.addr(), b"12345678"),
                Answer::Ddp("1104"),
                Ddp::TaggedVersion,
            )
        },
        |s| {
            Row::new(
                "tagged 2",
                tagged("C240", s.target.rkey().0, s.target.addr(), b"12345678"),
                Answer::Ddp("1104"),
                Ddp::TaggedVersion,
            )
        },
        |s| {
            Row::new(
                "tagged 3",
                tagged("C340", s.target.rkey().0, s.target.addr(), b""),
                Answer::Ddp("1104"),
                Ddp::TaggedVersion,
            )
        },
        |_| Row::new("untagged 0", untagged("4043", 0), Answer::Ddp("1206"), Ddp::UntaggedVersion),
        |_| Row::new("untagged 2", untagged("4243", 0), Answer::Ddp("1206"), Ddp::UntaggedVersion),
        |_| Row::new("untagged 3", untagged("4341", 1), Answer::Ddp("1206"), Ddp::UntaggedVersion),
    ]);
}

#[test]
fn rdmap_versions() {
    run_all(&[
        |s| {
            Row::new(
                "Write 0",
                tagged("C100", s.target.rkey().0, s.target.addr(), b"12345678"),
                Answer::Ddp("0205"),
                Rdmap::InvalidVersion,
            )
        },
        |_| Row::new("Send 0", untagged("4103", 0), Answer::Ddp("0205"), Rdmap::InvalidVersion),
        |_| Row::new("Send 2", untagged("4183", 0), Answer::Ddp("0205"), Rdmap::InvalidVersion),
        |_| Row::new("Send 3", untagged("41C3", 0), Answer::Ddp("0205"), Rdmap::InvalidVersion),
    ]);
}

#[test]
fn undefined_opcodes_are_refused() {
    run_all(&[
        |_| Row::new("C", untagged("414C", 0), Answer::Ddp("0206"), Rdmap::UnexpectedOpcode),
        |_| Row::new("D", untagged("414D", 0), Answer::Ddp("0206"), Rdmap::UnexpectedOpcode),
        |_| Row::new("E", untagged("414E", 1), Answer::Ddp("0206"), Rdmap::UnexpectedOpcode),
        |_| Row::new("F", untagged("414F", 2), Answer::Ddp("0206"), Rdmap::UnexpectedOpcode),
        |s| {
            Row::new(
                "tagged F",
                tagged("C14F", s.target.rkey().0, s.target.addr(), b"12345678"),
                Answer::Ddp("0206"),
                Rdmap::UnexpectedOpcode,
            )
        },
    ]);
}

#[test]
fn opcodes_in_the_wrong_place() {
    run_all(&[
        |_| Row::new("Send on 1", untagged("4143", 1), Answer::Ddp("0206"), Rdmap::UnexpectedOpcode),
        |_| Row::new("Send on 2", untagged("4143", 2), Answer::Ddp("0206"), Rdmap::UnexpectedOpcode),
        |_| Row::new("Read Request on 0", untagged("4141", 0), Answer::Ddp("0206"), Rdmap::UnexpectedOpcode),
        |_| Row::new("Terminate on 0", untagged("4147", 0), Answer::Ddp("0206"), Rdmap::UnexpectedOpcode),
        |_| Row::new("untagged Write", untagged("4140", 0), Answer::Ddp("0206"), Rdmap::UnexpectedOpcode),
        |_| {
            Row::new(
                "untagged Read Response",
                untagged("4142", 0),
                Answer::Ddp("0206"),
                Rdmap::UnexpectedOpcode,
            )
        },
        |s| {
            Row::new(
                "tagged Send",
                tagged("C143", s.target.rkey().0, s.target.addr(), b"12345678"),
                Answer::Ddp("0206"),
                Rdmap::UnexpectedOpcode,
            )
        },
        |s| {
            Row::new(
                "tagged Read Request",
                tagged("C141", s.target.rkey().0, s.target.addr(), &[0; 28]),
                Answer::Ddp("0206"),
                Rdmap::UnexpectedOpcode,
            )
        },
        |s| {
            Row::new(
                "tagged Terminate",
                tagged("C147", s.target.rkey().0, s.target.addr(), &[0; 4]),
                Answer::Ddp("0206"),
                Rdmap::UnexpectedOpcode,
            )
        },
    ]);
}

/// The answer of a device without RFC 7306 to a peer that uses it. The device's own application cannot use it either.
// Covers 7306-1.1-4.
#[test]
fn atomics_and_immediate_data_unknown() {
    let rows: [fn(&Scene) -> Row; 5] = [
        |_| {
            Row::new(
                "Immediate Data",
                vector("imm")[2..28].to_vec(),
                Answer::Ddp("0206"),
                Rdmap::UnexpectedOpcode,
            )
        },
        |_| {
            Row::new("with SE", vector("immse")[2..28].to_vec(), Answer::Ddp("0206"), Rdmap::UnexpectedOpcode)
        },
        |_| {
            Row::new(
                "FetchAdd",
                vector("atomic-fadd")[2..72].to_vec(),
                Answer::Ddp("0206"),
                Rdmap::UnexpectedOpcode,
            )
        },
        |_| {
            Row::new(
                "CmpSwap",
                vector("atomic-cas")[2..72].to_vec(),
                Answer::Ddp("0206"),
                Rdmap::UnexpectedOpcode,
            )
        },
        |_| {
            Row::new(
                "Atomic Response",
                vector("atomic-rsp")[2..32].to_vec(),
                Answer::Ddp("1201"),
                Ddp::InvalidQueue,
            )
        },
    ];
    let config = PairConfig { extensions: false, ..PairConfig::default() };
    for row in rows {
        for role in [Role::Passive, Role::Active] {
            let scene = Scene::with(role, &config, ConnParam::default());
            let immediate = work(5, SendOpcode::Immediate { data: [0; 8] }, Data::Sges(&[]));
            assert_eq!(scene.world.side.qp.post_send(&immediate), Err(PostError::Unsupported));
            let row = row(&scene);
            scene.run(&row);
        }
    }
}

#[test]
fn unknown_queues_are_refused() {
    run_all(&[
        |_| Row::new("4", untagged("4143", 4), Answer::Ddp("1201"), Ddp::InvalidQueue),
        |_| Row::new("5", untagged("4143", 5), Answer::Ddp("1201"), Ddp::InvalidQueue),
        |_| Row::new("all ones", untagged("4143", u32::MAX), Answer::Ddp("1201"), Ddp::InvalidQueue),
    ]);
}

#[test]
fn sequence_numbers() {
    run_all(&[
        |_| Row::new("0 at first", send(0, b"hello"), Answer::Ddp("1203"), Ddp::MsnRange),
        |_| Row::new("2 at first", send(2, b"hello"), Answer::Ddp("1203"), Ddp::MsnRange),
        |_| Row::new("empty", send(2, b""), Answer::Ddp("1203"), Ddp::MsnRange),
        |_| {
            Row::new("repeated", send(1, b"again"), Answer::Ddp("1203"), Ddp::MsnRange)
                .after(send(1, b"hello"))
                .receives([Status::Success, FLUSHED])
                .inbox(b"hello")
        },
        |_| {
            Row::new("jumped", send(3, b"again"), Answer::Ddp("1203"), Ddp::MsnRange)
                .after(send(1, b"hello"))
                .receives([Status::Success, FLUSHED])
                .inbox(b"hello")
        },
        |_| {
            Row::new(
                "changed inside a message",
                send_part("41", 2, 4, b"efgh"),
                Answer::Ddp("1203"),
                Ddp::MsnRange,
            )
            .after(send_part("01", 1, 0, b"abcd"))
            .inbox(b"abcd")
        },
        |s| {
            let request = read_request(2, Place(1, 0), 8, Place(s.target.rkey().0, s.target.addr()));
            Row::new("Read Request", request, Answer::Ddp("1203"), Ddp::MsnRange)
        },
    ]);
}

#[test]
fn message_offsets() {
    run_all(&[
        |_| Row::new("not 0 at first", send_part("41", 1, 4, b"efgh"), Answer::Ddp("1204"), Ddp::InvalidMo),
        |_| {
            Row::new(
                "beyond any buffer",
                send_part("41", 1, u32::MAX, b"e"),
                Answer::Ddp("1204"),
                Ddp::InvalidMo,
            )
        },
        |_| {
            Row::new("a gap", send_part("41", 1, 5, b"efgh"), Answer::Ddp("1204"), Ddp::InvalidMo)
                .after(send_part("01", 1, 0, b"abcd"))
                .inbox(b"abcd")
        },
        |_| {
            Row::new("an overlap", send_part("41", 1, 0, b"efgh"), Answer::Ddp("1204"), Ddp::InvalidMo)
                .after(send_part("01", 1, 0, b"abcd"))
                .inbox(b"abcd")
        },
    ]);
}

#[test]
fn sends_that_no_receive_takes() {
    run_all(&[
        |_| {
            Row::new("the third Send", send(3, b"three"), Answer::Ddp("1202"), Ddp::NoBuffer)
                .after(send(1, b"one and all  one"))
                .after(send(2, b"two"))
                .receives([Status::Success; 2])
                .inbox(b"one and all  onetwo")
        },
        |_| {
            Row::new("an empty one", send(3, b""), Answer::Ddp("1202"), Ddp::NoBuffer)
                .after(send(1, b""))
                .after(send(2, b""))
                .receives([Status::Success; 2])
        },
        |_| {
            Row::new("too long", send(1, b"0123456789abcdefX"), Answer::Ddp("1205"), Ddp::TooLong)
                .receives([Status::LocalLength, FLUSHED])
        },
        |_| {
            Row::new("too long in parts", send_part("41", 1, 16, b"X"), Answer::Ddp("1205"), Ddp::TooLong)
                .after(send_part("01", 1, 0, b"0123456789abcdef"))
                .receives([Status::LocalLength, FLUSHED])
                .inbox(b"0123456789abcdef")
        },
        |_| {
            Row::new("the second too long", send(2, &[7; 1000]), Answer::Ddp("1205"), Ddp::TooLong)
                .after(send(1, b"one"))
                .receives([Status::Success, Status::LocalLength])
                .inbox(b"one")
        },
    ]);
}

/// Too short for the header that they begin with: there is nothing that could be returned (doubt D5).
#[test]
fn runts() {
    run_all(&[
        |_| Row::new("nothing", Vec::new(), Answer::Bare("1000"), Ddp::Runt),
        |_| Row::new("one octet", hex("41"), Answer::Bare("1000"), Ddp::Runt),
        |_| Row::new("untagged", send(1, b"")[..17].to_vec(), Answer::Bare("1000"), Ddp::Runt),
        |s| {
            Row::new(
                "tagged",
                write(s.target.rkey().0, s.target.addr(), b"")[..13].to_vec(),
                Answer::Bare("1000"),
                Ddp::Runt,
            )
        },
    ]);
}

#[test]
fn messages_of_a_wrong_length() {
    fn request(s: &Scene) -> Vec<u8> {
        read_request(1, Place(1, 0), 8, Place(s.target.rkey().0, s.target.addr()))
    }
    run_all(&[
        |s| {
            Row::new(
                "Read Request cut",
                request(s)[..45].to_vec(),
                Answer::Ddp("0207"),
                Rdmap::StreamCatastrophic,
            )
        },
        |s| {
            Row::new(
                "Read Request of nothing",
                request(s)[..18].to_vec(),
                Answer::Ddp("0207"),
                Rdmap::StreamCatastrophic,
            )
        },
        |s| {
            Row::new(
                "Read Request with more",
                [request(s), vec![0]].concat(),
                Answer::Ddp("0207"),
                Rdmap::StreamCatastrophic,
            )
        },
        |s| {
            Row::new(
                "Read Request in parts",
                [hex("01"), request(s)[1..].to_vec()].concat(),
                Answer::Ddp("0207"),
                Rdmap::StreamCatastrophic,
            )
        },
        |_| {
            Row::new(
                "Terminate cut",
                bare_terminate("1100")[..21].to_vec(),
                Answer::Ddp("0207"),
                Rdmap::StreamCatastrophic,
            )
        },
    ]);
}

/// A slot of the IRD is the buffer of a Read Request. Three requests in one segment find two.
#[test]
fn more_read_requests_than_agreed() {
    for role in [Role::Passive, Role::Active] {
        let param = ConnParam { ird: Some(2), ..ConnParam::default() };
        let scene = Scene::with(role, &PairConfig::default(), param);
        let source = Place(scene.target.rkey().0, scene.target.addr());
        let requests = [1, 2, 3].map(|msn| read_request(msn, Place(1, 0), 8, source));
        let answer = fpdu(&terminate("1202", &requests[2]));
        let octets = requests.map(|ulpdu| fpdu(&ulpdu)).concat();
        scene.end(&octets, &answer, Cause::Peer(Ddp::NoBuffer.into()), &Outcome::ALL_FLUSHED);
    }
}

/// One bit is wrong, in any place: nothing of the FPDU is placed, and nothing behind it.
#[test]
fn corrupted_octets() {
    let good = |scene: &Scene| fpdu(&write(scene.target.rkey().0, scene.target.addr(), b"1234567"));
    // From the first octet of the ULPDU on; padding and the CRC itself are at the end.
    for at in 2..28 {
        let role = if at % 2 == 0 { Role::Passive } else { Role::Active };
        let scene = Scene::new(role);
        let mut octets = good(&scene);
        octets[at] ^= 1 << (at % 8);
        expect_crc_error(&scene, &octets);
    }
    // A length that is wrong but frames no other FPDU.
    let scene = Scene::new(Role::Active);
    let mut octets = good(&scene);
    octets[1] -= 1;
    expect_crc_error(&scene, &octets);
    // The damage is in a Send, for which a receive waits.
    let scene = Scene::new(Role::Passive);
    let mut octets = fpdu(&send(1, b"hello"));
    octets[22] ^= 0x80;
    expect_crc_error(&scene, &octets);
}

fn expect_crc_error(scene: &Scene, octets: &[u8]) {
    let (covered, field) = octets.split_at(octets.len() - 4);
    let expected = crate::octets::crc32c(covered);
    let received = u32::from_le_bytes([field[0], field[1], field[2], field[3]]);
    let cause = Cause::Mpa(Mpa::Crc { expected, received });
    scene.end(octets, &vector("term-crc"), cause, &Outcome::ALL_FLUSHED);
}

/// The CRC is good and the Marker points to a wrong place. The first FPDU takes 24 octets, and the second has the
/// Marker.
#[test]
fn markers_that_point_elsewhere() {
    for (role, wrong) in
        [(Role::Passive, 0), (Role::Active, 24), (Role::Passive, 484), (Role::Active, 0xFFFC)]
    {
        let world = World::with_mpa(weft_mpa::Config { markers: true, ..weft_mpa::Config::default() });
        let memory = filled(&world.side, 600);
        world.side.post_recv(1, whole(&memory));
        let peer = world.establish(role);
        let mut framing = Framing::new(true, true);
        peer.send(&framing.fpdu(&write(0, 0, b"")));
        let segment = write(memory.rkey().0, memory.addr(), &pattern(600));
        peer.send(&framing.fpdu_with_markers(&segment, |pointer| {
            assert_eq!(pointer, 488);
            wrong
        }));
        peer.expect(&fpdu(&bare_terminate("2003")));
        peer.expect_fin();
        let cause = Cause::Mpa(Mpa::Marker { expected: 488, received: wrong });
        assert_eq!(world.disconnected(), DisconnectReason::LocalTerminate(cause));
        assert_eq!(world.all_completions(), [(1, FLUSHED)]);
        assert_eq!(content(&memory), [FILL; 600]);
        peer.close();
        world.settle();
        assert_eq!(world.side.qp.state(), QpState::Error);
        // The two low bits of a pointer mean nothing, and neither do the two octets before it.
        let qp = world.new_qp();
        let peer = world.establish_with(role, &qp, ConnParam::default());
        let mut framing = Framing::new(true, true);
        peer.send(&framing.fpdu(&write(0, 0, b"")));
        peer.send(&framing.fpdu_with_markers(&segment, |pointer| pointer | 3));
        peer.expect_silence();
        assert_eq!(content(&memory), pattern(600));
    }
}
