//! Registers of a group, and changes of epoch by way of them.

mod etcd;
mod file;

use std::cell::Cell;
use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::thread;

use weft_group::{
    Ask, ChangeError, Host, MemberState, Membership, MembershipError, Record, RepairError, Reply, Sealed,
    Topology, Wish, change_epoch,
};

/// A folder of a test's own.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("weft-group-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn record(hosts: usize, replicas: usize) -> Record {
    let host = |at: usize| Host { id: format!("h{at}"), addr: format!("10.0.0.{at}:7471") };
    Record::found("g", (0..hosts).map(host).collect(), replicas, (Topology::Fan, 4096))
}

/// Coordinators take epochs at the same time. No epoch is taken twice, and none is left out.
fn epochs_are_taken_once(register: &(dyn Membership + Sync)) {
    const COORDINATORS: u64 = 4;
    const EACH: usize = 8;
    assert_eq!(register.get(), Ok(None));
    let first = record(3, 3);
    assert_eq!(register.swap(Some(&first), &first), Ok(false), "there is none yet");
    assert_eq!(register.swap(None, &first), Ok(true));
    assert_eq!(register.swap(None, &first), Ok(false), "there is one");
    let take = || {
        let mut taken = Vec::new();
        while taken.len() < EACH {
            let old = register.get().unwrap().unwrap();
            let new = Record { next_epoch: old.next_epoch + 1, ..old.clone() };
            if register.swap(Some(&old), &new).unwrap() {
                taken.push(old.next_epoch);
            }
        }
        taken
    };
    let taken: Vec<u64> = thread::scope(|scope| {
        let threads: Vec<_> = (0..COORDINATORS).map(|_| scope.spawn(take)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let distinct: BTreeSet<u64> = taken.iter().copied().collect();
    assert_eq!((taken.len(), distinct), (32, (1..=32).collect()));
    assert_eq!(register.get().unwrap().unwrap(), Record { next_epoch: 33, ..first });
}

/// Hosts in the memory of a test.
#[derive(Default)]
struct Hosts(HashMap<String, (MemberState, u8)>);

impl Hosts {
    fn start(&mut self, id: &str, octet: u8) {
        self.0.insert(id.into(), (MemberState::new(u64::from(octet)), octet));
    }

    fn reply(&mut self, ask: &Ask<'_>) -> Option<Reply> {
        let done = |result: Result<(), _>| Some(result.map_or_else(Reply::Refused, |()| Reply::Done));
        match ask {
            Ask::Seal { host, epoch, base } => {
                let state = &mut self.0.get_mut(&host.id)?.0;
                let sealed = Sealed { incarnation: state.incarnation, size: 4096, is_stored: false };
                Some(state.seal(*epoch, *base).map_or_else(Reply::Refused, |()| Reply::Sealed(sealed)))
            }
            Ask::Copy { to, from, epoch, to_incarnation, .. } => {
                let Some((_, octet)) = self.0.get(&from.id).copied() else { return Some(Reply::SourceLost) };
                let (state, own) = self.0.get_mut(&to.id)?;
                *own = octet;
                done(state.check(*epoch, *to_incarnation))
            }
            Ask::Flush { host, incarnation, epoch } => {
                done(self.0.get(&host.id)?.0.check(*epoch, *incarnation))
            }
            Ask::Finish { host, incarnation, epoch } => {
                done(self.0.get_mut(&host.id)?.0.finish(*epoch, *incarnation))
            }
            Ask::Read | Ask::Swap { .. } => panic!("no question for hosts"),
        }
    }

    fn change(&mut self, register: &dyn Membership) -> Result<Record, RepairError> {
        let hosts = |ask: &Ask<'_>| self.reply(ask).unwrap_or(Reply::Silent);
        change_epoch(register, Wish::default(), hosts).map(|record| (*record).clone())
    }
}

fn ids(record: &Record) -> (Vec<&str>, Vec<&str>) {
    let members = record.members.iter().map(|seat| seat.host.id.as_str()).collect();
    (members, record.spares.iter().map(|host| host.id.as_str()).collect())
}

/// A register that carries out the first swaps and loses the answers.
struct Lossy<'a> {
    register: &'a dyn Membership,
    losses: Cell<usize>,
}

impl Membership for Lossy<'_> {
    fn get(&self) -> Result<Option<Record>, MembershipError> {
        self.register.get()
    }

    fn swap(&self, old: Option<&Record>, new: &Record) -> Result<bool, MembershipError> {
        let is_swapped = self.register.swap(old, new);
        // The swaps that begin an epoch, and those that take one.
        if self.losses.get() > 0 && is_swapped == Ok(true) {
            self.losses.set(self.losses.get() - 1);
            return Err(MembershipError("no answer".into()));
        }
        is_swapped
    }
}

#[test]
fn a_spare_takes_the_place_of_a_lost_member() {
    let folder = Folder::new("spare");
    let register = weft_group::FileRegister::new(folder.0.join("g"));
    assert!(matches!(Hosts::default().change(&register), Err(RepairError::Membership(_))));
    assert_eq!(register.swap(None, &record(4, 3)), Ok(true));
    let mut hosts = Hosts::default();
    for (id, octet) in [("h0", 10), ("h1", 11), ("h2", 12), ("h3", 13)] {
        hosts.start(id, octet);
    }
    let first = hosts.change(&register).unwrap();
    assert_eq!((first.epoch, ids(&first)), (1, (vec!["h0", "h1", "h2"], vec!["h3"])));
    assert_eq!(hosts.0["h2"].1, 10, "all begin with the octets of the first");
    assert_eq!(hosts.0["h3"], (MemberState::new(13), 13), "a spare that is not needed is left alone");

    // One restarts without its octets, one is gone.
    hosts.start("h0", 20);
    hosts.0.remove("h1");
    let second = hosts.change(&register).unwrap();
    assert_eq!((second.epoch, ids(&second)), (2, (vec!["h0", "h2", "h3"], vec!["h1"])));
    assert!(["h0", "h2", "h3"].iter().all(|id| hosts.0[*id].1 == 10 && hosts.0[*id].0.served == 2));
    assert_eq!(second.members[0].incarnation, 20);
    assert_eq!(register.get().unwrap().unwrap(), second);

    // All restart: nobody has what was acknowledged.
    for id in ["h0", "h2", "h3"] {
        hosts.start(id, 30);
    }
    let lost = ChangeError::NoSource { is_stored: false };
    assert_eq!(hosts.change(&register), Err(RepairError::Change(lost)));
    assert_eq!(register.get().unwrap().unwrap().epoch, 2);
}

#[test]
fn an_answer_that_is_lost_counts_as_no_until_the_record_is_read() {
    let folder = Folder::new("lossy");
    let register = weft_group::FileRegister::new(folder.0.join("g"));
    assert_eq!(register.swap(None, &record(2, 2)), Ok(true));
    let mut hosts = Hosts::default();
    hosts.start("h0", 1);
    hosts.start("h1", 2);
    // The claim of epoch 1 is lost, so that epoch 2 is taken; and then the beginning of that one.
    let lossy = Lossy { register: &register, losses: Cell::new(1) };
    let first = hosts.change(&lossy).unwrap();
    assert_eq!((first.epoch, first.next_epoch, lossy.losses.get()), (2, 3, 0));
    let lossy = Lossy { register: &register, losses: Cell::new(3) };
    let second = hosts.change(&lossy).unwrap();
    assert_eq!((second.epoch, second.next_epoch), (6, 7), "three claims are lost");
    assert_eq!(register.get().unwrap().unwrap(), second);
    let lossy = Lossy { register: &register, losses: Cell::new(9) };
    assert!(matches!(hosts.change(&lossy), Err(RepairError::Membership(_))), "a register that stays away");
}
