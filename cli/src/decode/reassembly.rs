//! One direction of a TCP connection, put back in order by sequence number.

use std::collections::BTreeMap;

use bytes::{Buf, Bytes};

use super::packet::Checksum;
use super::pcap::Stamp;

/// The octets of one direction, each of them once, and the gaps that the capture left.
///
/// `handle_*` take captured segments, [`Reassembly::next`] returns octets in order. Of repeated octets the first copy
/// counts. Later octets are held until the gap before them is filled or known to stay: the peer has acknowledged it
/// several times, too many octets are held, or the capture is over.
#[derive(Debug, Default)]
pub struct Reassembly {
    /// The sequence number of the octet at `position`; `None` before the first segment.
    expected: Option<u32>,
    /// Octets handed out or given up so far: the sequence number without its wrap.
    position: u64,
    /// The first octet's sequence number, if a SYN told it.
    first: Option<u32>,
    held: Store,
    /// Segments with a bad checksum, used only if no good copy comes.
    doubtful: Store,
    acknowledged: u64,
    /// How often the peer has acknowledged octets beyond the gap at `position`.
    patience_used: u32,
    over: bool,
}

/// Octets of one TCP segment with the stamp of their packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// The octets.
    pub data: Bytes,
    /// The packet that brought them.
    pub stamp: Stamp,
}

/// The next octets in order, or the next gap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Octets that follow the earlier ones.
    Piece(Piece),
    /// A gap of octets that were not captured.
    Gap {
        /// How many.
        octets: u64,
        /// The packet with the first octets behind the gap.
        stamp: Stamp,
    },
}

impl Reassembly {
    /// Returns a direction before its first packet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a SYN: the stream begins behind it. Returns false if another stream is already under way here: the
    /// addresses have a new connection.
    pub fn handle_syn(&mut self, sequence: u32) -> bool {
        let first = sequence.wrapping_add(1);
        if self.expected.is_none() {
            self.expected = Some(first);
            self.first = Some(first);
        }
        self.first == Some(first)
    }

    /// Takes the payload of one segment. `sequence` is the number of its first octet.
    pub fn handle_segment(&mut self, sequence: u32, mut piece: Piece, checksum: Checksum) {
        if piece.data.is_empty() {
            return;
        }
        let expected = *self.expected.get_or_insert(sequence);
        let ahead = distance(expected, sequence);
        let repeated = usize::try_from(-ahead).unwrap_or(0);
        if repeated >= piece.data.len() {
            return;
        }
        piece.data.advance(repeated);
        let at = self.position + u64::try_from(ahead).unwrap_or(0);
        match checksum {
            Checksum::Plausible => self.held.insert(at, piece),
            Checksum::Bad => self.doubtful.insert(at, piece),
        }
    }

    /// Takes the acknowledgement number of a segment that goes the other way.
    pub fn handle_acknowledgement(&mut self, acknowledged: u32) {
        let Some(expected) = self.expected else { return };
        let Ok(ahead) = u64::try_from(distance(expected, acknowledged)) else { return };
        self.acknowledged = self.acknowledged.max(self.position + ahead);
        if ahead > 0 && !self.held.is_empty() {
            self.patience_used += 1;
        }
    }

    /// Takes the end of the capture or the connection: missing octets will not come.
    pub const fn finish(&mut self) {
        self.over = true;
    }

    /// Returns the next octets in order or the next gap, and `None` until more is captured.
    #[expect(clippy::should_implement_trait, reason = "not an iterator: None is not the end")]
    pub fn next(&mut self) -> Option<Next> {
        if let Some(piece) = self.held.take(self.position) {
            return Some(self.hand_out(piece));
        }
        // The receiver has these octets, so no good copy will come. A bad copy shows more than a gap.
        let doubtful_is_best = self.acknowledged > self.position || self.is_gap_final();
        if doubtful_is_best && let Some(piece) = self.doubtful.take(self.position) {
            return Some(self.hand_out(piece));
        }
        if !self.is_gap_final() {
            return None;
        }
        let (resume, stamp) = [self.held.first(), self.doubtful.first()].into_iter().flatten().min()?;
        let octets = resume - self.position;
        self.advance(octets);
        Some(Next::Gap { octets, stamp })
    }

    /// Returns true after a SYN: the first octet here is the stream's first.
    pub const fn is_from_start(&self) -> bool {
        self.first.is_some()
    }

    fn hand_out(&mut self, piece: Piece) -> Next {
        self.advance(piece.data.len() as u64);
        Next::Piece(piece)
    }

    #[expect(clippy::cast_possible_truncation, reason = "sequence numbers count modulo 2^32")]
    fn advance(&mut self, octets: u64) {
        self.position += octets;
        self.expected = self.expected.map(|expected| expected.wrapping_add(octets as u32));
        self.patience_used = 0;
        self.doubtful.forget(self.position);
    }

    const fn is_gap_final(&self) -> bool {
        self.over || self.patience_used >= PATIENCE || self.held.is_full() || self.doubtful.is_full()
    }
}

/// Pieces by the position of their first octet. They may overlap.
#[derive(Debug, Default)]
struct Store {
    pieces: BTreeMap<u64, Piece>,
    octets: usize,
}

impl Store {
    /// Adds a piece. Of two pieces that begin at the same octet the longer one stays, and the first of two equal ones.
    fn insert(&mut self, at: u64, piece: Piece) {
        let len = piece.data.len();
        match self.pieces.get_mut(&at) {
            Some(other) if other.data.len() >= len => {}
            Some(other) => {
                self.octets += len - other.data.len();
                *other = piece;
            }
            None => {
                self.octets += len;
                self.pieces.insert(at, piece);
            }
        }
    }

    /// Returns the octets from `position` on, if they are here. Drops pieces that lie before it.
    fn take(&mut self, position: u64) -> Option<Piece> {
        while let Some(entry) = self.pieces.first_entry() {
            if *entry.key() > position {
                return None;
            }
            let (at, mut piece) = entry.remove_entry();
            self.octets -= piece.data.len();
            let repeated = usize::try_from(position - at).unwrap_or(usize::MAX);
            if repeated < piece.data.len() {
                piece.data.advance(repeated);
                return Some(piece);
            }
        }
        None
    }

    /// Drops pieces that end before `position`.
    fn forget(&mut self, position: u64) {
        while let Some(entry) = self.pieces.first_entry()
            && entry.key() + entry.get().data.len() as u64 <= position
        {
            self.octets -= entry.remove().data.len();
        }
    }

    fn first(&self) -> Option<(u64, Stamp)> {
        self.pieces.first_key_value().map(|(&at, piece)| (at, piece.stamp))
    }

    fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    const fn is_full(&self) -> bool {
        self.octets > HELD_OCTETS
    }
}

/// Returns how far `to` lies ahead of `from` in sequence space; negative if behind.
fn distance(from: u32, to: u32) -> i64 {
    i64::from(to.wrapping_sub(from).cast_signed())
}

/// Acknowledgements of a gap that prove that the capture has missed it. One is not enough: captures of several queues
/// or interfaces are a little out of order themselves.
const PATIENCE: u32 = 16;

/// More than any TCP window in use. A direction that holds more has a gap that will not be filled.
const HELD_OCTETS: usize = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(data: &'static [u8]) -> Piece {
        Piece { data: Bytes::from_static(data), stamp: Stamp::default() }
    }

    /// Returns the octets that are in order now, with `<n>` for a gap of n octets.
    fn drain(stream: &mut Reassembly) -> String {
        let mut out = String::new();
        while let Some(next) = stream.next() {
            match next {
                Next::Piece(piece) => out.push_str(std::str::from_utf8(&piece.data).unwrap()),
                Next::Gap { octets, .. } => out.push_str(&format!("<{octets}>")),
            }
        }
        out
    }

    fn started(sequence: u32) -> Reassembly {
        let mut stream = Reassembly::new();
        assert!(stream.handle_syn(sequence));
        stream
    }

    #[test]
    fn reordered_repeated_and_overlapping_octets_across_the_wrap() {
        let start = u32::MAX - 3;
        let mut stream = started(start);
        let mut out = String::new();
        for (at, data) in [(1, "ab"), (7, "ghi"), (5, "efg"), (1, "abc"), (2, "bcde"), (0, "?a"), (10, "j")] {
            stream.handle_segment(start.wrapping_add(at), piece(data.as_bytes()), Checksum::Plausible);
            out.push_str(&drain(&mut stream));
        }
        assert_eq!(out, "abcdefghij");
    }

    #[test]
    fn a_gap_stays_open_until_acknowledged_often_enough() {
        let mut stream = started(99);
        stream.handle_segment(103, piece(b"defg"), Checksum::Plausible);
        for _ in 0..PATIENCE - 1 {
            stream.handle_acknowledgement(107);
        }
        assert_eq!(drain(&mut stream), "");
        stream.handle_acknowledgement(107);
        assert_eq!(drain(&mut stream), "<3>defg");
        stream.handle_segment(100, piece(b"abc"), Checksum::Plausible);
        assert_eq!(drain(&mut stream), "", "too late");
    }

    #[test]
    fn the_end_gives_all_gaps_up() {
        let mut stream = Reassembly::new();
        stream.handle_segment(7, piece(b"a"), Checksum::Plausible);
        stream.handle_segment(10, piece(b"d"), Checksum::Plausible);
        stream.handle_segment(20, piece(b"n"), Checksum::Plausible);
        assert_eq!(drain(&mut stream), "a");
        stream.finish();
        assert_eq!(drain(&mut stream), "<2>d<9>n");
        assert!(!stream.is_from_start());
    }

    #[test]
    fn a_bad_checksum_counts_only_without_a_better_copy() {
        let mut stream = started(0);
        stream.handle_segment(1, piece(b"xy"), Checksum::Bad);
        assert_eq!(drain(&mut stream), "");
        stream.handle_segment(1, piece(b"ab"), Checksum::Plausible);
        stream.handle_segment(3, piece(b"z"), Checksum::Bad);
        assert_eq!(drain(&mut stream), "ab");
        stream.handle_acknowledgement(4);
        assert_eq!(drain(&mut stream), "z");
    }

    #[test]
    fn too_many_held_octets_give_the_gap_up() {
        static BLOCK: [u8; 65536] = [b'.'; 65536];
        let mut stream = started(0);
        let blocks = u32::try_from(HELD_OCTETS / BLOCK.len()).unwrap();
        for block in 0..blocks {
            stream.handle_segment(2 + block * 65536, piece(&BLOCK), Checksum::Plausible);
        }
        assert_eq!(stream.next(), None);
        stream.handle_segment(2 + blocks * 65536, piece(&BLOCK), Checksum::Plausible);
        assert_eq!(stream.next(), Some(Next::Gap { octets: 1, stamp: Stamp::default() }));
    }

    #[test]
    fn another_syn_is_another_connection() {
        let mut stream = started(5);
        assert!(stream.handle_syn(5), "repeated");
        assert!(!stream.handle_syn(6));
        assert!(stream.is_from_start());
    }
}
