//! Bodies of the fuzz targets, also run by plain tests.

use crate::decode::pcap::{Capture, Link, Packet, Stamp};
use crate::decode::print::{self, Style};
use crate::decode::tracker::Tracker;

/// Decodes arbitrary octets, once as a capture file and once as packets of one connection. The second way reaches the
/// decoder behind the headers of file and packets. Returns the number of records.
pub fn capture(data: &[u8]) -> usize {
    file(data) + packets(data)
}

fn file(data: &[u8]) -> usize {
    let Ok(mut capture) = Capture::open(data) else { return 0 };
    let mut tracker = Tracker::new();
    while let Ok(Some(packet)) = capture.next() {
        tracker.handle_packet(capture.link(), &packet);
    }
    drain(tracker, data.len())
}

/// Decodes packets. The first octets of each choose direction, sequence step, flags and length; the payload follows.
fn packets(mut data: &[u8]) -> usize {
    let total = data.len();
    let mut tracker = Tracker::new();
    let mut sequence = [0xffff_f000_u32, 0x10];
    let mut number = 0;
    while let Some((&[how, step, low, high], rest)) = data.split_first_chunk::<4>() {
        let from = usize::from(how & 1);
        let len = usize::from(u16::from_le_bytes([low, high & 0x07])).min(rest.len());
        let (payload, rest) = rest.split_at(len);
        data = rest;
        // Most packets are in order. The others make a hole or a repetition.
        if how & 0x0c == 0x0c {
            sequence[from] = sequence[from].wrapping_add(u32::from(step)).wrapping_sub(0x40);
        }
        let packet = packet(from, sequence, if how & 0xf0 == 0xf0 { 0x12 } else { 0x10 }, payload);
        sequence[from] = sequence[from].wrapping_add(u32::try_from(len).unwrap_or(0));
        number += 1;
        let stamp = Stamp { number, ..Stamp::default() };
        tracker.handle_packet(Link::RawIp, &Packet { stamp, cut: false, data: packet.into() });
    }
    drain(tracker, total)
}

fn packet(from: usize, sequence: [u32; 2], flags: u8, payload: &[u8]) -> Vec<u8> {
    // A total length of zero stands for the length of the packet.
    let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 6, 0, 0];
    let (src, dst) = if from == 0 { (1, 2) } else { (2, 1) };
    packet.extend([10, 0, 0, src, 10, 0, 0, dst, 0x10, src, 0x10, dst]);
    packet.extend(sequence[from].to_be_bytes());
    packet.extend(sequence[1 - from].to_be_bytes());
    packet.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    packet.extend(payload);
    packet
}

fn drain(mut tracker: Tracker, input: usize) -> usize {
    tracker.finish();
    let style = Style { begin: Default::default(), colours: true };
    let mut records = 0;
    while let Some(record) = tracker.next_record() {
        assert!(!style.text(&record).is_empty());
        let _ = print::json(&record).map(|object| object.to_string());
        records += 1;
    }
    // A segment takes at least eight octets of a stream, and a note is about a piece of a stream.
    assert!(records <= 4 * input, "{records} records from {input} octets");
    records
}
