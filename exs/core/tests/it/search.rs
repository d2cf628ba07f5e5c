//! All states of two sessions, for scripts of their users.

use stateright::{Checker, HasDiscoveries, Model, Property};

use super::world::{Plan, Step, World};

impl Model for Plan {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self)]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        steps.extend(world.steps(self));
    }

    fn next_state(&self, world: &World, step: Step) -> Option<World> {
        let mut world = world.clone();
        world.step(self, step, true);
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("right", |_, world: &World| world.wrong.is_none()),
            Property::always("finished when nothing happens", |plan: &Self, world: &World| {
                world.is_finished(plan) || !world.steps(plan).is_empty()
            }),
            Property::always("whole", |_, world: &World| !world.is_broken()),
            Property::sometimes("ended on both sides", |_, world: &World| {
                world.devices.iter().all(|device| device.ended.is_some())
            }),
        ]
    }
}

/// Explores all states, of which there are fewer than `bound`. A connection ends by both sides' wish, or may be broken.
fn holds(plan: Plan, may_break: bool, bound: usize) {
    let scripts = plan.scripts.clone();
    let checker = plan
        .checker()
        .finish_when(HasDiscoveries::AnyOf(WRONG[..if may_break { 2 } else { 3 }].iter().copied().collect()));
    let checker = checker.target_state_count(bound).spawn_bfs().join();
    let (all, different) = (checker.state_count(), checker.unique_state_count());
    println!("{scripts:?}: {all} states, {different} of them different");
    let mut found = checker.discoveries();
    assert!(found.remove("ended on both sides").is_some() || !found.is_empty(), "nothing has ended");
    if let Some((name, path)) = found.into_iter().find(|(name, _)| !may_break || *name != "whole") {
        let last = path.last_state().clone();
        panic!("{scripts:?}: not {name}: {:?}: {:?}\n{last:#?}", last.wrong, path.into_actions());
    }
    assert!(all < bound, "more states than {bound}");
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
    holds(plan("slsxwc", "RrRxwc"), false, BOUND);
    holds(Plan { invalidates: false, ..plan("lslxwc", "RRRxwc") }, false, BOUND);
}

#[test]
fn both_sides_send_at_the_same_time() {
    holds(plan("lRxwc", "sRxwc"), false, BOUND);
}

#[test]
fn slots_in_place_among_reads_are_given_back_in_any_order() {
    holds(plan("slsxwc", "iiixwc"), false, BOUND);
}

#[test]
fn what_nobody_knows_of_can_be_canceled() {
    holds(plan("lsskxwc", "rkRRRxwc"), false, BOUND);
}

#[test]
fn a_side_may_take_nothing_more() {
    holds(plan("slsxwc", "rXxwc"), false, BOUND);
}

#[test]
fn a_side_may_close_at_any_time() {
    holds(plan("slRc", "lrc"), true, BOUND);
    holds(plan("sslc", "ic"), true, BOUND);
}

const WRONG: [&str; 3] = ["right", "finished when nothing happens", "whole"];
/// More states than these would need too much memory.
const BOUND: usize = 1_000_000;
