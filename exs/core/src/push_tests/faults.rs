//! What a peer can do wrong, call by call.

use std::vec::Vec;

use weft_ddp::Stag;

use crate::message::{Advert, Data, Target};
use crate::op::Op;
use crate::push::{Control, Receiver, ReceiverTerms, Sender, SenderTerms, Wait, Window};
use crate::{Fault, Ring};

fn sender() -> Sender {
    let ring = Some(Ring { len: 8, to: 100, stag: Stag(1) });
    Sender::new(SenderTerms { ring, ring_part: 8, inline_max: 0, direct_min: 4, adverts: 2 })
}

fn receiver() -> Receiver {
    Receiver::new(ReceiverTerms { ring: 8, ring_part: 2, adverts: 2, small: 0 })
}

fn advert(epoch: u32, first: Option<u64>) -> Advert {
    Advert { epoch, len: 4, stag: Stag(7), to: 0, first, waits_for_all: false }
}

fn data(position: u64, len: u32, target: Target) -> Data {
    Data { position, len, is_inline: false, target }
}

fn direct(epoch: u32, is_last: bool) -> Target {
    Target::Advert { epoch, is_last }
}

fn ring() -> Target {
    Target::Ring { holds: false }
}

/// Sends so many octets, and returns the DATA.
fn send(sender: &mut Sender, len: u32) -> Vec<Data> {
    sender.send(Op(0), len, 1);
    let mut parts = Vec::new();
    core::iter::from_fn(|| sender.poll_transfer(&mut parts)).map(|transfer| transfer.data).collect()
}

/// Advertises the next receive.
fn advertise(receiver: &mut Receiver, len: u32, waits_for_all: bool) -> Window {
    receiver.receive(Op(9), len, waits_for_all);
    match receiver.poll_control() {
        Some(Control::Advert(window)) => window,
        other => panic!("{other:?}"),
    }
}

#[test]
fn adverts_of_epochs_out_of_order_are_faults() {
    let mut sender = sender();
    assert_eq!(sender.handle_advert(advert(1, None)), Err(Fault::OutOfOrder));
    assert_eq!(sender.handle_advert(advert(0, None)), Err(Fault::OutOfOrder));
    assert_eq!(sender.handle_advert(advert(2, Some(0))), Err(Fault::OutOfOrder));
    assert_eq!(sender.handle_advert(advert(1, Some(1))), Err(Fault::OutOfOrder));
}

#[test]
fn an_advert_is_a_fault_if_it_is_too_many_or_beyond_memory_or_begins_an_epoch_too_early() {
    let mut sender = sender();
    let beyond = Advert { to: u64::MAX - 3, ..advert(1, Some(0)) };
    assert_eq!(sender.clone().handle_advert(beyond), Err(Fault::WrongState));
    assert_eq!(sender.handle_advert(advert(1, Some(0))), Ok(true));
    assert_eq!(sender.clone().handle_advert(advert(2, Some(0))), Err(Fault::WrongState));
    assert_eq!(sender.handle_advert(advert(1, None)), Ok(true));
    assert_eq!(sender.handle_advert(advert(1, None)), Err(Fault::TooManyAdverts));
}

#[test]
fn adverts_behind_octets_of_the_ring_are_stale() {
    let mut sender = sender();
    assert_eq!(send(&mut sender, 2), [data(0, 2, ring())]);
    assert_eq!(sender.handle_advert(advert(1, Some(0))), Ok(false));
    assert_eq!(sender.handle_advert(advert(1, None)), Ok(false));
    assert_eq!(sender.handle_advert(advert(2, Some(2))), Ok(true));
    assert_eq!(send(&mut sender, 3), [data(2, 3, direct(2, true))]);
}

#[test]
fn a_ring_is_freed_as_far_as_it_was_written_and_forwards() {
    let mut sender = sender();
    assert_eq!(send(&mut sender, 12), [data(0, 8, Target::Ring { holds: true })]);
    assert_eq!(sender.wait(), Some(Wait::Advert));
    assert_eq!(sender.clone().handle_free(9), Err(Fault::FreedTooMuch));
    assert_eq!(sender.handle_free(7), Ok(()));
    assert_eq!(sender.poll_transfer(&mut Vec::new()), None, "a part is free");
    assert_eq!(sender.clone().handle_free(6), Err(Fault::FreedTooMuch));
    assert_eq!(sender.handle_free(8), Ok(()));
    assert_eq!((send(&mut sender, 4), sender.wait()), ([data(8, 8, ring())].to_vec(), None));
    assert_eq!((send(&mut sender, 1), sender.wait()), (Vec::new(), Some(Wait::Ring)));
}

#[test]
fn a_long_send_holds_also_if_it_has_not_begun() {
    for (len, holds, wait) in [(3, false, Wait::Ring), (4, true, Wait::Advert)] {
        let mut sender = sender();
        sender.send(Op(1), 8, 1);
        assert_eq!(send(&mut sender, len), [data(0, 8, Target::Ring { holds })]);
        assert_eq!(sender.wait(), Some(wait));
    }
}

#[test]
fn a_sender_waits_for_adverts_if_the_last_one_had_room_for_a_long_send() {
    let ring = Some(Ring { len: 8, to: 100, stag: Stag(1) });
    let terms = SenderTerms { ring, ring_part: 2, inline_max: 0, direct_min: 4, adverts: 2 };
    for (len, waits) in [(4, true), (3, false)] {
        let mut sender = Sender::new(terms.clone());
        assert_eq!(sender.handle_advert(Advert { len, ..advert(1, Some(0)) }), Ok(true));
        // What is in the send queue takes so long that the next advert may come.
        let first = send(&mut sender, 16).into_iter().map(|data| data.len).collect::<Vec<_>>();
        if waits {
            assert_eq!(first, [4]);
            sender.handle_left();
            // Few octets go through the ring until the peer has caught up.
            let mut parts = Vec::new();
            let next = sender.poll_transfer(&mut parts).map(|transfer| transfer.data);
            assert_eq!(next, Some(data(4, 2, Target::Ring { holds: true })));
            assert_eq!((sender.poll_transfer(&mut parts), sender.wait()), (None, Some(Wait::Advert)));
        } else {
            assert_eq!(first, [3, 2, 2, 2, 2]);
        }
    }
}

#[test]
fn revoke_names_the_last_epoch_and_has_one_answer() {
    let mut sender = sender();
    assert_eq!(sender.handle_revoke(0), Err(Fault::OutOfOrder));
    assert_eq!(sender.handle_advert(advert(1, Some(0))), Ok(true));
    assert_eq!(sender.handle_revoke(2), Err(Fault::OutOfOrder));
    assert_eq!(sender.handle_revoke(1), Ok(()));
    let mut parts = Vec::new();
    let answer = sender.poll_transfer(&mut parts).map(|transfer| (transfer.data, transfer.writes));
    assert_eq!(answer, Some((data(0, 0, ring()), [None; 2])));
    assert_eq!((sender.poll_transfer(&mut parts), sender.handle_advert(advert(1, None))), (None, Ok(false)));
}

#[test]
fn data_for_an_advert_that_is_not_there_is_a_fault() {
    let mut receiver = receiver();
    assert_eq!(receiver.handle_data(&data(0, 1, direct(0, true))), Err(Fault::NoAdvert));
    assert_eq!(receiver.handle_data(&data(0, 1, direct(1, true))), Err(Fault::NoAdvert));
    advertise(&mut receiver, 4, false);
    assert_eq!(receiver.clone().handle_data(&data(0, 5, direct(1, true))), Err(Fault::NoAdvert));
    assert_eq!(receiver.clone().handle_data(&data(0, 4, direct(2, true))), Err(Fault::NoAdvert));
    assert_eq!(receiver.handle_data(&data(0, 4, direct(1, true))), Ok(()));
    assert_eq!(receiver.clone().handle_data(&data(4, 1, direct(1, true))), Err(Fault::NoAdvert));
    // Octets of the ring end the epoch.
    advertise(&mut receiver, 4, false);
    assert_eq!(receiver.handle_data(&data(4, 5, ring())), Ok(()));
    assert_eq!(receiver.handle_data(&data(9, 1, direct(1, true))), Err(Fault::NoAdvert));
}

#[test]
fn an_advert_is_used_up_when_both_ends_say_so() {
    for (waits_for_all, len, is_last) in
        [(false, 3, false), (false, 4, false), (true, 3, true), (true, 4, false)]
    {
        let mut receiver = receiver();
        advertise(&mut receiver, 4, waits_for_all);
        let data = data(0, len, direct(1, is_last));
        assert_eq!(receiver.handle_data(&data), Err(Fault::WrongState), "{data:?}");
    }
}

#[test]
fn positions_and_the_ring_have_bounds() {
    let mut receiver = receiver();
    assert_eq!(receiver.handle_data(&data(1, 1, ring())), Err(Fault::OutOfOrder));
    assert_eq!(receiver.handle_data(&data(0, 9, ring())), Err(Fault::RingOverfilled));
    assert_eq!(receiver.handle_data(&data(0, 8, ring())), Ok(()));
    assert_eq!(receiver.handle_data(&data(8, 1, ring())), Err(Fault::RingOverfilled));
    assert_eq!(receiver.handle_shutdown(7), Err(Fault::OutOfOrder));
    assert_eq!(receiver.unread(), 8);
}

#[test]
fn data_of_no_octets_answers_one_revoke_and_that_behind_the_end_too() {
    let mut receiver = receiver();
    let answer = data(0, 0, ring());
    advertise(&mut receiver, 4, false);
    assert_eq!(receiver.handle_data(&answer), Err(Fault::WrongState));
    assert!(receiver.cancel(Op(9)) && !receiver.cancel(Op(9)));
    assert_eq!(receiver.poll_control(), Some(Control::Revoke { epoch: 1 }));
    assert_eq!(receiver.handle_data(&data(0, 0, direct(1, true))), Err(Fault::WrongState));
    assert_eq!(receiver.handle_shutdown(0), Ok(()));
    assert_eq!(receiver.handle_data(&answer), Ok(()));
    assert_eq!(receiver.handle_data(&answer), Err(Fault::AfterShutdown));
    assert_eq!(receiver.handle_data(&data(0, 1, ring())), Err(Fault::AfterShutdown));
    assert_eq!(receiver.handle_shutdown(0), Err(Fault::AfterShutdown));
}
