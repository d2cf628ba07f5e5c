//! Long scripts, in random order.

use proptest::prelude::*;

use super::world::{Plan, Step, World};

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

    #[test]
    fn whatever_users_do_octets_come_in_order_and_each_operation_ends(
        (window, adverts, ring, immediate) in (4..12_u16, 1..4_u16, 0..24_u32, 0..4_u32),
        direct_min in 1..6_u32,
        one in "[eslrak]{0,40}",
        other in "[eslrak]{0,40}",
        choices in prop::collection::vec(any::<(u8, bool)>(), 400),
    ) {
        // Each reads all that the other one can have sent.
        let scripts = [one, other].map(|script| script + "x" + &"r".repeat(130) + "wc");
        let plan = Plan { window, adverts, ring, immediate, direct_min, scripts };
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
