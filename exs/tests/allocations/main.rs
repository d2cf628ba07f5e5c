//! Transfers take no memory but what tells their caller of the end.
//!
//! There is only one test, since the counts are the process's: another test beside it would be counted too.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../../../tests/tests/leaks/counting.rs"]
mod counting;

use core::pin::Pin;
use core::task::{Context as TaskContext, Poll, Waker};
use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use weft_exs::{Buf, Context, Kind, Messages, Op, Options, Socket, Stream};
use weft_netif::Instant;
use weft_rnic::{Config, Ground, Progress};

use counting::LIVE;

/// Each side's buffers, which go to and fro.
type Bufs = [Buf; 2];

#[test]
fn ten_thousand_transfers_leave_nothing_behind_and_allocate_for_their_operations_only() {
    const TRANSFERS: u64 = 10_000;
    let mut world = World::new();
    let (messages, streams) = (world.connect::<Messages>(), world.connect::<Stream>());
    for len in [64, 4000] {
        let mut bufs = world.sides.each_ref().map(|context| context.buffer(len).unwrap());
        let mut once = |bufs| {
            let bufs = world.transfer(&streams, bufs);
            world.transfer(&messages, bufs)
        };
        // Tables and queues get their size.
        for _ in 0..500 {
            bufs = once(bufs);
        }
        let (before, holdings) = (LIVE.allocations(), LIVE.holdings());
        for _ in 0..TRANSFERS / 2 {
            bufs = once(bufs);
        }
        let (each, after) = ((LIVE.allocations() - before).div_ceil(TRANSFERS), LIVE.holdings());
        println!("{len} octets: {each} allocations for a send and a receive, {holdings:?} became {after:?}");
        assert!(
            after.1 - holdings.1 < 100 && after.0 - holdings.0 < 1 << 16,
            "{holdings:?} became {after:?}"
        );
        assert!(each <= LIMIT, "{each} allocations for a send and a receive of {len} octets");
    }
}

/// Two contexts that this thread drives, since a thread that sleeps allocates for that.
struct World {
    sides: [Context; 2],
    now: Instant,
}

impl World {
    fn new() -> Self {
        let context = |seed| {
            let config = Config { progress: Progress::External, ..Config::host(LOCAL, seed) };
            Context::open(Ground::Host, config).unwrap()
        };
        Self { sides: [context(1), context(2)], now: Instant::ZERO }
    }

    fn connect<K: Kind>(&mut self) -> [Socket<K>; 2] {
        let options = Options::default();
        let listener = self.sides[1].listen::<K>(SocketAddr::new(LOCAL, 0), &options).unwrap();
        let accepting = listener.accept();
        let connecting = self.sides[0].connect::<K>(listener.local_addr(), &options);
        [self.end(connecting).unwrap(), self.end(accepting).unwrap()]
    }

    fn end<T>(&mut self, mut op: Op<T>) -> T {
        let mut task = TaskContext::from_waker(Waker::noop());
        loop {
            if let Poll::Ready(outcome) = Pin::new(&mut op).poll(&mut task) {
                return outcome;
            }
            self.now += weft_netif::Duration::from_micros(1);
            self.sides.iter().for_each(|side| _ = side.drive(self.now));
        }
    }

    fn transfer<K: Kind>(&mut self, [ours, theirs]: &[Socket<K>; 2], [here, there]: Bufs) -> Bufs {
        let (receiving, sending) = (theirs.recv(there, ..), ours.send(here, ..));
        [sending, receiving].map(|op| {
            let (outcome, buf) = self.end(op);
            assert_eq!(outcome.unwrap().octets as usize, buf.len());
            buf
        })
    }
}

/// Two operations, and the lists of what ends at each turn of both sides.
const LIMIT: u64 = 5;
const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
