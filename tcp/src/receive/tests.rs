//! The receiver by the sections of the RFCs, and against a list of octets.

use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;

/// A stream from a peer whose SYN had the number 999.
struct Peer {
    receiver: Receiver<[Interval; 64]>,
    now: Micros,
}

impl Peer {
    fn new() -> Self {
        Self::with(&ReceiveConfig::default())
    }

    fn with(config: &ReceiveConfig) -> Self {
        let nothing = [Interval::new(Seq(0), Seq(0)); 64];
        let mut receiver = Receiver::new(config, 1000, Seq(999), nothing, Micros(0));
        receiver.established(1000, true, false, 7);
        let mut peer = Self { receiver, now: Micros(0) };
        peer.ack();
        peer
    }

    /// Sends the octets from `start` up to `end`, counted from the first one.
    fn sends(&mut self, start: u32, end: u32) -> Received {
        self.sends_with(start, end, Flags::NONE)
    }

    fn sends_with(&mut self, start: u32, end: u32, flags: Flags) -> Received {
        let segment = Segment { len: end - start, flags, ..Segment::new(Seq(1000) + start, Some(Seq(0))) };
        assert!(self.receiver.accepts(&segment) || self.receiver.window() == 0 || end <= self.seen());
        self.receiver.receive(&segment, self.now)
    }

    fn seen(&self) -> u32 {
        self.receiver.next().since(Seq(1000))
    }

    fn is_due(&self) -> bool {
        self.receiver.is_due(self.now)
    }

    /// Lets an ACK go, and returns its number and blocks.
    fn ack(&mut self) -> (u32, Vec<(u32, u32)>) {
        let mut segment = Segment::new(Seq(0), None);
        self.receiver.fill(&mut segment);
        segment.options.sack = self.receiver.blocks();
        self.receiver.sent(&segment);
        let number = |seq: Seq| seq.since(Seq(1000));
        let blocks = segment.options.sack.as_slice().iter();
        (number(segment.ack.unwrap()), blocks.map(|block| (number(block.start), number(block.end))).collect())
    }
}

const fn taken(offset: u32, len: u32, ready: u32) -> Received {
    Received { offset, len, ready, fin: false, refused: false }
}

/// RFC 2018 section 4: newest first; RFC 5681 section 4.2: at once.
// Covers 2018-4-2.
#[test]
fn octets_out_of_order_are_reported_newest_first() {
    let mut peer = Peer::new();
    assert_eq!(peer.sends(1000, 2000), taken(0, 1000, 0));
    assert!(peer.is_due());
    assert_eq!(peer.ack(), (0, vec![(1000, 2000)]));
    assert!(!peer.is_due());
    peer.sends(5000, 6000);
    peer.sends(3000, 4000);
    assert_eq!(peer.ack(), (0, vec![(3000, 4000), (5000, 6000), (1000, 2000)]));
    peer.sends(6000, 7000);
    peer.sends(9000, 9500);
    assert_eq!(peer.ack(), (0, vec![(9000, 9500), (5000, 7000), (3000, 4000), (1000, 2000)]));
    assert_eq!(peer.sends(0, 1000), taken(0, 1000, 2000), "the gap is closed up to the next one");
    assert!(peer.is_due());
    assert_eq!(peer.ack(), (2000, vec![(9000, 9500), (5000, 7000), (3000, 4000)]));
}

/// RFC 2883 section 4, its examples 1 to 4.
// Covers 2883-4-2.
#[test]
fn duplicates_are_reported_once_and_first() {
    let mut peer = Peer::new();
    peer.sends(0, 1000);
    peer.sends(0, 1000);
    assert_eq!(peer.ack(), (1000, vec![(0, 1000)]));
    assert_eq!(peer.ack(), (1000, vec![]), "once");
    peer.sends(2000, 3000);
    peer.sends(4000, 5000);
    peer.ack();
    assert_eq!(peer.sends(2000, 3000), taken(0, 0, 0));
    assert!(peer.is_due());
    assert_eq!(peer.ack(), (1000, vec![(2000, 3000), (2000, 3000), (4000, 5000)]), "in its block");
    assert_eq!(peer.sends(500, 1500), taken(500, 500, 500), "partly old");
    assert_eq!(peer.ack(), (1500, vec![(500, 1000), (2000, 3000), (4000, 5000)]));
    peer.sends(0, 500);
    peer.sends(500, 1000);
    assert_eq!(peer.ack().1[0], (0, 1000), "neighbors are one block");
}

/// RFC 9293 section 3.8.6.3: every second segment, else after a delay; counted in octets.
#[test]
fn the_second_segment_is_acknowledged_at_once_and_one_alone_later() {
    let mut peer = Peer::new();
    peer.sends(0, 1000);
    assert!(!peer.is_due());
    assert_eq!(peer.receiver.next_timeout(), Some(Micros::from_millis(10)));
    peer.sends(1000, 2000);
    assert!(peer.is_due());
    peer.ack();
    assert_eq!(peer.receiver.next_timeout(), None);
    peer.sends(2000, 4500);
    assert!(peer.is_due(), "a frame of merged segments");
    peer.ack();
    peer.sends(4500, 4600);
    peer.now = Micros::from_millis(10);
    assert!(peer.is_due());
    peer.ack();
    peer.now = Micros::from_millis(500);
    peer.sends_with(4600, 4700, Flags::PSH);
    assert!(peer.is_due(), "the first burst after silence");
}

/// RFC 5681 section 3.2: a sender without SACK counts ACKs.
#[test]
fn without_sack_each_segment_out_of_order_gets_an_ack() {
    let mut peer = Peer::new();
    peer.receiver.established(1000, false, false, 7);
    for index in 1..4 {
        peer.sends(index * 1000, (index + 1) * 1000);
    }
    for _ in 0..3 {
        assert!(peer.is_due());
        assert_eq!(peer.ack(), (0, vec![]));
    }
    assert!(!peer.is_due());
}

/// A data segment has no blocks of SACK, and so they go in an ACK of their own.
#[test]
fn a_segment_without_blocks_leaves_the_ack_due() {
    let mut peer = Peer::new();
    peer.sends(1000, 2000);
    let mut data = Segment::new(Seq(0), None);
    peer.receiver.fill(&mut data);
    peer.receiver.sent(&data);
    assert!(peer.is_due());
    peer.ack();
    assert!(!peer.is_due());
}

#[test]
fn the_fin_counts_in_its_turn_and_nothing_behind_it() {
    let mut peer = Peer::new();
    assert_eq!(peer.sends_with(1000, 2000, Flags::FIN), taken(0, 1000, 0));
    assert!(!peer.receiver.is_finished());
    assert_eq!(peer.ack(), (0, vec![(1000, 2001)]));
    assert_eq!(peer.sends(1500, 2500), taken(0, 0, 0), "behind the FIN");
    assert_eq!(peer.sends_with(1000, 1100, Flags::FIN), taken(0, 0, 0), "a second FIN");
    assert_eq!(peer.sends(0, 1000), Received { fin: true, ..taken(0, 1000, 2000) });
    assert!(peer.receiver.is_finished() && peer.is_due());
    assert_eq!(peer.seen(), 2001);
    let mut peer = Peer::new();
    peer.sends(1000, 2000);
    peer.sends_with(0, 500, Flags::FIN);
    assert_eq!(peer.sends(500, 1000), taken(0, 500, 1500), "a FIN in front of octets is none");
    assert!(!peer.receiver.is_finished());
}

/// RFC 7323 section 2.4 and RFC 9293 section 3.8.6.2.2.
// Covers 7323-2.4-2, 9293-SHLD-14.
#[test]
fn the_window_opens_by_worthwhile_steps_and_never_shrinks() {
    let mut peer = Peer::with(&ReceiveConfig { window: 4000, window_max: 4000, ..ReceiveConfig::default() });
    let right_edge = |peer: &Peer| peer.seen() + peer.receiver.window();
    assert_eq!(right_edge(&peer), 31 * 128);
    assert_eq!(peer.sends(0, 1000).len, 1000);
    peer.sends(1000, 2000);
    peer.ack();
    assert!((31 * 128..31 * 128 + 128).contains(&right_edge(&peer)), "rounding takes nothing back");
    assert!(peer.receiver.accepts(&Segment { len: 9000, ..Segment::new(Seq(3000), None) }));
    let edge = right_edge(&peer);
    assert_eq!(peer.sends(2000, 11_000), taken(0, edge - 2000, edge - 2000), "the rest is outside");
    peer.ack();
    assert_eq!(peer.receiver.window(), 0);
    assert!(!peer.receiver.accepts(&Segment { len: 1, ..Segment::new(Seq(1000) + edge, None) }));
    assert!(peer.receiver.accepts(&Segment::new(Seq(1000) + edge, None)), "an ACK is taken all the same");
    peer.receiver.consume(500, None, peer.now);
    assert!(!peer.is_due(), "less than a segment");
    peer.receiver.consume(700, None, peer.now);
    assert!(peer.is_due(), "a window update");
    peer.ack();
    assert_eq!(peer.receiver.window(), 1200 / 128 * 128);
}

/// RFC 7323 section 2.3: 1 GiB at most.
// Covers 7323-2.3-4.
#[test]
fn no_window_is_so_large_that_old_numbers_lie_in_it() {
    let mut peer =
        Peer::with(&ReceiveConfig { window: u32::MAX, window_max: u32::MAX, ..ReceiveConfig::default() });
    peer.receiver.established(1000, true, false, 14);
    peer.ack();
    assert_eq!(peer.receiver.window(), 65_535 << 14);
    assert!(!peer.receiver.accepts(&Segment { len: 1, ..Segment::new(Seq(1000) + (1 << 30), None) }));
}

#[test]
fn the_window_doubles_if_half_of_it_is_used_within_a_round_trip() {
    let config = ReceiveConfig { window: 4000, window_max: 16_000, ..ReceiveConfig::default() };
    let (rtt, mut peer) = (Some(Micros::from_millis(10)), Peer::with(&config));
    peer.receiver.established(1000, true, false, 0);
    let mut turn = |octets: u32, millis: u64| {
        let at = peer.seen();
        peer.sends(at, at + octets);
        peer.now = peer.now + Micros::from_millis(millis);
        peer.receiver.consume(octets, rtt, peer.now);
        peer.ack();
        peer.receiver.window()
    };
    assert_eq!(turn(2000, 10), 4000, "just half");
    assert_eq!(turn(1000, 5), 4000);
    assert_eq!(turn(1500, 5), 8000);
    assert_eq!(turn(2500, 10), 8000);
    assert_eq!(turn(7000, 10), 16_000);
    assert_eq!(turn(15_000, 10), 16_000, "never beyond the limit");
    let mut peer = Peer::with(&config);
    peer.receiver.established(1000, true, false, 0);
    peer.sends(0, 2900);
    peer.ack();
    peer.receiver.consume(2900, None, peer.now);
    peer.ack();
    assert_eq!(peer.receiver.window(), 4000);
    peer.sends(2900, 4000);
    peer.receiver.consume(1100, None, peer.now);
    peer.ack();
    assert_eq!(peer.receiver.window(), 8000, "one window is a round if nothing else is known");
}

#[test]
fn without_memory_nothing_is_taken_ahead_and_the_edge_stays() {
    let mut peer = Peer::new();
    peer.receiver.freeze(true);
    let before = peer.receiver.window();
    assert!(peer.sends(1000, 2000).refused && peer.is_due());
    assert_eq!(peer.sends(0, 2000), taken(0, 2000, 2000), "octets in order are taken");
    peer.receiver.consume(2000, None, peer.now);
    peer.ack();
    assert!(before - 2000 <= peer.receiver.window() && peer.receiver.window() < before - 2000 + 128);
    peer.receiver.freeze(false);
    peer.sends(3000, 4000);
    peer.sends_with(5000, 6000, Flags::FIN);
    peer.receiver.renege();
    assert_eq!(peer.ack(), (2000, vec![]));
    assert_eq!(peer.sends(2000, 6000), taken(0, 4000, 4000));
    assert!(!peer.receiver.is_finished(), "the FIN has to come again");
    assert!(peer.sends_with(6000, 6000, Flags::FIN).fin);
}

/// RFC 3168 section 6.1.3.
// Covers 3168-6.1.3-1.
#[test]
fn congestion_is_echoed_until_the_sender_has_reduced() {
    let mut peer = Peer::new();
    peer.receiver.established(1000, true, true, 7);
    let mut send = |ecn, flags| {
        let at = peer.receiver.next();
        let segment = Segment { len: 10, ecn, flags, ..Segment::new(at, None) };
        peer.receiver.receive(&segment, peer.now);
        let (mut ack, is_due) = (Segment::new(Seq(0), None), peer.is_due());
        peer.receiver.fill(&mut ack);
        peer.receiver.sent(&ack);
        (ack.flags.has(Flags::ECE), is_due)
    };
    assert_eq!(send(Ecn::Ect0, Flags::NONE), (false, false));
    assert_eq!(send(Ecn::Ce, Flags::NONE), (true, true));
    assert_eq!(send(Ecn::Ect0, Flags::NONE), (true, false));
    assert_eq!(send(Ecn::Ce, Flags::CWR), (true, false));
    assert_eq!(send(Ecn::Ect0, Flags::CWR), (false, true));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Any segments of a stream, against a list of octets.
    #[test]
    fn each_octet_is_taken_once_and_told_truly(
        start: u32, places in 0_usize..6, segments in proptest::collection::vec((0_u32..60, 0_u32..30, any::<bool>()), 0..60),
    ) {
        const END: u32 = 60;
        let config = ReceiveConfig { window: 1000, window_max: 1000, ..ReceiveConfig::default() };
        let base = Seq(start);
        let intervals = vec![Interval::new(base, base); places];
        let mut receiver = Receiver::new(&config, 10, base - 1, intervals, Micros(0));
        receiver.established(10, true, false, 0);
        let mut ack = Segment::new(Seq(0), None);
        receiver.fill(&mut ack);
        receiver.sent(&ack);
        let mut has = [false; END as usize + 1];
        let mut next = 0;
        for (from, len, sends_fin) in segments {
            let len = len.min(END - from);
            let flags = if sends_fin && from + len == END { Flags::FIN } else { Flags::NONE };
            let segment = Segment { len, flags, ..Segment::new(base + from, None) };
            let received = receiver.receive(&segment, Micros(0));
            prop_assert!(received.offset + received.len <= len);
            for octet in from + received.offset..from + received.offset + received.len {
                prop_assert!(!has[octet as usize], "octet {octet} is taken twice");
                has[octet as usize] = true;
            }
            let before = next;
            let told = receiver.next().since(base);
            while next < END && has[next as usize] { next += 1; }
            prop_assert_eq!(received.ready, next - before);
            prop_assert_eq!(told, next + u32::from(receiver.is_finished()));
            prop_assert!(received.fin <= receiver.is_finished());
            let is_new = segment.len > 0 && !(from..from + len).all(|octet| has[octet as usize]);
            prop_assert!(!is_new || received.refused || received.len > 0);
            for (index, block) in receiver.blocks().as_slice().iter().enumerate() {
                let range = block.start.since(base)..block.end.since(base);
                let known = |octet: u32| octet >= END || has[octet as usize];
                prop_assert!(range.clone().all(known), "block {index}, {range:?}");
                prop_assert!(index == 0 || range.start > told);
            }
            let last = receiver.blocks().as_slice().first().copied();
            if received.len > 0 && received.ready == 0 {
                let newest = Interval::new(base + from + received.offset, base + from + received.offset + received.len);
                let second = receiver.blocks().as_slice().get(1).copied();
                prop_assert!([last, second].into_iter().flatten().any(|block| block.contains(newest)));
            }
            let mut ack = Segment::new(Seq(0), None);
            receiver.fill(&mut ack);
            ack.options.sack = receiver.blocks();
            receiver.sent(&ack);
        }
    }
}
