//! What is explored: the rules as they are, for several bounds, and each rule broken, which has to be found.

use stateright::{Checker, HasDiscoveries, Model};
use weft_group::Topology;

use super::plan::{Broken, Memory, Plan};

/// One coordinator and no failure. Hosts are left without answers in all plans.
const SMALL: Plan = Plan {
    members: 3,
    spares: 0,
    coordinators: 1,
    claimed: 0,
    last_epoch: 3,
    programs: &["W", "R"],
    failures: 0,
    power_losses: 0,
    failed_flushes: 0,
    lost_answers: 0,
    memory: Memory::Flushed,
    topology: Topology::Chain,
    broken: None,
};

/// Three members, two coordinators, two failures, of which one may be a power loss, and a register that loses an answer.
const FULL: Plan =
    Plan { coordinators: 2, failures: 2, power_losses: 1, failed_flushes: 1, lost_answers: 1, ..SMALL };

/// Explores all states, or the first ones: breadth first, `limit` of them.
fn holds(plan: Plan, limit: usize) {
    let checker = plan.checker().finish_when(HasDiscoveries::AnyFailures).target_state_count(limit);
    let checker = checker.spawn_bfs().join();
    report(&checker);
    let is_seen = checker.discoveries().contains_key("another epoch is read");
    assert!(is_seen || limit != ALL, "these bounds leave nothing to see");
}

fn report(checker: &impl Checker<Plan>) {
    println!("{} states, {} of them different", checker.state_count(), checker.unique_state_count());
    let discoveries = checker.discoveries();
    for wrong in WRONG {
        let path = discoveries.get(wrong).map(|path| path.clone().into_actions());
        assert!(path.is_none(), "not {wrong}: {path:?}");
    }
}

/// Looks for the shortest way to something wrong.
fn fails(plan: Plan) {
    let broken = plan.broken;
    let checker = plan.checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let mut found = checker.discoveries().into_iter().filter(|(name, _)| WRONG.contains(name));
    let (name, path) = found.next().expect("the rule is not needed");
    println!("{broken:?}: not {name}, in {} steps", path.into_actions().len());
}

const WRONG: [&str; 2] = ["linearizable", "members hold the same octets"];
const ALL: usize = usize::MAX;

#[test]
fn two_coordinators_that_have_taken_epochs_do_no_harm() {
    holds(Plan { coordinators: 2, claimed: 2, ..SMALL }, ALL);
}

#[test]
fn hosts_that_lose_octets_do_no_harm() {
    for memory in [Memory::Unflushed, Memory::Volatile] {
        holds(Plan { failures: 2, last_epoch: 2, memory, ..SMALL }, ALL);
    }
    let flushed =
        Plan { members: 2, failures: 2, power_losses: 1, failed_flushes: 1, last_epoch: 2, ..SMALL };
    holds(flushed, ALL);
}

#[test]
fn reads_beside_writes_are_linear_in_a_fan_and_in_a_chain() {
    for topology in [Topology::Chain, Topology::Fan] {
        holds(Plan { members: 2, programs: &["B", "R"], topology, ..SMALL }, ALL);
    }
}

#[test]
fn a_register_that_loses_answers_does_no_harm() {
    holds(Plan { coordinators: 2, members: 2, lost_answers: 1, programs: &["", "R"], ..SMALL }, ALL);
}

#[test]
fn the_first_states_of_all_failures_together_are_sound() {
    holds(FULL, 1_000_000);
    holds(Plan { claimed: 2, topology: Topology::Fan, ..FULL }, 1_000_000);
}

/// Depth first, which keeps less of each state. `docs/group/epochs.md` has the time and the memory.
fn holds_in_depth(plan: Plan) {
    let limit = std::env::var("WEFT_MODEL_STATES").map_or(ALL, |states| states.parse().unwrap());
    let checker = plan.checker().finish_when(HasDiscoveries::AnyFailures).target_state_count(limit);
    report(&checker.spawn_dfs().join());
}

#[test]
#[ignore = "takes minutes"]
fn all_failures_around_one_change_do_no_harm() {
    holds_in_depth(Plan { last_epoch: 2, ..FULL });
}

#[test]
#[ignore = "takes a quarter of an hour"]
fn all_failures_of_two_members_do_no_harm() {
    holds_in_depth(Plan { members: 2, ..FULL });
}

#[test]
#[ignore = "takes hours"]
fn all_failures_together_do_no_harm() {
    holds_in_depth(FULL);
}

#[test]
fn a_read_needs_an_operation_behind_it() {
    fails(Plan { broken: Some(Broken::Unconfirmed), programs: &["R", "W"], ..SMALL });
}

#[test]
fn an_operation_that_is_sent_before_the_read_completes_confirms_nothing() {
    let early = Plan { broken: Some(Broken::ConfirmedEarly), programs: &["B", "R"], ..SMALL };
    fails(Plan { topology: Topology::Fan, ..early });
    // In a chain all members have what the tail has, but not on disk.
    fails(Plan { members: 2, failures: 1, power_losses: 1, ..early });
}

#[test]
fn hosts_that_have_copied_need_to_flush() {
    let copied = Plan { members: 2, spares: 1, failures: 1, power_losses: 1, ..SMALL };
    fails(Plan { broken: Some(Broken::UnflushedCopy), ..copied });
}

#[test]
fn the_host_from_which_others_have_copied_needs_to_flush_too() {
    let read = Plan { members: 2, failures: 1, power_losses: 1, programs: &["W", "R", "R"], ..SMALL };
    fails(Plan { broken: Some(Broken::UnflushedSource), ..read });
}

#[test]
fn open_needs_the_incarnation() {
    let unflushed = Plan { failures: 1, memory: Memory::Unflushed, ..SMALL };
    fails(Plan { broken: Some(Broken::AnyIncarnation), ..unflushed });
}

#[test]
fn seal_needs_the_base_of_the_coordinator() {
    let stale = Plan { members: 2, coordinators: 2, claimed: 2, last_epoch: 4, ..SMALL };
    fails(Plan { broken: Some(Broken::AnyBase), programs: &["", "W", "R"], ..stale });
}

#[test]
fn sessions_need_to_end_when_their_member_is_sealed() {
    fails(Plan { broken: Some(Broken::Unsealed), programs: &["R", "W"], ..SMALL });
}

#[test]
fn a_change_needs_a_sealed_member_that_has_lost_nothing() {
    let unflushed = Plan { failures: 1, memory: Memory::Unflushed, ..SMALL };
    fails(Plan { broken: Some(Broken::AnySource), ..unflushed });
}
