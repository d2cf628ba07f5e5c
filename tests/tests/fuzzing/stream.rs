//! The stream target.

use weft_tests::fuzzing::{Milestone, Reached, stream};

use crate::seeds;

#[test]
fn the_seeds_reach_full_operation_and_every_end_of_it() {
    let mut reached = Reached::default();
    for (name, octets) in seeds::read("stream") {
        let run = stream(&octets);
        println!("{name}: {run:?}");
        reached.extend(&run);
    }
    let mut wanted = WANTED.to_vec();
    for (solicited, invalidate) in [(false, false), (false, true), (true, false), (true, true)] {
        wanted.push(Milestone::SendDelivered { solicited, invalidate });
    }
    wanted.extend([false, true].map(|solicited| Milestone::ImmediateDelivered { solicited }));
    for layer in 0..=2 {
        wanted.extend([Milestone::TerminateSent(layer), Milestone::TerminateReceived(layer)]);
    }
    let missing: Vec<_> = wanted.into_iter().filter(|&milestone| !reached.contains(milestone)).collect();
    assert!(missing.is_empty(), "no seed reaches {missing:?}");
}

const WANTED: [Milestone; 20] = [
    Milestone::EstablishedAsInitiator,
    Milestone::EstablishedAsResponder,
    Milestone::Rejected,
    Milestone::StartupFailed,
    Milestone::WritePlaced,
    Milestone::ReadAnswered,
    Milestone::SendCompleted,
    Milestone::WriteCompleted,
    Milestone::ReadCompleted,
    Milestone::ImmediateCompleted,
    Milestone::AtomicCompleted,
    Milestone::AtomicAnswered,
    Milestone::RejectedByPeer,
    Milestone::ClosedByPeer,
    Milestone::ClosedLocally,
    Milestone::Lost,
    Milestone::MarkersFromDevice,
    Milestone::MarkersToDevice,
    Milestone::CrcOff,
    Milestone::SecondConnection,
];
