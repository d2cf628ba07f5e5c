//! All states of two sessions of streams, for scripts of their users.

use super::world::{Plan, World};
use crate::play;

fn holds(plan: Plan, may_break: bool) {
    play::holds::<World>(&plan, may_break, BOUND);
}

/// More states than these would need too much memory.
const BOUND: usize = 3_000_000;

/// Window 4 and 2 adverts each way.
fn plan(ring: u32, one: &str, other: &str) -> Plan {
    let scripts = [one, other].map(str::to_owned);
    Plan { window: 4, adverts: 2, ring, immediate: 0, direct_min: 1, scripts }
}

#[test]
fn octets_go_one_way_through_a_ring_and_past_it() {
    for ring in [0, 2, 4] {
        holds(plan(ring, "lsxwc", "rarxwc"), false);
    }
}

#[test]
fn octets_go_both_ways() {
    holds(plan(2, "sxrwc", "saxrwc"), false);
}

#[test]
fn immediate_data_comes_in_order() {
    holds(Plan { immediate: 1, ..plan(2, "slxwc", "rarxwc") }, false);
}

#[test]
fn receives_are_canceled_at_any_time() {
    holds(plan(2, "lxwc", "rakrrrxwc"), false);
}

#[test]
fn a_side_may_close_with_octets_unread() {
    holds(plan(2, "lsxwc", "rxc"), true);
    holds(plan(2, "lskxwc", "rXxwc"), true);
}
