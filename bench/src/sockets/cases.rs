//! The comparisons of `weft bench sockets`.

use super::carrier::Carrier;
use super::idle::Idle;
use super::nginx;
use super::pair::Talk;
use super::redis::{Column, Redis};
use super::ring::Ring;
use super::terms::{Socket, Wait};
use crate::case::{Case, Quantity, Reference, Side, Sides, Target};
use crate::hog::Hog;
use crate::process::Outcome;

/// All comparisons, in the order of the table.
pub(super) static CASES: [Case; 18] = [
    Case {
        name: "sockets/ping-8/blocking",
        quantity: Quantity::Micros,
        references: &[
            Reference::with_target("TCP, blocking", Target::RatioAtMost(0.04)),
            Reference::with_target("TCP, spinning", Target::RatioAtMost(0.1)),
            Reference::with_target("the bare ring", Target::RatioAtMost(3.0)),
            Reference::shown("TCP, cubic, 4 MiB, blocking"),
            Reference::shown("AF_UNIX, blocking"),
        ],
        clock_scale: 1,
        open: |_, _| {
            let ping = Talk::ping(8, Wait::Blocking);
            let mut sides = sides(ping, &[ping, ping.waiting(Wait::Spinning)])?;
            sides.references.push(Ring::round_trips()?);
            for socket in [Socket::Cubic, Socket::Unix] {
                sides.references.push(side(ping.over(socket), &Carrier::KERNEL)?);
            }
            Ok(sides)
        },
    },
    Case {
        name: "sockets/ping-8/epoll",
        quantity: Quantity::Micros,
        references: &[
            Reference::with_target("TCP, epoll", Target::RatioAtMost(0.04)),
            Reference::with_target("TCP, spinning", Target::RatioAtMost(0.1)),
            Reference::with_target("the bare ring", Target::RatioAtMost(3.0)),
        ],
        clock_scale: 1,
        open: |_, _| {
            let ping = Talk::ping(8, Wait::Epoll);
            let mut sides = sides(ping, &[ping, ping.waiting(Wait::Spinning)])?;
            sides.references.push(Ring::round_trips()?);
            Ok(sides)
        },
    },
    Case {
        name: "sockets/ping-8/one-core",
        quantity: Quantity::Micros,
        references: &[Reference::with_target("TCP, blocking", Target::RatioAtMost(0.5))],
        clock_scale: 1,
        open: |_, _| {
            let ping = Talk::ping(8, Wait::Blocking).on([Some(0), Some(0)]);
            sides(ping, &[ping])
        },
    },
    Case {
        name: "sockets/messages-8",
        quantity: Quantity::Rate,
        references: &[
            Reference::with_target("TCP", Target::RatioAtLeast(30.0)),
            Reference::with_target("the bare ring", Target::RatioAtLeast(0.4)),
            Reference::shown("TCP, cubic, 4 MiB"),
            Reference::shown("AF_UNIX"),
        ],
        clock_scale: 1,
        open: |_, _| {
            let talk = Talk::stream(8);
            let mut sides = sides(talk, &[talk])?;
            sides.references.push(Ring::messages()?);
            for socket in [Socket::Cubic, Socket::Unix] {
                sides.references.push(side(talk.over(socket), &Carrier::KERNEL)?);
            }
            Ok(sides)
        },
    },
    Case {
        name: "sockets/stream-64k",
        quantity: Quantity::Throughput,
        references: &[
            Reference::with_target("TCP, cubic, 4 MiB", Target::RatioAtLeast(1.3)),
            Reference::shown("TCP"),
            Reference::shown("AF_UNIX"),
        ],
        clock_scale: 1,
        open: |_, _| stream(64 << 10),
    },
    Case {
        name: "sockets/stream-1m",
        quantity: Quantity::Throughput,
        references: &[
            Reference::with_target("TCP, cubic, 4 MiB", Target::RatioAtLeast(1.5)),
            Reference::shown("TCP"),
            Reference::shown("AF_UNIX"),
        ],
        clock_scale: 1,
        open: |_, _| stream(1 << 20),
    },
    Case {
        name: "sockets/connect",
        quantity: Quantity::Micros,
        references: &[Reference::with_target("TCP", Target::RatioAtMost(1.05))],
        clock_scale: 1,
        open: |_, _| sides(Talk::connections(1), &[Talk::connections(1)]),
    },
    Case {
        name: "sockets/stays-on-tcp/ping-8",
        quantity: Quantity::Micros,
        references: &[Reference::with_target("TCP, blocking", Target::RatioAtMost(1.03))],
        clock_scale: 1,
        open: |_, _| alone(Talk::ping(8, Wait::Blocking)),
    },
    Case {
        name: "sockets/stays-on-tcp/messages-8",
        quantity: Quantity::Rate,
        references: &[Reference::with_target("TCP", Target::RatioAtLeast(0.97))],
        clock_scale: 1,
        open: |_, _| alone(Talk::stream(8)),
    },
    Case {
        name: "sockets/hog/ping-8",
        quantity: Quantity::Micros,
        references: &[Reference::with_target("TCP, blocking", Target::RatioAtMost(1.11))],
        clock_scale: 1,
        open: |_, _| beside_a_hog(Talk::ping(8, Wait::Blocking).on([None, None])),
    },
    Case {
        name: "sockets/hog/stream-1m",
        quantity: Quantity::Throughput,
        references: &[Reference::with_target("TCP", Target::RatioAtLeast(0.9))],
        clock_scale: 1,
        open: |_, _| beside_a_hog(Talk::stream(1 << 20).on([None, None])),
    },
    Case {
        name: "sockets/idle",
        quantity: Quantity::Share,
        references: &[Reference::with_target("one core", Target::RatioAtMost(0.001))],
        clock_scale: 1,
        open: |_, _| idle(),
    },
    Case {
        name: "sockets/redis/c1",
        quantity: Quantity::Rate,
        references: &[Reference::with_target("TCP", Target::RatioAtLeast(2.0))],
        clock_scale: 1,
        open: |_, _| programs(|carrier| redis(1, 1, carrier)),
    },
    Case {
        name: "sockets/redis/c50",
        quantity: Quantity::Rate,
        references: &[Reference::with_target("TCP", Target::RatioAtLeast(1.7))],
        clock_scale: 1,
        open: |_, _| programs(|carrier| redis(50, 1, carrier)),
    },
    Case {
        name: "sockets/redis/c50-p16",
        quantity: Quantity::Rate,
        references: &[Reference::with_target("TCP", Target::RatioAtLeast(1.2))],
        clock_scale: 1,
        open: |_, _| programs(|carrier| redis(50, 16, carrier)),
    },
    Case {
        name: "sockets/nginx/c1",
        quantity: Quantity::Rate,
        references: &[Reference::with_target("TCP", Target::RatioAtLeast(2.0))],
        clock_scale: 1,
        open: |_, _| programs(|carrier| nginx::files(carrier, 1, 100)),
    },
    Case {
        name: "sockets/nginx/c32",
        quantity: Quantity::Rate,
        references: &[Reference::with_target("TCP", Target::RatioAtLeast(1.4))],
        clock_scale: 1,
        open: |_, _| programs(|carrier| nginx::files(carrier, 32, 100)),
    },
    Case {
        name: "sockets/nginx/1m",
        quantity: Quantity::Rate,
        references: &[Reference::with_target("TCP", Target::RatioAtLeast(1.2))],
        clock_scale: 1,
        open: |_, _| programs(|carrier| nginx::files(carrier, 8, 1 << 20)),
    },
];

/// Returns ours beside conversations on the kernel's sockets.
fn sides(ours: Talk, references: &[Talk]) -> Outcome<Sides> {
    let references = references.iter().map(|talk| side(*talk, &Carrier::KERNEL)).collect::<Outcome<_>>()?;
    Ok(Sides { ours: side(ours, &Carrier::ours()?)?, references })
}

fn side(talk: Talk, carrier: &Carrier) -> Outcome<Box<dyn Side>> {
    Ok(Box::new(talk.start(carrier)?))
}

fn stream(size: usize) -> Outcome<Sides> {
    let stream = Talk::stream(size);
    sides(stream, &[stream.over(Socket::Cubic), stream, stream.over(Socket::Unix)])
}

/// Returns a conversation of which only the server has the library, so that it stays on TCP.
fn alone(talk: Talk) -> Outcome<Sides> {
    Ok(Sides { ours: side(talk, &Carrier::server_only()?)?, references: vec![side(talk, &Carrier::KERNEL)?] })
}

/// Returns a conversation beside a third program that never stops computing.
fn beside_a_hog(talk: Talk) -> Outcome<Sides> {
    let Sides { ours, references } = sides(talk, &[talk])?;
    let references = references.into_iter().map(Hog::beside).collect();
    Ok(Sides { ours: Hog::beside(ours), references })
}

/// Returns the CPU time of an idle conversation, beside that of a core that is always busy.
fn idle() -> Outcome<Sides> {
    let ping = Talk::ping(8, Wait::Blocking);
    Ok(Sides { ours: Idle::after(ping.start(&Carrier::ours()?)?), references: vec![Idle::one()] })
}

fn redis(connections: u64, pipeline: u64, carrier: &Carrier) -> Outcome<Box<dyn Side>> {
    Redis { connections, pipeline, test: "get", column: Column::Rate }.start(carrier)
}

/// Returns a program under the library and the same one without it.
fn programs(start: fn(&Carrier) -> Outcome<Box<dyn Side>>) -> Outcome<Sides> {
    Ok(Sides { ours: start(&Carrier::ours()?)?, references: vec![start(&Carrier::KERNEL)?] })
}
