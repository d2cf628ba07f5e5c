//! All rows with the shortest turns, where this process may make network namespaces.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::cases::CASES;
use super::device::TESTED;
use super::ours::Ours;
use super::path::Path;
use super::scene::Scene;
use super::shared::Measured as _;
use super::stream::Stream;
use crate::case::{Effort, Trouble};
use crate::harness::measure;

const TINY: Effort = Effort { turn: Duration::from_millis(30), pairs: 1, is_tiny: true };

/// Returns the right to the only relay, or `None` if this process may not make it.
fn scene(test: &str) -> Option<MutexGuard<'static, ()>> {
    static RELAY: Mutex<()> = Mutex::new(());
    let guard = RELAY.lock().unwrap_or_else(PoisonError::into_inner);
    let Err(trouble) = Scene::get() else { return Some(guard) };
    assert!(!rustix::process::geteuid().is_root(), "root makes namespaces: {trouble}");
    println!("skipped: loss::{test}: {trouble}");
    None
}

/// The far cells and those of much loss take seconds for a message, as long outages do.
fn is_short(name: &str) -> bool {
    !["/50ms", "5%/", "00ms"].iter().any(|part| name.contains(part))
}

#[test]
fn every_case_has_all_its_rows() {
    let Some(_relay) = scene("every_case_has_all_its_rows") else { return };
    for case in CASES.iter().filter(|case| is_short(case.name)) {
        let rows = measure(case, &TINY, &mut || {});
        assert_eq!(rows.len(), case.references.len(), "{}", case.name);
        for row in rows {
            let name = format!("{} against {}", case.name, row.reference.name);
            match row.outcome {
                Ok(outcome) => assert!(outcome.ours.median >= 0.0 && outcome.theirs.median >= 0.0, "{name}"),
                Err(Trouble::Skipped(reason)) => println!("skipped: {name}: {reason}"),
                Err(trouble) => panic!("{name}: {trouble}"),
            }
        }
    }
}

#[test]
fn a_path_that_stays_down_fails_the_turn() {
    let Some(_relay) = scene("a_path_that_stays_down_fails_the_turn") else { return };
    let [start, end] = [2, 1000].map(weft_netif::Duration::from_secs);
    let path = Path { outage: Some(start..end), ..Path::new(weft_netif::Duration::from_millis(1)) };
    let mut stream = Stream { stack: Ours { tcp: &TESTED, lane: 0 }, path, longer: 1 };
    let effort = Effort { turn: Duration::from_secs(60), ..TINY };
    assert_eq!(stream.take(&effort).unwrap_err(), Trouble::failed("no progress for 5 s"));
}
