//! A ULP's calls to an RDMAP stream, its events, and the octets on the wire.

use weft_conform::octets::{
    Framing, Place, fpdu, hex, pattern, read_request, send, send_invalidate, tagged, write,
};
use weft_mpa::{Config, RtrSet};
use weft_rdmap::AtomicOp;
use weft_rnic::ulp::{PostError, RdmapEvent, RdmapStream, Source};
use weft_rnic::{Access, Stag, Status};

use crate::line::{Both, LineConfig, contents, plain};
use crate::peer::{REQUEST, Scripted};

const WISH: Config = Config {
    crc: true,
    markers: false,
    enhanced: true,
    ird: 2,
    ord: 2,
    peer_to_peer: false,
    rtr: RtrSet::ALL,
};

fn both() -> Both<RdmapStream> {
    Both::new(LineConfig::default(), [WISH; 2])
}

const fn done(id: u64) -> RdmapEvent {
    RdmapEvent::Completed { id, status: Status::Success, original: None }
}

fn received(id: u64, buffer: &[u8]) -> RdmapEvent {
    RdmapEvent::Received { id, buffer: buffer.to_vec(), solicited: false, invalidated: None }
}

/// Each operation, and the events of both ULPs.
// Covers 5040-3.2-1, 5040-3.2-2, 5040-3.2-4, 5040-3.2-7.
#[test]
fn every_operation_of_both_rfcs() {
    let mut both = both();
    let [a, b] = &mut both.ends;
    let sink = a.register(5000, 0x700, Access::LOCAL_WRITE);
    let shared = b.register(6000, 0x1_0000, Access::ALL);
    let lent = b.register(8, 0, Access::ALL);
    for id in 0..4 {
        b.stream.post_buffer(id, vec![0; 3000]).unwrap();
    }
    let octets = pattern(3000);
    let add = AtomicOp::FetchAdd { add: 5, mask: 0 };
    let swap = AtomicOp::CompareSwap { swap: 9, swap_mask: u64::MAX, compare: 5, compare_mask: u64::MAX };
    let stream = &mut a.stream;
    stream.send(1, octets.clone(), false, None).unwrap();
    stream.send(2, b"", true, None).unwrap();
    stream.write(3, (shared.stag, 0x1_0000 + 8), octets.clone()).unwrap();
    stream.read(4, (sink.stag, 0x700 + 10), (shared.stag, 0x1_0000 + 8), 2500).unwrap();
    stream.atomic(5, add, (shared.stag, 0x1_0000)).unwrap();
    stream.atomic(6, swap, (shared.stag, 0x1_0000)).unwrap();
    stream.immediate(7, *b"8 octets", true).unwrap();
    stream.send(8, b"out of use", true, Some(lent.stag)).unwrap();
    both.settle();
    let [a, b] = &mut both.ends;
    let atomic =
        |id, original| RdmapEvent::Completed { id, status: Status::Success, original: Some(original) };
    assert_eq!(a.take(), [done(1), done(2), done(3), done(4), atomic(5, 0), atomic(6, 5), done(7), done(8)]);
    let solicited = |id, buffer: &[u8], invalidated| RdmapEvent::Received {
        id,
        buffer: buffer.to_vec(),
        solicited: true,
        invalidated,
    };
    let immediate = RdmapEvent::Immediate { id: 2, buffer: Vec::new(), data: *b"8 octets", solicited: true };
    let expected = [
        received(0, &octets),
        solicited(1, b"", None),
        immediate,
        solicited(3, b"out of use", Some(lent.stag)),
    ];
    assert_eq!(b.take(), expected);
    assert!(lent.is_invalidated() && !shared.is_invalidated());
    assert_eq!(&contents(&sink)[10..2510], &octets[..2500]);
    let shared = contents(&shared);
    assert_eq!(shared[..8], 9_u64.to_ne_bytes());
    assert_eq!(&shared[8..3008], octets);
}

/// An initiator's octets are the same as those of a queue pair.
// Covers 5040-3.1-4, 5040-4.2-1.
#[test]
fn the_octets_of_requests() {
    for markers in [false, true] {
        let mut world = Scripted::<RdmapStream>::initiator(true, markers);
        let sink = world.end.register(64, 0x200, Access::LOCAL_WRITE);
        let stream = &mut world.end.stream;
        stream.send(1, b"hello", false, None).unwrap();
        stream.send(2, b"bye", false, Some(Stag(0x1122_3344))).unwrap();
        stream.write(3, (Stag(0x100), 0x1000), b"12345678").unwrap();
        stream.write(4, (Stag(0), 0), b"").unwrap();
        stream.read(5, (sink.stag, 0x208), (Stag(0x100), 0x1000), 8).unwrap();
        let mut framing = Framing::new(true, markers);
        let ulpdus = [
            send(1, b"hello"),
            send_invalidate(2, 0x1122_3344, b"bye"),
            write(0x100, 0x1000, b"12345678"),
            write(0, 0, b""),
            read_request(1, Place(sink.stag.0, 0x208), 8, Place(0x100, 0x1000)),
        ];
        let expected: Vec<u8> = ulpdus.iter().flat_map(|ulpdu| framing.fpdu(ulpdu)).collect();
        world.expect(&expected);
        assert_eq!(world.end.take(), [1, 2, 3, 4].map(done));
        world.send(&tagged("C142", sink.stag.0, 0x208, b"abcdefgh"));
        assert_eq!(world.end.take(), [done(5)]);
        assert_eq!(&contents(&sink)[8..16], b"abcdefgh");
    }
}

/// A completion waits for earlier ones, although its own message is in TCP.
// Covers 5040-5.5-11, 5040-5.5-15.
#[test]
fn completions_come_in_the_order_of_the_requests() {
    let mut world = Scripted::<RdmapStream>::initiator(true, false);
    let sink = world.end.register(8, 0, Access::LOCAL_WRITE);
    world.end.stream.read(1, (sink.stag, 0), (Stag(5), 0), 4).unwrap();
    world.end.stream.send(2, b"behind", false, None).unwrap();
    let request = read_request(1, Place(sink.stag.0, 0), 4, Place(5, 0));
    world.expect(&[fpdu(&request), fpdu(&send(1, b"behind"))].concat());
    assert_eq!(world.end.take(), []);
    world.send(&tagged("C142", sink.stag.0, 0, b"read"));
    assert_eq!(world.end.take(), [done(1), done(2)]);
}

/// The stream answers the peer's requests without an event for the ULP.
// Covers 5040-3.2-8, 5040-5.2.1-12.
#[test]
fn a_read_of_the_peer_is_answered() {
    let mut world = Scripted::<RdmapStream>::responder(plain(true, false), &hex(REQUEST));
    let source = world.end.register(16, 0x30, Access::REMOTE_READ);
    assert!(source.region.copy_in(0, b"0123456789abcdef"));
    world.send(&read_request(1, Place(9, 0x90), 6, Place(source.stag.0, 0x34)));
    world.expect(&fpdu(&tagged("C142", 9, 0x90, b"456789")));
    assert_eq!(world.end.take(), []);
}

/// In the peer-to-peer start the initiator's first message is RDMAP's own, and neither ULP gets an event.
// Covers 6581-9.2-9, 6581-9.2-16.
#[test]
fn a_peer_to_peer_start_is_hidden() {
    for rtr in [
        RtrSet { send: true, ..RtrSet::default() },
        RtrSet { write: true, ..RtrSet::default() },
        RtrSet { read: true, ..RtrSet::default() },
    ] {
        let wish = Config { peer_to_peer: true, rtr, ..WISH };
        let mut both = Both::<RdmapStream>::new(LineConfig::default(), [wish; 2]);
        both.ends[0].stream.post_buffer(1, vec![0; 9]).unwrap();
        // Without that message the responder could not send first.
        both.ends[1].stream.send(2, b"may send", false, None).unwrap();
        both.settle();
        assert_eq!(both.ends[0].take(), [received(1, b"may send")], "{rtr:?}");
        assert_eq!(both.ends[1].take(), [done(2)], "{rtr:?}");
    }
}

/// Reads beyond the limit wait for earlier ones. Without any ORD the call refuses them.
// Covers 5040-6.1-4, 5040-8.1.1-13.
#[test]
fn reads_keep_to_the_ord() {
    let mut both = both();
    let source = both.ends[1].register(4096, 0, Access::REMOTE_READ);
    assert!(source.region.copy_in(0, &pattern(4096)));
    let sink = both.ends[0].register(4096, 0, Access::LOCAL_WRITE);
    for id in 0..32 {
        both.ends[0].stream.read(id, (sink.stag, id * 128), (source.stag, id * 128), 128).unwrap();
    }
    both.settle();
    assert_eq!(both.ends[0].take(), (0..32).map(done).collect::<Vec<_>>());
    assert_eq!(contents(&sink), pattern(4096));

    let none = Config { ird: 0, ord: 0, ..WISH };
    let mut both = Both::<RdmapStream>::new(LineConfig::default(), [none; 2]);
    let stream = &mut both.ends[0].stream;
    assert_eq!(stream.read(1, (sink.stag, 0), (source.stag, 0), 1), Err(PostError::NoReads));
    let add = AtomicOp::FetchAdd { add: 1, mask: 0 };
    assert_eq!(stream.atomic(1, add, (source.stag, 0)), Err(PostError::NoReads));
}

// Covers 5041-3-1.
#[test]
fn the_largest_messages_of_one_segment() {
    for (mtu, markers) in [(1500, false), (1500, true), (1279, true), (577, false)] {
        let config = LineConfig { mtu, ..LineConfig::default() };
        let wish = Config { markers, ..WISH };
        let mut both = Both::<RdmapStream>::new(config, [wish; 2]);
        let llp = both.line.llp(0);
        let stream = &both.ends[0].stream;
        let emss = llp.emss();
        let mulpdu = emss - 6 - emss % 4 - if markers { 4 * emss.div_ceil(512) } else { 0 };
        assert_eq!((stream.max_send(&llp), stream.max_write(&llp)), (mulpdu - 18, mulpdu - 14));
        // As long as that, from registered memory, both arrive.
        let sink = both.ends[1].register(9000, 0, Access::ALL);
        let source = both.ends[0].register(9000, 0, Access::LOCAL_READ);
        assert!(source.region.copy_in(0, &pattern(9000)));
        let len = u32::try_from(mulpdu).unwrap() - 14;
        let memory = Source::Memory { stag: source.stag, to: 0, len };
        both.ends[0].stream.write(1, (sink.stag, 0), memory).unwrap();
        both.settle();
        assert_eq!(both.ends[0].take(), [done(1)]);
        assert_eq!(contents(&sink)[..mulpdu - 14], pattern(9000)[..mulpdu - 14]);
    }
}

/// One end begins a graceful end while messages are under way, one of them an answer to it. All arrive before the
/// end.
// Covers 5041-6.2.1-1, 5041-6.2.1-2.
#[test]
fn a_graceful_end_comes_behind_all_requests() {
    let config = LineConfig { tcp_buffer: 8192, ..LineConfig::default() };
    let mut both = Both::<RdmapStream>::new(config, [WISH; 2]);
    let octets = pattern(60_000);
    let source = both.ends[1].register(60_000, 0, Access::REMOTE_READ);
    assert!(source.region.copy_in(0, &octets));
    let [a, b] = &mut both.ends;
    let sink = a.register(60_000, 0, Access::LOCAL_WRITE);
    b.stream.post_buffer(9, vec![0; 60_000]).unwrap();
    a.stream.send(1, octets.clone(), false, None).unwrap();
    a.stream.read(2, (sink.stag, 0), (source.stag, 0), 60_000).unwrap();
    a.stream.shutdown();
    assert_eq!(a.stream.send(3, b"late", false, None), Err(PostError::Closed));
    both.settle();
    let [a, b] = &mut both.ends;
    assert_eq!(a.take(), [done(1), done(2), RdmapEvent::PeerClosed, RdmapEvent::Closed]);
    assert_eq!(b.take(), [received(9, &octets), RdmapEvent::PeerClosed, RdmapEvent::Closed]);
    assert_eq!(contents(&sink), octets);
    assert_eq!(a.stream.post_buffer(1, Vec::new()), Err(PostError::Closed));
}
