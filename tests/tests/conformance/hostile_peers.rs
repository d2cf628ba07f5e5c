//! Peers that take more than their share, never answer or never read: the cost for the others (RFC 5042 section 6.4).

use weft_netif::{Duration, LlpState};
use weft_rnic::{
    Cause, CmEvent, Completion, ConnParam, Cq, Data, DisconnectReason, Qp, QpCapacity, QpInit, QpState,
    RecvWr, SendOpcode, Stag, Status,
};
use weft_tests::{PairConfig, RawPeer, hex};

use crate::handshake::{DEFAULT, REPLY, REQUEST, ask, connect};
use crate::octets::{
    Framing, Place, fpdu, join, pattern, read_request, send, tagged, terminate, vector, write,
};
use crate::world::{FLUSHED, Role, World, content, filled, whole, work};

/// Makes a queue pair of small queues whose completions are in `cq`, in Full Operation. Its peer has sent its first
/// FPDU.
fn stream(world: &World, cq: &Cq, role: Role) -> (Qp, RawPeer) {
    let capacity = QpCapacity { send_wr: 8, recv_wr: 8, ..QpCapacity::default() };
    let init = QpInit { capacity, signal_all: true, ..QpInit::new(cq, cq) };
    let qp = world.side.device.create_qp(&world.side.pd, &init).unwrap();
    let peer = world.establish_with(role, &qp, ConnParam::default());
    peer.send(&vector("write0"));
    (qp, peer)
}

fn drain(cq: &Cq) -> Vec<Completion> {
    core::iter::from_fn(|| cq.poll_one()).collect()
}

/// The stream of `qp` has ended for this reason, and no other one has.
fn expect_end(world: &World, qp: &Qp, reason: DisconnectReason) {
    assert_eq!(world.event(), CmEvent::Disconnected { qp_num: qp.number(), reason });
    assert_eq!(world.side.events.next(), None);
}

/// Sends, Writes and Reads, octet by octet, between `qp` and its peer. The peer has sent `before` Sends and as many
/// Read Requests, the device as many Sends.
fn expect_unaffected(world: &World, qp: &Qp, cq: &Cq, peer: &RawPeer, before: u32) {
    let memory = world.side.memory(96);
    let octets = pattern(32);
    let Place(stag, to) = Place(memory.rkey().0, memory.addr());
    qp.post_recv(&RecvWr { wr_id: 41, sges: &[memory.sge(0, 32)] }).unwrap();
    peer.send(&fpdu(&send(before + 1, &octets)));
    peer.send(&fpdu(&write(stag, to + 32, &octets)));
    peer.send(&fpdu(&read_request(before + 1, Place(9, 0), 32, Place(stag, to + 32))));
    peer.expect(&fpdu(&tagged("C142", 9, 0, &octets)));
    qp.post_send(&work(42, SendOpcode::Send, Data::Sges(&[memory.sge(0, 32)]))).unwrap();
    peer.expect(&fpdu(&send(before + 1, &octets)));
    world.settle();
    let done: Vec<_> = drain(cq).iter().map(|done| (done.wr_id, done.status, done.qp_num)).collect();
    assert_eq!(done, [41, 42].map(|wr_id| (wr_id, Status::Success, qp.number())));
    assert_eq!(content(&memory), [&octets[..], &octets, &[0; 32]].concat());
    assert_eq!(qp.state(), QpState::Rts);
}

/// Each stream has its own receives: a peer that sends more than those uses up its own ones only.
// Covers 5042-6.4.3.1-1.
#[test]
fn a_peer_that_takes_all_receives() {
    for role in [Role::Passive, Role::Active] {
        let world = World::new();
        let cqs = [(); 2].map(|()| world.side.device.create_cq(64, None).unwrap());
        let (greedy, peer) = stream(&world, &cqs[0], role);
        let (modest, modest_peer) = stream(&world, &cqs[1], role);
        let memory = world.side.memory(8);
        for wr_id in 0..8 {
            greedy.post_recv(&RecvWr { wr_id, sges: &[memory.sge(0, 1)] }).unwrap();
            modest.post_recv(&RecvWr { wr_id: 10 + wr_id, sges: &[memory.sge(0, 1)] }).unwrap();
        }
        peer.send(&(1..=20).flat_map(|msn| fpdu(&send(msn, b"x"))).collect::<Vec<_>>());
        peer.expect(&fpdu(&terminate("1202", &send(9, b"x"))));
        peer.expect_fin();
        let cause = Cause::Peer(weft_ddp::Error::NoBuffer.into());
        expect_end(&world, &greedy, DisconnectReason::LocalTerminate(cause));
        // The application sees how many receives each stream took, and that the other one's are all left.
        let taken = drain(&cqs[0]);
        assert_eq!(taken.len(), 8);
        assert!(taken.iter().all(|done| done.qp_num == greedy.number() && done.status == Status::Success));
        assert_eq!(drain(&cqs[1]), []);
        modest_peer.send(&(1..=8).flat_map(|msn| fpdu(&send(msn, b"x"))).collect::<Vec<_>>());
        world.settle();
        let taken: Vec<_> = drain(&cqs[1]).iter().map(|done| (done.wr_id, done.status)).collect();
        assert_eq!(taken, (10..18).map(|wr_id| (wr_id, Status::Success)).collect::<Vec<_>>());
    }
}

/// Each stream has its own places for Reads. One peer takes all of its places, and reads no answer. The others are
/// served. One Read more ends its stream, and no other one.
// Covers 5042-6.4.3.3-1, 5042-6.4.3.3-3, 5042-A-3.
#[test]
fn a_peer_that_takes_all_places_for_reads() {
    for role in [Role::Passive, Role::Active] {
        let world = World::new();
        let cq = world.side.device.create_cq(64, None).unwrap();
        let (greedy, peer) = stream(&world, &cq, role);
        let (modest, modest_peer) = stream(&world, &cq, role);
        let source = filled(&world.side, 1 << 20);
        let request = |msn| read_request(msn, Place(9, 0), 1 << 20, Place(source.rkey().0, source.addr()));
        peer.set_reading(false);
        peer.send(&(1..=16).flat_map(|msn| fpdu(&request(msn))).collect::<Vec<_>>());
        world.settle();
        assert_eq!(greedy.state(), QpState::Rts);
        expect_unaffected(&world, &modest, &cq, &modest_peer, 0);
        peer.send(&fpdu(&request(17)));
        let cause = Cause::Peer(weft_ddp::Error::NoBuffer.into());
        expect_end(&world, &greedy, DisconnectReason::LocalTerminate(cause));
        peer.set_reading(true);
        let all = peer.read_to_fin();
        assert!(all.ends_with(&fpdu(&terminate("1202", &request(17)))));
        expect_unaffected(&world, &modest, &cq, &modest_peer, 1);
    }
}

/// More completions than a queue holds: the streams that use it come down, and those that do not notice nothing.
// Covers 5042-6.4.6-1, 5042-6.4.6-2.
#[test]
fn a_peer_that_overruns_a_completion_queue() {
    for role in [Role::Passive, Role::Active] {
        let world = World::new();
        let cqs = [4, 64].map(|entries| world.side.device.create_cq(entries, None).unwrap());
        let (victim, peer) = stream(&world, &cqs[0], role);
        let (other, other_peer) = stream(&world, &cqs[1], role);
        expect_unaffected(&world, &other, &cqs[1], &other_peer, 0);
        for wr_id in 0..8 {
            victim.post_recv(&RecvWr { wr_id, sges: &[] }).unwrap();
        }
        peer.send(&(1..=8).flat_map(|msn| fpdu(&send(msn, b""))).collect::<Vec<_>>());
        peer.expect(&vector("term-localcat"));
        peer.expect_fin();
        assert!(cqs[0].is_overrun() && !cqs[1].is_overrun());
        expect_end(&world, &victim, DisconnectReason::LocalTerminate(Cause::CompletionQueueOverrun));
        for round in 1..5 {
            expect_unaffected(&world, &other, &cqs[1], &other_peer, round);
        }
    }
}

/// Streams of peers that do not trust each other share a queue with the size of the formula in section 6.4.3.2. They
/// can fill all that was posted, and break in the middle of it, and no completion is lost.
// Covers 5042-6.4.3.2-2.
#[test]
fn a_shared_completion_queue_of_the_right_size_does_not_overrun() {
    for role in [Role::Passive, Role::Active] {
        let world = World::new();
        let cq = world.side.device.create_cq(3 * (8 + 8), None).unwrap();
        let streams = [(); 3].map(|()| stream(&world, &cq, role));
        for (qp, _) in &streams {
            for wr_id in 0..8 {
                qp.post_recv(&RecvWr { wr_id, sges: &[] }).unwrap();
                qp.post_send(&work(8 + wr_id, SendOpcode::Send, Data::Inline(b"x"))).unwrap();
            }
            assert!(qp.post_recv(&RecvWr { wr_id: 99, sges: &[] }).is_err(), "the queues are full");
            assert!(qp.post_send(&work(99, SendOpcode::Send, Data::Inline(b"x"))).is_err());
        }
        let most = (1..=8).flat_map(|msn| fpdu(&send(msn, b""))).collect::<Vec<_>>();
        streams[0].1.send(&most);
        streams[1].1.send(&most[..5 * 24]);
        streams[1].1.send(&fpdu(&send(77, b"")));
        streams[2].1.abort();
        world.settle();
        assert!(!cq.is_overrun());
        let done = drain(&cq);
        for (qp, _) in &streams {
            let mut ids: Vec<_> =
                done.iter().filter(|done| done.qp_num == qp.number()).map(|done| done.wr_id).collect();
            ids.sort_unstable();
            assert_eq!(ids, (0..16).collect::<Vec<_>>());
        }
    }
}

/// More connections than the backlog holds never send a Request. The oldest are dropped, so that connections with a
/// Request are served. Established ones go on. After the startup timeout none of the silent ones is left.
// Covers 5042-6.4.1-1.
#[test]
fn connections_that_never_send_a_request() {
    let world = World::new();
    let cq = world.side.device.create_cq(64, None).unwrap();
    let (qp, peer) = stream(&world, &cq, Role::Passive);
    let backlog = 128;
    let silent: Vec<_> = (0..backlog + 4).map(|_| world.dial()).collect();
    world.settle();
    let state = |state| silent.iter().filter(|peer| peer.state() == state).count();
    assert_eq!((state(LlpState::Established), state(LlpState::Reset)), (backlog, 4));
    assert!(silent[..4].iter().all(|peer| peer.state() == LlpState::Reset));
    expect_unaffected(&world, &qp, &cq, &peer, 0);
    assert_eq!(world.side.events.next(), None);
    world.expect_service();
    assert_eq!(state(LlpState::Established), backlog - 1);
    world.host.settle(Duration::from_secs(41));
    assert_eq!(state(LlpState::Reset), backlog + 4);
    expect_unaffected(&world, &qp, &cq, &peer, 1);
    world.expect_service();
}

/// A Request whose length exceeds a frame is refused at its length, and a slow one is given up. No peer makes the
/// device keep more than a frame.
#[test]
fn private_data_is_never_more_than_a_frame_holds() {
    let world = World::new();
    let peer = ask(&world, &join(REQUEST, &[&hex("40 01 FFFF"), &[0xEE; 3000]]));
    peer.expect_fin();
    let peer = connect(&world, ConnParam::default());
    peer.expect(&join(REQUEST, &[&hex(DEFAULT)]));
    peer.send(&join(REPLY, &[&hex("50 02 FFFF"), &[0xEE; 3000]]));
    assert!(matches!(world.event(), CmEvent::ConnectError { .. }));
    peer.expect_fin();
    world.expect_no_news();
    world.expect_service();
}

/// Reads that are never answered stay within the agreed number and delay no others. They are flushed when the
/// application disconnects.
#[test]
fn a_peer_that_never_answers() {
    for role in [Role::Passive, Role::Active] {
        let world = World::new();
        let cqs = [(); 2].map(|()| world.side.device.create_cq(64, None).unwrap());
        let (qp, peer) = stream(&world, &cqs[0], role);
        let (other, other_peer) = stream(&world, &cqs[1], role);
        let sink = filled(&world.side, 8);
        let read = SendOpcode::Read { stag: Stag(0x100), to: 0x1000 };
        for wr_id in 0..8 {
            qp.post_send(&work(wr_id, read, Data::Sges(&[whole(&sink)]))).unwrap();
            qp.post_recv(&RecvWr { wr_id: 10 + wr_id, sges: &[] }).unwrap();
        }
        world.host.settle(Duration::from_secs(3600));
        assert_eq!((qp.state(), drain(&cqs[0])), (QpState::Rts, vec![]));
        expect_unaffected(&world, &other, &cqs[1], &other_peer, 0);
        let start = world.host.now();
        qp.disconnect().unwrap();
        let _requests = peer.read_exact(8 * 52);
        peer.expect_fin();
        // A late answer does not reach memory that the application owns again.
        peer.send(&fpdu(&tagged("C142", sink.lkey().0, sink.addr(), b"too late")));
        expect_end(&world, &qp, DisconnectReason::Local);
        assert!(world.host.now() - start <= Duration::from_secs(21));
        let flushed: Vec<_> = drain(&cqs[0]).iter().map(|done| (done.wr_id, done.status)).collect();
        assert_eq!(flushed, (0..8).chain(10..18).map(|wr_id| (wr_id, FLUSHED)).collect::<Vec<_>>());
        assert_eq!(content(&sink), [crate::world::FILL; 8]);
        expect_unaffected(&world, &other, &cqs[1], &other_peer, 1);
    }
}

/// Teardown in all ways, with requests of all kinds posted: every request is flushed once.
#[test]
fn everything_is_flushed_whatever_the_peer_does() {
    let ways: [fn(&RawPeer); 5] = [
        RawPeer::close,
        RawPeer::abort,
        |peer| peer.send(&fpdu(&crate::octets::bare_terminate("0000"))),
        |peer| peer.send(&fpdu(&send(9, b""))),
        |peer| {
            peer.send(&hex("0010"));
            peer.close();
        },
    ];
    for role in [Role::Passive, Role::Active] {
        for way in ways {
            let world = World::new();
            let cq = world.side.device.create_cq(64, None).unwrap();
            let (qp, peer) = stream(&world, &cq, role);
            let (memory, sink) = (filled(&world.side, 1 << 20), filled(&world.side, 8));
            peer.set_reading(false);
            let read = SendOpcode::Read { stag: Stag(0x100), to: 0x1000 };
            qp.post_send(&work(0, read, Data::Sges(&[whole(&sink)]))).unwrap();
            for wr_id in 1..8 {
                let opcode = SendOpcode::Write { stag: Stag(0x100), to: 0x1000 };
                qp.post_send(&work(wr_id, opcode, Data::Sges(&[whole(&memory)]))).unwrap();
                qp.post_recv(&RecvWr { wr_id: 10 + wr_id, sges: &[whole(&sink)] }).unwrap();
            }
            world.settle();
            way(&peer);
            world.host.settle(Duration::from_secs(100));
            assert!(matches!(world.event(), CmEvent::Disconnected { .. }));
            let mut done: Vec<_> = drain(&cq).iter().map(|done| (done.wr_id, done.status)).collect();
            done.sort_unstable_by_key(|(wr_id, _)| *wr_id);
            assert_eq!(done, (0..8).chain(11..18).map(|wr_id| (wr_id, FLUSHED)).collect::<Vec<_>>());
            assert_eq!((qp.state(), content(&sink)), (QpState::Error, vec![crate::world::FILL; 8]));
            world.expect_service();
        }
    }
}

/// FPDUs are built in buffers that held other octets before. A peer finds none of these between messages, in padding,
/// in Markers and in an unused CRC field.
#[test]
fn nothing_of_other_octets_is_sent() {
    for (crc, markers) in [(true, false), (false, false), (true, true), (false, true)] {
        let mpa = weft_mpa::Config { crc, enhanced: false, ..weft_mpa::Config::default() };
        let world = World::with(&PairConfig { mpa, tcp_buffer: 4096, ..PairConfig::default() });
        let flags = u8::from(markers) << 7 | u8::from(crc) << 6;
        let peer = ask(&world, &join(REQUEST, &[&[flags, 1, 0, 0]]));
        crate::handshake::accept(&world, ConnParam::default());
        peer.expect(&join(REPLY, &[&[flags & 0x40, 1, 0, 0]]));
        let _ = crate::handshake::depths(&world);
        peer.send(&Framing::new(crc, false).fpdu(&write(0, 0, b"")));
        let mut framing = Framing::new(crc, markers);
        let secret = world.side.memory(1200);
        secret.write(0, &[0xEE; 1200]).unwrap();
        // First the buffer is filled several times. Then come messages with all paddings, empty and short.
        let mut msn = 0;
        for len in [1200; 12].into_iter().chain((0..40).map(|len| len % 9)).chain([1200; 5]).chain(1..9) {
            msn += 1;
            let sges = [secret.sge(0, len)];
            world.side.qp.post_send(&work(1, SendOpcode::Send, Data::Sges(&sges))).unwrap();
            peer.expect(&framing.fpdu(&send(msn, &vec![0xEE; usize::try_from(len).unwrap()])));
        }
        // A Terminate holds the headers of the refused segment, and no octets that were in the buffer before.
        let bad = write(0, 1, b"x");
        peer.send(&Framing::new(crc, false).fpdu(&bad));
        peer.expect(&framing.fpdu(&terminate("1100", &bad)));
        peer.expect_fin();
    }
}
