//! Ready flags, and the thread that collects them.

use super::*;
use crate::layout::MODE_FLAGS;
use crate::sync::fence;

/// Receives what the channels with flags have.
fn collect(world: &World) -> u8 {
    let mut received = 0;
    world.link.ready(1).collect(|channel| {
        assert_eq!(channel, 0);
        received += world.receive(4);
    });
    received
}

fn with_flags() -> Arc<World> {
    let world = World::ringed();
    let _fence = world.inbound().want_flags(true);
    world
}

/// The collector looks twice beside the sender, and once behind it.
#[test]
fn each_message_is_collected() {
    check(&[Weakened::Acquire, Weakened::Release, Weakened::StoreOfSame], || {
        let world = with_flags();
        let sender = beside(&world, |world| {
            world.send(1);
            world.send(1);
        });
        let received = collect(&world) + collect(&world);
        sender.join().unwrap();
        assert_eq!(received + collect(&world), 2, "model: all octets");
    });
}

/// A step that a model leaves out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LeftOut {
    Nothing,
    Fence,
    /// The tails, which a collector looks at once when it wants flags.
    Tails,
}

/// A collector that goes to sleep.
fn a_send_beside_a_collector_that_sleeps(left_out: LeftOut) {
    let world = with_flags();
    let _fence = world.inbound().announce(SLEEP, |_| false);
    let sender = beside(&world, |world| world.send(1));
    world.reader.asleep.store(1, Ordering::Relaxed);
    if left_out != LeftOut::Fence {
        fence(Ordering::SeqCst);
    }
    let sleeps = collect(&world) == 0;
    sender.join().unwrap();
    assert!(!sleeps || world.reader.was_woken(), "model: nobody sleeps over octets");
}

#[test]
fn a_collector_that_goes_to_sleep_is_woken() {
    check(&[Weakened::Fence(Ordering::SeqCst)], || a_send_beside_a_collector_that_sleeps(LeftOut::Nothing));
    find(|| a_send_beside_a_collector_that_sleeps(LeftOut::Fence));
}

/// A reader that looked at tails until now wants flags.
fn a_send_beside_a_reader_that_wants_flags(left_out: LeftOut) {
    let world = World::ringed();
    let sender = beside(&world, |world| world.send(1));
    let _fence = world.inbound().want_flags(true);
    fence(Ordering::SeqCst);
    let received = if left_out == LeftOut::Tails { 0 } else { world.receive(4) };
    sender.join().unwrap();
    assert_eq!(received + collect(&world), 1, "model: all octets");
    let mode = &world.link.channel(0).unwrap().directions[0].reader.mode;
    assert_eq!(mode.load(Ordering::Relaxed), MODE_FLAGS);
}

#[test]
fn a_reader_that_begins_to_want_flags_misses_nothing() {
    let model = || a_send_beside_a_reader_that_wants_flags(LeftOut::Nothing);
    check(&[Weakened::Fence(Ordering::SeqCst)], model);
    find(|| a_send_beside_a_reader_that_wants_flags(LeftOut::Tails));
}
