//! Immediate Data and Immediate Data with Solicited Event (RFC 7306 section 6).

use weft_ddp::Error as Ddp;
use weft_rdmap::Error as Rdmap;
use weft_rnic::{Cause, CompletionOpcode, Data, RecvWr, SendOpcode, SendWr, Stag, Status};

use crate::octets::{
    Place, bare_terminate, fpdu, join, read_request, send, tagged, terminate, vector, write,
};
use crate::scene::{Answer, Row, Scene, run_all};
use crate::world::{FILL, ROLES, Role, World, content, filled, open, whole, work};

const DATA: [u8; 8] = [1, 2, 3, 4, 5, 6, 7, 8];
const IMMEDIATE: SendOpcode = SendOpcode::Immediate { data: DATA };

/// Immediate Data; `control` is `48`, or `49` with Solicited Event.
pub(crate) fn immediate(control: u8, msn: u32, octets: &[u8]) -> Vec<u8> {
    join("41", &[&[control], &[0; 8], &msn.to_be_bytes(), &[0; 4], octets])
}

// Covers 7306-4.1-5, 7306-6.3-1, 7306-6.3-2, 7306-6.3-5.
#[test]
fn the_octets_sent() {
    for role in ROLES {
        let (world, peer) = open(role);
        world.side.qp.post_send(&work(1, IMMEDIATE, Data::Sges(&[]))).unwrap();
        peer.expect(&vector("imm"));
        let completion = world.completion();
        assert_eq!((completion.wr_id, completion.status), (1, Status::Success));
        assert_eq!((completion.opcode, completion.byte_len), (CompletionOpcode::Immediate, 0));
        let solicited = SendWr { solicited: true, ..work(2, IMMEDIATE, Data::Inline(b"")) };
        world.side.qp.post_send(&solicited).unwrap();
        peer.expect(&fpdu(&immediate(0x49, 2, &DATA)));
    }
}

/// Behind a Write and before a Send, in the order posted, and with a number among the Sends.
// Covers 7306-6.3-7, 7306-4.2-1, 7306-6.1-1.
#[test]
fn immediate_data_goes_out_in_the_order_posted() {
    for role in ROLES {
        let (world, peer) = open(role);
        let qp = &world.side.qp;
        let to_write = SendOpcode::Write { stag: Stag(0x100), to: 0x1000 };
        qp.post_send(&work(1, to_write, Data::Inline(b"data"))).unwrap();
        qp.post_send(&work(2, IMMEDIATE, Data::Sges(&[]))).unwrap();
        qp.post_send(&work(3, SendOpcode::Send, Data::Inline(b"hello"))).unwrap();
        qp.post_send(&work(4, IMMEDIATE, Data::Sges(&[]))).unwrap();
        peer.expect(&fpdu(&write(0x100, 0x1000, b"data")));
        peer.expect(&fpdu(&immediate(0x48, 1, &DATA)));
        peer.expect(&fpdu(&send(2, b"hello")));
        peer.expect(&fpdu(&immediate(0x48, 3, &DATA)));
        for wr_id in 1..=4 {
            let completion = world.completion();
            assert_eq!((completion.wr_id, completion.status), (wr_id, Status::Success));
            assert_eq!(completion.opcode == CompletionOpcode::Immediate, wr_id % 2 == 0);
        }
        world.expect_no_news();
    }
}

/// Each takes one receive, whatever its size, and its octets come with the completion. The receive's memory does not
/// change.
// Covers 7306-6.1-2, 7306-6.3-3, 7306-6.3-4.
#[test]
fn each_completes_one_receive() {
    for role in ROLES {
        let (world, peer) = open(role);
        let inbox = filled(&world.side, 16);
        world.side.post_recv(1, whole(&inbox));
        world.side.qp.post_recv(&RecvWr { wr_id: 2, sges: &[] }).unwrap();
        world.side.post_recv(3, whole(&inbox));
        world.side.post_recv(4, whole(&inbox));
        peer.send(&vector("imm"));
        let completion = world.completion();
        assert_eq!((completion.wr_id, completion.status), (1, Status::Success));
        assert_eq!((completion.opcode, completion.byte_len), (CompletionOpcode::RecvWithImmediate, 0));
        assert_eq!((completion.immediate, completion.solicited), (Some(DATA), false));
        peer.send(&fpdu(&immediate(0x49, 2, b"solicitd")));
        let completion = world.completion();
        assert_eq!((completion.wr_id, completion.immediate), (2, Some(*b"solicitd")));
        assert!(completion.solicited);
        assert_eq!(content(&inbox), [FILL; 16]);
        // Among Sends, in the order sent.
        peer.send(&[fpdu(&send(3, b"hello")), fpdu(&immediate(0x48, 4, &[0xFF; 8]))].concat());
        let completion = world.completion();
        assert_eq!((completion.wr_id, completion.immediate, completion.byte_len), (3, None, 5));
        let completion = world.completion();
        assert_eq!((completion.wr_id, completion.immediate), (4, Some([0xFF; 8])));
        world.expect_no_news();
    }
}

/// A solicited one causes an event for an application that waits for solicited completions only.
// Covers 7306-6.1-2.
#[test]
fn a_solicited_one_makes_an_event() {
    let world = World::new();
    let channel = world.side.device.create_comp_channel().unwrap();
    let cq = world.side.device.create_cq(8, Some(&channel)).unwrap();
    let init =
        weft_rnic::QpInit { capacity: weft_rnic::QpCapacity::default(), ..weft_rnic::QpInit::new(&cq, &cq) };
    let qp = world.side.device.create_qp(&world.side.pd, &init).unwrap();
    let peer = world.establish_with(Role::Passive, &qp, weft_rnic::ConnParam::default());
    for wr_id in 1..=2 {
        qp.post_recv(&RecvWr { wr_id, sges: &[] }).unwrap();
    }
    cq.request_notification(true);
    peer.send(&fpdu(&immediate(0x48, 1, &DATA)));
    world.settle();
    assert!(channel.next().is_none());
    peer.send(&fpdu(&immediate(0x49, 2, &DATA)));
    world.settle();
    assert!(channel.next().is_some());
    assert_eq!(cq.poll_one().map(|completion| completion.solicited), Some(false));
    assert_eq!(cq.poll_one().map(|completion| completion.solicited), Some(true));
}

/// When it completes, earlier Writes of the same stream are placed.
// Covers 7306-6.4-1.
#[test]
fn earlier_writes_are_visible_at_completion() {
    for role in ROLES {
        let (world, peer) = open(role);
        let memory = filled(&world.side, 8);
        world.side.qp.post_recv(&RecvWr { wr_id: 1, sges: &[] }).unwrap();
        let placed = write(memory.rkey().0, memory.addr(), b"in place");
        peer.send(&[fpdu(&placed), fpdu(&immediate(0x48, 1, &DATA))].concat());
        let completion = world.completion();
        assert_eq!((completion.immediate, completion.byte_len), (Some(DATA), 8));
        assert_eq!(content(&memory), b"in place");
    }
}

/// A Read Request behind Immediate Data is answered after the Immediate Data has completed.
// Covers 7306-7-4.
#[test]
fn a_response_is_not_made_before_an_earlier_one_completed() {
    for role in ROLES {
        let (world, peer) = open(role);
        let memory = filled(&world.side, 8);
        for wr_id in 1..=2 {
            world.side.qp.post_recv(&RecvWr { wr_id, sges: &[] }).unwrap();
        }
        let ask = read_request(1, Place(9, 0), 8, Place(memory.rkey().0, memory.addr()));
        peer.send(&[fpdu(&immediate(0x48, 1, &DATA)), fpdu(&send(2, b"")), fpdu(&ask)].concat());
        peer.expect(&fpdu(&tagged("C142", 9, 0, &[FILL; 8])));
        // Without another turn of the engine both are there already.
        let done: Vec<_> = std::iter::from_fn(|| world.side.cq.poll_one()).map(|done| done.wr_id).collect();
        assert_eq!(done, [1, 2]);
    }
}

// Covers 7306-6.1-3, 7306-6.3-8, 7306-8.1-2, 7306-4-1.
#[test]
fn faults_of_immediate_data_end_the_stream() {
    run_all(&[
        |_| {
            Row::new(
                "7 octets",
                immediate(0x48, 1, &DATA[1..]),
                Answer::Ddp("0207"),
                Rdmap::StreamCatastrophic,
            )
        },
        |_| Row::new("none", immediate(0x48, 1, b""), Answer::Ddp("0207"), Rdmap::StreamCatastrophic),
        |_| Row::new("9 octets", immediate(0x49, 1, &[0; 9]), Answer::Ddp("0207"), Rdmap::StreamCatastrophic),
        |_| {
            let mut first = immediate(0x48, 1, &DATA);
            first[0] = 0x01;
            Row::new("in parts", first, Answer::Ddp("0207"), Rdmap::StreamCatastrophic)
        },
        |_| {
            let mut other_queue = immediate(0x48, 1, &DATA);
            other_queue[9] = 1;
            Row::new("queue 1", other_queue, Answer::Ddp("0206"), Rdmap::UnexpectedOpcode)
        },
        |_| Row::new("tagged", tagged("C148", 1, 0, &DATA), Answer::Ddp("0206"), Rdmap::UnexpectedOpcode),
        |_| Row::new("version 2", immediate(0x88, 1, &DATA), Answer::Ddp("0205"), Rdmap::InvalidVersion),
        |_| {
            Row::new("no receive", immediate(0x48, 3, &DATA), Answer::Ddp("1202"), Ddp::NoBuffer)
                .after(immediate(0x48, 1, &DATA))
                .after(send(2, b""))
                .receives([Status::Success, Status::Success])
        },
    ]);
}

/// Every field of the segment, in both messages: one octet of a good one is changed.
// Covers 7306-8.2-1, 7306-8.2-2, 7306-8.2-3, 7306-8.2-4.
#[test]
fn each_field_of_the_segment_is_checked() {
    let faults: [(usize, u8, &str, Rdmap); 10] = [
        (0, 0x40, "1206", Ddp::UntaggedVersion.into()),
        (0, 0x42, "1206", Ddp::UntaggedVersion.into()),
        (1, 0x00, "0205", Rdmap::InvalidVersion),
        (1, 0xC0, "0205", Rdmap::InvalidVersion),
        (1, 0x4F, "0206", Rdmap::UnexpectedOpcode),
        (9, 2, "0206", Rdmap::UnexpectedOpcode),
        (9, 3, "0206", Rdmap::UnexpectedOpcode),
        (9, 4, "1201", Ddp::InvalidQueue.into()),
        (13, 2, "1203", Ddp::MsnRange.into()),
        (17, 4, "1204", Ddp::InvalidMo.into()),
    ];
    for role in ROLES {
        for control in [0x48, 0x49] {
            for (at, octet, code, error) in faults {
                let scene = Scene::new(role);
                let mut bad = immediate(control, 1, &DATA);
                // The lowest bits of a version's control octet are the message's own.
                bad[at] = if code == "0205" { octet & 0xC0 | control & 0x0F } else { octet };
                scene.run(&Row::new("segment", bad, Answer::Ddp(code), error));
            }
        }
    }
}

/// The peer's Terminate over our Immediate Data reaches the application.
// Covers 7306-6.1-3.
#[test]
fn a_refusal_of_the_peer_is_reported() {
    for role in ROLES {
        let (world, peer) = open(role);
        world.side.qp.post_send(&work(1, IMMEDIATE, Data::Sges(&[]))).unwrap();
        peer.expect(&vector("imm"));
        peer.send(&fpdu(&terminate("1202", &immediate(0x48, 1, &DATA))));
        let weft_rnic::DisconnectReason::PeerTerminate { code, .. } = world.disconnected() else {
            panic!("no Terminate reported")
        };
        assert_eq!(code, (1, 2, 2));
    }
}

/// A local failure is not caused by a message: the Terminate has no headers.
// Covers 7306-8.1-1.
#[test]
fn a_local_failure_returns_no_header() {
    for role in ROLES {
        let (world, peer) = open(role);
        let memory = world.side.memory(8);
        let sges = [whole(&memory)];
        drop(memory);
        let to_add = SendOpcode::FetchAdd { stag: Stag(0x100), to: 0x1000, add: 1, mask: 0 };
        world.side.qp.post_send(&work(1, to_add, Data::Sges(&sges))).unwrap();
        peer.expect(&fpdu(&bare_terminate("0000")));
        let local = Cause::Local(Status::LocalProtection);
        assert_eq!(world.disconnected(), weft_rnic::DisconnectReason::LocalTerminate(local));
        assert_eq!(world.all_completions(), [(1, Status::LocalProtection)]);
    }
}
