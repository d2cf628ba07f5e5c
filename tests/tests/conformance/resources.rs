//! The owners of a device's queues, and the share of one user (RFC 5040 section 8.1).

use weft_ddp::Error as Ddp;
use weft_rnic::{
    Access, Cause, CmError, CmEvent, ConnParam, Cq, CreateError, Data, DisconnectReason, Qp, QpCapacity,
    QpInit, QpState, RecvWr, RegisterError, SendOpcode, Status,
};
use weft_tests::{Pair, PairConfig};

use crate::octets::{fpdu, send, terminate, vector};
use crate::world::{Role, World, content, exchange, filled, whole, work};

/// A queue pair of the world's domain with both queues' completions in `cq`.
fn qp_on(world: &World, cq: &Cq) -> Qp {
    let init = QpInit::new(cq, cq);
    world.side.device.create_qp(&world.side.pd, &init).unwrap()
}

/// A completion queue belongs to the device that made it, and so to one user. Other devices' queue pairs cannot
/// complete there, and its completions come out nowhere else.
// Covers 5040-8.1.1-11.
#[test]
fn a_completion_queue_has_one_owner() {
    let mut pair = Pair::connected(&PairConfig { peer_to_peer: true, ..PairConfig::default() });
    let create = |send_cq, recv_cq| {
        let init = QpInit::new(send_cq, recv_cq);
        pair.a.device.create_qp(&pair.a.pd, &init).err()
    };
    assert_eq!(create(&pair.b.cq, &pair.a.cq), Some(CreateError::ForeignObject));
    assert_eq!(create(&pair.a.cq, &pair.b.cq), Some(CreateError::ForeignObject));
    assert_eq!(create(&pair.a.cq, &pair.a.cq), None);
    pair.b.qp.post_recv(&RecvWr { wr_id: 9, sges: &[] }).unwrap();
    pair.a.qp.post_send(&work(1, SendOpcode::Send, Data::Inline(b""))).unwrap();
    assert_eq!([pair.completion_of_a().wr_id, pair.completion_of_b().wr_id], [1, 9]);
    assert_eq!([pair.a.cq.poll_one(), pair.b.cq.poll_one()], [None, None]);
}

/// A completion queue overruns: the stream on it ends. A stream on another one works on, in both directions.
// Covers 5040-8.1.1-12, 5040-8.1.2-5.
#[test]
fn an_overrun_ends_only_its_own_stream() {
    for role in [Role::Passive, Role::Active] {
        let world = World::new();
        let small = world.side.device.create_cq(4, None).unwrap();
        assert_eq!(small.capacity(), 4);
        let (victim, other) = (qp_on(&world, &small), qp_on(&world, &world.side.cq));
        let peer = world.establish_with(role, &victim, ConnParam::default());
        let other_peer = world.establish_with(role, &other, ConnParam::default());
        peer.send(&vector("write0"));
        for wr_id in 0..6 {
            victim.post_recv(&RecvWr { wr_id, sges: &[] }).unwrap();
        }
        // The peer's Sends fill it to its size, and it does not grow.
        peer.send(&(1..=4).flat_map(|msn| fpdu(&send(msn, b""))).collect::<Vec<_>>());
        peer.expect_silence();
        assert_eq!(victim.state(), QpState::Rts);
        peer.send(&fpdu(&send(5, b"")));
        peer.expect(&vector("term-localcat"));
        peer.expect_fin();
        let CmEvent::Disconnected { qp_num, reason } = world.event() else { panic!("no end") };
        assert_eq!(qp_num, victim.number());
        assert_eq!(reason, DisconnectReason::LocalTerminate(Cause::CompletionQueueOverrun));
        assert!(small.is_overrun() && !world.side.cq.is_overrun());
        let kept: Vec<_> =
            std::iter::from_fn(|| small.poll_one()).map(|done| (done.wr_id, done.status)).collect();
        assert_eq!(kept, [0, 1, 2, 3].map(|wr_id| (wr_id, Status::Success)));
        assert_eq!(other.state(), QpState::Rts);
        exchange(&world, &other, &other_peer, 1);
        world.expect_no_news();
    }
}

/// The device grants the size of a queue. It refuses sizes beyond its largest, and more queues than it has.
// Covers 5040-8.1.2-2, 5040-8.1.2-5.
#[test]
fn the_device_grants_the_queues() {
    let world = World::new();
    let device = &world.side.device;
    for entries in [1 << 22 | 1, u32::MAX] {
        let refused = device.create_cq(entries, None).err();
        assert!(matches!(refused, Some(CreateError::TooLarge { what: "completions", .. })), "{refused:?}");
    }
    for entries in [1, 5, 1000] {
        assert!(
            (u64::from(entries)..2 * u64::from(entries).max(2))
                .contains(&device.create_cq(entries, None).unwrap().capacity())
        );
    }
    let pd = device.alloc_pd();
    let create = |capacity| {
        let init = QpInit { capacity, ..QpInit::new(&world.side.cq, &world.side.cq) };
        device.create_qp(&pd, &init)
    };
    let good = QpCapacity::default();
    for capacity in [
        QpCapacity { send_wr: u32::MAX, ..good },
        QpCapacity { recv_wr: u32::MAX, ..good },
        QpCapacity { send_sge: usize::MAX, ..good },
        QpCapacity { inline: usize::MAX, ..good },
    ] {
        assert!(matches!(create(capacity).err(), Some(CreateError::TooLarge { .. })));
    }
}

/// The device grants queue pairs, completion queues, memory regions and Reads, up to its settings. Objects that are
/// given back can be taken again.
// Covers 5040-8.1.2-2, 5040-8.1.2-5.
#[test]
fn the_device_counts_what_it_grants() {
    let (wire, _far) = weft_netif::pair(1500);
    let mut config = weft_rnic::Config::new("10.0.0.1/24".parse().unwrap(), 1);
    (config.max_qps, config.max_cqs, config.max_mrs, config.max_reads) = (2, 2, 2, 4);
    config.progress = weft_rnic::Progress::External;
    let device = weft_rnic::Device::open(wire, config).unwrap();
    let pd = device.alloc_pd();
    let (first, second) = (device.create_cq(8, None).unwrap(), device.create_cq(8, None).unwrap());
    assert_eq!(device.create_cq(8, None).err(), Some(CreateError::TooManyCqs));
    drop(second);
    assert!(device.create_cq(8, None).is_ok());
    let create = || {
        let capacity = QpCapacity::default();
        let init = QpInit { capacity, ..QpInit::new(&first, &first) };
        device.create_qp(&pd, &init)
    };
    let (one, two) = (create().unwrap(), create().unwrap());
    assert_eq!(create().err(), Some(CreateError::TooManyQps));
    drop(two);
    let two = create().unwrap();
    let regions = [pd.register(8, Access::ALL).unwrap(), pd.register_for(&one, 8, Access::ALL).unwrap()];
    assert_eq!(pd.register(8, Access::ALL).err(), Some(RegisterError::TableFull));
    drop(regions);
    assert!(pd.register(8, Access::ALL).is_ok());
    let events = device.create_event_channel().unwrap();
    let param = ConnParam { ird: Some(4), ord: Some(5), ..ConnParam::default() };
    let refused = device.connect(&events, &two, "10.0.0.2:7174".parse().unwrap(), param);
    assert_eq!(refused, Err(CmError::TooManyReads { wanted: 5, max: 4 }));
}

/// Receive buffers belong to one stream. A peer that sends more than were posted for it loses its stream. The
/// receives of another stream are all left.
// Covers 5040-8.1.2-8.
#[test]
fn a_peer_uses_up_its_own_receives_only() {
    for role in [Role::Passive, Role::Active] {
        let world = World::new();
        let (greedy, modest) = (world.new_qp(), world.new_qp());
        let greedy_peer = world.establish_with(role, &greedy, ConnParam::default());
        let modest_peer = world.establish_with(role, &modest, ConnParam::default());
        let inbox = filled(&world.side, 8);
        for wr_id in 1..=3 {
            greedy.post_recv(&RecvWr { wr_id, sges: &[] }).unwrap();
            modest.post_recv(&RecvWr { wr_id: 10 + wr_id, sges: &[whole(&inbox)] }).unwrap();
        }
        greedy_peer.send(&(1..=4).flat_map(|msn| fpdu(&send(msn, b""))).collect::<Vec<_>>());
        greedy_peer.expect(&fpdu(&terminate("1202", &send(4, b""))));
        let CmEvent::Disconnected { qp_num, reason } = world.event() else { panic!("no end") };
        assert_eq!(qp_num, greedy.number());
        assert_eq!(reason, DisconnectReason::LocalTerminate(Cause::Peer(Ddp::NoBuffer.into())));
        assert_eq!(world.all_completions(), [1, 2, 3].map(|wr_id| (wr_id, Status::Success)));
        for msn in 1..=3 {
            modest_peer.send(&fpdu(&send(msn, &msn.to_be_bytes())));
            assert_eq!(world.completion().wr_id, u64::from(10 + msn));
            assert_eq!(content(&inbox)[..4], msn.to_be_bytes());
        }
    }
}
