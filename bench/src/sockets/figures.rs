//! The figures of the papers that are drawn.
//!
//! S0 is the thesis "Low-Latency Implementation of Network Sockets over Remote DMA", S1 is SocksDirect (SIGCOMM 2019).

use super::carrier::{Carrier, compare};
use super::iperf::Iperf;
use super::nginx;
use super::pair::Talk;
use super::several::Several;
use super::terms::{Socket, Wait};
use crate::case::{Quantity, Side};
use crate::figure::{Body, Compared, Figure};
use crate::process::{Outcome, raise_descriptors};

/// The figures over sizes or numbers, in the order of the papers.
pub(super) static FIGURES: [Figure; 12] = [
    Figure {
        name: "s0-7.1",
        title: "S0, table 7.1: a round trip over size, inside one host",
        paper: "14 us one way against TCP's 62, between two hosts",
        body: Body::Curves {
            over: "octets",
            quantity: Quantity::Micros,
            columns: &["Weft", "TCP, blocking", "TCP, spinning"],
            points: SMALL,
            open: |size| {
                let ping = Talk::ping(size, Wait::Blocking);
                beside(ping, &[ping, ping.waiting(Wait::Spinning)])
            },
        },
    },
    iperf::<1, false>(
        "s0-7.2-1",
        "S0, table 7.2: iperf3 with 1 stream inside one host, over the size of writes",
    ),
    iperf::<2, false>(
        "s0-7.2-2",
        "S0, table 7.2: iperf3 with 2 streams inside one host, over the size of writes",
    ),
    iperf::<4, false>(
        "s0-7.2-4",
        "S0, table 7.2: iperf3 with 4 streams inside one host, over the size of writes",
    ),
    iperf::<8, false>(
        "s0-7.2-8",
        "S0, table 7.2: iperf3 with 8 streams inside one host, over the size of writes",
    ),
    Figure {
        name: "s1-7a",
        title: "S1, figure 7a: throughput inside one host over the size of messages",
        paper: "7 to 20 times the throughput of Linux; 26 times at 1 MiB, by remapping of pages",
        body: Body::Curves {
            over: "octets",
            quantity: Quantity::Throughput,
            columns: &["Weft", "TCP", "AF_UNIX"],
            points: SIZES,
            open: |size| {
                let stream = Talk::stream(size);
                beside(stream, &[stream, stream.over(Socket::Unix)])
            },
        },
    },
    Figure {
        name: "s1-7b",
        title: "S1, figure 7b: a round trip inside one host over the size of messages",
        paper: "latency 17 to 35 times better than that of Linux",
        body: Body::Curves {
            over: "octets",
            quantity: Quantity::Micros,
            columns: &["Weft", "TCP, blocking", "AF_UNIX"],
            points: SIZES,
            open: |size| {
                let ping = Talk::ping(size, Wait::Blocking);
                beside(ping, &[ping, ping.over(Socket::Unix)])
            },
        },
    },
    Figure {
        name: "s1-9",
        title: "S1, figure 9: messages of 8 octets over pairs of programs, for one pair",
        paper: "1 to 16 pairs of cores; their rates are not known here",
        body: Body::Curves {
            over: "pairs",
            quantity: Quantity::Rate,
            columns: &["Weft", "TCP"],
            points: &[1, 2, 4],
            open: |pairs| several(Talk::stream(8), pairs),
        },
    },
    Figure {
        name: "s1-10",
        title: "S1, figure 10: a round trip of 8 octets with several programs on each core",
        paper: "1 to 8 programs on each core; their latencies are not known here",
        body: Body::Curves {
            over: "programs",
            quantity: Quantity::Micros,
            columns: &["Weft", "TCP"],
            points: &[1, 2, 4, 8],
            open: |pairs| several(Talk::ping(8, Wait::Blocking), pairs),
        },
    },
    Figure {
        name: "s1-11",
        title: "S1, figure 11: nginx as proxy of nginx, time of a request over the size of the answer",
        paper: "20 times at large sizes, by remapping of pages; the other values are not known here",
        body: Body::Curves {
            over: "octets",
            quantity: Quantity::Micros,
            columns: &["Weft", "TCP"],
            points: ANSWERS,
            open: |size| compare(Carrier::both(false), |carrier| nginx::proxy(carrier, size)),
        },
    },
    Figure {
        name: "s1-12",
        title: "S1, figure 12: messages of 64 octets through a pipeline of programs",
        paper: "1 to 8 network functions; their rates are not known here",
        body: Body::Curves {
            over: "programs",
            quantity: Quantity::Rate,
            columns: &["Weft", "TCP", "AF_UNIX"],
            points: &[1, 2, 4, 8],
            open: |programs| {
                let talk = Talk::stream(64).on([None, None]);
                let start = |talk: Talk, carrier: &Carrier| boxed(talk.start_behind(programs, carrier)?);
                vec![
                    Carrier::ours().and_then(|carrier| start(talk, &carrier)),
                    start(talk, &Carrier::KERNEL),
                    start(talk.over(Socket::Unix), &Carrier::KERNEL),
                ]
            },
        },
    },
    Figure {
        name: "s1-6-wait",
        title: "S1, section 6: a round trip of 8 octets on one connection of many in an epoll set",
        paper: "not known here",
        body: Body::Curves {
            over: "connections",
            quantity: Quantity::Micros,
            columns: &["Weft", "TCP"],
            points: &[1, 100, 1000, 4000],
            open: many,
        },
    },
];

/// One part of S0's table 7.2.
pub(super) const fn iperf<const STREAMS: usize, const IS_FAR: bool>(
    name: &'static str,
    title: &'static str,
) -> Figure {
    Figure {
        name,
        title,
        paper: "between two hosts; the values are not known here",
        body: Body::Curves {
            over: "octets",
            quantity: Quantity::Throughput,
            columns: &["Weft", "TCP"],
            points: SMALL,
            open: |size| {
                compare(Carrier::both(IS_FAR), |carrier| Iperf { streams: STREAMS, size }.start(carrier))
            },
        },
    }
}

/// Returns ours and conversations on the kernel's sockets.
fn beside(ours: Talk, others: &[Talk]) -> Compared {
    let ours = Carrier::ours().and_then(|carrier| boxed(ours.start(&carrier)?));
    let others = others.iter().map(|talk| boxed(talk.start(&Carrier::KERNEL)?));
    core::iter::once(ours).chain(others).collect()
}

/// Returns so many conversations of ours, and as many on the kernel's TCP.
fn several(talk: Talk, pairs: usize) -> Compared {
    compare(Carrier::both(false), |carrier| {
        Ok(Several::of((0..pairs).map(|_| talk.start(carrier)).collect::<Outcome<_>>()?))
    })
}

/// Returns so many connections of two programs.
fn many(connections: usize) -> Compared {
    let start = |carrier: Outcome<Carrier>| {
        // Each end has a descriptor, and the library has some of its own.
        raise_descriptors(connections as u64 + 1000)?;
        boxed(Talk::many(connections).start(&carrier?)?)
    };
    vec![start(Carrier::eager()), start(Ok(Carrier::KERNEL))]
}

fn boxed(side: impl Side + 'static) -> Outcome<Box<dyn Side>> {
    Ok(Box::new(side))
}

pub(super) const SMALL: &[usize] = &[16, 64, 256, 1024, 4096];
pub(super) const SIZES: &[usize] = &[8, 64, 512, 4096, 32_768, 262_144, 1_048_576];
pub(super) const ANSWERS: &[usize] = &[64, 4096, 65_536, 1_048_576];
