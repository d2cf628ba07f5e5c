//! Chains of replicas in the simulation.

use weft_tests::groups::Sabotage;
use weft_tests::simulate::{Kind, Options, Outcome, Tally, command, run};

fn simulate(seed: u64, of_group: Option<Sabotage>) -> Outcome {
    run(seed, Options { kind: Kind::Groups, of_group, ..Options::default() })
}

#[test]
fn seeds_of_groups_pass_and_have_tried_everything() {
    let mut tally = Tally::default();
    for seed in 0..400 {
        let outcome = simulate(seed, None);
        assert_eq!(outcome.failure, None, "{}", command(Kind::Groups, seed));
        tally.add(&outcome.tally);
    }
    for kind in ["write", "copy", "swap", "flush", "acknowledged", "lock busy"] {
        assert!(tally.operations.get(kind) > Some(&1000), "{kind}: {tally:#?}");
    }
    for kind in ["locked read", "locked exchange"] {
        assert!(tally.operations.get(kind) > Some(&500), "{kind}: {tally:#?}");
    }
    // Each run begins with an epoch.
    assert!(tally.faults["epoch begun"] > tally.seeds + 100, "{tally:#?}");
    for kind in ["replica killed", "host silent", "host away", "client left"] {
        assert!(tally.faults.get(kind) > Some(&20), "{kind}: {tally:#?}");
    }
    assert!(tally.ends.values().sum::<u64>() > 50, "{tally:#?}");
}

#[test]
fn an_octet_that_changes_by_itself_is_noticed() {
    // Of a session with operations under way at the end, either value may be right.
    let noticed = (0..50).filter(|seed| simulate(*seed, Some(Sabotage::Octet)).failure.is_some()).count();
    assert!(noticed > 25, "{noticed} of 50");
}

/// Clients share registers. Their histories have no order without the lock, and none if a member of a new epoch keeps its
/// old octets. They do not end if the word of an owner that is gone never becomes free.
#[test]
fn a_lock_or_an_epoch_that_does_not_do_its_work_is_noticed() {
    let wrong = ["is not linearizable", "the replicas have", "has other octets"].as_slice();
    for (sabotage, reasons, seeds, least) in [
        (Sabotage::Lock, &wrong[..1], 100, 20),
        (Sabotage::Age, &["the clients do not end"], 40, 8),
        (Sabotage::Copy, wrong, 200, 4),
    ] {
        let failures: Vec<_> = (0..seeds).filter_map(|seed| simulate(seed, Some(sabotage)).failure).collect();
        let is_expected = |failure: &&String| reasons.iter().any(|reason| failure.contains(reason));
        assert_eq!(failures.iter().find(|failure| !is_expected(failure)), None, "{sabotage:?}");
        assert!(failures.len() >= least, "{sabotage:?}: {} of {seeds}", failures.len());
    }
}

#[test]
fn the_same_seed_of_groups_gives_the_same_run() {
    let hashes = || (0..20).map(|seed| simulate(seed, None).hash).collect::<Vec<_>>();
    assert_eq!(hashes(), hashes());
}
