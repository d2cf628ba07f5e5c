//! One direction of an MPA connection: startup frame, then FPDUs, found again after gaps and damage.

use std::collections::VecDeque;

use bytes::{Buf, BytesMut};

use super::fpdu::{Crc, Framing};
use super::pcap::Stamp;
use super::reassembly::Piece;
use super::record::{Item, Note};
use super::segment::{Address, Detail, Header, Kind, Segment};
use super::startup::{self, Reading, Startup};
use super::ulp::{Said, Ulp};
use super::{exs, group, lane};

/// The reader of one direction. `handle_*` take octets in order, [`Stream::next_item`] returns the items in them.
///
/// ```text
///             own frame read            both frames known
///   Opening ─────────────────► Settling ─────────────────► Framed ◄──┐
///      │ no frame at the start                 gap, damage   │       │ an FPDU that proves itself
///      ├──────────────────────────────► Searching ◄──────────┴───────┘
///      └► Ignored                        (not found: Ignored)
/// ```
#[derive(Debug)]
pub struct Stream {
    phase: Phase,
    startup: Option<Startup>,
    buffer: BytesMut,
    /// Octets of the stream before `buffer`, including lost ones.
    start: u64,
    /// The place where the first FPDU begins. Markers count from here.
    origin: u64,
    /// The latest packet with octets.
    stamp: Stamp,
    /// No more octets will come.
    over: bool,
    /// Who talks on the connection.
    ulp: Ulp,
    items: VecDeque<(Stamp, Item)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The startup frame has not come. So many octets were no part of it.
    Opening { other: usize },
    /// The own startup frame is read. The other side's decides about CRC and Markers.
    Settling { torn: bool },
    /// The next octets are an FPDU.
    Framed { framing: Framing, skip: u64, doubt: bool },
    /// The place of the next FPDU is not known.
    Searching { framing: Framing, step: u64, skipped: u64, blind: bool },
    /// The direction is not iWARP, or not readable.
    Ignored,
}

impl Stream {
    /// Returns a direction at its beginning, or at the beginning of the capture if that has no SYN.
    pub fn new() -> Self {
        Self {
            phase: Phase::Opening { other: 0 },
            startup: None,
            buffer: BytesMut::new(),
            start: 0,
            origin: 0,
            stamp: Stamp::default(),
            over: false,
            ulp: Ulp::Other,
            items: VecDeque::new(),
        }
    }

    /// Takes the next octets. `from_start` is true if the direction was captured from its SYN on.
    pub fn handle_octets(&mut self, piece: &Piece, from_start: bool) {
        self.stamp = self.stamp.max(piece.stamp);
        if self.phase == Phase::Ignored {
            return;
        }
        self.buffer.extend_from_slice(&piece.data);
        if matches!(self.phase, Phase::Opening { .. }) {
            self.open(from_start);
        }
        self.read();
    }

    /// Takes a gap: octets are missing here. `stamp` is of the packet behind them.
    pub fn handle_gap(&mut self, octets: u64, stamp: Stamp) {
        self.stamp = self.stamp.max(stamp);
        let position = self.position();
        let torn = self.buffer.len() as u64 + octets;
        let mut incomplete = None;
        match &mut self.phase {
            Phase::Ignored => return,
            Phase::Opening { .. } => self.phase = Phase::BLIND,
            Phase::Settling { torn } => *torn = true,
            Phase::Searching { skipped, .. } => *skipped += self.buffer.len() as u64,
            Phase::Framed { framing, skip, .. } => {
                let framing = *framing;
                incomplete = framing.ulpdu_len(position, &self.buffer);
                let end = incomplete.map_or(*skip, |len| framing.wire_len(position, len) as u64);
                // After a gap within one FPDU the place of the next one is still known.
                self.phase = if end >= torn {
                    Phase::Framed { framing, skip: end - torn, doubt: false }
                } else {
                    Phase::searching(framing)
                };
            }
        }
        self.buffer.clear();
        self.start += torn;
        self.note(Note::Gap { octets, incomplete });
    }

    /// Takes the framing of this side, now that it is known. `ulp` is who talks on the connection.
    pub fn begin(&mut self, framing: Framing, ulp: Ulp) {
        self.ulp = ulp;
        self.phase = match self.phase {
            Phase::Settling { torn: false } => Phase::Framed { framing, skip: 0, doubt: false },
            Phase::Settling { torn: true } => Phase::searching(framing),
            // The place of the Markers counts from a startup frame that is not there.
            Phase::Searching { skipped, blind: true, .. } if !framing.markers => {
                Phase::Searching { framing, step: 1, skipped, blind: false }
            }
            other => other,
        };
        self.read();
    }

    /// Ignores the rest of the direction.
    pub fn ignore(&mut self) {
        self.phase = Phase::Ignored;
        self.buffer = BytesMut::new();
    }

    /// Adds a remark of the tracker.
    pub fn note(&mut self, note: Note) {
        self.items.push_back((self.stamp, Item::Note(note)));
    }

    /// Takes the end of the direction. Reads all that is complete now, and notes the octets that could not be read.
    pub fn finish(&mut self) {
        self.over = true;
        self.read();
        let rest = self.buffer.len();
        match self.phase {
            Phase::Opening { .. } if rest >= startup::KEY_LEN => self.note(Note::EndsWithin { octets: rest }),
            Phase::Framed { framing, .. } => {
                let lone_marker = framing.markers && rest == 4 && self.position().is_multiple_of(512);
                if rest > 0 && !lone_marker {
                    self.note(Note::EndsWithin { octets: rest });
                }
            }
            Phase::Searching { skipped, blind: false, .. } if skipped > 0 => {
                self.note(Note::Unread { octets: skipped });
            }
            _ => {}
        }
        self.ignore();
    }

    /// Returns the next item, with the packet that completed it.
    pub fn next_item(&mut self) -> Option<(Stamp, Item)> {
        self.items.pop_front()
    }

    /// Returns the startup frame of this direction, once it is read.
    pub const fn startup(&self) -> Option<&Startup> {
        self.startup.as_ref()
    }

    /// Returns true if the startup frame of this direction will not come any more.
    pub const fn is_startup_lost(&self) -> bool {
        self.startup.is_none() && !matches!(self.phase, Phase::Opening { .. })
    }

    /// Returns how many octets wait for the other side's startup frame or for the rest of an FPDU.
    pub fn waiting(&self) -> usize {
        self.buffer.len()
    }

    /// Returns true if nothing of this direction is read any more.
    pub fn is_ignored(&self) -> bool {
        self.phase == Phase::Ignored
    }

    /// Looks for the startup frame. It need not come first: a ULP may have used the stream before (RFC 5044 section
    /// 7.1).
    fn open(&mut self, from_start: bool) {
        while let Phase::Opening { other } = self.phase {
            match startup::read(&self.buffer) {
                Reading::Frame(startup) => {
                    self.discard(startup.len);
                    self.origin = self.start;
                    self.startup = Some(startup.clone());
                    self.items.push_back((self.stamp, Item::Startup(startup)));
                    self.phase = Phase::Settling { torn: false };
                }
                Reading::Incomplete => return,
                Reading::Malformed if other == 0 => {
                    self.note(Note::MalformedStartup);
                    self.ignore();
                }
                Reading::Other if !from_start => self.phase = Phase::BLIND,
                Reading::Malformed | Reading::Other => {
                    let next = 1 + startup::find(&self.buffer[1..]).unwrap_or(self.buffer.len() - 1);
                    self.discard(next);
                    self.phase = Phase::Opening { other: other + next };
                    if other + next > STREAMING_LIMIT {
                        self.ignore();
                    }
                }
            }
        }
    }

    fn read(&mut self) {
        loop {
            let moved = match self.phase {
                Phase::Framed { framing, skip, doubt } => self.read_fpdu(framing, skip, doubt),
                Phase::Searching { framing, step, skipped, blind } => {
                    self.search(framing, step, skipped, blind)
                }
                _ => false,
            };
            if !moved {
                return;
            }
        }
    }

    /// Reads the next FPDU. Returns false if octets are missing.
    fn read_fpdu(&mut self, framing: Framing, skip: u64, doubt: bool) -> bool {
        if skip > 0 {
            let now = skip.min(self.buffer.len() as u64);
            self.discard(usize::try_from(now).unwrap_or(usize::MAX));
            self.phase = Phase::Framed { framing, skip: skip - now, doubt };
            return now == skip;
        }
        // A bad CRC may come from a bad length field: then this is not the beginning of an FPDU.
        if doubt && framing.is_plausible(self.position(), &self.buffer) == Some(false) {
            self.phase = Phase::searching(framing);
            return true;
        }
        let Some(fpdu) = framing.read(self.position(), &self.buffer) else { return false };
        let mut segment = Segment::read(&fpdu.ulpdu);
        if !fpdu.markers_fit {
            segment.remark = Some("a Marker does not point to the beginning of this FPDU");
        }
        read_said(self.ulp, &mut segment, &fpdu.ulpdu);
        self.items.push_back((self.stamp, Item::Segment { segment, crc: fpdu.crc }));
        self.discard(fpdu.wire_len);
        self.phase = Phase::Framed { framing, skip: 0, doubt: fpdu.crc == Crc::Bad || !fpdu.markers_fit };
        true
    }

    /// Tries the next place where an FPDU may begin. Returns false if octets are missing.
    fn search(&mut self, framing: Framing, step: u64, skipped: u64, blind: bool) -> bool {
        let misaligned = self.position() % step;
        let verdict = if misaligned > 0 { Some(false) } else { self.proves_itself(framing) };
        match verdict {
            None => false,
            Some(true) => {
                if blind {
                    self.origin = self.start;
                    self.note(Note::StartMissing);
                }
                if skipped > 0 {
                    self.note(Note::Resumed { skipped });
                }
                self.phase = Phase::Framed { framing, skip: 0, doubt: false };
                true
            }
            Some(false) if self.buffer.is_empty() => false,
            Some(false) => {
                let next = (step - misaligned).min(self.buffer.len() as u64);
                self.discard(usize::try_from(next).unwrap_or(usize::MAX));
                let skipped = skipped + next;
                self.phase = Phase::Searching { framing, step, skipped, blind };
                if blind && skipped > BLIND_LIMIT {
                    self.ignore();
                }
                true
            }
        }
    }

    /// Returns true if an FPDU begins here beyond doubt: it has a good CRC, or without CRC a header right behind it.
    fn proves_itself(&self, framing: Framing) -> Option<bool> {
        // At the end of the stream, missing octets will not come.
        let missing = self.over.then_some(false);
        match framing.is_plausible(self.position(), &self.buffer) {
            None => return missing,
            Some(false) => return Some(false),
            Some(true) => {}
        }
        let Some(fpdu) = framing.read(self.position(), &self.buffer) else { return missing };
        match fpdu.crc {
            Crc::Good => Some(true),
            Crc::Bad => Some(false),
            Crc::Off => {
                let behind = self.position() + fpdu.wire_len as u64;
                let rest = &self.buffer[fpdu.wire_len..];
                framing.is_plausible(behind, rest).or_else(|| self.over.then_some(rest.is_empty()))
            }
        }
    }

    fn discard(&mut self, octets: usize) {
        let octets = octets.min(self.buffer.len());
        self.buffer.advance(octets);
        self.start += octets as u64;
    }

    /// Returns the place where `buffer` begins, counted from the first FPDU.
    const fn position(&self) -> u64 {
        self.start - self.origin
    }
}

/// Reads what a daemon, a replica or a socket of EXS tells another one by a segment. A Write has octets of a program.
fn read_said(ulp: Ulp, segment: &mut Segment, ulpdu: &[u8]) {
    let payload = ulpdu.get(ulpdu.len() - segment.payload_len..).unwrap_or_default();
    let is_first = |header: &Header| matches!(header.address, Address::Untagged { mo: 0, .. });
    let first = segment.header.filter(is_first);
    let is_whole = first.is_some_and(|header| header.last);
    let is_message =
        is_whole && matches!(segment.kind, Kind::Send | Kind::SendSolicited) && !payload.is_empty();
    // Immediate data of EXS may go on in further segments.
    let begins_message = first.is_some() && matches!(segment.kind, Kind::Send | Kind::SendInvalidate);
    let (said, fault): (Option<Said>, _) = match (ulp, &segment.detail) {
        (Ulp::Lane, Detail::Immediate(data)) => (lane::notice(*data), "no notice that this version knows"),
        (Ulp::Lane, _) if is_message => (lane::letter(payload), "no letter that this version knows"),
        (Ulp::Group(Some(greeting)), _) if is_message => {
            (group::said(greeting, payload), "no message of a group that this version knows")
        }
        (Ulp::Exs, _) if begins_message => {
            (exs::message(payload, is_whole), "no message of EXS that this version knows")
        }
        _ => return,
    };
    if said.is_none() {
        segment.remark = segment.remark.or(Some(fault));
    }
    segment.said = said;
}

impl Default for Stream {
    fn default() -> Self {
        Self::new()
    }
}

impl Phase {
    /// The search without startup frames. Then only a good CRC tells FPDUs from other octets, and Markers cannot be
    /// recognised.
    const BLIND: Self =
        Self::Searching { framing: Framing { crc: true, markers: false }, step: 1, skipped: 0, blind: true };

    /// Searches in steps of four octets, since the length of an FPDU is a multiple of four.
    const fn searching(framing: Framing) -> Self {
        Self::Searching { framing, step: 4, skipped: 0, blind: false }
    }
}

/// Octets that a ULP may exchange before the startup frame. With more the connection counts as no iWARP.
const STREAMING_LIMIT: usize = 4096;

/// Octets in which a connection without startup frames must show its first FPDU.
const BLIND_LIMIT: u64 = 1 << 20;
