//! A mirror is a file that replicas hold.

use weft_group::{Limits, Mirror, MirrorError, SessionError, Topology};

use crate::hosts::{Group, LEN, options};
use crate::memory::{Memory, Random};

const PAGE: usize = 4096;

/// A file that knows which octets were changed since the last sync.
#[derive(Clone, Default)]
struct File {
    contents: Vec<u8>,
    synced: Vec<u8>,
    /// Octets that were written, or cut off and added, since then.
    is_changed: Vec<bool>,
}

/// Does something random to a mirror and to a file. Returns the error of the mirror.
fn step<G: weft_group::Group>(
    mirror: &mut Mirror<G>,
    file: &mut File,
    random: &mut Random,
) -> Result<(), MirrorError> {
    let capacity = usize::try_from(mirror.capacity()).unwrap();
    match random.below(10) {
        0..=4 => {
            let at = random.below(file.contents.len() + 1);
            let len = random.below((file.contents.len() - at).min(9000) + 1);
            let octets: Vec<u8> = (0..len).map(|_| random.next().to_le_bytes()[0]).collect();
            file.contents[at..at + len].copy_from_slice(&octets);
            file.is_changed[at..at + len].fill(true);
            mirror.write(at as u64, &octets)
        }
        5 => {
            let len = random.below(capacity + 1);
            let kept = len.min(file.contents.len());
            file.is_changed[kept..].fill(true);
            file.contents.resize(len, 0);
            let longest = file.is_changed.len().max(len);
            file.is_changed.resize(longest, true);
            mirror.set_len(len as u64)
        }
        6 => {
            assert_eq!(mirror.set_len(capacity as u64 + 1), Err(MirrorError::StorageFull));
            let len = file.contents.len() as u64;
            assert_eq!(mirror.write(len, b"x"), Err(MirrorError::Bounds));
            assert_eq!(mirror.write(u64::MAX, b"x"), Err(MirrorError::Bounds));
            assert_eq!(mirror.read(len, &mut [0]), Err(MirrorError::Bounds));
            Ok(())
        }
        7 => mirror.confirm(),
        _ => {
            mirror.sync()?;
            file.synced = file.contents.clone();
            file.is_changed = vec![false; file.contents.len()];
            assert_eq!(mirror.unsynced(), 0);
            Ok(())
        }
    }
}

fn contents<G: weft_group::Group>(mirror: &Mirror<G>) -> Vec<u8> {
    let mut octets = vec![0; usize::try_from(mirror.len()).unwrap()];
    mirror.read(0, &mut octets).unwrap();
    octets
}

/// The client dies at each step, the replicas lose their power or not, and another client opens the mirror.
#[test]
fn what_was_synced_is_there_after_a_crash_at_each_step() {
    for steps in 0..400 {
        let mut random = Random(steps / 2);
        let memory = Memory::new(10 * PAGE as u64);
        memory.ends_after(steps, SessionError::TimedOut);
        let mut file = File::default();
        let end = Mirror::open(memory.clone()).map(|mut mirror| {
            loop {
                if let Err(error) = step(&mut mirror, &mut file, &mut random) {
                    break error;
                }
                assert!(contents(&mirror) == file.contents);
            }
        });
        assert_eq!(end.unwrap_or_else(|error| error), MirrorError::Session(SessionError::TimedOut));
        let found = contents(&Mirror::open(memory.after_crash(steps, steps % 2 == 1)).unwrap());
        let lengths = [file.synced.len(), file.contents.len()];
        assert!(lengths.contains(&found.len()), "{steps}: {} and not {lengths:?}", found.len());
        for (at, octet) in file.synced.iter().enumerate().take(found.len()) {
            assert!(*octet == found[at] || file.is_changed[at], "{steps}: octet {at}");
        }
    }
}

/// The session is lost again and again, at each step, and the group recovers. The mirror repeats what was under way.
#[test]
fn a_mirror_goes_on_where_the_group_recovers() {
    for steps in 0..60 {
        let mut random = Random(steps / 2);
        let memory = Memory::new(10 * PAGE as u64);
        memory.ends_after(steps, SessionError::TimedOut);
        memory.recovers((0..40).map(|count| (steps + count) % 23));
        let mut file = File::default();
        let mut mirror = Mirror::open(memory.clone()).unwrap();
        let mut syncs = 0;
        while memory.recoveries_left() > 0 {
            if step(&mut mirror, &mut file, &mut random).is_err() {
                break;
            }
            assert!(contents(&mirror) == file.contents);
            if random.below(3) == 0 && mirror.sync().is_ok() {
                syncs += 1;
                let len = file.contents.len();
                assert!(memory.contents()[PAGE..PAGE + len] == file.contents, "{steps}");
                let found = contents(&Mirror::open(memory.after_crash(0, true)).unwrap());
                assert!(found == file.contents, "{steps}: a power loss after a sync");
            }
        }
        assert!(memory.recoveries_left() == 0 && syncs > 0, "{steps}");
    }
}

/// What a mirror sends over real chains and fans is in the memory of all replicas, and the next client finds it.
#[test]
fn all_replicas_hold_what_was_synced() {
    for topology in [Topology::Chain, Topology::Fan] {
        let group = Group::new(3, &Limits::default());
        let mut random = Random(5);
        let mut file = File::default();
        for _ in 0..3 {
            let mut mirror = Mirror::open(group.open(&options(topology)).unwrap()).unwrap();
            assert!(contents(&mirror) == file.synced);
            file.contents = file.synced.clone();
            for _ in 0..60 {
                step(&mut mirror, &mut file, &mut random).unwrap();
            }
            mirror.write(0, b"").unwrap();
            mirror.sync().unwrap();
            file.synced = file.contents.clone();
            for host in &group.hosts {
                let end = PAGE + file.contents.len();
                assert!(host.contents()[PAGE..end] == file.contents, "{topology:?}");
            }
        }
        assert!(file.synced.len() > PAGE && file.synced.len() <= LEN - PAGE);
    }
}

#[test]
fn a_range_of_something_else_is_refused() {
    let memory = Memory::new(5 * PAGE as u64);
    memory.spoil(3, b"something");
    assert_eq!(Mirror::open(memory).err(), Some(MirrorError::Foreign));
    assert_eq!(Mirror::open(Memory::new(PAGE as u64)).err(), Some(MirrorError::StorageFull));
}

/// All that was written is flushed by one synchronization of the file.
#[test]
fn a_sync_synchronizes_a_file_once() {
    let memory = Memory::new(200 * PAGE as u64);
    let mut mirror = Mirror::open(memory.clone()).unwrap();
    mirror.set_len(199 * PAGE as u64).unwrap();
    mirror.sync().unwrap();
    memory.ends_after(1000, SessionError::TimedOut);
    let syncs = memory.syncs();
    for page in [0, 1, 3, 100, 110, 111] {
        mirror.write(page * PAGE as u64, &[7; PAGE]).unwrap();
    }
    assert_eq!(mirror.unsynced(), 6 * PAGE as u64);
    mirror.sync().unwrap();
    // Runs of 2, 1, 1 and 2 pages in pieces of 5000 octets are 6 writes; each is a step to begin and one to end.
    assert_eq!((memory.steps_left(), memory.syncs()), (1000 - 12, syncs + 1));
    assert!(memory.after_crash(0, true).contents() == memory.contents());
}
