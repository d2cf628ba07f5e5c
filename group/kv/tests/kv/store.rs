//! What was acknowledged is there after a crash.

use std::collections::BTreeMap;

use redis_protocol::resp2::types::OwnedFrame;
use weft_group::{Mirror, SessionError};
use weft_group_kv::{Command, Store, StoreError};

use crate::memory::{Memory, Random};

type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

/// Octets of the group: enough for a small database.
const LEN: u64 = 8 << 20;

fn open(memory: &Memory) -> Result<Store<Memory>, StoreError> {
    Store::open(Mirror::open(memory.clone()).unwrap())
}

fn contents(store: &mut Store<Memory>) -> Contents {
    let keys: Vec<Vec<u8>> = (0..KEYS).map(|key| vec![key; 3]).collect();
    let answers = store.execute(&[Command::MGet(keys.clone())]).unwrap();
    let [OwnedFrame::Array(values)] = &answers[..] else { panic!("{answers:?}") };
    let pairs = keys.into_iter().zip(values);
    pairs
        .filter_map(|(key, value)| match value {
            OwnedFrame::BulkString(value) => Some((key, value.clone())),
            OwnedFrame::Null => None,
            other => panic!("{other:?}"),
        })
        .collect()
}

fn random_batch(random: &mut Random, contents: &mut Contents) -> Vec<Command> {
    (0..=random.below(3))
        .map(|_| {
            let key = vec![u8::try_from(random.below(KEYS.into())).unwrap(); 3];
            if random.below(4) == 0 {
                contents.remove(&key);
                return Command::Del(vec![key]);
            }
            let value = vec![random.next().to_le_bytes()[0]; random.below(6000)];
            contents.insert(key.clone(), value.clone());
            Command::Set(key, value)
        })
        .collect()
}

/// The client dies at every step of a run of transactions, and the replicas lose their power or not. The database of the
/// next client is sound, and holds all acknowledged transactions in full, and the last one in full or not at all.
#[test]
fn acknowledged_transactions_survive_a_crash_at_each_step() {
    let mut steps = 0;
    loop {
        let memory = Memory::new(LEN);
        let mut random = Random(9);
        let (mut before, mut now) = (Contents::new(), Contents::new());
        let mut store = open(&memory).unwrap();
        memory.ends_after(steps, SessionError::Sealed { epoch: 7 });
        let mut end = None;
        for _ in 0..TRANSACTIONS {
            let batch = random_batch(&mut random, &mut now);
            if let Err(error) = store.execute(&batch) {
                end = Some(error);
                break;
            }
            before = now.clone();
        }
        let Some(end) = end else { break };
        assert!(matches!(end, StoreError::Session(SessionError::Sealed { epoch: 7 })), "{end:?}");
        let end = store.execute(&[Command::DbSize]);
        assert!(matches!(end, Err(StoreError::Session(_) | StoreError::Database(_))), "{end:?}");
        drop(store);
        for is_power_lost in [false, true] {
            let left = memory.after_crash(steps, is_power_lost);
            let mut store = open(&left).unwrap();
            let found = contents(&mut store);
            assert!(found == before || found == now, "{steps}, {is_power_lost}");
            assert!(store.check_integrity().unwrap(), "{steps}, {is_power_lost}");
        }
        steps += 1;
    }
    assert!(steps > 100, "{steps}");
}

/// The first client dies while it makes the database.
#[test]
fn a_database_that_is_not_made_in_full_is_made_anew() {
    for steps in 0..80 {
        let memory = Memory::new(LEN);
        memory.ends_after(steps, SessionError::TimedOut);
        let is_made = Mirror::open(memory.clone()).is_ok_and(|mirror| Store::open(mirror).is_ok());
        for is_power_lost in [false, true] {
            let left = memory.after_crash(steps, is_power_lost);
            let opened = open(&left);
            assert!(opened.is_ok(), "{steps}, {is_power_lost}, {is_made}: {opened:?}");
        }
    }
}

/// A group that is full answers so, and goes on with what it has.
#[test]
fn a_full_group_loses_nothing() {
    let memory = Memory::new(2 << 20);
    let mut store = open(&memory).unwrap();
    let set = |key: u32| Command::Set(key.to_le_bytes().to_vec(), vec![key.to_le_bytes()[0]; 50_000]);
    let mut kept = 0;
    while store.execute(&[set(kept)]).is_ok() {
        kept += 1;
        assert!(kept < 100);
    }
    assert!(kept > 5, "{kept}");
    assert!(matches!(store.execute(&[set(kept)]), Err(StoreError::Full)));
    let get = |key: u32| Command::Get(key.to_le_bytes().to_vec());
    for key in 0..kept {
        let answer = store.execute(&[get(key)]).unwrap();
        assert_eq!(answer, [OwnedFrame::BulkString(vec![key.to_le_bytes()[0]; 50_000])]);
    }
    assert_eq!(store.execute(&[get(kept)]).unwrap(), [OwnedFrame::Null]);
    assert!(store.check_integrity().unwrap());
    store.execute(&[Command::Del((0..kept).map(|key| key.to_le_bytes().to_vec()).collect())]).unwrap();
    store.execute(&[set(1000)]).unwrap();
    drop(store);
    assert_eq!(
        open(&memory.after_crash(0, true)).unwrap().execute(&[Command::DbSize]).unwrap(),
        [OwnedFrame::Integer(1)]
    );
}

/// A client that is cut off answers no read.
#[test]
fn a_read_needs_the_group() {
    let memory = Memory::new(LEN);
    let mut store = open(&memory).unwrap();
    store.execute(&[Command::Set(b"a".to_vec(), b"b".to_vec())]).unwrap();
    memory.ends_after(0, SessionError::Sealed { epoch: 2 });
    assert_eq!(store.execute(&[Command::Ping(None)]).unwrap().len(), 1, "that tells nothing of the contents");
    for command in [Command::Get(b"a".to_vec()), Command::DbSize, Command::Del(vec![b"none".to_vec()])] {
        let end = store.execute(&[command]);
        assert!(matches!(end, Err(StoreError::Session(SessionError::Sealed { epoch: 2 }))), "{end:?}");
    }
}

const KEYS: u8 = 12;
const TRANSACTIONS: usize = 12;
