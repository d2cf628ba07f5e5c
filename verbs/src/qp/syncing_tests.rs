//! SYNC: what is durable when it completes, and how it fails.

use std::io;
use std::sync::Mutex;

use weft_ddp::Stag;

use super::tests::{IDLE, WR, World, established};
use super::*;
use crate::access::Access;
use crate::memory::{MemoryRegion, Registration};
use crate::region::{Region, Storage};
use crate::syncing::Syncer;
use crate::work::{Data, SendOpcode, SendWr};

/// A file of the test's own, and what was asked of it.
#[derive(Clone, Debug, Default)]
struct Disk(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    octets: Vec<u8>,
    writes: usize,
    syncs: usize,
    /// How many writes it has room for, and how many syncs go well.
    room: [Option<usize>; 2],
}

impl Storage for Disk {
    fn write_at(&self, octets: &[u8], at: u64) -> io::Result<()> {
        let mut state = self.0.lock().unwrap();
        state.writes += 1;
        if state.room[0].is_some_and(|room| state.writes > room) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let at = usize::try_from(at).unwrap();
        state.octets[at..at + octets.len()].copy_from_slice(octets);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.0.lock().unwrap();
        state.syncs += 1;
        match state.room[1].is_some_and(|room| state.syncs > room) {
            true => Err(io::ErrorKind::Other.into()),
            false => Ok(()),
        }
    }
}

impl Disk {
    fn new(len: usize) -> Self {
        Self(Arc::new(Mutex::new(State { octets: vec![0; len], ..State::default() })))
    }

    fn contents(&self) -> Vec<u8> {
        self.0.lock().unwrap().octets.clone()
    }

    fn asked(&self) -> (usize, usize) {
        let state = self.0.lock().unwrap();
        (state.writes, state.syncs)
    }

    fn with_room(self, room: [Option<usize>; 2]) -> Self {
        self.0.lock().unwrap().room = room;
        self
    }
}

const LEN: usize = 600_000;

fn pattern() -> Vec<u8> {
    (0..LEN).map(|at| at.to_le_bytes()[0] ^ (at >> 8).to_le_bytes()[0] | 1).collect()
}

/// Registers a part of memory that is kept on `disk`, and returns the whole too.
fn kept(world: &mut World, disk: &Disk, from: usize) -> (Arc<Region>, Arc<MemoryRegion>) {
    let whole = Arc::new(Region::owned(LEN).unwrap().stored(Box::new(disk.clone())).unwrap());
    assert!(whole.copy_in(0, &pattern()));
    let region = Region::part(&whole, from..LEN).unwrap();
    let memory = register(world, region, Access::ALL);
    (whole, memory)
}

fn register(world: &mut World, region: Region, access: Access) -> Arc<MemoryRegion> {
    world.memory.register(Registration { pd: PdId(1), stream: None, access, iova: 0, region }).unwrap()
}

fn sync(world: &World, wr_id: u64, sges: &[Sge]) {
    world.post_wr(SendWr { wr_id, opcode: SendOpcode::Sync, data: Data::Sges(sges), ..WR }).unwrap();
}

fn later(world: &World, wr_id: u64, sges: &[Sge]) {
    world.post_wr(SendWr { wr_id, opcode: SendOpcode::SyncLater, data: Data::Sges(sges), ..WR }).unwrap();
}

const fn sge(memory: &MemoryRegion, addr: u64, length: u32) -> Sge {
    Sge { addr, length, lkey: memory.stag }
}

fn alone() -> World {
    let mut world = World::unpolled(None);
    assert!(world.qp.connect_self());
    world
}

fn run(world: &mut World) -> Result<Option<Arc<SyncJob>>, LocalFault> {
    if world.qp.is_alone() {
        world.qp.run_alone(&world.memory)?;
    } else {
        world.qp.next_message(IDLE, &world.memory)?;
    }
    Ok(world.qp.take_sync())
}

fn carry_out(jobs: &[Arc<SyncJob>]) {
    Syncer::default().carry_out(jobs.iter());
}

#[test]
fn memory_without_a_file_is_done_at_once() {
    for mut world in [alone(), established()] {
        let memory = register(&mut world, Region::owned(64).unwrap(), Access::REMOTE_READ);
        sync(&world, 1, &[sge(&memory, 0, 64)]);
        sync(&world, 2, &[]);
        assert!(run(&mut world).unwrap().is_none());
        assert_eq!(world.sent(), [(1, Status::Success), (2, Status::Success)]);
    }
}

/// What was named is in the file when the request completes, and nothing else. What is behind it waits.
#[test]
fn the_ranges_are_in_the_file_before_it_completes() {
    for mut world in [alone(), established()] {
        let disk = Disk::new(LEN);
        let (whole, memory) = kept(&mut world, &disk, 1000);
        assert!(whole.is_stored() && memory.region.is_stored());
        sync(&world, 1, &[sge(&memory, 10, 5), sge(&memory, 7, 0), sge(&memory, 2000, 590_000)]);
        world.post(2, SendOpcode::Nop, 0).unwrap();
        let job = run(&mut world).unwrap().expect("a SYNC");
        assert!(run(&mut world).unwrap().is_none(), "each of them once");
        assert_eq!((world.sent(), disk.contents() == vec![0; LEN]), (vec![], true));
        carry_out(&[job]);
        assert!(run(&mut world).unwrap().is_none());
        assert_eq!(world.sent(), [(1, Status::Success), (2, Status::Success)]);
        let mut expected = vec![0; LEN];
        for range in [1010..1015, 3000..593_000] {
            expected[range.clone()].copy_from_slice(&pattern()[range]);
        }
        assert!(disk.contents() == expected);
        assert_eq!(disk.asked().1, 1);
        // The same object serves again.
        sync(&world, 3, &[sge(&memory, 0, 1)]);
        let job = run(&mut world).unwrap().expect("a SYNC");
        carry_out(&[job]);
        run(&mut world).unwrap();
        assert_eq!((world.sent(), disk.asked().1), (vec![(3, Status::Success)], 2));
    }
}

/// What is left to a later SYNC completes at once, and is in the file when that one completes, as the memory is by then.
/// That it names no octets by itself, or memory without a file, does not matter.
#[test]
fn a_sync_carries_out_what_was_left_to_it() {
    for mut world in [alone(), established()] {
        let disk = Disk::new(LEN);
        let (whole, memory) = kept(&mut world, &disk, 0);
        let mut expected = vec![0; LEN];
        for (turn, last) in [(0, 300), (1, 0)] {
            let first = 1000 * turn;
            later(&world, 1, &[sge(&memory, first, 5), sge(&memory, first + 100, 5)]);
            later(&world, 2, &[sge(&memory, first + 200, 5)]);
            assert!(run(&mut world).unwrap().is_none());
            assert_eq!(world.sent(), [(1, Status::Success), (2, Status::Success)]);
            let at = usize::try_from(first).unwrap();
            assert!(disk.contents() == expected && whole.copy_in(at, b"later"));
            sync(&world, 3, &[sge(&memory, first + 500, last)]);
            let job = run(&mut world).unwrap().expect("a SYNC");
            carry_out(&[job]);
            run(&mut world).unwrap();
            assert_eq!(world.sent(), [(3, Status::Success)]);
            let synced = 500..500 + last as usize;
            for range in [0..5, 100..105, 200..205, synced] {
                expected[at..][range.clone()].copy_from_slice(&pattern()[at..][range]);
            }
            expected[at..at + 5].copy_from_slice(b"later");
            assert!(disk.contents() == expected);
        }
        assert_eq!(disk.asked(), (7, 2));
    }
}

/// Only so many octets are kept in mind.
#[test]
fn too_much_left_is_synced_at_once() {
    let disk = Disk::new(LEN);
    let mut world = alone();
    let (_, memory) = kept(&mut world, &disk, 0);
    for count in 1..=257 {
        later(&world, count, &[sge(&memory, 2 * count, 1)]);
        let job = run(&mut world).unwrap();
        assert_eq!((job.is_some(), world.sent().len()), (count == 257, usize::from(count < 257)));
        if let Some(job) = job {
            carry_out(&[job]);
        }
    }
    run(&mut world).unwrap();
    assert_eq!((world.sent(), disk.asked()), (vec![(257, Status::Success)], (257, 1)));
}

#[test]
fn requests_of_one_file_share_its_fdatasync() {
    let (disk, other) = (Disk::new(LEN), Disk::new(LEN));
    let mut worlds = [alone(), alone(), alone()];
    let jobs: Vec<_> = worlds
        .iter_mut()
        .zip([&disk, &disk, &other])
        .map(|(world, disk)| {
            let (_, memory) = kept(world, disk, 0);
            sync(world, 1, &[sge(&memory, 0, 9), sge(&memory, 20, 9)]);
            run(world).unwrap().unwrap()
        })
        .collect();
    // The first two are different memories on one disk, as two are not in earnest.
    carry_out(&jobs);
    assert_eq!((disk.asked(), other.asked()), ((4, 2), (2, 1)));
    let (whole, _) = kept(&mut worlds[0], &disk, 0);
    let jobs: Vec<_> = worlds
        .iter_mut()
        .map(|world| {
            run(world).unwrap();
            let memory = register(world, Region::part(&whole, 5..70).unwrap(), Access::ALL);
            sync(world, 2, &[sge(&memory, 0, 9)]);
            run(world).unwrap().unwrap()
        })
        .collect();
    carry_out(&jobs);
    assert_eq!(disk.asked(), (7, 3), "one for three requests");
    for world in &mut worlds {
        run(world).unwrap();
        assert_eq!(world.sent(), [(1, Status::Success), (2, Status::Success)]);
    }
}

/// Neither a later write nor a later fdatasync makes good what has failed once.
#[test]
fn a_failure_is_final() {
    for room in [[Some(1), None], [None, Some(0)]] {
        let disk = Disk::new(LEN).with_room(room);
        let (mut world, mut next) = (alone(), alone());
        let (whole, memory) = kept(&mut world, &disk, 100);
        sync(&world, 1, &[sge(&memory, 0, 5), sge(&memory, 20, 5)]);
        world.post(2, SendOpcode::Nop, 0).unwrap();
        let job = run(&mut world).unwrap().unwrap();
        assert!(!whole.is_spoiled());
        carry_out(&[job]);
        assert!(whole.is_spoiled() && memory.region.is_spoiled());
        assert_eq!(run(&mut world).err(), Some(LocalFault(Status::General)));
        world.qp.handle_event(QpEvent::Failed);
        assert_eq!(world.sent(), [(1, Status::General), (2, Status::WorkRequestFlushed)]);
        disk.clone().with_room([None, None]);
        let asked = disk.asked();
        let again = register(&mut next, Region::part(&whole, 0..8).unwrap(), Access::ALL);
        sync(&next, 3, &[sge(&again, 0, 8)]);
        let job = run(&mut next).unwrap().unwrap();
        carry_out(&[job]);
        assert_eq!(run(&mut next).err(), Some(LocalFault(Status::General)));
        assert_eq!(disk.asked(), asked, "nothing more is asked of it");
        assert!(whole.copy_in(0, b"still there"));
    }
}

/// A queue pair ends with its SYNC under way. The memory stays until that is carried out.
#[test]
fn an_end_does_not_wait_for_the_disk() {
    let mut world = alone();
    let disk = Disk::new(LEN);
    let (whole, memory) = kept(&mut world, &disk, 0);
    sync(&world, 1, &[sge(&memory, 0, 100)]);
    world.post(2, SendOpcode::Nop, 0).unwrap();
    let job = run(&mut world).unwrap().unwrap();
    world.qp.handle_event(QpEvent::CloseStarted);
    world.qp.handle_event(QpEvent::LlpClosed);
    let flushed = Status::WorkRequestFlushed;
    assert_eq!(world.sent(), [(1, flushed), (2, flushed)]);
    let stays = Arc::downgrade(&whole);
    world.memory.deregister(memory.stag);
    drop((whole, memory));
    assert!(stays.upgrade().is_none(), "the part is gone");
    drop(world);
    carry_out(&[job]);
    assert_eq!((disk.asked(), disk.contents()[..100] == pattern()[..100]), ((1, 1), true));
}

#[test]
fn a_drain_waits_for_it() {
    let mut world = alone();
    let disk = Disk::new(LEN);
    let (_, memory) = kept(&mut world, &disk, 0);
    sync(&world, 1, &[sge(&memory, 0, 100)]);
    world.qp.drain();
    let job = run(&mut world).unwrap().unwrap();
    assert!(!world.qp.is_drained());
    carry_out(&[job]);
    run(&mut world).unwrap();
    assert!(world.qp.is_drained());
    assert_eq!(world.sent(), [(1, Status::Success)]);
}

#[test]
fn memory_that_is_not_its_own_is_refused() {
    type Bad = fn(&MemoryRegion) -> Sge;
    let bad: [Bad; 3] = [
        |memory| sge(memory, memory.region.len() as u64, 1),
        |memory| sge(memory, u64::MAX, 2),
        |_| Sge { addr: 0, length: 1, lkey: Stag(7) },
    ];
    for bad in bad {
        let mut world = alone();
        let disk = Disk::new(LEN);
        let (_, memory) = kept(&mut world, &disk, 0);
        sync(&world, 1, &[sge(&memory, 0, 1), bad(&memory)]);
        assert_eq!(run(&mut world).err(), Some(LocalFault(Status::LocalProtection)));
        assert_eq!((world.sent(), disk.asked()), (vec![(1, Status::LocalProtection)], (0, 0)));
    }
}
