//! The list of figures.

use super::carrier::Carrier;
use super::figure::{Compared, Figure};
use super::pair::Talk;
use super::process::Outcome;
use super::programs::{Iperf, Redis};
use super::several::Several;
use super::talk::{Socket, Wait};
use crate::case::{Quantity, Side};

/// All figures, in the order of the papers.
pub(super) static FIGURES: [Figure; 11] = [
    Figure {
        name: "s0-7.1",
        title: "S0, table 7.1: latency of a round trip over size, inside one host",
        paper: "one way 14 us against TCP's 62, between two hosts",
        over: "octets",
        quantity: Quantity::Micros,
        columns: &["Weft", "TCP, blocking", "TCP, spinning"],
        points: SMALL,
        open: |size| {
            let ping = Talk::ping(size, Wait::Blocking);
            beside(ping, &[ping, ping.waiting(Wait::Spinning)])
        },
    },
    iperf::<1>("s0-7.2-1", "S0, table 7.2: iperf3 with 1 stream inside one host, over the size of writes"),
    iperf::<2>("s0-7.2-2", "S0, table 7.2: iperf3 with 2 streams inside one host, over the size of writes"),
    iperf::<4>("s0-7.2-4", "S0, table 7.2: iperf3 with 4 streams inside one host, over the size of writes"),
    iperf::<8>("s0-7.2-8", "S0, table 7.2: iperf3 with 8 streams inside one host, over the size of writes"),
    Figure {
        name: "s1-7a",
        title: "S1, figure 7a: throughput inside one host over the size of messages",
        paper: "7 to 20 times the throughput of Linux; 26 times at 1 MiB, by remapping of pages",
        over: "octets",
        quantity: Quantity::Throughput,
        columns: &["Weft", "TCP", "AF_UNIX"],
        points: SIZES,
        open: |size| {
            let stream = Talk::stream(size);
            beside(stream, &[stream, stream.over(Socket::Unix)])
        },
    },
    Figure {
        name: "s1-7b",
        title: "S1, figure 7b: latency of a round trip inside one host over the size of messages",
        paper: "latency 17 to 35 times better than that of Linux",
        over: "octets",
        quantity: Quantity::Micros,
        columns: &["Weft", "TCP, blocking", "AF_UNIX"],
        points: SIZES,
        open: |size| {
            let ping = Talk::ping(size, Wait::Blocking);
            beside(ping, &[ping, ping.over(Socket::Unix)])
        },
    },
    Figure {
        name: "s1-9",
        title: "S1, figure 9: messages of 8 octets over pairs of programs, for one pair",
        paper: "1 to 16 pairs of cores",
        over: "pairs",
        quantity: Quantity::Rate,
        columns: &["Weft", "TCP"],
        points: &[1, 2, 4],
        open: |pairs| several(Talk::stream(8), pairs),
    },
    Figure {
        name: "s1-10",
        title: "S1, figure 10: latency of a round trip of 8 octets with several programs on each core",
        paper: "1 to 8 programs on each core",
        over: "programs",
        quantity: Quantity::Micros,
        columns: &["Weft", "TCP"],
        points: &[1, 2, 4, 8],
        open: |pairs| several(Talk::ping(8, Wait::Blocking), pairs),
    },
    Figure {
        name: "s1-redis",
        title: "S1, section 5.3.2: latency of GET in redis, as mean (0) and at 1 (the least), 50, 95 and 99 percent",
        paper: "mean 14.1 us against 38.9 with Linux",
        over: "percent",
        quantity: Quantity::Micros,
        columns: &["Weft", "TCP"],
        points: &[0, 1, 50, 95, 99],
        open: |percentile| programs(|carrier| Redis::latency(carrier, percentile)),
    },
    Figure {
        name: "s1-12",
        title: "S1, figure 12: messages of 64 octets through a pipeline of programs",
        paper: "1 to 8 network functions",
        over: "programs",
        quantity: Quantity::Rate,
        columns: &["Weft", "TCP", "AF_UNIX"],
        points: &[1, 2, 4, 8],
        open: |programs| {
            let talk = Talk::stream(64).on([None, None]);
            let start = |talk: Talk, carrier: &Carrier| boxed(talk.start_behind(programs, carrier)?);
            Ok(vec![
                start(talk, &Carrier::ours()?)?,
                start(talk, &Carrier::Kernel)?,
                start(talk.over(Socket::Unix), &Carrier::Kernel)?,
            ])
        },
    },
];

/// One part of S0's table 7.2.
const fn iperf<const STREAMS: usize>(name: &'static str, title: &'static str) -> Figure {
    Figure {
        name,
        title,
        paper: "between two hosts",
        over: "octets",
        quantity: Quantity::Throughput,
        columns: &["Weft", "TCP"],
        points: SMALL,
        open: |size| programs(|carrier| Iperf::start(carrier, STREAMS, size)),
    }
}

/// Returns ours and conversations on the kernel's sockets.
fn beside(ours: Talk, others: &[Talk]) -> Outcome<Compared> {
    let others = others.iter().map(|talk| boxed(talk.start(&Carrier::Kernel)?));
    core::iter::once(ours.start(&Carrier::ours()?).and_then(boxed)).chain(others).collect()
}

/// Returns a program under the library and the same one without it.
fn programs(start: impl Fn(&Carrier) -> Outcome<Box<dyn Side>>) -> Outcome<Compared> {
    Ok(vec![start(&Carrier::ours()?)?, start(&Carrier::Kernel)?])
}

/// Returns so many conversations of ours, and as many on the kernel's TCP.
fn several(talk: Talk, pairs: usize) -> Outcome<Compared> {
    let start = |carrier: &Carrier| -> Outcome<Box<dyn Side>> {
        Ok(Several::of((0..pairs).map(|_| talk.start(carrier)).collect::<Outcome<_>>()?))
    };
    Ok(vec![start(&Carrier::ours()?)?, start(&Carrier::Kernel)?])
}

fn boxed(side: impl Side + 'static) -> Outcome<Box<dyn Side>> {
    Ok(Box::new(side))
}

const SMALL: &[usize] = &[16, 64, 256, 1024, 4096];
const SIZES: &[usize] = &[8, 64, 512, 4096, 32_768, 262_144, 1_048_576];
