//! All states of two sessions of streams, for scripts of their users.

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
            Property::always(WRONG[0], |_, world: &World| world.wrong.is_none()),
            Property::always(WRONG[1], |plan: &Self, world: &World| {
                world.is_finished(plan) || !world.steps(plan).is_empty()
            }),
            Property::always(WRONG[2], |_, world: &World| !world.is_broken()),
            Property::sometimes(ENDED, |_, world: &World| {
                world.devices.iter().all(|device| device.ended.is_some())
            }),
        ]
    }
}

const WRONG: [&str; 3] = ["right", "finished when nothing happens", "whole"];
const ENDED: &str = "ended on both sides";

/// Explores all states. A connection ends by both sides' wish, or may be broken.
fn holds(plan: Plan, may_break: bool) {
    let wrong = &WRONG[..if may_break { 2 } else { 3 }];
    let scripts = plan.scripts.clone();
    let until = HasDiscoveries::AnyOf(wrong.iter().copied().collect());
    let checker = plan.checker().finish_when(until).target_state_count(LIMIT).spawn_bfs().join();
    let (all, different) = (checker.state_count(), checker.unique_state_count());
    println!("{scripts:?}: {all} states, {different} of them different");
    let mut found = checker.discoveries();
    if let Some((name, path)) = wrong.iter().find_map(|name| found.remove(name).map(|path| (name, path))) {
        let last = path.last_state().clone();
        panic!("{scripts:?}: not {name}: {:?}: {:?}\n{last:?}", last.wrong, path.into_actions());
    }
    assert!(found.contains_key(ENDED), "nothing has ended");
    assert!(all < LIMIT, "there are more states");
}

const LIMIT: usize = 3_000_000;

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
