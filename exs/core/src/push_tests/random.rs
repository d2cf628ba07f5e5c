//! Random worlds, and random orders of events in them.

use std::vec::Vec;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};

use super::broken::Broken;
use super::plan::Plan;
use super::steps::Event;
use super::world::World;

fn plans() -> impl Strategy<Value = Plan> {
    let terms = (0..=64_u32, 1..=5_usize, 0..=8_u32, 1..=40_u32);
    let calls = (vec(0..=60_u32, 0..12), vec((0..=50_u32, any::<bool>()), 0..16));
    let rest = (0..=4_u8, 0..=2_u8, any::<bool>(), prop::bool::weighted(0.1), any::<bool>(), 0..=20_u32);
    (terms, calls, rest).prop_map(|((ring, adverts, inline_max, direct_min), (sends, receives), rest)| {
        let (cancels, send_cancels, shuts_down, shuts_read, leaves_late, small) = rest;
        let plan = Plan::new(ring, (ring / 4).max(1)).with(&sends, &receives);
        Plan {
            adverts,
            small,
            inline_max,
            direct_min,
            cancels,
            send_cancels,
            shuts_down,
            shuts_read,
            leaves_late,
            ..plan
        }
    })
}

fn choices() -> impl Strategy<Value = Vec<u16>> {
    vec(any::<u16>(), 0..600)
}

/// Lets events happen by choice, and then all that is left but for cancels.
fn play(plan: &Plan, choices: &[u16]) -> Result<(), TestCaseError> {
    let mut world = World::new(plan);
    let mut events = Vec::new();
    for choice in choices {
        events.clear();
        plan.events(&world, &mut events);
        let Some(&event) = events.get(usize::from(*choice) % events.len().max(1)) else { break };
        step(plan, &mut world, event)?;
    }
    let order = [Event::Forth, Event::Back, Event::SenderSays, Event::ReceiverSays, Event::Leave];
    let calls = [Event::Send, Event::ShutDown, Event::Receive];
    loop {
        events.clear();
        plan.events(&world, &mut events);
        let mut happens = false;
        for event in order.into_iter().chain(calls).filter(|event| events.contains(event)) {
            happens = step(plan, &mut world, event)?;
            if happens {
                break;
            }
        }
        if !happens {
            break;
        }
    }
    let ops = world.receiver.ops().count();
    prop_assert!(ops == 0 || !world.is_shut_down, "receives are left");
    Ok(())
}

fn step(plan: &Plan, world: &mut World, event: Event) -> Result<bool, TestCaseError> {
    let happens = plan.happen(world, event);
    plan.check_rest(world);
    match world.wrong {
        Some(wrong) => Err(TestCaseError::fail(wrong)),
        None => Ok(happens),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) })]

    #[test]
    fn octets_arrive_once_and_in_order_and_all_calls_end(plan in plans(), choices in choices()) {
        play(&plan, &choices)?;
    }
}

#[test]
fn random_orders_find_each_rule_that_is_broken() {
    for broken in Broken::ALL {
        let config =
            Config { cases: 20_000, max_shrink_iters: 0, failure_persistence: None, ..Config::default() };
        let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
        let found = runner.run(&(plans(), choices()), |(plan, choices)| {
            play(&Plan { broken: Some(broken), ..plan }, &choices)
        });
        assert!(matches!(found, Err(TestError::Fail(..))), "{broken:?}: {found:?}");
    }
}
