//! The beginning and the end of Full Operation: waits, graceful closes, half closes and losses (RFC 5044 sections
//! 7.1.2, 7.2 and 8).

use weft_mpa::{Error as Mpa, StartupError};
use weft_netif::{Duration, ImpairmentConfig, LlpState};
use weft_rnic::{
    Cause, CmError, CmEvent, ConnParam, ConnectFailure, Data, DisconnectReason, QpInit, QpState, SendOpcode,
    Status,
};
use weft_tests::{Pair, PairConfig, hex};

use crate::frames::{Bench, Opening};
use crate::octets::{Framing, bare_terminate, fpdu, join, pattern, send, vector, write};
use crate::world::{FILL, FLUSHED, ROLES, Role, World, content, exchange, filled, whole, work};

/// A responder sends nothing before it has the Request, and nothing before its application has decided. An initiator
/// sends nothing behind its Request before it has the Reply.
// Covers 5044-7.1.2-1, 5044-7.1.2-3, 5044-7.1.2-11, 5044-7.1.1-1.
#[test]
fn each_frame_is_waited_for() {
    let world = World::new();
    let peer = world.dial();
    let request = vector("mpa-req1");
    for part in [&request[..1], &request[1..19]] {
        peer.expect_silence();
        peer.send(part);
    }
    peer.expect_silence();
    world.expect_no_news();
    peer.send(&request[19..]);
    let id = world.request().id;
    peer.expect_silence();
    assert_eq!(world.side.qp.state(), QpState::Idle);
    world.side.device.accept(id, &world.side.qp, ConnParam::default()).unwrap();
    peer.expect(&vector("mpa-rep1"));

    let world = World::with_mpa(weft_mpa::Config { enhanced: false, ..weft_mpa::Config::default() });
    let remote = world.address_of_peer();
    let (device, qp) = (&world.side.device, &world.side.qp);
    device.connect(&world.side.events, qp, remote, ConnParam::default()).unwrap();
    let peer = world.host.accept();
    peer.expect(&vector("mpa-req1"));
    let reply = vector("mpa-rep1");
    for part in [&reply[..1], &reply[1..19]] {
        peer.expect_silence();
        peer.send(part);
    }
    peer.expect_silence();
    assert_ne!(qp.state(), QpState::Rts);
    peer.send(&reply[19..]);
    assert!(matches!(world.event(), CmEvent::Established { .. }));
    qp.post_send(&work(1, SendOpcode::Send, Data::Inline(b"hello"))).unwrap();
    peer.expect(&vector("send5"));
}

/// The application decides about the reject bit.
// Covers 5044-7.1.1-3, 5044-7.1.1-13, 5044-7.1.2-5, 5044-7.1.2-6.
#[test]
fn replies_octet_for_octet() {
    for (data, accepted, rejected) in
        [(&b""[..], "40 01 0000", "60 01 0000"), (b"no", "40 01 0002 6E6F", "60 01 0002 6E6F")]
    {
        for (reply, accepts) in [(accepted, true), (rejected, false)] {
            let world = World::new();
            let peer = world.dial();
            peer.send(&vector("mpa-req1"));
            let id = world.request().id;
            if accepts {
                let param = ConnParam { private_data: data, ..ConnParam::default() };
                world.side.device.accept(id, &world.side.qp, param).unwrap();
            } else {
                world.side.device.reject(id, data).unwrap();
            }
            peer.expect(&join("4D504120494420526570204672616D65", &[&hex(reply)]));
            assert_eq!(world.side.qp.state() == QpState::Rts, accepts);
        }
    }
}

/// The stream of DDP is a queue pair: without a free one there is no Full Operation, and the Request stays unanswered.
// Covers 5044-7.1-6.
#[test]
fn full_operation_needs_a_queue_pair() {
    let world = World::new();
    let first = world.establish(Role::Passive);
    let peer = world.dial();
    peer.send(&vector("mpa-req1"));
    let id = world.request().id;
    let busy = world.side.device.accept(id, &world.side.qp, ConnParam::default());
    assert_eq!(busy, Err(CmError::QpBusy));
    let remote = world.address_of_peer();
    let busy = world.side.device.connect(&world.side.events, &world.side.qp, remote, ConnParam::default());
    assert_eq!(busy, Err(CmError::QpBusy));
    peer.expect_silence();
    // A Send reaches no memory as long as no queue pair is bound.
    peer.send(&vector("send5"));
    world.expect_no_news();
    let other = world.new_qp();
    let memory = world.side.memory(8);
    other.post_recv(&weft_rnic::RecvWr { wr_id: 1, sges: &[whole(&memory)] }).unwrap();
    world.side.device.accept(id, &other, ConnParam::default()).unwrap();
    peer.expect(&vector("mpa-rep1"));
    assert!(matches!(world.event(), CmEvent::Established { qp_num, .. } if qp_num == other.number()));
    assert_eq!((world.completion().byte_len, &content(&memory)[..5]), (5, &b"hello"[..]));
    exchange(&world, &world.side.qp, &first, 1);
}

/// DDP and RDMAP are of version 1 in both directions, whichever revision of MPA was agreed on.
// Covers 5044-3-12, 5044-C.1-1.
#[test]
fn one_version_of_ddp_and_rdmap_with_each_revision() {
    let data = |world: &World, peer: &weft_tests::RawPeer| {
        assert!(matches!(world.event(), CmEvent::Established { .. }));
        peer.send(&vector("write0"));
        world.side.qp.post_send(&work(1, SendOpcode::Send, Data::Inline(b"hello"))).unwrap();
        let octets = peer.read_exact(32);
        assert_eq!((octets[2] & 0x03, octets[3] & 0xC0), (0x01, 0x40));
        assert_eq!(world.completion().status, Status::Success);
        // The version before the RFCs is refused.
        let mut old = send(1, b"");
        old[0] &= !0x03;
        peer.send(&fpdu(&old));
        peer.expect(&fpdu(&crate::octets::terminate("1206", &old)));
    };
    for request in ["mpa-req1", "mpa-req2-cs"] {
        let world = World::new();
        let peer = world.dial();
        peer.send(&vector(request));
        let id = world.request().id;
        world.side.device.accept(id, &world.side.qp, ConnParam::default()).unwrap();
        let reply = peer.read_exact(if request == "mpa-req1" { 20 } else { 24 });
        assert_eq!(reply[17], vector(request)[17]);
        data(&world, &peer);
    }
    for (enhanced, reply) in [(false, "40 01 0000"), (true, "50 02 0004 0010 0010")] {
        let world = World::with_mpa(weft_mpa::Config { enhanced, ..weft_mpa::Config::default() });
        let remote = world.address_of_peer();
        world.side.device.connect(&world.side.events, &world.side.qp, remote, ConnParam::default()).unwrap();
        let peer = world.host.accept();
        assert_eq!(peer.read_exact(if enhanced { 24 } else { 20 })[17], 1 + u8::from(enhanced));
        peer.send(&join("4D504120494420526570204672616D65", &[&hex(reply)]));
        data(&world, &peer);
    }
}

/// The device closes while it still has octets to send. FIN comes behind a whole FPDU, and the peer's half ends when
/// the peer closes it.
// Covers 5044-7.2-1.
#[test]
fn a_graceful_close_is_at_the_end_of_an_fpdu() {
    for role in ROLES {
        for markers in [false, true] {
            let crc = crate::negotiation::Wish { markers: false, crc: true };
            let wish = crate::negotiation::Wish { markers, crc: true };
            let (world, peer) = crate::negotiation::start(role, crc, wish);
            peer.send(&fpdu(&write(0, 0, b"")));
            let memory = world.side.memory(1 << 20);
            peer.set_reading(false);
            world.side.qp.post_send(&work(1, SendOpcode::Send, Data::Sges(&[whole(&memory)]))).unwrap();
            world.settle();
            world.side.qp.disconnect().unwrap();
            peer.set_reading(true);
            let stream = peer.read_to_fin();
            assert!(stream.len() > 100_000 && stream.len() < 1 << 20);
            let mut framing = Framing::new(true, markers);
            let (mut end, mut offset) = (0, 0);
            let max = weft_mpa::mulpdu(1460, markers) - 18;
            while end < stream.len() {
                let octets = framing.fpdu(&crate::octets::send_part("01", 1, offset, &vec![0; max]));
                assert!(stream[end..].starts_with(&octets), "an FPDU that is not whole at {end}");
                end += octets.len();
                offset += u32::try_from(max).unwrap();
            }
            assert_eq!((peer.state(), world.side.qp.state()), (LlpState::PeerClosed, QpState::Closing));
            peer.close();
            assert_eq!(world.disconnected(), DisconnectReason::Local);
            assert_eq!(world.all_completions(), [(1, FLUSHED)]);
        }
    }
}

/// FIN in the same segment as octets. Behind a whole FPDU it is a close, anywhere else an error. Whole FPDUs before
/// it count in both cases.
// Covers 5044-8-1, 5044-7.2-2, 5044-3-11.
#[test]
fn fin_behind_every_octet_of_an_fpdu() {
    for markers in [false, true] {
        let mut framing = Framing::new(true, markers);
        let first = framing.fpdu(&send(1, b"first"));
        let second = framing.fpdu(&send(2, b"second"));
        for cut in 0..=second.len() {
            let mpa = weft_mpa::Config { markers, ..weft_mpa::Config::default() };
            let mut bench = Bench::new(&PairConfig { mpa, ..PairConfig::default() });
            bench.establish(Opening::USUAL, 0x40);
            let memory = filled(&bench.side, 32);
            bench.side.post_recv(1, memory.sge(0, 16));
            bench.side.post_recv(2, memory.sge(16, 16));
            bench.peer.send_with_fin(&[&first, &second[..cut]].concat());
            let done = [bench.completion(), bench.completion()].map(|done| (done.wr_id, done.status));
            let is_whole = cut == second.len();
            assert_eq!(done, [(1, Status::Success), (2, if is_whole { Status::Success } else { FLUSHED })]);
            let CmEvent::Disconnected { reason, .. } = bench.event() else { panic!("not disconnected") };
            let is_graceful = cut == 0 || is_whole;
            let expected = if is_graceful { DisconnectReason::Peer } else { DisconnectReason::Lost };
            assert_eq!(reason, expected, "{cut} octets of {}", second.len());
            assert_eq!(content(&memory)[16..22] == *b"second", is_whole);
            bench.peer.settle(Duration::from_secs(1));
            assert!(bench.peer.is_finished && !bench.peer.is_reset, "the device's half ends by FIN too");
        }
    }
}

/// RST in the middle of an FPDU and between two, and a peer that acknowledges no more segments: all requests are
/// flushed.
// Covers 5044-8-1.
#[test]
fn a_lost_connection_is_noticed() {
    for (octets, role) in [(0, Role::Passive), (9, Role::Active), (31, Role::Passive)] {
        let world = World::new();
        let peer = world.establish(role);
        let memory = filled(&world.side, 16);
        world.side.post_recv(1, whole(&memory));
        peer.send(&vector("send5")[..octets]);
        world.settle();
        peer.abort();
        assert_eq!(world.disconnected(), DisconnectReason::Lost);
        assert_eq!(world.all_completions(), [(1, FLUSHED)]);
        assert_eq!(content(&memory), [FILL; 16]);
        assert_eq!(Mpa::Closed.code(), 0x01);
    }
    let mut bench = Bench::new(&PairConfig::default());
    bench.establish(Opening::USUAL, 0x40);
    bench.peer.send(&vector("write0"));
    bench.peer.is_mute = true;
    let memory = filled(&bench.side, 16);
    bench.side.post_recv(1, whole(&memory));
    for wr_id in [2, 3] {
        bench.side.qp.post_send(&work(wr_id, SendOpcode::Send, Data::Sges(&[whole(&memory)]))).unwrap();
    }
    let CmEvent::Disconnected { reason, .. } = bench.event() else { panic!("not disconnected") };
    assert_eq!(reason, DisconnectReason::TimedOut);
    // A Send is complete when TCP has its octets. It does not promise that the peer gets them.
    let done = [0; 3].map(|_| bench.completion()).map(|done| (done.wr_id, done.status));
    assert!(done.contains(&(1, FLUSHED)), "{done:?}");
    bench.peer.settle(Duration::from_secs(1));
    assert!(bench.peer.is_reset);
    assert_eq!(bench.side.qp.state(), QpState::Error);
}

/// After any error in the stream, no later FPDU counts. TCP is closed by FIN after the Terminate, and not by a reset
/// of MPA.
// Covers 5044-8-12, 5044-8-11, 5044-8-5.
#[test]
fn errors_leave_tcp_open_for_the_terminate() {
    for role in ROLES {
        for (code, is_crc) in [("2002", true), ("2003", false)] {
            let marked = crate::negotiation::Wish { markers: true, crc: true };
            let plain = crate::negotiation::Wish { markers: false, crc: true };
            let (world, peer) = crate::negotiation::start(role, marked, plain);
            let target = filled(&world.side, 600);
            let mut framing = Framing::new(true, true);
            peer.send(&framing.fpdu(&write(0, 0, b"")));
            // The window is closed and the send buffer full: the Terminate and the close have to wait.
            peer.set_reading(false);
            let memory = world.side.memory(300_000);
            world.side.qp.post_send(&work(1, SendOpcode::Send, Data::Sges(&[whole(&memory)]))).unwrap();
            world.settle();
            let ulpdu = write(target.rkey().0, target.addr(), &pattern(600));
            let mut bad = framing.fpdu_with_markers(&ulpdu, |pointer| if is_crc { pointer } else { 0 });
            bad[20] ^= u8::from(is_crc);
            let good = framing.fpdu(&write(target.rkey().0, target.addr(), b"good"));
            peer.send(&[bad, good].concat());
            let CmEvent::Disconnected { reason, .. } = world.event() else { panic!("not disconnected") };
            let DisconnectReason::LocalTerminate(Cause::Mpa(error)) = reason else { panic!("{reason:?}") };
            assert_eq!(error.code(), hex(code)[1]);
            world.settle();
            assert_eq!(peer.state(), LlpState::Established);
            peer.set_reading(true);
            let stream = peer.read_to_fin();
            assert!(stream.ends_with(&fpdu(&bare_terminate(code))), "{code}");
            assert_eq!(content(&target), [FILL; 600]);
            peer.close();
            world.settle();
            assert_eq!(peer.state(), LlpState::Closed);
        }
    }
}

/// These codes cannot be told to the peer: TCP is gone, or is not in Full Operation yet.
// Covers 5044-8-4, 5044-7.1.1-4.
#[test]
fn an_invalid_reply_is_error_4() {
    let world = World::new();
    let remote = world.address_of_peer();
    for reply in [vector("mpa-req1"), b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(), vec![0; 20]] {
        world.side.device.connect(&world.side.events, &world.side.qp, remote, ConnParam::default()).unwrap();
        let peer = world.host.accept();
        peer.read_exact(24);
        peer.send(&reply);
        let ConnectFailure::Protocol(error) = world.connect_error() else { panic!("not the protocol") };
        assert_eq!((error, error.code()), (Mpa::Startup(StartupError::Key), 0x04));
        peer.expect_fin();
    }
}

/// Frames are lost, doubled and reordered from TCP's first segment on, and MPA does not notice.
// Covers 5044-7.1.5-4, 5044-A.4-1.
#[test]
fn startup_on_a_bad_wire() {
    for seed in 1..=20 {
        let faults = ImpairmentConfig {
            loss: 0.15,
            duplicate: 0.15,
            reorder: 0.3,
            jitter: Duration::from_micros(500),
            ..ImpairmentConfig::default()
        };
        let mpa = weft_mpa::Config { markers: seed % 2 == 0, ..weft_mpa::Config::default() };
        let mut pair = Pair::new(&PairConfig { seed, faults, mpa, ..PairConfig::default() });
        let data = pattern(508);
        let (remote, param) =
            (pair.address_of_b(), ConnParam { private_data: &data, ..ConnParam::default() });
        pair.a.device.connect(&pair.a.events, &pair.a.qp, remote, param).unwrap();
        let CmEvent::ConnectRequest(request) = pair.event_of_b() else { panic!("seed {seed}: no request") };
        assert_eq!(request.private_data[..], data);
        pair.b.device.accept(request.id, &pair.b.qp, param).unwrap();
        let CmEvent::Established { private_data, .. } = pair.event_of_a() else { panic!("seed {seed}") };
        assert_eq!(private_data[..], data);
        let (source, sink) = (pair.a.memory(30_000), pair.b.memory(30_000));
        source.write(0, &pattern(30_000)).unwrap();
        pair.b.post_recv(1, whole(&sink));
        pair.a.qp.post_send(&work(2, SendOpcode::Send, Data::Sges(&[whole(&source)]))).unwrap();
        let done = pair.completion_of_b();
        assert_eq!((done.status, done.byte_len), (Status::Success, 30_000), "seed {seed}");
        assert!(content(&sink) == pattern(30_000), "seed {seed}");
    }
}

/// A responder has an error of its own before it has received an FPDU. It may send none, not even a Terminate, so that
/// the peer gets only FIN. The application learns the cause.
// Covers 5044-7.1.2-15.
#[test]
fn a_responder_without_an_fpdu_sends_only_fin() {
    for (request, reply) in [("mpa-req1", 20), ("mpa-req2", 24)] {
        let world = World::new();
        let side = &world.side;
        let small = side.device.create_cq(1, None).unwrap();
        let init = QpInit { signal_all: true, ..QpInit::new(&small, &small) };
        let [culprit, victim] = [(); 2].map(|()| side.device.create_qp(&side.pd, &init).unwrap());
        let _first = world.establish_with(Role::Active, &culprit, ConnParam::default());
        let peer = world.dial();
        peer.send(&vector(request));
        side.device.accept(world.request().id, &victim, ConnParam::default()).unwrap();
        assert_eq!(peer.read_exact(reply)[..16], *b"MPA ID Rep Frame");
        assert!(matches!(world.event(), CmEvent::Established { .. }));
        for _ in 0..=small.capacity() {
            culprit.post_send(&work(1, SendOpcode::Send, Data::Inline(b""))).unwrap();
        }
        peer.expect_fin();
        for _ in 0..2 {
            let CmEvent::Disconnected { reason, .. } = world.event() else { panic!("not disconnected") };
            assert_eq!(reason, DisconnectReason::LocalTerminate(Cause::CompletionQueueOverrun));
        }
        // An FPDU comes too late to change that.
        peer.send(&vector("write0"));
        peer.close();
        world.expect_no_news();
        assert_eq!((peer.take(), victim.state()), (vec![], QpState::Error));
    }
}

/// The peer's sequence numbers pass 2^32 around and inside an FPDU: Markers count octets of the stream.
// Covers 5044-4.3-6.
#[test]
fn markers_do_not_depend_on_the_wrap_of_sequence_numbers() {
    for before in [0, 3, 4, 20, 511, 512, 513, 700, 1500] {
        let mpa = weft_mpa::Config { markers: true, ..weft_mpa::Config::default() };
        let mut bench = Bench::new(&PairConfig { mpa, ..PairConfig::default() });
        // One for SYN, twenty for the Request.
        let isn = u32::MAX - 20 - before;
        bench.establish(Opening { isn, ..Opening::USUAL }, 0xC0);
        let memory = bench.side.memory(1400);
        bench.side.post_recv(1, whole(&memory));
        bench.side.post_recv(2, whole(&memory));
        let mut framing = Framing::new(true, true);
        bench.peer.send(&framing.fpdu(&send(1, &pattern(1400))));
        assert_eq!(bench.completion().status, Status::Success, "{before}");
        assert_eq!(content(&memory), pattern(1400));
        bench.peer.send(&framing.fpdu(&send(2, &pattern(700))));
        assert_eq!(bench.completion().byte_len, 700);
        assert!(isn.checked_add(u32::try_from(bench.peer.sent()).unwrap()).is_none(), "no wrap");
    }
}
