//! All connections of a capture: packets in, records out.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;

use super::connection::Connection;
use super::packet::{self, Checksum, Skipped, TcpSegment};
use super::pcap::{Link, Packet, Stamp};
use super::record::Record;

/// The decoder. `handle_packet` takes the captured packets in their order, `next_record` returns the records.
#[derive(Debug, Default)]
pub struct Tracker {
    /// In the order of their first packets, so that the records at the end of a capture have a fixed order, too.
    connections: Vec<Connection>,
    by_ends: HashMap<(SocketAddr, SocketAddr), usize>,
    records: VecDeque<Record>,
    summary: Summary,
}

/// Counts of what the capture has besides the records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Summary {
    /// Packets.
    pub packets: u64,
    /// Connections with iWARP on them.
    pub iwarp: u64,
    /// Other TCP connections.
    pub other: u64,
    /// Those of the others that began before the capture. They may be iWARP without CRC.
    pub from_middle: u64,
    /// IP fragments, which the decoder leaves out.
    pub fragments: u64,
    /// Packets with damaged headers.
    pub malformed: u64,
    /// Packets whose beginning alone was captured.
    pub cut: u64,
    /// TCP segments with a bad checksum.
    pub bad_checksums: u64,
}

impl Tracker {
    /// Returns a decoder before its first packet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next packet.
    pub fn handle_packet(&mut self, link: Link, packet: &Packet) {
        self.summary.packets += 1;
        self.summary.cut += u64::from(packet.cut);
        match packet::parse(link, &packet.data) {
            Ok(segment) => self.handle_segment(&segment, packet.stamp),
            Err(Skipped::Fragment) => self.summary.fragments += 1,
            Err(Skipped::Malformed) => self.summary.malformed += 1,
            Err(Skipped::NotTcp) => {}
        }
    }

    /// Takes the end of the capture: reads the octets that waited for more, and counts the connections.
    pub fn finish(&mut self) {
        self.by_ends.clear();
        for mut connection in std::mem::take(&mut self.connections) {
            self.close(&mut connection);
        }
    }

    /// Returns the next record.
    pub fn next_record(&mut self) -> Option<Record> {
        self.records.pop_front()
    }

    /// Returns the counts of packets, and after [`Tracker::finish`] of connections.
    pub const fn summary(&self) -> &Summary {
        &self.summary
    }

    fn handle_segment(&mut self, segment: &TcpSegment, stamp: Stamp) {
        self.summary.bad_checksums += u64::from(segment.checksum == Checksum::Bad);
        let (src, dst) = (segment.src, segment.dst);
        let at = *self.by_ends.entry((src.min(dst), src.max(dst))).or_insert_with(|| {
            self.connections.push(Connection::new(src, dst));
            self.connections.len() - 1
        });
        if segment.syn && !self.connections[at].handle_syn(segment) {
            let mut former = std::mem::replace(&mut self.connections[at], Connection::new(src, dst));
            self.close(&mut former);
            self.connections[at].handle_syn(segment);
        }
        self.connections[at].handle_segment(segment, stamp, &mut self.records);
    }

    fn close(&mut self, connection: &mut Connection) {
        connection.finish(&mut self.records);
        if connection.is_iwarp() {
            self.summary.iwarp += 1;
        } else {
            self.summary.other += 1;
            self.summary.from_middle += u64::from(connection.is_from_middle());
        }
    }
}
