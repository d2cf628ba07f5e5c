//! Replicas whose memory has a copy in a file.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use weft_group::{Copy, Durability, Limits, Op, OpError, Replicas, SessionError, Swap, Topology};
use weft_rnic::{Progress, Region, Storage};

use crate::chain::{Chain, LEN, WINDOW};
use crate::hosts::{self, Group, Host, device, options};

/// Where the range of the session begins in the memory of a replica.
const FIRST: usize = 64;

/// Makes a memory on a new file. The second handle reads the file.
fn kept() -> (Arc<Region>, File) {
    let (memory, file) = kept_of(LEN + FIRST);
    (Arc::new(memory), file)
}

fn kept_of(len: usize) -> (Region, File) {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("weft-group-{}-{number}", std::process::id()));
    let open = || File::options().create(true).truncate(false).read(true).write(true).open(&path).unwrap();
    let (memory, file) = (Region::on_file(open(), len).unwrap(), open());
    std::fs::remove_file(path).unwrap();
    (memory, file)
}

fn contents(mut file: &File) -> Vec<u8> {
    let mut octets = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut octets).unwrap();
    octets.split_off(FIRST)
}

/// A flush that is acknowledged is in the files of all replicas, whatever part of a pass it was. Nothing else is.
#[test]
fn what_was_flushed_is_in_all_files() {
    for replicas in 1..=3 {
        let (memories, files): (Vec<_>, Vec<_>) = (0..replicas).map(|_| kept()).unzip();
        let mut chain = Chain::on(memories, LEN as u64, Durability::File);
        let session = &mut chain.session;
        session.write(10, b"written and flushed").unwrap();
        session.write(100, b"written only").unwrap();
        session.flush(10..20).unwrap();
        for _ in 0..3 {
            chain.done().unwrap();
        }
        let mut expected = vec![0; LEN];
        expected[10..20].copy_from_slice(b"written an");
        assert!(files.iter().all(|file| contents(file) == expected));
        // Everything in one pass: the flush is the last of it.
        let op = Op {
            write: Some(200..204),
            copy: Some(Copy { from: 10, to: 208, len: 7 }),
            swap: Some(Swap {
                at: 216,
                compare: 0,
                swap: u64::from_ne_bytes(*b"swapped!"),
                on: Replicas::ALL,
            }),
            flush: Some(200..224),
            ..Op::default()
        };
        chain.session.submit(&op, b"pass").unwrap();
        chain.done().unwrap();
        expected[200..204].copy_from_slice(b"pass");
        expected[208..215].copy_from_slice(b"written");
        expected[216..224].copy_from_slice(b"swapped!");
        assert!(files.iter().all(|file| contents(file) == expected));
    }
}

/// Servers whose memories have files, without a word of the client about them.
#[test]
fn servers_flush_without_being_told_of_files() {
    for topology in [Topology::Chain, Topology::Fan] {
        let (hosts, files): (Vec<_>, Vec<_>) = (0..3)
            .map(|seed| {
                let (memory, file) = kept_of(hosts::LEN);
                (Host::on((memory, LEN), seed, Limits::default()), file)
            })
            .unzip();
        let group = Group { hosts, client: device(99, Progress::Thread) };
        let mut session = group.open(&options(topology)).unwrap();
        session.write(FIRST as u64, b"kept").unwrap();
        let id = session.flush(0..100).unwrap();
        session.wait(id).unwrap();
        assert!(files.iter().all(|file| contents(file).starts_with(b"kept\0")), "{topology:?}");
    }
}

/// Many laps with as many operations under way as there is room for. Each octet that was acknowledged is in the files.
#[test]
fn flushes_of_many_laps() {
    let (memories, files): (Vec<_>, Vec<_>) = (0..3).map(|_| kept()).unzip();
    let mut chain = Chain::on(memories, LEN as u64, Durability::File);
    let mut model = vec![0; LEN];
    for lap in 0..20_u8 {
        for slot in 0..WINDOW as usize {
            let at = slot * 400 + usize::from(lap) * 13;
            let octets = [lap + 1; 100];
            model[at..at + 100].copy_from_slice(&octets);
            let range = at as u64..at as u64 + 100;
            let op = Op { write: Some(range.clone()), flush: Some(range), ..Op::default() };
            chain.session.submit(&op, &octets).unwrap();
        }
        for _ in 0..WINDOW {
            chain.done().unwrap();
        }
        assert!(files.iter().all(|file| contents(file) == model), "lap {lap}");
    }
    assert!((0..3).all(|replica| chain.contents(replica) == model));
}

/// A disk that counts how often it is synchronized, and keeps what was written then.
#[derive(Clone, Debug, Default)]
struct Counting(Arc<(AtomicUsize, Mutex<Vec<u64>>)>);

impl Storage for Counting {
    fn write_at(&self, octets: &[u8], at: u64) -> io::Result<()> {
        self.0.1.lock().unwrap().extend(at..at + octets.len() as u64);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.0.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// Flushes that are left to a later one are carried out with it, even if that one has no octets.
#[test]
fn a_flush_carries_out_what_was_left_to_it() {
    let disks: [Counting; 3] = Default::default();
    let kept = |disk: &Counting| Region::owned(LEN + FIRST).unwrap().stored(Box::new(disk.clone())).unwrap();
    let memories = disks.iter().map(|disk| Arc::new(kept(disk))).collect();
    let mut chain = Chain::on(memories, LEN as u64, Durability::File);
    for (round, last) in [700..710, 0..0].into_iter().enumerate() {
        for at in [300, 10, 500] {
            let range = Some(at..at + 4);
            let op = Op { write: range.clone(), flush: range, flushes_later: true, ..Op::default() };
            chain.session.submit(&op, b"four").unwrap();
            chain.done().unwrap();
        }
        let written = || disks.each_ref().map(|disk| std::mem::take(&mut *disk.0.1.lock().unwrap()));
        assert!(written().iter().all(Vec::is_empty));
        chain.session.flush(last.clone()).unwrap();
        chain.done().unwrap();
        let octets = [300..304, 10..14, 500..504, last].into_iter().flatten();
        let octets: Vec<_> = octets.map(|at| at + FIRST as u64).collect();
        assert!(written().iter().all(|written| *written == octets));
        assert!(disks.iter().all(|disk| disk.0.0.load(Ordering::Relaxed) == round + 1));
    }
}

/// A disk without room.
#[derive(Debug)]
struct Full;

impl Storage for Full {
    fn write_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        Err(io::ErrorKind::StorageFull.into())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

/// The flush of one replica fails. It is not acknowledged, the session ends, and the replica is marked.
#[test]
fn a_full_disk_ends_the_session() {
    for failing in 0..3 {
        let (mut memories, files): (Vec<_>, Vec<_>) = (0..3).map(|_| kept()).unzip();
        let full = Region::owned(LEN + FIRST).unwrap().stored(Box::new(Full)).unwrap();
        memories[failing] = Arc::new(full);
        let mut chain = Chain::on(memories, LEN as u64, Durability::File);
        for turn in 0..2 * u64::from(WINDOW) {
            chain.session.write(turn, b"octets").unwrap();
            chain.done().unwrap();
        }
        chain.session.flush(0..LEN as u64).unwrap();
        assert_eq!(chain.done(), Err(SessionError::Lost(None)));
        let spoiled: Vec<_> = chain.memories.iter().map(|memory| memory.is_spoiled()).collect();
        assert_eq!(spoiled, [0, 1, 2].map(|replica| replica == failing));
        for (replica, file) in files.iter().enumerate() {
            let is_before = replica < failing;
            assert!(!is_before || contents(file) == chain.contents(replica), "{replica} of {failing}");
        }
    }
}

#[test]
fn a_flush_has_32_bits_for_its_length() {
    let (memories, _files): (Vec<_>, Vec<_>) = (0..1).map(|_| kept()).unzip();
    let mut chain = Chain::on(memories, u64::MAX, Durability::File);
    assert_eq!(chain.session.flush(0..1 << 32), Err(OpError::TooLong.into()));
}
