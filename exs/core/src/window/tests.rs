//! All states of two windows whose users always have something to send.

use std::vec::Vec;
use std::{println, vec};

use stateright::{Checker, HasDiscoveries, Model, Property};

use super::*;

/// What is explored.
#[derive(Clone, Debug)]
struct Plan {
    sizes: [u16; 2],
    /// The rule that is broken: messages use the last place as well.
    uses_last_place: bool,
}

/// Two sides and the limits that are on the way from each.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    sides: [Window; 2],
    ways: [Vec<u16>; 2],
    fault: Option<Fault>,
}

/// What a side does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Send(usize),
    Credit(usize),
    Take(usize),
}

impl Plan {
    fn may(&self, state: &State, event: Event) -> bool {
        match event {
            Event::Send(side) if self.uses_last_place => state.sides[side].may_send_credit(),
            Event::Send(side) => state.sides[side].may_send(),
            Event::Credit(side) => state.sides[side].owes() && state.sides[side].may_send_credit(),
            Event::Take(side) => !state.ways[1 - side].is_empty(),
        }
    }
}

impl State {
    fn step(&mut self, event: Event) {
        match event {
            Event::Send(side) | Event::Credit(side) => {
                let limit = self.sides[side].send();
                self.ways[side].push(limit);
            }
            Event::Take(side) => {
                let limit = self.ways[1 - side].remove(0);
                self.fault = self.sides[side].handle_send(limit).err();
            }
        }
        for side in [0, 1] {
            self.rebase(side);
        }
    }

    /// Subtracts from all counts of one direction what was taken. Only differences count.
    fn rebase(&mut self, taker: usize) {
        let sender = 1 - taker;
        let base = self.sides[taker].taken;
        let (taking, sending) = (self.sides[taker].clone(), self.sides[sender].clone());
        self.sides[taker] = Window { taken: 0, told: taking.told.wrapping_sub(base), ..taking };
        let (sent, limit) = (sending.sent.wrapping_sub(base), sending.limit.wrapping_sub(base));
        self.sides[sender] = Window { sent, limit, ..sending };
        self.ways[taker].iter_mut().for_each(|limit| *limit = limit.wrapping_sub(base));
    }

    /// Returns whether, with no more to send, each side may soon send again, and no CREDIT follows the other for ever.
    fn comes_to_rest(&self, plan: &Plan) -> bool {
        let mut state = self.clone();
        let events = [0, 1].into_iter().flat_map(|side| [Event::Take(side), Event::Credit(side)]);
        for _ in 0..100 {
            let Some(event) = events.clone().find(|event| plan.may(&state, *event)) else {
                return state.sides.iter().all(Window::may_send);
            };
            state.step(event);
        }
        false
    }
}

impl Model for Plan {
    type State = State;
    type Action = Event;

    fn init_states(&self) -> Vec<State> {
        let [one, other] = self.sizes;
        let sides = [Window::new(one, other), Window::new(other, one)];
        vec![State { sides, ways: [vec![], vec![]], fault: None }]
    }

    fn actions(&self, state: &State, events: &mut Vec<Event>) {
        let all =
            [0, 1].into_iter().flat_map(|side| [Event::Send(side), Event::Credit(side), Event::Take(side)]);
        events.extend(all.filter(|event| state.fault.is_none() && self.may(state, *event)));
    }

    fn next_state(&self, state: &State, event: Event) -> Option<State> {
        let mut state = state.clone();
        state.step(event);
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no fault", |_, state: &State| state.fault.is_none()),
            Property::always("no more Sends than slots", |plan: &Self, state: &State| {
                (0..2).all(|side| state.ways[side].len() <= usize::from(plan.sizes[1 - side]))
            }),
            Property::always("nobody waits for ever", |plan, state: &State| state.comes_to_rest(plan)),
            Property::sometimes("both have used all places but the last", |_, state: &State| {
                state.sides.iter().all(|side| !side.may_send())
            }),
        ]
    }
}

/// Returns what is wrong, with the number of steps to it.
fn explore(plan: Plan) -> Option<(&'static str, usize)> {
    let sizes = plan.sizes;
    let checker = plan.checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    println!(
        "windows {sizes:?}: {} states, {} of them different",
        checker.state_count(),
        checker.unique_state_count()
    );
    let mut found = checker.discoveries();
    assert!(found.remove("both have used all places but the last").is_some(), "nothing is seen");
    found.into_iter().next().map(|(name, path)| (name, path.into_actions().len()))
}

#[test]
fn two_sides_never_wait_for_each_other() {
    for sizes in [[4, 4], [5, 5], [6, 6], [7, 7], [8, 8], [4, 7], [8, 5]] {
        assert_eq!(explore(Plan { sizes, uses_last_place: false }), None);
    }
}

#[test]
fn without_the_reserved_place_both_sides_can_be_full() {
    for size in 4..=8 {
        let found = explore(Plan { sizes: [size; 2], uses_last_place: true });
        assert_eq!(found.map(|(name, _)| name), Some("nobody waits for ever"));
    }
}

#[test]
fn a_send_without_a_place_is_a_fault() {
    let mut window = Window::new(4, 8);
    for _ in 0..4 {
        assert_eq!(window.handle_send(8), Ok(()));
    }
    assert_eq!(window.handle_send(8), Err(Fault::BeyondCredits));
    assert_eq!((window.owes(), window.send()), (true, 8));
    assert_eq!((window.owes(), window.handle_send(8)), (false, Ok(())));
}

#[test]
fn a_limit_goes_up_and_not_beyond_what_was_sent() {
    let mut window = Window::new(4, 8);
    assert_eq!(window.handle_send(9), Err(Fault::OutOfOrder));
    assert_eq!((window.send(), window.send()), (4, 4));
    assert_eq!(window.handle_send(11), Err(Fault::OutOfOrder));
    assert_eq!(window.handle_send(9), Ok(()));
    assert_eq!((window.handle_send(8), window.handle_send(10)), (Err(Fault::OutOfOrder), Ok(())));
}

#[test]
fn counts_begin_again_at_0() {
    let [mut one, mut other] = [Window::new(8, 4), Window::new(4, 8)];
    for _ in 0..70_000 {
        assert!(one.may_send());
        assert_eq!(other.handle_send(one.send()), Ok(()));
        assert_eq!(one.handle_send(other.send()), Ok(()));
    }
}
