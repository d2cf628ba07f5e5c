//! The figures of the paper "The Extended Sockets Interface for Accessing RDMA Hardware" (PDCS 2008).

use std::time::Duration;

use super::cases::{by_read, counted, immediate, kernel, messages, stream, verbs};
use crate::case::{Effort, Quantity, Sample, Side, Trouble};
use crate::figure::{Body, Compared, Figure};
use crate::net::{Exs, Op, Plan};

pub(super) static FIGURES: [Figure; 2] = [
    Figure {
        name: "exs-2",
        title: "Figure 2: throughput over the size of messages",
        paper: "9.329 Gbit/s (1.166 GB/s) from some 100,000 octets on; immediate data is slightly faster below",
        body: Body::Curves {
            over: "octets",
            quantity: Quantity::Throughput,
            columns: &[
                "message by Read",
                "message immediate",
                "stream",
                "verbs Read",
                "verbs Write",
                "kernel TCP, blocking",
            ],
            points: SIZES,
            open: |size| {
                let (messages, stream) = (messages(size, &WHOLE), stream(size, &WHOLE));
                vec![
                    Ok(Exs::start(by_read(messages))),
                    Ok(Exs::start(immediate(messages))),
                    Ok(Exs::start(stream)),
                    verbs(messages, Op::Read),
                    verbs(messages, Op::Write),
                    kernel(messages),
                ]
            },
        },
    },
    Figure {
        name: "exs-3",
        title: "Figure 3: CPU of program and context of one end, over the size of messages",
        paper: "by Read at most 30 %, 10 % at 100,000 octets, near 0 above 1,000,000; immediate never below 40 %",
        body: Body::Curves {
            over: "octets",
            quantity: Quantity::Core,
            columns: &["message by Read", "message immediate", "stream", "kernel TCP, blocking"],
            points: SIZES,
            open: |size| {
                let messages = messages(size, &WHOLE);
                let start = |plan: Plan| Ok(Exs::start(counted(plan)));
                let mut sides: Compared =
                    vec![start(by_read(messages)), start(immediate(messages)), start(stream(size, &WHOLE))];
                sides.push(kernel(messages).map(|side| Box::new(PerEnd(side)) as Box<dyn Side>));
                sides
            },
        },
    },
];

/// A side of two ends, whose threads are all the program's.
struct PerEnd(Box<dyn Side>);

impl Side for PerEnd {
    fn turn(&mut self, effort: &Effort) -> Result<Sample, Trouble> {
        let sample = self.0.turn(effort)?;
        let figure = sample.cpu.as_secs_f64() / sample.wall.as_secs_f64() / 2.0;
        Ok(Sample { figure, ..sample })
    }
}

/// Four points a decade.
const SIZES: &[usize] = &[
    1, 2, 3, 6, 10, 18, 32, 56, 100, 178, 316, 562, 1000, 1778, 3162, 5623, 10_000, 17_783, 31_623, 56_234,
    100_000, 177_828, 316_228, 562_341, 1_000_000, 1_778_279, 3_162_278, 5_623_413, 10_000_000, 16_777_216,
];
/// The work of a point does not depend on the turns.
const WHOLE: Effort = Effort { turn: Duration::ZERO, pairs: 1, is_tiny: false };
