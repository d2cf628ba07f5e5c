//! Write with Immediate: an RDMA Write and Immediate Data behind it as one request (RFC 7306 section 6).

use weft_rnic::{CompletionOpcode, Data, PostError, RecvWr, SendOpcode, SendWr, Stag, Status};
use weft_tests::PairConfig;

use crate::immediate_data::immediate;
use crate::octets::{Place, fpdu, read_request, send, tagged, terminate, write};
use crate::world::{FILL, FLUSHED, ROLES, Role, content, filled, open, open_with, work};

const IMMEDIATE: [u8; 4] = [0xDE, 0xAD, 0xBE, 0xEF];
const SENT: [u8; 8] = [0xDE, 0xAD, 0xBE, 0xEF, 0, 0, 0, 0];
const WRITE: SendOpcode = SendOpcode::WriteImmediate { stag: Stag(0x100), to: 0x1000, immediate: IMMEDIATE };

/// Two messages and one completion; the four octets come first, as they are.
// Covers 7306-6.1-1, 7306-6.3-5, 7306-6.3-7.
#[test]
fn the_octets_sent() {
    for role in ROLES {
        let (world, peer) = open(role);
        let qp = &world.side.qp;
        qp.post_send(&work(1, WRITE, Data::Inline(b"data"))).unwrap();
        qp.post_send(&SendWr { solicited: true, ..work(2, WRITE, Data::Sges(&[])) }).unwrap();
        qp.post_send(&work(3, SendOpcode::Send, Data::Inline(b"hello"))).unwrap();
        peer.expect(&fpdu(&write(0x100, 0x1000, b"data")));
        peer.expect(&fpdu(&immediate(0x48, 1, &SENT)));
        peer.expect(&fpdu(&write(0x100, 0x1000, b"")));
        peer.expect(&fpdu(&immediate(0x49, 2, &SENT)));
        peer.expect(&fpdu(&send(3, b"hello")));
        for (wr_id, opcode) in
            [(1, CompletionOpcode::Write), (2, CompletionOpcode::Write), (3, CompletionOpcode::Send)]
        {
            let done = world.completion();
            assert_eq!((done.wr_id, done.status, done.opcode), (wr_id, Status::Success, opcode));
        }
        world.expect_no_news();
    }
}

/// The peer's Read Request comes while a long Write is sent: its answer waits until the Immediate Data is out.
// Covers 7306-6.3-7.
#[test]
fn no_answer_comes_between() {
    for role in ROLES {
        let (world, peer) = open_with(role, &PairConfig { tcp_buffer: 16 * 1024, ..PairConfig::default() });
        let source = filled(&world.side, 100_000);
        let sges = [source.sge(0, 100_000)];
        world.side.qp.post_send(&work(1, WRITE, Data::Sges(&sges))).unwrap();
        let mut len = 0;
        loop {
            let ulpdu = crate::octets::read_fpdu(&peer);
            if len == 0 {
                let ask = read_request(1, Place(9, 0), 8, Place(source.rkey().0, source.addr()));
                peer.send(&fpdu(&ask));
            }
            assert_eq!(ulpdu[1], 0x40, "a segment of the Write");
            len += ulpdu.len() - 14;
            if ulpdu[0] & 0x40 != 0 {
                break;
            }
        }
        assert_eq!(len, 100_000);
        peer.expect(&fpdu(&immediate(0x48, 1, &SENT)));
        peer.expect(&fpdu(&tagged("C142", 9, 0, &[FILL; 8])));
        let done = world.completion();
        assert_eq!((done.wr_id, done.status), (1, Status::Success));
    }
}

/// The receive counts the octets of Writes since the last message on a queue.
// Covers 7306-6.1-2, 7306-6.4-1.
#[test]
fn the_receive_tells_how_much_was_written() {
    for role in ROLES {
        let (world, peer) = open(role);
        let memory = filled(&world.side, 64);
        let (stag, to) = (memory.rkey().0, memory.addr());
        for wr_id in 1..=6 {
            world.side.qp.post_recv(&RecvWr { wr_id, sges: &[] }).unwrap();
        }
        let segments = [tagged("8140", stag, to, &[1; 20]), tagged("C140", stag, to + 20, &[2; 10])];
        let expect = |wr_id: u64, byte_len: u32| {
            let done = world.completion();
            assert_eq!((done.wr_id, done.opcode), (wr_id, CompletionOpcode::RecvWithImmediate));
            assert_eq!((done.immediate, done.byte_len), (Some(SENT), byte_len));
        };
        peer.send(
            &[segments.map(|segment| fpdu(&segment)).concat(), fpdu(&immediate(0x48, 1, &SENT))].concat(),
        );
        expect(1, 30);
        assert_eq!(content(&memory)[..31], [&[1; 20][..], &[2; 10], &[FILL]].concat());
        peer.send(&fpdu(&immediate(0x48, 2, &SENT)));
        expect(2, 0);
        // A Send in between, then two Writes, one of them empty and without valid memory.
        peer.send(&[fpdu(&write(stag, to, b"abc")), fpdu(&send(3, b""))].concat());
        assert_eq!(world.completion().opcode, CompletionOpcode::Recv);
        let writes = [write(stag, to, b"defg"), write(7, 7, b""), write(stag, to, b"hi")];
        peer.send(&[writes.map(|write| fpdu(&write)).concat(), fpdu(&immediate(0x49, 4, &SENT))].concat());
        expect(4, 6);
        // A Read Request in between.
        let ask = read_request(1, Place(9, 0), 4, Place(stag, to));
        peer.send(&[fpdu(&write(stag, to, b"abc")), fpdu(&ask), fpdu(&immediate(0x48, 5, &SENT))].concat());
        expect(5, 0);
        peer.expect(&fpdu(&tagged("C142", 9, 0, b"abcg")));
        // Octets that our own Read fetches do not count as written by the peer.
        let sges = [memory.sge(0, 4)];
        let read = SendOpcode::Read { stag: Stag(0x100), to: 0 };
        world.side.qp.post_send(&work(9, read, Data::Sges(&sges))).unwrap();
        peer.expect(&fpdu(&read_request(1, Place(stag, to), 4, Place(0x100, 0))));
        peer.send(&[fpdu(&tagged("C142", stag, to, b"read")), fpdu(&immediate(0x48, 6, &SENT))].concat());
        assert_eq!(world.completion().wr_id, 9);
        expect(6, 0);
    }
}

/// The peer refuses the Write while its Immediate Data waits for room in TCP. There is one completion, with the
/// peer's reason.
// Covers 7306-6.1-3.
#[test]
fn a_failure_in_the_middle_completes_it_once() {
    for role in ROLES {
        let config = PairConfig { tcp_buffer: 16 * 1024, ..PairConfig::default() };
        let (world, peer) = open_with(role, &config);
        let source = filled(&world.side, 1 << 20);
        let sges = [source.sge(0, 1 << 20)];
        world.side.qp.post_send(&work(1, WRITE, Data::Sges(&sges))).unwrap();
        world.side.qp.post_send(&work(2, WRITE, Data::Inline(b"more"))).unwrap();
        assert_eq!(crate::octets::read_fpdu(&peer)[1], 0x40);
        peer.send(&fpdu(&terminate("1100", &write(0x100, 0x1000, b""))));
        assert_eq!(world.all_completions(), [(1, Status::RemoteAccess), (2, FLUSHED)]);
        let ended = world.disconnected();
        assert!(
            matches!(ended, weft_rnic::DisconnectReason::PeerTerminate { code: (1, 1, 0), .. }),
            "{ended:?}"
        );
    }
}

#[test]
fn a_device_without_the_extensions_refuses_it() {
    let config = PairConfig { extensions: false, ..PairConfig::default() };
    let (world, _peer) = open_with(Role::Passive, &config);
    let posted = world.side.qp.post_send(&work(1, WRITE, Data::Inline(b"x")));
    assert_eq!(posted, Err(PostError::Unsupported));
}

/// The Write goes out to a peer without Immediate Data as well, and the peer's Terminate comes back.
#[test]
fn a_peer_without_the_extensions_ends_the_stream() {
    let (world, peer) = open(Role::Active);
    world.side.qp.post_send(&work(1, WRITE, Data::Inline(b"x"))).unwrap();
    peer.expect(&fpdu(&write(0x100, 0x1000, b"x")));
    peer.expect(&fpdu(&immediate(0x48, 1, &SENT)));
    peer.send(&fpdu(&terminate("0206", &immediate(0x48, 1, &SENT))));
    assert_eq!(world.all_completions(), [(1, Status::Success)]);
    let ended = world.disconnected();
    assert!(matches!(ended, weft_rnic::DisconnectReason::PeerTerminate { code: (0, 2, 6), .. }), "{ended:?}");
}
