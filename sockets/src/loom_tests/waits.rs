//! The octets beside the tail, and waits for octets and for room.

use super::*;
use crate::Barrier;
use crate::layout::MODE_NO_FENCE;
use crate::sync::fence;
use crate::sync::model::membarrier;

#[test]
fn octets_beside_the_tail_are_those_of_the_message() {
    let weakened = [
        Weakened::Acquire,
        Weakened::Release,
        Weakened::Fence(Ordering::Acquire),
        Weakened::Fence(Ordering::Release),
    ];
    check(&weakened, || {
        let world = World::ringed();
        world.send(1);
        let sender = beside(&world, |world| {
            world.send(2);
            world.send(1);
        });
        let received = world.receive(1) + world.receive(4);
        sender.join().unwrap();
        assert_eq!(received + world.receive(4), 4, "model: all octets");
    });
}

/// Octets that the reader has taken are written over by the next ones.
#[test]
fn the_memory_of_octets_is_used_again_once_they_were_taken() {
    check(&[Weakened::Acquire, Weakened::Release], || {
        let world = World::ringed();
        world.send(4);
        let sender = beside(&world, |world| world.send(3));
        let received = world.receive(3) + world.receive(4);
        let sent = 4 + sender.join().unwrap();
        assert_eq!(received + world.receive(4), sent, "model: all octets");
    });
}

/// A step of a sleeper that a model leaves out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LeftOut {
    Nothing,
    /// It looks before it has announced itself, and not again.
    LastLook,
    /// It announces itself, and its line says later that it sleeps.
    Line,
    /// It makes a fence where membarrier(2) is due.
    Membarrier,
}

/// Goes to sleep until there are octets. Returns false if there are some.
fn sleep(world: &World, left_out: LeftOut) -> bool {
    let inbound = world.inbound();
    if left_out == LeftOut::LastLook && inbound.available(1) != Ok(0) {
        return false;
    }
    if left_out != LeftOut::Line {
        world.reader.asleep.store(1, Ordering::Relaxed);
    }
    match inbound.announce(SLEEP, |_| false) {
        Barrier::Everywhere if left_out != LeftOut::Membarrier => membarrier(),
        _ => fence(Ordering::SeqCst),
    }
    let is_empty = left_out == LeftOut::LastLook || inbound.available(1) == Ok(0);
    world.reader.asleep.store(1, Ordering::Relaxed);
    is_empty
}

/// The sender makes fences.
fn a_send_beside_a_sleeper(left_out: LeftOut) {
    let world = World::ringed();
    let sender = beside(&world, |world| world.send(1));
    let sleeps = sleep(&world, left_out);
    sender.join().unwrap();
    assert!(!sleeps || world.reader.was_woken(), "model: nobody sleeps over octets");
}

/// The sender makes no fences at first.
fn a_send_without_fences_beside_a_sleeper(left_out: LeftOut) {
    let world = World::ringed();
    world.inbound().stay_awake();
    let mode = &world.link.channel(0).unwrap().directions[0].reader.mode;
    assert_eq!(mode.load(Ordering::Relaxed), MODE_NO_FENCE);
    let sender = beside(&world, |world| {
        world.send(1);
        world.send(1);
    });
    world.receive(1);
    let sleeps = sleep(&world, left_out);
    sender.join().unwrap();
    assert!(!sleeps || world.reader.was_woken(), "model: nobody sleeps over octets");
}

#[test]
fn a_reader_that_goes_to_sleep_is_woken() {
    check(&[Weakened::Fence(Ordering::SeqCst)], || a_send_beside_a_sleeper(LeftOut::Nothing));
    find(|| a_send_beside_a_sleeper(LeftOut::LastLook));
    find(|| a_send_beside_a_sleeper(LeftOut::Line));
}

#[test]
fn a_reader_that_demands_fences_again_is_woken() {
    check(&[Weakened::LightFence], || a_send_without_fences_beside_a_sleeper(LeftOut::Nothing));
    find(|| a_send_without_fences_beside_a_sleeper(LeftOut::LastLook));
    find(|| a_send_without_fences_beside_a_sleeper(LeftOut::Membarrier));
}

/// A reader that has been awake for long lets the sender make no fences, beside the sender's messages, and then sleeps.
#[test]
fn a_reader_that_changes_the_mode_twice_is_woken() {
    check(&[Weakened::LightFence], || {
        let world = World::ringed();
        let sender = beside(&world, |world| {
            world.send(1);
            world.send(1);
        });
        if world.receive(1) == 1 {
            world.inbound().stay_awake();
        }
        let sleeps = sleep(&world, LeftOut::Nothing);
        sender.join().unwrap();
        assert!(!sleeps || world.reader.was_woken(), "model: nobody sleeps over octets");
    });
}

/// The sender fills the ring and sleeps until half of it is free. It goes on behind the tail that the reader saw last.
fn a_sleeper_for_room(looks_again: bool) {
    let world = World::ringed();
    world.send(1);
    assert_eq!(world.inbound().available(1), Ok(1));
    let sender = beside(&world, move |world| {
        world.send(3);
        world.sender.asleep.store(1, Ordering::Relaxed);
        world.outbound().ask_for_room(SLEEP, |_| false).unwrap() || !looks_again
    });
    while world.receive(1) > 0 {}
    let sleeps = sender.join().unwrap();
    while world.receive(1) > 0 {}
    assert!(!sleeps || world.sender.was_woken(), "model: nobody sleeps beside an empty ring");
}

#[test]
fn a_sender_that_sleeps_until_there_is_room_is_woken() {
    check(&[Weakened::Fence(Ordering::SeqCst)], || a_sleeper_for_room(true));
    find(|| a_sleeper_for_room(false));
}
