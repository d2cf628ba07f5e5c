//! Servers that are killed, and epochs that change, in the simulation.

use weft_tests::epochs::Sabotage;
use weft_tests::simulate::{Kind, Options, Outcome, Tally, command, run};

fn simulate(seed: u64, of_epochs: Option<Sabotage>) -> Outcome {
    run(seed, Options { kind: Kind::Epochs, of_epochs, ..Options::default() })
}

#[test]
fn seeds_of_epochs_pass_and_have_tried_everything() {
    let mut tally = Tally::default();
    for seed in 0..200 {
        let outcome = simulate(seed, None);
        assert_eq!(outcome.failure, None, "{}", command(Kind::Epochs, seed));
        tally.add(&outcome.tally);
    }
    for kind in ["write", "read"] {
        assert!(tally.operations.get(kind) > Some(&3000), "{kind}: {tally:#?}");
    }
    assert!(tally.operations.get("epoch entered") > Some(&200), "{tally:#?}");
    assert!(tally.operations.get("epoch from storage") > Some(&2), "{tally:#?}");
    assert!(tally.faults.get("host killed") > Some(&1000), "{tally:#?}");
    for kind in ["client killed", "flush fails", "host cut off", "link cut", "epoch changed by another one"] {
        assert!(tally.faults.get(kind) > Some(&50), "{kind}: {tally:#?}");
    }
    for end in ["session: sealed", "session: lost", "the group is lost", "all is done"] {
        assert!(tally.ends.contains_key(end), "{end}: {tally:#?}");
    }
}

/// Each rule that is broken shows in some of the seeds, all of which pass otherwise.
#[test]
fn a_broken_rule_of_epochs_is_noticed() {
    for sabotage in Sabotage::ALL {
        let noticed = (0..200).filter(|seed| simulate(*seed, Some(sabotage)).failure.is_some()).take(3);
        assert_eq!(noticed.count(), 3, "{sabotage:?}");
    }
}

#[test]
fn the_same_seed_of_epochs_gives_the_same_run() {
    let hashes = || (0..20).map(|seed| simulate(seed, None).hash).collect::<Vec<_>>();
    assert_eq!(hashes(), hashes());
}
