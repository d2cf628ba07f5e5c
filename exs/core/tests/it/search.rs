//! All states of two sessions, for scripts of their users.

use super::play;
use super::world::{Plan, World};

fn holds(plan: Plan, may_break: bool) {
    play::holds::<World>(&plan, may_break, BOUND);
}

/// Window 4 and 2 credits each way.
fn plan(one: &str, other: &str) -> Plan {
    Plan {
        windows: [4; 2],
        credits: [2; 2],
        immediate: 1,
        invalidates: true,
        scripts: [one.to_owned(), other.to_owned()],
    }
}

#[test]
fn messages_with_and_without_a_read_come_in_order() {
    holds(plan("slsxwc", "RrRxwc"), false);
    holds(Plan { invalidates: false, ..plan("lslxwc", "RRRxwc") }, false);
}

#[test]
fn both_sides_send_at_the_same_time() {
    holds(plan("lRxwc", "sRxwc"), false);
}

#[test]
fn slots_in_place_among_reads_are_given_back_in_any_order() {
    holds(plan("slsxwc", "iiixwc"), false);
}

#[test]
fn what_nobody_knows_of_can_be_canceled() {
    holds(plan("lsskxwc", "rkRRRxwc"), false);
}

#[test]
fn a_side_may_take_nothing_more() {
    holds(plan("slsxwc", "rXxwc"), false);
}

#[test]
fn a_side_may_close_at_any_time() {
    holds(plan("slRc", "lrc"), true);
    holds(plan("sslc", "ic"), true);
}

/// More states than these would need too much memory.
const BOUND: usize = 1_000_000;
