//! Chains of replicas in the simulation.

use weft_tests::simulate::{Kind, Options, Outcome, Tally, command, run};

fn simulate(seed: u64, is_spoiled: bool) -> Outcome {
    run(seed, Options { kind: Kind::Groups, is_spoiled, ..Options::default() })
}

#[test]
fn seeds_of_groups_pass_and_have_tried_everything() {
    let mut tally = Tally::default();
    for seed in 0..400 {
        let outcome = simulate(seed, false);
        assert_eq!(outcome.failure, None, "{}", command(Kind::Groups, seed));
        tally.add(&outcome.tally);
    }
    for kind in ["write", "copy", "swap", "flush", "acknowledged"] {
        assert!(tally.operations.get(kind) > Some(&1000), "{kind}: {tally:#?}");
    }
    for kind in ["replica killed", "host silent", "host away", "client left"] {
        assert!(tally.faults.get(kind) > Some(&20), "{kind}: {tally:#?}");
    }
    assert!(tally.ends.values().sum::<u64>() > 50, "{tally:#?}");
}

#[test]
fn an_octet_that_changes_by_itself_is_noticed() {
    // Of a session with operations under way at the end, either value may be right.
    let noticed = (0..50).filter(|seed| simulate(*seed, true).failure.is_some()).count();
    assert!(noticed > 25, "{noticed} of 50");
}

#[test]
fn the_same_seed_of_groups_gives_the_same_run() {
    let hashes = || (0..20).map(|seed| simulate(seed, false).hash).collect::<Vec<_>>();
    assert_eq!(hashes(), hashes());
}
