//! Objects that are made and destroyed again and again leave neither memory nor descriptors behind.
//!
//! There is only one test, since the counts are the process's: another test beside it would be counted too.

mod counting;
mod loops;

use std::fs;

use counting::LIVE;

/// The memory and descriptors of the process.
#[derive(Clone, Copy, Debug)]
struct Holdings {
    octets: i64,
    blocks: i64,
    descriptors: usize,
}

impl Holdings {
    fn now() -> Self {
        let (octets, blocks) = LIVE.holdings();
        Self { octets, blocks, descriptors: fs::read_dir("/proc/self/fd").map_or(0, Iterator::count) }
    }
}

#[test]
fn no_memory_or_descriptor_is_left() {
    let mut failures = Vec::new();
    for (name, rounds, run) in loops::ALL {
        // The first rounds fill tables that stay: slots that rest before they are used again, and buffers that are
        // reused.
        let mut again = run();
        for _ in 0..rounds {
            again();
        }
        let before = Holdings::now();
        for _ in 0..rounds {
            again();
        }
        let after = Holdings::now();
        let blocks = after.blocks - before.blocks;
        let octets = after.octets - before.octets;
        // A leak of one block or one octet in every tenth round would show.
        let (limit, is_flat) = (i64::from(rounds / 10), after.descriptors == before.descriptors);
        if blocks > limit || octets > limit.max(SLACK) || !is_flat {
            failures.push(format!("{name}: {before:?} became {after:?} in {rounds} rounds"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Octets by which a table may have grown for good.
const SLACK: i64 = 4096;
