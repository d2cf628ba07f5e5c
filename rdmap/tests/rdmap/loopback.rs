//! Two ends exchange Sends, Writes and Reads. The segments of the two directions interleave in any order.

use proptest::prelude::*;
use weft_ddp::Stag;
use weft_rdmap::{Kind, Token};

use crate::end::{BASE, End, MEMORY};

/// The peer only reads half of each end's memory. The other half takes Writes and Read Responses.
const HALF: usize = 0x8000;

#[derive(Clone, Copy, Debug)]
enum Operation {
    Send,
    Write,
    Read,
}

/// One step of a schedule: a side builds a segment of at most so many octets, or takes one off the wire.
#[derive(Clone, Copy, Debug)]
enum Step {
    Poll(usize, usize),
    Deliver(usize),
}

/// The state that must be reached in the end.
#[derive(Default)]
struct Expected {
    sends: Vec<Vec<u8>>,
    tokens: Vec<u64>,
    /// The offset, and the octets there.
    memory: Vec<(usize, Vec<u8>)>,
}

fn operation() -> impl Strategy<Value = (Operation, usize)> {
    let kind = prop_oneof![Just(Operation::Send), Just(Operation::Write), Just(Operation::Read)];
    // Every fourth message is empty or tiny.
    (kind, prop_oneof![1 => 0_usize..3, 3 => 0_usize..900])
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0_usize..2, 0_usize..200).prop_map(|(side, max_ulpdu)| Step::Poll(side, max_ulpdu)),
        (0_usize..2).prop_map(Step::Deliver),
    ]
}

/// Miri is slow and gets few of each.
const OPERATIONS: usize = if cfg!(miri) { 3 } else { 30 };
const STEPS: usize = if cfg!(miri) { 20 } else { 400 };
/// Steps that end all transfers.
const ENOUGH: usize = if cfg!(miri) { 400 } else { 40_000 };

proptest! {
    #![proptest_config(crate::config())]

    #[test]
    fn all_messages_arrive_unchanged(
        left in prop::collection::vec(operation(), 0..OPERATIONS),
        right in prop::collection::vec(operation(), 0..OPERATIONS),
        steps in prop::collection::vec(step(), 0..STEPS),
        (reads, spare) in (1_usize..5, 0_usize..3),
    ) {
        let mut ends = [End::new(reads, reads + spare), End::new(reads, reads)];
        for (side, end) in ends.iter_mut().enumerate() {
            end.memory = (0..HALF).map(|i| source(side, i)).chain(vec![0; HALF]).collect();
        }
        let mut expected: [Expected; 2] = Default::default();
        let mut used = [HALF; 2];
        for (side, operations) in [left, right].into_iter().enumerate() {
            for (token, (operation, len)) in (0..).zip(operations) {
                post(&mut ends, &mut expected, &mut used, (side, token, operation, len));
            }
        }

        let finish = [Step::Poll(0, 128), Step::Poll(1, 128), Step::Deliver(0), Step::Deliver(1)];
        let all = steps.into_iter().chain(finish.into_iter().cycle().take(ENOUGH));
        for step in all {
            run(&mut ends, step);
            for end in &ends {
                prop_assert!(end.endpoint.readiness().requests_outstanding <= reads);
            }
        }
        for (end, expected) in ends.iter_mut().zip(expected) {
            prop_assert!(end.is_done() && end.wire.is_empty());
            prop_assert_eq!(&end.log.sends, &expected.sends);
            end.log.finished.sort_unstable_by_key(|token| token.0);
            let tokens: Vec<Token> = expected.tokens.into_iter().map(Token).collect();
            prop_assert_eq!(&end.log.finished, &tokens);
            for (start, octets) in expected.memory {
                prop_assert_eq!(&end.memory[start..start + octets.len()], &octets);
            }
        }
    }
}

fn post(
    ends: &mut [End; 2],
    expected: &mut [Expected; 2],
    used: &mut [usize; 2],
    (side, token, operation, len): (usize, u64, Operation, usize),
) {
    let other = 1 - side;
    // Each place for octets is used only once, so that it can be compared at the end.
    let mut reserve = |side: usize| {
        let start = used[side];
        used[side] += len;
        start
    };
    let octets: Vec<u8> = (0..len).map(|i| source(side, i * 7 + usize::try_from(token).unwrap())).collect();
    let kind = match operation {
        Operation::Send => {
            expected[other].sends.push(octets.clone());
            Kind::Send { solicited: token % 2 == 0, invalidate: (token % 3 == 0).then_some(Stag(9)) }
        }
        Operation::Write => {
            let start = reserve(other);
            expected[other].memory.push((start, octets.clone()));
            Kind::Write { stag: MEMORY, to: BASE + start as u64 }
        }
        Operation::Read => {
            let start = reserve(side);
            let from = usize::try_from(token * 37).unwrap();
            expected[side].memory.push((start, (from..from + len).map(|i| source(other, i)).collect()));
            let (sink_to, source_to) = (BASE + start as u64, BASE + from as u64);
            Kind::Read { sink_stag: MEMORY, sink_to, source_stag: MEMORY, source_to }
        }
    };
    expected[side].tokens.push(token);
    ends[side].post(token, kind, octets);
}

fn run(ends: &mut [End; 2], step: Step) {
    match step {
        Step::Poll(side, max_ulpdu) => {
            ends[side].poll(max_ulpdu);
        }
        Step::Deliver(side) => {
            if let Some(ulpdu) = ends[1 - side].wire.pop_front() {
                ends[side].take(&ulpdu).unwrap();
            }
        }
    }
}

/// Returns octets that are never zero and differ between the sides.
fn source(side: usize, index: usize) -> u8 {
    u8::try_from((index + 100 * side) % 251).unwrap() + 1
}
