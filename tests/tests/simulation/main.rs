//! Seeds of the simulation, and the proof that its model can fail.

mod epochs;
mod exs;
mod groups;
mod sockets;

use weft_tests::simulate::{Kind, Options, Outcome, Sabotage, Tally, command, run};

/// The outcomes of seeds, in order; panics at the first that fails.
fn passed(seeds: impl IntoIterator<Item = u64>) -> Vec<Outcome> {
    let outcomes = seeds.into_iter().map(|seed| run(seed, Options::default()));
    outcomes
        .inspect(|outcome| assert_eq!(outcome.failure, None, "{}", command(Kind::Verbs, outcome.seed)))
        .collect()
}

/// Rare events have to happen, too: a pass means little if nothing was tried.
#[test]
fn seeds_pass_and_have_tried_everything() {
    let mut tally = Tally::default();
    for outcome in passed(0..SEEDS) {
        tally.add(&outcome.tally);
    }
    assert_eq!(tally.seeds, SEEDS);
    for kind in ["send", "send-se", "send-inv", "send-se-inv", "write", "read", "immediate", "immediate-se"] {
        assert!(tally.operations.get(kind) > Some(&100), "{kind}: {tally:#?}");
    }
    for kind in ["fetch-add", "compare-swap"] {
        assert!(tally.operations.get(kind) > Some(&100), "{kind}: {tally:#?}");
    }
    for kind in ["lost", "duplicated", "held back", "damaged", "lost on a cut link"] {
        assert!(tally.faults.get(&format!("frame {kind}")) > Some(&30), "{kind}: {tally:#?}");
    }
    assert!(tally.faults.get("segment forged behind TCP's back") > Some(&3), "{tally:#?}");
    for end in ["disconnected", "peer disconnected", "lost", "queue pair destroyed", "never connected"] {
        assert!(tally.ends.contains_key(end), "{end}: {tally:#?}");
    }
    // CRC, Send without a receive, one too short, bad STags of both kinds of segments, own faults.
    for code in ["2/0/02", "1/2/02", "1/2/05", "1/1/00", "0/1/00", "0/1/02", "0/0/00"] {
        for end in ["sent", "got"] {
            let end = format!("{end} Terminate {code}");
            assert!(tally.ends.contains_key(&end), "{end}: {tally:#?}");
        }
    }
    assert!(tally.bad.len() > 20, "{:#?}", tally.bad);
}

/// A run is a function of its seed, to the last frame.
#[test]
fn the_same_seed_gives_the_same_run() {
    let (first, second) = (passed(0..60), passed(0..60));
    assert_eq!(first, second);
    let traced = run(7, Options { trace: true, ..Options::default() });
    assert_eq!((traced.hash, &traced.tally), (first[7].hash, &first[7].tally));
    assert!(traced.lines.len() > 20, "{:#?}", traced.lines);
    assert_ne!(first[7].hash, first[8].hash);
}

/// The model notices every fault that an engine could have.
#[test]
fn every_sabotage_is_noticed() {
    for sabotage in Sabotage::ALL {
        let mut committed = 0;
        for seed in 0..SEEDS {
            let options = Options { sabotage: Some(sabotage), ..Options::default() };
            let outcome = run(seed, options);
            if outcome.sabotaged {
                committed += 1;
                assert_ne!(outcome.failure, None, "{sabotage:?} in seed {seed}");
            } else {
                assert_eq!(outcome.failure, None, "without {sabotage:?}: {}", command(Kind::Verbs, seed));
            }
            if committed == 5 {
                break;
            }
        }
        assert_eq!(committed, 5, "{sabotage:?} found too few opportunities");
    }
}

const SEEDS: u64 = 250;
