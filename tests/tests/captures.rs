//! The captures of Linux siw pass through the data path's layers and back. Every octet is read, and written again the
//! same.

#![allow(clippy::unwrap_used, reason = "a test that fails here has failed")]

use std::collections::BTreeMap;
use std::net::SocketAddr;

use weft_cli::decode::packet::{self, TcpSegment};
use weft_cli::decode::pcap::Capture;
use weft_cli::decode::reassembly::{Next, Piece, Reassembly};
use weft_cli::decode::record::Item;
use weft_cli::decode::segment::{Address, Segment};
use weft_cli::decode::tracker::Tracker;
use weft_ddp::Header;
use weft_mpa::{Crc32c, Deframer, Framer, STAGING_LEN, StartupFrame};
use weft_rdmap::{Opcode, ReadRequest};

/// Name, segments of all directions together, and whether the CRC is in use.
const CAPTURES: [(&str, usize, bool); 3] =
    [("siw-rping.pcap", 35, false), ("siw-crc-p2p-rping.pcap", 36, true), ("siw-send-bw.pcap", 146, false)];

#[test]
fn startup_frames_are_written_again_as_they_were_read() {
    for (name, _, crc) in CAPTURES {
        for octets in directions(name).values() {
            let (frame, len) = StartupFrame::parse_any(octets).unwrap().unwrap();
            assert_eq!((frame.crc, frame.markers, frame.reserved), (crc, false, 0), "{name}");
            let mut out = vec![0; frame.len()];
            assert_eq!(frame.emit(&mut out).unwrap(), len, "{name}");
            assert_eq!(out, octets[..len], "{name}");
        }
    }
}

#[test]
fn fpdus_are_written_again_as_they_were_read() {
    for (name, count, crc) in CAPTURES {
        let crc = crc.then(Crc32c::default);
        let (mut found, mut dirty_pads) = (0, 0);
        for octets in directions(name).values() {
            let (_, begin) = StartupFrame::parse_any(octets).unwrap().unwrap();
            let ulpdus = deframed(crc, &octets[begin..], usize::MAX);
            found += ulpdus.len();

            let mut framer = Framer::new(crc, false);
            let mut rest = &octets[begin..];
            for ulpdu in &ulpdus {
                let mut out = vec![0xee; framer.fpdu_len(ulpdu.len())];
                rewrite(ulpdu, framer.ulpdu_mut(&mut out, ulpdu.len()));
                assert_eq!(framer.seal(&mut out, ulpdu.len()), out.len());
                let (theirs, behind) = rest.split_at(out.len());
                // siw pads with old octets of its buffer, and a decoded FPDU does not tell them.
                let pad = 2 + ulpdu.len()..out.len() - 4;
                dirty_pads += usize::from(theirs[pad.clone()].iter().any(|&octet| octet != 0));
                out[pad.clone()].copy_from_slice(&theirs[pad]);
                assert_eq!(out, theirs, "{name}");
                rest = behind;
            }
            assert!(rest.is_empty(), "{name}: octets behind the last FPDU");
        }
        assert_eq!(found, count, "{name}");
        assert_eq!(dirty_pads > 0, name == "siw-send-bw.pcap", "{name}: {dirty_pads} pads are not zero");
    }
}

/// TCP may cut the stream anywhere.
#[test]
fn the_cut_of_the_stream_does_not_matter() {
    for (name, _, crc) in CAPTURES {
        let crc = crc.then(Crc32c::default);
        for octets in directions(name).values() {
            let (_, begin) = StartupFrame::parse_any(octets).unwrap().unwrap();
            let whole = deframed(crc, &octets[begin..], usize::MAX);
            for size in [1, 3, 7, 64, 1000, 1448] {
                assert_eq!(deframed(crc, &octets[begin..], size), whole, "{name} by {size}");
            }
        }
    }
}

/// Two readings of the same octets that share no code.
#[test]
fn the_decoder_and_the_data_path_agree() {
    for (name, _, crc) in CAPTURES {
        let decoded = decoded(name);
        for (ends, octets) in directions(name) {
            let (_, begin) = StartupFrame::parse_any(&octets).unwrap().unwrap();
            let ulpdus = deframed(crc.then(Crc32c::default), &octets[begin..], usize::MAX);
            let empty = Vec::new();
            let theirs = decoded.get(&ends).unwrap_or(&empty);
            assert_eq!(theirs.len(), ulpdus.len(), "{name}");
            for (segment, ulpdu) in theirs.iter().zip(&ulpdus) {
                assert_same(segment, ulpdu);
            }
        }
    }
}

fn assert_same(theirs: &Segment, ulpdu: &[u8]) {
    let segment = weft_ddp::Segment::parse(ulpdu).unwrap();
    let header = theirs.header.unwrap();
    assert_eq!((theirs.len, theirs.payload_len), (ulpdu.len(), segment.payload.len()));
    assert_eq!((header.last, header.opcode), (segment.header.is_last(), segment.header.control() & 0x0f));
    let address = match segment.header {
        Header::Tagged { stag, to, .. } => Address::Tagged { stag: stag.0, to },
        Header::Untagged { word, queue, msn, mo, .. } => Address::Untagged { word, qn: queue, msn, mo },
    };
    assert_eq!(header.address, address);
}

/// Reads a ULPDU into values and writes it again from these.
fn rewrite(ulpdu: &[u8], out: &mut [u8]) {
    let segment = weft_ddp::Segment::parse(ulpdu).unwrap();
    segment.header.emit(out);
    let payload = &mut out[segment.header.len()..];
    let opcode = Opcode::parse(segment.header.control()).unwrap();
    assert_eq!(opcode.control(), segment.header.control());
    assert_eq!(opcode.is_tagged(), segment.header.is_tagged());
    if opcode == Opcode::ReadRequest {
        payload.copy_from_slice(&ReadRequest::parse(segment.payload).unwrap().emit());
    } else {
        payload.copy_from_slice(segment.payload);
    }
}

/// Returns the ULPDUs of one direction, which arrives in pieces of `size`. Checks DDP's order too.
fn deframed(crc: Option<Crc32c>, octets: &[u8], size: usize) -> Vec<Vec<u8>> {
    let mut deframer = Deframer::new(crc, false, vec![0; STAGING_LEN]);
    let mut receiver = weft_ddp::Receiver::new(3);
    let mut ulpdus = Vec::new();
    for mut piece in octets.chunks(size.min(octets.len().max(1))) {
        while let Some(ulpdu) = deframer.next(&mut piece).unwrap() {
            receiver.accept(ulpdu).unwrap();
            ulpdus.push(ulpdu.to_vec());
        }
    }
    assert!(deframer.is_aligned());
    ulpdus
}

/// Returns the decoder's segments of each direction.
fn decoded(name: &str) -> BTreeMap<(SocketAddr, SocketAddr), Vec<Segment>> {
    let file = file(name);
    let mut capture = Capture::open(&file[..]).unwrap();
    let mut tracker = Tracker::new();
    while let Some(packet) = capture.next().unwrap() {
        tracker.handle_packet(capture.link(), &packet);
    }
    tracker.finish();
    let mut segments = BTreeMap::<_, Vec<Segment>>::new();
    while let Some(record) = tracker.next_record() {
        if let Item::Segment { segment, .. } = record.item {
            segments.entry((record.src, record.dst)).or_default().push(segment);
        }
    }
    segments
}

/// Returns the octets of each direction of each connection, in order and without a gap.
fn directions(name: &str) -> BTreeMap<(SocketAddr, SocketAddr), Vec<u8>> {
    let file = file(name);
    let mut capture = Capture::open(&file[..]).unwrap();
    let mut streams = BTreeMap::<_, (Reassembly, Vec<u8>)>::new();
    while let Some(packet) = capture.next().unwrap() {
        let Ok(segment) = packet::parse(capture.link(), &packet.data) else { continue };
        let TcpSegment { src, dst, sequence, syn, payload, checksum, .. } = segment;
        let (reassembly, octets) = streams.entry((src, dst)).or_default();
        if syn {
            assert!(reassembly.handle_syn(sequence));
        }
        let piece = Piece { data: payload, stamp: packet.stamp };
        reassembly.handle_segment(sequence.wrapping_add(u32::from(syn)), piece, checksum);
        while let Some(next) = reassembly.next() {
            let Next::Piece(piece) = next else { panic!("{name}: {next:?}") };
            octets.extend_from_slice(&piece.data);
        }
    }
    assert!(streams.len() >= 2, "{name}");
    streams.into_iter().map(|(ends, (_, octets))| (ends, octets)).collect()
}

fn file(name: &str) -> Vec<u8> {
    std::fs::read(format!("{}/data/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}
