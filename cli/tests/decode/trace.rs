//! Captures written octet by octet, without code of the decoder or the data path.

use std::fmt::Write as _;

use serde_json::Value;
use weft_cli::decode::pcap::{Capture, Time};
use weft_cli::decode::print::{self, Style};
use weft_cli::decode::record::{Item, Note, Record};
use weft_cli::decode::tracker::{Summary, Tracker};

/// A capture of one TCP connection between two ends. Each `send` is one packet, a millisecond after the one before.
pub(crate) struct Trace {
    pub(crate) octets: Vec<u8>,
    /// The next sequence number of both ends.
    pub(crate) sequence: [u32; 2],
    millis: u32,
}

/// The decoder's output for a capture.
pub(crate) struct Decoded {
    pub(crate) records: Vec<Record>,
    pub(crate) summary: Summary,
}

impl Trace {
    /// Returns a capture of a connection that was under way before.
    pub(crate) fn from_the_middle(sequence: [u32; 2]) -> Self {
        let mut octets = 0xa1b2_c3d4_u32.to_le_bytes().to_vec();
        octets.extend([2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 1, 0, 0, 0]);
        Self { octets, sequence, millis: 0 }
    }

    /// Returns a capture with the TCP handshake. End 0 connects.
    pub(crate) fn with_handshake(first: [u32; 2]) -> Self {
        let mut trace = Self::from_the_middle(first);
        trace.handshake();
        trace
    }

    /// Returns a capture with the TCP handshake and both startup frames. `flags` are M, C, R and S of both.
    pub(crate) fn with_startup(first: [u32; 2], flags: [u8; 2]) -> Self {
        let mut trace = Self::with_handshake(first);
        trace.send(0, &[b"MPA ID Req Frame", &[flags[0], 1, 0, 0][..]].concat());
        trace.send(1, &[b"MPA ID Rep Frame", &[flags[1], 1, 0, 0][..]].concat());
        trace
    }

    pub(crate) fn handshake(&mut self) {
        let first = self.sequence;
        self.packet(0, first[0], SYN, b"");
        self.sequence[0] = first[0].wrapping_add(1);
        self.packet(1, first[1], SYN | ACK, b"");
        self.sequence[1] = first[1].wrapping_add(1);
        self.packet(0, self.sequence[0], ACK, b"");
    }

    /// Adds the next payload in order.
    pub(crate) fn send(&mut self, from: usize, payload: &[u8]) {
        self.packet(from, self.sequence[from], ACK, payload);
        self.lose(from, payload.len());
    }

    /// Skips octets that were sent, but are not in the capture.
    pub(crate) fn lose(&mut self, from: usize, octets: usize) {
        self.sequence[from] = self.sequence[from].wrapping_add(u32::try_from(octets).unwrap());
    }

    /// Adds a packet with any sequence number.
    pub(crate) fn packet(&mut self, from: usize, sequence: u32, flags: u8, payload: &[u8]) {
        let frame = ethernet(&ipv4(from, &tcp(from, [sequence, self.sequence[1 - from]], flags, payload)));
        self.record(&frame);
    }

    /// Adds a record of any content.
    pub(crate) fn record(&mut self, frame: &[u8]) {
        self.millis += 1;
        let len = u32::try_from(frame.len()).unwrap();
        for word in [self.millis / 1000, self.millis % 1000 * 1000, len, len] {
            self.octets.extend(word.to_le_bytes());
        }
        self.octets.extend(frame);
    }

    pub(crate) fn decode(&self) -> Decoded {
        decode(&self.octets)
    }
}

impl Decoded {
    /// Its lines, as people see them.
    pub(crate) fn lines(&self) -> Vec<String> {
        let style = Style { begin: Time(0), colours: false };
        self.records.iter().map(|record| style.text(record)).collect()
    }

    /// This part of the last object, and the last line. Nothing else was noted.
    pub(crate) fn last(&self, part: &str) -> (Value, String) {
        assert_eq!(self.notes(), []);
        (self.objects().pop().unwrap()[part].take(), self.lines().pop().unwrap())
    }

    /// Returns the JSON objects.
    pub(crate) fn objects(&self) -> Vec<Value> {
        self.records.iter().filter_map(print::json).collect()
    }

    /// Returns kinds and verdicts in short: `send good, write bad`. Notes are in angle brackets.
    pub(crate) fn story(&self) -> String {
        let mut story = String::new();
        for record in &self.records {
            let comma = if story.is_empty() { "" } else { ", " };
            match &record.item {
                Item::Startup(startup) => write!(story, "{comma}{:?}", startup.role),
                Item::Segment { segment, crc } => {
                    write!(story, "{comma}{} {}", segment.kind.name(), crc.name())
                }
                Item::Note(note) => write!(story, "{comma}<{note:?}>"),
            }
            .unwrap();
        }
        story
    }

    pub(crate) fn notes(&self) -> Vec<Note> {
        self.records
            .iter()
            .filter_map(|record| if let Item::Note(note) = record.item { Some(note) } else { None })
            .collect()
    }
}

pub(crate) fn decode(octets: &[u8]) -> Decoded {
    let mut capture = Capture::open(octets).unwrap();
    let mut tracker = Tracker::new();
    while let Some(packet) = capture.next().unwrap() {
        tracker.handle_packet(capture.link(), &packet);
    }
    tracker.finish();
    let records = std::iter::from_fn(|| tracker.next_record()).collect();
    Decoded { records, summary: *tracker.summary() }
}

/// Returns a TCP header with `[sequence, acknowledgement]` and its payload, checksum included.
pub(crate) fn tcp(from: usize, numbers: [u32; 2], flags: u8, payload: &[u8]) -> Vec<u8> {
    let ports = if from == 0 { [0x30, 0x39, 0x1c, 0x06] } else { [0x1c, 0x06, 0x30, 0x39] };
    let mut out = ports.to_vec();
    out.extend(numbers[0].to_be_bytes());
    out.extend(numbers[1].to_be_bytes());
    out.extend([0x80, flags, 0xff, 0xff, 0, 0, 0, 0]);
    out.extend([1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]);
    out.extend(payload);
    let pseudo = [10, 0, 0, 1, 10, 0, 0, 2, 0, 6];
    let len = u16::try_from(out.len()).unwrap().to_be_bytes();
    let checksum = checksum(&[&pseudo, &len[..], &out].concat());
    out[16..18].copy_from_slice(&checksum.to_be_bytes());
    out
}

pub(crate) fn ipv4(from: usize, segment: &[u8]) -> Vec<u8> {
    let (src, dst) = if from == 0 { (1, 2) } else { (2, 1) };
    let [high, low] = u16::try_from(20 + segment.len()).unwrap().to_be_bytes();
    let header = [0x45, 0, high, low, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, src, 10, 0, 0, dst];
    [&header, segment].concat()
}

/// Returns an Ethernet frame, padded to 60 octets as short ones are.
pub(crate) fn ethernet(datagram: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x00];
    frame.extend(datagram);
    frame.resize(frame.len().max(60), 0xee);
    frame
}

/// Returns the octets of a computed vector.
pub(crate) fn vector(name: &str) -> Vec<u8> {
    let hex = vectors()[name]["hex"].as_str().unwrap_or_else(|| panic!("no vector {name}")).to_owned();
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

pub(crate) fn vectors() -> Value {
    serde_json::from_slice(&std::fs::read(data("vectors.json")).unwrap()).unwrap()
}

pub(crate) fn data(name: &str) -> String {
    format!("{}/../tests/data/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn checksum(octets: &[u8]) -> u16 {
    let mut sum: u32 = octets
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0)))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).unwrap()
}

pub(crate) const SYN: u8 = 0x02;
pub(crate) const ACK: u8 = 0x10;
/// The C flag of a startup frame.
pub(crate) const CRC: u8 = 0x40;
/// The M flag of a startup frame.
pub(crate) const MARKERS: u8 = 0x80;
