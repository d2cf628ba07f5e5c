//! Long scripts, in random order.

use proptest::prelude::*;

use super::world::{Plan, Step, World};

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn whatever_users_do_a_message_comes_once_and_each_operation_ends(
        windows in prop::array::uniform2(4..12_u16),
        credits in prop::array::uniform2(1..6_u16),
        immediate in 0..4_u32,
        invalidates: bool,
        one in "[eslrRik]{0,40}",
        other in "[eslrRik]{0,40}",
        choices in prop::collection::vec(any::<(u8, bool)>(), 400),
    ) {
        let scripts = [one, other].map(|script| script + "xRRRRRRRRRRRRRRRRRRRRRRRRRRRRRRRRRRRRRRRRwc");
        let plan = Plan { windows, credits, immediate, invalidates, scripts };
        let world = run(&plan, &choices);
        prop_assert_eq!(world.wrong, None);
        prop_assert!(world.is_finished(&plan) && !world.is_broken(), "{:#?}", world);
    }
}

/// Does steps by choice until nothing happens any more.
fn run(plan: &Plan, choices: &[(u8, bool)]) -> World {
    let mut world = World::new(plan);
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
