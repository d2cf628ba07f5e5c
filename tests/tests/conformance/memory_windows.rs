//! The access of a peer through memory windows and fast registrations, and the errors that it gets (RFC 5040 sections
//! 4.8 and 5.3, RFC 5041 section 8).

use weft_rnic::{
    Access, Bind, CmEvent, ConnParam, Data, DisconnectReason, FastMr, FastRegister, Mr, Mw, Qp, QpState,
    SendOpcode, Stag, Status, WindowType,
};
use weft_tests::RawPeer;

use crate::atomics::fetch_add;
use crate::octets::{
    Place, fpdu, read_request, send_invalidate, tagged, terminate, terminate_read, vector, write,
};
use crate::world::{FILL, ROLES, Role, World, content, work};

const LEN: usize = 64;
/// The first octet of it that the STag names.
const FIRST: usize = 16;
const SIZE: u32 = 16;
const REMOTE: [Access; 3] = [Access::REMOTE_READ, Access::REMOTE_WRITE, Access::REMOTE_ATOMIC];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Type1,
    Type2B,
    Fast,
}

const KINDS: [Kind; 3] = [Kind::Type1, Kind::Type2B, Kind::Fast];

/// An STag for the middle of some memory, made valid by a queue pair.
#[derive(Debug)]
enum Object {
    Window(Mw, Mr),
    Fast(FastMr),
}

impl Object {
    fn content(&self) -> Vec<u8> {
        match self {
            Self::Window(_, region) => content(region),
            Self::Fast(memory) => {
                let mut octets = vec![0; LEN];
                memory.read(0, &mut octets).unwrap();
                octets
            }
        }
    }

    fn is_valid(&self) -> bool {
        match self {
            Self::Window(window, _) => window.is_bound(),
            Self::Fast(memory) => memory.is_valid(),
        }
    }

    /// Returns the place of the first octet for a peer.
    fn place(&self) -> Place {
        match self {
            Self::Window(window, region) => Place(window.rkey().0, region.addr() + FIRST as u64),
            Self::Fast(memory) => Place(memory.rkey().0, 0x7000),
        }
    }
}

/// Makes a queue pair on a connection, and its peer, which has sent its first FPDU.
fn stream(world: &World, role: Role) -> (Qp, RawPeer) {
    let qp = world.new_qp();
    let peer = world.establish_with(role, &qp, ConnParam::default());
    peer.send(&vector("write0"));
    qp.post_recv(&weft_rnic::RecvWr { wr_id: 7, sges: &[] }).unwrap();
    (qp, peer)
}

/// Makes an STag of this kind valid on `qp`, with these remote rights.
fn make(world: &World, qp: &Qp, kind: Kind, access: Access) -> Object {
    let pd = &world.side.pd;
    let window = |kind| {
        let region = pd.register(LEN, Access::LOCAL_WRITE | Access::MW_BIND).unwrap();
        region.write(0, &[FILL; LEN]).unwrap();
        (pd.alloc_mw(kind).unwrap(), region)
    };
    let bind = |stag: Stag, region: &Mr| {
        let (addr, length) = (region.addr() + FIRST as u64, SIZE.into());
        SendOpcode::BindWindow(Bind { window: stag, region: region.rkey(), addr, length, access })
    };
    let (object, opcode) = match kind {
        Kind::Type1 => {
            let (window, region) = window(WindowType::Type1);
            let (addr, length) = (region.addr() + FIRST as u64, SIZE.into());
            let bind = weft_rnic::MwBind {
                wr_id: 99,
                region: &region,
                addr,
                length,
                access,
                signaled: true,
                fence: false,
            };
            qp.bind_mw(&window, &bind).unwrap();
            (Object::Window(window, region), None)
        }
        Kind::Type2B => {
            let (window, region) = window(WindowType::Type2B);
            let opcode = bind(window.stag(0x42), &region);
            (Object::Window(window, region), Some(opcode))
        }
        Kind::Fast => {
            let memory = pd.alloc_fast_mr_for(qp, LEN).unwrap();
            memory.write(0, &[FILL; LEN]).unwrap();
            let access = access | Access::LOCAL_WRITE;
            let (stag, offset, length) = (memory.stag(0x42), FIRST as u64, SIZE.into());
            let opcode =
                SendOpcode::FastRegister(FastRegister { stag, offset, iova: 0x7000, length, access });
            (Object::Fast(memory), Some(opcode))
        }
    };
    if let Some(opcode) = opcode {
        qp.post_send(&work(99, opcode, Data::Sges(&[]))).unwrap();
    }
    assert_eq!(world.completion().status, Status::Success);
    object
}

fn all() -> Access {
    REMOTE.into_iter().fold(Access::LOCAL_READ, |all, right| all | right)
}

/// The peer sends `segment`. The stream ends with this Terminate, and memory is unchanged.
fn expect_refused(world: &World, (qp, peer): (&Qp, &RawPeer), object: &Object, segment: &[u8], code: &str) {
    let before = object.content();
    peer.send(&fpdu(segment));
    let is_read = segment[1] == 0x41;
    let answer = if is_read { terminate_read(code, segment) } else { terminate(code, segment) };
    peer.expect(&fpdu(&answer));
    peer.expect_fin();
    let CmEvent::Disconnected { qp_num, reason } = world.event() else { panic!("no end") };
    assert_eq!(qp_num, qp.number());
    assert!(matches!(reason, DisconnectReason::LocalTerminate(_)), "{reason:?}");
    assert_eq!(object.content(), before);
}

/// Returns a Write, a Read and an Atomic of eight octets at a place, with the DDP or RDMAP code of the fault.
fn accesses(at: Place, tagged_code: &'static str, code: &'static str) -> [(Vec<u8>, &'static str); 3] {
    let Place(stag, to) = at;
    [
        (write(stag, to, b"accessed"), tagged_code),
        (read_request(1, Place(9, 0), 8, at), code),
        (fetch_add(1, 7, at, 1), code),
    ]
}

// Covers 5040-8.1.1-5, 5041-8.3-2.
#[test]
fn a_peer_uses_bound_memory() {
    for role in ROLES {
        for kind in KINDS {
            let world = World::new();
            let (qp, peer) = stream(&world, role);
            let object = make(&world, &qp, kind, all());
            let Place(stag, to) = object.place();
            peer.send(&fpdu(&write(stag, to, b"0123456789abcdef")));
            peer.send(&fpdu(&read_request(1, Place(9, 0), SIZE, Place(stag, to))));
            peer.expect(&fpdu(&tagged("C142", 9, 0, b"0123456789abcdef")));
            let mut expected = vec![FILL; LEN];
            expected[FIRST..FIRST + 16].copy_from_slice(b"0123456789abcdef");
            assert_eq!(object.content(), expected, "{kind:?}");
            assert_eq!(qp.state(), QpState::Rts);
        }
    }
}

/// The octets before and behind are of the same region, and as unreachable as those of another one.
// Covers 5042-6.2.1-1, 5042-6.3.1-1.
#[test]
fn the_bounds_are_those_of_the_window() {
    for kind in KINDS {
        for offset in [-1, i64::from(SIZE) - 7, i64::from(SIZE), 1 << 40] {
            for index in 0..3 {
                let world = World::new();
                let (qp, peer) = stream(&world, Role::Passive);
                let object = make(&world, &qp, kind, all());
                let Place(stag, to) = object.place();
                let (segment, code) =
                    &accesses(Place(stag, to.wrapping_add_signed(offset)), "1101", "0101")[index];
                expect_refused(&world, (&qp, &peer), &object, segment, code);
            }
        }
        let world = World::new();
        let (qp, peer) = stream(&world, Role::Passive);
        let object = make(&world, &qp, kind, all());
        let wrap = write(object.place().0, u64::MAX - 3, b"too high");
        expect_refused(&world, (&qp, &peer), &object, &wrap, "1103");
    }
}

// Covers 5042-6.3.5-1, 5040-8.1.1-5.
#[test]
fn each_right_by_itself() {
    for kind in KINDS {
        for (missing, index) in [(1, 0), (0, 1), (2, 2)] {
            let world = World::new();
            let (qp, peer) = stream(&world, Role::Passive);
            let others = (0..3).filter(|&right| right != missing).map(|right| REMOTE[right]);
            let access = others.fold(Access::LOCAL_READ, |all, right| all | right);
            let object = make(&world, &qp, kind, access);
            let (segment, code) = &accesses(object.place(), "0102", "0102")[index];
            expect_refused(&world, (&qp, &peer), &object, segment, code);
        }
    }
}

/// A window of type 2 and a fast registration for one stream are unknown to another one of the same domain. A window
/// of type 1 is not.
// Covers 5042-6.1.1-3, 5041-8.2-2, 5040-7.2-5.
#[test]
fn the_stream_that_it_was_bound_on() {
    for kind in [Kind::Type2B, Kind::Fast] {
        for index in 0..4 {
            let world = World::new();
            let (rightful, rightful_peer) = stream(&world, Role::Active);
            let (qp, peer) = stream(&world, Role::Passive);
            let object = make(&world, &rightful, kind, all());
            let at = object.place();
            let (segment, code) = match index {
                3 => (send_invalidate(1, at.0, b""), "0109"),
                _ => accesses(at, "1102", "0103")[index].clone(),
            };
            expect_refused(&world, (&qp, &peer), &object, &segment, code);
            assert!(object.is_valid());
            rightful_peer.send(&fpdu(&write(at.0, at.1, b"rightful")));
            world.settle();
            assert_eq!(object.content()[FIRST..FIRST + 8], *b"rightful");
        }
    }
    let world = World::new();
    let (binder, _peer) = stream(&world, Role::Active);
    let (_qp, peer) = stream(&world, Role::Passive);
    let object = make(&world, &binder, Kind::Type1, all());
    let Place(stag, to) = object.place();
    peer.send(&fpdu(&write(stag, to, b"anyone's")));
    world.settle();
    assert_eq!(object.content()[FIRST..FIRST + 8], *b"anyone's");
}

/// The peer invalidates the STag, and has lost all access then, also by other keys.
// Covers 5040-5.3-15, 5040-3.2-2, 5040-7.2-4.
#[test]
fn an_stag_that_the_peer_has_invalidated() {
    for kind in [Kind::Type2B, Kind::Fast] {
        for index in 0..4 {
            for other_key in [0, 1] {
                let world = World::new();
                let (qp, peer) = stream(&world, Role::Passive);
                let object = make(&world, &qp, kind, all());
                let Place(stag, to) = object.place();
                peer.send(&fpdu(&send_invalidate(1, stag, b"")));
                let received = world.completion();
                assert_eq!((received.status, received.invalidated), (Status::Success, Some(stag)));
                assert!(!object.is_valid());
                qp.post_recv(&weft_rnic::RecvWr { wr_id: 8, sges: &[] }).unwrap();
                let stale = stag ^ other_key;
                let (segment, code) = match index {
                    3 => (send_invalidate(2, stale, b""), "0109"),
                    _ => accesses(Place(stale, to), "1100", "0100")[index].clone(),
                };
                expect_refused(&world, (&qp, &peer), &object, &segment, code);
            }
        }
    }
}

/// A single peer cannot invalidate memory that the whole domain shares: windows of type 1, and fast registrations for
/// the domain.
// Covers 5040-8.1.1-8, 5042-6.4.5-1.
#[test]
fn shared_memory_cannot_be_invalidated() {
    let world = World::new();
    let (qp, peer) = stream(&world, Role::Passive);
    let object = make(&world, &qp, Kind::Type1, all());
    let segment = send_invalidate(1, object.place().0, b"");
    expect_refused(&world, (&qp, &peer), &object, &segment, "0109");
    assert!(object.is_valid());
    let world = World::new();
    let (qp, peer) = stream(&world, Role::Passive);
    let memory = world.side.pd.alloc_fast_mr(LEN).unwrap();
    let stag = memory.stag(3);
    let request = FastRegister { stag, offset: 0, iova: 0, length: LEN as u64, access: Access::ALL };
    qp.post_send(&work(1, SendOpcode::FastRegister(request), Data::Sges(&[]))).unwrap();
    assert_eq!(world.completion().status, Status::Success);
    let object = Object::Fast(memory);
    expect_refused(&world, (&qp, &peer), &object, &send_invalidate(1, stag.0, b""), "0109");
    assert!(object.is_valid());
}

/// A region for one stream cannot be invalidated while a window is bound to it.
#[test]
fn a_region_with_a_window_cannot_be_invalidated() {
    let world = World::new();
    let (qp, peer) = stream(&world, Role::Passive);
    let region = world.side.pd.register_for(&qp, LEN, Access::ALL | Access::MW_BIND).unwrap();
    let window = world.side.pd.alloc_mw(WindowType::Type2B).unwrap();
    let access = Access::REMOTE_READ;
    let bind = Bind { window: window.stag(1), region: region.rkey(), addr: region.addr(), length: 8, access };
    qp.post_send(&work(1, SendOpcode::BindWindow(bind), Data::Sges(&[]))).unwrap();
    assert_eq!(world.completion().status, Status::Success);
    let segment = send_invalidate(1, region.rkey().0, b"");
    let object = Object::Window(window, region);
    expect_refused(&world, (&qp, &peer), &object, &segment, "0109");
    let Object::Window(window, region) = &object else { unreachable!() };
    assert!(window.is_bound() && !region.is_invalidated());
}
