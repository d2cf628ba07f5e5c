//! HOLD, and what FREE says behind it. Both change how many octets go directly, and nothing else.

use std::collections::VecDeque;
use std::vec::Vec;

use weft_ddp::Stag;

use crate::Ring;
use crate::message::{Body, Data, Target};
use crate::op::Op;
use crate::push::{Control, Local, Receiver, ReceiverTerms, Sender, SenderTerms};

/// What went over the wires.
#[derive(Debug, Default)]
struct Counts {
    direct: u32,
    frees: u32,
}

/// A sender that always has octets, for one DATA in a turn, and a receiver that begins late and then always has three
/// receives. A message takes a turn to the other side.
fn transfer(direct_min: u32, frees_early: bool) -> Counts {
    let ring = Some(Ring { len: 16, to: 0, stag: Stag(1) });
    let terms = SenderTerms { ring, ring_part: 4, inline_max: 0, direct_min, adverts: 4 };
    let mut sender = Sender::new(terms);
    let mut receiver = Receiver::new(ReceiverTerms { ring: 16, ring_part: 4, adverts: 4, small: 0 });
    let (mut forth, mut back) = (VecDeque::<Data>::new(), VecDeque::<Body>::new());
    let mut counts = Counts::default();
    sender.send(Op(0), OCTETS, 1);
    let (mut received, mut done, mut posted) = (0, 0, 0);
    for turn in 0..1000 {
        let heard: (Vec<_>, Vec<_>) = (forth.drain(..).collect(), back.drain(..).collect());
        for data in heard.0 {
            if matches!(data.target, Target::Advert { .. }) {
                counts.direct += data.len;
            }
            receiver.handle_data(&data).unwrap();
        }
        for body in heard.1 {
            match body {
                Body::Advert(advert) => assert!(sender.handle_advert(advert).is_ok()),
                Body::Free { read } => sender.handle_free(read).unwrap(),
                other => panic!("{other:?}"),
            }
        }
        let posts = if turn == LATE { 3 } else { core::mem::take(&mut done) };
        for _ in 0..posts {
            receiver.receive(Op(posted), 4, false);
            posted += 1;
        }
        let mut parts = Vec::new();
        forth.extend(sender.poll_transfer(&mut parts).map(|transfer| transfer.data));
        loop {
            if frees_early {
                receiver.holds = false;
            }
            back.push_back(match receiver.poll_control() {
                Some(Control::Advert(window)) => Body::Advert(window.advert(Stag(2), 0)),
                Some(Control::Free { read }) => {
                    counts.frees += 1;
                    Body::Free { read }
                }
                Some(other) => panic!("{other:?}"),
                None => break,
            });
        }
        while let Some(local) = receiver.poll_local() {
            if let Local::Done(end) = local {
                received += end.octets;
                done += 1;
            }
        }
        if received == OCTETS {
            return counts;
        }
    }
    panic!("{received} octets of {OCTETS} were received");
}

const OCTETS: u32 = 400;
const LATE: usize = 8;

#[test]
fn a_sender_that_holds_comes_back_to_direct_octets() {
    let (held, free) = (transfer(8, false), transfer(u32::MAX, false));
    assert_eq!((held.direct, free.direct), (OCTETS - 16, 0), "{held:?} {free:?}");
}

#[test]
fn a_hold_needs_no_free_if_a_receive_waits() {
    let (late, early) = (transfer(8, false), transfer(8, true));
    assert!(late.frees == 0 && early.frees > 0, "{late:?} {early:?}");
}
