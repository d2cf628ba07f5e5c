//! Both directions of one TCP connection, and what their startup frames agree on.

use std::collections::VecDeque;
use std::net::SocketAddr;

use super::fpdu::Framing;
use super::packet::{Checksum, TcpSegment};
use super::pcap::Stamp;
use super::reassembly::{Next, Piece, Reassembly};
use super::record::{Item, Note, Record};
use super::stream::Stream;
use super::ulp::Ulp;

/// A TCP connection that may carry iWARP.
#[derive(Debug)]
pub struct Connection {
    sides: [Side; 2],
    /// The framing of both sides is known, or will never be.
    settled: bool,
    /// Startup frames or FPDUs were found.
    iwarp: bool,
}

/// The octets that one end sends.
#[derive(Debug)]
struct Side {
    address: SocketAddr,
    reassembly: Reassembly,
    stream: Stream,
}

impl Connection {
    /// Returns a connection between two ends, before its first packet.
    pub fn new(a: SocketAddr, b: SocketAddr) -> Self {
        let side = |address| Side { address, reassembly: Reassembly::new(), stream: Stream::new() };
        Self { sides: [side(a), side(b)], settled: false, iwarp: false }
    }

    /// Takes the SYN flag of a segment. Returns false if it opens another connection between the same ends.
    pub fn handle_syn(&mut self, segment: &TcpSegment) -> bool {
        let from = self.sender(segment);
        self.sides[from].reassembly.handle_syn(segment.sequence)
    }

    /// Takes a segment, and appends to `records` all records that are complete now.
    pub fn handle_segment(&mut self, segment: &TcpSegment, stamp: Stamp, records: &mut VecDeque<Record>) {
        if self.sides.iter().all(|side| side.stream.is_ignored()) {
            return;
        }
        let from = self.sender(segment);
        // The acknowledgement comes first: it is about octets that went the other way before this segment.
        if segment.checksum == Checksum::Plausible
            && let Some(acknowledged) = segment.acknowledged
        {
            let other = &mut self.sides[1 - from];
            other.reassembly.handle_acknowledgement(acknowledged);
            other.read();
        }
        let side = &mut self.sides[from];
        let sequence = segment.sequence.wrapping_add(u32::from(segment.syn));
        let piece = Piece { data: segment.payload.clone(), stamp };
        side.reassembly.handle_segment(sequence, piece, segment.checksum);
        side.read();
        self.settle(false);
        self.collect(records);
    }

    /// Takes the end of the capture or the connection, and appends the last records to `records`.
    pub fn finish(&mut self, records: &mut VecDeque<Record>) {
        for side in &mut self.sides {
            side.reassembly.finish();
            side.read();
        }
        self.settle(true);
        for side in &mut self.sides {
            side.stream.finish();
        }
        self.collect(records);
    }

    /// Startup frames or FPDUs were found.
    pub const fn is_iwarp(&self) -> bool {
        self.iwarp
    }

    /// Returns true if the beginning of neither direction was captured.
    pub fn is_from_middle(&self) -> bool {
        self.sides.iter().all(|side| !side.reassembly.is_from_start())
    }

    fn sender(&self, segment: &TcpSegment) -> usize {
        usize::from(segment.src != self.sides[0].address)
    }

    /// Settles the framing by the rules of RFC 5044 section 7.1: CRC if either side wants it, Markers if the receiving
    /// side wants them.
    fn settle(&mut self, over: bool) {
        if self.settled {
            return;
        }
        let [a, b] = &mut self.sides;
        let (first, second) = match (a.stream.startup(), b.stream.startup()) {
            (Some(first), Some(second)) if first.role == second.role => {
                a.stream.note(Note::SameRole);
                return self.give_up();
            }
            (Some(first), Some(second)) => ((first.markers, first.crc), (second.markers, second.crc)),
            (Some(known), None) if over || a.stream.waiting() > PATIENCE || b.stream.is_startup_lost() => {
                let flags = ((known.markers, known.crc), (false, known.crc));
                a.stream.note(Note::HalfStart);
                flags
            }
            (None, Some(known)) if over || b.stream.waiting() > PATIENCE || a.stream.is_startup_lost() => {
                let flags = ((false, known.crc), (known.markers, known.crc));
                b.stream.note(Note::HalfStart);
                flags
            }
            _ => return,
        };
        // After a rejection the stream belongs to the ULP again.
        if [a, b].iter().any(|side| side.stream.startup().is_some_and(|startup| startup.reject)) {
            return self.give_up();
        }
        let crc = first.1 || second.1;
        self.settled = true;
        let startups = self.sides.iter().filter_map(|side| side.stream.startup());
        let ulps = startups.into_iter().map(|startup| Ulp::of(&startup.private_data));
        let ulp = ulps.into_iter().find(|ulp| *ulp != Ulp::Other).unwrap_or(Ulp::Other);
        self.sides[0].stream.begin(Framing { crc, markers: second.0 }, ulp);
        self.sides[1].stream.begin(Framing { crc, markers: first.0 }, ulp);
    }

    fn give_up(&mut self) {
        self.settled = true;
        for side in &mut self.sides {
            side.stream.ignore();
        }
    }

    fn collect(&mut self, records: &mut VecDeque<Record>) {
        for from in [0, 1] {
            let (src, dst) = (self.sides[from].address, self.sides[1 - from].address);
            while let Some((stamp, item)) = self.sides[from].stream.next_item() {
                let is_gap = matches!(item, Item::Note(Note::Gap { .. }));
                self.iwarp |= !is_gap;
                // Gaps matter in connections with iWARP only.
                if is_gap && !self.iwarp {
                    continue;
                }
                records.push_back(Record { stamp, src, dst, item });
            }
        }
    }
}

impl Side {
    /// Gives the stream all octets that are in order.
    fn read(&mut self) {
        while let Some(next) = self.reassembly.next() {
            match next {
                Next::Piece(piece) => self.stream.handle_octets(&piece, self.reassembly.is_from_start()),
                Next::Gap { octets, stamp } => self.stream.handle_gap(octets, stamp),
            }
        }
    }
}

/// Octets of one side that may wait for the other side's startup frame.
const PATIENCE: usize = 1 << 20;
