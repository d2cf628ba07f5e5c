//! The data path allocates no memory, neither for a message nor for a segment, in any thread and on either side.
//!
//! There is only one test, since the counts are the process's: another test beside it would be counted too.

#[path = "../leaks/counting.rs"]
mod counting;
mod operations;

use counting::LIVE;
use operations::{ALL, World};

/// The first rounds allocate memory that stays: for the requests of a queue pair, for frames under way, for parts of
/// an FPDU that does not come in one piece.
const WARM_UP: u64 = 2_000;
const ROUNDS: u64 = 10_000;

#[test]
fn no_operation_allocates() {
    let mut failures = Vec::new();
    for host in [false, true] {
        for (name, operate) in ALL {
            let mut world = World::new(host);
            (0..WARM_UP).for_each(|round| operate(&mut world, round));
            let before = LIVE.allocations();
            (WARM_UP..WARM_UP + ROUNDS).for_each(|round| operate(&mut world, round));
            let allocations = LIVE.allocations() - before;
            if allocations > 0 {
                failures.push(format!("{name}, host {host}: {allocations} allocations in {ROUNDS} rounds"));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
