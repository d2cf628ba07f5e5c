//! The same streams over the kernel's TCP: the layers above do not depend on the kind of TCP.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use weft_conform::octets::pattern;
use weft_mpa::Config;
use weft_netif::{ConnectionId, HostStack, Instant, StackConfig};
use weft_rdmap::AtomicOp;
use weft_rnic::ulp::{Agreement, DdpEvent, DdpStream, RdmapEvent, RdmapStream, Startup, StartupEvent};
use weft_rnic::{Access, Status};

use crate::line::{End, Stream, contents, plain};

/// Both ends of one connection, on one stack that runs on the machine's time.
struct Host {
    stack: HostStack,
    ids: [ConnectionId; 2],
    start: std::time::Instant,
}

impl Host {
    #[expect(clippy::disallowed_methods, reason = "the kernel's TCP works in real time")]
    fn new() -> Self {
        let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let mut stack = HostStack::new(StackConfig::host(local), Instant::ZERO).expect("descriptors");
        let listener = stack.listen(SocketAddr::new(local, 0)).expect("a port");
        let id = stack.connect(SocketAddr::new(local, listener.port()), None).expect("a way to oneself");
        let mut host = Self { stack, ids: [id, id], start: std::time::Instant::now() };
        host.ids[1] = host.until(|host| host.stack.next_accepted().map(|(id, _)| id));
        host
    }

    /// Drives the stack until `done` returns a value.
    fn until<T>(&mut self, mut done: impl FnMut(&mut Self) -> Option<T>) -> T {
        loop {
            let now = i64::try_from(self.start.elapsed().as_micros()).expect("a short test");
            let now = Instant::from_micros(now);
            assert!(now < Instant::from_secs(60), "nothing happens");
            self.stack.ingress(now);
            while self.stack.next_ready().is_some() {}
            let result = done(self);
            self.stack.egress(now);
            if let Some(result) = result {
                return result;
            }
            std::thread::yield_now();
        }
    }

    /// Makes two streams by MPA's startup.
    fn streams<S: Stream>(&mut self, wishes: [Config; 2]) -> [End<S>; 2] {
        let initiator = Startup::initiator(wishes[0], b"").expect("no private data");
        let mut startups = [initiator, Startup::responder(wishes[1])];
        let mut agreements: [Option<Agreement>; 2] = [None, None];
        self.until(|host| {
            for (end, startup) in startups.iter_mut().enumerate() {
                let mut llp = host.stack.llp(host.ids[end])?;
                match startup.poll(&mut llp).expect("a startup that fits") {
                    Some(StartupEvent::Requested { .. }) => startup.accept([4, 4], b"").expect("an offer"),
                    Some(StartupEvent::Established(agreement)) => agreements[end] = Some(agreement),
                    Some(other) => panic!("{other:?}"),
                    None => {}
                }
            }
            agreements.iter().all(Option::is_some).then_some(())
        });
        agreements.map(|agreement| End::new(&agreement.expect("both are there")))
    }

    /// Runs until `done` returns true for the events of both ends.
    fn run<S: Stream>(&mut self, ends: &mut [End<S>; 2], done: impl Fn(&[End<S>; 2]) -> bool) {
        self.until(|host| {
            for (number, end) in ends.iter_mut().enumerate() {
                end.poll(&mut host.stack.llp(host.ids[number])?);
            }
            done(ends).then_some(())
        });
    }
}

#[test]
fn a_ddp_stream_over_the_kernels_tcp() {
    for markers in [false, true] {
        let mut host = Host::new();
        let mut ends = host.streams::<DdpStream>([plain(true, markers); 2]);
        let octets = pattern(300_000);
        let sink = ends[1].register(300_000, 0, Access::ALL);
        ends[1].stream.post_buffer(2, 7, vec![0; 300_000]).unwrap();
        ends[0].stream.send_tagged(1, (sink.stag, 0), 0x5A, octets.clone()).unwrap();
        ends[0].stream.send_untagged(2, 2, [1; 5], octets.clone()).unwrap();
        ends[0].stream.shutdown();
        host.run(&mut ends, |[_, b]| b.events.contains(&DdpEvent::PeerClosed));
        ends[1].stream.shutdown();
        host.run(&mut ends, |ends| ends.iter().all(|end| end.events.contains(&DdpEvent::Closed)));
        let expected = [
            DdpEvent::Tagged { stag: sink.stag, to: 0..300_000, rsvd: 0x5A },
            DdpEvent::Untagged { id: 7, queue: 2, msn: 1, rsvd: [1; 5], buffer: octets.clone() },
            DdpEvent::PeerClosed,
            DdpEvent::Closed,
        ];
        assert_eq!(ends[1].take(), expected);
        let sent = [1, 2].map(|id| DdpEvent::Sent { id });
        assert_eq!(ends[0].take(), [&sent[..], &[DdpEvent::PeerClosed, DdpEvent::Closed]].concat());
        assert_eq!(contents(&sink), octets);
    }
}

#[test]
fn an_rdmap_stream_over_the_kernels_tcp() {
    let mut host = Host::new();
    let wish = Config { ird: 4, ord: 4, ..Config::default() };
    let mut ends = host.streams::<RdmapStream>([wish; 2]);
    let octets = pattern(200_000);
    let source = ends[1].register(200_008, 0, Access::ALL);
    assert!(source.region.copy_in(8, &octets));
    let sink = ends[0].register(200_000, 0, Access::LOCAL_WRITE);
    ends[1].stream.post_buffer(9, vec![0; 16]).unwrap();
    let stream = &mut ends[0].stream;
    stream.atomic(1, AtomicOp::FetchAdd { add: 3, mask: 0 }, (source.stag, 0)).unwrap();
    stream.read(2, (sink.stag, 0), (source.stag, 8), 200_000).unwrap();
    stream.send(3, b"done", false, None).unwrap();
    stream.shutdown();
    host.run(&mut ends, |ends| ends.iter().all(|end| end.events.contains(&RdmapEvent::Closed)));
    let done = |id, original| RdmapEvent::Completed { id, status: Status::Success, original };
    let expected =
        [done(1, Some(0)), done(2, None), done(3, None), RdmapEvent::PeerClosed, RdmapEvent::Closed];
    assert_eq!(ends[0].take(), expected);
    let received =
        RdmapEvent::Received { id: 9, buffer: b"done".to_vec(), solicited: false, invalidated: None };
    assert_eq!(ends[1].take(), [received, RdmapEvent::PeerClosed, RdmapEvent::Closed]);
    assert_eq!(contents(&sink), octets);
}
