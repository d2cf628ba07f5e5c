//! YCSB's workloads A, B, C and F on redb, whose storage is a group, a file or memory.
//!
//! D and E insert and scan, which says nothing of replication. Each operation is a transaction of its own, and one that
//! changes something is done when it is durable.

use core::net::Ipv4Addr;
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rand_distr::Zipf;
use redb::backends::InMemoryBackend;
use redb::{Database, ReadableDatabase, ReadableTable, StorageBackend, TableDefinition};
use weft_group::{Durability, Fresh, Mirror, Options, Session, Topology};
use weft_group_kv::RedbBackend;
use weft_rnic::{Device, Progress};

use super::files;
use super::members::Members;
use super::network;
use crate::case::{Effort, Sample, Side};
use crate::octets::{compare, pattern};
use crate::process::{Folder, Outcome, say};
use crate::watch::Watch;

/// What a client asks a database for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Workload {
    /// How many of 100 operations read only.
    reads: u32,
    /// The others read the value that they change.
    modifies: bool,
}

pub(super) const A: Workload = Workload { reads: 50, modifies: false };
pub(super) const B: Workload = Workload { reads: 95, modifies: false };
pub(super) const C: Workload = Workload { reads: 100, modifies: false };
pub(super) const F: Workload = Workload { reads: 50, modifies: true };

/// Where a database is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Home {
    /// At three replicas.
    Group { topology: Topology, has_files: bool },
    /// In one file, or in memory.
    Local { has_file: bool },
}

/// A database and what has to be in it.
struct Client {
    workload: Workload,
    database: Database,
    group: Option<Group>,
    /// How often each value was changed.
    versions: Vec<u64>,
    zipf: Zipf<f64>,
    random: SmallRng,
    source: Vec<u8>,
    /// Operations of a round.
    round: usize,
    /// What was read in a round, as key, version and octets.
    came: Vec<(u64, u64, Vec<u8>)>,
    _folder: Option<Folder>,
}

/// The storage at the replicas.
struct Group {
    backend: RedbBackend<Session>,
    /// A session with each replica alone, for comparisons.
    readers: Vec<Session>,
    members: Members,
    _device: Device,
}

/// Loads a database, as a side of a comparison.
pub(super) fn start(workload: Workload, home: Home) -> Outcome<Box<dyn Side>> {
    Ok(Box::new(Client::start(workload, home)?))
}

impl Client {
    fn start(workload: Workload, home: Home) -> Outcome<Self> {
        let mut builder = Database::builder();
        builder.set_cache_size(CACHE);
        let (made, group, folder) = match home {
            Home::Group { topology, has_files } => {
                let group = Group::start(topology, has_files)?;
                (builder.create_with_backend(group.backend.clone()), Some(group), None)
            }
            Home::Local { has_file: true } => {
                let folder = files::folder()?;
                (builder.create(folder.path().join("redb")), None, Some(folder))
            }
            Home::Local { has_file: false } => {
                (builder.create_with_backend(InMemoryBackend::new()), None, None)
            }
        };
        let mut client = Self {
            workload,
            database: made.map_err(say("making a database"))?,
            group,
            versions: vec![0; at(RECORDS)],
            zipf: Zipf::new(RECORDS as f64, EXPONENT).map_err(say("a distribution"))?,
            random: SmallRng::seed_from_u64(1),
            source: pattern(VALUE + SHIFTS),
            round: FIRST,
            came: Vec::new(),
            _folder: folder,
        };
        client.load().map_err(say("loading a database"))?;
        client.compare_replicas()?;
        Ok(client)
    }

    fn load(&self) -> Result<(), redb::Error> {
        let mut transaction = self.database.begin_write()?;
        transaction.set_quick_repair(true);
        {
            let mut table = transaction.open_table(TABLE)?;
            for key in 0..RECORDS {
                table.insert(key, &self.value(key, 0)[..])?;
            }
        }
        Ok(transaction.commit()?)
    }

    fn operations(&mut self) -> Result<(), redb::Error> {
        for _ in 0..self.round {
            let key = self.key();
            if self.random.random_range(0..100) < self.workload.reads {
                let transaction = self.database.begin_read()?;
                self.came.push((key, self.versions[at(key)], get(&transaction.open_table(TABLE)?, key)?));
                continue;
            }
            let version = self.versions[at(key)];
            let mut transaction = self.database.begin_write()?;
            transaction.set_quick_repair(true);
            {
                let mut table = transaction.open_table(TABLE)?;
                if self.workload.modifies {
                    self.came.push((key, version, get(&table, key)?));
                }
                table.insert(key, &self.value(key, version + 1)[..])?;
            }
            transaction.commit()?;
            self.versions[at(key)] = version + 1;
        }
        Ok(())
    }

    /// Returns a key. YCSB draws its rank, and scatters ranks over the keys by a hash.
    fn key(&mut self) -> u64 {
        let rank = self.random.sample(self.zipf);
        u64::from(crc32c::crc32c(&rank.to_le_bytes())) % RECORDS
    }

    /// Returns the octets of a value. Neighbors differ, and so do versions.
    fn value(&self, key: u64, version: u64) -> Vec<u8> {
        let shift = at(key * 7 + version) % SHIFTS;
        let mut value = self.source[shift..shift + VALUE].to_vec();
        value[..8].copy_from_slice(&key.to_le_bytes());
        value[8..16].copy_from_slice(&version.to_le_bytes());
        value
    }

    /// Compares what was read.
    fn compare_came(&mut self) -> Outcome<()> {
        for (key, version, octets) in std::mem::take(&mut self.came) {
            compare(&octets, &self.value(key, version))?;
        }
        Ok(())
    }

    /// Compares all values of the database with what they have to be.
    fn compare_values(&self) -> Outcome<()> {
        let read = |key| -> Result<Vec<u8>, redb::Error> {
            Ok(get(&self.database.begin_read()?.open_table(TABLE)?, key)?)
        };
        (0..RECORDS).zip(&self.versions).try_for_each(|(key, &version)| {
            compare(&read(key).map_err(say("reading a database"))?, &self.value(key, version))
        })
    }

    /// Compares all octets of all replicas with those of the storage.
    fn compare_replicas(&mut self) -> Outcome<()> {
        let Some(group) = &mut self.group else { return Ok(()) };
        let len = group.backend.len()?;
        for from in (0..len).step_by(at(PIECE)) {
            let mut wanted = vec![0; at(PIECE.min(len - from))];
            group.backend.read(from, &mut wanted)?;
            let mut found = vec![0; wanted.len()];
            for reader in &mut group.readers {
                reader.read(PAGE + from, &mut found, Fresh::Maybe).map_err(say("reading a replica"))?;
                compare(&found, &wanted)?;
            }
        }
        Ok(())
    }

    fn cpu_of_members(&self) -> Outcome<Duration> {
        self.group.as_ref().map_or(Ok(Duration::ZERO), |group| group.members.cpu())
    }
}

impl Side for Client {
    fn turn(&mut self, effort: &Effort) -> Outcome<Sample> {
        let mut watch = Watch::new(&Effort { turn: effort.turn / PART, ..*effort });
        let mut used = Duration::ZERO;
        while watch.goes_on() {
            let before = self.cpu_of_members()?;
            watch.time(|| self.operations()).map_err(say("an operation"))?;
            used += self.cpu_of_members()?.saturating_sub(before);
            self.compare_came()?;
            let operations = self.round as u64;
            watch.count(operations, operations * VALUE as u64, operations);
            if watch.goes_on() {
                self.round = (2 * self.round).min(MOST);
            }
        }
        self.compare_values()?;
        self.compare_replicas()?;
        let mut sample = watch.finish();
        sample.cpu += used;
        Ok(sample)
    }
}

impl Group {
    fn start(topology: Topology, has_files: bool) -> Outcome<Self> {
        let members = Members::start(LEN, has_files)?;
        let device = network::open(Ipv4Addr::LOCALHOST, None, 99, Progress::Thread)?;
        let durability = if has_files { Durability::File } else { Durability::Volatile };
        let options = Options { topology, durability, window: WINDOW, ..Options::default() };
        let readers = members.open_each(&device, &Options { window: 1, ..Options::default() })?;
        let mirror = Mirror::open(members.open(&device, &options)?).map_err(say("opening a mirror"))?;
        Ok(Self { backend: RedbBackend::new(mirror), readers, members, _device: device })
    }
}

/// Returns the octets of a key; none if it is not there.
fn get(table: &impl ReadableTable<u64, &'static [u8]>, key: u64) -> Result<Vec<u8>, redb::StorageError> {
    Ok(table.get(key)?.map(|value| value.value().to_vec()).unwrap_or_default())
}

/// Returns an offset into memory.
fn at(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

const TABLE: TableDefinition<'static, u64, &[u8]> = TableDefinition::new("usertable");
/// Values of a database, as YCSB has them by default.
const RECORDS: u64 = 1000;
/// Octets of a value.
const VALUE: usize = 1024;
/// YCSB's zipfian constant.
const EXPONENT: f64 = 0.99;
const SHIFTS: usize = 61;
/// Octets that a database keeps in memory, as `weft group kv` has it.
const CACHE: usize = 64 << 20;
/// Operations under way at most, as `weft group kv` has it.
const WINDOW: u32 = 64;
/// Octets of a replica's memory.
const LEN: u64 = 64 << 20;
/// What a mirror has in front of its contents.
const PAGE: u64 = 4096;
/// Octets that are compared at a time.
const PIECE: u64 = 1 << 16;
/// There are many databases, so that a turn is this part of what other rows have.
const PART: u32 = 4;
/// Operations of the first round, and of a round at most.
const FIRST: usize = 4;
const MOST: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Trouble;

    const TINY: Effort = Effort { turn: Duration::ZERO, pairs: 5, is_tiny: true };

    fn local(workload: Workload, has_file: bool) -> Client {
        Client::start(workload, Home::Local { has_file }).unwrap()
    }

    #[test]
    fn each_workload_works_on_each_local_database() {
        for (workload, has_file) in [(A, false), (B, false), (C, true), (F, true)] {
            let mut client = local(workload, has_file);
            client.round = 200;
            let sample = client.turn(&TINY).unwrap();
            assert_eq!((sample.transfers, sample.checked), (200, 200));
            let changes: u64 = client.versions.iter().sum();
            let expected = 200 * u64::from(100 - workload.reads) / 100;
            assert!(changes.abs_diff(expected) <= 40, "{workload:?}: {changes} changes");
        }
    }

    /// The most frequent of 1000 keys has 13 of 100 requests with YCSB's constant, and ranks are scattered.
    #[test]
    fn keys_are_zipfian() {
        let mut client = local(C, false);
        let mut counts = vec![0_u32; at(RECORDS)];
        (0..20_000).for_each(|_| counts[at(client.key())] += 1);
        let (most, count) = counts.iter().enumerate().max_by_key(|(_, count)| **count).unwrap();
        assert!((2000..3200).contains(count), "{count}");
        assert_ne!(most, 0);
    }

    #[test]
    fn a_value_that_is_not_what_it_should_be_is_found() {
        let mut client = local(C, false);
        client.compare_values().unwrap();
        client.versions[77] += 1;
        assert!(matches!(client.compare_values(), Err(Trouble::Failed(_))));
        client.versions[77] -= 1;
        client.came.push((3, 0, client.value(3, 1)));
        assert!(matches!(client.compare_came(), Err(Trouble::Failed(_))));
    }
}
