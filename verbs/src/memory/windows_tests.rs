//! Tests of memory windows and fast registration.

use super::*;
use crate::work::{Bind, FastRegister};

const PD: PdId = PdId(1);
const READ_WRITE: Access = Access::from_bits(0x06).unwrap();

/// A table with one region of 100 octets at 1000, and a stream.
struct World {
    table: MemoryTable,
    region: Arc<MemoryRegion>,
    stream: StreamId,
}

impl World {
    fn new() -> Self {
        let mut table = MemoryTable::new(1);
        let region = register(&mut table, PD, None, Access::ALL | Access::MW_BIND);
        Self { table, region, stream: StreamId::unique() }
    }

    fn window(&mut self, kind: WindowType) -> Arc<KeyedStag> {
        self.table.alloc(PD, None, KeyedKind::Window(kind)).unwrap()
    }

    fn fast(&mut self, stream: Option<StreamId>) -> Arc<KeyedStag> {
        let region = Region::owned(100).unwrap();
        assert!(region.copy_in(0, &octets()));
        self.table.alloc(PD, stream, KeyedKind::Fast(region)).unwrap()
    }

    /// Returns the window over 20 octets from 1010 on.
    fn request(&self, window: &KeyedStag) -> Bind {
        let (window, region) = (window.next_stag(), self.region.stag);
        Bind { window, region, addr: 1010, length: 20, access: READ_WRITE }
    }

    fn bind(&self, bind: &Bind) -> Result<(), Violation> {
        self.table.bind(bind, PD, self.stream)
    }

    /// Returns what an access reads, by any stream of the domain.
    fn read(&self, stream: StreamId, stag: Stag, to: u64, len: usize) -> Result<Vec<u8>, Violation> {
        let claim = Claim { stag, right: Access::REMOTE_READ, pd: PD, stream };
        let mut out = vec![0; len];
        self.table.check(claim, to, len)?.copy_out(&mut out)?;
        Ok(out)
    }

    fn check(&self, stag: Stag, right: Access, to: u64, len: usize) -> Result<(), Violation> {
        let claim = Claim { stag, right, pd: PD, stream: self.stream };
        self.table.check(claim, to, len).map(|_| ())
    }
}

fn octets() -> Vec<u8> {
    (0..100).collect()
}

fn register(
    table: &mut MemoryTable,
    pd: PdId,
    stream: Option<StreamId>,
    access: Access,
) -> Arc<MemoryRegion> {
    let region = Region::owned(100).unwrap();
    assert!(region.copy_in(0, &octets()));
    table.register(Registration { pd, stream, access, iova: 1000, region }).unwrap()
}

#[test]
fn a_window_shows_its_part_of_the_region() {
    for (zero_based, base) in [(Access::LOCAL_READ, 1010), (Access::ZERO_BASED, 0)] {
        for kind in [WindowType::Type1, WindowType::Type2B] {
            let mut world = World::new();
            let window = world.window(kind);
            let access = READ_WRITE | zero_based;
            let bind = Bind { access, ..world.request(&window) };
            let stag = bind.window;
            assert_eq!(world.check(stag, Access::REMOTE_READ, base, 1), Err(Violation::InvalidStag));
            assert_eq!(world.bind(&bind), Ok(()));
            assert_eq!((window.current(), window.is_valid()), (stag, true));
            assert_eq!(world.read(world.stream, stag, base, 20), Ok((10..30).collect()));
            assert_eq!(world.read(world.stream, stag, base + 19, 1), Ok(vec![29]));
            for (to, len) in [(base, 21), (base.wrapping_sub(1), 1), (base + 20, 1), (base + 21, 0)] {
                let refused = world.check(stag, Access::REMOTE_READ, to, len);
                assert!(matches!(refused, Err(Violation::Bounds | Violation::Wrap)), "{to} {refused:?}");
            }
            assert_eq!(world.check(stag, Access::REMOTE_WRITE, base, 20), Ok(()));
            assert_eq!(world.check(stag, Access::REMOTE_ATOMIC, base, 8), Err(Violation::Access));
            // Requests of our own cannot use it.
            for right in [Access::LOCAL_READ, Access::LOCAL_WRITE] {
                assert_eq!(world.check(stag, right, base, 1), Err(Violation::Access));
            }
            let other_key = Stag(stag.0 ^ 1);
            assert_eq!(world.check(other_key, Access::REMOTE_READ, base, 1), Err(Violation::InvalidStag));
        }
    }
}

#[test]
fn every_reason_not_to_bind() {
    let mut world = World::new();
    let window = world.window(WindowType::Type2B);
    let fast = world.fast(None);
    let other = StreamId::unique();
    let local = Access::MW_BIND | Access::REMOTE_READ | Access::REMOTE_WRITE;
    assert!(!local.is_valid(), "a region has local write already where peers may write");
    let mut add = |pd, stream, access| register(&mut world.table, pd, stream, access).stag;
    let foreign = add(PdId(2), None, Access::ALL | Access::MW_BIND);
    let anothers = add(PD, Some(other), Access::ALL | Access::MW_BIND);
    let unbindable = add(PD, None, Access::ALL);
    let read_only = add(PD, None, Access::MW_BIND);
    let gone = add(PD, None, Access::ALL | Access::MW_BIND);
    world.table.deregister(gone);
    let good = world.request(&window);
    let cases = [
        (Bind { window: world.region.stag, ..good }, Violation::InvalidStag),
        (Bind { window: fast.stag(0), ..good }, Violation::InvalidStag),
        (Bind { region: gone, ..good }, Violation::InvalidStag),
        (Bind { region: fast.stag(0), ..good }, Violation::InvalidStag),
        (Bind { region: good.window, ..good }, Violation::InvalidStag),
        (Bind { region: foreign, ..good }, Violation::WrongPd),
        (Bind { region: anothers, ..good }, Violation::WrongStream),
        (Bind { region: unbindable, ..good }, Violation::Access),
        (Bind { region: read_only, ..good }, Violation::Access),
        (Bind { access: Access::LOCAL_WRITE, ..good }, Violation::Access),
        (Bind { access: Access::MW_BIND, ..good }, Violation::Access),
        (Bind { addr: 999, ..good }, Violation::Bounds),
        (Bind { addr: 1081, ..good }, Violation::Bounds),
        (Bind { length: u64::MAX - 1000, ..good }, Violation::Wrap),
        (Bind { length: 0, ..good }, Violation::Bounds),
    ];
    for (bind, violation) in cases {
        assert_eq!(world.bind(&bind), Err(violation), "{bind:?}");
        assert!(!window.is_valid());
    }
    assert_eq!(world.table.bind(&good, PdId(2), world.stream), Err(Violation::WrongPd));
    let reading = Bind { region: read_only, access: Access::REMOTE_READ, ..good };
    assert_eq!(world.bind(&reading), Ok(()));
    assert_eq!(world.bind(&good), Err(Violation::Bound));
    assert_eq!(world.check(reading.window, Access::REMOTE_READ, 1010, 20), Ok(()));
    // A window for all of the domain, on memory for one stream only.
    let window = world.window(WindowType::Type1);
    let bind = Bind { region: anothers, ..world.request(&window) };
    assert_eq!(world.table.bind(&bind, PD, other), Err(Violation::WrongStream));
}

#[test]
fn a_window_of_type_1_is_the_domains_and_bound_anew_at_will() {
    let mut world = World::new();
    let window = world.window(WindowType::Type1);
    let bind = world.request(&window);
    assert_eq!(world.bind(&bind), Ok(()));
    let other = StreamId::unique();
    assert_eq!(world.read(other, bind.window, 1010, 2), Ok(vec![10, 11]));
    for outcome in [
        world.table.invalidate(bind.window, PD, world.stream),
        world.table.invalidate_locally(bind.window, PD, world.stream),
    ] {
        assert_eq!(outcome, Err(Violation::Access));
    }
    let again = Bind { addr: 1050, ..world.request(&window) };
    assert_ne!(again.window, bind.window);
    assert_eq!(world.table.bind(&again, PD, other), Ok(()));
    assert_eq!(world.read(other, bind.window, 1010, 2), Err(Violation::InvalidStag));
    assert_eq!(world.read(world.stream, again.window, 1050, 2), Ok(vec![50, 51]));
    assert!(world.region.has_windows());
    // A refused bind leaves the good one as it is.
    let wrong = Bind { addr: 0, ..world.request(&window) };
    assert_eq!(world.bind(&wrong), Err(Violation::Bounds));
    assert_eq!(world.read(world.stream, again.window, 1050, 2), Ok(vec![50, 51]));
    let none = Bind { length: 0, region: Stag(0), ..world.request(&window) };
    assert_eq!(world.bind(&none), Ok(()));
    assert_eq!(world.read(other, again.window, 1050, 2), Err(Violation::InvalidStag));
    assert_eq!(world.read(other, none.window, 1050, 0), Err(Violation::InvalidStag));
    assert!(!world.region.has_windows());
}

#[test]
fn a_window_of_type_2_is_one_streams_until_it_is_invalidated() {
    let other = StreamId::unique();
    for ending in 0..6 {
        let mut world = World::new();
        let stream = world.stream;
        let window = world.window(WindowType::Type2B);
        let bind = world.request(&window);
        assert_eq!(world.bind(&bind), Ok(()));
        let stag = bind.window;
        assert_eq!(world.read(other, stag, 1010, 1), Err(Violation::WrongStream));
        assert_eq!(world.table.invalidate(stag, PD, other), Err(Violation::WrongStream));
        assert_eq!(world.table.invalidate_locally(stag, PD, other), Err(Violation::WrongStream));
        assert_eq!(world.read(stream, stag, 1010, 1), Ok(vec![10]));
        match ending {
            0 => assert_eq!(world.table.invalidate(stag, PD, stream), Ok(())),
            1 => assert_eq!(world.table.invalidate_locally(stag, PD, stream), Ok(())),
            2 => world.table.unbind_stream(stream),
            3 => world.table.revoke(&window),
            4 => assert!(world.table.deregister(world.region.stag).is_some()),
            _ => world.table.dealloc(&window),
        }
        assert_eq!(world.read(stream, stag, 1010, 1), Err(Violation::InvalidStag), "{ending}");
        assert_eq!(world.table.invalidate(stag, PD, stream), Err(Violation::InvalidStag));
        assert_eq!((window.is_valid(), world.region.has_windows()), (false, ending == 4));
        if ending < 4 {
            // The owner may invalidate it twice, and may bind it anew.
            assert_eq!(world.table.invalidate_locally(stag, PD, stream), Ok(()));
            let again = world.request(&window);
            assert_eq!(world.table.bind(&again, PD, other), Ok(()));
            assert_eq!(world.read(other, again.window, 1010, 1), Ok(vec![10]));
            assert_eq!(world.table.invalidate_locally(stag, PD, stream), Err(Violation::InvalidStag));
        }
    }
}

#[test]
fn an_stag_that_is_bound_or_registered_anew_is_of_another_generation() {
    let mut world = World::new();
    let window = world.window(WindowType::Type2B);
    let bind = world.request(&window);
    assert_eq!(world.table.generation(bind.window), None);
    world.bind(&bind).unwrap();
    let first = world.table.generation(bind.window);
    assert!(first.is_some());
    world.table.revoke(&window);
    assert_eq!(world.table.generation(bind.window), None);
    world.bind(&bind).unwrap();
    assert!(world.table.generation(bind.window) > first, "the same memory, and bound anew");
    world.table.revoke(&window);
    let region = world.table.generation(world.region.stag);
    assert!(region.is_some());
    let change = Change { region: Some((Region::owned(100).unwrap(), 1000)), ..Change::default() };
    world.table.reregister(&mut world.region, change).unwrap();
    assert!(world.table.generation(world.region.stag) > region);
    assert!(world.table.deregister(world.region.stag).is_some());
    assert_eq!(world.table.generation(world.region.stag), None);
}

#[test]
fn a_region_with_windows_is_not_invalidated_under_them() {
    let mut world = World::new();
    let stream = world.stream;
    let own = register(&mut world.table, PD, Some(stream), Access::ALL | Access::MW_BIND);
    let window = world.window(WindowType::Type2B);
    let bind = Bind { region: own.stag, ..world.request(&window) };
    assert_eq!(world.bind(&bind), Ok(()));
    assert_eq!(world.table.invalidate(own.stag, PD, stream), Err(Violation::Bound));
    assert_eq!(world.table.check_invalidate(own.stag, PD, stream), Err(Violation::Bound));
    assert_eq!(world.table.invalidate_locally(own.stag, PD, stream), Err(Violation::Bound));
    // The application may, and the window goes with the region.
    own.invalidate();
    assert_eq!(world.read(stream, bind.window, 1010, 1), Err(Violation::InvalidStag));
    assert_eq!(world.table.invalidate_locally(bind.window, PD, stream), Ok(()));
    assert!(!own.has_windows());
    let again = Bind { region: own.stag, ..world.request(&window) };
    assert_eq!(world.bind(&again), Err(Violation::InvalidStag));
}

#[test]
fn fast_registration_and_every_reason_against_it() {
    let mut world = World::new();
    let (stream, other) = (world.stream, StreamId::unique());
    let fast = world.fast(Some(stream));
    let window = world.window(WindowType::Type2B);
    let good =
        FastRegister { stag: fast.stag(0xAB), offset: 40, iova: 1 << 60, length: 60, access: Access::ALL };
    let cases = [
        (FastRegister { stag: window.stag(1), ..good }, Violation::InvalidStag),
        (FastRegister { stag: world.region.stag, ..good }, Violation::InvalidStag),
        (FastRegister { access: Access::REMOTE_WRITE, ..good }, Violation::Access),
        (FastRegister { access: Access::ALL | Access::MW_BIND, ..good }, Violation::Access),
        (FastRegister { offset: 41, ..good }, Violation::Bounds),
        (FastRegister { offset: u64::MAX, ..good }, Violation::Bounds),
        (FastRegister { iova: u64::MAX - 58, ..good }, Violation::Wrap),
    ];
    for (request, violation) in cases {
        assert_eq!(world.table.fast_register(&request, PD, stream), Err(violation), "{request:?}");
    }
    assert_eq!(world.table.fast_register(&good, PdId(2), stream), Err(Violation::WrongPd));
    assert_eq!(world.table.fast_register(&good, PD, other), Err(Violation::WrongStream));
    assert_eq!(world.check(good.stag, Access::LOCAL_READ, 1 << 60, 1), Err(Violation::InvalidStag));
    assert_eq!(world.table.fast_register(&good, PD, stream), Ok(()));
    assert_eq!(world.read(stream, good.stag, 1 << 60, 60), Ok((40..100).collect()));
    assert_eq!(world.read(other, good.stag, 1 << 60, 60), Err(Violation::WrongStream));
    assert_eq!(world.check(good.stag, Access::LOCAL_WRITE, (1 << 60) + 59, 1), Ok(()));
    assert_eq!(world.check(good.stag, Access::LOCAL_WRITE, (1 << 60) + 59, 2), Err(Violation::Bounds));
    assert_eq!(world.table.fast_register(&good, PD, stream), Err(Violation::Bound));
    assert_eq!(world.table.invalidate(good.stag, PD, stream), Ok(()));
    assert_eq!(world.read(stream, good.stag, 1 << 60, 1), Err(Violation::InvalidStag));
    let zero = Access::ALL | Access::ZERO_BASED;
    let again = FastRegister { stag: fast.stag(0xAC), access: zero, length: 10, ..good };
    assert_eq!(world.table.fast_register(&again, PD, stream), Ok(()));
    assert_eq!(world.read(stream, good.stag, 0, 1), Err(Violation::InvalidStag));
    assert_eq!(world.read(stream, again.stag, 0, 10), Ok((40..50).collect()));
}

#[test]
fn a_peer_cannot_invalidate_a_fast_registration_of_the_domain() {
    let mut world = World::new();
    let fast = world.fast(None);
    let access = Access::ALL;
    let request = FastRegister { stag: fast.stag(1), offset: 0, iova: 0, length: 100, access };
    assert_eq!(world.table.fast_register(&request, PD, world.stream), Ok(()));
    assert_eq!(world.table.invalidate(request.stag, PD, world.stream), Err(Violation::Access));
    assert_eq!(world.table.invalidate_locally(request.stag, PdId(2), world.stream), Err(Violation::WrongPd));
    assert_eq!(world.table.invalidate_locally(request.stag, PD, StreamId::unique()), Ok(()));
    assert!(!fast.is_valid());
}

#[test]
fn stags_of_windows_and_regions_never_meet() {
    let mut table = MemoryTable::new(3);
    let window = || KeyedKind::Window(WindowType::Type1);
    let keyed: Vec<_> = (0..300).map(|_| table.alloc(PD, None, window()).unwrap()).collect();
    assert_eq!((table.len(), table.windows()), (0, 300));
    let blocks: std::collections::HashSet<u32> = keyed.iter().map(|keyed| keyed.stag(0).0 >> 8).collect();
    assert_eq!(blocks.len(), 300);
    for _ in 0..2000 {
        let stag = register(&mut table, PD, None, Access::ALL).stag;
        assert!(!blocks.contains(&(stag.0 >> 8)));
    }
    for keyed in &keyed {
        table.dealloc(keyed);
        table.dealloc(keyed);
    }
    assert_eq!((table.len(), table.windows()), (2000, 0));
}

/// The block that the first window would get has an ordinary region in it: the window gets another one.
#[test]
fn a_block_with_a_region_in_it_is_left_alone() {
    let window = || KeyedKind::Window(WindowType::Type2B);
    let mut table = MemoryTable::new(5);
    let block = MemoryTable::new(5).alloc(PD, None, window()).unwrap().stag(0).0 >> 8;
    let places = (0..=0xFF).map(|key| table.permutation.slot(Stag(block << 8 | key)));
    let (slot, key) = places.min().unwrap();
    table.slots.resize_with(slot as usize, || Slot { key: 0, memory: None });
    let region = register(&mut MemoryTable::new(1), PD, None, Access::ALL);
    table.slots.push(Slot { key, memory: Some(region) });
    assert_ne!(table.alloc(PD, None, window()).unwrap().stag(0).0 >> 8, block);
}
