//! The comparisons and figures between two hosts, which a veth joins.

use super::carrier::{Carrier, compare};
use super::daemon::Wire;
use super::figures::{ANSWERS, SIZES, SMALL, iperf};
use super::first::First;
use super::nginx;
use super::pair::Talk;
use super::redis::{Column, Redis};
use super::tables::{get, line, none};
use super::terms::{Socket, Wait, Work};
use super::xmlrpc;
use crate::case::{Case, Quantity, Reference, Side, Sides, Target};
use crate::figure::{Body, Compared, Figure, Line};
use crate::process::Outcome;

/// The comparisons, in the order of the table. Targets are those for two cores.
pub(super) static CASES: [Case; 10] = [
    Case {
        name: "sockets/hosts-ping-8",
        quantity: Quantity::Micros,
        references: &[
            Reference::with_target("TCP, blocking", Target::RatioAtMost(1.0)),
            Reference::with_target("TCP, spinning", Target::RatioAtMost(2.5)),
            Reference::shown("TCP, cubic, 4 MiB, blocking"),
        ],
        clock_scale: 1,
        open: |_, _| ping(Wire::Kernel),
    },
    Case {
        name: "sockets/hosts-stream-64k",
        quantity: Quantity::Throughput,
        references: &[Reference::shown("TCP, cubic, 4 MiB"), Reference::shown("TCP")],
        clock_scale: 1,
        open: |_, _| stream(64 << 10, Wire::Kernel),
    },
    Case {
        name: "sockets/hosts-stream-1m",
        quantity: Quantity::Throughput,
        references: &STREAM,
        clock_scale: 1,
        open: |_, _| stream(1 << 20, Wire::Kernel),
    },
    Case {
        name: "sockets/hosts-messages-8",
        quantity: Quantity::Rate,
        references: &[
            Reference::with_target("TCP, cubic, 4 MiB", Target::RatioAtLeast(10.0)),
            Reference::with_target("TCP", Target::RatioAtLeast(10.0)),
        ],
        clock_scale: 1,
        open: |_, _| stream(8, Wire::Kernel),
    },
    Case {
        name: "sockets/hosts-redis/c1",
        quantity: Quantity::Rate,
        references: &[Reference::shown("TCP")],
        clock_scale: 1,
        open: |_, _| programs(|carrier| redis(1, Column::Rate, carrier)),
    },
    Case {
        name: "sockets/hosts-redis/c50",
        quantity: Quantity::Rate,
        references: &[Reference::shown("TCP")],
        clock_scale: 1,
        open: |_, _| programs(|carrier| redis(50, Column::Rate, carrier)),
    },
    Case {
        name: "sockets/hosts-nginx/c1",
        quantity: Quantity::Rate,
        references: &[Reference::shown("TCP")],
        clock_scale: 1,
        open: |_, _| programs(|carrier| nginx::files(carrier, 1, 100)),
    },
    Case {
        name: "sockets/hosts-nginx/c32",
        quantity: Quantity::Rate,
        references: &[Reference::shown("TCP")],
        clock_scale: 1,
        open: |_, _| programs(|carrier| nginx::files(carrier, 32, 100)),
    },
    Case {
        name: "sockets/hosts-packet/ping-8",
        quantity: Quantity::Micros,
        references: &[
            Reference::shown("TCP, blocking"),
            Reference::shown("TCP, spinning"),
            Reference::shown("TCP, cubic, 4 MiB, blocking"),
        ],
        clock_scale: 1,
        open: |_, _| ping(Wire::Packet),
    },
    Case {
        name: "sockets/hosts-packet/stream-1m",
        quantity: Quantity::Throughput,
        references: &[Reference::shown("TCP, cubic, 4 MiB"), Reference::shown("TCP")],
        clock_scale: 1,
        open: |_, _| stream(1 << 20, Wire::Packet),
    },
];

/// The figures and tables, in the order of the papers.
pub(super) static FIGURES: [Figure; 11] = [
    Figure {
        name: "s0-7.1-hosts",
        title: "S0, table 7.1: a round trip over size, between two hosts",
        paper: "14 us one way against TCP's 62",
        body: Body::Curves {
            over: "octets",
            quantity: Quantity::Micros,
            columns: &["Weft", "TCP, blocking", "TCP, spinning"],
            points: SMALL,
            open: round_trip,
        },
    },
    iperf::<1, true>(
        "s0-7.2-hosts-1",
        "S0, table 7.2: iperf3 with 1 stream between two hosts, over the size of writes",
    ),
    iperf::<2, true>(
        "s0-7.2-hosts-2",
        "S0, table 7.2: iperf3 with 2 streams between two hosts, over the size of writes",
    ),
    iperf::<4, true>(
        "s0-7.2-hosts-4",
        "S0, table 7.2: iperf3 with 4 streams between two hosts, over the size of writes",
    ),
    iperf::<8, true>(
        "s0-7.2-hosts-8",
        "S0, table 7.2: iperf3 with 8 streams between two hosts, over the size of writes",
    ),
    Figure {
        name: "s1-8a",
        title: "S1, figure 8a: throughput between two hosts over the size of messages",
        paper: "not known here",
        body: Body::Curves {
            over: "octets",
            quantity: Quantity::Throughput,
            columns: &["Weft", "TCP", "TCP, cubic, 4 MiB"],
            points: SIZES,
            open: |size| {
                let stream = Talk::stream(size);
                beside(stream, &[stream, stream.over(Socket::Cubic)])
            },
        },
    },
    Figure {
        name: "s1-8b",
        title: "S1, figure 8b: a round trip between two hosts over the size of messages",
        paper: "1.7 us, by hardware",
        body: Body::Curves {
            over: "octets",
            quantity: Quantity::Micros,
            columns: &["Weft", "TCP, blocking", "TCP, spinning"],
            points: SIZES,
            open: round_trip,
        },
    },
    Figure {
        name: "s1-11-hosts",
        title: "S1, figure 11: nginx as proxy of nginx on one host, its client on another one",
        paper: "the time of a request over the size of the answer; the values are not known here",
        body: Body::Curves {
            over: "octets",
            quantity: Quantity::Micros,
            columns: &["Weft", "TCP"],
            points: ANSWERS,
            open: |size| compare(Carrier::both(true), |carrier| nginx::proxy(carrier, size)),
        },
    },
    Figure {
        name: "s0-7.3-hosts",
        title: "S0, section 7.3: time to connect, and to the first octet by a ring, between two hosts",
        paper: "connect takes 100 us against TCP's 180; here connect is the kernel's",
        body: Body::Lines { columns: &["Weft", "TCP"], lines: CONNECT },
    },
    Figure {
        name: "s1-redis-hosts",
        title: "S1, section 5.3.2: latency of GET in redis, between two hosts",
        paper: "the mean is 14.1 us against 38.9 with Linux",
        body: Body::Lines { columns: &["Weft", "TCP"], lines: GET },
    },
    Figure {
        name: "s1-rpc-hosts",
        title: "S1, section 5.3.3: latency of a remote procedure call of 1 KiB between two hosts",
        paper: "46 us against 79 with Linux, in MessagePack",
        body: Body::Lines { columns: &["Weft", "TCP"], lines: CALLS },
    },
];

const STREAM: [Reference; 2] = [
    Reference::with_target("TCP, cubic, 4 MiB", Target::RatioAtLeast(0.4)),
    Reference::with_target("TCP", Target::RatioAtLeast(0.4)),
];

const CONNECT: &[Line] = &[
    line("connect", Quantity::Micros, || compare(Carrier::both(true), First::connect)),
    line("up to the first octet by a ring, auto", Quantity::Micros, || {
        vec![Carrier::lanes(Wire::Kernel).and_then(|carrier| First::ring(&carrier)), none()]
    }),
    line("up to the first octet by a ring, eager", Quantity::Micros, || {
        vec![Carrier::eager_lanes().and_then(|carrier| First::ring(&carrier)), none()]
    }),
    line("connect, an octet there and back, close", Quantity::Micros, || {
        beside(Talk::connections(1), &[Talk::connections(1)])
    }),
];

const GET: &[Line] = &[
    get("mean", "14.1 us against 38.9", || latency(Column::Mean)),
    get("50 percent", "not known here", || latency(Column::Median)),
    get("95 percent", "not known here", || latency(Column::Percent95)),
    get("99 percent", "not known here", || latency(Column::Percent99)),
];

const CALLS: &[Line] = &[
    Line {
        name: "MessagePack",
        paper: "46 us against 79",
        quantity: Quantity::Micros,
        open: || {
            let call = Talk::ping(1024, Wait::Blocking).doing(Work::Call);
            beside(call, &[call])
        },
    },
    line("xmlrpc of Python", Quantity::Micros, || compare(Carrier::both(true), xmlrpc::start)),
];

fn ping(wire: Wire) -> Outcome<Sides> {
    let ping = Talk::ping(8, Wait::Blocking);
    sides(wire, ping, &[ping, ping.waiting(Wait::Spinning), ping.over(Socket::Cubic)])
}

fn stream(size: usize, wire: Wire) -> Outcome<Sides> {
    let stream = Talk::stream(size);
    sides(wire, stream, &[stream.over(Socket::Cubic), stream])
}

/// Returns ours beside conversations on the kernel's sockets.
fn sides(wire: Wire, ours: Talk, references: &[Talk]) -> Outcome<Sides> {
    let ours = boxed(ours, &Carrier::lanes(wire)?)?;
    let kernel = Carrier::kernel_between()?;
    let references = references.iter().map(|talk| boxed(*talk, &kernel)).collect::<Outcome<_>>()?;
    Ok(Sides { ours, references })
}

/// Returns what a round trip of so many octets takes: ours, and by TCP with ends that block or spin.
fn round_trip(size: usize) -> Compared {
    let ping = Talk::ping(size, Wait::Blocking);
    beside(ping, &[ping, ping.waiting(Wait::Spinning)])
}

/// Returns ours and conversations on the kernel's sockets, for a point of a figure.
fn beside(ours: Talk, others: &[Talk]) -> Compared {
    let ours = Carrier::lanes(Wire::Kernel).and_then(|carrier| boxed(ours, &carrier));
    let others =
        others.iter().map(|talk| Carrier::kernel_between().and_then(|carrier| boxed(*talk, &carrier)));
    core::iter::once(ours).chain(others).collect()
}

/// Returns a program under the library and the same one without it.
fn programs(start: fn(&Carrier) -> Outcome<Box<dyn Side>>) -> Outcome<Sides> {
    let ours = start(&Carrier::lanes(Wire::Kernel)?)?;
    Ok(Sides { ours, references: vec![start(&Carrier::kernel_between()?)?] })
}

fn latency(column: Column) -> Compared {
    compare(Carrier::both(true), |carrier| redis(1, column, carrier))
}

fn redis(connections: u64, column: Column, carrier: &Carrier) -> Outcome<Box<dyn Side>> {
    Redis { connections, pipeline: 1, test: "get", column }.start(carrier)
}

fn boxed(talk: Talk, carrier: &Carrier) -> Outcome<Box<dyn Side>> {
    Ok(Box::new(talk.start(carrier)?))
}
