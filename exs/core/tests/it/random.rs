//! Long scripts, in random order.

use proptest::prelude::*;

use super::play::{World as _, run};
use super::world::{Plan, World};

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
        let world: World = run(&plan, &choices);
        prop_assert_eq!(world.wrong(), None);
        prop_assert!(world.is_finished(&plan) && !world.is_broken(), "{:#?}", world);
    }
}
