//! All states that small worlds come to, by breadth-first search, and a search for each rule that is broken.

use std::println;
use std::vec;
use std::vec::Vec;

use stateright::{Checker, HasDiscoveries, Model, Property};

use super::broken::Broken;
use super::plan::Plan;
use super::steps::Event;
use super::world::World;

impl Model for Plan {
    type State = World;
    type Action = Event;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self)]
    }

    fn actions(&self, world: &World, events: &mut Vec<Event>) {
        self.events(world, events);
    }

    fn next_state(&self, world: &World, event: Event) -> Option<World> {
        let mut world = world.clone();
        if !self.happen(&mut world, event) {
            return None;
        }
        self.check_rest(&mut world);
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(RIGHT, |_, world: &World| world.wrong.is_none()),
            Property::sometimes(OVER, |plan: &Self, world: &World| {
                let sent: u32 = plan.sends.iter().sum();
                world.delivered() == sent.min(plan.receives.iter().map(|(len, _)| len).sum())
            }),
        ]
    }
}

/// Explores all states.
fn holds(plan: Plan) {
    let checker = plan.checker().finish_when(HasDiscoveries::AnyFailures).target_state_count(LIMIT);
    let checker = checker.spawn_bfs().join();
    report(&checker);
    assert!(checker.state_count() < LIMIT, "there are more states");
    assert!(checker.discoveries().contains_key(OVER), "these bounds leave nothing to see");
}

/// Explores depth first, which keeps less of each state: all states, or as many as `WEFT_MODEL_STATES` says.
fn holds_in_depth(plan: Plan) {
    let limit = std::env::var("WEFT_MODEL_STATES").map_or(usize::MAX, |states| states.parse().unwrap());
    let checker = plan.checker().finish_when(HasDiscoveries::AnyFailures).target_state_count(limit);
    report(&checker.spawn_dfs().join());
}

fn report(checker: &impl Checker<Plan>) {
    println!("{} states, {} of them different", checker.state_count(), checker.unique_state_count());
    if let Some(path) = checker.discoveries().remove(RIGHT) {
        let end = path.clone().into_states().pop().and_then(|world| world.wrong);
        panic!("{end:?}: {:?}", path.into_actions());
    }
}

/// Looks for the shortest way to something wrong.
fn fails(plan: Plan) {
    let broken = plan.broken;
    let checker = plan.checker().finish_when(HasDiscoveries::AnyFailures).target_state_count(LIMIT);
    let checker = checker.spawn_bfs().join();
    let path = checker.discoveries().remove(RIGHT);
    let path = path.unwrap_or_else(|| panic!("{broken:?}: the rule is not needed"));
    let end = path.clone().into_states().pop().and_then(|world| world.wrong);
    println!("{broken:?}: {end:?} in {} steps", path.into_actions().len());
}

const RIGHT: &str = "nothing is wrong";
const OVER: &str = "what fits arrives";
const LIMIT: usize = 4_000_000;

const ALL: bool = true;
const ANY: bool = false;

fn ring_0() -> Plan {
    Plan { cancels: 1, ..Plan::new(0, 1) }.with(&[4, 3], &[(3, ANY), (2, ALL), (3, ANY)])
}

fn ring_2() -> Plan {
    Plan { cancels: 1, ..Plan::new(2, 1) }.with(&[4, 2], &[(3, ANY), (2, ALL), (2, ANY)])
}

fn ring_4() -> Plan {
    Plan { cancels: 1, ..Plan::new(4, 2) }.with(&[5, 2], &[(2, ANY), (3, ALL), (2, ANY)])
}

/// Reads of less than a quarter of the ring, of which only FREE tells.
fn crumbs() -> Plan {
    Plan::new(4, 2).with(&[2, 1, 1, 2], &[(2, ANY), (1, ANY), (1, ANY)])
}

#[test]
fn without_a_ring_octets_wait_for_adverts() {
    holds(ring_0());
}

#[test]
fn octets_go_through_a_ring_of_2_and_past_it() {
    holds(ring_2());
}

#[test]
fn octets_go_through_a_ring_of_4_and_past_it() {
    holds(ring_4());
    holds(crumbs());
}

#[test]
fn immediate_data_keeps_the_order() {
    let plan = Plan { inline_max: 1, ..ring_2() };
    holds(plan);
}

#[test]
fn short_receives_without_adverts_keep_the_order() {
    for ring in [ring_0(), ring_2(), ring_4()] {
        holds(Plan { inline_max: 2, small: 2, ..ring });
    }
}

#[test]
fn sends_are_canceled_and_reading_ends() {
    for inline_max in [0, 1] {
        let plan = Plan { send_cancels: 1, shuts_read: true, inline_max, ..Plan::new(2, 1) };
        holds(plan.with(&[2, 0, 2], &[(2, ANY), (0, ANY), (3, ALL)]));
    }
}

#[test]
#[ignore = "takes a minute"]
fn two_cancels_and_four_receives_keep_the_order() {
    let receives = [(3, ANY), (2, ALL), (4, ANY), (2, ALL)];
    for ring in [0, 2, 4] {
        for inline_max in [0, 1] {
            println!("ring {ring}, immediate data of {inline_max} octets");
            let plan = Plan { cancels: 2, inline_max, ..Plan::new(ring, ring.max(2) / 2) };
            holds_in_depth(plan.with(&[5, 4], &receives));
        }
    }
}

#[test]
fn each_rule_is_needed() {
    for broken in Broken::ALL {
        let plan = match broken {
            Broken::FirstCountsAsFree => crumbs(),
            _ => ring_2(),
        };
        fails(Plan { broken: Some(broken), ..plan });
    }
}
