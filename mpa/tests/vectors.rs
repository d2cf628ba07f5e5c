//! The computed vectors. Another implementation made these octets. They must come in and go out unchanged.

use serde_json::{Map, Value};
use weft_mpa::{
    Crc32c, CrcState, Deframer, Enhanced, FrameKind, Framer, NOT_NEGOTIATED, RtrSet, STAGING_LEN,
    StartupFrame, mulpdu,
};

const VECTORS: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/data/vectors.json"));

fn vectors() -> Map<String, Value> {
    serde_json::from_str(VECTORS).expect("the file is JSON")
}

fn octets(hex: &str) -> Vec<u8> {
    assert!(hex.len().is_multiple_of(2));
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex")).collect()
}

fn hex_of(vectors: &Map<String, Value>, name: &str) -> Vec<u8> {
    octets(vectors[name]["hex"].as_str().expect("hex"))
}

/// Returns the vectors of whole FPDUs that follow each other without Markers. Their length fields tell which these
/// are.
fn unmarked(vectors: &Map<String, Value>) -> Vec<(String, Vec<u8>)> {
    let other = ["mpa-", "m-", "crc-"];
    let names = vectors.keys().filter(|name| !other.iter().any(|prefix| name.starts_with(prefix)));
    names
        .filter(|name| vectors[*name]["hex"].is_string())
        .map(|name| (name.clone(), hex_of(vectors, name)))
        .collect()
}

fn deframe(crc: Option<Crc32c>, markers: bool, stream: &[u8], cut: usize) -> Vec<Vec<u8>> {
    let mut deframer = Deframer::new(crc, markers, vec![0; STAGING_LEN]);
    let mut ulpdus = Vec::new();
    for mut input in stream.chunks(cut) {
        while let Some(ulpdu) = deframer.next(&mut input).expect("the stream is good") {
            ulpdus.push(ulpdu.to_vec());
        }
    }
    assert!(deframer.is_aligned());
    ulpdus
}

fn frame(crc: Option<Crc32c>, markers: bool, ulpdus: &[Vec<u8>]) -> Vec<u8> {
    let mut framer = Framer::new(crc, markers);
    let mut stream = Vec::new();
    for ulpdu in ulpdus {
        let mut out = vec![0xEE; framer.fpdu_len(ulpdu.len())];
        framer.ulpdu_mut(&mut out, ulpdu.len()).copy_from_slice(ulpdu);
        assert_eq!(framer.seal(&mut out, ulpdu.len()), out.len());
        stream.extend(out);
    }
    stream
}

// Covers 5044-4.4-13, 5044-4.4-1.
#[test]
fn crc_values_and_their_wire_order() {
    let increasing: Vec<u8> = (0..32).collect();
    let decreasing: Vec<u8> = (0..32).rev().collect();
    let inputs: [(&str, &[u8]); 6] = [
        ("crc-check", b"123456789"),
        ("crc-32x00", &[0; 32]),
        ("crc-32xff", &[0xFF; 32]),
        ("crc-inc", &increasing),
        ("crc-dec", &decreasing),
        ("crc-empty", b""),
    ];
    let vectors = vectors();
    assert_eq!(vectors.keys().filter(|name| name.starts_with("crc-")).count(), inputs.len());
    for (name, input) in inputs {
        let value = vectors[name]["value"].as_str().expect("value").trim_start_matches("0x");
        let value = u32::from_str_radix(value, 16).expect("hex");
        assert_eq!(Crc32c::PORTABLE.checksum(input), value, "{name}");
        assert_eq!(Crc32c::default().checksum(input), value, "{name}");
        assert_eq!(octets(vectors[name]["wire"].as_str().expect("wire")), value.to_le_bytes(), "{name}");
    }
}

#[test]
fn startup_frames_are_written_as_they_were_read() {
    let vectors = vectors();
    let names: Vec<_> = vectors.keys().filter(|name| name.starts_with("mpa-")).collect();
    assert_eq!(names.len(), 9);
    for name in names {
        let octets = hex_of(&vectors, name);
        let (kind, other) = if name.starts_with("mpa-req") {
            (FrameKind::Request, FrameKind::Reply)
        } else {
            (FrameKind::Reply, FrameKind::Request)
        };
        let (frame, len) = StartupFrame::parse(kind, &octets).expect("it is good").expect("it is whole");
        assert_eq!((frame.kind, len), (kind, octets.len()), "{name}");
        assert_eq!(StartupFrame::parse_any(&octets), Ok(Some((frame, len))), "{name}");
        assert!(StartupFrame::parse(other, &octets).is_err(), "{name}");
        for end in 0..len {
            assert_eq!(StartupFrame::parse(kind, &octets[..end]), Ok(None), "{name} {end}");
            assert_eq!(StartupFrame::parse_any(&octets[..end]), Ok(None), "{name} {end}");
        }
        let mut out = [0xEE; 64];
        assert_eq!(frame.emit(&mut out), Ok(len), "{name}");
        assert_eq!(out[..len], octets, "{name}");
    }
}

#[test]
fn startup_frames_have_the_expected_fields() {
    let vectors = vectors();
    let rtr = RtrSet { send: true, write: true, read: true };
    let plain = StartupFrame {
        kind: FrameKind::Request,
        markers: false,
        crc: true,
        reject: false,
        reserved: 0,
        revision: 1,
        enhanced: None,
        private_data: b"",
    };
    let enhanced = |peer_to_peer, rtr, ird, ord| Some(Enhanced { peer_to_peer, rtr, ird, ord });
    let none = RtrSet::default();
    let cases = [
        ("mpa-req1", plain),
        ("mpa-req1-m", StartupFrame { markers: true, ..plain }),
        ("mpa-req1-pd", StartupFrame { private_data: b"abc", ..plain }),
        ("mpa-rep1", StartupFrame { kind: FrameKind::Reply, ..plain }),
        ("mpa-rep1-rej", StartupFrame { kind: FrameKind::Reply, reject: true, ..plain }),
        ("mpa-req2", StartupFrame { revision: 2, enhanced: enhanced(true, rtr, 4, 8), ..plain }),
        (
            "mpa-rep2",
            StartupFrame {
                kind: FrameKind::Reply,
                revision: 2,
                enhanced: enhanced(true, RtrSet { send: false, ..rtr }, 8, 4),
                ..plain
            },
        ),
        (
            "mpa-req2-cs",
            StartupFrame {
                revision: 2,
                enhanced: enhanced(false, none, 16, 1),
                private_data: b"hi",
                ..plain
            },
        ),
        (
            "mpa-req2-noauto",
            StartupFrame {
                revision: 2,
                enhanced: enhanced(false, none, NOT_NEGOTIATED, NOT_NEGOTIATED),
                ..plain
            },
        ),
    ];
    for (name, expected) in cases {
        let octets = hex_of(&vectors, name);
        assert_eq!(StartupFrame::parse_any(&octets), Ok(Some((expected, octets.len()))), "{name}");
    }
}

// Covers 5044-4.4-18, 5044-4.4-17, 5044-4.3-14.
#[test]
fn unmarked_streams_are_read_and_made_again() {
    let vectors = vectors();
    let streams = unmarked(&vectors);
    assert_eq!(streams.len(), 29);
    for (name, stream) in streams {
        let crc = (name != "send-nocrc").then_some(Crc32c::PORTABLE);
        let ulpdus = deframe(crc, false, &stream, stream.len());
        assert_eq!(frame(crc, false, &ulpdus), stream, "{name}");
        for cut in 1..stream.len() {
            assert_eq!(deframe(crc, false, &stream, cut), ulpdus, "{name} {cut}");
        }
        let first = usize::from(u16::from_be_bytes([stream[0], stream[1]]));
        assert_eq!(ulpdus[0], stream[2..2 + first], "{name}");
    }
}

// Covers 5044-4.3-8, 5044-4.4-14, 5044-4.4-15, 5044-4.4-16.
#[test]
fn marked_streams_are_read_and_made_again() {
    let vectors = vectors();
    let names: Vec<_> = vectors.keys().filter(|name| name.starts_with("m-")).collect();
    assert_eq!(names.len(), 7);
    for name in names {
        let stream = hex_of(&vectors, name);
        let crc = Some(Crc32c::PORTABLE);
        let ulpdus = deframe(crc, true, &stream, stream.len());
        let fpdus = vectors[name]["fpdus"].as_array().expect("fpdus");
        assert_eq!(ulpdus.len(), fpdus.len(), "{name}");
        assert_eq!(frame(crc, true, &ulpdus), stream, "{name}");
        for cut in 1..stream.len() {
            assert_eq!(deframe(crc, true, &stream, cut), ulpdus, "{name} {cut}");
        }
    }
}

// Covers 5044-4.1-2, 5044-4.3-15, 5044-3-7.
#[test]
fn marked_fpdus_have_the_documented_bounds_and_payload() {
    let vectors = vectors();
    for (name, payload) in
        [("m-1400", 1400), ("m-before-crc", 488), ("m-before-crc-pad", 487), ("m-between", 484)]
    {
        let stream = hex_of(&vectors, name);
        let mut deframer = Deframer::new(Some(Crc32c::PORTABLE), true, vec![0; STAGING_LEN]);
        let mut input = &stream[..];
        let mut position = 0;
        for (index, fpdu) in vectors[name]["fpdus"].as_array().expect("fpdus").iter().enumerate() {
            let found = deframer.inspect(&mut input).expect("good").expect("whole");
            assert_eq!(fpdu["fpdu_stream_offset"].as_u64(), Some(position), "{name}");
            position += u64::try_from(found.len).expect("small");
            assert_eq!(fpdu["end"].as_u64(), Some(position), "{name}");
            assert_eq!(found.crc, CrcState::Good, "{name}");
            let expected: Vec<u8> = (0..payload).map(|octet: usize| octet.to_le_bytes()[0]).collect();
            assert_eq!(found.ulpdu[18..], if index == 0 { expected } else { Vec::new() }, "{name}");
        }
    }
}

// Covers 5044-3-2, 5044-3-4, 5044-4.5-1, 5044-4.5-2.
#[test]
fn mulpdu_table() {
    let vectors = vectors();
    let rows = vectors["mulpdu"]["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 17);
    for row in rows {
        let value = |index: usize| usize::try_from(row[index].as_u64().expect("number")).expect("small");
        assert_eq!(mulpdu(value(0), true), value(2), "EMSS {}", value(0));
        assert_eq!(mulpdu(value(0), false), value(4), "EMSS {}", value(0));
    }
    for markers in [true, false] {
        assert_eq!(mulpdu(0, markers), 128);
        assert_eq!(mulpdu(usize::MAX, markers), 64768);
    }
}
