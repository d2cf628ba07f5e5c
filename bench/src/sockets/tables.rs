//! The tables of the papers, and the sections of S1 that have values of their own.

use super::carrier::{Carrier, compare};
use super::derived::{Slope, Times};
use super::first::First;
use super::pair::Talk;
use super::redis::{Column, Redis};
use super::ring::{Alone, Ring};
use super::rstream::Rstream;
use super::terms::{Socket, Threads, Wait, Work};
use super::{compatibility, primitives, xmlrpc};
use crate::case::{Quantity, Side, Trouble};
use crate::figure::{Body, Compared, Figure, Line};
use crate::process::Outcome;

pub(super) static TABLES: [Figure; 10] = [
    Figure {
        name: "s0-7.3",
        title: "S0, section 7.3: time to connect, and to the first octet by a ring",
        paper: "connect takes 100 us against TCP's 180, between two hosts; here connect is the kernel's",
        body: Body::Lines { columns: &["Weft", "TCP"], lines: CONNECT },
    },
    Figure {
        name: "s0-f7.3",
        title: "S0, figure 7.3: where the time of 8 octets goes, from the call that sends to the return of the receive",
        paper: "16 octets between two hosts; the values are not known here",
        body: Body::Lines { columns: &["Weft", "TCP"], lines: STATIONS },
    },
    Figure {
        name: "s1-t1",
        title: "S1, table 1: overheads of sockets, and what is left of them in a ring",
        paper: NOT_KNOWN,
        body: Body::Lines { columns: &["Weft", "Linux"], lines: OVERHEADS },
    },
    Figure {
        name: "s1-t2",
        title: "S1, table 2: costs of primitives on this machine",
        paper: NOT_KNOWN,
        body: Body::Lines { columns: &["this machine"], lines: PRIMITIVES },
    },
    Figure {
        name: "s1-t3",
        title: "S1, table 3: compatibility",
        paper: NOT_KNOWN,
        body: Body::Text { print: compatibility::print, table: compatibility::table },
    },
    Figure {
        name: "s1-t4",
        title: "S1, table 4: costs per operation, packet, KiB and connection",
        paper: NOT_KNOWN,
        body: Body::Lines { columns: &["Weft", "Linux", "rsocket of Weft"], lines: COSTS },
    },
    Figure {
        name: "s1-redis",
        title: "S1, section 5.3.2: latency of GET in redis",
        paper: "the mean is 14.1 us against 38.9 with Linux",
        body: Body::Lines { columns: &["Weft", "TCP"], lines: GET },
    },
    Figure {
        name: "s1-rpc",
        title: "S1, section 5.3.3: latency of a remote procedure call of 1 KiB inside one host",
        paper: "21 us against 45 with Linux, in MessagePack",
        body: Body::Lines { columns: &["Weft", "TCP"], lines: CALLS },
    },
    Figure {
        name: "s1-token",
        title: "S1, section 4.1.1: messages of 8 octets by one thread and by two that share a socket",
        paper: "27 M/s with one thread, 5 M/s with a lock, 0.6 us to take a token over",
        body: Body::Lines { columns: &["Weft", "TCP"], lines: THREADS },
    },
    Figure {
        name: "s1-6",
        title: "S1, section 6: connections that are upgraded, one after the other",
        paper: "1.4 million connections a second, without the kernel and synthetic; here they are the kernel's",
        body: Body::Lines { columns: &["Weft", "TCP"], lines: UPGRADES },
    },
];

const CONNECT: &[Line] = &[
    line("connect", Quantity::Micros, || compare(Carrier::both(false), First::connect)),
    line("up to the first octet by a ring, auto", Quantity::Micros, || {
        vec![Carrier::ours().and_then(|carrier| First::ring(&carrier)), none()]
    }),
    line("up to the first octet by a ring, eager", Quantity::Micros, || {
        vec![Carrier::eager().and_then(|carrier| First::ring(&carrier)), none()]
    }),
    line("connect, an octet there and back, close", Quantity::Micros, || talks(Talk::connections(1))),
];

const STATIONS: &[Line] = &[
    line("copies and publications, in one thread", Quantity::Nanos, || vec![Alone::messages(), none()]),
    line("the way from core to core", Quantity::Nanos, || {
        vec![
            Alone::messages().and_then(|part| Ok(Slope::rest(part, Times::one_way(Ring::round_trips()?)))),
            none(),
        ]
    }),
    line("hooks, tables, sections and counts of both calls", Quantity::Nanos, || {
        let part = Ring::round_trips().map(Times::one_way);
        vec![part.and_then(|part| Ok(Slope::rest(part, one_way(PING, &Carrier::ours()?)?))), none()]
    }),
    line("a system call, of which there are two", Quantity::Nanos, || {
        vec![none(), primitives::system_call()]
    }),
    line("all, the reader awake", Quantity::Nanos, || {
        let spinning = Talk::ping(8, Wait::Spinning);
        vec![Carrier::ours().and_then(|carrier| one_way(PING, &carrier)), one_way(spinning, &Carrier::KERNEL)]
    }),
    line("a wake-up, if the reader sleeps", Quantity::Nanos, || {
        vec![primitives::wakes().map(Times::one_way), primitives::wakes().map(Times::one_way)]
    }),
];

const OVERHEADS: &[Line] = &[
    line("operation: a system call", Quantity::Nanos, || vec![none(), primitives::system_call()]),
    line("operation: the lock of a socket", Quantity::Nanos, || {
        vec![primitives::own_lock(), primitives::mutex()]
    }),
    line("packet: 8 octets, one way, the reader awake", Quantity::Micros, || {
        vec![
            Ring::round_trips().map(Times::one_way),
            one_way(Talk::ping(8, Wait::Spinning), &Carrier::KERNEL),
        ]
    }),
    line("packet: a wake-up", Quantity::Micros, || vec![none(), primitives::wakes().map(Times::one_way)]),
    line("KiB: copies", Quantity::Nanos, || vec![slope(Carrier::ours()), slope(Ok(Carrier::KERNEL))]),
    line("connection: socket, bind, listen, close", Quantity::Micros, || vec![none(), primitives::socket()]),
    line("connection: connect, an octet, close", Quantity::Micros, || talks(Talk::connections(1))),
];

const PRIMITIVES: &[Line] = &[
    line("a queue in shared memory, there and back", Quantity::Nanos, || vec![Ring::round_trips()]),
    line("the same, a message one way", Quantity::Nanos, || vec![Ring::messages()]),
    line("a cache line, there and back", Quantity::Nanos, || vec![primitives::cache_line()]),
    line("a lock of a direction of Weft", Quantity::Nanos, || vec![primitives::own_lock()]),
    line("a lock that is free", Quantity::Nanos, || vec![primitives::mutex()]),
    line("a lock that two threads want", Quantity::Nanos, || vec![primitives::contended_mutex()]),
    line("a system call", Quantity::Nanos, || vec![primitives::system_call()]),
    line("a copy of 4 KiB", Quantity::Nanos, || vec![primitives::copy(4096)]),
    line("a copy of 1 MiB", Quantity::Micros, || vec![primitives::copy(1 << 20)]),
    line("a yield to another thread of the core", Quantity::Nanos, || {
        vec![primitives::yields().map(Times::one_way)]
    }),
    line("a wake-up of a thread of another core", Quantity::Micros, || {
        vec![primitives::wakes().map(Times::one_way)]
    }),
    line("a listening socket opened and closed", Quantity::Micros, || vec![primitives::socket()]),
    line("a pipe, there and back", Quantity::Micros, || vec![primitives::pipe_round_trips()]),
    line("AF_UNIX, there and back", Quantity::Micros, || kernel(PING.over(Socket::Unix))),
    line("TCP, there and back", Quantity::Micros, || kernel(PING)),
    line("TCP, there and back, both spin", Quantity::Micros, || kernel(PING.waiting(Wait::Spinning))),
    line("Weft, there and back", Quantity::Micros, || vec![start(PING, Carrier::ours())]),
    line("a pipe, a message one way", Quantity::Nanos, || vec![primitives::pipe_messages()]),
    line("AF_UNIX, a message one way", Quantity::Nanos, || kernel(MESSAGES.over(Socket::Unix))),
    line("TCP, a message one way", Quantity::Nanos, || kernel(MESSAGES)),
    line("Weft, a message one way", Quantity::Nanos, || vec![start(MESSAGES, Carrier::ours())]),
];

const COSTS: &[Line] = &[
    line("operation: fcntl", Quantity::Nanos, || and(talks(PING.doing(Work::Operate)), not_told())),
    line("packet: 8 octets, send to recv", Quantity::Micros, || {
        and(compare(Carrier::both(false), |carrier| one_way(PING, carrier)), Rstream::one_way(8))
    }),
    line("KiB: slope from 4 KiB to 64 KiB", Quantity::Nanos, || {
        let rsocket = Rstream::one_way(SMALL)
            .and_then(|small| Ok(Slope::between(small, Rstream::one_way(LARGE)?, KIB)));
        and(vec![slope(Carrier::ours()), slope(Ok(Carrier::KERNEL))], rsocket)
    }),
    line("connection: connect, an octet, close", Quantity::Micros, || {
        and(talks(Talk::connections(1)), not_told())
    }),
];

const GET: &[Line] = &[
    get("mean", "14.1 us against 38.9", || redis(Column::Mean)),
    get("the least", NOT_KNOWN, || redis(Column::Least)),
    get("50 percent", NOT_KNOWN, || redis(Column::Median)),
    get("95 percent", NOT_KNOWN, || redis(Column::Percent95)),
    get("99 percent", NOT_KNOWN, || redis(Column::Percent99)),
];

const CALLS: &[Line] = &[
    Line {
        name: "MessagePack",
        paper: "21 us against 45",
        quantity: Quantity::Micros,
        open: || talks(Talk::ping(1024, Wait::Blocking).doing(Work::Call)),
    },
    line("xmlrpc of Python", Quantity::Micros, || compare(Carrier::both(false), xmlrpc::start)),
];

const THREADS: &[Line] = &[
    Line {
        name: "one thread (level A)",
        paper: "27 M/s",
        quantity: Quantity::Rate,
        open: || talks(MESSAGES),
    },
    Line {
        name: "one thread of two (level B)",
        paper: "5 M/s with a lock",
        quantity: Quantity::Rate,
        open: || talks(MESSAGES.by(Threads::Idle)),
    },
    Line {
        name: "two threads by turns, for each message",
        paper: "0.6 us to take a token over",
        quantity: Quantity::Micros,
        open: || talks(MESSAGES.by(Threads::Alternate).on([None, None])),
    },
];

const UPGRADES: &[Line] = &[
    line("connections of 50 messages, eager", Quantity::Frequency, || {
        let talk = Talk::connections(50);
        vec![start(talk, Carrier::eager()), start(talk, Ok(Carrier::KERNEL))]
    }),
    line("connections of 1 message, never upgraded", Quantity::Frequency, || talks(Talk::connections(1))),
];

pub(super) const fn line(name: &'static str, quantity: Quantity, open: fn() -> Compared) -> Line {
    Line { name, paper: NOT_KNOWN, quantity, open }
}

pub(super) const fn get(name: &'static str, paper: &'static str, open: fn() -> Compared) -> Line {
    Line { name, paper, quantity: Quantity::Micros, open }
}

/// Returns a cell for which there is nothing to measure.
pub(super) fn none() -> Outcome<Box<dyn Side>> {
    Err(Trouble::Skipped(String::new()))
}

fn not_told() -> Outcome<Box<dyn Side>> {
    Err(Trouble::Skipped("no program of rsocket tells it".to_owned()))
}

fn and(mut sides: Compared, last: Outcome<Box<dyn Side>>) -> Compared {
    sides.push(last);
    sides
}

fn talks(talk: Talk) -> Compared {
    vec![start(talk, Carrier::ours()), start(talk, Ok(Carrier::KERNEL))]
}

fn kernel(talk: Talk) -> Compared {
    vec![start(talk, Ok(Carrier::KERNEL))]
}

fn start(talk: Talk, carrier: Outcome<Carrier>) -> Outcome<Box<dyn Side>> {
    Ok(Box::new(talk.start(&carrier?)?))
}

fn one_way(talk: Talk, carrier: &Carrier) -> Outcome<Box<dyn Side>> {
    Ok(Times::one_way(Box::new(talk.start(carrier)?)))
}

fn slope(carrier: Outcome<Carrier>) -> Outcome<Box<dyn Side>> {
    let carrier = carrier?;
    let side = |size| one_way(Talk::ping(size, Wait::Blocking), &carrier);
    Ok(Slope::between(side(SMALL)?, side(LARGE)?, KIB))
}

fn redis(column: Column) -> Compared {
    compare(Carrier::both(false), |carrier| {
        Redis { connections: 1, pipeline: 1, test: "get", column }.start(carrier)
    })
}

const NOT_KNOWN: &str = "not known here";
const PING: Talk = Talk::ping(8, Wait::Blocking);
const MESSAGES: Talk = Talk::stream(8);
/// The messages between which a slope is taken.
const SMALL: usize = 4096;
const LARGE: usize = 65_536;
const KIB: u32 = 60;
