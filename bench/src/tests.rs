//! Tests: every case with small sizes, and the reasons why a run fails.

use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::case::{Case, Effort, Quantity, Reference, Sample, Side, Sides, Target, Trouble};
use crate::harness::{measure, turns};
use crate::{Args, cases, net, report};

const TINY: Effort = Effort { turn: Duration::ZERO, pairs: 5, is_tiny: true };

#[test]
fn every_case_has_all_its_rows() {
    // The test below starts this one again.
    let is_again = net::is_isolated();
    if is_again {
        net::isolate();
    }
    let is_new = |case: &&Case| ["host/", "tap/", "packet/"].iter().any(|way| case.name.starts_with(way));
    for case in cases::all().filter(|case| !is_again || is_new(case)) {
        let mut ticks = 0;
        let rows = measure(case, &TINY, &mut || ticks += 1);
        assert_eq!(rows.len(), case.references.len(), "{}", case.name);
        // A skipped reference takes one turn. Kernel TCP is skipped if the system denies cubic to ordinary users.
        let all = rows.iter().all(|row| row.outcome.is_ok());
        assert!(!all || ticks == turns(case, &TINY), "{}: {ticks} turns", case.name);
        for row in rows {
            let name = format!("{} against {}", case.name, row.reference.name);
            let object = report::object(&row);
            assert_eq!(
                (&object["case"], &object["reference"]),
                (&case.name.into(), &row.reference.name.into())
            );
            let outcome = match &row.outcome {
                Ok(outcome) => outcome,
                Err(Trouble::Skipped(reason)) => {
                    println!("skipped: {name}: {reason}");
                    continue;
                }
                Err(trouble) => panic!("{name}: {trouble}"),
            };
            assert!(outcome.ratio.min <= outcome.ratio.median && outcome.ratio.median <= outcome.ratio.max);
            for key in ["ours", "reference_value", "ratio"] {
                assert!(object[key].as_f64().is_some_and(f64::is_finite), "{name}: {key} of {object}");
            }
            assert!(["higher", "lower"].map(Value::from).contains(&object["better"]), "{name}");
            let is_target = row.reference.target.is_some();
            assert_eq!((object["target"].is_number(), object["met"].is_boolean()), (is_target, is_target));
        }
    }
}

/// Runs the test above once more for the host's network, in a namespace where it can make devices.
#[test]
fn with_devices_of_its_own_there_are_more_rows() {
    let Some(way) = net::way_in() else {
        println!("skipped: with_devices_of_its_own_there_are_more_rows: no network namespace by `unshare`");
        return;
    };
    let mut again = Command::new("unshare");
    again.arg(way).arg(std::env::current_exe().unwrap()).env(net::ISOLATED, "1");
    again.args(["--exact", "tests::every_case_has_all_its_rows", "--nocapture", "--test-threads=1"]);
    let output = again.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}\n{errors}");
    for way in ["host/ping", "host/write", "packet/"] {
        let skipped = text.lines().find(|line| line.starts_with(&format!("skipped: {way}")));
        assert!(skipped.is_none_or(|line| line.contains("fi_pingpong")), "{skipped:?}");
    }
}

#[test]
fn names_are_different() {
    let mut names: Vec<_> = cases::all()
        .flat_map(|case| case.references.iter().map(|reference| (case.name, reference.name)))
        .collect();
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all);
}

/// A side that returns a given sample.
struct Fake(Result<Sample, Trouble>);

impl Side for Fake {
    fn turn(&mut self, _: &Effort) -> Result<Sample, Trouble> {
        self.0.clone()
    }
}

const DONE: Sample = Sample {
    wall: Duration::from_secs(1),
    cpu: Duration::from_secs(1),
    transfers: 10,
    octets: 1_000_000_000,
    checked: 10,
    figure: 0.0,
};
const UNCHECKED: Sample = Sample { checked: 9, ..DONE };
const SLOW: Sample = Sample { wall: Duration::from_secs(4), ..DONE };

const fn fake(open: fn(&Case, &Effort) -> Result<Sides, Trouble>) -> Case {
    const REFERENCES: &[Reference] = &[
        Reference::with_target("first", Target::RatioAtLeast(0.5)),
        Reference { is_optional: true, ..Reference::shown("second") },
    ];
    Case { name: "fake", quantity: Quantity::Throughput, references: REFERENCES, clock_scale: 4, open }
}

fn sides(ours: Sample, theirs: [Result<Sample, Trouble>; 2]) -> Result<Sides, Trouble> {
    let references = theirs.map(|it| Box::new(Fake(it)) as Box<dyn Side>).into();
    Ok(Sides { ours: Box::new(Fake(Ok(ours))), references })
}

fn failures(case: &'static Case, is_strict: bool) -> [Option<String>; 2] {
    let rows = measure(case, &TINY, &mut || {});
    assert_eq!(rows.len(), 2);
    [rows[0].failure(is_strict), rows[1].failure(is_strict)]
}

#[test]
fn a_bad_ratio_is_no_failure() {
    static CASE: Case = fake(|_, _| sides(SLOW, [Ok(DONE), Ok(SLOW)]));
    assert_eq!(failures(&CASE, true), [None, None]);
    let rows = measure(&CASE, &TINY, &mut || {});
    assert_eq!((rows[0].is_met(), rows[1].is_met()), (Some(false), None));
    let object = report::object(&rows[0]);
    assert_eq!((object["ratio"].as_f64(), object["met"].as_bool()), (Some(0.25), Some(false)));
}

/// A side with a floor, each of whose turns counts.
struct Strict(Fake);

impl Side for Strict {
    fn turn(&mut self, effort: &Effort) -> Result<Sample, Trouble> {
        self.0.turn(effort)
    }

    fn is_fresh(&self) -> bool {
        true
    }

    fn floor(&self) -> Option<f64> {
        Some(0.5)
    }
}

#[test]
fn a_ratio_below_the_floor_is_a_failure() {
    const AS_BAD: Sample = Sample { wall: Duration::from_secs(3), ..DONE };
    fn strict(ours: Sample) -> Result<Sides, Trouble> {
        let sides = sides(ours, [Ok(DONE), Ok(DONE)])?;
        Ok(Sides { ours: Box::new(Strict(Fake(Ok(ours)))), ..sides })
    }
    static BELOW: Case = fake(|_, _| strict(Sample { wall: Duration::from_secs(5), ..DONE }));
    let [first, second] = failures(&BELOW, false);
    assert!(first.is_some_and(|it| it.contains("not even 0.5 of `>= 0.5`")), "0.2 is less than half of 0.5");
    assert_eq!(second, None, "it has no target");
    static ABOVE: Case = fake(|_, _| strict(AS_BAD));
    assert_eq!(failures(&ABOVE, false), [None, None]);
    let mut ticks = 0;
    measure(&ABOVE, &TINY, &mut || ticks += 1);
    assert_eq!(ticks, 3 * TINY.pairs, "no turn is left out");
}

#[test]
fn a_target_says_what_is_far_from_it() {
    let far = |target: Target, ratio| target.is_far_from(ratio, 0.25);
    assert!(far(Target::RatioAtLeast(0.8), 0.19) && !far(Target::RatioAtLeast(0.8), 0.2));
    assert!(far(Target::RatioAtMost(0.5), 2.1) && !far(Target::RatioAtMost(0.5), 2.0));
    assert!(far(Target::BothAtMost(9.0, 1.0), 4.1) && !far(Target::BothAtMost(9.0, 1.0), 4.0));
    assert!(!far(Target::ValueWithin(0.4, 0.6), 0.0) && !far(Target::ValueAtMost(1.0), 99.0));
    let both = Target::BothAtMost(154.0, 1.0);
    assert_eq!(
        [(150.0, 0.9), (155.0, 0.9), (150.0, 1.1)].map(|(value, ratio)| both.is_met(value, ratio)),
        [true, false, false]
    );
    let within = Target::ValueWithin(0.4, 0.6);
    assert_eq!([0.39, 0.4, 0.6, 0.61].map(|value| within.is_met(value, 9.0)), [false, true, true, false]);
    assert_eq!([both, within].map(|it| it.to_string()), ["value <= 154, <= 1", "value 0.4 to 0.6"]);
}

#[test]
fn octets_that_were_not_checked_are_a_failure() {
    static OURS: Case = fake(|_, _| sides(UNCHECKED, [Ok(DONE), Ok(DONE)]));
    assert!(failures(&OURS, false).iter().all(|it| it.as_ref().is_some_and(|it| it.contains("only 9"))));
    static THEIRS: Case = fake(|_, _| sides(DONE, [Ok(DONE), Ok(UNCHECKED)]));
    let [first, second] = failures(&THEIRS, false);
    assert!(first.is_none() && second.is_some_and(|it| it.contains("only 9")));
}

#[test]
fn a_missing_row_is_a_failure_and_a_skipped_one_if_that_is_wanted() {
    static FAILED: Case = fake(|_, _| Err(Trouble::failed("no wire")));
    assert!(failures(&FAILED, false).iter().all(Option::is_some));
    static SKIPPED: Case = fake(|_, _| Err(Trouble::Skipped("no privilege".to_owned())));
    assert_eq!(failures(&SKIPPED, false), [None, None]);
    let [first, second] = failures(&SKIPPED, true);
    assert!(first.is_some_and(|it| it.contains("no privilege")) && second.is_none());
    static SHORT: Case = fake(|_, _| {
        let mut sides = sides(DONE, [Ok(DONE), Ok(DONE)])?;
        sides.references.pop();
        Ok(sides)
    });
    assert!(failures(&SHORT, false).iter().all(Option::is_some));
}

#[test]
fn the_command_line_names_the_cases_that_there_are() {
    let list = |only: &[&str]| {
        let args = ["bench", "--list"].into_iter().chain(only.iter().flat_map(|text| ["--only", text]));
        let args = <Args as clap::Parser>::try_parse_from(args).unwrap();
        let mut out = Vec::new();
        crate::run(&args, &mut out).map(|done| (done, String::from_utf8(out).unwrap()))
    };
    let (done, all) = list(&[]).unwrap();
    assert_eq!(done, Ok(()));
    let rows: usize = cases::all().map(|case| case.references.len()).sum();
    assert_eq!(all.lines().count(), rows);
    let (_, some) = list(&["mtu-1500", "ping"]).unwrap();
    assert!(some.lines().count() < rows && some.contains("pair/ping-8") && some.contains("mtu-1500"));
    let error = list(&["nothing of that name"]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
}
