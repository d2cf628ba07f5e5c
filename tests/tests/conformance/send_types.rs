//! The effects of the four Send types at either end (RFC 5040 section 5.3).

use weft_ddp::Error as Ddp;
use weft_rdmap::Error as Rdmap;
use weft_rnic::{Cause, CompletionOpcode, Data, DisconnectReason, RecvWr, SendOpcode, SendWr, Stag, Status};

use crate::octets::{fpdu, join, pattern, send, send_part, terminate, write};
use crate::world::{FILL, ROLES, content, filled, open, open_mtu, whole, work};

/// RDMAP's control octet of Send, Send with Invalidate, with SE, with both.
const CONTROLS: [u8; 4] = [0x43, 0x44, 0x45, 0x46];

const fn invalidates(control: u8) -> bool {
    matches!(control, 0x44 | 0x46)
}

/// One segment of a message of any Send type.
fn any_send(control: u8, stag: u32, msn: u32, payload: &[u8]) -> Vec<u8> {
    join("41", &[&[control], &stag.to_be_bytes(), &[0; 4], &msn.to_be_bytes(), &[0; 4], payload])
}

/// Returns the request that makes a message of the Send type.
fn request(control: u8, stag: u32, data: Data<'_>) -> SendWr<'_> {
    let opcode =
        if invalidates(control) { SendOpcode::SendInvalidate { stag: Stag(stag) } } else { SendOpcode::Send };
    SendWr { solicited: matches!(control, 0x45 | 0x46), ..work(u64::from(control), opcode, data) }
}

/// Every segment of every Send type: T is 0, the queue is 0, and the STag to be invalidated is behind the control
/// octet.
// Covers 5040-5.3-1, 5040-5.3-8, 5040-5.3-12, 5040-5.3-13.
#[test]
fn each_segment_names_queue_and_stag() {
    for role in ROLES {
        let (world, peer) = open_mtu(role, 576);
        let message = pattern(1300);
        let memory = world.side.memory(1300);
        memory.write(0, &message).unwrap();
        for (control, msn) in CONTROLS.into_iter().zip(1_u32..) {
            let (stag, sges) = (0x1122_3300 + msn, [whole(&memory)]);
            world.side.qp.post_send(&request(control, stag, Data::Sges(&sges))).unwrap();
            for (part, head) in message.chunks(512).zip([0x01, 0x01, 0x41]) {
                let ulpdu = peer.read_exact(2 + 18 + part.len() + (part.len() % 4) + 4)[2..].to_vec();
                assert_eq!(ulpdu[0] & 0x80, 0, "T is set");
                assert_eq!(ulpdu[..2], [head, control]);
                if invalidates(control) {
                    assert_eq!(ulpdu[2..6], stag.to_be_bytes(), "the STag to be invalidated");
                }
                assert_eq!(ulpdu[6..10], [0; 4], "the queue number");
                assert_eq!(ulpdu[10..14], msn.to_be_bytes());
                assert_eq!(ulpdu[18..18 + part.len()], *part);
            }
            assert_eq!(world.completion().status, Status::Success);
        }
    }
}

/// Each message takes the oldest receive: a message without octets, one that fills the receive and one that does not.
// Covers 5040-5.3-2, 5040-5.3-3, 5040-5.3-10, 5040-5.3-11.
#[test]
fn each_message_takes_one_receive() {
    for role in ROLES {
        let (world, peer) = open(role);
        let sizes = [16_usize, 0, 5, 0, 16, 1];
        let inbox = filled(&world.side, 7 * 16);
        for wr_id in 0..7 {
            world.side.post_recv(wr_id, inbox.sge(16 * usize::try_from(wr_id).unwrap(), 16));
        }
        let sends = sizes.iter().zip(1..).map(|(len, msn)| fpdu(&send(msn, &pattern(*len))));
        peer.send(&sends.collect::<Vec<_>>().concat());
        let mut expected = vec![FILL; 7 * 16];
        for (index, len) in sizes.into_iter().enumerate() {
            let done = world.completion();
            assert_eq!((done.wr_id, done.status), (index as u64, Status::Success));
            assert_eq!((done.opcode, done.byte_len as usize), (CompletionOpcode::Recv, len));
            expected[16 * index..][..len].copy_from_slice(&pattern(len));
        }
        assert_eq!(content(&inbox), expected);
        // The seventh receive is left for the next message.
        world.expect_no_news();
        peer.send(&fpdu(&send(7, b"last")));
        assert_eq!((world.completion().wr_id, content(&inbox)[96..100].to_vec()), (6, b"last".to_vec()));
        // The device's own empty messages work, too.
        for (control, msn) in CONTROLS.into_iter().zip(1..) {
            world.side.qp.post_send(&request(control, 9, Data::Sges(&[]))).unwrap();
            let stag = if invalidates(control) { 9 } else { 0 };
            peer.expect(&fpdu(&any_send(control, stag, msn, b"")));
        }
    }
}

/// Numbered messages of changing type and length, in both directions, with Writes between them.
// Covers 5040-5.3-5, 5040-5.3-9.
#[test]
fn messages_keep_their_order() {
    for role in ROLES {
        let (world, peer) = open_mtu(role, 576);
        let (inbox, target) = (filled(&world.side, 40 * 4), filled(&world.side, 8));
        let regions: Vec<_> = (0..40).map(|_| world.bound(&world.side.qp, 8)).collect();
        for number in 0..40_u32 {
            world.side.post_recv(u64::from(number), inbox.sge(4 * number as usize, 4));
        }
        let mut stream = Vec::new();
        for number in 0..40_u32 {
            let (control, stag) = (CONTROLS[number as usize % 4], regions[number as usize].rkey().0);
            stream.extend(fpdu(&any_send(control, stag, number + 1, &number.to_be_bytes())));
            stream.extend(fpdu(&write(target.rkey().0, target.addr(), b"between")));
        }
        peer.send(&stream);
        for number in 0..40 {
            let done = world.completion();
            assert_eq!((done.wr_id, done.status), (number, Status::Success));
            let place = 4 * usize::try_from(number).unwrap();
            assert_eq!(content(&inbox)[place..][..4], u32::try_from(number).unwrap().to_be_bytes());
        }
        for number in 0..40_u32 {
            let octets = number.to_be_bytes();
            let control = CONTROLS[number as usize % 4];
            world.side.qp.post_send(&request(control, number, Data::Inline(&octets))).unwrap();
        }
        for number in 0..40_u32 {
            let control = CONTROLS[number as usize % 4];
            let stag = if invalidates(control) { number } else { 0 };
            peer.expect(&fpdu(&any_send(control, stag, number + 1, &number.to_be_bytes())));
        }
    }
}

/// Five octets into four, in one segment and in two, of every Send type.
// Covers 5040-5.3-4.
#[test]
fn a_message_longer_than_its_receive() {
    for role in ROLES {
        for control in CONTROLS {
            for cut in [0, 3] {
                let (world, peer) = open(role);
                let (inbox, window) = (filled(&world.side, 8), world.bound(&world.side.qp, 8));
                world.side.post_recv(1, inbox.sge(0, 4));
                let mut bad = any_send(control, window.rkey().0, 1, &b"12345"[cut..]);
                bad[17] = u8::try_from(cut).unwrap();
                if cut > 0 {
                    let mut first = any_send(control, window.rkey().0, 1, b"123");
                    first[0] = 0x01;
                    peer.send(&fpdu(&first));
                }
                peer.send(&fpdu(&bad));
                peer.expect(&fpdu(&terminate("1205", &bad)));
                peer.expect_fin();
                let cause = Cause::Peer(Ddp::TooLong.into());
                assert_eq!(world.disconnected(), DisconnectReason::LocalTerminate(cause));
                assert_eq!(world.all_completions(), [(1, Status::LocalLength)]);
                assert_eq!(content(&inbox)[cut..], [FILL; 8][cut..]);
                assert!(!window.is_invalidated());
            }
        }
    }
}

/// Each Send type with one wrong field: the peer gets a Terminate, and the application learns of it.
// Covers 5040-5.3-7.
#[test]
fn a_message_that_is_invalid() {
    // Octet and its value, code, error.
    let faults: [(usize, u8, &str, weft_rdmap::Error); 5] = [
        (1, 0x80, "0205", Rdmap::InvalidVersion),
        (9, 1, "0206", Rdmap::UnexpectedOpcode),
        (9, 2, "0206", Rdmap::UnexpectedOpcode),
        (13, 2, "1203", Rdmap::Ddp(Ddp::MsnRange)),
        (17, 4, "1204", Rdmap::Ddp(Ddp::InvalidMo)),
    ];
    for role in ROLES {
        for control in CONTROLS {
            for (at, octet, code, error) in faults {
                let (world, peer) = open(role);
                let (inbox, window) = (filled(&world.side, 8), world.bound(&world.side.qp, 8));
                world.side.post_recv(1, whole(&inbox));
                let mut bad = any_send(control, window.rkey().0, 1, b"12345");
                bad[at] = if at == 1 { octet | control & 0x0F } else { octet };
                peer.send(&fpdu(&bad));
                peer.expect(&fpdu(&terminate(code, &bad)));
                peer.expect_fin();
                assert_eq!(world.disconnected(), DisconnectReason::LocalTerminate(Cause::Peer(error)));
                assert_eq!(world.all_completions(), [(1, Status::WorkRequestFlushed)]);
                assert_eq!(content(&inbox), [FILL; 8]);
                assert!(!window.is_invalidated());
            }
        }
    }
}

/// The message's delivery invalidates the STag, not its first segment. From then on it names nothing.
// Covers 5040-5.3-15.
#[test]
fn an_stag_is_invalidated_on_delivery() {
    for role in ROLES {
        for control in [0x44, 0x46] {
            let (world, peer) = open(role);
            let (inbox, window) = (filled(&world.side, 8), world.bound(&world.side.qp, 8));
            window.write(0, &[FILL; 8]).unwrap();
            world.side.post_recv(1, whole(&inbox));
            let (stag, to) = (window.rkey().0, window.addr());
            let mut first = any_send(control, stag, 1, b"ab");
            first[0] = 0x01;
            peer.send(&[fpdu(&first), fpdu(&write(stag, to, b"good"))].concat());
            world.expect_no_news();
            assert!(!window.is_invalidated());
            assert_eq!(content(&window)[..4], *b"good");
            let mut last = any_send(control, stag, 1, b"cd");
            last[17] = 2;
            peer.send(&fpdu(&last));
            let done = world.completion();
            assert_eq!((done.status, done.invalidated), (Status::Success, Some(stag)));
            assert!(window.is_invalidated());
            let late = write(stag, to, b"late");
            peer.send(&fpdu(&late));
            peer.expect(&fpdu(&terminate("1100", &late)));
            assert_eq!(content(&window)[..4], *b"good");
        }
    }
}

/// An unknown STag, another stream's, another domain's, and a local one of this stream: the message is not delivered,
/// and the STags stay valid.
// Covers 5040-5.3-14, 5040-5.3-15.
#[test]
fn an_unknown_or_foreign_stag_is_not_invalidated() {
    for role in ROLES {
        for control in [0x44, 0x46] {
            for case in 0..4 {
                let (world, peer) = open(role);
                let other = world.new_qp();
                let local = weft_rnic::Access::LOCAL_WRITE;
                let private = world.side.pd.register_for(&world.side.qp, 8, local).unwrap();
                let elsewhere = world.side.device.alloc_pd();
                let foreign = elsewhere.register(8, weft_rnic::Access::ALL).unwrap();
                let others = world.bound(&other, 8);
                let (foreign_stag, others_stag) = (foreign.rkey().0, others.rkey().0);
                let stag = [foreign_stag ^ 1, others_stag, foreign_stag, private.lkey().0][case];
                let inbox = filled(&world.side, 8);
                world.side.qp.post_recv(&RecvWr { wr_id: 1, sges: &[whole(&inbox)] }).unwrap();
                let bad = any_send(control, stag, 1, b"12345");
                peer.send(&fpdu(&bad));
                peer.expect(&fpdu(&terminate("0109", &bad)));
                peer.expect_fin();
                let cause = Cause::Peer(Rdmap::CannotInvalidate);
                assert_eq!(world.disconnected(), DisconnectReason::LocalTerminate(cause));
                assert_eq!(world.all_completions(), [(1, Status::WorkRequestFlushed)]);
                assert!([&foreign, &others, &private].iter().all(|memory| !memory.is_invalidated()));
                assert_eq!(content(&inbox), [FILL; 8]);
            }
        }
    }
}

/// A message in parts is taken as one.
// Covers 5040-5.3-2, 5040-3.1-3.
#[test]
fn the_parts_of_a_message_take_one_receive() {
    for role in ROLES {
        let (world, peer) = open(role);
        let inbox = filled(&world.side, 32);
        for wr_id in [1, 2] {
            world.side.post_recv(wr_id, inbox.sge(16 * usize::try_from(wr_id - 1).unwrap(), 16));
        }
        for (index, octet) in b"parts".iter().enumerate() {
            let control = if index == 4 { "41" } else { "01" };
            peer.send(&fpdu(&send_part(control, 1, u32::try_from(index).unwrap(), &[*octet])));
        }
        let done = world.completion();
        assert_eq!((done.wr_id, done.status, done.byte_len), (1, Status::Success, 5));
        world.expect_no_news();
        assert_eq!(content(&inbox), [&b"parts"[..], &[FILL; 27]].concat());
    }
}
