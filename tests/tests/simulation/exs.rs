//! Sockets of EXS in the simulation.

use weft_tests::exs::Sabotage;
use weft_tests::simulate::{Kind, Options, Outcome, Tally, command, run};

fn simulate(seed: u64, of_exs: Option<Sabotage>) -> Outcome {
    run(seed, Options { kind: Kind::Exs, of_exs, ..Options::default() })
}

#[test]
fn seeds_of_exs_pass_and_have_tried_everything() {
    let mut tally = Tally::default();
    for seed in 0..200 {
        let outcome = simulate(seed, None);
        assert_eq!(outcome.failure, None, "{}", command(Kind::Exs, seed));
        tally.add(&outcome.tally);
    }
    for mode in ["Inline", "Read", "Direct", "Ring", "Plain", "End"] {
        assert!(tally.operations.get(&format!("Receive {mode}")) > Some(&100), "{mode}: {tally:#?}");
    }
    for kind in ["cancel", "cancel all", "truncated", "operation dropped", "shutdown"] {
        assert!(tally.operations.get(kind) > Some(&20), "{kind}: {tally:#?}");
    }
    for error in ["Send: canceled", "Receive: canceled", "Send: connection reset", "Receive: timed out"] {
        assert!(tally.statuses.get(error) > Some(&20), "{error}: {tally:#?}");
    }
    for kind in ["device shut down", "link cut for a while", "link cut for ever"] {
        assert!(tally.faults.get(kind) > Some(&5), "{kind}: {tally:#?}");
    }
    for end in ["Orderly", "OrderlyDrop", "Close", "Drop"] {
        assert!(tally.ends.get(end) > Some(&5), "{end}: {tally:#?}");
    }
}

#[test]
fn a_falsified_outcome_of_exs_is_noticed() {
    for sabotage in Sabotage::ALL {
        let noticed = (0..40).filter(|seed| simulate(*seed, Some(sabotage)).failure.is_some()).count();
        println!("{sabotage:?}: {noticed} of 40");
        assert!(noticed > 20, "{sabotage:?}: {noticed} of 40");
    }
}

#[test]
fn the_same_seed_of_exs_gives_the_same_run() {
    let hashes = || (0..20).map(|seed| simulate(seed, None).hash).collect::<Vec<_>>();
    assert_eq!(hashes(), hashes());
}
