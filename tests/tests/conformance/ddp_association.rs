//! The streams that may use an STag, with its duration, rights and bounds (RFC 5041 section 8).

use weft_ddp::Error as Ddp;
use weft_rdmap::Error as Rdmap;
use weft_rnic::{
    Access, Bind, Cause, Clock, CmEvent, Config, ConnParam, Cq, CreateError, Data, Device, DisconnectReason,
    FastRegister, Mr, Pd, Progress, Qp, QpCapacity, QpInit, QpState, RecvWr, Region, RegisterError,
    SendOpcode, Stag, Status, WindowType,
};
use weft_tests::RawPeer;

use crate::octets::{
    Place, fpdu, read_request, send, send_invalidate, tagged, terminate, terminate_read, vector, write,
};
use crate::rdmap_wire::MTU;
use crate::world::{FILL, FLUSHED, ROLES, Role, World, content, exchange, filled, open, whole, work};

/// Returns another queue pair with its own connection.
fn another(world: &World, role: Role) -> (Qp, RawPeer) {
    let qp = world.new_qp();
    let peer = world.establish_with(role, &qp, ConnParam::default());
    peer.send(&fpdu(&write(0, 0, b"")));
    (qp, peer)
}

/// Returns a queue pair of this domain with its own connection.
fn in_domain(world: &World, domain: &Pd, role: Role) -> (Qp, RawPeer) {
    let init = QpInit::new(&world.side.cq, &world.side.cq);
    let qp = world.side.device.create_qp(domain, &init).unwrap();
    let peer = world.establish_with(role, &qp, ConnParam::default());
    peer.send(&fpdu(&write(0, 0, b"")));
    (qp, peer)
}

/// The peer of `qp` sends `bad`, which is refused with these octets and this event.
fn refused(world: &World, (qp, peer): &(Qp, RawPeer), bad: &[u8], answer: &[u8], error: Rdmap) {
    peer.send(&fpdu(bad));
    peer.expect(&fpdu(answer));
    peer.expect_fin();
    match world.event() {
        CmEvent::Disconnected { qp_num, reason } => {
            assert_eq!(qp_num, qp.number());
            assert_eq!(reason, DisconnectReason::LocalTerminate(Cause::Peer(error)));
        }
        event => panic!("{event:?}"),
    }
    assert_eq!(qp.state(), QpState::Terminate);
}

/// The peer of no other queue pair than its own can write, read or invalidate `memory`.
fn expect_not_associated(world: &World, role: Role, memory: &Mr, other: impl Fn() -> (Qp, RawPeer)) {
    let (stag, to) = (memory.rkey().0, memory.addr());
    let before = content(memory);
    let bad = write(stag, to, b"12345678");
    refused(world, &other(), &bad, &terminate("1102", &bad), Ddp::WrongStream.into());
    // The first of several segments is refused, too.
    let bad = tagged("8140", stag, to, b"1");
    refused(world, &other(), &bad, &terminate("1102", &bad), Ddp::WrongStream.into());
    let bad = read_request(1, Place(1, 0), 8, Place(stag, to));
    refused(world, &other(), &bad, &terminate_read("0103", &bad), Rdmap::WrongStream);
    let (connection, inbox) = (other(), filled(&world.side, 8));
    connection.0.post_recv(&RecvWr { wr_id: 77, sges: &[whole(&inbox)] }).unwrap();
    let bad = send_invalidate(1, stag, b"hello");
    refused(world, &connection, &bad, &terminate("0109", &bad), Rdmap::CannotInvalidate);
    assert_eq!(world.all_completions(), [(77, FLUSHED)]);
    assert!(!memory.is_invalidated(), "{role:?}");
    assert_eq!((content(memory), content(&inbox)), (before, vec![FILL; 8]));
}

/// The peer may write and read all of `memory`.
fn expect_access(peer: &RawPeer, memory: &Mr, msn: u32) {
    let place = Place(memory.rkey().0, memory.addr());
    peer.send(&fpdu(&write(place.0, place.1, &[0x11; 8])));
    peer.send(&fpdu(&read_request(msn, Place(5, 6), 8, place)));
    peer.expect(&fpdu(&tagged("C142", 5, 6, &[0x11; 8])));
}

/// A stream of another protection domain than the STag's.
// Covers 5041-4.2-6, 5041-8.2-1, 5041-8.3-4, 5041-8.3.1-2.
#[test]
fn an_stag_of_another_protection_domain() {
    for role in ROLES {
        let (world, peer) = open(role);
        let domain = world.side.device.alloc_pd();
        let theirs = domain.register(8, Access::ALL).unwrap();
        let ours = filled(&world.side, 8);
        let in_domain = |domain: &Pd| in_domain(&world, domain, role);
        expect_not_associated(&world, role, &theirs, || in_domain(&world.side.pd));
        expect_not_associated(&world, role, &ours, || in_domain(&domain));
        let (_their_qp, their_peer) = in_domain(&domain);
        expect_access(&their_peer, &theirs, 1);
        expect_access(&peer, &ours, 1);
    }
}

/// Two applications on one device do not trust each other. A request of one that names an object of the other is
/// refused, whatever its kind. The other application goes on undisturbed.
// Covers 5041-8.3.2-4.
#[test]
fn no_request_reaches_objects_of_another_domain() {
    for kind in 0..FOREIGN_REQUESTS {
        for role in ROLES {
            let (world, peer) = open(role);
            let (ours, fast) = (filled(&world.side, 8), world.side.pd.alloc_fast_mr(8).unwrap());
            let counting = world.side.device.create_cq(4, None).unwrap();
            let counted = QpInit::new(&counting, &counting);
            let _counted = world.side.device.create_qp(&world.side.pd, &counted).unwrap();
            let domain = world.side.device.alloc_pd();
            let window = domain.alloc_mw(WindowType::Type1).unwrap();
            let (qp, their_peer) = in_domain(&world, &domain, role);
            let (opcode, status) = foreign_requests(&ours, fast.rkey(), window.rkey(), &counting)[kind];
            let sges = [whole(&ours)];
            // Before the peer's first FPDU a responder cannot send the Terminate.
            world.settle();
            if let Some(opcode) = opcode {
                let data = if kind < 5 { Data::Sges(&sges) } else { Data::Sges(&[]) };
                qp.post_send(&work(1, opcode, data)).unwrap();
            } else {
                qp.post_recv(&RecvWr { wr_id: 1, sges: &sges }).unwrap();
                their_peer.send(&fpdu(&send(1, b"intruder")));
            }
            their_peer.expect(&vector("term-localcat"));
            their_peer.expect_fin();
            let done = world.completion();
            assert_eq!((done.wr_id, done.status), (1, status), "kind {kind}");
            let CmEvent::Disconnected { qp_num, .. } = world.event() else { panic!("it goes on") };
            assert_eq!(qp_num, qp.number());
            assert!(!ours.is_invalidated());
            assert_eq!(content(&ours), [FILL; 8]);
            expect_access(&peer, &ours, 1);
            exchange(&world, &world.side.qp, &peer, 1);
        }
    }
}

/// Returns requests that name an object of another domain, and the status of each. The first is a receive. The first
/// five have local elements of that domain.
fn foreign_requests(
    ours: &Mr,
    fast: Stag,
    window: Stag,
    counting: &Cq,
) -> [(Option<SendOpcode>, Status); FOREIGN_REQUESTS] {
    let (stag, to, length) = (Stag(1), 0, 8);
    let (protection, binding) = (Status::LocalProtection, Status::MemoryWindowBind);
    let bind = Bind { window, region: ours.rkey(), addr: ours.addr(), length, access: Access::REMOTE_READ };
    let register = FastRegister { stag: fast, offset: 0, iova: 0, length, access: Access::ALL };
    [
        (None, protection),
        (Some(SendOpcode::Send), protection),
        (Some(SendOpcode::Write { stag, to }), protection),
        (Some(SendOpcode::Read { stag, to }), protection),
        (Some(SendOpcode::FetchAdd { stag, to, add: 1, mask: 0 }), protection),
        (Some(SendOpcode::LocalInvalidate { stag: ours.rkey() }), binding),
        (Some(SendOpcode::BindWindow(bind)), binding),
        (Some(SendOpcode::FastRegister(register)), binding),
        (Some(SendOpcode::Wait { cq: counting.number(), count: 1, strict: false }), Status::LocalQpOperation),
    ]
}

/// How many requests [`foreign_requests`] has.
const FOREIGN_REQUESTS: usize = 9;

/// Of two streams of one protection domain only one may use the STag, also for its own requests.
// Covers 5041-8.2-2, 5041-8.2-4, 5041-8.3-3, 5041-8.3.1-3.
#[test]
fn an_stag_of_another_stream() {
    for role in ROLES {
        let (world, peer) = open(role);
        let side = &world.side;
        let bound = side.pd.register_for(&side.qp, 8, Access::ALL).unwrap();
        bound.write(0, &[FILL; 8]).unwrap();
        let shared = filled(side, 8);
        expect_not_associated(&world, role, &bound, || another(&world, role));
        let (other, other_peer) = another(&world, role);
        expect_access(&other_peer, &shared, 1);
        expect_access(&peer, &shared, 1);
        expect_access(&peer, &bound, 2);
        side.qp.post_send(&work(1, SendOpcode::Send, Data::Sges(&[whole(&bound)]))).unwrap();
        peer.expect(&fpdu(&send(1, &[0x11; 8])));
        other.post_send(&work(2, SendOpcode::Send, Data::Sges(&[whole(&bound)]))).unwrap();
        assert_eq!(world.all_completions(), [(1, Status::Success), (2, Status::LocalProtection)]);
        // A queue pair of another domain or device is refused as owner.
        let pd = side.device.alloc_pd();
        assert_eq!(pd.register_for(&side.qp, 8, Access::ALL).unwrap_err(), RegisterError::ForeignQp);
        let elsewhere = World::new();
        let foreign = side.pd.register_for(&elsewhere.side.qp, 8, Access::ALL);
        assert_eq!(foreign.unwrap_err(), RegisterError::ForeignQp);
    }
}

/// Numbers of queue pairs are used again. The STag of the former owner of a number does not come back with it.
// Covers 5041-8.2-2, 5041-8.3.1-3.
#[test]
fn an_stag_does_not_outlive_its_stream() {
    for role in ROLES {
        let world = World::new();
        let first = world.new_qp();
        let bound = world.side.pd.register_for(&first, 8, Access::ALL).unwrap();
        let number = first.number();
        drop(first);
        let reborn = (0..10_000).map(|_| world.new_qp()).find(|qp| qp.number() == number).unwrap();
        let peer = world.establish_with(role, &reborn, ConnParam::default());
        let bad = write(bound.rkey().0, bound.addr(), b"12345678");
        refused(&world, &(reborn, peer), &bad, &terminate("1102", &bad), Ddp::WrongStream.into());
        assert_eq!(content(&bound), [0; 8]);
    }
}

/// The same octets of the application get one range of offsets after the other. Each is valid as long as it is
/// registered.
// Covers 5041-8.3-1, 5041-8.3-2, 5041-8.3.1-5.
#[test]
fn ranges_and_stags_come_and_go() {
    for role in ROLES {
        let world = World::new();
        let register =
            |iova| world.side.pd.register_at(Region::owned(8).unwrap(), Access::ALL, iova).unwrap();
        let (low, high) = (register(0x1000), register(0x2000));
        let (_qp, peer) = another(&world, role);
        expect_access(&peer, &low, 1);
        expect_access(&peer, &high, 2);
        let unknown = |stag: u32, to| {
            let bad = write(stag, to, b"12345678");
            let connection = another(&world, role);
            refused(&world, &connection, &bad, &terminate("1100", &bad), Ddp::InvalidStag.into());
        };
        let outside = write(low.rkey().0, 0x2000, b"12345678");
        let connection = another(&world, role);
        refused(&world, &connection, &outside, &terminate("1101", &outside), Ddp::BaseOrBounds.into());
        let old = low.rkey().0;
        drop(low);
        unknown(old, 0x1000);
        let next = register(0x3000);
        unknown(old, 0x1000);
        unknown(old, 0x3000);
        expect_access(&peer, &next, 3);
        expect_access(&peer, &high, 4);
        high.invalidate();
        unknown(high.rkey().0, 0x2000);
        assert_eq!(content(&high), [0x11; 8]);
    }
}

/// Rights to read, write, both or none are granted, and withdrawn with the STag.
// Covers 5041-8.3.1-1, 5041-8.3.1-6.
#[test]
fn rights_are_granted_one_by_one() {
    let grants = [
        (Access::LOCAL_WRITE, false, false),
        (Access::LOCAL_WRITE | Access::REMOTE_READ, true, false),
        (Access::LOCAL_WRITE | Access::REMOTE_WRITE, false, true),
        (Access::LOCAL_WRITE | Access::REMOTE_READ | Access::REMOTE_WRITE, true, true),
    ];
    for role in ROLES {
        let world = World::new();
        for (access, read, write_too) in grants {
            for withdrawn in [false, true] {
                let memory = world.side.pd.register(8, access).unwrap();
                memory.write(0, &[FILL; 8]).unwrap();
                let place = Place(memory.rkey().0, memory.addr());
                if withdrawn {
                    memory.invalidate();
                }
                let (code, read_error) =
                    if withdrawn { ("0100", Rdmap::InvalidStag) } else { ("0102", Rdmap::AccessRights) };
                let request = read_request(1, Place(5, 6), 8, place);
                let connection = another(&world, role);
                if read && !withdrawn {
                    connection.1.send(&fpdu(&request));
                    connection.1.expect(&fpdu(&tagged("C142", 5, 6, &[FILL; 8])));
                } else {
                    refused(&world, &connection, &request, &terminate_read(code, &request), read_error);
                }
                let octets = write(place.0, place.1, b"12345678");
                let connection = another(&world, role);
                if write_too && !withdrawn {
                    connection.1.send(&fpdu(&octets));
                    connection.1.expect_silence();
                    assert_eq!(content(&memory), b"12345678");
                    continue;
                }
                let (code, error) =
                    if withdrawn { ("1100", Ddp::InvalidStag.into()) } else { ("0102", Rdmap::AccessRights) };
                refused(&world, &connection, &octets, &terminate(code, &octets), error);
                assert_eq!(content(&memory), [FILL; 8]);
            }
        }
    }
}

/// All starts and lengths around both edges of a buffer, with other buffers directly before and behind it. Exactly
/// the octets inside can be reached.
// Covers 5041-8.3.1-4, 5041-8.1-1.
#[test]
fn nothing_outside_of_a_buffer_is_reached() {
    for start in (0..4).chain(6..11) {
        for len in 1..9_usize {
            let role = ROLES[(start + len) % 2];
            let (world, peer) = open(role);
            // The offsets are 3 to 7 of 11. Offsets around them belong to the neighbours.
            let register = |iova, len| {
                let region = Region::owned(len).unwrap();
                let memory = world.side.pd.register_at(region, Access::ALL, iova).unwrap();
                memory.write(0, &vec![FILL; len]).unwrap();
                memory
            };
            let (before, target, behind) = (register(0x1000, 3), register(0x1003, 5), register(0x1008, 8));
            let bad = write(target.rkey().0, 0x1000 + start as u64, &vec![0x11; len]);
            peer.send(&fpdu(&bad));
            let mut expected = [FILL; 5];
            if start >= 3 && start + len <= 8 {
                peer.expect_silence();
                expected[start - 3..start - 3 + len].fill(0x11);
            } else {
                peer.expect(&fpdu(&terminate("1101", &bad)));
                peer.expect_fin();
            }
            assert_eq!(content(&target), expected, "{len} at {start}");
            assert_eq!((content(&before), content(&behind)), (vec![FILL; 3], vec![FILL; 8]));
        }
    }
}

/// A Write of many segments arrives while the application deregisters the memory: from then on no octet changes.
// Covers 5041-8.3.1-7.
#[test]
fn revoked_memory_does_not_change_any_more() {
    for role in ROLES {
        let (world, peer) = open(role);
        let target = filled(&world.side, 64_000);
        let part = |index: usize| {
            let head = if index == 63 { "C140" } else { "8140" };
            tagged(head, target.rkey().0, target.addr() + 1000 * index as u64, &[0x11; 1000])
        };
        for index in 0..20 {
            peer.send(&fpdu(&part(index)));
        }
        // The twenty-first segment has come in part when its memory is deregistered.
        world.settle();
        peer.send(&fpdu(&part(20))[..700]);
        world.settle();
        target.invalidate();
        let frozen = content(&target);
        assert!(frozen[..20_000].iter().all(|octet| *octet == 0x11));
        assert!(frozen[20_000..].iter().all(|octet| *octet == FILL));
        peer.send(&fpdu(&part(20))[700..]);
        for index in 21..64 {
            peer.send(&fpdu(&part(index)));
        }
        peer.expect(&fpdu(&terminate("1100", &part(20))));
        peer.expect_fin();
        assert!(content(&target) == frozen);
    }
}

/// The device's settings bound queue pairs and completion queues, and the device bounds requests and elements.
/// Requests for more are refused, and existing objects go on.
// Covers 5041-8.3.2-3, 5041-8.3.2-6.
#[test]
fn resources_are_bounded() {
    let (wire, _other_end) = weft_netif::pair(MTU);
    let mut config = Config::new("10.0.0.1/24".parse().unwrap(), 1);
    (config.max_qps, config.max_cqs, config.max_mrs) = (2, 3, 4);
    (config.clock, config.progress) = (Clock::virtual_time(), Progress::External);
    let device = Device::open(wire, config).unwrap();
    let pd = device.alloc_pd();
    let cqs: Vec<_> = (0..3).map(|_| device.create_cq(16, None).unwrap()).collect();
    assert_eq!(device.create_cq(16, None).unwrap_err(), CreateError::TooManyCqs);
    let create = |capacity| device.create_qp(&pd, &QpInit { capacity, ..QpInit::new(&cqs[0], &cqs[0]) });
    let usual = QpCapacity::default();
    let too_large = [
        QpCapacity { send_wr: u32::MAX, ..usual },
        QpCapacity { recv_wr: u32::MAX, ..usual },
        QpCapacity { send_sge: usize::MAX, ..usual },
        QpCapacity { recv_sge: 33, ..usual },
        QpCapacity { inline: 1025, ..usual },
    ];
    for capacity in too_large {
        assert!(matches!(create(capacity), Err(CreateError::TooLarge { .. })), "{capacity:?}");
    }
    let (first, second) = (create(usual).unwrap(), create(usual).unwrap());
    assert_eq!(create(usual).unwrap_err(), CreateError::TooManyQps);
    let mut regions: Vec<_> = (0..4).map(|_| pd.register(8, Access::ALL).unwrap()).collect();
    assert_eq!(pd.register(8, Access::ALL).unwrap_err(), RegisterError::TableFull);
    assert_eq!(pd.register_for(&first, 8, Access::ALL).unwrap_err(), RegisterError::TableFull);
    assert_eq!(pd.register(usize::MAX / 2, Access::ALL).unwrap_err(), RegisterError::OutOfMemory);
    // Destroyed objects make room again.
    drop((second, regions.pop()));
    assert!(create(usual).is_ok() && pd.register(8, Access::ALL).is_ok());
    assert_ne!(regions[0].rkey(), Stag(0));
    assert_eq!(first.state(), QpState::Idle);
}
