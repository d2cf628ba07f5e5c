//! Transactions are whole or not at all, whatever a crash leaves of them.

use weft_group::{Limits, LogError, Part, SessionError, Topology, TxLog};

use crate::hosts::{Group, options};
use crate::memory::{Memory, Random};

const DATA: u64 = 2048;
const LOG: core::ops::Range<u64> = DATA..DATA + 1024 + 600;

/// The last record of the log is cut off at each octet: zeros, or octets of something older, stand behind.
#[test]
fn a_torn_tail_is_no_transaction() {
    for filler in [0, 0xA5_u8] {
        let parts = |turn: u8| [(10, vec![turn; 9]), (100 + u64::from(turn), vec![turn + 1; 30])];
        let mut memory = Memory::new(8192);
        let (mut log, found) = TxLog::open(&mut memory, LOG).unwrap();
        assert_eq!(found, 0);
        let mut befores = Vec::new();
        for turn in 1..=3 {
            befores.push(memory.contents());
            let parts = parts(turn);
            let parts: Vec<Part<'_>> = parts.iter().map(|(at, octets)| Part { at: *at, octets }).collect();
            log.append(&mut memory, &parts).unwrap();
        }
        let whole = memory.contents();
        let differs = |at: &usize| befores[2][*at] != whole[*at];
        let (start, end) = (
            whole.iter().enumerate().map(|(at, _)| at).find(differs).unwrap(),
            usize::try_from(LOG.end).unwrap(),
        );
        let last = (start..end).rev().find(differs).unwrap();
        for cut in start..=last + 1 {
            let torn = memory.after_crash(0, false);
            torn.spoil(cut, &vec![filler; end - cut]);
            let mut torn = torn.after_crash(0, false);
            let count = TxLog::open(&mut torn, LOG).unwrap().1;
            let contents = torn.contents();
            // Octets behind the last one that is not zero may be missing: they are zeros anyhow.
            let is_whole = torn_is_whole(&whole, cut, filler, last);
            assert_eq!(count, if is_whole { 3 } else { 2 }, "cut at {cut}, filled with {filler}");
            let turn = if is_whole { 3 } else { 2 };
            assert_eq!(contents[10..19], [turn; 9]);
            assert_eq!(contents[102], 3);
            assert_eq!(contents[132], if is_whole { 4 } else { 0 });
            assert_eq!(TxLog::open(&mut torn, LOG).unwrap().1, 0, "the log is empty");
        }
    }
}

/// Returns whether nothing of the record was changed. It ends at a multiple of 8.
fn torn_is_whole(whole: &[u8], cut: usize, filler: u8, last: usize) -> bool {
    whole[cut..(last + 1).next_multiple_of(8)].iter().all(|octet| *octet == filler)
}

/// The client dies at each step. All that was acknowledged is there, and the sum of all accounts is what it was.
#[test]
fn transfers_survive_a_crash_at_each_step() {
    for steps in 0..600 {
        let (is_power_lost, mut random) = (steps % 2 == 1, Random(steps / 7));
        let mut memory = Memory::new(8192);
        memory.ends_after(steps, SessionError::TimedOut);
        let mut accounts = [0_i64; 8];
        let (mut before, mut done) = (accounts, true);
        let end = TxLog::open(&mut memory, LOG).and_then(|(mut log, _)| {
            loop {
                before = accounts;
                let (from, to) = (random.below(8), random.below(8));
                accounts[from] -= 5;
                accounts[to] += 5;
                let octets = [accounts[from].to_le_bytes(), accounts[to].to_le_bytes()];
                let part = |account: usize, octets| Part { at: 64 * account as u64, octets };
                let parts = [part(from, &octets[0][..]), part(to, &octets[1][..])];
                done = false;
                // Several transactions may wait in the log before they are carried out.
                log.append(&mut memory, &parts)?;
                done = true;
                match random.below(4) {
                    0 => log.commit(&mut memory, &[])?,
                    1 => log.apply(&mut memory)?,
                    2 => log.truncate(&mut memory)?,
                    _ => {}
                }
            }
        });
        let end: Result<(), LogError> = end;
        assert_eq!(end, Err(LogError::Session(SessionError::TimedOut)));
        let mut left = memory.after_crash(steps, is_power_lost);
        TxLog::open(&mut left, LOG).unwrap();
        let contents = left.contents();
        let account = |index: usize| i64::from_le_bytes(contents[64 * index..][..8].try_into().unwrap());
        let found: [i64; 8] = core::array::from_fn(account);
        assert!(found == accounts || !done && found == before, "{steps}: {found:?}, not {accounts:?}");
        assert_eq!(found.iter().sum::<i64>(), 0);
    }
}

/// A client dies with two records under way, of which the second one alone arrives. The next client writes another one of
/// the same length in the place of the first: the second one must not follow it.
#[test]
fn a_record_of_a_client_that_is_gone_never_counts() {
    let parts = |octets| [Part { at: 0, octets }];
    let mut memory = Memory::new(8192);
    let (mut log, _) = TxLog::open(&mut memory, LOG).unwrap();
    let first = memory.contents();
    log.append(&mut memory, &parts(b"first")).unwrap();
    let len = memory.contents().iter().rposition(|octet| *octet != 0).unwrap() + 1;
    log.append(&mut memory, &parts(b"second")).unwrap();
    let start = usize::try_from(LOG.start).unwrap();
    memory.spoil(start, &first[start..len]);
    let mut next = memory.after_crash(0, false);
    let (mut log, found) = TxLog::open(&mut next, LOG).unwrap();
    assert_eq!(found, 0);
    log.append(&mut next, &parts(b"third")).unwrap();
    let mut last = next.after_crash(0, false);
    assert_eq!(TxLog::open(&mut last, LOG).unwrap().1, 1);
    assert_eq!(last.contents()[..6], *b"third\0");
}

#[test]
fn a_transaction_that_makes_no_sense_is_refused() {
    let mut memory = Memory::new(8192);
    for range in [0..1024, 8000..9224, 0..1089] {
        assert_eq!(TxLog::open(&mut memory, range).err(), Some(LogError::Range));
    }
    let (mut log, _) = TxLog::open(&mut memory, LOG).unwrap();
    for at in [LOG.start - 1, LOG.end - 1, 8191, u64::MAX] {
        assert_eq!(log.commit(&mut memory, &[Part { at, octets: b"xy" }]), Err(LogError::Bounds), "{at}");
    }
    assert_eq!(log.commit(&mut memory, &[Part { at: 0, octets: &[1; 700] }]), Err(LogError::TooLong));
    assert_eq!(log.commit(&mut memory, &[Part { at: 0, octets: &[1; 560] }]), Ok(()));
    assert_eq!(log.commit(&mut memory, &[Part { at: 0, octets: &[2; 560] }]), Ok(()));
    assert_eq!(memory.contents()[..561], [&[2; 560][..], &[0]].concat());
}

/// Transactions of all lengths over a real chain go around the log, and are at all replicas.
#[test]
fn all_replicas_carry_out_transactions() {
    let group = Group::new(3, &Limits::default());
    let mut session = group.open(&options(Topology::Chain)).unwrap();
    let (mut log, _) = TxLog::open(&mut session, 8192..8192 + 3000).unwrap();
    let mut random = Random(1);
    let mut expected = vec![0; 8192];
    for turn in 0..200 {
        let parts: Vec<(u64, Vec<u8>)> = (0..random.below(4))
            .map(|_| (random.below(8000) as u64, vec![turn; random.below(190)]))
            .collect();
        for (at, octets) in &parts {
            let at = usize::try_from(*at).unwrap();
            expected[at..at + octets.len()].copy_from_slice(octets);
        }
        let parts: Vec<Part<'_>> = parts.iter().map(|(at, octets)| Part { at: *at, octets }).collect();
        log.append(&mut session, &parts).unwrap();
        if random.below(3) == 0 {
            log.commit(&mut session, &[]).unwrap();
        }
    }
    drop(session);
    // Another client carries out what is left in the log.
    let mut session = group.open(&options(Topology::Chain)).unwrap();
    TxLog::open(&mut session, 8192..8192 + 3000).unwrap();
    for (index, host) in group.hosts.iter().enumerate() {
        assert!(host.contents()[..8192] == expected, "replica {index}");
    }
}
