//! SYNC: memory with a copy in a file.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::net::Ipv4Addr;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use weft_netif::Duration;
use weft_rnic::{
    Access, Completion, CompletionOpcode, Config, Cq, CqInit, Data, Device, Ground, Mr, Pd, Progress, Qp,
    QpInit, Region, SendOpcode, SendWr, Status, Storage,
};
use weft_tests::{Pair, PairConfig};

use crate::world::{WR, drain, outcomes, pattern, post_recv};

const LEN: usize = 10_000;

/// Makes an empty file, with a second handle to read it.
fn file() -> [File; 2] {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("weft-sync-{}-{number}", std::process::id()));
    let open = || File::options().create(true).truncate(false).read(true).write(true).open(&path).unwrap();
    let both = [open(), open()];
    std::fs::remove_file(path).unwrap();
    both
}

fn contents(mut file: &File) -> Vec<u8> {
    let mut octets = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut octets).unwrap();
    octets
}

/// A file whose fdatasync waits for the test.
#[derive(Clone, Debug)]
struct Gate(Arc<(Mutex<State>, Condvar)>);

#[derive(Debug)]
struct State {
    file: File,
    is_open: bool,
    syncs: usize,
    is_full: bool,
}

impl Gate {
    fn new(file: File) -> Self {
        let state = State { file, is_open: false, syncs: 0, is_full: false };
        Self(Arc::new((Mutex::new(state), Condvar::new())))
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.0.0.lock().unwrap());
        self.0.1.notify_all();
    }

    fn open(&self) {
        self.change(|state| state.is_open = true);
    }

    /// Returns the number of calls so far.
    fn syncs(&self) -> usize {
        self.0.0.lock().unwrap().syncs
    }
}

impl Storage for Gate {
    fn write_at(&self, octets: &[u8], at: u64) -> io::Result<()> {
        let state = self.0.0.lock().unwrap();
        if state.is_full {
            return Err(io::ErrorKind::StorageFull.into());
        }
        state.file.write_all_at(octets, at)
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.0.0.lock().unwrap();
        state.syncs += 1;
        while !state.is_open {
            state = self.0.1.wait(state).unwrap();
        }
        state.file.sync_data()
    }
}

/// A device on the kernel's sockets with a file.
struct World {
    device: Device,
    pd: Pd,
    gate: Gate,
    whole: Arc<Region>,
    file: File,
}

impl World {
    fn new(progress: Progress) -> Self {
        let config = Config { progress, ..Config::host(Ipv4Addr::LOCALHOST.into(), 1) };
        let device = Device::open(Ground::Host, config).unwrap();
        let [kept, file] = file();
        kept.set_len(LEN as u64).unwrap();
        let gate = Gate::new(kept);
        let whole = Arc::new(Region::owned(LEN).unwrap().stored(Box::new(gate.clone())).unwrap());
        assert!(whole.copy_in(0, &pattern(LEN, 7)));
        Self { pd: device.alloc_pd(), device, gate, whole, file }
    }

    fn register(&self) -> Mr {
        self.pd.register_at(Region::part(&self.whole, 0..LEN).unwrap(), Access::ALL, 0).unwrap()
    }

    /// Makes a queue pair that is connected to itself.
    fn own(&self) -> (Qp, Cq) {
        let cq = self.device.create_cq_with(&CqInit::new(16)).unwrap();
        let qp = self.device.create_qp(&self.pd, &QpInit::new(&cq, &cq)).unwrap();
        qp.connect_self().unwrap();
        (qp, cq)
    }
}

fn sync(qp: &Qp, wr_id: u64, memory: &Mr, range: core::ops::Range<usize>) {
    let sges = [memory.sge(range.start, u32::try_from(range.len()).unwrap())];
    qp.post_send(&SendWr { wr_id, opcode: SendOpcode::Sync, data: Data::Sges(&sges), ..WR }).unwrap();
}

/// Waits for something that other threads do.
fn until<T>(mut look: impl FnMut() -> Option<T>) -> T {
    for _ in 0..20_000 {
        if let Some(found) = look() {
            return found;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    panic!("nothing has come of it")
}

fn next(cq: &Cq) -> Completion {
    until(|| cq.poll_one())
}

/// Between two devices: what is behind a SYNC waits for the disk, and all other connections go on.
#[test]
fn only_what_is_behind_it_waits_for_the_disk() {
    let sync_after = Duration::from_millis(20);
    let mut pair = Pair::connected(&PairConfig { peer_to_peer: true, sync_after, ..PairConfig::default() });
    let [kept, file] = file();
    let memory = Region::on_file(kept, LEN).unwrap();
    let memory = pair.a.pd.register_at(memory, Access::ALL, 0).unwrap();
    memory.write(0, &pattern(LEN, 3)).unwrap();
    post_recv(&pair.b.qp, 9, &[]);
    sync(&pair.a.qp, 1, &memory, 100..9000);
    pair.a.qp.post_send(&SendWr { wr_id: 2, ..WR }).unwrap();
    post_recv(&pair.a.qp, 3, &[]);
    pair.b.qp.post_send(&SendWr { wr_id: 4, ..WR }).unwrap();
    pair.settle(Duration::from_millis(10));
    assert_eq!(outcomes(&drain(&pair.a.cq)), [(3, Status::Success)], "it receives meanwhile");
    assert!(contents(&file) == vec![0; LEN]);
    pair.settle(Duration::from_millis(20));
    let done = drain(&pair.a.cq);
    assert_eq!(outcomes(&done), [(1, Status::Success), (2, Status::Success)]);
    assert_eq!((done[0].opcode, done[0].byte_len), (CompletionOpcode::Sync, 0));
    assert_eq!(outcomes(&drain(&pair.b.cq)), [(4, Status::Success), (9, Status::Success)]);
    let mut expected = vec![0; LEN];
    expected[100..9000].copy_from_slice(&pattern(LEN, 3)[100..9000]);
    assert!(contents(&file) == expected);
}

/// Three queue pairs wait for the first fdatasync to end, and share the second one.
#[test]
fn requests_that_come_meanwhile_share_an_fdatasync() {
    for progress in [Progress::Thread, Progress::Manual] {
        let world = World::new(progress);
        let memory = world.register();
        let own = [(); 4].map(|()| world.own());
        sync(&own[0].0, 0, &memory, 0..10);
        until(|| {
            world.device.assist();
            (world.gate.syncs() == 1).then_some(())
        });
        for (number, (qp, _)) in own.iter().enumerate().skip(1) {
            sync(qp, number as u64, &memory, number * 1000..number * 1000 + 10);
        }
        // All of them are in the queue when their queue pairs have begun them.
        until(|| {
            world.device.assist();
            let begun = |qp: &Qp| qp.query().is_some_and(|it| it.counters.sends_started == 1);
            own.iter().all(|(qp, _)| begun(qp)).then_some(())
        });
        assert!(own.iter().all(|(_, cq)| cq.poll_one().is_none()));
        world.gate.open();
        for (number, (_, cq)) in own.iter().enumerate() {
            assert_eq!(outcomes(&[next(cq)]), [(number as u64, Status::Success)]);
        }
        assert_eq!(world.gate.syncs(), 2, "{progress:?}");
        assert!(contents(&world.file)[3000..3010] == pattern(LEN, 7)[3000..3010]);
    }
}

#[test]
fn threads_have_names() {
    let world = World::new(Progress::Thread);
    let names = |device: &Device| device.threads().into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    until(|| (names(&world.device) == ["weft-engine-0"]).then_some(()));
    let _memory = world.register();
    until(|| (names(&world.device) == ["weft-engine-0", "weft-flush"]).then_some(()));
    for (name, id) in world.device.threads() {
        let comm = std::fs::read_to_string(format!("/proc/self/task/{id}/comm")).unwrap();
        assert_eq!(comm.trim(), name);
    }
}

/// The disk still works on it when the queue pair, the registration and the memory go.
#[test]
fn a_queue_pair_goes_during_a_sync() {
    let world = World::new(Progress::Thread);
    let memory = world.register();
    let (qp, cq) = world.own();
    let (other, others) = world.own();
    sync(&qp, 1, &memory, 0..500);
    sync(&other, 3, &memory, 600..700);
    until(|| (world.gate.syncs() > 0).then_some(()));
    qp.disconnect().unwrap();
    assert_eq!(outcomes(&[next(&cq)]), [(1, Status::WorkRequestFlushed)]);
    drop((qp, other, memory));
    assert!(others.poll_one().is_none());
    let World { device, gate, whole, file, .. } = world;
    let stays = Arc::downgrade(&whole);
    drop(whole);
    gate.open();
    // The thread finishes what was begun.
    drop((device, cq, others));
    until(|| stays.upgrade().is_none().then_some(()));
    assert!(contents(&file)[..500] == pattern(LEN, 7)[..500]);
}

#[test]
fn a_disk_that_fails_ends_the_queue_pair_for_good() {
    let world = World::new(Progress::Thread);
    world.gate.open();
    let memory = world.register();
    let (first, done) = world.own();
    sync(&first, 1, &memory, 0..500);
    assert_eq!(outcomes(&[next(&done)]), [(1, Status::Success)]);
    world.gate.change(|state| state.is_full = true);
    sync(&first, 2, &memory, 0..500);
    first.post_send(&SendWr { wr_id: 3, opcode: SendOpcode::Nop, ..WR }).unwrap();
    let ends = [next(&done), next(&done)];
    assert_eq!(outcomes(&ends), [(2, Status::General), (3, Status::WorkRequestFlushed)]);
    assert!(world.whole.is_spoiled());
    world.gate.change(|state| state.is_full = false);
    let (next_one, others) = world.own();
    sync(&next_one, 4, &memory, 0..500);
    assert_eq!(outcomes(&[next(&others)]), [(4, Status::General)]);
}
