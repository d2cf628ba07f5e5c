//! Long scripts, in random order.

use proptest::prelude::*;

use super::world::{Plan, World};
use crate::play::{World as _, run};

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
        let world: World = run(&plan, &choices);
        prop_assert_eq!(world.wrong(), None);
        prop_assert!(world.is_finished(&plan) && !world.is_broken(), "{:#?}", world);
    }
}
