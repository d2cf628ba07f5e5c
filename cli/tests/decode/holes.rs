//! Segments of TCP that are reordered, repeated, overlapping, lost or damaged.

use weft_cli::decode::record::Note;

use crate::trace::{ACK, CRC, MARKERS, Trace, vector};

/// FPDUs with CRC: Send, Write, Read Request, Read Response, Send.
fn fpdus() -> [Vec<u8>; 5] {
    ["send5", "write8", "rreq", "rrsp", "sendse"].map(vector)
}

const WHOLE: &str =
    "Initiator, Responder, send good, write good, read-request good, read-response good, send-se good";

#[test]
fn order_repetition_overlap_and_wrap_do_not_matter() {
    let octets = fpdus().concat();
    // The first FPDU octet is 21 behind the SYN: the last cases wrap within startup, between and within FPDUs.
    for first in [0, u32::MAX - 10, u32::MAX - 20, u32::MAX - 40, u32::MAX - 52, u32::MAX - 100] {
        let mut trace = Trace::with_startup([first, first], [CRC, CRC]);
        let begin = trace.sequence[0];
        let len = u32::try_from(octets.len()).unwrap();
        for (from, to) in [(50, 90), (0, 20), (90, len), (0, 30), (10, 60), (0, 20), (85, 120), (0, len)] {
            let part = &octets[from as usize..to as usize];
            trace.packet(0, begin.wrapping_add(from), ACK, part);
        }
        let decoded = trace.decode();
        assert_eq!(decoded.story(), WHOLE, "first sequence number {first:#x}");
        let frames: Vec<_> = decoded.records.iter().map(|record| record.stamp.number).collect();
        assert!(frames.is_sorted(), "{frames:?}");
    }
}

#[test]
fn every_octet_twice_and_backwards() {
    let octets = fpdus().concat();
    let mut trace = Trace::with_startup([99, 7], [CRC, CRC]);
    let begin = trace.sequence[0];
    for at in (0..octets.len()).rev().chain(0..octets.len()) {
        trace.packet(0, begin + u32::try_from(at).unwrap(), ACK, &octets[at..=at]);
    }
    assert_eq!(trace.decode().story(), WHOLE);
}

#[test]
fn a_keepalive_is_no_data() {
    let mut trace = Trace::with_startup([99, 7], [CRC, CRC]);
    let begin = trace.sequence[0];
    trace.packet(0, begin - 1, ACK, &[0]);
    trace.send(0, &fpdus().concat());
    assert_eq!(trace.decode().story(), WHOLE);
}

#[test]
fn behind_a_lost_segment_reading_goes_on() {
    for (flags, verdict) in [([CRC, 0], "good"), ([0, 0], "off")] {
        let mut trace = Trace::with_startup([99, 7], flags);
        for (number, fpdu) in fpdus().iter().enumerate() {
            if number == 1 || number == 2 {
                trace.lose(0, fpdu.len());
            } else {
                trace.send(0, fpdu);
            }
        }
        let story = format!(
            "Initiator, Responder, send {verdict}, <Gap {{ octets: 80, incomplete: None }}>, \
             read-response {verdict}, send-se {verdict}"
        );
        assert_eq!(trace.decode().story(), story);
    }
}

#[test]
fn the_acknowledgement_tells_that_a_segment_will_not_come() {
    let mut trace = Trace::with_startup([99, 7], [CRC, 0]);
    trace.lose(0, 28);
    trace.send(0, &vector("send5"));
    let before = trace.octets.len();
    for _ in 0..20 {
        trace.send(1, b"");
    }
    trace.send(1, &vector("send5"));
    let decoded = trace.decode();
    assert!(before < trace.octets.len());
    assert_eq!(
        decoded.story(),
        "Initiator, Responder, <Gap { octets: 28, incomplete: None }>, send good, send good",
        "the lost one comes before what was sent after the acknowledgements"
    );
}

#[test]
fn a_gap_within_one_segment_leaves_the_next_one_in_place() {
    // Without CRC nothing could prove the second segment: its place follows from the length field before the gap.
    let octets = [vector("send24z"), vector("send-nocrc")].concat();
    let mut trace = Trace::with_startup([99, 7], [0, 0]);
    trace.send(0, &octets[..20]);
    trace.lose(0, 16);
    trace.send(0, &octets[36..]);
    assert_eq!(
        trace.decode().story(),
        "Initiator, Responder, <Gap { octets: 16, incomplete: Some(42) }>, send off"
    );
}

#[test]
fn with_markers_the_place_is_found_again_too() {
    let octets = vector("m-fig6");
    let mut trace = Trace::with_startup([99, 7], [CRC, MARKERS]);
    trace.lose(0, 300);
    trace.send(0, &octets[300..]);
    assert_eq!(
        trace.decode().story(),
        "Initiator, Responder, <Gap { octets: 300, incomplete: None }>, <Resumed { skipped: 192 }>, send good"
    );
    let octets = vector("m-between");
    let mut trace = Trace::with_startup([99, 7], [CRC, MARKERS]);
    trace.send(0, &octets[..300]);
    trace.lose(0, 100);
    trace.send(0, &octets[400..]);
    assert_eq!(
        trace.decode().story(),
        "Initiator, Responder, <Gap { octets: 100, incomplete: Some(502) }>, send good"
    );
}

#[test]
fn octets_without_sense_behind_a_gap_are_counted() {
    let mut trace = Trace::with_startup([99, 7], [CRC, 0]);
    trace.lose(0, 4);
    trace.send(0, &[0xa5; 400]);
    assert_eq!(
        trace.decode().notes(),
        [Note::Gap { octets: 4, incomplete: None }, Note::Unread { octets: 400 }]
    );
}

#[test]
fn a_capture_that_begins_in_the_middle_says_so() {
    let mut trace = Trace::from_the_middle([5000, 6000]);
    trace.send(0, &fpdus().concat()[5..]);
    trace.send(1, &vector("rrsp"));
    assert_eq!(
        trace.decode().story(),
        "<StartMissing>, <Resumed { skipped: 27 }>, write good, read-request good, read-response good, send-se good, \
         <StartMissing>, read-response good"
    );
    // Without CRC nothing proves FPDUs, and the connection counts among the others.
    let mut trace = Trace::from_the_middle([5000, 6000]);
    trace.send(0, &vector("send-nocrc").repeat(3));
    let decoded = trace.decode();
    assert_eq!((decoded.story().as_str(), decoded.summary.other, decoded.summary.from_middle), ("", 1, 1));
}

#[test]
fn a_startup_frame_is_enough_if_the_other_is_lost() {
    let mut trace = Trace::with_handshake([99, 7]);
    trace.lose(0, 20);
    trace.send(1, &vector("mpa-rep1"));
    trace.send(0, &fpdus().concat());
    trace.send(1, &vector("send5"));
    let decoded = trace.decode();
    assert!(decoded.notes().contains(&Note::HalfStart), "{}", decoded.story());
    assert_eq!(decoded.objects().len(), 7, "{}", decoded.story());
}

#[test]
fn a_damaged_tcp_segment_yields_to_its_repetition() {
    let fpdu = vector("send5");
    let mut trace = Trace::with_startup([99, 7], [CRC, 0]);
    trace.send(0, &fpdu);
    let at = trace.octets.len() - 6;
    trace.octets[at] ^= 0xff;
    let mut repeated = Trace::with_startup([99, 7], [CRC, 0]);
    repeated.octets.clone_from(&trace.octets);
    repeated.send(0, &fpdu);
    let decoded = repeated.decode();
    assert_eq!(decoded.story(), "Initiator, Responder, send good");
    assert_eq!(decoded.summary.bad_checksums, 1);
    // Without a repetition it is shown, with the verdict on its MPA CRC.
    assert_eq!(trace.decode().story(), "Initiator, Responder, send bad");
}

#[test]
fn a_cut_packet_leaves_a_gap() {
    let mut trace = Trace::with_startup([99, 7], [CRC, 0]);
    let begin = trace.octets.len();
    trace.send(0, &vector("send24z"));
    // The capture kept 30 of the 48 octets.
    trace.octets.truncate(trace.octets.len() - 18);
    let kept = u32::try_from(trace.octets.len() - begin - 16).unwrap();
    trace.octets[begin + 8..begin + 12].copy_from_slice(&kept.to_le_bytes());
    trace.send(0, &vector("send5"));
    let decoded = trace.decode();
    assert_eq!(
        decoded.story(),
        "Initiator, Responder, <Gap { octets: 18, incomplete: Some(42) }>, send good"
    );
    assert_eq!(decoded.summary.cut, 1);
}
