//! Changes of epoch over the network: members fail, spares join, and clients go on.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use weft_group::{
    Ask, ChangeError, Coordinator, FileRegister, Fresh, Host as Named, Limits, Managed, Membership, Mirror,
    Options, Record, RepairError, Reply, Report, SessionError, Topology, Wish, change_epoch,
};
use weft_rnic::{Device, Progress, Region, Storage};

use crate::hosts::{Host, device};

/// More than one hash table's Read and more than one SYNC need would take seconds; several blocks, and a part of one.
const LEN: usize = 700_000;

/// Hosts, and the register of their group.
struct World {
    hosts: Vec<Option<Host>>,
    client: Device,
    path: PathBuf,
    options: Options,
}

impl World {
    fn new(count: u64, replicas: usize, topology: Topology) -> Self {
        Self::of((0..count).map(|seed| Host::of(seed, Limits::default(), LEN)), replicas, topology, LEN)
    }

    /// Makes a record in which all hosts are spares.
    fn of(hosts: impl Iterator<Item = Host>, replicas: usize, topology: Topology, len: usize) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("weft-group-repair-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let hosts: Vec<Option<Host>> = hosts.map(Some).collect();
        let options = Options { timeout: Duration::from_secs(2), window: 8, ..Options::default() };
        let world = Self { hosts, client: device(77, Progress::Thread), path, options };
        let spares = (0..world.hosts.len()).map(|at| world.named(at)).collect();
        let record = Record::found("g", spares, replicas, (topology, len as u64));
        assert_eq!(world.register().swap(None, &record), Ok(true));
        world
    }

    fn named(&self, at: usize) -> Named {
        let addr = self.hosts[at].as_ref().unwrap().server.address().to_string();
        Named { id: format!("h{at}"), addr }
    }

    fn register(&self) -> FileRegister {
        FileRegister::new(&self.path)
    }

    fn change(&self, wish: Wish) -> Result<Arc<Record>, RepairError> {
        Coordinator::new(&self.client, &self.register(), &self.options).change(wish, |_| {})
    }

    fn managed(&self, from: Option<u64>) -> Result<Managed, SessionError> {
        Managed::take(&self.client, Box::new(self.register()), self.options.clone(), from)
    }

    fn contents(&self, at: usize) -> Vec<u8> {
        let mut octets = vec![0; LEN];
        assert!(self.hosts[at].as_ref().unwrap().memory.copy_out(0, &mut octets));
        octets
    }

    /// Checks that the members of the last epoch hold the same octets, and returns them.
    fn agreed(&self) -> Vec<u8> {
        let record = self.register().get().unwrap().unwrap();
        let at = |id: &str| id[1..].parse::<usize>().unwrap();
        let mut all = record.members.iter().map(|seat| self.contents(at(&seat.host.id)));
        let first = all.next().unwrap();
        assert!(all.all(|other| other == first), "members differ: {record:?}");
        first
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
        let mut lock = self.path.clone().into_os_string();
        lock.push(".lock");
        let _ = std::fs::remove_file(lock);
    }
}

fn ids(record: &Record) -> String {
    record.members.iter().map(|seat| seat.host.id.as_str()).collect::<Vec<_>>().join(" ")
}

/// Each member in turn goes away while a mirror works. A spare takes its place with all octets, and nothing that was synced
/// is lost.
#[test]
fn a_mirror_survives_the_loss_of_each_member() {
    for topology in [Topology::Chain, Topology::Fan] {
        for lost in 0..3 {
            let mut world = World::new(4, 3, topology);
            // A spare with a past: what it holds must not be seen.
            let past = world.hosts[3].as_ref().unwrap();
            assert!(past.memory.copy_in(100_000, &[0xEE; 300_000]));
            let mut mirror = Mirror::open(world.managed(None).unwrap()).unwrap();
            mirror.set_len(600_000).unwrap();
            let mut expected = vec![0_u8; 600_000];
            for turn in 1..=6_u8 {
                let at = usize::from(turn) * 90_000;
                expected[at..at + 40_000].fill(turn);
                mirror.write(at as u64, &vec![turn; 40_000]).unwrap();
                if turn == 4 {
                    drop(world.hosts[lost].take());
                }
                mirror.sync().unwrap();
                assert!(world.agreed()[4096..604_096] == expected, "{topology:?}, {lost}, {turn}");
            }
            let record = world.register().get().unwrap().unwrap();
            assert_eq!((record.epoch, record.members.len(), record.spares.len()), (2, 3, 1));
            assert!(ids(&record).contains("h3") && record.spares[0].id == format!("h{lost}"), "{record:?}");
        }
    }
}

/// Another client takes the group over. The former one does not come back, whatever it does.
#[test]
fn a_client_that_was_replaced_hears_of_it() {
    let mut world = World::new(3, 3, Topology::Chain);
    let mut first = Mirror::open(world.managed(None).unwrap()).unwrap();
    first.set_len(10_000).unwrap();
    first.write(0, b"of the first").unwrap();
    first.sync().unwrap();
    let mut second = Mirror::open(world.managed(None).unwrap()).unwrap();
    let mut found = [0; 12];
    second.read(0, &mut found).unwrap();
    assert_eq!(&found, b"of the first");
    first.write(0, b"of the former").unwrap();
    let sealed = weft_group::MirrorError::Session(SessionError::Sealed { epoch: 2 });
    assert_eq!(first.sync(), Err(sealed.clone()));
    assert_eq!(first.confirm(), Err(sealed));
    // Both lose a member: the second one goes on.
    drop(world.hosts[1].take());
    second.write(0, b"of the second").unwrap();
    second.sync().unwrap();
    assert!(first.sync().is_err());
    assert_eq!(&world.agreed()[4096..4109], b"of the second");
    assert!(matches!(world.managed(Some(1)).err(), Some(SessionError::Sealed { .. })));
}

/// Coordinators at the same time, in the middle of each other's copies: each is told a new epoch or that another one came
/// first, and the group can be used.
#[test]
fn coordinators_at_the_same_time_leave_one_epoch() {
    let len = 16 << 20;
    let hosts = (0..3).map(|seed| Host::of(seed, Limits::default(), len));
    let world = World::of(hosts, 3, Topology::Chain, len);
    world.change(Wish::default()).unwrap();
    let epochs: Vec<u64> = std::thread::scope(|scope| {
        let change = || world.change(Wish::default()).map(|record| record.epoch);
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(change)).collect();
        threads.into_iter().filter_map(|thread| thread.join().unwrap().ok()).collect()
    });
    assert!(!epochs.is_empty());
    let record = world.register().get().unwrap().unwrap();
    assert_eq!(Some(&record.epoch), epochs.iter().max(), "{epochs:?}");
    let mut mirror = Mirror::open(world.managed(Some(record.epoch)).unwrap()).unwrap();
    mirror.set_len(9).unwrap();
    mirror.sync().unwrap();
}

/// All volatile members have restarted: there is no source, and it is said.
#[test]
fn a_group_without_a_source_is_lost() {
    let mut world = World::new(2, 2, Topology::Fan);
    world.change(Wish::default()).unwrap();
    for at in 0..2 {
        let limits = Limits::default();
        let address = world.hosts[at].as_ref().unwrap().server.address();
        drop(world.hosts[at].take());
        world.hosts[at] = Some(Host::at(address, at as u64, limits, LEN));
    }
    for is_from_storage in [false, true] {
        let lost = world.change(Wish { from: None, is_from_storage });
        assert_eq!(lost, Err(RepairError::Change(ChangeError::NoSource { is_stored: false })));
    }
    // One that does not answer is named with its reason.
    drop(world.hosts[1].take());
    let (register, mut silent) = (world.register(), Vec::new());
    let coordinator = Coordinator::new(&world.client, &register, &world.options);
    let lost = coordinator.change(Wish::default(), |report| {
        if let Report::Silent(host, reason) = report {
            silent.push(format!("{}: {reason}", host.id));
        }
    });
    assert!(lost.is_err() && silent.len() == 1 && silent[0].starts_with("h1: nobody listens"), "{silent:?}");
}

/// A disk that begins to fail.
#[derive(Debug)]
struct Disk(Arc<AtomicBool>);

impl Storage for Disk {
    fn write_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        if self.0.load(Ordering::Relaxed) { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }
}

/// The disk of a member fails. The flush is acknowledged in the next epoch, by members whose disks work; the member is not
/// taken as one again, not even as a spare, until it starts with a disk that works.
#[test]
fn a_member_whose_disk_fails_leaves() {
    let is_failing = Arc::new(AtomicBool::new(false));
    let disk = |seed| {
        let is_failing = if seed == 0 { Arc::clone(&is_failing) } else { Arc::default() };
        Region::owned(LEN).unwrap().stored(Box::new(Disk(is_failing))).unwrap()
    };
    let hosts = (0..4).map(|seed| Host::on((disk(seed), LEN), seed, Limits::default()));
    let world = World::of(hosts, 3, Topology::Chain, LEN);
    let mut mirror = Mirror::open(world.managed(None).unwrap()).unwrap();
    mirror.set_len(100_000).unwrap();
    mirror.sync().unwrap();
    is_failing.store(true, Ordering::Relaxed);
    mirror.write(0, b"flushed").unwrap();
    mirror.sync().unwrap();
    let record = world.register().get().unwrap().unwrap();
    assert_eq!((record.epoch, ids(&record).as_str()), (2, "h1 h2 h3"));
    assert_eq!(&world.agreed()[4096..4103], b"flushed");
    // There is a free seat, and it does not get it.
    let changed = Record { replicas: 4, ..record.clone() };
    assert_eq!(world.register().swap(Some(&record), &changed), Ok(true));
    let record = world.change(Wish::default()).unwrap();
    assert_eq!((record.epoch, ids(&record).as_str()), (3, "h1 h2 h3"));
}

/// A session that is left over from an older epoch, at a replica that nobody could seal, is worth nothing to its client: it
/// is not told anything that the group has not confirmed.
#[test]
fn a_client_of_an_older_epoch_gets_no_confirmed_read() {
    let world = World::new(3, 3, Topology::Chain);
    let record = world.change(Wish::default()).unwrap();
    let register = world.register();
    let coordinator = Coordinator::new(&world.client, &register, &world.options);
    let mut session = coordinator.open(&record).unwrap();
    let mut found = [0; 8];
    session.read(0, &mut found, Fresh::Confirmed).unwrap();
    // The tail is cut off from the coordinator: it is not sealed, and the others go on without it.
    let cut = |ask: &Ask<'_>| match ask {
        Ask::Seal { host, .. } if host.id == "h2" => None,
        ask => Some(coordinator.ask(ask, &mut |_| {})),
    };
    let newer = change_epoch(&register, Wish::default(), |ask| cut(ask).unwrap_or(Reply::Silent)).unwrap();
    assert_eq!(ids(&newer), "h0 h1");
    let mut fresh = coordinator.open(&newer).unwrap();
    let id = fresh.write(0, b"is newer").unwrap();
    fresh.wait(id).unwrap();
    let stale = session.read(0, &mut found, Fresh::Confirmed);
    assert_eq!(stale, Err(SessionError::Sealed { epoch: 2 }));
    assert!(coordinator.open(&record).is_err(), "the old epoch does not open again");
}
