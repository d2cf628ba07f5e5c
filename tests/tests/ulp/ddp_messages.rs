//! A ULP's calls to a DDP stream, and its events.

use weft_conform::octets::pattern;
use weft_rnic::Access;
use weft_rnic::ulp::{DdpEvent, DdpStream, PostError, Source};

use crate::line::{Both, LineConfig, contents, plain};

fn both() -> Both<DdpStream> {
    Both::new(LineConfig::default(), [plain(true, false); 2])
}

// Covers 5041-5.4-2, 5041-5.4-3, 5041-4.3-3, 5041-4.3-9.
#[test]
fn untagged_messages_fill_the_buffers_of_their_queue() {
    let mut both = both();
    let [a, b] = &mut both.ends;
    for (queue, id) in [(0, 10), (5, 50), (5, 51), (0, 11)] {
        b.stream.post_buffer(queue, id, vec![0xEE; 4000]).unwrap();
    }
    let long = pattern(4000);
    a.stream.send_untagged(1, 5, [1, 2, 3, 4, 5], b"fifth").unwrap();
    a.stream.send_untagged(2, 0, [0xFF; 5], long.clone()).unwrap();
    a.stream.send_untagged(3, 5, [0; 5], b"").unwrap();
    both.settle();
    let [a, b] = &mut both.ends;
    assert_eq!(a.take(), [1, 2, 3].map(|id| DdpEvent::Sent { id }));
    let untagged = |id, queue, msn, rsvd, buffer| DdpEvent::Untagged { id, queue, msn, rsvd, buffer };
    let expected = [
        untagged(50, 5, 1, [1, 2, 3, 4, 5], b"fifth".to_vec()),
        untagged(10, 0, 1, [0xFF; 5], long),
        untagged(51, 5, 2, [0; 5], Vec::new()),
    ];
    assert_eq!(b.take(), expected);
}

// Covers 5041-4.2-3, 5041-4.2-8, 5041-5.2-10, 5041-5.4-1.
#[test]
fn a_tagged_message_is_reported_with_its_range() {
    let mut both = both();
    let [a, b] = &mut both.ends;
    let sink = b.register(6000, 0x1_0000, Access::ALL);
    let long = pattern(5000);
    a.stream.send_tagged(1, (sink.stag, 0x1_0000 + 500), 0xA5, long.clone()).unwrap();
    a.stream.send_tagged(2, (sink.stag, 0x1_0000), 0x5A, b"head").unwrap();
    // A message without octets is not checked.
    a.stream.send_tagged(3, (weft_rnic::Stag(0xBAD), 9), 0, b"").unwrap();
    both.settle();
    let [a, b] = &mut both.ends;
    assert_eq!(a.take(), [1, 2, 3].map(|id| DdpEvent::Sent { id }));
    let tagged = |stag, to, rsvd| DdpEvent::Tagged { stag, to, rsvd };
    let start = 0x1_0000;
    let expected = [
        tagged(sink.stag, start + 500..start + 5500, 0xA5),
        tagged(sink.stag, start..start + 4, 0x5A),
        tagged(weft_rnic::Stag(0xBAD), 9..9, 0),
    ];
    assert_eq!(b.take(), expected);
    let octets = contents(&sink);
    assert_eq!(&octets[..4], b"head");
    assert_eq!(&octets[500..5500], long);
    assert!(octets[4..500].iter().chain(&octets[5500..]).all(|octet| *octet == 0));
}

#[test]
fn a_source_may_be_registered_memory() {
    let mut both = both();
    let [a, b] = &mut both.ends;
    let source = a.register(3000, 0, Access::LOCAL_READ);
    assert!(source.region.copy_in(0, &pattern(3000)));
    b.stream.post_buffer(0, 7, vec![0; 3000]).unwrap();
    let memory = |to, len| Source::Memory { stag: source.stag, to, len };
    a.stream.send_untagged(1, 0, [0; 5], memory(100, 2900)).unwrap();
    // This source ends outside of its memory. Only this message is not sent, and it takes no sequence number.
    a.stream.send_untagged(2, 0, [0; 5], memory(100, 2901)).unwrap();
    a.stream.send_untagged(3, 0, [0; 5], memory(0, 3)).unwrap();
    b.stream.post_buffer(0, 8, vec![0; 3]).unwrap();
    both.settle();
    let [a, b] = &mut both.ends;
    let sent = |id| DdpEvent::Sent { id };
    assert_eq!(a.take(), [sent(1), DdpEvent::Unsent { id: 2 }, sent(3)]);
    let [DdpEvent::Untagged { buffer: first, .. }, DdpEvent::Untagged { msn: 2, buffer: second, .. }] =
        &b.take()[..]
    else {
        panic!("two messages");
    };
    assert_eq!((&first[..], &second[..]), (&pattern(3000)[100..], &pattern(3)[..]));
}

// Covers 5041-4.3-10.
#[test]
fn sequence_numbers_wrap() {
    let mut line = crate::line::Line::new(LineConfig::default());
    let agreements = crate::line::start(&mut line, [plain(true, true); 2]);
    let mut ends = agreements.each_ref().map(crate::line::End::<DdpStream>::new);
    for (end, agreement) in ends.iter_mut().zip(&agreements) {
        end.stream = DdpStream::with_msn(agreement, end.association, 1, u32::MAX - 1).unwrap();
    }
    let mut both = Both { line, ends };
    for id in 0..4 {
        both.ends[1].stream.post_buffer(0, id, vec![0; 8]).unwrap();
        both.ends[0].stream.send_untagged(id, 0, [0; 5], b"wrap").unwrap();
    }
    both.settle();
    let numbers: Vec<u32> = both.ends[1]
        .take()
        .iter()
        .map(|event| match event {
            DdpEvent::Untagged { msn, .. } => *msn,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(numbers, [u32::MAX - 1, u32::MAX, 0, 1]);
}

/// A message of the largest size is one segment, and one octet more makes two: with and without Markers, for any size
/// of TCP's segments.
// Covers 5041-3-1, 5041-5.2-1.
#[test]
fn the_largest_messages_of_one_segment() {
    for (mtu, markers) in
        [(1500, false), (1500, true), (1499, false), (1281, true), (9000, true), (577, true)]
    {
        let config = LineConfig { mtu, ..LineConfig::default() };
        let mut both = Both::<DdpStream>::new(config, [plain(true, markers); 2]);
        let sink = both.ends[1].register(20_000, 0, Access::ALL);
        let llp = both.line.llp(0);
        let emss = llp.emss();
        // The own TCP sends timestamps.
        assert!([mtu - 40, mtu - 52].contains(&emss), "{emss}");
        let stream = &both.ends[0].stream;
        let (untagged, tagged) = (stream.max_untagged(&llp), stream.max_tagged(&llp));
        let mulpdu = emss - 6 - emss % 4 - if markers { 4 * emss.div_ceil(512) } else { 0 };
        assert_eq!((untagged, tagged), (mulpdu - 18, mulpdu - 14), "MTU {mtu}, Markers {markers}");
        for (id, len) in [(0, untagged), (1, untagged + 1)] {
            both.ends[1].stream.post_buffer(0, id, vec![0; len]).unwrap();
            both.ends[0].stream.send_untagged(id, 0, [0; 5], pattern(len)).unwrap();
        }
        for (id, len) in [(2, tagged), (3, tagged + 1)] {
            both.ends[0].stream.send_tagged(id, (sink.stag, 0), 0, pattern(len)).unwrap();
        }
        let counted = crate::peer::segments_sent(&mut both);
        assert_eq!(counted, [1, 2, 1, 2], "MTU {mtu}, Markers {markers}");
    }
}

// Covers 5041-6.2.1-2, 5041-6.2.1-5, 5041-6.2.1-6.
#[test]
fn unknown_queues_and_late_messages_are_refused_at_the_call() {
    let mut both = both();
    let stream = &mut both.ends[0].stream;
    assert_eq!(stream.post_buffer(6, 0, Vec::new()), Err(PostError::UnknownQueue));
    assert_eq!(stream.send_untagged(0, 6, [0; 5], b"x"), Err(PostError::UnknownQueue));
    stream.post_buffer(0, 1, vec![0; 8]).unwrap();
    stream.send_untagged(4, 1, [0; 5], b"").unwrap();
    stream.shutdown();
    assert_eq!(stream.send_untagged(0, 0, [0; 5], b"x"), Err(PostError::Closed));
    assert_eq!(stream.send_tagged(0, (weft_rnic::Stag(1), 0), 0, b"x"), Err(PostError::Closed));
    // The other direction is open.
    stream.post_buffer(0, 2, vec![0; 8]).unwrap();
    both.ends[1].stream.post_buffer(1, 5, Vec::new()).unwrap();
    both.settle();
    both.ends[1].stream.send_untagged(9, 0, [0; 5], b"still").unwrap();
    both.ends[1].stream.shutdown();
    both.settle();
    let [a, b] = &mut both.ends;
    let empty = DdpEvent::Untagged { id: 5, queue: 1, msn: 1, rsvd: [0; 5], buffer: Vec::new() };
    assert_eq!(b.take(), [empty, DdpEvent::PeerClosed, DdpEvent::Sent { id: 9 }, DdpEvent::Closed]);
    let heard = DdpEvent::Untagged { id: 1, queue: 0, msn: 1, rsvd: [0; 5], buffer: b"still".to_vec() };
    let returned = DdpEvent::Returned { id: 2, queue: 0, buffer: vec![0; 8] };
    assert_eq!(a.take(), [DdpEvent::Sent { id: 4 }, heard, DdpEvent::PeerClosed, returned, DdpEvent::Closed]);
    assert_eq!(a.stream.post_buffer(0, 3, Vec::new()), Err(PostError::Closed));
}

/// More octets than TCP holds, and then the end: every octet arrives before it.
// Covers 5041-6.2.1-1, 5041-6.2.1-4, 5041-6.2.1-7, 5044-7.2-2.
#[test]
fn a_graceful_end_comes_behind_all_posted_messages() {
    let mut both = Both::<DdpStream>::new(
        LineConfig { tcp_buffer: 8192, ..LineConfig::default() },
        [plain(true, false); 2],
    );
    let octets = pattern(100_000);
    both.ends[1].stream.post_buffer(3, 1, vec![0; 100_000]).unwrap();
    both.ends[0].stream.send_untagged(1, 3, [0; 5], octets.clone()).unwrap();
    both.ends[0].stream.send_tagged(2, (weft_rnic::Stag(5), 0), 9, b"").unwrap();
    both.ends[0].stream.shutdown();
    both.settle();
    let [a, b] = &mut both.ends;
    assert_eq!(a.take(), [DdpEvent::Sent { id: 1 }, DdpEvent::Sent { id: 2 }]);
    let expected = [
        DdpEvent::Untagged { id: 1, queue: 3, msn: 1, rsvd: [0; 5], buffer: octets },
        DdpEvent::Tagged { stag: weft_rnic::Stag(5), to: 0..0, rsvd: 9 },
        DdpEvent::PeerClosed,
    ];
    assert_eq!(b.take(), expected);
    // Half-closed: the other direction still works.
    a.stream.post_buffer(0, 4, vec![0; 4]).unwrap();
    b.stream.send_untagged(5, 0, [0; 5], b"back").unwrap();
    both.settle();
    assert_eq!(both.ends[1].take(), [DdpEvent::Sent { id: 5 }]);
    assert!(
        matches!(&both.ends[0].take()[..], [DdpEvent::Untagged { id: 4, buffer, .. }] if buffer == b"back")
    );
}
