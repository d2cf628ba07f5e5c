//! Two users play their scripts: in all orders of what can happen, or in one.

use core::fmt::Debug;
use core::hash::Hash;

use stateright::{Checker, HasDiscoveries, Model, Property};
use weft_exs_core::Cause;

/// A state of two devices, the wires between them, and their users.
pub(crate) trait World: Clone + Debug + Eq + Hash + Send + Sync + 'static {
    /// What happens.
    type Plan: Clone + Debug + Send + Sync + 'static;

    fn new(plan: &Self::Plan) -> Self;

    /// Returns all that can happen next.
    fn steps(&self, plan: &Self::Plan) -> Vec<Step>;

    /// Does a step, and all that the session wants to have done then. Without `room` it can post nothing.
    fn step(&mut self, plan: &Self::Plan, step: Step, room: bool);

    /// Does what the session of a side wants to have done.
    fn drain(&mut self, side: usize, room: bool);

    /// Returns whether everything has ended as it should.
    fn is_finished(&self, plan: &Self::Plan) -> bool;

    /// Returns what should not have happened.
    fn wrong(&self) -> Option<&'static str>;

    /// Returns why each side has ended.
    fn ended(&self) -> [Option<Cause>; 2];

    /// Returns whether a connection has ended otherwise than by both sides' wish.
    fn is_broken(&self) -> bool {
        self.ended().into_iter().flatten().any(|cause| cause != Cause::Closed)
    }
}

/// What happens next, and to which side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    User(usize),
    Deliver(usize),
    Done(usize),
    Recycle(usize),
    Time(usize),
}

/// All orders of a plan.
struct Search<W: World>(W::Plan);

impl<W: World> Model for Search<W> {
    type State = W;
    type Action = Step;

    fn init_states(&self) -> Vec<W> {
        vec![W::new(&self.0)]
    }

    fn actions(&self, world: &W, steps: &mut Vec<Step>) {
        steps.extend(world.steps(&self.0));
    }

    fn next_state(&self, world: &W, step: Step) -> Option<W> {
        let mut world = world.clone();
        world.step(&self.0, step, true);
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(WRONG[0], |_, world: &W| world.wrong().is_none()),
            Property::always(WRONG[1], |search: &Self, world: &W| {
                world.is_finished(&search.0) || !world.steps(&search.0).is_empty()
            }),
            Property::always(WRONG[2], |_, world: &W| !world.is_broken()),
            Property::sometimes(ENDED, |_, world: &W| world.ended().iter().all(Option::is_some)),
        ]
    }
}

/// Explores all states, of which there are fewer than `bound`. A connection ends by both sides' wish, or may be broken.
pub(crate) fn holds<W: World>(plan: &W::Plan, may_break: bool, bound: usize) {
    let wrong = &WRONG[..if may_break { 2 } else { 3 }];
    let until = HasDiscoveries::AnyOf(wrong.iter().copied().collect());
    let search = Search::<W>(plan.clone());
    let checker = search.checker().finish_when(until).target_state_count(bound).spawn_bfs().join();
    let (all, different) = (checker.state_count(), checker.unique_state_count());
    println!("{plan:?}: {all} states, {different} of them different");
    let mut found = checker.discoveries();
    if let Some((name, path)) = wrong.iter().find_map(|name| found.remove(name).map(|path| (name, path))) {
        let last = path.last_state().clone();
        panic!("{plan:?}: not {name}: {:?}: {:?}\n{last:#?}", last.wrong(), path.into_actions());
    }
    assert!(found.contains_key(ENDED), "nothing has ended");
    assert!(all < bound, "more states than {bound}");
}

/// Does steps by choice until nothing happens any more.
pub(crate) fn run<W: World>(plan: &W::Plan, choices: &[(u8, bool)]) -> W {
    let mut world = W::new(plan);
    let mut choices = choices.iter().cycle();
    loop {
        let mut steps = world.steps(plan);
        if steps.iter().all(|step| matches!(step, Step::Time(_))) {
            // Perhaps something waits for room.
            (0..2).for_each(|side| world.drain(side, true));
            steps = world.steps(plan);
        }
        let Some((&(choice, room), _)) = choices.next().zip(steps.first()) else { return world };
        let step = steps[usize::from(choice) % steps.len()];
        world.step(plan, step, room);
    }
}

const WRONG: [&str; 3] = ["right", "finished when nothing happens", "whole"];
const ENDED: &str = "ended on both sides";
